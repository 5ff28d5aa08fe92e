//! Input: an evaluated recipe. Output: the same as a script that a shell or the Windows command
//! prompt runs. Values that only a machine knows are variables, set at the beginning of the script.
//! The program itself runs the steps, and does not start the script.

mod batch;
mod shell;

pub use shell::quoted;

use std::collections::BTreeSet;

use crate::cell::{Platform, Repair};
use crate::evaluated::{Action, Check, Evaluated, JobStep, Provided, Pythons, Variables};

/// The language of a script.
trait Dialect {
    fn comment(&self, text: &str) -> String;
    fn set(&self, name: &str, value: &str) -> String;
    fn set_default(&self, name: &str, value: &str) -> String;
    /// Sets variables from the names and values of a JSON file.
    fn set_from_file(&self, path: &str) -> String;
    fn prepend(&self, name: &str, value: &str) -> String;
    fn append(&self, name: &str, value: &str) -> String;
    /// The lines under a condition, with the warning or error for the other case.
    fn under(&self, provided: &Provided, lines: Vec<String>, otherwise: Option<Otherwise<'_>>) -> Vec<String>;
    /// The lines, run in a folder.
    fn inside(&self, directory: &str, lines: Vec<String>) -> Vec<String>;
    fn command(&self, words: &[String]) -> String;
    /// The lines of an action that is not a command.
    fn action(&self, action: &Action) -> Vec<String>;
    /// The lines before everything else.
    fn begin(&self) -> &'static [&'static str];
    fn variable(&self, variable: &str) -> String;
    /// The lines that give a variable its value, unless it has one, and the other names in them.
    fn default(&self, name: &str, variable: &str, recipe: &Evaluated) -> (Vec<String>, &'static [&'static str]);
    /// The same lines; their failure does not fail the script.
    fn may_fail(&self, lines: Vec<String>) -> Vec<String>;
    /// The line that installs the wheel for its checks.
    fn install(&self, pattern: &str) -> String;
}

/// Names whose values are paths and programs of a machine, or are determined on it. A published
/// script contains none of them.
const OF_MACHINE: [&str; 14] = [
    "source",
    "work",
    "stage",
    "python",
    "python.version",
    "python.compact",
    "jobs",
    "rocwheel",
    "rocm.root",
    "rocm.bin",
    "rocm.cmake",
    "rocm.clang",
    "rocm.bitcode",
    "rocm.lib",
];

/// A name in a text: `source` of `${source}`. A shell's own variables have other letters.
fn next_name(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(at) = text[from..].find("${").map(|at| at + from) {
        let end = text[at..].find('}')? + at;
        let name = &text[at + 2..end];
        let is_ours = name.starts_with(|letter: char| letter.is_ascii_lowercase())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "._,-".contains(letter));
        if is_ours && !text[..at].ends_with('$') {
            return Some((&text[..at], name, &text[end + 1..]));
        }
        from = at + 2;
    }
    None
}

/// The parts of a text between names, each with the name behind it.
fn parts(mut text: &str) -> Vec<(&str, Option<&str>)> {
    let mut parts = Vec::new();
    while let Some((before, name, behind)) = next_name(text) {
        parts.push((before, Some(name)));
        text = behind;
    }
    parts.push((text, None));
    parts
}

/// A text whose parts between names are escaped.
fn escaped(text: &str, escape: impl Fn(&str) -> String) -> String {
    let parts = parts(text).into_iter();
    parts.map(|(before, name)| escape(before) + &name.map_or_else(String::new, |name| format!("${{{name}}}"))).collect()
}

/// The variable of a name: `ROCM_ROOT` for `rocm.root`.
fn variable(name: &str) -> String {
    for prefix in ["environment.", "variable."] {
        if let Some(variable) = name.strip_prefix(prefix) {
            return variable.to_owned();
        }
    }
    if name.starts_with("rocm.libraries.") {
        return "ROCM_LIBRARIES".to_owned();
    }
    name.replace(['.', '-'], "_").to_uppercase()
}

