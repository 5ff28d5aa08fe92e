//! Input: a [`Plan`]. Output: its wheels in the output folder, all of them or none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rocwheel_archive::{WriteOptions, Written};
use rocwheel_content::{Content, FileContent};
use rocwheel_elf::PatchedContent;
use rocwheel_output::{Staged, StagedFile, StagingFolder};
use rocwheel_progress::{Exit, Failure, Interrupted, Reporter, Unit as Counted};
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{Member, Rewrite};
use serde::Serialize;

use super::metadata::{self, Markers};
use super::survey::code_error;
use super::{Device, Plan, Request, check, place_error, variant};
use crate::SplitParts;
use crate::verify::{Difference, Verification, VerificationReport};

/// The Python module of a device wheel, with placeholders.
const MODULE: &str = include_str!("../../../../../python/device-code/_device.py");

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SplitWheelKind {
    /// The input without GPU code.
    Host,
    /// The host wheel as a wheel variant.
    Variant,
    /// A wheel with GPU code.
    Device,
}

#[derive(Debug, Clone, Serialize)]
pub struct SplitWheel {
    pub kind: SplitWheelKind,
    /// The package of a device wheel: a target or family.
    pub key: Option<String>,
    pub path: PathBuf,
    /// Number of members.
    pub files: u64,
    /// Bytes of all members, uncompressed.
    pub raw: u64,
    /// Size of the file in bytes.
    pub compressed: u64,
    /// SHA-256 digest of the file, hexadecimal.
    pub sha256: String,
}

/// The sizes of GPU code that the input compresses for all targets together.
///
/// Code for one target resembles that for the previous one, and a compressor that sees all of it
/// makes use of that. Archives, which are compressed one code object at a time, cannot (kpack
/// specification 8, B20).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SizeGrowth {
    /// Bytes of the compressed bundles in the input.
    pub before: u64,
    /// Bytes of all archives.
    pub after: u64,
    /// Bytes of the archives of the target that needs most.
    pub largest: u64,
}

#[derive(Debug, Serialize)]
pub struct SplitWheelsReport {
    /// The host wheel, the variant, then the device wheels in the order of the plan.
    pub wheels: Vec<SplitWheel>,
    /// Set if compressed GPU code takes more space than before.
    pub growth: Option<SizeGrowth>,
    /// Result of the comparison with the input; `None` if it was skipped.
    pub verification: Option<VerificationReport>,
}

/// Writes the wheels of a plan into the folder `output`, which is created if needed. They stay in a
/// separate folder below it until the last one is complete and verified. Existing wheels of the
/// same names are replaced.
///
/// # Errors
/// Failures to read or write, an interruption, a verification that fails. The output is unchanged
/// then.
pub fn execute(
    plan: &Plan,
    request: &Request,
    output: &Path,
    reporter: &dyn Reporter,
) -> Result<SplitWheelsReport, Failure> {
    Ok(prepare(plan, request, output, reporter)?.commit()?)
}

/// Like [`execute`] without the last step, so that the wheels of several plans can be moved to the
/// output together.
pub fn prepare(
    plan: &Plan,
    request: &Request,
    output: &Path,
    reporter: &dyn Reporter,
) -> Result<Staged<SplitWheelsReport>, Failure> {
    let input = &plan.input;
    let folder = input.parent().and_then(|folder| rocwheel_system::canonicalize(folder_or_here(folder)).ok());
    if folder.is_some() && rocwheel_system::canonicalize(output).ok() == folder {
        let (input, output) = (input.display(), output.display());
        let text = format!("the host wheel of `{input}` has the same name, so it cannot be written to `{output}`");
        let failure = Failure::message(text).with_exit(Exit::Usage);
        return Err(failure.with_hint("choose another folder with `--output`, or move the wheel"));
    }
    let staging =
        StagingFolder::for_results(output, ".rocwheel-split-").map_err(place_error("make the folder", output))?;
    let job = Job { plan, request, staging: &staging, reporter };
    let (wheels, growth) = job.write()?;
    let verification = match request.verification {
        Verification::Skip => None,
        Verification::Full => {
            let (folder, variant) = (job.folder("wheels"), job.folder("variant"));
            let report = check::check(plan, &folder, &variant, request.packing.memory, reporter)?;
            if !report.is_clean() {
                return Err(not_split(input, &report.differences));
            }
            Some(report)
        }
    };
    let in_the_way = wheels.iter().map(|wheel| output.join(&wheel.name)).find(|place| place.is_dir());
    if let Some(path) = in_the_way {
        let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
        return Err(place_error("move a finished wheel to", &path)(error));
    }
    let mut files = Vec::with_capacity(wheels.len());
    let outputs = wheels.into_iter().map(|wheel| {
        let place = output.join(&wheel.name);
        files.push((wheel.kind, StagedFile { staged: wheel.written.path.clone(), place: place.clone() }));
        wheel.finished(place)
    });
    let outcome = SplitWheelsReport { wheels: outputs.collect(), growth, verification };
    let staged = Staged::new(staging, outcome);
    Ok(files.into_iter().fold(staged, |staged, (kind, file)| match kind {
        // A variant repeats the host for another installer, so the two are never installed
        // together.
        SplitWheelKind::Variant => staged.with_moved(file),
        SplitWheelKind::Host | SplitWheelKind::Device => staged.with_file(file),
    }))
}

