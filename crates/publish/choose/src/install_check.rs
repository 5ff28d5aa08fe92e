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
use rocwheel_index::requirement::{InstallTarget, Requirement};
use rocwheel_index::tags;
use rocwheel_progress::{Failure, Reporter, Unit, shell_word};
use rocwheel_tables::TargetTable;
use rocwheel_wheel::{Platform, PythonVersion, canonical_name};
use serde::Serialize;

use crate::answer::ChoiceVerdict;
use crate::evidence::{Pages, is_of_set, served_by, target_of};
use crate::overlay::{LocalFile, write_overlay};
use crate::public_names::{NameState, PublicName, find_public_names};
use crate::question::{Question, parsed};
use crate::resolver::{Outcome, Resolvers};
use crate::search::{Looking, member, search};
use crate::set::{ChosenPackage, PackageOrigin, Set};
use crate::system::{System, systems};

/// The minor versions of Python 3 that a wheel without a tag for some is asked about.
const PYTHONS: std::ops::RangeInclusive<u16> = 10..=14;
/// How many packages a sentence names.
const MOST: usize = 3;

/// What is asked.
pub struct InstallCheck<'a> {
    /// Wheels and source distributions that are installed together.
    pub files: &'a [PathBuf],
    /// The indexes that users name, and after them the public one; addresses as installers take
    /// them.
    pub sites: Vec<IndexSite>,
    pub addresses: Vec<String>,
    pub has_public: bool,
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
#[derive(Debug, Clone, Serialize)]
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
    pub brings: Vec<BroughtPackage>,
    pub resolved_by: Vec<&'static str>,
    /// The loader's verdict, which the caller adds; `None` if it was not looked at.
    pub loads: Option<bool>,
}

#[derive(Debug, Clone, Serialize)]
pub struct BroughtPackage {
    pub name: String,
    pub version: String,
    pub file: String,
    /// `true` for one of the public index.
    pub is_public: bool,
}

impl InstallCell {
    /// The verdict in a sentence, without a full stop.
    pub fn sentence(&self) -> String {
        let gpu = self.gpu.as_ref().map(|gpu| format!(", {gpu}")).unwrap_or_default();
        let place = format!("on {}, Python {}{gpu}, `{}`", self.system, self.python, self.command);
        let reason = self.reason.as_deref().unwrap_or_default();
        let own = format!("{} {}", self.package, self.version);
        match self.answer {
            ChoiceVerdict::No => format!("{place} does not bring {own}: {reason}"),
            ChoiceVerdict::CannotTell => format!("{place}: cannot tell whether it brings {own}: {reason}"),
            ChoiceVerdict::Yes => {
                let others = self.brings.iter().filter(|one| one.name != self.package);
                let mut named = vec![own];
                named.extend(others.clone().take(MOST).map(|one| format!("{} {}", one.name, one.version)));
                let more = others.count().saturating_sub(MOST);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let loads = match self.loads {
                    Some(true) => "and it loads",
                    Some(false) => "and the audit finds errors in it",
                    None => "whether it loads was not looked at",
                };
                format!("{place} brings {}{more}, {loads}", named.join(", "))
            }
        }
    }
}

impl InstallReport {
    /// What users of both indexes could get in place of the files, or anybody could register: the
    /// name, the file, and a sentence.
    pub fn warnings(&self) -> Vec<(&str, &str, String)> {
        let text = |one: &PublicName| match &one.state {
            NameState::Free => Some("is free on the public index, so anybody can register it".to_owned()),
            NameState::Unknown { reason } => Some(format!("may be on the public index, which is not known: {reason}")),
            NameState::Registered { against_pins, higher } => {
                let file = against_pins.iter().chain(higher).next()?;
                Some(format!("is on the public index too, whose `{file}` pip may take"))
            }
        };
        let named = self.names.iter().filter_map(|one| {
            let file = self.files.get(&one.name).map_or("", String::as_str);
            Some((one.name.as_str(), file, format!("`{}` {}", one.name, text(one)?)))
        });
        named.collect()
    }

