//! `rocwheel recipe`: lists recipes, shows one evaluated for a combination, checks them and starts
//! new ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use comfy_table::CellAlignment::Left;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_progress::Exit;
use rocwheel_recipe::recipe::{Recipe, RecipeFeature};
use rocwheel_recipe::request::BuildRequest;
use rocwheel_recipe::{Author, Book, Cell, Evaluated, Platform, SdkKind, Switch, evaluate, script};
use serde::Serialize;

use crate::build::cell::CellArguments;

const COLUMNS: [Column; 4] = [("Recipe", Left), ("Backends", Left), ("Systems", Left), ("What it is", Left)];

const SCHEMA: &str = include_str!("../../../../docs/schemas/recipe.json");
const TEMPLATE: &str = include_str!("recipe/template.toml");

/// The documentation of the commands is at their arguments.
#[derive(Debug, Subcommand)]
pub enum RecipeCommand {
    List(ListArguments),
    Show(Box<ShowArguments>),
    Check(CheckArguments),
    New(NewArguments),
    /// Print a JSON schema of recipes, for editors
    Schema,
}

/// List the recipes
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Folder with your recipes
    #[arg(long, value_name = "DIR")]
    recipes: Option<PathBuf>,
}

/// Print a recipe for one combination: environment and steps
///
/// For Linux it is a shell script, for Windows a batch file. `${…}` is a value that is known only
/// when it runs. With --json, it is the evaluated recipe, as in job files.
#[derive(Debug, Args)]
pub struct ShowArguments {
    /// The recipe
    #[arg(value_name = "RECIPE")]
    recipe: String,
    /// The system: linux, windows [default: this one]
    #[arg(long, value_name = "SYSTEM")]
    platform: Option<Platform>,
    /// Recipes that are built before in the same run, such as triton for torch
    #[arg(long = "after", value_name = "RECIPE", value_delimiter = ',')]
    built: Vec<String>,
    /// Version of the framework, where the recipe asks for it
    #[arg(long, value_name = "VERSION")]
    framework_version: Option<String>,
    /// How ROCm comes to the build: packages (Python packages of an index or a folder) or prefix
    /// (an installed one)
    #[arg(long, value_name = "KIND", default_value = "packages", value_parser = sdk_kind)]
    rocm_sdk: SdkKind,
    /// Print the recipe unevaluated
    #[arg(long)]
    source: bool,
    #[command(flatten)]
    cell: CellArguments,
}

/// Refuses `none`: a recipe itself knows which of its backends need no ROCm.
fn sdk_kind(text: &str) -> Result<SdkKind, String> {
    let kind = text.parse().ok().filter(|kind| *kind != SdkKind::None);
    kind.ok_or_else(|| "it is `packages` or `prefix`".to_owned())
}

/// Check recipes: names, conditions and every combination
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// Recipes: files, folders of them, or names of ours [default: all of ours]
    #[arg(value_name = "FILE|DIR|NAME")]
    recipes: Vec<String>,
}

/// Write a recipe to start from
#[derive(Debug, Args)]
pub struct NewArguments {
    /// Name of the recipe and of the wheel
    name: String,
    /// Folder for the recipe
    #[arg(long, value_name = "DIR", default_value = "recipes")]
    output: PathBuf,
}

#[derive(Debug)]
pub enum Settings {
    List(Book),
    Show(Box<Show>),
    Check { book: Book, names: Vec<String> },
    New { name: String, path: PathBuf },
    Schema,
}

#[derive(Debug)]
pub struct Show {
    request: BuildRequest,
    recipe: String,
    built: BTreeSet<String>,
    version: Option<String>,
    source: bool,
}

impl TryFrom<RecipeCommand> for Settings {
    type Error = Failure;

    fn try_from(command: RecipeCommand) -> Result<Self> {
        Ok(match command {
            RecipeCommand::List(arguments) => {
                let mut book = Book::built_in()?;
                if let Some(folder) = &arguments.recipes {
                    book.add_folder(folder)?;
                }
                Self::List(book)
            }
            RecipeCommand::Show(arguments) => Self::Show(Box::new(Show {
                request: arguments.cell.request(arguments.platform)?.with_sdk(arguments.rocm_sdk),
                recipe: arguments.recipe,
                built: arguments.built.into_iter().collect(),
                version: arguments.framework_version,
                source: arguments.source,
            })),
            RecipeCommand::Check(arguments) => {
                let mut book = Book::built_in()?;
                let mut names = Vec::new();
                for name in arguments.recipes {
                    let of_ours = book.get(&name).is_ok();
                    if !of_ours && Path::new(&name).is_dir() {
                        let found = book.add_folder(Path::new(&name))?;
                        if found.is_empty() {
                            return Err(Usage::new(format!("`{name}` has no recipes, which are files `*.toml`")).into());
                        }
                        names.extend(found);
                    } else if Path::new(&name).extension().is_some_and(|extension| extension == "toml") {
                        names.push(book.add(name.clone(), fs_err::read_to_string(&name)?)?);
                    } else {
                        names.push(book.get(&name)?.recipe.name.clone());
                    }
                }
                if names.is_empty() {
                    names = book.entries().map(|entry| entry.recipe.name.clone()).collect();
                }
                Self::Check { book, names }
            }
            RecipeCommand::Schema => Self::Schema,
            RecipeCommand::New(arguments) => {
                let mut letters = arguments.name.chars();
                let is_name = arguments.name.starts_with(|first: char| first.is_ascii_alphanumeric());
                if !is_name || !letters.all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter)) {
                    let usage = Usage::new(format!("`{}` is not a name for a recipe", arguments.name));
                    return Err(usage.hint("letters, digits, `-`, `_` and `.` make one").into());
                }
                let path = arguments.output.join(format!("{}.toml", arguments.name));
                Self::New { name: arguments.name, path }
            }
        })
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    summary: &'a str,
    backends: &'a [String],
    platforms: &'a [Platform],
    path: &'a str,
}

