//! Input: the libraries that are added to a wheel. Output: a bill of materials for
//! `dist-info/sboms/` (PEP 770) in the format of CycloneDX 1.6. It contains neither a date nor a
//! serial number, so the same wheel gets the same text.

use std::collections::BTreeSet;

use rocwheel_wheel::WheelName;
use serde_json::{Value, json};

use crate::packages::{percent, read_copyright};
use crate::plan::{Graft, RocmTree};

/// The name of the file below `sboms/`; a second repair uses another name.
pub(crate) fn name(taken: impl Fn(&str) -> bool) -> String {
    let mut name = "rocwheel.cdx.json".to_owned();
    let mut number = 1;
    while taken(&name) {
        number += 1;
        name = format!("rocwheel-{number}.cdx.json");
    }
    name
}

pub(crate) fn text(wheel: &WheelName, grafts: &[Graft], tree: Option<(&RocmTree, &str)>) -> Vec<u8> {
    let (name, version) = (wheel.distribution.as_str(), wheel.version.as_str());
    let reference = format!(
        "pkg:pypi/{}@{}?file_name={}",
        rocwheel_wheel::canonical_name(name),
        percent(version),
        percent(&wheel.to_string())
    );
    let mut components = Vec::new();
    let mut references: BTreeSet<String> = BTreeSet::new();
    let mut quoted = BTreeSet::new();
    for graft in grafts {
        let component = library(graft, &mut quoted);
        references.extend(component["bom-ref"].as_str().map(str::to_owned));
        components.push(component);
    }
    if let Some((tree, version)) = tree {
        let reference = format!("pkg:generic/rocm@{}", percent(version));
        references.insert(reference.clone());
        components.push(json!({
            "type": "framework", "bom-ref": reference, "name": "rocm", "version": version, "purl": reference,
            "properties": [
                {"name": "rocwheel:folder", "value": tree.folder},
                {"name": "rocwheel:files", "value": tree.files.len().to_string()},
            ],
        }));
    }
    let mut dependencies = vec![json!({"ref": reference, "dependsOn": references})];
    dependencies.extend(references.iter().map(|reference| json!({"ref": reference})));
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference},
            "tools": {"components": [{"type": "application", "name": "rocwheel", "version": env!("CARGO_PKG_VERSION")}]},
        },
        "components": components,
        "dependencies": dependencies,
    });
    let mut text = serde_json::to_vec_pretty(&document).unwrap_or_default();
    text.push(b'\n');
    text
}

/// A library that is added. The licence text of its package is included only where the package
/// first occurs.
fn library(graft: &Graft, quoted: &mut BTreeSet<String>) -> Value {
    let file = graft.source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let short = &graft.sha256[..16];
    let mut component = json!({
        "type": "library",
        "bom-ref": format!("pkg:generic/{}#{short}", percent(&file)),
        "name": file,
        "hashes": [{"alg": "SHA-256", "content": graft.sha256}],
        "properties": [
            {"name": "rocwheel:library", "value": graft.library},
            {"name": "rocwheel:member", "value": graft.member},
        ],
    });
    let Some(package) = &graft.package else { return component };
    component["bom-ref"] = json!(format!("{}#{short}", package.purl));
    component["name"] = json!(package.name);
    component["version"] = json!(package.version);
    component["purl"] = json!(package.purl);
    component["licenses"] = licenses(graft, quoted);
    component
}

fn licenses(graft: &Graft, quoted: &mut BTreeSet<String>) -> Value {
    let Some(package) = &graft.package else { return json!([]) };
    let mut licenses: Vec<Value> = package.licenses.iter().map(|name| json!({"license": {"name": name}})).collect();
    let text = package.copyright.as_deref().filter(|_| quoted.insert(package.name.clone())).and_then(read_copyright);
    if let Some(text) = text {
        licenses.push(json!({"license": {
            "name": format!("copyright file of {}", package.name),
            "text": {"contentType": "text/plain", "content": text},
        }}));
    }
    json!(licenses)
}