fn folder_or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

struct StagedWheel {
    kind: SplitWheelKind,
    key: Option<String>,
    /// Its final file name.
    name: String,
    written: Written,
}

impl StagedWheel {
    fn finished(self, path: PathBuf) -> SplitWheel {
        let Written { files, raw, compressed, sha256, .. } = self.written;
        let sha256 = sha256.unwrap_or_default();
        SplitWheel { kind: self.kind, key: self.key, path, files, raw, compressed, sha256 }
    }
}

struct Job<'a> {
    plan: &'a Plan,
    request: &'a Request,
    staging: &'a StagingFolder,
    reporter: &'a dyn Reporter,
}

/// Number of differences in a message; [`Failure::rows`] has all of them.
const LISTED: usize = 20;

/// The written wheels together do not hold the contents of the input. They are removed.
fn not_split(input: &Path, differences: &[Difference]) -> Failure {
    let mut lines: String = differences.iter().take(LISTED).map(|found| format!("\n  {found}")).collect();
    if differences.len() > LISTED {
        lines += &format!("\n  and {} more", differences.len() - LISTED);
    }
    Failure::message(format!("the parts of `{}` are not what it was: {lines}", input.display()))
        .with_hint("this should not happen: please report it with the name of the wheel; nothing was written")
        .with_rows(differences.iter().map(ToString::to_string).collect())
}

