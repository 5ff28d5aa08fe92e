//! The options of an audit, and its scope.

use std::collections::BTreeSet;

use rocwheel_index::Unmet;
use rocwheel_loader::cache::FactsCache;
use rocwheel_loader::simulation::Root;
use rocwheel_wheel::MemberPattern;
use rocwheel_wheel::manylinux::DottedVersion;
use serde::Serialize;

use crate::finding::Code;

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The oldest glibc that the set has to support; `None` checks only the promises of the tags.
    pub glibc: Option<DottedVersion>,
    /// Checks that run only on request.
    pub extras: BTreeSet<ExtraCheck>,
    /// Codes of findings to drop from the report.
    pub ignore: BTreeSet<Code>,
    /// Findings to drop if every file that they name matches the pattern. A pattern without a slash
    /// is compared with the file name only.
    pub ignore_in: Vec<(Code, MemberPattern)>,
    /// The part of the wheels that the audit reads.
    pub scope: AuditScope,
    /// A machine with `LD_LIBRARY_PATH`; the audit reports the libraries that load differently
    /// there.
    pub library_path: Option<SetLibraryPath>,
    /// The search for the wheels that the audited ones require; `None` if there was none.
    pub search: Option<RequirementSearch>,
    /// Faults of installations, which the caller found by asking pip and uv.
    pub install: Vec<InstallFault>,
    /// Facts about wheels of earlier runs. The report is the same with and without them.
    pub cache: Option<FactsCache>,
}

/// A search for the wheels that the audited ones require.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequirementSearch {
    /// `true` if an index was asked. A folder of wheels seldom has everything.
    pub has_index: bool,
    /// The requirements that were not met.
    pub unmet: Vec<Unmet>,
}

/// A fault of an installation: pip or uv refuses a wheel, or takes another file for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallFault {
    /// [`Code::NotBrought`] or [`Code::PublicName`].
    pub code: Code,
    /// Name of the file.
    pub wheel: String,
    pub subject: String,
    pub message: String,
}

/// A machine on which `LD_LIBRARY_PATH` is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetLibraryPath {
    /// The file system of the machine.
    pub machine: Root,
    /// The directories of `LD_LIBRARY_PATH`, absolute.
    pub directories: Vec<String>,
}

/// The part of the wheels that an audit reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditScope {
    #[default]
    Files,
    /// Only names, requirements on each other and RECORD, for wheels whose files and requirements
    /// are known to be unchanged: [`SiteFacts`](rocwheel_loader::facts::SiteFacts) may be empty.
    Names,
}

/// A check that runs only on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExtraCheck {
    /// Compares the hashes of RECORD with the files, which unpacks all of them.
    Hashes,
    /// Reads all GPU code and compares it with its description.
    GpuCode,
    /// Checks that Windows can install the wheels, even if no tag names Windows.
    WindowsPaths,
    /// Checks the tags against the Python of the environment, which the user named.
    Python,
}
