//! Input: a [`HostSystem`]. Output: the libraries of the machine and, for a real machine, their
//! needs.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rocwheel_wheel::CLibrary;
use rocwheel_wheel::manylinux::{DottedVersion, Policies};
use serde::Deserialize;

use super::HostSystem;
use super::verdict::{Verdict, judge};
use crate::Error;
use crate::facts::Object;

/// The built-in directories of Debian and its derivatives, followed by those of other systems.
const BUILT_IN: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
/// Maximum depth of nested includes; `ld.so.conf` has one level.
const DEEPEST_INCLUDE: usize = 8;

/// A machine whose files can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Its root directory: `/`.
    pub directory: PathBuf,
    /// The directories that its loader searches last, in order, absolute in that root.
    pub directories: Vec<String>,
    /// The value of `$LIB`: `lib64`, or `lib/x86_64-linux-gnu` on Debian.
    pub library_folder: String,
}

impl Root {
    /// Reads the directories that the loader of the system in `directory` searches: those of
    /// `etc/ld.so.conf`, then the built-in ones.
    ///
    /// # Errors
    /// [`Error::System`] if `etc/ld.so.conf` exists but cannot be read.
    pub fn read(directory: &Path) -> Result<Root, Error> {
        let mut directories = Vec::new();
        read_configuration(directory, &directory.join("etc/ld.so.conf"), &mut directories, 0)
            .map_err(|source| Error::System { directory: directory.to_owned(), source })?;
        directories.extend(BUILT_IN.map(str::to_owned));
        let is_debian = directory.join("usr/lib/x86_64-linux-gnu").is_dir();
        let library_folder = if is_debian { "lib/x86_64-linux-gnu" } else { "lib64" }.to_owned();
        Ok(Root { directory: directory.to_owned(), directories, library_folder })
    }

    fn locate(&self, absolute: &str) -> PathBuf {
        self.directory.join(absolute.trim_start_matches('/'))
    }
}

fn read_configuration(root: &Path, file: &Path, found: &mut Vec<String>, depth: usize) -> std::io::Result<()> {
    let text = match fs_err::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if let Some(pattern) = line.strip_prefix("include").map(str::trim) {
            // ldconfig supports any glob; distributions use only a folder with `*.conf`.
            let pattern = root.join(pattern.trim_start_matches('/'));
            let Some(folder) = pattern.parent().filter(|_| depth < DEEPEST_INCLUDE) else { continue };
            let folder = if folder.is_absolute() { folder.to_owned() } else { root.join("etc").join(folder) };
            let Ok(entries) = fs_err::read_dir(&folder) else { continue };
            let included: BTreeSet<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            for path in included.iter().filter(|path| path.extension().is_some_and(|extension| extension == "conf")) {
                read_configuration(root, path, found, depth + 1)?;
            }
        } else if line.starts_with('/') {
            found.push(line.to_owned());
        }
    }
    Ok(())
}

/// A library of a real machine.
pub(super) struct Real {
    /// The path at which the loader finds it.
    pub(super) path: String,
    /// The file itself, with all links resolved.
    pub(super) file: PathBuf,
    pub(super) object: Object,
    pub(super) paths: std::sync::OnceLock<super::SearchPaths>,
}

/// The libraries of the machine.
pub(super) enum Machine<'a> {
    Policy {
        glibc: Option<&'a DottedVersion>,
        host: BTreeSet<String>,
    },
    Musl {
        libraries: BTreeSet<String>,
    },
    Root {
        root: &'a Root,
        processor: u8,
        /// Libraries by path; the error is the reason why the loader does not use the path.
        known: Mutex<HashMap<String, Result<Arc<Real>, NotTaken>>>,
    },
}

/// The reason why the loader does not use a path of the machine.
#[derive(Clone)]
pub(super) enum NotTaken {
    Absent,
    Skipped,
    Refused(String),
}

#[derive(Deserialize)]
struct SystemLibraries {
    host: BTreeSet<String>,
}

