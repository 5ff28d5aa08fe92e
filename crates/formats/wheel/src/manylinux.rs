//! Input: the symbol versions that the files of a distribution need, by library. Output: the lowest
//! manylinux policy that guarantees them all (PEP 600), and the files and versions that prevent a
//! lower one.
//!
//! The policies are in `data/manylinux.toml`. PEP 600 needs no list: a newer glibc than the table's
//! makes a tag of its own, whose other promises are those of the newest policy. A file's needs are
//! plain data, so any source of ELF version needs will do. Only versions needed *from a library on
//! the policy list* count: a bundled zlib under another name provides its own ZLIB versions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;

use rocwheel_elf::Elf;
use serde::Deserialize;

use crate::Error;
use crate::loader_features::{CLibrary, LoaderFeature, LoaderSupport};

/// The set of glibc's symbol versions.
const GLIBC: &str = "GLIBC";
/// The loader of glibc, whose features no symbol version shows.
const LOADER: &str = "ld-linux-x86-64.so.2";

/// The requirements of one file on the dynamic loader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileNeeds {
    /// Name of the file in the reasons.
    pub file: String,
    /// Every needed library (DT_NEEDED), with the symbol versions needed from it (.gnu.version_r).
    /// Often there are none.
    pub libraries: Vec<LibraryNeeds>,
    /// What the loader has to know for the file beside symbol versions.
    pub features: Vec<LoaderFeature>,
}

impl FileNeeds {
    /// The needs of a program or library with this name in the reasons.
    pub fn of(file: impl Into<String>, elf: &Elf) -> FileNeeds {
        let mut libraries: BTreeMap<&String, Vec<String>> =
            elf.needed.iter().map(|library| (library, Vec::new())).collect();
        for need in &elf.version_needs {
            libraries.entry(&need.library).or_default().extend(need.versions.iter().cloned());
        }
        let libraries =
            libraries.into_iter().map(|(library, versions)| LibraryNeeds { library: library.clone(), versions });
        FileNeeds { file: file.into(), libraries: libraries.collect(), features: LoaderFeature::of(elf) }
    }

    /// The features of the file that older versions of glibc do not know, with the first that does.
    pub fn newer_features(&self) -> impl Iterator<Item = (LoaderFeature, DottedVersion)> {
        self.features.iter().filter_map(|feature| match feature.support(CLibrary::Glibc) {
            LoaderSupport::Since(version) => Some((*feature, DottedVersion::parse(version)?)),
            LoaderSupport::Always | LoaderSupport::Never => None,
        })
    }

    fn blocker(&self, library: &str, version: &str, feature: Option<LoaderFeature>) -> PolicyBlocker {
        let (library, version) = (library.to_owned(), version.to_owned());
        PolicyBlocker { file: self.file.clone(), library, version, feature }
    }
}

/// The versions that a file needs from one library.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LibraryNeeds {
    /// SONAME: `libc.so.6`.
    pub library: String,
    /// Names of versions: `GLIBC_2.17`.
    pub versions: Vec<String>,
}

/// One manylinux policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The minimum glibc of the systems of this policy.
    pub glibc: DottedVersion,
    /// The name before PEP 600: `manylinux2014`; `None` if it has none.
    pub alias: Option<String>,
    /// Name of a version set → the newest guaranteed version: `GLIBCXX` → 3.4.19.
    newest: BTreeMap<String, DottedVersion>,
    /// Guaranteed versions without a number: `CXXABI_TM_1`.
    named: BTreeSet<String>,
}

/// A version of numbers and dots, ordered number by number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct DottedVersion(Vec<u32>);

impl DottedVersion {
    fn parse(text: &str) -> Option<DottedVersion> {
        text.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>().map(DottedVersion)
    }
}

impl TryFrom<String> for DottedVersion {
    type Error = String;

    fn try_from(text: String) -> Result<DottedVersion, String> {
        DottedVersion::parse(&text).ok_or_else(|| format!("`{text}` is not a dotted number"))
    }
}

impl fmt::Display for DottedVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(u32::to_string).collect();
        formatter.write_str(&parts.join("."))
    }
}

/// The policies of one machine type, ordered from the oldest system to the newest.
#[derive(Debug, Clone)]
pub struct Policies {
    machine: String,
    /// Library → the glibc of the oldest policy that lists it.
    libraries: BTreeMap<String, DottedVersion>,
    policies: Vec<Policy>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    machine: String,
    libraries: BTreeMap<String, DottedVersion>,
    policy: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    glibc: DottedVersion,
    alias: Option<String>,
    newest: BTreeMap<String, DottedVersion>,
    #[serde(default)]
    named: BTreeSet<String>,
}

