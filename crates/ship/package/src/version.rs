//! Input: the release type, the base version, the date and the commit of a build. Output: the
//! version of its wheels, Debian packages and RPM packages. Also compares two versions and explains
//! which one pip installs.
//!
//! | release type | wheel | deb | rpm |
//! | --- | --- | --- | --- |
//! | release | `X.Y.Z` | `X.Y.Z` | `X.Y.Z` |
//! | prerelease | `X.Y.ZrcN` | `X.Y.Z~preN` | `X.Y.Z~rcN` |
//! | nightly | `X.Y.ZaDATE` | `X.Y.Z~DATE` | `X.Y.Z~DATE` |
//! | nightly-bkc | `X.Y.ZaBASE+bkc.DATE` | `X.Y.Z~BASE.bkc.DATE` | the same |
//! | ci, dev, dev-bkc | `X.Y.Z.dev0+SHA` | `X.Y.Z~devDATE` | `X.Y.Z~DATEgSHA8` |
//! | custom suffix | base and suffix as they are | | |
//!
//! A build that is repeated on the same day (or of the same commit) is `.postN` of the first one.
//! If the wheel's version has a local part, `.post.N` is appended to it: in front of the local
//! part, a repeated BKC build would sort above the builds of every later day, and a repeated dev
//! build above the release itself. The dot before N makes it a number: as text, `post9` is above
//! `post10`.

mod compare;
mod file;

use rocwheel_progress::{Exit, Failure};

pub use compare::{Comparison, compare};
pub use file::{Date, VersionFile};

/// The purpose of a build; the names are those of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseType {
    Release,
    Prerelease,
    Nightly,
    /// A nightly build of an older "best known configuration".
    NightlyBkc,
    Ci,
    Dev,
    /// A developer's build of a "best known configuration".
    DevBkc,
}

impl ReleaseType {
    /// Every type, in the order of the documentation.
    pub const ALL: [Self; 7] =
        [Self::Release, Self::Prerelease, Self::Nightly, Self::NightlyBkc, Self::Ci, Self::Dev, Self::DevBkc];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Prerelease => "prerelease",
            Self::Nightly => "nightly",
            Self::NightlyBkc => "nightly-bkc",
            Self::Ci => "ci",
            Self::Dev => "dev",
            Self::DevBkc => "dev-bkc",
        }
    }

    /// Returns the form of a wheel's version.
    pub fn shape(self) -> &'static str {
        match self {
            Self::Release => "X.Y.Z",
            Self::Prerelease => "X.Y.ZrcN",
            Self::Nightly => "X.Y.ZaDATE",
            Self::NightlyBkc => "X.Y.ZaBASE+bkc.DATE",
            Self::Ci | Self::Dev | Self::DevBkc => "X.Y.Z.dev0+SHA",
        }
    }

    /// `true` if the version contains the commit, which is then required.
    pub fn needs_commit(self) -> bool {
        matches!(self, Self::Ci | Self::Dev | Self::DevBkc)
    }

    /// `true` if the base date of `version.json` is required.
    pub fn needs_base_date(self) -> bool {
        matches!(self, Self::NightlyBkc | Self::DevBkc)
    }
}

/// The method by which the version is derived from the base version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionForm {
    /// By the table of release types.
    Type(ReleaseType),
    /// Base and suffix, the same text for wheel, deb and rpm.
    Suffix(String),
}

/// Everything that a version is made from.
#[derive(Debug, Clone)]
pub struct Request {
    /// The base version `X.Y.Z`.
    pub base: String,
    /// The method of extending the base version.
    pub form: VersionForm,
    /// The number of the release candidate; required for [`ReleaseType::Prerelease`] and refused
    /// otherwise.
    pub prerelease: Option<u32>,
    /// The day of the "best known configuration", from `version.json`.
    pub base_date: Option<Date>,
    pub date: Date,
    /// The commit in hexadecimal, 7 to 64 digits.
    pub commit: Option<String>,
    /// 0 for the first build of the day, N for its N-th repetition.
    pub rerun: u32,
}

/// The same version in the formats of three package managers.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Versions {
    /// PEP 440, canonical.
    pub wheel: String,
    /// Debian policy 5.6.12.
    pub deb: String,
    /// RPM, without release number.
    pub rpm: String,
}

impl Request {
    /// Derives the versions.
    ///
    /// # Errors
    /// A part that the form needs is missing or malformed, a part is given that the form does not
    /// use, or the wheel's version is not canonical, so that installers would rewrite it.
    pub fn versions(&self) -> Result<Versions, Failure> {
        file::check_base(&self.base)?;
        let mut versions = match &self.form {
            VersionForm::Suffix(suffix) => self.with_suffix(suffix)?,
            VersionForm::Type(release_type) => self.with_type(*release_type)?,
        };
        if self.rerun > 0 {
            let dot = if versions.wheel.contains('+') { "." } else { "" };
            versions.wheel = format!("{}.post{dot}{}", versions.wheel, self.rerun);
            versions.deb = format!("{}.post{}", versions.deb, self.rerun);
            versions.rpm = format!("{}.post{}", versions.rpm, self.rerun);
        }
        check_canonical(&versions.wheel)?;
        Ok(versions)
    }

