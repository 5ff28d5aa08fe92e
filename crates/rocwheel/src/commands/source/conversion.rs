//! Converts the sources of a checkout: what `rocwheel source hipify` does to a tree of PyTorch.

use std::path::Path;

use hipify::tree::{self, Place, Request, Selection, Survey};
use hipify::{Defects, Error, Launches, Setting, Tables, build_amd, tables};
use report::Reporter;
use source::Convert;

/// Converts in place, with the tree's own tables and settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversion {
    /// What the ROCm on this machine says about its compiler, for trees that leave it to that.
    pub(crate) compiler: Launches,
    /// What to do where the original gives no result.
    pub(crate) defects: Defects,
}

impl Convert for Conversion {
    fn convert(&self, tree: &Path, reporter: &dyn Reporter) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
        let Some(build_amd) = build_amd::read(tree)? else {
            return Err(Error::NoTree(tree.display().to_string()).into());
        };
        let names = Tables::read(&tables::find(tree)?)?;
        let selection = Selection {
            includes: build_amd.includes,
            ignores: build_amd.ignores,
            extra_files: build_amd.extra_files,
            ..Selection::default()
        };
        let request = Request {
            tree: tree.to_owned(),
            setting: Setting::Pytorch,
            launches: build_amd.launches.unwrap_or(self.compiler),
            defects: self.defects,
            selection,
            edits: build_amd.edits,
            copy: build_amd.copy,
            survey: Survey::Nothing,
        };
        let done = tree::plan(&request, &names, reporter)?.execute(&Place::InPlace, reporter)?;
        Ok(done.files)
    }

    fn settings(&self) -> String {
        format!("{self:?}")
    }
}
