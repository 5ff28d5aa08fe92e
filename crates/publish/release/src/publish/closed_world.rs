//! Input: a set and the stream that it goes into. Output: what cannot be installed from the two
//! alone.
//!
//! Each package of the set is installed in thought, for each Python and system that it has files
//! for, without extras and with each extra alone. As in `rocwheel_index`, the choice is greedy: the
//! newest version that meets every requirement found so far, and another round with all of them
//! where a later requirement rules it out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use globset::GlobSet;
use pep440_rs::{Version, VersionSpecifiers};
use rocwheel_content::archive_path::{file_name, parent};
use rocwheel_index::requirement::Requirement;
use rocwheel_index::tags::{self, TagRank};
use rocwheel_pages::views::target;
use rocwheel_promote::target_of;
use rocwheel_store::listing::distributions;
use rocwheel_stream::install_place::{InstallPlace, PYTHONS, compiled_for};
use rocwheel_stream::{ReleaseSet, SetFile, Stream};
use rocwheel_wheel::{Platform, PythonVersion, WheelName};

use super::withdrawn::withdrawal;
use crate::Error;

/// Rounds before a choice is given up; real sets take two or three.
const ROUNDS: usize = 32;
/// The newest minor version of Python 3 that a package which none of those runs may be for.
const NEWEST_PYTHON: u16 = 30;

/// A file that an installer could choose.
pub(super) struct Choice {
    pub(super) key: String,
    pub(super) project: String,
    pub(super) version: Version,
    wheel: Option<WheelName>,
    yanked: Option<String>,
    python: Option<VersionSpecifiers>,
    /// The set that describes it.
    set: String,
}

/// A requirement and what has it.
#[derive(Clone)]
struct Demand {
    requirer: String,
    requirement: Requirement,
}

type Demands = BTreeMap<String, Vec<Demand>>;
pub(super) type Installation = BTreeMap<String, Rc<Choice>>;

/// Everything that is or will be listed.
pub(super) struct ClosedWorld<'a> {
    stream: &'a Stream<'a>,
    set: &'a ReleaseSet,
    /// Projects that installers get elsewhere.
    outside: GlobSet,
    projects: BTreeMap<String, Vec<Rc<Choice>>>,
    sets: BTreeMap<String, Rc<ReleaseSet>>,
    requirements: BTreeMap<String, Rc<Vec<Requirement>>>,
}

