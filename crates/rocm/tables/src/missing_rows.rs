//! Input: a checkout of TheRock. Output: the facts in it that the tables lack, as rows to add.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use rocwheel_progress::{Context as _, Failure};
use serde::Serialize;

use crate::RocmTables;
use crate::tables::unreadable;
use crate::targets::TargetTable;

/// The file of a checkout that lists the GPU targets.
const TARGETS: &str = "cmake/therock_amdgpu_targets.cmake";
/// The file that lists the artifacts.
const TOPOLOGY: &str = "BUILD_TOPOLOGY.toml";
/// The file that lists the libraries with short names.
const DIST_INFO: &str = "build_tools/packaging/python/templates/rocm/src/rocm_sdk/_dist_info.py";

/// The script that says which package has which artifact.
const PACKAGES: &str = "build_tools/build_python_packages.py";

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
/// artifacts and their packages, kernel databases, and libraries with short names.
///
/// # Errors
/// A file is missing, or nothing is found in it: its format has changed.
pub fn therock(checkout: &Path, tables: &RocmTables) -> Result<Vec<Gap>, Failure> {
    type Find = fn(&str, &RocmTables) -> Result<Option<Vec<Gap>>, toml::de::Error>;
    let files: [(&str, &str, Find); 4] = [
        (TARGETS, "GPU target", |text, tables| Ok(targets(text, tables))),
        (TOPOLOGY, "artifact", artifacts),
        (PACKAGES, "artifact of a package", |text, tables| Ok(packages(text, tables))),
        (DIST_INFO, "library", |text, tables| Ok(libraries(text, tables))),
    ];
    let mut gaps = Vec::new();
    for (name, what, find) in files {
        let file = checkout.join(name);
        let text = fs_err::read_to_string(&file)
            .with_context(|| format!("`{}` is not a checkout of TheRock", checkout.display()))?;
        let file = file.display().to_string();
        let found = find(&text, tables).map_err(unreadable(&file))?;
        gaps.extend(found.ok_or_else(|| Failure::message(format!("found no {what} in `{file}`")))?);
    }
    Ok(gaps)
}

/// `None` if the file has no target at all; so do the functions for the other files.
fn targets(cmake: &str, tables: &RocmTables) -> Option<Vec<Gap>> {
    static CALL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"therock_add_amdgpu_target\(\s*([\w.-]+)\s+"([^"]*)"([^)]*)\)"#).expect("a test uses it")
    });
    let code: String =
        cmake.lines().map(|line| line.split('#').next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let known = TargetTable::of(tables);
    let mut gaps = Vec::new();
    let calls: Vec<regex::Captures<'_>> = CALL.captures_iter(&code).collect();
    for call in &calls {
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
    (!calls.is_empty()).then_some(gaps)
}

/// Artifacts that another package has than ours. The script has a filter for each package, and a
/// list for devel.
fn packages(python: &str, tables: &RocmTables) -> Option<Vec<Gap>> {
    static LIST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?s)(?:^|\n)def (\w+)_artifact_filter\(.*?\.name\s+in \[([^\]]*)\]|addl_artifact_names=\[([^\]]*)\]",
        )
        .expect("a test uses it")
    });
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"(?m)^\s*"([\w.-]+)""#).expect("a test uses it"));
    let mut of: BTreeMap<&str, &str> = BTreeMap::new();
    // Devel also takes artifacts of other packages.
    let mut lists: Vec<regex::Captures<'_>> = LIST.captures_iter(python).collect();
    lists.sort_by_key(|found| found.get(1).is_none());
    for found in lists {
        let package = found.get(1).map_or("devel", |package| package.as_str());
        let names = found.get(2).or_else(|| found.get(3)).map_or("", |names| names.as_str());
        // Device packages have what is in the libraries', for one target.
        for name in NAME.captures_iter(names).filter(|_| package != "device") {
            of.entry(name.get(1).map_or("", |name| name.as_str())).or_insert(package);
        }
    }
    if of.is_empty() {
        return None;
    }
    // Only what a package has is compared: ours have some that TheRock leaves out by other means.
    let moved = tables.artifacts().iter().filter_map(|row| {
        let theirs = of.get(row.name.as_str()).filter(|theirs| row.package.as_deref() != Some(**theirs))?;
        Some(Gap::fields("artifact", &row.name, PACKAGES, &[("package", text(theirs))], "package"))
    });
    Some(moved.collect())
}

fn artifacts(topology: &str, tables: &RocmTables) -> Result<Option<Vec<Gap>>, toml::de::Error> {
    let topology: toml::Table = toml::from_str(topology)?;
    let Some(artifacts) = topology.get("artifacts").and_then(toml::Value::as_table).filter(|rows| !rows.is_empty())
    else {
        return Ok(None);
    };
    let databases = tables.databases().names();
    let mut gaps = Vec::new();
    for (name, artifact) in artifacts {
        if !tables.artifacts().iter().any(|row| row.name == *name) {
            gaps.push(Gap::row("artifact", name, TOPOLOGY, &[]));
        }
        let split = artifact.get("split_databases").and_then(toml::Value::as_array).into_iter().flatten();
        for database in split.filter_map(toml::Value::as_str).filter(|database| !databases.contains(database)) {
            gaps.push(Gap::row("database", database, TOPOLOGY, &[]));
        }
    }
    Ok(Some(gaps))
}

