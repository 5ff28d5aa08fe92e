//! Input: a folder with a set of packages, and the version that it gets. Output: the same set with
//! that version in another folder: a release made of a release candidate, without a build.
//!
//! [`plan_promotion`] reads everything, writes nothing and refuses what cannot be promoted, so a
//! set moves as a whole or not at all. [`promote`] walks the plan. What does not change is copied
//! as it is packed: libraries and kernels of a release are bit for bit those that were tested. What
//! still says the old version afterwards is an error.
//!
//! The rules are those of AMD's `promote_packages.py` (release spec 6.5) without its regular
//! expressions, and for the places that it misses.

mod archive;
mod closed;
mod collect;
mod error;
mod member;
mod plan;
mod planner;
mod promoted;
mod promotion_plan;
mod request;
mod rules;
mod set_file;
mod statement;
mod targets;
mod version_change;
mod wheel;
mod write;

pub use plan::{find_set_version, plan_promotion};
pub use promoted::{Promoted, PromotedFrom, STATEMENT};
pub use promotion_plan::{PlannedPromotion, PromotionPlan};
pub use request::PromotionRequest;
pub use rules::TextChange;
pub use set_file::SetFileKind;
pub use targets::target_of;
pub use version_change::VersionChange;
pub use write::{OldFiles, promote, promote_into};
