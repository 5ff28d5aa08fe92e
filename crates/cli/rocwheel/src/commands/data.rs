//! `rocwheel data`: the tables of ROCm's targets and libraries, and what they lack.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_progress::Exit;
use rocwheel_tables::missing_rows::{self, Gap};
use rocwheel_tables::{KEYS, RocmTables, providers};
use serde::Serialize;
use toml::{Table, Value};

/// Show what is known of GPU targets, libraries and artifacts, and find out what is missing
///
/// Every fact is one row of one table. `--data-file FILE` adds rows and changes fields of rows that
/// are there; this command shows the result.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the tables, or the rows of one
    List {
        /// target, package, library, loader, owner, database or artifact
        table: Option<String>,
    },
    /// Show everything that is known of a target, library, artifact, …
    Show {
        /// The key of a row, for example `gfx942`, `librccl.so.1` or `core-hip`
        name: String,
    },
    /// Say what checkouts of TheRock or a folder of Debian packages has that the tables lack
    ///
    /// What is missing is printed as rows for --data-file, or for the tables themselves. Exit code
    /// 1 if anything is missing.
    Check {
        /// Checkouts of TheRock: their targets, artifacts, packages and libraries
        #[arg(long, value_name = "DIR", num_args = 1.., required_unless_present = "debian")]
        therock: Vec<PathBuf>,
        /// A folder of .deb files: the packages and libraries of those that are ROCm's
        #[arg(long, value_name = "DIR")]
        debian: Option<PathBuf>,
    },
}

/// The action of the command.
#[derive(Debug)]
pub(crate) enum Settings {
    /// Lists the tables.
    Tables,
    /// Lists the rows of one table, which exists.
    Rows(String),
    /// Shows the rows that a name finds.
    Show(String),
    /// Compares the tables with TheRock or Debian packages and reports missing rows.
    Check { therock: Vec<PathBuf>, debian: Option<PathBuf> },
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        Ok(match arguments.action {
            Action::List { table: None } => Self::Tables,
            Action::List { table: Some(table) } => {
                let names = KEYS.iter().map(|(name, _)| *name);
                if !names.clone().any(|name| name == table) {
                    let usage = Usage::new(format!("there is no table `{table}`"));
                    return Err(usage.hint(rocwheel_progress::suggestion(&table, names)).into());
                }
                Self::Rows(table)
            }
            Action::Show { name } => Self::Show(name),
            Action::Check { therock, debian } => Self::Check { therock, debian },
        })
    }
}

/// A row for the output.
#[derive(Serialize)]
struct Row<'a> {
    table: &'a str,
    key: &'a str,
    fields: &'a Table,
    /// The files that set the row; the last one decides.
    from: &'a [String],
}

/// Prints tables, rows, or missing rows.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let tables = RocmTables::in_use();
    match settings {
        Settings::Tables => list_tables(tables, printer)?,
        Settings::Rows(table) => list_rows(&rows_of(tables, table), printer)?,
        Settings::Show(name) => show(&find(tables, name)?, printer)?,
        Settings::Check { therock, debian } => {
            let mut found = Vec::new();
            for checkout in therock {
                for gap in missing_rows::therock(checkout, tables)? {
                    // Open changes have what the line of development has, too.
                    if !found.iter().any(|other: &Gap| (&other.row, &other.missing) == (&gap.row, &gap.missing)) {
                        let found_in = checkout.join(&gap.found_in).display().to_string();
                        found.push(if therock.len() > 1 { Gap { found_in, ..gap } } else { gap });
                    }
                }
            }
            if let Some(folder) = debian {
                found.extend(rocwheel_import::missing_rows(folder, tables, printer.reporter())?);
            }
            return report(&found, printer);
        }
    }
    Ok(Exit::Done)
}

fn rows_of<'a>(tables: &'a RocmTables, table: &'a str) -> Vec<Row<'a>> {
    let rows = tables.rows(table).into_iter();
    rows.map(|(key, fields)| Row { table, key, fields, from: tables.sources(table, key) }).collect()
}

