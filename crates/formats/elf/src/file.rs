//! Input: the path of an ELF file and an [`Edit`]. Output: the edited file at the same path.

use std::path::Path;

use rocwheel_content::open_regular;

use crate::{Edit, EditOutcome, Error};

/// Edits a file. A copy beside it is edited and then replaces it, so that the file is either
/// unchanged or completely edited, and other hard links keep the original. Mode bits are kept; a
/// symbolic link is followed and stays. If nothing changes ([`EditOutcome::Unchanged`],
/// [`EditOutcome::NotDynamic`]), nothing is written.
///
/// If the file system can share blocks between files, the copy costs nothing; otherwise it takes as
/// much space as the file. [`crate::Patch::apply`] edits a file in place, for callers that created
/// the file themselves.
///
/// # Errors
/// [`Error::File`] with the path; its source is the error of [`Edit::plan`] or of the operating
/// system. The file is unchanged.
pub fn edit_file(path: &Path, edit: &Edit) -> Result<EditOutcome, Error> {
    let target = &rocwheel_system::canonicalize(path).map_err(Error::file("read", path))?;
    let original = open_regular(target).map_err(Error::file("read", path))?;
    let patch = edit.plan(original.file()).map_err(Error::file("edit", target))?;
    if patch.outcome != EditOutcome::Changed {
        return Ok(patch.outcome);
    }
    let folder = target.parent().unwrap_or(Path::new("/"));
    let copy = tempfile::Builder::new().prefix(".rocwheel-").tempfile_in(folder);
    let mut copy = copy.map_err(Error::file("edit", path))?;
    rocwheel_system::copy_content(original.file(), copy.as_file_mut()).map_err(Error::file("edit", path))?;
    patch.apply(copy.as_file_mut()).map_err(Error::file("edit", path))?;
    let permissions = original.metadata().map_err(Error::file("read", path))?.permissions();
    fs_err::set_permissions(copy.path(), permissions).map_err(Error::file("edit", path))?;
    rocwheel_system::persist(copy, target).map_err(Error::file("edit", path))?;
    Ok(EditOutcome::Changed)
}
