//! Input: the text of a `rocwheel.toml` or a `pyproject.toml`. Output: its settings by command,
//! each in the form of the command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use rocwheel_content::{hexadecimal, sha256};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Error;
use super::options;

/// A configuration file whose names and types were checked.
#[derive(Debug)]
pub struct SettingsFile {
    pub path: PathBuf,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    pub settings: Vec<FileSetting>,
    /// A `pyproject.toml` in the same folder whose table is not used.
    pub unused: Option<PathBuf>,
}

/// One option that the file sets.
#[derive(Debug)]
pub struct FileSetting {
    /// Names of the command and its parents; empty for the options of all commands.
    pub command: Vec<String>,
    /// The option without its dashes.
    pub option: String,
    /// Line in the file, from 1.
    pub line: usize,
    /// The words for the command line; empty for a flag that is `false`.
    pub words: Vec<OsString>,
    /// The value as written in the file.
    pub text: String,
}

impl SettingsFile {
    /// Reads a file; of a `pyproject.toml`, the table `[tool.rocwheel]`.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be read, is not TOML, names what does not exist, or has a value of
    /// the wrong type.
    pub fn read(path: &Path, program: &Command) -> Result<Self, Error> {
        let text = fs_err::read_to_string(path).map_err(|source| Error::Read { source })?;
        Self::parse(path, &text, program)
    }

    fn parse(path: &Path, text: &str, program: &Command) -> Result<Self, Error> {
        let whole = DeTable::parse(text).map_err(|source| Error::Toml { path: path.to_owned(), source })?;
        let mut reading = Reading { path, text, settings: Vec::new() };
        let table = if is_project(path) { reading.own_table(whole.get_ref())? } else { Some(whole.get_ref()) };
        let table = table.ok_or_else(|| Error::NoTable { path: path.to_owned() })?;
        reading.table(program, &[], table)?;
        let mut settings = reading.settings;
        settings.sort_by_key(|setting| setting.line);
        let sha256 = hexadecimal(&sha256(text.as_bytes()));
        Ok(Self { path: path.to_owned(), sha256, settings, unused: None })
    }
}

/// `true` if a `pyproject.toml` has the table `[tool.rocwheel]`.
///
/// # Errors
///
/// [`Error`] if it cannot be read, or if it mentions rocwheel and is not TOML. Other programs
/// report mistakes in files that are not for this one.
pub fn has_table(path: &Path) -> Result<bool, Error> {
    let text = fs_err::read_to_string(path).map_err(|source| Error::Read { source })?;
    if !text.contains(TABLE) {
        return Ok(false);
    }
    let whole = DeTable::parse(&text).map_err(|source| Error::Toml { path: path.to_owned(), source })?;
    Ok(Reading { path, text: &text, settings: Vec::new() }.own_table(whole.get_ref())?.is_some())
}

/// The name of our table below `[tool]`.
const TABLE: &str = "rocwheel";

fn is_project(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == super::PROJECT)
}

/// The state while reading the tables.
struct Reading<'a> {
    path: &'a Path,
    text: &'a str,
    settings: Vec<FileSetting>,
}

