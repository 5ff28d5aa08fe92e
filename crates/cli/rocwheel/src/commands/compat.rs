//! `rocwheel compat`: scripts of ROCm's build tools, with their names and flags.

mod artifact_manager;
mod bucket_info;
mod build_packages;
mod check;
mod expand_families;
mod fat_wheel;
mod fetch_artifacts;
mod fileset;
mod flags;
mod flash_attention;
mod folder_pages;
mod install_rocm;
mod package_version;
mod prod_wheels;
mod promote_packages;
mod pytorch_tests;
mod repositories;
mod split_artifacts;
mod split_wheels;
mod test_reports;
mod translation;
mod upload_packages;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use comfy_table::CellAlignment::Left;
use rocwheel_progress::{Exit, in_backticks};

pub(crate) use flags::explain;
use translation::{RunWords, Translation};

use rocwheel_commands_build::rocm_version;
use rocwheel_commands_test::test;
use rocwheel_commands_wheel::split;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::printer::{Printer, ResultFormat};

/// Run scripts of ROCm's build tools under their own names, with their own flags
///
/// Without a name, lists the scripts. An empty value counts as a flag that was not given; lists may
/// be separated by `;` or `,`. Flags without an effect are accepted and named in a note.
/// docs/deviations.md lists the differences.
///
/// `--check` reads workflows (YAML of GitHub, GitLab and others) and scripts of shells, and says of
/// each command of ROCm's scripts in them whether it is taken here. Its options are parsed; values
/// that only the run knows are not. The exit code is 0 if all are taken.
#[derive(Debug, Args)]
#[command(
    subcommand_value_name = "SCRIPT",
    subcommand_help_heading = "Scripts",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Arguments {
    /// Say which commands of these workflows, scripts or folders of them are taken
    #[arg(long, value_name = "PATH", num_args = 1.., value_hint = ValueHint::AnyPath)]
    check: Vec<PathBuf>,
    #[command(subcommand)]
    script: Option<Script>,
    /// Threads, from the global option.
    #[arg(skip)]
    pub(crate) jobs: Option<u16>,
}

#[derive(Debug, Subcommand)]
enum Script {
    #[command(name = "build_python_packages", alias = "build_python_packages.py")]
    BuildPythonPackages(build_packages::Arguments),
    #[command(name = "compute_rocm_package_version", alias = "compute_rocm_package_version.py")]
    ComputeRocmPackageVersion(package_version::Arguments),
    #[command(name = "expand_amdgpu_families", alias = "expand_amdgpu_families.py")]
    ExpandAmdgpuFamilies(expand_families::Arguments),
    #[command(name = "fileset_tool", alias = "fileset_tool.py", subcommand)]
    FilesetTool(fileset::Arguments),
    #[command(name = "promote_packages", alias = "promote_packages.py")]
    PromotePackages(promote_packages::Arguments),
    #[command(name = "split_artifacts", alias = "split_artifacts.py")]
    SplitArtifacts(split_artifacts::Arguments),
    #[command(name = "split_python_wheels", alias = "split_python_wheels.py")]
    SplitPythonWheels(split_wheels::Arguments),
    /// pytorch_torch_repo: the sources of torch
    #[command(name = "pytorch_torch_repo", alias = "pytorch_torch_repo.py")]
    Torch(repositories::Arguments),
    /// pytorch_audio_repo: the sources of torchaudio
    #[command(name = "pytorch_audio_repo", alias = "pytorch_audio_repo.py")]
    Audio(repositories::Arguments),
    /// pytorch_vision_repo: the sources of torchvision
    #[command(name = "pytorch_vision_repo", alias = "pytorch_vision_repo.py")]
    Vision(repositories::Arguments),
    /// pytorch_triton_repo: the sources of triton
    #[command(name = "pytorch_triton_repo", alias = "pytorch_triton_repo.py")]
    Triton(repositories::Arguments),
    /// pytorch_apex_repo: the sources of apex
    #[command(name = "pytorch_apex_repo", alias = "pytorch_apex_repo.py")]
    Apex(repositories::Arguments),
    #[command(name = "build_prod_wheels", alias = "build_prod_wheels.py")]
    BuildProdWheels(Box<prod_wheels::Arguments>),
    #[command(name = "windows_patch_fat_wheel", alias = "windows_patch_fat_wheel.py")]
    WindowsPatchFatWheel(fat_wheel::Arguments),
    #[command(name = "build_rocm", alias = "build_rocm.sh")]
    BuildRocm(flash_attention::Arguments),
    #[command(name = "fetch_artifacts", alias = "fetch_artifacts.py")]
    FetchArtifacts(Box<fetch_artifacts::Arguments>),
    #[command(name = "artifact_manager", alias = "artifact_manager.py", subcommand)]
    ArtifactManager(artifact_manager::Arguments),
    #[command(name = "install_rocm_from_artifacts", alias = "install_rocm_from_artifacts.py")]
    InstallRocm(Box<install_rocm::Arguments>),
    #[command(name = "indexer", alias = "indexer.py")]
    Indexer(folder_pages::IndexerArguments),
    #[command(name = "generate_s3_index", alias = "generate_s3_index.py")]
    GenerateS3Index(folder_pages::RunPagesArguments),
    #[command(name = "index_generation_s3_tar", alias = "index_generation_s3_tar.py")]
    TarballIndex(folder_pages::TarballArguments),
    /// manage: the pages of an index in a bucket, all files in one folder
    #[command(name = "manage", alias = "manage.py")]
    Manage(upload_packages::ManageArguments),
    /// manage_structured: the pages of an index in a bucket, a folder for each project
    #[command(name = "manage_structured", alias = "manage_structured.py")]
    ManageStructured(upload_packages::ManageArguments),
    #[command(name = "run_pytorch_tests", alias = "run_pytorch_tests.py")]
    RunPytorchTests(Box<pytorch_tests::Arguments>),
    #[command(name = "run_pytorch_tests_full", alias = "run_pytorch_tests_full.py")]
    RunPytorchTestsFull(Box<pytorch_tests::FullArguments>),
    #[command(name = "run_pytorch_smoke_tests", alias = "run_pytorch_smoke_tests.py")]
    RunPytorchSmokeTests(pytorch_tests::SmokeArguments),
    #[command(name = "create_skip_tests", alias = "create_skip_tests.py")]
    CreateSkipTests(pytorch_tests::SkipArguments),
    #[command(name = "summarize_test_results", alias = "summarize_test_results.py")]
    SummarizeTestResults(Box<test_reports::SummaryArguments>),
    #[command(name = "generate_test_sharding_matrix", alias = "generate_test_sharding_matrix.py")]
    GenerateTestShardingMatrix(test_reports::MatrixArguments),
    #[command(name = "upload_python_packages", alias = "upload_python_packages.py")]
    UploadPythonPackages(upload_packages::Arguments),
    #[command(name = "write_artifacts_bucket_info", alias = "write_artifacts_bucket_info.py")]
    ArtifactsBucket(bucket_info::ArtifactsArguments),
    #[command(name = "write_product_release_bucket_info", alias = "write_product_release_bucket_info.py")]
    ReleaseBucket(bucket_info::ReleaseArguments),
}

