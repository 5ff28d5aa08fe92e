//! Input: an archive and its `.sha256sum`. Output: the digest, or an error if the two disagree.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_content::{hexadecimal, open_regular, sha256_of};
use rocwheel_progress::{Failure, Reporter, Watched};

use crate::error::Error;

/// The `.sha256sum` beside the archive.
pub fn sidecar_path(archive: &Path) -> PathBuf {
    let mut path = archive.as_os_str().to_owned();
    path.push(".sha256sum");
    path.into()
}

/// SHA-256 in lower-case hexadecimal. Advances the reporter's stage by the bytes read.
pub fn digest(path: &Path, reporter: &dyn Reporter) -> Result<String, Error> {
    let digest = sha256_of(Watched::new(open_regular(path)?, reporter));
    reporter.check()?;
    Ok(hexadecimal(&digest?))
}

/// `None` without a sidecar. The digest is the first word, so a bare digest (which `TheRock`
/// writes) and the format of `sha256sum` are both accepted.
pub(crate) fn read_sidecar(archive: &Path) -> Result<Option<String>, Error> {
    let path = sidecar_path(archive);
    let bytes = match crate::input::read_small_followed(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let digest = parse_sidecar(&String::from_utf8_lossy(&bytes));
    digest.map(Some).ok_or_else(|| {
        Failure::message(format!("the sidecar `{}` does not begin with a SHA-256 digest", path.display()))
            .with_hint("remove the sidecar, or write it again with `sha256sum`")
            .into()
    })
}

pub fn parse_sidecar(text: &str) -> Option<String> {
    // `sha256sum` puts a backslash before the digest if it had to escape the file name.
    let digest = text.split_whitespace().next().unwrap_or_default().trim_start_matches('\\').to_ascii_lowercase();
    (digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digest)
}

/// The digest of an archive, after comparing it with the sidecar if one exists.
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

/// The line that `sha256sum` prints for a file of that name, with its escapes.
pub fn sidecar_line(digest: &str, file_name: &str) -> String {
    if file_name.contains(['\\', '\n', '\r']) {
        let escaped = file_name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
        format!("\\{digest}  {escaped}\n")
    } else {
        format!("{digest}  {file_name}\n")
    }
}
