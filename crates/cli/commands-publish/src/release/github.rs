//! `rocwheel release github`: uploads the built files to a release on GitHub.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_console::{environment, message};
use rocwheel_github::pages::{self as page, Asset, FilesAt};
use rocwheel_github::release::{self, ExistingRelease, Gh, Plan, WantedRelease};
use rocwheel_progress::Exit;

use super::Built;
use super::pages::repository;

/// The file with the checksums.
const SUMS: &str = "SHA256SUMS";
/// The file name with which `gh --notes-file` reads its standard input.
const STANDARD_INPUT: &str = "-";

/// Upload built files, with their provenance and checksums, to a release on GitHub
///
/// Uses GitHub's own program `gh`, with its login. Without `--upload` it only prints the plan,
/// compared with the existing release if `gh` is logged in. A missing release is created. Existing
/// files stay, and a file of the same name with other contents is an error.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Args)]
pub struct Arguments {
    /// Tag of the release
    #[arg(value_name = "TAG")]
    tag: String,
    #[command(flatten)]
    built: Built,
    /// Repository: OWNER/NAME [default: that of the working directory]
    #[arg(long, value_name = "OWNER/NAME", value_parser = repository)]
    repo: Option<String>,
    /// Title of a new release [default: its tag]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// File with the notes, also for an existing release [default: a new release gets those of
    /// `rocwheel release pages`, an existing one keeps its own]
    #[arg(long, value_name = "FILE")]
    notes: Option<PathBuf>,
    /// Make the release a draft
    #[arg(long)]
    draft: bool,
    /// Mark the release as a prerelease
    #[arg(long)]
    prerelease: bool,
    /// Replace files of the same name that have other contents
    #[arg(long)]
    clobber: bool,
    /// Print a text that an upload writes, and nothing else: the notes of a new release, or the
    /// checksums
    #[arg(long, value_name = "TEXT", conflicts_with = "upload")]
    print: Option<OwnText>,
    /// Do it
    #[arg(long)]
    upload: bool,
}

/// The texts that rocwheel writes for a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OwnText {
    Notes,
    Checksums,
}

#[derive(Debug)]
pub(crate) struct Settings {
    built: Built,
    gh: Gh,
    wanted: WantedRelease,
    /// A file with release notes by the user.
    notes: Option<PathBuf>,
    pub scratch: PathBuf,
    print: Option<OwnText>,
    upload: bool,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        if arguments.tag.is_empty() || arguments.tag.starts_with('-') {
            return Err(Usage::new(format!("`{}` cannot be the tag of a release", arguments.tag)).into());
        }
        let program = environment::program("gh");
        if program.is_none() && arguments.upload {
            let usage = Usage::new("there is no `gh`, which uploads to GitHub");
            return Err(usage.hint("install it (https://cli.github.com; Debian's package is `gh`)").into());
        }
        let program = program.unwrap_or_else(|| PathBuf::from("gh"));
        let environment = environment::variables()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let gh = Gh { program, environment, repository: arguments.repo, directory: environment::directory()? };
        let wanted = WantedRelease {
            title: arguments.title.unwrap_or_else(|| arguments.tag.clone()),
            tag: arguments.tag,
            notes: PathBuf::new(),
            replaces_notes: arguments.notes.is_some(),
            draft: arguments.draft,
            prerelease: arguments.prerelease,
            existing: if arguments.clobber { ExistingRelease::Replace } else { ExistingRelease::Refuse },
        };
        let notes = arguments.notes.map(std::path::absolute).transpose()?;
        Ok(Self {
            built: arguments.built,
            gh,
            wanted,
            notes,
            scratch: environment::scratch(),
            print: arguments.print,
            upload: arguments.upload,
        })
    }
}

