//! Input: a Python with frameworks or ROCm packages. Output: sample computations as tests, each in
//! its own process, on each GPU.
//!
//! `python/smoke` has the computations. What has to load comes from the packages themselves, so
//! a library that is missing fails. A computation that needs a GPU is not run without one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocwheel_progress::{Exit, Failure, Reporter, in_backticks};
use rocwheel_report::ProgramEnd;
use rocwheel_report::outcome::TestOutcome;
use serde::Deserialize;

use crate::driver::{Collection, FailedCollection, StreamEvent, TestDriver, TestStream};
use crate::gpus::GpuTable;
use crate::name_expression::NameExpression;
use crate::python::no_python;
use crate::supervisor::{AnswerEnd, AnswerLimits, LONGEST_ANSWER, ProgramLine, run_for_answer};

/// The files of the program, which Python runs as a folder. Their names begin with ours, since the
/// folder comes first where Python looks for modules.
const FILES: [(&str, &str); 7] = [
    ("__main__.py", include_str!("../python/smoke/__main__.py")),
    ("rocwheel_checks.py", include_str!("../python/smoke/rocwheel_checks.py")),
    ("rocwheel_frameworks.py", include_str!("../python/smoke/rocwheel_frameworks.py")),
    ("rocwheel_kernels.py", include_str!("../python/smoke/rocwheel_kernels.py")),
    ("rocwheel_launches.py", include_str!("../python/smoke/rocwheel_launches.py")),
    ("rocwheel_rocm.py", include_str!("../python/smoke/rocwheel_rocm.py")),
    ("rocwheel_torch.py", include_str!("../python/smoke/rocwheel_torch.py")),
];

/// What begins the line with an answer.
const ANSWER: &str = "ROCWHEEL ";

/// The last line of a computation that passed.
const PASSED: &str = "ROCWHEEL passed";

/// Exit code of a computation that has nothing to say here (automake's).
const SKIP: i32 = 77;

/// Exit code of a computation that cannot say what it should.
const NOT_RUN: i32 = 78;

/// Sample computations.
#[derive(Debug)]
pub struct SmokeDriver {
    python: PathBuf,
    base: ProgramLine,
    checks: BTreeMap<String, SmokeCheck>,
    /// In the order in which they run.
    order: Vec<String>,
    not_run: Vec<(String, String)>,
    failed: Vec<FailedCollection>,
    /// The GPUs by name, with the facts that a report has.
    pub gpus: GpuTable,
}

#[derive(Debug)]
struct SmokeCheck {
    arguments: Vec<String>,
    gpu: Option<String>,
    variables: BTreeMap<String, String>,
}

/// What is tested.
#[derive(Debug)]
pub struct SmokeSetup<'a> {
    /// The Python that has the packages.
    pub python: PathBuf,
    /// Working directory and environment.
    pub base: ProgramLine,
    /// Import packages; all that are installed if empty.
    pub packages: &'a [String],
    /// What the names of the computations have to fit, as `pytest -k` takes it.
    pub names: Option<&'a str>,
    /// GPU targets; all if empty.
    pub targets: BTreeSet<String>,
    /// GPU targets for which kernels are compiled; nothing else is done then.
    pub compile_for: BTreeSet<String>,
    /// Longest time to import everything and to find the GPUs.
    pub timeout: Duration,
    /// Folder for the program.
    pub scratch: &'a Path,
}

