//! Input: the tables in `data/`, and files with a user's rows. Output: [`RocmTables`], the merged
//! tables that the other modules read.
//!
//! If the key of a user's row is known, the row changes the fields that it names; otherwise it is
//! added after ours. So a user's file contains only the differences, and a complete copy of a table
//! changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use rocwheel_progress::{Exit, Failure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::database::Databases;
use crate::dll_names::DllNames;
use crate::former_format::renew_rows;
use crate::rows::{
    ArtifactRow, DatabaseRow, KEYS, LibraryProduct, LibraryRow, LoaderRow, MACHINE, OwnerRow, PackageRow, TargetRow,
    WindowsNames,
};

/// The built-in files, as name and text.
const BUILT_IN: [(&str, &str); 4] = [
    ("data/targets.toml", include_str!("../../../../data/targets.toml")),
    ("data/libraries.toml", include_str!("../../../../data/libraries.toml")),
    ("data/artifacts.toml", include_str!("../../../../data/artifacts.toml")),
    ("data/windows-libraries.toml", include_str!("../../../../data/windows-libraries.toml")),
];

/// Keys that hold a list or a text instead of rows. A user's file replaces their values.
const SINGLE: [&str; 8] = ["plain", "shortnames", "default-license", "system", "python", "runtime", "debug", "driver"];

/// The `expect` text of compiled expressions.
const COMPILED: &str = "a test compiles the expressions of the built-in tables, and `with` those of a user";

static IN_USE: OnceLock<RocmTables> = OnceLock::new();

/// All facts about what AMD ships.
#[derive(Debug)]
pub struct RocmTables {
    pub(crate) targets: Vec<TargetRow>,
    pub(crate) packages: Vec<PackageRow>,
    pub(crate) libraries: Vec<LibraryRow>,
    pub(crate) loaders: Vec<LoaderRow>,
    pub(crate) owners: Vec<OwnerRow>,
    pub(crate) plain: Vec<String>,
    pub(crate) shortnames: Vec<String>,
    database_rows: Vec<DatabaseRow>,
    /// Compiled when they are first needed: that takes longer than all other tables together.
    databases: OnceLock<Databases>,
    windows: WindowsNames,
    rocm_dlls: Vec<String>,
    dlls: OnceLock<DllNames>,
    in_torch: Vec<String>,
    artifacts: Vec<ArtifactRow>,
    default_license: String,
    raw: Table,
    /// Table and key → the files that contain the row. The last of them wins.
    sources: BTreeMap<(String, String), Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Whole {
    target: Vec<TargetRow>,
    package: Vec<PackageRow>,
    library: Vec<LibraryRow>,
    loader: Vec<LoaderRow>,
    owner: Vec<OwnerRow>,
    plain: Plain,
    database: Vec<DatabaseRow>,
    artifact: Vec<ArtifactRow>,
    shortnames: Vec<String>,
    default_license: String,
    #[serde(flatten)]
    windows: WindowsNames,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    distributions: Vec<String>,
}

impl RocmTables {
    /// The tables of this process: built-in tables, merged with the files that were passed to
    /// [`RocmTables::use_with`].
    ///
    /// There is one set in a process, and it does not change. Passing it along would add one more
    /// argument to some sixty functions of eight crates, for a value of which there are never two.
    pub fn in_use() -> &'static RocmTables {
        IN_USE.get_or_init(|| Self::with(&[]).expect("the built-in tables are right: a test sees to it"))
    }

    /// The first ROCm whose released packages have the library with this SONAME up to `.so`.
    pub fn first_rocm_with(&self, soname: &str) -> Option<&str> {
        self.libraries.iter().find(|row| row.soname == soname)?.since.as_deref()
    }

    /// Merges these files with a user's rows into the tables of this process.
    /// Fails if the tables have been read before, since they do not change any more.
    pub fn use_with(files: &[(String, String)]) -> Result<(), Failure> {
        IN_USE.set(Self::with(files)?).map_err(|_| {
            Failure::message("the tables were asked for before the user's rows were read").with_exit(Exit::Bug)
        })
    }

