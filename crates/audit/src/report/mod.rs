//! Input: findings and what was measured on the way. Output: a [`Report`] for people and machines,
//! as SARIF too.

pub mod sarif;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::finding::{Finding, Severity};

/// What the audit of a set of wheels came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What the wheels were placed into.
    pub environment: AuditedEnvironment,
    /// The wheels of the set in the order in which they were given, those beside the audited ones
    /// last.
    pub wheels: Vec<WheelSummary>,
    /// What is the matter, the heaviest first.
    pub findings: Vec<Finding>,
    /// How many findings there are of each severity, without those that were to be ignored.
    pub counts: FindingCounts,
    /// How many findings were left out because they were to be ignored, by code.
    pub ignored: BTreeMap<String, u64>,
    /// What the loader was asked, wheel by wheel, and how it went.
    pub scenarios: Vec<ScenarioSummary>,
    /// Libraries whose names are in the data of files that call `dlopen`, when that was looked at.
    pub loads: Vec<LoadedByName>,
    /// What could not be looked at, in sentences.
    pub notes: Vec<String>,
}

/// A name in the data of a file that may load it at run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoadedByName {
    /// File name of the wheel.
    pub wheel: String,
    /// The member that has the name.
    pub file: String,
    /// The name: `libamd_comgr.so.2`.
    pub library: String,
    /// The file of the set that the loader would find for it; `None` when it finds none, which is
    /// no fault by itself.
    pub found: Option<String>,
    /// Whether the table of what ROCm loads has it.
    pub listed: bool,
}

/// The environment that was simulated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditedEnvironment {
    /// `3.12`.
    pub python: String,
    /// The glibc of the systems asked about, when one was named: `2.28`.
    pub glibc: Option<String>,
    /// What `LD_LIBRARY_PATH` holds, when that was asked about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub library_path: Vec<String>,
}

/// Findings by severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FindingCounts {
    /// Errors.
    pub errors: u64,
    /// Warnings.
    pub warnings: u64,
    /// Notes.
    pub notes: u64,
}

impl FindingCounts {
    /// Counts findings.
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

/// What a wheel is and what it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WheelSummary {
    /// Path as given.
    pub path: String,
    /// Its file name, or that of its `.dist-info` folder.
    pub file: String,
    /// Name of the distribution.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `wheel`, or `installed`.
    pub form: &'static str,
    /// `audited`, or `beside` when it is only there for the others.
    pub role: &'static str,
    /// Bytes of the wheel; of what is installed, those of its files.
    pub size: u64,
    /// Bytes when installed.
    pub installed: u64,
    /// Files.
    pub files: u64,
    /// ELF files for the machine of the tag, programs and libraries.
    pub objects: u64,
    /// Platforms of its file name, or of the file WHEEL of what is installed.
    pub platforms: Vec<String>,
    /// What it needs of the system; `None` for wheels without ELF files.
    pub floor: Option<SystemFloor>,
    /// The CPU it needs: `x86-64`, `x86-64-v3`; `None` for wheels without ELF files.
    pub cpu: Option<&'static str>,
}

/// What a wheel needs of the system it runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SystemFloor {
    /// The lowest platform tag that is true: `manylinux_2_28_x86_64`, or `linux_x86_64` when no
    /// policy promises what is needed.
    pub tag: String,
    /// The newest version needed of each set of versions: `GLIBC` → `2.27`, `GLIBCXX` → `3.4.22`.
    pub newest: BTreeMap<String, String>,
    /// What keeps the tag from being lower.
    pub reasons: Vec<String>,
}

/// What the loader was asked about a wheel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScenarioSummary {
    /// File name of the wheel.
    pub wheel: String,
    /// Files that a process could start from: each was asked about alone.
    pub roots: u64,
    /// Files of the set that were taken as loaded before, by a preload list or by the import of a
    /// required package.
    pub preloaded: Vec<String>,
    /// Files of the set that were loaded.
    pub loaded: u64,
    /// Libraries that were found nowhere.
    pub missing: Vec<String>,
}

impl Report {
    /// Whether a finding weighs so much or more.
    pub fn has(&self, severity: Severity) -> bool {
        self.findings.iter().any(|finding| finding.severity >= severity)
    }
}
