//! Input: the requirements of a wheel. Output: whether its users get a HIP runtime that reads
//! `.kpack` archives, and the requirements that make sure of it.

use std::path::Path;
use std::str::FromStr as _;

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};
use rocwheel_tables::RocmTables;
use rocwheel_wheel::canonical_name;
use serde::Serialize;

use rocwheel_progress::Failure;

use crate::tree::OldRuntime;

/// The library with which the HIP runtime reads `.kpack` archives.
const ARCHIVE_READER: &str = "librocm_kpack.so";
/// Distributions that have ROCm's version and bring its HIP runtime.
const ROCM: [&str; 3] = ["rocm", "rocm-sdk-core", "rocm-sdk-libraries"];
/// Versions besides those around the first one, for specifiers that name neither.
const SAMPLES: [&str; 8] = ["5.0", "6.0", "6.4.3", "7.0", "7.2.4", "7.99", "8.0", "99.0"];

/// The first ROCm whose released packages have a HIP runtime that reads `.kpack` archives.
fn first_rocm() -> Version {
    let since = RocmTables::in_use().first_rocm_with(ARCHIVE_READER);
    // A user's row may say nothing: then any ROCm will do.
    since.and_then(|text| text.parse().ok()).unwrap_or_else(|| Version::new([0]))
}

/// Whether the users of a host wheel get a HIP runtime that reads archives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum ArchiveRuntime {
    /// Its requirements allow no ROCm that cannot.
    Required,
    /// Its requirements allowed one, and these are added.
    Raised { requires: Vec<String> },
    /// It requires no ROCm, so that nothing decides it.
    Unknown,
    /// Its requirements allow no ROCm that can.
    TooOld { requirement: String },
}

impl ArchiveRuntime {
    /// Judges the requirements in METADATA.
    ///
    /// # Errors
    /// No ROCm that they allow reads archives, unless that is allowed.
    pub(super) fn of(path: &Path, requirements: &[String], old_runtime: OldRuntime) -> Result<ArchiveRuntime, Failure> {
        let mut requires = Vec::new();
        let mut is_required = false;
        for text in requirements {
            // It limits the nesting, for which the parser has no bound.
            let parsed = rocwheel_wheel::check_requirement(text).ok();
            let parsed = parsed.and_then(|()| Requirement::<VerbatimUrl>::from_str(text).ok());
            let Some(requirement) = parsed else { continue };
            let name = canonical_name(requirement.name.as_ref());
            if !ROCM.contains(&name.as_str()) {
                continue;
            }
            let specifiers = match &requirement.version_or_url {
                Some(VersionOrUrl::VersionSpecifier(specifiers)) => specifiers.clone(),
                None => VersionSpecifiers::from_iter([]),
                // A file, whose version is not in the requirement.
                Some(VersionOrUrl::Url(_)) => continue,
            };
            let allowed = Allowed::by(&specifiers);
            if !allowed.new {
                return match old_runtime {
                    OldRuntime::Refuse => Err(too_old(path, text)),
                    OldRuntime::Allow => Ok(ArchiveRuntime::TooOld { requirement: text.clone() }),
                };
            }
            if allowed.old {
                let raised = VersionSpecifiers::from_str(&format!(">={}", first_rocm())).ok();
                let version_or_url = raised.map(VersionOrUrl::VersionSpecifier);
                requires.push(Requirement { version_or_url, extras: Vec::new(), ..requirement }.to_string());
            } else {
                is_required = true;
            }
        }
        if !requires.is_empty() {
            return Ok(ArchiveRuntime::Raised { requires });
        }
        Ok(if is_required { ArchiveRuntime::Required } else { ArchiveRuntime::Unknown })
    }

