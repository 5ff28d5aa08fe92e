//! `rocwheel release upload`: single files and tarballs into a bucket, and packages to a host that
//! takes uploads.

mod host;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_console::store::BucketOptions;
use rocwheel_progress::{Exit, Hint, Silent};
use rocwheel_store::{
    BucketFault, BucketUpload, Error, S3Options, S3Store, Store as _, UploadOptions, UploadState, collect_uploads,
    plan_uploads, uncompared_uploads, upload,
};

const COLUMNS: [Column; 3] = [("File", Left), ("Size", Right), ("Status", Left)];

/// Upload files to a bucket, or packages to a host that takes uploads
///
/// Files go below the prefix by their names, files of folders by their paths below the folder. Each
/// is stored with its SHA-256, content type and cache headers. Files that the bucket has already
/// are skipped, and another file of the same name is an error. Credentials are those of the
/// environment (AWS_ACCESS_KEY_ID and so on).
///
/// With `--repository-url`, uv or twine uploads the wheels and source distributions of a folder to
/// Artifactory, Nexus, devpi, pypiserver or the like: packages that others require first. The
/// credentials are those of the program, such as TWINE_PASSWORD or UV_PUBLISH_PASSWORD.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Files, or folders with files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where they go
    #[arg(long, value_name = "s3://BUCKET/PREFIX", required_unless_present = "repository_url")]
    to: Option<String>,
    /// Address that takes uploads, as `twine upload --repository-url` has it
    #[arg(long, value_name = "URL", conflicts_with_all = ["to", "include", "clobber"])]
    repository_url: Option<String>,
    /// The program that uploads to it [default: uv, or twine where there is no uv]
    #[arg(long, value_name = "PROGRAM", requires = "repository_url")]
    with: Option<Uploader>,
    /// Address of the host's package index: files that it has already are skipped, and other files
    /// of their names are an error
    #[arg(long, value_name = "URL", requires = "repository_url")]
    check_url: Option<String>,
    /// Upload only files whose names match one of these patterns, such as `*.tar.bz2`
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    include: Vec<String>,
    /// Replace files of the same name that have other contents, except Python packages
    #[arg(long)]
    clobber: bool,
    /// Print what would be uploaded, and upload nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    bucket: BucketOptions,
}

/// A program that uploads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Uploader {
    /// `uv publish`
    Uv,
    /// `twine upload`
    Twine,
}

/// What the command works with.
#[derive(Debug)]
pub(crate) enum Settings {
    Bucket(BucketSettings),
    Host(host::HostSettings),
}

#[derive(Debug)]
pub(crate) struct BucketSettings {
    files: Vec<PathBuf>,
    to: S3Options,
    include: Vec<String>,
    options: UploadOptions,
    dry_run: bool,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let Some(to) = &arguments.to else { return Ok(Self::Host(arguments.try_into()?)) };
        Ok(Self::Bucket(BucketSettings {
            to: arguments.bucket.bucket(to)?,
            files: arguments.files,
            include: arguments.include,
            options: if arguments.clobber { UploadOptions::Replace } else { UploadOptions::Keep },
            dry_run: arguments.dry_run,
        }))
    }
}

