//! Input: a checkout of torch. Output: its CUDA sources converted in place, as `rocwheel source
//! hipify` does it.

use std::path::Path;

use rocwheel_hipify::tree::{self, Request};
use rocwheel_hipify::{Defects, Launches, Tables, build_amd, no_tree, tables};
use rocwheel_output::Destination;
use rocwheel_progress::Reporter;

use crate::checkout::Convert;

/// Converts sources in place with the tree's own tables and settings.
#[derive(Debug, Clone, Copy)]
pub struct Hipify {
    /// How kernel launches are converted in trees that leave the choice to the compiler of the
    /// installed ROCm.
    pub compiler: Launches,
    /// How to treat sources for which the original converter gives no result.
    pub defects: Defects,
}

impl Convert for Hipify {
    fn convert(&self, tree: &Path, reporter: &dyn Reporter) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
        let Some(settings) = build_amd::read(tree)? else {
            return Err(no_tree(tree).into());
        };
        let names = Tables::read(&tables::find(tree)?)?;
        let request = Request { defects: self.defects, ..Request::pytorch(tree, settings, self.compiler) };
        let done = tree::plan(&request, &names, reporter)?.execute(&Destination::InPlace, reporter)?;
        Ok(done.files)
    }

    fn take_back(&self, tree: &Path) {
        let _ = tree::recover(tree);
    }

    fn settings(&self) -> String {
        format!("{self:?}")
    }
}
