//! Input: the settings of a suite. Output: the driver, the lists, the GPUs and the facts of the
//! run.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rocwheel_output::StagingFolder;
use rocwheel_tables::TargetTable;
use rocwheel_verify::lists::{ListRow, ListSetting, read_list};
use rocwheel_verify::outcome::TestRunFacts;
use rocwheel_verify::suite::{
    CtestDriver, GpuTable, GtestDriver, PytestDriver, PytestSetup, PythonFacts, RunSummary, RunTest, ScriptDriver,
    SuiteError, SuiteLimits, SuitePreview, SuiteRequest, TestDriver, TestWorker, check_source, find_gpus,
    preview_suite, probe_python, run_suite, run_with_run_test, source_of, workers_for,
};
use rocwheel_verify::supervisor::{MOST_PROCESSES, ProcessLimits, ProgramLine};

use super::selection::selection;
use super::wheels::wheels;
use super::{Settings, TestKind, run_test};
use crate::environment;
use crate::failure::{Result, Usage};
use crate::printer::Printer;

/// The files that TheRock's script runs.
pub(super) const PYTORCH_FILES: [&str; 6] =
    ["test_nn", "test_torch", "test_cuda", "test_unary_ufuncs", "test_binary_ufuncs", "test_autograd"];

/// Everything that is known before the first test.
pub(super) struct SuitePlan<'a> {
    settings: &'a Settings,
    python: PathBuf,
    base: ProgramLine,
    facts: TestRunFacts,
    installed: Option<PythonFacts>,
    rows: Vec<ListRow>,
    setting: ListSetting,
    workers: Vec<TestWorker>,
    limits: SuiteLimits,
    scratch: StagingFolder,
}