impl Job<'_> {
    fn folder(&self, name: &str) -> PathBuf {
        self.staging.path().join(name)
    }

    fn make_folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.folder(name);
        fs_err::create_dir_all(&path).map_err(place_error("make the folder", &path))?;
        Ok(path)
    }

    fn options(&self) -> WriteOptions {
        WriteOptions {
            level: self.request.level,
            epoch: self.request.epoch,
            reuse: self.request.reuse.clone(),
            ..WriteOptions::default()
        }
    }

    /// Checks the CRC-32 of members that are copied compressed. The survey has unpacked the
    /// programs already.
    fn check_copies(&self) -> Result<(), Failure> {
        let parts = &self.plan.parts;
        let members =
            parts.wheel.members().iter().filter(|member| member.kind != rocwheel_archive::MemberKind::Directory);
        let copied = members.map(|member| member.name.as_str()).filter(|name| !parts.programs.is_known(name));
        Ok(parts.wheel.check_members(copied, self.reporter)?)
    }

    fn write(&self) -> Result<(Vec<StagedWheel>, Option<SizeGrowth>), Failure> {
        let parts = &self.plan.parts;
        self.check_copies()?;
        let mut done: Vec<SplitParts> = Vec::new();
        for (index, (zone, code)) in parts.zones.iter().zip(&self.plan.code).enumerate() {
            let folder = self.folder(&format!("archives{index}"));
            let place = |archive: &crate::PlannedKpack| folder.join(&archive.name);
            let made = crate::execute(code, &zone.units, self.request.packing, &place, self.reporter);
            done.push(made.map_err(code_error(&parts.wheel))?);
        }
        let growth = growth(self.plan, &done);
        let wheels = self.make_folder("wheels")?;
        let mut staged = vec![self.host(&done, &wheels)?];
        if let Some(label) = &parts.label {
            staged.push(self.variant(label, &staged[0].written.path)?);
        }
        let stage = self.reporter.stage("Writing device wheels", Some(self.plan.devices.len() as u64), Counted::Items);
        let devices: Result<Vec<StagedWheel>, Failure> =
            self.plan.devices.iter().map(|device| self.device(device, &done, &wheels)).collect();
        drop(stage);
        staged.extend(devices?);
        Ok((staged, growth))
    }

    /// Writes the host wheel: the input with patched libraries, without databases for some targets,
    /// and with more headers in METADATA.
    fn host(&self, done: &[SplitParts], folder: &Path) -> Result<StagedWheel, Failure> {
        let parts = &self.plan.parts;
        let mut replace: BTreeMap<String, Box<dyn Content>> = BTreeMap::new();
        for (zone, done) in parts.zones.iter().zip(done) {
            for host in &done.hosts {
                let unit = zone.units.iter().find(|unit| unit.key == host.key);
                let original = &unit.expect("the engine names files as they were given").content;
                replace.insert(host.key.clone(), Box::new(PatchedContent::new(original.clone(), host.patch.clone())));
            }
        }
        let drop = parts.databases.iter().map(|(_, file)| file.member.clone()).collect();
        let lines = self.plan.host_lines(Markers::Extras);
        let metadata = Some(metadata::host_text(&parts.headers, &lines)?);
        let rewrite = Rewrite { drop, replace, metadata, ..Rewrite::default() };
        let written = rocwheel_wheel::rewrite(&parts.wheel, &rewrite, folder, &self.options(), self.reporter)?;
        Ok(StagedWheel { kind: SplitWheelKind::Host, key: None, name: self.plan.host.clone(), written })
    }

    /// Writes the variant: the host wheel, whose members are compressed already, with other
    /// requirements.
    fn variant(&self, label: &str, host: &Path) -> Result<StagedWheel, Failure> {
        let parts = &self.plan.parts;
        let host = Wheel::open(host)?;
        let lines = self.plan.host_lines(Markers::Variant);
        let targets = self.plan.extras.iter().filter_map(|extra| extra.target.as_deref());
        let document = variant::document(label, targets);
        let rewrite = Rewrite {
            add: vec![Member::new(format!("{}/variant.json", parts.folders.info), document.into_bytes())],
            metadata: Some(metadata::host_text(&parts.headers, &lines)?),
            ..Rewrite::default()
        };
        let written =
            rocwheel_wheel::rewrite(&host, &rewrite, &self.make_folder("variant")?, &self.options(), self.reporter)?;
        Ok(StagedWheel {
            kind: SplitWheelKind::Variant,
            key: None,
            name: variant::file_name(&self.plan.host, label),
            written,
        })
    }

    /// Writes a device wheel: the input reduced to its licences and the databases of this package,
    /// plus archives and a module. So database files are copied without recompression.
    fn device(&self, device: &Device, done: &[SplitParts], folder: &Path) -> Result<StagedWheel, Failure> {
        if self.reporter.interrupted() {
            return Err(code_error(&self.plan.parts.wheel)(Interrupted));
        }
        let parts = &self.plan.parts;
        let info = format!("{}.dist-info", device.name.stem());
        let databases = parts.databases.iter().filter(|(key, _)| key.as_ref() == Some(&device.key));
        let mut stay: BTreeSet<String> = databases.map(|(_, file)| file.member.clone()).collect();
        let license_folder = format!("{}/licenses/", parts.folders.info);
        let mut licenses = Vec::new();
        for member in parts.wheel.members() {
            let Some(name) = member.name.strip_prefix(&license_folder) else { continue };
            if member.kind == rocwheel_archive::MemberKind::File {
                licenses.push(name.to_owned());
                stay.insert(member.name.clone());
            }
        }
        licenses.sort();
        stay.extend(["METADATA", "WHEEL", "RECORD"].map(|file| format!("{}/{file}", parts.folders.info)));
        let members = parts.wheel.members().iter().map(|member| member.name.clone());
        let drop: BTreeSet<String> = members.filter(|name| !stay.contains(name)).collect();

        let mut add = vec![Member::new(device.module.clone(), module(self.plan, device).into_bytes())];
        for file in &device.files {
            let Some((plan, archive)) = file.archive else { continue };
            let written = &done[plan].archives[archive];
            let content = FileContent { path: written.path.clone(), size: written.size };
            add.push(Member::new(file.path.clone(), content));
        }
        let installed = device.files.iter().map(|file| file.path.as_str()).chain([device.module.as_str()]);
        let top_level = rocwheel_wheel::top_level(installed);
        if !top_level.is_empty() {
            add.push(Member::new(format!("{info}/top_level.txt"), top_level.into_bytes()));
        }
        let text = metadata::Device {
            distribution: &device.distribution,
            version: &self.plan.version,
            summary: summary(self.plan, device),
            description: description(self.plan, device),
            requires: &device.requires,
            licenses: &licenses,
        };
        let rewrite = Rewrite {
            drop,
            add,
            metadata: Some(metadata::device_text(&parts.headers, &text)?),
            wheel: Some(metadata::wheel_text(&device.name)),
            name: Some(device.name.clone()),
            ..Rewrite::default()
        };
        let quiet = WithoutWarnings(self.reporter);
        let written = rocwheel_wheel::rewrite(&parts.wheel, &rewrite, folder, &self.options(), &quiet)?;
        self.reporter.advance(1);
        Ok(StagedWheel {
            kind: SplitWheelKind::Device,
            key: Some(device.key.clone()),
            name: device.file_name.clone(),
            written,
        })
    }
}

