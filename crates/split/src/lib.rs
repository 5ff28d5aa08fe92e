//! Input: artifacts, wheels or files with GPU code. Output: the same without it, and `.kpack`
//! archives that hold it, by GPU target; and the proof that the runtime finds there what it found
//! before.
//!
//! [`plan`] decides from entry tables alone, [`execute`] walks the plan, [`verify`] reads the
//! result afresh. [`prune`] takes out the code for some targets only and needs no archives.

mod code;
mod copy;
mod engine;
mod error;
pub mod files;
pub mod fuse;
pub mod group;
mod plan;
pub mod prune;
pub mod tree;
pub mod verify;
pub mod wheels;

pub use engine::{Done, Host, Packing, WrittenArchive, execute};
pub use error::Error;
pub use group::{Selection, TargetNames, TargetSet};
pub use plan::{LeftAlone, Options, Plan, PlannedBinary, PlannedBundle, PlannedKpack, Reason, Unit, plan};
pub use verify::verify;
