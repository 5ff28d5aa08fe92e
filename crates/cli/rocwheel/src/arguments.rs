//! The command line as clap reads it. The files in `commands/` interpret the arguments.

use std::ffi::OsString;
use std::path::PathBuf;

use bytesize::ByteSize;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{ArgAction, ArgMatches, Args, Parser, Subcommand, ValueEnum};

use crate::commands::rocm_version;
use crate::commands::source::{checkout, hipify, manifest, patches};
use crate::commands::split;
use crate::commands::{
    artifact_archive, artifact_fetch, artifact_flatten, artifact_import, artifact_list, artifact_push, artifact_verify,
};
use crate::commands::{
    audit, build, compat, config, data, diff, doctor, edit, fuse, index, kernels, matrix, package, prune, recipe,
    release, repair, test,
};
use crate::configuration::Choice;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    a check failed or the input is bad
  2    wrong usage
  3    done, but something is missing that you allowed to be missing; or stopped at a time limit
  4    temporary trouble (a lock, the network): try again
  70   a bug in rocwheel
  130  interrupted

Environment:
  SOURCE_DATE_EPOCH  time stamp of all written files, in seconds since 1970 (default: 1980-01-01)
  NO_COLOR           no colour on the terminal
  GITHUB_ACTIONS     `true`: annotations and groups in the log, a summary and outputs of the step";

pub(crate) const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Turns AMD ROCm builds into Python packages that install and load anywhere.
#[derive(Debug, Parser)]
#[command(name = "rocwheel", version, styles = STYLES, max_term_width = 120, after_long_help = EXIT_CODES)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: GlobalArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct GlobalArguments {
    /// Print the result as JSON on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more: once for the time of each stage, twice also for the settings
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// Number of threads, and of compilers that `build` runs at once [default: the cores this
    /// process may use]
    #[arg(short, long, global = true, value_name = "N", value_parser = threads, env = "ROCWHEEL_JOBS")]
    #[arg(hide_env_values = true)]
    pub(crate) jobs: Option<u16>,
    /// Print no progress
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,
    /// File with options [default: the nearest `rocwheel.toml`, or `pyproject.toml` with
    /// `[tool.rocwheel]`, from the working directory upwards]
    #[arg(long, global = true, value_name = "FILE", env = "ROCWHEEL_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Use no file with options, not even that of --config
    #[arg(long, global = true)]
    no_config: bool,
    /// Rows that add to what is known of GPU targets and libraries, or change it (`rocwheel data`)
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) data_file: Vec<PathBuf>,
}

impl GlobalArguments {
    /// The configuration file that `--config` and `--no-config` select.
    pub(crate) fn configuration(&self) -> Choice {
        match (&self.config, self.no_config) {
            (_, true) => Choice::Nothing,
            (Some(path), false) => Choice::File(path.clone()),
            (None, false) => Choice::Search,
        }
    }
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Fetch, push, import, list, archive, flatten and verify ROCm build outputs
    #[command(subcommand)]
    Artifact(ArtifactCommand),
    Package(Box<package::Arguments>),
    Kernels(kernels::Arguments),
    Prune(prune::Arguments),
    Split(Box<split::Arguments>),
    Fuse(Box<fuse::Arguments>),
    Audit(Box<audit::Arguments>),
    Repair(Box<repair::Arguments>),
    Edit(Box<edit::Arguments>),
    /// Check out, convert, patch and record the sources of GPU frameworks
    #[command(subcommand)]
    Source(SourceCommand),
    Build(Box<build::Arguments>),
    /// List, show, check and create build recipes
    #[command(subcommand)]
    Recipe(recipe::RecipeCommand),
    Matrix(matrix::Arguments),
    /// Make package indexes of folders of wheels, and check indexes
    #[command(subcommand)]
    Index(index::IndexCommand),
    /// Publish packages to an index, write release notes, and upload a release to GitHub
    #[command(subcommand)]
    Release(release::ReleaseCommand),
    Diff(diff::Arguments),
    Doctor(doctor::Arguments),
    /// Test what was built, merge the results of tests, and compare benchmarks
    #[command(subcommand)]
    Test(test::TestCommand),
    RocmVersion(rocm_version::Arguments),
    Compat(Box<compat::Arguments>),
    Data(data::Arguments),
    Config(config::Arguments),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: CompletionShell,
    },
    /// Print the help of a command
    Help {
        /// The words of the command: `source hipify`
        #[arg(value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Write the manual pages
    Man {
        /// Directory to write them to
        directory: PathBuf,
        /// What to write
        #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
        format: ManualFormat,
    },
}