    /// The built-in tables, merged with these files. Each has a name, for messages, and a text.
    pub fn with(files: &[(String, String)]) -> Result<RocmTables, Failure> {
        let mut raw = Table::new();
        let mut sources = BTreeMap::new();
        let users = files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        for (name, text) in BUILT_IN.into_iter().chain(users) {
            let parsed = toml::from_str(text).map_err(unreadable(name))?;
            let rows = renew_rows(parsed, &raw);
            merge(&mut raw, rows, name, &mut sources)?;
        }
        let whole: Whole = Value::Table(raw.clone()).try_into().map_err(unreadable("the tables"))?;
        refer(&whole)?;
        let tables = RocmTables {
            in_torch: whole.database.iter().filter(|row| row.in_torch).map(|row| row.name.clone()).collect(),
            databases: OnceLock::new(),
            rocm_dlls: rocm_dlls(&whole),
            dlls: OnceLock::new(),
            database_rows: whole.database,
            windows: whole.windows,
            targets: whole.target,
            packages: whole.package,
            libraries: whole.library,
            loaders: whole.loader,
            owners: whole.owner,
            plain: whole.plain.distributions,
            shortnames: whole.shortnames,
            artifacts: whole.artifact,
            default_license: whole.default_license,
            raw,
            sources,
        };
        // A test compiles our own expressions.
        if !files.is_empty() {
            tables.compile()?;
        }
        Ok(tables)
    }

    /// Compiles all expressions.
    fn compile(&self) -> Result<(), Failure> {
        let (databases, dlls) = (Databases::new(&self.database_rows)?, DllNames::new(&self.windows, &self.rocm_dlls)?);
        self.databases.get_or_init(|| databases);
        self.dlls.get_or_init(|| dlls);
        Ok(())
    }

    /// TheRock's artifacts, in the order in which their rules are tried.
    pub fn artifacts(&self) -> &[ArtifactRow] {
        &self.artifacts
    }

    /// The licence of an artifact whose row names none, as an SPDX expression.
    pub fn default_license(&self) -> &str {
        &self.default_license
    }

    /// The rules that recognise files of kernel databases.
    pub fn databases(&self) -> &Databases {
        self.databases.get_or_init(|| Databases::new(&self.database_rows).expect(COMPILED))
    }

    /// The names of DLLs by their providers.
    pub(crate) fn dlls(&self) -> &DllNames {
        self.dlls.get_or_init(|| DllNames::new(&self.windows, &self.rocm_dlls).expect(COMPILED))
    }

    /// The kernel databases in a PyTorch wheel that contains ROCm's libraries.
    pub fn databases_in_torch(&self) -> Vec<String> {
        self.in_torch.clone()
    }

    /// `true` if a row exists for this GPU target. AMD's releases need not be built for it.
    pub fn has_target(&self, processor: &str) -> bool {
        self.targets.iter().any(|row| row.name == processor)
    }

    /// The rows of a table as they are written, with their keys; empty for a name that is not in
    /// [`KEYS`].
    pub fn rows(&self, table: &str) -> Vec<(&str, &Table)> {
        let Some((_, key)) = KEYS.iter().find(|(name, _)| *name == table) else { return Vec::new() };
        let rows = self.raw.get(table).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table);
        rows.filter_map(|row| Some((row.get(*key)?.as_str()?, row))).collect()
    }

    /// The files that contain a row, the built-in one first.
    pub fn sources(&self, table: &str, key: &str) -> &[String] {
        self.sources.get(&(table.to_owned(), key.to_owned())).map_or(&[], Vec::as_slice)
    }
}

impl Databases {
    /// The rules of [`RocmTables::in_use`].
    pub fn embedded() -> &'static Self {
        RocmTables::in_use().databases()
    }
}