    /// Returns what the users of the host wheel have to know, if anything.
    pub(super) fn warning(&self, host: &str) -> Option<String> {
        let needs = format!(
            "`{host}` needs a HIP runtime that reads `.kpack` archives, of ROCm {} or newer: older ones \
             load its libraries without their kernels, silently",
            first_rocm()
        );
        match self {
            ArchiveRuntime::Required => None,
            ArchiveRuntime::Raised { requires } => {
                Some(format!("{needs}; it requires `{}` now", requires.join("`, `")))
            }
            ArchiveRuntime::Unknown => {
                Some(format!("{needs}; it requires no ROCm, so nothing keeps an older one away"))
            }
            ArchiveRuntime::TooOld { requirement } => {
                Some(format!("{needs}; it requires `{requirement}`, which is older"))
            }
        }
    }
}

fn too_old(path: &Path, requirement: &str) -> Failure {
    Failure::message(format!(
        "`{}` requires `{requirement}`, and no such ROCm reads `.kpack` archives: its users would have no kernels",
        path.display()
    ))
    .with_hint("build it for a newer ROCm, or add `--force` if its users have a runtime that was built for archives")
}

/// The versions of ROCm that specifiers allow.
struct Allowed {
    /// `true` if one is older than the first that reads archives.
    old: bool,
    /// `true` if one is not.
    new: bool,
}

impl Allowed {
    fn by(specifiers: &VersionSpecifiers) -> Allowed {
        let first = first_rocm();
        let [major, minor] = release(&first);
        let before = minor.checked_sub(1).map(|minor| [major, minor, 99]);
        let around = [[major, minor, 0], [major, minor, 1], [major, minor + 1, 0]].into_iter().chain(before);
        let samples =
            SAMPLES.iter().filter_map(|sample| Version::from_str(sample).ok()).chain(around.map(Version::new));
        let named = specifiers.iter().map(|specifier| specifier.version().clone());
        let allowed = samples.chain(named).filter(|version| rocwheel_wheel::accepts(specifiers, version));
        let mut found = Allowed { old: false, new: false };
        for version in allowed {
            // The nightly builds before the first release read them too.
            let reads_archives = release(&version) >= [major, minor];
            found.new |= reads_archives;
            found.old |= !reads_archives;
        }
        found
    }
}

/// The first two numbers of a version.
fn release(version: &Version) -> [u64; 2] {
    [0, 1].map(|part| version.release().get(part).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(requirements: &[&str]) -> Result<ArchiveRuntime, Failure> {
        let requirements: Vec<String> = requirements.iter().map(|text| (*text).to_owned()).collect();
        ArchiveRuntime::of(Path::new("x.whl"), &requirements, OldRuntime::Refuse)
    }

    #[test]
    fn requirements_of_rocm_are_raised_where_they_allow_an_older_one() {
        let raised = [
            ("rocm==7.*", "rocm>=7.13"),
            ("rocm[libraries]>=7.2,<8; sys_platform == 'linux'", "rocm>=7.13 ; sys_platform == 'linux'"),
            ("ROCm_SDK-core", "rocm-sdk-core>=7.13"),
        ];
        for (text, expected) in raised {
            let ArchiveRuntime::Raised { requires } = state(&["numpy", text]).unwrap() else { panic!("{text}") };
            assert_eq!(requires, [expected], "{text}");
        }
        for text in ["rocm==7.14.0", "rocm>=7.13", "rocm==8.*", "rocm~=7.13.0", "rocm==7.13.0a20260430"] {
            assert_eq!(state(&[text]).unwrap(), ArchiveRuntime::Required, "{text}");
        }
        for text in ["torch==2.9", "rocm @ file:///rocm.whl", "not a requirement!"] {
            assert_eq!(state(&[text]).unwrap(), ArchiveRuntime::Unknown, "{text}");
        }
    }

    #[test]
    fn a_requirement_that_allows_only_older_ones_is_refused_unless_forced() {
        for text in ["rocm==7.2.4", "rocm<7.13", "rocm==6.*", "rocm==7.12.0rc1"] {
            let refused = state(&[text]).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("`x.whl` requires `{text}`, and no such ROCm")), "{refused}");
            let forced = ArchiveRuntime::of(Path::new("x.whl"), &[text.to_owned()], OldRuntime::Allow).unwrap();
            assert_eq!(forced, ArchiveRuntime::TooOld { requirement: text.to_owned() });
        }
    }
}
