//! Input: a built file. Output: its attestations (PEP 740), if they are about its bytes.
//!
//! `FILE.provenance` is a provenance object: bundles of attestations, each with a statement of
//! in-toto that names the file and its SHA-256. Who signed it is not checked: that is for
//! installers.

use std::io;
use std::path::Path;

use rocwheel_content::read_small;
use rocwheel_index::companion::ATTESTATIONS;
use rocwheel_pages::check_attestations;
use rocwheel_promote::Promoted;
use rocwheel_store::Error as StoreError;

use crate::Error;

/// The largest provenance object that is read, in bytes; PyPI's have about 10 KB.
const LARGEST: u64 = 16 << 20;

/// Reads the attestations beside a file. The error is the reason why they cannot be published.
pub(super) fn read(path: &Path, sha256: &str) -> Result<Option<Vec<u8>>, String> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(ATTESTATIONS);
    let bytes = match read_small(beside.as_ref(), LARGEST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    check_attestations(&bytes, &name, sha256)?;
    Ok(Some(bytes))
}

/// Writes attestations beside those promoted files that have the name and the bytes of the file
/// that they were made from; `find` returns those of the file with a name. Returns the number of
/// the other files with attestations.
pub fn carry_attestations(
    promoted: &[Promoted],
    folder: &Path,
    find: impl Fn(&str) -> Option<Vec<u8>>,
) -> Result<usize, Error> {
    let mut left = 0;
    for file in promoted {
        let Some(source) = &file.source else { continue };
        let Some(bytes) = find(&source.name) else { continue };
        if source.name != file.name || source.sha256 != file.sha256 {
            left += 1;
            continue;
        }
        let path = folder.join(format!("{}{ATTESTATIONS}", file.name));
        fs_err::write(&path, bytes).map_err(|source| StoreError::Write { path, source })?;
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg_attr(windows, ignore = "Windows has no pipes among its files, and Wine has no links")]
    #[test]
    fn a_pipe_beside_a_file_is_no_attestation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.whl");
        assert_eq!(read(&path, "abc"), Ok(None));
        let pipe = folder.path().join("a.whl.provenance");
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        let reason = read(&path, "abc").unwrap_err();
        assert!(reason.contains("a named pipe, no regular file"), "{reason}");
    }
}
