//! Errors in the parts of a version.

use rocwheel_progress::{Exit, Hint};

/// Errors of making and comparing versions. The cause is always a wrong argument or a wrong
/// `version.json`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The base version is not three numbers.
    #[error("the base version `{value}` is not of the form X.Y.Z")]
    Base {
        /// The text as given.
        value: String,
    },
    /// A date that does not exist in the calendar.
    #[error("`{value}` is not a valid date in YYYYMMDD format")]
    Date {
        /// The text as given.
        value: String,
    },
    /// A commit that is not hexadecimal or has an unusual length.
    #[error("`{value}` is not a git commit: 7 to 64 hexadecimal digits are expected")]
    Commit {
        /// The text as given.
        value: String,
    },
    /// A release candidate without a number.
    #[error("release type `prerelease` needs the number of the release candidate")]
    PrereleaseMissing,
    /// A "best known configuration" without a date.
    #[error("release type `{release_type}` needs `release-metadata.base-date` in version.json")]
    BaseDateMissing {
        /// Name of the release type.
        release_type: &'static str,
    },
    /// A development build without a commit.
    #[error("release type `{release_type}` needs the git commit")]
    CommitMissing {
        /// Name of the release type.
        release_type: &'static str,
    },
    /// An option that would have no effect.
    #[error("`{option}` has no meaning for {form}")]
    Unused {
        /// The option of the command line.
        option: &'static str,
        /// The requested form, in words.
        form: String,
    },
    /// The wheel's version does not conform to PEP 440.
    #[error("`{value}` is not a version that pip accepts (PEP 440)")]
    NotPep440 {
        /// The version.
        value: String,
    },
    /// The wheel's version is not in its canonical form, which installers use.
    #[error("pip would rewrite the version `{value}` to `{canonical}` (PEP 440) and not find its files")]
    NotCanonical {
        /// The version.
        value: String,
        /// The version in canonical form.
        canonical: String,
    },
    /// `version.json` is not JSON, lacks a field, or has a field of the wrong type.
    #[error("cannot understand `{path}`")]
    VersionFile {
        /// Path of the file, as the caller named it.
        path: String,
        /// The parser's error.
        source: serde_json::Error,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Base { .. } => "give three numbers, for example `--override-base-version 7.1.0`".to_owned(),
            Self::Date { .. } => "write for example 20260811".to_owned(),
            Self::Commit { .. } => "give what `git rev-parse HEAD` prints".to_owned(),
            Self::PrereleaseMissing => "add `--prerelease-version N`".to_owned(),
            Self::BaseDateMissing { .. } => {
                "write {\"release-metadata\": {\"base-date\": \"YYYYMMDD\"}} into version.json, the day of the best known configuration".to_owned()
            }
            Self::CommitMissing { .. } => "run it in a git checkout, or add `--override-git-sha SHA`".to_owned(),
            Self::Unused { option, .. } => format!("leave `{option}` out"),
            Self::NotPep440 { .. } => {
                "suffixes that work are `rcN`, `aN`, `.postN`, `.devN` and `+` with letters, digits and dots".to_owned()
            }
            Self::NotCanonical { value, .. } if value.contains(".dev0+") => {
                "give the commit with all of its 40 digits: a short one of decimal digits only counts as a number"
                    .to_owned()
            }
            Self::NotCanonical { canonical, .. } => format!("use `{canonical}`"),
            Self::VersionFile { .. } => {
                "the file holds {\"rocm-version\": \"X.Y.Z\"} and optionally {\"release-metadata\": {\"base-date\": \"YYYYMMDD\"}}".to_owned()
            }
        })
    }

    fn exit(&self) -> Exit {
        match self {
            Self::VersionFile { .. } => Exit::Failed,
            _ => Exit::Usage,
        }
    }
}
