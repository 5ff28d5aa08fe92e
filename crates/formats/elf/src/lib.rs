//! Input: a random-access file ([`positioned_io::ReadAt`]) and an [`Edit`]. Output: its headers
//! ([`Elf`]) and the changes to them ([`Patch`]: bytes that replace parts of the original or are
//! appended to it).
//!
//! This crate never loads a whole file: reading takes some kilobytes whatever the size of the file,
//! and an edited file is a [`Patched`] view of the original until the caller copies it.

#![warn(missing_docs)]

mod dynamic_symbols;
mod edit;
mod emit;
mod error;
mod file;
mod header_ranges;
mod header_space;
mod image;
mod layout;
mod library_names;
mod named_entries;
mod note;
mod patch;
mod patched_content;
mod pe;
mod pe_image;
mod pe_imports;
mod plan;

mod free_header;
mod read;
mod relocation;
mod resize;
mod rewrite;
mod source;
mod stack;
mod symbols;
mod version;

pub use dynamic_symbols::{Binding, DynamicSymbols, Lookup, NameHash, Symbol, Undefined, visit_symbols};
pub use edit::{Edit, NeededEdit, SearchPath, SearchPathTag, StackFlag};
pub use error::Error;
pub use file::edit_file;
pub use header_ranges::{dynamic_places, header_places};
pub use image::{Segment, program_header_count};
pub use library_names::{data_sections, library_names};
pub use patch::{EditOutcome, External, Patch, PatchBuilder, Patched};
pub use patched_content::PatchedContent;
pub use pe::is_pe;
pub use pe_image::{Pe, PeSection};
pub use pe_imports::Imports;
pub use read::{Elf, ElfKind, Section, VersionNeed};
pub use relocation::{RelocatedValue, Relocation, RelocationRecord, dynamic_symbol, exports, relocations};
pub use resize::SectionEdit;