/// A need that prevents a lower policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyBlocker {
    /// The file that needs the version.
    pub file: String,
    /// The library that provides the version.
    pub library: String,
    /// The version, `GLIBC_2.36`; or the name of the library, if the library itself is missing from
    /// lower policies.
    pub version: String,
    /// The feature that only the loader of that version has; `None` if symbols of the version are
    /// needed.
    pub feature: Option<LoaderFeature>,
}

impl fmt::Display for PolicyBlocker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(feature) = self.feature {
            write!(formatter, "{} needs {} for its {}", self.file, self.version, feature.word())
        } else if self.version == self.library {
            write!(formatter, "{} needs {}", self.file, self.library)
        } else {
            write!(formatter, "{} needs {} from {}", self.file, self.version, self.library)
        }
    }
}

/// The lowest policy that a set of files allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor {
    /// The policy; `None` if no policy guarantees all needs, which leaves the tag `linux_MACHINE`.
    pub policy: Option<Policy>,
    /// Platform tag: `manylinux_2_36_x86_64`, or `linux_x86_64` without a policy.
    pub tag: String,
    /// Every need that prevents a lower policy, sorted.
    pub reasons: Vec<PolicyBlocker>,
    /// Needed libraries that no policy lists → the files that need them. This distribution or one
    /// that it requires must provide them. They do not raise the policy.
    pub outside: BTreeMap<String, BTreeSet<String>>,
}

impl Policies {
    /// Parses a table in the format of `data/manylinux.toml`.
    pub fn parse(text: &str) -> Result<Policies, Error> {
        let table: Table = toml::from_str(text).map_err(|source| Error::PolicyTable { source: Box::new(source) })?;
        let mut policies: Vec<Policy> = table
            .policy
            .into_iter()
            .map(|row| Policy { glibc: row.glibc, alias: row.alias, newest: row.newest, named: row.named })
            .collect();
        policies.sort_by(|one, other| one.glibc.cmp(&other.glibc));
        Ok(Policies { machine: table.machine, libraries: table.libraries, policies })
    }

    /// The built-in table, for x86_64.
    pub fn built_in() -> &'static Policies {
        static TABLE: OnceLock<Policies> = OnceLock::new();
        TABLE.get_or_init(|| {
            Policies::parse(include_str!("../../../../data/manylinux.toml")).expect("a test parses the embedded table")
        })
    }

    /// `true` if every system of some policy provides the library.
    pub fn provides(&self, library: &str) -> bool {
        self.libraries.contains_key(library)
    }

    /// `true` if every system with this version of glibc provides the library.
    pub fn provides_with(&self, library: &str, glibc: &DottedVersion) -> bool {
        self.libraries.get(library).is_some_and(|since| since <= glibc)
    }

    /// The policies, ordered from the oldest system to the newest.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// The platform tags of a policy: the one of PEP 600 and the older name, if it has one.
    pub fn tags(&self, policy: &Policy) -> Vec<String> {
        let mut tags = vec![self.tag(policy)];
        tags.extend(policy.alias.as_ref().map(|alias| format!("{alias}_{}", self.machine)));
        tags
    }

    fn tag(&self, policy: &Policy) -> String {
        format!("manylinux_{}_{}", policy.glibc.to_string().replace('.', "_"), self.machine)
    }

    /// The lowest policy that guarantees every version that the files need from system libraries.
    pub fn floor(&self, files: &[FileNeeds]) -> Floor {
        let mut outside: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        // The needs, by the index of the lowest policy that guarantees them; the number of policies
        // if none does.
        let mut needs: BTreeMap<usize, BTreeSet<PolicyBlocker>> = BTreeMap::new();
        for file in files {
            for needed in &file.libraries {
                let Some(since) = self.libraries.get(&needed.library) else {
                    outside.entry(needed.library.clone()).or_default().insert(file.file.clone());
                    continue;
                };
                let listed = self.policies.iter().position(|policy| policy.glibc >= *since);
                let reason = file.blocker(&needed.library, &needed.library, None);
                needs.entry(listed.unwrap_or(self.policies.len())).or_default().insert(reason);
                for version in &needed.versions {
                    let promised = self.policies.iter().position(|policy| policy.promises(version));
                    let reason = file.blocker(&needed.library, version, None);
                    needs.entry(promised.unwrap_or(self.policies.len())).or_default().insert(reason);
                }
            }
            for (feature, glibc) in file.newer_features() {
                let known = self.policies.iter().position(|policy| policy.glibc >= glibc);
                let reason = file.blocker(LOADER, &format!("{GLIBC}_{glibc}"), Some(feature));
                needs.entry(known.unwrap_or(self.policies.len())).or_default().insert(reason);
            }
        }
        let (lowest, mut reasons) = needs.pop_last().unwrap_or_default();
        let policy = self.policies.get(lowest).cloned().or_else(|| self.beyond(&mut reasons));
        let tag = policy.as_ref().map_or_else(|| format!("linux_{}", self.machine), |policy| self.tag(policy));
        // There is no policy below the oldest one, so its needs are not reasons.
        let reasons = if lowest == 0 { Vec::new() } else { reasons.into_iter().collect() };
        Floor { policy, tag, reasons, outside }
    }

    /// Returns the policy of the newest glibc that is needed, and keeps the reasons for it; `None`
    /// if anything else is needed that no policy guarantees.
    fn beyond(&self, reasons: &mut BTreeSet<PolicyBlocker>) -> Option<Policy> {
        let last = self.policies.last()?;
        let release =
            |reason: &PolicyBlocker| DottedVersion::parse(reason.version.strip_prefix(GLIBC)?.strip_prefix('_')?);
        let needed: Option<Vec<DottedVersion>> = reasons.iter().map(release).collect();
        let glibc = needed?.into_iter().max().filter(|glibc| *glibc > last.glibc && glibc.0.len() == 2)?;
        reasons.retain(|reason| release(reason).as_ref() == Some(&glibc));
        let mut policy = Policy { glibc: glibc.clone(), alias: None, ..last.clone() };
        policy.newest.insert(GLIBC.to_owned(), glibc);
        Some(policy)
    }
}

