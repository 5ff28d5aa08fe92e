//! `rocwheel compat expand_amdgpu_families`: families in, targets or extras out.

use clap::{Args, ValueEnum};
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_progress::Exit;
use rocwheel_tables::TargetTable;
use rocwheel_tables::target::base_target;

/// expand_amdgpu_families: GPU families → their targets, or the extras that install them
///
/// Prints a list with commas. The output of the step is `device_extras`, for the mode of that name.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Families and targets, separated by `;` or `,`
    #[arg(long, value_name = "LIST", required = true)]
    amdgpu_families: String,
    /// What is printed
    #[arg(long, value_name = "MODE", default_value = "targets")]
    output_mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// gfx942
    Targets,
    /// device-gfx942
    DeviceExtras,
}

#[derive(Debug)]
pub(crate) struct Settings {
    mode: Mode,
    targets: Vec<String>,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let targets = TargetTable::embedded().expand(&arguments.amdgpu_families)?;
        Ok(Self { mode: arguments.output_mode, targets })
    }
}

pub(super) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let mut names: Vec<String> = match settings.mode {
        Mode::Targets => settings.targets.clone(),
        // The variants of a target are in one package.
        Mode::DeviceExtras => {
            let table = TargetTable::embedded();
            let targets = settings.targets.iter().filter(|target| !table.is_portable(target));
            targets.map(|target| format!("device-{}", base_target(target))).collect()
        }
    };
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let list = names.join(",");
    if settings.mode == Mode::DeviceExtras && !names.is_empty() {
        printer.outputs(&[("device_extras", &list)])?;
    }
    match printer.format() {
        ResultFormat::Json => printer.json(&serde_json::json!({ "names": names }))?,
        ResultFormat::Text => printer.line(&list)?,
    }
    Ok(Exit::Done)
}
