//! `rocwheel compat build_python_packages`: today's flags and layout, done by the engine of
//! `rocwheel package`.

use std::path::{Path, PathBuf};

use clap::Args;
use rocwheel_artifact::manifest::{BASE_ARTIFACT, MANIFEST_DIRECTORY, MANIFEST_FILE};
use rocwheel_artifact::{Catalog, Manifest};
use rocwheel_commands_build::rocm_version;
use rocwheel_commands_wheel::last_look::LastLookArguments;
use rocwheel_commands_wheel::package as packages;
use rocwheel_commands_wheel::reuse::ReuseArguments;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_output::Mode;
use rocwheel_package::{Request, Unclaimed, Unsupported};
use rocwheel_progress::Exit;

use super::given;
use super::package_version::asan_suffix;

/// build_python_packages: artifacts → wheels and the selector, in DEST_DIR/dist
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Arguments {
    /// Folder of artifacts
    #[arg(long, value_name = "DIR")]
    artifact_dir: PathBuf,
    /// Folder to write to: missing, empty, or made by rocwheel
    #[arg(long, value_name = "DIR")]
    dest_dir: PathBuf,
    /// Write the packages, as is the default
    #[arg(long, overrides_with = "no_build_packages")]
    build_packages: bool,
    /// Print the plan and write nothing
    #[arg(long)]
    no_build_packages: bool,
    /// Version of the packages [default: X.Y.Z.dev0 with the numbers of version.json, else of the
    /// artifacts' manifest]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// The build has the address sanitizer: its version is X.Y.Z+asan.ID
    #[arg(long)]
    asan: bool,
    /// Name of that build [default: the day of the artifacts' version, else today]
    #[arg(long, value_name = "ID", requires = "asan")]
    asan_build_id: Option<String>,
    /// Append this to the names of the import packages
    #[arg(long, value_name = "SUFFIX")]
    version_suffix: Option<String>,
    /// Without effect: the wheel that holds the tar is compressed
    #[arg(long, overrides_with = "no_devel_tarball_compression")]
    devel_tarball_compression: bool,
    /// Without effect, as is the default
    #[arg(long)]
    no_devel_tarball_compression: bool,
    /// Compress the wheels, as is the default
    #[arg(long, overrides_with = "no_wheel_compression")]
    wheel_compression: bool,
    /// Store the files in the wheels uncompressed
    #[arg(long)]
    no_wheel_compression: bool,
    /// GPU families to package for Linux, separated by `;` or `,`; each has to exist [default: all
    /// of the artifacts]
    #[arg(long, value_name = "LIST")]
    linux_amdgpu_families: Option<String>,
    /// The same for Windows. Artifacts are for one of the two systems; families of the other one
    /// are only offered
    #[arg(long, value_name = "LIST")]
    windows_amdgpu_families: Option<String>,
    #[command(flatten)]
    last_look: LastLookArguments,
}

#[derive(Debug)]
pub(crate) struct Settings {
    settings: packages::Settings,
    /// `true` if the artifacts have to bring the runtime of the address sanitizer.
    is_asan: bool,
    unused: Vec<&'static str>,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let version = match given(arguments.version.clone()) {
            _ if arguments.asan => Some(asan_version(&arguments)?),
            Some(version) => Some(version),
            None => default_version(&arguments.artifact_dir)?,
        };
        let request = Request {
            version,
            nonce: given(arguments.version_suffix).unwrap_or_default(),
            linux_targets: given(arguments.linux_amdgpu_families).into_iter().collect(),
            windows_targets: given(arguments.windows_amdgpu_families).into_iter().collect(),
            level: if arguments.no_wheel_compression {
                rocwheel_archive::Level::None
            } else {
                rocwheel_archive::Level::Default
            },
            epoch: environment::epoch()?,
            unclaimed: Unclaimed::Report,
            unsupported: Unsupported::Refuse,
            ..Request::new(arguments.artifact_dir, arguments.dest_dir)
        };
        let mode = Mode::new(arguments.no_build_packages);
        let unused = arguments.devel_tarball_compression.then_some("--devel-tarball-compression");
        let last_look = arguments.last_look.choice();
        let settings = packages::Settings {
            request,
            mode,
            last_look,
            reuse: ReuseArguments::default(),
            // Today's script also replaces them without asking.
            earlier: packages::Earlier::Replace,
            scratch: environment::scratch(),
        };
        Ok(Self { settings, is_asan: arguments.asan, unused: unused.into_iter().collect() })
    }
}

