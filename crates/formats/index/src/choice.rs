//! Input: wheels whose requirements are known, and sources. Output: a version of every distribution
//! that they require, directly or through others.
//!
//! A round walks the requirements from the audited wheels on. For each name it chooses a version
//! that meets every requirement found so far, in this round and in the previous one. If all choices
//! meet all requirements at the end of the walk, they are the answer. Otherwise another round
//! starts with the requirements that this one found.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};
use rocwheel_progress::{Failure, Reporter, Unit};
use rocwheel_wheel::{Headers, WheelName};

use crate::error::{self, TooLarge};
use crate::page::{self, PageLink};
use crate::requirement::Requirement;
use crate::store::Store;
use crate::tags::{self, TagRank};
use crate::{Gathered, Known, Request, Source, Unmet, UnmetKind, folder, shown};

/// Number of rounds before the choice fails; real sets take two or three.
const ROUNDS: usize = 32;

#[derive(Debug, Clone)]
struct Candidate {
    name: WheelName,
    version: Version,
    rank: TagRank,
    /// Index of the source in [`Request::sources`](crate::Request::sources).
    source: usize,
    origin: Origin,
}

#[derive(Debug, Clone)]
enum Origin {
    File(PathBuf),
    /// A source distribution in a folder. Only its requirements are read.
    Sdist(PathBuf),
    Remote(Box<PageLink>),
    /// A source distribution of an index. Only its requirements are read.
    RemoteSdist(Box<PageLink>),
}

/// A requirement, and the distribution that has it.
#[derive(Debug, Clone)]
struct Demand {
    requirer: String,
    requirement: Requirement,
}

type Demands = BTreeMap<String, Vec<Demand>>;

/// The files of a project that suit the target, the best first, and the reasons why there may be
/// none.
#[derive(Debug, Clone, Default)]
struct Project {
    candidates: Vec<Candidate>,
    /// Versions of the files that are for another Python or system; `None` if one has no version.
    others: Vec<Option<Version>>,
    /// Answers of indexes that lack the project.
    answers: BTreeSet<String>,
}

/// A choice: its position among the project's candidates.
struct Chosen {
    version: Version,
    candidate: Candidate,
}

struct Round {
    demands: Demands,
    chosen: BTreeMap<String, Chosen>,
    unmet: BTreeSet<Unmet>,
}

pub(crate) struct Chooser<'a> {
    request: &'a Request<'a>,
    audited: BTreeMap<String, Known>,
    store: Option<Store<'a>>,
    folders: Vec<BTreeMap<String, folder::Files>>,
    projects: BTreeMap<String, Project>,
    /// Requirements that were read before, by file name.
    known: BTreeMap<String, Known>,
    reporter: &'a dyn Reporter,
    /// Number of requests for projects that an index had.
    answered: usize,
    /// Number of requests for projects that an index lacked.
    refused: usize,
}

impl<'a> Chooser<'a> {
    pub(crate) fn new(
        request: &'a Request<'a>,
        audited: BTreeMap<String, Known>,
        reporter: &'a dyn Reporter,
    ) -> Result<Self, Failure> {
        let folders = request.sources.iter().map(|source| match source {
            Source::Folder(path) => folder::list(path),
            Source::Index(_) => Ok(BTreeMap::new()),
        });
        let folders = folders.collect::<Result<_, _>>()?;
        let store = request.fetch.map(|fetch| Store { fetch, cache: request.cache, reporter });
        Ok(Self {
            request,
            audited,
            store,
            folders,
            projects: BTreeMap::new(),
            known: BTreeMap::new(),
            reporter,
            answered: 0,
            refused: 0,
        })
    }

    pub(crate) fn run(mut self) -> Result<Gathered, Failure> {
        let mut learned = Demands::new();
        for _ in 0..ROUNDS {
            let round = self.round(&learned)?;
            if round.unsettled().is_none() {
                self.check_indexes()?;
                return self.fetch(round);
            }
            learned = round.demands;
        }
        let last = self.round(&learned)?;
        match last.unsettled() {
            None => self.fetch(last),
            Some(name) => Err(error::no_version(format!(
                "no version of {name} was found that stays right: every choice changes what is required of it"
            ))),
        }
    }