impl<'a> ClosedWorld<'a> {
    /// `set` has the files of the stream that belong to it too.
    pub(super) fn new(stream: &'a Stream<'a>, set: &'a ReleaseSet, outside: GlobSet) -> ClosedWorld<'a> {
        let (projects, sets, requirements) = Default::default();
        ClosedWorld { stream, set, outside, projects, sets, requirements }
    }

    pub(super) fn worlds(&self) -> Vec<InstallPlace> {
        let (mut pythons, mut platforms) = (BTreeSet::new(), BTreeSet::new());
        for one in distributions(self.set.files.keys()) {
            let Some(wheel) = &one.wheel else { continue };
            platforms.extend(wheel.platforms.iter().filter_map(|tag| Platform::of_tag(tag)));
            pythons.extend(compiled_for(wheel));
        }
        if pythons.is_empty() {
            pythons.extend(PYTHONS.map(|minor| PythonVersion { major: 3, minor, free_threaded: false }));
        }
        if platforms.is_empty() {
            platforms.insert(Platform::Linux);
        }
        let worlds = platforms.iter().flat_map(|platform| pythons.iter().map(|python| (*python, *platform)));
        worlds.map(|(python, platform)| InstallPlace::new(python, platform)).collect()
    }

    /// Those of the worlds in which an installer takes a file of the set for a project, with the
    /// file. A project for no Python of the set has the newest Python that it is for; nothing where
    /// it is for no Python 3 or another processor.
    fn worlds_of(&mut self, project: &str, worlds: &[InstallPlace]) -> Vec<(InstallPlace, Rc<Choice>)> {
        let mut found = self.owns(project, worlds.iter().cloned());
        if found.is_empty() {
            let others = (0..=NEWEST_PYTHON).rev().flat_map(|minor| {
                let python = PythonVersion { major: 3, minor, free_threaded: false };
                [Platform::Linux, Platform::Windows].map(|platform| InstallPlace::new(python, platform))
            });
            found = self.owns(project, others);
            found.truncate(1);
        }
        found
    }

    fn owns(&mut self, project: &str, worlds: impl Iterator<Item = InstallPlace>) -> Vec<(InstallPlace, Rc<Choice>)> {
        worlds.filter_map(|world| self.own(project, &world).map(|own| (world, own))).collect()
    }

    /// Warnings about projects of the set whose requirements [`Self::gaps`] cannot know.
    pub(super) fn unchecked(&mut self) -> Vec<String> {
        let worlds = self.worlds();
        let mut projects = self.projects_of_set();
        projects.retain(|project| self.worlds_of(project, &worlds).is_empty());
        let lines = projects.into_iter().map(|project| {
            format!("`{project}` is for no Python 3 on 64-bit x86: whether it can be installed was not checked")
        });
        lines.collect()
    }

    fn choices(&mut self, project: &str) -> &[Rc<Choice>] {
        if !self.projects.contains_key(project) {
            let manifest = &self.stream.manifest;
            let mut files: BTreeMap<&String, (Option<&str>, &str)> = BTreeMap::new();
            for (key, file) in manifest.files_of(project) {
                files.insert(key, (file.requires_python.as_deref(), &file.set));
            }
            for (key, file) in self.set.files.iter().filter(|(key, _)| parent(key) == project) {
                files.insert(key, (file.requires_python.as_deref(), &self.set.name));
            }
            let mut choices: Vec<Rc<Choice>> = distributions(files.keys().copied())
                .into_iter()
                .filter_map(|one| {
                    let (python, set) = *files.get(&one.file.key)?;
                    Some(Rc::new(Choice {
                        yanked: withdrawal(manifest, &one),
                        key: one.file.key,
                        project: one.project,
                        version: one.version,
                        wheel: one.wheel,
                        python: python.and_then(|python| python.parse().ok()),
                        set: set.to_owned(),
                    }))
                })
                .collect();
            choices.sort_by(|one, other| {
                other.version.cmp(&one.version).then(one.wheel.is_none().cmp(&other.wheel.is_none()))
            });
            self.projects.insert(project.to_owned(), choices);
        }
        &self.projects[project]
    }

    fn file(&mut self, choice: &Choice) -> Result<SetFile, Error> {
        if choice.set == self.set.name
            && let Some(file) = self.set.files.get(&choice.key)
        {
            return Ok(file.clone());
        }
        if !self.sets.contains_key(&choice.set) {
            self.sets.insert(choice.set.clone(), Rc::new(self.stream.set(&choice.set)?));
        }
        Ok(self.sets[&choice.set].files.get(&choice.key).cloned().unwrap_or_default())
    }

    pub(super) fn projects_of_set(&self) -> Vec<String> {
        self.set.versions.keys().cloned().collect()
    }

    /// The extras of a file.
    pub(super) fn extras(&mut self, choice: &Choice) -> Result<BTreeSet<String>, Error> {
        Ok(self.file(choice)?.extras)
    }

    fn requirements(&mut self, choice: &Choice) -> Result<Rc<Vec<Requirement>>, Error> {
        if let Some(found) = self.requirements.get(&choice.key) {
            return Ok(Rc::clone(found));
        }
        let file = self.file(choice)?;
        // Texts that cannot be parsed are the audit's.
        let parsed = file.requires.iter().filter_map(|text| Requirement::parse(text).ok()).collect();
        let parsed: Rc<Vec<Requirement>> = Rc::new(parsed);
        self.requirements.insert(choice.key.clone(), Rc::clone(&parsed));
        Ok(parsed)
    }

    /// The file of the set that an installer takes for a project; `None` where it has none.
    pub(super) fn own(&mut self, project: &str, world: &InstallPlace) -> Option<Rc<Choice>> {
        let set = self.set;
        let own: Vec<Rc<Choice>> =
            self.choices(project).iter().filter(|choice| set.files.contains_key(&choice.key)).cloned().collect();
        best(own.iter(), world).cloned()
    }

    /// What is installed with a file and one of its extras. The inner error is the reason why
    /// nothing can be.
    pub(super) fn install(
        &mut self,
        world: &InstallPlace,
        start: &Rc<Choice>,
        extra: Option<&str>,
    ) -> Result<Result<Installation, String>, Error> {
        let mut learned = Demands::new();
        for _ in 0..ROUNDS {
            let (demands, chosen) = match self.round(world, (start, extra), &learned)? {
                Ok(round) => round,
                Err(reason) => return Ok(Err(reason)),
            };
            let is_settled = chosen.iter().all(|(name, choice)| {
                demands.get(name).into_iter().flatten().all(|demand| demand.requirement.accepts(&choice.version))
            });
            if is_settled {
                return Ok(Ok(chosen));
            }
            learned = demands;
        }
        Ok(Err("its requirements and those of what it requires exclude each other".to_owned()))
    }

    fn round(
        &mut self,
        world: &InstallPlace,
        (start, extra): (&Rc<Choice>, Option<&str>),
        learned: &Demands,
    ) -> Result<Result<(Demands, Installation), String>, Error> {
        let (mut demands, mut chosen) = (Demands::new(), Installation::new());
        let mut extras: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        extras.entry(start.project.clone()).or_default().extend(extra.map(str::to_owned));
        chosen.insert(start.project.clone(), Rc::clone(start));
        let mut open = VecDeque::from([Rc::clone(start)]);
        while let Some(choice) = open.pop_front() {
            let asked = extras.entry(choice.project.clone()).or_default().clone();
            let requirer = format!("{} {}", choice.project, choice.version);
            for requirement in self.requirements(&choice)?.iter() {
                if self.outside.is_match(&requirement.name) || !requirement.applies_in(&world.markers, &asked) {
                    continue;
                }
                let name = requirement.name.clone();
                let all = demands.entry(name.clone()).or_default();
                if !all.iter().any(|one| one.requirer == requirer && one.requirement.text == requirement.text) {
                    all.push(Demand { requirer: requirer.clone(), requirement: requirement.clone() });
                }
                let wanted = extras.entry(name.clone()).or_default();
                let before = wanted.len();
                wanted.extend(requirement.extras.iter().cloned());
                let has_more = wanted.len() > before;
                if let Some(found) = chosen.get(&name) {
                    if name == start.project && !requirement.accepts(&found.version) {
                        return Ok(Err(format!("{requirer} requires `{}`", requirement.text)));
                    }
                    if has_more {
                        open.push_back(Rc::clone(found));
                    }
                    continue;
                }
                let all: Vec<Demand> = learned.get(&name).into_iter().flatten().chain(&*all).cloned().collect();
                match self.choose(world, start, &name, &all) {
                    Ok(found) => {
                        open.push_back(Rc::clone(&found));
                        chosen.insert(name, found);
                    }
                    Err(reason) => {
                        return Ok(Err(format!("{requirer} requires `{}`: {reason}", requirement.text)));
                    }
                }
            }
        }
        Ok(Ok((demands, chosen)))
    }

    fn choose(
        &mut self,
        world: &InstallPlace,
        start: &Choice,
        name: &str,
        demands: &[Demand],
    ) -> Result<Rc<Choice>, String> {
        if demands.iter().any(|demand| demand.requirement.address().is_some()) {
            return Err("an address is not in the stream".to_owned());
        }
        let set = self.set;
        // A listed package may pin a version that was withdrawn later; a new one must not.
        let is_new = start.yanked.is_none() && !self.stream.manifest.files.contains_key(&start.key);
        let choices = self.choices(name);
        if choices.is_empty() {
            return Err("neither the set nor the stream has it".to_owned());
        }
        let is_pinned = demands.iter().any(|demand| demand.requirement.pins());
        let wants_prereleases = demands.iter().any(|demand| demand.requirement.wants_prereleases());
        let mut accepted: Vec<&Rc<Choice>> = choices.iter().collect();
        accepted.retain(|choice| demands.iter().all(|demand| demand.requirement.accepts(&choice.version)));
        let withdrawn = accepted.iter().find_map(|choice| Some((&choice.version, choice.yanked.as_ref()?)));
        accepted
            .retain(|choice| choice.yanked.is_none() || !is_new && (is_pinned || set.files.contains_key(&choice.key)));
        let fitting: Vec<&Rc<Choice>> =
            accepted.iter().copied().filter(|choice| rank(choice, world).is_some()).collect();
        let has_final = fitting.iter().any(|choice| !choice.version.any_prerelease());
        let left = fitting.iter().filter(|choice| wants_prereleases || !has_final || !choice.version.any_prerelease());
        if let Some(found) = best(left.copied(), world) {
            return Ok(Rc::clone(found));
        }
        let mut versions: Vec<String> = choices.iter().map(|choice| choice.version.to_string()).collect();
        versions.dedup();
        Err(match (accepted.first(), withdrawn) {
            (Some(first), _) => format!("no file of {} is for {}", first.version, world.name()),
            (None, Some((version, reason))) => format!("{version} is withdrawn: {reason}"),
            (None, None) if demands.len() > 1 => {
                let others: BTreeSet<&str> = demands.iter().map(|demand| demand.requirer.as_str()).collect();
                let others: Vec<&str> = others.into_iter().collect();
                format!("no version meets what {} require", others.join(" and "))
            }
            (None, None) if versions.len() > 5 => {
                format!("there are {} versions, the newest is {}", versions.len(), versions[0])
            }
            (None, None) => format!("there is only {}", versions.join(", ")),
        })
    }
}

/// How an installer likes a file, the best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Liking {
    Wheel(TagRank),
    /// It has to be built.
    Source,
}

