//! Input: the findings of the checks. Output: a [`VerificationReport`], which is printed as text or
//! as JSON.

use std::fmt;

use serde::Serialize;

use crate::plan::UnchangedReason;

/// The result of [`crate::verify()`].
#[derive(Debug, Clone, Default, Serialize)]
pub struct VerificationReport {
    /// The files with GPU code, sorted by path.
    pub binaries: Vec<Checked>,
    /// Number of archives that were read.
    pub archives: u64,
    /// Number of other files and links that were compared.
    pub others: u64,
    /// All differences, sorted by path; empty if the result is correct.
    pub differences: Vec<Difference>,
    /// Oddities that existed before the split, sorted by path.
    pub notes: Vec<Difference>,
}

/// The result for one file with GPU code.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Checked {
    pub path: String,
    pub wrappers: u64,
    pub bundles: u64,
    /// Number of code objects that the runtime finds and that are byte for byte those of the
    /// original.
    pub code_objects: u64,
    /// Bytes of these code objects.
    pub bytes: u64,
    /// Targets of these code objects, in numeric order.
    pub targets: Vec<String>,
    /// The reason why the file stayed unchanged, if it did.
    pub left_alone: Option<UnchangedReason>,
    pub differences: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    pub path: String,
    /// Index of the wrapper, if the difference is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrapper: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The difference, as a phrase that continues the path.
    pub what: String,
}

impl Difference {
    /// Creates a difference of a file as a whole.
    pub fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), wrapper: None, target: None, what: what.into() }
    }

    #[must_use]
    pub fn wrapper(self, wrapper: usize) -> Self {
        Self { wrapper: Some(wrapper), ..self }
    }

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

impl VerificationReport {
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }

    /// Returns the number of code objects that were compared, and their bytes.
    pub fn code(&self) -> (u64, u64) {
        let count = self.binaries.iter().map(|binary| binary.code_objects).sum();
        (count, self.binaries.iter().map(|binary| binary.bytes).sum())
    }

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
