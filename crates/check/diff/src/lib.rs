//! Input: two wheels, source distributions, archives or folders, or two folders of such. Output: a
//! [`ComparisonReport`] of all differences, file by file, which distinguishes equal bytes from
//! equal meaning, and a verdict on the differences that were not expected.
//!
//! ```text
//! path → side (packages, their entries) → pair (which belongs to which) → compare (bytes, then what they mean) → ComparisonReport
//!                                                       deviations that are accepted, changes that fail → Verdict
//! ```
//!
//! Two files *mean the same* if no user of them can notice the difference: the order of headers in
//! METADATA, the time stamps in an archive, the position of a section that the loader finds through
//! its headers. [`FileReport::notes`] names every difference that is treated as equal, so that the
//! user can check it.

mod accept;
mod change;
mod compare;
mod dist_info;
mod elf_file;
mod entry;
mod error;
mod fail_on;
mod findings;
mod gpu;
mod package;
mod pair;
mod report;
mod side;
mod tarball;
mod text;
mod version_change;

use std::path::PathBuf;

use rocwheel_progress::{Failure, Reporter};

use crate::side::Side;
use crate::version_change::VersionChanges;

pub use accept::{Accepted, Deviation, Deviations};
pub use change::{Change, ChangeKind};
pub use fail_on::{FailOn, Growth};
pub use report::{ComparisonReport, Described, FileReport, Kept, PackageReport, Sizes};

/// The two sides of a comparison, and a folder for temporary files.
#[derive(Debug, Clone)]
pub struct Request {
    pub old: PathBuf,
    pub new: PathBuf,
    /// Folder for files that have to be unpacked to be read. They are unnamed temporary files.
    pub scratch: PathBuf,
}

/// Compares two sides.
///
/// # Errors
/// A side that does not exist or cannot be read, two sides without files, two packages of one side
/// that match the same one of the other, and an interruption. A single file that cannot be
/// parsed is compared byte for byte, and its report mentions that.
pub fn compare(request: &Request, reporter: &dyn Reporter) -> Result<ComparisonReport, Failure> {
    let old = Side::open(&request.old, &request.scratch, reporter)?;
    let new = Side::open(&request.new, &request.scratch, reporter)?;
    let pairs = pair::packages(old, new)?;
    if pairs.is_empty() {
        let (old, new) = (request.old.display(), request.new.display());
        return Err(Failure::message(format!("`{old}` and `{new}` have no files: there is nothing to compare")));
    }
    let context = findings::Context::new(&request.scratch, VersionChanges::between(&pairs), reporter);
    let packages = pairs.into_iter().map(|pair| package::compare(&pair, &context)).collect::<Result<_, _>>()?;
    Ok(ComparisonReport { old: request.old.clone(), new: request.new.clone(), packages })
}

impl ComparisonReport {
    /// Returns the text of a file of deviations that accepts all changes that are not accepted yet.
    /// The user has to write the reasons.
    pub fn as_deviations(&self) -> String {
        accept::write(self)
    }
}
