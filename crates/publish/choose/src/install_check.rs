//! Input: wheels and source distributions, as built, and the indexes that people install from.
//! Output: for each promised GPU, Python and system whether pip and uv bring these files.
//!
//! Users of pip name the public index beside their own, and for pip all indexes are equal; uv takes
//! a name from the first index that has it. Both are asked, first as people type it, without a
//! version. Wheels are not looked into.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use rocwheel_delta::IndexSite;
use rocwheel_progress::{Failure, Reporter, Unit, few_in_backticks, shell_word};
use rocwheel_wheel::{PythonVersion, WheelName, canonical_name};
use serde::Serialize;

use crate::answer::ChoiceVerdict;
use crate::evidence::{Pages, is_of_set};
use crate::overlay::{LocalFile, write_overlay};
use crate::promises::{Promise, promises};
use crate::public_names::{NameState, PublicName, find_public_names};
use crate::question::Question;
use crate::resolver::{Outcome, Resolvers};
use crate::search::{Looking, member, search};
use crate::set::{ChosenPackage, PackageOrigin, Set};
use crate::system::{System, systems};

/// What no question is about.
const LEFT_OUT: [&str; 3] = [
    "Pythons and systems between the oldest and the newest",
    "the code in packages for a GPU, which count by their names: `rocwheel choose` looks into them",
    "extras that are for no GPU, free-threaded Pythons, musl, macOS, and other processors than x86-64",
];
/// How many packages a sentence names.
const MOST: usize = 3;

/// What is asked.
pub struct InstallCheck<'a> {
    /// Wheels and source distributions that are installed together.
    pub files: &'a [PathBuf],
    /// The SHA-256 of files for which it is known, in hexadecimal.
    pub hashes: BTreeMap<&'a Path, String>,
    /// The indexes that users name, and after them the public one; addresses as installers take
    /// them.
    pub sites: Vec<IndexSite>,
    pub addresses: Vec<String>,
    pub has_public: bool,
    /// The answer of the public index about these and other names, if it was asked before.
    pub names: Option<Vec<PublicName>>,
    /// The Python and the glibc; `None` for those that the tags promise.
    pub python: Option<PythonVersion>,
    pub glibc: Option<(u16, u16)>,
    /// An empty folder.
    pub scratch: &'a Path,
}

/// The cells, and what they do not say.
#[derive(Debug, Clone, Serialize)]
pub struct InstallReport {
    pub cells: Vec<InstallCell>,
    /// What the public index has of the names of the files.
    pub names: Vec<PublicName>,
    pub left_out: Vec<String>,
    /// A file of each name.
    #[serde(skip)]
    files: BTreeMap<String, String>,
}

/// A package for a GPU, a Python and a system.
#[derive(Debug, Clone, Default, Serialize)]
pub struct InstallCell {
    pub package: String,
    pub version: String,
    /// The file that the cell is about; of several for one version, the first.
    pub file: String,
    pub gpu: Option<String>,
    pub python: String,
    pub system: String,
    pub answer: ChoiceVerdict,
    /// The command, or the first that does not bring the files.
    pub command: String,
    /// Why not, or why it cannot be told.
    pub reason: Option<String>,
    /// What would decide it.
    pub to_decide: Option<String>,
    /// Those of [`PackageOrigin::Set`] 0 are the files.
    pub brings: Vec<ChosenPackage>,
    pub resolved_by: Vec<&'static str>,
    /// The loader's verdict, which the caller adds; `None` if it was not looked at.
    pub loads: Option<bool>,
}

impl InstallCell {
    /// What a sentence says beside the place.
    fn rest(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or_default();
        let (command, own) = (&self.command, format!("{} {}", self.package, self.version));
        match self.answer {
            ChoiceVerdict::No => format!("`{command}` does not bring {own}: {reason}"),
            ChoiceVerdict::CannotTell => format!("it is not known whether `{command}` brings {own}: {reason}"),
            ChoiceVerdict::Yes => {
                let others = self.brings.iter().filter(|one| one.name != self.package);
                let mut named = vec![own];
                named.extend(others.clone().take(MOST).map(|one| format!("{} {}", one.name, one.version)));
                let more = others.count().saturating_sub(MOST);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let loads = match self.loads {
                    Some(true) => ", and it loads",
                    Some(false) => ", and the audit finds errors in it",
                    None => "; whether it loads was not looked at",
                };
                format!("`{command}` brings {}{more}{loads}", named.join(", "))
            }
        }
    }
}

