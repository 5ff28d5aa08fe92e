//! Input: an [`AuditReport`]. Output: a SARIF 2.1.0 log (OASIS), which code hosts show beside the
//! change that caused it.
//!
//! Rules are the codes, results are the findings. No tool can open a path inside of an archive, so
//! a finding in a member has the wheel as its location and the member as a logical location. The
//! fingerprint of a result does not depend on the message, so that a reworded finding keeps its
//! identity.

use serde_json::{Value, json};

use super::AuditReport;
use crate::finding::{Code, Finding, Severity};

/// Address of the JSON schema.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Creates the log. `version` is that of this program.
pub fn log(report: &AuditReport, version: &str) -> Value {
    let rules: Vec<Value> = Code::ALL.iter().map(|code| rule(*code)).collect();
    let results: Vec<Value> = report.findings.iter().map(|finding| result(finding, report)).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "rocwheel", "semanticVersion": version, "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn level(severity: Severity) -> &'static str {
    severity.name()
}

fn rule(code: Code) -> Value {
    let explanation = code.explanation();
    json!({
        "id": explanation.code,
        "name": explanation.name,
        "shortDescription": { "text": format!("{}.", explanation.title) },
        "fullDescription": { "text": explanation.explanation },
        "help": { "text": explanation.cure, "markdown": explanation.cure },
        "defaultConfiguration": { "level": level(explanation.severity) },
    })
}

fn result(finding: &Finding, report: &AuditReport) -> Value {
    let mut text = format!("{}.", finding.message);
    if let Some(fix) = &finding.fix {
        let what = if fix.is_question() { "Decided" } else { "Fixed" };
        text.push_str(&format!(" {what} by `{}`.", fix.command()));
    }
    if let Some(decision) = &finding.decision {
        text.push_str(&format!(" Needs a decision: {decision}."));
    }
    let mut result = json!({
        "ruleId": finding.code.text(),
        "ruleIndex": finding.code as usize,
        "level": level(finding.severity),
        "message": { "text": text },
        "partialFingerprints": { "finding/v1": fingerprint(finding) },
    });
    if !finding.names.is_empty() {
        result["properties"] = json!({ "names": finding.names });
    }
    if let Some(wheel) = &finding.wheel {
        let path = report.wheels.iter().find(|summary| summary.file == *wheel).map_or(wheel, |summary| &summary.path);
        let mut location = json!({
            "physicalLocation": { "artifactLocation": { "uri": uri(path) }, "region": { "byteOffset": 0, "byteLength": 0 } },
        });
        let members = finding.file.iter().chain(&finding.related);
        let members: Vec<Value> =
            members.map(|member| json!({ "fullyQualifiedName": member, "kind": "member" })).collect();
        if !members.is_empty() {
            location["logicalLocations"] = Value::Array(members);
        }
        result["locations"] = json!([location]);
    }
    result
}

/// A fingerprint that is the same for the same finding in the next version of the wheel.
fn fingerprint(finding: &Finding) -> String {
    let distribution = finding.wheel.as_deref().and_then(|wheel| wheel.split('-').next()).unwrap_or_default();
    format!("{}/{distribution}/{}/{}", finding.code, finding.file.as_deref().unwrap_or_default(), finding.subject)
}

/// A path as a URI reference (RFC 3986): characters other than unreserved ones and `/` are escaped.
/// An absolute path gets a scheme.
fn uri(path: &str) -> String {
    let mut text = String::new();
    if path.starts_with('/') {
        text.push_str("file://");
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{AuditedEnvironment, FindingCounts};

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri("dist/a+b c.whl"), "dist/a%2Bb%20c.whl");
        assert_eq!(uri("/a/é.whl"), "file:///a/%C3%A9.whl");
    }

    #[test]
    fn the_log_has_what_sarif_asks_for() {
        let finding = Finding::new(Code::SearchPath, "/opt/rocm/lib", "it leaves the environment")
            .of("a_b-1.0-py3-none-any.whl")
            .in_files(["a/x.so", "a/y.so"])
            .naming(["one", "two", "three", "four"])
            .fixed_by(crate::fix::Fix::of_text("rocwheel edit a"));
        let findings = vec![finding, Finding::new(Code::SharedFile, "p", "two wheels")];
        let report = AuditReport {
            environment: AuditedEnvironment { python: "3.12".to_owned(), glibc: None, library_path: Vec::new() },
            wheels: Vec::new(),
            counts: FindingCounts::of(&findings),
            findings,
            ignored: std::collections::BTreeMap::new(),
            scenarios: Vec::new(),
            loads: Vec::new(),
            to_decide: Vec::new(),
            notes: Vec::new(),
        };
        let log = log(&report, "1.2.3");
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        assert_eq!(rules.len(), Code::ALL.len());
        for result in run["results"].as_array().unwrap() {
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(rules[index]["id"], result["ruleId"]);
            assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
            assert!(result["message"]["text"].as_str().unwrap().ends_with('.'));
        }
        let first = &run["results"][0];
        assert_eq!(first["properties"]["names"], json!(["one", "two", "three", "four"]));
        assert_eq!(first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "a_b-1.0-py3-none-any.whl");
        assert_eq!(first["locations"][0]["logicalLocations"][1]["fullyQualifiedName"], "a/y.so");
        assert_eq!(first["partialFingerprints"]["finding/v1"], "RW003/a_b/a/x.so//opt/rocm/lib");
        assert!(run["results"][1].get("locations").is_none());
    }
}
