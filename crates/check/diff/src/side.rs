//! Input: a path. Output: the packages at this path, each with its entries under names that do not
//! depend on its version.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_archive::MemberKind;
use rocwheel_artifact::ArtifactName;
use rocwheel_progress::{Failure, Reporter};
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{WheelName, canonical_name};
use walkdir::WalkDir;

use crate::change::ChangeKind;
use crate::entry::{Entry, File, Source};
use crate::report::{FileReport, Sizes};
use crate::{tarball, text};

/// The folder in which this program keeps its own data beside packages.
const OURS: &str = ".rocwheel";

pub(crate) struct Side {
    pub(crate) packages: Vec<Package>,
    /// `true` if a folder was searched for packages. A single package is compared under any name.
    pub(crate) is_folder: bool,
}

/// A package: a wheel, a source distribution, an archive, or all other files of a folder.
pub(crate) struct Package {
    pub(crate) path: PathBuf,
    /// The folder of the package, relative to the side; empty at its top.
    pub(crate) folder: String,
    pub(crate) form: Form,
    /// The entries by path without version.
    pub(crate) entries: BTreeMap<String, Named>,
    /// Size of the file in bytes, if the package is a file.
    pub(crate) packed: Option<u64>,
}

/// An entry and its path in the package.
#[derive(Clone)]
pub(crate) struct Named {
    pub(crate) path: String,
    pub(crate) entry: Entry,
}

impl Named {
    pub(crate) fn alone(&self, kind: ChangeKind) -> FileReport {
        let size = self.entry.size();
        let sizes =
            if kind == ChangeKind::LostFile { Sizes { old: size, new: None } } else { Sizes { old: None, new: size } };
        let mut report = FileReport::alone(&self.path, kind, sizes);
        if let Entry::Link { target } = &self.entry {
            report.notes.push(format!("a link to {target}"));
        }
        report
    }
}

#[derive(Clone)]
pub(crate) enum Form {
    Wheel(Arc<Wheel>),
    /// Distribution and version.
    Sdist {
        name: String,
        version: String,
    },
    /// The name without version and file extensions.
    Archive {
        name: String,
    },
    Files,
}

impl Side {
    pub(crate) fn open(path: &Path, scratch: &Path, reporter: &dyn Reporter) -> Result<Side, Failure> {
        let metadata = fs_err::metadata(path)?;
        if metadata.is_file() {
            return Ok(Side { packages: vec![Package::file(path, scratch, reporter)?], is_folder: false });
        }
        if !metadata.is_dir() {
            return Err(no_file(path));
        }
        let mut packages = Vec::new();
        let mut rest = BTreeMap::new();
        let walk = WalkDir::new(path).sort_by_file_name().into_iter();
        for found in walk.filter_entry(|found| found.file_name().to_str() != Some(OURS)) {
            reporter.check()?;
            let found = found.map_err(std::io::Error::from)?;
            let kind = found.file_type();
            if kind.is_dir() {
                continue;
            }
            if kind.is_file() && is_package(found.path()) {
                let parent = found.path().parent().and_then(|parent| parent.strip_prefix(path).ok());
                let folder = rocwheel_system::slashed(parent.unwrap_or(Path::new(""))).to_string_lossy().into_owned();
                packages.push(Package { folder, ..Package::file(found.path(), scratch, reporter)? });
                continue;
            }
            let inside = rocwheel_system::slashed(found.path().strip_prefix(path).unwrap_or(found.path()));
            let inside = inside.to_string_lossy().into_owned();
            let entry = if kind.is_symlink() {
                Entry::Link { target: fs_err::read_link(found.path())?.to_string_lossy().into_owned() }
            } else if kind.is_file() {
                Entry::File(on_disk(found.path())?)
            } else {
                return Err(no_file(found.path()));
            };
            rest.insert(installed_key(&inside), Named { path: inside, entry });
        }
        // An empty folder holds nothing that the other side could have lost.
        if !rest.is_empty() {
            let (path, folder) = (path.to_owned(), String::new());
            packages.push(Package { path, folder, form: Form::Files, entries: rest, packed: None });
        }
        Ok(Side { packages, is_folder: true })
    }
}

/// `true` if a file in a folder is a package.
fn is_package(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match name.strip_suffix(".whl") {
        Some(_) => name.parse::<WheelName>().is_ok(),
        None => sdist_name(&name).is_some() || artifact_name(&name).is_some(),
    }
}

/// Returns name and version of a source distribution (PEP 625).
fn sdist_name(file: &str) -> Option<(String, String)> {
    let (name, version) = file.strip_suffix(".tar.gz")?.rsplit_once('-')?;
    let is_version = rocwheel_wheel::check_version(version).is_ok();
    (is_version && rocwheel_wheel::check_name(name).is_ok()).then(|| (name.to_owned(), version.to_owned()))
}

fn artifact_name(file: &str) -> Option<String> {
    let name = file.strip_suffix(".tar.zst").or_else(|| file.strip_suffix(".tar.xz"))?;
    name.parse::<ArtifactName>().is_ok().then(|| name.to_owned())
}

fn no_file(path: &Path) -> Failure {
    Failure::message(format!("`{}` is neither a file nor a folder", path.display()))
}

fn on_disk(path: &Path) -> Result<File, Failure> {
    use rocwheel_system::FileMetadata as _;
    let metadata = fs_err::symlink_metadata(path)?;
    let executable = metadata.is_executable(path);
    Ok(File { size: metadata.len(), executable, source: Source::Disk(path.to_owned()) })
}

