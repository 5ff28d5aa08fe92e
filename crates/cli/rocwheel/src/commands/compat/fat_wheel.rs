//! `rocwheel compat windows_patch_fat_wheel`: TheRock's script that puts ROCm into a wheel, done by
//! `rocwheel repair`.

use std::path::PathBuf;

use clap::Args;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_wheel::WheelName;

use super::translation::Translation;

/// windows_patch_fat_wheel: a wheel and a ROCm → one wheel with both
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The wheel
    #[arg(value_name = "WHEEL")]
    wheel_path: PathBuf,
    /// The ROCm: build/dist/rocm or another installed one
    #[arg(value_name = "ROCM")]
    rocm_path: PathBuf,
    /// Folder for the result [default: that of the wheel]. The name of the file follows from the
    /// version
    #[arg(long, value_name = "DIR")]
    output_path: Option<PathBuf>,
    /// Print what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// More options, of `rocwheel repair`
    #[arg(last = true, value_name = "OPTION")]
    more: Vec<String>,
}

impl Arguments {
    /// The equivalent rocwheel command line.
    pub(super) fn translated(self) -> Result<Translation> {
        if self.output_path.as_ref().is_some_and(WheelName::is_wheel) {
            let usage = Usage::new("`--output-path` names a file, and the name of a wheel follows from its version");
            let hint = "name a folder: the version gets `+rocm` and that of the ROCm, in the name and in the \
                        metadata; a requirement finds no wheel in which the two differ";
            return Err(usage.hint(hint).into());
        }
        let beside = self.wheel_path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let output = self.output_path.or(beside.map(PathBuf::from)).unwrap_or_else(|| ".".into());
        let mut line = Translation::new("repair --mode fat");
        line.option("--rocm", Some(self.rocm_path));
        line.option("--output", Some(output));
        line.flag("--dry-run", self.dry_run);
        line.more(self.more);
        line.word(self.wheel_path);
        Ok(line)
    }
}