/// The version of a build without `--version`. `None` if neither file gives one: the plan then
/// reports the error.
fn default_version(artifacts: &Path) -> Result<Option<String>> {
    let base = if let Some(file) = rocm_version::read_version_file(None)? {
        Some(file.rocm_version)
    } else {
        Manifest::read(&manifest_path(artifacts)).ok().and_then(|manifest| manifest.rocm_version)
    };
    Ok(base.map(|base| format!("{base}.dev0")))
}

fn manifest_path(artifacts: &Path) -> PathBuf {
    artifacts.join(BASE_ARTIFACT).join(MANIFEST_DIRECTORY).join(MANIFEST_FILE)
}

/// `X.Y.Z+asan.ID`, with the numbers of the artifacts' manifest.
fn asan_version(arguments: &Arguments) -> Result<String> {
    let path = manifest_path(&arguments.artifact_dir);
    let manifest = Manifest::read(&path)?;
    let base = manifest.rocm_version.ok_or_else(|| {
        Usage::new(format!("`--asan` needs `rocm_version`, which `{}` lacks", path.display()))
            .hint("write it into the manifest, or package without `--asan` and with `--version X.Y.Z+asan.ID`")
    })?;
    if let Some(version) = given(arguments.version.clone()) {
        if !version.strip_prefix(&base).is_some_and(|rest| rest.starts_with("+asan.")) {
            let usage = Usage::new(format!("`--version {version}` is not that of a build with the address sanitizer"));
            return Err(usage.hint(format!("`--asan` wants `{base}+asan.ID`, which no release is mixed with")).into());
        }
        return Ok(version);
    }
    // The day in `7.1.0a20260822`.
    let day = manifest.rocm_package_version.as_ref().and_then(|version| {
        let (_, day) = version.rsplit_once(|letter: char| letter.is_ascii_alphabetic())?;
        (day.len() >= 8).then(|| day.to_owned())
    });
    Ok(format!("{base}{}", asan_suffix(given(arguments.asan_build_id.clone()).or(day))?))
}

/// Insists on the runtime that everything in such a build is linked to.
fn check_asan(artifacts: &Path, printer: &Printer) -> Result<()> {
    let scratch = environment::scratch_below(&environment::scratch())?;
    let catalog = Catalog::open(artifacts, scratch.path(), printer.reporter())?;
    let mut paths = catalog.artifacts.iter().flat_map(|artifact| &artifact.entries).map(|entry| entry.path.as_str());
    let has_runtime = paths.any(|path| {
        path.starts_with("lib/llvm/lib/clang/")
            && path.contains("/libclang_rt.asan-")
            && path.rsplit('.').next() == Some("so")
    });
    scratch.close()?;
    if has_runtime {
        return Ok(());
    }
    let text =
        format!("`{}` has no shared runtime of the address sanitizer (`libclang_rt.asan-*.so`)", artifacts.display());
    Err(Failure::message(text).with_hint("leave `--asan` out, or fetch the artifacts of a build with the sanitizer"))
}

pub(super) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    for flag in &settings.unused {
        printer.note(format!("`{flag}` has no effect: the wheel that holds the tar is compressed"));
    }
    if settings.is_asan {
        check_asan(&settings.settings.request.artifacts, printer)?;
    }
    packages::command(&settings.settings, printer)
}
