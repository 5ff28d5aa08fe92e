//! Input: host wheels and device wheels. Output: a wheel with all their GPU code, without the
//! extras and requirements that connected them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_archive::WriteOptions;
use rocwheel_archive::{Listed, MemberKind};
use rocwheel_content::Content;
use rocwheel_output::{Staged, StagedFile, StagingFolder};
use rocwheel_progress::{Failure, Reporter};
use rocwheel_tables::Databases;
use rocwheel_wheel::read::{MemberContent, Wheel};
use rocwheel_wheel::{Headers, Member, Rewrite};
use serde::Serialize;

use super::fuse_error;
use super::{Build, Fused, Plan};
use rocwheel_split::group::is_archive;
use rocwheel_split::verify::{Item, View};

/// Wheels of one distribution, sorted into hosts and devices.
pub struct Wheels {
    pub builds: Vec<Build>,
    /// Headers to remove from METADATA.
    pub removed: Vec<String>,
    pub notes: Vec<String>,
    /// Number of files of kernel databases in the device wheels.
    pub database_files: u64,
    host: Arc<Wheel>,
    hosts: Vec<PathBuf>,
    metadata: Option<String>,
    /// The member of the wheel for each path of the first build. Files of the others are added
    /// under their path.
    members: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct WrittenWheel {
    pub path: PathBuf,
    /// Number of members.
    pub files: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file in hexadecimal.
    pub sha256: String,
}

struct Read {
    wheel: Arc<Wheel>,
    headers: Headers,
    name: String,
    version: String,
}

impl Read {
    fn path(&self) -> String {
        self.wheel.path().display().to_string()
    }

