//! `rocwheel compat fileset_tool`: turns a build tree into artifacts, archives or one tree.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use rocwheel_artifact::ArtifactName;
use rocwheel_artifact::archive::{self, ArchiveOptions, Compression};
use rocwheel_artifact::descriptor::{self, Descriptor};
use rocwheel_artifact::fileset::{Before, Fileset, Transfer};
use rocwheel_artifact::flatten::{self, Replaceable};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::output_file::{FileKind, OutputOption};
use rocwheel_console::printer::{self, Printer};
use rocwheel_output::Mode;
use rocwheel_progress::Context;
use rocwheel_progress::Exit;
use rocwheel_tables::Predicate;

/// The file that makes a directory an artifact.
const MANIFEST: &str = "artifact_manifest.txt";

/// fileset_tool: a build tree → artifacts, archives, one tree
#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "COMMAND", arg_required_else_help = true)]
pub(super) enum Arguments {
    /// Print the paths of matching files
    List(Files),
    /// Copy matching files
    Copy(CopyArguments),
    /// Divide a build tree into the components of an artifact, by its descriptor
    Artifact(ArtifactArguments),
    /// Pack an artifact
    ArtifactArchive(ArchiveArguments),
    /// Combine artifacts, also with the contents of the output
    ArtifactFlatten(FlattenArguments),
    /// The same for all artifacts whose names begin with the prefix
    ArtifactFlattenSplit(FlattenSplitArguments),
}

