//! Input: the directories of the user and those of the system. Output: libraries of this machine by
//! name, like in ld.so: the first file with that name that is a library for the same machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rocwheel_elf::{Elf, ElfKind};

/// `e_machine` of x86-64, the only machine whose files can be edited.
pub(crate) const MACHINE: u16 = 62;
/// Maximum nesting of `include` lines in ld.so.conf.
const DEPTH: usize = 8;

/// A library of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// The file itself, with links resolved.
    pub(crate) real: PathBuf,
    pub(crate) elf: Elf,
}

/// Searches for libraries, and caches the headers it has read.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    read: BTreeMap<PathBuf, Result<Elf, String>>,
}

impl Finder {
    /// The library `name` in the first directory that contains one. Files that cannot be used are
    /// added to `refused`.
    pub(crate) fn find(
        &mut self,
        name: &str,
        directories: &[PathBuf],
        refused: &mut BTreeSet<String>,
    ) -> Option<Found> {
        directories.iter().find_map(|directory| self.take(&directory.join(name), refused))
    }

    /// The library at this path; `None` if there is none.
    pub(crate) fn take(&mut self, path: &Path, refused: &mut BTreeSet<String>) -> Option<Found> {
        let real = match rocwheel_system::canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if path.is_symlink() {
                    refused.insert(format!("`{}` is a link to a missing file", path.display()));
                }
                return None;
            }
            Err(_) => return None,
        };
        match self.read.entry(real.clone()).or_insert_with(|| read(&real)) {
            Ok(elf) => Some(Found { path: path.to_owned(), real, elf: elf.clone() }),
            Err(reason) => {
                refused.insert(format!("`{}` {reason}", path.display()));
                None
            }
        }
    }
}

/// The headers of a shared library for this machine; the error describes what the file is instead.
fn read(path: &Path) -> Result<Elf, String> {
    let file = fs_err::File::open(path).map_err(|error| format!("cannot be read: {}", error.kind()))?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("is no file".to_owned());
    }
    match Elf::read(file.file()) {
        Ok(None) => Err("is no ELF file: a static library or a linker script".to_owned()),
        Err(error) => Err(format!("is damaged: {error}")),
        Ok(Some(elf)) if !elf.is_64 => Err("is for a 32-bit machine".to_owned()),
        Ok(Some(elf)) if elf.machine != MACHINE => Err(format!("is for another machine ({})", elf.machine)),
        Ok(Some(elf)) => match elf.kind {
            ElfKind::SharedLibrary => Ok(elf),
            ElfKind::Executable | ElfKind::StaticExecutable => Err("is a program, not a library".to_owned()),
            ElfKind::Relocatable => Err("is an object file, not a library".to_owned()),
            ElfKind::DebugOnly => Err("holds debug information only".to_owned()),
            ElfKind::Other => Err("is no library".to_owned()),
        },
    }
}

/// The directories that ld.so of this system searches: those of `/etc/ld.so.conf`, then the trusted
/// ones. Missing directories are skipped.
pub fn system_directories() -> Vec<PathBuf> {
    let mut directories = Vec::new();
    configured(Path::new("/etc/ld.so.conf"), &mut directories, 0);
    for trusted in ["/lib", "/lib64", "/usr/lib", "/usr/lib64"] {
        directories.push(PathBuf::from(trusted));
    }
    let mut seen = BTreeSet::new();
    directories.retain(|directory| directory.is_dir() && seen.insert(directory.clone()));
    directories
}

fn configured(file: &Path, directories: &mut Vec<PathBuf>, depth: usize) {
    let Ok(text) = fs_err::read_to_string(file) else { return };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(patterns) = line.strip_prefix("include ").or(line.strip_prefix("include\t")) {
            for pattern in patterns.split_whitespace().filter(|_| depth < DEPTH) {
                for included in matching(&file.parent().unwrap_or(Path::new("/")).join(pattern)) {
                    configured(&included, directories, depth + 1);
                }
            }
        } else if line.starts_with('/') {
            directories.push(PathBuf::from(line));
        }
    }
}

/// The files of an `include` line. A glob is supported in the last part only, where everyone writes
/// it.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let Ok(glob) = globset::Glob::new(name) else { return Vec::new() };
    let glob = glob.compile_matcher();
    let Ok(entries) = fs_err::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| glob.is_match(name)))
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs_err::create_dir(path("conf.d")).unwrap();
        fs_err::write(path("ld.so.conf"), "# comment\n/first # why\ninclude conf.d/*.conf\nhwcap 1 x\n/last\n")
            .unwrap();
        fs_err::write(path("conf.d/b.conf"), "/b\n").unwrap();
        fs_err::write(path("conf.d/a.conf"), "/a\ninclude ../ld.so.conf\n").unwrap();
        fs_err::write(path("conf.d/c.txt"), "/c\n").unwrap();
        let mut directories = Vec::new();
        configured(&path("ld.so.conf"), &mut directories, DEPTH - 1);
        assert_eq!(directories, ["/first", "/a", "/b", "/last"].map(PathBuf::from));
    }

    #[cfg_attr(windows, ignore = "looks for the C library of Linux")]
    #[test]
    fn this_system_has_directories() {
        let directories = system_directories();
        assert!(directories.iter().any(|directory| directory.join("libc.so.6").is_file()), "{directories:?}");
    }

    #[cfg_attr(windows, ignore = "a link to nothing, which Windows makes in developer mode only")]
    #[test]
    fn what_is_no_library_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("libscript.so"), "INPUT(-lfoo)").unwrap();
        fs_err::write(folder.path().join("libstatic.so"), b"!<arch>\n").unwrap();
        rocwheel_system::symlink("nowhere", folder.path().join("libgone.so")).unwrap();
        let (mut finder, mut refused) = (Finder::default(), BTreeSet::new());
        let directories = [folder.path().to_owned()];
        for name in ["libscript.so", "libstatic.so", "libgone.so", "libnone.so"] {
            assert!(finder.find(name, &directories, &mut refused).is_none());
        }
        let refused: Vec<&String> = refused.iter().collect();
        assert_eq!(refused.len(), 3);
        assert!(refused[0].ends_with("libgone.so` is a link to a missing file"), "{refused:?}");
        assert!(
            refused[1].ends_with("libscript.so` is no ELF file: a static library or a linker script"),
            "{refused:?}"
        );
    }
}
