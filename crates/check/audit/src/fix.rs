//! Input: a distribution and how to fix it. Output: the command that does so, as a user types it.
//! The fix of an installed distribution installs another one, where a suitable one is known.

use std::path::{Path, PathBuf};

use rocwheel_loader::site::Distribution;
use rocwheel_progress::{shell_path, shell_word};
use serde::{Serialize, Serializer};

/// A command that fixes a finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fix {
    /// The wheel or the installed distribution.
    pub(crate) path: PathBuf,
    pub(crate) step: Step,
    pub(crate) command: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// `rocwheel edit`; each option with its value, if it has one.
    Edit(Vec<Vec<String>>),
    /// `rocwheel edit --record`.
    Record,
    /// `rocwheel repair`.
    Repair(Repair),
    /// `pip install`, or another program that changes installed files.
    Install,
    /// `rocwheel audit --with index`: it fixes nothing but answers an open question.
    Ask,
}

/// The options of `rocwheel repair`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Repair {
    pub(crate) way: Way,
    /// The value of `--rocm-version`.
    pub(crate) rocm: Option<String>,
    /// Libraries to exclude because this machine lacks them.
    pub(crate) excluded: Vec<String>,
}

/// The modes of a repair; each does everything that the modes before it do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// Copies libraries of this machine into the wheel, except those of ROCm and PyTorch.
    #[default]
    Usual,
    Rocm,
    Preload,
}

impl Repair {
    /// The options as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let mode: &[&str] = match self.way {
            Way::Usual => &[],
            Way::Rocm => &["--mode", "rocm"],
            Way::Preload => &["--mode", "rocm", "--resolve", "preload"],
        };
        let version = self.rocm.iter().flat_map(|version| ["--rocm-version", version]);
        let excluded = self.excluded.iter().flat_map(|library| ["--exclude", library]);
        mode.iter().copied().chain(version).chain(excluded).map(str::to_owned).collect()
    }
}

impl Serialize for Fix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.command)
    }
}

impl Fix {
    /// The command as typed into a shell.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// `true` if the command fixes nothing but answers an open question.
    pub fn is_question(&self) -> bool {
        self.step == Step::Ask
    }

    /// `true` for `rocwheel repair`. Only a plan of the repair shows whether it works on this
    /// machine.
    pub fn is_repair(&self) -> bool {
        matches!(self.step, Step::Repair(_))
    }

