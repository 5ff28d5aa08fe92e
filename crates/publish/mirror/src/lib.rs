//! Input: indexes, requirements, Pythons and systems. Output: a folder with every file that
//! installing them takes, and pages of an index over it, for sites without a network.
//!
//! uv resolves, once for each Python and system; this module fetches what it chose, with the hashes
//! that it wrote into its lock (PEP 751). Source distributions bring what building them takes, as
//! wheels. `mirror.json` has the size and SHA-256 of every file, so the folder can be compared with
//! it after a transport.
//!
//! [`read_foreign_index`] leaves the files of an index where they are, and finds out what its pages
//! do not say, for pages of ours.

mod bucket;
mod download;
mod folder;
mod foreign;
mod lock;
mod manifest;
mod origin;
mod project_page;
mod request;
mod resolve;
mod status;
mod transfer;

pub use bucket::{mirror_into, verify_stored_mirror};
pub use folder::{make_mirror, verify_mirror};
pub use foreign::{ForeignIndex, ForeignRequest, read_foreign_index};
pub use lock::{LockedFile, ToldFacts};
pub use manifest::{MIRROR_MANIFEST, MirrorPlan, MirrorReport, MirrorVerdict, ResolvedSet};
pub use origin::{FactSource, FileOrigins, origin_lines};
pub use request::MirrorRequest;
pub use resolve::plan_mirror;
use rocwheel_progress::Failure;

/// A failed action, the words after "cannot", with its reason.
fn cannot(attempted: &str, reason: &str, hint: &str) -> Failure {
    Failure::message(format!("cannot {attempted}: {reason}")).with_hint(hint)
}