#[derive(Debug)]
pub(crate) enum Settings {
    List,
    Check(Vec<PathBuf>),
    BuildPackages(Box<build_packages::Settings>),
    PackageVersion(rocm_version::Settings),
    ExpandFamilies(expand_families::Settings),
    Fileset(fileset::Settings),
    SplitArtifacts(split_artifacts::Settings),
    SplitWheels {
        settings: Box<split::wheel::Settings>,
        unused: Vec<&'static str>,
    },
    Translated(Translation),
    FolderPages(folder_pages::Settings),
    UploadPackages(Box<upload_packages::Arguments>),
    TestReport(Box<test::report::Settings>),
    TestMatrix(Vec<test_reports::ShardJob>),
    /// Lines that are the whole answer.
    Lines(Vec<String>),
    /// Outputs of the step, which are printed too.
    Outputs(bucket_info::Outputs),
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let jobs = arguments.jobs;
        let Some(script) = arguments.script else {
            return Ok(if arguments.check.is_empty() { Self::List } else { Self::Check(arguments.check) });
        };
        let mut settings = match script {
            Script::BuildPythonPackages(arguments) => Self::BuildPackages(Box::new(arguments.try_into()?)),
            Script::ComputeRocmPackageVersion(arguments) => Self::PackageVersion(arguments.settings()?),
            Script::ExpandAmdgpuFamilies(arguments) => Self::ExpandFamilies(arguments.try_into()?),
            Script::FilesetTool(arguments) => Self::Fileset(arguments.try_into()?),
            Script::PromotePackages(arguments) => Self::Translated(arguments.translated()?),
            Script::SplitArtifacts(arguments) => Self::SplitArtifacts(arguments.try_into()?),
            Script::SplitPythonWheels(arguments) => {
                let (settings, unused) = arguments.settings()?;
                Self::SplitWheels { settings, unused }
            }
            Script::Torch(arguments) => Self::Translated(arguments.translated("torch")?),
            Script::Audio(arguments) => Self::Translated(arguments.translated("torchaudio")?),
            Script::Vision(arguments) => Self::Translated(arguments.translated("torchvision")?),
            Script::Triton(arguments) => Self::Translated(arguments.translated("triton")?),
            Script::Apex(arguments) => Self::Translated(arguments.translated("apex")?),
            Script::BuildProdWheels(arguments) => Self::Translated(arguments.translated()?),
            Script::WindowsPatchFatWheel(arguments) => Self::Translated(arguments.translated()?),
            Script::BuildRocm(arguments) => Self::Translated(arguments.translated()?),
            Script::FetchArtifacts(arguments) => Self::Translated(arguments.translated()?),
            Script::ArtifactManager(arguments) => match arguments.answer()? {
                artifact_manager::Answer::Run(translation) => Self::Translated(translation),
                artifact_manager::Answer::Lines(lines) => Self::Lines(lines),
            },
            Script::InstallRocm(arguments) => Self::Translated(arguments.translated()?),
            Script::Indexer(arguments) => Self::FolderPages(folder_pages::Settings::Indexer(arguments)),
            Script::GenerateS3Index(arguments) => Self::FolderPages(folder_pages::Settings::RunPages(arguments)),
            Script::TarballIndex(arguments) => Self::FolderPages(folder_pages::Settings::Tarballs(arguments)),
            Script::Manage(arguments) => Self::Translated(arguments.translated("flat")?),
            Script::ManageStructured(arguments) => Self::Translated(arguments.translated("structured")?),
            Script::RunPytorchTests(arguments) => Self::Translated(arguments.translated()?),
            Script::RunPytorchTestsFull(arguments) => Self::Translated(arguments.translated()?),
            Script::RunPytorchSmokeTests(arguments) => Self::Translated(arguments.translated()),
            Script::CreateSkipTests(arguments) => Self::Lines(arguments.lines()?),
            Script::SummarizeTestResults(arguments) => Self::TestReport(Box::new(arguments.settings())),
            Script::GenerateTestShardingMatrix(arguments) => Self::TestMatrix(arguments.jobs()?),
            Script::UploadPythonPackages(arguments) => Self::UploadPackages(Box::new(arguments.check()?)),
            Script::ArtifactsBucket(arguments) => Self::Outputs(arguments.outputs()?),
            Script::ReleaseBucket(arguments) => Self::Outputs(arguments.outputs()?),
        };
        if let Self::Translated(translation) = &mut settings {
            translation.jobs = jobs;
        }
        Ok(settings)
    }
}

