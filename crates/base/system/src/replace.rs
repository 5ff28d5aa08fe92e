//! Input: the bytes of a file. Output: the file, which no other process ever sees half-written.

use std::io::{self, Write as _};
use std::path::Path;

use crate::{FileMetadata as _, open_identity, persist, set_open_mode};

/// Writes a temporary file in the same folder and renames it to `path`. The file gets exactly this
/// mode, without regard to the umask.
///
/// # Errors
/// A file that cannot be written or renamed; the message names `path`.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let replaced = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        file.write_all(bytes)?;
        set_open_mode(file.as_file(), mode)?;
        persist(file, path)
    });
    replaced.map_err(|error| io::Error::new(error.kind(), format!("`{}`: {error}", path.display())))
}

/// `true` if a path still names this open file. Another process may have removed or replaced it
/// between opening and locking.
pub fn is_same_file(file: &fs_err::File, path: &Path) -> bool {
    let Ok(there) = fs_err::metadata(path).and_then(|metadata| metadata.identity(path)) else { return false };
    open_identity(file).is_ok_and(|open| open == there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_with_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        for (bytes, mode) in [(b"1", 0o600), (b"2", 0o644)] {
            replace(&path, bytes, mode).unwrap();
            assert_eq!(fs_err::read(&path).unwrap(), bytes);
            // Windows keeps no other bits than those for writing.
            let bits = if cfg!(windows) { 0o200 } else { 0o777 };
            assert_eq!(fs_err::metadata(&path).unwrap().mode(&path) & bits, mode & bits);
        }
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
        let error = replace(&folder.path().join("none/state.json"), b"", 0o644).unwrap_err();
        assert!(error.to_string().contains("state.json"), "{error}");
    }

    #[test]
    fn a_name_that_exists_is_not_given_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        let give = |text: &str| {
            let mut file = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            crate::persist_new(file, &path)
        };
        give("first").unwrap();
        assert_eq!(give("second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "first");
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_was_replaced_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = fs_err::File::create(&path).unwrap();
        assert!(is_same_file(&file, &path));
        // Not every system replaces a file that is open.
        crate::rename(&path, folder.path().join("aside")).unwrap();
        replace(&path, b"", 0o644).unwrap();
        assert!(!is_same_file(&file, &path));
        fs_err::remove_file(&path).unwrap();
        assert!(!is_same_file(&file, &path));
    }
}
