//! Failures of an import that several modules have, with hints how to fix them.

use std::io;
use std::path::Path;

use rocwheel_output::storage_hint;
use rocwheel_progress::{Failure, in_backticks, is_full};

use crate::report::Missing;

pub(crate) const DOWNLOAD_AGAIN: &str = "download the file again; it is incomplete or no such archive";

/// `member` is `control.tar.xz`, `data.tar.xz` or the file that was being read.
pub(crate) fn damaged(archive: &Path, member: &str, source: impl Into<Failure>) -> Failure {
    let attempt = format!("could not read `{member}` of `{}`", archive.display());
    source.into().context(attempt).with_hint(DOWNLOAD_AGAIN)
}

/// A member that must not be unpacked.
pub(crate) fn refused(archive: &Path, member: &str, reason: &str) -> Failure {
    Failure::message(format!("refused to unpack `{member}` of `{}`: {reason}", archive.display()))
        .with_hint("leave its package out, or rename or remove the file")
}

pub(crate) fn empty(path: &Path, reason: &str) -> Failure {
    Failure::message(format!("there is nothing to import in `{}`: {reason}", path.display()))
        .with_hint("give ROCm's .deb files, a directory such as /opt/rocm, or a therock-dist-* tarball")
}

/// Two files would have the same path in the output. `first` and `second` are the package or input
/// and the path in it.
pub(crate) fn collision(path: &str, first: &str, second: &str) -> Failure {
    let hint = if source_of(first) == source_of(second) {
        format!("leave {} out, or remove one of the two files from it", source_of(first))
    } else {
        "leave one of the two packages out".to_owned()
    };
    Failure::message(format!("`{path}` is provided twice, by {first} and by {second}")).with_hint(hint)
}

/// Returns the package or input, in backticks, from the words for the owner of a file.
fn source_of(owner: &str) -> &str {
    owner.rsplit_once(" of ").map_or(owner, |(_, source)| source)
}

/// Names the disk of `output` if it is full, without a source, which would name a temporary file
/// that is removed by now. Adds advice to other errors of reading and writing.
pub(crate) fn with_storage_advice(failure: Failure, output: &Path) -> Failure {
    let Some(error) = failure.find::<io::Error>() else { return failure };
    if is_full(error) {
        return Failure::message(format!("no space is left on the disk of `{}`", output.display()))
            .with_hint("make room on that disk, or choose another output");
    }
    match storage_hint(error) {
        Some(hint) if failure.hint().is_none() => failure.with_hint(hint),
        _ => failure,
    }
}

/// `in_turn` are the Debian packages that the packages of missing libraries need in turn, as far as
/// known.
pub(crate) fn unresolved(missing: &[Missing], in_turn: &[String]) -> Failure {
    let text = if let [missing] = missing {
        format!("`{}` is missing, {}", missing.library, missing.needed_by())
    } else {
        let lines = missing.iter().map(|missing| format!("\n  `{}`, {}", missing.library, missing.needed_by()));
        format!("{} libraries are missing:{}", missing.len(), lines.collect::<String>())
    };
    Failure::message(text).with_hint(unresolved_hint(missing, in_turn))
}

fn unresolved_hint(missing: &[Missing], in_turn: &[String]) -> String {
    let (foreign, absent): (Vec<&Missing>, Vec<&Missing>) = missing.iter().partition(|one| one.other_version.is_some());
    let mut hints = Vec::new();
    if !foreign.is_empty() {
        let mut users: Vec<String> = foreign.iter().map(|missing| missing.source.clone()).collect();
        users.sort_unstable();
        users.dedup();
        let built = if users.len() == 1 { "which is" } else { "which are" };
        hints.push(format!("leave out {}, {built} built for another ROCm", in_backticks(&users)));
    }
    let mut packages: Vec<&str> = absent.iter().filter_map(|missing| missing.package.as_deref()).collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() && !absent.is_empty() {
        hints.push("add the packages that hold them".to_owned());
    } else if !packages.is_empty() {
        // The table adds the name that a package has in other releases in brackets.
        let renamed: Vec<String> =
            packages.iter().filter(|package| package.contains(' ')).map(|one| format!("; {one}")).collect();
        let mut names: Vec<String> =
            packages.iter().map(|package| package.split(' ').next().unwrap_or_default().to_owned()).collect();
        names.extend(in_turn.iter().cloned());
        names.sort_unstable();
        names.dedup();
        let turn = if in_turn.is_empty() { "" } else { " and what they need" };
        hints.push(format!("fetch them{turn} with `apt-get download {}`{}", names.join(" "), renamed.concat()));
    }
    let allow: Vec<String> = missing.iter().map(|missing| format!("--allow-unresolved {}", missing.library)).collect();
    hints.push(format!("or accept it with `{}`", allow.join(" ")));
    hints.join("; ")
}
