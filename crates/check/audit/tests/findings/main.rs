//! Every finding, with a wheel that has it and one that almost has it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod at_import;
mod files;
mod fixture;
mod loading;
mod refusals;
mod system;
mod verdicts;
mod windows;

/// Findings that a wheel made by a test cannot have; other tests cover them.
const WITHOUT_FIXTURE: [&str; 1] = ["RW020"];

/// The codes are those of `data/findings.toml`, so a new row requires a fixture.
#[test]
fn every_code_has_a_fixture() {
    let folder = fs_err::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/findings")).unwrap();
    let files = folder.map(|entry| fs_err::read_to_string(entry.unwrap().path()).unwrap());
    let texts = files.collect::<String>();
    let lacking: Vec<&str> = rocwheel_audit::finding::Code::ALL
        .iter()
        .map(|code| code.text())
        .filter(|code| !WITHOUT_FIXTURE.contains(code) && !texts.contains(&format!("\"{code}")))
        .collect();
    assert_eq!(lacking, [""; 0], "no test here expects these");
}
