//! Input: the targets of a host wheel. Output: its form as a wheel variant: `variant.json` and the
//! label in the file name (PEP 825 and 850, both drafts, so this is experimental).
//!
//! An installer that supports wheel variants asks a provider for the targets of the machine, and
//! evaluates the markers of METADATA with them: device packages are installed without an extra.

use std::collections::BTreeMap;

use rocwheel_progress::{Exit, Failure};
use serde_json::json;

/// Address of the schema of `variant.json`.
const SCHEMA: &str = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json";
/// The distribution with the plug-in that determines the targets of a machine, and the plug-in's
/// entry point.
const PROVIDER: &str = "rocm-bootstrap";
const PLUGIN: &str = "rocm_bootstrap.variant_provider:AMDVariantPlugin";

/// Returns a property of a wheel variant, such as `amd :: gfx_arch :: gfx942`.
pub(super) fn property(target: &str) -> String {
    format!("amd :: gfx_arch :: {target}")
}

/// `true` if the draft allows a target as the value of a feature. Generic targets, with their `-`,
/// are not allowed; the targets that run their code are listed instead.
pub(super) fn is_value(target: &str) -> bool {
    !target.is_empty()
        && target.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'.')
}

pub(super) fn check_label(label: &str) -> Result<(), Failure> {
    let reason = if label.is_empty() {
        "it is empty"
    } else if label == "null" {
        "that one is for variants without properties"
    } else if !is_value(label) {
        "it has other characters than lower case letters, digits, `_` and `.`"
    } else {
        return Ok(());
    };
    let failure = Failure::message(format!("`{label}` cannot be the label of a wheel variant: {reason}"));
    Err(failure.with_exit(Exit::Usage).with_hint("use lower case letters, digits, `_` and `.`, for example `amd`"))
}

/// Returns the text of `variant.json`: one variant, for every target that has an extra.
pub(super) fn document<'a>(label: &str, targets: impl Iterator<Item = &'a str>) -> String {
    let targets: Vec<&str> = targets.filter(|target| is_value(target)).collect();
    let features = BTreeMap::from([("gfx_arch", targets)]);
    let document = json!({
        "$schema": SCHEMA,
        "default-priorities": { "namespace": ["amd"] },
        "providers": { "amd": { "plugin-api": PLUGIN, "requires": [PROVIDER] } },
        "variants": { label: { "amd": features } },
    });
    format!("{document:#}\n")
}

pub(super) fn file_name(wheel: &str, label: &str) -> String {
    format!("{}-{label}.whl", wheel.strip_suffix(".whl").unwrap_or(wheel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_variant_holds_all_targets() {
        let text = document("amd", ["gfx942", "gfx1100", "gfx9-4-generic"].into_iter());
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["variants"], json!({"amd": {"amd": {"gfx_arch": ["gfx942", "gfx1100"]}}}));
        assert_eq!(value["default-priorities"]["namespace"], json!(["amd"]));
        assert_eq!(file_name("x-1.0-cp312-cp312-a.b.whl", "amd"), "x-1.0-cp312-cp312-a.b-amd.whl");
    }

    #[test]
    fn labels_are_checked() {
        check_label("amd_7.1").unwrap();
        for bad in ["", "null", "AMD", "a-b", "a b"] {
            assert!(check_label(bad).is_err(), "{bad}");
        }
    }
}
