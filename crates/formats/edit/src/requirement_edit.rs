//! The changes of requirements and extras that a user can ask for.

use rocwheel_wheel::requirement::WrittenRequirement;
use rocwheel_wheel::{Error, canonical_name, check_name};

use crate::error::unusable;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequirementEdit {
    /// Adds this one, unless it exists already.
    Add(WrittenRequirement),
    /// Removes all requirements on this distribution; the name may have any spelling.
    Remove(String),
    /// Replaces all requirements on the same distribution. They keep their markers, unless this one
    /// has its own.
    Replace(WrittenRequirement),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtraEdit {
    /// Adds an extra, or a requirement of an existing one.
    Add {
        /// Its canonical name.
        name: String,
        /// The requirement; `None` adds only the extra.
        requirement: Option<WrittenRequirement>,
    },
    /// Removes the extra with this canonical name, and the requirements that only it has.
    Remove(String),
}

impl ExtraEdit {
    /// Parses `NAME` or `NAME:REQUIREMENT`.
    pub fn add(text: &str) -> Result<ExtraEdit, Error> {
        let (name, requirement) = match text.split_once(':') {
            Some((name, requirement)) => (name, Some(WrittenRequirement::parse(requirement)?)),
            None => (text, None),
        };
        Ok(ExtraEdit::Add { name: canonical_extra(name)?, requirement })
    }

    /// Parses the name of an extra to remove.
    pub fn remove(name: &str) -> Result<ExtraEdit, Error> {
        canonical_extra(name).map(ExtraEdit::Remove)
    }
}

/// Checks the name of an extra and returns its canonical form (PEP 685).
fn canonical_extra(extra: &str) -> Result<String, Error> {
    check_name(extra).map_err(|_| unusable("extra", extra, "letters, digits, `-`, `_` and `.` are expected"))?;
    Ok(canonical_name(extra))
}
