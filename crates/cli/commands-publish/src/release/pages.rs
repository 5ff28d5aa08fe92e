//! `rocwheel release pages`: writes release notes, the list of all packages, coverage and checksums
//! for the existing files.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::CellAlignment::Left;
use rocwheel_console::arguments::CellAxes;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::output_file::{FileKind, OutputOption};
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_github::pages::{self as page, FilesAt, Packages, Release};
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use rocwheel_recipe::Book;
use rocwheel_recipe::matrix::{self, MatrixQuery};
use serde::Serialize;

use super::Built;

const COLUMNS: [Column; 2] = [("File", Left), ("Status", Left)];

/// Write release notes, a page of all packages, coverage and checksums
///
/// Writes release-notes.md, packages.md, coverage.md and SHA256SUMS. packages.md is read before it
/// is written: files of older releases stay in it, and each release is in it once. A second run
/// changes nothing. Wheels are recognised by their names, in every spelling in use, and by the
/// provenance beside them.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    built: Built,
    /// Folder for the pages [default: the first folder of `--wheels`]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Name of the release
    #[arg(long, value_name = "TAG", default_value = "latest")]
    tag: String,
    /// Repository on GitHub whose release has the files: OWNER/NAME
    #[arg(long, value_name = "OWNER/NAME", conflicts_with = "url", value_parser = repository)]
    repo: Option<String>,
    /// Address of the folder of the files [default: beside the page]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Your page that gets the coverage, between the marks `<!-- rocwheel coverage: begin -->` and
    /// `… end -->`
    #[arg(long, value_name = "FILE")]
    readme: Option<OutputOption>,
    /// Your page that gets the notes below `## History`, in place of an older section of the same
    /// tag
    #[arg(long, value_name = "FILE")]
    history: Option<OutputOption>,
    #[command(flatten, next_help_heading = "What coverage counts [default: all cells of the table]")]
    counted: CellAxes,
    /// Folder with your recipes
    #[arg(long, value_name = "DIR")]
    recipes: Option<PathBuf>,
    /// Print what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Parses a repository name, `OWNER/NAME`.
pub(crate) fn repository(text: &str) -> Result<String, String> {
    let has_names = text.split('/').all(|part| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    });
    if has_names && text.matches('/').count() == 1 {
        return Ok(text.to_owned());
    }
    Err("write it as OWNER/NAME".into())
}

#[derive(Debug)]
pub(crate) struct Settings {
    built: Built,
    pub output: PathBuf,
    release: Release,
    readme: Option<PathBuf>,
    history: Option<PathBuf>,
    counted: MatrixQuery,
    book: Book,
    pub mode: Mode,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        if arguments.tag.is_empty() || arguments.tag.contains(['[', ']', '(', ')', '|', '\n', ' ']) {
            return Err(Usage::new(format!("`{}` cannot be the tag of a release", arguments.tag)).into());
        }
        let base = match (arguments.repo, arguments.url) {
            (Some(name), _) => page::on_github(&name, &arguments.tag),
            (None, Some(url)) => {
                if url.contains([' ', ')', '|']) || !url.contains("://") {
                    return Err(Usage::new(format!("`{url}` is not an address")).into());
                }
                format!("{}/", url.trim_end_matches('/'))
            }
            (None, None) => String::new(),
        };
        let mut book = Book::built_in()?;
        if let Some(folder) = &arguments.recipes {
            book.add_folder(folder)?;
        }
        Ok(Self {
            output: arguments.output.unwrap_or_else(|| arguments.built.wheels[0].clone()),
            built: arguments.built,
            release: Release { tag: arguments.tag, base },
            readme: arguments.readme.map(|file| checked_page("--readme", file)).transpose()?,
            counted: MatrixQuery {
                versions: arguments.counted.framework_version,
                backends: arguments.counted.backend,
                rocm: arguments.counted.rocm,
                torch: arguments.counted.torch,
                python: arguments.counted.python,
                ..MatrixQuery::default()
            },
            history: arguments.history.map(|file| checked_page("--history", file)).transpose()?,
            book,
            mode: Mode::new(arguments.dry_run),
        })
    }
}

