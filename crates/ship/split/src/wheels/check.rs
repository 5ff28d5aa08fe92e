//! Input: the plan of a split and the folder of its wheels. Output: the differences from the input.
//!
//! All wheels are opened again. Programs with GPU code are passed to [`verify`], which looks code
//! objects up as the runtime does. Other members must be copies; unexpected members must not exist;
//! RECORD must be correct, and no two wheels of the set may own one file.
//!
//! Everything that was written is read from the disk, and unpacked unless it is a copy of
//! compressed bytes. Of the input, the unpacked libraries that the plan was made from are read:
//! their CRC-32 was compared, and nothing writes to them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_archive::{Listed, MemberKind};
use rocwheel_content::{Content, Spool};
use rocwheel_kpack::bundle::Checksum;
use rocwheel_progress::{Failure, Interrupted, Reporter};
use rocwheel_tables::Databases;
use rocwheel_tables::device_packages::{self, DevicePackages};
use rocwheel_wheel::read::{Known, MemberContent, Wheel};
use rocwheel_wheel::{Headers, RecordRow, WheelName};

use super::install_paths::{Folders, Place, Scheme};
use super::metadata::{self, Markers};
use super::selection::selection_of;
use super::survey::{Programs, code_error, is_program};
use super::{Plan, place_error};
use crate::TargetSelection;
use crate::verify::{Checks, Difference, Item, VerificationReport, View, verify};

/// Compares the wheels in `folder`, and the variant in a separate folder, with the input.
pub(super) fn check(
    plan: &Plan,
    folder: &Path,
    variant: &Path,
    memory: u64,
    reporter: &dyn Reporter,
) -> Result<VerificationReport, Failure> {
    // The plan's own wheel is not used: the input is read again.
    let input = Side::open(&plan.input)?;
    let host = Side::open(&folder.join(&plan.host))?;
    let devices: Vec<Side> =
        plan.devices.iter().map(|device| Side::open(&folder.join(&device.file_name))).collect::<Result<_, _>>()?;
    let variant = match &plan.variant {
        Some(_) => Some(Side::open(&variant.join(&plan.host))?),
        None => None,
    };
    let set = Set {
        input: &input,
        host: &host,
        variant: variant.as_ref(),
        devices: &devices,
        selection: &plan.parts.selection,
        programs: &plan.parts.programs,
        memory,
    };
    let mut report = set.check(folder, reporter)?;
    report.differences.extend(metadata_of_host(plan, &input, &host)?);
    let moved = plan.parts.databases.iter().map(|(_, file)| file.member.as_str());
    let still = moved.filter(|member| host.wheel.member(member).is_some());
    report.differences.extend(still.map(|member| Difference::new(member, "is still in the host wheel")));
    Ok(report)
}

/// Compares a wheel with the folder of its parts: the host wheel, which has the same file name, and
/// the device wheels, which are those that require the host in its version. `targets` has the same
/// form as for the split.
///
/// # Errors
/// Wheels that cannot be read, and a folder without the host wheel. Defects of the parts are in the
/// report.
pub fn verify_parts(
    before: &Path,
    after: &Path,
    targets: Option<&str>,
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Result<VerificationReport, Failure> {
    let input = Side::open(before)?;
    let host = Side::open(&after.join(before.file_name().unwrap_or_default()))?;
    let headers = Headers::parse(&host.wheel.metadata()?);
    let (name, version) = metadata::identity(&host.wheel, &headers)?;
    let pin = format!("{name} == {version}");
    let listed = fs_err::read_dir(after);
    let listed = listed.map_err(place_error("list", after))?;
    let mut paths: Vec<_> = listed.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut devices = Vec::new();
    for path in paths.iter().filter(|path| WheelName::is_wheel(path)) {
        // Variants have a label in their names, so they do not parse as wheel names.
        let Ok(side) = Side::open(path) else { continue };
        let required = Headers::parse(&side.wheel.metadata()?).all("Requires-Dist");
        if required.contains(&pin) && side.wheel.name.tags() == host.wheel.name.tags() {
            devices.push(side);
        }
    }
    let selection = selection_of(&input.wheel, targets, scratch, reporter)?;
    let (selection, programs) = (&selection, &Programs::default());
    let memory = crate::default_memory();
    let set = Set { input: &input, host: &host, variant: None, devices: &devices, selection, programs, memory };
    let mut report = set.check(scratch, reporter)?;
    report.differences.extend(extended(&input, &host)?);
    Ok(report)
}

/// A wheel and its parts.
struct Set<'a> {
    input: &'a Side,
    host: &'a Side,
    variant: Option<&'a Side>,
    devices: &'a [Side],
    selection: &'a TargetSelection,
    programs: &'a Programs,
    /// As in [`crate::Packing::memory`].
    memory: u64,
}

