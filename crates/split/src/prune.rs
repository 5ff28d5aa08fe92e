//! Input: files with GPU code, wheels and trees, and the GPU targets that are wanted. Output: the
//! same without the code for other targets, and the proof, from what was written, that the wanted
//! code is byte for byte what it was and that nothing else changed.
//!
//! What goes: entries of offload bundles in host files and alone, `.kpack` archives, files of
//! kernel databases by the rules of [`rocwheel_rocm::database`], artifacts for one target. What
//! stays: generic targets that cover a wanted one, portable code, files that serve all targets, and
//! code that nothing registers, since nobody knows who reads it.

mod check;
mod code;
mod extras;
mod forecast;
mod keep;
mod outcome;
mod place;
mod record;
mod tree;
mod wheel_file;

use std::path::{Path, PathBuf};

use rocwheel_output::Staged;
use rocwheel_report::Reporter;
use rocwheel_rocm::TargetTable;
use rocwheel_wheel::WriteOptions;

use crate::error::Error;
pub use keep::Keep;
pub use outcome::{Outcome, PruneAction, Pruned, PrunedFile};

/// zstd's level when nothing else is asked for. Of jax_rocm7_pjrt's 29.5 MB for 27 targets, two
/// targets take 7.1 MB at level 3, 5.6 MB at 9, in the same time, and 5.0 MB at 19, in three times
/// as long.
pub const LEVEL: i32 = 9;

/// How to prune.
pub struct Options<'a> {
    /// What is kept.
    pub keep: Keep,
    /// Whether plain bundles become compressed ones. Compressed bundles stay of their version.
    pub compress: Option<Compress>,
    /// zstd's level for bundles that are compressed, 1 to 22; [`LEVEL`] is a good one.
    pub level: i32,
    /// What happens to a file or a bundle without any wanted code.
    pub empty: Empty,
    /// Where the result goes.
    pub destination: Destination,
    /// Whether there is a result.
    pub run: Run,
    /// A folder for large temporary files.
    pub scratch: &'a Path,
    /// How wheels are written.
    pub write: WriteOptions,
}

/// The form that plain bundles get when they are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compress {
    /// Version 2 of the `CCOB` header, as clang 17 to 19 write it.
    V2,
    /// Version 3, as ROCm 7 writes it.
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

/// What happens to a file or a bundle that would have no GPU code left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Empty {
    /// An error: a program that registers it would fail on the GPUs that are kept.
    Refuse,
    /// It becomes a bundle of nothing.
    Allow,
}

/// Where the result goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Each input under its own name into this folder, which is made.
    Folder(PathBuf),
    /// The inputs are replaced, each file at once, when all of it is done and checked.
    InPlace,
}

/// Whether something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// Yes.
    Execute,
    /// No: what would stay and go is read from tables, and sizes follow from them; those of code
    /// that would be compressed are estimated from samples.
    DryRun,
}

/// Prunes each of `paths`: a file with GPU code, a wheel, or a directory. An input is finished,
/// checked and in its place before the next one begins; of an input that fails nothing is left.
///
/// # Errors
/// See [`Error`]. Targets that were nowhere found are no error: [`Outcome::missing`] names them.
pub fn prune(paths: &[PathBuf], options: &Options<'_>, reporter: &dyn Reporter) -> Result<Outcome, Error> {
    prune_each(paths, options, reporter, |_, staged| Ok(staged.commit()?))
}

/// As [`prune`], but `finish` gets the path and the result of each input, and commits the result;
/// its error stops everything.
///
/// # Errors
/// As [`prune`], and those of `finish`.
pub fn prune_each<E: From<Error>>(
    paths: &[PathBuf],
    options: &Options<'_>,
    reporter: &dyn Reporter,
    mut finish: impl FnMut(&Path, Staged<Pruned>) -> Result<Pruned, E>,
) -> Result<Outcome, E> {
    let table = TargetTable::embedded();
    place::check(paths, &options.destination)?;
    let mut outcome = Outcome::default();
    for path in paths {
        let pruner = code::Pruner { options, table: &table, reporter };
        let place = place::Place::new(path, options)?;
        let pruned = tree::prune(&pruner, path, &place)?;
        if options.destination == Destination::InPlace {
            record::warn_outside(place.output(), &pruned, reporter);
        }
        outcome.add(finish(path, place.stage(pruned)?)?);
    }
    outcome.missing = options.keep.missing(&outcome.kept(), &table);
    Ok(outcome)
}
