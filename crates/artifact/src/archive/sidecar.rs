//! Input: an archive and its `.sha256sum`. Output: the digest, or an error when the two disagree.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rocwheel_report::Reporter;
use sha2::{Digest, Sha256};

use crate::error::Error;

/// Where the sidecar of an archive lies.
pub fn sidecar_path(archive: &Path) -> PathBuf {
    let mut path = archive.as_os_str().to_owned();
    path.push(".sha256sum");
    path.into()
}

/// The SHA-256 digest of a file in lower-case hexadecimal. Advances the reporter's stage by the
/// bytes read.
pub fn digest(path: &Path, reporter: &dyn Reporter) -> Result<String, Error> {
    let mut file = fs_err::File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        reporter.check()?;
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hexadecimal(&hash.finalize()));
        }
        hash.update(&buffer[..read]);
        reporter.advance(read as u64);
    }
}

/// The digest in the sidecar of `archive`, `None` when there is no sidecar. The digest is the first
/// word, so a bare digest (what `TheRock` writes) and the form of `sha256sum` are both accepted.
pub(crate) fn read_sidecar(archive: &Path) -> Result<Option<String>, Error> {
    let path = sidecar_path(archive);
    let bytes = match crate::input::read_small_followed(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let text = String::from_utf8_lossy(&bytes);
    // `sha256sum` puts a backslash before the digest when it had to escape the file name.
    let digest = text.split_whitespace().next().unwrap_or_default().trim_start_matches('\\').to_ascii_lowercase();
    if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(Some(digest))
    } else {
        Err(Error::MalformedSidecar { path })
    }
}

/// The digest of an archive, after comparing it with the sidecar's when there is one.
///
/// # Errors
/// [`Error::DigestMismatch`] names both digests.
pub fn verify_digest(archive: &Path, reporter: &dyn Reporter) -> Result<String, Error> {
    let expected = read_sidecar(archive)?;
    let actual = digest(archive, reporter)?;
    match expected {
        Some(expected) if expected != actual => {
            Err(Error::DigestMismatch { path: archive.to_owned(), expected, actual })
        }
        _ => Ok(actual),
    }
}

/// The line `sha256sum` would print for a file of that name, with its escapes.
pub(super) fn sidecar_line(digest: &str, file_name: &str) -> String {
    if file_name.contains(['\\', '\n', '\r']) {
        let escaped = file_name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
        format!("\\{digest}  {escaped}\n")
    } else {
        format!("{digest}  {file_name}\n")
    }
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
