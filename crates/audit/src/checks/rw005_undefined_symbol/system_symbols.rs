//! Input: `data/system-symbols.txt`. Output: `true` for the names of symbols that every process
//! has, whatever a file is linked to.

use std::collections::BTreeSet;
use std::sync::LazyLock;

const TABLE: &str = include_str!("../../../../../data/system-symbols.txt");

/// `true` if glibc, libgcc_s or the Python interpreter defines a function or variable of this name.
pub(crate) fn has(name: &str) -> bool {
    static NAMES: LazyLock<BTreeSet<&str>> =
        LazyLock::new(|| TABLE.lines().filter(|line| !line.starts_with('#')).collect());
    NAMES.contains(name) || is_pythons(name)
}

/// `true` if the interpreter exports the name: all names of Python's C interface have one of these
/// prefixes.
fn is_pythons(name: &str) -> bool {
    ["Py", "_Py", "PyPy", "_PyPy"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_process_has_is_known() {
        for name in
            ["memcpy", "exp", "dlopen", "__tls_get_addr", "environ", "_Unwind_Resume", "PyList_New", "_Py_NoneStruct"]
        {
            assert!(has(name), "{name}");
        }
        for name in ["hipMalloc", "_ZSt4cout", "Pool_new", "deflate", ""] {
            assert!(!has(name), "{name}");
        }
        let names: Vec<&str> = TABLE.lines().skip(2).collect();
        assert!(names.len() > 3000 && names.is_sorted());
    }
}
