//! Input: the plan of a split and the folder of its wheels. Output: what is not as it was in the input.
//!
//! All wheels are opened afresh. Programs go to [`verify`], which looks code objects up as the runtime does; other members
//! have to be copies; what nobody asked for may not be there; RECORD has to be true, and no two wheels of the set may own
//! one file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use kpack::Databases;
use kpack::bundle::Checksum;
use report::{Reporter, Unit as Counted};
use wheel::Headers;
use wheel::read::{Kind, Listed, Wheel};

use super::metadata::{self, Markers};
use super::place::{Folders, Place, Scheme};
use super::survey::{code_error, is_program};
use super::{Error, Plan};
use crate::Selection;
use crate::names::{self, Families};
use crate::verify::{Checks, Difference, Item, Report, View, verify};
use wheel::read::Spool;

/// Compares the wheels in `folder`, and the variant in its own, with the input.
pub(super) fn check(plan: &Plan, folder: &Path, variant: &Path, reporter: &dyn Reporter) -> Result<Report, Error> {
    // The plan's own wheel is not used: the input is read again.
    let input = Side::open(&plan.input)?;
    let host = Side::open(&folder.join(&plan.host))?;
    let devices: Vec<Side> =
        plan.devices.iter().map(|device| Side::open(&folder.join(&device.file_name))).collect::<Result<_, _>>()?;
    // The checksums of bundles were compared while they were taken apart.
    let (selection, checksum) = (&plan.parts.selection, Checksum::Skip);
    let set = Set { input: &input, host: &host, devices: &devices, selection, checksum };
    let mut report = set.check(folder, reporter)?;
    report.differences.extend(metadata_of_host(plan, &input, &host)?);
    let moved = plan.parts.databases.iter().map(|(_, file)| file.member.as_str());
    let still = moved.filter(|member| host.wheel.member(member).is_some());
    report.differences.extend(still.map(|member| Difference::new(member, "is still in the host wheel")));
    let variant = match &plan.variant {
        Some(_) => Some(Side::open(&variant.join(&plan.host))?),
        None => None,
    };
    report.differences.extend(records(&set, variant.as_ref(), reporter)?);
    Ok(report)
}

/// Compares a wheel with the folder of its parts: the host wheel, which has the same file name, and the device wheels,
/// which are those that require the host in its version. `targets` as for the split.
///
/// # Errors
/// Wheels that cannot be read, and a folder without the host wheel. What is wrong with the parts is in the report.
pub fn verify_parts(
    before: &Path,
    after: &Path,
    targets: Option<&str>,
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Result<Report, Error> {
    let input = Side::open(before)?;
    let host = Side::open(&after.join(before.file_name().unwrap_or_default()))?;
    let headers = Headers::parse(&host.wheel.metadata()?);
    let (name, version) = super::planner::identity(&host.wheel, &headers)?;
    let pin = format!("{name} == {version}");
    let listed = fs_err::read_dir(after);
    let listed = listed.map_err(|source| Error::Io { attempt: "list", path: after.to_owned(), source })?;
    let mut paths: Vec<_> = listed.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut devices = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "whl")) {
        // Variants have a label in their names, which no name of a wheel has.
        let Ok(side) = Side::open(path) else { continue };
        let required = Headers::parse(&side.wheel.metadata()?).all("Requires-Dist");
        if required.contains(&pin) && side.wheel.name.tags() == host.wheel.name.tags() {
            devices.push(side);
        }
    }
    let selection = super::planner::selection_of(&input.wheel, targets, scratch, reporter)?;
    let (selection, checksum) = (&selection, Checks::default().checksum);
    let set = Set { input: &input, host: &host, devices: &devices, selection, checksum };
    let mut report = set.check(scratch, reporter)?;
    report.differences.extend(extended(&input, &host)?);
    report.differences.extend(records(&set, None, reporter)?);
    Ok(report)
}

