//! The files that are generated from `data/doctor.toml`: the texts for Python and the page of the
//! documentation. `INSTA_UPDATE=always cargo test --package rocwheel-verify` writes them anew.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use rocwheel_verify::doctor::{DoctorRow, rows};

const PYTHON: &str = "../../python/rocm/src/rocm_sdk/_doctor_rows.py";
const PAGE: &str = "../../docs/doctor-findings.md";

const HEAD: &str = r#"# ruff: noqa: E501
"""The texts of `rocm_sdk doctor`.

Generated from `data/doctor.toml`: `INSTA_UPDATE=always cargo test --package rocwheel-verify` writes
it anew. `command` and `check` are empty if there is none.
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
            ("needs", format!("[{}]", needs.join(", "))),
            ("check", quoted(row.check.as_deref().unwrap_or_default())),
        ];
        let fields: Vec<String> =
            fields.iter().map(|(name, value)| format!("        \"{name}\": {value},\n")).collect();
        format!("    {{\n{}    }},\n", fields.concat())
    };
    let all: Vec<String> = rows().iter().filter(|row| row.python).map(row).collect();
    format!("{HEAD}{}]\n", all.concat())
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
    text.push_str("\nThe last column says what `python -m rocm_sdk doctor` finds too.\n");
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
            text.push_str(&format!("\n```\n{command}\n```\n"));
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

#[test]
fn generated_files_are_those_of_the_table() {
    for (name, wanted) in [(PYTHON, python()), (PAGE, page())] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
            fs_err::write(&path, &wanted).unwrap();
        }
        let found = fs_err::read_to_string(&path).unwrap_or_default();
        assert!(found == wanted, "{name} is old: INSTA_UPDATE=always cargo test --package rocwheel-verify");
    }
}

/// A program that is started could hang on the driver that it is asked about.
#[test]
fn the_doctor_starts_and_fetches_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/doctor");
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
