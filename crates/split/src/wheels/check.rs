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
use super::spool::Spool;
use super::survey::{code_error, is_program};
use super::{Error, Plan};
use crate::verify::{Checks, Difference, Item, Report, View, verify};

/// Compares the wheels in `folder`, and the variant in its own, with the input.
pub(super) fn check(plan: &Plan, folder: &Path, variant: &Path, reporter: &dyn Reporter) -> Result<Report, Error> {
    // The plan's own wheel is not used: the input is read again.
    let input = Side::open(&plan.input)?;
    let host = Side::open(&folder.join(&plan.host))?;
    let devices: Vec<Side> =
        plan.devices.iter().map(|device| Side::open(&folder.join(&device.file_name))).collect::<Result<_, _>>()?;

    let spool = Spool::new(folder);
    let (mut before, mut after) = (View::default(), View::default());
    let mut others = Others { databases: moved(plan), copies: 0, differences: Vec::new() };
    for member in input.files() {
        let path = view_path(&input.folders.place(&member.name));
        if is_program(&input.wheel, member)? {
            // Libraries of a database are copied to device wheels, not split.
            if !others.databases.contains_key(member.name.as_str()) {
                before.insert(path, item(&input, member, &spool)?);
                continue;
            }
        }
        others.compare(plan, member, &input, &host, &devices)?;
    }
    for member in host.files() {
        let was = input.wheel.member(&member.name);
        if was.is_none() {
            others.differences.push(Difference::new(&*member.name, "was not there before"));
        }
        if is_program(&host.wheel, member)? {
            after.insert(view_path(&host.folders.place(&member.name)), item(&host, member, &spool)?);
        }
    }
    for (device, side) in plan.devices.iter().zip(&devices) {
        for member in side.files() {
            let Some(planned) = device.files.iter().find(|file| file.path == member.name) else {
                if member.name != device.module {
                    others.differences.push(about(&side.file_name(), &member.name, "was not asked for"));
                }
                continue;
            };
            if planned.database.is_none() {
                let path = view_path(&side.folders.place(&member.name));
                if after.insert(path, item(side, member, &spool)?).is_some() {
                    others.differences.push(about(&side.file_name(), &member.name, "is in another wheel too"));
                }
            }
        }
    }
    // The checksums were compared while the bundles were taken apart.
    let checks = Checks { selection: &plan.parts.selection, checksum: Checksum::Skip, ..Checks::default() };
    let mut report = verify(&before, &after, &checks, reporter).map_err(|source| code_error(&input.wheel, source))?;
    report.others += others.copies;
    report.differences.extend(others.differences);
    report.differences.extend(owners(&host, &devices));
    report.differences.extend(metadata_of_host(plan, &input, &host)?);
    let mut written = vec![(&host, Some(&input))];
    written.extend(devices.iter().map(|device| (device, None)));
    let variant_side = match &plan.variant {
        Some(_) => Some(Side::open(&variant.join(&plan.host))?),
        None => None,
    };
    written.extend(variant_side.iter().map(|variant| (variant, Some(&input))));
    reporter.begin("Checking RECORD of every wheel", Some(written.len() as u64), Counted::Items);
    let records = written.into_iter().try_for_each(|(side, original)| {
        report.differences.extend(record(side, original)?);
        reporter.advance(1);
        Ok(())
    });
    reporter.end();
    records.map(|()| report)
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

/// Members of databases that leave the host wheel, and the index of the device wheel that gets each.
fn moved(plan: &Plan) -> BTreeMap<&str, Option<usize>> {
    let place = |key: &str| plan.devices.iter().position(|device| device.key == key);
    let databases = plan.parts.databases.iter();
    databases.map(|(key, file)| (file.member.as_str(), key.as_deref().and_then(place))).collect()
}

/// Members that are no programs.
struct Others<'a> {
    databases: BTreeMap<&'a str, Option<usize>>,
    copies: u64,
    differences: Vec<Difference>,
}

impl Others<'_> {
    fn compare(
        &mut self,
        plan: &Plan,
        member: &Listed,
        input: &Side,
        host: &Side,
        devices: &[Side],
    ) -> Result<(), Error> {
        let name = member.name.as_str();
        let (side, place) = match self.databases.get(name) {
            None => (Some(host), name.to_owned()),
            Some(device) => {
                if host.wheel.member(name).is_some() {
                    self.differences.push(Difference::new(name, "is still in the host wheel"));
                }
                // The rules are asked again, so that a plan that moved a file to the wrong wheel is found out.
                let path = input.folders.place(name).path;
                let target = Databases::embedded().classify(&path).and_then(|member| member.target);
                if device.is_none() && target.is_some_and(|target| plan.parts.selection.takes(&target)) {
                    self.differences.push(Difference::new(name, "is in no device wheel"));
                }
                match device {
                    Some(device) => (Some(&devices[*device]), in_device(input, &devices[*device], name)),
                    None => (None, String::new()),
                }
            }
        };
        let Some(side) = side else { return Ok(()) };
        match side.wheel.member(&place) {
            None => self.differences.push(Difference::new(name, "is gone")),
            Some(found) if found.mode != member.mode || found.kind != member.kind => {
                self.differences.push(Difference::new(name, "has another mode"));
            }
            Some(_) if !input.wheel.is_copy(name, &side.wheel, &place)? => {
                self.differences.push(Difference::new(name, "is not what it was"));
            }
            Some(_) => self.copies += 1,
        }
        Ok(())
    }
}

/// The name of a database's file in its device wheel.
fn in_device(input: &Side, side: &Side, member: &str) -> String {
    let place = input.folders.place(member);
    match place.scheme {
        Scheme::Data => side.folders.member(Scheme::Data, &place.path),
        Scheme::Site | Scheme::Elsewhere => member.to_owned(),
    }
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
