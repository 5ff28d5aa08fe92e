//! The set that a resolver chose, and what was seen of it.

use std::collections::BTreeMap;

use rocwheel_index::requirement::Requirement;
use serde::Serialize;

/// A package of the set.
#[derive(Debug, Clone, Serialize)]
pub struct ChosenPackage {
    /// Canonical name.
    pub name: String,
    pub version: String,
    /// The file that an installer takes.
    pub file: String,
    pub origin: PackageOrigin,
    #[serde(skip)]
    pub address: String,
    /// SHA-256 of every file that may be taken for it, in hexadecimal.
    pub sha256: Vec<String>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Time of publication.
    pub uploaded: Option<String>,
}

/// The index that a package is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackageOrigin {
    /// The number of one of the indexes of the question.
    Set(usize),
    Public,
}

impl ChosenPackage {
    pub(crate) fn pin(&self) -> String {
        format!("{}=={}", self.name, self.version)
    }
}

/// A version that a resolver chose or would have chosen, and that lacks something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotTaken {
    pub name: String,
    pub version: String,
    pub reason: String,
}

/// What was seen in a wheel.
pub(crate) struct Seen {
    /// Bytes of its members.
    pub(crate) unpacked: Option<u64>,
    pub(crate) code: CodeSeen,
}

pub(crate) enum CodeSeen {
    /// It has code for these targets, with its bytes. `true`: some of its members were not looked
    /// into.
    For(BTreeMap<String, u64>, bool),
    /// It has code for NVIDIA's GPUs and none for AMD's.
    Cuda,
    /// It has none.
    Nothing,
    /// It was not looked into, for this reason.
    NotLooked(String),
}

impl Seen {
    pub(crate) fn elsewhere() -> Seen {
        Seen { unpacked: None, code: CodeSeen::Nothing }
    }

    pub(crate) fn not_looked(reason: &str) -> Seen {
        Seen { unpacked: None, code: CodeSeen::NotLooked(reason.to_owned()) }
    }
}

/// What is installed for a question.
pub(crate) struct Set {
    pub(crate) asked: Vec<String>,
    pub(crate) members: Vec<ChosenPackage>,
    pub(crate) pre_releases: bool,
    pub(crate) seen: Vec<Seen>,
    pub(crate) barred: Vec<NotTaken>,
    pub(crate) resolved_by: &'static str,
}

/// Why there is no set.
pub(crate) struct Refusal {
    pub(crate) reason: String,
    pub(crate) asked: Vec<String>,
    pub(crate) barred: Vec<NotTaken>,
    pub(crate) resolved_by: &'static str,
}

/// What was asked for, with extras and exact versions.
pub(crate) fn pinned(set: &Set) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for requirement in set.asked.iter().filter_map(|text| Requirement::parse(text).ok()) {
        let member = set.members.iter().find(|member| member.name == requirement.name);
        let one = member.map(|member| format!("{}[{}]=={}", member.name, requirement.extras.join(","), member.version));
        all.extend(one.map(|one| one.replace("[]", "")).filter(|one| !all.contains(one)));
    }
    all
}
