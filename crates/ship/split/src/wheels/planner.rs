//! Input: a wheel and a request. Output: the [`Plan`] of its split: the wheels to be written with
//! their names, requirements and contents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_kpack::bundle::Checksum;
use rocwheel_progress::{Failure, Reporter};
use rocwheel_tables::device_packages::{self, DevicePackages, PackageLevel};
use rocwheel_tables::target;
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{Headers, WheelName};
use serde::Serialize;

use super::archive_runtime::ArchiveRuntime;
use super::install_paths::{self, Folders, Scheme};
use super::metadata::{self, DeviceExtra, Markers, identity};
use super::selection::selection;
use super::survey::{self, Binary, DatabaseFile, Programs, Survey, code_error};
use super::{Request, place_error, variant};
use crate::forecast::{ArchiveForecast, forecast};
use crate::tree::DatabaseChoice;
use crate::{CandidateFile, LeftAlone, Options, Packing, TargetSelection, UnchangedReason};

/// The name of the folder of archives.
const ARCHIVES: &str = ".kpack";

#[derive(Serialize)]
pub struct Plan {
    pub input: PathBuf,
    /// Size of the wheel in bytes.
    pub size: u64,
    /// Name of the distribution, from METADATA.
    pub distribution: String,
    /// Version of the distribution, in canonical form.
    pub version: String,
    /// The tags of all wheels of the set.
    pub tags: Vec<String>,
    /// File name of the host wheel.
    pub host: String,
    /// File name of the wheel variant, if one was requested.
    pub variant: Option<String>,
    /// The folder in site-packages that contains the folder of archives.
    pub root: String,
    /// Requirements that are added to the host wheel.
    pub requires: Vec<String>,
    /// Whether its users get a HIP runtime that reads the archives.
    pub runtime: ArchiveRuntime,
    /// Extras that are added to the host wheel.
    pub extras: Vec<DeviceExtra>,
    /// Device wheels: targets in numeric order, then generic targets, sub-families and families.
    pub devices: Vec<Device>,
    /// The plans for GPU code in libraries: for files in site-packages, and for files below the
    /// prefix.
    pub code: Vec<crate::Plan>,
    /// Targets that are not kept, with the files that are removed.
    pub dropped: Vec<DroppedTarget>,
    /// Files with GPU code that stay unchanged.
    pub kept: Vec<UnsplitFile>,
    #[serde(skip)]
    pub(super) parts: Parts,
}

/// Data for [`super::execute()`] that is not printed.
pub(super) struct Parts {
    pub(super) wheel: Arc<Wheel>,
    pub(super) folders: Folders,
    pub(super) headers: Headers,
    pub(super) zones: Vec<Zone>,
    /// Members of kernel databases that are removed from the host wheel, with the key of the
    /// package that gets them; `None`: the target is not kept.
    pub(super) databases: Vec<(Option<String>, DatabaseFile)>,
    pub(super) label: Option<String>,
    pub(super) selection: TargetSelection,
    /// Bytes of all fat binary sections.
    pub(super) sections: u64,
    /// The wheel's programs; those with GPU code are unpacked.
    pub(super) programs: Programs,
}