/// Returns the summary of a device wheel, one line.
fn summary(plan: &Plan, device: &Device) -> String {
    let table = rocwheel_tables::TargetTable::embedded();
    let product = table.product(&device.key).map(|product| format!(", {product}")).unwrap_or_default();
    format!("AMD device kernels ({}{product}) for {}", device.key, plan.distribution)
}

/// Returns the description of a device wheel, which an index displays.
fn description(plan: &Plan, device: &Device) -> String {
    let host = &plan.distribution;
    let extra = plan.extras.iter().find(|extra| extra.distributions.contains(&device.distribution));
    let extra = extra.map_or("device-all", |extra| extra.name.as_str());
    format!(
        "The part of {host} {} that runs on AMD GPUs of the kind {}. It is of no use alone; `pip install \"{host}[{extra}]\"` \
         installs both.",
        plan.version, device.key
    )
}

fn module(plan: &Plan, device: &Device) -> String {
    let base = format!("{}/", plan.root);
    let archives = device.files.iter().filter(|file| file.archive.is_some());
    let archives: Vec<&str> = archives.filter_map(|file| file.path.strip_prefix(&base)).collect();
    let targets: Vec<&str> = device.targets.iter().map(String::as_str).collect();
    MODULE
        .replace("@HOST@", &plan.distribution)
        .replace("@DISTRIBUTION@", &text(&device.distribution))
        .replace("@VERSION@", &text(&plan.version))
        .replace("@TARGETS@", &tuple(&targets))
        .replace("@ARCHIVES@", &tuple(&archives))
}

fn text(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

fn tuple(values: &[&str]) -> String {
    match values {
        [] => "()".to_owned(),
        [one] => format!("({},)", text(one)),
        several => format!("({})", several.iter().map(|value| text(value)).collect::<Vec<_>>().join(", ")),
    }
}

/// Sums up code that was compressed in the input.
fn growth(plan: &Plan, done: &[SplitParts]) -> Option<SizeGrowth> {
    let compressed = plan.code.iter().flat_map(|code| &code.binaries).any(|binary| {
        let mut bundles = binary.bundles.iter().filter(|bundle| bundle.code_objects > 0);
        bundles.any(|bundle| bundle.compressed)
    });
    let after = done.iter().flat_map(|done| &done.archives).map(|archive| archive.size).sum();
    let before = plan.parts.sections;
    let sizes = plan.devices.iter().map(|device| -> u64 {
        let archives = device.files.iter().filter_map(|file| file.archive);
        archives.map(|(plan, archive)| done[plan].archives[archive].size).sum()
    });
    let largest = sizes.max().unwrap_or_default();
    (compressed && after > before).then_some(SizeGrowth { before, after, largest })
}

/// Discards warnings: every device wheel is made from the same input, whose oddities were reported
/// with the host wheel.
struct WithoutWarnings<'a>(&'a dyn Reporter);

impl Reporter for WithoutWarnings<'_> {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Counted) {}
    fn advance(&self, _amount: u64) {}
    fn end(&self) {}
    fn warn(&self, _message: &str) {}
    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}
