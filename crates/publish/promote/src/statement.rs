//! Input: the files of a promotion with their hashes. Output: an in-toto statement (Statement v1,
//! SLSA provenance v1) that says which file was made from which. It is the payload of a DSSE
//! envelope, which the publisher signs.

use rocwheel_attest::STATEMENT_TYPE;
use serde_json::{Value, json};

use crate::promoted::Promoted;
use crate::promotion_plan::PromotionPlan;

const PREDICATE: &str = "https://slsa.dev/provenance/v1";
/// The kind of build: names of versions changed, contents did not.
const BUILD: &str = "urn:rocwheel:promotion:v1";

/// The statement, with a final line break. It has no dates, so equal promotions give equal bytes.
pub(crate) fn statement(plan: &PromotionPlan, files: &[Promoted]) -> String {
    let subjects: Vec<Value> =
        files.iter().map(|file| json!({ "name": file.name, "digest": { "sha256": file.sha256 } })).collect();
    let materials: Vec<Value> = files
        .iter()
        .filter_map(|file| file.source.as_ref())
        .map(|source| json!({ "name": source.name, "digest": { "sha256": source.sha256 } }))
        .collect();
    let made: Vec<Value> =
        files.iter().filter_map(|file| Some(json!({ "from": file.source.as_ref()?.name, "to": file.name }))).collect();
    let document = json!({
        "_type": STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD,
                "externalParameters": { "from": plan.from, "to": plan.to, "targets": plan.targets },
                "internalParameters": { "files": made, "accepted": plan.accepted() },
                "resolvedDependencies": materials,
            },
            "runDetails": {
                "builder": { "id": "urn:rocwheel", "version": { "rocwheel": env!("CARGO_PKG_VERSION") } },
            },
        },
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}