    fn round(&mut self, learned: &Demands) -> Result<Round, Failure> {
        let mut round = Round { demands: Demands::new(), chosen: BTreeMap::new(), unmet: BTreeSet::new() };
        let mut extras: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut open: VecDeque<Known> = self.audited.values().cloned().collect();
        while let Some(known) = open.pop_front() {
            let own = extras.entry(known.name.clone()).or_default().clone();
            let requirer = format!("{} {}", known.name, known.version);
            let is_audited = self.audited.contains_key(&known.name);
            for requirement in &known.requirements {
                if !requirement.applies(self.request.target, &own) {
                    continue;
                }
                let name = requirement.name.clone();
                let demands = round.demands.entry(name.clone()).or_default();
                let is_new = !demands
                    .iter()
                    .any(|demand| demand.requirer == requirer && demand.requirement.text == requirement.text);
                if is_new {
                    demands.push(Demand { requirer: requirer.clone(), requirement: requirement.clone() });
                }
                let asked = extras.entry(name.clone()).or_default();
                let before = asked.len();
                asked.extend(requirement.extras.iter().cloned());
                let has_more = asked.len() > before;
                if let Some(audited) = self.audited.get(&name) {
                    if !requirement.accepts(&audited.version) {
                        round.unmet.insert(Unmet {
                            requirer: requirer.clone(),
                            requirement: requirement.text.clone(),
                            name: name.clone(),
                            reason: format!("the version that is looked at is {}", audited.version),
                            kind: UnmetKind::Open,
                        });
                    }
                    if has_more {
                        open.push_back(audited.clone());
                    }
                } else if let Some(chosen) = round.chosen.get(&name) {
                    if has_more {
                        let candidate = chosen.candidate.clone();
                        open.push_back(self.knowledge(&candidate)?);
                    }
                } else {
                    let all: Vec<Demand> = learned.get(&name).into_iter().flatten().chain(&*demands).cloned().collect();
                    match self.choose(&name, &all)? {
                        Ok(candidate) => {
                            open.push_back(self.knowledge(&candidate)?);
                            round.chosen.insert(name, Chosen { version: candidate.version.clone(), candidate });
                        }
                        Err(reason) => {
                            let kind = if is_audited { self.kind_of(requirement)? } else { UnmetKind::Open };
                            let (requirer, requirement) = (requirer.clone(), requirement.text.clone());
                            round.unmet.insert(Unmet { requirer, requirement, name, reason, kind });
                        }
                    }
                }
            }
        }
        Ok(round)
    }

