//! What a question is answered with.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::lines::InstallLine;
use crate::set::{ChosenPackage, NotTaken};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChoiceVerdict {
    /// The set exists, and its code for the GPUs was seen.
    Yes,
    /// There is no such set.
    No,
    /// The set exists; whether it has code for the GPUs was not seen.
    #[default]
    CannotTell,
}

#[derive(Debug, Clone, Serialize)]
pub struct ChoiceAnswer {
    pub verdict: ChoiceVerdict,
    /// The reason for the verdict: of a no the first thing that is missing.
    pub reason: String,
    /// The packages that were asked for, with extras and exact versions.
    pub asked: Vec<String>,
    /// The packages, sorted by name; empty for a no.
    pub members: Vec<ChosenPackage>,
    /// Newer versions, and why they are not taken.
    pub not_taken: Vec<NotTaken>,
    /// The program that resolved.
    pub resolved_by: &'static str,
    /// `true` if pre-releases had to be allowed.
    pub pre_releases: bool,
    /// Bytes to download; `None` if an index does not say the size of a file.
    pub download: Option<u64>,
    /// The packages that the Python has already, in the same version ([`crate::present`]); `None`
    /// if it was not asked.
    pub present: Option<Vec<String>>,
    /// `true` if packages for a GPU count by their names.
    #[serde(skip)]
    pub is_by_name: bool,
    /// Bytes of the unpacked wheels; `None` if the directory of one could not be read.
    pub installed: Option<u64>,
    /// For each GPU, the packages that have code for it and how that is known.
    pub kernels: Vec<String>,
    /// For each GPU, the bytes of its code in the set: the memory that this takes on the GPU when
    /// all of it is loaded. `None` if some code was not looked into. Packages of the public index
    /// are not searched, and count as ones without code.
    pub gpu_code: BTreeMap<String, Option<u64>>,
    pub not_looked_at: Vec<String>,
    /// Sets that exist where this one does not.
    pub nearest: Vec<Nearest>,
    /// What was tried for them without success: `Python 3.12`.
    pub tried: Vec<String>,
    pub lines: Vec<InstallLine>,
}

impl ChoiceAnswer {
    /// Bytes that are left to download; `None` if the Python was not asked, or an index has no size
    /// of a file.
    pub fn left(&self) -> Option<u64> {
        let present = self.present.as_ref()?;
        self.members.iter().filter(|member| !present.contains(&member.name)).map(|member| member.size).sum()
    }
}

/// A set that exists for another question.
#[derive(Debug, Clone, Serialize)]
pub struct Nearest {
    /// What has to be different: `Python 3.12`.
    pub with: String,
    /// The options that ask for it.
    pub options: Vec<String>,
    /// What would be installed.
    pub packages: Vec<String>,
    /// What to know before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caution: Option<String>,
}