/// Merges the rows and values of one file into the tables.
fn merge(
    into: &mut Table,
    from: Table,
    file: &str,
    sources: &mut BTreeMap<(String, String), Vec<String>>,
) -> Result<(), Failure> {
    for (name, value) in from {
        let Some((_, key)) = KEYS.iter().find(|(table, _)| *table == name) else {
            if !SINGLE.contains(&name.as_str()) {
                return Err(no_table(format!("`{file}` has `{name}`, which is the name of no table")));
            }
            into.insert(name, value);
            continue;
        };
        let Value::Array(rows) = value else {
            return Err(no_table(format!("`{name}` in `{file}` is not a list of rows")));
        };
        let known = into.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(known) = known else { continue };
        let mut seen = BTreeSet::new();
        for row in rows {
            let keyed = row.get(*key).and_then(Value::as_str).map(str::to_owned);
            let (Some(id), Value::Table(row)) = (keyed, row) else {
                let failure = Failure::message(format!("a row of `{name}` in `{file}` has no `{key}`"));
                return Err(bad_row(failure, &name));
            };
            if !seen.insert(id.clone()) {
                let text = format!("`{file}` has two rows `{id}` in `{name}`");
                return Err(Failure::message(text).with_exit(Exit::Usage));
            }
            let place = known.iter().position(|known| known.get(*key).and_then(Value::as_str) == Some(&id));
            let place = place.unwrap_or_else(|| {
                known.push(Value::Table(Table::new()));
                known.len() - 1
            });
            if let Some(whole) = known[place].as_table_mut() {
                whole.extend(row);
                check(&name, whole).map_err(|error| {
                    let attempt = format!("could not understand the row `{id}` of `{name}` in `{file}`");
                    bad_row(Failure::other(error).context(attempt), &name)
                })?;
            }
            sources.entry((name.clone(), id)).or_default().push(file.to_owned());
        }
    }
    Ok(())
}

/// A file that is not TOML.
pub(crate) fn unreadable(file: &str) -> impl FnOnce(toml::de::Error) -> Failure {
    move |error| Failure::other(error).context(format!("could not read the tables in `{file}`")).with_exit(Exit::Usage)
}

/// A table that does not exist, or is not a list of rows.
fn no_table(text: String) -> Failure {
    let tables: Vec<String> = KEYS.iter().map(|(name, _)| format!("`[[{name}]]`")).collect();
    Failure::message(text).with_hint(format!("rows are written as {}", tables.join(", "))).with_exit(Exit::Usage)
}

fn bad_row(failure: Failure, table: &str) -> Failure {
    failure.with_hint(format!("`rocwheel data list {table}` shows the rows that are there")).with_exit(Exit::Usage)
}

/// Checks that every name that a row refers to is a row as well.
fn refer(tables: &Whole) -> Result<(), Failure> {
    let packages: BTreeSet<&str> = tables.package.iter().map(|row| row.name.as_str()).collect();
    for row in &tables.target {
        if let Some(name) = row.package.as_deref().filter(|name| !packages.contains(name)) {
            return Err(missing("target", &row.name, "package", name));
        }
    }
    for row in &tables.package {
        if let Some(name) = row.parent.as_deref().filter(|name| !packages.contains(name)) {
            return Err(missing("package", &row.name, "parent", name));
        }
    }
    for row in &tables.library {
        if row.owner != MACHINE && !tables.owner.iter().any(|owner| owner.name == row.owner) {
            return Err(missing("library", &row.soname, "owner", &row.owner));
        }
    }
    Ok(())
}

fn missing(table: &'static str, row: &str, field: &'static str, name: &str) -> Failure {
    Failure::message(format!("the row `{row}` of `{table}` has the {field} `{name}`, which is no row"))
        .with_exit(Exit::Usage)
}

/// The names of ROCm's DLLs.
fn rocm_dlls(tables: &Whole) -> Vec<String> {
    let owner = tables.owner.iter().find(|owner| owner.kind == Some(LibraryProduct::Rocm));
    let libraries = tables.library.iter().filter(|row| owner.is_some_and(|owner| owner.name == row.owner));
    let names = libraries.flat_map(LibraryRow::dlls).chain(owner.into_iter().flat_map(|owner| &owner.windows));
    names.cloned().collect()
}

/// Parses a single row as the type of its table, so that an error message can name the row.
fn check(table: &str, row: &Table) -> Result<(), toml::de::Error> {
    fn read<T: DeserializeOwned>(row: &Table) -> Result<(), toml::de::Error> {
        Value::Table(row.clone()).try_into::<T>().map(|_| ())
    }
    match table {
        "target" => read::<TargetRow>(row),
        "package" => read::<PackageRow>(row),
        "library" => read::<LibraryRow>(row),
        "loader" => read::<LoaderRow>(row),
        "owner" => read::<OwnerRow>(row),
        "database" => read::<DatabaseRow>(row),
        _ => read::<ArtifactRow>(row),
    }
}
