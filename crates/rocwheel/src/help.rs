//! What `--help` prints beyond clap's own text: the commands in groups, and two examples for each
//! command. Manual pages print the same examples.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use crate::arguments::{Arguments, STYLES};
use crate::printer;

/// A heading of the program's help, and the commands below it.
type Group = (&'static str, &'static [&'static str]);

const GROUPS: [Group; 5] = [
    ("Any wheel", &["audit", "repair", "edit", "diff"]),
    ("GPU code", &["kernels", "prune", "split", "fuse"]),
    ("ROCm as packages", &["artifact", "package", "rocm-version", "compat", "data"]),
    ("Build, test, publish", &["source", "build", "recipe", "matrix", "test", "index", "release"]),
    ("This machine and rocwheel", &["doctor", "config", "completions", "man", "help"]),
];

/// Columns of the help where no terminal says how many it has: clap's default.
const COLUMNS: usize = 100;

/// Columns that help uses at most (`max_term_width`).
const MOST_COLUMNS: usize = 120;

/// Columns before the description of a command.
const INDENT: usize = 16;

/// The command line with grouped commands and with examples, for parsing and for help.
pub(crate) fn program() -> Command {
    let plain = Arguments::command();
    let columns = comfy_table::Table::new().width().map_or(COLUMNS, usize::from).min(MOST_COLUMNS);
    let groups = grouped(&plain, columns);
    let names: Vec<String> = plain.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    let plain = names.iter().fold(plain, |program, name| program.mut_subcommand(name, |inner| explained(inner, name)));
    // clap has one list of commands. Hidden commands are absent from it, and still parsed.
    names
        .iter()
        .fold(plain, |program, name| program.mut_subcommand(name, |inner| inner.hide(true)))
        .override_usage("rocwheel [OPTIONS] <COMMAND>")
        .help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{all-args}}{{after-help}}"
        ))
}

/// The words that ask for the same help with `--help`: `rocwheel help source hipify`.
pub(crate) fn words_for(program: &OsString, command: &[OsString]) -> Vec<OsString> {
    let mut words = vec![program.clone()];
    // Of the word `help` itself the program's help is the explanation.
    words.extend(command.iter().filter(|word| *word != "help").cloned());
    words.push("--help".into());
    words
}

/// The examples of a command, each with its purpose. `path` is `source hipify`.
pub(crate) fn examples(path: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    EXAMPLES.iter().filter(move |(command, ..)| *command == path).map(|(_, line, purpose)| (*line, *purpose))
}

fn explained(command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(name, |inner| explained(inner, &path))
    });
    let mut text = String::new();
    for (line, purpose) in examples(path) {
        let header = STYLES.get_placeholder();
        let _ = write!(text, "\n  # {purpose}\n  {header}{line}{header:#}");
    }
    if text.is_empty() {
        return command;
    }
    let header = STYLES.get_header();
    let before = command.get_after_long_help().map(|before| format!("{}\n\n", before.ansi())).unwrap_or_default();
    command.after_long_help(format!("{before}{header}Examples:{header:#}{text}"))
}

fn grouped(program: &Command, columns: usize) -> String {
    let (header, literal) = (STYLES.get_header(), STYLES.get_literal());
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{header}{title}:{header:#}");
        for command in names.iter().filter_map(|name| program.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let lines =
                printer::wrapped(&about, columns.saturating_sub(INDENT).max(20)).join(&format!("\n{:INDENT$}", ""));
            let width = INDENT - 2;
            let _ = writeln!(text, "  {literal}{:width$}{literal:#}{lines}", command.get_name());
        }
        text.push('\n');
    }
    text
}