/// Files that share one folder of archives.
pub(super) struct Zone {
    pub(super) scheme: Scheme,
    /// The folder of archives, relative to site-packages or the prefix.
    pub(super) archives: String,
    pub(super) units: Vec<CandidateFile>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Device {
    /// Key of the package: a target, a generic target, or a family.
    pub key: String,
    /// Whether the package is for one target, a sub-family or a family.
    pub level: PackageLevel,
    pub distribution: String,
    pub file_name: String,
    /// The targets of the code in its archives, with features.
    pub targets: Vec<String>,
    /// Requirements in METADATA.
    pub requires: Vec<String>,
    /// Path of its Python module in the wheel.
    pub module: String,
    /// Archives and files of kernel databases.
    pub files: Vec<DeviceFile>,
    #[serde(skip)]
    pub(super) name: WheelName,
}

#[derive(Debug, Clone, Serialize)]
pub struct DeviceFile {
    /// Path in the wheel.
    pub path: String,
    /// Bytes of a database file, or of an archive before compression.
    pub bytes: u64,
    /// Name of the kernel database; `None` for an archive.
    pub database: Option<String>,
    /// Number of code objects in an archive; 0 for a database file.
    pub code_objects: u64,
    /// Indices of the plan in [`Plan::code`] and of its archive.
    #[serde(skip)]
    pub(super) archive: Option<(usize, usize)>,
}

/// A target that is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DroppedTarget {
    /// Name of the target in bundles or databases.
    pub target: String,
    /// Number of files of kernel databases that are removed.
    pub database_files: u64,
}

/// A file with GPU code that stays unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnsplitFile {
    pub member: String,
    pub reason: String,
}

/// Plans the split of the wheel at `path`. Only unnamed temporary files are written.
///
/// # Errors
/// A wheel that cannot be read or has nothing to split, and a request that does not fit it.
pub fn plan(path: &Path, request: &Request, reporter: &dyn Reporter) -> Result<Plan, Failure> {
    check_request(request)?;
    let wheel = Arc::new(Wheel::open(path)?);
    let headers = Headers::parse(&wheel.metadata()?);
    let (distribution, version) = identity(&wheel, &headers)?;
    let folders = Folders::new(wheel.info());
    let wanted =
        |database: &str| request.databases.as_ref().is_none_or(|only| only.iter().any(|name| name == database));
    let survey = survey::survey(&wheel, &folders, &wanted, &request.scratch, reporter)?;
    let selection = selection(&survey, request.targets.as_deref())?;

    let prefix =
        request.prefix.clone().unwrap_or_else(|| format!("{}-device", rocwheel_wheel::canonical_name(&distribution)));
    let group = rocwheel_wheel::file_name_part(&distribution);
    let sections = survey.binaries.iter().map(|binary| binary.section).sum();
    let programs = Programs::new(&survey);
    let names = Naming { prefix: &prefix, group: &group, version: &version, distribution: &distribution };
    let root = root(&wheel, &folders, &survey, &names, request.overlay_root.as_deref())?;
    let (zones, mut kept) = zones(&survey.binaries, &root, &group);
    let mut code = Vec::new();
    for zone in &zones {
        let (group, selection) = (group.clone(), selection.clone());
        let options = Options { group, selection, names: request.names, checksum: Checksum::Skip };
        let plan = crate::plan::plan_any(&zone.units, &options, reporter);
        let plan = plan.map_err(code_error(&wheel))?;
        kept.extend(plan.left_alone.iter().map(|left| (left.key.clone(), left.reason)).map(UnsplitFile::from));
        code.push(plan);
    }
    let (databases, dropped) = databases(survey.databases, &selection, &code);
    let devices = devices(&names, &wheel, (&zones, &code, &databases), &root, request)?;
    if devices.is_empty() {
        if !dropped.is_empty() {
            let found: Vec<String> = dropped.into_iter().map(|dropped| dropped.target).collect();
            return Err(code_error(&wheel)(crate::plan::nothing_selected(&selection, &found)));
        }
        let left = code.iter().flat_map(|plan| &plan.left_alone);
        return Err(no_gpu_code(path, left));
    }
    let keys: BTreeSet<String> = devices.iter().map(|device| device.key.clone()).collect();
    let extras = metadata::extras(&prefix, &keys, &|target| selection.takes(target));
    check_extras(&wheel, &headers, &extras)?;
    check_names(path, &devices)?;
    let (requires, runtime) = requirements(path, &headers, request)?;
    let host = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(warning) = runtime.warning(&host) {
        reporter.warn(&warning);
    }
    let size = fs_err::metadata(path).map_err(place_error("read", path))?;
    kept.sort_by(|left, right| left.member.cmp(&right.member));
    Ok(Plan {
        input: path.to_owned(),
        size: size.len(),
        tags: wheel.name.tags().iter().map(ToString::to_string).collect(),
        variant: request.variant.as_ref().map(|label| variant::file_name(&host, label)),
        host,
        root,
        requires,
        runtime,
        extras,
        devices,
        code,
        dropped,
        kept,
        distribution,
        version,
        parts: Parts {
            wheel,
            folders,
            headers,
            zones,
            databases,
            label: request.variant.clone(),
            selection,
            sections,
            programs,
        },
    })
}