    /// `true` if each cell is a yes or a no.
    pub fn is_certain(&self) -> bool {
        !self.cells.is_empty() && self.cells.iter().all(|cell| cell.answer != ChoiceVerdict::CannotTell)
    }

    /// The sentences of the cells with this answer.
    pub fn sentences(&self, answer: ChoiceVerdict) -> Vec<String> {
        self.cells.iter().filter(|cell| cell.answer == answer).map(InstallCell::sentence).collect()
    }
}

/// What an installer makes of a cell.
enum Judged {
    Yes(Box<Set>, String),
    No(String, String),
}

struct Check<'a> {
    given: &'a InstallCheck<'a>,
    files: Vec<LocalFile>,
    sites: Vec<IndexSite>,
    addresses: Vec<String>,
    resolvers: &'a Resolvers,
    progress: &'a Arc<dyn Reporter>,
}

/// Asks pip and uv for every cell.
///
/// # Errors
/// Neither is there, a file that is no distribution, an address that is no index.
pub fn check_installation(
    given: InstallCheck<'_>,
    resolvers: &Resolvers,
    progress: &Arc<dyn Reporter>,
) -> Result<InstallReport, Failure> {
    resolvers.check()?;
    for site in &given.sites {
        site.check_root(&**progress)?;
    }
    let files = given.files.iter().map(|path| LocalFile::read(path, &**progress)).collect::<Result<Vec<_>, _>>()?;
    let own = given.sites.len() - usize::from(given.has_public);
    let overlay = write_overlay(&files, &given.sites[..own], given.scratch, &**progress)?;
    let addresses = std::iter::once(overlay.root.to_string()).chain(given.addresses.iter().cloned()).collect();
    let copies = given.sites.iter().map(|site| IndexSite { root: site.root.clone(), fetch: Arc::clone(&site.fetch) });
    let sites = std::iter::once(overlay).chain(copies).collect();
    let check = Check { given: &given, files, sites, addresses, resolvers, progress };
    check.report()
}

/// A package that is asked for, and where.
struct Asked<'a> {
    root: &'a LocalFile,
    gpu: Option<String>,
    python: PythonVersion,
    system: System,
}

