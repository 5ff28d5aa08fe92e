//! Converts the sources of a checkout: what `rocwheel source hipify` does to a tree of PyTorch.

use std::path::Path;

use report::Reporter;
use source::Convert;

/// Converts in place, with the tree's own tables and settings.
pub(crate) struct Sources;

impl Convert for Sources {
    fn convert(&self, _tree: &Path, _: &dyn Reporter) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
        Err("this program cannot convert sources yet; leave that out with `--no-hipify`".into())
    }

    fn settings(&self) -> String {
        String::new()
    }
}
