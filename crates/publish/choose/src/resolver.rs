//! Input: requirements and indexes, for a Python on a system. Output: what uv or pip would install,
//! or their reason why nothing.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rocwheel_index::requirement::InstallTarget;
use rocwheel_index::text_without_users;
use rocwheel_progress::{Exit, Failure};
use rocwheel_wheel::Platform;
use serde::Deserialize;

use crate::lock::{LockedPackage, LockedPackageFile, last_part, parse_lock};

/// Variables that would change what uv chooses.
const UV_VARIABLES: [&str; 16] = [
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_NO_INDEX",
    "UV_INDEX",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_STRATEGY",
    "UV_PRERELEASE",
    "UV_RESOLUTION",
    "UV_EXCLUDE_NEWER",
    "UV_CONSTRAINT",
    "UV_OVERRIDE",
    "UV_EXCLUDE",
    "UV_TORCH_BACKEND",
    "UV_PYTHON",
    "UV_PROJECT_ENVIRONMENT",
];

/// What pip says where there is no set, or a file is not the one that was meant.
const PIP_REFUSALS: [&str; 3] = ["No matching distribution found", "ResolutionImpossible", "DO NOT MATCH THE HASHES"];

/// The minor versions of glibc 2 that uv has names of systems for.
const UV_GLIBC: [u16; 12] = [17, 28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40];

/// What is asked of a resolver.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// Requirements (PEP 508).
    pub requirements: &'a [String],
    /// Requirements that count only for what is installed anyway.
    pub constraints: &'a [String],
    /// Addresses of indexes. uv takes a name from the first one that has it; for pip all are equal.
    pub indexes: &'a [String],
    /// `3.12`
    pub python: &'a str,
    /// The Python that builds source distributions. Without it uv starts every Python that it finds
    /// to look for one, and some of pyenv's take a second each.
    pub interpreter: Option<&'a Path>,
    /// The system by uv's name: `x86_64-manylinux_2_28`.
    pub platform: &'a str,
    /// `true`: pre-releases count as other versions.
    pub pre_releases: bool,
    /// `true`: source distributions do not count.
    pub wheels_only: bool,
}

/// The answer of a resolver. A refusal has its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<T> {
    Found(T),
    Refused(String),
}

/// The programs that can resolve; at least one is there.
#[derive(Debug, Clone, Default)]
pub struct Resolvers {
    pub uv: Option<Uv>,
    pub pip: Option<Pip>,
    /// A Python of the version that is asked for. Without it, some lines cannot be checked.
    pub python: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub struct Uv(pub PathBuf);

/// The words that start pip: `python -m pip`.
#[derive(Debug, Clone)]
pub struct Pip(pub Vec<String>);

/// The system by uv's name; of a glibc without one, that of the next older.
pub(crate) fn uv_platform(target: &InstallTarget) -> String {
    if target.platform == Platform::Windows {
        return "x86_64-pc-windows-msvc".to_owned();
    }
    let (_, minor) = target.glibc.unwrap_or((2, 28));
    let known = UV_GLIBC.iter().rev().find(|known| **known <= minor).unwrap_or(&UV_GLIBC[0]);
    format!("x86_64-manylinux_2_{known}")
}

/// `true` if uv refuses wheels for their platform, and was asked about an older glibc than the
/// target's, because it has no name for that one. Only its words say for what it refuses them.
fn is_about_older_glibc(reason: &str, target: &InstallTarget) -> bool {
    target.platform != Platform::Windows
        && target.glibc.is_some_and(|(_, minor)| !UV_GLIBC.iter().any(|known| *known >= minor))
        && reason.contains("platform")
}

impl Uv {
    /// `uv` without the user's settings, which would change the answer.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.command_with_files();
        command.arg("--no-config");
        command
    }

    /// `uv` without the user's variables.
    pub(crate) fn command_with_files(&self) -> Command {
        let mut command = Command::new(&self.0);
        for name in UV_VARIABLES {
            command.env_remove(name);
        }
        command.args(["--no-progress", "--no-python-downloads"]).stdin(Stdio::null());
        command
    }

