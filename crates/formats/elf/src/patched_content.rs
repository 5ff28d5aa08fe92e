//! Input: the [`Content`] of an ELF file and a [`Patch`]. Output: the content of the patched file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rocwheel_content::{Content, Reader};

use crate::{Patch, Patched};

/// An ELF file with a patch: nothing is copied, and nothing is read until a caller reads the
/// content.
pub struct PatchedContent<C> {
    original: C,
    patch: Arc<Patch>,
}

impl<C: Content> PatchedContent<C> {
    /// Combines `patch` with `original`, the content it was planned for.
    pub fn new(original: C, patch: impl Into<Arc<Patch>>) -> Self {
        Self { original, patch: patch.into() }
    }
}

impl<C: Content> Content for PatchedContent<C> {
    fn size(&self) -> u64 {
        self.patch.size
    }

    fn open(&self) -> io::Result<Reader> {
        Ok(Box::new(Patched::new(self.original.open()?, Patch::clone(&self.patch))))
    }

    fn origin(&self) -> Option<&Path> {
        self.original.origin()
    }
}
