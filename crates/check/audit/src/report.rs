//! Input: findings and the measurements of an audit. Output: an [`AuditReport`] for people and
//! machines, also as SARIF.

pub mod sarif;
mod verdict;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::finding::{Finding, Severity};
pub use verdict::{LoadAnswer, LoadVerdict};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// The environment that the audit simulated.
    pub environment: AuditedEnvironment,
    /// The wheels of the set in the given order, with those beside the audited ones last.
    pub wheels: Vec<WheelSummary>,
    /// The findings, the heaviest first.
    pub findings: Vec<Finding>,
    /// Number of findings of each severity, without ignored ones.
    pub counts: FindingCounts,
    /// Number of ignored findings, by code.
    pub ignored: BTreeMap<String, u64>,
    /// A summary of the loader simulation of each wheel.
    pub scenarios: Vec<ScenarioSummary>,
    /// Libraries whose names are in the data of files that call `dlopen`; empty unless requested.
    pub loads: Vec<LoadedByName>,
    /// Commands that look for the distributions on which findings depend.
    #[serde(skip)]
    pub to_decide: Vec<String>,
    /// Parts that the audit could not check, in sentences.
    pub notes: Vec<String>,
}

/// A library name in the data of a file that may load it at run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoadedByName {
    /// File name of the wheel.
    pub wheel: String,
    /// The member that contains the name.
    pub file: String,
    /// The name: `libamd_comgr.so.2`.
    pub library: String,
    /// The file of the set that the loader would find for the name; `None` if it finds none, which
    /// is not a fault in itself.
    pub found: Option<String>,
    /// `true` if the table of the libraries that ROCm loads has the name.
    pub listed: bool,
}

/// The environment that was simulated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditedEnvironment {
    /// E.g. `3.12`.
    pub python: String,
    /// The glibc that the user named: `2.28`.
    pub glibc: Option<String>,
    /// The directories of `LD_LIBRARY_PATH`, if the user named a machine with them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub library_path: Vec<String>,
}

/// Number of findings by severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FindingCounts {
    pub errors: u64,
    pub warnings: u64,
    pub notes: u64,
}

impl FindingCounts {
    pub fn of<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> FindingCounts {
        let mut counts = FindingCounts::default();
        for finding in findings {
            match finding.severity {
                Severity::Error => counts.errors += 1,
                Severity::Warning => counts.warnings += 1,
                Severity::Note => counts.notes += 1,
            }
        }
        counts
    }
}

/// A wheel and its needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WheelSummary {
    /// Path as given.
    pub path: String,
    /// File name, or the name of the `.dist-info` folder.
    pub file: String,
    pub name: String,
    pub version: String,
    /// `wheel` or `installed`.
    pub form: &'static str,
    /// `audited`, or `beside` for a wheel that is only present for the others.
    pub role: &'static str,
    /// Bytes of the wheel file; for an installed distribution, bytes of its files.
    pub size: u64,
    /// Bytes when installed.
    pub installed: u64,
    pub files: u64,
    /// Number of ELF programs and libraries for the machine of the tag.
    pub objects: u64,
    /// Platform tags from the file name, or from the file WHEEL of an installed distribution.
    pub platforms: Vec<String>,
    /// The oldest system it runs on; `None` for wheels without ELF files.
    pub floor: Option<SystemFloor>,
    /// The CPU it needs: `x86-64`, `x86-64-v3`; `None` for wheels without ELF files.
    pub cpu: Option<&'static str>,
    /// Systems and machines that files of the wheel are for and that the audit does not check:
    /// `aarch64`, `macOS`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<&'static str>,
}

/// The oldest system that a wheel runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SystemFloor {
    /// The lowest true platform tag: `manylinux_2_28_x86_64`, or `linux_x86_64` if no policy
    /// promises everything that the wheel needs.
    pub tag: String,
    /// The newest version needed of each series: `GLIBC` → `2.27`, `GLIBCXX` → `3.4.22`.
    pub newest: BTreeMap<String, String>,
    /// The reasons why the tag cannot be lower.
    pub reasons: Vec<String>,
}

/// Summary of the loader simulation of a wheel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScenarioSummary {
    /// File name of the wheel.
    pub wheel: String,
    /// Number of files that a process could start from; each is simulated alone.
    pub roots: u64,
    /// Files of the set that were assumed to be loaded before, by a preload list or by the import
    /// of a required package.
    pub preloaded: Vec<String>,
    /// Number of files of the set that were loaded.
    pub loaded: u64,
    pub missing: Vec<String>,
}

impl AuditReport {
    /// `true` if a finding has this severity or a heavier one.
    pub fn has(&self, severity: Severity) -> bool {
        self.findings.iter().any(|finding| finding.severity >= severity)
    }
}
