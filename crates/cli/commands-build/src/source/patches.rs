//! `rocwheel source patches`: saves commits on top of a checkout as files, and applies them.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use comfy_table::CellAlignment::Left;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_progress::Exit;
use rocwheel_source::Table;
use rocwheel_source::patch_files::{self, Stage};
use rocwheel_source::patches::{Group, PatchSet};
use serde::Serialize;

use super::projects;

const COLUMNS: [Column; 4] = [("Project", Left), ("Set", Left), ("Repository", Left), ("Patch", Left)];

/// Save, apply and list patches of framework sources
///
/// A set is a folder PATCHES/PROJECT/SET with PROJECT/base (patches on the upstream commit),
/// PROJECT/hipified (patches on the converted sources), and the same for each submodule.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: ActionArguments,
}

#[derive(Debug, Subcommand)]
enum ActionArguments {
    /// Write your commits on top of a checkout as patches, in submodules too
    Save {
        #[command(flatten)]
        place: Place,
    },
    /// Apply a set to a checkout, as commits
    Apply {
        #[command(flatten)]
        place: Place,
        /// Which patches [default: hipified where the sources are converted, else base]
        #[arg(long, value_name = "STAGE")]
        stage: Option<StageArgument>,
    },
    /// List sets and their patches
    List {
        /// Folder of the patches
        #[arg(long, value_name = "DIR", default_value = "patches")]
        patches: PathBuf,
        /// Only of this project
        #[arg(value_name = "PROJECT")]
        project: Option<String>,
    },
}

#[derive(Debug, Args)]
struct Place {
    /// The checkout
    #[arg(value_name = "TREE", default_value = ".")]
    tree: PathBuf,
    /// Folder of the patches
    #[arg(long, value_name = "DIR", default_value = "patches")]
    patches: PathBuf,
    /// Name of the set [default: the branch or tag that is checked out, and rocm-custom for
    /// commits]
    #[arg(long, value_name = "SET")]
    set: Option<String>,
    /// Another table of projects, in the form that `rocwheel matrix --print-table sources` prints
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StageArgument {
    /// On the upstream commit
    Base,
    /// On the converted sources
    Hipified,
}

#[derive(Debug)]
pub struct Settings {
    action: Action,
}

#[derive(Debug)]
enum Action {
    Save(PatchSet),
    Apply(PatchSet, Option<Stage>),
    List(PathBuf, Option<String>),
}

impl Place {
    fn patch_set(&self) -> Result<PatchSet> {
        let table = projects::table(self.table.as_deref())?;
        let (tree, patches) = (projects::absolute(&self.tree)?, projects::absolute(&self.patches)?);
        PatchSet::of(&tree, &patches, self.set.as_deref(), &table)
    }
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let action = match arguments.action {
            ActionArguments::Save { place } => Action::Save(place.patch_set()?),
            ActionArguments::Apply { place, stage } => {
                let stage = stage.map(|stage| match stage {
                    StageArgument::Base => Stage::Base,
                    StageArgument::Hipified => Stage::Hipified,
                });
                Action::Apply(place.patch_set()?, stage)
            }
            ActionArguments::List { patches, project } => {
                let table = Table::built_in();
                let folder =
                    project.map(|name| table.project(&name).map(|project| project.directory.clone()).unwrap_or(name));
                Action::List(patches, folder)
            }
        };
        Ok(Self { action })
    }
}

#[derive(Serialize)]
struct Groups<'a> {
    set: &'a Path,
    groups: &'a [Group],
}

#[derive(Serialize)]
struct Listed {
    project: String,
    set: String,
    groups: Vec<patch_files::PatchGroup>,
}

/// Saves, applies or lists patches.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let (set, groups, done) = match &settings.action {
        Action::Save(set) => (set, set.save(&projects::git()?, printer.reporter())?, "saved"),
        Action::Apply(set, stage) => (set, set.apply(*stage, &projects::git()?, printer.reporter())?, "applied"),
        Action::List(folder, project) => return list(folder, project.as_deref(), printer),
    };
    if printer.format() == ResultFormat::Json {
        printer.json(&Groups { set: &set.set, groups: &groups })?;
        return Ok(Exit::Done);
    }
    for group in &groups {
        for patch in &group.patches {
            printer.line(group.folder.join(patch).display().to_string())?;
        }
    }
    let count = groups.iter().map(|group| group.patches.len() as u64).sum();
    let present: usize = groups.iter().map(|group| group.present.len()).sum();
    let rest = match present {
        0 => String::new(),
        present => format!("; {} there already", message::count(present as u64, "is", "are")),
    };
    printer.note(format!("{done} {} of `{}`{rest}", message::count(count, "patch", "patches"), set.set.display()));
    Ok(Exit::Done)
}

fn list(folder: &Path, project: Option<&str>, printer: &Printer) -> Result<Exit> {
    let mut listed = Vec::new();
    let mut names: Vec<PathBuf> = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        names.push(entry?.path());
    }
    names.sort();
    for path in names.iter().filter(|path| path.is_dir()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if project.is_some_and(|project| project != name) {
            continue;
        }
        for set in patch_files::sets(path)? {
            let groups = patch_files::read(&path.join(&set), &name)?;
            listed.push(Listed { project: name.clone(), set, groups });
        }
    }
    if printer.format() == ResultFormat::Json {
        printer.json(&serde_json::json!({ "sets": listed }))?;
        return Ok(Exit::Done);
    }
    let mut rows = Vec::new();
    for Listed { project, set, groups } in &listed {
        for group in groups {
            for file in &group.files {
                let repository = if group.repository.is_empty() { "." } else { &group.repository };
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                let patch = format!("{}/{name}", group.stage.folder());
                rows.push(vec![project.clone(), set.clone(), repository.to_owned(), patch]);
            }
        }
    }
    let count = rows.len() as u64;
    printer.table(&COLUMNS, rows)?;
    printer.note(message::count(count, "patch", "patches"));
    Ok(Exit::Done)
}
