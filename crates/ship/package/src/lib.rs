//! Input: a [`rocwheel_artifact::Catalog`] of ROCm artifacts and a [`Request`]. Output: a [`Plan`],
//! which assigns files to Python distributions and lists the edits of each file, and from it wheels
//! and the selector in `dist/`.

mod contents;
mod devel;
mod dist_info;
mod dll_imports;
mod error;
mod execute;
mod imported;
mod inspect;
mod licenses;
mod plan;
mod planner;
mod populate;
mod request;
mod rules;
mod search_path;
mod select;
mod selector;
mod size;
mod state;
pub mod stub;
mod system;
mod templates;
mod tree;
pub mod version;

pub use devel::DevelEntry;
pub use dist_info::Promise;
pub use execute::{PackagingReport, Prepared, StagedSet, WrittenPackage, execute, prepare};
pub use plan::{Incomplete, LargeWheel, LeftOut, Plan, PlannedDevel, PlannedSelector, PlannedWheel, ShapeReason};
pub use planner::{IncompleteSet, plan, plan_both};
pub use populate::{FileSource, Note, PlannedFile};
pub use request::{Incompletes, PYPI, Request, SelectorForm, Shape, Unclaimed, Unsupported};
pub use rules::Logical;
pub use search_path::{AbsentLibrary, Dropped};
pub use state::OutputFolder;
