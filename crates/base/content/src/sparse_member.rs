//! Input: a member of a tar archive. Output: whether it is a sparse file in the PAX format. GNU tar
//! writes these with `--sparse --format=posix`, bsdtar by default.

use std::io::{self, Read};

/// How to write an archive without such members, for messages.
pub const PACK_WITHOUT_SPARSE: &str = "pack it without `--sparse` (bsdtar: `--no-read-sparse`)";

/// Returns the name of the file if the member is a sparse file in the PAX format (`GNU.sparse.*`).
/// The tar reader does not expand it: the content is only its pieces, after their map.
///
/// # Errors
/// The errors of the reader.
pub fn pax_sparse_name<R: Read>(entry: &mut tar::Entry<R>) -> io::Result<Option<String>> {
    let mut name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    let mut is_sparse = false;
    for record in entry.pax_extensions()?.into_iter().flatten().flatten() {
        is_sparse |= record.key_bytes().starts_with(b"GNU.sparse.");
        // The member itself is called `GNUSparseFile.NUMBER/…`.
        if record.key_bytes() == b"GNU.sparse.name" {
            name = String::from_utf8_lossy(record.value_bytes()).into_owned();
        }
    }
    Ok(is_sparse.then_some(name))
}