    /// The text of a lock (PEP 751) with what uv chooses.
    ///
    /// # Errors
    /// uv cannot be started, or could not come to an answer: an index cannot be reached or read.
    pub fn lock(&self, query: &Query<'_>) -> Result<Outcome<String>, Failure> {
        let mut command = self.command();
        command.args(["pip", "compile", "-", "--format", "pylock.toml", "--quiet", "--no-header", "--no-annotate"]);
        command.args(["--python-version", query.python, "--python-platform", query.platform]);
        if let Some(interpreter) = query.interpreter {
            command.arg("--python").arg(interpreter);
        }
        // Addresses may have passwords, which everybody could read in the words of a command.
        if let Some((last, first)) = query.indexes.split_last() {
            command.env("UV_INDEX", first.join(" ")).env("UV_DEFAULT_INDEX", last);
        }
        if query.pre_releases {
            command.args(["--prerelease", "allow"]);
        }
        if query.wheels_only {
            command.args(["--only-binary", ":all:"]);
        }
        let mut constraints = tempfile::NamedTempFile::new().map_err(Failure::other)?;
        constraints.write_all(query.constraints.join("\n").as_bytes()).map_err(Failure::other)?;
        command.arg("--constraints").arg(constraints.path());
        let output = run(&mut command, Some(&format!("{}\n", query.requirements.join("\n"))))?;
        match output.status.code() {
            Some(0) => Ok(Outcome::Found(String::from_utf8_lossy(&output.stdout).into_owned())),
            Some(1) if is_refusal(&output.stderr) => Ok(Outcome::Refused(said(&output.stderr))),
            Some(1) => Err(Failure::message(format!("uv could not resolve the packages: {}", said(&output.stderr)))
                .with_hint("check the index with `rocwheel index check`")),
            _ => Err(Failure::message(format!("uv could not resolve the packages: {}", said(&output.stderr)))
                .with_hint("check the index with `rocwheel index check`, and the network")
                .with_exit(Exit::TryAgain)),
        }
    }
}

impl Pip {
    /// What pip would install with these words after `pip install`, for a Python on a system, or on
    /// its own if `target` is `None`.
    ///
    /// # Errors
    /// pip cannot be started, or its report cannot be read.
    pub fn report(
        &self,
        words: &[String],
        target: Option<&InstallTarget>,
    ) -> Result<Outcome<Vec<LockedPackage>>, Failure> {
        let (first, rest) = self.0.split_first().ok_or_else(|| Failure::message("pip has no name"))?;
        let mut command = Command::new(first);
        // An index in the user's settings would be asked too. `--isolated` leaves those out.
        command.args(rest).args(["install", "--isolated", "--dry-run", "--quiet", "--ignore-installed"]);
        command.args(["--disable-pip-version-check", "--no-input", "--report", "-"]).stdin(Stdio::null());
        let nowhere = tempfile::tempdir().map_err(Failure::other)?;
        if let Some(target) = target {
            command.args(cross_words(target)).arg("--target").arg(nowhere.path());
        }
        let output = run(command.args(words), None)?;
        let words = said(&output.stderr);
        if !output.status.success() && PIP_REFUSALS.iter().any(|refusal| words.contains(refusal)) {
            return Ok(Outcome::Refused(words));
        }
        if !output.status.success() {
            let last = words.lines().rev().find(|line| !line.is_empty()).unwrap_or("it says nothing");
            // Seen in pip 23.2; 26.3 goes by `--python-version` here too.
            let hint = if target.is_some() && last.contains("requires a different Python") {
                "this pip takes its own Python for the one that was asked for: install uv, or a newer pip"
            } else {
                "check the index with `rocwheel index check`, or install uv, which is asked first"
            };
            return Err(Failure::message(format!("pip could not resolve the packages: {last}")).with_hint(hint));
        }
        let packages = parse_report(&output.stdout)
            .map_err(|reason| Failure::message(format!("cannot read the report of pip: {reason}")))?;
        Ok(Outcome::Found(packages))
    }
}

/// The words that make pip choose for another Python and system. It expands no tag.
fn cross_words(target: &InstallTarget) -> Vec<String> {
    let (major, minor) = (target.python.major, target.python.minor);
    let mut words = vec!["--only-binary=:all:".to_owned(), format!("--python-version={major}.{minor}")];
    let abi = format!("cp{major}{minor}{}", if target.python.free_threaded { "t" } else { "" });
    words.push("--implementation=cp".to_owned());
    words.extend([abi.as_str(), "abi3", "none"].map(|abi| format!("--abi={abi}")));
    if target.platform == Platform::Windows {
        words.push("--platform=win_amd64".to_owned());
        return words;
    }
    let (_, newest) = target.glibc.unwrap_or((2, 28));
    words.extend((5..=newest).rev().map(|glibc| format!("--platform=manylinux_2_{glibc}_x86_64")));
    let old = ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"];
    words.extend(old.map(|platform| format!("--platform={platform}")));
    words
}

#[derive(Deserialize)]
struct Report {
    install: Vec<Installed>,
}

