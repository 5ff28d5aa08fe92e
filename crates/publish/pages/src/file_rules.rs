//! Input: what a file's name, its metadata and its attestations say. Output: why pip or uv would
//! not find or install it from an index.
//!
//! These are the rules of `index build`, `release publish` and `index check`: the first two refuse
//! what breaks one, and the third reports it as an error. Those for several files are
//! [`clashes`](crate::listing::clashes).

use std::str::FromStr as _;

use pep440_rs::{Version, VersionSpecifiers};
use rocwheel_store::listing::StoredDistribution;
use rocwheel_wheel::{Headers, canonical_name};

/// Checks the name of a file, and what its page says of Pythons. The error is the reason.
pub(crate) fn check_listed(file: &StoredDistribution, requires_python: Option<&str>) -> Result<(), String> {
    if let Some(build) = file.wheel.as_ref().and_then(|wheel| wheel.build.as_ref())
        && !build.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.".contains(letter))
    {
        return Err(format!(
            "its build tag `{build}` should be letters, digits, `_` and `.`, or no installer finds it"
        ));
    }
    match requires_python {
        Some(text) if !is_readable(text) => Err(format!(
            "it has a Requires-Python that cannot be read, `{text}`: uv finds no version, and pip takes it for any Python"
        )),
        _ => Ok(()),
    }
}

/// `true` for a Requires-Python that installers can read. They also read `>=3.6.*`, which older
/// tools wrote.
fn is_readable(requires_python: &str) -> bool {
    [requires_python, &requires_python.replace(".*", "")].iter().any(|text| VersionSpecifiers::from_str(text).is_ok())
}

/// Compares metadata with the name of the file: installers believe the name first and metadata
/// later, and fail where they differ. The error is the reason.
pub(crate) fn check_metadata(headers: &Headers, file: &StoredDistribution) -> Result<(), String> {
    let name = headers.get("Name").unwrap_or_default();
    if canonical_name(&name) != file.project {
        return Err(format!("its metadata is of `{name}`, and its name of `{}`", file.project));
    }
    let version = headers.get("Version").unwrap_or_default();
    if version.parse::<Version>().as_ref() != Ok(&file.version) {
        return Err(format!("its metadata is of version `{version}`, and its name of `{}`", file.version));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rocwheel_store::StoredFile;
    use rocwheel_store::listing::distribution;

    use super::*;

    fn file(name: &str) -> StoredDistribution {
        distribution(StoredFile { key: name.to_owned(), size: 1, stamp: String::new() }).unwrap()
    }

    #[test]
    fn what_an_installer_does_not_find_is_refused() {
        let plain = "foo-1.0-py3-none-any.whl";
        for (name, python, reason) in [
            (plain, None, None),
            (plain, Some(">=3.9"), None),
            (plain, Some(">=3.6.*"), None),
            (plain, Some(">=3.9, !=3.9.1, <4"), None),
            ("foo-1.0-1rocm_7.2-py3-none-any.whl", None, None),
            ("foo-1.0.tar.gz", Some(">=3.x"), Some("`>=3.x`: uv finds no version")),
            (plain, Some(">=3.x"), Some("`>=3.x`: uv finds no version")),
            (plain, Some("=>3.8"), Some("`=>3.8`: uv finds no version")),
            (plain, Some("3.9"), Some("`3.9`: uv finds no version")),
            ("foo-1.0-1+rocm-py3-none-any.whl", None, Some("build tag `1+rocm`")),
        ] {
            let said = check_listed(&file(name), python).err();
            assert_eq!(said.is_some(), reason.is_some(), "{name} {python:?}: {said:?}");
            assert!(said.unwrap_or_default().contains(reason.unwrap_or_default()), "{name} {python:?}");
        }
    }

    #[test]
    fn metadata_is_of_the_distribution_in_the_name() {
        let said = |text: &str| check_metadata(&Headers::parse(text), &file("Foo-1.0-py3-none-any.whl")).err();
        assert_eq!(said("Name: foo\nVersion: 1.0.0\n"), None);
        assert_eq!(said("Name: bar\nVersion: 1.0\n").unwrap(), "its metadata is of `bar`, and its name of `foo`");
        let version = "its metadata is of version `2.0`, and its name of `1.0`";
        assert_eq!(said("Name: foo\nVersion: 2.0\n").unwrap(), version);
        assert!(said("").is_some());
    }
}
