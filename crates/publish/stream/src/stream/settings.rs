//! Input: `stream.toml`, which the owner of a stream writes. Output: what the stream takes, how
//! long it keeps files, and when it ends.

use globset::{Glob, GlobSet, GlobSetBuilder};
use jiff::civil::Date;
use pep440_rs::Version;
use rocwheel_pages::IndexView;
use serde::{Deserialize, Serialize};
use url::Url;

use super::StreamFault;
use super::gate_policy::{GatePolicy, UntestedRule};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct StreamSettings {
    /// The kind of versions that it takes; `None`: any.
    pub kind: Option<VersionKind>,
    /// Patterns of the names of projects that installers get elsewhere, such as `numpy`.
    pub outside: Vec<String>,
    /// Days after which a snapshot is no longer to be trusted.
    pub expires_days: Option<u32>,
    /// The public address of the stream. Pages link attestations (PEP 740) with it.
    pub address: Option<Url>,
    /// Smaller indexes over the same files, for each Python or GPU target.
    pub views: Vec<IndexView>,
    /// How long files stay.
    pub retention: Retention,
    pub gate: GatePolicy,
    /// Sets are resolved by installers before they are published; `None`: nobody looks.
    pub install_check: Option<InstallRule>,
    pub deprecated: Option<StreamNotice>,
}

/// How long files of a stream stay. A file stays if any of the rules keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Retention {
    /// Files that were published less than this many days ago.
    pub days: Option<u32>,
    /// The newest versions of each project, so many.
    pub versions: Option<usize>,
    /// Patterns of sets that stay.
    pub keep_sets: Vec<String>,
    /// Snapshots whose files stay.
    pub keep_snapshots: Vec<u64>,
    /// Days between the moment in which pages list a file no more, and its deletion: lock files
    /// still name it.
    pub grace_days: u32,
    /// How many snapshots stay besides those of `keep_snapshots`.
    pub snapshots: usize,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            days: None,
            versions: None,
            keep_sets: Vec::new(),
            keep_snapshots: Vec::new(),
            grace_days: 14,
            snapshots: 100,
        }
    }
}

/// How a set is judged that pip and uv are asked for, from the stream with the public index beside
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct InstallRule {
    /// The rule for what they do not bring, or for which it cannot be told.
    pub unresolved: UntestedRule,
    /// `yes` (PyPI), `no`, or the address of another one.
    pub public_index: String,
}

impl Default for InstallRule {
    fn default() -> InstallRule {
        InstallRule { unresolved: UntestedRule::Blocked, public_index: "yes".to_owned() }
    }
}

/// The announced end of a stream. Installers show it on every project (PEP 792).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StreamNotice {
    /// Why, in a sentence.
    pub reason: Option<String>,
    /// The address of the index that replaces it.
    pub successor: Option<String>,
    /// The last day on which the address works.
    pub ends: Option<Date>,
}

impl StreamNotice {
    /// The notice in a line.
    pub fn text(&self) -> String {
        let reason = self.reason.clone().unwrap_or_else(|| "this index is deprecated".to_owned());
        let successor = self.successor.as_ref().map(|address| format!("; use {address}")).unwrap_or_default();
        let ends = self.ends.map(|day| format!("; it ends on {day}")).unwrap_or_default();
        format!("{reason}{successor}{ends}")
    }
}

/// What kind of build a version is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionKind {
    /// `7.2.0`, `2.9.1+rocm7.2.0`.
    Final,
    /// `7.2.0rc1`.
    Rc,
    /// `7.2.0a20261120`.
    Nightly,
    /// `7.2.0.dev0+COMMIT`.
    Dev,
}

impl VersionKind {
    pub const ALL: [VersionKind; 4] = [VersionKind::Final, VersionKind::Rc, VersionKind::Nightly, VersionKind::Dev];

