//! Input: a request. Output: the plan of its promotion, or everything that speaks against it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use pep440_rs::Version;
use rayon::prelude::*;
use rocwheel_archive::{MemberMemory, PackedSource};
use rocwheel_progress::{Failure, Reporter, Unit, listed_problems};
use rocwheel_wheel::{Headers, WheelName, canonical_name, same_version};

use crate::archive::{find_information, plan_tar, unpacked};
use crate::closed::{Provided, find_open};
use crate::collect::{collect, set_version};
use crate::error;
use crate::member::MemberPath;
use crate::planner::Planner;
use crate::promotion_plan::{PlannedPromotion, PromotionPlan, Steps};
use crate::request::PromotionRequest;
use crate::rules::{Findings, Patterns, Rules};
use crate::set_file::{SetFile, SetFileKind};
use crate::targets::{KeepList, target_of};
use crate::version_change::VersionChange;
use crate::wheel::plan_wheel;

/// The version of the set in a folder, from the names of its files.
pub fn find_set_version(request: &PromotionRequest<'_>) -> Result<Version, Failure> {
    if let Some(old) = &request.old {
        return Ok(old.clone().with_post(None));
    }
    let collected = collect(request, &Patterns::new(request.copy)?)?;
    set_version(request.folder, &collected.files)
}

/// Reads all files of a set and plans its promotion. Nothing is written. Members of a wheel without
/// the old version according to `records` are not unpacked; then writing fails if the wheel is
/// another one.
pub fn plan_promotion(
    request: &PromotionRequest<'_>,
    records: &PackedSource,
    reporter: &dyn Reporter,
) -> Result<PromotionPlan, Failure> {
    let collected = collect(request, &Patterns::new(request.copy)?)?;
    let old = match &request.old {
        Some(old) => old.clone().with_post(None),
        None => set_version(request.folder, &collected.files)?,
    };
    let change = VersionChange::new(&old, request.new.as_ref().unwrap_or(&old))?;
    let keep = if request.keep.is_empty() { None } else { Some(KeepList::new(request.keep)?) };
    if request.is_floating && change.new_version().any_prerelease() {
        let reason = "only a release has patches that frameworks can take (`--rocm-lock exact`)";
        return Err(error::version(&old, change.new_version(), reason));
    }
    let rules = Rules {
        change,
        keep,
        also_in: Patterns::new(request.also_in)?,
        accept: Patterns::new(request.accept)?,
        is_floating: request.is_floating,
    };
    let versions = new_versions(&collected.files, &rules)?;
    let planner = Planner { rules: &rules, records, memory: MemberMemory::default(), reporter };
    let total = collected.files.iter().map(|file| size(file).unwrap_or_default()).sum();
    reporter.begin("Reading the set", Some(total), Unit::Bytes);
    let planned = planner.files(&collected.files, &versions);
    reporter.end();
    let (mut files, leftovers) = planned?;
    if !leftovers.is_empty() {
        return Err(still_says(&old, leftovers));
    }
    copy_metadata(&mut files);
    check_names(&files)?;
    check_closed(&collected.files, &files, request, &rules)?;
    Ok(PromotionPlan {
        folder: request.folder.to_owned(),
        from: old.to_string(),
        to: rules.change.new_version().to_string(),
        targets: rules.keep.as_ref().map(|keep| keep.targets().to_vec()),
        files,
        notes: collected.notes,
    })
}

/// The old version is still somewhere. Each problem is `FILE: MEMBER: line`.
fn still_says(version: &Version, problems: Vec<String>) -> Failure {
    let list = listed_problems(&problems);
    let say = if problems.len() == 1 {
        "1 place still says".to_owned()
    } else {
        format!("{} places still say", problems.len())
    };
    Failure::message(format!("nothing was promoted: {say} version {version}{list}"))
        .with_hint("`--also-in PATTERN` gives these members the new version, and `--accept PATTERN` leaves them")
        .with_rows(problems)
}

fn size(file: &SetFile) -> Result<u64, Failure> {
    let metadata = fs_err::metadata(&file.path);
    Ok(metadata.map_err(error::read(&file.path))?.len())
}

/// The new version of each file that has one; all files that are not of the set are one error.
fn new_versions(files: &[SetFile], rules: &Rules) -> Result<BTreeMap<String, Version>, Failure> {
    let (mut versions, mut problems) = (BTreeMap::new(), Vec::new());
    for file in files {
        let Some(version) = &file.version else { continue };
        match rules.change.of_file(version) {
            Some(new) => drop(versions.insert(file.name.clone(), new)),
            None => problems.push(format!("`{}`: {version} is not of the set {}", file.name, rules.change.old())),
        }
    }
    if problems.is_empty() { Ok(versions) } else { Err(error::files(problems)) }
}