fn libraries(python: &str, tables: &RocmTables) -> Option<Vec<Gap>> {
    static ENTRY: LazyLock<Regex> = LazyLock::new(|| {
        let text = r#"\s*"([^"]*)"\s*"#;
        let expression = format!(r"LibraryEntry\({text},{text},{text}(?:,{text})?(?:,{text})?");
        Regex::new(&expression).expect("a test uses it")
    });
    let known: BTreeSet<&str> = tables.libraries.iter().filter_map(|row| row.shortname.as_deref()).collect();
    let entries: Vec<regex::Captures<'_>> = ENTRY.captures_iter(python).collect();
    if entries.is_empty() {
        return None;
    }
    let rows = entries.into_iter().filter(|entry| !known.contains(&entry[1])).map(|entry| {
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
    });
    Some(rows.collect())
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
                     therock_add_amdgpu_target(gfx1200 \"AMD RX 9060 / XT\"\n  FAMILY\n    dgpu-all\n    gfx120X-all)\n\
                     therock_add_amdgpu_target(new-spirv \"SPIR-V\" FAMILY gpu-any\n  EXCLUDE_TARGET_PROJECTS rocBLAS)\n";
        let gaps = targets(cmake, RocmTables::in_use()).unwrap();
        let rows: Vec<&str> = gaps.iter().map(|gap| gap.row.as_str()).collect();
        assert_eq!(
            rows,
            [
                "[[target]]\nname = \"gfx1300\"\nproduct = \"New (8 GB)\"\nfamilies = [\"dgpu-all\", \"gfx130X-all\"]\n",
                "[[target]]\nname = \"gfx942\"\nproduct = \"Other\"\n",
                "[[target]]\nname = \"gfx950\"\nfamilies = [\"dcgpu-all\", \"gfx950-new\"]\n",
                "[[target]]\nname = \"new-spirv\"\nproduct = \"SPIR-V\"\nfamilies = [\"gpu-any\"]\n",
            ]
        );
    }

    #[test]
    fn rows_of_gaps_fill_them() {
        let topology = "[artifacts.blas]\nsplit_databases = [\"rocblas\", \"rocnew\"]\n[artifacts.rocnew]\n";
        let python = "LibraryEntry(\"rccl\", \"libraries\", \"librccl.so*\", \"\")\nLibraryEntry(\n    \"new\",\n    \
                      \"core\",\n    \"librocnew.so.*\",\n    \"rocnew*.dll\",\n    \"lib/new/lib\",\n)\n";
        let mut gaps = artifacts(topology, RocmTables::in_use()).unwrap().unwrap();
        gaps.extend(libraries(python, RocmTables::in_use()).unwrap());
        let found: Vec<(&str, &str)> = gaps.iter().map(|gap| (gap.table, gap.key.as_str())).collect();
        assert_eq!(found, [("database", "rocnew"), ("artifact", "rocnew"), ("library", "librocnew.so")]);
        let rows: String = gaps.iter().map(|gap| gap.row.as_str()).collect();
        assert!(
            rows.contains("directory = \"_rocm_sdk_core/lib/new/lib\"\nshortname = \"new\"\ndll = \"rocnew*.dll\"\n"),
            "{rows}"
        );
        let filled = RocmTables::with(&[("mine.toml".to_owned(), rows)]).unwrap();
        assert!(artifacts(topology, &filled).unwrap().unwrap().iter().all(|gap| gap.table == "database"));
        assert!(libraries(python, &filled).unwrap().is_empty());
    }

    #[test]
    fn an_artifact_that_moves_is_a_gap() {
        let names = |package: &str| {
            let tables = RocmTables::in_use();
            let of = tables.artifacts().iter().filter(|row| row.package.as_deref() == Some(package));
            of.map(|row| format!("        \"{}\",\n", row.name)).collect::<String>()
        };
        let filter = |package: &str, names: &str| {
            format!("def {package}_artifact_filter(an):\n    a = an.name in [\n{names}    ] and an.component\n\n")
        };
        let script = |core: &str, devel: &str| {
            let [libraries, profiler] = ["libraries", "profiler"].map(|package| filter(package, &names(package)));
            let hidden = "def device_artifact_filter(an):\n    an.name in [\n        \"blas\",\n    ]\n";
            format!(
                "addl_artifact_names=[\n# \"x\"\n{devel}],\n\n{}{libraries}{profiler}{hidden}",
                filter("core", core)
            )
        };
        let found = |python: &str| {
            let gaps = packages(python, RocmTables::in_use()).unwrap();
            gaps.into_iter().map(|gap| gap.row).collect::<Vec<_>>()
        };
        assert!(found(&script(&names("core"), &names("devel"))).is_empty());
        let devel = names("devel") + "\"elfio\",\n\"hipify\",\n\"blas\",\n";
        let moved = script(&names("core").replace("        \"hipify\",\n", ""), &devel);
        let expected =
            ["hipify", "elfio"].map(|name| format!("[[artifact]]\nname = \"{name}\"\npackage = \"devel\"\n"));
        assert_eq!(found(&moved), expected);
        assert_eq!(packages("def build():\n    pass\n", RocmTables::in_use()), None);
    }
}
