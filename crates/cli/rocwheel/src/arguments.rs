//! The command line as clap reads it. The files in `commands/` interpret the arguments.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Parser, Subcommand, ValueEnum as _};

use crate::commands::{compat, completions, config, data, man};
use rocwheel_commands_build::source::{checkout, hipify, manifest, patches};
use rocwheel_commands_build::{build, matrix, recipe, rocm_version};
use rocwheel_commands_publish::{index, release};
use rocwheel_commands_test::{choose, doctor, test};
use rocwheel_commands_wheel::{
    artifact_archive, artifact_fetch, artifact_flatten, artifact_import, artifact_list, artifact_push, artifact_verify,
    audit, diff, edit, fuse, kernels, package, prune, repair, split,
};
use rocwheel_console::arguments::{Color, GlobalArguments, STYLES};

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
    Choose(choose::Arguments),
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
        shell: completions::CompletionShell,
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
        format: man::ManualFormat,
    },
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

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use clap::CommandFactory;
    use rocwheel_console::output_file::OutputOption;

    use super::*;

    /// Options that name a file to read.
    const READ: &str = "--accept --base-python --bucket-config-file --bypass --config --data-file --deb \
                        --descriptor --durations --environment --expect --images --job --key --manifest \
                        --notes --python --reuse-key --signing-key --source --source-table --status \
                        --table --tables --tarball --topology --verdict-key --version-json";

    #[test]
    fn every_option_that_writes_a_file_is_guarded() {
        fn walk(command: &clap::Command, guarded: &mut Vec<String>) {
            for option in command.get_arguments().filter(|argument| !argument.is_positional()) {
                let name = option.get_long().map_or_else(
                    || option.get_short().map(|letter| format!("-{letter}")).unwrap_or_default(),
                    |long| format!("--{long}"),
                );
                let is_file = option.get_value_names().is_some_and(|names| names.iter().any(|name| *name == "FILE"));
                if option.get_value_parser().type_id() == TypeId::of::<OutputOption>() {
                    guarded.push(format!("{} {name}", command.get_name()));
                } else if is_file {
                    let known = READ.split(' ').any(|read| read == name);
                    assert!(known, "`{} {name}` is neither an OutputOption nor listed as read", command.get_name());
                }
            }
            command.get_subcommands().for_each(|inner| walk(inner, guarded));
        }
        let mut guarded = Vec::new();
        walk(&Arguments::command(), &mut guarded);
        guarded.sort();
        let expected = [
            "artifact-archive --hash-file",
            "artifact-archive -o",
            "audit --sarif",
            "bench --export",
            "build --write-job",
            "choose --html",
            "choose --markdown",
            "diff --write-deviations",
            "kernels --plot",
            "lists --disabled",
            "manifest --output",
            "pages --history",
            "pages --readme",
            "promote --decision",
            "publish --decision",
            "report --html",
            "report --junit",
            "report --test-result",
            "report --verdict",
            "shards --write-durations",
        ];
        assert_eq!(guarded, expected);
    }

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
}
