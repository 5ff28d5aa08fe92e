//! Input: directories and a [`Predicate`]. Output: the files that match, listed or copied.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rocwheel_output::StagingFolder;
use rocwheel_progress::{Reporter, Unit};
use rocwheel_system::FileMetadata as _;
use rocwheel_tables::Predicate;
use walkdir::WalkDir;

use crate::entry::EntryKind;
use crate::error::{self, Error};
use crate::flatten;
use crate::input::separate;
use crate::scan::{kind_of, unsupported_file, walk_error};

/// Bytes copied between two checks for an interruption.
const PIECE: u64 = 64 << 20;

/// A file, link or directory that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedEntry {
    /// Its path on disk.
    pub source: PathBuf,
    /// Its type; for files also the size and the executable bit.
    pub kind: EntryKind,
}

/// The entries that matched, by their path relative to the directory that was scanned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fileset {
    /// Sorted by path, so a directory comes before its contents.
    pub entries: BTreeMap<String, MatchedEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// By hard link; if the file system has none, the contents are copied.
    Link,
    /// The contents are copied. Hard links between files of the set are kept.
    Contents,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// The destination is replaced as a whole, in one step.
    Replace,
    /// Files of the same name are replaced one by one; other files stay.
    Keep,
}

impl Fileset {
    /// Reads `directories` without following links. If two of them hold one path, the later one is
    /// used.
    pub fn scan(directories: &[PathBuf], predicate: &Predicate, reporter: &dyn Reporter) -> Result<Self, Error> {
        let mut entries = BTreeMap::new();
        for directory in directories {
            match fs_err::metadata(directory) {
                Ok(metadata) if metadata.is_dir() => {}
                Ok(_) => return Err(error::no_directory(directory).into()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(error::not_there(directory).into());
                }
                Err(error) => return Err(error.into()),
            }
            for found in WalkDir::new(directory).min_depth(1).follow_links(false).sort_by_file_name() {
                reporter.check()?;
                let found = found.map_err(walk_error(directory))?;
                let relative = rocwheel_system::slashed(found.path().strip_prefix(directory).unwrap_or(found.path()));
                let Some(relative) = relative.to_str() else {
                    return Err(error::not_unicode(found.path()).into());
                };
                if !predicate.matches(relative) {
                    continue;
                }
                let kind = kind_of(&found)?.map_err(|what| unsupported_file(found.path(), what))?;
                entries.insert(relative.to_owned(), MatchedEntry { source: found.path().to_owned(), kind });
            }
        }
        Ok(Self { entries })
    }

    /// In bytes.
    pub fn bytes(&self) -> u64 {
        self.entries.values().map(|found| if let EntryKind::File { size, .. } = found.kind { size } else { 0 }).sum()
    }

    /// Copies everything to `destination` and keeps permission bits, modification times and links.
    /// `inputs` are the directories that must neither contain the destination nor lie in it.
    pub fn copy(
        &self,
        destination: &Path,
        (transfer, before): (Transfer, Before),
        inputs: &[PathBuf],
        reporter: &dyn Reporter,
    ) -> Result<(), Error> {
        let destination = separate(destination, inputs)?;
        let parent = destination.parent().unwrap_or(Path::new("/"));
        fs_err::create_dir_all(parent)?;
        let _stage = reporter.stage("Copying", Some(self.bytes()), Unit::Bytes);
        let copied = match before {
            Before::Keep => self.copy_into(&destination, transfer, reporter),
            Before::Replace => {
                let work = StagingFolder::new_in(parent, ".rocwheel-copy-")?;
                let tree = work.path().join("tree");
                self.copy_into(&tree, transfer, reporter)
                    .and_then(|()| flatten::replace(&tree, &destination, work.path()))
            }
        };
        copied.map_err(|error| error.or_full_disk(&destination))
    }

    /// Copies everything to the directory `tree`, which is created if it does not exist.
    pub(crate) fn copy_into(&self, tree: &Path, transfer: Transfer, reporter: &dyn Reporter) -> Result<(), Error> {
        fs_err::create_dir_all(tree)?;
        let mut first_names: HashMap<_, PathBuf> = HashMap::new();
        for (path, found) in &self.entries {
            reporter.check()?;
            let destination = tree.join(path);
            if let EntryKind::Directory = found.kind {
                make_directory(&destination)?;
                continue;
            }
            // The directory of a file that matched need not have matched itself.
            make_directory(destination.parent().unwrap_or(tree))?;
            let work = tempfile::Builder::new().prefix(".rocwheel-").tempdir_in(tree)?;
            let new = work.path().join("new");
            match &found.kind {
                EntryKind::Directory => {}
                EntryKind::Symlink { target } => rocwheel_system::symlink(target, &new)?,
                EntryKind::File { size, .. } => {
                    let metadata = fs_err::symlink_metadata(&found.source)?;
                    let first = first_names.get(&metadata.identity(&found.source)?);
                    let linked = match (transfer, first) {
                        (_, Some(first)) => fs_err::hard_link(first, &new).is_ok(),
                        (Transfer::Link, None) => fs_err::hard_link(&found.source, &new).is_ok(),
                        (Transfer::Contents, None) => false,
                    };
                    if linked {
                        reporter.advance(*size);
                    } else {
                        copy_file(&found.source, &new, reporter)?;
                    }
                    if metadata.link_count(&found.source)? > 1 {
                        first_names.insert(metadata.identity(&found.source)?, destination.clone());
                    }
                }
            }
            // POSIX: renaming one name of a file to another name of the same file does nothing. The
            // destination is correct in that case too.
            rocwheel_system::rename(&new, &destination)?;
        }
        Ok(())
    }
}

