//! `rocwheel test report`: what the tests of a suite said, from all runs, shards and tools.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_attest::SigningKey;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::github::AnnotationLevel;
use rocwheel_console::output_file::{FileKind, OutputFile, OutputOption};
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_console::{environment, message};
use rocwheel_progress::Exit;
use rocwheel_report::outcome::TestOutcome;
use rocwheel_report::verdict::{self, VerdictRequest};
use rocwheel_report::{
    EarlierReports, ExpectedTests, FailureGroup, OutcomeCounts, ReportOptions, ReportResult, ReportedTest, RunnerEnd,
    TestReport, read_fresh_reports, read_reports, write_html, write_junit,
};
use rocwheel_tables::TargetTable;
use serde::Serialize;

use super::runner::{RunnerCommand, runner_exit};
use super::suite::wheels::{digests_of, wheel_files};

const COLUMNS: [Column; 10] = [
    ("Suite", Left),
    ("Tests", Right),
    ("Passed", Right),
    ("Failed", Right),
    ("Crashed", Right),
    ("Timed out", Right),
    ("Skipped", Right),
    ("Not run", Right),
    ("Unknown", Right),
    ("Flaky", Right),
];
const FAILURES: [Column; 3] = [("Outcome", Left), ("Test", Left), ("Reason", Left)];
/// Failures that are printed; the page, the XML and `--json` have all of them.
const SHOWN: usize = 50;
/// Annotations that GitHub shows of one step.
const ANNOTATIONS: usize = 10;
/// A warning about verdicts that gates do not take.
const UNKNOWN_RUNNER: &str = "the verdict says that the exit code of the runner is unknown, and gates refuse that: put \
                              the command behind `--`, or name its code with `--runner-exit`";
/// Characters of a reason in the table.
const REASON: usize = 160;

/// Merge the results of tests into one report, and say whether they passed
///
/// Reads run folders of `rocwheel test`, junit XML of any tool, and forms of other frameworks. A
/// folder is searched. A later pass undoes a failure only if both are tries of one job: the same
/// wheels, machine and GPU target. Reports of other tools undo nothing in each other. A folder
/// named `test-reports-CONFIG-SHARD-SHARDS` is that shard. The report is incomplete, and has not
/// passed, if a report cannot be read or understood or is missing, if a test was not run, and if no
/// test passed.
///
/// A COMMAND behind `--` runs first: reports that are older are not read, and if its exit code is
/// not 0, the tests have not passed. Frameworks say some failures only with that code.
///
/// The exit code is 0 if all tests passed, 1 if one failed or the report is incomplete, and 3 if
/// tests were not run and `--allow-not-run` is given.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// Run folders, folders with reports, and reports
    #[arg(value_name = "RUN", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Write a page that shows all tests and can be searched
    #[arg(long, value_name = "FILE")]
    html: Option<OutputOption>,
    /// Write junit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<OutputOption>,
    /// Write the verdict about the wheels that were tested: an in-toto statement in a DSSE envelope
    #[arg(long, value_name = "FILE")]
    verdict: Option<OutputOption>,
    /// Put the ids of all tests into the verdict, so that tests that are absent later have names
    #[arg(long, requires = "verdict")]
    ids: bool,
    /// Write the same as in-toto's test-result v0.1, for other tools
    #[arg(long, value_name = "FILE")]
    test_result: Option<OutputOption>,
    /// Private key that signs verdicts, in PEM; may be repeated [default: ROCWHEEL_SIGNING_KEY]
    #[arg(long, value_name = "FILE")]
    signing_key: Vec<PathBuf>,
    /// A wheel that was tested, or a folder of them, for reports that do not name their wheels; may
    /// be repeated
    #[arg(long, value_name = "WHEEL", value_hint = ValueHint::FilePath)]
    wheel: Vec<PathBuf>,
    /// GPU targets the tests ran on, for reports that do not name their GPUs
    #[arg(long, value_name = "TARGETS", value_delimiter = ',')]
    targets: Vec<String>,
    /// Name of the suite, for reports that do not say it
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// Number of shards that there have to be
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    shards: Option<u32>,
    /// Title of the page [default: the name of the suite]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Exit code of the program that wrote the reports, if it has run already, or `unknown`
    #[arg(long, value_name = "CODE", value_parser = runner_exit, allow_hyphen_values = true, conflicts_with = "runner")]
    runner_exit: Option<RunnerEnd>,
    /// Seconds that COMMAND may take [default: no limit]
    #[arg(long, value_name = "SECONDS", requires = "runner", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,
    /// Tests that there have to be: an earlier verdict or `--json` output, or a text file with an
    /// id in each line; may be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    expect: Vec<PathBuf>,
    /// Accept tests that were not run
    #[arg(long)]
    allow_not_run: bool,
    /// A test that failed and then passed counts as failed
    #[arg(long)]
    fail_on_flaky: bool,
    /// Take reports of other tools in one folder, whose names differ in the number of a try alone,
    /// for tries of one job
    #[arg(long)]
    retries_in_folder: bool,
    /// The command that runs the tests and writes the reports, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    runner: Vec<OsString>,
}

