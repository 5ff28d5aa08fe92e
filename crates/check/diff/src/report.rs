//! The result of a comparison: serialisable, in an order that depends on names only.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::change::{Change, ChangeKind};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparisonReport {
    pub old: PathBuf,
    pub new: PathBuf,
    /// All packages of both sides, sorted by name.
    pub packages: Vec<PackageReport>,
}

/// A package of both sides, or of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PackageReport {
    /// Name of the distribution or archive; empty for files that are in no package.
    pub name: String,
    pub old: Option<Described>,
    pub new: Option<Described>,
    /// Number of files with the same bytes, path and mode.
    pub same: u64,
    /// Differences of the package as a whole.
    pub changes: Vec<Change>,
    /// Files that differ, sorted by path.
    pub files: Vec<FileReport>,
    /// Sizes of GPU code by target, in files that differ.
    pub targets: BTreeMap<String, Sizes>,
}

/// The package on one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Described {
    pub path: PathBuf,
    /// The version in the file name.
    pub version: Option<String>,
    /// Size in bytes of the file, or of all files of a folder.
    pub size: u64,
    /// Size in bytes of all files in it, uncompressed.
    pub unpacked: u64,
    /// Number of files and links.
    pub files: u64,
    /// The best platform tag that the symbols of its programs and libraries allow; only for wheels
    /// with such files.
    pub floor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// Path in the new package, or in the old one if the file is lost.
    pub path: String,
    /// Path in the old package, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// The part of the file that is unchanged.
    pub kept: Kept,
    /// Sizes of the file in bytes.
    pub sizes: Sizes,
    pub changes: Vec<Change>,
    /// Differences without meaning, and parts that were not compared.
    pub notes: Vec<String>,
}

/// The part of a file that is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// The same bytes at another path.
    Moved,
    /// Different bytes with the same meaning.
    Meaning,
    /// Everything but the version of a package.
    AllButVersion,
    /// Some of the file.
    Some,
    /// Nothing: the file is only on one side.
    Nothing,
}

/// Sizes on both sides in bytes; `None` if the side has no such file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    pub old: Option<u64>,
    pub new: Option<u64>,
}

impl Sizes {
    pub(crate) fn add(&mut self, other: Sizes) {
        for (sum, size) in [(&mut self.old, other.old), (&mut self.new, other.new)] {
            if let Some(size) = size {
                *sum.get_or_insert(0) += size;
            }
        }
    }
}

impl ComparisonReport {
    /// Returns every change with its package and, unless it is about the package, its file.
    pub fn changes(&self) -> impl Iterator<Item = (&PackageReport, Option<&FileReport>, &Change)> {
        self.packages.iter().flat_map(|package| {
            let whole = package.changes.iter().map(move |change| (package, None, change));
            let files = package.files.iter();
            whole
                .chain(files.flat_map(move |file| file.changes.iter().map(move |change| (package, Some(file), change))))
        })
    }

    /// Calls `each` for every change, with the name of its package and the path of its file.
    pub(crate) fn for_each_change(&mut self, mut each: impl FnMut(&str, &str, &mut Change)) {
        for package in &mut self.packages {
            package.changes.iter_mut().for_each(|change| each(&package.name, "", change));
            for file in &mut package.files {
                file.changes.iter_mut().for_each(|change| each(&package.name, &file.path, change));
            }
        }
    }

    /// Returns the number of changes that are not accepted.
    pub fn unaccepted(&self) -> usize {
        self.changes().filter(|(_, _, change)| change.accepted.is_none()).count()
    }

    pub fn same(&self) -> u64 {
        self.packages.iter().map(|package| package.same).sum()
    }

    /// `true` if a version changed, and otherwise at most texts, fields and requirements that name
    /// it.
    pub fn differs_only_in_version(&self) -> bool {
        let mut kinds = self.changes().map(|(_, _, change)| change.kind).peekable();
        kinds.peek().is_some() && kinds.all(ChangeKind::is_version)
    }

    /// `true` if the two sides are the same or mean the same.
    pub fn is_equal(&self) -> bool {
        self.changes().next().is_none()
    }
}

impl FileReport {
    /// Returns the report of a file that only one side has.
    pub(crate) fn alone(path: &str, kind: ChangeKind, sizes: Sizes) -> FileReport {
        let (changes, notes) = (vec![Change::new(kind)], Vec::new());
        FileReport { path: path.to_owned(), old_path: None, kept: Kept::Nothing, sizes, changes, notes }
    }
}
