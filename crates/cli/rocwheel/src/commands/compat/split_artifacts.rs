//! `rocwheel compat split_artifacts`: today's flags and layout, done by the engine of
//! `rocwheel split`.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_artifact::{Artifact, ArtifactName, Catalog};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_progress::Exit;
use rocwheel_split::tree::{self, DatabaseChoice, MAKER, OldRuntime, Request, SplitArtifactsReport};
use rocwheel_split::verify::Verification;
use rocwheel_split::{Packing, TargetNames, TargetSelection};
use serde::Serialize;

use super::note_unused;

const ARTIFACTS: [Column; 3] = [("Artifact", Left), ("Files", Right), ("Size", Right)];
/// The family of artifacts that are the same for all GPUs.
const GENERIC: &str = "generic";

/// rocm_kpack.tools.split_artifacts: an artifact → a part without GPU code and one for each target
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// An artifact
    #[arg(long, value_name = "DIR", required_unless_present = "batch_artifact_parent_dir")]
    artifact_dir: Option<PathBuf>,
    /// Folder of artifacts; those of the family generic are skipped
    #[arg(long, value_name = "DIR", conflicts_with_all = ["artifact_dir", "artifact_prefix"])]
    batch_artifact_parent_dir: Option<PathBuf>,
    /// Folder to write artifacts to
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Name and component of the artifact: `blas_lib`
    #[arg(long, value_name = "NAME", required_unless_present = "batch_artifact_parent_dir")]
    artifact_prefix: Option<String>,
    /// Kernel databases to divide [default: none]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    split_databases: Vec<String>,
    /// Keep only the code for these targets
    #[arg(long, value_name = "TARGET", num_args = 1..)]
    gpu_targets: Option<Vec<String>>,
    /// Without effect: temporary files are beside the output
    #[arg(long, value_name = "DIR")]
    tmp_dir: Option<PathBuf>,
    /// Without effect: rocwheel reads bundles itself
    #[arg(long, value_name = "PATH")]
    clang_offload_bundler: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Settings {
    inputs: Inputs,
    output: PathBuf,
    request: Request,
    unused: Vec<&'static str>,
}

#[derive(Debug)]
enum Inputs {
    One { directory: PathBuf, name: ArtifactName },
    Batch(PathBuf),
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let inputs = match (arguments.artifact_dir, arguments.artifact_prefix, arguments.batch_artifact_parent_dir) {
            (_, _, Some(parent)) => Inputs::Batch(parent),
            (Some(directory), Some(prefix), None) => {
                let name = format!("{prefix}_unsplit").parse().map_err(|_| {
                    Usage::new(format!("`{prefix}` is not name and component of an artifact"))
                        .hint("it looks like `blas_lib`")
                })?;
                Inputs::One { directory, name }
            }
            _ => return Err(Usage::new("`--artifact-dir` and `--artifact-prefix` belong together").into()),
        };
        let unused = [
            ("--tmp-dir", arguments.tmp_dir.is_some()),
            ("--clang-offload-bundler", arguments.clang_offload_bundler.is_some()),
        ];
        Ok(Self {
            inputs,
            output: arguments.output_dir,
            request: Request {
                selection: arguments.gpu_targets.map_or(TargetSelection::ALL, TargetSelection::only),
                databases: DatabaseChoice::only(arguments.split_databases)?,
                names: TargetNames::Base,
                packing: Packing::default(),
                // The runtime of the set is in another artifact, so its support for archives cannot
                // be checked.
                unsupported: OldRuntime::Allow,
                verification: Verification::Full,
                maker: MAKER,
            },
            unused: unused.into_iter().filter_map(|(flag, given)| given.then_some(flag)).collect(),
        })
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    outcome: &'a SplitArtifactsReport,
}