/// A page, and what happens to it.
#[derive(Debug, Serialize)]
struct Page {
    path: PathBuf,
    status: Status,
    #[serde(skip)]
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    New,
    Changed,
    Unchanged,
}

impl Page {
    fn new(path: PathBuf, text: String) -> Result<Page> {
        let status = match read(&path)? {
            None => Status::New,
            Some(there) if there == text => Status::Unchanged,
            Some(_) => Status::Changed,
        };
        Ok(Page { path, status, text })
    }

    /// Replaces the page as a whole, so that no reader sees half of it.
    fn write(&self) -> Result<()> {
        if self.status == Status::Unchanged {
            return Ok(());
        }
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs_err::create_dir_all(folder)?;
        Ok(rocwheel_system::replace(&self.path, self.text.as_bytes(), 0o644)?)
    }
}

/// `true` if two paths lead to the same existing file.
fn is_same(one: &Path, other: &Path) -> bool {
    rocwheel_system::canonicalize(one)
        .is_ok_and(|one| rocwheel_system::canonicalize(other).is_ok_and(|other| one == other))
}

/// The text of a file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<String>> {
    match fs_err::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn checked_page(option: &str, file: OutputOption) -> Result<PathBuf, Usage> {
    Ok(file.check(option, FileKind::Page, &[])?.path().to_owned())
}

/// Writes the pages, or prints what would change.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let table = settings.built.table()?;
    let rocm = table.rocm_versions();
    let assets = settings.built.look(&table, printer.reporter())?;
    let all = settings.output.join("packages.md");
    let mut packages = Packages::parse(&read(&all)?.unwrap_or_default(), &all, &rocm)?;
    packages.add(&assets, &settings.release)?;
    if assets.is_empty() {
        printer.warn("there are no wheels and no tarballs");
    }
    let matrix = matrix::make(&table, &settings.book, &settings.counted, &packages.names())?;
    for unclear in &matrix.unclear {
        printer.warn(format!("`{}` is not counted: {}", unclear.file, unclear.reason));
    }
    let coverage = page::coverage(&matrix);
    let Release { tag, base } = &settings.release;
    let notes = page::notes(&assets, &settings.book, FilesAt::Folder(base))?;
    let mut pages = vec![
        Page::new(settings.output.join("release-notes.md"), format!("# Release {tag}\n\n{notes}"))?,
        Page::new(all, packages.text())?,
        Page::new(settings.output.join("coverage.md"), format!("# Coverage\n\n{coverage}"))?,
        Page::new(settings.output.join("SHA256SUMS"), page::checksums(&assets)?)?,
    ];
    if let Some(path) = &settings.readme {
        let text = page::between(&fs_err::read_to_string(path)?, page::COVERAGE, &coverage, path)?;
        pages.push(Page::new(path.clone(), text)?);
    }
    if let Some(path) = &settings.history {
        match (&settings.readme, pages.last_mut()) {
            // If both are one file, the history goes into the page as the README part left it.
            (Some(readme), Some(page)) if is_same(readme, path) => {
                *page = Page::new(readme.clone(), page::history(&page.text, tag, &notes))?;
            }
            _ => {
                let text = page::history(&read(path)?.unwrap_or_default(), tag, &notes);
                pages.push(Page::new(path.clone(), text)?);
            }
        }
    }
    if settings.mode == Mode::Execute {
        pages.iter().try_for_each(Page::write)?;
    }
    if printer.format() == ResultFormat::Json {
        let [exists, missing, excluded] = matrix.counts();
        let counts = serde_json::json!({ "exists": exists, "missing": missing, "excluded": excluded });
        printer.json(&serde_json::json!({ "files": assets.len(), "coverage": counts, "pages": pages }))?;
        return Ok(Exit::Done);
    }
    let rows = pages.iter().map(|page| {
        let status = match page.status {
            Status::New => "new",
            Status::Changed => "changed",
            Status::Unchanged => "unchanged",
        };
        vec![page.path.display().to_string(), status.to_owned()]
    });
    printer.table(&COLUMNS, rows)?;
    let files = message::count(assets.len() as u64, "file", "files");
    let would = if settings.mode == Mode::DryRun { "; nothing was written" } else { "" };
    printer.note(format!("{files} of {}{would}", settings.release.tag));
    Ok(Exit::Done)
}