impl Planner<'_> {
    /// The plans of all files, and the places that would keep the old version.
    fn files(
        &self,
        files: &[SetFile],
        versions: &BTreeMap<String, Version>,
    ) -> Result<(Vec<PlannedPromotion>, Vec<String>), Failure> {
        self.check_targets(files)?;
        // A wheel may be one large member, which one thread reads.
        let looks = files.par_iter().with_max_len(1).map(|file| {
            self.reporter.check()?;
            let mut plan = PlannedPromotion::new(file, size(file)?);
            let mut found = Ok(Findings::default());
            if let Some(version) = versions.get(&file.name) {
                plan.new_version = Some(version.to_string());
                found = match self.file(file, version, &mut plan) {
                    Ok(found) => Ok(found),
                    Err(Ok(reason)) => Err(reason),
                    Err(Err(error)) => return Err(error),
                };
            } else if file.kind == SetFileKind::Native {
                plan.notes.push("copied: it keeps its version".to_owned());
            }
            Ok((plan, found))
        });
        let (mut planned, mut leftovers, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        for (mut plan, found) in looks.collect::<Result<Vec<_>, Failure>>()? {
            match found {
                Ok(found) => {
                    leftovers.extend(found.leftovers.into_iter().map(|place| format!("{}: {place}", plan.name)));
                    plan.texts = found.texts;
                    plan.renamed = found.renamed;
                    plan.notes.extend(found.notes);
                    planned.push(plan);
                }
                Err(reason) => problems.push(format!("`{}`: {reason}", plan.name)),
            }
        }
        if problems.is_empty() { Ok((planned, leftovers)) } else { Err(error::files(problems)) }
    }

    /// Plans one file. `Err(Ok(reason))` is why it cannot be promoted.
    fn file(
        &self,
        file: &SetFile,
        version: &Version,
        plan: &mut PlannedPromotion,
    ) -> Result<Findings, Result<String, Failure>> {
        if self.is_left_out(file)? {
            plan.new_name = None;
            plan.steps = Steps::LeaveOut;
            return Ok(Findings::default());
        }
        match file.kind {
            SetFileKind::Wheel => {
                let planned = plan_wheel(&file.path, version, self)?;
                let mut name: WheelName = file.name.parse().map_err(|error| Err(Failure::from(error)))?;
                if !same_version(&name.version, &version.to_string()) {
                    name.version = version.to_string();
                }
                plan.new_name = Some(name.to_string());
                plan.metadata = Some(planned.metadata);
                plan.recorded = planned.recorded;
                plan.steps = if planned.steps.is_empty() { Steps::Copy } else { Steps::Wheel(planned.steps) };
                Ok(planned.findings)
            }
            SetFileKind::Sdist | SetFileKind::Tarball => self.archive(file, version, plan).map_err(Err),
            SetFileKind::Native | SetFileKind::Metadata | SetFileKind::Other => Ok(Findings::default()),
        }
    }

    fn archive(&self, file: &SetFile, version: &Version, plan: &mut PlannedPromotion) -> Result<Findings, Failure> {
        let mut findings = Findings::default();
        let reader: Box<dyn Read + '_> = Box::new(unpacked(&file.path, self.reporter)?);
        let patch = plan_tar(reader, self.rules, "", self.reporter, &mut findings);
        let patch = patch.map_err(|error| error.at(&file.path, self.reporter))?;
        plan.steps = if patch.is_empty() { Steps::Copy } else { Steps::Archive(patch) };
        let (stem, _) = file.name.rsplit_once('-').unwrap_or((&file.name, ""));
        if file.version.as_ref().is_some_and(|old| old != version) {
            plan.new_name = Some(format!("{stem}-{version}.tar.gz"));
        }
        if file.kind == SetFileKind::Sdist {
            let Some(text) = find_information(&file.path, &rocwheel_progress::Silent)? else {
                let reason = "it has no `PKG-INFO`".to_owned();
                return Err(rocwheel_wheel::Error::MalformedSdist { path: file.path.clone(), reason }.into());
            };
            let member = MemberPath { path: "PKG-INFO", shown: "PKG-INFO" };
            let new = self.rules.new_text(member, text.as_bytes(), &mut Findings::default())?.unwrap_or(text);
            let says = Headers::parse(&new).get("Version").unwrap_or_default();
            if !same_version(&says, &version.to_string()) {
                let reason = format!("its PKG-INFO would say version `{says}` and not {version}");
                return Err(rocwheel_wheel::Error::MalformedSdist { path: file.path.clone(), reason }.into());
            }
            plan.metadata = Some(new);
        }
        Ok(findings)
    }

    /// `true` for a file of a target that does not stay.
    fn is_left_out(&self, file: &SetFile) -> Result<bool, Result<String, Failure>> {
        let Some(keep) = &self.rules.keep else { return Ok(false) };
        if file.kind != SetFileKind::Tarball {
            return Ok(target_of(&file.distribution).is_some_and(|target| !keep.has(target)));
        }
        match file.distribution.find("gfx") {
            Some(at) => Ok(!keep.has(&file.distribution[at..])),
            None => Err(Ok("its contents are for all targets, and targets cannot be taken out of it".to_owned())),
        }
    }

    /// Refuses targets to keep of which the set has nothing.
    fn check_targets(&self, files: &[SetFile]) -> Result<(), Failure> {
        let Some(keep) = &self.rules.keep else { return Ok(()) };
        let mut known: BTreeSet<&str> = files.iter().filter_map(|file| target_of(&file.distribution)).collect();
        known.extend(
            files
                .iter()
                .filter(|file| file.kind == SetFileKind::Tarball)
                .filter_map(|file| file.distribution.find("gfx").map(|at| &file.distribution[at..])),
        );
        // A set without packages of one target lists its targets inside only.
        let missing: Vec<&str> =
            keep.targets().iter().map(String::as_str).filter(|target| !known.contains(target)).collect();
        if missing.is_empty() || known.is_empty() {
            return Ok(());
        }
        let known: Vec<&str> = known.into_iter().collect();
        let reason = format!("the set has nothing for {}, only for {}", missing.join(", "), known.join(", "));
        Err(error::targets(keep.targets(), &reason))
    }
}