/// Program that prints those of its arguments which are libraries of ROCm's packages, as a list.
const LIBRARIES: &str = r"exec('import rocm_sdk, sys\nfound = []\nfor name in sys.argv[1:]:\n try: found += [name] * bool(rocm_sdk.find_libraries(name))\n except (FileNotFoundError, ModuleNotFoundError): pass\nprint(found)')";
/// Program that prints the version of a Python.
const VERSION: &str = "import sys; print(str(sys.version_info[0]) + chr(46) + str(sys.version_info[1]))";
/// Program that prints the version of an installed distribution.
const INSTALLED: &str = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))";

/// The message if a condition does not hold.
enum Otherwise<'a> {
    /// A warning if one of these variables is not set otherwise. Without variables it is always
    /// printed.
    Warning(&'a str, Vec<&'a str>),
    Error(&'a str),
}

/// The whole recipe as a script: a shell script for Linux, a batch file for Windows.
pub fn text(recipe: &Evaluated) -> String {
    published(recipe, |_| None)
}

/// The script of a job: with the values of names that are the same wherever it runs.
pub fn published(recipe: &Evaluated, value: impl Fn(&str) -> Option<String>) -> String {
    let dialect: &dyn Dialect = match recipe.cell.platform {
        Platform::Linux => &shell::Shell,
        Platform::Windows => &batch::Batch,
    };
    let mut used = BTreeSet::new();
    let body = resolved(&body(recipe, dialect), &mut used, dialect, &value);
    let title: Vec<String> = header(recipe).iter().map(|line| dialect.comment(line)).collect();
    // The comments are not run, so their names need no variable.
    let title = resolved(&title.join("\n"), &mut BTreeSet::new(), dialect, &value);
    let mut lines: Vec<String> = dialect.begin().iter().map(|&line| line.to_owned()).collect();
    lines.extend([title, String::new()]);
    lines.extend(settings(used, recipe, dialect));
    lines.push(body);
    lines.join("\n")
}

/// Replaces names by values or variables, and collects those of variables.
fn resolved(
    text: &str,
    used: &mut BTreeSet<String>,
    dialect: &dyn Dialect,
    value: &dyn Fn(&str) -> Option<String>,
) -> String {
    let mut resolved = String::new();
    for (before, name) in parts(text) {
        resolved.push_str(before);
        let Some(name) = name else { continue };
        let is_of_machine = OF_MACHINE.contains(&name)
            || name.split_once('.').is_some_and(|(kind, rest)| {
                ["environment", "variable", "installed", "tool"].contains(&kind) || rest.starts_with("libraries.")
            });
        if let Some(value) = value(name).filter(|_| !is_of_machine) {
            resolved.push_str(&value);
        } else {
            used.insert(name.to_owned());
            resolved.push_str(&dialect.variable(&variable(name)));
        }
    }
    resolved
}

/// The lines that set the variables of names, each after those that it refers to.
fn settings(mut open: BTreeSet<String>, recipe: &Evaluated, dialect: &dyn Dialect) -> Vec<String> {
    open.retain(|name| !name.starts_with("environment.") && !name.starts_with("variable."));
    let mut lines = Vec::new();
    let mut done = BTreeSet::new();
    let mut waiting: Vec<String> = open.into_iter().rev().collect();
    while let Some(name) = waiting.pop() {
        let (own, needs) = dialect.default(&name, &variable(&name), recipe);
        let missing: Vec<String> =
            needs.iter().filter(|need| !done.contains(**need)).map(|&need| need.to_owned()).collect();
        if done.contains(name.as_str()) {
            continue;
        }
        if missing.is_empty() {
            lines.extend(own);
            done.insert(name);
        } else {
            waiting.push(name);
            waiting.extend(missing);
        }
    }
    if !lines.is_empty() {
        lines.insert(0, dialect.comment("Set these before, if they are to have other values."));
    }
    lines
}

