//! Input: a plan and a folder. Output: the promoted files and their statement, complete and not at
//! their places yet.

use std::collections::BTreeSet;
use std::path::Path;

use rayon::prelude::*;
use rocwheel_archive::{FileDigest, WriteOptions};
use rocwheel_content::{hexadecimal, sha256, sha256_ahead};
use rocwheel_output::{Staged, StagedFile, StagingFolder};
use rocwheel_progress::{Failure, Reporter, Unit, WithoutProgress};

use crate::archive::write_packed;
use crate::error;
use crate::promoted::{Promoted, PromotedFrom, STATEMENT};
use crate::promotion_plan::{PlannedPromotion, PromotionPlan, Steps};
use crate::set_file::SetFileKind;
use crate::statement::statement;
use crate::wheel::write_wheel;

/// What happens to files that are in the way, and to those that were promoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OldFiles {
    /// Replace files of the same names; else they are an error.
    pub replace: bool,
    /// Remove what was promoted or left out from its folder, after everything is in its place.
    pub remove: bool,
}

/// Writes all files of a plan into a staging folder in `output`, which is created if it is missing.
/// Nothing is at its place before the result is committed; dropping it removes everything. Wheels
/// are its files to check. No input is changed.
pub fn promote(
    plan: &PromotionPlan,
    output: &Path,
    old: OldFiles,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<Staged<Vec<Promoted>>, Failure> {
    let stay = plan.files.iter().filter(|file| is_at_its_place(file, output)).map(|file| file.name.as_str());
    let stay: BTreeSet<&str> = stay.collect();
    let made = plan.files.iter().filter_map(|file| file.new_name.as_deref()).filter(|name| !stay.contains(name));
    // Beside the old files, the statement is that of the last promotion.
    let statement_name = (!is_same(&plan.folder, output)).then_some(STATEMENT);
    for name in made.chain(statement_name) {
        let path = output.join(name);
        if !old.replace && fs_err::symlink_metadata(&path).is_ok() {
            return Err(Failure::message(format!("`{}` exists", path.display()))
                .with_hint("choose an empty folder, or add `--force` to replace it"));
        }
    }
    let staging = StagingFolder::for_results(output, ".rocwheel-")
        .map_err(Failure::attempt(format!("cannot write `{}`", output.display())))?;
    let folder = staging.path().to_owned();
    let options = WriteOptions { digest: FileDigest::Sha256, ..options.clone() };
    let files = Writer { folder: &folder, options: &options, reporter }.write_all(plan, &stay)?;
    let mut staged = Vec::new();
    for promoted in files.iter().filter(|file| !stay.contains(file.name.as_str())) {
        let file = StagedFile { staged: folder.join(&promoted.name), place: output.join(&promoted.name) };
        staged.push((file, promoted.kind));
    }
    let path = folder.join(STATEMENT);
    fs_err::write(&path, statement(plan, &files))
        .map_err(Failure::attempt(format!("cannot write `{}`", path.display())))?;
    staged.push((StagedFile { staged: path, place: output.join(STATEMENT) }, SetFileKind::Other));
    let mut result = Staged::new(staging, files);
    for (file, kind) in staged {
        result = if kind == SetFileKind::Wheel { result.with_file(file) } else { result.with_moved(file) };
    }
    if old.remove {
        for file in plan.files.iter().filter(|file| file.new_name.as_ref() != Some(&file.name)) {
            result = result.with_removed(file.path.clone(), None);
        }
    }
    Ok(result)
}

/// Writes all files of a plan into an empty folder, which belongs to the caller, also after an
/// error. The answer has the statement about them as well: the payload of a DSSE envelope.
pub fn promote_into(
    plan: &PromotionPlan,
    folder: &Path,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<(Vec<Promoted>, String), Failure> {
    let options = WriteOptions { digest: FileDigest::Sha256, ..options.clone() };
    let files = Writer { folder, options: &options, reporter }.write_all(plan, &BTreeSet::new())?;
    let statement = statement(plan, &files);
    Ok((files, statement))
}

/// `true` for a file that stays unchanged, where the output folder is its own.
fn is_at_its_place(file: &PlannedPromotion, output: &Path) -> bool {
    matches!(file.steps, Steps::Copy)
        && file.new_name.as_ref().is_some_and(|name| is_same(&file.path, &output.join(name)))
}

/// `true` if two paths lead to the same existing file or folder.
fn is_same(one: &Path, other: &Path) -> bool {
    match (rocwheel_system::canonicalize(one), rocwheel_system::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

struct Writer<'a> {
    folder: &'a Path,
    options: &'a WriteOptions,
    reporter: &'a dyn Reporter,
}

impl Writer<'_> {
    /// Writes the files of a plan, several at once. Those that `stay` are only hashed.
    fn write_all(&self, plan: &PromotionPlan, stay: &BTreeSet<&str>) -> Result<Vec<Promoted>, Failure> {
        let total = plan.files.iter().map(|file| file.size).sum();
        let _stage = self.reporter.stage("Writing promoted files", Some(total), Unit::Bytes);
        let written = plan.files.par_iter().with_max_len(1).map(|file| {
            self.reporter.check()?;
            let stays = stay.contains(file.name.as_str());
            let promoted = if stays { Some(Writer::existing(file)?) } else { self.write(file)? };
            self.reporter.advance(file.size);
            Ok(promoted)
        });
        Ok(written.collect::<Result<Vec<_>, Failure>>()?.into_iter().flatten().collect())
    }

    fn existing(file: &PlannedPromotion) -> Result<Promoted, Failure> {
        let sha256 = digest(&file.path)?;
        check_recorded(file, &sha256)?;
        let source = Some(PromotedFrom { name: file.name.clone(), sha256: sha256.clone() });
        Ok(Promoted { name: file.name.clone(), kind: file.kind, size: file.size, sha256, source })
    }

    fn write(&self, file: &PlannedPromotion) -> Result<Option<Promoted>, Failure> {
        let Some(name) = &file.new_name else { return Ok(None) };
        let (input, reporter) = (&file.path, WithoutProgress(self.reporter));
        let path = self.folder.join(name);
        let (mut sha256_of_result, mut sha256_of_input) = (None, None);
        match &file.steps {
            Steps::LeaveOut => return Ok(None),
            Steps::Copy => {
                fs_err::copy(input, &path).map_err(error::write(&path))?;
                let sha256 = digest(&path)?;
                (sha256_of_result, sha256_of_input) = (Some(sha256.clone()), Some(sha256));
            }
            Steps::Wheel(steps) => {
                let (written, sha256) = write_wheel(input, steps, (self.folder, self.folder), self.options, &reporter)?;
                (sha256_of_result, sha256_of_input) = (written.sha256, Some(sha256));
            }
            Steps::Archive(patch) => write_packed(input, patch, &path, &reporter)?,
            Steps::Text(text) => {
                fs_err::write(&path, text).map_err(error::write(&path))?;
                sha256_of_result = Some(hexadecimal(&sha256(text.as_bytes())));
            }
        }
        let source = if matches!(file.steps, Steps::Text(_)) {
            None
        } else {
            let sha256 = sha256_of_input.map_or_else(|| digest(input), Ok)?;
            check_recorded(file, &sha256)?;
            Some(PromotedFrom { name: file.name.clone(), sha256 })
        };
        let sha256 = sha256_of_result.map_or_else(|| digest(&path), Ok)?;
        let size = fs_err::metadata(&path).map_err(error::write(&path))?.len();
        Ok(Some(Promoted { name: name.clone(), kind: file.kind, size, sha256, source }))
    }
}

/// Fails if members of a file were skipped because of a record, and it is of another file.
fn check_recorded(file: &PlannedPromotion, sha256: &str) -> Result<(), Failure> {
    let is_other = file.recorded.as_ref().is_some_and(|recorded| recorded != sha256);
    if !is_other {
        return Ok(());
    }
    Err(Failure::message(format!("`{}` changed since it was packed", file.path.display()))
        .with_hint("`rocwheel package` writes it again; without its record in the cache, all of it is read"))
}

fn digest(path: &Path) -> Result<String, Failure> {
    let digest = sha256_ahead(path).map_err(error::read(path))?;
    Ok(hexadecimal(&digest))
}
