//! Input: Debian packages, an installed ROCm or a `therock-dist-*` tarball. Output: a directory of
//! artifacts in TheRock's layout, and a report of the files and libraries that were taken, renamed,
//! skipped and missing.
//!
//! [`plan()`] reads what is cheap to find out: the packages, their versions and the artifact each
//! belongs to. [`execute()`] decompresses every package once and writes every file once, straight
//! into its final place in a staging tree. Then it resolves libraries, renames those from outside
//! ROCm, sets search paths, and moves the tree to the output. [`rehearse`] does the same and keeps
//! nothing: the contents of a compressed package are only known after decompressing it.

mod closure;
mod cmake;
mod deb;
mod describe;
mod duplicate_libraries;
mod error;
mod execute;
mod feed;
mod inspect;
mod libraries;
mod members;
mod missing_rows;
mod options;
mod packages;
mod plan;
mod planner;
mod prefix;
mod preflight;
mod relink;
mod report;
mod table;
mod tarball;
mod unpack;

pub use execute::{MAKER, execute, rehearse};
pub use missing_rows::missing_rows;
pub use options::{ImportOptions, ImportSource, Sonames};
pub use plan::{ImportPlan, PlannedSource};
pub use planner::plan;
pub use report::{
    ArtifactSummary, ImportReport, InputPackage, Mention, Missing, Skipped, SourceKind, SystemLibrary, Wanted,
};
