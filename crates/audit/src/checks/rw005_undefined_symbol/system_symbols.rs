//! Input: `data/system-symbols.txt`. Output: whether every process has a symbol of this name,
//! whatever is linked.

use std::collections::BTreeSet;
use std::sync::LazyLock;

const TABLE: &str = include_str!("../../../../../data/system-symbols.txt");

/// Whether glibc or libgcc_s has a function or variable of this name, or the Python interpreter has
/// it.
pub(crate) fn has(name: &str) -> bool {
    static NAMES: LazyLock<BTreeSet<&str>> =
        LazyLock::new(|| TABLE.lines().filter(|line| !line.starts_with('#')).collect());
    NAMES.contains(name) || is_pythons(name)
}

/// Whether the interpreter exports it: everything of Python's C interface has one of these
/// beginnings.
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
