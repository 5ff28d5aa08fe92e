//! Input: `data/providers.toml` and the name of a library. Output: which distribution has it,
//! where, and what ROCm's Python package calls it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::Pattern;

const TABLE: &str = include_str!("../../../data/providers.toml");

/// What a provided library belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// ROCm, in the `rocm-sdk-*` wheels.
    Rocm,
    /// PyTorch, which is imported before its extensions.
    Torch,
    /// The machine: its GPU or network driver, or its display server. In no wheel.
    Driver,
}

/// One family of libraries and who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// The SONAME up to `.so`; `*` is anything.
    pub family: String,
    /// What it belongs to.
    pub kind: Kind,
    /// The distribution; `None` for the machine's own.
    pub distribution: Option<String>,
    /// The folder, relative to site-packages.
    pub directory: Option<String>,
    /// What `rocm_sdk` calls it.
    pub shortname: Option<String>,
    /// Its place in the table: libraries that others need come first.
    pub order: usize,
}

/// The families that are known.
#[derive(Debug)]
pub struct Providers {
    exact: BTreeMap<String, Provider>,
    patterns: Vec<(Pattern, Provider)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    provider: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    kind: Kind,
    distribution: Option<String>,
    directory: Option<String>,
    libraries: Vec<Library>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Library {
    family: String,
    shortname: Option<String>,
}

/// The family of a library: its name up to and with `.so`, whatever the version behind it. A name
/// without is its own.
pub fn family(library: &str) -> &str {
    let name = library.rsplit('/').next().unwrap_or(library);
    match name.find(".so.") {
        Some(end) => &name[..end + ".so".len()],
        None => name,
    }
}

impl Providers {
    /// The table this program ships with.
    pub fn embedded() -> &'static Providers {
        static EMBEDDED: LazyLock<Providers> =
            LazyLock::new(|| Providers::parse(TABLE).expect("a test parses the embedded table"));
        &EMBEDDED
    }

    fn parse(text: &str) -> Result<Providers, toml::de::Error> {
        let table: Table = toml::from_str(text)?;
        let mut providers = Providers { exact: BTreeMap::new(), patterns: Vec::new() };
        let mut order = 0;
        for row in table.provider {
            for library in row.libraries {
                let provider = Provider {
                    family: library.family,
                    kind: row.kind,
                    distribution: row.distribution.clone(),
                    directory: row.directory.clone(),
                    shortname: library.shortname,
                    order,
                };
                order += 1;
                if provider.family.contains('*') {
                    providers.patterns.push((Pattern::new(&provider.family), provider));
                } else {
                    providers.exact.insert(provider.family.clone(), provider);
                }
            }
        }
        Ok(providers)
    }

    /// Who has the library of this SONAME or file name.
    pub fn of(&self, library: &str) -> Option<&Provider> {
        let family = family(library);
        let by_pattern = || self.patterns.iter().find(|(pattern, _)| pattern.matches(family));
        self.exact.get(family).or_else(|| by_pattern().map(|(_, provider)| provider))
    }

    /// All families, in the order of the table.
    pub fn all(&self) -> Vec<&Provider> {
        let mut all: Vec<&Provider> = self.exact.values().chain(self.patterns.iter().map(|(_, row)| row)).collect();
        all.sort_by_key(|provider| provider.order);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_the_name_without_its_version() {
        assert_eq!(family("libamdhip64.so.7.1.0"), "libamdhip64.so");
        assert_eq!(family("libamdhip64.so"), "libamdhip64.so");
        assert_eq!(family("/opt/rocm/lib/libamdhip64.so.7"), "libamdhip64.so");
        assert_eq!(family("libLLVM-15.so.1"), "libLLVM-15.so");
        assert_eq!(family("libfoo.sox.1"), "libfoo.sox.1");
        assert_eq!(family("kernel.hsaco"), "kernel.hsaco");
    }

    #[test]
    fn libraries_are_found_by_family() {
        let providers = Providers::embedded();
        let hip = providers.of("libamdhip64.so.7").unwrap();
        assert_eq!((hip.kind, hip.distribution.as_deref()), (Kind::Rocm, Some("rocm-sdk-core")));
        assert_eq!(hip.directory.as_deref(), Some("_rocm_sdk_core/lib"));
        let zlib = providers.of("librocm_sysdeps_z.so.1").unwrap();
        assert_eq!(zlib.directory.as_deref(), Some("_rocm_sdk_core/lib/rocm_sysdeps/lib"));
        assert_eq!(providers.of("libc10.so").unwrap().kind, Kind::Torch);
        assert_eq!(providers.of("libcuda.so.1").unwrap().kind, Kind::Driver);
        // Compilers of others link these; ROCm's own are reached through libamd_comgr.
        for foreign in ["libLLVM.so.19.1", "libz.so.1", "libhipo.so.1", "libamdhip64"] {
            assert!(providers.of(foreign).is_none(), "{foreign}");
        }
    }

    #[test]
    fn every_short_name_is_one_of_the_python_package() {
        let python = include_str!("../../../python/rocm/src/rocm_sdk/_dist_info.py");
        let named: Vec<&Provider> =
            Providers::embedded().all().into_iter().filter(|provider| provider.shortname.is_some()).collect();
        assert!(named.len() > 25);
        for provider in named {
            let shortname = provider.shortname.as_deref().unwrap();
            let logical = provider.distribution.as_deref().unwrap().strip_prefix("rocm-sdk-").unwrap();
            let stem = provider.family.strip_suffix(".so").unwrap();
            let entry = format!("LibraryEntry(\"{shortname}\", \"{logical}\", \"{stem}");
            assert!(python.contains(&entry), "{entry}");
        }
    }
}
