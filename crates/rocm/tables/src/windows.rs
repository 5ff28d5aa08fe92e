//! Input: the name of a DLL that a file imports. Output: the component that provides it on a
//! machine, as far as the tables know. Windows has no equivalent of the manylinux policies: there
//! is no list of DLLs that packages may rely on.

use crate::RocmTables;
pub use crate::dll_names::DllProvider;

/// The platform tag of 64-bit Windows on x86-64 (PEP 425).
pub const PLATFORM: &str = "win_amd64";

/// The interpreter that a DLL with CPython's API belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interpreter {
    /// 12 for `python312.dll`; `None` for the stable ABI (`python3.dll`), which every version
    /// provides.
    pub minor: Option<u16>,
    /// `true` for the build without the global lock (PEP 703): `python313t.dll`.
    pub free_threaded: bool,
    /// `true` for a debug build: `python312_d.dll`.
    pub debug: bool,
}

/// The provider of the DLL with this file name; `None` for an unknown one. Case is ignored.
pub fn provider(library: &str) -> Option<DllProvider> {
    RocmTables::in_use().dlls().provider(library)
}

/// `true` if a machine has the DLL without a package that contains it.
pub fn provides(library: &str) -> bool {
    provider(library).is_some_and(|provider| ![DllProvider::Rocm, DllProvider::Debug].contains(&provider))
}

/// The CPython that a DLL with this name belongs to; `None` for any other DLL.
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
            ("KERNEL32.dll", Some(DllProvider::System)),
            ("api-ms-win-crt-runtime-l1-1-0.dll", Some(DllProvider::System)),
            ("python312.dll", Some(DllProvider::Python)),
            ("VCRUNTIME140_1.dll", Some(DllProvider::Python)),
            ("MSVCP140.dll", Some(DllProvider::Runtime)),
            ("msvcp140_atomic_wait.dll", Some(DllProvider::Runtime)),
            ("amdhip64_7.dll", Some(DllProvider::Rocm)),
            ("MIOpen.dll", Some(DllProvider::Rocm)),
            ("VCRUNTIME140D.dll", Some(DllProvider::Debug)),
            ("msvcp140d.dll", Some(DllProvider::Debug)),
            ("ucrtbased.dll", Some(DllProvider::Debug)),
            ("python312_d.dll", Some(DllProvider::Debug)),
            ("MSVCR100.dll", Some(DllProvider::Runtime)),
            ("mfc140u.dll", Some(DllProvider::Runtime)),
            ("python313t.dll", Some(DllProvider::Python)),
            ("libpypy3.10-c.dll", Some(DllProvider::Python)),
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
