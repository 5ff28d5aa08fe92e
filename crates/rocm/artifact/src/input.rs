//! Safe reading of the small text files beside artifacts, which may be links or pipes instead of
//! files, and a check that an output does not overlap an input.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::Failure;

use crate::error::{Error, not_there, output_not_ours};

/// Largest file that is read, in bytes. Manifests and sidecars are far smaller.
const LIMIT: u64 = 16 << 20;

/// Reads a small file, which must be a regular file: a link in an artifact may lead out of it, and
/// reading a named pipe never ends.
pub(crate) fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    if fs_err::symlink_metadata(path)?.file_type().is_symlink() {
        let message = format!("cannot read `{}`: it is a symbolic link, not a file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    read_small_followed(path)
}

/// Like [`read_small`], for a file beside an artifact, which may be a symbolic link.
pub(crate) fn read_small_followed(path: &Path) -> io::Result<Vec<u8>> {
    rocwheel_content::read_small(path, LIMIT)
}

/// Resolves the links in `output`, which need not exist, and checks that it neither lies in an
/// input nor contains one.
pub fn separate(output: &Path, inputs: &[PathBuf]) -> Result<PathBuf, Error> {
    let real = outside(output, inputs)?;
    for input in inputs {
        let input = rocwheel_system::canonicalize(input)?;
        if input.starts_with(&real) {
            return Err(overlap(&real, &input));
        }
    }
    Ok(real)
}

/// The same, but the output may contain an input.
pub fn outside(output: &Path, inputs: &[PathBuf]) -> Result<PathBuf, Error> {
    let real = resolve(output)?;
    for input in inputs {
        let input = rocwheel_system::canonicalize(input).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => not_there(input).into(),
            _ => Error::Io(error),
        })?;
        if real.starts_with(&input) {
            return Err(overlap(&real, &input));
        }
    }
    Ok(real)
}

/// An output that would change or remove an input.
fn overlap(output: &Path, input: &Path) -> Error {
    let (output, input) = (output.display(), input.display());
    Failure::message(format!("the output `{output}` and the input `{input}` are inside one another"))
        .with_hint("choose an output beside the artifacts")
        .into()
}

/// Resolves the part of a path that exists and appends the rest unchanged.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, Error> {
    match rocwheel_system::canonicalize(path) {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Ok(target) = fs_err::read_link(path) {
                let (path, target) = (path.display(), target.display());
                return Err(Failure::message(format!(
                    "the output `{path}` is a link to `{target}`, which does not exist"
                ))
                .with_hint("make that directory, or choose another output")
                .into());
            }
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let name = path.file_name().ok_or_else(|| output_not_ours(path))?;
            Ok(resolve(parent)?.join(name))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg_attr(windows, ignore = "Windows has no pipes among its files, and Wine has no links")]
    #[test]
    fn links_and_pipes_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs_err::write(at("file"), "text").unwrap();
        rocwheel_system::symlink("file", at("link")).unwrap();
        assert!(read_small(&at("link")).unwrap_err().to_string().contains("symbolic link"));
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        assert!(read_small(&at("pipe")).unwrap_err().to_string().contains("no regular file"));
    }

    #[test]
    fn only_files_of_some_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs_err::write(at("file"), "text").unwrap();
        assert_eq!(read_small(&at("file")).unwrap(), b"text");
        fs_err::File::create(at("large")).unwrap().set_len(LIMIT + 1).unwrap();
        assert!(read_small(&at("large")).unwrap_err().to_string().contains("larger"));
        assert_eq!(read_small(&at("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[cfg_attr(windows, ignore = "a link to nothing, which Windows makes in developer mode only")]
    #[test]
    fn an_output_may_be_a_link_to_a_directory_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        rocwheel_system::symlink("real", &link).unwrap();
        let error = resolve(&link.join("x")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("the output `{}` is a link to", link.display())), "{error}");
        fs_err::create_dir(folder.path().join("real")).unwrap();
        assert!(resolve(&link.join("x")).unwrap().ends_with("real/x"));
    }

    #[test]
    fn an_output_in_an_input_is_refused_and_nothing_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("input");
        fs_err::create_dir(&input).unwrap();
        let inputs = [input.clone()];
        assert!(separate(&input.join("a/b/c"), &inputs).is_err());
        assert!(separate(folder.path(), &inputs).is_err());
        separate(&folder.path().join("input2/x"), &inputs).unwrap();
        assert_eq!(fs_err::read_dir(&input).unwrap().count(), 0);
    }

    #[cfg_attr(windows, ignore = "Wine has no links")]
    #[test]
    fn an_output_in_an_input_is_refused_behind_a_link_too() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("input");
        fs_err::create_dir(&input).unwrap();
        rocwheel_system::symlink(&input, folder.path().join("link")).unwrap();
        assert!(separate(&folder.path().join("link/x"), &[input]).is_err());
    }
}
