//! Input: two wheels, source distributions, archives or folders, or two folders of such. Output: a
//! [`Report`] of what is not the same, file by file, with equal bytes and equal meaning told apart;
//! and whether that is what was expected.
//!
//! ```text
//! path → side (packages, their entries) → pair (which belongs to which) → compare (bytes, then what they mean) → Report
//!                                                       deviations that are accepted, changes that fail → Verdict
//! ```
//!
//! A file *means the same* when nobody who uses it can tell it from the other: the order of headers
//! in METADATA, the time stamps in an archive, the place of a section that the loader finds by its
//! headers. What is taken for equal is named in [`FileReport::notes`], so that nobody has to
//! believe it.

mod accept;
mod change;
mod compare;
mod dist_info;
mod elf_file;
mod entry;
mod error;
mod fail_on;
mod gpu;
mod nested;
mod package;
mod pair;
mod report;
mod side;
mod tarball;
mod text;

use std::path::{Path, PathBuf};

use rocwheel_report::Reporter;

pub use accept::{Accepted, Deviation, Deviations};
pub use change::{Change, ChangeKind};
pub use error::Error;
pub use fail_on::{FailOn, Growth};
pub use report::{Described, FileReport, Kept, PackageReport, Report, Sizes};

/// What is compared, and where there is room.
#[derive(Debug, Clone)]
pub struct Request {
    /// What there was.
    pub old: PathBuf,
    /// What there is now.
    pub new: PathBuf,
    /// Folder for what has to be unpacked to be read. The files have no name there.
    pub scratch: PathBuf,
}

/// Compares two sides.
///
/// # Errors
/// A side that does not exist or cannot be read, two packages of one side that would belong to the
/// same one of the other, and [`Error::Interrupted`]. A single file that cannot be understood is
/// compared byte for byte, and its report says so.
pub fn compare(request: &Request, reporter: &dyn Reporter) -> Result<Report, Error> {
    let open = |path: &Path| side::Side::open(path, &request.scratch, reporter);
    let (old, new) = (open(&request.old)?, open(&request.new)?);
    let pairs = pair::packages(old, new)?;
    let context = compare::Context::new(&request.scratch, reporter);
    let packages = pairs.into_iter().map(|pair| package::compare(&pair, &context)).collect::<Result<_, _>>()?;
    Ok(Report { old: request.old.clone(), new: request.new.clone(), packages })
}

impl Report {
    /// A file of deviations that accepts every change nobody has accepted yet; somebody has to
    /// write the reasons.
    pub fn as_deviations(&self) -> String {
        accept::write(self)
    }
}