    /// The best candidate that meets all demands, or the reason why there is none.
    fn choose(&mut self, name: &str, demands: &[Demand]) -> Result<Result<Candidate, String>, Failure> {
        if let Some(address) = demands.iter().find_map(|demand| demand.requirement.address()) {
            return Ok(Err(format!("it is asked for by its address, `{}`, which is not followed", shown(address))));
        }
        let mut project = self.project(name)?.clone();
        // `rocm` is published only as a source distribution, beside the wheels that it requires.
        // Other projects publish some versions only in that form.
        let has_wheel = project.candidates.iter().any(|candidate| {
            !candidate.is_sdist() && demands.iter().all(|demand| demand.requirement.accepts(&candidate.version))
        });
        if has_wheel {
            project.candidates.retain(|candidate| !candidate.is_sdist());
        }
        let mut left = project.candidates.clone();
        for (index, demand) in demands.iter().enumerate() {
            left.retain(|candidate| demand.requirement.accepts(&candidate.version));
            if !left.is_empty() {
                continue;
            }
            let mut versions: Vec<_> = project.candidates.iter().map(|candidate| &candidate.version).collect();
            versions.retain(|version| demand.requirement.accepts(version));
            if versions.is_empty() {
                return Ok(Err(project.explain(self.request)));
            }
            let mut others = demands[..index].iter();
            let pair = others.find(|other| !versions.iter().any(|version| other.requirement.accepts(version)));
            let other = pair.unwrap_or(&demands[0]);
            return Err(error::no_version(format!(
                "no version of {name} is right for both: {} requires `{}`, {} requires `{}`",
                other.requirer, other.requirement.text, demand.requirer, demand.requirement.text
            )));
        }
        let pinned = demands.iter().any(|demand| demand.requirement.pins());
        left.retain(|candidate| pinned || !candidate.is_yanked());
        let wants_prereleases = demands.iter().any(|demand| demand.requirement.wants_prereleases());
        if !wants_prereleases && left.iter().any(|candidate| !candidate.version.any_prerelease()) {
            left.retain(|candidate| !candidate.version.any_prerelease());
        }
        for candidate in left {
            let python = self.python_of(&candidate)?;
            let specifiers = python.and_then(|python| VersionSpecifiers::from_str(&python).ok());
            if specifiers.is_none_or(|python| rocwheel_wheel::accepts(&python, &self.request.target.full_version())) {
                return Ok(Ok(candidate));
            }
        }
        Ok(Err(format!("no version that is left is for Python {}", self.request.target.python)))
    }

    /// What it means that an audited wheel's requirement was not met.
    fn kind_of(&mut self, requirement: &Requirement) -> Result<UnmetKind, Failure> {
        if requirement.address().is_some() {
            return Ok(UnmetKind::Open);
        }
        let project = self.project(&requirement.name)?;
        // A candidate that fits was refused for its Python, or for what others require of it.
        let fits = project.candidates.iter().any(|candidate| requirement.accepts(&candidate.version));
        let mut others = project.others.iter();
        let may_fit = others.any(|version| version.as_ref().is_none_or(|version| requirement.accepts(version)));
        Ok(if fits || may_fit { UnmetKind::OtherPython } else { UnmetKind::Impossible })
    }

    fn project(&mut self, name: &str) -> Result<&Project, Failure> {
        if !self.projects.contains_key(name) {
            let mut project = Project::default();
            let mut sdists = Vec::new();
            for (source, place) in self.request.sources.iter().enumerate() {
                match place {
                    Source::Folder(_) => {
                        for (wheel, path) in self.folders[source].get(name).into_iter().flat_map(|files| &files.wheels)
                        {
                            project.add(self.request, source, wheel.clone(), Origin::File(path.clone()));
                        }
                        let files = self.folders[source].get(name).into_iter().flat_map(|files| &files.sdists);
                        sdists.extend(files.map(|(name, path)| (source, name.clone(), Origin::Sdist(path.clone()))));
                    }
                    Source::Index(address) => {
                        let links = self.ask(&mut project, source, address, name)?;
                        sdists.extend(
                            links.into_iter().map(|(name, link)| (source, name, Origin::RemoteSdist(Box::new(link)))),
                        );
                    }
                }
            }
            for (source, name, origin) in sdists {
                project.add(self.request, source, name, origin);
            }
            // Newest version first; within a version the first source, the best tag, the highest
            // build.
            project.candidates.sort_by(|one, other| {
                let order = other.version.cmp(&one.version).then(one.source.cmp(&other.source));
                let [build, other_build] = [one, other].map(|candidate| candidate.name.build.as_deref());
                order.then(one.rank.cmp(&other.rank)).then_with(|| build_order(other_build).cmp(&build_order(build)))
            });
            self.projects.insert(name.to_owned(), project);
        }
        Ok(&self.projects[name])
    }