/// A wheel and its parts.
struct Set<'a> {
    input: &'a Side,
    host: &'a Side,
    devices: &'a [Side],
    selection: &'a Selection,
    checksum: Checksum,
}

impl Set<'_> {
    /// Everything about the members.
    fn check(&self, scratch: &Path, reporter: &dyn Reporter) -> Result<Report, Error> {
        let spool = Spool::new(scratch);
        let (mut before, mut after) = (View::default(), View::default());
        let mut found = Vec::new();
        let mut copies = 0;
        for member in self.input.files() {
            if self.host.wheel.member(&member.name).is_none() {
                copies += self.moved(member, &mut found)?;
            } else if is_program(&self.input.wheel, member)? {
                before.insert(view_path(&self.input.folders.place(&member.name)), item(self.input, member, &spool)?);
            } else {
                copies += copied(member, self.input, (self.host, &member.name), &mut found)?;
            }
        }
        for member in self.host.files() {
            if self.input.wheel.member(&member.name).is_none() {
                found.push(Difference::new(&*member.name, "was not there before"));
            }
            if is_program(&self.host.wheel, member)? {
                after.insert(view_path(&self.host.folders.place(&member.name)), item(self.host, member, &spool)?);
            }
        }
        for side in self.devices {
            for member in side.files() {
                let place = side.folders.place(&member.name);
                if has_extension(&member.name, "kpack") {
                    after.insert(view_path(&place), item(side, member, &spool)?);
                } else if !is_module(&member.name)
                    && self.input.wheel.member(&side.folders.renamed(&self.input.folders, &member.name)).is_none()
                {
                    found.push(about(&side.file_name(), &member.name, "was not there before"));
                }
            }
        }
        let checks = Checks { selection: self.selection, checksum: self.checksum, ..Checks::default() };
        let report = verify(&before, &after, &checks, reporter);
        let mut report = report.map_err(|source| code_error(&self.input.wheel, source))?;
        report.others += copies;
        report.differences.extend(found);
        report.differences.extend(owners(self.host, self.devices));
        Ok(report)
    }

    /// A member that is not in the host wheel has to be a file of a kernel database for some target, and a copy of it in
    /// the wheel of that target's package, unless the target is not wanted: then it is nowhere.
    fn moved(&self, member: &Listed, found: &mut Vec<Difference>) -> Result<u64, Error> {
        let place = self.input.folders.place(&member.name);
        let Some(target) = Databases::embedded().classify(&place.path).and_then(|database| database.target) else {
            found.push(Difference::new(&*member.name, "is gone"));
            return Ok(0);
        };
        let package = names::distribution("", &Families::embedded().key(&target));
        let mut holders = self.devices.iter().filter_map(|side| {
            let name = self.input.folders.renamed(&side.folders, &member.name);
            side.wheel.member(&name).is_some().then_some((side, name))
        });
        match (holders.next(), self.selection.takes(&target)) {
            (None, false) => Ok(0),
            (None, true) => {
                found.push(Difference::new(&*member.name, "is gone").target(target));
                Ok(0)
            }
            (Some((side, _)), false) => {
                found.push(about(&side.file_name(), &member.name, "is for a target that is not wanted"));
                Ok(0)
            }
            (Some((side, name)), true) => {
                let distribution = side.wheel.name.distribution.replace('_', "-");
                if !distribution.ends_with(&package) {
                    found.push(about(&side.file_name(), &name, "is for another package").target(target));
                }
                copied(member, self.input, (side, &name), found)
            }
        }
    }
}

/// Compares a member with what it became; how many were compared.
fn copied(
    member: &Listed,
    input: &Side,
    (side, name): (&Side, &str),
    found: &mut Vec<Difference>,
) -> Result<u64, Error> {
    let Some(copy) = side.wheel.member(name) else { return Ok(0) };
    if copy.mode != member.mode || copy.kind != member.kind {
        found.push(Difference::new(&*member.name, "has another mode"));
    }
    if !input.wheel.is_copy(&member.name, &side.wheel, name)? {
        found.push(Difference::new(&*member.name, "is not what it was"));
    }
    Ok(1)
}

