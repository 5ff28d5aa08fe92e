//! Input: the text of TheRock's `version.json`. Output: the base version and the day of the "best
//! known configuration" it is built from.

use rocwheel_progress::Failure;
use std::fmt;
use std::str::FromStr;

use super::usage;

/// A day of the calendar; displayed as YYYYMMDD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date(jiff::civil::Date);

impl From<jiff::civil::Date> for Date {
    fn from(date: jiff::civil::Date) -> Self {
        Self(date)
    }
}

impl FromStr for Date {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let date = parse_date(text).ok_or_else(|| {
            usage(format!("`{text}` is not a valid date in YYYYMMDD format"), "write for example 20260811")
        })?;
        Ok(Self(date))
    }
}

fn parse_date(text: &str) -> Option<jiff::civil::Date> {
    if text.len() != 8 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    jiff::civil::Date::new(text[..4].parse().ok()?, text[4..6].parse().ok()?, text[6..].parse().ok()?).ok()
}

impl fmt::Display for Date {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:04}{:02}{:02}", self.0.year(), self.0.month(), self.0.day())
    }
}

/// The contents of `version.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionFile {
    /// The base version `X.Y.Z`.
    pub rocm_version: String,
    /// The day of the "best known configuration"; an empty string in the file counts as absent.
    pub base_date: Option<Date>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Raw {
    rocm_version: String,
    #[serde(default)]
    release_metadata: RawMetadata,
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct RawMetadata {
    base_date: String,
}

impl VersionFile {
    /// Parses `text`; `path` is only used in errors. Unknown keys are allowed.
    ///
    /// # Errors
    /// The text is not JSON of that form, the version is not `X.Y.Z`, or the date is not in the
    /// calendar.
    pub fn parse(text: &str, path: &str) -> Result<Self, Failure> {
        let raw: Raw = serde_json::from_str(text).map_err(|error| {
            Failure::other(error).context(format!("cannot understand `{path}`")).with_hint(
                "the file holds {\"rocm-version\": \"X.Y.Z\"} and optionally {\"release-metadata\": {\"base-date\": \
                 \"YYYYMMDD\"}}",
            )
        })?;
        check_base(&raw.rocm_version)?;
        let base_date = match raw.release_metadata.base_date.as_str() {
            "" => None,
            text => Some(text.parse()?),
        };
        Ok(Self { rocm_version: raw.rocm_version, base_date })
    }
}

/// Checks for three numbers without leading zeros, which installers would drop.
pub(super) fn check_base(base: &str) -> Result<(), Failure> {
    let parts: Vec<&str> = base.split('.').collect();
    let are_plain = parts.iter().all(|part| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) && (*part == "0" || !part.starts_with('0'))
    });
    if parts.len() == 3 && are_plain {
        return Ok(());
    }
    let text = format!("the base version `{base}` is not of the form X.Y.Z");
    Err(usage(text, "give three numbers, for example `--override-base-version 7.1.0`"))
}
