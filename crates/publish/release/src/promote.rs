//! Input: a folder with a set of packages, and the version that it gets. Output: the same set with
//! that version in another folder: a release made of a release candidate, without a build.
//!
//! [`plan_promotion`] reads everything, writes nothing and refuses what cannot be promoted, so a
//! set moves as a whole or not at all. [`promote`] walks the plan. What does not change is copied
//! as it is packed: libraries and kernels of a release are bit for bit those that were tested. What
//! still says the old version afterwards is an error.
//!
//! The rules are those of AMD's `promote_packages.py` (release spec 6.5) without its regular
//! expressions, and for the places that it misses.

mod archive;
mod closed;
mod collect;
mod error;
mod places;
mod plan;
mod rules;
mod statement;
mod targets;
mod version;
mod wheel;
mod write;

use std::path::{Path, PathBuf};

use pep440_rs::Version;
use serde::Serialize;

use collect::SetFile;
pub use collect::SetFileKind;
pub use error::Error;
pub use plan::{find_set_version, plan_promotion};
pub use rules::TextChange;
pub(crate) use targets::target_of;
pub use version::VersionChange;
pub use write::{OldFiles, Promoted, PromotedFrom, promote, promote_into};

/// Name of the statement beside the promoted files.
pub const STATEMENT: &str = "promotion.intoto.json";

/// What to promote. Patterns without a slash are for file names in any folder.
#[derive(Debug, Clone)]
pub struct PromotionRequest<'a> {
    /// The folder of the set, as messages name it. Files in its folders are not promoted.
    pub folder: &'a Path,
    /// The files of the set, wherever they are; `None` for those of the folder.
    pub files: Option<&'a [PathBuf]>,
    /// The version of the set; `None` to find it in the names of the files.
    pub old: Option<Version>,
    /// The version that it gets; `None` to keep it.
    pub new: Option<Version>,
    /// Targets that stay; empty for all. The first is the default, if the old default goes.
    pub keep: &'a [String],
    /// Files that are promoted; empty for all.
    pub include: &'a [String],
    /// Files that are left behind.
    pub ignore: &'a [String],
    /// Files that are copied unchanged, whatever they are.
    pub copy: &'a [String],
    /// More members of packages that get the new version.
    pub also_in: &'a [String],
    /// Members that may keep the old version.
    pub accept: &'a [String],
    /// Folders with packages that fulfil requirements of the set.
    pub beside: &'a [PathBuf],
    /// Names of more files that do, such as those of the stream that the set goes into.
    pub published: &'a [String],
}

/// What a promotion does to each file.
#[derive(Debug, Serialize)]
pub struct PromotionPlan {
    /// The folder of the set.
    pub folder: PathBuf,
    /// The version of the set.
    pub from: String,
    /// The version that it gets.
    pub to: String,
    /// The targets that stay; `None` for all.
    pub targets: Option<Vec<String>>,
    /// The files, sorted by name.
    pub files: Vec<PlannedPromotion>,
    /// Remarks about the folder.
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

/// What a promotion does to one file.
#[derive(Debug, Serialize)]
pub struct PlannedPromotion {
    /// Its name.
    pub name: String,
    /// Its new name; `None` if it is left out, being for a target that does not stay.
    pub new_name: Option<String>,
    /// Its format.
    pub kind: SetFileKind,
    /// Its size in bytes.
    pub size: u64,
    /// Its version; `None` for a file that is copied.
    pub version: Option<String>,
    /// Its new version.
    pub new_version: Option<String>,
    /// Texts in it that change.
    pub texts: Vec<TextChange>,
    /// Members with another name: the old one and the new one.
    pub renamed: Vec<(String, String)>,
    /// Remarks for the user.
    pub notes: Vec<String>,
    #[serde(skip)]
    path: PathBuf,
    #[serde(skip)]
    steps: Steps,
    /// The new metadata of a package.
    #[serde(skip)]
    pub(crate) metadata: Option<String>,
}

/// How a file is made.
#[derive(Debug)]
enum Steps {
    /// It is not made.
    LeaveOut,
    /// Byte for byte.
    Copy,
    Wheel(wheel::WheelSteps),
    /// A `.tar.gz`.
    Archive(archive::TarPatch),
    /// These bytes.
    Text(String),
}

impl PlannedPromotion {
    /// The file that it is made from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn new(file: &SetFile, size: u64) -> PlannedPromotion {
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
            steps: Steps::Copy,
            metadata: None,
        }
    }
}
