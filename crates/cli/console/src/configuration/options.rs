//! The options that `rocwheel.toml` can set. They are read from the command line's own definition,
//! so that there is no second list of them.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use toml::de::DeValue;

/// Options that make no sense in a file for every run; `runner-exit` is of one run.
const NOT_IN_A_FILE: [&str; 6] = ["help", "version", "config", "no-config", "json", "runner-exit"];

/// Commands without a table in the file: today's scripts have their own flags, and the others have
/// nothing to set.
const WITHOUT: [&str; 5] = ["compat", "completions", "config", "help", "man"];

/// The type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// The number of times that the flag is given.
    Count,
    /// One text or number.
    One,
    /// One path, relative to the folder of the file.
    Path,
    /// Several texts; the option is given once for each.
    Many,
    /// Several paths, relative to the folder of the file.
    Paths,
    /// A fixed number of values after one option.
    Row,
}

impl Kind {
    pub fn of(argument: &Arg) -> Self {
        let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        match argument.get_action() {
            ArgAction::SetTrue | ArgAction::SetFalse => Self::Flag,
            ArgAction::Count => Self::Count,
            _ if argument.get_num_args().is_some_and(|range| range.min_values() > 1) => Self::Row,
            ArgAction::Append if is_path => Self::Paths,
            ArgAction::Append => Self::Many,
            _ if is_path => Self::Path,
            _ => Self::One,
        }
    }

    /// The type in the words of a message.
    fn expected(self) -> &'static str {
        match self {
            Self::Flag => "`true` or `false`",
            Self::Count => "a small number",
            Self::One => "a text or a number",
            Self::Path => "a path as text",
            Self::Many => "a list of texts",
            Self::Paths => "a list of paths",
            Self::Row => "a list with one text for each value",
        }
    }
}

/// The options of a command that may be in the file: those that its help shows. A key that is also
/// the name of a command below it (`plan` of `build`) is the table of that command.
pub fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| !argument.is_hide_set()).filter(move |argument| {
        argument.get_long().is_some_and(|long| !is_excluded(long) && command.find_subcommand(long).is_none())
    })
}

/// `true` if an option of this name exists only on the command line.
pub fn is_excluded(long: &str) -> bool {
    NOT_IN_A_FILE.contains(&long)
}

/// The subcommands that may have tables in the file.
pub fn commands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| !is_without_file(inner.get_name()))
}

/// `true` if a command has no table in the file.
pub fn is_without_file(name: &str) -> bool {
    WITHOUT.contains(&name)
}

/// Converts a value to the words of the command line.
///
/// # Errors
///
/// The expected type, and the type of the value.
pub fn words(
    argument: &Arg,
    value: &DeValue<'_>,
    folder: &Path,
) -> Result<Vec<OsString>, (&'static str, &'static str)> {
    let kind = Kind::of(argument);
    let wrong = |value: &DeValue<'_>| (kind.expected(), described(value));
    let flag = format!("--{}", argument.get_long().unwrap_or_default());
    match (kind, value) {
        (Kind::Flag, DeValue::Boolean(is_on)) => Ok(if *is_on { vec![flag.into()] } else { Vec::new() }),
        (Kind::Count, DeValue::Integer(count)) => {
            let times: u8 = count.as_str().parse().map_err(|_| wrong(value))?;
            Ok(vec![flag.into(); usize::from(times)])
        }
        (Kind::Row, DeValue::Array(values)) => {
            let mut row = vec![OsString::from(&flag)];
            for value in values {
                row.push(scalar(value.get_ref()).ok_or_else(|| wrong(value.get_ref()))?.into());
            }
            Ok(row)
        }
        (Kind::Many | Kind::Paths, DeValue::Array(values)) => {
            let values = values.iter().map(toml::Spanned::get_ref);
            values.map(|value| word(&flag, text(kind, value, folder)).ok_or_else(|| wrong(value))).collect()
        }
        (Kind::Flag | Kind::Count | Kind::Row, _) => Err(wrong(value)),
        _ => word(&flag, text(kind, value, folder)).map(|word| vec![word]).ok_or_else(|| wrong(value)),
    }
}

fn word(flag: &str, value: Option<OsString>) -> Option<OsString> {
    let mut word = OsString::from(format!("{flag}="));
    word.push(value?);
    Some(word)
}

fn text(kind: Kind, value: &DeValue<'_>, folder: &Path) -> Option<OsString> {
    match (kind, value) {
        (Kind::Path | Kind::Paths, DeValue::String(path)) => Some(folder.join(&**path).into_os_string()),
        (Kind::Path | Kind::Paths, _) => None,
        _ => scalar(value).map(OsString::from),
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    }
}

pub(crate) fn described(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "this number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "`true` or `false`",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// JSON Schema (draft 2020-12) of the file, for editors.
pub fn schema(program: &Command) -> serde_json::Value {
    let mut schema = table(program);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = super::NAME.into();
    schema
}

fn table(command: &Command) -> serde_json::Value {
    let mut properties = serde_json::Map::new();
    for argument in options(command).filter(|argument| !argument.is_global_set() || command.get_name() == "rocwheel") {
        properties.insert(argument.get_long().unwrap_or_default().to_owned(), property(argument));
    }
    for inner in commands(command) {
        properties.insert(inner.get_name().to_owned(), table(inner));
    }
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    serde_json::json!({ "type": "object", "description": about, "properties": properties, "additionalProperties": false })
}

fn property(argument: &Arg) -> serde_json::Value {
    let choices: Vec<String> = argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let kind = Kind::of(argument);
    let one = match kind {
        Kind::Path | Kind::Paths => serde_json::json!({ "type": "string" }),
        // The texts of sizes and times have units; those of small numbers have none.
        _ if argument.get_value_parser().type_id() == TypeId::of::<u16>() => {
            serde_json::json!({ "type": ["string", "integer"], "pattern": "^[0-9]+$" })
        }
        _ if choices.is_empty() => serde_json::json!({ "type": ["string", "number"] }),
        _ => serde_json::json!({ "enum": choices }),
    };
    let mut property = match kind {
        Kind::Flag => serde_json::json!({ "type": "boolean" }),
        Kind::Count => serde_json::json!({ "type": "integer", "minimum": 0 }),
        Kind::One | Kind::Path => one,
        Kind::Many | Kind::Paths | Kind::Row => {
            serde_json::json!({ "anyOf": [{ "type": "array", "items": one.clone() }, one] })
        }
    };
    property["description"] = argument.get_help().map(ToString::to_string).unwrap_or_default().into();
    property
}
