//! The changes to one wheel as plain data: `--dry-run` prints it, `--json` prints it for programs,
//! and [`super::execute`] follows it without any decision.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use rocwheel_tables::LibraryProduct;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RepairMode {
    /// Libraries of this machine are copied into the wheel.
    Graft,
    /// Like graft, but libraries of ROCm, torch and the driver are not copied; they are found in
    /// other packages.
    Rocm,
    /// A whole ROCm is added to the wheel.
    Fat,
}

/// All changes to one wheel.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    pub input: PathBuf,
    pub output: String,
    /// The mode, chosen by the user or by the needs of the files.
    pub mode: RepairMode,
    /// Libraries that are copied into the wheel, sorted by their new names.
    pub grafted: Vec<Graft>,
    pub edits: Vec<FileEdit>,
    pub kept_out: Vec<KeptOut>,
    /// Members that are added or whose text changes, without the grafted libraries.
    pub texts: Vec<WrittenText>,
    /// Requirements of METADATA that change.
    pub requirements: Vec<RequirementChange>,
    /// Files of a ROCm tree that are added.
    pub tree: Option<RocmTree>,
    pub tags: Tags,
    /// The old and the new version; `None` if the version does not change.
    pub version: Option<ValueChange>,
    /// `true` if symbol tables and debug sections are removed from grafted and changed binaries.
    pub strip: bool,
    pub notes: Vec<String>,
}

impl Plan {
    /// `true` if the result is a copy of the wheel with the same name.
    pub fn is_empty(&self) -> bool {
        self.grafted.is_empty()
            && self.edits.is_empty()
            && self.texts.is_empty()
            && self.requirements.is_empty()
            && self.tree.is_none()
            && self.version.is_none()
            && self.tags.before == self.tags.after
            && self.tags.wheel.is_none()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ValueChange {
    pub before: String,
    pub after: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct Graft {
    /// The name by which files need it.
    pub library: String,
    /// Its new name, which contains eight digits of its SHA-256.
    pub name: String,
    /// The member it becomes.
    pub member: String,
    /// The file, with links resolved.
    pub source: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// The files that need it: members of the wheel, and grafted libraries by the file names of
    /// their sources.
    pub needed_by: Vec<String>,
    /// The directories or the entry through which it was found.
    pub found_by: String,
    /// The package of this machine that contains it.
    pub package: Option<SystemPackage>,
    pub executable: bool,
    pub edit: PlannedEdit,
}

/// A package of the system's package manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SystemPackage {
    pub name: String,
    /// Its version, with epoch and revision.
    pub version: String,
    /// The package URL (purl specification).
    pub purl: String,
    /// Licences in its copyright file, in its spelling.
    pub licenses: Vec<String>,
    /// Path of the copyright file.
    pub copyright: Option<PathBuf>,
}

/// The changes in an ELF file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PlannedEdit {
    /// The new search path, written as `DT_RPATH`. `Some` of an empty list removes the search path,
    /// `None` keeps it.
    pub search_path: Option<Vec<String>>,
    /// Entries of the old search path that are removed.
    pub dropped: Vec<String>,
    /// The new SONAME; `None` keeps it.
    pub soname: Option<String>,
    /// Renames in NEEDED, from old to new, which also apply to the version needs.
    pub needed: BTreeMap<String, String>,
    /// Names that are removed from NEEDED.
    pub removed: Vec<String>,
    /// `true` if its symbol table and debug sections are removed first.
    pub strip: bool,
    /// `true` if its request for an executable stack, which no code in it needs, is removed.
    pub stack: bool,
}

impl PlannedEdit {
    pub fn is_empty(&self) -> bool {
        *self == PlannedEdit::default()
    }
}

/// A binary of the wheel or of the ROCm tree that changes.
#[derive(Debug, Clone, Serialize)]
pub struct FileEdit {
    /// The member, under its old name.
    pub member: String,
    /// The new name of a program of the scripts folder. No search path can be relative to that
    /// folder, so a script there starts the program at its new path.
    pub moved_to: Option<String>,
    pub edit: PlannedEdit,
}

/// The reason why a needed library is not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NotCopiedReason {
    /// The user excluded it with `--exclude`.
    Excluded,
    /// A wheel that was passed with `--with` contains it.
    Beside,
    /// Its family belongs to another distribution or to the driver.
    Family(LibraryProduct),
}

/// A library that is needed but not copied.
#[derive(Debug, Clone, Serialize)]
pub struct KeptOut {
    /// The name in NEEDED.
    pub library: String,
    pub reason: NotCopiedReason,
    /// The distribution that contains it.
    pub distribution: Option<String>,
    /// The folder that will contain it, relative to site-packages.
    pub directory: Option<String>,
    /// The files that need it.
    pub needed_by: Vec<String>,
}

/// A text that is written: a new member, or a new text of an existing one.
#[derive(Debug, Clone, Serialize)]
pub struct WrittenText {
    /// Name of the member, a path in the wheel.
    pub member: String,
    pub purpose: String,
    /// `true` if the member exists already.
    pub replaces: bool,
    #[serde(skip)]
    pub executable: bool,
    /// The whole text, in bytes.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequirementChange {
    /// `None` for a new requirement.
    pub before: Option<String>,
    /// `None` for a removed requirement.
    pub after: Option<String>,
}

/// A ROCm tree that is added to the wheel.
#[derive(Debug, Clone, Serialize)]
pub struct RocmTree {
    /// The tree's folder on this machine.
    pub source: PathBuf,
    /// Its folder in the wheel, relative to site-packages.
    pub folder: String,
    /// The files, by member.
    pub files: Vec<TreeFile>,
    /// Size of all files in bytes.
    pub size: u64,
    /// Files that are not added, by reason, as paths in the tree.
    pub left_out: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, Serialize)]
pub struct TreeFile {
    /// The member it becomes.
    pub member: String,
    /// The file, with links resolved.
    pub source: PathBuf,
    /// Size in bytes.
    pub size: u64,
    pub executable: bool,
}

/// The old and the new platform tags, with the reasons.
#[derive(Debug, Clone, Serialize)]
pub struct Tags {
    /// Those in the old file name.
    pub before: Vec<String>,
    /// Those in the new file name.
    pub after: Vec<String>,
    /// The lowest tag that fits all binaries together.
    pub floor: String,
    /// The needs that prevent a lower one.
    pub reasons: Vec<String>,
    /// Tags that are removed because the files do not fit them.
    pub untrue: Vec<String>,
    /// The new text of WHEEL; `None` if it does not change.
    #[serde(skip)]
    pub wheel: Option<String>,
}
