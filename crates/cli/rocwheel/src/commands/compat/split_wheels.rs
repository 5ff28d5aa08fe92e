//! `rocwheel compat split_python_wheels`: today's flags, done by the engine of `rocwheel split`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rocwheel_commands_wheel::last_look::LastLook;
use rocwheel_commands_wheel::reuse::ReuseArguments;
use rocwheel_commands_wheel::split::wheel::{self, WheelType};
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_output::Mode;
use rocwheel_split::tree::OldRuntime;
use rocwheel_split::verify::Verification;
use rocwheel_split::wheels::Request;
use rocwheel_split::{Packing, TargetNames};

/// rocm_kpack.tools.split_python_wheels: a wheel → a host wheel and device wheels
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The wheel
    #[arg(long, value_name = "WHEEL")]
    input: PathBuf,
    /// Folder to write the wheels to
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Beginning of the names of device wheels
    #[arg(long, value_name = "NAME")]
    device_package_prefix: String,
    /// Folder in the wheel for .kpack
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
    /// Kernel databases to divide, instead of those of the kind
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
    /// Also write the host wheel as a wheel variant
    #[arg(long)]
    generate_variant_wheel: bool,
    /// Label of the variant
    #[arg(long, value_name = "LABEL", default_value = "variant")]
    variant_label: String,
    /// Without effect: rocwheel reads bundles itself
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

impl Arguments {
    /// The settings of `rocwheel split`, and the flags without effect.
    pub(super) fn settings(self) -> Result<(Box<wheel::Settings>, Vec<&'static str>)> {
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
            Compression::None => rocwheel_kpack::Scheme::None,
            Compression::Zstd => rocwheel_kpack::Scheme::ZstdPerKernel,
        };
        let request = Request {
            scratch: environment::scratch_near(self.tmp_dir.as_deref(), Some(&self.output_dir)),
            prefix: Some(self.device_package_prefix),
            requires: self.device_requires_dist,
            host_requires: vec!["rocm-bootstrap".to_owned()],
            old_runtime: OldRuntime::Allow,
            targets: None,
            overlay_root: Some(self.overlay_root),
            databases: Some(databases),
            variant: self.generate_variant_wheel.then_some(self.variant_label),
            names: TargetNames::Base,
            packing: Packing { scheme, level: self.compression_level, ..Packing::default() },
            level: rocwheel_archive::Level::Default,
            epoch: environment::epoch()?,
            reuse: rocwheel_archive::PackedSource::default(),
            verification: Verification::Full,
        };
        let unused = self.clang_offload_bundler.is_some().then_some("--clang-offload-bundler").into_iter().collect();
        let (wheels, output) = (vec![self.input], self.output_dir);
        Ok((
            Box::new(wheel::Settings {
                wheels,
                output,
                request,
                mode: Mode::Execute,
                last_look: LastLook::Audit,
                reuse: ReuseArguments::default(),
            }),
            unused,
        ))
    }
}
