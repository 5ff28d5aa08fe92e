//! Input: files with GPU code, wheels and trees, and the GPU targets to keep. Output: the same
//! without the code for other targets. After writing, the result is read again to check that the
//! kept code is byte for byte the same and that nothing else changed.
//!
//! Removed are entries of offload bundles in host files and in separate bundle files, entries of
//! `.kpack` archives, files of kernel databases by the rules of [`rocwheel_tables::database`], code
//! objects whose path names their target, and artifacts for one target. Kept are generic targets
//! that cover a kept one, portable code, files that serve all targets, and code without a wrapper,
//! because its reader is unknown.

mod check;
mod code;
mod content;
mod destination;
mod device_extras;
mod error;
mod forecast;
mod keep;
mod outcome;

mod pruner;
mod record;
mod size;
mod tree;
mod wheel_file;

use std::path::{Path, PathBuf};

use rocwheel_archive::WriteOptions;
use rocwheel_output::{Destination, Mode, Staged};
use rocwheel_progress::{Failure, Reporter};
use rocwheel_tables::TargetTable;

pub use keep::Keep;
pub use outcome::{PruneAction, PruneReport, Pruned, PrunedFile};

/// Default zstd level. Of jax_rocm7_pjrt's 29.5 MB for 27 targets, two targets take 7.1 MB at level
/// 3, 5.6 MB at 9, in the same time, and 5.0 MB at 19, in three times as long.
pub const LEVEL: i32 = 9;

pub struct Options<'a> {
    pub keep: Keep,
    /// The form in which plain bundles are compressed; `None` keeps them plain. Compressed bundles
    /// keep their version.
    pub compress: Option<Compress>,
    /// zstd level for bundles that are compressed, 1 to 22. The default is [`LEVEL`].
    pub level: i32,
    pub empty: Empty,
    /// The destination of the result.
    pub destination: Destination,
    /// In a dry run the treatment of each file is read from tables, and sizes follow from them;
    /// sizes of code that would be compressed are estimated from samples.
    pub mode: Mode,
    /// A folder for large temporary files.
    pub scratch: &'a Path,
    pub write: WriteOptions,
}

/// The form of plain bundles after compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compress {
    /// Version 2 of the `CCOB` header, written by clang 17 to 19.
    V2,
    /// Version 3, written by ROCm 7.
    V3,
}

impl Compress {
    fn version(self) -> u16 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

/// Treatment of a file or a bundle that would have no GPU code left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Empty {
    /// Fail: a program that registers the bundle would not work on the kept GPUs.
    Refuse,
    /// Write a bundle without code.
    Allow,
}

/// Prunes each of `paths`: a file with GPU code, a wheel, or a directory. An input is finished,
/// checked and moved to its destination before the next one begins; an input that fails leaves
/// nothing behind.
///
/// # Errors
/// A file that cannot be read or written, has no code to remove, or would have none left, and an
/// output in the way. Targets without any code are not an error: they are listed in
/// [`PruneReport::missing`].
pub fn prune(paths: &[PathBuf], options: &Options<'_>, reporter: &dyn Reporter) -> Result<PruneReport, Failure> {
    prune_each(paths, options, reporter, |_, staged| Ok(staged.commit()?))
}

/// Like [`prune`], but `finish` receives the path and the result of each input, and commits the
/// result; its error stops the run.
pub fn prune_each<E: From<Failure>>(
    paths: &[PathBuf],
    options: &Options<'_>,
    reporter: &dyn Reporter,
    mut finish: impl FnMut(&Path, Staged<Pruned>) -> Result<Pruned, E>,
) -> Result<PruneReport, E> {
    let table = TargetTable::embedded();
    destination::check(paths, &options.destination)?;
    let mut outcome = PruneReport::default();
    for path in paths {
        let pruner = pruner::Pruner { options, table: &table, reporter };
        let place = destination::Place::new(path, options)?;
        let pruned = tree::prune(&pruner, path, &place)?;
        if options.destination == Destination::InPlace {
            record::warn_outside(place.output(), &pruned, reporter);
        }
        outcome.add(finish(path, place.stage(pruned)?)?);
    }
    outcome.missing = options.keep.missing(&outcome.kept(), &table);
    Ok(outcome)
}
