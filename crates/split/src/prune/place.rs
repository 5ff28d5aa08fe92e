//! Input: the inputs and where results go. Output: a folder to write into, and the move of what was
//! written to its place.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_wheel::Staging;

use super::{Destination, Error, Options, Pruned, Run, StagedWheel};

/// Checks that no output is in the way of another one or of an input.
pub(super) fn check(paths: &[PathBuf], destination: &Destination) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    for path in paths {
        let Destination::Folder(folder) = destination else { continue };
        let name = name(path)?;
        if !names.insert(name.clone()) {
            return Err(Error::SameName { name });
        }
        let output = folder.join(&name);
        if let Some(input) = canonical(path).filter(|_| path.is_dir())
            && outermost(&output).is_some_and(|output| output.starts_with(&input))
        {
            return Err(Error::Inside { output, input: path.clone() });
        }
        if fs_err::symlink_metadata(&output).is_ok() {
            return Err(Error::Exists { path: output });
        }
    }
    Ok(())
}

/// The last part of a path, `..` and links followed.
fn name(path: &Path) -> Result<String, Error> {
    let absolute = match path.file_name() {
        Some(_) => path.to_owned(),
        None => fs_err::canonicalize(path)?,
    };
    let unsuitable = || Error::Unsuitable { path: path.to_owned(), reason: "it has no file name".to_owned() };
    Ok(absolute.file_name().ok_or_else(unsuitable)?.to_string_lossy().into_owned())
}

fn canonical(path: &Path) -> Option<PathBuf> {
    fs_err::canonicalize(path).ok()
}

/// The path with what exists of it made canonical.
fn outermost(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    let existing = absolute.ancestors().find_map(|ancestor| Some((ancestor, canonical(ancestor)?)))?;
    Some(existing.1.join(absolute.strip_prefix(existing.0).ok()?))
}

/// Where one input's result is made, and where it goes.
pub(super) struct Place {
    /// A folder on the file system of the result; `None` in a dry run.
    staging: Option<Staging>,
    /// The result's final path.
    output: PathBuf,
    in_place: bool,
}

impl Place {
    pub(super) fn new(path: &Path, options: &Options<'_>) -> Result<Self, Error> {
        let (folder, output, in_place) = match &options.destination {
            Destination::Folder(folder) => (folder.clone(), folder.join(name(path)?), false),
            Destination::InPlace => {
                // A link is not replaced; what it points to is.
                let output = fs_err::canonicalize(path)?;
                (output.parent().unwrap_or(Path::new("/")).to_owned(), output, true)
            }
        };
        let staging = match options.run {
            Run::DryRun => None,
            Run::Execute => Some(Staging::for_results(&folder, ".rocwheel-prune-")?),
        };
        Ok(Self { staging, output, in_place })
    }

    /// Where to write; `None` in a dry run.
    pub(super) fn staging(&self) -> Option<&Path> {
        self.staging.as_ref().map(Staging::path)
    }

    /// Where the result goes.
    pub(super) fn output(&self) -> &Path {
        &self.output
    }

    /// Whether only what changes is written.
    pub(super) fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Where the result of this name is written; a single file has the name `""`.
    pub(super) fn staged(&self, relative: &str) -> Option<PathBuf> {
        let root = self.staging()?.join(self.name());
        Some(if relative.is_empty() { root } else { root.join(relative) })
    }

    /// The result has its name already, which says what a wheel is.
    fn name(&self) -> &OsStr {
        self.output.file_name().unwrap_or(OsStr::new("result"))
    }

    /// The wheels that changed. `input` is what they were made of.
    pub(super) fn wheels(&self, input: &Path, pruned: &Pruned) -> Vec<StagedWheel> {
        let at = |root: &Path, path: &str| if path.is_empty() { root.to_owned() } else { root.join(path) };
        let is_wheel = |path: &Path| path.extension().is_some_and(|extension| extension == "whl");
        let Some(root) = self.staged("") else { return Vec::new() };
        let paths: Vec<&str> = if is_wheel(&self.output) {
            vec![""]
        } else {
            let changed = pruned.files.iter().filter(|file| file.action == super::Action::Changed);
            changed.map(|file| file.path.as_str()).filter(|path| is_wheel(Path::new(path))).collect()
        };
        paths
            .into_iter()
            .map(|path| StagedWheel { staged: at(&root, path), place: at(&self.output, path), before: at(input, path) })
            .filter(|wheel| wheel.staged.is_file())
            .collect()
    }

    /// Moves what was written to its place.
    pub(super) fn commit(mut self, pruned: &Pruned) -> Result<(), Error> {
        let Some(staging) = self.staging.take() else { return Ok(()) };
        let result = staging.path().join(self.name());
        if !self.in_place || !result.is_dir() {
            // Of an input that stays as it is in its place nothing was written.
            return match fs_err::symlink_metadata(&result) {
                Ok(_) => Ok(fs_err::rename(&result, &self.output)?),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error.into()),
            };
        }
        for file in &pruned.files {
            let at = |root: &Path| if file.path.is_empty() { root.to_owned() } else { root.join(&file.path) };
            match file.action {
                super::Action::Kept => {}
                super::Action::Changed => fs_err::rename(at(&result), at(&self.output))?,
                super::Action::Dropped => remove(&at(&self.output), &self.output)?,
            }
        }
        Ok(())
    }
}

/// Removes a file or directory, and the directories that become empty by that.
fn remove(path: &Path, root: &Path) -> Result<(), Error> {
    if fs_err::symlink_metadata(path)?.is_dir() {
        fs_err::remove_dir_all(path)?;
    } else {
        fs_err::remove_file(path)?;
    }
    let mut directory = path.parent();
    while let Some(empty) = directory.filter(|directory| *directory != root && directory.starts_with(root)) {
        if fs_err::read_dir(empty)?.next().is_some() {
            break;
        }
        fs_err::remove_dir(empty)?;
        directory = empty.parent();
    }
    Ok(())
}