/// Whether a member of a device wheel is the module that stands for it.
fn is_module(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.starts_with('_') && file.contains("_device_") && has_extension(file, "py")
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

fn records(set: &Set<'_>, variant: Option<&Side>, reporter: &dyn Reporter) -> Result<Vec<Difference>, Error> {
    let mut written = vec![(set.host, Some(set.input))];
    written.extend(set.devices.iter().map(|device| (device, None)));
    written.extend(variant.map(|variant| (variant, Some(set.input))));
    reporter.begin("Checking RECORD of every wheel", Some(written.len() as u64), Counted::Items);
    let mut found = Vec::new();
    let records = written.into_iter().try_for_each(|(side, original)| {
        found.extend(record(side, original)?);
        reporter.advance(1);
        Ok(())
    });
    reporter.end();
    records.map(|()| found)
}

/// An open wheel and its folders.
struct Side {
    wheel: Arc<Wheel>,
    folders: Folders,
}

impl Side {
    fn open(path: &Path) -> Result<Side, Error> {
        let wheel = Arc::new(Wheel::open(path)?);
        let folders = Folders::new(wheel.info());
        Ok(Side { wheel, folders })
    }

    /// Members that are installed for their own sake.
    fn files(&self) -> impl Iterator<Item = &Listed> {
        let members = self.wheel.members().iter();
        members.filter(|member| member.kind != Kind::Directory && !self.folders.is_info(&member.name))
    }

    fn file_name(&self) -> String {
        self.wheel.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Where a member is in the tree that the checks look at. Schemes are apart, as no path leads from one to the other.
fn view_path(place: &Place) -> String {
    match place.scheme {
        Scheme::Site => place.path.clone(),
        Scheme::Data => format!("{{data}}/{}", place.path),
        Scheme::Elsewhere => format!("{{elsewhere}}/{}", place.path),
    }
}

fn item(side: &Side, member: &Listed, spool: &Spool) -> Result<Item, Error> {
    let content = Arc::new(spool.member(&side.wheel, &member.name)?);
    Ok(Item::File { content, executable: member.executable })
}

fn about(wheel: &str, member: &str, what: &str) -> Difference {
    Difference::new(format!("{wheel}: {member}"), what)
}

/// Files that two wheels would install; the case of letters does not count, as on Windows.
fn owners(host: &Side, devices: &[Side]) -> Vec<Difference> {
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    for side in [host].into_iter().chain(devices) {
        let installed = side.wheel.members().iter().filter(|member| member.kind != Kind::Directory);
        for member in installed {
            let path = view_path(&side.folders.place(&member.name));
            if let Some(other) = owners.insert(path.to_lowercase(), side.file_name()) {
                found.push(about(&side.file_name(), &member.name, &format!("is in `{other}` too")));
            }
        }
    }
    found
}

/// METADATA of the host wheel has to be the input's and the lines that were planned, nothing else.
fn metadata_of_host(plan: &Plan, input: &Side, host: &Side) -> Result<Vec<Difference>, Error> {
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

/// METADATA of a host wheel has to be its input's with extras and requirements at the end of the headers.
fn extended(input: &Side, host: &Side) -> Result<Vec<Difference>, Error> {
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

/// What RECORD of a wheel says that is not so, and was not wrong before.
fn record(side: &Side, original: Option<&Side>) -> Result<Vec<Difference>, Error> {
    let mut problems: BTreeSet<String> = side.wheel.verify()?.iter().map(ToString::to_string).collect();
    if !problems.is_empty()
        && let Some(original) = original
        && original.wheel.record().is_ok()
    {
        for known in original.wheel.verify()? {
            problems.remove(&known.to_string());
        }
    }
    Ok(problems.into_iter().map(|problem| Difference::new(side.file_name(), problem)).collect())
}
