//! Input: a distribution and a finding about it. Output: the command that fixes it, as a user types
//! it, and the commands that fix all findings together. An installed distribution is fixed by
//! installing another one, where that is known.

mod block;
mod built_for;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocwheel_report::shell_word;
use serde::{Serialize, Serializer};

pub use self::block::{Remedies, WheelRemedy};
use crate::analysis::Context;
use crate::finding::Finding;
use rocwheel_loader::site::Distribution;

/// A command that fixes a finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fix {
    /// The wheel, or what is installed.
    path: PathBuf,
    step: Step,
    command: String,
}

/// The command of a fix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// `rocwheel edit`, with options, each with its value where it has one.
    Edit(Vec<Vec<String>>),
    /// `rocwheel edit --record`.
    Record,
    /// `rocwheel repair`.
    Repair(Repair),
    /// `pip install`, or another program that changes installed files.
    Install,
    /// `rocwheel audit --with index`: it fixes nothing, and decides what is not decided.
    Ask,
}

/// How `rocwheel repair` fixes a wheel.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Repair {
    way: Way,
    /// The value of `--rocm-version`.
    rocm: Option<String>,
    /// Libraries to exclude, because they are not on this machine.
    excluded: Vec<String>,
}

/// The ways of repair, each of which does what those before it do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// Libraries of this machine come in; those of ROCm and PyTorch stay out.
    #[default]
    Usual,
    Rocm,
    Preload,
}