/// Uploads, or prints what would be.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let settings = match settings {
        Settings::Host(settings) => return host::command(settings, printer),
        Settings::Bucket(settings) => settings,
    };
    let files = collect_uploads(&settings.files, &settings.include)?;
    let (store, uploads) = match planned(settings, &files, printer) {
        // A plan needs no bucket, as `aws s3 cp --dryrun` needs none.
        Err(Error::Bucket { source, .. }) if settings.dry_run && is_unasked(&source) => {
            printer.warn(format!("`{}` was not asked, so nothing is compared: {source}", settings.to.address));
            show(settings, &uncompared_uploads(&files, printer.reporter())?, printer)?;
            return Ok(Exit::Done);
        }
        planned => planned.map_err(UploadRefused)?,
    };
    if settings.dry_run {
        check_bucket(&store, &uploads)?;
    } else {
        upload(&store, &uploads, printer.reporter())?;
        let addresses: BTreeMap<&str, String> = uploads
            .iter()
            .map(|upload| (upload.key.as_str(), format!("{}/{}", settings.to.address, upload.key)))
            .collect();
        let addresses = serde_json::to_string(&addresses).map_err(Failure::other)?;
        printer.outputs(&[("store", &settings.to.address.to_string()), ("files", &addresses)])?;
        // The shared tarball of a build, as TheRock's workflows take it.
        let mut tarballs = uploads.iter().filter(|upload| upload.key.ends_with(".tar.gz"));
        if let (Some(tarball), None) = (tarballs.next(), tarballs.next()) {
            let tarball = serde_json::json!({ "multiarch": settings.to.web_address(&tarball.key) });
            printer.outputs(&[("tarball_urls", &tarball.to_string())])?;
        }
    }
    show(settings, &uploads, printer)?;
    Ok(Exit::Done)
}

fn planned(
    settings: &BucketSettings,
    files: &[(PathBuf, String)],
    printer: &Printer,
) -> Result<(S3Store, Vec<BucketUpload>), Error> {
    let store = S3Store::open(&settings.to, printer.progress())?;
    let uploads = plan_uploads(&store, files, settings.options, printer.reporter())?;
    Ok((store, uploads))
}

/// `true` if the bucket gave no answer.
fn is_unasked(fault: &BucketFault) -> bool {
    matches!(fault, BucketFault::NoCredentials | BucketFault::Unreachable(_))
}

/// An upload that was not planned, with the option that replaces files.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct UploadRefused(Error);

impl Hint for UploadRefused {
    fn hint(&self) -> Option<String> {
        let hint = self.0.hint()?;
        Some(match self.0 {
            Error::OtherBytes { .. } => format!("{hint}; `--clobber` replaces files that are no Python packages"),
            _ => hint,
        })
    }

    fn rows(&self) -> Vec<String> {
        self.0.rows()
    }

    fn exit(&self) -> Exit {
        self.0.exit()
    }
}

/// Errors if there is no such bucket. The answers about files that do not exist do not tell.
fn check_bucket(store: &S3Store, uploads: &[BucketUpload]) -> Result<()> {
    if uploads.iter().any(|upload| upload.state != UploadState::New) {
        return Ok(());
    }
    // One request: little is in this folder.
    match store.list(".rocwheel", &Silent) {
        Err(Error::Bucket { source: source @ BucketFault::NoBucket, .. }) => {
            Err(Error::Bucket { attempted: format!("upload to `{}`", store.name()), source }.into())
        }
        _ => Ok(()),
    }
}

fn show(settings: &BucketSettings, uploads: &[BucketUpload], printer: &Printer) -> Result<()> {
    let store = settings.to.address.to_string();
    if printer.format() == ResultFormat::Json {
        let uploaded = !settings.dry_run;
        return printer.json(&serde_json::json!({ "store": store, "uploaded": uploaded, "files": uploads }));
    }
    let rows = uploads.iter().map(|upload| {
        let word = match upload.state {
            UploadState::New => "new",
            UploadState::Unchanged => "there already",
            UploadState::Replaced => "replaced",
            UploadState::Uncompared => "not compared",
        };
        vec![format!("{store}/{}", upload.key), message::bytes(upload.size), word.to_owned()]
    });
    printer.table(&COLUMNS, rows)?;
    let wanted: Vec<&BucketUpload> = uploads.iter().filter(|upload| upload.state != UploadState::Unchanged).collect();
    let size = message::bytes(wanted.iter().map(|upload| upload.size).sum());
    let files = message::count(wanted.len() as u64, "file", "files");
    let verb = if settings.dry_run { "would be uploaded" } else { "uploaded" };
    printer.note(format!("{files} ({size}) {verb}"));
    Ok(())
}
