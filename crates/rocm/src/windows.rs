//! Input: the name of a DLL that a file imports. Output: who brings it to a machine, as far as
//! `data/windows-libraries.toml` knows. What manylinux policies are for Linux does not exist for
//! Windows: there is no list that packages are held to.

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
    /// It comes with Visual Studio only: it is for debugging, and nobody may pass it on.
    Debug,
    /// It is ROCm's, and so to be in a package.
    Rocm,
}

/// What a DLL of CPython's API is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interpreter {
    /// 12 for `python312.dll`; `None` for the stable ABI (`python3.dll`), which every version has.
    pub minor: Option<u16>,
    /// Whether it is of the build without the global lock (PEP 703): `python313t.dll`.
    pub free_threaded: bool,
    /// Whether it is of a debug build: `python312_d.dll`.
    pub debug: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    system: Vec<String>,
    python: Vec<String>,
    runtime: Vec<String>,
    driver: Vec<String>,
    debug: Vec<String>,
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
            // In front: their names are those of the others with a letter more.
            (Provider::Debug, set(&table.debug)),
            (Provider::System, set(&table.system)),
            (Provider::Python, set(&table.python)),
            (Provider::Runtime, set(&table.runtime)),
            (Provider::Driver, set(&table.driver)),
            (Provider::Rocm, set(&table.rocm)),
        ]
    })
}

/// Who brings the DLL of this file name; `None` when the table does not know. Upper and lower case
/// are the same.
pub fn provider(library: &str) -> Option<Provider> {
    table().iter().find(|(_, names)| names.is_match(library)).map(|(provider, _)| *provider)
}

/// Whether a machine has the DLL without any package bringing it.
pub fn provides(library: &str) -> bool {
    provider(library).is_some_and(|provider| ![Provider::Rocm, Provider::Debug].contains(&provider))
}

/// For which CPython a DLL of this name is; `None` for any other DLL.
pub fn interpreter(library: &str) -> Option<Interpreter> {
    let name = library.to_ascii_lowercase();
    let rest = name.strip_prefix("python3")?.strip_suffix(".dll")?;
    let (rest, debug) = rest.strip_suffix("_d").map_or((rest, false), |rest| (rest, true));
    let (rest, free_threaded) = rest.strip_suffix('t').map_or((rest, false), |rest| (rest, true));
    let minor = if rest.is_empty() { None } else { Some(rest.parse().ok()?) };
    Some(Interpreter { minor, free_threaded, debug })
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
            ("VCRUNTIME140D.dll", Some(Provider::Debug)),
            ("msvcp140d.dll", Some(Provider::Debug)),
            ("ucrtbased.dll", Some(Provider::Debug)),
            ("python312_d.dll", Some(Provider::Debug)),
            ("MSVCR100.dll", Some(Provider::Runtime)),
            ("mfc140u.dll", Some(Provider::Runtime)),
            ("python313t.dll", Some(Provider::Python)),
            ("libpypy3.10-c.dll", Some(Provider::Python)),
            ("cudart64_12.dll", None),
            ("kernel32.dll.bak", None),
        ] {
            assert_eq!(provider(name), expected, "{name}");
        }
        assert!(provides("User32.DLL") && !provides("rocblas.dll") && !provides("mine.dll"));
        assert!(!provides("msvcp140d.dll"));
    }

    #[test]
    fn interpreters_are_known_by_their_libraries() {
        let known = |name: &str| {
            let found = interpreter(name)?;
            Some((found.minor, found.free_threaded, found.debug))
        };
        assert_eq!(known("python312.dll"), Some((Some(12), false, false)));
        assert_eq!(known("PYTHON39.DLL"), Some((Some(9), false, false)));
        assert_eq!(known("python313t.dll"), Some((Some(13), true, false)));
        assert_eq!(known("python314t_d.dll"), Some((Some(14), true, true)));
        assert_eq!(known("python3.dll"), Some((None, false, false)));
        assert_eq!(known("python3_d.dll"), Some((None, false, true)));
        for other in ["python27.dll", "pythoncom312.dll", "python3x.dll", "python312.pyd", "libpypy3.10-c.dll"] {
            assert_eq!(known(other), None, "{other}");
        }
    }
}