fn body(recipe: &Evaluated, dialect: &dyn Dialect) -> String {
    let mut lines = vec![String::new()];
    for block in &recipe.environment {
        lines.extend(variables(block, dialect));
    }
    for step in &recipe.steps {
        lines.push(String::new());
        lines.extend(self::step(step, dialect));
    }
    if !recipe.finish.is_empty() {
        lines.extend([String::new(), dialect.comment("in the end, also after a failure:")]);
    }
    for step in &recipe.finish {
        lines.extend(self::step(step, dialect));
    }
    lines.push(String::new());
    lines.extend(result(recipe).iter().map(|line| dialect.comment(line)));
    lines.extend(after(recipe).map(|line| dialect.comment(&line)));
    lines.extend(recipe.run_time_note().map(|note| dialect.comment(&format!("at run time it {note}"))));
    if let Some(wheel) = recipe.output.wheel.as_ref().filter(|_| recipe.checks.iter().any(|check| !check.fresh)) {
        lines.push(dialect.install(&format!("${{source}}/{wheel}")));
    }
    lines.extend(recipe.checks.iter().flat_map(|check| self::check(check, dialect)));
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// A check of the result. One that needs its own environment becomes a comment.
fn check(check: &Check, dialect: &dyn Dialect) -> Vec<String> {
    let place = match (check.fresh, check.requirements) {
        (true, false) => ", where nothing but the wheel is installed",
        (true, true) => ", where nothing but the wheel and what it requires is installed",
        (false, _) => "",
    };
    let beside = if check.beside.is_empty() { String::new() } else { format!(", beside {}", check.beside.join(", ")) };
    let mut lines = vec![dialect.comment(&format!("check `{}`{place}{beside}:", check.name))];
    if check.fresh {
        let command = dialect.command(&check.run);
        lines.extend(command.lines().map(|line| dialect.comment(line).trim_end().to_owned()));
    } else {
        lines.extend(dialect.action(&Action::Run { command: check.run.clone(), more: Vec::new(), expect: None }));
    }
    lines
}

/// What happens to the wheel afterwards, as comments.
fn after(recipe: &Evaluated) -> impl Iterator<Item = String> + '_ {
    let way = Some(recipe.output.repair()).filter(|way| *way != Repair::None);
    let repair = way.map(|way| format!("repaired: `rocwheel repair --mode {way}`"));
    let split = recipe.output.is_split().then(|| "split: `rocwheel split`, a wheel for each GPU target".to_owned());
    repair.into_iter().chain(split)
}

fn header(recipe: &Evaluated) -> Vec<String> {
    let cell = &recipe.cell;
    let backend = cell.backend.as_deref().unwrap_or("");
    let python = match (cell.python, recipe.python) {
        (Some(python), _) => format!("Python {python}"),
        (None, Pythons::Any) => "any Python".to_owned(),
        (None, Pythons::Each) => "the installed Python".to_owned(),
    };
    let rocm = match (&cell.rocm, recipe.sdk) {
        (Some(rocm), true) => format!("ROCm {rocm}"),
        (Some(rocm), false) => format!("no ROCm (named for {rocm})"),
        (None, true) => "the installed ROCm".to_owned(),
        (None, false) => "no ROCm".to_owned(),
    };
    let mut lines = vec![
        format!(
            "{} ({}), backend {backend}, on {}, {python}, {rocm}",
            recipe.recipe,
            recipe.summary,
            cell.platform.name()
        ),
        format!(
            "sources: {} ({})",
            recipe.source.project,
            match recipe.source.work_on {
                crate::recipe::WorkOn::Checkout => "in the checkout",
                crate::recipe::WorkOn::Copy => "in a copy",
            }
        ),
    ];
    let targets = match recipe.targets.chosen_by {
        crate::cell::ChosenBy::Nobody => "none".to_owned(),
        crate::cell::ChosenBy::Rocm => "those that ROCm says".to_owned(),
        crate::cell::ChosenBy::User => format!("{} (as asked for)", recipe.targets.names.join(", ")),
        crate::cell::ChosenBy::Machine => format!("{} (of this machine)", recipe.targets.names.join(", ")),
        crate::cell::ChosenBy::Sdk => format!("{} (of the ROCm)", recipe.targets.names.join(", ")),
        crate::cell::ChosenBy::Image => format!("{} (of the image)", recipe.targets.names.join(", ")),
        crate::cell::ChosenBy::Recipe => format!("{} (the recipe's)", recipe.targets.names.join(", ")),
        crate::cell::ChosenBy::Sources => format!("{} (of the project's wheels)", recipe.targets.names.join(", ")),
    };
    lines.push(format!("GPU targets: {targets}"));
    if recipe.in_container {
        lines.push("in a container, unless `--executor here` says otherwise".to_owned());
    }
    if !recipe.image_packages.is_empty() {
        let packages = recipe.image_packages.describe();
        lines.push(format!("packages that the image is given, by its package manager: {packages}"));
    }
    for (name, switch) in &recipe.features {
        lines.push(format!("{name}: {switch}"));
    }
    for requirement in &recipe.requirements {
        let what = match (&requirement.program, &requirement.version) {
            (Some(program), Some(version)) => format!("{program} {version}"),
            _ => "a Python without spaces in its path".to_owned(),
        };
        lines.push(format!("needs {what}: {}", requirement.says));
    }
    lines.push(format!("version: {}", recipe.version.as_deref().unwrap_or("as the wheel says")));
    lines
}