#[derive(Debug, Deserialize)]
struct Listing {
    checks: Vec<ListedCheck>,
    loads: Vec<ListedLoad>,
    missing: Vec<String>,
    unknown: Vec<String>,
    known: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct ListedCheck {
    id: String,
    gpu: bool,
}

#[derive(Debug, Deserialize)]
struct ListedLoad {
    id: String,
    path: String,
}

#[derive(Debug, Deserialize)]
struct Gpus {
    gpus: Vec<GpuAnswer>,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct GpuAnswer {
    product: String,
    target: String,
    variable: String,
}

impl Listing {
    /// Keeps the computations whose names an expression selects.
    fn select(&mut self, text: &str) -> Result<(), Failure> {
        let names = NameExpression::parse(text)?;
        let count = self.checks.len() + self.loads.len();
        self.checks.retain(|check| names.selects(&check.id));
        self.loads.retain(|load| names.selects(&load.id));
        if count > 0 && self.checks.is_empty() && self.loads.is_empty() {
            return Err(crate::name_expression::fault(format!("`-k {text}` selects none of {count} tests")));
        }
        Ok(())
    }
}

impl SmokeDriver {
    /// Lists the computations and the GPUs.
    ///
    /// # Errors
    /// A Python that does not work, and names that are not known.
    pub fn new(setup: &SmokeSetup<'_>) -> Result<Self, Failure> {
        let script = write_program(setup.scratch)?;
        let targets: Vec<&str> = setup.compile_for.iter().map(String::as_str).collect();
        let mut words =
            if targets.is_empty() { vec!["list".to_owned()] } else { vec!["compiles".to_owned(), targets.join(",")] };
        words.extend(setup.packages.iter().cloned());
        let mut listing: Listing = ask(setup, &script, &words)?.map_err(|said| no_python(&setup.python, &said))?;
        if let Some(name) = listing.unknown.first() {
            return Err(Failure::message(format!("there are no tests of `{name}`"))
                .with_hint(format!("name some of {}", in_backticks(&listing.known)))
                .with_exit(Exit::Usage));
        }
        if let Some(text) = setup.names {
            listing.select(text)?;
        }
        let mut driver = Self {
            python: setup.python.clone(),
            base: setup.base.clone(),
            checks: BTreeMap::new(),
            order: Vec::new(),
            not_run: Vec::new(),
            failed: Vec::new(),
            gpus: GpuTable::new(),
        };
        for name in &listing.missing {
            let message = "it is not installed, though it was named or is required".to_owned();
            driver.failed.push(FailedCollection { id: format!("{name}.installed"), message, output: None });
        }
        for load in listing.loads {
            driver.add(load.id, vec!["rocm.load".into(), load.path], None, BTreeMap::new());
        }
        for check in listing.checks.iter().filter(|check| !check.gpu) {
            driver.add(check.id.clone(), vec![check.id.clone()], None, BTreeMap::new());
        }
        let with_gpu: Vec<&ListedCheck> = listing.checks.iter().filter(|check| check.gpu).collect();
        if !with_gpu.is_empty() {
            driver.add_for_gpus(setup, &script, &with_gpu)?;
        }
        if driver.order.is_empty() && driver.failed.is_empty() && driver.not_run.is_empty() {
            let known = listing.known.join("`, `");
            let message = format!("`{}` has none of `{known}`", setup.python.display());
            driver.failed.push(FailedCollection { id: "installed".to_owned(), message, output: None });
        }
        Ok(driver)
    }

    fn add(&mut self, id: String, arguments: Vec<String>, gpu: Option<String>, variables: BTreeMap<String, String>) {
        if self.checks.insert(id.clone(), SmokeCheck { arguments, gpu, variables }).is_none() {
            self.order.push(id);
        }
    }

    fn add_for_gpus(&mut self, setup: &SmokeSetup<'_>, script: &Path, checks: &[&ListedCheck]) -> Result<(), Failure> {
        let (mut chosen, reason) = match ask::<Gpus>(setup, script, &["gpus".to_owned()])? {
            Ok(found) => (found.gpus.into_iter().enumerate().collect::<Vec<_>>(), found.reason),
            Err(said) => {
                let message = format!("the GPUs cannot be listed: {said}");
                let failed = FailedCollection { id: "gpus".to_owned(), message: message.clone(), output: None };
                self.failed.push(failed);
                (Vec::new(), message)
            }
        };
        let mut reason = reason;
        if !setup.targets.is_empty() && !chosen.is_empty() {
            let found: Vec<String> = chosen.iter().map(|(_, gpu)| gpu.target.clone()).collect();
            chosen.retain(|(_, gpu)| setup.targets.contains(&gpu.target));
            reason = format!("the GPUs here are {}", found.join(", "));
        }
        for check in checks {
            if chosen.is_empty() {
                self.not_run.push((check.id.clone(), reason.clone()));
            }
            for (index, gpu) in &chosen {
                let name = format!("gpu{index}");
                let variables = BTreeMap::from([(gpu.variable.clone(), self.mask(&gpu.variable, *index))]);
                self.add(format!("{}[{name}]", check.id), vec![check.id.clone()], Some(name), variables);
            }
        }
        for (index, gpu) in chosen {
            let facts = BTreeMap::from([("product".to_owned(), gpu.product), ("target".to_owned(), gpu.target)]);
            self.gpus.insert(format!("gpu{index}"), facts);
        }
        Ok(())
    }