/// Returns the requirements to add to the host wheel, and what they say of the HIP runtime.
fn requirements(path: &Path, headers: &Headers, request: &Request) -> Result<(Vec<String>, ArchiveRuntime), Failure> {
    let mut requires = request.host_requires.clone();
    let all = [headers.all("Requires-Dist"), requires.clone()].concat();
    let runtime = ArchiveRuntime::of(path, &all, request.old_runtime)?;
    if let ArchiveRuntime::Raised { requires: raised } = &runtime {
        requires.extend(raised.iter().cloned());
    }
    Ok((requires, runtime))
}

impl From<(String, UnchangedReason)> for UnsplitFile {
    fn from((member, reason): (String, UnchangedReason)) -> UnsplitFile {
        UnsplitFile { member, reason: reason.to_string() }
    }
}

impl Plan {
    /// Estimates the archives of the libraries that have compressed bundles, from samples of their
    /// code.
    pub fn forecast(&self, packing: Packing, reporter: &dyn Reporter) -> Result<ArchiveForecast, Failure> {
        let parts = &self.parts;
        let zones = parts.zones.iter().zip(&self.code);
        let mut each = zones.map(|(zone, code)| forecast(code, &zone.units, packing, reporter));
        let sum = each.try_fold(ArchiveForecast::default(), |sum, one| Ok::<_, Failure>(sum.plus(one?)));
        sum.map_err(code_error(&parts.wheel))
    }

    pub(super) fn host_lines(&self, markers: Markers) -> Vec<(&'static str, String)> {
        metadata::host_lines(&self.extras, &self.version, &self.requires, markers)
    }

    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        let devices = self.devices.iter().map(|device| device.file_name.as_str());
        [self.host.as_str()].into_iter().chain(self.variant.as_deref()).chain(devices)
    }
}

fn check_request(request: &Request) -> Result<(), Failure> {
    if let Some(prefix) = &request.prefix {
        rocwheel_wheel::check_name(prefix)?;
    }
    request.requires.iter().chain(&request.host_requires).try_for_each(|text| metadata::check_requirement(text))?;
    if let Some(label) = &request.variant {
        variant::check_label(label)?;
    }
    if let Some(names) = &request.databases {
        DatabaseChoice::only(names.clone())?;
    }
    Ok(())
}

/// The parts of the names of all wheels of a set.
struct Naming<'a> {
    prefix: &'a str,
    group: &'a str,
    version: &'a str,
    distribution: &'a str,
}

fn no_gpu_code<'a>(path: &Path, left: impl Iterator<Item = &'a LeftAlone>) -> Failure {
    let reasons: String = left.map(|left| format!("; `{}`: {}", left.key, left.reason)).collect();
    let failure = Failure::message(format!("`{}` holds no GPU code that can be split off{reasons}", path.display()));
    if reasons.is_empty() { failure.with_hint("`rocwheel kernels` shows what GPU code a wheel holds") } else { failure }
}

fn wrong_root(wheel: &Wheel, root: &str, reason: &str) -> Failure {
    let wheel = wheel.path().display();
    Failure::message(format!("`{root}` cannot be the folder for the archives of `{wheel}`: {reason}"))
        .with_hint("give a package of the wheel, for example `torch/`, or remove `--overlay-root`")
}

