//! Input: files of torch's tree. Output: the commits of other projects that it pins.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::Failure;

use crate::error;

/// Size limit of a pin file in bytes, far above any real one.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelatedCommit {
    pub origin: String,
    pub commit: String,
}

/// Looks a project up in `related_commits`, which has lines of
/// `system|source|project|branch|commit|origin`. Blank lines and lines that begin with `#` are
/// ignored. `None`: the file does not name the project for that system.
///
/// # Errors
/// A line has another form, even if it concerns another project (the error has its number), or
/// lines contradict each other.
pub fn related(text: &str, path: &Path, system: &str, project: &str) -> Result<Option<RelatedCommit>, Failure> {
    let mut found: Option<(usize, RelatedCommit)> = None;
    for (line, text) in text.lines().enumerate().map(|(at, text)| (at + 1, text.trim())) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = text.split('|').map(str::trim).collect();
        let [at, _, name, _, commit, origin] = fields[..] else {
            let reason = format!("`{}` has {} fields between `|`, not 6", shortened(text), fields.len());
            return refuse(path, line, &reason);
        };
        if !is_commit(commit) {
            let reason = format!("`{}` is not a full commit (40 or 64 hexadecimal digits)", shortened(commit));
            return refuse(path, line, &reason);
        }
        if origin.is_empty() {
            return refuse(path, line, "it names no origin");
        }
        if (at, name) != (system, project) {
            continue;
        }
        let this = RelatedCommit { origin: origin.to_owned(), commit: commit.to_ascii_lowercase() };
        match &found {
            Some((first, that)) if *that != this => {
                return refuse(
                    path,
                    line,
                    &format!("it names another commit or origin of `{project}` than line {first}"),
                );
            }
            Some(_) => {}
            None => found = Some((line, this)),
        }
    }
    Ok(found.map(|(_, related)| related))
}

fn refuse<T>(path: &Path, line: usize, reason: &str) -> Result<T, Failure> {
    Err(error::pin(path, Some(line), reason))
}

/// Reads a file with one commit, such as `ci_commit_pins/triton.txt`.
pub fn commit(path: &Path) -> Result<String, Failure> {
    let text = read(path)?;
    let commit = text.trim();
    if is_commit(commit) {
        return Ok(commit.to_ascii_lowercase());
    }
    Err(error::pin(path, None, &unlike(commit, "a full commit (40 or 64 hexadecimal digits)")))
}

/// Reads a file with one version, such as `3.4.0`.
pub fn version(path: &Path) -> Result<String, Failure> {
    let text = read(path)?;
    let version = text.trim();
    match version.parse::<pep440_rs::Version>() {
        Ok(_) => Ok(version.to_owned()),
        Err(_) => Err(error::pin(path, None, &unlike(version, "a version such as `3.4.0`"))),
    }
}

/// triton's release branch for a version: `release/3.4.x` for `3.4.0`.
pub(crate) fn release_branch(version: &str, path: &Path) -> Result<String, Failure> {
    let mut numbers = version.split('.');
    if let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) {
        return Ok(format!("release/{major}.{minor}.x"));
    }
    let reason = format!("`{version}` has no second number, which the name of a release branch needs");
    Err(error::pin(path, None, &reason))
}

/// The text of a pin file. Bytes that are not UTF-8 become characters that no pin has, so that the
/// parser reports them if they matter.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let size = match fs_err::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Err(error::pin(path, None, "it is not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // triton's pins are in `.ci`, the others at the top.
            let inside =
                path.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == ".ci")).unwrap_or(path);
            let tree = inside.parent().filter(|folder| folder.join(".git").exists());
            let hint = match tree {
                Some(tree) => format!(
                    "the tree `{}` has no such file: it is older than these files or incomplete; check out a newer branch \
                     of torch, or name the commit with `--ref PROJECT=COMMIT`",
                    tree.display()
                ),
                None => {
                    "check torch out first or in the same command, say where it is with `--torch-directory`, or name \
                         the commit with `--ref`"
                        .to_owned()
                }
            };
            return Err(Failure::message(format!("there is no pin file `{}`", path.display())).with_hint(hint));
        }
        Err(error) => return Err(error.into()),
    };
    if size > LARGEST {
        let reason = format!("it has {size} bytes, and no pin is that long");
        return Err(error::pin(path, None, &reason));
    }
    Ok(String::from_utf8_lossy(&fs_err::read(path)?).into_owned())
}