#[derive(Serialize)]
struct Shown<'a> {
    recipe: &'a Evaluated,
    script: String,
}

/// Runs the subcommand.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    match settings {
        Settings::List(book) => list(book, printer)?,
        Settings::Show(show) => self::show(show, printer)?,
        Settings::Check { book, names } => check(book, names, printer)?,
        Settings::New { name, path } => new(name, path, printer)?,
        Settings::Schema => {
            printer.raw(SCHEMA.as_bytes())?;
        }
    }
    Ok(Exit::Done)
}

fn list(book: &Book, printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        let listed = book.entries().map(|entry| Listed {
            name: &entry.recipe.name,
            summary: &entry.recipe.summary,
            backends: &entry.recipe.backends,
            platforms: &entry.recipe.platforms,
            path: &entry.path,
        });
        return printer.json(&serde_json::json!({ "recipes": listed.collect::<Vec<_>>() }));
    }
    printer.table(
        &COLUMNS,
        book.entries().map(|entry| {
            let recipe = &entry.recipe;
            let platforms: Vec<&str> = recipe.platforms.iter().map(|platform| platform.name()).collect();
            vec![recipe.name.clone(), recipe.backends.join(", "), platforms.join(", "), recipe.summary.clone()]
        }),
    )?;
    let here = Platform::native();
    let all: Vec<&str> = book.part_of_all(here).map(|recipe| recipe.name.as_str()).collect();
    printer.note(format!("`rocwheel build all` builds {}", all.join(", ")));
    Ok(())
}

fn show(show: &Show, printer: &Printer) -> Result<()> {
    let names = show.request.recipes(std::slice::from_ref(&show.recipe))?;
    for named in &names {
        let entry = show.request.book.get(&named.recipe)?;
        if show.source {
            printer.line(entry.text.trim_end())?;
            continue;
        }
        for mut cell in show.request.cells(named, &show.built)? {
            cell.version.clone_from(&show.version);
            if let Some(reason) = show.request.table.excludes(&named.recipe, &cell)? {
                let usage = Usage::new(format!("{} cannot be built: {reason}", named.recipe));
                let hint =
                    format!("`rocwheel matrix {} --platform {}` shows what can", named.recipe, cell.platform.name());
                return Err(usage.hint(hint).into());
            }
            for feature in undecided(&entry.recipe, &cell) {
                printer.note(format!("{feature} is shown as on: without `--gpu-targets`, the ROCm decides about it"));
                cell.features.insert(feature, Switch::On);
            }
            let evaluated = evaluate(entry, &show.request.book, &cell)?;
            let script = script::text(&evaluated);
            match printer.format() {
                ResultFormat::Json => printer.json(&Shown { recipe: &evaluated, script })?,
                ResultFormat::Text => printer.line(script.trim_end())?,
            }
        }
    }
    Ok(())
}

/// Features that depend on GPU targets although none are given.
fn undecided(recipe: &Recipe, cell: &Cell) -> Vec<String> {
    if !cell.targets.is_empty() || !recipe.targets.is_empty() {
        return Vec::new();
    }
    let is_open =
        |feature: &&RecipeFeature| !cell.features.contains_key(&feature.name) && feature.lacks(cell).is_none();
    let features = recipe.features.iter().filter(is_open);
    features.map(|feature| feature.name.clone()).collect()
}

fn check(book: &Book, names: &[String], printer: &Printer) -> Result<()> {
    let mut rows = Vec::new();
    for name in names {
        let entry = book.get(name)?;
        // The sources of a user's own recipe are given with `--source`.
        if entry.author == Author::Us {
            let table = rocwheel_source::Table::built_in().with_projects(book.projects())?;
            table.project(&entry.recipe.source)?;
        }
        rows.push((name, rocwheel_recipe::check(entry, book)?));
    }
    if printer.format() == ResultFormat::Json {
        let checked = rows.iter().map(|(name, cells)| serde_json::json!({ "name": name, "combinations": cells }));
        return printer.json(&serde_json::json!({ "recipes": checked.collect::<Vec<_>>() }));
    }
    for (name, cells) in rows {
        printer.line(format!(
            "{name}: {}",
            message::count(cells as u64, "combination is right", "combinations are right")
        ))?;
    }
    Ok(())
}

fn new(name: &str, path: &Path, printer: &Printer) -> Result<()> {
    if path.exists() {
        let usage = Usage::new(format!("`{}` exists already", path.display()));
        return Err(usage.hint("choose another name, or remove it first").into());
    }
    let text = TEMPLATE.replace("NAME", name).replace("DISTRIBUTION", &rocwheel_wheel::file_name_part(name));
    // The written recipe must parse, and `build` must reach it by its name.
    Book::built_in()?.add(path.to_string_lossy().into_owned(), text.clone())?;
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    fs_err::write(path, text)?;
    if printer.format() == ResultFormat::Json {
        return printer.json(&serde_json::json!({ "path": path }));
    }
    printer.line(path.to_string_lossy())?;
    if Book::built_in()?.get(name).is_ok() {
        printer.warn(format!(
            "it takes the place of our recipe {name} wherever `--recipes` names its folder; `rocwheel recipe show {name} --source` prints ours"
        ));
    }
    let (shown, folder) = (path.display(), path.parent().unwrap_or(path).display());
    printer.note(format!(
        "`rocwheel recipe check {shown}` checks it, `rocwheel build {name} --recipes {folder} --source DIR --output DIR` builds it"
    ));
    Ok(())
}
