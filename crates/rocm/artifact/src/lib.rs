//! Input: `ROCm` build outputs, that is `TheRock`'s artifact directories and archives. Output: a
//! [`Catalog`] of artifacts, and from it archives, flattened trees, listings and findings.
//!
//! An artifact is a directory `{name}_{component}_{target_family}` with an `artifact_manifest.txt`
//! that lists its basedirs. The union of the contents of all basedirs is an installable tree.

pub mod archive;
pub mod catalog;
pub mod component;
mod contents;
pub mod descriptor;
mod entry;
pub mod error;
pub mod fileset;
pub mod flatten;
mod input;
pub mod links;
pub mod list;
mod location;
pub mod manifest;
pub mod name;
mod scan;
pub mod verify;

pub use catalog::{Artifact, ArtifactSurvey, Catalog, Collision, Ignored, PathOwner, survey};
pub use component::Component;
pub use entry::{ArtifactEntry, EntryKind};
pub use error::{Error, given_twice, no_artifacts, not_there, not_unicode, unknown_archive};
pub use input::{outside, separate};
pub use location::{ArtifactForm, ArtifactLocation};
pub use manifest::{DistInfo, Manifest};
pub use name::ArtifactName;
pub use scan::MANIFEST;
