//! `rocwheel test smoke`: sample computations of what is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::printer::Printer;
use rocwheel_progress::Exit;
use rocwheel_report::outcome::TestRunFacts;
use rocwheel_suite::lists::ListSetting;
use rocwheel_suite::smoke::{SmokeDriver, SmokeSetup};
use rocwheel_suite::{SuiteLimits, SuiteRequest, TestWorker, probe_python, run_name, run_suite};
use rocwheel_tables::TargetTable;

use super::container::{self, ContainerProgram};
use super::result;
use super::suite::plan::{base_program, default_python, now};
use super::suite::wheels::wheels;

/// Try sample computations of the installed frameworks and ROCm packages, on each GPU
///
/// Tests torch, torchvision, torchaudio, triton, apex, flash_attn and ROCm's own packages, or the
/// named ones of them. Each computation has its own process with a time limit, and is compared with
/// exact numbers or with the same computation on the CPU. Which libraries have to load is read from
/// the installed packages.
///
/// Without a GPU, the computations that need one do not run, which is not a pass: the exit code is
/// 1, or 3 with `--allow-no-gpu`. `--compile-for` needs no GPU: kernels for triton, and those of
/// flash-attention, are compiled for other GPUs, and not run.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Packages to test, by import name; rocm means ROCm's own [default: all installed]
    #[arg(value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Run the computations whose names fit an expression, as `pytest -k` takes it: `matmul and not
    /// complex`
    #[arg(short = 'k', value_name = "EXPRESSION")]
    names: Option<String>,
    /// Python that has the packages [default: that of the active environment, else python3]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    python: Option<PathBuf>,
    /// Test in a container of this image, with the GPUs of this machine
    #[arg(long = "in", value_name = "IMAGE")]
    image: Option<String>,
    /// The program that starts the container [default: docker, else podman]
    #[arg(long, value_name = "ENGINE", requires = "image")]
    engine: Option<ContainerProgram>,
    /// Option of the engine's `run`: --engine-option=--shm-size=10g
    #[arg(long, value_name = "OPTION", requires = "image", allow_hyphen_values = true)]
    engine_option: Vec<String>,
    /// Folder in which each run gets its own folder
    #[arg(short, long, value_name = "DIR", default_value = "test-results", value_hint = ValueHint::DirPath)]
    output: PathBuf,
    /// Seconds that a computation may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Further attempts of a computation that fails
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=20))]
    retries: u32,
    /// Test only on GPUs of these targets or families
    #[arg(long, value_name = "LIST")]
    amdgpu_family: Option<String>,
    /// Only compile kernels with triton, for these targets or families, which need not be here
    #[arg(long, value_name = "LIST", conflicts_with_all = ["amdgpu_family", "allow_no_gpu"])]
    compile_for: Option<String>,
    /// End with exit code 3 if only the computations that need a GPU did not run
    #[arg(long)]
    allow_no_gpu: bool,
    /// Wheel, or folder of wheels, that is installed; its SHA-256 is recorded
    #[arg(long, value_name = "PATH")]
    wheel: Vec<PathBuf>,
}

/// What is tested.
#[derive(Debug)]
pub(crate) struct Settings {
    arguments: Arguments,
    targets: BTreeSet<String>,
    compile_for: BTreeSet<String>,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let targets = expand(arguments.amdgpu_family.as_deref())?;
        let compile_for = expand(arguments.compile_for.as_deref())?;
        Ok(Self { arguments, targets, compile_for })
    }
}

fn expand(list: Option<&str>) -> Result<BTreeSet<String>> {
    Ok(match list {
        Some(list) => TargetTable::embedded().expand(list)?.into_iter().collect(),
        None => BTreeSet::new(),
    })
}

/// Runs the computations.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let arguments = &settings.arguments;
    if let Some(image) = &arguments.image {
        let inner = inner_words(arguments);
        let wheels: Vec<PathBuf> = arguments.wheel.clone();
        let run = container::ContainerRun {
            image,
            engine: arguments.engine,
            options: &arguments.engine_option,
            output: &arguments.output,
            mounts: &wheels,
        };
        return container::run(&run, &inner, printer);
    }
    let scratch = environment::scratch_below(&environment::scratch())?;
    // Nothing in the working directory is to be imported instead of what is installed.
    let base = base_program(scratch.path());
    let python = match &arguments.python {
        Some(path) => std::path::absolute(path)?,
        None => default_python()?,
    };
    let installed = probe_python(&python, &base)?;
    let timeout = Duration::from_secs(arguments.timeout.into());
    let driver = SmokeDriver::new(&SmokeSetup {
        python,
        base,
        packages: &arguments.packages,
        names: arguments.names.as_deref(),
        targets: settings.targets.clone(),
        compile_for: settings.compile_for.clone(),
        timeout,
        scratch: scratch.path(),
    })?;
    let facts = TestRunFacts {
        run: run_name("smoke", (1, 1), environment::clock())?,
        suite: "smoke".to_owned(),
        source: Some(format!("rocwheel {}", env!("CARGO_PKG_VERSION"))),
        directory: None,
        shard: 1,
        shards: 1,
        wheels: wheels(Some(&installed), &arguments.wheel)?,
        lists: BTreeMap::new(),
        gpus: driver.gpus.clone(),
        machine: environment::host().unwrap_or_default(),
        started: now(),
        selection: selection(arguments),
        rocwheel: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let setting =
        ListSetting { targets: Vec::new(), version: None, platforms: Vec::new(), today: environment::today() };
    let request = SuiteRequest {
        driver: &driver,
        facts,
        output: &arguments.output,
        rows: &[],
        setting: &setting,
        only_skipped: false,
        durations: &BTreeMap::new(),
        limits: SuiteLimits { timeout, collect_timeout: timeout, retries: arguments.retries, ..SuiteLimits::default() },
        workers: &[TestWorker::default()],
        scratch: scratch.path(),
        now: &now,
    };
    let summary = run_suite(request, printer.reporter())?;
    result::print(&summary, arguments.allow_no_gpu, printer)
}

/// What was asked for, as the report has it.
fn selection(arguments: &Arguments) -> Vec<String> {
    let names = arguments.names.iter().flat_map(|names| ["-k".to_owned(), names.clone()]);
    arguments.packages.iter().cloned().chain(names).collect()
}

/// The words of this command inside of a container, without those that start one.
fn inner_words(arguments: &Arguments) -> Vec<String> {
    let mut words: Vec<String> = vec!["test".into(), "smoke".into()];
    words.extend(selection(arguments));
    let options = [
        ("--output", Some(container::RESULTS.to_owned())),
        ("--timeout", Some(arguments.timeout.to_string())),
        ("--retries", Some(arguments.retries.to_string())),
        ("--python", arguments.python.as_ref().map(|python| python.display().to_string())),
        ("--amdgpu-family", arguments.amdgpu_family.clone()),
        ("--compile-for", arguments.compile_for.clone()),
    ];
    let given = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    words.extend(given.flatten());
    for path in &arguments.wheel {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        words.extend(["--wheel".to_owned(), path.display().to_string()]);
    }
    if arguments.allow_no_gpu {
        words.push("--allow-no-gpu".to_owned());
    }
    words
}
