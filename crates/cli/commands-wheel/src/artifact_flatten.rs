//! `rocwheel artifact flatten`: artifacts in, one installable tree out.

use std::path::PathBuf;

use clap::Args;
use rocwheel_artifact::Component;
use rocwheel_artifact::flatten::{self, Replaceable};
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use rocwheel_tables::{TargetTable, target};

use crate::artifact_inputs::{self, Forms};

/// Combine artifacts into one installable tree
///
/// One path with two contents is an error that names both artifacts. The tree is made beside the
/// output and appears when it is complete.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Artifacts (directories or archives), or directories that hold artifacts
    #[arg(required = true, value_name = "PATH")]
    inputs: Vec<PathBuf>,
    /// Directory to make: missing, empty, or made by this command
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Take only these components: lib, run, dbg, dev, doc, test
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    components: Vec<String>,
    /// Of artifacts for GPUs, take only these targets or families
    #[arg(long, value_name = "LIST")]
    targets: Option<String>,
    /// Replace the output, whatever is in it
    #[arg(long)]
    force: bool,
    /// Do all checks and count, and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug)]
pub struct Settings {
    inputs: Vec<PathBuf>,
    pub output: PathBuf,
    components: Vec<Component>,
    /// GPU targets without families; `None` selects all.
    targets: Option<Vec<String>>,
    existing: Replaceable,
    pub mode: Mode,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let components = arguments.components.iter().map(|name| artifact_inputs::parse_component(name));
        let components = components.collect::<Result<_, _>>()?;
        let targets = match &arguments.targets {
            Some(list) => {
                let mut targets = TargetTable::embedded().expand(list)?;
                // Artifacts of a family carry the family's own name.
                targets.extend(list.split([',', ';']).map(|name| name.trim().to_owned()));
                Some(targets)
            }
            None => None,
        };
        let existing = if arguments.force { Replaceable::Anything } else { Replaceable::OnlyOurs };
        let mode = Mode::new(arguments.dry_run);
        Ok(Self { inputs: arguments.inputs, output: arguments.output, components, targets, existing, mode })
    }
}

impl Settings {
    /// `true` if an input is selected. An input whose name is not that of an artifact is selected
    /// too, so that the error names it.
    fn wants(&self, path: &std::path::Path) -> bool {
        let Some(name) = artifact_inputs::name_of(path) else { return true };
        let component = self.components.is_empty()
            || name.known_component().is_some_and(|component| self.components.contains(&component));
        let family = &name.target_family;
        let target = name.is_generic()
            || self.targets.as_ref().is_none_or(|targets| {
                targets.contains(family) || targets.iter().any(|target| target == target::base_target(family))
            });
        component && target
    }
}

/// Creates the tree and prints its contents.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let mut inputs = artifact_inputs::expand(&settings.inputs, Forms::All, printer)?;
    inputs.retain(|path| settings.wants(path));
    if inputs.is_empty() {
        return Err(Usage::new("no artifact is left").hint("remove `--components` or `--targets`").into());
    }
    let flattened = flatten::flatten(&inputs, &settings.output, settings.existing, settings.mode, printer.reporter())?;
    if printer.format() == ResultFormat::Json {
        printer.json(&flattened)?;
        return Ok(Exit::Done);
    }
    printer.line(flattened.path.display().to_string())?;
    printer.note(format!(
        "{}{}, {}, {}, {}",
        if settings.mode == Mode::DryRun { "would write " } else { "" },
        message::count(flattened.files, "file", "files"),
        message::count(flattened.links, "link", "links"),
        message::count(flattened.directories, "directory", "directories"),
        message::bytes(flattened.bytes)
    ));
    if flattened.identical > 0 {
        let paths = message::count(flattened.identical, "path is", "paths are");
        printer.note(format!("{paths} in several artifacts with the same contents"));
    }
    Ok(Exit::Done)
}
