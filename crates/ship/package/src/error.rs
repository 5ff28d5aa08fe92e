//! Failures of several modules.

use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::path::Path;

use rocwheel_progress::Failure;

/// Puts the operation that failed in front of the system's error, to be used as
/// `.map_err(io_error("write the state"))`.
pub(crate) fn io_error<'a>(attempt: impl Into<Cow<'a, str>>) -> impl FnOnce(io::Error) -> Failure {
    let attempt = format!("cannot {}", attempt.into());
    move |error| {
        let is_denied = error.kind() == ErrorKind::PermissionDenied;
        let failure = Failure::attempt(attempt)(error);
        if is_denied { failure.with_hint("check the permissions of the path and of its directory") } else { failure }
    }
}

pub(crate) fn elf_error(path: &Path) -> impl FnOnce(rocwheel_elf::Error) -> Failure {
    move |error| Failure::attempt(format!("cannot read the headers of `{}`", path.display()))(error)
}

pub(crate) fn table_error(error: toml::de::Error) -> Failure {
    Failure::other(error).context("cannot read the table of distributions")
}

/// Says that the disk of `output` is full, if that is the failure. The cause would name a temporary
/// file that is removed by now.
pub(crate) fn or_full_disk(failure: Failure, output: &Path) -> Failure {
    let is_full = failure.find::<io::Error>().is_some_and(|error| {
        // Those of the artifacts and of moving results say where the disk is full.
        failure.find::<rocwheel_artifact::Error>().is_none()
            && failure.find::<rocwheel_output::Error>().is_none()
            && matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    });
    if !is_full {
        return failure;
    }
    Failure::message(format!("no space is left on the disk of `{}`", output.display()))
        .with_hint("make room on that disk, or choose another output")
}