#[derive(Debug, Args)]
pub(super) struct Files {
    /// Directories to read [default: the working directory]
    #[arg(value_name = "DIR")]
    basedir: Vec<PathBuf>,
    /// Globs of files to take
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    include: Vec<String>,
    /// Globs of files to leave out
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    exclude: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct CopyArguments {
    /// Directory to copy to
    #[arg(value_name = "DEST")]
    dest_dir: PathBuf,
    /// Copy contents, never link to the originals
    #[arg(long)]
    always_copy: bool,
    /// Replace the directory as a whole, as is the default
    #[arg(long, overrides_with = "no_remove_dest")]
    remove_dest: bool,
    /// Keep what is in the directory
    #[arg(long)]
    no_remove_dest: bool,
    #[command(flatten)]
    files: Files,
}

#[derive(Debug, Args)]
pub(super) struct ArtifactArguments {
    /// Directory that the descriptor's directories are relative to
    #[arg(long, value_name = "DIR")]
    root_dir: PathBuf,
    /// The descriptor, a TOML file
    #[arg(long, value_name = "FILE")]
    descriptor: PathBuf,
    /// Name of the artifact, such as `blas`
    #[arg(long, value_name = "NAME")]
    artifact_name: String,
    /// Names of components and the directories to write them to, in turn
    #[arg(required = true, value_name = "COMPONENT DIR")]
    component_dirs: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct ArchiveArguments {
    /// The artifact's directory
    #[arg(required = true, value_name = "DIR")]
    artifact: Vec<PathBuf>,
    /// The archive
    #[arg(short = 'o', value_name = "FILE")]
    output: OutputOption,
    /// Format [default: as the archive's name ends]
    #[arg(long, value_name = "FORMAT")]
    compression_type: Option<CompressionType>,
    /// How hard to compress: 1 to 22 for zstd [default: 3], 0 to 9 for xz [default: 6]
    #[arg(long, value_name = "N")]
    compression_level: Option<u32>,
    /// File to write the archive's digest to
    #[arg(long, value_name = "FILE")]
    hash_file: Option<OutputOption>,
    /// Algorithm of the digest: sha256
    #[arg(long, value_name = "NAME", default_value = "sha256")]
    hash_algorithm: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CompressionType {
    Zstd,
    Xz,
}

#[derive(Debug, Args)]
pub(super) struct FlattenArguments {
    /// Artifacts: directories or archives
    #[arg(required = true, value_name = "PATH")]
    artifact: Vec<PathBuf>,
    /// Directory to write to
    #[arg(short = 'o', value_name = "DIR")]
    output: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct FlattenSplitArguments {
    /// How the artifacts' names begin: `miopen_lib`
    #[arg(required = true, value_name = "PREFIX")]
    prefixes: Vec<String>,
    /// Directory to write to
    #[arg(short = 'o', value_name = "DIR")]
    output: PathBuf,
    /// Directory that holds the artifacts
    #[arg(long, value_name = "DIR")]
    artifacts_dir: PathBuf,
}

#[derive(Debug)]
pub(crate) enum Settings {
    List { directories: Vec<PathBuf>, predicate: Predicate },
    Copy { directories: Vec<PathBuf>, predicate: Predicate, output: PathBuf, how: (Transfer, Before) },
    Artifact { root: PathBuf, descriptor: PathBuf, name: String, components: Vec<(String, PathBuf)> },
    Archive { artifact: PathBuf, output: PathBuf, options: ArchiveOptions, hash_file: Option<PathBuf> },
    Flatten { inputs: Vec<PathBuf>, output: PathBuf },
    FlattenSplit { prefixes: Vec<String>, parent: PathBuf, output: PathBuf },
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        Ok(match arguments {
            Arguments::List(files) => {
                let (directories, predicate) = files.settings();
                Self::List { directories, predicate }
            }
            Arguments::Copy(arguments) => {
                let (directories, predicate) = arguments.files.settings();
                let transfer = if arguments.always_copy { Transfer::Contents } else { Transfer::Link };
                let before = if arguments.no_remove_dest { Before::Keep } else { Before::Replace };
                Self::Copy { directories, predicate, output: arguments.dest_dir, how: (transfer, before) }
            }
            Arguments::Artifact(arguments) => arguments.settings()?,
            Arguments::ArtifactArchive(arguments) => arguments.settings()?,
            Arguments::ArtifactFlatten(arguments) => {
                Self::Flatten { inputs: arguments.artifact, output: arguments.output }
            }
            Arguments::ArtifactFlattenSplit(arguments) => Self::FlattenSplit {
                prefixes: arguments.prefixes,
                parent: arguments.artifacts_dir,
                output: arguments.output,
            },
        })
    }
}

impl Files {
    fn settings(self) -> (Vec<PathBuf>, Predicate) {
        let directories = if self.basedir.is_empty() { vec![PathBuf::from(".")] } else { self.basedir };
        let includes = self.include.iter().map(String::as_str).filter(|glob| !glob.is_empty());
        let excludes = self.exclude.iter().map(String::as_str).filter(|glob| !glob.is_empty());
        (directories, Predicate::new(includes, excludes))
    }
}

impl ArtifactArguments {
    fn settings(self) -> Result<Settings> {
        if self.artifact_name.trim().is_empty() {
            return Err(Usage::new("`--artifact-name` is empty")
                .hint("give the first field of the artifact's name")
                .into());
        }
        let mut components: Vec<(String, PathBuf)> = Vec::new();
        for pair in self.component_dirs.chunks(2) {
            let [component, directory] = pair else {
                return Err(Usage::new(format!("component `{}` has no directory", pair[0]))
                    .hint("give components and directories in turn: `lib out/blas_lib_generic`")
                    .into());
            };
            if let Some((other, _)) = components.iter().find(|(_, there)| there == Path::new(directory)) {
                return Err(
                    Usage::new(format!("`{other}` and `{component}` are both to be written to `{directory}`")).into()
                );
            }
            components.push((component.clone(), directory.into()));
        }
        Ok(Settings::Artifact {
            root: self.root_dir,
            descriptor: self.descriptor,
            name: self.artifact_name,
            components,
        })
    }
}

impl ArchiveArguments {
    fn settings(mut self) -> Result<Settings> {
        if self.hash_algorithm != "sha256" {
            return Err(Usage::new(format!("`--hash-algorithm {}` is not supported", self.hash_algorithm))
                .hint("only sha256 is: it is what all of ROCm's tools read")
                .into());
        }
        if self.artifact.len() > 1 {
            return Err(Usage::new("only one artifact goes into an archive")
                .hint("of several in one archive, every reader sees the first only: write an archive for each")
                .into());
        }
        let artifact = self.artifact.swap_remove(0);
        let inputs = std::slice::from_ref(&artifact);
        let output = self.output.check("-o", FileKind::Archive, inputs)?.path().to_owned();
        let named = Compression::of(&output)?;
        let wanted = match self.compression_type {
            Some(CompressionType::Zstd) => Compression::Zstd,
            Some(CompressionType::Xz) => Compression::Xz,
            None => named,
        };
        if wanted != named {
            return Err(Usage::new(format!("`{}` does not end in `{}`", output.display(), wanted.suffix()))
                .hint("readers know the format by the name: remove `--compression-type`, or change the name")
                .into());
        }
        let options = ArchiveOptions {
            compression: wanted,
            level: self.compression_level.unwrap_or(wanted.default_level()),
            epoch: environment::epoch()?,
            threads: rayon::current_num_threads(),
        };
        let hash_file = self.hash_file.filter(|file| !file.is_empty());
        let hash_file = hash_file.map(|file| file.check("--hash-file", FileKind::Digest, inputs)).transpose()?;
        let hash_file = hash_file.map(|file| file.path().to_owned());
        Ok(Settings::Archive { artifact, output, options, hash_file })
    }
}

/// Runs one of the tool's commands.
pub(super) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    if printer.format() == printer::ResultFormat::Json {
        return Err(Usage::new("`rocwheel compat fileset_tool` has no JSON form").hint("remove `--json`").into());
    }
    match settings {
        Settings::List { directories, predicate } => {
            let files = Fileset::scan(directories, predicate, printer.reporter())?;
            list(&files, printer)?;
        }
        Settings::Copy { directories, predicate, output, how } => {
            let files = Fileset::scan(directories, predicate, printer.reporter())?;
            files.copy(output, *how, directories, printer.reporter())?;
        }
        Settings::Artifact { root, descriptor, name, components } => {
            let descriptor = Descriptor::read(descriptor, name)?;
            write_components(&descriptor, root, components, printer)?;
        }
        Settings::Archive { artifact, output, options, hash_file } => {
            write_archive(artifact, output, *options, hash_file.as_deref(), printer)?;
        }
        Settings::Flatten { inputs, output } => merge(inputs, output, printer)?,
        Settings::FlattenSplit { prefixes, parent, output } => {
            let inputs = beginning_with(prefixes, parent, printer)?;
            if inputs.is_empty() {
                let prefixes = prefixes.join("`, `");
                printer.warn(format!("no artifact in `{}` begins with `{prefixes}`", parent.display()));
                return Ok(Exit::Done);
            }
            merge(&inputs, output, printer)?;
        }
    }
    Ok(Exit::Done)
}

fn list(files: &Fileset, printer: &Printer) -> Result<()> {
    let lines: Vec<&str> = files.entries.keys().map(String::as_str).collect();
    if lines.is_empty() { Ok(()) } else { printer.line(lines.join("\n")) }
}

fn write_components(
    descriptor: &Descriptor,
    root: &Path,
    components: &[(String, PathBuf)],
    printer: &Printer,
) -> Result<()> {
    let claims = descriptor.claim(root, printer.reporter())?;
    for (component, _) in components {
        // All names are checked before the first directory is written.
        descriptor.component(&claims, component)?;
    }
    for (component, directory) in components {
        descriptor::write(descriptor.component(&claims, component)?, root, directory, printer.reporter())?;
    }
    for basedir in &claims.missing {
        printer.warn(format!(
            "there is no `{}`, which the descriptor does not call optional",
            root.join(basedir).display()
        ));
    }
    for repeated in &claims.repeated {
        printer.detail(format!("`{}` is the same in `{}` and `{}`", repeated.path, repeated.taken, repeated.also));
    }
    Ok(())
}

fn write_archive(
    artifact: &Path,
    output: &Path,
    options: ArchiveOptions,
    hash_file: Option<&Path>,
    printer: &Printer,
) -> Result<()> {
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut plan = archive::plan(&[artifact.to_owned()], parent, options, printer.reporter())?;
    for planned in &mut plan.archives {
        output.clone_into(&mut planned.path);
    }
    for written in archive::write(&plan, printer.reporter())? {
        let elsewhere = hash_file.filter(|path| !same_path(path, &written.sidecar));
        if let Some(path) = elsewhere {
            fs_err::copy(&written.sidecar, path).context("cannot write the digest")?;
        }
        printer.note(format!(
            "`{}`: {}, {}",
            output.display(),
            message::count(written.files, "file", "files"),
            message::bytes(written.compressed)
        ));
    }
    Ok(())
}

fn same_path(left: &Path, right: &Path) -> bool {
    let paths = [left, right];
    left == right || matches!(paths.map(rocwheel_system::canonicalize), [Ok(left), Ok(right)] if left == right)
}

/// Merges artifacts in a temporary tree and then moves its contents into the output. An artifact
/// that cannot be read, or a path with two contents, leaves the output unchanged.
fn merge(inputs: &[PathBuf], output: &Path, printer: &Printer) -> Result<()> {
    let output = rocwheel_artifact::separate(output, inputs)?;
    let parent = output.parent().unwrap_or(Path::new("/"));
    fs_err::create_dir_all(parent)?;
    let work = environment::scratch_below(parent)?;
    let tree = work.path().join("tree");
    flatten::flatten(inputs, &tree, Replaceable::OnlyOurs, Mode::Execute, printer.reporter())?;
    fs_err::remove_file(tree.join(flatten::MARKER))?;
    let files = Fileset::scan(std::slice::from_ref(&tree), &Predicate::default(), printer.reporter())?;
    files.copy(&output, (Transfer::Link, Before::Keep), &[], printer.reporter())?;
    work.close()?;
    // Here every command has `--verbose`; in the script only these two do.
    if printer.has_details() {
        list(&files, printer)?;
    }
    Ok(())
}

/// The artifact directories named PREFIX_TARGET. Other entries with such a name are reported;
/// today's script ignores them silently.
fn beginning_with(prefixes: &[String], parent: &Path, printer: &Printer) -> Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        fs_err::read_dir(parent)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    let mut artifacts = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut rests = prefixes.iter().filter_map(|prefix| name.strip_prefix(prefix.as_str()));
        if !rests.any(|rest| rest.starts_with('_')) || name.ends_with(".sha256sum") {
            continue;
        }
        if path.join(MANIFEST).is_file() && ArtifactName::parse(&name).is_some() {
            artifacts.push(path);
            continue;
        }
        let reason = match ArtifactName::parse_archive(&name) {
            Some((name, _)) if parent.join(name.to_string()).join(MANIFEST).is_file() => continue,
            Some(_) => "it is an archive",
            None if !path.is_dir() => "it is not a directory",
            None if path.join(MANIFEST).is_file() => "its name does not have three fields",
            None => "it has no artifact_manifest.txt",
        };
        printer.warn(format!("`{}` is skipped: {reason}", path.display()));
    }
    Ok(artifacts)
}
