//! Input: the name of a symbol. Output: `true` for those that every process has, whatever a file is
//! linked to (`data/system-symbols.txt`), and for those of the C++ library.

use std::collections::BTreeSet;
use std::sync::LazyLock;

const TABLE: &str = include_str!("../../../../../../data/system-symbols.txt");

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

/// `true` for names of the namespaces of libstdc++ (`std`, `__cxxabiv1`, `__gnu_cxx`), `operator
/// new` and `delete`, and the C++ runtime, as the Itanium ABI mangles them (5.1.2, 5.1.8). Includes
/// names of `std` that only a header defines.
pub(crate) fn is_of_cpp_library(name: &str) -> bool {
    let Some(encoding) = name.strip_prefix("_Z") else {
        return ["__cxa_", "__gxx_", "__dynamic_cast"].iter().any(|start| name.starts_with(start));
    };
    if ["nw", "na", "dl", "da"].iter().any(|operator| encoding.starts_with(operator)) {
        return true;
    }
    // Tables, names and guards of what follows; then a nested name and its qualifiers.
    let special = ["TV", "TT", "TI", "TS", "GV"].iter().find_map(|special| encoding.strip_prefix(special));
    let entity = special.unwrap_or(encoding);
    let entity = entity.strip_prefix('N').map_or(entity, |nested| nested.trim_start_matches(['r', 'V', 'K', 'R', 'O']));
    let standard = entity.strip_prefix('S').is_some_and(|rest| rest.starts_with(['t', 'a', 'b', 's', 'i', 'o', 'd']));
    standard || entity.starts_with("10__cxxabiv1") || entity.starts_with("9__gnu_cxx")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_cpp_library_are_known() {
        // Of libtorch.so of torch 2.11 for CUDA 13, which is not linked to libstdc++.
        for name in "_ZN10__cxxabiv120__si_class_type_infoD2Ev _ZNKSt10filesystem7__cxx1114path11parent_pathEv \
            _ZTVNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEE _ZNSirsERi _ZSt4cout \
            _ZTISt9exception _Znwm _ZdlPvm __cxa_throw __gxx_personality_v0 \
            _ZNKRSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv"
            .split(' ')
        {
            assert!(is_of_cpp_library(name), "{name}");
        }
        for name in
            ["_ZN2at4addmERKNS_6TensorE", "_ZTVN3c1010TensorImplE", "hipMalloc", "_ZN5StuffC1Ev", "_Z3Staf", "_Z"]
        {
            assert!(!is_of_cpp_library(name), "{name}");
        }
    }

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
