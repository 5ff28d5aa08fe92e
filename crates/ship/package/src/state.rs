//! The state of an output folder: the sources of its packages, so that a second run writes only
//! packages that changed, and no run writes into a foreign folder.
//!
//! A wheel is up to date if all of its sources are unchanged: paths, sizes, modification and change
//! times (of unpacked files the archive's digest instead of the latter), edits, metadata,
//! compression and the program itself. Its digest is stored in `.rocwheel/state.json` beside
//! `dist/`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fs_err as fs;
use rocwheel_artifact::Catalog;
use rocwheel_artifact::archive::Scratch;
use rocwheel_content::FileStamp;
use rocwheel_output::StagingFolder;
use rocwheel_progress::{Exit, Failure};
use rocwheel_system::Lock;
use serde::{Deserialize, Serialize};

use crate::error::io_error;

const FOLDER: &str = ".rocwheel";
const STATE: &str = "state.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedPackage {
    /// Digest of everything it is made of.
    pub digest: String,
    /// Number of members.
    pub files: u64,
    /// Bytes of all members before compression.
    pub raw: u64,
    /// Size of the file in bytes.
    pub compressed: u64,
    /// SHA-256 digest of the file, hexadecimal.
    pub sha256: String,
    /// Size, inode and times of the file right after it was written.
    pub stamp: String,
    /// `true` if it was audited together with its set, without errors.
    #[serde(default)]
    pub looked_at: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    schema: u32,
    /// Path below the output folder → package.
    finished: BTreeMap<String, FinishedPackage>,
}

/// The output folder of one run, locked until it is dropped.
#[derive(Debug)]
pub struct OutputFolder {
    root: PathBuf,
    file: File,
    created: bool,
    /// `None` only while it is dropped.
    lock: Option<Lock>,
}

impl OutputFolder {
    /// Creates the folder, or recognises it as one of ours, and locks it.
    pub fn open(root: &Path) -> Result<OutputFolder, Failure> {
        let hidden = root.join(FOLDER);
        let created = !root.exists();
        if !hidden.is_dir() {
            let is_empty = match fs::read_dir(root) {
                Ok(mut entries) => entries.next().is_none(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
                Err(error) => return Err(io_error("look into the output folder")(error)),
            };
            if !is_empty {
                let text = format!("`{}` is not empty and was not made by `rocwheel package`", root.display());
                return Err(Failure::message(text).with_hint("name another folder with --output"));
            }
            fs::create_dir_all(&hidden).map_err(io_error("create the output folder"))?;
        }
        let lock = Lock::at(&hidden.join("lock")).map_err(io_error("lock the output folder"))?;
        let lock = lock.ok_or_else(|| {
            Failure::message(format!("another run is writing to `{}`", root.display()))
                .with_hint("wait for it, or name another folder with --output")
                .with_exit(Exit::TryAgain)
        })?;
        let file = match fs::read(hidden.join(STATE)) {
            // A state of another schema, or a damaged one, only means that all packages are written
            // again.
            Ok(bytes) => {
                let mut file: File =
                    serde_json::from_slice(&bytes).ok().filter(|file: &File| file.schema == 1).unwrap_or_default();
                // The file may come from an untrusted source, and the paths in it may be removed.
                file.finished.retain(|path, _| is_package_path(path));
                file
            }
            Err(_) => File::default(),
        };
        Ok(OutputFolder { root: root.to_owned(), file, created, lock: Some(lock) })
    }

    /// Returns the folder that archives are unpacked in. `earlier` are output folders of other
    /// runs, or folders of packages in them: what those unpacked is not written again.
    pub fn unpacking<'a>(&self, earlier: impl Iterator<Item = &'a Path>) -> Scratch {
        let outputs = earlier.flat_map(|folder| std::iter::once(folder).chain(folder.parent()));
        outputs.fold(Scratch::new(self.scratch()), |scratch, output| scratch.after(unpacked_below(output)))
    }

    fn scratch(&self) -> PathBuf {
        unpacked_below(&self.root)
    }

    /// Returns text that changes with a source of a package. Other runs add and remove hard links
    /// to files that were unpacked below this folder, so for these the text is the path, which has
    /// the digest of the archive, and the metadata that links do not change.
    pub fn stamp_of_source(&self, path: &Path) -> std::io::Result<String> {
        let stamp = FileStamp::at(path)?;
        Ok(match path.strip_prefix(self.scratch()) {
            Ok(below) => format!("{} {}", below.display(), stamp.without_change()),
            Err(_) => stamp.to_string(),
        })
    }

