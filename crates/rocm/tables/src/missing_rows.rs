//! Input: a checkout of TheRock. Output: the facts in it that the tables lack, as rows to add.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use crate::RocmTables;
use crate::error::Error;
use crate::targets::TargetTable;

/// The file of a checkout that lists the GPU targets.
const TARGETS: &str = "cmake/therock_amdgpu_targets.cmake";
/// The file that lists the artifacts.
const TOPOLOGY: &str = "BUILD_TOPOLOGY.toml";
/// The file that lists the libraries with short names.
const DIST_INFO: &str = "build_tools/packaging/python/templates/rocm/src/rocm_sdk/_dist_info.py";

/// A fact that the tables lack, or that they have with a different value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Gap {
    /// The table that needs the row: `target`.
    pub table: &'static str,
    /// The key of the row: `gfx1300`.
    pub key: String,
    /// The missing part: the row, or a field of it.
    pub missing: String,
    /// The file that contains the fact, relative to the folder that was examined.
    pub found_in: String,
    /// The row or its missing fields, in TOML as the tables have them.
    pub row: String,
}

impl Gap {
    /// A gap that needs a whole row. `fields` are names and values in TOML.
    pub fn row(table: &'static str, key: &str, found_in: &str, fields: &[(&str, String)]) -> Self {
        Self::fields(table, key, found_in, fields, "row")
    }

    fn fields(table: &'static str, key: &str, found_in: &str, fields: &[(&str, String)], missing: &str) -> Self {
        let name = crate::rows::KEYS.iter().find(|(known, _)| *known == table).map_or("name", |(_, name)| name);
        let mut row = format!("[[{table}]]\n{name} = {}\n", text(key));
        for (field, value) in fields {
            row.push_str(&format!("{field} = {value}\n"));
        }
        Self { table, key: key.to_owned(), missing: missing.to_owned(), found_in: found_in.to_owned(), row }
    }
}

/// A text as a TOML string, with quotation marks.
pub fn text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    toml::Value::Array(names.into_iter().map(Into::into).collect()).to_string()
}

/// Finds the facts that a checkout of TheRock has and `tables` lack: targets and their families,
/// artifacts, kernel databases, and libraries with short names.
pub fn therock(checkout: &Path, tables: &RocmTables) -> Result<Vec<Gap>, Error> {
    let read = |path: &str| {
        fs_err::read_to_string(checkout.join(path))
            .map_err(|source| Error::NoCheckout { folder: checkout.to_owned(), source })
    };
    let mut gaps = targets(&read(TARGETS)?, tables);
    if gaps.is_empty() && !read(TARGETS)?.contains("therock_add_amdgpu_target") {
        return Err(Error::NotUnderstood { file: checkout.join(TARGETS), what: "GPU target" });
    }
    gaps.extend(artifacts(&read(TOPOLOGY)?, tables).map_err(|source| Error::Syntax {
        file: checkout.join(TOPOLOGY).display().to_string(),
        source: Box::new(source),
    })?);
    gaps.extend(libraries(&read(DIST_INFO)?, tables));
    Ok(gaps)
}

fn targets(cmake: &str, tables: &RocmTables) -> Vec<Gap> {
    static CALL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"therock_add_amdgpu_target\(\s*(gfx\w+)\s+"([^"]*)"([^)]*)\)"#).expect("a test uses it")
    });
    let code: String =
        cmake.lines().map(|line| line.split('#').next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let known = TargetTable::of(tables);
    let mut gaps = Vec::new();
    for call in CALL.captures_iter(&code) {
        let (name, product) = (&call[1], &call[2]);
        let words = call[3].split_whitespace().skip_while(|word| *word != "FAMILY").skip(1);
        let families: Vec<&str> = words.take_while(|word| word.chars().any(char::is_lowercase)).collect();
        let Some(row) = known.get(name) else {
            let fields = [("product", text(product)), ("families", list(families))];
            gaps.push(Gap::row("target", name, TARGETS, &fields));
            continue;
        };
        if row.product != product {
            gaps.push(Gap::fields("target", name, TARGETS, &[("product", text(product))], "product"));
        }
        let ours: BTreeSet<&str> = row.families.iter().map(String::as_str).collect();
        if families.iter().any(|family| !ours.contains(family)) {
            gaps.push(Gap::fields("target", name, TARGETS, &[("families", list(families))], "families"));
        }
    }
    gaps
}

fn artifacts(topology: &str, tables: &RocmTables) -> Result<Vec<Gap>, toml::de::Error> {
    let topology: toml::Table = toml::from_str(topology)?;
    let databases = tables.databases().names();
    let mut gaps = Vec::new();
    for (name, artifact) in topology.get("artifacts").and_then(toml::Value::as_table).into_iter().flatten() {
        if !tables.artifacts().iter().any(|row| row.name == *name) {
            gaps.push(Gap::row("artifact", name, TOPOLOGY, &[]));
        }
        let split = artifact.get("split_databases").and_then(toml::Value::as_array).into_iter().flatten();
        for database in split.filter_map(toml::Value::as_str).filter(|database| !databases.contains(database)) {
            gaps.push(Gap::row("database", database, TOPOLOGY, &[]));
        }
    }
    Ok(gaps)
}

