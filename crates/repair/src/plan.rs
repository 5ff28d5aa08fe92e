//! What will be done to one wheel, as plain data: `--dry-run` prints it, `--json` hands it to
//! machines, and [`super::execute`] walks it without deciding anything.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use rocwheel_rocm::providers::Kind;

/// What kind of repair it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Libraries of this machine go into the wheel.
    Graft,
    /// The same, but ROCm, torch and the driver stay out and are found in the wheels beside this
    /// one.
    Rocm,
    /// A whole ROCm goes into the wheel.
    Fat,
}

/// Everything that will be done.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// The wheel.
    pub input: PathBuf,
    /// File name of the result.
    pub output: String,
    /// The mode, chosen by the user or by what the files need.
    pub mode: Mode,
    /// Libraries that are copied into the wheel, by the name they get.
    pub grafted: Vec<Graft>,
    /// Binaries that change, by member.
    pub edits: Vec<FileEdit>,
    /// Libraries that are needed and left out.
    pub kept_out: Vec<KeptOut>,
    /// Members that are added or get another text, without the grafted libraries.
    pub texts: Vec<WrittenText>,
    /// Requirements that change.
    pub requirements: Vec<Requirement>,
    /// Files of a ROCm tree that come in.
    pub tree: Option<RocmTree>,
    /// Platform tags.
    pub tags: Tags,
    /// Versions before and after, when the version changes.
    pub version: Option<ValueChange>,
    /// Whether symbol tables and debug sections are removed from grafted and changed binaries.
    pub strip: bool,
    /// What a reader should know, in sentences.
    pub notes: Vec<String>,
}

impl Plan {
    /// Whether the result is a copy of the wheel under its own name.
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

/// A value before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ValueChange {
    /// As it is.
    pub before: String,
    /// As it will be.
    pub after: String,
}

/// A library that is copied into the wheel.
#[derive(Debug, Clone, Serialize)]
pub struct Graft {
    /// The name by which files need it.
    pub library: String,
    /// The name it gets: with eight digits of its SHA-256.
    pub name: String,
    /// The member it becomes.
    pub member: String,
    /// The file, links followed.
    pub source: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// Who needs it: members of the wheel, and grafted libraries by their source's name.
    pub needed_by: Vec<String>,
    /// The directories or entry through which it was found.
    pub found_by: String,
    /// The package of this machine that it comes from.
    pub package: Option<Package>,
    /// Whether the file may be executed.
    pub executable: bool,
    /// What changes in it.
    pub edit: Edit,
}

/// A package of the system's package manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version, with epoch and revision.
    pub version: String,
    /// The package's address (purl specification).
    pub purl: String,
    /// Licences that its copyright file names, as it spells them.
    pub licenses: Vec<String>,
    /// The copyright file.
    pub copyright: Option<PathBuf>,
}

/// What changes in an ELF file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The new search path, written as `DT_RPATH`; none of it removes the search path; `None`
    /// leaves it.
    pub search_path: Option<Vec<String>>,
    /// Entries of the old search path that go.
    pub dropped: Vec<String>,
    /// The new SONAME.
    pub soname: Option<String>,
    /// Needed names that change, from old to new; in the versions needed too.
    pub needed: BTreeMap<String, String>,
    /// Needed names that go.
    pub removed: Vec<String>,
    /// Whether its symbol table and debug sections are removed first.
    pub strip: bool,
    /// Whether it no longer asks for a stack on which code can be run, which nothing in it needs.
    pub stack: bool,
}

impl Edit {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Edit::default()
    }
}

/// A binary of the wheel or of the ROCm tree that changes.
#[derive(Debug, Clone, Serialize)]
pub struct FileEdit {
    /// The member, under its old name.
    pub member: String,
    /// The new name of a program of the scripts folder, which no search path can be relative to: a
    /// script starts it from there.
    pub moved_to: Option<String>,
    /// What changes.
    pub edit: Edit,
}

/// Why a needed library is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// `--exclude`.
    Excluded,
    /// A wheel that was named has it.
    Beside,
    /// Its family belongs to another distribution or to the driver.
    Family(Kind),
}

/// A needed library that is left out.
#[derive(Debug, Clone, Serialize)]
pub struct KeptOut {
    /// The needed name.
    pub library: String,
    /// Why.
    pub reason: Reason,
    /// The distribution that has it.
    pub distribution: Option<String>,
    /// Where it will be, relative to site-packages.
    pub directory: Option<String>,
    /// Who needs it.
    pub needed_by: Vec<String>,
}

/// A text that is written: a new member, or another text of one that is there.
#[derive(Debug, Clone, Serialize)]
pub struct WrittenText {
    /// The member.
    pub member: String,
    /// What it is for.
    pub purpose: String,
    /// Whether the member is there already.
    pub replaces: bool,
    /// Whether it may be executed.
    #[serde(skip)]
    pub executable: bool,
    /// The whole text.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

/// A requirement that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Requirement {
    /// As METADATA has it; `None` when it is new.
    pub before: Option<String>,
    /// As METADATA will have it; `None` when it goes.
    pub after: Option<String>,
}

/// A ROCm tree that comes into the wheel.
#[derive(Debug, Clone, Serialize)]
pub struct RocmTree {
    /// The tree's folder on this machine.
    pub source: PathBuf,
    /// The folder it becomes, relative to site-packages.
    pub folder: String,
    /// The files, by member.
    pub files: Vec<TreeFile>,
    /// Bytes of all files.
    pub size: u64,
    /// What stays out, and why: paths in the tree.
    pub left_out: BTreeMap<String, Vec<String>>,
}

/// A file of a ROCm tree.
#[derive(Debug, Clone, Serialize)]
pub struct TreeFile {
    /// The member it becomes.
    pub member: String,
    /// The file, links followed.
    pub source: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Whether it may be executed.
    pub executable: bool,
}

/// Platform tags before and after, and why.
#[derive(Debug, Clone, Serialize)]
pub struct Tags {
    /// Those of the file name.
    pub before: Vec<String>,
    /// Those of the result.
    pub after: Vec<String>,
    /// The lowest tag that all binaries together deserve.
    pub floor: String,
    /// What keeps it from being lower.
    pub reasons: Vec<String>,
    /// Tags that promise more than the files keep, and go.
    pub untrue: Vec<String>,
    /// The new text of WHEEL, when it changes.
    #[serde(skip)]
    pub wheel: Option<String>,
}