/// Gives `WHEEL.metadata` the name and the metadata of its wheel.
fn copy_metadata(files: &mut [PlannedPromotion]) {
    let wheels: BTreeMap<String, (Option<String>, Option<String>)> = files
        .iter()
        .filter(|file| file.kind == SetFileKind::Wheel)
        .map(|file| (format!("{}.metadata", file.name), (file.new_name.clone(), file.metadata.clone())))
        .collect();
    for file in files.iter_mut().filter(|file| file.kind == SetFileKind::Metadata) {
        let Some((Some(name), Some(text))) = wheels.get(&file.name) else {
            file.new_name = None;
            file.steps = Steps::LeaveOut;
            continue;
        };
        file.new_name = Some(format!("{name}.metadata"));
        file.steps = Steps::Text(text.clone());
    }
}

fn check_names(files: &[PlannedPromotion]) -> Result<(), Failure> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut problems = Vec::new();
    for file in files {
        let Some(new) = &file.new_name else { continue };
        if let Some(other) = names.insert(new, &file.name) {
            problems.push(format!("`{}` and `{other}` would both become `{new}`", file.name));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(error::files(problems)) }
}

fn check_closed(
    all: &[SetFile],
    files: &[PlannedPromotion],
    request: &PromotionRequest<'_>,
    rules: &Rules,
) -> Result<(), Failure> {
    let mut provided = Provided::default();
    provided.add_folders(request.beside)?;
    provided.add_names(request.published.iter().map(String::as_str))?;
    let own: BTreeSet<String> =
        all.iter().filter(|file| file.version.is_some()).map(|file| file.distribution.clone()).collect();
    let mut metadata = Vec::new();
    for file in files {
        let (Some(text), Some(name)) = (&file.metadata, &file.new_name) else { continue };
        let headers = Headers::parse(text);
        if let Some(version) = file.new_version.as_ref().and_then(|version| version.parse().ok()) {
            provided.add(&canonical_name(&headers.get("Name").unwrap_or_default()), version);
        }
        metadata.push((name.as_str(), headers));
    }
    let problems = find_open(&metadata, provided, &own, rules.change.new_version());
    if problems.is_empty() {
        return Ok(());
    }
    let list = listed_problems(&problems);
    Err(Failure::message(format!("nothing was promoted: the set would not be closed{list}"))
        .with_hint("add the missing files, or name a folder that has them with `--beside DIR`")
        .with_rows(problems))
}