#[derive(Deserialize)]
struct Installed {
    metadata: Metadata,
    download_info: Download,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct Download {
    url: String,
    #[serde(default)]
    archive_info: Archive,
}

#[derive(Deserialize, Default)]
struct Archive {
    #[serde(default)]
    hashes: std::collections::BTreeMap<String, String>,
}

impl Installed {
    fn package(self) -> LockedPackage {
        let sha256 = self.download_info.archive_info.hashes.get("sha256").map(|hash| hash.to_ascii_lowercase());
        let address = self.download_info.url;
        let file = LockedPackageFile { name: last_part(&address), address, sha256, size: None };
        let name = rocwheel_wheel::canonical_name(&self.metadata.name);
        LockedPackage { name, version: self.metadata.version, files: vec![file] }
    }
}

fn parse_report(bytes: &[u8]) -> Result<Vec<LockedPackage>, String> {
    let report: Report = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut packages: Vec<LockedPackage> = report.install.into_iter().map(Installed::package).collect();
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(packages)
}

/// The words that start the pip of a Python.
pub fn of_python(python: &Path) -> Vec<String> {
    vec![python.to_string_lossy().into_owned(), "-m".to_owned(), "pip".to_owned()]
}

fn missing() -> Failure {
    Failure::message("neither uv nor pip is there, which choose the versions")
        .with_hint("install one of them: uv is a single file, and `python -m ensurepip` brings pip")
        .with_exit(Exit::Usage)
}

fn starts(words: &[String]) -> bool {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("--version").stdin(Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command, input: Option<&str>) -> Result<Output, Failure> {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()), input).map_err(|error| {
        let program = Path::new(command.get_program()).display();
        Failure::other(error)
            .context(format!("cannot run `{program}`, which chooses the versions"))
            .with_hint("install uv, for example by `pip install uv`")
    })
}

fn finish(command: &mut Command, input: Option<&str>) -> std::io::Result<Output> {
    let mut child = command.spawn()?;
    if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
        // A program that ends early says why on stderr.
        let _ = stdin.write_all(text.as_bytes());
    }
    child.wait_with_output()
}

/// `true` if uv found no set, rather than a fault of an index.
fn is_refusal(stderr: &[u8]) -> bool {
    String::from_utf8_lossy(stderr).contains("No solution found")
}

/// The error output of uv or pip, without the users and passwords in addresses.
pub(crate) fn said(stderr: &[u8]) -> String {
    text_without_users(&String::from_utf8_lossy(stderr)).trim().to_owned()
}

impl Resolvers {
    /// uv, and pip by the first of these commands that starts, or else of PATH, which `program`
    /// searches.
    pub fn find(pips: Vec<Vec<String>>, program: fn(&str) -> Option<PathBuf>) -> Resolvers {
        let alone = program("pip").map(|program| vec![program.to_string_lossy().into_owned()]);
        let of_python = program("python3").map(|program| of_python(&program));
        let pip = pips.into_iter().chain(of_python).chain(alone).find(|words| starts(words)).map(Pip);
        Resolvers { uv: program("uv").map(Uv), pip, python: None }
    }

    /// # Errors
    /// Neither uv nor pip is there.
    pub fn check(&self) -> Result<(), Failure> {
        if self.uv.is_some() || self.pip.is_some() {
            return Ok(());
        }
        Err(missing())
    }

    /// What the resolver chooses, the name of which is the second value, and the text of the lock
    /// if it is uv.
    ///
    /// # Errors
    /// Those of [`Uv::lock`] and [`Pip::report`].
    pub(crate) fn resolve(
        &self,
        query: &Query<'_>,
        target: &InstallTarget,
    ) -> Result<(Outcome<Vec<LockedPackage>>, &'static str), Failure> {
        if let Some(uv) = &self.uv {
            match uv.lock(query)? {
                Outcome::Refused(reason) if is_about_older_glibc(&reason, target) => {}
                Outcome::Refused(reason) => return Ok((Outcome::Refused(reason), "uv")),
                Outcome::Found(text) => {
                    let packages = parse_lock(&text)
                        .map_err(|reason| Failure::message(format!("cannot read the lock of uv: {reason}")))?;
                    return Ok((Outcome::Found(packages), "uv"));
                }
            }
        }
        let Some(pip) = &self.pip else {
            if self.uv.is_none() {
                return Err(missing());
            }
            let message = "cannot tell: uv was asked for its newest glibc, 2.40, and wheels may need this system's";
            return Err(Failure::message(message)
                .with_hint("install pip, which knows them all")
                .with_exit(Exit::Partial));
        };
        let mut words: Vec<String> = Vec::new();
        for (number, index) in query.indexes.iter().enumerate() {
            words.extend([if number == 0 { "--index-url" } else { "--extra-index-url" }.to_owned(), index.clone()]);
        }
        words.extend(query.pre_releases.then(|| "--pre".to_owned()));
        let mut constraints = tempfile::NamedTempFile::new().map_err(Failure::other)?;
        constraints.write_all(query.constraints.join("\n").as_bytes()).map_err(Failure::other)?;
        words.extend(["--constraint".to_owned(), constraints.path().to_string_lossy().into_owned()]);
        words.extend(query.requirements.iter().cloned());
        Ok((pip.report(&words, Some(target))?, "pip"))
    }
}
