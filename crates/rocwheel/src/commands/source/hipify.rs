//! `rocwheel source hipify`: CUDA sources become HIP sources.

use std::path::PathBuf;

use clap::Args;
use report::Exit;

use crate::commands::Mode;
use crate::failure::Usage;
use crate::printer::Printer;

/// Convert CUDA sources to HIP, byte for byte as torch.utils.hipify does
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The source tree
    #[arg(value_name = "TREE")]
    tree: PathBuf,
    /// Say what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// What the command works with.
#[derive(Debug)]
pub(crate) struct Settings {
    tree: PathBuf,
    mode: Mode,
}

impl TryFrom<Arguments> for Settings {
    type Error = anyhow::Error;

    fn try_from(arguments: Arguments) -> anyhow::Result<Self> {
        Ok(Self { tree: arguments.tree, mode: Mode::new(arguments.dry_run) })
    }
}

/// Converts the tree.
pub(crate) fn command(settings: &Settings, _printer: &Printer) -> anyhow::Result<Exit> {
    let Settings { tree, mode } = settings;
    Err(Usage::new(format!("`{}` cannot be converted yet ({mode:?}): this part comes next", tree.display())).into())
}
