//! Input: a recipe and the values of one build, a [`Cell`]. Output: a [`Job`], one file that means
//! the same on every machine.
//!
//! [`recipe`] is a recipe as written. [`Evaluated`] is the same recipe for one cell, with
//! everything decided except what depends on the place. With sources and ROCm it becomes a job; the
//! jobs of many cells are a [`plan`]. [`matrix`] is the table of all cells that could be built. The
//! crate `builder` runs jobs.
//!
//! Facts about one framework are in its recipe. This crate knows where a build gets ROCm from
//! ([`Rocm`]), the names of GPU targets, and that torch and ROCm have versions that fit together.

mod book;
mod cell;
mod condition;
pub mod duration;
mod error;
mod evaluate;
mod evaluated;
pub mod executor;
mod framework;
mod images;
mod job;
pub mod matrix;
pub mod plan;
pub mod provenance;
pub mod recipe;
pub mod request;
mod rocm_choice;
pub mod script;
pub mod shared_files;
pub mod source_digest;
pub mod substitute;
pub mod surroundings;
pub mod toml_text;
mod version_specifier;

pub use book::{Author, Book, BookEntry};
pub use cell::{
    BuildMode, BuildPurpose, Cell, ChosenBy, CompilerCache, LabelStyle, Platform, PythonVersion, Repair, SdkKind,
    Switch, VersionLock, compare_python_versions, minor,
};
pub use error::Error;
pub use evaluate::{check, evaluate, join_targets, run_time};
pub use evaluated::{Action, Check, Evaluated, JobStep, More, Provided, Pythons, Variables, run_time_note};
pub use framework::Framework;
pub use images::{ImageQuery, Images};
pub use job::{BuiltFile, InputWheel, Job, JobSource, Rocm, RocmPackages};
pub use rocm_choice::RocmChoice;
pub use surroundings::Surroundings;