fn list_tables(tables: &RocmTables, printer: &Printer) -> Result<()> {
    #[derive(Serialize)]
    struct Listed {
        table: &'static str,
        key: &'static str,
        rows: usize,
        from: Vec<String>,
    }
    let listed = KEYS.iter().map(|(table, key)| {
        let rows = rows_of(tables, table);
        let mut from: Vec<String> = rows.iter().flat_map(|row| row.from).cloned().collect();
        from.sort();
        from.dedup();
        Listed { table, key, rows: rows.len(), from }
    });
    let listed: Vec<Listed> = listed.collect();
    if printer.format() == ResultFormat::Json {
        return printer.json(&serde_json::json!({ "schema": 1, "tables": listed }));
    }
    let columns = [("Table", Left), ("Rows", Right), ("Key", Left), ("From", Left)];
    let cells = listed
        .iter()
        .map(|table| vec![table.table.to_owned(), table.rows.to_string(), table.key.to_owned(), table.from.join(", ")]);
    printer.table(&columns, cells)
}

fn list_rows(rows: &[Row], printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        return printer.json(&serde_json::json!({ "schema": 1, "rows": rows }));
    }
    let cells = rows.iter().map(|row| {
        let key = KEYS.iter().find(|(table, _)| *table == row.table).map_or("", |(_, key)| key);
        let fields = row.fields.iter().filter(|(field, _)| *field != key);
        let fields: Vec<String> = fields.map(|(field, value)| format!("{field} = {}", short(value))).collect();
        vec![row.key.to_owned(), fields.join("  ")]
    });
    printer.table(&[("Row", Left), ("Fields", Left)], cells)
}

/// A value for a list of rows: a long list is replaced by its length.
fn short(value: &Value) -> String {
    const MOST: usize = 3;
    match value {
        Value::Array(items) if items.len() > MOST => format!("[{} of them]", items.len()),
        value => value.to_string(),
    }
}

/// The rows with this key; a library is also found by its file name with version.
fn find<'a>(tables: &'a RocmTables, name: &str) -> Result<Vec<Row<'a>>> {
    let family = providers::family(name);
    let mut found = rows_that(tables, |row| row.key == name);
    if found.is_empty() {
        found = rows_that(tables, |row| row.key == family && row.table == "library");
    }
    if found.is_empty() {
        found = rows_that(tables, |row| row.key.contains('*'));
        found.retain(|row| {
            let pattern = rocwheel_tables::Pattern::new(row.key);
            pattern.matches(name) || pattern.matches(family)
        });
    }
    if found.is_empty() {
        let keys: Vec<&str> = rows_that(tables, |_| true).iter().map(|row| row.key).collect();
        let usage = Usage::new(format!("no table has a row `{name}`"));
        let hint = match rocwheel_progress::nearest(name, keys) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`rocwheel data list TABLE` shows the rows of a table".to_owned(),
        };
        return Err(usage.hint(hint).into());
    }
    Ok(found)
}

fn rows_that<'a>(tables: &'a RocmTables, is_wanted: impl Fn(&Row<'a>) -> bool) -> Vec<Row<'a>> {
    KEYS.iter().flat_map(|(table, _)| rows_of(tables, table)).filter(is_wanted).collect()
}

fn show(rows: &[Row], printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        return printer.json(&serde_json::json!({ "schema": 1, "rows": rows }));
    }
    for (number, row) in rows.iter().enumerate() {
        if number > 0 {
            printer.line("")?;
        }
        printer.line(format!("[[{}]]  # {}", row.table, row.from.join(", ")))?;
        printer.line(toml::to_string_pretty(row.fields).map_err(Failure::other)?.trim_end())?;
    }
    Ok(())
}

fn report(found: &[Gap], printer: &Printer) -> Result<Exit> {
    let exit = if found.is_empty() { Exit::Done } else { Exit::Failed };
    if printer.format() == ResultFormat::Json {
        printer.json(&serde_json::json!({ "schema": 1, "missing": found }))?;
        return Ok(exit);
    }
    for gap in found {
        let what = match gap.missing.as_str() {
            "row" => String::new(),
            field => format!(": other {field} than ours"),
        };
        printer.line(format!("# {}{what}", gap.found_in))?;
        printer.line(&gap.row)?;
    }
    printer.note(match found.len() {
        0 => "the tables lack nothing".to_owned(),
        missing => format!("the tables lack {}", message::count(missing as u64, "row", "rows")),
    });
    Ok(exit)
}
