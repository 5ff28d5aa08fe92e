//! `rocwheel.toml`, or `[tool.rocwheel]` in `pyproject.toml`: options for every run in a folder.
//! Input: the words of the command line. Output: these words, followed by the options of the file
//! that neither the command line nor the environment sets.

mod error;
mod file;
mod options;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use serde::Serialize;

use crate::environment;

pub use error::Error;
pub use file::{FileSetting, SettingsFile, check};
pub use options::{commands, options, schema};

/// The file name that is searched for in the working directory and its parents.
pub const NAME: &str = "rocwheel.toml";

/// The file of a Python project (PEP 518). It counts if it has the table `[tool.rocwheel]`.
pub const PROJECT: &str = "pyproject.toml";

/// A command line with the options of the configuration.
#[derive(Debug)]
pub struct CommandLine {
    pub words: Vec<OsString>,
    /// `None` if no file sets an option of this run.
    pub configuration: Option<Used>,
}

/// The file that took part in a run. Plans name it, so that they can be reproduced.
#[derive(Debug, Clone, Serialize)]
pub struct Used {
    pub path: PathBuf,
    pub sha256: String,
    /// The options that it set for this run, each as `--option`.
    pub options: Vec<String>,
    /// A `pyproject.toml` in the same folder whose table is not used.
    #[serde(skip)]
    pub unused: Option<PathBuf>,
}

impl Used {
    /// A hint for a command line that turned out to be wrong.
    pub fn hint(&self) -> String {
        let (path, options) = (self.path.display(), self.options.join(", "));
        format!("hint: `{path}` adds {options}; `--no-config` leaves it out")
    }
}

/// The choice of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The nearest file from the working directory upwards.
    Search,
    /// `--config FILE`.
    File(PathBuf),
    /// `--no-config`.
    Nothing,
}

impl Choice {
    /// Reads the chosen file, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error`] if it is wrong, or if a named file does not exist.
    pub fn read(&self, directory: &Path, program: &Command) -> Result<Option<SettingsFile>, Error> {
        self.find(directory)?.map(|place| place.read(program)).transpose()
    }

    /// Looks for the chosen file.
    fn find(&self, directory: &Path) -> Result<Option<Place>, Error> {
        match self {
            Self::Nothing => Ok(None),
            Self::File(path) => Ok(Some(Place { path: directory.join(path), unused: None })),
            Self::Search => nearest(directory),
        }
    }
}

/// A configuration file that has not been read.
struct Place {
    path: PathBuf,
    /// As [`SettingsFile::unused`].
    unused: Option<PathBuf>,
}

impl Place {
    fn read(self, program: &Command) -> Result<SettingsFile, Error> {
        Ok(SettingsFile { unused: self.unused, ..SettingsFile::read(&self.path, program)? })
    }
}

/// The nearest file from a folder upwards. In one folder `rocwheel.toml` comes before
/// `pyproject.toml`, which is passed over without its table.
fn nearest(directory: &Path) -> Result<Option<Place>, Error> {
    for folder in directory.ancestors() {
        let (own, project) = (folder.join(NAME), folder.join(PROJECT));
        if own.is_file() {
            // The other file may be wrong without any effect on this run.
            let is_unused = project.is_file() && file::has_table(&project).unwrap_or(false);
            return Ok(Some(Place { path: own, unused: is_unused.then_some(project) }));
        }
        if project.is_file() && file::has_table(&project)? {
            return Ok(Some(Place { path: project, unused: None }));
        }
    }
    Ok(None)
}