/// Uploads, or prints what it would upload.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let table = settings.built.table()?;
    let assets: Vec<Asset> = settings.built.look(&table, printer.reporter())?;
    if assets.is_empty() {
        return Err(Usage::new("there are no wheels and no tarballs").hint("`--wheels` names their folder").into());
    }
    let scratch = environment::scratch_below(&settings.scratch)?;
    let sums = scratch.path().join(SUMS);
    let here = page::checksums(&assets)?;
    let notes = if let Some(path) = &settings.notes {
        // An unreadable file is reported before the first request to GitHub.
        fs_err::File::open(path)?;
        path.clone()
    } else {
        let path = scratch.path().join("release-notes.md");
        let repository = settings.gh.repository.clone().or_else(|| environment::first_of(&["GITHUB_REPOSITORY"]));
        let base = repository.map(|name| page::on_github(&name, &settings.wanted.tag));
        let at = base.as_deref().map_or(FilesAt::Unknown, FilesAt::Folder);
        let text = page::notes(&assets, &rocwheel_recipe::Book::built_in()?, at)?;
        if settings.print == Some(OwnText::Notes) {
            printer.raw(text.as_bytes())?;
            return Ok(Exit::Done);
        }
        fs_err::write(&path, &text)?;
        // Without `--upload`, the file is deleted before the printed calls run.
        if settings.upload { path } else { PathBuf::from(STANDARD_INPUT) }
    };
    let wanted = WantedRelease { notes, ..settings.wanted.clone() };
    let remote = match settings.gh.ask(&wanted.tag, printer.reporter()) {
        Ok(remote) => remote,
        Err(failure) if failure.exit() == Exit::Interrupted => return Err(failure),
        // A plan alone needs no login.
        Err(error) if !settings.upload => {
            let reason = rocwheel_progress::with_causes(&error);
            printer.warn(format!(
                "GitHub does not say what {} has, so this is for an empty release: {reason}",
                wanted.tag
            ));
            None
        }
        Err(error) => return Err(error),
    };
    let all = match &remote {
        Some(remote) => settings.gh.checksums(&wanted.tag, &here, remote, printer.reporter())?,
        None => here,
    };
    if settings.print == Some(OwnText::Checksums) {
        printer.raw(all.as_bytes())?;
        return Ok(Exit::Done);
    }
    fs_err::write(&sums, &all)?;
    let mut files = release::uploads(&assets, std::slice::from_ref(&sums))?;
    if !settings.upload {
        // The same is true of this file.
        files.iter_mut().filter(|file| file.path == sums).for_each(|file| file.path = PathBuf::from(SUMS));
    }
    let plan = settings.gh.plan(&wanted, files, remote.as_ref())?;
    if settings.upload {
        settings.gh.execute(&plan, printer.reporter())?;
    }
    show(&plan, settings, printer)?;
    Ok(Exit::Done)
}

/// The calls of a plan as they work in a shell when this program has ended.
fn typed(plan: &Plan, settings: &Settings) -> Vec<String> {
    let mut lines = Vec::new();
    if plan.uploads.iter().any(|file| file.path == Path::new(SUMS)) {
        lines.push(format!("{} > {SUMS}", printing("checksums", settings)));
    }
    for words in &plan.commands {
        let call = words.iter().map(|word| rocwheel_progress::shell_word(word)).collect::<Vec<_>>().join(" ");
        let reads = words.windows(2).any(|pair| pair[0] == "--notes-file" && pair[1] == STANDARD_INPUT);
        lines.push(if reads { format!("{} | {call}", printing("notes", settings)) } else { call });
    }
    lines
}

/// The command that prints a text of a release.
fn printing(text: &str, settings: &Settings) -> String {
    let Built { wheels, table } = &settings.built;
    let mut words = vec![format!("rocwheel release github {}", rocwheel_progress::shell_word(&settings.wanted.tag))];
    words.extend(wheels.iter().map(|folder| format!("--wheels {}", rocwheel_progress::shell_path(folder))));
    words.extend(table.iter().map(|file| format!("--table {}", rocwheel_progress::shell_path(file))));
    words.extend(settings.gh.repository.iter().map(|name| format!("--repo {name}")));
    words.push(format!("--print {text}"));
    words.join(" ")
}

fn show(plan: &Plan, settings: &Settings, printer: &Printer) -> Result<()> {
    let upload = settings.upload;
    if printer.format() == ResultFormat::Json {
        let mut document = serde_json::to_value(plan).map_err(Failure::other)?;
        document["uploaded"] = upload.into();
        return printer.json(&document);
    }
    if !upload {
        typed(plan, settings).iter().try_for_each(|line| printer.line(line))?;
    }
    let bytes = plan.uploads.iter().map(|file| file.size).sum();
    let files = message::count(plan.uploads.len() as u64, "file", "files");
    let there = match plan.unchanged.len() {
        0 => String::new(),
        count => format!(", {} there already", message::count(count as u64, "is", "are")),
    };
    let (release, size) = (&plan.tag, message::bytes(bytes));
    let made = if plan.is_new { "the release is made, " } else { "" };
    if upload {
        printer.note(format!("{release}: {made}{files} ({size}) uploaded{there}"));
    } else {
        printer.note(format!("{release}: {made}{files} ({size}) would be uploaded{there}; `--upload` does it"));
    }
    Ok(())
}
