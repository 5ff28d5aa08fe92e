//! Adds the header of the HIP runtime to texts with device code, and renames `.cu` to `.hip` in
//! CMake files.

use std::sync::OnceLock;

use memchr::memmem;
use regex::Regex;

use crate::word::is_word;

/// `true` if the header must be added: the text contains device code, possibly in a comment, and
/// includes neither of the headers.
pub(super) fn is_needed(text: &str) -> bool {
    static INCLUDED: OnceLock<Option<Regex>> = OnceLock::new();
    let bytes = text.as_bytes();
    let device = ["hipLaunchKernelGGL", "__global__", "__shared__"]
        .iter()
        .any(|word| memmem::find(bytes, word.as_bytes()).is_some());
    if !device && !synchronizes(text) {
        return false;
    }
    // The dots match any character, as in the original.
    let pattern =
        r#"#include (?:"hip/hip_runtime.h"|<hip/hip_runtime.h>|"hip/hip_runtime_api.h"|<hip/hip_runtime_api.h>)"#;
    let included = INCLUDED.get_or_init(|| Regex::new(pattern).ok());
    !included.as_ref().is_some_and(|included| included.is_match(text))
}

/// `true` if the text contains `__syncthreads(` as a whole word.
fn synchronizes(text: &str) -> bool {
    memmem::find_iter(text.as_bytes(), b"__syncthreads(")
        .any(|at| text[..at].chars().next_back().is_none_or(|before| !is_word(before)))
}

/// Replaces `.cu` by `.hip` unless a word character follows.
pub(super) fn hip_suffixes(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut copied = 0;
    for (at, suffix) in text.match_indices(".cu") {
        let end = at + suffix.len();
        if text[end..].chars().next().is_none_or(|after| !is_word(after)) {
            output.push_str(&text[copied..at]);
            output.push_str(".hip");
            copied = end;
        }
    }
    output + &text[copied..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_only() {
        assert!(is_needed("x::__syncthreads();") && is_needed("__syncthreads()"));
        assert!(
            !is_needed("my__syncthreads()") && !is_needed("__syncthreads_count()") && !is_needed("__syncthreads ()")
        );
        assert!(!is_needed("#include <hip/hip_runtimeXh>\n__global__"));
        assert!(is_needed("#include  <hip/hip_runtime.h>\n__global__"));
    }

    #[test]
    fn suffixes_end_where_a_word_ends() {
        assert_eq!(hip_suffixes("a.cu b.cuh c.cu"), "a.hip b.cuh c.hip");
        assert_eq!(hip_suffixes("a.cué a.cu)"), "a.cué a.hip)");
    }
}