/// The reports that are read, and the files that are written.
#[derive(Debug)]
pub struct Settings {
    paths: Vec<PathBuf>,
    options: ReportOptions,
    html: Option<OutputFile>,
    junit: Option<OutputFile>,
    verdict: Option<OutputFile>,
    test_result: Option<OutputFile>,
    keys: Vec<SigningKey>,
    pub wheels: Vec<PathBuf>,
    targets: BTreeSet<String>,
    title: Option<String>,
    runner: Option<RunnerCommand>,
    /// How the runner ended, if the user says it.
    runner_exit: Option<RunnerEnd>,
    expected: Vec<ExpectedTests>,
    ids: bool,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let paths = arguments.paths;
        let html = arguments.html.map(|file| file.check("--html", FileKind::WebPage, &paths)).transpose()?;
        let junit = arguments.junit.map(|file| file.check("--junit", FileKind::JunitXml, &paths)).transpose()?;
        let verdict = arguments.verdict.map(|file| file.check("--verdict", FileKind::Statement, &paths)).transpose()?;
        let test_result = arguments.test_result.map(|file| file.check("--test-result", FileKind::Statement, &paths));
        let test_result = test_result.transpose()?;
        let mut keys = Vec::new();
        if verdict.is_some() || test_result.is_some() {
            for path in &arguments.signing_key {
                keys.push(SigningKey::parse(&fs_err::read_to_string(path)?, &path.to_string_lossy())?);
            }
            if let Some(text) = environment::signing_key()?.filter(|_| keys.is_empty()) {
                keys.push(SigningKey::parse(&text, "ROCWHEEL_SIGNING_KEY")?);
            }
        } else if !arguments.signing_key.is_empty() {
            return Err(Usage::new("`--signing-key` signs verdicts, and none is written")
                .hint("add `--verdict verdict.json`")
                .into());
        }
        let options = ReportOptions {
            suite: arguments.suite,
            shards: arguments.shards,
            allow_not_run: arguments.allow_not_run,
            fail_on_flaky: arguments.fail_on_flaky,
            retries_in_folder: arguments.retries_in_folder,
        };
        let targets = arguments.targets.iter().map(|target| target.trim().to_owned());
        let targets: BTreeSet<String> = targets.filter(|target| !target.is_empty()).collect();
        check_targets(&targets)?;
        let settings = Self {
            paths,
            options,
            html,
            junit,
            verdict,
            test_result,
            keys,
            wheels: arguments.wheel,
            targets,
            title: arguments.title,
            runner: (!arguments.runner.is_empty()).then_some(RunnerCommand {
                words: arguments.runner,
                timeout: arguments.timeout.map(|seconds| Duration::from_secs(seconds.into())),
            }),
            runner_exit: arguments.runner_exit,
            expected: arguments.expect.iter().map(|path| ExpectedTests::read(path)).collect::<Result<_, _>>()?,
            ids: arguments.ids,
        };
        check_outputs(&settings.outputs(), &settings.paths)?;
        Ok(settings)
    }
}