impl Reading<'_> {
    fn line(&self, offset: usize) -> usize {
        self.text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
    }

    /// The table `[tool.rocwheel]` of a `pyproject.toml`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] if it is not a table.
    fn own_table<'t, 'd>(&self, whole: &'t DeTable<'d>) -> Result<Option<&'t DeTable<'d>>, Error> {
        let Some((_, tool)) = whole.iter().find(|(key, _)| key.get_ref() == "tool") else { return Ok(None) };
        // A `tool` that is no table is a mistake that the build backend reports.
        let DeValue::Table(tools) = tool.get_ref() else { return Ok(None) };
        let Some((key, own)) = tools.iter().find(|(key, _)| key.get_ref() == TABLE) else { return Ok(None) };
        match own.get_ref() {
            DeValue::Table(table) => Ok(Some(table)),
            other => Err(Error::Type {
                path: self.path.to_owned(),
                line: self.line(key.span().start),
                option: format!("tool.{TABLE}"),
                expected: "a table",
                found: options::described(other),
            }),
        }
    }

    fn table(&mut self, command: &Command, above: &[String], table: &DeTable<'_>) -> Result<(), Error> {
        for (key, value) in table {
            let name: &str = key.get_ref();
            let inner = options::commands(command).find(|inner| inner.get_name() == name);
            match (inner, value.get_ref()) {
                (Some(inner), DeValue::Table(table)) => {
                    let path: Vec<String> = above.iter().cloned().chain([name.to_owned()]).collect();
                    self.table(inner, &path, table)?;
                }
                _ => self.setting(command, above, key, value)?,
            }
        }
        Ok(())
    }

    fn setting(
        &mut self,
        command: &Command,
        above: &[String],
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), Error> {
        let (name, line) = (&**key.get_ref(), self.line(key.span().start));
        let Some(argument) = own_options(command, above).find(|argument| argument.get_long() == Some(name)) else {
            if options::is_excluded(name) {
                return Err(Error::NotHere { path: self.path.to_owned(), line, option: name.to_owned() });
            }
            return Err(self.unknown(command, above, name, line, matches!(value.get_ref(), DeValue::Table(_))));
        };
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let words = options::words(argument, value.get_ref(), folder).map_err(|(expected, found)| Error::Type {
            path: self.path.to_owned(),
            line,
            option: name.to_owned(),
            expected,
            found,
        })?;
        let text = self.text.get(value.span()).unwrap_or_default().to_owned();
        self.settings.push(FileSetting { command: above.to_vec(), option: name.to_owned(), line, words, text });
        Ok(())
    }

    fn unknown(&self, command: &Command, above: &[String], name: &str, line: usize, is_table: bool) -> Error {
        let what = if is_table { "command" } else { "option" };
        let known: Vec<String> = if is_table {
            options::commands(command).map(|inner| inner.get_name().to_owned()).collect()
        } else {
            own_options(command, above).filter_map(Arg::get_long).map(str::to_owned).collect()
        };
        let spelled = name.replace('_', "-");
        let mut of_all = options::options(command).filter(|option| option.is_global_set());
        let hint = if !is_table && of_all.any(|option| option.get_long() == Some(&spelled)) {
            let place = if is_project(self.path) { "in `[tool.rocwheel]` itself" } else { "above the first table" };
            format!("`{spelled}` is an option of all commands: it stands {place}")
        } else {
            rocwheel_progress::suggestion(&spelled, known.iter().map(String::as_str))
        };
        let of = if above.is_empty() { String::new() } else { format!(" of `rocwheel {}`", above.join(" ")) };
        Error::Unknown { path: self.path.to_owned(), line, what: format!("{what} `{name}`{of}"), hint }
    }
}

/// The options of the command itself. Those of all commands are at the top of the file.
fn own_options<'a>(command: &'a Command, above: &[String]) -> impl Iterator<Item = &'a Arg> {
    let is_top = above.is_empty();
    options::options(command).filter(move |argument| argument.is_global_set() == is_top)
}

/// Checks that the command accepts the value; names and types were checked before.
///
/// # Errors
///
/// [`Error::Value`] with the message of the command line.
pub fn check(setting: &FileSetting, path: &Path, program: &Command) -> Result<(), Error> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let words = std::iter::once(OsString::from(program.get_name()));
    let words = words.chain(setting.command.iter().map(OsString::from)).chain(setting.words.iter().cloned());
    let Err(error) = program.clone().try_get_matches_from(words) else { return Ok(()) };
    let is_value = matches!(
        error.kind(),
        ErrorKind::InvalidValue
            | ErrorKind::ValueValidation
            | ErrorKind::WrongNumberOfValues
            | ErrorKind::TooFewValues
            | ErrorKind::TooManyValues
            | ErrorKind::InvalidUtf8
            | ErrorKind::UnknownArgument
    );
    if !is_value {
        // Arguments that are missing here come from the command line.
        return Ok(());
    }
    let rendered = error.render().to_string();
    let first = rendered.lines().next().unwrap_or_default();
    let known = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(known)) => known.clone(),
        _ => Vec::new(),
    };
    let reason = first.trim_start_matches("error: ").to_owned();
    Err(Error::Value { path: path.to_owned(), line: setting.line, reason, known })
}

impl FileSetting {
    /// The option of the command that this sets.
    pub fn argument<'a>(&self, program: &'a Command) -> Option<&'a Arg> {
        let command = self.command.iter().try_fold(program, |command, name| command.find_subcommand(name))?;
        command.get_arguments().find(|argument| argument.get_long() == Some(&self.option))
    }

    /// The option with its table: `package.version`.
    pub fn key(&self) -> String {
        self.command.iter().chain([&self.option]).cloned().collect::<Vec<_>>().join(".")
    }
}
