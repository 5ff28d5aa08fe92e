//! Input: a folder with sources. Output: a digest of the files that are built, which distinguishes
//! jobs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rayon::prelude::*;
use rocwheel_progress::Reporter;
use walkdir::WalkDir;

use crate::error::Error;
use rocwheel_process::{ProcessEnd, Program};

/// Folders that builds leave at the top of a tree.
const LEFT_BY_BUILDS: [&str; 4] = [".git", "build", "dist", "__pycache__"];

/// Time limit for git's look at a tree.
const PATIENCE: Duration = Duration::from_mins(10);

/// Identity of a git checkout: its commit, and the changes in it. Untracked and ignored files are
/// skipped, because builds leave them. `None`: the folder is no checkout, or git is not installed.
pub fn of_checkout(
    folder: &Path,
    environment: &BTreeMap<String, String>,
    reporter: &dyn Reporter,
) -> Result<Option<String>, Error> {
    if !folder.join(".git").exists() {
        return Ok(None);
    }
    let mut digest = blake3::Hasher::new();
    let questions: [&[&str]; 3] = [
        &["rev-parse", "HEAD"],
        &["diff", "HEAD", "--binary", "--no-ext-diff", "--no-color", "--ignore-submodules=dirty"],
        &["submodule", "status", "--recursive"],
    ];
    for question in questions {
        // The changes may be longer than the part of an answer that is kept.
        if ask(folder, question, environment, Some(&mut digest), reporter)?.is_none() {
            return Ok(None);
        }
        digest.update(&[0]);
    }
    Ok(Some(digest.finalize().to_hex().to_string()))
}

/// The answer of git; `None` if it has none.
pub fn git(
    folder: &Path,
    question: &[&str],
    environment: &BTreeMap<String, String>,
    reporter: &dyn Reporter,
) -> Result<Option<String>, Error> {
    ask(folder, question, environment, None, reporter)
}

/// The end of git's answer. All of it is written to `log`.
fn ask(
    folder: &Path,
    question: &[&str],
    environment: &BTreeMap<String, String>,
    log: Option<&mut dyn Write>,
    reporter: &dyn Reporter,
) -> Result<Option<String>, Error> {
    let safe = format!("safe.directory={}", folder.display());
    let words = ["git", "-c", safe.as_str()].into_iter().chain(question.iter().copied()).map(str::to_owned).collect();
    let program = Program { words, directory: folder, environment, timeout: PATIENCE, deadline: None };
    let finished = match rocwheel_process::run(&program, log, reporter) {
        Ok(finished) => finished,
        Err(rocwheel_process::Error::NotStarted(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if finished.ended == ProcessEnd::Code(0) {
        return Ok(Some(finished.said));
    }
    let said = finished.tail(3).join("; ");
    Err(Error::Source {
        reason: format!("git cannot look at the checkout `{}`: {said}", folder.display()),
        hint: Some(format!("`git -C {} status` shows the problem", folder.display())),
    })
}

/// Digest of a plain folder: names and contents of all files, except what builds leave at its top.
pub fn of_folder(folder: &Path, reporter: &dyn Reporter) -> Result<String, Error> {
    let rows: Vec<[u8; 32]> = files(folder)?
        .into_par_iter()
        .map(|relative| {
            reporter.check()?;
            let path = folder.join(&relative);
            let mut digest = blake3::Hasher::new();
            digest.update(relative.to_string_lossy().as_bytes()).update(&[0]);
            if path.is_symlink() {
                digest.update(b"link").update(fs_err::read_link(&path)?.to_string_lossy().as_bytes());
            } else {
                digest.update_reader(fs_err::File::open(&path)?)?;
            }
            Ok(*digest.finalize().as_bytes())
        })
        .collect::<Result<_, Error>>()?;
    let mut digest = blake3::Hasher::new();
    for row in rows {
        digest.update(&row);
    }
    Ok(digest.finalize().to_hex().to_string())
}

/// Files and links of a source tree, relative to it and sorted, except what builds leave at its
/// top.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let walk = WalkDir::new(folder).sort_by_file_name().into_iter().filter_entry(|entry| {
        let name = entry.file_name().to_string_lossy();
        !(entry.depth() == 1 && (LEFT_BY_BUILDS.contains(&&*name) || name.ends_with(".egg-info")))
            && name != "__pycache__"
    });
    for entry in walk {
        let entry = entry.map_err(std::io::Error::from)?;
        if !entry.file_type().is_dir() {
            let relative = entry.path().strip_prefix(folder).unwrap_or(entry.path());
            found.push(relative.to_owned());
        }
    }
    Ok(found)
}

/// Copies a source tree and keeps the modification times. Leftovers of builds are not copied.
pub fn copy(from: &Path, to: &Path, reporter: &dyn Reporter) -> Result<(), Error> {
    for relative in files(from)? {
        reporter.check()?;
        let (source, place) = (from.join(&relative), to.join(&relative));
        if let Some(parent) = place.parent() {
            fs_err::create_dir_all(parent)?;
        }
        if source.is_symlink() {
            rocwheel_system::symlink(fs_err::read_link(&source)?, &place)?;
        } else {
            fs_err::copy(&source, &place)?;
            let modified = source.metadata()?.modified()?;
            fs_err::OpenOptions::new().append(true).open(&place)?.file().set_modified(modified)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rocwheel_progress::Silent;

    use super::*;

    #[test]
    fn every_byte_of_large_changes_counts() {
        let folder = tempfile::tempdir().unwrap();
        let environment = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").expect("the tests have a PATH")),
            ("HOME".to_owned(), folder.path().to_string_lossy().into_owned()),
        ]);
        let git = |words: &[&str]| git(folder.path(), words, &environment, &Silent).unwrap().expect("git is there");
        let file = folder.path().join("large.txt");
        let write = |first: &str| fs_err::write(&file, format!("{first}\n{}", "a line\n".repeat(1 << 19))).unwrap();
        fs_err::write(&file, "small\n").unwrap();
        git(&["init", "--quiet"]);
        git(&["add", "large.txt"]);
        git(&["-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "--quiet", "-m", "one"]);
        let digest = || of_checkout(folder.path(), &environment, &Silent).unwrap().expect("it is a checkout");
        let clean = digest();
        write("one");
        let first = digest();
        assert_eq!((digest(), digest()), (first.clone(), first.clone()));
        write("two");
        let second = digest();
        assert!(clean != first && first != second && second != clean);
    }

    #[test]
    fn the_digest_follows_contents_and_names_and_not_what_builds_leave() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        };
        write("setup.py", "1");
        write("package/build/x.py", "2");
        let digest = || of_folder(folder.path(), &Silent).unwrap();
        let first = digest();
        for name in ["build/x.o", "dist/x.whl", "package/__pycache__/x.pyc", "x.egg-info/PKG-INFO"] {
            write(name, "made");
        }
        assert_eq!(digest(), first);
        write("package/build/x.py", "3");
        let second = digest();
        assert_ne!(second, first);
        rocwheel_system::rename(folder.path().join("setup.py"), folder.path().join("setup2.py")).unwrap();
        assert_ne!(digest(), second);
        let copied = tempfile::tempdir().unwrap();
        copy(folder.path(), copied.path(), &Silent).unwrap();
        assert_eq!(of_folder(copied.path(), &Silent).unwrap(), digest());
        assert!(!copied.path().join("dist").exists());
    }
}
