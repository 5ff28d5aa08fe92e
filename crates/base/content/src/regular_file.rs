//! Input: the path of a file that may have been replaced by something else. Output: the open file,
//! or its bytes.
//!
//! Opening a named pipe waits for a writer, which may never come, and a device such as `/dev/zero`
//! has no end. So a file is opened without waiting, and its type is that of the open file.

use std::io::{self, Read as _};
use std::path::Path;

/// Opens a regular file for reading. Links are followed.
///
/// # Errors
/// A path that cannot be opened; a folder ([`io::ErrorKind::IsADirectory`]); anything else that is
/// not a regular file ([`io::ErrorKind::InvalidInput`]). The message names the path.
pub fn open_regular(path: &Path) -> io::Result<fs_err::File> {
    let file = rocwheel_system::open_numbered(path).map_err(|error| {
        // The words of `fs_err`, which the binary recognizes.
        io::Error::new(error.kind(), format!("failed to open file `{}`: {error}", path.display()))
    })?;
    let file_type = file.metadata()?.file_type();
    if file_type.is_file() {
        return Ok(file);
    }
    if file_type.is_dir() {
        return Err(refused(path, io::ErrorKind::IsADirectory, "a folder"));
    }
    let reason = format!("a {}, no regular file", rocwheel_system::special_kind(file_type));
    Err(refused(path, io::ErrorKind::InvalidInput, &reason))
}

/// Reads a regular file of at most `limit` bytes. Links are followed.
///
/// # Errors
/// As [`open_regular`]; a larger file ([`io::ErrorKind::FileTooLarge`]).
pub fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let mut bytes = Vec::new();
    // A file may grow meanwhile, and those of the kernel have no size.
    if file.metadata()?.len() > limit || file.take(limit.saturating_add(1)).read_to_end(&mut bytes)? as u64 > limit {
        let reason = match limit >> 20 {
            0 => format!("larger than {limit} bytes"),
            mebibytes => format!("larger than {mebibytes} MiB"),
        };
        return Err(refused(path, io::ErrorKind::FileTooLarge, &reason));
    }
    Ok(bytes)
}

fn refused(path: &Path, kind: io::ErrorKind, reason: &str) -> io::Error {
    io::Error::new(kind, format!("`{}` is {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_up_to_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs_err::write(&path, "text").unwrap();
        assert_eq!(read_small(&path, 4).unwrap(), b"text");
        let error = read_small(&path, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), format!("`{}` is larger than 3 bytes", path.display()));
        let missing = read_small(&folder.path().join("none"), 3).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(missing.to_string().contains("none`: "), "{missing}");
    }

    #[cfg_attr(windows, ignore = "Windows has no pipes among its files, and Wine has no links")]
    #[test]
    fn what_is_no_regular_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        rocwheel_system::symlink("/dev/zero", at("zeros")).unwrap();
        fs_err::create_dir(at("folder")).unwrap();
        for (name, kind, reason) in [
            ("pipe", io::ErrorKind::InvalidInput, "a named pipe, no regular file"),
            ("zeros", io::ErrorKind::InvalidInput, "a device, no regular file"),
            ("folder", io::ErrorKind::IsADirectory, "a folder"),
        ] {
            let error = read_small(&at(name), 100).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.to_string(), format!("`{}` is {reason}", at(name).display()));
        }
    }
}