impl Package {
    /// Reads the package in a file; a file of another type is a package with one entry.
    fn file(path: &Path, scratch: &Path, reporter: &dyn Reporter) -> Result<Package, Failure> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|ending| ending == "whl") {
            return Package::wheel(path);
        }
        let file = on_disk(path)?;
        let size = file.size;
        if tarball::is_tarball(&name, &file.start(tarball::START)?) {
            let reader = fs_err::File::open(path)?.into_parts().0;
            let entries = tarball::unpack(&path.display().to_string(), reader, scratch, reporter)?;
            let form = match sdist_name(&name) {
                Some((name, version)) => Form::Sdist { name, version },
                None => Form::Archive { name: artifact_name(&name).unwrap_or_else(|| text::without_version(&name)) },
            };
            let entries = match &form {
                Form::Sdist { .. } => below_one_folder(entries),
                _ => entries.into_iter().map(|(path, entry)| (path.clone(), Named { path, entry })).collect(),
            };
            let (path, folder) = (path.to_owned(), String::new());
            return Ok(Package { path, folder, form, entries, packed: Some(size) });
        }
        let entries = BTreeMap::from([(String::new(), Named { path: name, entry: Entry::File(file) })]);
        Ok(Package { path: path.to_owned(), folder: String::new(), form: Form::Files, entries, packed: None })
    }

    fn wheel(path: &Path) -> Result<Package, Failure> {
        let packed = fs_err::metadata(path)?.len();
        let wheel = Arc::new(Wheel::open_renamed(path)?);
        let data = format!("{}.data", wheel.info().strip_suffix(".dist-info").unwrap_or_default());
        let mut entries = BTreeMap::new();
        for member in wheel.members() {
            let entry = match member.kind {
                MemberKind::Directory => continue,
                MemberKind::Symlink => {
                    let text = wheel.start(&member.name, 4096)?;
                    Entry::Link { target: String::from_utf8_lossy(&text).into_owned() }
                }
                MemberKind::File => {
                    let source = Source::Member { wheel: Arc::clone(&wheel), name: member.name.clone() };
                    Entry::File(File { size: member.size, executable: member.executable, source })
                }
            };
            let key = [(wheel.info(), "*.dist-info"), (&data, "*.data")].into_iter().find_map(|(folder, key)| {
                Some(format!("{key}/{}", member.name.strip_prefix(folder)?.strip_prefix('/')?))
            });
            let path = member.name.clone();
            entries.insert(key.unwrap_or_else(|| path.clone()), Named { path, entry });
        }
        let (path, folder) = (path.to_owned(), String::new());
        Ok(Package { path, folder, form: Form::Wheel(wheel), entries, packed: Some(packed) })
    }

    /// Returns the name of the distribution, or of the archive.
    pub(crate) fn name(&self) -> String {
        match &self.form {
            Form::Wheel(wheel) => canonical_name(&wheel.name.distribution),
            Form::Sdist { name, .. } => format!("{} (sdist)", canonical_name(name)),
            Form::Archive { name } => name.clone(),
            Form::Files => String::new(),
        }
    }

    pub(crate) fn version(&self) -> Option<&str> {
        match &self.form {
            Form::Wheel(wheel) => Some(&wheel.name.version),
            Form::Sdist { version, .. } => Some(version),
            Form::Archive { .. } | Form::Files => None,
        }
    }

    pub(crate) fn tags(&self) -> BTreeSet<String> {
        match &self.form {
            Form::Wheel(wheel) => wheel.name.tags().iter().map(ToString::to_string).collect(),
            _ => BTreeSet::new(),
        }
    }

    /// Returns Python, ABI and system (without the version of the system), which distinguish wheels
    /// of one distribution.
    pub(crate) fn place(&self) -> String {
        let Form::Wheel(wheel) = &self.form else { return String::new() };
        let name = &wheel.name;
        let systems = name.platforms.iter().map(|platform| {
            let system = ["manylinux", "musllinux", "linux", "macosx", "win"];
            let system = system.into_iter().find(|system| platform.starts_with(system)).unwrap_or(platform);
            // A `linux` wheel that was repaired is a `manylinux` one.
            if system == "manylinux" { "linux" } else { system }
        });
        let systems: Vec<&str> = systems.collect::<BTreeSet<_>>().into_iter().collect();
        format!("{}-{}-{}", name.pythons.join("."), name.abis.join("."), systems.join("."))
    }
}

/// Returns a path in a folder without the versions in the names of `.dist-info` folders.
fn installed_key(path: &str) -> String {
    let parts =
        path.split('/').map(|part| match part.strip_suffix(".dist-info").and_then(|stem| stem.split_once('-')) {
            Some((name, _)) => format!("{}-*.dist-info", canonical_name(name)),
            None => part.to_owned(),
        });
    parts.collect::<Vec<_>>().join("/")
}

/// Removes the top folder, which is named after the version, from the entries of a source
/// distribution.
fn below_one_folder(entries: BTreeMap<String, Entry>) -> BTreeMap<String, Named> {
    let tops: BTreeSet<&str> = entries.keys().map(|path| path.split('/').next().unwrap_or_default()).collect();
    let top = match tops.iter().collect::<Vec<_>>()[..] {
        [top] => format!("{top}/"),
        _ => String::new(),
    };
    let named = entries.into_iter();
    named.map(|(path, entry)| (path.strip_prefix(&top).unwrap_or(&path).to_owned(), Named { path, entry })).collect()
}
