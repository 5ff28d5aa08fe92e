//! Input: an evaluated recipe. Output: the same as a readable script for a shell or the Windows
//! command prompt. The program itself runs the steps; the script shows what they expand to.

mod batch;
mod shell;

pub use shell::quoted;

use crate::cell::{Platform, Repair};
use crate::evaluated::{Action, Evaluated, JobStep, Provided, Pythons, Variables};

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
    /// The line that runs a command.
    fn command(&self, words: &[String]) -> String;
    /// The lines of an action that is not a command.
    fn action(&self, action: &Action) -> Vec<String>;
}

/// The message if a condition does not hold.
enum Otherwise<'a> {
    /// A warning if one of these variables is not set otherwise. Without variables it is always
    /// printed.
    Warning(&'a str, Vec<&'a str>),
    Error(&'a str),
}

/// The whole recipe as a script: a shell script for Linux, a batch file for Windows. `${…}` stands
/// for values that are known when it runs.
pub fn text(recipe: &Evaluated) -> String {
    let dialect: &dyn Dialect = match recipe.cell.platform {
        Platform::Linux => &shell::Shell,
        Platform::Windows => &batch::Batch,
    };
    let mut lines: Vec<String> = header(recipe).iter().map(|line| dialect.comment(line)).collect();
    lines.push(String::new());
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
    for check in &recipe.checks {
        let place = match (check.fresh, check.requirements) {
            (true, false) => ", where nothing but the wheel is installed",
            (true, true) => ", where nothing but the wheel and what it requires is installed",
            (false, _) => "",
        };
        lines.push(dialect.comment(&format!("check `{}`{place}:", check.name)));
        lines.push(dialect.command(&check.run));
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
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
    let otherwise = match (&block.warning, &block.error) {
        (_, Some(text)) => Some(Otherwise::Error(text)),
        (Some(text), None) => Some(Otherwise::Warning(text, block.set.keys().map(String::as_str).collect())),
        (None, None) => None,
    };
    match &block.provided {
        Some(provided) => dialect.under(provided, lines, otherwise),
        None => lines,
    }
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
        in_text = if in_text { line != shell::END } else { line.ends_with(shell::BEGIN) };
        if line.is_empty() || was_in_text { line } else { format!("  {line}") }
    })
}
