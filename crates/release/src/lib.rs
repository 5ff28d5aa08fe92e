//! Input: finished wheels and source distributions in a store. Output: a package index over them,
//! which pip, uv and browsers read, and an answer to whether an index can be trusted.
//!
//! [`build()`] lists a [`Store`], reads what is new in it, and writes the pages that changed. The
//! pages themselves are made in [`rocwheel_index::pages`], from facts alone. [`check()`] reads an
//! index as an installer does and reports what is wrong with it.

pub mod build;
pub mod check;
mod error;
mod facts;
mod folder;
mod known;
mod layout;
mod listing;
mod status;
mod store;
mod views;

pub use build::{BuildOptions, Built, BuiltIndex, PageChange, PageFile, build};
pub use check::{CheckOptions, CheckedIndex, FaultLevel, FolderSite, IndexFault, check};
pub use error::Error;
pub use folder::FolderStore;
pub use layout::Layout;
pub use status::StatusTable;
pub use store::{Store, StoreLock, StoredFile};
pub use views::IndexView;