impl<'a> SuitePlan<'a> {
    pub(super) fn make(settings: &'a Settings, printer: &Printer) -> Result<Self> {
        let arguments = &settings.arguments;
        let is_python = matches!(settings.kind, TestKind::Pytest | TestKind::RunTest);
        let scratch = environment::scratch_below(&environment::scratch())?;
        let mut base = base_program(&settings.directory);
        let python = arguments.python.clone().map_or_else(default_python, |path| Ok(std::path::absolute(path)?))?;
        let installed = if is_python { Some(probe_python(&python, &base)?) } else { None };
        if let Some(installed) = &installed {
            installed.check_pytest(&python)?;
        }
        let torch = installed.as_ref().and_then(|installed| installed.torch.clone());
        let targets = match &arguments.amdgpu_family {
            Some(list) => TargetTable::embedded().expand(list)?.into_iter().collect(),
            None => BTreeSet::new(),
        };
        let variables = environment::text_variables().collect();
        let (gpus, found) = find_gpus(&variables, &targets, scratch.path(), printer.reporter())?;
        if found.is_empty() && !targets.is_empty() {
            let list = arguments.amdgpu_family.as_deref().unwrap_or_default();
            return Err(Usage::new(format!("there is no GPU of `{list}` here"))
                .hint("`rocwheel doctor` lists the GPUs and says what hides them")
                .into());
        }
        let mut source = None;
        if arguments.pytorch_dir.is_none() {
            source = source_of(&settings.directory, &base);
        }
        if let Some(checkout) = &arguments.pytorch_dir {
            match check_source(checkout, torch.as_ref(), &base) {
                Ok(commit) => source = Some(commit),
                Err(error @ (SuiteError::OtherCommit { .. } | SuiteError::UnknownCommit { .. }))
                    if arguments.allow_version_mismatch =>
                {
                    printer.warn(error.to_string());
                    source = Some(format!("mismatch allowed: {error}"));
                }
                Err(error) => return Err(error.into()),
            }
            set_pytorch_variables(
                &mut base,
                checkout,
                scratch.path(),
                torch.as_ref().is_some_and(|torch| torch.hip.is_some()),
            )?;
        }
        let version = torch.as_ref().and_then(rocwheel_verify::suite::InstalledTorch::minor);
        let version = arguments.list_version.clone().or(version);
        let (rows, lists) = read_lists(settings, version.as_deref())?;
        for (file, _) in lists.iter().filter(|(_, digest)| *digest == "missing") {
            printer.warn(format!("there is no list `{file}`: what only this version is known to fail is run"));
        }
        let setting = ListSetting {
            targets: gpu_targets(&gpus, &targets),
            version: match (&arguments.list_version, &torch) {
                (Some(text), _) if text == "all" => None,
                (Some(text), _) => text.parse().ok(),
                (None, torch) => torch.as_ref().and_then(|torch| torch.version.as_deref()?.parse().ok()),
            },
            platforms: platforms(installed.as_ref(), !gpus.is_empty()),
            today: environment::today(),
        };
        let (shard, shards) = arguments.shard.unwrap_or((1, 1));
        let suite = arguments.name.clone().unwrap_or_else(|| name_of(settings).to_owned());
        let facts = TestRunFacts {
            run: run_name(&suite, shard, shards)?,
            suite,
            source,
            directory: Some(settings.directory.display().to_string()),
            shard,
            shards,
            wheels: wheels(installed.as_ref(), &arguments.wheel)?,
            lists,
            gpus,
            machine: environment::host().unwrap_or_default(),
            started: now(),
            selection: selection(arguments, settings.kind, |name| environment::first_of(&[name])),
            rocwheel: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let limits = SuiteLimits {
            timeout: Duration::from_secs(arguments.timeout.into()),
            collect_timeout: Duration::from_secs(arguments.collect_timeout.into()),
            retries: arguments.retries,
            process: ProcessLimits { processes: MOST_PROCESSES, memory: arguments.memory },
        };
        let workers = workers_for(&found, arguments.workers.map(usize::from));
        Ok(Self { settings, python, base, facts, installed, rows, setting, workers, limits, scratch })
    }

    pub(super) fn run(self, printer: &Printer) -> Result<RunSummary> {
        let reporter = printer.reporter();
        if self.settings.kind == TestKind::RunTest {
            return self.run_test(printer);
        }
        let driver = self.driver()?;
        Ok(run_suite(self.request(driver.as_ref()), reporter)?)
    }

    pub(super) fn preview(&self, printer: &Printer) -> Result<SuitePreview> {
        let driver = self.driver()?;
        Ok(preview_suite(&self.request(driver.as_ref()), printer.reporter())?)
    }

    fn request<'r>(&'r self, driver: &'r dyn TestDriver) -> SuiteRequest<'r> {
        SuiteRequest {
            driver,
            facts: self.facts.clone(),
            output: &self.settings.arguments.output,
            rows: &self.rows,
            setting: &self.setting,
            only_skipped: self.settings.arguments.only_skipped,
            durations: &self.settings.durations,
            limits: self.limits.clone(),
            workers: &self.workers,
            scratch: self.scratch.path(),
            now: &now,
        }
    }

    fn driver(&self) -> Result<Box<dyn TestDriver>> {
        let (arguments, base) = (&self.settings.arguments, self.base.clone());
        let options = arguments.options.clone();
        let collect_timeout = self.limits.collect_timeout;
        let paths = || arguments.tests.iter().map(|path| self.settings.directory.join(path));
        Ok(match self.settings.kind {
            TestKind::Pytest => Box::new(self.pytest(&options)?),
            // The options behind `--` are run_test.py's, and pytest does not know them.
            TestKind::RunTest => Box::new(self.pytest(&[])?),
            TestKind::Gtest => Box::new(GtestDriver { programs: paths().collect(), options, base, collect_timeout }),
            TestKind::Ctest => {
                let [folder] = arguments.tests.as_slice() else {
                    return Err(Usage::new("one folder of ctest at a time").into());
                };
                let folder = std::path::absolute(folder)?;
                let (timeout, alone) = (self.limits.timeout, OnceLock::new());
                Box::new(CtestDriver { folder, options, base, collect_timeout, timeout, alone })
            }
            TestKind::Script => {
                let scripts = arguments.tests.iter().cloned().zip(paths()).collect();
                Box::new(ScriptDriver { scripts, options, base })
            }
        })
    }

    fn pytest(&self, more: &[String]) -> Result<PytestDriver> {
        let arguments = &self.settings.arguments;
        let mut options = Vec::new();
        if let Some(expression) = &arguments.expression {
            options.extend(["-k".to_owned(), expression.clone()]);
        }
        options.extend_from_slice(more);
        let paths = match &arguments.pytorch_dir {
            Some(checkout) => pytorch_files(checkout, &arguments.tests)?,
            None => arguments.tests.clone(),
        };
        let setup = PytestSetup {
            python: self.python.clone(),
            paths,
            options,
            base: self.base.clone(),
            has_xdist: self.installed.as_ref().is_some_and(|installed| installed.xdist),
            collect_timeout: self.limits.collect_timeout,
        };
        Ok(PytestDriver::new(setup)?)
    }

    /// Runs PyTorch's runner. The same files are collected first, since lists name tests and shards
    /// are compared with it.
    fn run_test(self, printer: &Printer) -> Result<RunSummary> {
        let reporter = printer.reporter();
        let driver = self.pytest(&[])?;
        let arguments = &self.settings.arguments;
        let checkout = arguments.pytorch_dir.as_deref().map(std::path::absolute).transpose()?.unwrap_or_default();
        let (is_divided, has_options) = (self.facts.shards > 1, !arguments.options.is_empty());
        let is_needed = !self.rows.is_empty() || (is_divided && !has_options);
        let collection = is_needed.then(|| driver.collect(self.scratch.path(), reporter)).transpose()?;
        let mut program = self.base.clone();
        program.directory.clone_from(&checkout);
        program.words = vec![self.python.clone().into(), "test/run_test.py".into()];
        program.words.extend(["--keep-going", "--verbose"].map(OsString::from));
        if let Some((index, count)) = arguments.shard {
            program.words.extend(["--shard".into(), index.to_string().into(), count.to_string().into()]);
        }
        let names: Vec<&str> = if arguments.tests.is_empty() {
            PYTORCH_FILES.to_vec()
        } else {
            arguments.tests.iter().map(String::as_str).collect()
        };
        program.words.push("--include".into());
        program.words.extend(names.iter().map(|name| OsString::from(name.trim_end_matches(".py"))));
        if let Some(expression) = &arguments.expression {
            program.words.extend(["-k".into(), expression.into()]);
        }
        program.words.extend(arguments.options.iter().map(OsString::from));
        run_test::set_variables(&mut program, &self.setting.targets);
        // The runner would download the lists of the day, and fail without their file.
        let visible: Vec<String> =
            self.workers.iter().filter_map(|worker| worker.variables.get("HIP_VISIBLE_DEVICES").cloned()).collect();
        let mut worker = TestWorker::default();
        if !visible.is_empty() {
            worker.variables.insert("HIP_VISIBLE_DEVICES".to_owned(), visible.join(","));
        }
        let run = RunTest {
            program,
            facts: self.facts,
            output: &arguments.output,
            rows: &self.rows,
            setting: &self.setting,
            collection,
            has_options,
            limits: self.limits,
            worker,
            scratch: self.scratch.path(),
            now: &now,
        };
        Ok(run_with_run_test(run, reporter)?)
    }
}

/// The environment of tests: ours, without what hides GPUs in a third way.
pub(crate) fn base_program(directory: &Path) -> ProgramLine {
    let mut variables: BTreeMap<OsString, OsString> = environment::variables().collect();
    // ROCm's profiler refuses to start if this disagrees with HIP_VISIBLE_DEVICES.
    variables.remove(&OsString::from("GPU_DEVICE_ORDINAL"));
    ProgramLine { words: Vec::new(), directory: directory.to_owned(), variables }
}

/// The Python of the active environment, or that of the PATH.
pub(crate) fn default_python() -> Result<PathBuf> {
    let active =
        environment::first_of(&["VIRTUAL_ENV", "CONDA_PREFIX"]).map(|folder| Path::new(&folder).join("bin/python"));
    let found = active.filter(|path| path.is_file()).or_else(|| environment::program("python3"));
    found.ok_or_else(|| Usage::new("there is no Python").hint("name one with `--python`").into())
}

/// What TheRock's runner sets for PyTorch's tests.
fn set_pytorch_variables(base: &mut ProgramLine, checkout: &Path, scratch: &Path, is_rocm: bool) -> Result<()> {
    let tests = std::path::absolute(checkout.join("test"))?;
    let mut search = tests.clone().into_os_string();
    if let Some(given) = base.variables.get(&OsString::from("PYTHONPATH")).filter(|given| !given.is_empty()) {
        search.push(":");
        search.push(given);
    }
    base.set("PYTHONPATH", search);
    base.directory = tests;
    base.set("PYTORCH_PRINT_REPRO_ON_FAILURE", "0");
    if is_rocm {
        base.set("PYTORCH_TEST_WITH_ROCM", "1");
        base.set("PYTORCH_TESTING_DEVICE_ONLY_FOR", "cuda");
        let cache = scratch.join("miopen");
        fs_err::create_dir_all(&cache)?;
        base.set("MIOPEN_CUSTOM_CACHE_DIR", cache);
    }
    // With CI set, PyTorch's tests download lists of the day, and a failed download is an empty
    // list.
    base.variables.remove(&OsString::from("CI"));
    Ok(())
}

fn pytorch_files(checkout: &Path, names: &[String]) -> Result<Vec<String>> {
    let names: Vec<String> = if names.is_empty() { PYTORCH_FILES.map(str::to_owned).to_vec() } else { names.to_vec() };
    let tests = std::path::absolute(checkout.join("test"))?;
    let mut paths = Vec::new();
    for name in names {
        let (file, rest) = match name.split_once("::") {
            Some((file, rest)) => (file.to_owned(), format!("::{rest}")),
            None => (name.clone(), String::new()),
        };
        let path = tests.join(format!("{}.py", file.trim_end_matches(".py")));
        if !path.is_file() {
            return Err(Usage::new(format!("`{}` does not exist", path.display()))
                .hint("name files of PyTorch's `test` folder: test_nn, nn/test_pooling")
                .into());
        }
        paths.push(format!("{}{rest}", path.display()));
    }
    Ok(paths)
}

fn read_lists(settings: &Settings, version: Option<&str>) -> Result<(Vec<ListRow>, BTreeMap<String, String>)> {
    let (mut rows, mut digests) = (Vec::new(), BTreeMap::new());
    for text in &settings.arguments.list {
        let list = read_list(text, version, settings.arguments.allow_missing_list)?;
        rows.extend(list.rows);
        digests.extend(list.digests);
    }
    Ok((rows, digests))
}

fn gpu_targets(gpus: &GpuTable, wanted: &BTreeSet<String>) -> Vec<String> {
    let found: BTreeSet<String> = gpus.values().filter_map(|facts| facts.get("target").cloned()).collect();
    if found.is_empty() { wanted.iter().cloned().collect() } else { found.into_iter().collect() }
}

fn platforms(installed: Option<&PythonFacts>, has_gpu: bool) -> Vec<String> {
    let torch = installed.and_then(|installed| installed.torch.as_ref());
    let mut platforms = vec![std::env::consts::OS.to_owned()];
    if torch.map_or(has_gpu, |torch| torch.hip.is_some()) {
        platforms.push("rocm".to_owned());
    }
    if torch.is_some_and(|torch| torch.cuda.is_some()) {
        platforms.push("cuda".to_owned());
    }
    platforms
}

fn name_of(settings: &Settings) -> &'static str {
    match (settings.kind, settings.arguments.pytorch_dir.is_some()) {
        (TestKind::RunTest, _) | (TestKind::Pytest, true) => "pytorch",
        (TestKind::Pytest, false) => "pytest",
        (TestKind::Gtest, _) => "gtest",
        (TestKind::Ctest, _) => "ctest",
        (TestKind::Script, _) => "script",
    }
}

/// A name that sorts by time: `20261123T120500Z-pytorch-2of5`.
pub(crate) fn run_name(suite: &str, shard: u32, shards: u32) -> Result<String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if suite.is_empty() || suite.starts_with('.') || !suite.chars().all(is_plain) {
        return Err(Usage::new(format!("`{suite}` is no name of a suite"))
            .hint("letters, digits, `-`, `_` and `.` are allowed")
            .into());
    }
    let time = environment::clock().strftime("%Y%m%dT%H%M%SZ").to_string();
    let part = if shards > 1 { format!("-{shard}of{shards}") } else { String::new() };
    Ok(format!("{time}-{suite}{part}"))
}

/// The present time in RFC 3339.
pub(crate) fn now() -> String {
    environment::clock().to_string()
}
