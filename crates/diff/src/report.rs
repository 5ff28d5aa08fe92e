//! What a comparison comes to: serialisable, in an order that depends on names only.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::change::{Change, ChangeKind};

/// The answer to one comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What there was.
    pub old: PathBuf,
    /// What there is now.
    pub new: PathBuf,
    /// Every package of both sides, sorted by name.
    pub packages: Vec<PackageReport>,
}

/// One package of both sides, or of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PackageReport {
    /// The distribution, or the name of the archive; empty for files that are in no package.
    pub name: String,
    /// What there was.
    pub old: Option<Described>,
    /// What there is now.
    pub new: Option<Described>,
    /// How many files have the same bytes, path and mode.
    pub same: u64,
    /// Differences of the package as a whole.
    pub changes: Vec<Change>,
    /// Files that are not the same, sorted by path.
    pub files: Vec<FileReport>,
    /// GPU code by target, in files that are not the same.
    pub targets: BTreeMap<String, Sizes>,
}

/// One side of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Described {
    /// The file or folder.
    pub path: PathBuf,
    /// The version that the file name says.
    pub version: Option<String>,
    /// Bytes of the file; of all files, for a folder.
    pub size: u64,
    /// Bytes of all files in it.
    pub unpacked: u64,
    /// How many files and links.
    pub files: u64,
    /// The platform tag that the symbols of its programs and libraries allow at best; only for
    /// wheels with such files.
    pub floor: Option<String>,
}

/// A file that is not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// Where it is now, or was.
    pub path: String,
    /// Where it was, if that was elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// How much of it is kept.
    pub kept: Kept,
    /// Bytes.
    pub sizes: Sizes,
    /// What differs.
    pub changes: Vec<Change>,
    /// What is not the same and means the same, and what was not looked at.
    pub notes: Vec<String>,
}

/// How much of a file is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// The same bytes at another path.
    Moved,
    /// Other bytes that mean the same.
    Meaning,
    /// Some of it.
    Some,
    /// It is only on one side.
    Nothing,
}

/// Bytes on both sides; `None` where there is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// What there was.
    pub old: Option<u64>,
    /// What there is now.
    pub new: Option<u64>,
}

impl Sizes {
    /// Adds to both sides.
    pub(crate) fn add(&mut self, other: Sizes) {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (None, None) => None,
            _ => Some(one.unwrap_or(0) + other.unwrap_or(0)),
        };
        (self.old, self.new) = (sum(self.old, other.old), sum(self.new, other.new));
    }
}

impl Report {
    /// Every change with its package and, where it is about one, its file.
    pub fn changes(&self) -> impl Iterator<Item = (&PackageReport, Option<&FileReport>, &Change)> {
        self.packages.iter().flat_map(|package| {
            let whole = package.changes.iter().map(move |change| (package, None, change));
            let files = package.files.iter();
            whole
                .chain(files.flat_map(move |file| file.changes.iter().map(move |change| (package, Some(file), change))))
        })
    }

    /// Hands every change to `each`, with the name of its package and the path of its file.
    pub(crate) fn for_each_change(&mut self, mut each: impl FnMut(&str, &str, &mut Change)) {
        for package in &mut self.packages {
            package.changes.iter_mut().for_each(|change| each(&package.name, "", change));
            for file in &mut package.files {
                file.changes.iter_mut().for_each(|change| each(&package.name, &file.path, change));
            }
        }
    }

    /// How many changes there are that nobody has accepted.
    pub fn unaccepted(&self) -> usize {
        self.changes().filter(|(_, _, change)| change.accepted.is_none()).count()
    }

    /// How many files are the same, by bytes.
    pub fn same(&self) -> u64 {
        self.packages.iter().map(|package| package.same).sum()
    }

    /// Whether the two sides are the same or mean the same.
    pub fn is_equal(&self) -> bool {
        self.changes().next().is_none()
    }
}

impl FileReport {
    /// A file of one side.
    pub(crate) fn alone(path: &str, kind: ChangeKind, sizes: Sizes) -> FileReport {
        let (changes, notes) = (vec![Change::new(kind)], Vec::new());
        FileReport { path: path.to_owned(), old_path: None, kept: Kept::Nothing, sizes, changes, notes }
    }
}
