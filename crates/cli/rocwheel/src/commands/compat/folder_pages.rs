//! `rocwheel compat indexer`, `generate_s3_index` and `index_generation_s3_tar`: pages that list
//! the files of folders and buckets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::Printer;
use rocwheel_console::store::open_bucket;
use rocwheel_fetch::{
    BuildSystem, FolderEntry, RunPlace, StreamType, TarballEntry, folder_of_run, folder_page, tarball_page,
};
use rocwheel_progress::Exit;
use rocwheel_store::{FolderStore, S3Address, S3Options, S3Store, Signing, Store, StoreLocking};

/// The page of a folder.
pub(super) const PAGE: &str = "index.html";

/// indexer: a page for a folder
#[derive(Debug, Args)]
pub(crate) struct IndexerArguments {
    /// The folder [default: the working directory]
    #[arg(value_name = "DIR", default_value = ".")]
    top_dir: PathBuf,
    /// List only files like these
    #[arg(short, long, value_name = "GLOB", num_args = 0..)]
    filter: Vec<String>,
    /// Name of the page
    #[arg(short, long, value_name = "NAME", default_value = PAGE)]
    output_file: String,
    /// Also pages for the folders in it
    #[arg(short, long)]
    recursive: bool,
}

/// generate_s3_index: a page for each folder of a run
///
/// The script of this name in packaging/python is `rocwheel index build s3://BUCKET/FOLDER`.
#[derive(Debug, Args)]
pub(crate) struct RunPagesArguments {
    /// Number of the run
    #[arg(long, value_name = "ID")]
    run_id: String,
    /// A directory with the folders of runs, instead of the bucket
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// The bucket [default: that of RELEASE_TYPE and GITHUB_REPOSITORY]
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// Print what would be written
    #[arg(long)]
    dry_run: bool,
    /// Also pages for folders that have only folders
    #[arg(long)]
    include_intermediate_dirs: bool,
}

/// index_generation_s3_tar: a page for the tarballs of a bucket
#[derive(Debug, Args)]
pub(crate) struct TarballArguments {
    /// The bucket
    #[arg(long, value_name = "NAME", default_value = "therock-dev-tarball")]
    bucket: String,
    /// Its region
    #[arg(long, value_name = "NAME", default_value = "us-east-2")]
    region: String,
    /// Put the page into the bucket, rather than into the working directory
    #[arg(long)]
    upload: bool,
    /// Folder of the bucket
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    directory: String,
}

/// A script that writes pages.
#[derive(Debug)]
pub(crate) enum Settings {
    Indexer(IndexerArguments),
    RunPages(RunPagesArguments),
    Tarballs(TarballArguments),
}

pub(super) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    match settings {
        Settings::Indexer(arguments) => index_folder(arguments, &arguments.top_dir, printer)?,
        Settings::RunPages(arguments) => run_pages(arguments, printer)?,
        Settings::Tarballs(arguments) => tarballs(arguments, printer)?,
    }
    Ok(Exit::Done)
}

fn index_folder(arguments: &IndexerArguments, folder: &Path, printer: &Printer) -> Result<()> {
    let filters = rocwheel_store::NameFilter::new(&arguments.filter)?;
    let mut entries = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let metadata = fs_err::metadata(entry.path())?;
        if name.starts_with('.') || name == arguments.output_file {
            continue;
        }
        if !metadata.is_dir() {
            if arguments.filter.is_empty() || filters.accepts(&name) {
                entries.push(FolderEntry { name, size: Some(metadata.len()) });
            }
        } else if arguments.recursive {
            index_folder(arguments, &entry.path(), printer)?;
            entries.push(FolderEntry { name: format!("{name}/"), size: None });
        }
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    let title = std::path::absolute(folder)?.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let page = folder.join(&arguments.output_file);
    let has_parent = folder != arguments.top_dir;
    rocwheel_system::replace(&page, folder_page(&title, &entries, has_parent).as_bytes(), 0o644)?;
    printer.line(page.display().to_string())
}

