//! Input: the path that an option names for a file to write. Output: that file, written as a whole,
//! or a refusal to replace something else. An option without its value takes the next word of the
//! command line, which is often the user's wheel.

use std::ffi::OsString;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};

use rocwheel_progress::Context as _;

use crate::failure::{Failure, Result, Usage};

/// Number of bytes that are read to recognise a file.
const HEAD: u64 = 4096;

/// The value of an option that names a file to write. Every such option has this type: only
/// [`OutputOption::check`] yields the path.
#[derive(Debug, Clone)]
pub struct OutputOption(PathBuf);

impl From<OsString> for OutputOption {
    fn from(path: OsString) -> Self {
        Self(path.into())
    }
}

/// The kind of file that an option writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// `audit --sarif`: JSON.
    SarifLog,
    /// `kernels --plot`: SVG.
    Picture,
    /// `build --write-job`: TOML or JSON.
    Job,
    /// `diff --write-deviations`: never replaced, since people write reasons into it.
    Deviations,
    /// `source manifest --output`: JSON.
    Manifest,
    /// `release promote --decision`: JSON.
    Decision,
    /// `release pages --readme` and `--history`: a user's page, into which a part is written.
    Page,
    /// `compat fileset_tool artifact-archive -o`: `.tar.zst` or `.tar.xz`.
    Archive,
    /// `test report --html`.
    WebPage,
    /// `test report --junit`: XML.
    JunitXml,
    /// `test report --verdict` and `--test-result`: JSON.
    Statement,
    /// `test shards --write-durations`: JSON.
    Durations,
    /// `test bench --export`: JSON.
    Measurements,
    /// `test lists --disabled`: JSON.
    DisabledTests,
    /// `test lists --skip-tests`: Python.
    PythonList,
    /// `compat fileset_tool artifact-archive --hash-file`: a SHA-256 in hexadecimal.
    Digest,
}

impl FileKind {
    /// The kind as a noun, and an example of a file name.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::SarifLog => ("a SARIF log", "audit.sarif"),
            Self::Picture => ("an SVG picture", "kernels.svg"),
            Self::Job => ("a job file", "job.toml"),
            Self::Deviations => ("a file of deviations", "deviations.toml"),
            Self::Manifest => ("a manifest", "manifest.json"),
            Self::Decision => ("a signed decision", "decision.json"),
            Self::Page => ("a page of text", "README.md"),
            Self::Archive => ("an archive of an artifact", "artifact.tar.zst"),
            Self::WebPage => ("a web page", "report.html"),
            Self::JunitXml => ("junit XML", "junit.xml"),
            Self::Statement => ("a statement about wheels", "verdict.json"),
            Self::Durations => ("durations of tests", ".test_durations"),
            Self::Measurements => ("measurements", "benchmarks.json"),
            Self::DisabledTests => ("a list of disabled tests", "disabled-tests.json"),
            Self::PythonList => ("a list of skipped tests", "generic.py"),
            Self::Digest => ("a SHA-256 digest", "artifact.sha256sum"),
        }
    }

    /// `true` if an existing file that begins with `head` may be replaced.
    fn matches(self, head: &[u8]) -> bool {
        let text = String::from_utf8_lossy(head);
        let text = text.trim_start_matches('\u{feff}').trim_start();
        match self {
            _ if text.is_empty() => true,
            Self::SarifLog
            | Self::Manifest
            | Self::Decision
            | Self::Statement
            | Self::Durations
            | Self::DisabledTests => text.starts_with('{'),
            Self::PythonList => text.lines().any(|line| line.starts_with("skip_tests")),
            Self::WebPage => text.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("<!doctype")),
            Self::JunitXml => text.starts_with("<?xml") || text.starts_with("<testsuite"),
            Self::Measurements => text.starts_with('['),
            Self::Picture => text.starts_with("<svg") || (text.starts_with("<?xml") && text.contains("<svg")),
            Self::Job => text.starts_with('{') || text.lines().any(|line| line.starts_with("schema =")),
            Self::Deviations => false,
            Self::Page => !head.contains(&0),
            Self::Archive => head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || head.starts_with(b"\xfd7zXZ\0"),
            Self::Digest => text.len() >= 64 && text.bytes().take(64).all(|byte| byte.is_ascii_hexdigit()),
        }
    }
}

/// A file that may be written.
#[derive(Debug, Clone)]
pub struct OutputFile {
    path: PathBuf,
    kind: FileKind,
}

