//! `rocwheel compat`: scripts of ROCm's build tools under their own names, with their own flags.

mod build_packages;
mod expand_families;
mod fileset;
mod flags;
mod package_version;
mod split_artifacts;
mod split_wheels;

use clap::{Args, Subcommand};
use comfy_table::CellAlignment::Left;
use report::Exit;

pub(crate) use flags::explain;

use crate::commands::{rocm_version, split_wheel};
use crate::printer::{Format, Printer};

/// Scripts of ROCm's build tools under their own names, with their own flags
///
/// Without a name the scripts are listed. An empty value counts as a flag that was not given, lists may be separated by
/// `;` or `,`. Flags that this program has no use for are taken and named in a note; what is different is in
/// docs/deviations.md.
#[derive(Debug, Args)]
#[command(subcommand_value_name = "SCRIPT", subcommand_help_heading = "Scripts")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    script: Option<Script>,
}

#[derive(Debug, Subcommand)]
enum Script {
    #[command(name = "build_python_packages", alias = "build_python_packages.py")]
    BuildPythonPackages(build_packages::Arguments),
    #[command(name = "compute_rocm_package_version", alias = "compute_rocm_package_version.py")]
    ComputeRocmPackageVersion(package_version::Arguments),
    #[command(name = "expand_amdgpu_families", alias = "expand_amdgpu_families.py")]
    ExpandAmdgpuFamilies(expand_families::Arguments),
    #[command(name = "fileset_tool", alias = "fileset_tool.py", subcommand)]
    FilesetTool(fileset::Arguments),
    #[command(name = "split_artifacts", alias = "split_artifacts.py")]
    SplitArtifacts(split_artifacts::Arguments),
    #[command(name = "split_python_wheels", alias = "split_python_wheels.py")]
    SplitPythonWheels(split_wheels::Arguments),
}

/// What the command works with.
#[derive(Debug)]
pub(crate) enum Settings {
    List,
    BuildPackages(Box<build_packages::Settings>),
    PackageVersion(rocm_version::Settings),
    ExpandFamilies(expand_families::Settings),
    Fileset(fileset::Settings),
    SplitArtifacts(split_artifacts::Settings),
    SplitWheels { settings: Box<split_wheel::Settings>, unused: Vec<&'static str> },
}

impl TryFrom<Arguments> for Settings {
    type Error = anyhow::Error;

    fn try_from(arguments: Arguments) -> anyhow::Result<Self> {
        let Some(script) = arguments.script else { return Ok(Self::List) };
        Ok(match script {
            Script::BuildPythonPackages(arguments) => Self::BuildPackages(Box::new(arguments.try_into()?)),
            Script::ComputeRocmPackageVersion(arguments) => Self::PackageVersion(arguments.settings()?),
            Script::ExpandAmdgpuFamilies(arguments) => Self::ExpandFamilies(arguments.try_into()?),
            Script::FilesetTool(arguments) => Self::Fileset(arguments.try_into()?),
            Script::SplitArtifacts(arguments) => Self::SplitArtifacts(arguments.try_into()?),
            Script::SplitPythonWheels(arguments) => {
                let (settings, unused) = arguments.settings()?;
                Self::SplitWheels { settings, unused }
            }
        })
    }
}

/// The scripts there are, with what they are for and the command that has more to offer.
const SCRIPTS: [[&str; 3]; 6] = [
    ["build_python_packages", "artifacts → wheels and the selector", "rocwheel package --artifacts DIR --output DIR"],
    ["compute_rocm_package_version", "the version of a build's packages", "rocwheel rocm-version"],
    ["expand_amdgpu_families", "GPU families → their targets", "none"],
    ["fileset_tool", "a build tree → artifacts, archives, one tree", "rocwheel artifact"],
    ["split_artifacts", "an artifact → a part without GPU code and one for each target", "rocwheel split ARTIFACT"],
    ["split_python_wheels", "a wheel → a host wheel and device wheels", "rocwheel split WHEEL"],
];

/// Runs a script, or lists them.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> anyhow::Result<Exit> {
    match settings {
        Settings::List => list(printer),
        Settings::BuildPackages(settings) => build_packages::command(settings, printer),
        Settings::PackageVersion(settings) => rocm_version::command(settings, printer),
        Settings::ExpandFamilies(settings) => expand_families::command(settings, printer),
        Settings::Fileset(settings) => fileset::command(settings, printer),
        Settings::SplitArtifacts(settings) => split_artifacts::command(settings, printer),
        Settings::SplitWheels { settings, unused } => {
            note_unused(unused, printer);
            split_wheel::command(settings, printer)
        }
    }
}

/// Says which flags were taken and have no effect.
fn note_unused(unused: &[&str], printer: &Printer) {
    if !unused.is_empty() {
        let flags: Vec<String> = unused.iter().map(|flag| format!("`{flag}`")).collect();
        printer.note(format!("{} has no effect: this program needs no other tools", flags.join(", ")));
    }
}

/// A value that was given: scripts are called with empty values for what a workflow leaves out.
fn given(value: Option<String>) -> Option<String> {
    value.filter(|value| !value.trim().is_empty())
}

fn list(printer: &Printer) -> anyhow::Result<Exit> {
    if printer.format() == Format::Json {
        let scripts = SCRIPTS
            .map(|[name, about, instead]| serde_json::json!({ "name": name, "about": about, "instead": instead }));
        printer.json(&serde_json::json!({ "scripts": scripts }))?;
        return Ok(Exit::Done);
    }
    let rows = SCRIPTS.map(|row| row.map(str::to_owned).to_vec());
    printer.table(&[("Script", Left), ("What it does", Left), ("The command behind it", Left)], rows)?;
    Ok(Exit::Done)
}
