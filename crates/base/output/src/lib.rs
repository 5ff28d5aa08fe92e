//! Input: the files that a command writes, and their destination. Output: the complete result at
//! the destination, or nothing at all.
//!
//! Every command that writes takes the same three steps. It writes into a [`StagingFolder`] beside
//! the destination, lets checks read the [`Staged`] result, and commits it, which needs no space.
//! An [`OutputTree`] is replaced as a whole and only by the command that made it. Files that a
//! killed process leaves behind are removed by the next run with the same destination.

mod error;
mod request;
mod staged;
mod staging;
mod tree;

pub use error::{Error, storage_hint};
pub use request::{Destination, Mode};
pub use staged::{LastLook, Staged, StagedFile};
pub use staging::StagingFolder;
pub use tree::{OutputTree, TreeMaker};
