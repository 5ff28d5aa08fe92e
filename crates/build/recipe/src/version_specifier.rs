//! Version specifiers (PEP 440) in the tables.

use std::str::FromStr as _;

use pep440_rs::{Version, VersionSpecifiers};

use crate::error::Error;

/// `true` if a version fits a specifier. A text that is not a version fits none.
pub(crate) fn fits(specifier: &str, version: Option<&str>, path: &str) -> Result<bool, Error> {
    let specifiers = VersionSpecifiers::from_str(specifier)
        .map_err(|error| Error::malformed(path, format!("`{specifier}` is no specifier: {error}")))?;
    Ok(version
        .and_then(|version| Version::from_str(version).ok())
        .is_some_and(|version| rocwheel_wheel::accepts(&specifiers, &version)))
}