impl Settings {
    /// Sentences about options that have no effect. The help of the other scripts' options says it.
    fn without_effect(&self) -> &[String] {
        match self {
            Self::Translated(translation) => &translation.no_effect,
            _ => &[],
        }
    }
}

/// The covered scripts: name, purpose, and the rocwheel command that does more.
const SCRIPTS: [[&str; 3]; 32] = [
    [
        "artifact_manager",
        "the artifacts of a run, by stages of the build",
        "rocwheel artifact fetch, rocwheel artifact push",
    ],
    ["build_prod_wheels", "wheels of torch and what belongs to it", "rocwheel build"],
    ["build_python_packages", "artifacts → wheels and the selector", "rocwheel package --artifacts DIR --output DIR"],
    ["build_rocm", "a wheel of flash-attn (not PyTorch's script)", "rocwheel build flash-attn"],
    ["compute_rocm_package_version", "the version of a build's packages", "rocwheel rocm-version"],
    ["create_skip_tests", "lists of known failures → an expression of pytest", "rocwheel test suite --list skip_tests"],
    ["expand_amdgpu_families", "GPU families → their targets", "none"],
    ["fetch_artifacts", "the artifacts of a run", "rocwheel artifact fetch --run-id ID --output DIR"],
    ["fileset_tool", "a build tree → artifacts, archives, one tree", "rocwheel artifact"],
    ["generate_s3_index", "a page for each folder of a run", "rocwheel artifact push"],
    ["generate_test_sharding_matrix", "the jobs of PyTorch's tests", "rocwheel test shards --shards N DURATIONS"],
    ["index_generation_s3_tar", "a page for the tarballs of a bucket", "none"],
    ["indexer", "a page for a folder", "rocwheel index build DIR"],
    ["install_rocm_from_artifacts", "an installed ROCm of a run", "rocwheel artifact fetch --flatten"],
    ["manage", "the pages of an index in a bucket", "rocwheel index build s3://BUCKET/PREFIX"],
    ["manage_structured", "the same, a folder for each project", "rocwheel index build s3://BUCKET/PREFIX"],
    ["promote_packages", "release candidates → a release", "rocwheel release promote DIST --version V --output DIR"],
    ["pytorch_apex_repo", "the sources of apex", "rocwheel source checkout apex"],
    ["pytorch_audio_repo", "the sources of torchaudio", "rocwheel source checkout torchaudio"],
    ["pytorch_torch_repo", "the sources of torch", "rocwheel source checkout torch"],
    ["pytorch_triton_repo", "the sources of triton", "rocwheel source checkout triton"],
    ["pytorch_vision_repo", "the sources of torchvision", "rocwheel source checkout torchvision"],
    ["run_pytorch_smoke_tests", "sample computations of torch", "rocwheel test smoke torch"],
    ["run_pytorch_tests", "PyTorch's tests, without known failures", "rocwheel test suite --pytorch-dir DIR"],
    ["run_pytorch_tests_full", "PyTorch's own runner", "rocwheel test suite --as run-test --pytorch-dir DIR"],
    ["split_artifacts", "an artifact → a part without GPU code and one for each target", "rocwheel split ARTIFACT"],
    ["split_python_wheels", "a wheel → a host wheel and device wheels", "rocwheel split WHEEL"],
    ["summarize_test_results", "what the reports of PyTorch's tests say", "rocwheel test report DIR"],
    ["upload_python_packages", "the packages of a run into its folder", "rocwheel release upload"],
    ["windows_patch_fat_wheel", "a wheel with ROCm in it", "rocwheel repair --mode fat --rocm DIR WHEEL"],
    [
        "write_artifacts_bucket_info",
        "the bucket for artifacts, and its role",
        "rocwheel artifact push --release-type TYPE",
    ],
    ["write_product_release_bucket_info", "the bucket of a product's releases, and its role", "none"],
];

