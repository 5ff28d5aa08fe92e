//! Input: `data/system-libraries.toml` and `data/licenses.toml`. Output: the treatment of a library
//! from outside ROCm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use rocwheel_tables::Pattern;
use serde::Deserialize;

const LIBRARIES: &str = include_str!("../../../../data/system-libraries.toml");
const LICENSES: &str = include_str!("../../../../data/licenses.toml");

/// The table of libraries from outside ROCm.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SystemLibraries {
    policy: BTreeSet<String>,
    host: BTreeSet<String>,
    rename: BTreeMap<String, String>,
    package: BTreeMap<String, String>,
    #[serde(rename = "whole-version")]
    whole_version: Vec<String>,
    needs: BTreeMap<String, Vec<String>>,
}

impl SystemLibraries {
    pub(crate) fn embedded() -> &'static Self {
        static EMBEDDED: LazyLock<SystemLibraries> =
            LazyLock::new(|| toml::from_str(LIBRARIES).expect("the embedded table is tested"));
        &EMBEDDED
    }

    /// `true` if every system provides the library, or only the host can: it is never taken into
    /// the set.
    pub(crate) fn is_outside(&self, soname: &str) -> bool {
        self.policy.contains(soname) || self.host.contains(soname)
    }

    /// `true` if the library is part of the manylinux policy.
    pub(crate) fn is_policy(&self, soname: &str) -> bool {
        self.policy.contains(soname)
    }

    /// `libnuma.so.1` → `librocm_sysdeps_numa.so.1`.
    pub(crate) fn renamed(&self, soname: &str) -> String {
        match self.rename.get(soname) {
            Some(name) => name.clone(),
            None => format!("librocm_sysdeps_{}", soname.strip_prefix("lib").unwrap_or(soname)),
        }
    }

    pub(crate) fn package(&self, soname: &str) -> Option<String> {
        if let Some(package) = self.package.get(soname) {
            return Some(package.clone());
        }
        // Debian policy 8.1: the SONAME's stem and version, with a `-` between two digits.
        let (stem, whole) = soname.split_once(".so.")?;
        let has_whole = self.whole_version.iter().any(|pattern| Pattern::new(pattern).matches(stem));
        let version = if has_whole { whole } else { whole.split('.').next().unwrap_or_default() };
        if version.is_empty() {
            return None;
        }
        let dash = if stem.ends_with(|last: char| last.is_ascii_digit()) { "-" } else { "" };
        Some(format!("{stem}{dash}{version}").to_lowercase().replace('_', "-"))
    }

    /// `true` if Debian gives the package of the library this name. `soname` may be a pattern such
    /// as `libamd_comgr.so.*`, which takes any version. Packages renamed for 64-bit times end in
    /// `t64`.
    pub(crate) fn is_package_of(&self, soname: &str, package: &str) -> bool {
        if self.package.get(soname).is_some_and(|known| known.split(' ').next() == Some(package)) {
            return true;
        }
        let Some((stem, version)) = soname.split_once(".so") else { return false };
        let stem = stem.to_lowercase().replace('_', "-");
        let Some(rest) = package.strip_suffix("t64").unwrap_or(package).strip_prefix(&stem) else { return false };
        let (rest, version) = (rest.trim_start_matches('-'), version.trim_start_matches('.'));
        let is_version = !rest.is_empty() && rest.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
        is_version && (version == "*" || rest == version || version.split('.').next() == Some(rest))
    }

    /// `true` if a Debian package of this name may have a library that an import takes in. Names of
    /// others have no version, or are those of glibc and GCC.
    pub(crate) fn may_hold_library(&self, package: &str) -> bool {
        let is_listed = self.package.values().any(|known| known.split(' ').next() == Some(package));
        let has_version = package.contains(|letter: char| letter.is_ascii_digit());
        let is_library = package.starts_with("lib") && has_version && !package.ends_with("-dev");
        let mut outside = self.policy.iter().chain(&self.host);
        (is_listed || is_library) && !outside.any(|soname| self.is_package_of(soname, package))
    }

    /// The packages that Debian packages of libraries need in turn, as far as the table knows,
    /// without those in `present`. Sorted.
    pub(crate) fn needs_of<'a>(
        &self,
        packages: impl IntoIterator<Item = &'a str>,
        present: &BTreeSet<String>,
    ) -> Vec<String> {
        let rows = packages.into_iter().filter_map(|package| self.needs.get(package.split(' ').next()?));
        let needs: BTreeSet<String> = rows.flatten().filter(|package| !present.contains(*package)).cloned().collect();
        needs.into_iter().collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Licenses {
    source: BTreeMap<String, String>,
    prefix: BTreeMap<String, String>,
}

/// The SPDX expression for libraries of a source package in an upstream version; `None` if the
/// table does not have it.
pub(crate) fn license(source: &str, version: &str) -> Option<&'static str> {
    static EMBEDDED: LazyLock<Licenses> =
        LazyLock::new(|| toml::from_str(LICENSES).expect("the embedded table is tested"));
    let numbers: Vec<&str> = version.split('.').collect();
    let mut versions = [2, 1].into_iter().map(|count| numbers[..count.min(numbers.len())].join("."));
    let by_version = versions.find_map(|version| EMBEDDED.source.get(&format!("{source} {version}")));
    let mut prefixes = EMBEDDED.prefix.iter().filter(|(prefix, _)| source.starts_with(prefix.as_str()));
    let license = by_version.or_else(|| EMBEDDED.source.get(source));
    license.or_else(|| prefixes.next().map(|(_, license)| license)).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_therock() {
        let table = SystemLibraries::embedded();
        for (soname, renamed) in [
            ("libnuma.so.1", "librocm_sysdeps_numa.so.1"),
            ("liblzma.so.5", "librocm_sysdeps_liblzma.so.5"),
            ("libLLVM-15.so.1", "librocm_sysdeps_LLVM-15.so.1"),
            ("libdrm_amdgpu.so.1", "librocm_sysdeps_drm_amdgpu.so.1"),
        ] {
            assert_eq!(table.renamed(soname), renamed);
        }
    }

    #[test]
    fn packages_are_guessed_as_debian_names_them() {
        let table = SystemLibraries::embedded();
        for (soname, package) in [
            ("libfoo.so.2", Some("libfoo2")),
            ("libz.so.1", Some("zlib1g")),
            ("libx3.so.4", Some("libx3-4")),
            ("libFoo_bar.so.1", Some("libfoo-bar1")),
            ("libplugin.so", None),
            ("libboost_atomic.so.1.90.0", Some("libboost-atomic1.90.0")),
            ("libgflags.so.2.2", Some("libgflags2.2")),
            ("libbz2.so.1.0", Some("libbz2-1.0")),
            ("libLLVM.so.22.1", Some("libllvm22")),
            ("libe_smi64.so.1", Some("libe-smi64-1")),
            ("libnl-genl-3.so.200", Some("libnl-genl-3-200")),
        ] {
            assert_eq!(table.package(soname).as_deref(), package, "{soname}");
        }
    }

    #[test]
    fn a_package_is_known_by_the_name_of_its_library() {
        let table = SystemLibraries::embedded();
        for (soname, package, is) in [
            ("libelf.so.1", "libelf1t64", true),
            ("libelf.so.1", "libelf1", true),
            ("libelf.so.1", "libelf-dev", false),
            ("libLLVM.so.22.1", "libllvm22", true),
            ("libLLVM.so.22.1", "libllvm21", false),
            ("libboost_atomic.so.1.90.0", "libboost-atomic1.90.0", true),
            ("libglog.so.1", "libgoogle-glog0v6t64", true),
            ("libamd_comgr.so.*", "libamd-comgr3", true),
            ("libamd_comgr.so.*", "libamd-comgr-dev", false),
            ("libnl-3.so.200", "libnl-3-200", true),
            ("libnl-3.so.200", "libnl-genl-3-200", false),
            ("libz.so.1", "zlib1g", true),
            ("libamdhip64.so.5", "libamdhip64-7", false),
        ] {
            assert_eq!(table.is_package_of(soname, package), is, "{soname} {package}");
        }
    }

    #[test]
    fn packages_without_libraries_to_take_in_are_known() {
        let table = SystemLibraries::embedded();
        for (package, may) in [
            ("libllvm22", true),
            ("zlib1g", true),
            ("libc6", false),
            ("libgcc-s1", false),
            ("libstdc++6", false),
            ("libclang-common-22-dev", false),
            ("libdrm-common", false),
            ("python3", false),
        ] {
            assert_eq!(table.may_hold_library(package), may, "{package}");
        }
    }

    #[test]
    fn packages_of_libraries_need_others_in_turn() {
        let table = SystemLibraries::embedded();
        let needs = table.needs_of(["libllvm22", "libfmt11"], &BTreeSet::from(["libz3-4".to_owned()]));
        assert_eq!(needs.first().map(String::as_str), Some("libbsd0"));
        assert!(needs.contains(&"libxml2-16".to_owned()) && !needs.contains(&"libz3-4".to_owned()), "{needs:?}");
    }

    #[test]
    fn the_policy_is_not_taken_in() {
        let table = SystemLibraries::embedded();
        assert!(table.is_outside("libc.so.6") && table.is_policy("libc.so.6"));
        assert!(table.is_outside("libX11.so.6") && !table.is_policy("libX11.so.6"));
        assert!(!table.is_outside("libnuma.so.1"));
    }

    #[test]
    fn licenses_are_found_by_source_package() {
        assert_eq!(license("numactl", "2.0.16"), Some("LGPL-2.1-only"));
        assert_eq!(license("llvm-toolchain-15", "15.0.6"), Some("Apache-2.0 WITH LLVM-exception"));
        assert_eq!(license("icu", "76.1"), Some("Unicode-3.0"));
        assert_eq!(license("icu", "72.1"), Some("Unicode-DFS-2016"));
        assert_eq!(license("xz-utils", "5.4.1"), Some("LicenseRef-Public-Domain"));
        assert_eq!(license("unheard-of", "1"), None);
    }
}