/// `true` if a text is a full commit: 40 hexadecimal digits, or the 64 of a repository with
/// SHA-256.
pub fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[derive(Debug, Clone)]
pub(crate) struct Torch {
    pub(crate) directory: PathBuf,
}

impl Torch {
    pub(crate) fn file(&self, relative: &str) -> PathBuf {
        self.directory.join(relative)
    }
}

fn unlike(text: &str, wanted: &str) -> String {
    if text.is_empty() { "it is empty".into() } else { format!("`{}` is not {wanted}", shortened(text)) }
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 120;
    let head: String = text.chars().take(LONGEST).collect();
    if head.len() < text.len() { format!("{head}[…]") } else { head }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

    fn look(text: &str) -> Result<Option<RelatedCommit>, Failure> {
        related(text, Path::new("related_commits"), "ubuntu", "torchaudio")
    }

    #[test]
    fn a_project_is_found_for_its_system() {
        let text = format!(
            "# pins\n\ncentos|pytorch|torchaudio|r|{}|https://centos\nubuntu|pytorch|torchvision|r|{SHA}|https://vision\n\
             ubuntu|pytorch|torchaudio|release/2.9|{SHA}|https://audio\n",
            "f".repeat(40)
        );
        assert_eq!(look(&text).unwrap().unwrap(), RelatedCommit { origin: "https://audio".into(), commit: SHA.into() });
        assert_eq!(look("").unwrap(), None);
        assert_eq!(look("\r\n# x\r\n").unwrap(), None);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_also_when_it_is_the_first() {
        let good = format!("ubuntu|pytorch|torchaudio|main|{SHA}|https://audio\n");
        for (text, words) in [
            (format!("nonsense\n{good}"), "line 1: `nonsense` has 1 fields between `|`, not 6"),
            (format!("{good}ubuntu|pytorch|x\n"), "line 2: `ubuntu|pytorch|x` has 3 fields"),
            ("ubuntu|pytorch|torchaudio|main|main|https://audio".into(), "line 1: `main` is not a full commit (40"),
            (format!("ubuntu|pytorch|torchaudio|main|{SHA}|"), "names no origin"),
            (format!("{good}ubuntu|pytorch|torchaudio|main|{SHA}|https://other"), "line 2: it names another commit"),
        ] {
            let error = look(&text).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("`related_commits`"), "{error}");
        }
        assert!(look(&format!("{good}{good}")).unwrap().is_some());
    }

    #[test]
    fn pins_of_one_word() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("triton.txt");
        assert!(commit(&path).unwrap_err().to_string().starts_with("there is no pin file"));
        for (text, words) in [("", "it is empty"), ("\n \n", "it is empty"), ("main\n", "`main` is not a full commit")]
        {
            fs_err::write(&path, text).unwrap();
            assert!(commit(&path).unwrap_err().to_string().contains(words));
        }
        fs_err::write(&path, format!("{}\n", SHA.to_uppercase())).unwrap();
        assert_eq!(commit(&path).unwrap(), SHA);
        fs_err::write(&path, "3.4.0\n").unwrap();
        assert_eq!(version(&path).unwrap(), "3.4.0");
        assert_eq!(release_branch("3.4.0", &path).unwrap(), "release/3.4.x");
        assert!(release_branch("3", &path).is_err());
        fs_err::write(&path, b"\xff\xfe").unwrap();
        assert!(version(&path).unwrap_err().to_string().contains("not a version"));
    }
}