impl Settings {
    /// The files that are written, with their options.
    fn outputs(&self) -> [(&'static str, Option<&OutputFile>); 4] {
        [
            ("--html", self.html.as_ref()),
            ("--junit", self.junit.as_ref()),
            ("--verdict", self.verdict.as_ref()),
            ("--test-result", self.test_result.as_ref()),
        ]
    }

    /// A report of these folders, for scripts that have other options.
    pub fn of_folder(folder: PathBuf, title: String) -> Settings {
        Settings {
            paths: vec![folder],
            options: ReportOptions::default(),
            html: None,
            junit: None,
            verdict: None,
            test_result: None,
            keys: Vec::new(),
            wheels: Vec::new(),
            targets: BTreeSet::new(),
            title: Some(title),
            runner: None,
            runner_exit: None,
            expected: Vec::new(),
            ids: false,
        }
    }

    /// Runs the runner, if there is one, and reads the reports.
    fn read(&self, printer: &Printer) -> Result<TestReport> {
        let options = &self.options;
        let (mut report, end) = if let Some(runner) = &self.runner {
            let earlier = EarlierReports::find(&self.paths);
            let end = runner.run(printer)?;
            (read_fresh_reports(&self.paths, &earlier, options, printer.reporter())?, end)
        } else {
            let end = self.runner_exit.unwrap_or_default();
            (read_reports(&self.paths, options, printer.reporter())?, end)
        };
        report.set_runner(end, options);
        for expected in &self.expected {
            report.expect(expected, options);
        }
        Ok(report)
    }
}

/// Refuses an output that would replace a report, or another output.
fn check_outputs(outputs: &[(&str, Option<&OutputFile>)], reports: &[PathBuf]) -> Result<(), Usage> {
    let mut written: Vec<(&str, PathBuf)> = Vec::new();
    for (option, file) in outputs.iter().copied() {
        // Everything may be written to a device.
        let Some(file) = file.filter(|file| !file.path().metadata().is_ok_and(|there| !there.is_file())) else {
            continue;
        };
        let shown = file.path().display();
        let path = real_path(file.path());
        if reports.iter().any(|report| real_path(report) == path) {
            return Err(Usage::new(format!("`{option}` would overwrite `{shown}`, which is one of the reports"))
                .hint("name a file outside of the reports, or remove this one if it is an old result"));
        }
        if let Some((other, _)) = written.iter().find(|(_, known)| *known == path) {
            return Err(Usage::new(format!("`{other}` and `{option}` both write `{shown}`"))
                .hint("name a file for each of them"));
        }
        written.push((option, path));
    }
    Ok(())
}

/// The path without links; the file itself may not exist.
fn real_path(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = fs_err::canonicalize(path).ok();
    let real = real.or_else(|| Some(fs_err::canonicalize(folder).ok()?.join(path.file_name()?)));
    real.unwrap_or_else(|| path.to_owned())
}

/// A verdict about a target that does not exist would be about none.
fn check_targets(targets: &BTreeSet<String>) -> Result<(), Usage> {
    let table = TargetTable::embedded();
    let Some(name) = targets.iter().find(|name| !table.is_known(name)) else { return Ok(()) };
    let members = table.members(name);
    let hint = if name.contains(';') {
        format!("separate targets by commas: `--targets {}`", name.replace(';', ","))
    } else if members.is_empty() {
        "name targets such as gfx942; `--data-file` adds targets".to_owned()
    } else {
        format!("it is a family; name the targets that were tested: {}", members.join(","))
    };
    Err(Usage::new(format!("`--targets` names `{name}`, which is not a GPU target")).hint(hint))
}

#[derive(Serialize)]
struct Document<'a> {
    result: ReportResult,
    gaps: Vec<String>,
    counts: OutcomeCounts,
    groups: Vec<FailureGroup>,
    report: &'a TestReport,
}

/// Reads the reports, writes what was asked for, and judges.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let options = &settings.options;
    let report = settings.read(printer)?;
    let read: Vec<PathBuf> = report.runs.iter().map(|run| run.path.clone()).collect();
    check_outputs(&settings.outputs(), &read)?;
    let title = settings.title.clone().unwrap_or_else(|| {
        let suites: Vec<String> = report.counts_by_suite().keys().map(ToString::to_string).collect();
        if suites.is_empty() { "Tests".to_owned() } else { suites.join(", ") }
    });
    if let Some(file) = &settings.html {
        file.write_with(|output| write_html(&report, options, &title, output))?;
    }
    if let Some(file) = &settings.junit {
        file.write_with(|output| write_junit(&report, output))?;
    }
    match printer.format() {
        ResultFormat::Json => printer.json_stream(&Document {
            result: report.result(options),
            gaps: report.gaps(options),
            counts: report.counts(),
            groups: report.failure_groups(),
            report: &report,
        })?,
        ResultFormat::Text => print(&report, &title, options, printer)?,
    }
    annotate(&report, options, printer);
    summarise(&report, &title, options, printer);
    write_statements(settings, &report, printer)?;
    let has_not_run = report.counts().of(TestOutcome::NotRun) > 0;
    Ok(match report.result(options) {
        ReportResult::Passed if has_not_run => Exit::Partial,
        ReportResult::Passed => Exit::Done,
        ReportResult::Failed | ReportResult::Incomplete => Exit::Failed,
    })
}

fn write_statements(settings: &Settings, report: &TestReport, printer: &Printer) -> Result<()> {
    if settings.verdict.is_none() && settings.test_result.is_none() {
        return Ok(());
    }
    if report.runner == RunnerEnd::Unknown && settings.runner_exit.is_none() {
        printer.warn(UNKNOWN_RUNNER);
    }
    let request = VerdictRequest {
        suite: settings.options.suite.clone(),
        wheels: digests_of(&wheel_files(&settings.wheels)?)?,
        targets: settings.targets.clone(),
        now: environment::clock().to_string(),
        ids: settings.ids,
        rocwheel: env!("CARGO_PKG_VERSION").to_owned(),
    };
    if let Some(file) = &settings.verdict {
        let statement = verdict::verdict(report, &settings.options, &request)?;
        file.write(&String::from_utf8_lossy(&statement.seal(&settings.keys).bytes()))?;
    }
    if let Some(file) = &settings.test_result {
        let statement = verdict::test_result(report, &settings.options, &request)?;
        file.write(&String::from_utf8_lossy(&statement.seal(&settings.keys).bytes()))?;
    }
    Ok(())
}