impl Policy {
    /// `true` if systems of this policy have the symbol version.
    pub fn promises(&self, version: &str) -> bool {
        if self.named.contains(version) {
            return true;
        }
        let Some((set, number)) = version.split_once('_') else {
            return false;
        };
        match (self.newest.get(set), DottedVersion::parse(number)) {
            (Some(newest), Some(number)) => number <= *newest,
            _ => false,
        }
    }
}

/// [`Policies::floor`] of the built-in table.
pub fn floor(files: &[FileNeeds]) -> Floor {
    Policies::built_in().floor(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(file: &str, libraries: &[(&str, &[&str])]) -> FileNeeds {
        let libraries = libraries.iter().map(|(library, versions)| LibraryNeeds {
            library: (*library).to_owned(),
            versions: versions.iter().map(|version| (*version).to_owned()).collect(),
        });
        FileNeeds { file: file.to_owned(), libraries: libraries.collect(), features: Vec::new() }
    }

    #[test]
    fn features_of_the_loader_raise_the_floor_like_versions() {
        let module = |features: &[LoaderFeature]| FileNeeds {
            features: features.to_vec(),
            ..needs("x.so", &[("libc.so.6", &["GLIBC_2.2.5"])])
        };
        for (features, tag, reason) in [
            (&[][..], "manylinux_2_5_x86_64", None),
            (&[LoaderFeature::PackedRelocations], "manylinux_2_36_x86_64", Some("GLIBC_2.36 for its DT_RELR")),
            (&[LoaderFeature::SegmentAlignment], "manylinux_2_35_x86_64", Some("GLIBC_2.35 for its PT_LOAD")),
            // No glibc loads it, so none is the lowest that does.
            (&[LoaderFeature::OperatingSystem], "manylinux_2_5_x86_64", None),
        ] {
            let floor = floor(&[module(features)]);
            assert_eq!(floor.tag, tag, "{features:?}");
            let reasons: Vec<String> = floor.reasons.iter().map(PolicyBlocker::to_string).collect();
            let expected: Vec<String> = reason.into_iter().map(|reason| format!("x.so needs {reason}")).collect();
            assert_eq!(reasons, expected, "{features:?}");
        }
    }

    #[test]
    fn the_built_in_table_is_in_order() {
        let policies = Policies::built_in();
        let tags: Vec<String> = policies.policies().iter().map(|policy| policies.tag(policy)).collect();
        assert_eq!(tags.first().map(String::as_str), Some("manylinux_2_5_x86_64"));
        assert_eq!(tags.last().map(String::as_str), Some("manylinux_2_43_x86_64"));
        assert_eq!(policies.tags(&policies.policies()[2]), ["manylinux_2_17_x86_64", "manylinux2014_x86_64"]);
        for pair in policies.policies().windows(2) {
            for (set, newest) in &pair[0].newest {
                assert!(pair[1].newest[set] >= *newest, "{set} in {}", pair[1].glibc);
            }
            assert!(pair[0].named.is_subset(&pair[1].named));
        }
    }

    #[test]
    fn the_newest_version_sets_the_floor_and_is_named() {
        let llvm = needs(
            "lib/libLLVM-15.so.1",
            &[
                ("libc.so.6", &["GLIBC_2.2.5", "GLIBC_2.36", "GLIBC_2.34"]),
                ("libstdc++.so.6", &["GLIBCXX_3.4.30", "CXXABI_1.3.13"]),
                ("librocm_sysdeps_z.so.1", &["ZLIB_9.9"]),
            ],
        );
        let hsa = needs("lib/libhsa-runtime64.so.1", &[("libc.so.6", &["GLIBC_2.33"]), ("libelf.so.1", &[])]);
        let floor = floor(&[hsa, llvm]);
        assert_eq!(floor.tag, "manylinux_2_36_x86_64");
        let reasons: Vec<String> = floor.reasons.iter().map(PolicyBlocker::to_string).collect();
        assert_eq!(reasons, ["lib/libLLVM-15.so.1 needs GLIBC_2.36 from libc.so.6"]);
        assert_eq!(floor.outside.keys().collect::<Vec<_>>(), ["libelf.so.1", "librocm_sysdeps_z.so.1"]);
        assert!(floor.outside["libelf.so.1"].contains("lib/libhsa-runtime64.so.1"));
    }

    #[test]
    fn other_version_sets_count_too() {
        for (library, version, tag) in [
            ("libstdc++.so.6", "GLIBCXX_3.4.19", "manylinux_2_17_x86_64"),
            ("libstdc++.so.6", "GLIBCXX_3.4.20", "manylinux_2_24_x86_64"),
            ("libstdc++.so.6", "CXXABI_FLOAT128", "manylinux_2_24_x86_64"),
            ("libgcc_s.so.1", "GCC_12.0.0", "manylinux_2_35_x86_64"),
            ("libz.so.1", "ZLIB_1.2.9", "manylinux_2_27_x86_64"),
            ("libc.so.6", "GLIBC_ABI_DT_RELR", "manylinux_2_36_x86_64"),
            ("libc.so.6", "GLIBC_2.5", "manylinux_2_5_x86_64"),
            ("libmvec.so.1", "GLIBC_2.22", "manylinux_2_24_x86_64"),
            ("libc.so.6", "GLIBC_PRIVATE", "linux_x86_64"),
            ("libc.so.6", "GLIBC_2.42", "manylinux_2_42_x86_64"),
            ("libc.so.6", "GLIBC_ABI_GNU2_TLS", "manylinux_2_42_x86_64"),
            ("libm.so.6", "GLIBC_2.43", "manylinux_2_43_x86_64"),
            ("libc.so.6", "GLIBC_2.99", "manylinux_2_99_x86_64"),
            ("libc.so.6", "GLIBC_2.99.1", "linux_x86_64"),
            ("libstdc++.so.6", "GLIBCXX_3.4.99", "linux_x86_64"),
        ] {
            let floor = floor(&[needs("x.so", &[(library, &[version])])]);
            assert_eq!(floor.tag, tag, "{library} {version}");
            assert_eq!(floor.reasons.is_empty(), tag == "manylinux_2_5_x86_64");
            assert_eq!(floor.policy.is_none(), tag == "linux_x86_64");
        }
    }

    #[test]
    fn a_newer_glibc_than_the_table_makes_its_own_tag() {
        let solver = needs("librocsolver.so.0", &[("libc.so.6", &["GLIBC_2.50", "GLIBC_2.44", "GLIBC_2.2.5"])]);
        let floor = floor(&[solver.clone(), needs("librccl.so.1", &[("libstdc++.so.6", &["GLIBCXX_3.4.33"])])]);
        assert_eq!(floor.tag, "manylinux_2_50_x86_64");
        let reasons: Vec<String> = floor.reasons.iter().map(PolicyBlocker::to_string).collect();
        assert_eq!(reasons, ["librocsolver.so.0 needs GLIBC_2.50 from libc.so.6"]);
        let policy = floor.policy.unwrap();
        assert!(policy.promises("GLIBC_2.50") && policy.promises("GLIBCXX_3.4.33") && !policy.promises("GLIBC_2.51"));
        // No glibc says which libstdc++ a system has.
        let newer = needs("librccl.so.1", &[("libstdc++.so.6", &["GLIBCXX_3.4.99"])]);
        assert_eq!(super::floor(&[solver, newer]).tag, "linux_x86_64");
    }

    #[test]
    fn nothing_needed_is_the_lowest() {
        assert_eq!(floor(&[]).tag, "manylinux_2_5_x86_64");
        assert!(Policies::parse("machine = 1").is_err());
    }
}