/// A bucket with the credentials of the environment.
fn bucket(name: &str, prefix: &str, region: Option<&str>, printer: &Printer) -> Result<S3Store> {
    let mut variables = environment::aws_variables();
    if let Some(region) = region
        && !variables.iter().any(|(name, value)| name == "AWS_REGION" && !value.is_empty())
    {
        variables.push(("AWS_REGION".to_owned(), region.to_owned()));
    }
    let options = S3Options {
        address: S3Address { bucket: name.to_owned(), prefix: prefix.trim_matches('/').to_owned() },
        endpoint: None,
        signing: Signing::Credentials,
        locking: StoreLocking::External,
        variables,
        owner: environment::run_name(),
    };
    open_bucket(&options, printer)
}

fn run_pages(arguments: &RunPagesArguments, printer: &Printer) -> Result<()> {
    let (store, run): (Box<dyn Store>, String) = if let Some(folder) = &arguments.output_dir {
        (Box::new(FolderStore::open(folder)?), folder_of_run(&arguments.run_id, BuildSystem::Linux)?)
    } else {
        let kind = environment::first_of(&["RELEASE_TYPE"]).unwrap_or_else(|| "ci".to_owned());
        let repository = environment::first_of(&["GITHUB_REPOSITORY"]).unwrap_or_else(|| "ROCm/TheRock".to_owned());
        let place = RunPlace::new(StreamType::parse(&kind)?, &repository, false)?;
        let name = arguments.bucket.as_deref().unwrap_or(&place.bucket);
        let run = place.folder(&arguments.run_id, BuildSystem::Linux)?;
        (Box::new(bucket(name, "", Some(RunPlace::region()), printer)?), run)
    };
    let files = store.list(&run, printer.reporter())?;
    let mut folders: BTreeMap<String, BTreeMap<String, Option<u64>>> = BTreeMap::new();
    let mut with_files: BTreeSet<String> = BTreeSet::new();
    for file in files.iter().filter(|file| !file.key.ends_with(PAGE)) {
        let Some(below) = file.key.strip_prefix(&format!("{run}/")) else { continue };
        let (mut folder, mut rest) = (run.clone(), below);
        while let Some((first, more)) = rest.split_once('/') {
            folders.entry(folder.clone()).or_default().insert(format!("{first}/"), None);
            folder = format!("{folder}/{first}");
            rest = more;
        }
        folders.entry(folder.clone()).or_default().insert(rest.to_owned(), Some(file.size));
        with_files.insert(folder);
    }
    if folders.is_empty() {
        return Err(Failure::other(format!("`{}` has no files in `{run}`", store.name())));
    }
    for (folder, entries) in &folders {
        if !arguments.include_intermediate_dirs && !with_files.contains(folder) {
            continue;
        }
        let entries: Vec<FolderEntry> =
            entries.iter().map(|(name, size)| FolderEntry { name: name.clone(), size: *size }).collect();
        let title = folder.rsplit('/').next().unwrap_or(folder);
        let page = folder_page(title, &entries, *folder != run);
        let key = format!("{folder}/{PAGE}");
        if !arguments.dry_run {
            store.write(&key, page.as_bytes())?;
        }
        printer.line(&key)?;
    }
    Ok(())
}

fn tarballs(arguments: &TarballArguments, printer: &Printer) -> Result<()> {
    let store = bucket(&arguments.bucket, &arguments.directory, Some(&arguments.region), printer)?;
    let tarballs: Vec<TarballEntry> = store
        .list_with_times("", printer.reporter())?
        .into_iter()
        .filter(|(name, _)| name.ends_with(".tar.gz"))
        .map(|(name, time)| {
            let since = time.duration_since(std::time::UNIX_EPOCH);
            TarballEntry { name, mtime: since.map_or(0.0, |since| since.as_secs_f64()) }
        })
        .collect();
    if tarballs.is_empty() {
        return Err(Usage::new(format!("`{}` has no `.tar.gz` files", store.name()))
            .hint("check `--directory`")
            .into());
    }
    let page = tarball_page(&tarballs);
    let place = if arguments.upload {
        store.write(PAGE, page.as_bytes())?;
        format!("{}/{PAGE}", store.name())
    } else {
        rocwheel_system::replace(Path::new(PAGE), page.as_bytes(), 0o644)?;
        PAGE.to_owned()
    };
    printer.note(message::count(tarballs.len() as u64, "tarball", "tarballs"));
    printer.line(place)
}