    /// Removes unpacked archives that are not among the artifacts of this run, and nothing else.
    pub fn prune_scratch(&self, catalogs: &[&Catalog]) -> Result<(), Failure> {
        for entry in fs::read_dir(self.scratch()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_ours =
                entry.file_type().is_ok_and(|kind| kind.is_dir()) && name.to_str().is_some_and(Scratch::is_place);
            let mut artifacts = catalogs.iter().flat_map(|catalog| &catalog.artifacts);
            if is_ours && !artifacts.any(|artifact| artifact.root.starts_with(entry.path())) {
                fs::remove_dir_all(entry.path()).map_err(io_error("remove an unpacked archive of an earlier run"))?;
            }
        }
        Ok(())
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Returns the versions of the packages of earlier runs.
    pub fn versions(&self) -> BTreeSet<String> {
        let names = self.file.finished.keys().filter_map(|path| path.rsplit('/').next());
        let versions = names.filter_map(|name| match name.strip_suffix(".tar.gz") {
            Some(sdist) => sdist.rsplit_once('-').map(|(_, version)| version),
            None => name.split('-').nth(1),
        });
        versions.map(str::to_owned).collect()
    }

    /// `true` if the finished package at `path` was audited.
    pub fn was_looked_at(&self, path: &str) -> bool {
        self.file.finished.get(path).is_some_and(|finished| finished.looked_at)
    }

    /// Creates a folder on the same file system for unfinished packages. Those of killed runs are
    /// removed.
    pub fn staging(&self) -> Result<StagingFolder, Failure> {
        StagingFolder::new_in(&self.root.join(FOLDER), "staging-")
            .map_err(io_error("create a folder for unfinished packages"))
    }

    /// Returns the finished package at `path` if it was made from the same sources and holds the
    /// same bytes. Those are read only if the stamp is another: a hard link to the package, a new
    /// mode or a copy of the folder changes the stamp alone.
    pub fn up_to_date(&mut self, path: &str, digest: &str) -> Option<&FinishedPackage> {
        let place = self.root.join(path);
        let finished = self.file.finished.get_mut(path).filter(|finished| finished.digest == digest)?;
        let stamp = stamp(&place).ok()?;
        if finished.stamp != stamp {
            let content = rocwheel_content::sha256_of(fs::File::open(&place).ok()?).ok()?;
            if rocwheel_content::hexadecimal(&content) != finished.sha256 {
                return None;
            }
            finished.stamp = stamp;
        }
        Some(finished)
    }

    /// The packages of earlier runs that are not in `keep`.
    pub fn superfluous(&self, keep: &[String]) -> Vec<String> {
        self.file.finished.keys().filter(|path| !keep.contains(path)).cloned().collect()
    }

    /// Saves what a run has done: the packages that it moved to their destinations, the paths of
    /// those that it removed, and of those that were audited.
    pub fn record(
        &mut self,
        moved: Vec<(String, FinishedPackage)>,
        removed: &[String],
        looked: &[String],
    ) -> Result<(), Failure> {
        for (path, mut finished) in moved {
            finished.stamp = stamp(&self.path(&path)).map_err(io_error("look at a finished package"))?;
            self.file.finished.insert(path, finished);
        }
        self.file.finished.retain(|path, _| !removed.contains(path));
        for path in looked {
            if let Some(finished) = self.file.finished.get_mut(path) {
                finished.looked_at = true;
            }
        }
        self.file.schema = 1;
        let text = crate::contents::pretty(&self.file);
        rocwheel_system::replace(&self.root.join(FOLDER).join(STATE), text.as_bytes(), 0o600)
            .map_err(io_error("remember what was packaged"))
    }

    /// Returns files among the packages that rocwheel did not write, relative to the output folder.
    pub fn strangers(&self) -> Vec<String> {
        let mut strangers = Vec::new();
        let mut pending: Vec<PathBuf> = PLACES.iter().map(|place| self.root.join(place)).collect();
        while let Some(folder) = pending.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    pending.push(path);
                } else if let Ok(below) = path.strip_prefix(&self.root)
                    && let Some(name) = rocwheel_system::slashed(below).to_str()
                    && !self.file.finished.contains_key(name)
                {
                    strangers.push(name.to_owned());
                }
            }
        }
        strangers.sort();
        strangers
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        // A run that failed before it wrote anything leaves no folder behind.
        let hidden = self.root.join(FOLDER);
        if self.file.finished.is_empty() && !hidden.join(STATE).exists() && !self.scratch().exists() {
            let _ = fs::remove_file(hidden.join("lock"));
            // Not every system removes a file that this process has open, or its folder.
            self.lock = None;
            let _ = fs::remove_dir(&hidden);
            if self.created {
                let _ = fs::remove_dir(&self.root);
            }
        }
    }
}