/// Command, example, purpose.
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("audit", "rocwheel audit dist/*.whl", "will these wheels load wherever their tags say?"),
    ("audit", "rocwheel audit .venv", "what is installed in an environment"),
    ("repair", "rocwheel repair X.whl --rocm-version 7.2 -o wheelhouse", "use the ROCm packages at run time"),
    ("repair", "rocwheel repair X.whl --mode graft -o wheelhouse", "copy the missing libraries into the wheel"),
    ("edit", "rocwheel edit X.whl --local-version rocm7.0 -o edited", "another version"),
    ("edit", "rocwheel edit X.whl --platform-tag manylinux_2_28_x86_64 --in-place", "another platform tag"),
    ("diff", "rocwheel diff old.whl new.whl", "what changed between two wheels"),
    ("diff", "rocwheel diff dist-old dist-new --fail-on growth=5%,new-needed", "in CI: two folders of packages"),
    ("kernels", "rocwheel kernels X.whl", "which GPUs a wheel has code for, and how much"),
    ("kernels", "rocwheel kernels X.whl --plot code.svg", "the same as a picture"),
    ("prune", "rocwheel prune --keep gfx942 X.whl --output pruned", "the code for one GPU"),
    ("prune", "rocwheel prune --keep gfx942,gfx90a dist --output pruned --dry-run", "how much that would save"),
    ("split", "rocwheel split X.whl --output dist", "a host wheel, and a device wheel for each GPU"),
    ("split", "rocwheel split --verify-only X.whl dist", "compare only"),
    ("fuse", "rocwheel fuse dist/*.whl --output fat", "host and device wheels become one again"),
    ("fuse", "rocwheel fuse split --output artifacts", "artifacts that were split"),
    (
        "artifact fetch",
        "rocwheel artifact fetch --run-id 17123441166 --targets gfx94X-dcgpu --output artifacts",
        "of a CI run",
    ),
    (
        "artifact fetch",
        "rocwheel artifact fetch --run-id 17123441166 --release-type nightly --output artifacts",
        "of a release",
    ),
    ("artifact push", "rocwheel artifact push artifacts --to s3://BUCKET --run-id 7", "to a bucket"),
    ("artifact push", "rocwheel artifact push artifacts --to /srv/artifacts --run-id 7", "to a folder"),
    ("artifact import", "rocwheel artifact import --deb *.deb --output artifacts", "Debian packages of ROCm"),
    ("artifact import", "rocwheel artifact import --prefix /opt/rocm --output artifacts", "an installed ROCm"),
    ("artifact list", "rocwheel artifact list artifacts", "a table"),
    ("artifact list", "rocwheel artifact list artifacts --json", "the same as data"),
    ("artifact archive", "rocwheel artifact archive artifacts --output archives", "pack all artifacts of a folder"),
    ("artifact archive", "rocwheel artifact archive artifacts --output archives --level 9", "smaller"),
    ("artifact flatten", "rocwheel artifact flatten artifacts --output rocm", "one tree of everything"),
    (
        "artifact flatten",
        "rocwheel artifact flatten artifacts --output rocm --components lib,run",
        "of some components",
    ),
    ("artifact verify", "rocwheel artifact verify artifacts", "are they whole?"),
    ("artifact verify", "rocwheel artifact verify artifacts --json", "the answer as data"),
    ("package", "rocwheel package --artifacts artifacts --output packages", "wheels and the selector"),
    ("package", "rocwheel package --artifacts artifacts --output packages --dry-run", "what would be made"),
    ("rocm-version", "rocwheel rocm-version --compare 7.2.0rc1 7.2.0", "which version does pip prefer?"),
    ("rocm-version", "rocwheel rocm-version --custom-version-suffix .dev0 --json", "a version of your own"),
    ("compat", "rocwheel compat", "which script is which command"),
    (
        "compat",
        "rocwheel compat build_python_packages --artifact-dir=artifacts --dest-dir=out",
        "a script with its flags",
    ),
    ("data list", "rocwheel data list", "the tables"),
    ("data list", "rocwheel data list target", "the rows of one"),
    ("data show", "rocwheel data show gfx942", "everything known of a target"),
    ("data show", "rocwheel data show rocblas", "everything known of a library"),
    ("data check", "rocwheel data check --therock TheRock", "what a checkout has that the tables lack"),
    ("data check", "rocwheel data check --debian debs", "the same for Debian packages"),
    ("source checkout", "rocwheel source checkout torch triton --line 2.9 --root src", "commits that belong together"),
    ("source checkout", "rocwheel source checkout torch --patches patches", "with your patches"),
    ("source hipify", "rocwheel source hipify pytorch --diff", "what would change"),
    ("source hipify", "rocwheel source hipify pytorch --output pytorch-hip", "a converted copy"),
    ("build", "rocwheel build torch --torch 2.12 --rocm 7.2 --output wheels --dry-run", "what would be done"),
    ("build", "rocwheel build status wheels", "the state of a plan"),
    ("recipe list", "rocwheel recipe list", "the recipes"),
    ("recipe list", "rocwheel recipe list --recipes recipes", "yours as well"),
    ("recipe show", "rocwheel recipe show torch --torch 2.12 --rocm 7.2", "as a shell script to read"),
    ("recipe show", "rocwheel recipe show aiter --recipes recipes --torch 2.12 --rocm 7.2", "one of yours"),
    ("recipe check", "rocwheel recipe check recipes/aiter.toml", "in every combination"),
    ("recipe check", "rocwheel recipe check torch", "one of ours"),
    ("matrix", "rocwheel matrix", "a grid for each framework"),
    ("matrix", "rocwheel matrix flash-attn --torch 2.14 --wheels wheels --missing-only", "what is missing"),
    ("test report", "rocwheel test report test-results", "a folder with runs or reports"),
    ("test report", "rocwheel test report a.xml b.xml --html report.html", "reports of other tools"),
    ("index build", "rocwheel index build dist", "pages beside the wheels"),
    ("index build", "rocwheel index build s3://BUCKET/whl", "of a bucket"),
    ("index check", "rocwheel index check dist --files", "what would installers stumble over?"),
    ("index check", "rocwheel index check https://example.org/whl/", "on a server"),
    ("release list", "rocwheel release list --store /srv/whl --stream nightly", "the publications of a stream"),
    ("release list", "rocwheel release list --store /srv/whl --stream nightly --json", "the same as data"),
    ("doctor", "rocwheel doctor", "this machine, and the active Python environment"),
    ("doctor", "rocwheel doctor --need-gpu", "in CI: a machine without a GPU is an error"),
    ("config show", "rocwheel config show --origin", "what is set, and in which line"),
    ("config show", "rocwheel config show package --origin", "every option of a command"),
    ("config schema", "rocwheel config schema", "for an editor"),
    ("config schema", "rocwheel --no-config config schema", "without a file of the working directory"),
    ("completions", "rocwheel completions bash", "for bash"),
    ("completions", "rocwheel completions nushell", "for Nushell"),
    ("man", "rocwheel man man1", "manual pages"),
    ("man", "rocwheel man pages --format markdown", "the same as Markdown"),
    ("help", "rocwheel help audit", "a command"),
    ("help", "rocwheel help source hipify", "a command of a command"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let program = Arguments::command();
        let mut known: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn every_example_is_accepted_and_runs_its_command() {
        for (path, line, _) in EXAMPLES {
            let matches = program().try_get_matches_from(line.split(' '));
            let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
            let typed = crate::arguments::path_of(&matches);
            assert!(typed == *path || *path == "compat", "{line} runs {typed}");
            assert_eq!(examples(path).count(), 2, "{path}");
        }
    }
}
