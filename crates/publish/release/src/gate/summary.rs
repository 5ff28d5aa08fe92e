//! Input: a decision. Output: it as an in-toto statement, a verification summary (SLSA VSA v1), the
//! payload of a DSSE envelope.

use rocwheel_attest::STATEMENT_TYPE;
use rocwheel_content::archive_path::file_name;
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_stream::ReleaseSet;
use serde_json::{Value, json};

use super::{GateDecision, GatePolicy, SetVerdicts};

const PREDICATE: &str = "https://slsa.dev/verification_summary/v1";

/// The statement, with a final line break. `stream` is the one that the set goes into.
pub fn decision_statement(
    decision: &GateDecision,
    policy: &GatePolicy,
    set: &ReleaseSet,
    verdicts: &SetVerdicts,
    stream: &str,
) -> String {
    let subjects = set.files.iter();
    let subjects: Vec<Value> =
        subjects.map(|(key, file)| json!({ "name": file_name(key), "digest": { "sha256": file.sha256 } })).collect();
    let inputs: Vec<Value> = verdicts
        .verdicts
        .iter()
        .filter(|verdict| decision.is_made_of(verdict))
        .map(|verdict| json!({ "uri": verdict.name, "digest": { "sha256": verdict.sha256 } }))
        .collect();
    // The specification knows two results and any level. A consumer that asks for the level of a
    // tested set takes none that a bypass let out, and no consumer takes a failure for a pass.
    let (result, level) = match (decision.is_open(), decision.is_over_failure(), decision.bypasses.is_empty()) {
        (false, ..) | (true, true, _) => ("FAILED", "FAILED"),
        (true, false, false) => ("PASSED", "ROCWHEEL_GATE_BYPASSED"),
        (true, false, true) => ("PASSED", "ROCWHEEL_GATE"),
    };
    // The policy as it held, with the bypasses of the command line.
    let policy = serde_json::to_vec(policy).unwrap_or_default();
    let document = json!({
        "_type": STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": PREDICATE,
        "predicate": {
            "verifier": { "id": "urn:rocwheel", "version": { "rocwheel": env!("CARGO_PKG_VERSION") } },
            "timeVerified": decision.time.to_string(),
            "resourceUri": format!("urn:rocwheel:set:{stream}:{}", set.name),
            "policy": { "uri": "urn:rocwheel:gate", "digest": { "sha256": hexadecimal(&sha256(&policy)) } },
            "inputAttestations": inputs,
            "verificationResult": result,
            "verifiedLevels": [level],
            "slsaVersion": "1.0",
            "rocwheel_decision": decision,
            "rocwheel_may_go_out": decision.is_open(),
        },
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}
