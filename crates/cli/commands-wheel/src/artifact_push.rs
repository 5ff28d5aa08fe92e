//! `rocwheel artifact push`: artifacts in, the folder of a run in a store out.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_artifact::archive::{self, ArchiveOptions};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_console::store::{BucketOptions, StorePlace, open_bucket};
use rocwheel_fetch::{
    BuildSystem, BuildTopology, PushState, PushedFile, RunPlace, StreamType, push_plan, push_to_bucket, push_to_folder,
};
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use serde::Serialize;

use crate::artifact_archive::CompressionArgument;
use crate::artifact_fetch::SystemArgument;
use crate::artifact_inputs::{self, Forms};

const COLUMNS: [Column; 3] = [("Archive", Left), ("Size", Right), ("Status", Left)];

/// Put artifacts into the folder of a run in a store
///
/// Directories are packed first. Each archive gets a checksum file, which is there before it, and
/// the folder gets a page that lists it. What the store has stays as it is; other contents of the
/// same name are an error.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Artifacts (directories or archives), or directories that hold artifacts
    #[arg(required = true, value_name = "PATH")]
    inputs: Vec<PathBuf>,
    /// Bucket or directory with the folders of runs [default: TheRock's bucket for the release
    /// type]
    #[arg(long, value_name = "s3://…|DIR", required_unless_present = "release_type")]
    to: Option<OsString>,
    /// Kind of build: ci, dev, dev-bkc, nightly, nightly-bkc, prerelease, release
    #[arg(long, value_name = "TYPE", conflicts_with = "to")]
    release_type: Option<String>,
    /// Repository of the run; nightly builds run in `ROCm/rockrel`
    #[arg(long, value_name = "OWNER/NAME", default_value = "ROCm/TheRock", conflicts_with = "to")]
    repository: String,
    /// The code of the run comes from a fork of the repository
    #[arg(long, conflicts_with = "to")]
    fork: bool,
    /// Number of the run
    #[arg(long, value_name = "ID")]
    run_id: String,
    /// System of the build
    #[arg(long, value_name = "SYSTEM", default_value = "linux")]
    platform: SystemArgument,
    /// Only what this stage of the build makes; `all`: everything
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// TheRock's table of stages
    #[arg(long, value_name = "FILE", default_value = "BUILD_TOPOLOGY.toml")]
    topology: PathBuf,
    /// Format of the archives that are made of directories
    #[arg(long, value_name = "FORMAT", default_value = "zstd")]
    compression: CompressionArgument,
    /// How hard to compress: 1 to 22 for zstd [default: 3], 0 to 9 for xz [default: 6]
    #[arg(long, value_name = "N")]
    level: Option<u32>,
    /// Folder for archives until they are in the store [default: the system's folder for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Pack and compare, and upload nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    bucket: BucketOptions,
}

#[derive(Debug)]
pub struct Settings {
    inputs: Vec<PathBuf>,
    to: StorePlace,
    /// The role of AWS for a bucket of TheRock's.
    write_role: Option<String>,
    run: String,
    system: BuildSystem,
    /// The artifacts of a stage; `None`: all.
    made: Option<BTreeSet<String>>,
    options: ArchiveOptions,
    pub scratch: PathBuf,
    pub mode: Mode,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let made = match arguments.stage.as_deref() {
            None | Some("all") => None,
            Some(stage) => {
                let topology = BuildTopology::read(&arguments.topology)?;
                let made = topology.made_by(stage);
                Some(made.ok_or_else(|| {
                    let usage = Usage::new(format!("`{}` has no stage `{stage}`", arguments.topology.display()));
                    usage.hint(format!("there are {}", topology.stages().join(", ")))
                })?)
            }
        };
        let (to, write_role) = match arguments.to {
            Some(to) if to.as_encoded_bytes().starts_with(b"http") => {
                return Err(Usage::new("a web server takes no files")
                    .hint("name a bucket (`s3://…`) or a directory")
                    .into());
            }
            Some(to) => (arguments.bucket.place(to)?, None),
            None => {
                let kind = StreamType::parse(arguments.release_type.as_deref().unwrap_or("ci"))?;
                let place = RunPlace::new(kind, &arguments.repository, arguments.fork)?;
                let options = arguments.bucket.bucket(&place.store().to_string())?;
                (StorePlace::Bucket(options.in_region(RunPlace::region())), place.write_role)
            }
        };
        Ok(Self {
            inputs: arguments.inputs,
            to,
            write_role,
            run: arguments.run_id,
            system: arguments.platform.into(),
            made,
            options: arguments.compression.options(arguments.level)?,
            scratch: arguments.scratch.unwrap_or_else(environment::scratch),
            mode: Mode::new(arguments.dry_run),
        })
    }
}

