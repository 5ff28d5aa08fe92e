//! `rocwheel compat build_rocm`: the `build_rocm.sh` of flash-attention's wheels, done by
//! `rocwheel build flash-attn`. PyTorch's script of the same name (`.ci/manywheel/build_rocm.sh`)
//! takes no arguments.

use std::path::PathBuf;

use clap::Args;
use rocwheel_console::failure::{Result, Usage};

use super::translation::Translation;

/// build_rocm.sh of flash-attention-prebuild-wheels: a wheel of flash-attn for one torch and ROCm
///
/// It reads BUILD_TRITON_BACKEND, PYTORCH_ROCM_ARCH and MAX_JOBS, as the script does. PyTorch's
/// script of this name takes no arguments; `rocwheel build torch` builds what that one does.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Version of flash-attn, Python, torch and ROCm
    #[arg(value_name = "VERSION")]
    versions: Vec<String>,
    /// Print what would be done and build nothing
    #[arg(long)]
    dry_run: bool,
    /// More options, of `rocwheel build`
    #[arg(last = true, value_name = "OPTION")]
    more: Vec<String>,
}

/// The folder in which the script leaves its wheels.
const OUTPUT: &str = "dist";

impl Arguments {
    /// The equivalent rocwheel command line.
    pub(super) fn translated(self) -> Result<Translation> {
        let [flash_attention, python, torch, rocm] = &self.versions[..] else {
            let usage = Usage::new(format!(
                "`build_rocm` takes four versions, of flash-attn, Python, torch and ROCm, and has {}",
                self.versions.len()
            ));
            let hint = "write `rocwheel compat build_rocm 2.8.3 3.11 2.5.1 6.2`; what PyTorch's script of this name \
                        does is `rocwheel build torch`";
            return Err(usage.hint(hint).into());
        };
        let mut line = Translation::new("build flash-attn");
        line.option("--source", Some(flash_attention));
        line.option("--python", Some(python));
        line.option("--torch", Some(torch));
        line.option("--rocm", Some(rocm));
        // The script removes the dot from the label; 7.14 would then read as 7.1.
        let is_clear = rocm.split('.').nth(1).is_none_or(|minor| minor.len() == 1);
        line.option("--label-style", is_clear.then_some("compact"));
        if !is_clear {
            line.note(format!("the label says `rocm{rocm}` with its dot: without it, it could mean another version"));
        }
        line.option("--output", Some(PathBuf::from(OUTPUT)));
        line.flag("--dry-run", self.dry_run);
        line.more(self.more);
        Ok(line)
    }
}