    /// An address that has none of the requested projects is probably not that of an index.
    fn check_indexes(&self) -> Result<(), Failure> {
        let index = self.request.sources.iter().find_map(|source| match source {
            Source::Index(address) => Some(address),
            Source::Folder(_) => None,
        });
        match index {
            Some(address) if self.answered == 0 && self.refused > 0 => {
                let address = shown(address);
                let text = format!("none of {} requirements is at `{address}`", self.refused);
                Err(Failure::message(text).with_hint(if address.ends_with("/simple/") {
                    "check the address; `--with index` asks those that pip and uv use".to_owned()
                } else {
                    format!("did you mean `{address}simple/`?")
                }))
            }
            _ => Ok(()),
        }
    }

    /// Adds the wheels of a project on an index, and returns the project's source distributions.
    fn ask(
        &mut self,
        project: &mut Project,
        source: usize,
        address: &url::Url,
        name: &str,
    ) -> Result<Vec<(WheelName, PageLink)>, Failure> {
        let mut sdists = Vec::new();
        let Some(store) = &self.store else { return Ok(sdists) };
        let mut page = address.clone();
        page.set_path(&format!("{}{name}/", address.path()));
        let (answer, body) = store.text(&page, page::ACCEPT)?;
        match answer.status {
            200 => self.answered += 1,
            // To a user, 403 is a refusal, as for uv.
            403 if store.fetch.has_user(&page) => return Err(error::bad_status(&shown(&page), 403)),
            // Storage services answer 403 for missing files if the client may not list them.
            403 | 404 | 410 => {
                self.refused += 1;
                project.answers.insert(format!("`{}` answered {}", shown(&page), answer.status));
                return Ok(sdists);
            }
            status => return Err(error::bad_status(&shown(&page), status)),
        }
        let links = page::parse(&answer.content_type, &body, &answer.address)
            .map_err(|reason| error::no_page(&shown(&page), &reason))?;
        for link in links {
            let (file, is_wheel) = match link.file_name.parse::<WheelName>() {
                Ok(wheel) => (Some(wheel), true),
                Err(_) => (folder::source_name(&link.file_name), false),
            };
            // The file name becomes a name in the cache, so it must be a plain name and belong to
            // this project.
            let Some(file) = file.filter(|file| rocwheel_wheel::canonical_name(&file.distribution) == name) else {
                continue;
            };
            if link.file_name.contains(['/', '\\']) {
                continue;
            }
            if is_wheel {
                project.add(self.request, source, file, Origin::Remote(Box::new(link)));
            } else {
                sdists.push((file, link));
            }
        }
        Ok(sdists)
    }

    fn python_of(&mut self, candidate: &Candidate) -> Result<Option<String>, Failure> {
        match &candidate.origin {
            Origin::Remote(link) | Origin::RemoteSdist(link) if link.python.is_some() => Ok(link.python.clone()),
            _ => Ok(self.knowledge(candidate)?.python),
        }
    }

    fn knowledge(&mut self, candidate: &Candidate) -> Result<Known, Failure> {
        let key = format!("{} {}", candidate.source, candidate.name);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let known = match (&candidate.origin, &self.store) {
            (Origin::File(path), _) => Known::open(path)?,
            (Origin::Sdist(path), _) => {
                Known::of(&candidate.name, &rocwheel_wheel::sdist_metadata(path, self.reporter)?)
            }
            (Origin::Remote(link), Some(store)) => match store.metadata(link)? {
                Some(text) => Known::of(&candidate.name, &Headers::parse(&text)),
                None => Known::open(&store.wheel(link)?)?,
            },
            (Origin::RemoteSdist(link), Some(store)) => {
                Known::of(&candidate.name, &self.headers_of_sdist(link, store)?)
            }
            (Origin::Remote(link) | Origin::RemoteSdist(link), None) => {
                return Err(error::offline(&shown(&link.address)));
            }
        };
        self.known.insert(key, known.clone());
        Ok(known)
    }