    fn with_suffix(&self, suffix: &str) -> Result<Versions, Failure> {
        if self.prerelease.is_some() {
            return Err(unused("--prerelease-version", "a custom suffix"));
        }
        if self.rerun > 0 {
            return Err(unused("--rerun", "a custom suffix"));
        }
        let version = format!("{}{suffix}", self.base);
        Ok(Versions { wheel: version.clone(), deb: version.clone(), rpm: version })
    }

    fn with_type(&self, release_type: ReleaseType) -> Result<Versions, Failure> {
        let (base, date) = (&self.base, self.date);
        if release_type != ReleaseType::Prerelease && self.prerelease.is_some() {
            return Err(unused("--prerelease-version", &format!("release type `{}`", release_type.name())));
        }
        if release_type.needs_base_date() && self.base_date.is_none() {
            return Err(base_date_missing(release_type));
        }
        Ok(match release_type {
            ReleaseType::Release => Versions { wheel: base.clone(), deb: base.clone(), rpm: base.clone() },
            ReleaseType::Prerelease => {
                let number = self.prerelease.ok_or_else(|| {
                    let text = "release type `prerelease` needs the number of the release candidate";
                    usage(text.to_owned(), "add `--prerelease-version N`")
                })?;
                Versions {
                    wheel: format!("{base}rc{number}"),
                    deb: format!("{base}~pre{number}"),
                    rpm: format!("{base}~rc{number}"),
                }
            }
            ReleaseType::Nightly => {
                let system = format!("{base}~{date}");
                Versions { wheel: format!("{base}a{date}"), deb: system.clone(), rpm: system }
            }
            ReleaseType::NightlyBkc => {
                let base_date = self.base_date.ok_or_else(|| base_date_missing(release_type))?;
                let system = format!("{base}~{base_date}.bkc.{date}");
                Versions { wheel: format!("{base}a{base_date}+bkc.{date}"), deb: system.clone(), rpm: system }
            }
            ReleaseType::Ci | ReleaseType::Dev | ReleaseType::DevBkc => {
                let commit = self.commit.as_deref().ok_or_else(|| {
                    let text = format!("release type `{}` needs the git commit", release_type.name());
                    usage(text, "run it in a git checkout, or add `--override-git-sha SHA`")
                })?;
                let commit = checked_commit(commit)?;
                Versions {
                    wheel: format!("{base}.dev0+{commit}"),
                    deb: format!("{base}~dev{date}"),
                    rpm: format!("{base}~{date}g{}", commit.get(..8).unwrap_or(&commit)),
                }
            }
        })
    }
}

/// Returns the commit in lower case, the only one that local versions have (PEP 440, "Local version
/// identifiers").
fn checked_commit(commit: &str) -> Result<String, Failure> {
    let is_hexadecimal = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hexadecimal || !(7..=64).contains(&commit.len()) {
        let text = format!("`{commit}` is not a git commit: 7 to 64 hexadecimal digits are expected");
        return Err(usage(text, "give what `git rev-parse HEAD` prints"));
    }
    Ok(commit.to_ascii_lowercase())
}

/// Checks that a version is canonical. PEP 440 reads `+0123456` as the number 123456, so pip would
/// look for another file name than the existing one.
fn check_canonical(version: &str) -> Result<(), Failure> {
    let canonical = compare::parse(version)?.to_string();
    if canonical == version {
        return Ok(());
    }
    let text = format!("pip would rewrite the version `{version}` to `{canonical}` (PEP 440) and not find its files");
    if version.contains(".dev0+") {
        let hint = "give the commit with all of its 40 digits: a short one of decimal digits only counts as a number";
        return Err(usage(text, hint));
    }
    Err(usage(text, format!("use `{canonical}`")))
}

fn usage(text: String, hint: impl Into<String>) -> Failure {
    Failure::message(text).with_hint(hint).with_exit(Exit::Usage)
}

fn unused(option: &str, form: &str) -> Failure {
    usage(format!("`{option}` has no meaning for {form}"), format!("leave `{option}` out"))
}

/// A "best known configuration" without a date.
fn base_date_missing(release_type: ReleaseType) -> Failure {
    let text = format!("release type `{}` needs `release-metadata.base-date` in version.json", release_type.name());
    usage(
        text,
        "write {\"release-metadata\": {\"base-date\": \"YYYYMMDD\"}} into version.json, the day of the best known \
         configuration",
    )
}

#[cfg(test)]
mod tests;
