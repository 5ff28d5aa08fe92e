//! Input: the name of a library. Output: its part in loading code from `.kpack` archives. Copies
//! that auditwheel or `rocwheel repair` put into a wheel have a hash in their names.

/// `true` for the HIP runtime: `libamdhip64.so.7`, `libamdhip64-f1043337.so.7`.
pub fn is_hip_runtime(library: &str) -> bool {
    is_library(library, "libamdhip64")
}

/// `true` for the library with which the HIP runtime reads `.kpack` archives.
pub fn is_archive_reader(library: &str) -> bool {
    is_library(library, "librocm_kpack")
}

fn is_library(library: &str, stem: &str) -> bool {
    let Some(rest) = library.strip_prefix(stem) else { return false };
    let grafted = rest.strip_prefix('-').map(|hash| hash.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()));
    grafted.unwrap_or(rest).starts_with(".so")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grafted_copies_are_known() {
        for name in ["libamdhip64.so", "libamdhip64.so.7", "libamdhip64-f1043337.so.7.2.70204"] {
            assert!(is_hip_runtime(name), "{name}");
        }
        for name in ["libamdhip64", "libamdhip64-stub.so", "libamdhip64x.so", "librocm_kpack.so.0"] {
            assert!(!is_hip_runtime(name), "{name}");
        }
        assert!(is_archive_reader("librocm_kpack.so.0") && is_archive_reader("librocm_kpack-0a1b2c3d.so.0"));
    }
}