fn print(report: &TestReport, title: &str, options: &ReportOptions, printer: &Printer) -> Result<()> {
    let rows = report.counts_by_suite().into_iter().map(|(suite, counts)| {
        let skipped = [TestOutcome::Skipped, TestOutcome::Deselected, TestOutcome::ExpectedFailure];
        let numbers = [
            counts.total,
            counts.of(TestOutcome::Passed) + counts.of(TestOutcome::UnexpectedPass),
            counts.of(TestOutcome::Failed) + counts.of(TestOutcome::Error),
            counts.of(TestOutcome::Crashed) + counts.of(TestOutcome::OutOfMemory),
            counts.of(TestOutcome::TimedOut),
            skipped.map(|outcome| counts.of(outcome)).iter().sum(),
            counts.of(TestOutcome::NotRun),
            counts.of(TestOutcome::Unknown),
            counts.flaky,
        ];
        std::iter::once(suite.to_string()).chain(numbers.iter().map(u64::to_string)).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        printer.table(&COLUMNS, rows)?;
    }
    let shown: Vec<_> = report.tests.iter().filter(|test| is_shown(test)).collect();
    if !shown.is_empty() {
        printer.line("")?;
        let rows = shown.iter().take(SHOWN).map(|test| {
            let word = if test.flaky { "flaky".to_owned() } else { test.outcome.word().replace('_', " ") };
            vec![word, test.id.clone(), reason(test)]
        });
        printer.table(&FAILURES, rows)?;
        if shown.len() > SHOWN {
            printer.line(format!("and {} more: `--html`, `--junit` and `--json` have all", shown.len() - SHOWN))?;
        }
    }
    let known: Vec<&str> = report
        .tests
        .iter()
        .filter(|test| test.outcome == TestOutcome::ExpectedFailure)
        .map(|test| test.id.as_str())
        .collect();
    if !known.is_empty() {
        printer.line("")?;
        let more = if known.len() > 3 { " and others" } else { "" };
        let names = known.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let count = message::count(known.len() as u64, "known failure", "known failures");
        printer.line(format!("{count}: {names}{more}"))?;
    }
    for problem in report.problems.iter().filter(|problem| !problem.loses_results) {
        printer.note(&problem.message);
    }
    if let Some(note) = report.selection_note() {
        printer.note(note);
    }
    for gap in report.gaps(options) {
        printer.warn(gap);
    }
    printer.line("")?;
    let total = message::count(report.counts().total, "test", "tests");
    let runner = match report.runner {
        RunnerEnd::Unknown | RunnerEnd::Supervised => String::new(),
        end => format!("; {}", end.words()),
    };
    printer.line(format!("{title}: {}, {total}{runner}", report.result(options).word()))
}

/// `true` for a test that is listed: it did not do what it should, or nobody knows whether it did.
fn is_shown(test: &ReportedTest) -> bool {
    use TestOutcome::{NotRun, UnexpectedPass, Unknown};
    test.flaky || test.outcome.is_bad() || matches!(test.outcome, UnexpectedPass | NotRun | Unknown)
}

/// The first line of a reason, cut.
fn reason(test: &ReportedTest) -> String {
    let bad = test.attempts.iter().find(|attempt| attempt.outcome.is_bad());
    let text = if test.flaky { bad.and_then(|attempt| attempt.message.as_deref()) } else { test.last_message() };
    let line = text.unwrap_or_default().lines().next().unwrap_or_default();
    match line.char_indices().nth(REASON) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// The result and what is missing, in the summary of the workflow's step.
fn summarise(report: &TestReport, title: &str, options: &ReportOptions, printer: &Printer) {
    let result = vec![title.to_owned(), report.result(options).word().to_owned()];
    let gaps = report.gaps(options).into_iter().map(|gap| vec!["missing".to_owned(), gap]);
    printer.summarise_rows(&["Tests", "Result"], &std::iter::once(result).chain(gaps).collect::<Vec<_>>());
}

/// The first failures as annotations of the workflow.
fn annotate(report: &TestReport, options: &ReportOptions, printer: &Printer) {
    if report.runner.is_bad() {
        printer.point_out(AnnotationLevel::Error, &report.runner.words());
    }
    for test in report.failures(options).take(ANNOTATIONS) {
        printer.point_out(
            AnnotationLevel::Error,
            &format!("{}: {}: {}", test.outcome.word().replace('_', " "), test.id, reason(test)),
        );
    }
}
