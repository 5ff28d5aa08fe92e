//! The changes of an edit to one file, for people and programs to read, and the data for their
//! execution.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use rocwheel_elf::Patch;
use rocwheel_wheel::WheelName;
use rocwheel_wheel::read::Wheel;
use serde::Serialize;

/// The changes to one wheel or source distribution. Nothing has been written yet.
#[derive(Serialize)]
pub struct Plan {
    pub input: PathBuf,
    pub form: DistributionFormat,
    /// Its size in bytes.
    pub size: u64,
    /// Name of the distribution in the new metadata.
    pub distribution: String,
    /// The version in the input.
    pub old_version: String,
    /// The version in the result.
    pub version: String,
    /// Name of the file that is written.
    pub output: String,
    /// Empty if the file is copied unchanged.
    pub changes: Vec<FieldChange>,
    /// Lines of members that still contain the old version.
    pub leftovers: Vec<Leftover>,
    pub notes: Vec<String>,
    #[serde(skip)]
    pub(crate) steps: Steps,
}

impl Plan {
    /// `true` if the result differs from the input.
    pub fn changes_anything(&self) -> bool {
        !self.changes.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DistributionFormat {
    /// A `.whl` file.
    Wheel,
    /// A `.tar.gz` file.
    Sdist,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// The thing that changes: a file and its field, a member, or the name of the file.
    pub subject: String,
    /// The old value; `None` for an added thing.
    pub before: Option<String>,
    /// The new value; `None` for a removed thing.
    pub after: Option<String>,
}

impl FieldChange {
    pub(crate) fn new(subject: &str, before: Option<&str>, after: Option<&str>) -> FieldChange {
        let [before, after] = [before, after].map(|text| text.map(str::to_owned));
        FieldChange { subject: subject.to_owned(), before, after }
    }
}

/// A line of a member that contains the old version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Leftover {
    pub member: String,
    /// Number of the line; the first is 1.
    pub line: u64,
    /// The text of the line, trimmed.
    pub text: String,
}

/// The data for the execution.
pub(crate) enum Steps {
    Wheel(WheelSteps),
    Sdist(SdistSteps),
}

pub(crate) struct WheelSteps {
    pub(crate) wheel: Arc<Wheel>,
    pub(crate) name: WheelName,
    pub(crate) metadata: Option<String>,
    pub(crate) tags: Option<String>,
    pub(crate) drop: BTreeSet<String>,
    pub(crate) texts: BTreeMap<String, Vec<u8>>,
    pub(crate) libraries: BTreeMap<String, Patch>,
}

pub(crate) struct SdistSteps {
    pub(crate) input: PathBuf,
    /// Folders, with a slash at the end, and their new names; the longest first.
    pub(crate) folders: Vec<(String, String)>,
    /// Members to remove, by their old paths in the archive.
    pub(crate) drop: BTreeSet<String>,
    pub(crate) texts: BTreeMap<String, Vec<u8>>,
}
