//! Input: a [`FatBinary`], the new content of its section and the new targets of its wrappers.
//! Output: an [`rocwheel_elf::Patch`].
//!
//! This edit serves three purposes: to remove code (the section becomes a page with markers), to
//! keep some of it (smaller bundles) and to put it back.

use std::sync::Arc;

use positioned_io::ReadAt;

use super::{FatBinary, Format, Magic, WRAPPER_POINTER, elf_file, pe_file};
use crate::error::Error;

/// Offset of the index in a wrapper, in bytes.
const WRAPPER_INDEX: u64 = 16;

/// The new content of a fat binary's section and wrappers.
#[derive(Clone)]
pub struct Replacement {
    /// The new content of the section.
    pub content: Arc<dyn ReadAt + Send + Sync>,
    /// Size of the new content in bytes, at least one.
    pub size: u64,
    /// The new value of each wrapper, in the order of [`FatBinary::wrappers`].
    pub wrappers: Vec<NewWrapper>,
}

/// The new value of a wrapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewWrapper {
    /// The first word: the code is in the file or in archives.
    pub magic: Magic,
    /// The new target, in bytes from the start of the new content.
    pub pointer: u64,
    /// Index of the code object under the name in the marker; 0 in fat files.
    pub index: u64,
}

impl FatBinary {
    /// Computes how the file changes: the section gets the new content and size, every wrapper its
    /// new magic, pointer and index. If a relocation supplies the pointer, the relocation is
    /// changed. Pages that are no longer needed are removed from the file; addresses of code and
    /// data stay the same. A content that is larger than the section goes back into the hole that
    /// it left in memory, or into a new segment.
    ///
    /// `reader` must be the file that `self` was read from.
    ///
    /// # Errors
    /// [`Error::FatBinary`] if the replacement does not match the file's wrappers; [`Error::Elf`]
    /// if the file cannot be edited, for example because something else points into the section.
    pub fn replace(&self, reader: &dyn ReadAt, with: Replacement) -> Result<rocwheel_elf::Patch, Error> {
        if let Some(reason) = self.objection(&with) {
            return Err(Error::FatBinary { reason });
        }
        let pairs = self.wrappers.iter().zip(&with.wrappers);
        let pointers = pairs.clone().map(|(old, new)| (old.address + WRAPPER_POINTER, new.pointer)).collect();
        let bytes = pairs.flat_map(|(old, new)| {
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

    /// Returns why a replacement does not match.
    fn objection(&self, with: &Replacement) -> Option<String> {
        let (new, old, size) = (with.wrappers.len(), self.wrappers.len(), with.size);
        if new != old {
            return Some(format!("{new} wrappers were to replace its {old}"));
        }
        if size == 0 {
            return Some("its section was to become empty".to_owned());
        }
        let NewWrapper { pointer, .. } = with.wrappers.iter().find(|wrapper| wrapper.pointer >= size)?;
        Some(format!("a wrapper was to point at byte {pointer} of the {size} bytes that become its section"))
    }
}
