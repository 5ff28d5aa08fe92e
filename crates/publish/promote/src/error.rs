//! Failures of several modules. Nothing was written.

use std::io;
use std::path::Path;

use rocwheel_progress::{Exit, Failure, counted, listed_problems, write_error};

/// To be used as `.map_err(error::read(path))`.
pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Failure {
    |error| Failure::from(error).context(format!("cannot read `{}`", path.display()))
}

pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> Failure {
    |error| Failure::attempt(format!("cannot write `{}`", path.display()))(write_error(path)(error))
}

pub(crate) fn version(old: &dyn std::fmt::Display, new: &dyn std::fmt::Display, reason: &str) -> Failure {
    Failure::message(format!("version {old} cannot be promoted to {new}: {reason}")).with_exit(Exit::Usage)
}

/// Each problem is `FILE: why`.
pub(crate) fn files(problems: Vec<String>) -> Failure {
    let (count, list) = (counted(problems.len() as u64, "file"), listed_problems(&problems));
    Failure::message(format!("nothing was promoted: {count} cannot be{list}"))
        .with_hint("`--ignore PATTERN` leaves files behind, and `--copy PATTERN` takes them along unchanged")
        .with_rows(problems)
}

pub(crate) fn targets(wanted: &[String], reason: &str) -> Failure {
    Failure::message(format!("cannot keep {}: {reason}", wanted.join(","))).with_exit(Exit::Usage)
}
