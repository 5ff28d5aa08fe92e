//! Input: a catalog and the record of an import. Output: licence expressions and texts for METADATA
//! (PEP 639).

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_artifact::{Catalog, EntryKind};
use rocwheel_content::archive_path::file_name;
use rocwheel_tables::RocmTables;

use crate::imported::Imported;
use crate::populate::{FileSource, PlannedFile};

/// The artifact that holds bundled system libraries.
const SYSTEM_LIBRARIES: &str = "sysdeps";

/// Licences by artifact name.
#[derive(Debug)]
pub struct Licenses {
    tables: &'static RocmTables,
    /// SPDX expressions of the system libraries of an import.
    system: BTreeSet<String>,
    /// Artifact name → path below `dist-info/licenses/` → file.
    texts: BTreeMap<String, BTreeMap<String, PlannedFile>>,
}

impl Licenses {
    /// Finds the licence texts in a catalog and the expressions of imported libraries.
    pub fn collect(catalog: &Catalog, imported: Option<&Imported>) -> Licenses {
        let mut texts: BTreeMap<String, BTreeMap<String, PlannedFile>> = BTreeMap::new();
        for artifact in &catalog.artifacts {
            for entry in &artifact.entries {
                let EntryKind::File { size, .. } = entry.kind else { continue };
                let Some(place) = license_place(&entry.path) else { continue };
                let path = artifact.root.join(&artifact.basedirs[entry.basedir]).join(&entry.path);
                let file =
                    PlannedFile { source: FileSource::File { path }, size, executable: false, owners: Vec::new() };
                texts.entry(artifact.name.name.clone()).or_default().insert(place, file);
            }
        }
        Licenses { tables: RocmTables::in_use(), system: imported.map(Imported::licenses).unwrap_or_default(), texts }
    }

    /// Returns the SPDX expression and the texts for files of these artifacts.
    pub fn of(&self, artifacts: &BTreeSet<&str>) -> (String, BTreeMap<String, PlannedFile>) {
        let mut expressions = BTreeSet::new();
        let mut texts = BTreeMap::new();
        for name in artifacts {
            if *name == SYSTEM_LIBRARIES && !self.system.is_empty() {
                expressions.extend(self.system.iter().map(String::as_str));
            } else {
                let row = self.tables.artifacts().iter().find(|row| row.name == *name);
                let license = row.and_then(|row| row.license.as_deref());
                expressions.insert(license.unwrap_or(self.tables.default_license()));
            }
            texts
                .extend(self.texts.get(*name).into_iter().flatten().map(|(place, file)| (place.clone(), file.clone())));
        }
        // Every wheel contains Python code of rocwheel itself.
        expressions.insert("MIT OR Apache-2.0");
        (conjunction(&expressions), texts)
    }
}

/// Joins expressions with `AND`, alternatives in parentheses, each operand once.
fn conjunction(expressions: &BTreeSet<&str>) -> String {
    let mut operands = BTreeSet::new();
    for expression in expressions {
        let mut depth = 0_i32;
        let mut operand = String::new();
        for word in expression.split(' ') {
            depth += word.matches('(').count() as i32 - word.matches(')').count() as i32;
            if word == "AND" && depth == 0 && !has_alternative(expression) {
                operands.insert(std::mem::take(&mut operand));
            } else {
                operand = if operand.is_empty() { word.to_owned() } else { format!("{operand} {word}") };
            }
        }
        operands.insert(if has_alternative(&operand) { format!("({operand})") } else { operand });
    }
    let joined = operands.iter().map(String::as_str).collect::<Vec<_>>().join(" AND ");
    match (operands.len(), joined.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'))) {
        (1, Some(inner)) => inner.to_owned(),
        _ => joined,
    }
}

/// `true` if the expression has an `OR` outside parentheses.
fn has_alternative(expression: &str) -> bool {
    let mut depth = 0_i32;
    expression.split(' ').any(|word| {
        depth += word.matches('(').count() as i32 - word.matches(')').count() as i32;
        word == "OR" && depth == 0
    })
}

/// Returns the path of a licence text below `dist-info/licenses/`; `None` for other files.
fn license_place(path: &str) -> Option<String> {
    let name = file_name(path).to_ascii_uppercase();
    let is_text = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"].iter().any(|word| name.starts_with(word));
    let below = ["share/doc/", "share/licenses/"].iter().find_map(|prefix| path.strip_prefix(prefix))?;
    is_text.then(|| below.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn licenses() -> Licenses {
        Licenses { tables: RocmTables::in_use(), system: BTreeSet::new(), texts: BTreeMap::new() }
    }

    #[test]
    fn expressions_are_joined_once_each_with_alternatives_in_parentheses() {
        assert_eq!(conjunction(&BTreeSet::from(["MIT"])), "MIT");
        assert_eq!(conjunction(&BTreeSet::from(["A OR B"])), "A OR B");
        assert_eq!(
            conjunction(&BTreeSet::from([
                "MIT AND Zlib",
                "MIT",
                "GPL-2.0-or-later OR LGPL-3.0-or-later",
                "X AND (A OR B)"
            ])),
            "(A OR B) AND (GPL-2.0-or-later OR LGPL-3.0-or-later) AND MIT AND X AND Zlib"
        );
        let expression = licenses().of(&BTreeSet::from(["core-hip", "amd-llvm"])).0;
        assert_eq!(expression, "(MIT OR Apache-2.0) AND Apache-2.0 WITH LLVM-exception AND MIT AND NCSA");
    }

    #[test]
    fn licence_texts_are_told_from_other_documents() {
        assert_eq!(license_place("share/doc/libz1/copyright").as_deref(), Some("libz1/copyright"));
        assert_eq!(license_place("share/doc/hip/LICENSE.txt").as_deref(), Some("hip/LICENSE.txt"));
        assert_eq!(license_place("share/doc/hip/changelog.gz"), None);
        assert_eq!(license_place("include/LICENSE.h"), None);
    }
}