/// The files that [`verify`] compares, and the findings about the other members.
#[derive(Default)]
struct Gathered {
    before: View,
    after: View,
    found: Vec<Difference>,
    copies: u64,
    /// Members of the parts that have the compressed bytes of a member of the input: path of the
    /// part and name in it → name in the input.
    same: BTreeMap<(PathBuf, String), String>,
}

impl Set<'_> {
    fn check(&self, scratch: &Path, reporter: &dyn Reporter) -> Result<VerificationReport, Failure> {
        let spool = Spool::new(scratch);
        let gathered = self.gather(&spool)?;
        // The CRC of the wheel was compared, so the bundles are unchanged since they were packed.
        // Their own checksums, which the runtime does not read, are irrelevant for the split.
        let (selection, memory) = (self.selection, self.memory);
        let checks = Checks { selection, checksum: Checksum::Skip, memory, ..Checks::default() };
        let (report, records) = rayon::join(
            || verify(&gathered.before, &gathered.after, &checks, reporter),
            || self.records(&gathered, reporter),
        );
        let mut report = report.map_err(code_error(&self.input.wheel))?;
        report.others += gathered.copies;
        report.differences.extend(gathered.found);
        report.differences.extend(records?);
        report.differences.extend(owners(self.host, self.devices));
        Ok(report)
    }

    fn gather(&self, spool: &Spool) -> Result<Gathered, Failure> {
        let mut gathered = Gathered::default();
        for member in self.input.files() {
            if self.host.wheel.member(&member.name).is_none() {
                self.moved(member, &mut gathered)?;
            } else if self.is_fat(member)? {
                let content = match self.programs.fat.get(&member.name) {
                    Some(content) => Arc::clone(content),
                    None => Arc::new(MemberContent::spooled(&self.input.wheel, &member.name, spool)?),
                };
                let item = Item::File { content, executable: member.executable };
                gathered.before.insert(view_path(&self.input.folders.place(&member.name)), item);
            } else {
                self.copied(member, (self.host, &member.name), &mut gathered)?;
            }
        }
        for member in self.host.files() {
            let original = self.input.wheel.member(&member.name);
            if original.is_none() {
                gathered.found.push(Difference::new(&*member.name, "was not there before"));
            }
            let is_fat = match original {
                Some(original) => self.is_fat(original)?,
                None => is_program(&self.host.wheel, member)?,
            };
            if is_fat {
                let item = item(self.host, member, spool)?;
                gathered.after.insert(view_path(&self.host.folders.place(&member.name)), item);
            }
        }
        for side in self.devices {
            for member in side.files() {
                let place = side.folders.place(&member.name);
                if has_extension(&member.name, "kpack") {
                    gathered.after.insert(view_path(&place), item(side, member, spool)?);
                } else if !is_module(&member.name)
                    && self.input.wheel.member(&side.folders.renamed(&self.input.folders, &member.name)).is_none()
                {
                    gathered.found.push(about(&side.file_name(), &member.name, "was not there before"));
                }
            }
        }
        Ok(gathered)
    }

    /// `true` if a member of the input has GPU code, or is a program that was not examined and may
    /// have some.
    fn is_fat(&self, member: &Listed) -> Result<bool, Failure> {
        Ok(self.programs.fat.contains_key(&member.name)
            || (!self.programs.plain.contains(&member.name) && is_program(&self.input.wheel, member)?))
    }

    /// Checks a member that is not in the host wheel. It must be a file of a kernel database for a
    /// target, with a copy in the wheel of that target's package. If the target is not selected, no
    /// wheel may have it.
    fn moved(&self, member: &Listed, gathered: &mut Gathered) -> Result<(), Failure> {
        let place = self.input.folders.place(&member.name);
        let Some(target) = Databases::embedded().classify(&place.path).and_then(|database| database.target) else {
            gathered.found.push(Difference::new(&*member.name, "is gone"));
            return Ok(());
        };
        let package = device_packages::distribution("", &DevicePackages::embedded().key(&target));
        let mut holders = self.devices.iter().filter_map(|side| {
            let name = self.input.folders.renamed(&side.folders, &member.name);
            side.wheel.member(&name).is_some().then_some((side, name))
        });
        match (holders.next(), self.selection.takes(&target)) {
            (None, false) => {}
            (None, true) => gathered.found.push(Difference::new(&*member.name, "is gone").target(target)),
            (Some((side, _)), false) => {
                gathered.found.push(about(&side.file_name(), &member.name, "is for a target that is not wanted"));
            }
            (Some((side, name)), true) => {
                let distribution = side.wheel.name.distribution.replace('_', "-");
                if !distribution.ends_with(&package) {
                    gathered.found.push(about(&side.file_name(), &name, "is for another package").target(target));
                }
                self.copied(member, (side, &name), gathered)?;
            }
        }
        Ok(())
    }

    fn copied(&self, member: &Listed, (side, name): (&Side, &str), gathered: &mut Gathered) -> Result<(), Failure> {
        let Some(copy) = side.wheel.member(name) else { return Ok(()) };
        if copy.mode != member.mode || copy.kind != member.kind {
            gathered.found.push(Difference::new(&*member.name, "has another mode"));
        }
        gathered.copies += 1;
        if self.input.wheel.is_copy(&member.name, &side.wheel, name)? {
            let place = (side.wheel.path().to_owned(), name.to_owned());
            gathered.same.insert(place, member.name.clone());
        } else if member.size != copy.size || !self.same_bytes(member, (side, name))? {
            gathered.found.push(Difference::new(&*member.name, "is not what it was"));
        }
        Ok(())
    }

    /// `true` if two members have equal bytes: another tool may have compressed them in another
    /// way.
    fn same_bytes(&self, member: &Listed, (side, name): (&Side, &str)) -> Result<bool, Failure> {
        let folder = side.wheel.path().parent().unwrap_or(Path::new("."));
        let before = MemberContent::new(&self.input.wheel, &member.name, folder)?;
        let after = MemberContent::new(&side.wheel, name, folder)?;
        let differs = crate::verify::first_difference(&member.name, &before, &after);
        Ok(differs.map_err(code_error(&self.input.wheel))?.is_none())
    }

    /// Finds errors in RECORD of the written wheels that the input did not have.
    ///
    /// A copy of compressed bytes with the hash in the input's RECORD is as correct as the input;
    /// libraries that changed are hashed from their unpacked files.
    fn records(&self, gathered: &Gathered, reporter: &dyn Reporter) -> Result<Vec<Difference>, Failure> {
        let rows = self.input.wheel.record().unwrap_or_default();
        let rows: BTreeMap<&str, &RecordRow> = rows.iter().map(|row| (row.path.as_str(), row)).collect();
        let mut known_problems = None;
        let mut found = Vec::new();
        let all = [Some(self.host), self.variant].into_iter().flatten().chain(self.devices);
        for side in all {
            if reporter.interrupted() {
                return Err(code_error(&self.input.wheel)(Interrupted));
            }
            let is_host = std::ptr::eq(side, self.host);
            let problems = side.wheel.verify_with(&|member: &Listed, row: &RecordRow| {
                let place = (side.wheel.path().to_owned(), member.name.clone());
                let original = gathered.same.get(&place).and_then(|name| rows.get(name.as_str()));
                if original.is_some_and(|original| original.hash == row.hash) {
                    return Known::Copy;
                }
                let unpacked = is_host.then(|| gathered.after.file(&view_path(&side.folders.place(&member.name))));
                let reader = unpacked.flatten().and_then(|content| content.open().ok());
                reader.map_or(Known::Nothing, Known::Bytes)
            })?;
            let mut problems: BTreeSet<String> = problems.iter().map(ToString::to_string).collect();
            let is_device = self.devices.iter().any(|device| std::ptr::eq(device, side));
            if !problems.is_empty() && !is_device && self.input.wheel.record().is_ok() {
                if known_problems.is_none() {
                    known_problems = Some(self.input.wheel.verify()?);
                }
                for known in known_problems.iter().flatten() {
                    problems.remove(&known.to_string());
                }
            }
            found.extend(problems.into_iter().map(|problem| Difference::new(side.file_name(), problem)));
        }
        Ok(found)
    }
}