/// Returns the folder for the archives of files in site-packages.
fn root(
    wheel: &Wheel,
    folders: &Folders,
    survey: &Survey,
    names: &Naming<'_>,
    given: Option<&str>,
) -> Result<String, Failure> {
    let files = wheel.members().iter().filter_map(|member| {
        let place = folders.place(&member.name);
        (place.scheme == Scheme::Site && !folders.is_info(&member.name)).then_some((place.path, member.size))
    });
    let files: Vec<(String, u64)> = files.collect();
    if let Some(given) = given {
        let root = given.trim_end_matches('/');
        if rocwheel_archive::check_member_name(root).is_err() {
            return Err(wrong_root(wheel, given, "it is not a relative path inside of site-packages"));
        }
        if !files.iter().any(|(path, _)| path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))) {
            return Err(wrong_root(wheel, given, "the wheel has no such folder"));
        }
        return Ok(root.to_owned());
    }
    let code = survey.binaries.iter().filter(|binary| binary.place.scheme == Scheme::Site);
    let code = code.map(|binary| (binary.place.path.as_str(), binary.section));
    let files = files.iter().map(|(path, size)| (path.as_str(), *size));
    Ok(install_paths::home(code, files, &format!("{}_device", names.group)))
}

/// Groups files with GPU code by the folder of their archives, and lists those that have to stay
/// unchanged.
fn zones(binaries: &[Binary], root: &str, group: &str) -> (Vec<Zone>, Vec<UnsplitFile>) {
    let folders = [(Scheme::Site, format!("{root}/{ARCHIVES}")), (Scheme::Data, format!("share/{group}/{ARCHIVES}"))];
    let zones = folders.into_iter().map(|(scheme, archives)| {
        let of_zone = binaries.iter().filter(|binary| binary.place.scheme == scheme);
        let units = of_zone.map(|binary| {
            let content: Arc<dyn rocwheel_content::Content> = Arc::clone(&binary.content);
            CandidateFile::new(binary.member.clone(), content, &binary.place.path, &archives)
        });
        Zone { scheme, units: units.collect(), archives: archives.clone() }
    });
    let kept = binaries.iter().filter(|binary| binary.place.scheme == Scheme::Elsewhere).map(|binary| UnsplitFile {
        member: binary.member.clone(),
        reason: "installers put it where no fixed path leads to archives".to_owned(),
    });
    (zones.filter(|zone| !zone.units.is_empty()).collect(), kept.collect())
}

/// Returns database files with the package that gets them, and the dropped targets of databases and
/// code.
fn databases(
    files: Vec<DatabaseFile>,
    selection: &TargetSelection,
    code: &[crate::Plan],
) -> (Vec<(Option<String>, DatabaseFile)>, Vec<DroppedTarget>) {
    let mut dropped: BTreeMap<String, u64> = BTreeMap::new();
    let in_code = code.iter().flat_map(|plan| &plan.targets).filter(|target| !selection.takes(target));
    dropped.extend(in_code.map(|target| (target.clone(), 0)));
    let mut planned = Vec::with_capacity(files.len());
    for file in files {
        let wanted = selection.takes(&file.target);
        if !wanted {
            *dropped.entry(file.target.clone()).or_default() += 1;
        }
        planned.push((wanted.then(|| DevicePackages::embedded().key(&file.target)), file));
    }
    let mut dropped: Vec<DroppedTarget> =
        dropped.into_iter().map(|(target, database_files)| DroppedTarget { target, database_files }).collect();
    dropped.sort_by(|left, right| target::compare(&left.target, &right.target));
    (planned, dropped)
}

type Sources<'a> = (&'a [Zone], &'a [crate::Plan], &'a [(Option<String>, DatabaseFile)]);