impl OutputOption {
    /// `true` if the value is empty, which some scripts pass for no value.
    pub fn is_empty(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    /// The file, unless it would replace something of another kind. `inputs` are the other files of
    /// the command line: the hint shows how to separate them from the output.
    pub fn check(self, option: &str, kind: FileKind, inputs: &[PathBuf]) -> Result<OutputFile, Usage> {
        let path = self.0;
        let shown = path.display();
        let (noun, example) = kind.words();
        if let Some(found) = precious(&path, kind) {
            let words = std::iter::once(&path).chain(inputs).map(|path| rocwheel_progress::shell_path(path));
            let words: Vec<String> = words.collect();
            return Err(Usage::new(if path.exists() {
                format!("`{option}` would overwrite `{shown}`, which is {found}")
            } else {
                format!("`{option}` would write {noun} to `{shown}`, which is named like {found}")
            })
            .hint(match inputs {
                [] => format!("name {noun}: `{option} {example}`"),
                _ => format!("write `{option} {example} {}`", words.join(" ")),
            }));
        }
        match path.metadata() {
            Ok(there) if there.is_dir() => Err(Usage::new(format!("`{option}` names the folder `{shown}`"))
                .hint(format!("name a file in it: `{option} {}`", path.join(example).display()))),
            Ok(there) if there.is_file() && kind == FileKind::Deviations => {
                Err(Usage::new(format!("`{shown}` exists, and may hold reasons"))
                    .hint("name a new file, and move its rows over"))
            }
            Ok(there) if there.is_file() && !head_of(&path).is_ok_and(|head| kind.matches(&head)) => {
                Err(Usage::new(format!("`{option}` would overwrite `{shown}`, which is not {noun}"))
                    .hint(format!("name another file, or remove this one: `{option} {example}`")))
            }
            _ => Ok(OutputFile { path, kind }),
        }
    }
}

impl OutputFile {
    /// The path of the file, which may not exist yet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `true` for `-`, which some options accept for stdout.
    pub fn is_stdout(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Writes a temporary file and renames it, so that the file appears as a whole or not at all. A
    /// pipe or a device is written directly.
    pub fn write(&self, text: &str) -> Result<()> {
        self.write_with(|output| output.write_all(text.as_bytes()))
    }

    /// As [`OutputFile::write`] for a file that is too large to be in memory.
    pub fn write_with(&self, fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
        let failed = || format!("cannot write {} to `{}`", self.kind.words().0, self.path.display());
        if self.path.metadata().is_ok_and(|there| !there.is_file()) {
            let file = fs_err::OpenOptions::new().write(true).open(&self.path);
            return file.and_then(|mut file| fill(&mut file)).with_context(failed);
        }
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Manifests have their own folders. For any other file, a missing folder is probably a
        // typing error.
        if self.kind == FileKind::Manifest {
            fs_err::create_dir_all(folder).with_context(failed)?;
        }
        if !folder.is_dir() {
            let text = format!("{}: there is no folder `{}`", failed(), folder.display());
            return Err(Failure::message(text));
        }
        // The umask is subtracted, as for any new file.
        let mut builder = tempfile::Builder::new();
        let file = rocwheel_system::temporary_mode(builder.prefix(".rocwheel-"), 0o666).tempfile_in(folder);
        let mut file = file.with_context(failed)?;
        let mut buffer = std::io::BufWriter::new(file.as_file_mut());
        fill(&mut buffer).and_then(|()| buffer.flush()).with_context(failed)?;
        drop(buffer);
        match self.kind {
            FileKind::Deviations => rocwheel_system::persist_new(file, &self.path),
            _ => rocwheel_system::persist(file, &self.path),
        }
        .with_context(failed)?;
        Ok(())
    }
}

fn head_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    fs_err::File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}

/// The kind of file that a name indicates and that is never replaced; `None` for other names.
fn precious(path: &Path, kind: FileKind) -> Option<&'static str> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let own_archives: &[&str] = if kind == FileKind::Archive { &[] } else { &[".tar.xz", ".tar.zst"] };
    let kinds: [(&[&str], &str); 6] = [
        (&[".whl"], "a wheel"),
        (&[".deb", ".rpm"], "a package of a Linux distribution"),
        (own_archives, "an archive"),
        (&[".tar", ".tar.gz", ".tgz", ".tar.bz2", ".zip"], "an archive"),
        (&[".kpack", ".hsaco", ".co"], "GPU code"),
        (&[".so", ".dll", ".pyd", ".a", ".exe"], "a library or program"),
    ];
    let kind = kinds.iter().find(|(endings, _)| endings.iter().any(|ending| name.ends_with(ending)));
    kind.map(|(_, kind)| *kind).or_else(|| name.contains(".so.").then_some("a library or program"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_kind_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let digest = "0".repeat(64);
        let cases: [(FileKind, &[u8], &[u8]); 9] = [
            (FileKind::SarifLog, b"{\"runs\": []}", b"PK\x03\x04"),
            (FileKind::Picture, b"<?xml version=\"1.0\"?>\n<svg", b"<html>"),
            (FileKind::Job, b"# mine\nschema = 1\n", b"[project]\nname = \"a\"\n"),
            (FileKind::Manifest, b"\n{}", b"[1]"),
            (FileKind::Decision, b"{}", b"# text"),
            (FileKind::Page, b"# Page", b"\x7fELF\0"),
            (FileKind::Archive, b"\x28\xb5\x2f\xfd\0", b"PK\x03\x04"),
            (FileKind::Digest, digest.as_bytes(), b"not a digest"),
            (FileKind::Deviations, b"", b"[[deviation]]"),
        ];
        let check = |kind| OutputOption(path.clone()).check("--option", kind, &[]);
        for (kind, own, other) in cases {
            if kind != FileKind::Deviations {
                fs_err::write(&path, own).expect("a file");
                assert!(check(kind).is_ok(), "{kind:?}");
                fs_err::write(&path, "").expect("a file");
                assert!(check(kind).is_ok(), "an empty file holds nothing: {kind:?}");
            }
            fs_err::write(&path, other).expect("a file");
            assert!(check(kind).is_err(), "{kind:?}");
            for name in ["a-1-py3-none-any.whl", "a-1.tar.gz", "a.zip", "liba.so", "liba.so.1", "a.deb", "A.WHL"] {
                let refused = OutputOption(folder.path().join(name)).check("--option", kind, &[]);
                assert!(refused.is_err(), "{kind:?} {name}");
            }
        }
        assert!(OutputOption(folder.path().join("new")).check("--option", FileKind::Deviations, &[]).is_ok());
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let null = OutputOption("/dev/null".into()).check("--sarif", FileKind::SarifLog, &[]).expect("a device");
        null.write("{}").expect("everything goes there");
        assert!(!Path::new("/dev/null").is_file());
    }
}
