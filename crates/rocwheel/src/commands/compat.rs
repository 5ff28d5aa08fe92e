//! `rocwheel compat`: scripts of ROCm's build tools under their own names, with their own flags.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use report::Exit;
use split::verify::Verification;
use split::wheels::Request;
use split::{Packing, TargetNames};

use crate::commands::last_look::LastLook;
use crate::commands::split_wheel::{self, WheelType};
use crate::commands::{Mode, compat_artifacts};
use crate::environment;
use crate::failure::Usage;
use crate::printer::Printer;

/// Scripts of ROCm's build tools under their own names, with their own flags
///
/// Without a name the scripts are listed. Flags that this program has no use for are taken and named in a note; what is
/// different is in docs/deviations.md.
#[derive(Debug, Args)]
#[command(subcommand_value_name = "SCRIPT", subcommand_help_heading = "Scripts")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    script: Option<Script>,
}

#[derive(Debug, Subcommand)]
enum Script {
    #[command(name = "split_python_wheels")]
    SplitPythonWheels(SplitPythonWheels),
    #[command(name = "split_artifacts")]
    SplitArtifacts(compat_artifacts::Arguments),
}

/// rocm_kpack.tools.split_python_wheels: a wheel → a host wheel and device wheels
#[derive(Debug, Args)]
struct SplitPythonWheels {
    /// The wheel
    #[arg(long, value_name = "WHEEL")]
    input: PathBuf,
    /// Folder to write the wheels to
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Begins the names of device wheels
    #[arg(long, value_name = "NAME")]
    device_package_prefix: String,
    /// Folder in the wheel that .kpack goes to
    #[arg(long, value_name = "DIR")]
    overlay_root: String,
    /// Requirements of every device wheel; @GFXARCH@ stands for its target
    #[arg(long, value_name = "REQUIREMENT", num_args = 0..)]
    device_requires_dist: Vec<String>,
    /// Form of the output
    #[arg(long, value_name = "FORM", default_value = "wheel")]
    output_format: OutputFormat,
    /// The kernel databases of a kind of wheel
    #[arg(long, value_name = "TYPE")]
    wheel_type: Option<WheelType>,
    /// Kernel databases to take apart, instead of those of the kind
    #[arg(long, value_name = "NAME", num_args = 0..)]
    databases: Option<Vec<String>>,
    /// How code objects are stored
    #[arg(long, value_name = "SCHEME", default_value = "zstd")]
    compression: Compression,
    /// Level of zstd
    #[arg(long, value_name = "LEVEL", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=22))]
    compression_level: i32,
    /// Folder for temporary files
    #[arg(long, value_name = "DIR")]
    tmp_dir: Option<PathBuf>,
    /// Write the host wheel also as a wheel variant
    #[arg(long)]
    generate_variant_wheel: bool,
    /// Label of the variant
    #[arg(long, value_name = "LABEL", default_value = "variant")]
    variant_label: String,
    /// Without effect: bundles are read by this program itself
    #[arg(long, value_name = "PATH")]
    clang_offload_bundler: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    Wheel,
    Directory,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Compression {
    None,
    Zstd,
}

/// What the command works with.
#[derive(Debug)]
pub(crate) enum Settings {
    List,
    Wheel { settings: Box<split_wheel::Settings>, unused: Vec<&'static str> },
    Artifacts(compat_artifacts::Settings),
}

impl TryFrom<Arguments> for Settings {
    type Error = anyhow::Error;

    fn try_from(arguments: Arguments) -> anyhow::Result<Self> {
        match arguments.script {
            None => Ok(Self::List),
            Some(Script::SplitPythonWheels(arguments)) => arguments.settings(),
            Some(Script::SplitArtifacts(arguments)) => Ok(Self::Artifacts(arguments.try_into()?)),
        }
    }
}

impl SplitPythonWheels {
    fn settings(self) -> anyhow::Result<Settings> {
        if self.output_format == OutputFormat::Directory {
            return Err(Usage::new("`--output-format directory` is not supported: wheels are written as files")
                .hint("unpack them with `python -m zipfile -e`, or install them with `pip install --target`")
                .into());
        }
        if self.input.is_dir() {
            return Err(Usage::new(format!("`{}` is a folder: only wheel files are read", self.input.display()))
                .hint("pack it with `python -m wheel pack`")
                .into());
        }
        let databases = self.databases.or_else(|| self.wheel_type.map(WheelType::databases)).unwrap_or_default();
        let scheme = match self.compression {
            Compression::None => kpack::Scheme::None,
            Compression::Zstd => kpack::Scheme::ZstdPerKernel,
        };
        let request = Request {
            scratch: environment::scratch_near(self.tmp_dir.as_deref(), Some(&self.output_dir)),
            prefix: Some(self.device_package_prefix),
            requires: self.device_requires_dist,
            host_requires: vec!["rocm-bootstrap".to_owned()],
            targets: None,
            overlay_root: Some(self.overlay_root),
            databases: Some(databases),
            variant: self.generate_variant_wheel.then_some(self.variant_label),
            names: TargetNames::Base,
            packing: Packing { scheme, level: self.compression_level },
            level: wheel::Level::Default,
            epoch: environment::epoch()?,
            verification: Verification::Full,
        };
        let unused = self.clang_offload_bundler.is_some().then_some("--clang-offload-bundler").into_iter().collect();
        let (wheels, output) = (vec![self.input], self.output_dir);
        let settings = Box::new(split_wheel::Settings {
            wheels,
            output,
            request,
            mode: Mode::Execute,
            last_look: LastLook::Audit,
        });
        Ok(Settings::Wheel { settings, unused })
    }
}

/// The scripts there are, with what they are for and the command that has more to offer.
const SCRIPTS: [[&str; 3]; 2] = [
    ["split_artifacts", "an artifact → a part without GPU code and one for each target", "rocwheel split ARTIFACT"],
    ["split_python_wheels", "a wheel → a host wheel and device wheels", "rocwheel split WHEEL"],
];

/// Runs a script, or lists them.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> anyhow::Result<Exit> {
    match settings {
        Settings::List => list(printer),
        Settings::Wheel { settings, unused } => {
            note_unused(unused, printer);
            split_wheel::command(settings, printer)
        }
        Settings::Artifacts(settings) => compat_artifacts::command(settings, printer),
    }
}

/// Says which flags were taken and have no effect.
pub(crate) fn note_unused(unused: &[&str], printer: &Printer) {
    if !unused.is_empty() {
        let flags: Vec<String> = unused.iter().map(|flag| format!("`{flag}`")).collect();
        printer.note(format!("{} has no effect: this program needs no other tools", flags.join(", ")));
    }
}

fn list(printer: &Printer) -> anyhow::Result<Exit> {
    use comfy_table::CellAlignment::Left;
    if printer.format() == crate::printer::Format::Json {
        let scripts = SCRIPTS
            .map(|[name, about, instead]| serde_json::json!({ "name": name, "about": about, "instead": instead }));
        printer.json(&serde_json::json!({ "scripts": scripts }))?;
        return Ok(Exit::Done);
    }
    let rows = SCRIPTS.map(|row| row.map(str::to_owned).to_vec());
    printer.table(&[("Script", Left), ("What it does", Left), ("The command behind it", Left)], rows)?;
    Ok(Exit::Done)
}