    /// The names of the device wheels that it requires.
    fn devices(&self) -> BTreeSet<String> {
        let all = self.headers.all("Requires-Dist").into_iter();
        all.filter(|requirement| asks_for_device(requirement)).map(|requirement| required(&requirement)).collect()
    }
}

/// `true` if a requirement asks for a device wheel by an extra, as in `… ; extra ==
/// "device-gfx942"`, or by a GPU property.
fn asks_for_device(requirement: &str) -> bool {
    let Some((_, marker)) = requirement.split_once(';') else { return false };
    let marker: String = marker.chars().filter(|character| !character.is_whitespace()).collect();
    marker.strip_prefix("extra==").is_some_and(|text| text.starts_with("\"device-") || text.starts_with("'device-"))
        || (marker.contains("invariant_properties") && marker.contains("amd::gfx_arch::"))
}

/// The canonical name of the distribution that a requirement asks for.
fn required(requirement: &str) -> String {
    let end = requirement.find(|character: char| !(character.is_ascii_alphanumeric() || "-_.".contains(character)));
    canonical(&requirement[..end.unwrap_or(requirement.len())])
}

fn canonical(name: &str) -> String {
    let mut canonical = String::new();
    for character in name.to_ascii_lowercase().chars() {
        let character = if matches!(character, '_' | '.') { '-' } else { character };
        if character != '-' || !canonical.ends_with('-') {
            canonical.push(character);
        }
    }
    canonical
}

/// METADATA without the headers that a split added, and the removed headers; `None` if there are
/// none.
fn cleaned(headers: &Headers) -> (Option<String>, Vec<String>) {
    type Condition = fn(&str) -> bool;
    // A wheel that requires no device wheel was not split: all of its headers stay.
    if !headers.all("Requires-Dist").iter().any(|requirement| asks_for_device(requirement)) {
        return (None, Vec::new());
    }
    let (mut text, mut removed) = (headers.clone(), Vec::new());
    let conditions: [(&str, Condition); 3] = [
        ("Requires-Dist", asks_for_device),
        ("Provides-Extra", |extra| extra.starts_with("device-")),
        ("Requires-Dist", |requirement| requirement.trim() == "rocm-bootstrap"),
    ];
    for (name, condition) in conditions {
        let values = headers.all(name).into_iter().filter(|value| condition(value));
        removed.extend(values.map(|value| format!("{name}: {value}")));
        text.remove(name, condition);
    }
    (Some(text.to_string()), removed)
}

/// Opens wheels and distinguishes hosts from devices: a device wheel is one that another wheel
/// requires through an extra `device-…`.
pub fn open(paths: &[PathBuf], scratch: &Path) -> Result<Wheels, Failure> {
    let mut read = Vec::new();
    for path in paths {
        let wheel = Arc::new(Wheel::open(path)?);
        let headers = Headers::parse(&wheel.metadata()?);
        let name = canonical(&headers.get("Name").unwrap_or_default());
        let version = headers.get("Version").unwrap_or_default();
        read.push(Read { wheel, headers, name, version });
    }
    let wanted: BTreeSet<String> = read.iter().flat_map(Read::devices).collect();
    let (devices, hosts): (Vec<Read>, Vec<Read>) = read.into_iter().partition(|read| wanted.contains(&read.name));
    let Some(first) = hosts.first() else {
        let first = devices.first().map(Read::path).unwrap_or_default();
        return Err(fuse_error(&first, "these are device wheels only: the host wheel is missing"));
    };
    for other in hosts.iter().chain(&devices) {
        let is_host = hosts.iter().any(|host| std::ptr::eq(host, other));
        if other.version != first.version || (is_host && other.name != first.name) {
            let why = format!(
                "it is {} {}, which does not belong to {} {}",
                other.name, other.version, first.name, first.version
            );
            return Err(fuse_error(&other.path(), &why));
        }
    }
    let given: BTreeSet<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    let missing = wanted.iter().filter(|name| !given.contains(name.as_str()));
    let mut notes: Vec<String> = missing
        .map(|name| format!("the device wheel `{name}` is not here, so its GPU code will not be either"))
        .collect();
    let mut builds = Vec::new();
    let mut members = BTreeMap::new();
    let mut database_files = 0;
    for host in &hosts {
        let mut view = View::default();
        let folders = Folders::new(&host.wheel);
        for member in files(&host.wheel, &folders) {
            let path = folders.path(&member.name);
            if builds.is_empty() {
                members.insert(path.clone(), member.name.clone());
            }
            insert(&mut view, path, &host.wheel, member, scratch)?;
        }
        let asked = host.devices();
        for device in devices.iter().filter(|device| asked.contains(&device.name)) {
            let folders = Folders::new(&device.wheel);
            for member in files(&device.wheel, &folders) {
                let path = folders.path(&member.name);
                let is_database = Databases::embedded().classify(&path).is_some_and(|found| found.target.is_some());
                if is_archive(&path) || is_database {
                    database_files += u64::from(is_database);
                    insert(&mut view, path, &device.wheel, member, scratch)?;
                } else if Path::new(&member.name).extension().is_none_or(|extension| extension != "py") {
                    notes.push(format!("skipped `{}` of `{}`", member.name, device.path()));
                }
            }
        }
        builds.push(Build { name: format!("`{}`", host.path()), view });
    }
    let (metadata, removed) = cleaned(&first.headers);
    let host = Arc::clone(&first.wheel);
    let hosts = hosts.iter().map(|host| host.wheel.path().to_owned()).collect();
    Ok(Wheels { builds, removed, notes, database_files, host, hosts, metadata, members })
}

fn files<'a>(wheel: &'a Wheel, folders: &'a Folders) -> impl Iterator<Item = &'a Listed> {
    let members = wheel.members().iter();
    members.filter(|member| member.kind != MemberKind::Directory && !member.name.starts_with(&folders.info))
}

fn insert(view: &mut View, path: String, wheel: &Arc<Wheel>, member: &Listed, scratch: &Path) -> Result<(), Failure> {
    let content = Arc::new(MemberContent::new(wheel, &member.name, scratch)?);
    view.insert(path, Item::File { content, executable: member.executable });
    Ok(())
}

/// The folders of a wheel that are not installed under their own name, with a final slash.
struct Folders {
    info: String,
    data: String,
}

impl Folders {
    fn new(wheel: &Wheel) -> Self {
        let stem = wheel.info().strip_suffix(".dist-info").unwrap_or(wheel.info());
        Self { info: format!("{}/", wheel.info()), data: format!("{stem}.data/") }
    }

