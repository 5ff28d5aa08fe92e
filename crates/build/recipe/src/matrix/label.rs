//! Input: the local part of a wheel's version, in any known spelling. Output: the ROCm, torch and
//! backend that it names.
//!
//! Spellings: `rocm7.2torch2.14[gitABCDEF][triton]` (flash-attention's builders, and ours),
//! `rocm62torch2.5triton` (older ones), `rocm72torch2.9cxx11abiTRUE` (flash-attention's own guess),
//! `rocm7.10.0` and `devrocm7.10.0.dev0-…` (TheRock), `git1234abcd.rocm7.10.0` (TheRock's
//! development builds), `rocm722` (vLLM), `rocm6.4.1_abcdef0123` (triton), `cu130torch2.9` (not
//! ours).

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use crate::cell::minor;

static ROCM: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)rocm(\d+(?:\.\d+)*)").expect("it is constant"));
static TORCH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)torch(\d+(?:\.\d+)*)").expect("it is constant"));

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Label {
    pub rocm: Option<RocmLabel>,
    /// Version of torch, as written.
    pub torch: Option<String>,
    /// Name of a backend other than the default.
    pub backend: Option<String>,
}

/// A ROCm version in a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RocmLabel {
    /// A version with dots, which is exact.
    Version(String),
    /// Digits without dots, which may stand for several versions.
    Digits(String),
}

impl Label {
    /// Parses a label. A text in no known spelling names nothing.
    pub fn parse(local: &str) -> Label {
        let rocm = ROCM.captures(local).map(|found| found[1].to_owned());
        let rocm = rocm.map(|text| if text.contains('.') { RocmLabel::Version(text) } else { RocmLabel::Digits(text) });
        let torch = TORCH.captures(local).map(|found| found[1].trim_end_matches('.').to_owned());
        let backend = local.to_ascii_lowercase().ends_with("triton").then(|| "triton".to_owned());
        Label { rocm, torch, backend }
    }
}

impl RocmLabel {
    /// The known versions (first two numbers) that fit. Usually one; several if the label has no
    /// dots: `714` is 7.14, or 7.1 with patch 4.
    pub fn candidates(&self, known: &[String]) -> Vec<String> {
        match self {
            RocmLabel::Version(version) => known.iter().filter(|one| **one == minor(version)).cloned().collect(),
            // `62` is 6.2, `722` is 7.2 with a patch, `714` is 7.14 or 7.1 with a patch.
            RocmLabel::Digits(digits) => {
                let fitting = known.iter().filter(|one| {
                    let compact = one.replace('.', "");
                    compact == *digits || (digits.len() == compact.len() + 1 && digits.starts_with(&compact))
                });
                fitting.cloned().collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_read() {
        let known: Vec<String> = ["6.2", "6.4", "7.1", "7.2", "7.10", "7.14"].map(str::to_owned).to_vec();
        for (text, rocm, torch, backend) in [
            ("rocm7.2torch2.14", &["7.2"][..], Some("2.14"), None),
            ("rocm7.2torch2.14git1a2b3c4", &["7.2"], Some("2.14"), None),
            ("rocm7.2torch2.9triton", &["7.2"], Some("2.9"), Some("triton")),
            ("rocm62torch2.5", &["6.2"], Some("2.5"), None),
            ("rocm62torch2.5triton", &["6.2"], Some("2.5"), Some("triton")),
            ("rocm72torch2.9cxx11abiTRUE", &["7.2"], Some("2.9"), None),
            ("rocm7.10.0", &["7.10"], None, None),
            ("devrocm7.10.0.dev0.abc", &["7.10"], None, None),
            ("git1234abcd.rocm7.10.0", &["7.10"], None, None),
            ("rocm722", &["7.2"], None, None),
            ("rocm6.4.1_abcdef0123", &["6.4"], None, None),
            // 7.14, or 7.1 with patch 4: the label is ambiguous.
            ("rocm714torch2.14", &["7.1", "7.14"], Some("2.14"), None),
            ("rocm9.9", &[], None, None),
        ] {
            let label = Label::parse(text);
            assert_eq!(label.rocm.as_ref().unwrap().candidates(&known), rocm, "{text}");
            assert_eq!((label.torch.as_deref(), label.backend.as_deref()), (torch, backend), "{text}");
        }
        assert_eq!(Label::parse("cu130torch2.9").rocm, None);
        assert_eq!(Label::parse(""), Label::default());
    }
}
