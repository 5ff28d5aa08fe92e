//! `rocwheel compat compute_rocm_package_version`: today's flags, done by `rocwheel rocm-version`.

use clap::Args;
use rocwheel_commands_build::rocm_version::{self, VersionSources};
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_package::version::{ReleaseType, VersionForm};

use super::given;

/// compute_rocm_package_version: the versions of wheels, Debian and RPM packages
///
/// The outputs of the step are `rocm_package_version`, `rocm_deb_package_version` and
/// `rocm_rpm_package_version`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Purpose of the build: asan, ci, dev, dev-bkc, nightly, nightly-bkc, prerelease or release
    #[arg(long, value_name = "TYPE")]
    release_type: Option<String>,
    /// Append this to the base version instead, unchanged
    #[arg(long, value_name = "SUFFIX", allow_hyphen_values = true)]
    custom_version_suffix: Option<String>,
    /// Number of the release candidate, for release type prerelease
    #[arg(long, value_name = "N")]
    prerelease_version: Option<String>,
    /// Base version X.Y.Z [default: `rocm-version` of version.json in the working directory]
    #[arg(long, value_name = "VERSION")]
    override_base_version: Option<String>,
    /// Commit for the types ci, dev and dev-bkc [default: GITHUB_SHA, else `git rev-parse HEAD`]
    #[arg(long, value_name = "SHA")]
    override_git_sha: Option<String>,
    /// Name of the build, for release type asan [default: today]
    #[arg(long, value_name = "ID")]
    asan_build_id: Option<String>,
}

impl Arguments {
    /// The settings of `rocwheel rocm-version` for these flags.
    pub(super) fn settings(self) -> Result<rocm_version::Settings> {
        let release = given(self.release_type);
        let is_asan = release.as_deref().is_some_and(|name| name.trim() == ASAN);
        if self.asan_build_id.is_some() && !is_asan {
            return Err(Usage::new("`--asan-build-id` is for `--release-type asan`").into());
        }
        let form = match (release, given(self.custom_version_suffix)) {
            (Some(_), None) if is_asan => VersionForm::Suffix(asan_suffix(self.asan_build_id)?),
            (Some(name), None) => VersionForm::Type(release_type(&name)?),
            (None, Some(suffix)) => VersionForm::Suffix(suffix),
            (Some(_), Some(_)) => {
                return Err(Usage::new("`--release-type` and `--custom-version-suffix` exclude each other").into());
            }
            (None, None) => {
                return Err(Usage::new(
                    "neither `--release-type` nor `--custom-version-suffix` says what the version is for",
                )
                .hint(format!("the release types are {}", known()))
                .into());
            }
        };
        let prerelease = given(self.prerelease_version).map(|number| {
            number
                .trim()
                .parse::<u32>()
                .map_err(|_| Usage::new(format!("`--prerelease-version {number}` is not a number")))
        });
        rocm_version::settings(
            form,
            VersionSources {
                prerelease: prerelease.transpose()?,
                base: given(self.override_base_version),
                commit: given(self.override_git_sha),
                ..VersionSources::default()
            },
        )
    }
}

/// The release type of builds with the address sanitizer, whose wheels no other version is beside.
const ASAN: &str = "asan";

/// The local part of the version of a build with the address sanitizer (PEP 440: separators are
/// dots).
pub(super) fn asan_suffix(build: Option<String>) -> Result<String, Usage> {
    let build = given(build).unwrap_or_else(|| environment::today().to_string().replace('-', ""));
    let parts: Vec<String> = build.trim().split(['.', '-', '_']).map(str::to_lowercase).collect();
    if parts.iter().any(|part| part.is_empty() || part.bytes().any(|byte| !byte.is_ascii_alphanumeric())) {
        return Err(Usage::new(format!("`--asan-build-id {build}` cannot be part of a version"))
            .hint("letters and digits, separated by `.`, `-` or `_`"));
    }
    Ok(format!("+asan.{}", parts.join(".")))
}

fn known() -> String {
    [ASAN].into_iter().chain(ReleaseType::ALL.map(ReleaseType::name)).collect::<Vec<_>>().join(", ")
}

fn release_type(name: &str) -> Result<ReleaseType, Usage> {
    ReleaseType::ALL.into_iter().find(|release_type| release_type.name() == name.trim()).ok_or_else(|| {
        Usage::new(format!("there is no release type `{name}`")).hint(format!("the release types are {}", known()))
    })
}
