//! Generates files from `data/findings.toml`: the enum of codes, the table of checks and their
//! modules, and the page of the documentation. For a new finding, a contributor writes only a row
//! of the table and a file `checks/rwNNN_name.rs`.
//!
//! The results are committed, so that they can be read, formatted and searched like other code. The
//! test below fails if a file is outdated, and rewrites it with `INSTA_UPDATE=always`.

use crate::finding::{Code, Explanation, TABLE, parse};

/// The first lines of a generated file.
const REMARK: &str = concat!(
    "//! Generated from `data/findings.toml`:\n",
    "//! `INSTA_UPDATE=always cargo test --package rocwheel-audit` writes it anew.\n",
);

/// The variant of the enum: `LibraryNotFound` for `library-not-found`.
fn variant(explanation: &Explanation) -> String {
    let words = explanation.name.split('-');
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// The module of a check: `rw001_library_not_found`.
fn module(explanation: &Explanation) -> String {
    format!("{}_{}", explanation.code.to_lowercase(), explanation.name.replace('-', "_"))
}

fn lines(table: &[Explanation], line: impl Fn(&Explanation) -> String) -> String {
    table.iter().map(line).collect()
}

/// The content of `code.rs`.
fn codes(table: &[Explanation]) -> String {
    let count = table.len();
    let variants = lines(table, |row| format!("    /// {}.\n    {},\n", row.title, variant(row)));
    let all = lines(table, |row| format!("        Code::{},\n", variant(row)));
    let texts = lines(table, |row| format!("            Code::{} => \"{}\",\n", variant(row), row.code));
    format!(
        "//! The codes of the findings.\n//!\n{REMARK}\n\
         /// The code of a finding. A code is never given another meaning.\n\
         #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]\n\
         pub enum Code {{\n{variants}}}\n\nimpl Code {{\n    /// All codes, by number.\n    \
         pub const ALL: [Code; {count}] = [\n{all}    ];\n\n    \
         /// The code as users write it, `RW012`.\n    \
         pub fn text(self) -> &'static str {{\n        match self {{\n{texts}        }}\n    }}\n}}\n"
    )
}

/// The content of `checks.rs`.
fn checks(table: &[Explanation]) -> String {
    let count = table.len();
    let modules = lines(table, |row| format!("mod {};\n", module(row)));
    let rows = lines(table, |row| format!("    {}::CHECK,\n", module(row)));
    format!(
        "//! The checks: a file for each code, whose name carries the code.\n//!\n{REMARK}\n\
         #![allow(clippy::unnecessary_wraps, reason = \"a check is a function that may fail\")]\n\n\
         {modules}\n\
         use crate::check::Check;\n\n/// Every check, in the order of the codes.\n\
         pub(crate) const CHECKS: [Check; {count}] = [\n{rows}];\n"
    )
}

/// The content of `docs/findings.md`.
fn documentation(table: &[Explanation]) -> String {
    let mut text = String::from(
        "# The findings of `rocwheel audit`\n\n```\nrocwheel audit --explain RW012    # one of them\n\
         rocwheel audit --explain all\n```\n\nGenerated from `data/findings.toml`. The severity is the usual one; \
         the text says when a finding weighs less.\n\n| code | name | severity | |\n| --- | --- | --- | --- |\n",
    );
    for Explanation { code, name, severity, title, .. } in table {
        let anchor = format!("{}-{name}", code.to_lowercase());
        text.push_str(&format!("| [{code}](#{anchor}) | `{name}` | {} | {title} |\n", severity.name()));
    }
    for Explanation { code, name, severity, title, explanation, cure, decision } in table {
        text.push_str(&format!(
            "\n## {code} {name}\n\n{title} ({}).\n\n{explanation}\n\nWhat to do: {cure}\n\n\
             If no command fixes it, it needs a decision: {decision}.\n",
            severity.name()
        ));
    }
    text
}

fn embedded() -> Vec<Explanation> {
    parse(TABLE).expect("the embedded table is tested")
}

#[test]
fn generated_files_are_those_of_the_table() {
    let table = embedded();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let files = [
        ("src/code.rs", codes(&table)),
        ("src/checks.rs", checks(&table)),
        ("../../../docs/findings.md", documentation(&table)),
    ];
    let mut old = Vec::new();
    for (path, text) in files {
        if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
            fs_err::write(format!("{folder}{path}"), &text).expect("the repository can be written to");
        }
        if fs_err::read_to_string(format!("{folder}{path}")).is_ok_and(|written| written != text) {
            old.push(path);
        }
    }
    assert!(old.is_empty(), "{old:?} are old: run this test with INSTA_UPDATE=always");
}

#[test]
fn every_code_has_a_check_in_a_file_of_its_name() {
    let codes: Vec<Code> = crate::checks::CHECKS.iter().map(|check| check.code).collect();
    assert_eq!(codes, Code::ALL);
    let folder =
        fs_err::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/checks")).expect("the folder of the checks");
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut files: Vec<String> = names.filter(|name| name.ends_with(".rs")).collect();
    files.sort();
    let named: Vec<String> = embedded().iter().map(|row| format!("{}.rs", module(row))).collect();
    assert_eq!(files, named);
}

/// A contributor writes a row of `data/findings.toml`, a check and its test; the rest is generated.
#[test]
fn a_new_row_is_a_new_code_everywhere() {
    let row = "[[finding]]\ncode = \"RW099\"\nname = \"new-thing\"\nseverity = \"note\"\n\
               title = \"Something new\"\nexplanation = \"It is new.\"\ncure = \"Nothing.\"\n\
               decision = \"nothing\"\n";
    let table = parse(&format!("{TABLE}\n{row}")).expect("a row as in docs/findings.md");
    let codes = codes(&table);
    assert!(codes.contains("    /// Something new.\n    NewThing,\n"), "{codes}");
    assert!(codes.contains("Code::NewThing => \"RW099\""), "{codes}");
    let checks = checks(&table);
    assert!(
        checks.contains("\nmod rw099_new_thing;\n") && checks.contains("    rw099_new_thing::CHECK,\n"),
        "{checks}"
    );
    assert!(documentation(&table).contains("[RW099](#rw099-new-thing)"));
}
