//! Generates docs/support.md from the recipes and the tables of versions. Only a test writes the
//! page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rocwheel_recipe::matrix::{self, CellStatus, FrameworkTable, MatrixQuery, MatrixRow};
use rocwheel_recipe::{Book, Platform};
use serde::Deserialize;

/// The rows of data/frameworks.toml that exclude combinations, each with its reason.
#[derive(Debug, Deserialize)]
struct Versions {
    #[serde(rename = "exclude")]
    exclusions: Vec<BTreeMap<String, toml::Value>>,
}

const HEAD: &str = "\
# What is supported

<!-- Made from recipes/, data/frameworks.toml and data/sources.toml: `INSTA_UPDATE=always cargo test --package rocwheel documents` \
writes this page. -->

rocwheel runs on Linux; its program for Windows is tested under Wine only ([windows.md](windows.md)).
Builds for Windows run on Windows, and `rocwheel recipe show NAME --platform windows` prints them as
batch files. Other versions can be built too; these belong together, and `rocwheel matrix` counts
them.

## Frameworks

| recipe | | backends | builds for Windows |
| --- | --- | --- | --- |
";

/// Rows of TheRock's table of features that are no recipes.
const FEATURES: &str = "
A `plan` is what TheRock's page calls in progress: the steps are there, and nobody here has built it
on Windows. What was built and run on Linux, and what was not, is in
[build.md](build.md#what-has-been-tested).

| feature | Linux | Windows |
| --- | --- | --- |
| flash attention in torch, by aotriton | on if triton is built, for gfx90a, gfx942, gfx950, gfx11 and gfx12; `--feature flash-attention=off` | plan |
| FBGEMM in torch, for the CPU | on; `--feature fbgemm=off` | plan |
| FBGEMM GenAI | no: TheRock does not support it either (its issue 2056) | no |
";

const VERSIONS: &str = "
## Versions

| framework | version | torch | ROCm on Linux | ROCm on Windows | Python |
| --- | --- | --- | --- | --- | --- |
";

const TORCHES: &str = "
## Sources of torch

`rocwheel source checkout torch --line LINE` takes them from here.

| line | repository | branch or tag |
| --- | --- | --- |
";

/// The text of the page.
fn page() -> String {
    let book = Book::built_in().unwrap();
    let mut text = HEAD.to_owned();
    for entry in book.entries() {
        let recipe = &entry.recipe;
        let windows = if recipe.platforms.contains(&Platform::Windows) { "plan" } else { "no" };
        let backends = recipe.backends.join(", ");
        writeln!(text, "| {} | {} | {backends} | {windows} |", recipe.name, recipe.summary).unwrap();
    }
    text.push_str(FEATURES);
    text.push_str(VERSIONS);
    let wanted = MatrixQuery { platforms: vec![Platform::Linux, Platform::Windows], ..MatrixQuery::default() };
    let rows = matrix::make(&FrameworkTable::built_in().unwrap(), &book, &wanted, &[]).unwrap().rows;
    let built: Vec<MatrixRow> = rows.into_iter().filter(|row| row.status != CellStatus::Excluded).collect();
    let mut keys: Vec<_> = built.iter().map(key).collect();
    let mut seen = BTreeSet::new();
    keys.retain(|key| seen.insert(*key));
    for wanted in keys {
        let rows: Vec<&MatrixRow> = built.iter().filter(|row| key(row) == wanted).collect();
        text.push_str(&version(&rows));
    }
    text.push_str(TORCHES);
    let sources = rocwheel_source::Table::built_in();
    for rocwheel_source::Line { name, torch_origin, torch_ref, .. } in &sources.lines {
        writeln!(text, "| {name} | {torch_origin} | `{torch_ref}` |").unwrap();
    }
    text.push_str("\n## What is not built, and why\n\n");
    let versions: Versions = toml::from_str(include_str!("../../../../../data/frameworks.toml")).unwrap();
    for row in &versions.exclusions {
        let about = row.iter().filter(|(key, _)| *key != "reason" && *key != "recipe");
        let about: Vec<String> = about.map(|(key, value)| format!("{key} {}", said(value))).collect();
        let recipe = row.get("recipe").map_or("everything".to_owned(), said);
        let about = if about.is_empty() { String::new() } else { format!(", {}", about.join(", ")) };
        writeln!(text, "* {recipe}{about}: {}", row.get("reason").map_or(String::new(), said)).unwrap();
    }
    text
}

fn key(row: &MatrixRow) -> (&str, &str, &str) {
    (&row.point.recipe, &row.point.version, &row.point.backend)
}

/// The row for one version of a framework.
fn version(rows: &[&MatrixRow]) -> String {
    let on_linux = rows.iter().filter(|row| row.point.platform == Platform::Linux);
    let on_windows = rows.iter().filter(|row| row.point.platform == Platform::Windows);
    let torch = distinct(on_linux.clone().filter_map(|row| row.point.torch.clone()));
    let pythons = on_linux.clone().filter_map(|row| row.point.python.map(|python| python.to_string()));
    let mut pythons = distinct(pythons);
    pythons.sort_by_key(|python| (python.ends_with('t'), python.clone()));
    let (name, number, backend) = key(rows[0]);
    let name = if backend == "rocm" { name.to_owned() } else { format!("{name}, {backend}") };
    format!(
        "| {name} | {} | {} | {} | {} | {} |\n",
        number.get(..12).filter(|_| rocwheel_source::is_commit(number)).unwrap_or(number),
        torch.join(", "),
        joined_or(&distinct(on_linux.map(|row| row.point.rocm.clone())), "none"),
        joined_or(&distinct(on_windows.map(|row| row.point.rocm.clone())), "none"),
        joined_or(&pythons, "any"),
    )
}

/// The values without repetitions, in the order of their first occurrences.
fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

fn joined_or(values: &[String], none: &str) -> String {
    if values.is_empty() { none.to_owned() } else { values.join(", ") }
}

/// A value without quotes; several values are joined with "or".
fn said(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(values) => values.iter().map(said).collect::<Vec<_>>().join(" or "),
        other => other.to_string(),
    }
}

#[test]
fn the_page_is_made_of_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/support.md");
    if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
        fs_err::write(path, page()).unwrap();
    }
    let written = fs_err::read_to_string(path).unwrap();
    assert!(written == page(), "docs/support.md is old: run this test with INSTA_UPDATE=always");
}
