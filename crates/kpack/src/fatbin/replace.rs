//! Input: a [`FatBinary`], what its section shall hold and where its wrappers shall point. Output:
//! an [`rocwheel_elf::Patch`].
//!
//! This is the one edit behind taking code out (the section becomes a page with markers), keeping
//! some of it (smaller bundles) and putting it back.

use std::sync::Arc;

use positioned_io::ReadAt;

use super::{FatBinary, Format, Magic, WRAPPER_POINTER, elf_file, pe_file};
use crate::error::Error;

/// Where the index is in a wrapper.
const WRAPPER_INDEX: u64 = 16;

/// What becomes of a fat binary's section and wrappers.
#[derive(Clone)]
pub struct Replacement {
    /// The new content of the section.
    pub content: Arc<dyn ReadAt + Send + Sync>,
    /// Bytes of the new content, at least one.
    pub size: u64,
    /// What becomes of each wrapper, in the order of [`FatBinary::wrappers`].
    pub wrappers: Vec<NewWrapper>,
}

/// What becomes of a wrapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewWrapper {
    /// Its magic.
    pub magic: Magic,
    /// Where it points, in bytes from the start of the new content.
    pub pointer: u64,
    /// Which code object of the name in the marker; 0 in fat files.
    pub index: u64,
}

impl FatBinary {
    /// Works out how the file changes: the section gets the new content and size, every wrapper its
    /// new magic, pointer (where a relocation supplies it, that changes) and index. Pages that are
    /// not needed any more leave the file; addresses of code and data stay. A content that is
    /// larger than the section goes back into the hole that it left in memory, or into a new
    /// segment.
    ///
    /// `reader` must be the file that `self` was read from.
    ///
    /// # Errors
    /// [`Error::FatBinary`] when the replacement does not fit the file's wrappers; [`Error::Elf`]
    /// when the file cannot be edited, for example because something else points into the section.
    pub fn replace(&self, reader: &dyn ReadAt, with: Replacement) -> Result<rocwheel_elf::Patch, Error> {
        let refuse = |reason: String| Err(Error::FatBinary { reason });
        if with.wrappers.len() != self.wrappers.len() {
            let (new, old) = (with.wrappers.len(), self.wrappers.len());
            return refuse(format!("{new} wrappers were to replace its {old}"));
        }
        if with.size == 0 {
            return refuse("its section was to become empty".to_owned());
        }
        if let Some(wrapper) = with.wrappers.iter().find(|wrapper| wrapper.pointer >= with.size) {
            let (pointer, size) = (wrapper.pointer, with.size);
            return refuse(format!(
                "a wrapper was to point at byte {pointer} of the {size} bytes that become its section"
            ));
        }
        let pairs = || self.wrappers.iter().zip(&with.wrappers);
        let pointers = pairs().map(|(old, new)| (old.address + WRAPPER_POINTER, new.pointer)).collect();
        let bytes = pairs().flat_map(|(old, new)| {
            let index = new.index.to_le_bytes().to_vec();
            [(old.address, new.magic.bytes().to_vec()), (old.address + WRAPPER_INDEX, index)]
        });
        let bytes = bytes.collect();
        match self.format {
            Format::Elf => {
                let section = elf_file::CODE.to_owned();
                let edit =
                    rocwheel_elf::SectionEdit { section, content: with.content, size: with.size, pointers, bytes };
                Ok(edit.plan(reader)?)
            }
            Format::Pe => pe_file::replace(reader, (with.content, with.size), pointers, bytes),
        }
    }
}
