//! `rocwheel config`: the settings of `rocwheel.toml`, their origins, and the schema of the file.

use std::path::PathBuf;

use clap::{Arg, Args, Command, Subcommand};
use comfy_table::CellAlignment::Left;
use rocwheel_console::configuration::{self, Choice, FileSetting, SettingsFile};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_index::text_without_users;
use rocwheel_progress::Exit;
use serde::Serialize;

/// Show the configuration, its origin, and its schema
///
/// `rocwheel.toml`, or `[tool.rocwheel]` in `pyproject.toml`, sets options for every run. It is in
/// the working directory, or in the nearest folder above it. The command line and the environment
/// win over it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show what is set; with a command, all its options
    ///
    /// The whole file is checked: names, types and values.
    Show {
        /// The command, for example `source checkout`
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
        /// Show where each value comes from
        #[arg(long)]
        origin: bool,
    },
    /// Print a JSON schema of the file, for editors
    Schema,
}

#[derive(Debug)]
pub(crate) enum Settings {
    Show { command: Vec<String>, choice: Choice, directory: PathBuf, origins: Origins },
    Schema,
}

/// Printing of the places that values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origins {
    Shown,
    Hidden,
}

impl Arguments {
    /// `choice` is the configuration file that the global options select.
    pub(crate) fn settings(self, choice: Choice) -> Result<Settings> {
        Ok(match self.action {
            Action::Schema => Settings::Schema,
            Action::Show { command, origin } => Settings::Show {
                command,
                choice,
                directory: environment::directory()?,
                origins: if origin { Origins::Shown } else { Origins::Hidden },
            },
        })
    }
}

/// One option and its value.
#[derive(Debug, Serialize)]
struct Row {
    /// The key, such as `package.version`.
    key: String,
    /// The value as written in the file or the environment; `None` if nothing is set and there is
    /// no default.
    value: Option<String>,
    origin: Origin,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
enum Origin {
    File { line: usize },
    Environment { variable: String },
    Default,
}

#[derive(Serialize)]
struct Document<'a> {
    configuration: Option<Source<'a>>,
    settings: &'a [Row],
}

/// The file that was read.
#[derive(Serialize)]
struct Source<'a> {
    path: &'a std::path::Path,
    sha256: &'a str,
}

/// Prints the settings or the schema.
pub(crate) fn command(settings: &Settings, program: Command, printer: &Printer) -> Result<Exit> {
    let mut program = environment::without_empty_variables(program);
    program.build();
    match settings {
        Settings::Schema => {
            let schema = serde_json::to_string_pretty(&configuration::schema(&program)).map_err(Failure::other)?;
            printer.line(schema)?;
        }
        Settings::Show { command, choice, directory, origins } => {
            let file = choice.read(directory, &program)?;
            if let Some(file) = &file {
                for setting in &file.settings {
                    configuration::check(setting, &file.path, &program)?;
                }
            }
            let rows = match command.as_slice() {
                [] => file.iter().flat_map(|file| &file.settings).map(|setting| row(setting, &program)).collect(),
                names => all(names, file.as_ref(), &program)?,
            };
            if printer.format() == ResultFormat::Text {
                printer.note(match (&file, choice) {
                    (Some(file), _) => format!("`{}` (SHA-256 {})", file.path.display(), file.sha256),
                    (None, Choice::Nothing) => "no file of options is used".to_owned(),
                    (None, _) => format!(
                        "there is no `{}` here or above, nor a `{}` with `[tool.rocwheel]`",
                        configuration::NAME,
                        configuration::PROJECT
                    ),
                });
            }
            show(file.as_ref(), &rows, *origins, printer)?;
        }
    }
    Ok(Exit::Done)
}

fn row(setting: &FileSetting, program: &clap::Command) -> Row {
    let from_environment = setting.argument(program).and_then(environment_of);
    let key = setting.key();
    match from_environment {
        Some((variable, value)) => Row { key, value: Some(value), origin: Origin::Environment { variable } },
        None => {
            Row { key, value: Some(text_without_users(&setting.text)), origin: Origin::File { line: setting.line } }
        }
    }
}

/// The variable that sets an option, and its value; `None` if it is unset.
fn environment_of(argument: &Arg) -> Option<(String, String)> {
    let name = argument.get_env()?;
    let value = environment::variables().find(|(variable, _)| variable == name)?.1;
    let value = text_without_users(&value.to_string_lossy());
    Some((name.to_string_lossy().into_owned(), format!("{value:?}")))
}

/// Every option of a command, with its default if nothing sets it.
fn all(names: &[String], file: Option<&SettingsFile>, program: &clap::Command) -> Result<Vec<Row>> {
    let mut command = program;
    for name in names {
        let known: Vec<&str> = configuration::commands(command).map(clap::Command::get_name).collect();
        command = configuration::commands(command).find(|inner| inner.get_name() == name).ok_or_else(|| {
            let usage = Usage::new(format!("there is no command `{}` with settings", names.join(" ")));
            usage.hint(rocwheel_progress::suggestion(name, known.iter().copied()))
        })?;
    }
    let rows = configuration::options(command).map(|argument| {
        let option = argument.get_long().unwrap_or_default();
        let above: &[String] = if argument.is_global_set() { &[] } else { names };
        let set = file
            .and_then(|file| file.settings.iter().find(|setting| setting.option == option && setting.command == above));
        if let Some(setting) = set {
            return row(setting, program);
        }
        let key = above.iter().map(String::as_str).chain([option]).collect::<Vec<_>>().join(".");
        if let Some((variable, value)) = environment_of(argument) {
            return Row { key, value: Some(value), origin: Origin::Environment { variable } };
        }
        Row { key, value: default(argument), origin: Origin::Default }
    });
    Ok(rows.collect())
}

fn default(argument: &Arg) -> Option<String> {
    if !argument.get_action().takes_values() {
        return Some(if matches!(argument.get_action(), clap::ArgAction::Count) { "0" } else { "false" }.to_owned());
    }
    let values: Vec<String> =
        argument.get_default_values().iter().map(|value| format!("{:?}", value.to_string_lossy())).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

fn show(file: Option<&SettingsFile>, rows: &[Row], origins: Origins, printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        let configuration = file.map(|file| Source { path: &file.path, sha256: &file.sha256 });
        return printer.json(&Document { configuration, settings: rows });
    }
    if rows.is_empty() {
        return Ok(());
    }
    let mut columns = vec![("Option", Left), ("Value", Left)];
    if origins == Origins::Shown {
        columns.push(("From", Left));
    }
    let cells = rows.iter().map(|row| {
        let mut cells = vec![row.key.clone(), row.value.clone().unwrap_or_else(|| "–".to_owned())];
        if origins == Origins::Shown {
            cells.push(match &row.origin {
                Origin::File { line } => format!("line {line}"),
                Origin::Environment { variable } => variable.clone(),
                Origin::Default => "default".to_owned(),
            });
        }
        cells
    });
    printer.table(&columns, cells)
}
