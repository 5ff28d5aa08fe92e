//! Input: a directory with installed distributions, and the changes to its files. Output: corrected
//! RECORD files (PEP 376): rows of changed files have the new hash and size, rows of removed files
//! are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rocwheel_content::archive_path::{link_target, parent};
use rocwheel_content::{Digest, sha256_of};
use rocwheel_progress::{Failure, Reporter};
use rocwheel_wheel::{RecordRow, RowEdit, edit_rows, parse_rows};

use super::destination::Place;
use super::{PruneAction, Pruned, PrunedFile};

/// `true` if a path of a tree is the RECORD of an installed distribution.
pub(super) fn is_record(path: &str) -> bool {
    path.strip_suffix("/RECORD").is_some_and(|folder| folder.ends_with(".dist-info"))
}

/// A directory and the changes to its files.
pub(super) struct Records<'a> {
    pub(super) root: &'a Path,
    pub(super) place: &'a Place,
    pub(super) files: &'a [PrunedFile],
}

impl Records<'_> {
    /// Writes a corrected RECORD for the one at `path` if it lists a changed file. A RECORD that
    /// cannot be parsed stays unchanged, with a warning.
    pub(super) fn mend(&self, path: &str, reporter: &dyn Reporter) -> Result<Option<PrunedFile>, Failure> {
        let text = fs_err::read(self.root.join(path))?;
        let (mut count, mut failure) = (0_u64, None);
        let mended = String::from_utf8(text).map_err(|error| error.to_string()).and_then(|text| {
            let mended = edit_rows(&text, |row| {
                let edit = self.edit(path, row).unwrap_or_else(|error| {
                    failure.get_or_insert(error);
                    RowEdit::Keep
                });
                count += u64::from(edit != RowEdit::Keep);
                edit
            });
            Ok((mended?, text.len() as u64))
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let (mended, before) = match mended {
            Ok(mended) => mended,
            Err(reason) => {
                let path = self.root.join(path);
                reporter.warn(&format!("`{}` is not changed: it is no RECORD: {reason}", path.display()));
                return Ok(None);
            }
        };
        if count == 0 {
            return Ok(None);
        }
        let after = mended.len() as u64;
        if let Some(staged) = self.place.staged(path) {
            fs_err::create_dir_all(staged.parent().unwrap_or(&staged))?;
            fs_err::write(&staged, mended)?;
            fs_err::set_permissions(&staged, fs_err::metadata(self.root.join(path))?.permissions())?;
        }
        let rows = if count == 1 { "one row is" } else { "rows are" };
        let note = if count == 1 { format!("{rows} different") } else { format!("{count} {rows} different") };
        Ok(Some(PrunedFile {
            path: path.to_owned(),
            action: PruneAction::Changed,
            before,
            after,
            estimated: false,
            kept: Vec::new(),
            dropped: Vec::new(),
            note: Some(note),
        }))
    }

    fn edit(&self, record: &str, row: &RecordRow) -> Result<RowEdit, Failure> {
        // Rows are relative to the folder that holds `.dist-info`.
        let Some(path) = link_target(parent(record), &row.path) else { return Ok(RowEdit::Keep) };
        let file = self.files.iter().find(|file| match file.action {
            PruneAction::Kept => false,
            PruneAction::Changed => file.path == path,
            PruneAction::Dropped => {
                path.strip_prefix(&file.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        });
        let Some(file) = file else { return Ok(RowEdit::Keep) };
        if file.action == PruneAction::Dropped {
            return Ok(RowEdit::Drop);
        }
        let digest = match self.place.staged(&path) {
            Some(staged) => sha256_of(fs_err::File::open(staged)?)?,
            None => Digest::default(),
        };
        Ok(RowEdit::Replace(digest, file.after))
    }
}

/// Warns about RECORD files above `output` that list files which changed below it: they are outside
/// the directory to be pruned.
pub(super) fn warn_outside(output: &Path, pruned: &Pruned, reporter: &dyn Reporter) {
    let changed =
        pruned.files.iter().filter(|file| file.action != PruneAction::Kept).map(|file| match file.path.as_str() {
            "" => output.to_owned(),
            path => output.join(path),
        });
    let changed: BTreeSet<_> = changed.collect();
    if changed.is_empty() {
        return;
    }
    for folder in output.ancestors().skip(1) {
        let entries = fs_err::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let infos: BTreeMap<_, _> = entries.map(|entry| (entry.file_name(), entry.path())).collect();
        for record in infos.into_values().filter(|path| path.extension().is_some_and(|end| end == "dist-info")) {
            let record = record.join("RECORD");
            let rows = fs_err::read_to_string(&record).ok().and_then(|text| parse_rows(&text).ok()).unwrap_or_default();
            let count = rows.iter().filter(|row| changed.contains(&folder.join(&row.path))).count();
            if count > 0 {
                let files = if count == 1 { "a file that is" } else { "files that are" };
                reporter.warn(&format!(
                    "`{}` lists {files} different now; prune `{}` instead, and it is corrected too",
                    record.display(),
                    folder.display()
                ));
            }
        }
    }
}
