//! Input: the libraries of the tables, and the name of a library. Output: the distribution and the
//! folder that contain it, and its short name in ROCm's Python package.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::rows::{LibraryProduct, MACHINE};
use crate::{Pattern, RocmTables};

/// A family of libraries and the distribution that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryFamily {
    /// The SONAME up to `.so`; `*` matches any text.
    pub family: String,
    /// The product that it belongs to.
    pub kind: LibraryProduct,
    /// The distribution; `None` for a library of the machine.
    pub distribution: Option<String>,
    /// The folder, relative to site-packages.
    pub directory: Option<String>,
    /// The name that `rocm_sdk` knows it by.
    pub shortname: Option<String>,
    /// Its position in the table. A library comes before those that need it.
    pub order: usize,
}

#[derive(Debug)]
pub struct Providers {
    exact: BTreeMap<String, LibraryFamily>,
    patterns: Vec<(Pattern, LibraryFamily)>,
}

/// The family of a library: its file name up to `.so`, without the version. A name without `.so.`
/// is its own family.
pub fn family(library: &str) -> &str {
    let name = library.rsplit('/').next().unwrap_or(library);
    match name.find(".so.") {
        Some(end) => &name[..end + ".so".len()],
        None => name,
    }
}

/// The first major version of ROCm with releases on package indexes: nothing there satisfies
/// `rocm==6.*`, because ROCm 6 and older were released for Linux distributions only.
pub const FIRST_ON_INDEXES: u64 = 7;

/// The major versions of ROCm whose HIP runtime has this name, in ascending order; none for other
/// libraries.
///
/// SONAME and the name of the DLL have the number of the release up to ROCm 7: `libamdhip64.so.7`
/// and `amdhip64_7.dll`. ROCm 10 did not change it: jax-rocm10-plugin and jax-rocm10-pjrt 0.12.0,
/// built with ROCm 10.1.0, need `libamdhip64.so.7`.
pub fn releases_of_runtime(library: &str) -> Vec<u64> {
    let version =
        library.strip_prefix("libamdhip64.so.").or_else(|| library.strip_prefix("amdhip64_")?.strip_suffix(".dll"));
    let number = version.and_then(|version| version.split('.').next()?.parse().ok());
    match number {
        Some(7) => vec![7, 10],
        Some(number) => vec![number],
        None => Vec::new(),
    }
}

impl Providers {
    /// The libraries of [`RocmTables::in_use`].
    pub fn embedded() -> &'static Providers {
        static EMBEDDED: LazyLock<Providers> = LazyLock::new(|| Providers::of_tables(RocmTables::in_use()));
        &EMBEDDED
    }

    /// The libraries of these tables that are in a distribution or belong to the machine.
    pub fn of_tables(tables: &RocmTables) -> Providers {
        let mut providers = Providers { exact: BTreeMap::new(), patterns: Vec::new() };
        for (order, row) in tables.libraries.iter().enumerate() {
            let owner = tables.owners.iter().find(|owner| owner.name == row.owner);
            let kind =
                if row.owner == MACHINE { Some(LibraryProduct::Driver) } else { owner.and_then(|owner| owner.kind) };
            let Some(kind) = kind.filter(|kind| *kind == LibraryProduct::Driver || row.distribution.is_some()) else {
                continue;
            };
            let provider = LibraryFamily {
                family: row.soname.clone(),
                kind,
                distribution: row.distribution.clone(),
                directory: row.directory.clone(),
                shortname: row.shortname.clone(),
                order,
            };
            if provider.family.contains('*') {
                providers.patterns.push((Pattern::new(&provider.family), provider));
            } else {
                providers.exact.insert(provider.family.clone(), provider);
            }
        }
        providers
    }

    /// The entry for the library with this SONAME or file name.
    pub fn of(&self, library: &str) -> Option<&LibraryFamily> {
        let family = family(library);
        let mut patterns = self.patterns.iter().filter(|(pattern, _)| pattern.matches(family));
        self.exact.get(family).or_else(|| patterns.next().map(|(_, provider)| provider))
    }

    /// All families, in the order of the table.
    pub fn all(&self) -> Vec<&LibraryFamily> {
        let mut all: Vec<&LibraryFamily> =
            self.exact.values().chain(self.patterns.iter().map(|(_, row)| row)).collect();
        all.sort_by_key(|provider| provider.order);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_counts_releases() {
        for runtime in ["libamdhip64.so.7", "libamdhip64.so.7.1.25424", "amdhip64_7.dll"] {
            assert_eq!(releases_of_runtime(runtime), [7, 10], "{runtime}");
        }
        assert_eq!(releases_of_runtime("libamdhip64.so.6"), [6]);
        for other in ["libamdhip64.so", "librocblas.so.5", "amdhip64.dll", "amdhip64_x.dll"] {
            assert!(releases_of_runtime(other).is_empty(), "{other}");
        }
    }

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
        assert_eq!((hip.kind, hip.distribution.as_deref()), (LibraryProduct::Rocm, Some("rocm-sdk-core")));
        assert_eq!(hip.directory.as_deref(), Some("_rocm_sdk_core/lib"));
        let zlib = providers.of("librocm_sysdeps_z.so.1").unwrap();
        assert_eq!(zlib.directory.as_deref(), Some("_rocm_sdk_core/lib/rocm_sysdeps/lib"));
        assert_eq!(providers.of("libc10.so").unwrap().kind, LibraryProduct::Torch);
        assert_eq!(providers.of("libcuda.so.1").unwrap().kind, LibraryProduct::Driver);
        // Other distributions' compilers link these; ROCm's own are reached through libamd_comgr.
        for foreign in ["libLLVM.so.19.1", "libz.so.1", "libhipo.so.1", "libamdhip64"] {
            assert!(providers.of(foreign).is_none(), "{foreign}");
        }
    }
}
