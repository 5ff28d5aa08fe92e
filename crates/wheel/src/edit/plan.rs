//! What an edit will do to one file, as people and machines read it, and what the executor needs to
//! do it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use rocwheel_elf::Patch;
use serde::Serialize;

use super::sdist::SdistSteps;
use crate::read::Wheel;
use crate::{Headers, WheelName};

/// What is to be done to one wheel or source distribution. Nothing has been written yet.
#[derive(Serialize)]
pub struct Plan {
    /// The file that is edited.
    pub input: PathBuf,
    /// What it is.
    pub form: Form,
    /// Bytes of it.
    pub size: u64,
    /// Name of the distribution, as its metadata will say it.
    pub distribution: String,
    /// Version before.
    pub old_version: String,
    /// Version after.
    pub version: String,
    /// Name of the file that is written.
    pub output: String,
    /// What is different; nothing when the file is copied as it is.
    pub changes: Vec<FieldChange>,
    /// Where members still say the old version.
    pub leftovers: Vec<Leftover>,
    /// What should be known besides.
    pub notes: Vec<String>,
    #[serde(skip)]
    pub(super) steps: Steps,
}

impl Plan {
    /// Whether the file is to become another one.
    pub fn changes_anything(&self) -> bool {
        !self.changes.is_empty()
    }
}

/// What is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// A `.whl` file.
    Wheel,
    /// A `.tar.gz` file.
    Sdist,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// What is different: a file and its field, a member, the name of the file.
    pub subject: String,
    /// What it was; `None` for something new.
    pub before: Option<String>,
    /// What it will be; `None` for something that goes.
    pub after: Option<String>,
}

impl FieldChange {
    pub(super) fn new(subject: &str, before: Option<&str>, after: Option<&str>) -> FieldChange {
        let own = |text: Option<&str>| text.map(str::to_owned);
        FieldChange { subject: subject.to_owned(), before: own(before), after: own(after) }
    }
}

/// A line of a member that says the old version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Leftover {
    /// The member.
    pub member: String,
    /// The line, counted from 1.
    pub line: u64,
    /// The line itself, without the space around it.
    pub text: String,
}

/// What the executor needs.
pub(super) enum Steps {
    /// Another wheel.
    Wheel(WheelSteps),
    /// Another source distribution.
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
    /// From METADATA or PKG-INFO.
    pub(super) fn new(headers: &Headers, edit: &super::Edit) -> Result<Identity, crate::Error> {
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
