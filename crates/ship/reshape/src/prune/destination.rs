//! Input: the paths of the inputs and the destination. Output: a staging folder for each result,
//! and the moves of its files to their destination.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_output::{Destination, Mode, Staged, StagedFile, StagingFolder};
use rocwheel_wheel::WheelName;

use rocwheel_progress::Failure;

use super::error::unsuitable;
use super::{Options, PruneAction, Pruned};

/// Checks that no output overwrites another output or lies in an input.
pub(super) fn check(paths: &[PathBuf], destination: &Destination) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    for path in paths {
        let Destination::Folder(folder) = destination else { continue };
        let name = name(path)?;
        if !names.insert(name.clone()) {
            let failure = Failure::message(format!("two inputs are called `{name}`"));
            return Err(failure.with_hint("prune them one at a time, with an output for each"));
        }
        let output = folder.join(&name);
        if let Some(input) = canonical(path).filter(|_| path.is_dir())
            && outermost(&output).is_some_and(|output| output.starts_with(&input))
        {
            let (output, input) = (output.display(), path.display());
            let failure = Failure::message(format!("the output `{output}` is in the input `{input}`"));
            return Err(failure.with_hint("choose an output outside of the inputs"));
        }
        if fs_err::symlink_metadata(&output).is_ok() {
            let failure = Failure::message(format!("the output `{}` exists", output.display()));
            return Err(failure.with_hint("remove it, or choose another output"));
        }
    }
    Ok(())
}

/// Returns the last part of a path; `..` is resolved first.
fn name(path: &Path) -> Result<String, Failure> {
    let absolute = match path.file_name() {
        Some(_) => path.to_owned(),
        None => rocwheel_system::canonicalize(path)?,
    };
    let name = absolute.file_name().ok_or_else(|| unsuitable(path, "it has no file name"))?;
    Ok(name.to_string_lossy().into_owned())
}

fn canonical(path: &Path) -> Option<PathBuf> {
    rocwheel_system::canonicalize(path).ok()
}

/// Makes the existing part of a path canonical.
fn outermost(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    let existing = absolute.ancestors().find_map(|ancestor| Some((ancestor, canonical(ancestor)?)))?;
    Some(existing.1.join(absolute.strip_prefix(existing.0).ok()?))
}

/// The staging folder and the destination of one result.
pub(super) struct Place {
    /// A folder on the file system of the result; `None` in a dry run.
    staging: Option<StagingFolder>,
    output: PathBuf,
    in_place: bool,
}

impl Place {
    pub(super) fn new(path: &Path, options: &Options<'_>) -> Result<Self, Failure> {
        let (folder, output, in_place) = match &options.destination {
            Destination::Folder(folder) => (folder.clone(), folder.join(name(path)?), false),
            Destination::InPlace => {
                // A link is not replaced; its target is.
                let output = rocwheel_system::canonicalize(path)?;
                (output.parent().unwrap_or(Path::new("/")).to_owned(), output, true)
            }
        };
        let staging = match options.mode {
            Mode::DryRun => None,
            Mode::Execute => Some(StagingFolder::for_results(&folder, ".rocwheel-prune-")?),
        };
        Ok(Self { staging, output, in_place })
    }

    /// Returns the staging folder; `None` in a dry run.
    pub(super) fn staging(&self) -> Option<&Path> {
        self.staging.as_ref().map(StagingFolder::path)
    }

    pub(super) fn output(&self) -> &Path {
        &self.output
    }

    /// `true` if only changed files are written.
    pub(super) fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Returns the path in the staging folder for a file of the result; a single file has the name
    /// `""`.
    pub(super) fn staged(&self, relative: &str) -> Option<PathBuf> {
        let root = self.staging()?.join(self.name());
        Some(if relative.is_empty() { root } else { root.join(relative) })
    }

    /// Returns the final name of the result, which it has from the beginning because it tells what
    /// a wheel is.
    fn name(&self) -> &OsStr {
        self.output.file_name().unwrap_or(OsStr::new("result"))
    }

    /// Returns the staged result. Its changed wheels can be audited before it is moved to its
    /// destination.
    pub(super) fn stage(mut self, pruned: Pruned) -> Result<Staged<Pruned>, Failure> {
        let Some(folder) = self.staging.take() else { return Ok(Staged::nothing(pruned)) };
        let result = folder.path().join(self.name());
        let whole = StagedFile { staged: result.clone(), place: self.output.clone() };
        let files: Vec<_> = pruned.files.iter().map(|pruned| (pruned.action, file_in(&whole, &pruned.path))).collect();
        let shown = files.iter().filter(|(action, file)| {
            *action == PruneAction::Changed && WheelName::is_wheel(&file.place) && file.staged.is_file()
        });
        let mut shown: Vec<StagedFile> = shown.map(|(_, file)| file.clone()).collect();
        if WheelName::is_wheel(&self.output) {
            shown = if result.is_file() { vec![whole.clone()] } else { Vec::new() };
        }
        let staged = shown.into_iter().fold(Staged::new(folder, pruned), Staged::with_shown);
        if !self.in_place || !result.is_dir() {
            // An unchanged input that is pruned in place has no staged file.
            return match fs_err::symlink_metadata(&result) {
                Ok(_) => Ok(staged.with_moved(whole)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(staged),
                Err(error) => Err(error.into()),
            };
        }
        Ok(files.into_iter().fold(staged, |staged, (action, file)| match action {
            PruneAction::Kept => staged,
            PruneAction::Changed => staged.with_moved(file),
            PruneAction::Dropped => staged.with_removed(file.place, Some(self.output.clone())),
        }))
    }
}

/// A file of a staged folder; the folder itself for an empty path.
fn file_in(folder: &StagedFile, path: &str) -> StagedFile {
    if path.is_empty() {
        return folder.clone();
    }
    StagedFile { staged: folder.staged.join(path), place: folder.place.join(path) }
}
