//! Input: what a command writes, and where it goes. Output: the result in its place, complete, or
//! nothing at all.
//!
//! Every command that writes goes through the same three steps: it writes into a
//! [`StagingFolder`] beside the place, lets others look at the [`Staged`] result, and commits it,
//! which takes no space. An [`OutputTree`] is replaced as a whole and by its own command only. What
//! a killed process leaves behind is removed by the next one in the same place.

mod error;
mod staged;
mod staging;
mod tree;

pub use error::{Error, storage_hint};
pub use staged::{LastLook, Staged, StagedFile, move_to_places};
pub use staging::StagingFolder;
pub use tree::{OutputTree, TreeMaker};
