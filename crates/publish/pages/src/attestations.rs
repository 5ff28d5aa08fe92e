//! Input: a provenance object (PEP 740). Output: whether its attestations are about a file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rocwheel_attest::InTotoStatement;
use serde::Deserialize;

#[derive(Deserialize)]
struct Provenance {
    version: u32,
    attestation_bundles: Vec<Bundle>,
}

#[derive(Deserialize)]
struct Bundle {
    attestations: Vec<Attestation>,
}

#[derive(Deserialize)]
struct Attestation {
    envelope: Envelope,
}

#[derive(Deserialize)]
struct Envelope {
    /// In base64.
    statement: String,
}

/// Checks that attestations are about a file of this name and SHA-256. The error is the reason why
/// no page may link them.
pub fn check_attestations(bytes: &[u8], name: &str, sha256: &str) -> Result<(), String> {
    check(bytes, name, sha256).map_err(|reason| format!("its attestations cannot be used: {reason}"))
}

fn check(bytes: &[u8], name: &str, sha256: &str) -> Result<(), String> {
    let provenance: Provenance = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if provenance.version != 1 {
        return Err(format!("they are of version {}, and 1 is known", provenance.version));
    }
    let mut all = provenance.attestation_bundles.iter().flat_map(|bundle| &bundle.attestations).peekable();
    if all.peek().is_none() {
        return Err("there are none in the file".to_owned());
    }
    for attestation in all {
        let statement = STANDARD.decode(&attestation.envelope.statement).map_err(|error| error.to_string())?;
        let statement: InTotoStatement = serde_json::from_slice(&statement).map_err(|error| error.to_string())?;
        let [subject] = &statement.subject[..] else {
            return Err(format!("one is about {} files", statement.subject.len()));
        };
        if subject.name != name {
            return Err(format!("one is about `{}`", subject.name));
        }
        if !subject.digest.get("sha256").is_some_and(|digest| digest.eq_ignore_ascii_case(sha256)) {
            return Err("one is about other bytes of this name".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attestations_are_about_the_file_beside_them() {
        let object = |version: u32, name: &str, sha256: &str| {
            let statement = serde_json::json!({
                "_type": "https://in-toto.io/Statement/v1",
                "subject": [{ "name": name, "digest": { "sha256": sha256 } }],
                "predicateType": "https://docs.pypi.org/attestations/publish/v1",
                "predicate": null,
            });
            let envelope = serde_json::json!({ "statement": STANDARD.encode(statement.to_string()), "signature": "" });
            let attestation = serde_json::json!({ "version": 1, "envelope": envelope });
            let bundles = serde_json::json!([{ "publisher": { "kind": "x" }, "attestations": [attestation] }]);
            serde_json::json!({ "version": version, "attestation_bundles": bundles }).to_string().into_bytes()
        };
        assert_eq!(check(&object(1, "a.whl", "ABC"), "a.whl", "abc"), Ok(()));
        let wrong = |bytes: &[u8]| check(bytes, "a.whl", "abc").unwrap_err();
        assert!(wrong(&object(2, "a.whl", "abc")).contains("version 2"));
        assert!(wrong(&object(1, "b.whl", "abc")).contains("`b.whl`"));
        assert!(wrong(&object(1, "a.whl", "abd")).contains("other bytes"));
        assert!(wrong(b"{\"version\": 1, \"attestation_bundles\": []}").contains("none"));
        assert!(!wrong(b"<html>").is_empty());
    }
}