/// Folders of packages below the output: the one that users install from, and the one for selectors
/// in the other form.
const PLACES: [&str; 2] = ["dist", "dist-wheel"];

/// The folder in an output folder that archives are unpacked in.
fn unpacked_below(output: &Path) -> PathBuf {
    output.join(FOLDER).join("artifacts")
}

/// `true` if a path can be that of a package: `dist/NAME` or `dist/FAMILY/NAME`.
fn is_package_path(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts.len(), 2 | 3)
        && PLACES.contains(&parts[0])
        && parts.iter().all(|part| !matches!(*part, "" | "." | ".."))
}

/// Returns the metadata of a file as text; any change to the file changes it.
fn stamp(path: &Path) -> std::io::Result<String> {
    Ok(FileStamp::at(path)?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(digest: &str) -> FinishedPackage {
        FinishedPackage {
            digest: digest.into(),
            files: 1,
            raw: 1,
            compressed: 1,
            sha256: rocwheel_content::hexadecimal(&rocwheel_content::sha256(digest.as_bytes())),
            stamp: String::new(),
            looked_at: false,
        }
    }

    #[test]
    fn a_folder_of_others_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "x").unwrap();
        let refused = OutputFolder::open(folder.path()).unwrap_err().to_string();
        assert!(refused.ends_with("is not empty and was not made by `rocwheel package`"), "{refused}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_second_run_is_told_to_wait() {
        let folder = tempfile::tempdir().unwrap();
        let _first = OutputFolder::open(folder.path()).unwrap();
        assert_eq!(OutputFolder::open(folder.path()).unwrap_err().exit(), Exit::TryAgain);
    }

    #[test]
    fn packages_are_known_until_they_or_their_inputs_change() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = OutputFolder::open(folder.path()).unwrap();
        fs::create_dir_all(folder.path().join("dist")).unwrap();
        fs::write(folder.path().join("dist/a.whl"), "one").unwrap();
        output.record(vec![("dist/a.whl".into(), finished("one"))], &[], &[]).unwrap();
        drop(output);
        let mut output = OutputFolder::open(folder.path()).unwrap();
        assert!(output.superfluous(&["dist/a.whl".into()]).is_empty());
        assert!(output.up_to_date("dist/a.whl", "one").is_some());
        assert!(output.up_to_date("dist/a.whl", "two").is_none());
        fs::hard_link(folder.path().join("dist/a.whl"), folder.path().join("served.whl")).unwrap();
        assert!(output.up_to_date("dist/a.whl", "one").is_some(), "the bytes are the same");
        assert!(output.up_to_date("dist/a.whl", "two").is_none());
        drop(output);
        fs::write(folder.path().join("dist/a.whl"), "spoilt").unwrap();
        let mut output = OutputFolder::open(folder.path()).unwrap();
        assert!(output.up_to_date("dist/a.whl", "one").is_none());
        assert_eq!(output.superfluous(&[]), ["dist/a.whl"]);
    }

    #[test]
    fn a_state_that_names_other_files_does_not_have_them_removed() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let root = folder.path().join("out");
        fs::create_dir_all(root.join(FOLDER)).unwrap();
        let paths = ["../victim", victim.to_str().unwrap(), "dist/../../victim", "dist", ".rocwheel/state.json"];
        let finished = paths.iter().map(|path| ((*path).to_owned(), finished("x"))).collect();
        let state = serde_json::to_string(&File { schema: 1, finished }).unwrap();
        fs::write(root.join(FOLDER).join(STATE), state).unwrap();
        assert_eq!(OutputFolder::open(&root).unwrap().superfluous(&[]), Vec::<String>::new());
    }

    #[test]
    fn a_run_that_wrote_nothing_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("out");
        drop(OutputFolder::open(&root).unwrap());
        assert!(!root.exists());
    }
}
