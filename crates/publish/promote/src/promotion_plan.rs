//! What a promotion does, before it is done.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::archive::TarPatch;
use crate::rules::TextChange;
use crate::set_file::{SetFile, SetFileKind};
use crate::wheel::WheelSteps;

/// What a promotion does to each file.
#[derive(Debug, Serialize)]
pub struct PromotionPlan {
    pub folder: PathBuf,
    /// The version of the set.
    pub from: String,
    /// The version that it gets.
    pub to: String,
    /// The targets that stay; `None` for all.
    pub targets: Option<Vec<String>>,
    /// The files, sorted by name.
    pub files: Vec<PlannedPromotion>,
    pub notes: Vec<String>,
}

impl PromotionPlan {
    /// Places that keep the old version because the user or their format says so.
    pub fn accepted(&self) -> Vec<String> {
        let all =
            self.files.iter().flat_map(|file| file.notes.iter().map(move |note| format!("{}: {note}", file.name)));
        all.collect()
    }
}

#[derive(Debug, Serialize)]
pub struct PlannedPromotion {
    pub name: String,
    /// Its new name; `None` if it is left out, being for a target that does not stay.
    pub new_name: Option<String>,
    pub kind: SetFileKind,
    pub size: u64,
    /// Its version; `None` for a file that is copied.
    pub version: Option<String>,
    pub new_version: Option<String>,
    pub texts: Vec<TextChange>,
    /// Members with another name: the old one and the new one.
    pub renamed: Vec<(String, String)>,
    pub notes: Vec<String>,
    #[serde(skip)]
    pub(crate) path: PathBuf,
    /// SHA-256 in hexadecimal of the wheel that a record spoke of; `None` if all was read.
    #[serde(skip)]
    pub(crate) recorded: Option<String>,
    #[serde(skip)]
    pub(crate) steps: Steps,
    /// The new metadata of a package.
    #[serde(skip)]
    pub metadata: Option<String>,
}

/// How a file is made.
#[derive(Debug)]
pub(crate) enum Steps {
    /// It is not made.
    LeaveOut,
    Copy,
    Wheel(WheelSteps),
    /// A `.tar.gz`.
    Archive(TarPatch),
    /// These bytes.
    Text(String),
}

impl PlannedPromotion {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn new(file: &SetFile, size: u64) -> PlannedPromotion {
        PlannedPromotion {
            name: file.name.clone(),
            new_name: Some(file.name.clone()),
            kind: file.kind,
            size,
            version: file.version.as_ref().map(ToString::to_string),
            new_version: None,
            texts: Vec::new(),
            renamed: Vec::new(),
            notes: Vec::new(),
            path: file.path.clone(),
            recorded: None,
            steps: Steps::Copy,
            metadata: None,
        }
    }
}