impl Check<'_> {
    fn report(&self) -> Result<InstallReport, Failure> {
        let mut left_out = vec![
            "the code in packages for a GPU, which count by their names: `rocwheel choose` looks into them".to_owned(),
            "extras that are for no GPU, free-threaded Pythons, musl, macOS, and other processors than x86-64"
                .to_owned(),
        ];
        let asked = self.grid(&mut left_out);
        let stage = self.progress.stage("Resolving", Some(asked.len() as u64), Unit::Items);
        let cells = asked.par_iter().map(|one| {
            let cell = self.cell(one);
            self.progress.advance(1);
            cell
        });
        let cells = cells.collect::<Result<Vec<_>, _>>()?;
        drop(stage);
        let brought: BTreeSet<&str> = cells.iter().flat_map(|cell| &cell.brings).map(|one| one.file.as_str()).collect();
        let is_seen = |file: &&LocalFile| brought.contains(file.file.as_str());
        let unseen: BTreeSet<&str> =
            self.files.iter().filter(|file| !is_seen(file)).map(|file| file.file.as_str()).collect();
        if !unseen.is_empty() && cells.iter().all(|cell| cell.answer == ChoiceVerdict::Yes) {
            let unseen = rocwheel_progress::few_in_backticks(unseen, MOST);
            left_out.push(format!("{unseen}: none of the questions brings it"));
        }
        let names = self.names()?;
        let files = self.files.iter().map(|file| (file.name.clone(), file.file.clone())).collect();
        Ok(InstallReport { cells, names, left_out, files })
    }

    /// The names of the files on the public index.
    fn names(&self) -> Result<Vec<PublicName>, Failure> {
        let public = self.sites.last().filter(|_| self.given.has_public);
        let Some(public) = public else { return Ok(Vec::new()) };
        let mut files: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
        for file in &self.files {
            let version = file.version.to_string();
            files.entry(file.name.clone()).or_insert((version, Vec::new())).1.push(file.file.clone());
        }
        find_public_names(&files, public, &**self.progress)
    }

    /// The packages that no other requires, for each GPU that they promise, with the oldest and the
    /// newest Python and system.
    fn grid(&self, left_out: &mut Vec<String>) -> Vec<Asked<'_>> {
        let mut required: BTreeSet<String> = BTreeSet::new();
        for file in &self.files {
            let all = requirements(file).map(|requirement| requirement.name);
            required.extend(all.filter(|name| *name != file.name));
        }
        let mut roots: Vec<&LocalFile> = self.files.iter().filter(|file| !required.contains(&file.name)).collect();
        if roots.is_empty() {
            roots = self.files.iter().collect();
        }
        let mut versions: BTreeMap<(&str, String), Vec<&LocalFile>> = BTreeMap::new();
        for root in roots {
            versions.entry((&root.name, root.version.to_string())).or_default().push(root);
        }
        let mut asked = Vec::new();
        for files in versions.values() {
            let places = self.places(files, left_out);
            let mut gpus: Vec<Option<String>> = self.gpus(files[0]).into_iter().map(Some).collect();
            if gpus.is_empty() {
                left_out.push(format!("GPUs of `{}`: its METADATA names none", files[0].name));
                gpus.push(None);
            }
            for gpu in gpus {
                let cells = places.iter().map(|(python, system)| (*python, system.clone()));
                asked.extend(cells.map(|(python, system)| Asked { root: files[0], gpu: gpu.clone(), python, system }));
            }
        }
        asked
    }

    /// The Pythons and systems of a package: the oldest and the newest of each.
    fn places(&self, files: &[&LocalFile], left_out: &mut Vec<String>) -> Vec<(PythonVersion, System)> {
        let own = compiled(files.iter().copied());
        let mut minors = if own.is_empty() { compiled(&self.files) } else { own };
        if minors.is_empty() || files.iter().any(|file| is_stable(file)) {
            minors.extend(PYTHONS);
        }
        let pythons = minors.into_iter().map(|minor| PythonVersion { major: 3, minor, free_threaded: false });
        let pythons: Vec<PythonVersion> = self.given.python.map_or_else(|| pythons.collect(), |python| vec![python]);
        let all = self.given.glibc.map_or_else(systems, |glibc| vec![System::of_glibc(glibc)]);
        let has_windows =
            files.iter().all(|file| is_for_any(file)) && self.files.iter().any(|file| is_for(file, Platform::Windows));
        let mut places = Vec::new();
        for (platform, systems) in [(Platform::Linux, all), (Platform::Windows, vec![System::windows()])] {
            if platform == Platform::Windows && files.iter().all(|file| is_for_any(file)) && !has_windows {
                continue;
            }
            let fit = |python: PythonVersion, system: &System| {
                let target = InstallTarget { python, platform, glibc: system.glibc };
                files.iter().any(|file| fits(file, &target))
            };
            let systems: Vec<System> =
                systems.into_iter().filter(|system| pythons.iter().any(|python| fit(*python, system))).collect();
            let pythons: Vec<PythonVersion> =
                pythons.iter().copied().filter(|python| systems.iter().any(|system| fit(*python, system))).collect();
            say_between(&files[0].name, "Pythons", pythons.iter().map(ToString::to_string), left_out);
            say_between(&files[0].name, "systems", systems.iter().map(|system| system.name.clone()), left_out);
            for system in ends(&systems) {
                let fitting = ends(&pythons).into_iter().filter(|python| fit(*python, &system));
                places.extend(fitting.map(|python| (python, system.clone())).collect::<Vec<_>>());
            }
        }
        if places.is_empty() {
            left_out
                .push(format!("`{}`: it is for none of the Pythons and systems that are asked about", files[0].file));
        }
        places
    }

    /// A GPU for each target that a package promises: by its name, its extras and its requirements,
    /// or else by the packages beside it.
    fn gpus(&self, root: &LocalFile) -> Vec<String> {
        let mut promised: BTreeSet<String> = target_of(&root.name).map(str::to_owned).into_iter().collect();
        promised.extend(root.headers.all("Provides-Extra").iter().filter_map(|extra| device(extra)));
        for requirement in requirements(root) {
            promised.extend(target_of(&requirement.name).map(str::to_owned));
            promised.extend(requirement.extras.iter().filter_map(|extra| device(extra)));
        }
        promised.remove("all");
        if promised.is_empty() {
            promised.extend(self.files.iter().filter_map(|file| target_of(&file.name)).map(str::to_owned));
        }
        let table = TargetTable::embedded();
        let known: Vec<&str> = table.targets().iter().map(|target| target.name.as_str()).collect();
        let serves = |promise: &String| {
            let own = known.iter().find(|target| *target == promise);
            own.or_else(|| known.iter().find(|target| served_by(target).contains(promise))).map(|gpu| (*gpu).to_owned())
        };
        let mut gpus: Vec<String> = promised.iter().filter_map(serves).collect();
        gpus.sort();
        gpus.dedup();
        gpus
    }

    fn cell(&self, asked: &Asked<'_>) -> Result<InstallCell, Failure> {
        let Asked { root, gpu, python, system } = asked;
        let platform = if system.glibc.is_some() { Platform::Linux } else { Platform::Windows };
        let question = Question {
            packages: Vec::new(),
            constraints: Vec::new(),
            rocm: None,
            sites: &self.sites,
            addresses: &self.addresses,
            has_public: self.given.has_public,
            gpus: gpu.iter().cloned().collect(),
            target: InstallTarget { python: *python, platform, glibc: system.glibc },
            pre_releases: false,
        };
        let mut cell = InstallCell {
            package: root.name.clone(),
            version: root.version.to_string(),
            file: root.file.clone(),
            gpu: gpu.clone(),
            python: python.to_string(),
            system: system.name.clone(),
            answer: ChoiceVerdict::CannotTell,
            command: format!("pip install {}", root.name),
            reason: None,
            to_decide: None,
            brings: Vec::new(),
            resolved_by: Vec::new(),
            loads: None,
        };
        if let Err(failure) = self.fill(&mut cell, root, &question) {
            // What the user stopped is no answer.
            self.progress.check()?;
            let causes: Vec<String> = failure.chain().map(ToString::to_string).collect();
            cell.answer = ChoiceVerdict::CannotTell;
            cell.reason = Some(causes.join(": "));
            cell.to_decide = failure.hint().map(str::to_owned);
        }
        Ok(cell)
    }

    /// Asks uv, and then pip.
    fn fill(&self, cell: &mut InstallCell, root: &LocalFile, question: &Question<'_>) -> Result<(), Failure> {
        let mut pages = Pages::new(&self.sites, question.own(), Arc::clone(self.progress));
        let by_uv = match &self.resolvers.uv {
            Some(uv) => {
                let alone = Resolvers { uv: Some(uv.clone()), ..Resolvers::default() };
                match self.judge(root, question, &alone, &mut pages)? {
                    Judged::Yes(set, command) => {
                        self.note(cell, &set, command, "uv");
                        Some(set)
                    }
                    Judged::No(reason, command) => return refuse(cell, reason, command),
                }
            }
            None => None,
        };
        let Some(pip) = &self.resolvers.pip else { return Ok(()) };
        let alone = Resolvers { pip: Some(pip.clone()), ..Resolvers::default() };
        let is_source = |member: &&ChosenPackage| !member.file.ends_with(".whl");
        let source = by_uv.as_ref().and_then(|set| set.members.iter().find(is_source));
        if let (Some(set), Some(source)) = (&by_uv, source) {
            // pip builds source distributions only for its own Python.
            let command = cell.command.clone();
            if let Some(reason) = self.pinned_by_pip(set, question, &alone, &mut pages)? {
                return refuse(cell, reason, command);
            }
            let text = format!("pip was asked for the wheels alone: `{}` is a source distribution", source.file);
            cell.to_decide = Some(text);
            return Ok(());
        }
        if by_uv.is_none() && root.wheel.is_none() {
            let reason = format!("pip builds `{}`, a source distribution, only for its own Python", root.file);
            return Err(Failure::message(reason).with_hint("install uv: `pip install uv`"));
        }
        match self.judge(root, question, &alone, &mut pages)? {
            Judged::No(reason, command) => return refuse(cell, reason, command),
            Judged::Yes(set, command) => {
                if let Some(reason) = by_uv.as_ref().and_then(|first| displaced(first, &set.members)) {
                    return refuse(cell, reason, command);
                }
                self.note(cell, &set, command, "pip");
            }
        }
        Ok(())
    }

    fn note(&self, cell: &mut InstallCell, set: &Set, command: String, by: &'static str) {
        cell.answer = ChoiceVerdict::Yes;
        cell.command = command;
        cell.resolved_by.push(by);
        cell.brings = set.members.iter().map(brought).collect();
    }

    /// What an installer does without a version, and if the indexes have a newer one, with it.
    fn judge(
        &self,
        root: &LocalFile,
        question: &Question<'_>,
        resolvers: &Resolvers,
        pages: &mut Pages<'_>,
    ) -> Result<Judged, Failure> {
        let start = if resolvers.uv.is_some() { "uv pip install" } else { "pip install" };
        let pinned = format!("{}=={}", root.name, root.version);
        for text in [root.name.clone(), pinned.clone()] {
            let asked = question.with(|one| one.packages = vec![text.clone()]);
            let set = match search(&asked, resolvers, pages, Looking::AtNames, &**self.progress)? {
                Ok(set) => set,
                Err(refusal) => {
                    let command = command(start, &refusal.asked, false);
                    return Ok(Judged::No(refusal.reason, command));
                }
            };
            let command = command(start, &set.asked, set.pre_releases);
            let chosen = set.members.iter().find(|member| member.name == root.name);
            let Some(chosen) = chosen else {
                return Ok(Judged::No("it is not among what is installed".to_owned(), command));
            };
            let stranger = set.members.iter().find(|member| self.is_stranger(member));
            if let Some(stranger) = stranger.filter(|one| one.name != root.name || one.origin == PackageOrigin::Public)
            {
                let from = if stranger.origin == PackageOrigin::Public { "the public index" } else { "the index" };
                return Ok(Judged::No(format!("`{}` of {from} wins", stranger.file), command));
            }
            let is_own = self.files.iter().any(|file| file.file == chosen.file);
            match set.barred.first() {
                None if is_own => return Ok(Judged::Yes(Box::new(set), command)),
                _ if text != pinned => {}
                Some(barred) => return Ok(Judged::No(barred.reason.clone(), command)),
                None => return Ok(Judged::No(format!("`{}` of the index wins", chosen.file), command)),
            }
        }
        unreachable!("the second question is answered")
    }

    /// `true` for another file of a name of the set.
    fn is_stranger(&self, member: &ChosenPackage) -> bool {
        let mut own = self.files.iter().filter(|file| file.name == member.name).peekable();
        own.peek().is_some() && own.all(|file| file.file != member.file)
    }

    /// Lets pip choose among the files of the versions of a set, for the wheels in it. The answer is
    /// what is wrong.
    fn pinned_by_pip(
        &self,
        set: &Set,
        question: &Question<'_>,
        resolvers: &Resolvers,
        pages: &mut Pages<'_>,
    ) -> Result<Option<String>, Failure> {
        let Some(pip) = &resolvers.pip else { return Ok(None) };
        let mut words = vec!["--no-deps".to_owned(), "--pre".to_owned()];
        for (number, index) in self.addresses.iter().enumerate() {
            words.extend([if number == 0 { "--index-url" } else { "--extra-index-url" }.to_owned(), index.clone()]);
        }
        let wheels = set.members.iter().filter(|member| member.file.ends_with(".whl"));
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

fn refuse(cell: &mut InstallCell, reason: String, command: String) -> Result<(), Failure> {
    (cell.answer, cell.reason, cell.command) = (ChoiceVerdict::No, Some(reason), command);
    cell.brings.clear();
    Ok(())
}

fn brought(member: &ChosenPackage) -> BroughtPackage {
    BroughtPackage {
        name: member.name.clone(),
        version: member.version.clone(),
        file: member.file.clone(),
        is_public: member.origin == PackageOrigin::Public,
    }
}

fn command(start: &str, requirements: &[String], pre_releases: bool) -> String {
    let pre = pre_releases.then(|| if start.starts_with("uv") { "--prerelease=allow" } else { "--pre" });
    let words = pre.map(str::to_owned).into_iter().chain(requirements.iter().map(|word| shell_word(word).to_string()));
    format!("{start} {}", words.collect::<Vec<_>>().join(" "))
}

fn requirements(file: &LocalFile) -> impl Iterator<Item = Requirement> {
    file.headers.all("Requires-Dist").into_iter().filter_map(|text| parsed(&text).ok())
}

/// `gfx942` of the extra `device-gfx942`.
fn device(extra: &str) -> Option<String> {
    canonical_name(extra).strip_prefix("device-").map(str::to_owned)
}

/// The minor versions of Python that wheels are compiled for.
fn compiled<'f>(files: impl IntoIterator<Item = &'f LocalFile>) -> BTreeSet<u16> {
    let wheels = files.into_iter().filter(|file| !is_stable(file)).filter_map(|file| file.wheel.as_ref());
    wheels.flat_map(|wheel| &wheel.pythons).filter_map(|tag| tag.strip_prefix("cp3")?.parse().ok()).collect()
}