    /// Path at which an installer puts a member. Members that do not go to site-packages get a
    /// separate prefix.
    fn path(&self, member: &str) -> String {
        let Some(rest) = member.strip_prefix(&self.data) else { return member.to_owned() };
        let library = ["platlib/", "purelib/"].into_iter().find_map(|scheme| rest.strip_prefix(scheme));
        library.map_or_else(|| format!("{{{rest}"), str::to_owned)
    }
}

impl Wheels {
    pub fn hosts(&self) -> &[PathBuf] {
        &self.hosts
    }
}

/// Writes the fused wheel, under the name of the host wheel, to a staging folder for `output`.
/// `output` is created if it does not exist.
///
/// # Errors
/// The output is the input, a file cannot be read or written, or the user interrupts.
pub fn prepare(
    wheels: &Wheels,
    (plan, fused): (&Plan, &Fused),
    output: &Path,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<Staged<WrittenWheel>, Failure> {
    let mut rewrite = Rewrite { metadata: wheels.metadata.clone(), ..Rewrite::default() };
    for path in &plan.archives {
        rewrite.drop.extend(wheels.members.get(path).cloned());
    }
    let changed: BTreeSet<&str> = fused.files.iter().map(|file| file.path.as_str()).collect();
    for (path, item) in fused.view.items() {
        let Item::File { content, executable } = item else { continue };
        let content: Box<dyn Content> = Box::new(Arc::clone(content));
        match wheels.members.get(path) {
            Some(member) if changed.contains(path) => drop(rewrite.replace.insert(member.clone(), content)),
            Some(_) => {}
            None => rewrite.add.push(Member { name: path.to_owned(), executable: *executable, content }),
        }
    }
    let input = wheels.host.path();
    let path = output.join(input.file_name().unwrap_or_default());
    if rocwheel_system::canonicalize(&path).ok() == Some(rocwheel_system::canonicalize(input)?) {
        return Err(rocwheel_wheel::Error::SameFile { path }.into());
    }
    // The new RECORD would hide a damaged member that is copied in compressed form.
    let members = wheels.host.members().iter().filter(|member| member.kind != MemberKind::Directory);
    let copied = members
        .map(|member| member.name.as_str())
        .filter(|name| !rewrite.drop.contains(*name) && !rewrite.replace.contains_key(*name));
    wheels.host.check_members(copied, reporter)?;
    let staging = StagingFolder::for_results(output, ".rocwheel-")?;
    let written = rocwheel_wheel::rewrite(&wheels.host, &rewrite, staging.path(), options, reporter)?;
    let file = StagedFile { staged: written.path, place: path.clone() };
    let (files, bytes, sha256) = (written.files, written.compressed, written.sha256.unwrap_or_default());
    Ok(Staged::new(staging, WrittenWheel { path, files, bytes, sha256 }).with_file(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_of_a_split_are_known() {
        assert!(asks_for_device("x-device-gfx942 == 1.0; extra == \"device-gfx942\""));
        assert!(asks_for_device("x-device-gfx942 == 1.0 ; extra == 'device-all'"));
        assert!(asks_for_device("x == 1; \"amd :: gfx_arch :: gfx942\" in variant_properties"));
        assert!(!asks_for_device("x == 1; extra == \"test\""));
        assert!(!asks_for_device("device-gfx942"));
        assert_eq!(required("amd_Torch--device.gfx12-0 == 1"), "amd-torch-device-gfx12-0");
    }

    #[test]
    fn metadata_is_as_it_was_before_the_split() {
        let before =
            "Metadata-Version: 2.1\r\nName:  x\r\nRequires-Dist: numpy\r\nProvides-Extra: test\r\n\r\nText\r\n";
        let (text, removed) = cleaned(&Headers::parse(before));
        assert_eq!((text, removed), (None, Vec::new()));
        let after = "Metadata-Version: 2.1\r\nName:  x\r\nRequires-Dist: numpy\r\nProvides-Extra: test\r\n\
             Requires-Dist: rocm-bootstrap\r\nProvides-Extra: device-gfx942\r\n\
             Requires-Dist: x-device-gfx942 == 1.0; extra == \"device-gfx942\"\r\nProvides-Extra: device-all\r\n\
             Requires-Dist: x-device-gfx942 == 1.0; extra == \"device-all\"\r\n\r\nText\r\n";
        let (text, removed) = cleaned(&Headers::parse(after));
        assert_eq!(text.as_deref(), Some(before));
        assert_eq!(removed.len(), 5);
    }
}