/// Cells of which the same can be said.
pub struct InstallSentence<'a> {
    /// The first of them.
    pub cell: &'a InstallCell,
    /// Without a full stop: `on Debian 12, Python 3.12, gfx1100, `pip install X` brings …`.
    pub text: String,
}

/// The places of cells; `None` if it is not each GPU with each Python on each system.
fn places(cells: &[&InstallCell]) -> Option<String> {
    let systems = each(cells.iter().map(|cell| cell.system.as_str()));
    let pythons = each(cells.iter().map(|cell| cell.python.as_str()));
    let gpus = each(cells.iter().filter_map(|cell| cell.gpu.as_deref()));
    let text = format!("on {}, Python {}", systems.join(" and "), pythons.join(" and "));
    let text = if gpus.is_empty() { text } else { format!("{text}, {}", gpus.join(" and ")) };
    (systems.len() * pythons.len() * gpus.len().max(1) == cells.len()).then_some(text)
}

fn each<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let mut found: Vec<&str> = Vec::new();
    for text in texts {
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

impl InstallReport {
    /// What users of both indexes could get in place of the files, or anybody could register: the
    /// name, the file, and a sentence.
    pub fn warnings(&self) -> Vec<(&str, &str, String)> {
        let mut found = Vec::new();
        for PublicName { name, state, .. } in &self.names {
            let text = match state {
                NameState::Free => "is free on the public index, so anybody can register it".to_owned(),
                NameState::Unknown { reason } => format!("may be on the public index, which is not known: {reason}"),
                NameState::Registered { against_pins, higher } => match against_pins.iter().chain(higher).next() {
                    Some(file) => format!("is on the public index too, whose `{file}` pip may take"),
                    None => continue,
                },
            };
            let file = self.files.get(name).map_or("", String::as_str);
            found.push((name.as_str(), file, format!("`{name}` {text}")));
        }
        found
    }

    /// `true` if each cell is a yes or a no.
    pub fn is_certain(&self) -> bool {
        !self.cells.is_empty() && self.cells.iter().all(|cell| cell.answer != ChoiceVerdict::CannotTell)
    }

    /// The verdict of each cell in a sentence, or of several.
    pub fn sentences(&self) -> Vec<InstallSentence<'_>> {
        let mut groups: Vec<(String, Vec<&InstallCell>)> = Vec::new();
        for cell in &self.cells {
            let rest = cell.rest();
            match groups.iter_mut().find(|(other, _)| *other == rest) {
                Some((_, cells)) => cells.push(cell),
                None => groups.push((rest, vec![cell])),
            }
        }
        let mut sentences = Vec::new();
        for (rest, cells) in groups {
            let parts: Vec<&[&InstallCell]> =
                if places(&cells).is_some() { vec![&cells] } else { cells.chunks(1).collect() };
            for part in parts {
                let text = format!("{}, {rest}", places(part).unwrap_or_default());
                sentences.push(InstallSentence { cell: part[0], text });
            }
        }
        sentences
    }
}

/// What an installer would bring, or why it does not; and its command.
type Judged = Result<(Box<Set>, String), (String, String)>;

struct Check<'a> {
    /// With the index that has the files in front of the others.
    given: InstallCheck<'a>,
    files: Vec<LocalFile>,
    resolvers: &'a Resolvers,
    progress: &'a Arc<dyn Reporter>,
}

/// Asks pip and uv for every cell.
///
/// # Errors
/// Neither is there, a file that is no distribution, an address that is no index.
pub fn check_installation(
    mut given: InstallCheck<'_>,
    resolvers: &Resolvers,
    progress: &Arc<dyn Reporter>,
) -> Result<InstallReport, Failure> {
    resolvers.check()?;
    let own = &given.sites[..given.sites.len() - usize::from(given.has_public)];
    own.iter().try_for_each(|site| site.check_root(&**progress))?;
    let files = given.files.iter().map(|path| {
        let hash = given.hashes.get(path.as_path()).cloned();
        LocalFile::read(path, hash, &**progress)
    });
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let overlay = write_overlay(&files, own, given.scratch, &**progress)?;
    given.addresses.insert(0, overlay.root.to_string());
    given.sites.insert(0, overlay);
    Check { given, files, resolvers, progress }.report()
}

