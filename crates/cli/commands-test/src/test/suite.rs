//! `rocwheel test suite`: runs tests of any kind under a supervisor.

pub(super) mod plan;
pub mod selection;
pub(super) mod wheels;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use rocwheel_console::arguments::size;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_progress::Exit;

use self::plan::SuitePlan;
use super::result;

/// Run a test suite: pytest, PyTorch's own runner, GoogleTest programs, a ctest folder or scripts
///
/// Each test has a time limit from outside of its process. A test that crashes or hangs costs
/// itself: the next one continues in a fresh process. Every attempt is written into
/// OUTPUT/RUN/events.jsonl while the tests run. Tests that did not run are no pass, and neither is
/// a suite without tests.
///
/// A path that ends in `.py` and a folder are for pytest, a folder with CTestTestfile.cmake is for
/// ctest, and other programs are GoogleTest's or, with `--as script`, a test each.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// Files, folders, test ids of pytest, or programs; with `--pytorch-dir` names such as test_nn
    #[arg(value_name = "TEST")]
    tests: Vec<String>,
    /// The kind of tests [default: as the paths look]
    #[arg(long = "as", value_name = "KIND")]
    kind: Option<TestKind>,
    /// Name of the suite in reports [default: pytest, pytorch, gtest, ctest or script]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Python that runs the tests [default: that of the active environment, else python3]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    python: Option<PathBuf>,
    /// Folder in which each run gets its own folder
    #[arg(short, long, value_name = "DIR", default_value = "test-results", value_hint = ValueHint::DirPath)]
    output: PathBuf,
    /// Seconds that a test may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Seconds until the first test of a process: imports and collection
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    collect_timeout: u32,
    /// Memory that a test's processes may use together, such as 16GiB; more ends them
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Further attempts of a test that fails, each in a fresh process
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=20))]
    retries: u32,
    /// Processes that test at the same time, each with its GPU [default: one for each GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: Option<u16>,
    /// Run one part of N: 2/5
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(u32, u32)>,
    /// JSON with the seconds of each test, which makes shards even
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    durations: Option<PathBuf>,
    /// Known failures: a TOML file, TheRock's skip_tests folder, or PyTorch's JSON of disabled or
    /// slow tests; `#sha256=…` behind the path pins it
    #[arg(long, value_name = "PATH")]
    list: Vec<String>,
    /// Version that chooses lists [default: that of the installed torch]
    #[arg(long, value_name = "VERSION")]
    list_version: Option<String>,
    /// Test without the list of this version, which is recorded
    #[arg(long)]
    allow_missing_list: bool,
    /// Run only what the lists skip
    #[arg(long)]
    only_skipped: bool,
    /// Choose tests by an expression of pytest
    #[arg(short = 'k', value_name = "EXPRESSION")]
    expression: Option<String>,
    /// Test only on GPUs of these targets or families; one has to be there
    #[arg(long, value_name = "LIST")]
    amdgpu_family: Option<String>,
    /// Checkout of PyTorch whose tests run; it has to be of the commit of the installed torch
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pytorch_dir: Option<PathBuf>,
    /// Test although the checkout is of another commit, which is recorded
    #[arg(long, requires = "pytorch_dir")]
    allow_version_mismatch: bool,
    /// Wheel, or folder of wheels, that is installed; its SHA-256 is recorded
    #[arg(long, value_name = "PATH")]
    wheel: Vec<PathBuf>,
    /// Working directory of the tests
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: Option<PathBuf>,
    /// List the tests, and run none
    #[arg(long)]
    dry_run: bool,
    /// Options of pytest, run_test.py, ctest or the programs, after `--`
    #[arg(last = true, value_name = "OPTION", allow_hyphen_values = true)]
    options: Vec<String>,
}

/// The kinds of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestKind {
    /// Files, folders or ids of pytest
    Pytest,
    /// PyTorch's test/run_test.py, in `--pytorch-dir`
    RunTest,
    /// Programs made with GoogleTest
    Gtest,
    /// A folder with CTestTestfile.cmake
    Ctest,
    /// Programs that are one test each
    Script,
}