    /// The kind of a version. The part after `+rocm` decides where there is one: `2.14.0a0` is how
    /// PyTorch names its main branch in every kind of build.
    pub fn of(version: &Version) -> VersionKind {
        let text = version.to_string();
        let text = match text.rsplit_once("+rocm").or_else(|| text.rsplit_once("-rocm")) {
            Some((_, rocm)) if !rocm.is_empty() => rocm.to_owned(),
            _ => text,
        };
        let Ok(version) = text.parse::<Version>() else {
            // `10.1.0.bkc.20260813` and the like.
            return VersionKind::of_text(&text);
        };
        match version.pre() {
            _ if version.is_dev() => VersionKind::Dev,
            None if version.local().iter().any(|segment| segment.to_string().len() >= COMMIT) => VersionKind::Dev,
            None => VersionKind::Final,
            Some(pre) if pre.kind == pep440_rs::PrereleaseKind::Rc => VersionKind::Rc,
            Some(_) => VersionKind::Nightly,
        }
    }

    fn of_text(text: &str) -> VersionKind {
        if text.contains("dev") {
            VersionKind::Dev
        } else if text.contains("rc") {
            VersionKind::Rc
        } else if text.split('.').any(|part| part.contains('a')) {
            VersionKind::Nightly
        } else {
            VersionKind::Final
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::Rc => "rc",
            Self::Nightly => "nightly",
            Self::Dev => "dev",
        }
    }
}

/// Digits of a commit in a version, at least.
const COMMIT: usize = 20;

impl StreamSettings {
    /// Reads `stream.toml`; `name` is what errors call it.
    pub fn parse(text: &str, name: &str) -> Result<StreamSettings, StreamFault> {
        let settings: StreamSettings = toml::from_str(text).map_err(|error| StreamFault::settings(name, &error))?;
        for patterns in [&settings.outside, &settings.retention.keep_sets] {
            patterns_of(patterns).map_err(|error| StreamFault::settings(name, &error))?;
        }
        settings.gate.check().map_err(|reason| StreamFault::settings(name, &reason))?;
        if let Some(address) = &settings.address {
            check_address(address).map_err(|reason| StreamFault::settings(name, &reason))?;
        }
        Ok(settings)
    }
}

/// Everybody reads the pages that have the address.
fn check_address(address: &Url) -> Result<(), String> {
    if !matches!(address.scheme(), "https" | "http") {
        return Err("`address` does not begin with `https://`".to_owned());
    }
    if address.username().is_empty() && address.password().is_none() {
        Ok(())
    } else {
        Err("`address` has a user or a password, and everybody can read the pages".to_owned())
    }
}

/// Patterns of names, which were checked before.
pub fn patterns_of(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern)?);
    }
    set.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_that_of_the_rocm_in_it() {
        for (version, kind) in [
            ("7.2.0", VersionKind::Final),
            ("7.14.0rc1", VersionKind::Rc),
            ("7.14.0rc1.post1", VersionKind::Rc),
            ("10.1.0a20261120", VersionKind::Nightly),
            ("10.1.0.dev0+efed3c3b10a5efed3c3b10a5efed3c3b10a5efed", VersionKind::Dev),
            ("2.14.0a0+rocm7.13.0", VersionKind::Final),
            ("2.14.0a0+rocm7.13.0rc1", VersionKind::Rc),
            ("2.13.0+rocm10.1.0a20260811.bkc.20260813", VersionKind::Nightly),
            ("2.9.1+cpu", VersionKind::Final),
        ] {
            assert_eq!(VersionKind::of(&version.parse().unwrap()), kind, "{version}");
        }
    }

    #[test]
    fn the_file_is_read_and_a_misspelt_key_is_refused() {
        let text = "kind = 'nightly'\noutside = ['numpy']\n[install-check]\n[retention]\ndays = 120\ngrace-days = 7\n\
                    [deprecated]\nsuccessor = 'https://example.invalid/whl/'\nends = '2027-01-31'\n";
        let settings = StreamSettings::parse(text, "stream.toml").unwrap();
        assert_eq!((settings.kind, settings.retention.days), (Some(VersionKind::Nightly), Some(120)));
        assert_eq!(settings.install_check, Some(InstallRule::default()));
        let notice = settings.deprecated.unwrap().text();
        assert_eq!(notice, "this index is deprecated; use https://example.invalid/whl/; it ends on 2027-01-31");
        let secret = "address = 'https://me:secret@example.invalid/'";
        let rule = "[install-check]\nunresolved = 'maybe'";
        for wrong in
            [rule, "kinds = 'rc'", "outside = ['[']", "[retention]\ndays = 'x'", "address = 'ftp://x/'", secret]
        {
            let error = StreamSettings::parse(wrong, "stream.toml").unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
