//! What is asked of an audit, and how much of the wheels is looked at for it.

use std::collections::BTreeSet;

use rocwheel_loader::simulation::Root;
use rocwheel_wheel::edit::MemberPattern;
use rocwheel_wheel::manylinux::Release;
use serde::Serialize;

use crate::finding::Code;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The oldest glibc that the set has to work with; without it only what the tags promise is
    /// asked for.
    pub glibc: Option<Release>,
    /// What else is looked at.
    pub extras: BTreeSet<ExtraCheck>,
    /// Findings that nobody wants to see.
    pub ignore: BTreeSet<Code>,
    /// Findings to ignore when every file they name matches the pattern. A pattern without a slash
    /// is compared with the file name only.
    pub ignore_in: Vec<(Code, MemberPattern)>,
    /// How much is looked at.
    pub scope: AuditScope,
    /// A machine on which `LD_LIBRARY_PATH` is set; what would be different there is looked at too.
    pub library_path: Option<SetLibraryPath>,
}

/// A machine on which `LD_LIBRARY_PATH` is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetLibraryPath {
    /// Its files.
    pub machine: Root,
    /// The directories, absolute.
    pub directories: Vec<String>,
}

/// How much of the wheels is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditScope {
    /// Everything.
    #[default]
    Files,
    /// Names, requirements on each other and RECORD, for wheels whose files and requirements are
    /// known to be as before: [`SiteFacts`](rocwheel_loader::facts::SiteFacts) may be empty.
    Names,
}

/// What is looked at only when asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExtraCheck {
    /// Whether the hashes of RECORD are those of the files, which means to unpack all of them.
    Hashes,
    /// Whether all GPU code is what it says, which means to read it.
    GpuCode,
    /// Whether Windows could install the wheels, also where no tag says so.
    WindowsPaths,
    /// Whether the wheels are for the Python of the environment, because somebody named it.
    Python,
}
