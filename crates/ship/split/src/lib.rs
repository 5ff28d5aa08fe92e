//! Input: artifacts, wheels or files with GPU code. Output: the same files without GPU code,
//! `.kpack` archives that hold the code by GPU target, and a check that the runtime finds in them
//! what it found before.
//!
//! [`plan()`] decides from entry tables alone, [`execute`] carries out the plan, and [`verify()`]
//! checks the result without using the plan.

pub mod code;
mod copy;
mod engine;
pub mod error;
pub mod files;
mod forecast;
pub mod group;
pub mod plan;
pub mod tree;
pub mod verify;
pub mod wheels;

pub use copy::copy;
pub use engine::{Host, Packing, SplitParts, WrittenArchive, default_memory, execute};
pub use forecast::ArchiveForecast;
pub use group::{TargetNames, TargetSelection, TargetSet};
pub use plan::{
    CandidateFile, LeftAlone, Options, Plan, PlannedBinary, PlannedBundle, PlannedKpack, UnchangedReason, plan,
};
pub use verify::verify;