fn libraries(python: &str, tables: &RocmTables) -> Vec<Gap> {
    static ENTRY: LazyLock<Regex> = LazyLock::new(|| {
        let text = r#"\s*"([^"]*)"\s*"#;
        let expression = format!(r"LibraryEntry\({text},{text},{text}(?:,{text})?(?:,{text})?");
        Regex::new(&expression).expect("a test uses it")
    });
    let known: BTreeSet<&str> = tables.libraries.iter().filter_map(|row| row.shortname.as_deref()).collect();
    let entries = ENTRY.captures_iter(python).filter(|entry| !known.contains(&entry[1]));
    let gap = |entry: regex::Captures<'_>| {
        let (shortname, package, file) = (&entry[1], &entry[2], &entry[3]);
        let soname = file.split_once(".so").map_or_else(|| file.to_owned(), |(stem, _)| format!("{stem}.so"));
        let folder = entry.get(5).map_or("lib", |folder| folder.as_str());
        let mut fields = vec![
            ("distribution", text(&format!("rocm-sdk-{package}"))),
            ("directory", text(&format!("_rocm_sdk_{package}/{folder}"))),
            ("shortname", text(shortname)),
        ];
        if let Some(dll) = entry.get(4).filter(|dll| !dll.is_empty()) {
            fields.push(("dll", text(dll.as_str())));
        }
        Gap::row("library", &soname, DIST_INFO, &fields)
    };
    entries.map(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_cmake_has_them() {
        let cmake = "function(therock_add_amdgpu_target gfx_target product_name)\nendfunction()\n\
                     therock_add_amdgpu_target(gfx1300 \"New (8 GB)\" FAMILY dgpu-all gfx130X-all # one\n  \
                     EXCLUDE_TARGET_PROJECTS\n    hipBLASLt # two\n)\n\
                     # therock_add_amdgpu_target(gfx1400 \"No\" FAMILY x)\n\
                     therock_add_amdgpu_target(gfx942 \"Other\" FAMILY dcgpu-all gfx94X-all gfx94X-dcgpu)\n\
                     therock_add_amdgpu_target(gfx950 \"MI350X/MI355X CDNA\" FAMILY dcgpu-all gfx950-new)\n\
                     therock_add_amdgpu_target(gfx1200 \"AMD RX 9060 / XT\"\n  FAMILY\n    dgpu-all\n    gfx120X-all)\n";
        let gaps = targets(cmake, RocmTables::in_use());
        let rows: Vec<&str> = gaps.iter().map(|gap| gap.row.as_str()).collect();
        assert_eq!(
            rows,
            [
                "[[target]]\nname = \"gfx1300\"\nproduct = \"New (8 GB)\"\nfamilies = [\"dgpu-all\", \"gfx130X-all\"]\n",
                "[[target]]\nname = \"gfx942\"\nproduct = \"Other\"\n",
                "[[target]]\nname = \"gfx950\"\nfamilies = [\"dcgpu-all\", \"gfx950-new\"]\n",
            ]
        );
    }

    #[test]
    fn rows_of_gaps_fill_them() {
        let topology = "[artifacts.blas]\nsplit_databases = [\"rocblas\", \"rocnew\"]\n[artifacts.rocnew]\n";
        let python = "LibraryEntry(\"rccl\", \"libraries\", \"librccl.so*\", \"\")\nLibraryEntry(\n    \"new\",\n    \
                      \"core\",\n    \"librocnew.so.*\",\n    \"rocnew*.dll\",\n    \"lib/new/lib\",\n)\n";
        let mut gaps = artifacts(topology, RocmTables::in_use()).unwrap();
        gaps.extend(libraries(python, RocmTables::in_use()));
        let found: Vec<(&str, &str)> = gaps.iter().map(|gap| (gap.table, gap.key.as_str())).collect();
        assert_eq!(found, [("database", "rocnew"), ("artifact", "rocnew"), ("library", "librocnew.so")]);
        let rows: String = gaps.iter().map(|gap| gap.row.as_str()).collect();
        assert!(
            rows.contains("directory = \"_rocm_sdk_core/lib/new/lib\"\nshortname = \"new\"\ndll = \"rocnew*.dll\"\n"),
            "{rows}"
        );
        let filled = RocmTables::with(&[("mine.toml".to_owned(), rows)]).unwrap();
        assert!(artifacts(topology, &filled).unwrap().iter().all(|gap| gap.table == "database"));
        assert!(libraries(python, &filled).is_empty());
    }
}
