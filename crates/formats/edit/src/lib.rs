//! Input: wheels and source distributions, and an edit. Output: a [`Plan`] for each of them;
//! executing a plan writes another file.
//!
//! All dependent places follow an edit. The version is in the name of the file, in the names of the
//! `.dist-info` and `.data` folders and in METADATA; the tags are in the name and in WHEEL; RECORD
//! lists everything. Members that are not edited keep their packed bytes, and all other lines of
//! METADATA and WHEEL stay the same. An edit that is repeated changes nothing, and then the file is
//! copied byte for byte.

mod error;
mod execute;
mod field_edit;
mod identity;
mod metadata;
mod plan;
mod planner;
mod request;
mod requirement_edit;
mod requires_txt;
mod scan;
mod sdist;
mod sdist_file;
mod tags;
mod version;
mod wheel;
mod wheel_edit;

pub use error::Error;
pub use execute::{EditPlacement, Edited, execute, prepare};
pub use field_edit::FieldEdit;
pub use plan::{DistributionFormat, FieldChange, Leftover, Plan};
pub use planner::plan;
pub use requirement_edit::{ExtraEdit, RequirementEdit};
pub use tags::TagEdit;
pub use version::VersionEdit;
pub use wheel_edit::{BuildEdit, Entries, Pins, RecordEdit, SearchPathEdit, WheelEdit};
