//! Input: METADATA of a wheel. Output: its requirements ([`Requirements`]), for a Python on a
//! system ([`InstallTarget`]).
//!
//! Requirements follow the dependency specifiers specification (PEP 508), versions PEP 440.

use std::collections::BTreeSet;
use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifier};
use pep508_rs::{ExtraName, MarkerEnvironment, MarkerEnvironmentBuilder, VersionOrUrl};
use rocwheel_wheel::{Headers, Platform, PythonVersion};
use url::Url;
use version_ranges::Ranges;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallTarget {
    /// The Python version. Markers on the patch release see a high number, 99.
    pub python: PythonVersion,
    pub platform: Platform,
    /// The version of glibc on Linux, as (2, 28); `None` for any.
    pub glibc: Option<(u16, u16)>,
}

impl InstallTarget {
    /// The target of a wheel with these platform tags: a wheel for Windows is installed only on
    /// Windows, whatever else is in its set.
    #[must_use]
    pub fn of_wheel(&self, platforms: &[String]) -> InstallTarget {
        let platform = if Platform::Windows.is_all_of(platforms) { Platform::Windows } else { self.platform };
        InstallTarget { platform, ..self.clone() }
    }

    /// The version that `Requires-Python` and `python_full_version` are compared with. The patch
    /// release is unknown; markers that ask for it want a lower bound to be met or a bug to be
    /// fixed, so we use 99.
    pub fn full_version(&self) -> Version {
        Version::new([u64::from(self.python.major), u64::from(self.python.minor), 99])
    }

    /// The values of the markers (PEP 508) on the target.
    pub fn environment(&self) -> MarkerEnvironment {
        let (full, short) = (self.full_version().to_string(), format!("{}.{}", self.python.major, self.python.minor));
        let (os, system, machine) = match self.platform {
            Platform::Linux => ("posix", "Linux", "x86_64"),
            Platform::Windows => ("nt", "Windows", "AMD64"),
        };
        let environment = MarkerEnvironment::try_from(MarkerEnvironmentBuilder {
            implementation_name: "cpython",
            implementation_version: &full,
            os_name: os,
            platform_machine: machine,
            platform_python_implementation: "CPython",
            platform_release: "",
            platform_system: system,
            platform_version: "",
            python_full_version: &full,
            python_version: &short,
            sys_platform: self.platform.sys_platform(),
        });
        environment.expect("versions made of numbers are versions")
    }
}

#[derive(Debug, Clone)]
pub struct Requirement {
    /// The text as in METADATA.
    pub text: String,
    /// Canonical name of the required distribution (PEP 503).
    pub name: String,
    /// The extras of that distribution that it requests.
    pub extras: Vec<String>,
    parsed: pep508_rs::Requirement<Url>,
}

impl Requirement {
    /// Parses one requirement. The error is the reason for a message.
    pub fn parse(text: &str) -> Result<Requirement, String> {
        rocwheel_wheel::check_requirement(text).map_err(|error| error.to_string())?;
        let parsed = pep508_rs::Requirement::<Url>::from_str(text).map_err(|error| {
            // After the first line, the message draws the position of the error.
            error.to_string().lines().next().unwrap_or_default().to_owned()
        })?;
        Ok(Requirement {
            text: text.to_owned(),
            name: rocwheel_wheel::canonical_name(parsed.name.as_ref()),
            extras: parsed.extras.iter().map(ToString::to_string).collect(),
            parsed,
        })
    }

    /// `true` if it applies to a target, either without extras or with one of these extras of the
    /// wheel that declares it.
    pub fn applies(&self, target: &InstallTarget, extras: &BTreeSet<String>) -> bool {
        self.applies_in(&target.environment(), extras)
    }

    /// As [`Requirement::applies`], for callers that ask many times for one target.
    pub fn applies_in(&self, environment: &MarkerEnvironment, extras: &BTreeSet<String>) -> bool {
        let extras: Vec<ExtraName> = extras.iter().filter_map(|extra| ExtraName::from_str(extra).ok()).collect();
        self.parsed.evaluate_markers(environment, &extras)
    }

    /// `true` if it applies on some Python and system, with these extras of the wheel that declares
    /// it.
    pub fn may_apply(&self, extras: &BTreeSet<String>) -> bool {
        let extras: Vec<ExtraName> = extras.iter().filter_map(|extra| ExtraName::from_str(extra).ok()).collect();
        self.parsed.marker.evaluate_extras(&extras)
    }