#[derive(Serialize)]
struct Document<'a> {
    folder: &'a str,
    pushed: bool,
    artifacts: &'a [PushedFile],
}

/// Packs, compares and uploads.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let mut inputs = artifact_inputs::expand(&settings.inputs, Forms::All, printer)?;
    if let Some(made) = &settings.made {
        inputs.retain(|path| artifact_inputs::name_of(path).is_none_or(|name| made.contains(&name.name)));
        if inputs.is_empty() {
            return Err(Usage::new("the stage made none of these artifacts").hint("check `--stage`").into());
        }
    }
    let scratch = environment::scratch_below(&settings.scratch)?;
    let (directories, mut archives): (Vec<PathBuf>, Vec<PathBuf>) = inputs.into_iter().partition(|path| path.is_dir());
    if !directories.is_empty() {
        let plan = archive::plan(&directories, scratch.path(), settings.options, printer.reporter())?;
        archives.extend(archive::write(&plan, printer.reporter())?.into_iter().map(|written| written.path));
    }
    let sidecars = scratch.path().join("sidecars");
    fs_err::create_dir(&sidecars)?;
    let plan = push_plan(&archives, (&settings.run, settings.system), &sidecars, printer.reporter())?;
    let write = settings.mode == Mode::Execute;
    let (store, files) = match &settings.to {
        StorePlace::Bucket(options) => {
            let store = open_bucket(options, printer)?;
            (options.address.to_string(), push_to_bucket(&plan, &store, write, printer.reporter())?)
        }
        StorePlace::Folder(path) => {
            (path.display().to_string(), push_to_folder(&plan, path, write, printer.reporter())?)
        }
    };
    scratch.close()?;
    let folder = format!("{}/{}", store.trim_end_matches('/'), plan.folder);
    if write {
        outputs(settings, &folder, printer)?;
    }
    show(&folder, &files, write, printer)?;
    Ok(Exit::Done)
}

/// The outputs of the step, under the names that TheRock's workflows use.
fn outputs(settings: &Settings, folder: &str, printer: &Printer) -> Result<()> {
    let page = format!("{folder}/index.html");
    let mut outputs = vec![("artifacts", folder), ("artifacts_index", page.as_str()), ("run_id", &settings.run)];
    if let StorePlace::Bucket(options) = &settings.to {
        let role = settings.write_role.as_deref().unwrap_or_default();
        outputs.extend([
            ("bucket", options.address.bucket.as_str()),
            ("aws_region", options.region().unwrap_or_default()),
            ("iam_role", role),
        ]);
    }
    printer.outputs(&outputs)
}

fn show(folder: &str, files: &[PushedFile], pushed: bool, printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        return printer.json(&Document { folder, pushed, artifacts: files });
    }
    let rows = files.iter().map(|file| {
        let state = if file.state == PushState::New { "new" } else { "there already" };
        vec![file.key.clone(), message::bytes(file.size), state.to_owned()]
    });
    printer.table(&COLUMNS, rows)?;
    let new = files.iter().filter(|file| file.state == PushState::New);
    let count = message::count(new.count() as u64, "archive", "archives");
    printer.note(format!("{count} {} `{folder}`", if pushed { "pushed to" } else { "would go to" }));
    Ok(())
}
