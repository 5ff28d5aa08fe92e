//! Failures of reading one of the two sides.

use std::io;

use rocwheel_progress::{Failure, Reporter};

/// Converts an error of a reader: it is an interruption if the reporter was told to stop.
pub(crate) fn read(error: io::Error, reporter: &dyn Reporter) -> Failure {
    reporter.check().map_or_else(Failure::from, |()| error.into())
}

/// For `map_err`: an archive inside of a package that cannot be read. `archive` is its path;
/// `outer:inner` for one inside another file.
pub(crate) fn unreadable(archive: &str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::attempt(format!("could not read the archive `{archive}`"))(error)
}