/// Splits into a temporary folder, and then moves the artifacts into the output, beside those from
/// other runs.
pub(super) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    note_unused(&settings.unused, printer);
    let catalog = catalog(&settings.inputs, printer)?;
    let inputs: Vec<PathBuf> = catalog.artifacts.iter().map(|artifact| artifact.root.clone()).collect();
    rocwheel_artifact::outside(&settings.output, &inputs)?;
    let plan = tree::plan(&catalog, &settings.request, printer.reporter())?;
    fs_err::create_dir_all(&settings.output)?;
    let staging = environment::scratch_below(&settings.output)?;
    let made = staging.path().join("artifacts");
    let outcome = tree::execute(&plan, &catalog, &settings.request, &made, printer.reporter())?;
    if !outcome.is_good() {
        for difference in outcome.verification.iter().flat_map(|report| &report.differences) {
            printer.warn(difference.to_string());
        }
        printer.warn("nothing was written: the result would differ from the input");
        return Ok(Exit::Failed);
    }
    for artifact in &outcome.artifacts {
        let name = artifact.name.to_string();
        replace(&made.join(&name), &settings.output.join(&name), &staging.path().join(format!("old-{name}")))?;
    }
    staging.close()?;
    if printer.format() == ResultFormat::Json {
        printer.json(&Document { outcome: &outcome })?;
        return Ok(Exit::Done);
    }
    let rows = outcome
        .artifacts
        .iter()
        .map(|artifact| vec![artifact.name.to_string(), artifact.files.to_string(), message::bytes(artifact.bytes)]);
    printer.table(&ARTIFACTS, rows)?;
    Ok(Exit::Done)
}

fn catalog(inputs: &Inputs, printer: &Printer) -> Result<Catalog> {
    let mut artifacts = Vec::new();
    match inputs {
        Inputs::One { directory, name } => {
            artifacts.push(Artifact::open(name.clone(), directory, printer.reporter())?);
        }
        Inputs::Batch(parent) => {
            let mut paths: Vec<PathBuf> =
                fs_err::read_dir(parent)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
            paths.sort();
            for path in &paths {
                match batch_name(path) {
                    Ok(name) => artifacts.push(Artifact::open(name, path, printer.reporter())?),
                    Err(skipped) => {
                        let message = format!("skipped `{}`: {}", path.display(), skipped.reason());
                        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
                        if skipped != Skipped::Generic && rocwheel_artifact::name::is_meant_as_artifact(&file_name) {
                            printer.warn(message);
                        } else {
                            printer.detail(message);
                        }
                    }
                }
            }
            if artifacts.is_empty() {
                let message = format!("`{}` has no artifact to split", parent.display());
                return Err(Failure::other(message));
            }
        }
    }
    Ok(Catalog { artifacts, ignored: Vec::new() })
}

/// The reason why an entry of a batch is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skipped {
    NoDirectory,
    NoManifest,
    Name,
    /// It contains nothing to split.
    Generic,
}

impl Skipped {
    const fn reason(self) -> &'static str {
        match self {
            Self::NoDirectory => "only artifact directories are split",
            Self::NoManifest => "it has no artifact_manifest.txt",
            Self::Name => "its name is not that of an artifact",
            Self::Generic => "it is the same for all GPUs",
        }
    }
}

/// The name of an artifact in a batch, or the reason for skipping it.
fn batch_name(path: &Path) -> Result<ArtifactName, Skipped> {
    if !path.is_dir() {
        return Err(Skipped::NoDirectory);
    }
    if !path.join("artifact_manifest.txt").is_file() {
        return Err(Skipped::NoManifest);
    }
    let text = path.file_name().unwrap_or_default().to_string_lossy();
    let name: ArtifactName = text.parse().map_err(|_| Skipped::Name)?;
    if name.target_family == GENERIC { Err(Skipped::Generic) } else { Ok(name) }
}

/// Moves `new` to `place`; an existing entry is moved to `old` in the staging folder.
fn replace(new: &Path, place: &Path, old: &Path) -> std::io::Result<()> {
    if fs_err::symlink_metadata(place).is_ok() {
        rocwheel_system::rename(place, old)?;
    }
    rocwheel_system::rename(new, place)
}