fn result(recipe: &Evaluated) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(wheel) = &recipe.output.wheel {
        let install = if recipe.output.install { ", installed for what is built next" } else { "" };
        lines.push(format!("result: ${{source}}/{wheel}, at least {} bytes{install}", recipe.output.smallest));
    }
    if let Some(tarball) = &recipe.output.tarball {
        lines.push(format!("result: {} with {} of {}", tarball.path, tarball.members.join(", "), tarball.from));
        lines.push(format!("which holds {}", tarball.holds.join(", ")));
    }
    lines
}

fn variables(block: &Variables, dialect: &dyn Dialect) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(block.default_values.iter().map(|(name, value)| dialect.set_default(name, value)));
    if let Some(path) = &block.from_file {
        lines.push(dialect.set_from_file(path));
    }
    lines.extend(block.set.iter().map(|(name, value)| dialect.set(name, value)));
    lines.extend(block.prepend.iter().map(|(name, value)| dialect.prepend(name, value)));
    lines.extend(block.append.iter().map(|(name, value)| dialect.append(name, value)));
    let mut otherwise = match (&block.warning, &block.error) {
        (_, Some(text)) => Some(Otherwise::Error(text)),
        (Some(text), None) => Some(Otherwise::Warning(text, block.set.keys().map(String::as_str).collect())),
        (None, None) => None,
    };
    for provided in block.provided.iter().rev() {
        lines = dialect.under(provided, lines, otherwise.take());
    }
    lines
}

fn step(step: &JobStep, dialect: &dyn Dialect) -> Vec<String> {
    let fails = if step.may_fail { ", which may fail" } else { "" };
    let hours = crate::duration::words(std::time::Duration::from_secs(step.timeout));
    let mut lines = vec![dialect.comment(&format!("step `{}`{fails} (at most {hours})", step.name))];
    let mut body: Vec<String> = step.set.iter().map(|(name, value)| dialect.set(name, value)).collect();
    body.extend(dialect.action(&step.action));
    let in_folder = matches!(step.action, Action::Run { .. });
    if in_folder {
        body = dialect.inside(&step.directory, body);
    }
    if step.may_fail {
        body = dialect.may_fail(body);
    }
    for provided in step.provided.iter().rev() {
        body = dialect.under(provided, body, None);
    }
    lines.extend(body);
    lines
}

/// Indents lines, except texts that are written to files unchanged.
fn indented(lines: Vec<String>) -> impl Iterator<Item = String> {
    let mut in_text = false;
    lines.into_iter().map(move |line| {
        let was_in_text = in_text;
        in_text = if in_text {
            line != shell::END
        } else {
            line.ends_with(shell::BEGIN) || line.ends_with(shell::BEGIN_WITH_NAMES)
        };
        if line.is_empty() || was_in_text { line } else { format!("  {line}") }
    })
}
