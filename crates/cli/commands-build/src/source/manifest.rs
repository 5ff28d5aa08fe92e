//! `rocwheel source manifest`: records the commits that are checked out, in a form that can check
//! them out again.

use std::path::{Path, PathBuf};

use clap::Args;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::output_file::{FileKind, OutputFile, OutputOption};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_progress::Context;
use rocwheel_progress::Exit;
use rocwheel_source::PerProject;
use rocwheel_source::Table;
use rocwheel_source::manifest::{self, ManifestProject, ManifestSources, SourceManifest};
use serde::Serialize;
use serde_json::Value;

use super::projects;

/// Record which commits are checked out (schema 1)
///
/// The manifest names repository, upstream commit, branch and version of each project, as TheRock's
/// scripts write and read it. `rocwheel source checkout --manifest` makes the same trees from it.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The projects [default: those that are checked out]
    #[arg(value_name = "PROJECT")]
    projects: Vec<String>,
    /// Folder of the trees
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Another folder for a project
    #[arg(long, value_name = "[PROJECT=]DIR")]
    directory: Vec<String>,
    /// Version of ROCm; decides what follows the versions of the projects (`+rocm7.14.0`)
    #[arg(long, value_name = "VERSION")]
    rocm_version: Option<String>,
    /// Text behind the versions of the projects
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    version_suffix: Option<String>,
    /// Commit of TheRock, for a separate entry
    #[arg(long, value_name = "COMMIT", requires = "rocm_version")]
    therock_commit: Option<String>,
    /// Repository of TheRock
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "https://github.com/ROCm/TheRock",
        requires = "therock_commit"
    )]
    therock_repo: String,
    /// Branch of TheRock
    #[arg(long, value_name = "BRANCH", requires = "therock_commit")]
    therock_branch: Option<String>,
    /// File to write [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<OutputOption>,
    /// Folder to write to, under the name that TheRock's scripts give:
    /// therock-manifest_torch_linux_REF.json
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    manifest_directory: Option<PathBuf>,
    /// Another table of projects, in the form that `rocwheel matrix --print-table sources` prints
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

#[derive(Debug)]
pub struct Settings {
    sources: ManifestSources,
    table: Table,
    pub output: Option<OutputFile>,
    folder: Option<PathBuf>,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let table = projects::table(arguments.table.as_deref())?;
        let root = projects::absolute(&arguments.root)?;
        let directories = PerProject::new("--directory", &arguments.directory, &table);
        let place = |project: &rocwheel_source::Project| match directories.of(project) {
            Some(path) => projects::absolute(Path::new(path)),
            None => Ok(root.join(&project.directory)),
        };
        let mut chosen = Vec::new();
        for name in &arguments.projects {
            chosen.push(table.project(name)?);
        }
        if chosen.is_empty() {
            for project in table.projects.iter().filter(|project| project.manifest.is_some()) {
                if place(project)?.join(".git").exists() {
                    chosen.push(project);
                }
            }
        }
        if chosen.is_empty() {
            let usage = Usage::new(format!("nothing is checked out in `{}`", root.display()));
            return Err(usage.hint("say where the trees are with `--root` or `--directory`").into());
        }
        directories.check(&chosen)?;
        let checkouts = chosen.iter().map(|project| Ok((project.name.clone(), place(project)?)));
        let checkouts = checkouts.collect::<Result<Vec<_>>>()?;
        let derived = arguments.rocm_version.as_deref().map(manifest::suffix).transpose()?;
        let therock = arguments.therock_commit.map(|commit| ManifestProject {
            key: "therock".to_owned(),
            repo: arguments.therock_repo,
            commit,
            branch: arguments.therock_branch,
            version: arguments.rocm_version,
        });
        let suffix = arguments.version_suffix.or(derived).unwrap_or_default();
        let sources = ManifestSources { checkouts, suffix, therock };
        let output = arguments.output.map(|file| file.check("--output", FileKind::Manifest, &[])).transpose()?;
        Ok(Self { sources, table, output, folder: arguments.manifest_directory })
    }
}

#[derive(Serialize)]
struct Written {
    path: Option<PathBuf>,
    manifest: Value,
}

pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let Settings { sources, table, output, folder } = settings;
    let manifest = manifest::describe(sources, table, &projects::git()?, printer.reporter())?;
    let file = match folder {
        Some(folder) => {
            let path = OutputOption::from(folder.join(file_name(&manifest, table)?).into_os_string());
            Some(path.check("--manifest-directory", FileKind::Manifest, &[])?)
        }
        None => output.clone(),
    };
    let text = manifest.text();
    if let Some(file) = &file {
        file.write(&text)?;
        printer.note(format!("wrote {}", file.path().display()));
    }
    if printer.format() == ResultFormat::Json {
        let manifest = serde_json::from_str(&text).map_err(Failure::other).context("cannot write JSON")?;
        printer.json(&Written { path: file.map(|file| file.path().to_owned()), manifest })?;
    } else if file.is_none() {
        printer.raw(text.as_bytes())?;
    }
    Ok(Exit::Done)
}

/// The file name that TheRock's scripts expect.
fn file_name(manifest: &SourceManifest, table: &Table) -> Result<String> {
    let torch = manifest.entry(table.project("torch")?);
    let Some(torch) = torch else {
        let usage = Usage::new("the name of the file is made of torch's branch, and torch is not among the projects");
        return Err(usage.hint("name the file with `--output`").into());
    };
    let reference = torch.branch.as_deref().unwrap_or(&torch.commit).replace('/', "-");
    Ok(format!("therock-manifest_torch_linux_{reference}.json"))
}
