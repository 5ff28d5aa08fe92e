//! Input: the name of a DLL that a file imports. Output: who brings it to a machine, as far as `data/windows-libraries.toml`
//! knows. What manylinux policies are for Linux does not exist for Windows: there is no list that packages are held to.

use std::sync::OnceLock;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::Deserialize;

const TABLE: &str = include_str!("../../../data/windows-libraries.toml");

/// The platform tag of 64-bit Windows on x86-64 (PEP 425).
pub const PLATFORM: &str = "win_amd64";

/// Who brings a DLL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Every Windows has it.
    System,
    /// It comes with the interpreter.
    Python,
    /// It comes with Visual Studio's redistributable package.
    Runtime,
    /// It comes with a driver.
    Driver,
    /// It is ROCm's, and so to be in a package.
    Rocm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    system: Vec<String>,
    python: Vec<String>,
    runtime: Vec<String>,
    driver: Vec<String>,
    rocm: Vec<String>,
}

fn table() -> &'static [(Provider, GlobSet)] {
    static BUILT: OnceLock<Vec<(Provider, GlobSet)>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let table: Table = toml::from_str(TABLE).expect("the built-in table parses: a test sees to it");
        let set = |patterns: &[String]| {
            let mut builder = GlobSetBuilder::new();
            for pattern in patterns {
                let glob = GlobBuilder::new(pattern).case_insensitive(true).build();
                builder.add(glob.expect("the built-in patterns are right: a test sees to it"));
            }
            builder.build().expect("the built-in patterns are right: a test sees to it")
        };
        vec![
            (Provider::System, set(&table.system)),
            (Provider::Python, set(&table.python)),
            (Provider::Runtime, set(&table.runtime)),
            (Provider::Driver, set(&table.driver)),
            (Provider::Rocm, set(&table.rocm)),
        ]
    })
}

/// Who brings the DLL of this file name; `None` when the table does not know. Upper and lower case are the same.
pub fn provider(library: &str) -> Option<Provider> {
    table().iter().find(|(_, names)| names.is_match(library)).map(|(provider, _)| *provider)
}

/// Whether a machine has the DLL without any package bringing it.
pub fn provides(library: &str) -> bool {
    provider(library).is_some_and(|provider| provider != Provider::Rocm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_windows_are_told_from_those_of_rocm() {
        for (name, expected) in [
            ("KERNEL32.dll", Some(Provider::System)),
            ("api-ms-win-crt-runtime-l1-1-0.dll", Some(Provider::System)),
            ("python312.dll", Some(Provider::Python)),
            ("VCRUNTIME140_1.dll", Some(Provider::Python)),
            ("MSVCP140.dll", Some(Provider::Runtime)),
            ("msvcp140_atomic_wait.dll", Some(Provider::Runtime)),
            ("amdhip64_7.dll", Some(Provider::Rocm)),
            ("MIOpen.dll", Some(Provider::Rocm)),
            ("cudart64_12.dll", None),
            ("kernel32.dll.bak", None),
        ] {
            assert_eq!(provider(name), expected, "{name}");
        }
        assert!(provides("User32.DLL") && !provides("rocblas.dll") && !provides("mine.dll"));
    }
}