/// `true` if a member of a device wheel is its Python module.
fn is_module(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.starts_with('_') && file.contains("_device_") && has_extension(file, "py")
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

/// An open wheel and its folders.
struct Side {
    wheel: Arc<Wheel>,
    folders: Folders,
}

impl Side {
    fn open(path: &Path) -> Result<Side, Failure> {
        let wheel = Arc::new(Wheel::open(path)?);
        let folders = Folders::new(wheel.info());
        Ok(Side { wheel, folders })
    }

    /// Returns the members outside of `.dist-info`.
    fn files(&self) -> impl Iterator<Item = &Listed> {
        let members = self.wheel.members().iter();
        members.filter(|member| member.kind != MemberKind::Directory && !self.folders.is_info(&member.name))
    }

    fn file_name(&self) -> String {
        self.wheel.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Returns the path of a member in the tree that is checked. Installation schemes are kept apart,
/// because no relative path leads from one to the other.
fn view_path(place: &Place) -> String {
    match place.scheme {
        Scheme::Site => place.path.clone(),
        Scheme::Data => format!("{{data}}/{}", place.path),
        Scheme::Elsewhere => format!("{{elsewhere}}/{}", place.path),
    }
}

fn item(side: &Side, member: &Listed, spool: &Spool) -> Result<Item, Failure> {
    let content = Arc::new(MemberContent::spooled(&side.wheel, &member.name, spool)?);
    Ok(Item::File { content, executable: member.executable })
}

fn about(wheel: &str, member: &str, what: &str) -> Difference {
    Difference::new(format!("{wheel}: {member}"), what)
}

/// Finds files that two wheels would install. Upper and lower case count as equal, because they do
/// on Windows.
fn owners(host: &Side, devices: &[Side]) -> Vec<Difference> {
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    for side in [host].into_iter().chain(devices) {
        let installed = side.wheel.members().iter().filter(|member| member.kind != MemberKind::Directory);
        for member in installed {
            let path = view_path(&side.folders.place(&member.name));
            if let Some(other) = owners.insert(path.to_lowercase(), side.file_name()) {
                found.push(about(&side.file_name(), &member.name, &format!("is in `{other}` too")));
            }
        }
    }
    found
}

/// Checks METADATA of the host wheel: it must be the input's with the planned lines, nothing else.
fn metadata_of_host(plan: &Plan, input: &Side, host: &Side) -> Result<Vec<Difference>, Failure> {
    let mut found = Vec::new();
    let before = Headers::parse(&input.wheel.metadata()?);
    let expected = metadata::host_text(&before, &plan.host_lines(Markers::Extras))?;
    if host.wheel.metadata()? != expected {
        found.push(about(&host.file_name(), "METADATA", "is not the input's with the extras"));
    }
    if host.wheel.wheel()? != input.wheel.wheel()? {
        found.push(about(&host.file_name(), "WHEEL", "is not the input's"));
    }
    Ok(found)
}

/// Checks METADATA of a host wheel without a plan: it must be its input's with extras and
/// requirements at the end of the headers.
fn extended(input: &Side, host: &Side) -> Result<Vec<Difference>, Failure> {
    let (before, after) = (Headers::parse(&input.wheel.metadata()?), Headers::parse(&host.wheel.metadata()?));
    let known: Vec<_> = before.iter().collect();
    let now: Vec<_> = after.iter().collect();
    let kept = now.len() >= known.len()
        && known.iter().zip(&now).all(|(was, is)| was == is || was.0.eq_ignore_ascii_case("Metadata-Version"));
    let added = now.iter().skip(known.len());
    let right = kept
        && added.into_iter().all(|(name, _)| matches!(*name, "Provides-Extra" | "Requires-Dist"))
        && before.body() == after.body();
    Ok(if right { Vec::new() } else { vec![about(&host.file_name(), "METADATA", "is not the input's with extras")] })
}