    /// `true` if a version meets it. A requirement with an address accepts every version.
    pub fn accepts(&self, version: &Version) -> bool {
        match &self.parsed.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => rocwheel_wheel::accepts(specifiers, version),
            Some(VersionOrUrl::Url(_)) | None => true,
        }
    }

    /// `true` if no version meets all of these requirements on one distribution, such as `==6.*`
    /// and `==7.*`.
    pub fn contradict(requirements: &[&Requirement]) -> bool {
        let all = requirements.iter().filter_map(|requirement| match &requirement.parsed.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
            Some(VersionOrUrl::Url(_)) | None => None,
        });
        let ranges = all.clone().map(|specifiers| Ranges::from(specifiers.clone()));
        if !ranges.fold(Ranges::<Version>::full(), |common, range| common.intersection(&range)).is_empty() {
            return false;
        }
        // Ranges do not know that `==2.9` accepts 2.9+rocm7.2.
        let mut named = all.clone().flat_map(|specifiers| specifiers.iter().map(VersionSpecifier::version));
        !named.any(|version| all.clone().all(|specifiers| rocwheel_wheel::accepts(specifiers, version)))
    }

    /// `true` if it names a pre-release, which allows pre-releases.
    pub fn wants_prereleases(&self) -> bool {
        match &self.parsed.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => {
                specifiers.iter().any(pep440_rs::VersionSpecifier::any_prerelease)
            }
            Some(VersionOrUrl::Url(_)) | None => false,
        }
    }

    /// `true` if it accepts only one version, which may then be a withdrawn one (PEP 592).
    pub fn pins(&self) -> bool {
        match &self.parsed.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => specifiers.iter().any(|specifier| {
                matches!(specifier.operator(), pep440_rs::Operator::Equal | pep440_rs::Operator::ExactEqual)
            }),
            Some(VersionOrUrl::Url(_)) | None => false,
        }
    }

    /// The address of a direct reference (`name @ https://…`).
    pub fn address(&self) -> Option<&Url> {
        match &self.parsed.version_or_url {
            Some(VersionOrUrl::Url(address)) => Some(address),
            _ => None,
        }
    }
}

/// A `Requires-Dist` that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The text as in METADATA.
    pub text: String,
    pub reason: String,
}

#[derive(Debug, Clone, Default)]
pub struct Requirements {
    /// In the order of the file, for all systems and extras.
    pub all: Vec<Requirement>,
    /// Those that cannot be parsed.
    pub invalid: Vec<Invalid>,
    /// The provided extras (`Provides-Extra`), in canonical form.
    pub extras: BTreeSet<String>,
}

impl Requirements {
    pub fn of(metadata: &Headers) -> Requirements {
        let extras = metadata.all("Provides-Extra").iter().map(|extra| rocwheel_wheel::canonical_name(extra)).collect();
        let mut found = Requirements { extras, ..Requirements::default() };
        for text in metadata.all("Requires-Dist") {
            match Requirement::parse(&text) {
                Ok(requirement) => found.all.push(requirement),
                Err(reason) => found.invalid.push(Invalid { text, reason }),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(python: &str, platform: Platform) -> InstallTarget {
        InstallTarget { python: python.parse().unwrap(), platform, glibc: None }
    }

    #[test]
    fn markers_are_those_of_the_target() {
        let linux = target("3.12", Platform::Linux);
        let windows = target("3.9", Platform::Windows);
        let none = BTreeSet::new();
        for (marker, on_linux, on_windows) in [
            ("python_version < '3.10'", false, true),
            ("python_full_version >= '3.12.4'", true, false),
            ("sys_platform == 'win32'", false, true),
            ("platform_system == 'Linux' and platform_machine == 'x86_64'", true, false),
            ("os_name == 'nt' and platform_machine == 'AMD64'", false, true),
            ("implementation_name == 'cpython' and platform_python_implementation == 'CPython'", true, true),
            ("extra == 'test'", false, false),
        ] {
            let requirement = Requirement::parse(&format!("a ; {marker}")).unwrap();
            assert_eq!(requirement.applies(&linux, &none), on_linux, "{marker}");
            assert_eq!(requirement.applies(&windows, &none), on_windows, "{marker}");
        }
        let extra = Requirement::parse("a[B_c]>=1; extra == 'Test.All' and python_version >= '3'").unwrap();
        assert_eq!(extra.extras, ["b-c"]);
        assert!(extra.applies(&linux, &BTreeSet::from(["test-all".to_owned()])));
    }

    #[test]
    fn a_wheel_for_windows_is_for_windows_wherever_it_stands() {
        let mixed = target("3.12", Platform::Linux);
        assert_eq!(mixed.of_wheel(&["win_amd64".to_owned()]).platform, Platform::Windows);
        assert_eq!(mixed.of_wheel(&["any".to_owned()]).platform, Platform::Linux);
    }

    #[test]
    fn requirements_are_read_as_people_write_them() {
        let version = |text: &str| Version::from_str(text).unwrap();
        let old = Requirement::parse("Rocm_SDK.core (==7.0.*,!=7.0.1)").unwrap();
        assert_eq!(old.name, "rocm-sdk-core");
        assert!(old.accepts(&version("7.0.2+abc")) && !old.accepts(&version("7.0.1")));
        assert!(Requirement::parse("a==1.0").unwrap().accepts(&version("1.0+rocm7")));
        assert!(Requirement::parse("a>=2.0rc1").unwrap().wants_prereleases());
        assert!(Requirement::parse("a @ https://example.invalid/a-1-py3-none-any.whl").unwrap().address().is_some());
        for bad in ["", "a b", "a>=", "a; python_version >", "-a"] {
            let reason = Requirement::parse(bad).unwrap_err();
            assert!(!reason.is_empty() && !reason.contains('\n'), "{bad}: {reason}");
        }
        let metadata = Headers::parse("Requires-Dist: a\nRequires-Dist: a b\nrequires-dist: c; extra == 'x'\n");
        let found = Requirements::of(&metadata);
        assert_eq!(found.all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(found.invalid[0].text, "a b");
    }
}