/// How an installer likes a file; `None` where it refuses it.
fn rank(choice: &Choice, world: &InstallPlace) -> Option<Liking> {
    let python = world.target.full_version();
    if choice.python.as_ref().is_some_and(|accepted| !rocwheel_wheel::accepts(accepted, &python)) {
        return None;
    }
    match &choice.wheel {
        Some(wheel) => tags::rank(&world.target, wheel).map(Liking::Wheel),
        None => Some(Liking::Source),
    }
}

/// The newest version, and of that the wheel with the best tags.
fn best<'c>(choices: impl Iterator<Item = &'c Rc<Choice>>, world: &InstallPlace) -> Option<&'c Rc<Choice>> {
    let ranked = choices.filter_map(|choice| Some((choice, rank(choice, world)?)));
    let ranked = ranked.min_by(|(one, first), (other, second)| other.version.cmp(&one.version).then(first.cmp(second)));
    ranked.map(|(choice, _)| choice)
}

/// What cannot be installed, with the environments in which it cannot.
pub(super) struct Gaps(BTreeMap<String, Vec<String>>);

impl ClosedWorld<'_> {
    /// Installs everything of the set in every way.
    pub(super) fn gaps(&mut self) -> Result<Gaps, Error> {
        let mut gaps: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let worlds = self.worlds();
        for project in self.projects_of_set() {
            for (world, own) in self.worlds_of(&project, &worlds) {
                let extras: Vec<String> = self.file(&own)?.extras.into_iter().collect();
                for extra in [None].into_iter().chain(extras.iter().map(|extra| Some(extra.as_str()))) {
                    if let Err(reason) = self.install(&world, &own, extra)? {
                        let extra = extra.map(|extra| format!("[{extra}]")).unwrap_or_default();
                        let text = format!("{project}{extra} cannot be installed: {reason}");
                        gaps.entry(text).or_default().push(world.name());
                    }
                }
            }
        }
        Ok(Gaps(gaps))
    }

    /// The GPU targets that packages and extras of the set are for, and those of them of which
    /// something cannot be installed.
    pub(super) fn targets(&mut self) -> Result<(BTreeSet<String>, BTreeSet<String>), Error> {
        let (mut all, mut incomplete) = (BTreeSet::new(), BTreeSet::new());
        let worlds = self.worlds();
        for project in self.projects_of_set() {
            for (world, own) in self.worlds_of(&project, &worlds) {
                let extras: Vec<String> = self.file(&own)?.extras.into_iter().collect();
                let of_project = target(&project).map(|target| (None, target.to_owned()));
                let of_extras =
                    extras.iter().filter_map(|extra| Some((Some(extra.as_str()), target_of(extra)?.to_owned())));
                for (extra, target) in of_project.into_iter().chain(of_extras) {
                    if self.install(&world, &own, extra)?.is_err() {
                        incomplete.insert(target.clone());
                    }
                    all.insert(target);
                }
            }
        }
        Ok((all, incomplete))
    }

    /// Compiled packages of the set that lack a Python that others have on the same system.
    pub(super) fn holes(&self) -> Vec<String> {
        let mut found: BTreeMap<(String, Platform), BTreeSet<PythonVersion>> = BTreeMap::new();
        for one in distributions(self.set.files.keys()) {
            let Some(wheel) = &one.wheel else { continue };
            let pythons = compiled_for(wheel);
            for platform in wheel.platforms.iter().filter_map(|tag| Platform::of_tag(tag)) {
                if !pythons.is_empty() {
                    found.entry((one.project.clone(), platform)).or_default().extend(&pythons);
                }
            }
        }
        let mut holes = Vec::new();
        for ((project, platform), pythons) in &found {
            let same_platform = found.iter().filter(|((_, other), _)| other == platform);
            let all: BTreeSet<PythonVersion> = same_platform.flat_map(|(_, pythons)| pythons).copied().collect();
            for python in all.difference(pythons) {
                holes.push(format!("`{project}` has no wheel for Python {python} on {platform}, and others have"));
            }
        }
        holes
    }
}

impl Gaps {
    pub(super) fn lines(self) -> Vec<String> {
        let lines = self.0.into_iter().map(|(text, worlds)| match &worlds[..] {
            [world] => format!("{text} ({world})"),
            [first, .., last] => format!("{text} ({first} to {last})"),
            [] => text,
        });
        lines.collect()
    }
}

impl std::fmt::Debug for Choice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(file_name(&self.key))
    }
}