fn is_stable(file: &LocalFile) -> bool {
    file.wheel.as_ref().is_some_and(|wheel| wheel.abis.iter().any(|abi| abi == "abi3"))
}

fn is_for_any(file: &LocalFile) -> bool {
    file.wheel.as_ref().is_none_or(|wheel| wheel.platforms.iter().any(|tag| tag == "any"))
}

fn is_for(file: &LocalFile, platform: Platform) -> bool {
    file.wheel.as_ref().is_some_and(|wheel| platform.is_all_of(&wheel.platforms))
}

fn fits(file: &LocalFile, target: &InstallTarget) -> bool {
    let python = file.headers.get("Requires-Python").and_then(|text| text.parse::<pep440_rs::VersionSpecifiers>().ok());
    python.is_none_or(|python| python.contains(&target.full_version()))
        && file.wheel.as_ref().is_none_or(|wheel| tags::rank(target, wheel).is_some())
}

/// The first and the last.
fn ends<T: Clone>(all: &[T]) -> Vec<T> {
    match all {
        [first, .., last] => vec![first.clone(), last.clone()],
        few => few.to_vec(),
    }
}

fn say_between(name: &str, what: &str, all: impl Iterator<Item = String>, left_out: &mut Vec<String>) {
    let all: Vec<String> = all.collect();
    if let [_, between @ .., _] = &all[..]
        && !between.is_empty()
    {
        left_out.push(format!("{what} of `{name}` between the oldest and the newest: {}", between.join(", ")));
    }
}