    /// Excludes libraries from a repair; other fixes stay unchanged.
    pub fn exclude(&mut self, libraries: &[String]) {
        if let Step::Repair(repair) = &mut self.step {
            repair.excluded = libraries.to_vec();
            self.command = typed("repair", &self.path, repair.words().iter().map(String::as_str));
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a fix with this text, for tests.
    #[cfg(test)]
    pub(crate) fn of_text(command: &str) -> Fix {
        Fix { path: PathBuf::new(), step: Step::Install, command: command.to_owned() }
    }

    pub(crate) fn new(distribution: &Distribution, step: Step) -> Option<Fix> {
        distribution.wheel()?;
        let path = distribution.path.clone();
        let command = match &step {
            Step::Edit(options) => typed("edit", &path, ["--in-place"].into_iter().chain(words(options))),
            Step::Record => typed("edit", &path, ["--in-place", "--record"]),
            Step::Repair(repair) => typed("repair", &path, repair.words().iter().map(String::as_str)),
            Step::Ask => typed("audit", &path, ["--with", "index"]),
            Step::Install => return None,
        };
        Some(Fix { path, step, command })
    }
}

/// A rocwheel command about a wheel, quoted for a shell.
pub(crate) fn typed<'w>(verb: &str, path: &Path, options: impl IntoIterator<Item = &'w str>) -> String {
    let mut words = vec!["rocwheel".to_owned(), verb.to_owned(), shell_path(path)];
    words.extend(options.into_iter().map(shell_word));
    words.join(" ")
}

pub(crate) fn words(options: &[Vec<String>]) -> impl Iterator<Item = &str> {
    options.iter().flatten().map(String::as_str)
}

/// Installs packages into the environment of a distribution. `pip --python` takes the interpreter
/// of the environment (pip 22.3).
fn install(distribution: &Distribution, options: &[&str]) -> Option<Fix> {
    let environment = distribution.installed()?.environment()?;
    let python = rocwheel_system::program_of(environment, "python");
    let mut words = vec!["pip".to_owned(), "--python".to_owned(), shell_path(&python), "install".to_owned()];
    words.extend(options.iter().map(|option| shell_word(option)));
    Some(Fix { path: distribution.path.clone(), step: Step::Install, command: words.join(" ") })
}

fn repaired(distribution: &Distribution, way: Way) -> Option<Fix> {
    Fix::new(distribution, Step::Repair(Repair { way, ..Repair::default() }))
}

/// Proposes a repair in the usual mode. It copies libraries of this machine into the wheel, except
/// those of ROCm and PyTorch.
pub(crate) fn repair(distribution: &Distribution) -> Option<Fix> {
    repaired(distribution, Way::Usual)
}

/// Proposes search paths to ROCm and torch, which stay outside of the wheel.
pub(crate) fn rocm(distribution: &Distribution) -> Option<Fix> {
    repaired(distribution, Way::Rocm)
}

/// Proposes to rewrite the preload list.
pub(crate) fn preload(distribution: &Distribution) -> Option<Fix> {
    repaired(distribution, Way::Preload)
}

/// Proposes to look up the missing requirements on an index.
pub(crate) fn ask(distribution: &Distribution) -> Option<Fix> {
    Fix::new(distribution, Step::Ask)
}

fn edit(distribution: &Distribution, option: &str, value: &str) -> Option<Fix> {
    Fix::new(distribution, Step::Edit(vec![vec![option.to_owned(), value.to_owned()]]))
}

/// Proposes to add a requirement, or to install it for an installed distribution.
pub(crate) fn require(distribution: &Distribution, requirement: &str) -> Option<Fix> {
    edit(distribution, "--requires", requirement).or_else(|| install(distribution, &[requirement]))
}

/// Proposes other versions of a distribution that is required already, or to install them for an
/// installed distribution.
pub(crate) fn replace_requirement(distribution: &Distribution, requirement: &str) -> Option<Fix> {
    edit(distribution, "--replace-requires", requirement).or_else(|| install(distribution, &[requirement]))
}

pub(crate) fn unrequire(distribution: &Distribution, name: &str) -> Option<Fix> {
    edit(distribution, "--remove-requires", name)
}

/// Proposes new search paths for files; `None` removes the search path. `files` are patterns of
/// members.
pub(crate) fn search_paths(distribution: &Distribution, files: &[(String, Option<String>)]) -> Option<Fix> {
    let options = files.iter().map(|(pattern, path)| match path {
        Some(path) => vec!["--rpath".to_owned(), format!("{pattern}={path}")],
        None => vec!["--remove-rpath".to_owned(), pattern.clone()],
    });
    Fix::new(distribution, Step::Edit(options.collect()))
}

/// Proposes to remove absolute entries from search paths.
pub(crate) fn relative_search_paths(distribution: &Distribution) -> Option<Fix> {
    Fix::new(distribution, Step::Edit(vec![vec!["--drop-absolute-rpath".to_owned()]]))
}

pub(crate) fn platform(distribution: &Distribution, tag: &str) -> Option<Fix> {
    edit(distribution, "--platform-tag", tag)
}

/// Proposes the tags of a wheel for one Python, such as `cp313t`, on one platform.
pub(crate) fn compiled_for(distribution: &Distribution, python: &str, platform: &str) -> Option<Fix> {
    let tags = [("--python-tag", python.trim_end_matches('t')), ("--abi-tag", python), ("--platform-tag", platform)];
    let options = tags.map(|(option, tag)| vec![option.to_owned(), tag.to_owned()]);
    Fix::new(distribution, Step::Edit(options.to_vec()))
}

/// Proposes to rewrite RECORD, or to reinstall an installed distribution.
pub(crate) fn record(distribution: &Distribution) -> Option<Fix> {
    Fix::new(distribution, Step::Record).or_else(|| {
        let pinned = format!("{}=={}", distribution.name, distribution.version());
        install(distribution, &["--force-reinstall", "--no-deps", &pinned])
    })
}

/// Proposes that the program that expanded a devel tree completes it.
pub(crate) fn devel_tree(distribution: &Distribution) -> Option<Fix> {
    let program = rocwheel_system::program_of(distribution.installed()?.environment()?, "rocm-sdk");
    let command = format!("{} init --repair", shell_path(&program));
    program.is_file().then(|| Fix { path: distribution.path.clone(), step: Step::Install, command })
}

pub(crate) fn drop_files(distribution: &Distribution, pattern: &str) -> Option<Fix> {
    edit(distribution, "--drop", pattern)
}