fn devices(
    names: &Naming<'_>,
    wheel: &Wheel,
    (zones, code, databases): Sources<'_>,
    root: &str,
    request: &Request,
) -> Result<Vec<Device>, Failure> {
    let families = DevicePackages::embedded();
    let of_input = Folders::new(wheel.info());
    let mut keys: BTreeSet<String> = databases.iter().filter_map(|(key, _)| key.clone()).collect();
    keys.extend(code.iter().flat_map(|plan| &plan.archives).map(|archive| families.key(archive.base_target())));
    let mut devices = Vec::with_capacity(keys.len());
    for key in &keys {
        let distribution = device_packages::distribution(names.prefix, key);
        rocwheel_wheel::check_name(&distribution)?;
        let name = WheelName {
            distribution: rocwheel_wheel::file_name_part(&distribution),
            version: names.version.to_owned(),
            ..wheel.name.clone()
        };
        let folders = Folders::new(&format!("{}.dist-info", name.stem()));
        let mut files = Vec::new();
        let mut held = Vec::new();
        for (plan_index, (zone, plan)) in zones.iter().zip(code).enumerate() {
            for (index, archive) in plan.archives.iter().enumerate() {
                if families.key(archive.base_target()) != *key {
                    continue;
                }
                held.extend(archive.targets.iter().cloned());
                files.push(DeviceFile {
                    path: folders.member(zone.scheme, &format!("{}/{}", zone.archives, archive.name)),
                    bytes: archive.bytes,
                    database: None,
                    code_objects: archive.code_objects,
                    archive: Some((plan_index, index)),
                });
            }
        }
        for (_, file) in databases.iter().filter(|(owner, _)| owner.as_ref() == Some(key)) {
            let path = of_input.renamed(&folders, &file.member);
            let database = Some(file.database.clone());
            files.push(DeviceFile { path, bytes: file.size, database, code_objects: 0, archive: None });
        }
        target::sort(&mut held);
        let mut requires = vec![format!("{} == {}", names.distribution, names.version)];
        requires.extend(metadata::from_templates(&request.requires, key));
        let wider = families.chain(key).into_iter().skip(1).filter(|wider| keys.contains(wider));
        requires.extend(
            wider.map(|wider| format!("{} == {}", device_packages::distribution(names.prefix, &wider), names.version)),
        );
        devices.push(Device {
            level: families.level(key),
            module: format!("{root}/_{}_device_{}.py", names.group, device_packages::identifier(key)),
            file_name: name.to_string(),
            key: key.clone(),
            targets: held,
            distribution,
            requires,
            files,
            name,
        });
    }
    devices.sort_by(|left, right| families.compare(&left.key, &right.key));
    Ok(devices)
}

fn check_extras(wheel: &Wheel, headers: &Headers, extras: &[DeviceExtra]) -> Result<(), Failure> {
    let there = headers.all("Provides-Extra");
    let there: BTreeSet<String> = there.iter().map(|extra| rocwheel_wheel::canonical_name(extra)).collect();
    match extras.iter().find(|extra| there.contains(&extra.name)) {
        Some(extra) => {
            let (wheel, extra) = (wheel.path().display(), &extra.name);
            let failure = Failure::message(format!("`{wheel}` has an extra `{extra}` already"));
            Err(failure.with_hint("the wheel looks like one that was split before"))
        }
        None => Ok(()),
    }
}

/// Refuses equal file names: two targets may be normalised to one name, and a prefix may give a
/// device wheel the host's name.
fn check_names(path: &Path, devices: &[Device]) -> Result<(), Failure> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let host = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    seen.insert(host, "the host wheel".to_owned());
    for device in devices {
        let what = format!("code for {}", device.key);
        if let Some(first) = seen.insert(device.file_name.clone(), what.clone()) {
            let name = &device.file_name;
            let failure = Failure::message(format!("`{first}` and `{what}` would both be written to `{name}`"));
            return Err(failure.with_hint(
                "split the wheels one by one into different folders, or give each its own `--device-prefix`",
            ));
        }
    }
    Ok(())
}