/// The shells that completion scripts are written for.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CompletionShell {
    /// GNU Bash
    Bash,
    /// Elvish
    Elvish,
    /// Fish
    Fish,
    /// Nushell
    Nushell,
    /// PowerShell
    #[value(name = "powershell")]
    PowerShell,
    /// Z shell
    Zsh,
}

/// The form of the manual pages.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum ManualFormat {
    /// Manual pages for `man`
    #[default]
    Man,
    /// Markdown, a page for each command
    Markdown,
}

/// The documentation of the commands is at their arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactCommand {
    Fetch(Box<artifact_fetch::Arguments>),
    Push(artifact_push::Arguments),
    Import(artifact_import::Arguments),
    List(artifact_list::Arguments),
    Archive(artifact_archive::Arguments),
    Flatten(artifact_flatten::Arguments),
    Verify(artifact_verify::Arguments),
}

/// The documentation of the commands is at their arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum SourceCommand {
    Checkout(Box<checkout::Arguments>),
    Hipify(Box<hipify::Arguments>),
    Manifest(Box<manifest::Arguments>),
    Patches(patches::Arguments),
}

/// The words of the typed command: `artifact list`.
pub(crate) fn path_of(matches: &ArgMatches) -> String {
    let mut words = Vec::new();
    let mut inner = matches.subcommand();
    while let Some((name, matches)) = inner {
        words.push(name);
        inner = matches.subcommand();
    }
    words.join(" ")
}

/// Reads `--color` before clap reads the arguments, because clap's own errors obey it as well.
pub(crate) fn color_of(arguments: impl Iterator<Item = OsString>) -> Color {
    let mut arguments = arguments.skip(1).filter_map(|argument| argument.into_string().ok());
    while let Some(argument) = arguments.next() {
        let value = match argument.as_str() {
            "--color" => arguments.next(),
            "--" => break,
            text => text.strip_prefix("--color=").map(str::to_owned),
        };
        if let Some(color) = value.and_then(|value| Color::from_str(&value, false).ok()) {
            return color;
        }
    }
    Color::Auto
}

/// Parses a number of threads. The limit, 1024, is above the cores of any machine; more threads
/// would only cost time to start.
fn threads(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| "a number of threads from 1 to 1024 is expected".to_owned())
}

/// Parses a size: bytes, or a number with a unit of 1000 (MB) or 1024 (MiB).
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let size = text.parse::<ByteSize>();
    size.map(|size| size.as_u64()).map_err(|_| format!("`{text}` is no size: write it as 500MB or 1.5GiB"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_argument_is_explained() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in
                command.get_arguments().filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()))
            {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Arguments::command());
    }

    #[test]
    fn color_is_known_before_parsing() {
        let color = |arguments: &[&str]| color_of(arguments.iter().map(OsString::from));
        assert_eq!(color(&["rocwheel", "--color", "never", "package"]), Color::Never);
        assert_eq!(color(&["rocwheel", "package", "--color=always"]), Color::Always);
        assert_eq!(color(&["rocwheel", "--color=purple"]), Color::Auto);
        assert_eq!(color(&["rocwheel", "--", "--color=always"]), Color::Auto);
        assert_eq!(color(&["rocwheel", "--color"]), Color::Auto);
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("100", 100),
            ("500MB", 500_000_000),
            ("1.5GiB", 1_610_612_736),
            ("2 kB", 2000),
            ("1GB", 1_000_000_000),
            ("2t", 2_000_000_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "MB", "5 parsecs", "1.2.3MB", "-1"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
