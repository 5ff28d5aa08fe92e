//! docs/support.md, from the recipes and the tables of versions. Only a test writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use build::Book;
use serde::Deserialize;

/// What the page says of data/frameworks.toml. Rows may have more keys.
#[derive(Debug, Deserialize)]
struct Versions {
    #[serde(rename = "torch")]
    torches: Vec<Torch>,
    #[serde(rename = "framework")]
    frameworks: Vec<Framework>,
    /// Every row has a reason, and what it is about.
    #[serde(rename = "exclude")]
    exclusions: Vec<BTreeMap<String, toml::Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Torch {
    version: String,
    rocm: Vec<String>,
    python: [String; 2],
    #[serde(default)]
    free_threaded: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Framework {
    recipe: String,
    versions: Vec<String>,
}

const HEAD: &str = "\
# What is supported

<!-- Made from recipes/, data/frameworks.toml and data/sources.toml: `INSTA_UPDATE=always cargo test --package rocwheel documents` \
writes this page. -->

rocwheel itself runs on Linux. *Plan* means that `rocwheel recipe show NAME --platform windows` prints the build as a batch file
for Windows. `rocwheel matrix` lists the wheels that these versions make, and those that are missing.

## Frameworks

| framework | | Linux | Windows | backends | versions in the table |
| --- | --- | --- | --- | --- | --- |
";

const TORCHES: &str = "
## Versions of torch

Older and newer ones build too; these are the versions that PyTorch has wheels for, and where `rocwheel source checkout --line`
takes the sources from.

| torch | ROCm | Python | sources |
| --- | --- | --- | --- |
";

/// The page.
fn page() -> String {
    let versions: Versions = toml::from_str(include_str!("../../../../data/frameworks.toml")).unwrap();
    let mut text = HEAD.to_owned();
    for entry in Book::built_in().unwrap().entries() {
        let recipe = &entry.recipe;
        let on = |name: &str| recipe.platforms.iter().any(|platform| platform.name() == name);
        let (linux, windows) = (if on("linux") { "yes" } else { "no" }, if on("windows") { "plan" } else { "no" });
        let of_table = versions.frameworks.iter().find(|framework| framework.recipe == recipe.name);
        let built = of_table.map_or(String::new(), |framework| framework.versions.join(", "));
        let (name, backends) = (&recipe.name, recipe.backends.join(", "));
        writeln!(text, "| {name} | {} | {linux} | {windows} | {backends} | {built} |", recipe.summary).unwrap();
    }
    text.push_str(TORCHES);
    let sources = source::Table::built_in();
    for Torch { version, rocm, python: [first, last], free_threaded } in &versions.torches {
        let line = sources.line(version).ok().filter(|line| line.name == *version);
        let from =
            line.map_or("tags of releases".to_owned(), |line| format!("{}, `{}`", line.torch_origin, line.torch_ref));
        let more = free_threaded.iter().map(|python| format!(", {python}")).collect::<String>();
        writeln!(text, "| {version} | {} | {first} to {last}{more} | {from} |", rocm.join(", ")).unwrap();
    }
    text.push_str("\n## What is not built, and why\n\n");
    for row in &versions.exclusions {
        let about = row.iter().filter(|(key, _)| *key != "reason" && *key != "recipe");
        let about: Vec<String> = about.map(|(key, value)| format!("{key} {}", said(value))).collect();
        let recipe = row.get("recipe").map_or("everything".to_owned(), said);
        let about = if about.is_empty() { String::new() } else { format!(", {}", about.join(", ")) };
        writeln!(text, "* {recipe}{about}: {}", row.get("reason").map_or(String::new(), said)).unwrap();
    }
    text
}

/// A value without quotes; of several, a list.
fn said(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(values) => values.iter().map(said).collect::<Vec<_>>().join(" or "),
        other => other.to_string(),
    }
}

#[test]
fn the_page_is_made_of_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/support.md");
    if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
        fs_err::write(path, page()).unwrap();
    }
    let written = fs_err::read_to_string(path).unwrap();
    assert!(written == page(), "docs/support.md is old: run this test with INSTA_UPDATE=always");
}