/// `true` if a script of this name is covered.
pub(crate) fn has_script(name: &str) -> bool {
    SCRIPTS.iter().any(|[script, ..]| *script == name)
}

/// The command line with the bare name of a script that was typed with its folder, as in
/// `rocwheel compat ./build_tools/fetch_artifacts.py`.
pub(crate) fn without_folder(mut typed: Vec<OsString>) -> Vec<OsString> {
    let at = typed.iter().position(|word| word == "compat");
    if let Some(word) = at.and_then(|at| typed.get_mut(at + 1)) {
        let path = PathBuf::from(&*word);
        let is_script = path.extension().is_some_and(|extension| extension == "py" || extension == "sh");
        if let Some(name) = path.file_name().filter(|_| is_script) {
            name.clone_into(word);
        }
    }
    typed
}

/// Runs a script, or lists them.
pub(crate) fn command(settings: &Settings, run: RunWords, printer: &Printer) -> Result<Exit> {
    match settings {
        Settings::List => list(printer),
        Settings::Check(paths) => check::command(paths, printer),
        Settings::BuildPackages(settings) => build_packages::command(settings, printer),
        Settings::PackageVersion(settings) => rocm_version::command(settings, printer),
        Settings::ExpandFamilies(settings) => expand_families::command(settings, printer),
        Settings::Fileset(settings) => fileset::command(settings, printer),
        Settings::SplitArtifacts(settings) => split_artifacts::command(settings, printer),
        Settings::SplitWheels { settings, unused } => {
            note_unused(unused, printer);
            split::wheel::command(settings, printer)
        }
        Settings::Translated(translation) => translation::command(translation, run, printer),
        Settings::FolderPages(settings) => folder_pages::command(settings, printer),
        Settings::UploadPackages(arguments) => upload_packages::command(arguments, printer),
        Settings::TestReport(settings) => test::report::command(settings, printer),
        Settings::TestMatrix(jobs) => test_reports::print_matrix(jobs, printer),
        Settings::Lines(lines) => {
            lines.iter().try_for_each(|line| printer.line(line))?;
            Ok(Exit::Done)
        }
        Settings::Outputs(outputs) => bucket_info::command(outputs, printer),
    }
}

/// Notes the flags that were accepted but have no effect.
fn note_unused(unused: &[&str], printer: &Printer) {
    if !unused.is_empty() {
        let flags = in_backticks(unused);
        printer.note(format!("{flags} has no effect: this program needs no other tools"));
    }
}

/// A value, unless it is empty: workflows pass empty values for options that they do not set.
fn given(value: Option<String>) -> Option<String> {
    value.filter(|value| !value.trim().is_empty())
}

fn none_if_empty(value: String) -> Option<String> {
    given(Some(value))
}

fn list(printer: &Printer) -> Result<Exit> {
    if printer.format() == ResultFormat::Json {
        let scripts = SCRIPTS
            .map(|[name, about, instead]| serde_json::json!({ "name": name, "about": about, "instead": instead }));
        printer.json(&serde_json::json!({ "scripts": scripts }))?;
        return Ok(Exit::Done);
    }
    let rows = SCRIPTS.map(|row| row.map(str::to_owned).to_vec());
    printer.table(&[("Script", Left), ("What it does", Left), ("The command behind it", Left)], rows)?;
    Ok(Exit::Done)
}