    /// The value that leaves one GPU visible: its place in the mask that is set already.
    fn mask(&self, variable: &str, index: usize) -> String {
        let given = [variable, "CUDA_VISIBLE_DEVICES"]
            .iter()
            .find_map(|name| self.base.variables.get(&OsString::from(name)).filter(|value| !value.is_empty()))
            .map(|value| value.to_string_lossy().into_owned());
        given.and_then(|mask| Some(mask.split(',').nth(index)?.trim().to_owned())).unwrap_or_else(|| index.to_string())
    }
}

/// Asks the script; `Err` inside has the end of what it printed instead of an answer.
fn ask<T: for<'de> Deserialize<'de>>(
    setup: &SmokeSetup<'_>,
    script: &Path,
    arguments: &[String],
) -> Result<Result<T, String>, Failure> {
    let program = line(&setup.python, script, arguments, &setup.base);
    let mark = format!("smoke-{}-{}", std::process::id(), arguments[0]);
    let limits = AnswerLimits { time: setup.timeout, bytes: LONGEST_ANSWER, is_interrupted: &|| false };
    let (end, text) =
        run_for_answer(&program, &mark, &limits).map_err(|_| no_python(&setup.python, "it cannot be started"))?;
    let text = String::from_utf8_lossy(&text);
    let answer = text.lines().rev().find_map(|line| line.strip_prefix(ANSWER));
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    Ok(match (answer, last) {
        (Some(answer), _) => serde_json::from_str(answer).map_err(|error| error.to_string()),
        (None, Some(last)) => Err(last.to_owned()),
        (None, None) => Err(match end {
            AnswerEnd::Ended(end) => format!("the process {} and printed nothing", end.words()),
            _ => format!("nothing was printed within {} s", setup.timeout.as_secs()),
        }),
    })
}

/// Writes the program and returns its folder.
fn write_program(scratch: &Path) -> io::Result<PathBuf> {
    let folder = scratch.join("smoke");
    fs_err::create_dir_all(&folder)?;
    for (name, text) in FILES {
        fs_err::write(folder.join(name), text)?;
    }
    Ok(folder)
}

fn line(python: &Path, script: &Path, arguments: &[String], base: &ProgramLine) -> ProgramLine {
    // -u: a killed process has printed what it could.
    let mut words = vec![python.as_os_str().to_owned(), "-u".into(), script.as_os_str().to_owned()];
    words.extend(arguments.iter().map(OsString::from));
    ProgramLine { words, ..base.clone() }
}

impl TestDriver for SmokeDriver {
    fn collect(&self, _scratch: &Path, _reporter: &dyn Reporter) -> Result<Collection, Failure> {
        let (ids, failed, not_run) = (self.order.clone(), self.failed.clone(), self.not_run.clone());
        Ok(Collection { ids, failed, not_run, ..Collection::default() })
    }

    fn start(&self, ids: &[String], scratch: &Path) -> io::Result<(ProgramLine, Box<dyn TestStream>)> {
        let id = ids.first().ok_or(io::ErrorKind::InvalidInput)?;
        let check = self.checks.get(id).ok_or(io::ErrorKind::NotFound)?;
        let script = write_program(scratch)?;
        let mut arguments = vec!["run".to_owned()];
        arguments.extend(check.arguments.iter().cloned());
        let mut program = line(&self.python, &script, &arguments, &self.base);
        for (name, value) in &check.variables {
            program.set(name, value);
        }
        Ok((program, Box::new(SmokeStream { id: Some(id.clone()), text: Vec::new() })))
    }

    fn is_single(&self) -> bool {
        true
    }

    fn gpu_of(&self, id: &str) -> Option<String> {
        self.checks.get(id)?.gpu.clone()
    }
}

#[derive(Debug)]
struct SmokeStream {
    id: Option<String>,
    /// The end of what it printed.
    text: Vec<u8>,
}

impl SmokeStream {
    /// The last line that is not empty.
    fn last_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.text).into_owned();
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }
}

impl TestStream for SmokeStream {
    fn read(&mut self, output: &[u8]) -> io::Result<Vec<StreamEvent>> {
        self.text.extend_from_slice(output);
        let excess = self.text.len().saturating_sub(1 << 14);
        self.text.drain(..excess);
        Ok(self.id.take().map(StreamEvent::Started).into_iter().collect())
    }

    fn judge(&self, end: ProgramEnd) -> Option<(TestOutcome, Option<String>)> {
        let last = self.last_line();
        let text = String::from_utf8_lossy(&self.text);
        if let Some((outcome, mark)) = match end {
            ProgramEnd::Code(SKIP) => Some((TestOutcome::Skipped, "SKIP ")),
            ProgramEnd::Code(NOT_RUN) => Some((TestOutcome::NotRun, "NOT RUN ")),
            _ => None,
        } {
            let reason = text.lines().rev().find_map(|line| line.strip_prefix(mark)).map(str::to_owned);
            return Some(match reason {
                Some(reason) => (outcome, Some(reason)),
                None => (TestOutcome::Failed, last),
            });
        }
        Some(match end {
            ProgramEnd::Code(0) if text.lines().any(|line| line == PASSED) => (TestOutcome::Passed, None),
            ProgramEnd::Code(0) => (TestOutcome::Crashed, Some("it exited with code 0 before its end".to_owned())),
            ProgramEnd::Code(_) => (TestOutcome::Failed, last.or_else(|| Some(format!("it {}", end.words())))),
            ProgramEnd::Signal(_) => (TestOutcome::Crashed, Some(format!("it {}", end.words()))),
        })
    }
}