    /// The metadata of a source distribution on an index. An unreadable file does not stop the
    /// search; its requirements are then unknown.
    fn headers_of_sdist(&self, link: &PageLink, store: &Store<'_>) -> Result<Headers, Failure> {
        if let Some(text) = store.metadata(link)? {
            return Ok(Headers::parse(&text));
        }
        let headers = store.sdist(link).and_then(|file| Ok(rocwheel_wheel::sdist_metadata(&file, self.reporter)?));
        headers.or_else(|failure: Failure| {
            use rocwheel_wheel::Error::{MalformedSdist, OpenSdist};
            let is_unreadable = matches!(failure.find(), Some(MalformedSdist { .. } | OpenSdist { .. }));
            if !is_unreadable && failure.find::<TooLarge>().is_none() {
                return Err(failure);
            }
            self.reporter.warn(&format!("what `{}` requires is not known: {failure}", link.file_name));
            Ok(Headers::parse(""))
        })
    }

    fn fetch(self, round: Round) -> Result<Gathered, Failure> {
        let mut wheels = Vec::with_capacity(round.chosen.len());
        let _stage = self.reporter.stage("Collecting wheels", Some(round.chosen.len() as u64), Unit::Items);
        for chosen in round.chosen.into_values() {
            let path = match (chosen.candidate.origin, &self.store) {
                (Origin::File(path), _) => Ok(path),
                (Origin::Sdist(_) | Origin::RemoteSdist(_), _) => {
                    self.reporter.advance(1);
                    continue;
                }
                (Origin::Remote(link), Some(store)) => store.wheel(&link),
                (Origin::Remote(link), None) => Err(error::offline(&shown(&link.address))),
            };
            wheels.push(path?);
            self.reporter.advance(1);
        }
        Ok(Gathered { wheels, unmet: round.unmet.into_iter().collect() })
    }
}

impl Round {
    /// The name of the first choice that does not meet its demands.
    fn unsettled(&self) -> Option<String> {
        let unsettled = self.chosen.iter().find(|(name, chosen)| {
            self.demands[name.as_str()].iter().any(|demand| !demand.requirement.accepts(&chosen.version))
        });
        unsettled.map(|(name, _)| name.clone())
    }
}

impl Candidate {
    fn is_sdist(&self) -> bool {
        matches!(self.origin, Origin::Sdist(_) | Origin::RemoteSdist(_))
    }

    fn is_yanked(&self) -> bool {
        matches!(&self.origin, Origin::Remote(link) | Origin::RemoteSdist(link) if link.yanked.is_some())
    }
}

impl Project {
    fn add(&mut self, request: &Request<'_>, source: usize, name: WheelName, origin: Origin) {
        let version = Version::from_str(&name.version.replace('_', "-"));
        match (tags::rank(request.target, &name), version) {
            (Some(rank), Ok(version)) => self.candidates.push(Candidate { name, version, rank, source, origin }),
            (_, version) => self.others.push(version.ok()),
        }
    }

    fn explain(&self, request: &Request<'_>) -> String {
        let mut versions: Vec<String> = self.candidates.iter().map(|candidate| candidate.version.to_string()).collect();
        versions.dedup();
        let python = &request.target.python;
        match (versions.len(), self.others.len()) {
            (0, 0) if self.answers.is_empty() => "it has no wheel".to_owned(),
            (0, 0) => self.answers.iter().cloned().collect::<Vec<_>>().join(", "),
            (0, others) => format!("none of its {others} wheels is for Python {python} on this system"),
            (1..=5, _) => format!("there is {}", versions.join(", ")),
            (more, _) => format!("there are {more} versions, from {} to {}", versions[more - 1], versions[0]),
        }
    }
}

/// The sort key of a build tag: its number, then the rest. No tag sorts before any tag (PEP 427).
fn build_order(build: Option<&str>) -> Option<(u64, String)> {
    let build = build?;
    let digits = build.find(|character: char| !character.is_ascii_digit()).unwrap_or(build.len());
    Some((build[..digits].parse().unwrap_or(u64::MAX), build[digits..].to_owned()))
}
