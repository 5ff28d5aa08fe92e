//! Input: a [`Plan`] and a destination. Output: the file.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rocwheel_archive::{WriteOptions, Written, copy_file};
use rocwheel_content::{Content, WINDOW};
use rocwheel_elf::PatchedContent;
use rocwheel_output::{Destination, Staged, StagedFile, StagingFolder};
use rocwheel_progress::Reporter;
use rocwheel_wheel::read::MemberContent;
use rocwheel_wheel::{Existing, MemberOrder, Rewrite, new_info, rewrite};

use crate::error::Error;
use crate::plan::{Plan, Steps, WheelSteps};
use crate::sdist;

/// The destination of results, and the treatment of files that exist there.
#[derive(Debug, Clone)]
pub struct EditPlacement {
    pub destination: Destination,
    /// The treatment of an existing file with the name of the result.
    pub existing: Existing,
    /// Folder for temporary files, which hold libraries while they are packed.
    pub scratch: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256 in hexadecimal; `None` if [`WriteOptions::digest`] does not request it, or if
    /// the file was not written.
    pub sha256: Option<String>,
    /// `true` if a file with the same bytes existed before.
    pub unchanged: bool,
}

/// Executes a plan. The result gets its name when it is complete; an error or interruption leaves
/// nothing behind. The input does not change, except that the result replaces it with
/// [`Destination::InPlace`].
///
/// # Errors
/// A file that cannot be read or written; [`rocwheel_wheel::Error::SameFile`]; [`Error::Exists`] if
/// existing files are to be refused; an interruption.
pub fn execute(
    plan: &Plan,
    place: &EditPlacement,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<Edited, Error> {
    Ok(prepare(plan, place, options, reporter)?.commit()?)
}

/// Like [`execute`] without the last step, so the result can be checked before it is moved.
pub fn prepare(
    plan: &Plan,
    place: &EditPlacement,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<Staged<Edited>, Error> {
    // Resolves a link, so that it stays a link to the file.
    let input = rocwheel_system::canonicalize(&plan.input)
        .map_err(|source| rocwheel_archive::Error::Open { path: plan.input.clone(), source })?;
    let folder = match &place.destination {
        Destination::Folder(folder) => folder.clone(),
        Destination::InPlace => input.parent().unwrap_or(Path::new("/")).to_owned(),
    };
    let path = folder.join(&plan.output);
    let is_input = rocwheel_system::canonicalize(&path).is_ok_and(|output| output == input);
    let in_place = place.destination == Destination::InPlace;
    if is_input && !in_place {
        return Err(rocwheel_wheel::Error::SameFile { path }.into());
    }
    let exists = !is_input && place.existing == Existing::Refuse && fs_err::symlink_metadata(&path).is_ok();
    if !plan.changes_anything() && in_place {
        let edited = Edited { path: plan.input.clone(), size: plan.size, sha256: None, unchanged: true };
        let file = StagedFile { staged: plan.input.clone(), place: plan.input.clone() };
        return Ok(Staged::nothing(edited).with_shown(file));
    }
    let staging = StagingFolder::for_results(&folder, ".rocwheel-");
    let staging = staging.map_err(|source| rocwheel_archive::Error::Create { directory: folder.clone(), source })?;
    let staged = staging.path().join(&plan.output);
    let written = match &plan.steps {
        _ if !plan.changes_anything() => copy_file(&input, &staged, options, reporter).map_err(Error::from),
        Steps::Wheel(steps) => write_wheel(steps, staging.path(), &place.scratch, options, reporter),
        Steps::Sdist(steps) => sdist::write(steps, &staged, options, reporter),
    };
    let written = written.map_err(|error| called(error, &staged, &path))?;
    let mut edited = Edited { path: written.path, size: written.compressed, sha256: written.sha256, unchanged: false };
    if exists {
        // If the same edit was done before, there is nothing to refuse and nothing to replace.
        let is_equal = is_equal(&edited.path, &path);
        if !is_equal.map_err(|source| rocwheel_archive::Error::Open { path: path.clone(), source })? {
            return Err(Error::Exists { path });
        }
        edited.unchanged = true;
    }
    edited.path.clone_from(&path);
    let file = StagedFile { staged, place: path };
    let is_there = edited.unchanged;
    let result = Staged::new(staging, edited);
    let result = if is_there { result.with_shown(file) } else { result.with_file(file) };
    let is_replaced = plan.changes_anything() && in_place && !is_input;
    // The result replaces the input under another name.
    Ok(if is_replaced { result.with_removed(input, None) } else { result })
}

/// Replaces the temporary path in an error by the path that the user knows.
fn called(error: Error, staged: &Path, place: &Path) -> Error {
    match error {
        Error::Archive(rocwheel_archive::Error::Write { path, member, source })
        | Error::Wheel(rocwheel_wheel::Error::Archive(rocwheel_archive::Error::Write { path, member, source }))
            if path == staged =>
        {
            rocwheel_archive::Error::Write { path: place.to_owned(), member, source }.into()
        }
        other => other,
    }
}

fn write_wheel(
    steps: &WheelSteps,
    folder: &Path,
    scratch: &Path,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<Written, Error> {
    let mut replace: BTreeMap<String, Box<dyn Content>> = BTreeMap::new();
    for (member, bytes) in &steps.texts {
        replace.insert(member.clone(), Box::new(bytes.clone()));
    }
    for (member, patch) in &steps.libraries {
        let original = MemberContent::new(&steps.wheel, member, scratch)?;
        replace.insert(member.clone(), Box::new(PatchedContent::new(original, patch.clone())));
    }
    // The name of the folder may be wrong although that of the file is right.
    let is_renamed = steps.name != steps.wheel.name || new_info(&steps.wheel, &steps.name).is_some();
    let change = Rewrite {
        drop: steps.drop.clone(),
        replace,
        rename: BTreeMap::new(),
        add: Vec::new(),
        metadata: steps.metadata.clone(),
        wheel: steps.tags.clone(),
        name: is_renamed.then(|| steps.name.clone()),
        // The caller has already checked that the output is not the input.
        existing: Existing::Replace,
        order: MemberOrder::Kept,
    };
    Ok(rewrite(&steps.wheel, &change, folder, options, reporter)?)
}

/// `true` if two files have the same bytes.
fn is_equal(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (fs_err::File::open(one)?, fs_err::File::open(other)?);
    let (size, other_metadata) = (one.metadata()?.len(), other.metadata()?);
    if !other_metadata.is_file() || size != other_metadata.len() {
        return Ok(false);
    }
    let (mut here, mut there) = (vec![0; WINDOW], vec![0; WINDOW]);
    let mut rest = size;
    while rest > 0 {
        let length = usize::try_from(rest).map_or(WINDOW, |rest| rest.min(WINDOW));
        one.read_exact(&mut here[..length])?;
        other.read_exact(&mut there[..length])?;
        if here[..length] != there[..length] {
            return Ok(false);
        }
        rest -= length as u64;
    }
    Ok(true)
}
