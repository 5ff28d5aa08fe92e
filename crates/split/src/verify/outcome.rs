//! Input: what the checks saw. Output: a [`Report`] that people and machines read.

use std::fmt;

use serde::Serialize;

use crate::plan::Reason;

/// What [`crate::verify`] found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The files with GPU code, sorted by path.
    pub binaries: Vec<Checked>,
    /// How many archives were read.
    pub archives: u64,
    /// Other files and links that were compared.
    pub others: u64,
    /// What is not as it was; empty when everything is right. Sorted by path.
    pub differences: Vec<Difference>,
    /// What is strange and was so before, sorted by path.
    pub notes: Vec<Difference>,
}

/// What was checked of one file with GPU code.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Checked {
    /// Where it is installed.
    pub path: String,
    /// How many wrappers it has.
    pub wrappers: u64,
    /// How many bundles.
    pub bundles: u64,
    /// Code objects that the runtime finds and that are byte for byte those of the original.
    pub code_objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The targets they are for, in numeric order.
    pub targets: Vec<String>,
    /// Why it was left as it is, if it was.
    pub left_alone: Option<Reason>,
    /// How many differences it has.
    pub differences: u64,
}

/// Something that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    /// The file.
    pub path: String,
    /// The wrapper of the file, when it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrapper: Option<usize>,
    /// The GPU target, when it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// What is different.
    pub what: String,
}

impl Difference {
    /// A difference of a file as a whole.
    pub fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), wrapper: None, target: None, what: what.into() }
    }

    /// The same, about one wrapper.
    #[must_use]
    pub fn wrapper(self, wrapper: usize) -> Self {
        Self { wrapper: Some(wrapper), ..self }
    }

    /// The same, about one target.
    #[must_use]
    pub fn target(self, target: impl Into<String>) -> Self {
        Self { target: Some(target.into()), ..self }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`", self.path)?;
        if let Some(wrapper) = self.wrapper {
            write!(formatter, ", wrapper {wrapper}")?;
        }
        if let Some(target) = &self.target {
            write!(formatter, ", {target}")?;
        }
        write!(formatter, ": {}", self.what)
    }
}

impl Report {
    /// Whether everything is as it was.
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }

    /// Number of code objects that were compared, and their bytes.
    pub fn code(&self) -> (u64, u64) {
        let count = self.binaries.iter().map(|binary| binary.code_objects).sum();
        (count, self.binaries.iter().map(|binary| binary.bytes).sum())
    }

    /// Adds what another check found.
    pub fn merge(&mut self, other: Self) {
        self.binaries.extend(other.binaries);
        self.archives += other.archives;
        self.others += other.others;
        self.differences.extend(other.differences);
        self.notes.extend(other.notes);
    }

    /// Sorts, and counts the differences of each binary.
    pub(crate) fn finish(&mut self) {
        self.differences.sort();
        self.differences.dedup();
        self.notes.sort();
        self.notes.dedup();
        for binary in &mut self.binaries {
            binary.differences = self.differences.iter().filter(|found| found.path == binary.path).count() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_says_where_it_is() {
        let difference = Difference::new("lib/x.so", "is gone").wrapper(3).target("gfx942");
        assert_eq!(difference.to_string(), "`lib/x.so`, wrapper 3, gfx942: is gone");
    }
}
