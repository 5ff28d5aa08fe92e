//! Input: a recipe and the values of one build, a [`Cell`]. Output: wheels or a tarball, checked
//! and audited.
//!
//! [`recipe`] is a recipe as written. [`Evaluated`] is the same recipe for one cell, with
//! everything decided except what depends on the place. With sources and ROCm it becomes a [`Job`],
//! one file that means the same everywhere. [`execute`] runs it on this machine. [`preflight`]
//! reports beforehand what would fail after hours. Nothing in this crate knows what ROCm is; the
//! recipes do.

mod book;
mod causes;
mod cell;
mod condition;
pub mod containers;
pub mod duration;
pub mod engine;
mod error;
mod evaluate;
mod evaluated;
pub mod execute;
pub mod executor;
mod files;
mod framework;
pub mod github;
mod images;
mod inputs;
mod job;
pub mod matrix;
pub mod pages;
pub mod plan;
pub mod preflight;
mod process;
pub mod provenance;
mod python;
pub mod recipe;
pub mod request;
pub mod schedule;
pub mod script;
pub mod slurm;
mod substitute;
mod surroundings;
mod toml_text;
mod version_specifier;

pub use book::{Author, Book, BookEntry};
pub use cell::{
    BuildMode, BuildPurpose, Cell, ChosenBy, CompilerCache, LabelStyle, Platform, PythonVersion, Repair, SdkKind,
    Switch, VersionLock,
};
pub use error::{Error, StepFailure};
pub use evaluate::{check, evaluate};
pub use evaluated::{Action, Evaluated, Pythons};
pub use framework::Framework;
pub use images::{ImageQuery, Images};
pub use job::{BuiltFile, InputWheel, Job, JobSource, Rocm, RocmPackages};
pub use python::PythonInterpreter;
pub use surroundings::Surroundings;
