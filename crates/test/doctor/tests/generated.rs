//! The files that are generated from `data/doctor.toml`: the texts for Python and the page of the
//! documentation. `INSTA_UPDATE=always cargo test --package rocwheel-doctor` writes them anew.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use rocwheel_doctor::{DoctorRow, blanks, gpu_packages, needed_libraries, rows};
use rocwheel_tables::TargetTable;

const PYTHON: &str = "../../../python/rocm/src/rocm_sdk/_doctor_rows.py";
const PAGE: &str = "../../../docs/doctor-findings.md";

const HEAD: &str = r#"# ruff: noqa: E501
"""The texts of `rocm_sdk doctor`.

Generated from `data/doctor.toml`: `INSTA_UPDATE=always cargo test --package rocwheel-doctor` writes
it anew. `command` and `check` are empty if there is none; `commands` are those in containers.
"""

from __future__ import annotations

from typing import Any

ROWS: list[dict[str, Any]] = [
"#;

fn python() -> String {
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let row = |row: &DoctorRow| {
        let needs: Vec<String> = row.needs.iter().map(|need| quoted(need.words())).collect();
        let fields = [
            ("code", quoted(&row.code)),
            ("name", quoted(&row.name)),
            ("severity", quoted(row.severity.name())),
            ("title", quoted(&row.title)),
            ("meaning", quoted(&row.meaning)),
            ("command", quoted(row.command.as_deref().unwrap_or_default())),
            ("commands", serde_json::to_string(&row.commands).unwrap()),
            ("needs", format!("[{}]", needs.join(", "))),
            ("machine", if row.machine { "True" } else { "False" }.to_owned()),
            ("check", quoted(row.check.as_deref().unwrap_or_default())),
        ];
        let fields: Vec<String> =
            fields.iter().map(|(name, value)| format!("        \"{name}\": {value},\n")).collect();
        format!("    {{\n{}    }},\n", fields.concat())
    };
    let all: Vec<String> = rows().iter().filter(|row| row.python).map(row).collect();
    let integrated = TargetTable::embedded();
    let integrated = integrated.members("igpu-all");
    let packages: Vec<String> = gpu_packages().iter().map(|row| format!("    {},\n", literal(row))).collect();
    let blanks: Vec<String> = blanks()
        .iter()
        .map(|blank| format!("    ({}, {}, {}),\n", quoted(&blank.word), quoted(&blank.shown), quoted(&blank.meaning)))
        .collect();
    format!(
        "{HEAD}{}]\n\n# Words that only the reader knows: in the table, as printed, what to write.\nBLANKS = [\n{}]\n\n\
         # Packages that have to do with GPUs.\nPACKAGES: list[dict[str, Any]] = [\n{}]\n\n\
         # Libraries that a build for ROCm or for CUDA needs.\nNEEDED: dict[str, list[str]] = {}\n\n\
         # Targets of the GPUs of processors.\nINTEGRATED = {}\n",
        all.concat(),
        blanks.concat(),
        packages.concat(),
        literal(needed_libraries()),
        literal(&integrated),
    )
}

/// A value as Python writes it.
fn literal(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).unwrap();
    text.replace(":true", ": True")
        .replace(":false", ": False")
        .replace(":null", ": None")
        .replace("\":", "\": ")
        .replace(":  ", ": ")
        .replace("\",\"", "\", \"")
        .replace(",\"", ", \"")
}

fn page() -> String {
    let mut text = String::from(
        "# Findings of `rocwheel doctor`\n\nGenerated from `data/doctor.toml`. The severity is the usual one. \
         Words in braces are filled in by the finding.\n[doctor.md](doctor.md) explains how to read them.\n\n\
         | code | name | severity | finding | Python |\n| --- | --- | --- | --- | --- |\n",
    );
    let anchor = |row: &DoctorRow| format!("{}-{}", row.code.to_lowercase(), row.name);
    for row in rows() {
        let python = if row.python { "yes" } else { "" };
        let (code, name, severity, title) = (&row.code, &row.name, row.severity.name(), &row.title);
        text.push_str(&format!("| [{code}](#{}) | {name} | {severity} | {title} | {python} |\n", anchor(row)));
    }
    text.push_str("\nThe last column says what `python -m rocm_sdk doctor` finds too.\n\nWords in capitals are filled in by you:\n\n");
    for blank in blanks() {
        text.push_str(&format!("* `{}`: {}\n", blank.shown, blank.meaning));
    }
    for row in rows() {
        text.push_str(&format!(
            "\n## {} {}\n\n**{}** ({}). {}\n",
            row.code,
            row.name,
            row.title,
            row.severity.name(),
            row.meaning
        ));
        if let Some(command) = &row.command {
            text.push_str(&format!("\n```\n{}\n```\n", filled(command)));
        }
        for (kind, command) in &row.commands {
            text.push_str(&format!("\nIn a container of {kind}:\n\n```\n{}\n```\n", filled(command)));
        }
        if let Some(check) = &row.check {
            text.push_str(&format!("\nTo check: `{}`\n", check.replace('`', "")));
        }
        if !row.needs.is_empty() {
            let needs: Vec<&str> = row.needs.iter().map(|need| need.words()).collect();
            text.push_str(&format!("\nNeeds: {}.\n", needs.join(", ")));
        }
    }
    text
}

/// A command with the words that the reader fills in.
fn filled(command: &str) -> String {
    let text = command.replace("{from-index}", "--index-url {index} ");
    blanks().iter().fold(text, |text, blank| text.replace(&format!("{{{}}}", blank.word), &blank.shown))
}

#[test]
fn generated_files_are_those_of_the_table() {
    for (name, wanted) in [(PYTHON, python()), (PAGE, page())] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
            fs_err::write(&path, &wanted).unwrap();
        }
        let found = fs_err::read_to_string(&path).unwrap_or_default();
        assert!(found == wanted, "{name} is old: INSTA_UPDATE=always cargo test --package rocwheel-doctor");
    }
}

/// A program that is started could hang on the driver that it is asked about.
#[test]
fn the_doctor_starts_and_fetches_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = 0;
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs_err::read_to_string(&path).unwrap();
        for word in ["std::process", "Command::new", "std::net", "RunningGroup", "fs_err::write", "create_dir"] {
            let code = text.split("#[cfg(test)]").next().unwrap();
            assert!(!code.contains(word), "{}: {word}", path.display());
        }
        files += 1;
    }
    assert!(files > 15, "only {files} files were found");
}
