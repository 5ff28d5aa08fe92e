//! Input: a file with tables in the current format or in a former one. Output: the same rows in the
//! current format.
//!
//! Until November 2026 one fact was in up to ten tables: `providers.toml`, `dlopen.toml`,
//! `generic-targets.toml` and others. A user's copy of one of those still works.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::rows::KEYS;

/// A former `kind` of providers → the name of the owner today.
const OWNERS: [(&str, &str); 3] = [("rocm", "ROCm"), ("torch", "PyTorch"), ("driver", "machine")];

/// Converts the rows to the current format. `known` are the tables that the rows will be merged
/// into.
pub(crate) fn renew_rows(mut file: Table, known: &Table) -> Table {
    let mut rows = Rows::default();
    // generic-targets.toml: lists of targets, each with its generic target as the key.
    if !file.is_empty() && file.iter().all(|(name, value)| name.ends_with("-generic") && value.is_array()) {
        for (generic, members) in std::mem::take(&mut file) {
            rows.set_for_each(&members, "generic", &generic);
        }
    }
    // amdgpu-machines.toml
    if let Some(Value::Table(machines)) = file.remove("machine") {
        for (target, value) in machines {
            rows.set("target", &target, "elf-machine", value);
        }
    }
    if let Some(Value::Table(features)) = file.remove("one-bit-features") {
        for (feature, targets) in features {
            for target in names(&targets) {
                rows.push("target", target, "one-bit-features", &feature);
            }
        }
    }
    device_packages(&mut file, &mut rows);
    for provider in take_rows(&mut file, "provider") {
        provided(&provider, &mut rows);
    }
    // windows-libraries.toml contained ROCm's names too.
    if let Some(dlls) = file.remove("rocm") {
        rows.set("owner", "ROCm", "windows", dlls);
    }
    // artifact-licenses.toml
    if let Some(Value::Table(licenses)) = file.remove("artifacts") {
        for (artifact, license) in licenses {
            rows.set("artifact", &artifact, "license", license);
        }
    }
    if let Some(license) = file.remove("default") {
        file.insert("default-license".to_owned(), license);
    }
    for rule in take_rows(&mut file, "rule") {
        rows.add_rule(rule);
    }
    renew_loaders(&mut file, &mut rows, known);
    rows.add_to(file)
}

/// package-families.toml
fn device_packages(file: &mut Table, rows: &mut Rows) {
    for mut family in take_rows(file, "family") {
        let targets = family.remove("targets");
        let Some(name) = family.get("name").and_then(Value::as_str).map(str::to_owned) else { continue };
        rows.set_for_each(&targets.unwrap_or_else(|| Value::Array(Vec::new())), "package", &name);
        for (field, value) in family {
            rows.set("package", &name, &field, value);
        }
    }
    for generic in take_rows(file, "generic") {
        if let (Some(name), Some(targets)) = (generic.get("name").and_then(Value::as_str), generic.get("targets")) {
            rows.set_for_each(targets, "generic", name);
        }
    }
    if file.get("owner").is_some_and(Value::is_table)
        && let Some(Value::Table(owners)) = file.remove("owner")
    {
        for (target, owner) in owners {
            rows.set("target", &target, "shares-package-of", owner);
        }
    }
}

/// A row of providers.toml, which lists several libraries of one folder.
fn provided(provider: &Table, rows: &mut Rows) {
    let kind = provider.get("kind").and_then(Value::as_str).unwrap_or_default();
    let owner = OWNERS.iter().find(|(former, _)| *former == kind).map_or(kind, |(_, owner)| *owner);
    for library in provider.get("libraries").and_then(Value::as_array).into_iter().flatten() {
        let Some(soname) = library.get("family").and_then(Value::as_str) else { continue };
        rows.set("library", soname, "owner", owner.into());
        for field in ["distribution", "directory"] {
            if let Some(value) = provider.get(field) {
                rows.set("library", soname, field, value.clone());
            }
        }
        if let Some(shortname) = library.get("shortname") {
            rows.set("library", soname, "shortname", shortname.clone());
        }
    }
}

/// dlopen.toml, whose rows name the loads differently, and which had rows for libraries that have
/// their own rows today.
fn renew_loaders(file: &mut Table, rows: &mut Rows, known: &Table) {
    let libraries = known.get("library").and_then(Value::as_array);
    for mut loader in take_rows(file, "loader") {
        for (former, field) in [("required", "loads"), ("optional", "may-load")] {
            if let Some(names) = loader.remove(former) {
                loader.insert(field.to_owned(), names);
            }
        }
        let library = loader.remove("library");
        let name = library.as_ref().and_then(Value::as_str).unwrap_or_default();
        let soname = name.strip_suffix(".*").filter(|soname| {
            let mut libraries = libraries.into_iter().flatten();
            libraries.any(|row| row.get("soname").and_then(Value::as_str) == Some(soname))
        });
        let (table, key) = soname.map_or(("loader", name), |soname| ("library", soname));
        for (field, value) in loader {
            rows.set(table, key, &field, value);
        }
    }
}

fn take_rows(file: &mut Table, table: &str) -> Vec<Table> {
    if !file.get(table).is_some_and(|value| value.as_array().is_some_and(|rows| rows.iter().all(Value::is_table))) {
        return Vec::new();
    }
    let Some(Value::Array(rows)) = file.remove(table) else { return Vec::new() };
    rows.into_iter().filter_map(|row| if let Value::Table(row) = row { Some(row) } else { None }).collect()
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Rows by table and key, in the order in which they first occur.
#[derive(Default)]
struct Rows {
    order: Vec<(String, String)>,
    fields: BTreeMap<(String, String), Table>,
}

impl Rows {
    fn row(&mut self, table: &str, key: &str) -> &mut Table {
        let id = (table.to_owned(), key.to_owned());
        if !self.fields.contains_key(&id) {
            self.order.push(id.clone());
        }
        self.fields.entry(id).or_default()
    }

    fn set(&mut self, table: &str, key: &str, field: &str, value: Value) {
        self.row(table, key).insert(field.to_owned(), value);
    }

    fn set_for_each(&mut self, targets: &Value, field: &str, value: &str) {
        for target in names(targets) {
            self.set("target", target, field, value.into());
        }
    }

    fn push(&mut self, table: &str, key: &str, field: &str, value: &str) {
        let list = self.row(table, key).entry(field.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(value.into());
        }
    }

    /// Adds a row of kernel-databases.toml: the user's rules for a database replace ours.
    fn add_rule(&mut self, mut rule: Table) {
        let Some(Value::String(database)) = rule.remove("database") else { return };
        let row = self.row("database", &database);
        row.insert("tensile".to_owned(), false.into());
        let rules = row.entry("rule".to_owned()).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(rules) = rules {
            rules.push(Value::Table(rule));
        }
    }

    /// Puts these rows before the rows that the file already has in the current format.
    fn add_to(mut self, mut file: Table) -> Table {
        for id in self.order {
            let Some(mut row) = self.fields.remove(&id) else { continue };
            let (table, key) = id;
            let field = KEYS.iter().find(|(name, _)| *name == table).map_or("name", |(_, key)| key);
            row.insert(field.to_owned(), Value::String(key));
            let rows = file.entry(table).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(rows) = rows {
                rows.push(Value::Table(row));
            }
        }
        file
    }
}