#[derive(Deserialize)]
struct MuslLibraries {
    libraries: BTreeSet<String>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(system: &'a HostSystem, processor: u8) -> Machine<'a> {
        match system {
            HostSystem::Policy { glibc } => {
                let table: SystemLibraries = toml::from_str(include_str!("../../../../../data/system-libraries.toml"))
                    .expect("a test parses the embedded table");
                Machine::Policy { glibc: glibc.as_ref(), host: table.host }
            }
            HostSystem::Musl => {
                let table: MuslLibraries = toml::from_str(include_str!("../../../../../data/musllinux.toml"))
                    .expect("a test parses the embedded table");
                Machine::Musl { libraries: table.libraries }
            }
            HostSystem::Root(root) => Machine::Root { root, processor, known: Mutex::default() },
        }
    }

    /// The value of `$LIB`. It differs between systems; most systems of manylinux policies have
    /// `lib64`.
    pub(super) fn library_folder(&self) -> &str {
        match self {
            Machine::Policy { .. } | Machine::Musl { .. } => "lib64",
            Machine::Root { root, .. } => &root.library_folder,
        }
    }

    /// `true` if a policy or a driver guarantees the library.
    pub(super) fn promises(&self, name: &str) -> bool {
        let policies = Policies::built_in();
        match self {
            Machine::Policy { glibc, host } => {
                host.contains(name)
                    || glibc.map_or_else(|| policies.provides(name), |glibc| policies.provides_with(name, glibc))
            }
            Machine::Musl { libraries } => libraries.contains(name),
            Machine::Root { .. } => false,
        }
    }

    /// `true` if its loader is musl's.
    pub(super) fn is_musl(&self) -> bool {
        matches!(self, Machine::Musl { .. })
    }

    /// `true` if files outside the environment can be read.
    pub(super) fn is_real(&self) -> bool {
        matches!(self, Machine::Root { .. })
    }

    /// The directories that are searched last.
    pub(super) fn directories(&self) -> &[String] {
        match self {
            Machine::Policy { .. } | Machine::Musl { .. } => &[],
            Machine::Root { root, .. } => &root.directories,
        }
    }

    /// Searches for a library in a directory of a real machine, first in its folders for better
    /// processors, the best one first.
    pub(super) fn find_in(&self, directory: &str, name: &str) -> Result<Arc<Real>, NotTaken> {
        let Machine::Root { processor, .. } = self else { return Err(NotTaken::Absent) };
        let directory = directory.trim_end_matches('/');
        let better = (2..=*processor).rev().map(|level| format!("{directory}/glibc-hwcaps/x86-64-v{level}/{name}"));
        for path in better.chain([format!("{directory}/{name}")]) {
            match self.open(&path) {
                Err(NotTaken::Absent | NotTaken::Skipped) => {}
                found => return found,
            }
        }
        Err(NotTaken::Absent)
    }

    /// The library at a path of a real machine.
    pub(super) fn open(&self, path: &str) -> Result<Arc<Real>, NotTaken> {
        let Machine::Root { root, known, .. } = self else { return Err(NotTaken::Absent) };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(path.to_owned()).or_insert_with(|| read(root, path)).clone()
    }
}

fn read(root: &Root, path: &str) -> Result<Arc<Real>, NotTaken> {
    let file = rocwheel_system::canonicalize(root.locate(path)).map_err(|_| NotTaken::Absent)?;
    if file.is_dir() {
        return Err(NotTaken::Absent);
    }
    let opened = fs_err::File::open(&file).map_err(|error| NotTaken::Refused(error.to_string()))?;
    let size = opened.metadata().map_err(|error| NotTaken::Refused(error.to_string()))?.len();
    let object = Object::read(opened.file(), size).map_err(|error| NotTaken::Refused(error.to_string()))?;
    match judge(object.as_ref(), CLibrary::Glibc) {
        Verdict::Taken => {}
        Verdict::Skipped => return Err(NotTaken::Skipped),
        Verdict::Refused(why) => return Err(NotTaken::Refused(why.to_owned())),
    }
    let object = object.ok_or(NotTaken::Absent)?;
    Ok(Arc::new(Real { path: path.to_owned(), file, object, paths: std::sync::OnceLock::new() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_promises_what_its_systems_and_drivers_have() {
        let system = HostSystem::Policy { glibc: None };
        let machine = Machine::new(&system, 1);
        for (name, has) in
            [("libc.so.6", true), ("libGL.so.1", true), ("libcuda.so.1", true), ("libamdhip64.so.7", false)]
        {
            assert_eq!(machine.promises(name), has, "{name}");
        }
        let system = HostSystem::Policy { glibc: Some("2.17".to_owned().try_into().unwrap()) };
        let machine = Machine::new(&system, 1);
        assert!(machine.promises("libexpat.so.1") && !machine.promises("libmvec.so.1"));
        assert!(matches!(machine.find_in("/lib", "libc.so.6"), Err(NotTaken::Absent)));
    }

    #[test]
    fn musl_promises_its_c_library_and_zlib() {
        let machine = Machine::new(&HostSystem::Musl, 1);
        for (name, has) in
            [("libc.musl-x86_64.so.1", true), ("libz.so.1", true), ("libc.so.6", false), ("libGL.so.1", false)]
        {
            assert_eq!(machine.promises(name), has, "{name}");
        }
    }

    #[test]
    fn configuration_is_read_with_what_it_includes() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("etc/ld.so.conf.d");
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(root.path().join("etc/ld.so.conf"), "# first\n/opt/one\ninclude /etc/ld.so.conf.d/*.conf\n")
            .unwrap();
        fs_err::write(folder.join("b.conf"), "/opt/b # why\n").unwrap();
        fs_err::write(folder.join("a.conf"), "\n/opt/a\ninclude ld.so.conf.d/*.conf\n").unwrap();
        fs_err::write(folder.join("c.txt"), "/opt/c\n").unwrap();
        let read = Root::read(root.path()).unwrap();
        assert_eq!(read.directories[..2], ["/opt/one", "/opt/a"]);
        assert!(read.directories.contains(&"/opt/b".to_owned()) && !read.directories.contains(&"/opt/c".to_owned()));
        assert_eq!(read.library_folder, "lib64");
        fs_err::create_dir_all(root.path().join("empty")).unwrap();
        assert_eq!(Root::read(&root.path().join("empty")).unwrap().directories, BUILT_IN);
    }
}
