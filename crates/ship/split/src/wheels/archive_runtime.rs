//! Input: the requirements of a wheel. Output: whether its users get a HIP runtime that reads
//! `.kpack` archives, and the requirements that make sure of it.

use std::path::Path;
use std::str::FromStr as _;

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};
use rocwheel_wheel::canonical_name;
use serde::Serialize;

use super::Error;
use crate::tree::OldRuntime;

/// The first ROCm whose released packages have a HIP runtime that reads `.kpack` archives: the
/// multi-arch packages of TheRock. Earlier ones load a library without its kernels, silently.
pub const FIRST_ROCM: &str = "7.13";
/// Distributions that have ROCm's version and bring its HIP runtime.
const ROCM: [&str; 3] = ["rocm", "rocm-sdk-core", "rocm-sdk-libraries"];
/// Versions on both sides of the first one, for specifiers that name neither.
const SAMPLES: [&str; 12] =
    ["5.0", "6.0", "6.4.3", "7.0", "7.2.4", "7.12.99", "7.13", "7.13.1", "7.14", "7.99", "8.0", "99.0"];

/// Whether the users of a host wheel get a HIP runtime that reads archives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum ArchiveRuntime {
    /// Its requirements allow no ROCm that cannot.
    Required,
    /// Its requirements allowed one, and these are added.
    Raised {
        /// The requirements.
        requires: Vec<String>,
    },
    /// It requires no ROCm, so that nothing decides it.
    Unknown,
    /// Its requirements allow no ROCm that can.
    TooOld {
        /// The requirement.
        requirement: String,
    },
}

impl ArchiveRuntime {
    /// Judges the requirements in METADATA.
    ///
    /// # Errors
    /// [`Error::OldRuntime`] if no ROCm that they allow reads archives, unless that is allowed.
    pub(super) fn of(path: &Path, requirements: &[String], old_runtime: OldRuntime) -> Result<ArchiveRuntime, Error> {
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
                    OldRuntime::Refuse => Err(Error::OldRuntime { path: path.to_owned(), requirement: text.clone() }),
                    OldRuntime::Allow => Ok(ArchiveRuntime::TooOld { requirement: text.clone() }),
                };
            }
            if allowed.old {
                let raised = VersionSpecifiers::from_str(&format!(">={FIRST_ROCM}")).ok();
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
            "`{host}` needs a HIP runtime that reads `.kpack` archives, of ROCm {FIRST_ROCM} or newer: older ones \
             load its libraries without their kernels, silently"
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

/// The versions of ROCm that specifiers allow.
struct Allowed {
    /// `true` if one is older than the first that reads archives.
    old: bool,
    /// `true` if one is not.
    new: bool,
}

impl Allowed {
    fn by(specifiers: &VersionSpecifiers) -> Allowed {
        let samples = SAMPLES.iter().filter_map(|sample| Version::from_str(sample).ok());
        let named = specifiers.iter().map(|specifier| specifier.version().clone());
        let allowed = samples.chain(named).filter(|version| rocwheel_wheel::accepts(specifiers, version));
        let mut found = Allowed { old: false, new: false };
        for version in allowed {
            // The nightly builds before the first release read them too.
            let reads_archives = version.release().iter().copied().chain([0]).take(2).ge([7, 13]);
            found.new |= reads_archives;
            found.old |= !reads_archives;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(requirements: &[&str]) -> Result<ArchiveRuntime, Error> {
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
            let Err(Error::OldRuntime { requirement, .. }) = state(&[text]) else { panic!("{text}") };
            assert_eq!(requirement, text);
            let forced = ArchiveRuntime::of(Path::new("x.whl"), &[text.to_owned()], OldRuntime::Allow).unwrap();
            assert_eq!(forced, ArchiveRuntime::TooOld { requirement: text.to_owned() });
        }
    }
}