fn shard(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
    parts
        .filter(|(index, count)| (1..=*count).contains(index) && *count <= 10_000)
        .ok_or_else(|| "a part and the number of parts are expected: 2/5".to_owned())
}

/// What runs.
#[derive(Debug)]
pub(crate) struct Settings {
    arguments: Arguments,
    kind: TestKind,
    durations: BTreeMap<String, f64>,
    directory: PathBuf,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let kind = kind_of(&arguments)?;
        let is_python = matches!(kind, TestKind::Pytest | TestKind::RunTest);
        if arguments.expression.is_some() && !is_python {
            return Err(Usage::new("`-k` is for pytest")
                .hint("choose other tests with their own options, after `--`")
                .into());
        }
        let has_own = arguments.retries > 0 || arguments.workers.is_some() || arguments.memory.is_some();
        if kind == TestKind::RunTest && (has_own || arguments.only_skipped) {
            let flags = "`--retries`, `--workers`, `--memory` and `--only-skipped`";
            return Err(Usage::new(format!("run_test.py decides itself about {flags}"))
                .hint("leave out `--as run-test`: `--pytorch-dir` runs the same files with pytest")
                .into());
        }
        if arguments.only_skipped && arguments.list.is_empty() {
            return Err(Usage::new("`--only-skipped` needs a list").hint("name it with `--list`").into());
        }
        if let Some(folder) = arguments.pytorch_dir.as_ref().filter(|folder| !folder.join("test").is_dir()) {
            return Err(
                Usage::new(format!("`{}` is no checkout of PyTorch: it has no `test`", folder.display())).into()
            );
        }
        let durations = match &arguments.durations {
            None => BTreeMap::new(),
            Some(path) => serde_json::from_str(&fs_err::read_to_string(path)?).map_err(|error| {
                Usage::new(format!("`{}` is not understood: {error}", path.display()))
                    .hint("it is one object: `{\"test_a.py::test_b\": 1.5}`")
            })?,
        };
        let here = environment::directory()?;
        let directory = match &arguments.directory {
            Some(folder) if folder.is_dir() => here.join(folder),
            Some(folder) => return Err(Usage::new(format!("`{}` is not a folder", folder.display())).into()),
            None => here,
        };
        Ok(Self { arguments, kind, durations, directory })
    }
}

/// The kind of the tests, by their paths.
fn kind_of(arguments: &Arguments) -> Result<TestKind, Usage> {
    let has_checkout = arguments.pytorch_dir.is_some();
    if let Some(kind) = arguments.kind {
        return match (kind, has_checkout) {
            (TestKind::RunTest, false) => {
                Err(Usage::new("run_test.py is in a checkout of PyTorch").hint("name it with `--pytorch-dir`"))
            }
            (TestKind::Gtest | TestKind::Ctest | TestKind::Script, true) => {
                Err(Usage::new("`--pytorch-dir` is for Python tests"))
            }
            (TestKind::Gtest | TestKind::Ctest | TestKind::Script, false) if arguments.tests.is_empty() => {
                Err(Usage::new("there is no test").hint("name programs or a folder"))
            }
            _ => Ok(kind),
        };
    }
    if has_checkout {
        return Ok(TestKind::Pytest);
    }
    let Some(first) = arguments.tests.first() else { return Ok(TestKind::Pytest) };
    let path = PathBuf::from(first.split("::").next().unwrap_or(first));
    if path.join("CTestTestfile.cmake").is_file() {
        return Ok(TestKind::Ctest);
    }
    let is_python = path.is_dir() || path.extension().is_some_and(|extension| extension == "py");
    match (is_python, path.exists()) {
        (true, _) => Ok(TestKind::Pytest),
        (false, true) => Ok(TestKind::Gtest),
        (false, false) => Err(Usage::new(format!("`{first}` does not exist"))),
    }
}

/// Runs the tests.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let plan = SuitePlan::make(settings, printer)?;
    if settings.arguments.dry_run {
        return result::print_preview(&plan.preview(printer)?, printer);
    }
    let summary = plan.run(printer)?;
    result::print(&summary, false, printer)
}
