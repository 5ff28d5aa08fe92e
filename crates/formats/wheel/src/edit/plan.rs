//! The changes of an edit to one file, for people and programs to read, and the data for their
//! execution.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use rocwheel_elf::Patch;
use serde::Serialize;

use super::sdist::SdistSteps;
use crate::read::Wheel;
use crate::{Headers, WheelName};

/// The changes to one wheel or source distribution. Nothing has been written yet.
#[derive(Serialize)]
pub struct Plan {
    /// The file that is edited.
    pub input: PathBuf,
    /// Its format.
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
    /// The differences; empty if the file is copied unchanged.
    pub changes: Vec<FieldChange>,
    /// Lines of members that still contain the old version.
    pub leftovers: Vec<Leftover>,
    /// Remarks for the user.
    pub notes: Vec<String>,
    #[serde(skip)]
    pub(super) steps: Steps,
}

impl Plan {
    /// `true` if the result differs from the input.
    pub fn changes_anything(&self) -> bool {
        !self.changes.is_empty()
    }
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DistributionFormat {
    /// A `.whl` file.
    Wheel,
    /// A `.tar.gz` file.
    Sdist,
}

/// One difference.
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
    pub(super) fn new(subject: &str, before: Option<&str>, after: Option<&str>) -> FieldChange {
        let own = |text: Option<&str>| text.map(str::to_owned);
        FieldChange { subject: subject.to_owned(), before: own(before), after: own(after) }
    }
}

/// A line of a member that contains the old version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Leftover {
    /// Path of the member.
    pub member: String,
    /// Number of the line; the first is 1.
    pub line: u64,
    /// The text of the line, trimmed.
    pub text: String,
}

/// The data for the execution.
pub(super) enum Steps {
    Wheel(WheelSteps),
    Sdist(SdistSteps),
}

pub(super) struct WheelSteps {
    pub(super) wheel: Arc<Wheel>,
    pub(super) name: WheelName,
    pub(super) metadata: Option<String>,
    pub(super) tags: Option<String>,
    pub(super) drop: BTreeSet<String>,
    pub(super) texts: BTreeMap<String, Vec<u8>>,
    pub(super) libraries: BTreeMap<String, Patch>,
}

/// The name and version of a distribution, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) new_name: String,
    pub(super) new_version: String,
}

impl Identity {
    /// Reads name and version from METADATA or PKG-INFO.
    pub(super) fn new(headers: &Headers, edit: &super::WheelEdit) -> Result<Identity, crate::Error> {
        let name = headers.get("Name").unwrap_or_default();
        let version = headers.get("Version").unwrap_or_default();
        let new_version = match &edit.version {
            Some(change) => change.apply(&version)?,
            None => version.clone(),
        };
        let new_name = edit.name.clone().unwrap_or_else(|| name.clone());
        Ok(Identity { name, version, new_name, new_version })
    }
}
