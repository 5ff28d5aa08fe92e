//! Input: the text of a symbolic link. Output: the link, or what does its service.
//!
//! Windows lets users make symbolic links only in developer mode or as administrators. Without
//! that, a link to a folder becomes a junction, and one to a file a copy.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Creates a symbolic link at `link` with the text `target`. If Windows refuses, it makes a
/// junction to a folder, or a copy of what the link would lead to.
///
/// # Errors
/// An existing path, or a missing folder. A target that does not exist, if Windows refuses links:
/// then nothing can be copied.
pub fn symlink(target: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (target, link) = (native(target.as_ref()), link.as_ref());
    if fs_err::symlink_metadata(link).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("`{}` exists already", link.display())));
    }
    let leads_to = link.parent().unwrap_or(Path::new("")).join(&target);
    let found = fs_err::metadata(&leads_to).ok();
    let is_folder = found.as_ref().is_some_and(std::fs::Metadata::is_dir);
    let refused = match make(&target, link, is_folder) {
        // Some systems answer that they have made a link, and have not.
        Ok(()) if fs_err::symlink_metadata(link).is_ok() => return Ok(()),
        Ok(()) => io::Error::from(io::ErrorKind::Unsupported),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
        Err(error) => error,
    };
    let Some(found) = found else {
        let text = format!(
            "Windows refuses the symbolic link `{}` to `{}` ({refused}), and nothing exists there that could be \
             copied instead; links need the developer mode or an administrator",
            link.display(),
            target.display()
        );
        return Err(io::Error::new(refused.kind(), text));
    };
    if !found.is_dir() {
        return fs_err::copy(&leads_to, link).map(drop);
    }
    let absolute = std::path::absolute(&leads_to)?;
    if std::path::absolute(link)?.starts_with(&absolute) {
        let text = format!("the link `{}` would be in the folder that it leads to", link.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    if junction::create(&absolute, link).is_ok() {
        return Ok(());
    }
    // The attempt at a junction may leave an empty folder.
    let _ = fs_err::remove_dir(link);
    copy_folder(&absolute, link)
}

fn make(target: &Path, link: &Path, is_folder: bool) -> io::Result<()> {
    if is_folder {
        fs_err::os::windows::fs::symlink_dir(target, link)
    } else {
        fs_err::os::windows::fs::symlink_file(target, link)
    }
}

/// The path with `\` between its names, because Windows does not follow a link with `/`.
fn native(path: &Path) -> PathBuf {
    let names: Vec<OsString> = path.components().map(|part: Component<'_>| part.as_os_str().to_owned()).collect();
    names.into_iter().collect()
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs_err::create_dir(to)?;
    for entry in fs_err::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if fs_err::metadata(entry.path())?.is_dir() {
            copy_folder(&entry.path(), &place)?;
        } else {
            fs_err::copy(entry.path(), &place)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_gives_access_to_a_file_and_to_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real");
        fs_err::create_dir_all(real.join("inner")).unwrap();
        fs_err::write(real.join("inner/file"), "content").unwrap();
        symlink("real", folder.path().join("folder")).unwrap();
        symlink("real/inner/file", folder.path().join("file")).unwrap();
        assert_eq!(fs_err::read_to_string(folder.path().join("folder/inner/file")).unwrap(), "content");
        assert_eq!(fs_err::read_to_string(folder.path().join("file")).unwrap(), "content");
        let error = symlink("real", folder.path().join("file")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(symlink("real", folder.path().join("none/link")).is_err());
    }

    #[test]
    fn a_link_to_nothing_is_made_or_refused_with_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        match symlink("none", &link) {
            Ok(()) => assert!(fs_err::symlink_metadata(&link).unwrap().is_symlink()),
            Err(error) => {
                assert!(error.to_string().contains("link` to `none`"), "{error}");
                assert!(fs_err::symlink_metadata(&link).is_err());
            }
        }
    }

    #[test]
    fn a_copy_of_a_folder_has_everything_below_it() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::create_dir_all(folder.path().join("a/b")).unwrap();
        fs_err::write(folder.path().join("a/b/c"), "content").unwrap();
        copy_folder(&folder.path().join("a"), &folder.path().join("copy")).unwrap();
        assert_eq!(fs_err::read_to_string(folder.path().join("copy/b/c")).unwrap(), "content");
    }
}
