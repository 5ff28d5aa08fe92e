//! Files that several processes share: they are replaced as a whole, and locked.

use std::io::Error as IoError;
use std::path::Path;

use rocwheel_system::Lock;

use crate::error::Error;

/// Replaces a file atomically. It is readable for everyone who can see the folder (mode 644),
/// unless it contains an address with a password (mode 600).
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    Ok(rocwheel_system::replace(path, bytes, if holds_secret(bytes) { 0o600 } else { 0o644 })?)
}

/// `true` if a text contains an address with a password or a token.
fn holds_secret(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else { return false };
    text.match_indices("://").any(|(at, _)| {
        let start =
            text[..at].trim_end_matches(|letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
        let host = at + "://".len();
        let end = text[host..].find(|letter: char| "/\"'".contains(letter) || letter.is_whitespace());
        let address = &text[start.len()..end.map_or(text.len(), |length| host + length)];
        rocwheel_source::without_secret(address) != address
    })
}

/// Takes an exclusive lock and holds it until it is dropped; `None` if another holder has it.
///
/// # Errors
/// The file cannot be created, or the file system has no locks.
pub fn lock(path: &Path) -> Result<Option<Lock>, Error> {
    let file = fs_err::OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    Lock::try_exclusive(file).map_err(|error| no_locks(path, &error))
}

/// `true` if another process holds the lock. The check takes only a shared lock for a moment; a
/// process that wants the lock meanwhile has to try again.
pub fn is_locked(path: &Path) -> Result<bool, Error> {
    match fs_err::File::open(path) {
        Ok(file) => Ok(Lock::try_shared(file).map_err(|error| no_locks(path, &error))?.is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn no_locks(path: &Path, error: &IoError) -> Error {
    let what = "cannot be locked, and nothing may be built without locks: use another file system, or mount this one with them";
    IoError::new(error.kind(), format!("`{}` {what}: {error}", path.display())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_one_runs_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(!is_locked(&path).unwrap());
        let held = lock(&path).unwrap();
        assert!(held.is_some() && lock(&path).unwrap().is_none() && is_locked(&path).unwrap());
        drop(held);
        assert!(!is_locked(&path).unwrap());
        assert!(lock(&folder.path().join("none/lock")).unwrap_err().to_string().contains("none/lock"));
    }

    #[test]
    fn what_is_replaced_can_be_read_by_others() {
        use rocwheel_system::FileMetadata as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        replace(&path, b"1").unwrap();
        replace(&path, b"2").unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), b"2");
        assert_eq!(path.metadata().unwrap().mode(&path) & 0o777, 0o644);
        for secret in [r#"{"index":"https://someone:password@there/simple/"}"#, "«https://token@there»"] {
            replace(&path, secret.as_bytes()).unwrap();
            assert_eq!(path.metadata().unwrap().mode(&path) & 0o777, 0o600, "{secret}");
        }
        replace(&path, b"a = 'https://there/simple/someone@else', b = \"ssh://git@there/it\"").unwrap();
        assert_eq!(path.metadata().unwrap().mode(&path) & 0o777, 0o644);
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
        let error = replace(&folder.path().join("none/state.json"), b"").unwrap_err();
        assert!(error.to_string().contains("none/state.json"), "{error}");
    }
}