impl Check<'_> {
    fn report(&self) -> Result<InstallReport, Failure> {
        // Reads the public index first, which may be none.
        let names = self.names()?;
        let mut left_out: Vec<String> = LEFT_OUT.map(str::to_owned).to_vec();
        for (name, is_there) in [("uv", self.resolvers.uv.is_some()), ("pip", self.resolvers.pip.is_some())] {
            if !is_there {
                left_out.push(format!("what {name} takes, which is not there"));
            }
        }
        let systems = self.given.glibc.map_or_else(systems, |glibc| vec![System::of_glibc(glibc), System::windows()]);
        let asked = promises(&self.files, self.given.python, &systems, &mut left_out);
        let stage = self.progress.stage("Resolving", Some(asked.len() as u64), Unit::Items);
        let own = self.given.sites.len() - usize::from(self.given.has_public);
        let cells = asked.par_iter().map_init(
            || Pages::new(&self.given.sites, own, Arc::clone(self.progress)),
            |pages, one| {
                let cell = self.cell(one, pages);
                self.progress.advance(1);
                cell
            },
        );
        let cells = cells.collect::<Result<Vec<_>, _>>()?;
        drop(stage);
        let brought: BTreeSet<&str> = cells.iter().flat_map(|cell| &cell.brings).map(|one| one.file.as_str()).collect();
        let files = self.files.iter().map(|file| file.file.as_str());
        let unseen: BTreeSet<&str> = files.filter(|file| !brought.contains(file)).collect();
        if !unseen.is_empty() && cells.iter().all(|cell| cell.answer == ChoiceVerdict::Yes) {
            left_out.push(format!("{}: no question brings it", few_in_backticks(unseen, MOST)));
        }
        let files = self.files.iter().map(|file| (file.name.clone(), file.file.clone())).collect();
        Ok(InstallReport { cells, names, left_out, files })
    }

    /// The names of the files on the public index.
    fn names(&self) -> Result<Vec<PublicName>, Failure> {
        let public = self.given.sites.last().filter(|_| self.given.has_public);
        let Some(public) = public else { return Ok(Vec::new()) };
        if let Some(names) = &self.given.names {
            let own = names.iter().filter(|known| self.files.iter().any(|file| file.name == known.name));
            return Ok(own.cloned().collect());
        }
        let mut files: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
        for file in &self.files {
            let version = file.version.to_string();
            files.entry(file.name.clone()).or_insert((version, Vec::new())).1.push(file.file.clone());
        }
        find_public_names(&files, public, &**self.progress)
    }

    fn cell(&self, asked: &Promise<'_>, pages: &mut Pages<'_>) -> Result<InstallCell, Failure> {
        let root = asked.root;
        let question = Question {
            packages: Vec::new(),
            constraints: Vec::new(),
            rocm: None,
            sites: &self.given.sites,
            addresses: &self.given.addresses,
            has_public: self.given.has_public,
            gpus: asked.gpu.iter().cloned().collect(),
            target: asked.target(),
            pre_releases: false,
        };
        let mut cell = InstallCell {
            package: root.name.clone(),
            version: root.version.to_string(),
            file: root.file.clone(),
            gpu: asked.gpu.clone(),
            python: asked.python.to_string(),
            system: asked.system.name.clone(),
            command: format!("pip install {}", root.name),
            ..InstallCell::default()
        };
        match self.fill(&mut cell, (root, &question), pages) {
            Ok(None) => {}
            Ok(Some((reason, command))) => {
                (cell.answer, cell.reason, cell.command) = (ChoiceVerdict::No, Some(reason), command);
                cell.brings.clear();
            }
            Err(failure) => {
                // What the user stopped is no answer.
                self.progress.check()?;
                let causes: Vec<String> = failure.chain().map(ToString::to_string).collect();
                cell.answer = ChoiceVerdict::CannotTell;
                cell.reason = Some(causes.join(": ").split_whitespace().collect::<Vec<_>>().join(" "));
                cell.to_decide = failure.hint().map(str::to_owned);
            }
        }
        Ok(cell)
    }

    /// Asks uv, and then pip. A refusal comes with the command.
    fn fill(
        &self,
        cell: &mut InstallCell,
        (root, question): (&LocalFile, &Question<'_>),
        pages: &mut Pages<'_>,
    ) -> Result<Option<(String, String)>, Failure> {
        let by_uv = match &self.resolvers.uv {
            Some(uv) => {
                let alone = Resolvers { uv: Some(uv.clone()), ..Resolvers::default() };
                match self.judge(root, (question, None), &alone, pages)? {
                    Ok((set, command)) => {
                        accept(cell, &set, command, "uv");
                        Some(set)
                    }
                    Err(refusal) => return Ok(Some(refusal)),
                }
            }
            None => None,
        };
        let Some(pip) = &self.resolvers.pip else { return Ok(None) };
        let alone = Resolvers { pip: Some(pip.clone()), ..Resolvers::default() };
        let mut members = by_uv.iter().flat_map(|set| &set.members);
        let source = members.find(|member| !WheelName::is_wheel(&member.file));
        if let (Some(set), Some(source)) = (&by_uv, source) {
            // pip builds source distributions only for its own Python.
            if let Some(reason) = self.pinned_by_pip(set, question, &alone, pages)? {
                return Ok(Some((reason, cell.command.clone())));
            }
            let text = format!("pip was asked for the wheels alone: `{}` is a source distribution", source.file);
            cell.to_decide = Some(text);
            return Ok(None);
        }
        if by_uv.is_none() && root.wheel.is_none() {
            return Err(needs_uv(&root.file));
        }
        match self.judge(root, (question, by_uv.as_deref()), &alone, pages)? {
            Err((reason, command)) => {
                let source = if by_uv.is_none() { source_of(&reason, pages)? } else { None };
                return source.map_or_else(|| Ok(Some((reason, command))), |file| Err(needs_uv(&file)));
            }
            Ok((set, command)) => {
                if let Some(reason) = by_uv.as_ref().and_then(|first| displaced(first, &set.members)) {
                    return Ok(Some((reason, command)));
                }
                accept(cell, &set, command, "pip");
            }
        }
        Ok(None)
    }

    /// What an installer does without a version, and if the indexes have a newer one, with it. A
    /// set that another one found has the extras to begin with.
    fn judge(
        &self,
        root: &LocalFile,
        (question, known): (&Question<'_>, Option<&Set>),
        resolvers: &Resolvers,
        pages: &mut Pages<'_>,
    ) -> Result<Judged, Failure> {
        let start = if resolvers.uv.is_some() { "uv pip install" } else { "pip install" };
        let unpinned = known.map_or_else(|| vec![root.name.clone()], |set| set.asked.clone());
        let pinned = vec![format!("{}=={}", root.name, root.version)];
        for packages in [unpinned, pinned.clone()] {
            let asked = question.with(|one| one.packages.clone_from(&packages));
            let set = match search(&asked, resolvers, pages, Looking::AtNames, &**self.progress)? {
                Ok(set) => set,
                Err(refusal) => {
                    let command = command(start, &refusal.asked, false);
                    return Ok(Err((refusal.reason, command)));
                }
            };
            let command = command(start, &set.asked, set.pre_releases);
            let chosen = set.members.iter().find(|member| member.name == root.name);
            let Some(chosen) = chosen else {
                return Ok(Err(("it is not among what is installed".to_owned(), command)));
            };
            let stranger = set.members.iter().find(|member| self.is_stranger(member));
            if let Some(stranger) = stranger.filter(|one| one.name != root.name || one.origin == PackageOrigin::Public)
            {
                let from = if stranger.origin == PackageOrigin::Public { "the public index" } else { "the index" };
                return Ok(Err((format!("`{}` of {from} wins", stranger.file), command)));
            }
            let mut own = self.files.iter().filter(|file| file.name == root.name && file.version == root.version);
            let is_own = own.any(|file| file.file == chosen.file);
            match set.barred.first() {
                None if is_own => return Ok(Ok((Box::new(set), command))),
                _ if packages != pinned => {}
                Some(barred) => return Ok(Err((barred.reason.clone(), command))),
                None => return Ok(Err((format!("`{}` of the index wins", chosen.file), command))),
            }
        }
        unreachable!("the second question is answered")
    }

    /// `true` for another file of a name of the set.
    fn is_stranger(&self, member: &ChosenPackage) -> bool {
        let mut own = self.files.iter().filter(|file| file.name == member.name).peekable();
        own.peek().is_some() && own.all(|file| file.file != member.file)
    }

    /// Lets pip choose among the files of the versions of a set, for the wheels in it. The answer
    /// is what is wrong.
    fn pinned_by_pip(
        &self,
        set: &Set,
        question: &Question<'_>,
        resolvers: &Resolvers,
        pages: &mut Pages<'_>,
    ) -> Result<Option<String>, Failure> {
        let Some(pip) = &resolvers.pip else { return Ok(None) };
        let mut words = vec!["--no-deps".to_owned(), "--pre".to_owned()];
        for (number, index) in self.given.addresses.iter().enumerate() {
            words.extend([if number == 0 { "--index-url" } else { "--extra-index-url" }.to_owned(), index.clone()]);
        }
        let wheels = set.members.iter().filter(|member| WheelName::is_wheel(&member.file));
        words.extend(wheels.map(ChosenPackage::pin));
        Ok(match pip.report(&words, Some(&question.target))? {
            Outcome::Refused(reason) => Some(reason.lines().last().unwrap_or_default().to_owned()),
            Outcome::Found(packages) => {
                let members = packages.into_iter().map(|one| member(one, question, pages));
                let members = members.collect::<Result<Vec<_>, _>>()?;
                let stranger = members.iter().find(|member| self.is_stranger(member));
                stranger
                    .map(|one| format!("pip takes `{}` of the public index", one.file))
                    .or_else(|| displaced(set, &members))
            }
        })
    }
}

/// The first package of ROCm or for a GPU that an installer takes from the public index, although
/// the own ones have it.
fn displaced(first: &Set, members: &[ChosenPackage]) -> Option<String> {
    let own = first.members.iter().filter(|member| member.origin != PackageOrigin::Public && is_of_set(member));
    let mut others = own.filter_map(|own| members.iter().find(|other| other.name == own.name));
    let other = others.find(|other| other.origin == PackageOrigin::Public)?;
    Some(format!("pip takes `{}` of the public index, where uv takes that of the index", other.file))
}

/// The source distribution of the package that pip does not find.
fn source_of(refusal: &str, pages: &mut Pages<'_>) -> Result<Option<String>, Failure> {
    let Some((_, rest)) = refusal.split_once("No matching distribution found for ") else { return Ok(None) };
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter));
    let project = pages.project(&canonical_name(&rest[..end.unwrap_or(rest.len())]))?;
    let links = project.into_iter().flat_map(|(_, links)| links);
    Ok(links.map(|link| &link.file_name).find(|name| !WheelName::is_wheel(name)).cloned())
}

fn needs_uv(file: &str) -> Failure {
    Failure::message(format!("pip builds `{file}`, a source distribution, only for its own Python"))
        .with_hint("install uv, which asks for others: `pip install uv`")
}

fn accept(cell: &mut InstallCell, set: &Set, command: String, by: &'static str) {
    (cell.answer, cell.command) = (ChoiceVerdict::Yes, command);
    cell.resolved_by.push(by);
    cell.brings.clone_from(&set.members);
}

fn command(start: &str, requirements: &[String], pre_releases: bool) -> String {
    let pre = pre_releases.then(|| if start.starts_with("uv") { "--prerelease=allow" } else { "--pre" });
    let words = pre.map(str::to_owned).into_iter().chain(requirements.iter().map(|word| shell_word(word)));
    format!("{start} {}", words.collect::<Vec<_>>().join(" "))
}
