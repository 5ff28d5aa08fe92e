//! Failures of several modules.

use std::io;
use std::path::Path;

use rocwheel_progress::{Exit, Failure};

/// A file would have no code for any GPU left, or a bundle of it. `found` are the targets in it.
pub(super) fn nothing_left(key: &str, bundle: Option<usize>, found: &str) -> Failure {
    let bundle = bundle.map(|bundle| format!(" in bundle {bundle}")).unwrap_or_default();
    Failure::message(format!("`{key}` would have no GPU code left{bundle}: it has code for {found}"))
        .with_hint("keep one of its targets as well, or allow files without GPU code with `--allow-empty`")
}

/// A path that is not a file with GPU code, a wheel or a directory.
pub(super) fn unsuitable(path: &Path, reason: &str) -> Failure {
    Failure::message(format!("`{}` has no GPU code that could be removed: {reason}", path.display()))
        .with_hint("`rocwheel kernels` shows what is in a file")
}

/// The pruned result has a defect, and was removed. The writer contradicts itself, which is not the
/// user's fault.
pub(super) fn not_pruned(path: &Path, differences: &[String]) -> Failure {
    let (path, differences) = (path.display(), differences.join("; "));
    Failure::message(format!("the result for `{path}` is wrong, and was not kept: {differences}")).with_exit(Exit::Bug)
}

pub(super) fn scratch_error(key: &str) -> impl Fn(io::Error) -> Failure + Copy {
    move |error| Failure::attempt(format!("could not keep what becomes of `{key}` on the disk"))(error)
}
