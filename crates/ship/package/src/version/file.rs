//! Input: the text of TheRock's `version.json`. Output: the base version and the day of the "best
//! known configuration" it is built from.

use std::fmt;
use std::str::FromStr;

use super::Error;

/// A day of the calendar; displayed as YYYYMMDD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date(jiff::civil::Date);

impl From<jiff::civil::Date> for Date {
    fn from(date: jiff::civil::Date) -> Self {
        Self(date)
    }
}

impl FromStr for Date {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Date { value: text.to_owned() };
        if text.len() != 8 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let number = |range: std::ops::Range<usize>| text[range].parse::<i16>().map_err(|_| wrong());
        let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
        jiff::civil::Date::new(year, month as i8, day as i8).map(Self).map_err(|_| wrong())
    }
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
    pub fn parse(text: &str, path: &str) -> Result<Self, Error> {
        let raw: Raw =
            serde_json::from_str(text).map_err(|source| Error::VersionFile { path: path.to_owned(), source })?;
        check_base(&raw.rocm_version)?;
        let base_date = match raw.release_metadata.base_date.as_str() {
            "" => None,
            text => Some(text.parse()?),
        };
        Ok(Self { rocm_version: raw.rocm_version, base_date })
    }
}

/// Checks for three numbers without leading zeros, which installers would drop.
pub(super) fn check_base(base: &str) -> Result<(), Error> {
    let parts: Vec<&str> = base.split('.').collect();
    let plain = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) && (*part == "0" || !part.starts_with('0'))
    };
    if parts.len() == 3 && parts.iter().all(plain) { Ok(()) } else { Err(Error::Base { value: base.to_owned() }) }
}
