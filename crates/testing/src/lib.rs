//! Input: the path of a program. Output: a temporary directory to run it in, and its output as text
//! that is the same on every machine, for snapshots. For tests only.

pub mod git_server;
pub mod gpu;
mod program;
mod warnings;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use regex::Regex;
use tempfile::TempDir;

pub use self::program::make_program;
pub use self::warnings::Warnings;

/// A temporary directory in which the program runs without the user's environment variables.
pub struct TestContext {
    program: PathBuf,
    directory: TempDir,
    variables: Vec<(String, String)>,
    filters: Vec<(Regex, &'static str)>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// Standard output, filtered so that it is the same on every machine.
    pub stdout: String,
    /// Standard error, filtered likewise.
    pub stderr: String,
}

impl Ran {
    /// Exit code and output in one text, for a snapshot.
    pub fn snapshot(&self) -> String {
        let code = self.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        format!("exit code: {code}\n----- stdout -----\n{}----- stderr -----\n{}", self.stdout, self.stderr)
    }
}

/// Writes a wheel of `demo` with the named files of a folder, using Python's zipfile.
const WHEEL: &str = r#"
import base64, hashlib, pathlib, sys, zipfile
folder, wheel, *names = sys.argv[1:]
info = "demo-1.0.dist-info/"
members = {name: pathlib.Path(folder, name).read_bytes() for name in names} | {
    info + "METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n\nText\n",
    info + "WHEEL": b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n",
}
record = ""
for name, data in members.items():
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record += f"{name},sha256={digest},{len(data)}\n"
members[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, data in members.items():
        archive.writestr(name, data)
"#;

impl TestContext {
    /// A context for the program at `program`, usually `env!("CARGO_BIN_EXE_…")`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let directory = tempfile::tempdir().expect("the system's directory for temporary files takes one more");
        let filters = [
            (r"\b\d+\.\d+ s\b", "[TIME]"),
            (r#""seconds": [0-9.e-]+"#, r#""seconds": "[TIME]""#),
            (r"\brocwheel \d+\.\d+\.\d+", "rocwheel [VERSION]"),
        ];
        let filters =
            filters.map(|(pattern, text)| (Regex::new(pattern).expect("the pattern is constant"), text)).to_vec();
        Self { program: program.into(), directory, variables: Vec::new(), filters }
    }

    /// The directory in which the program runs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A path in the directory.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// Writes a file and creates its parent directories.
    pub fn write(&self, relative: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        let parent = path.parent().expect("it has the temporary directory as parent");
        fs_err::create_dir_all(parent).expect("the temporary directory can be written");
        fs_err::write(&path, contents).expect("the temporary directory can be written");
        path
    }

    /// Runs a Python script in the directory and returns its output.
    ///
    /// # Panics
    /// If Python fails; the message contains its output.
    pub fn python(&self, script: &str, arguments: &[&str]) -> String {
        let run = Command::new("python3").arg("-c").arg(script).args(arguments).current_dir(self.directory()).output();
        let output = run.expect("python3 is needed for this test");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Writes a wheel with the file name `name` of the distribution `demo`, which has these files.
    pub fn wheel(&self, name: &str, files: &[(&str, &[u8])]) {
        let folder = tempfile::tempdir().expect("the system's directory for temporary files takes one more");
        let mut arguments = vec![folder.path().to_str().expect("temporary directories have names in UTF-8"), name];
        for (path, contents) in files {
            self.write(folder.path().join(path), contents);
            arguments.push(path);
        }
        self.python(WHEEL, &arguments);
    }

    /// Writes a wheel as [`Self::wheel`] does. It contains `library`, which must be in the
    /// directory, a file of a kernel database and a module.
    pub fn gpu_wheel(&self, library: &str, name: &str) {
        let library = fs_err::read(self.path(library)).expect("the library is in the directory");
        let module = b"import this\n".repeat(40);
        let kernels = b"942".repeat(40);
        self.wheel(
            name,
            &[
                ("demo/__init__.py", &module),
                ("demo/lib/libdemo.so", &library),
                ("demo/lib/rocblas/library/K_gfx942.co", &kernels),
            ],
        );
    }

    /// Creates an artifact directory `{name}_{component}_{target}` in `parent`. Each path of a file
    /// begins with its basedir, which ends with the first `stage`.
    pub fn artifact(&self, parent: &str, name: &str, files: &[(&str, &[u8])]) -> PathBuf {
        let root = self.path(parent).join(name);
        let mut basedirs: Vec<&str> = Vec::new();
        for (path, contents) in files {
            self.write(Path::new(parent).join(name).join(path), contents);
            let end = path.find("stage").map_or(path.len(), |start| start + "stage".len());
            if !basedirs.contains(&&path[..end]) {
                basedirs.push(&path[..end]);
            }
        }
        self.write(Path::new(parent).join(name).join("artifact_manifest.txt"), basedirs.join("\n") + "\n");
        root
    }

    /// Sets an environment variable for all runs.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// A command that runs the program; the caller adds the arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.directory.path())
            .env("TMPDIR", self.directory.path())
            .env("COLUMNS", "100")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs the program and waits for it.
    pub fn run<I, A>(&self, arguments: I) -> Ran
    where
        I: IntoIterator<Item = A>,
        A: AsRef<OsStr>,
    {
        let output = self.command().args(arguments).output().expect("the program can be started");
        self.ran(&output)
    }

    /// The filtered output of a command.
    pub fn ran(&self, output: &Output) -> Ran {
        Ran { code: output.status.code(), stdout: self.filtered(&output.stdout), stderr: self.filtered(&output.stderr) }
    }

    fn filtered(&self, bytes: &[u8]) -> String {
        let directory = self.directory.path().to_string_lossy();
        let mut text = String::from_utf8_lossy(bytes).replace(&*directory, "[TEMP]");
        for (pattern, replacement) in &self.filters {
            text = pattern.replace_all(&text, *replacement).into_owned();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_machines_is_replaced() {
        let context = TestContext::new("/bin/sh").with_variable("WORD", "rocwheel 1.2.3");
        let ran = context.run(["-c", "echo $PWD/x; echo took 1.25 s: $WORD >&2; exit 3"]);
        assert_eq!(
            ran.snapshot(),
            "exit code: 3\n----- stdout -----\n[TEMP]/x\n----- stderr -----\ntook [TIME]: rocwheel [VERSION]\n"
        );
    }

    #[test]
    fn an_artifact_lists_its_basedirs() {
        let context = TestContext::new("/bin/sh");
        let root = context.artifact(
            "artifacts",
            "blas_lib_generic",
            &[("math/blas/stage/lib/a", b"1"), ("math/blas/stage/lib/b", b"2"), ("core/stage/c", b"3")],
        );
        let manifest = fs_err::read_to_string(root.join("artifact_manifest.txt")).unwrap();
        assert_eq!(manifest, "math/blas/stage\ncore/stage\n");
        assert_eq!(fs_err::read(root.join("math/blas/stage/lib/b")).unwrap(), b"2");
    }
}
