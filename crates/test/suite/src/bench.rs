//! Input: what a benchmark printed, several times, and what it printed on the same hardware before.
//! Output: what became slower.
//!
//! A difference counts if the median moved by more than 5 % and by more than the noise, if a rank
//! test (Mann-Whitney U) agrees, and if a second series of runs says the same. Measurements of
//! another GPU, partition, driver or power limit are never compared, and those of another governor
//! or of a busy machine have no verdict.

use std::io;
use std::path::Path;

use rocwheel_progress::Failure;

mod conditions;
mod formats;
mod history;
mod runner;
mod statistics;
mod units;

pub use conditions::BenchConditions;
pub use formats::{Better, Measurement, parse_measurements};
pub use history::{Baseline, BenchKey, BenchRecord, History, median_rows};
pub use runner::{BenchCommand, measure, measure_pair};
pub use statistics::{BenchComparison, BenchMovement, Summary, compare};

fn file_error(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::from(error).context(format!("cannot use `{}`", path.display()))
}