/// Adds the configuration of this run to the typed words, which were parsed. `program` makes the
/// command line: only where it is needed once more, as this takes most of the time of starting.
///
/// # Errors
///
/// [`Error`] if the file is wrong.
pub fn apply(
    program: fn() -> Command,
    typed: Vec<OsString>,
    parsed: &Result<ArgMatches, clap::Error>,
    directory: &Path,
) -> Result<CommandLine, Error> {
    let mut line = CommandLine { words: typed, configuration: None };
    let in_part;
    let matches = match parsed {
        Ok(matches) => matches,
        // `--help` and `--version` need no file. Of other errors the lack of options may be cured
        // by it; they are reported when the command line is parsed for the run.
        Err(error) if !error.use_stderr() => return Ok(line),
        Err(_) => match program().ignore_errors(true).try_get_matches_from(&line.words) {
            Ok(matches) => {
                in_part = matches;
                &in_part
            }
            Err(_) => return Ok(line),
        },
    };
    let Some(choice) = choice(matches) else { return Ok(line) };
    let Some(place) = choice.find(directory)? else { return Ok(line) };
    let mut built = environment::without_variables(program());
    built.build();
    let Some(run) = Run::new(&built, matches) else { return Ok(line) };
    let file = place.read(&built)?;
    let mut added = Vec::new();
    let mut options = Vec::new();
    for setting in file.settings.iter().filter(|setting| run.concerns(setting) && !run.is_refined(setting, &file)) {
        check(setting, &file.path, &built)?;
        added.extend(setting.words.iter().cloned());
        options.push(format!("--{}", setting.option));
    }
    if options.is_empty() {
        return Ok(line);
    }
    // There are no options after `--`.
    let end = line.words.iter().position(|word| word == "--").unwrap_or(line.words.len());
    line.words.splice(end..end, added);
    line.configuration = Some(Used { path: file.path, sha256: file.sha256, options, unused: file.unused });
    Ok(line)
}

/// The choice that `--config` and `--no-config` make; `None` for commands that read no
/// configuration file.
fn choice(mut matches: &ArgMatches) -> Option<Choice> {
    matches.subcommand_name()?;
    while let Some((name, inner)) = matches.subcommand() {
        if options::is_without_file(name) {
            return None;
        }
        matches = inner;
    }
    // A flag has no default value here if a variable of the environment has a wrong value.
    if matches.get_one::<bool>("no_config") == Some(&true) {
        return Some(Choice::Nothing);
    }
    Some(matches.get_one::<PathBuf>("config").cloned().map_or(Choice::Search, Choice::File))
}

/// The typed command and its arguments.
struct Run<'a> {
    names: Vec<String>,
    command: &'a Command,
    matches: &'a ArgMatches,
}

impl<'a> Run<'a> {
    /// `None` for commands that read no configuration file.
    fn new(program: &'a Command, matches: &'a ArgMatches) -> Option<Self> {
        let mut run = Self { names: Vec::new(), command: program, matches };
        while let Some((name, matches)) = run.matches.subcommand() {
            if !commands(run.command).any(|command| command.get_name() == name) {
                return None;
            }
            run.command = run.command.find_subcommand(name)?;
            run.names.push(name.to_owned());
            run.matches = matches;
        }
        (!run.names.is_empty()).then_some(run)
    }

    /// `true` if a setting applies to this run: it is in the table of the command or of one above
    /// it, as `[build]` is for `build plan`.
    fn concerns(&self, setting: &FileSetting) -> bool {
        let is_here = self.names.starts_with(&setting.command);
        let argument = self.command.get_arguments().find(|argument| argument.get_long() == Some(&setting.option));
        is_here && argument.is_some_and(|argument| !self.is_said(argument) && !self.is_contradicted(argument))
    }

    /// `true` if a table of a command below has the same option.
    fn is_refined(&self, setting: &FileSetting, file: &SettingsFile) -> bool {
        let of_same_option = file.settings.iter().filter(|other| other.option == setting.option);
        let mut below = of_same_option.filter(|other| other.command.len() > setting.command.len());
        below.any(|other| self.concerns(other))
    }

    /// `true` if the command line or the environment sets an option.
    fn is_said(&self, argument: &Arg) -> bool {
        let source = self.matches.value_source(argument.get_id().as_str());
        source.is_some_and(|source| source != ValueSource::DefaultValue)
    }

    /// `true` if a typed option excludes this one.
    fn is_contradicted(&self, argument: &Arg) -> bool {
        let others = self.command.get_arguments().filter(|other| other.get_id() != argument.get_id());
        others.filter(|other| self.is_said(other)).any(|other| {
            self.excludes(argument, other)
                || self.excludes(other, argument)
                || self.command.get_groups().any(|group| {
                    let ids: Vec<_> = group.get_args().collect();
                    !group.clone().is_multiple() && ids.contains(&argument.get_id()) && ids.contains(&other.get_id())
                })
        })
    }

    fn excludes(&self, one: &Arg, other: &Arg) -> bool {
        self.command.get_arg_conflicts_with(one).iter().any(|excluded| excluded.get_id() == other.get_id())
    }
}