impl Repair {
    /// The options as words.
    fn words(&self) -> Vec<String> {
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

    /// Whether it fixes nothing and decides what was not decided.
    pub fn is_question(&self) -> bool {
        self.step == Step::Ask
    }

    /// Whether it is `rocwheel repair`, of which only a plan says whether it can be done on this
    /// machine.
    pub fn is_repair(&self) -> bool {
        matches!(self.step, Step::Repair(_))
    }

    /// Has a repair leave libraries out.
    pub fn exclude(&mut self, libraries: &[String]) {
        if let Step::Repair(repair) = &mut self.step {
            repair.excluded = libraries.to_vec();
            self.command = typed("repair", &self.path, repair.words().iter().map(String::as_str));
        }
    }

    /// The wheel, or what is installed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A fix with this text, for tests.
    #[cfg(test)]
    pub(crate) fn of_text(command: &str) -> Fix {
        Fix { path: PathBuf::new(), step: Step::Install, command: command.to_owned() }
    }

    fn new(distribution: &Distribution, step: Step) -> Option<Fix> {
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

/// A command of this program about a wheel, as typed.
fn typed<'w>(verb: &str, path: &Path, options: impl IntoIterator<Item = &'w str>) -> String {
    let mut words = vec!["rocwheel".to_owned(), verb.to_owned(), shell_word(&path.to_string_lossy())];
    words.extend(options.into_iter().map(shell_word));
    words.join(" ")
}

fn words(options: &[Vec<String>]) -> impl Iterator<Item = &str> {
    options.iter().flatten().map(String::as_str)
}

/// Installs something into the environment that a distribution is in. `pip --python` takes its
/// interpreter (pip 22.3).
fn install(distribution: &Distribution, options: &[&str]) -> Option<Fix> {
    let environment = distribution.installed()?.environment()?;
    let python = environment.join("bin/python");
    let mut words =
        vec!["pip".to_owned(), "--python".to_owned(), shell_word(&python.to_string_lossy()), "install".to_owned()];
    words.extend(options.iter().map(|option| shell_word(option)));
    Some(Fix { path: distribution.path.clone(), step: Step::Install, command: words.join(" ") })
}

fn repaired(distribution: &Distribution, way: Way) -> Option<Fix> {
    Fix::new(distribution, Step::Repair(Repair { way, ..Repair::default() }))
}

/// Whatever a repair does by itself.
pub(crate) fn repair(distribution: &Distribution) -> Option<Fix> {
    repaired(distribution, Way::Usual)
}

/// Libraries of this machine go into the wheel, unless they are of ROCm or PyTorch: a repair does
/// that by itself.
pub(crate) fn graft(distribution: &Distribution) -> Option<Fix> {
    repair(distribution)
}

/// ROCm and torch stay out, and are found.
pub(crate) fn rocm(distribution: &Distribution) -> Option<Fix> {
    repaired(distribution, Way::Rocm)
}

/// The preload list is written anew.
pub(crate) fn preload(distribution: &Distribution) -> Option<Fix> {
    repaired(distribution, Way::Preload)
}

/// The requirements that were not given are looked for on an index.
pub(crate) fn ask(distribution: &Distribution) -> Option<Fix> {
    Fix::new(distribution, Step::Ask)
}

fn edit(distribution: &Distribution, option: &str, value: &str) -> Option<Fix> {
    Fix::new(distribution, Step::Edit(vec![vec![option.to_owned(), value.to_owned()]]))
}

/// A requirement comes in.
pub(crate) fn require(distribution: &Distribution, requirement: &str) -> Option<Fix> {
    edit(distribution, "--requires", requirement).or_else(|| install(distribution, &[requirement]))
}

/// A requirement goes.
pub(crate) fn unrequire(distribution: &Distribution, name: &str) -> Option<Fix> {
    edit(distribution, "--remove-requires", name)
}

/// Files get another search path; `None` for those that shall have none. `files` are patterns of
/// members.
pub(crate) fn search_paths(distribution: &Distribution, files: &[(String, Option<String>)]) -> Option<Fix> {
    let options = files.iter().map(|(pattern, path)| match path {
        Some(path) => vec!["--rpath".to_owned(), format!("{pattern}={path}")],
        None => vec!["--remove-rpath".to_owned(), pattern.clone()],
    });
    Fix::new(distribution, Step::Edit(options.collect()))
}

/// Absolute entries of search paths go.
pub(crate) fn relative_search_paths(distribution: &Distribution) -> Option<Fix> {
    Fix::new(distribution, Step::Edit(vec![vec!["--drop-absolute-rpath".to_owned()]]))
}

/// Another platform tag.
pub(crate) fn platform(distribution: &Distribution, tag: &str) -> Option<Fix> {
    edit(distribution, "--platform-tag", tag)
}

/// RECORD is written anew, or what it lists is installed again.
pub(crate) fn record(distribution: &Distribution) -> Option<Fix> {
    Fix::new(distribution, Step::Record).or_else(|| {
        let pinned = format!("{}=={}", distribution.name, distribution.version());
        install(distribution, &["--force-reinstall", "--no-deps", &pinned])
    })
}

/// A devel tree is made whole by the program that expanded it.
pub(crate) fn devel_tree(distribution: &Distribution) -> Option<Fix> {
    let program = distribution.installed()?.environment()?.join("bin/rocm-sdk");
    let command = format!("{} init --repair", shell_word(&program.to_string_lossy()));
    program.is_file().then(|| Fix { path: distribution.path.clone(), step: Step::Install, command })
}

/// Members go.
pub(crate) fn drop_files(distribution: &Distribution, pattern: &str) -> Option<Fix> {
    edit(distribution, "--drop", pattern)
}

/// Says in repairs which ROCm the wheel was built for, where that can be read and METADATA does not
/// say it.
pub(crate) fn say_versions(context: &Context<'_>, findings: &mut [Finding]) {
    let mut versions: BTreeMap<PathBuf, Option<String>> = BTreeMap::new();
    for fix in findings.iter_mut().filter_map(|finding| finding.fix.as_mut()) {
        let Step::Repair(Repair { way, .. }) = fix.step else { continue };
        if way < Way::Rocm {
            continue;
        }
        let Some(wheel) = context.site.distributions.iter().position(|wheel| wheel.path == fix.path) else { continue };
        let version = versions.entry(fix.path.clone()).or_insert_with(|| built_for::rocm(context, wheel)).clone();
        // A preload list compares one version, not a range.
        let version = version.filter(|version| way == Way::Rocm || !version.ends_with(".*"));
        if let Some(new) = Fix::new(
            &context.site.distributions[wheel],
            Step::Repair(Repair { way, rocm: version, ..Repair::default() }),
        ) {
            *fix = new;
        }
    }
}
