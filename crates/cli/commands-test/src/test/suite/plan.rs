//! Input: the settings of a suite. Output: the driver, the lists, the GPUs and the facts of the
//! run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_output::StagingFolder;
use rocwheel_report::outcome::TestRunFacts;
use rocwheel_suite::lists::{ListRow, ListSetting, read_lists};
use rocwheel_suite::supervisor::{MOST_PROCESSES, ProcessLimits, ProgramLine};
use rocwheel_suite::{
    CtestDriver, GtestDriver, InstalledTorch, PytestDriver, PytestSetup, PythonFacts, PytorchTests, RunSummary,
    RunTest, RunnerOptions, ScriptDriver, SuiteLimits, SuitePreview, SuiteRequest, TestDriver, TestWorker,
    check_source, find_gpus, platforms, preview_suite, probe_python, run_name, run_suite, run_with_run_test, source_of,
    targets_of, workers_for,
};
use rocwheel_tables::TargetTable;

use super::selection::selection;
use super::wheels::wheels;
use super::{Settings, TestKind};

/// Everything that is known before the first test.
pub(super) struct SuitePlan<'a> {
    settings: &'a Settings,
    python: PathBuf,
    base: ProgramLine,
    facts: TestRunFacts,
    pytorch: Option<PytorchTests>,
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
        let source = match &arguments.pytorch_dir {
            None => source_of(&settings.directory, &base),
            Some(checkout) => Some(match check_source(checkout, torch.as_ref(), &base) {
                Ok(commit) => commit,
                Err(error) if arguments.allow_version_mismatch => {
                    printer.warn(error.to_string());
                    format!("mismatch allowed: {error}")
                }
                Err(error) => return Err(error),
            }),
        };
        let checkout = arguments.pytorch_dir.as_deref().map(std::path::absolute).transpose()?;
        let pytorch = checkout.map(|checkout| PytorchTests { checkout, names: arguments.tests.clone() });
        if let Some(tests) = &pytorch {
            let is_rocm = torch.as_ref().is_some_and(|torch| torch.hip.is_some());
            tests.prepare(&mut base, scratch.path(), is_rocm)?;
        }
        let version = torch.as_ref().and_then(InstalledTorch::minor);
        let version = arguments.list_version.clone().or(version);
        let lists = read_lists(&arguments.list, version.as_deref(), arguments.allow_missing_list)?;
        for (file, _) in lists.digests.iter().filter(|(_, digest)| *digest == "missing") {
            printer.warn(format!("there is no list `{file}`: what only this version is known to fail is run"));
        }
        let setting = ListSetting {
            targets: targets_of(&gpus, &targets),
            version: match (&arguments.list_version, &torch) {
                (Some(text), _) if text == "all" => None,
                (Some(text), _) => text.parse().ok(),
                (None, torch) => torch.as_ref().and_then(|torch| torch.version.as_deref()?.parse().ok()),
            },
            platforms: platforms(torch.as_ref(), !gpus.is_empty()),
            today: environment::today(),
        };
        let (shard, shards) = arguments.shard.unwrap_or((1, 1));
        let suite = arguments.name.clone().unwrap_or_else(|| name_of(settings).to_owned());
        let facts = TestRunFacts {
            run: run_name(&suite, (shard, shards), environment::clock())?,
            suite,
            source,
            directory: Some(settings.directory.display().to_string()),
            shard,
            shards,
            wheels: wheels(installed.as_ref(), &arguments.wheel)?,
            lists: lists.digests,
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
        let rows = lists.rows;
        Ok(Self { settings, python, base, facts, pytorch, installed, rows, setting, workers, limits, scratch })
    }

    pub(super) fn run(self, printer: &Printer) -> Result<RunSummary> {
        let reporter = printer.reporter();
        if let (TestKind::RunTest, Some(tests)) = (self.settings.kind, self.pytorch.clone()) {
            return self.run_test(&tests, printer);
        }
        let driver = self.driver()?;
        run_suite(self.request(driver.as_ref()), reporter)
    }

    pub(super) fn preview(&self, printer: &Printer) -> Result<SuitePreview> {
        let driver = self.driver()?;
        preview_suite(&self.request(driver.as_ref()), printer.reporter())
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
        let paths = arguments.tests.iter().map(|path| self.settings.directory.join(path));
        Ok(match self.settings.kind {
            TestKind::Pytest => Box::new(self.pytest(&options)?),
            // The options behind `--` are run_test.py's, and pytest does not know them.
            TestKind::RunTest => Box::new(self.pytest(&[])?),
            TestKind::Gtest => Box::new(GtestDriver { programs: paths.collect(), options, base, collect_timeout }),
            TestKind::Ctest => {
                let [folder] = arguments.tests.as_slice() else {
                    return Err(Usage::new("one folder of ctest at a time").into());
                };
                let folder = std::path::absolute(folder)?;
                let (timeout, alone) = (self.limits.timeout, OnceLock::new());
                Box::new(CtestDriver { folder, options, base, collect_timeout, timeout, alone })
            }
            TestKind::Script => {
                let scripts = arguments.tests.iter().cloned().zip(paths).collect();
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
        let paths = match &self.pytorch {
            Some(tests) => tests.paths()?,
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
        PytestDriver::new(setup)
    }

    /// Runs PyTorch's runner. The same files are collected first, since lists name tests and shards
    /// are compared with it.
    fn run_test(self, tests: &PytorchTests, printer: &Printer) -> Result<RunSummary> {
        let reporter = printer.reporter();
        let driver = self.pytest(&[])?;
        let arguments = &self.settings.arguments;
        let (is_divided, has_options) = (self.facts.shards > 1, !arguments.options.is_empty());
        let is_needed = !self.rows.is_empty() || (is_divided && !has_options);
        let collection = is_needed.then(|| driver.collect(self.scratch.path(), reporter)).transpose()?;
        let options = RunnerOptions {
            shard: arguments.shard,
            expression: arguments.expression.as_deref(),
            more: &arguments.options,
        };
        let run = RunTest {
            program: tests.runner(&self.base, &self.python, &options, &self.setting.targets),
            facts: self.facts,
            output: &arguments.output,
            rows: &self.rows,
            setting: &self.setting,
            collection,
            has_options,
            limits: self.limits,
            workers: &self.workers,
            scratch: self.scratch.path(),
            now: &now,
        };
        run_with_run_test(run, reporter)
    }
}

/// The environment of tests: ours.
pub(crate) fn base_program(directory: &Path) -> ProgramLine {
    ProgramLine::of_tests(directory, environment::variables())
}

/// The Python of the active environment, or that of the PATH.
pub(crate) fn default_python() -> Result<PathBuf> {
    let active = environment::first_of(&["VIRTUAL_ENV", "CONDA_PREFIX"])
        .map(|folder| rocwheel_system::program_of(Path::new(&folder), "python"));
    let found = active.filter(|path| path.is_file()).or_else(|| environment::program(rocwheel_system::PYTHON));
    found.ok_or_else(|| Usage::new("there is no Python").hint("name one with `--python`").into())
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

/// The present time in RFC 3339.
pub(crate) fn now() -> String {
    environment::clock().to_string()
}