/// Creates a directory and its parents. A file or link of that name is removed first.
fn make_directory(path: &Path) -> Result<(), Error> {
    if fs_err::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_dir()) {
        fs_err::remove_file(path)?;
    }
    Ok(fs_err::create_dir_all(path)?)
}

/// Copies in pieces, so that Ctrl-C does not wait for a library of gigabytes; the kernel copies
/// them where it can.
fn copy_file(source: &Path, copy: &Path, reporter: &dyn Reporter) -> Result<(), Error> {
    let mut from = fs_err::File::open(source)?.into_file();
    let mut to = fs_err::File::create_new(copy)?.into_file();
    loop {
        reporter.check()?;
        let copied = io::copy(&mut (&mut from).take(PIECE), &mut to).map_err(copy_error(source))?;
        reporter.advance(copied);
        if copied < PIECE {
            break;
        }
    }
    let metadata = from.metadata().map_err(copy_error(source))?;
    let mode = metadata.mode(source) & 0o777 | 0o200;
    to.set_modified(metadata.modified().map_err(copy_error(source))?).map_err(copy_error(source))?;
    rocwheel_system::set_open_mode(&to, mode).map_err(copy_error(source))?;
    Ok(())
}

fn copy_error(source: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("could not copy `{}`: {error}", source.display()))
}

#[cfg(test)]
mod tests {
    use rocwheel_progress::Silent;

    use super::*;

    fn source() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join("in").join(path);
        fs_err::create_dir_all(at("lib")).unwrap();
        fs_err::create_dir_all(at("bin")).unwrap();
        fs_err::write(at("lib/a.so.1"), "a").unwrap();
        rocwheel_system::symlink("a.so.1", at("lib/a.so")).unwrap();
        fs_err::hard_link(at("lib/a.so.1"), at("lib/same")).unwrap();
        fs_err::write(at("bin/tool"), "t").unwrap();
        rocwheel_system::set_mode(at("bin/tool"), 0o755).unwrap();
        folder
    }

    fn scan(folder: &Path, includes: &[&str], excludes: &[&str]) -> Fileset {
        let predicate = Predicate::new(includes.iter().copied(), excludes.iter().copied());
        Fileset::scan(&[folder.join("in")], &predicate, &Silent).unwrap()
    }

    #[test]
    fn directories_match_like_files() {
        let folder = source();
        let names = |includes: &[&str], excludes: &[&str]| {
            scan(folder.path(), includes, excludes).entries.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(names(&[], &[]), ["bin", "bin/tool", "lib", "lib/a.so", "lib/a.so.1", "lib/same"]);
        assert_eq!(names(&["lib/**"], &["**/same"]), ["lib", "lib/a.so", "lib/a.so.1"]);
        assert_eq!(names(&["**/*.so"], &[]), ["lib/a.so"]);
        let missing = Fileset::scan(&[folder.path().join("none")], &Predicate::default(), &Silent);
        assert!(missing.unwrap_err().to_string().starts_with("there is no `"));
    }

    #[test]
    fn the_later_directory_counts() {
        let folder = source();
        let over = folder.path().join("over");
        fs_err::create_dir_all(over.join("bin")).unwrap();
        fs_err::write(over.join("bin/tool"), "other").unwrap();
        let set = Fileset::scan(&[folder.path().join("in"), over.clone()], &Predicate::default(), &Silent).unwrap();
        assert_eq!(set.entries["bin/tool"].source, over.join("bin/tool"));
    }

    #[cfg_attr(windows, ignore = "Wine has no links, and Windows no modes")]
    #[test]
    fn copies_keep_links_modes_and_what_was_there() {
        let folder = source();
        let input = [folder.path().join("in")];
        let output = folder.path().join("out");
        let inode = |path: &Path| fs_err::metadata(path).unwrap().identity(path).unwrap();
        let set = scan(folder.path(), &[], &[]);
        set.copy(&output, (Transfer::Contents, Before::Keep), &input, &Silent).unwrap();
        assert_eq!(inode(&output.join("lib/same")), inode(&output.join("lib/a.so.1")));
        assert_ne!(inode(&output.join("lib/same")), inode(&input[0].join("lib/same")));
        assert_eq!(fs_err::read_link(output.join("lib/a.so")).unwrap(), Path::new("a.so.1"));
        assert_eq!(fs_err::metadata(output.join("bin/tool")).unwrap().mode(&output.join("bin/tool")) & 0o777, 0o755);

        fs_err::write(output.join("lib/other"), "").unwrap();
        let tools = scan(folder.path(), &["bin/tool"], &[]);
        tools.copy(&output, (Transfer::Link, Before::Keep), &input, &Silent).unwrap();
        assert_eq!(inode(&output.join("bin/tool")), inode(&input[0].join("bin/tool")));
        assert!(output.join("lib/other").exists());
        tools.copy(&output, (Transfer::Link, Before::Replace), &input, &Silent).unwrap();
        assert!(!output.join("lib").exists() && output.join("bin/tool").exists());
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 2, "nothing temporary is left");
        let inside = tools.copy(&input[0].join("x"), (Transfer::Link, Before::Replace), &input, &Silent);
        assert!(inside.unwrap_err().to_string().ends_with("are inside one another"));
    }
}
