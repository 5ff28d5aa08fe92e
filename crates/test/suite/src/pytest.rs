//! Input: paths of Python tests. Output: pytest processes that tell what they do through our plugin
//! (`python/rocwheel_pytest.py`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rocwheel_progress::{Exit, Failure, Interrupted, Reporter};
use rocwheel_report::ProgramEnd;
use rocwheel_report::outcome::{TestAttempt, TestOutcome};
use serde::Deserialize;
use serde_json::json;

use crate::driver::{
    Collection, CollectionRequest, FailedCollection, StreamEvent, TestDriver, TestStream, WaitingProcess, not_listed,
};
use crate::supervisor::{BoundedText, ProgramLine, SupervisedProgram};

const PLUGIN: &str = include_str!("../python/rocwheel_pytest.py");

/// Name of the plugin's module.
pub(crate) const MODULE: &str = "rocwheel_pytest";

/// Errors after which a process can use its GPU no more (regular expressions of Python). The words
/// are those of HIP's and CUDA's runtimes and of PyTorch.
pub(crate) const STICKY: [&str; 9] = [
    "an illegal memory access was encountered",
    "hipErrorIllegalAddress",
    "hipErrorLaunchFailure",
    "unspecified launch failure",
    "device-side assert(ion)? (was )?triggered",
    "Memory access fault by GPU",
    "HSA_STATUS_ERROR_(EXCEPTION|MEMORY_FAULT|ILLEGAL_INSTRUCTION)",
    "HW Exception by GPU",
    "hipErrorNoDevice after reset",
];

/// Options of pytest that would take the tests out of our hands.
const FORBIDDEN: [(&str, &str, &str); 8] = [
    ("-n", "a test that kills its worker would be reported by pytest-xdist", "--workers"),
    ("--numprocesses", "a test that kills its worker would be reported by pytest-xdist", "--workers"),
    ("--dist", "a test that kills its worker would be reported by pytest-xdist", "--workers"),
    ("--reruns", "a second attempt in the same process proves nothing", "--retries"),
    ("--collect-only", "nothing would be tested", "--dry-run"),
    ("--co", "nothing would be tested", "--dry-run"),
    ("--forked", "rocwheel ends processes itself", "--timeout"),
    ("--pdb", "nobody can answer the debugger", "python -m pytest --pdb"),
];

/// Exit code of pytest for a wrong command line.
const WRONG_USAGE: i32 = 4;

#[derive(Debug)]
pub struct PytestDriver {
    python: PathBuf,
    /// Files, folders or ids.
    paths: Vec<String>,
    /// Options of pytest.
    options: Vec<String>,
    base: ProgramLine,
    has_xdist: bool,
    collect_timeout: Duration,
    /// The folder that ids start from, known after the collection.
    root: OnceLock<PathBuf>,
}

/// What a [`PytestDriver`] is made of.
#[derive(Debug)]
pub struct PytestSetup {
    pub python: PathBuf,
    /// Files, folders or ids; pytest's own choice if empty.
    pub paths: Vec<String>,
    pub options: Vec<String>,
    /// The working directory and the environment; the words are not used.
    pub base: ProgramLine,
    /// pytest-xdist is installed.
    pub has_xdist: bool,
    /// Longest time of the collection.
    pub collect_timeout: Duration,
}

impl PytestDriver {
    /// Checks the options.
    pub fn new(setup: PytestSetup) -> Result<Self, Failure> {
        for option in &setup.options {
            let name = option.split('=').next().unwrap_or(option);
            // `-n4`, the short form with its value.
            let name = if option.starts_with("-n") { "-n" } else { name };
            let found = FORBIDDEN.iter().find(|(forbidden, ..)| *forbidden == name);
            if let Some((_, reason, instead)) = found {
                return Err(Failure::message(format!("`{option}` cannot be passed to pytest: {reason}"))
                    .with_hint(format!("use `{instead}`"))
                    .with_exit(Exit::Usage));
            }
        }
        let PytestSetup { python, paths, options, base, has_xdist, collect_timeout } = setup;
        Ok(Self { python, paths, options, base, has_xdist, collect_timeout, root: OnceLock::new() })
    }

    fn program(&self, plan: &serde_json::Value, paths: &[String], scratch: &Path) -> io::Result<ProgramLine> {
        let mut program = self.base.clone();
        let mut words: Vec<OsString> = vec![self.python.clone().into()];
        words.extend(["-m", "pytest", "-p", MODULE, "-p", "no:cacheprovider"].map(OsString::from));
        if self.has_xdist {
            words.push("-n0".into());
        }
        words.push("--continue-on-collection-errors".into());
        words.extend(self.options.iter().map(OsString::from));
        words.extend(paths.iter().map(OsString::from));
        program.words = words;
        set_plugin(&mut program, plan, scratch)?;
        Ok(program)
    }
}

/// Writes the plugin and its plan, and sets the variables that it reads.
pub(crate) fn set_plugin(program: &mut ProgramLine, plan: &serde_json::Value, scratch: &Path) -> io::Result<()> {
    let (plugin, plan_file, events) = (scratch.join("plugin"), scratch.join("plan.json"), scratch.join("events"));
    fs_err::create_dir_all(&plugin)?;
    fs_err::create_dir_all(&events)?;
    fs_err::write(plugin.join(format!("{MODULE}.py")), PLUGIN)?;
    fs_err::write(&plan_file, plan.to_string())?;
    let mut search = plugin.into_os_string();
    if let Some(given) = program.variables.get(&OsString::from("PYTHONPATH")).filter(|given| !given.is_empty()) {
        search.push(":");
        search.push(given);
    }
    program.set("PYTHONPATH", search);
    program.set("ROCWHEEL_TEST_PLAN", plan_file);
    program.set("ROCWHEEL_TEST_EVENTS", events);
    Ok(())
}

impl TestDriver for PytestDriver {
    fn collect(&self, scratch: &Path, reporter: &dyn Reporter) -> Result<Collection, Failure> {
        let scratch = scratch.join("collection");
        fs_err::create_dir_all(&scratch)?;
        let mut program = self.program(&json!({}), &self.paths, &scratch)?;
        // Right behind `python -m pytest`, so that a user's `--` hides none of it.
        program.words.splice(3..3, ["--collect-only", "-q"].map(OsString::from));
        let running = SupervisedProgram::start(&program, &scratch.display().to_string())?;
        let (collection, _) = self.listen(running, EventFiles::new(&scratch.join("events")), reporter)?;
        Ok(collection)
    }

    fn open(&self, request: &CollectionRequest<'_>) -> Result<(Collection, Option<WaitingProcess>), Failure> {
        let scratch = request.scratch.join("collection");
        fs_err::create_dir_all(&scratch)?;
        let answer = scratch.join("answer.json");
        let mut program = self.program(&json!({ "answer": answer, "sticky": STICKY }), &self.paths, &scratch)?;
        for (name, value) in &request.worker.variables {
            program.set(name, value);
        }
        let mark = scratch.display().to_string();
        let running = SupervisedProgram::start_limited(&program, &mark, request.limits.process)?;
        let files = EventFiles { answer: Some(answer), ..EventFiles::new(&scratch.join("events")) };
        let (collection, left) = self.listen(running, files, request.reporter)?;
        let waiting =
            left.map(|(running, files)| WaitingProcess { running, program, stream: Box::new(files), scratch });
        Ok((collection, waiting))
    }

    fn start(&self, ids: &[String], scratch: &Path) -> io::Result<(ProgramLine, Box<dyn TestStream>)> {
        let mut seen = BTreeSet::new();
        let files = ids.iter().map(|id| self.group_of(id)).filter(|file| seen.insert(*file));
        let mut paths: Vec<String> = match self.root.get() {
            Some(root) => files.map(|file| root.join(file).to_string_lossy().into_owned()).collect(),
            None => self.paths.clone(),
        };
        // An id may belong to something that is not a file, such as `--pyargs package`.
        if paths.iter().any(|path| !Path::new(path).exists()) {
            paths.clone_from(&self.paths);
        }
        let mut program = self.program(&json!({ "run": ids, "sticky": STICKY }), &paths, scratch)?;
        if let Some(root) = self.root.get() {
            let mut option = OsString::from("--rootdir=");
            option.push(root);
            program.words.insert(3, option);
        }
        let files = EventFiles { ids: ids.to_vec(), ..EventFiles::new(&scratch.join("events")) };
        Ok((program, Box::new(files)))
    }
}

impl PytestDriver {
    /// Hears which tests a process has, until it has ended or waits for an answer.
    fn listen(
        &self,
        mut running: SupervisedProgram,
        mut files: EventFiles,
        reporter: &dyn Reporter,
    ) -> Result<(Collection, Option<(SupervisedProgram, EventFiles)>), Failure> {
        let mut text = BoundedText::default();
        let mut collected = Collected::default();
        let begun = Instant::now();
        let mut is_late = false;
        while running.end()?.is_none() {
            text.push(&running.read(Duration::from_millis(20)));
            self.note(files.lines()?, &mut collected);
            // pytest also says that it has collected if a path does not exist, and then it ends.
            if collected.is_waiting && files.answer.is_some() {
                return Ok((collected.collection, Some((running, files))));
            }
            if reporter.interrupted() {
                return Err(Interrupted.into());
            }
            if begun.elapsed() > self.collect_timeout {
                is_late = true;
                running.stop(Duration::from_secs(2));
            }
        }
        let (end, rest, _) = running.finish()?;
        text.push(&rest);
        self.note(files.lines()?, &mut collected);
        Ok((collected.close(end, is_late, &text.take(), self.collect_timeout)?, None))
    }

    fn note(&self, events: Vec<PluginEvent>, collected: &mut Collected) {
        for event in events {
            match event {
                PluginEvent::Collecting { id } => collected.current = Some(id),
                PluginEvent::Collected { ids } => collected.collection.ids.extend(ids),
                PluginEvent::CollectFailed { id, message, output } => {
                    collected.collection.failed.push(FailedCollection { id, message, output: Some(output) });
                }
                PluginEvent::CollectSkipped { id, message } => collected.collection.skipped.push((id, message)),
                PluginEvent::Ready { root, waits } => {
                    collected.is_ready = true;
                    collected.is_waiting |= waits;
                    let below = root.strip_prefix(&self.base.directory).ok().filter(|below| *below != Path::new(""));
                    collected.collection.folder = below.map(|below| below.display().to_string());
                    let _ = self.root.set(root);
                }
                PluginEvent::Problem { message } => collected.problem = Some(message),
                _ => {}
            }
        }
    }
}

#[derive(Debug, Default)]
struct Collected {
    collection: Collection,
    /// The file that was being imported last.
    current: Option<String>,
    is_ready: bool,
    /// The process waits until tests are chosen.
    is_waiting: bool,
    problem: Option<String>,
}

impl Collected {
    fn close(self, end: ProgramEnd, is_late: bool, said: &str, limit: Duration) -> Result<Collection, Failure> {
        if end == ProgramEnd::Code(WRONG_USAGE) && self.collection.ids.is_empty() {
            return Err(Failure::message(format!("pytest refuses its command line: {}", error_lines(said)))
                .with_hint("correct the paths, or the options behind `--`")
                .with_exit(Exit::Usage));
        }
        if self.is_ready {
            return Ok(self.collection);
        }
        if let Some(message) = self.problem {
            return Err(not_listed(&message));
        }
        let what = if is_late {
            format!("collecting took more than {} s", limit.as_secs())
        } else {
            format!("pytest {}", end.words())
        };
        let file = self.current.map(|file| format!(" while it imported `{file}`")).unwrap_or_default();
        Err(not_listed(&format!("{what}{file}; it printed `{}`", error_lines(said))))
    }
}

/// The lines that name an error, or the last ones.
fn error_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let errors: Vec<&str> =
        lines.iter().copied().filter(|line| line.starts_with("ERROR") || line.contains("error: ")).take(3).collect();
    if errors.is_empty() { lines[lines.len().saturating_sub(3)..].join(" | ") } else { errors.join(" | ") }
}

/// A line of the plugin. `[3]` and `[3,0.0002]` are [`PluginEvent::Started`] and a pass of the test
/// with this index in the plan.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum PluginEvent {
    Process {
        number: i32,
    },
    Collecting {
        id: String,
    },
    Collected {
        ids: Vec<String>,
    },
    CollectFailed {
        id: String,
        message: String,
        output: String,
    },
    CollectSkipped {
        id: String,
        message: String,
    },
    Deselected {
        id: String,
        message: String,
    },
    Missing {
        ids: Vec<String>,
    },
    Ready {
        root: PathBuf,
        #[serde(default)]
        waits: bool,
    },
    Started {
        id: String,
    },
    Attempt {
        id: String,
        outcome: TestOutcome,
        seconds: Option<f64>,
        message: Option<String>,
        output: Option<String>,
    },
    Poisoned {
        id: String,
    },
    Problem {
        message: String,
    },
    Finished {
        status: i32,
    },
}

/// The files that pytest processes write, each read from where it was left. They stay open, so a
/// test that removes them removes nothing that is read.
#[derive(Debug)]
pub(crate) struct EventFiles {
    folder: PathBuf,
    files: BTreeMap<OsString, EventFile>,
    /// The tests of the plan, which lines name by index; empty without a plan.
    ids: Vec<String>,
    /// The file for which a process waits that has listed its tests.
    answer: Option<PathBuf>,
}

#[derive(Debug)]
struct EventFile {
    file: fs_err::File,
    /// The beginning of a line that is not complete.
    rest: Vec<u8>,
}

impl EventFiles {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), files: BTreeMap::new(), ids: Vec::new(), answer: None }
    }

    /// The complete new lines of all files, file by file.
    pub(crate) fn lines(&mut self) -> io::Result<Vec<PluginEvent>> {
        Ok(self.lines_by_file()?.into_iter().map(|(_, event)| event).collect())
    }

    /// The new lines with the names of their files.
    pub(crate) fn lines_by_file(&mut self) -> io::Result<Vec<(OsString, PluginEvent)>> {
        // A test may have removed the folder.
        for entry in fs_err::read_dir(&self.folder).ok().into_iter().flatten().flatten() {
            if let Entry::Vacant(place) = self.files.entry(entry.file_name()) {
                // It may be removed at this moment.
                let Ok(file) = fs_err::File::open(entry.path()) else { continue };
                place.insert(EventFile { file, rest: Vec::new() });
            }
        }
        let mut events = Vec::new();
        for (name, file) in &mut self.files {
            file.file.read_to_end(&mut file.rest)?;
            let Some(end) = file.rest.iter().rposition(|byte| *byte == b'\n') else { continue };
            let complete: Vec<u8> = file.rest.drain(..=end).collect();
            for line in complete.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                events.push((name.clone(), event_of(line, &self.ids)));
            }
        }
        Ok(events)
    }
}

fn event_of(line: &[u8], ids: &[String]) -> PluginEvent {
    let short = line.strip_prefix(b"[").and_then(|rest| {
        let text = std::str::from_utf8(rest).ok()?.strip_suffix(']')?;
        let (index, seconds) = match text.split_once(',') {
            Some((index, seconds)) => (index, Some(seconds.parse::<f64>().ok()?)),
            None => (text, None),
        };
        let id = ids.get(index.parse::<usize>().ok()?)?.clone();
        let outcome = TestOutcome::Passed;
        Some(match seconds {
            None => PluginEvent::Started { id },
            Some(_) => PluginEvent::Attempt { id, outcome, seconds, message: None, output: None },
        })
    });
    short.unwrap_or_else(|| {
        serde_json::from_slice(line).unwrap_or_else(|error| PluginEvent::Problem {
            message: format!("a line of the pytest plugin is not understood: {error}"),
        })
    })
}

impl TestStream for EventFiles {
    fn choose(&mut self, ids: &[String]) -> io::Result<()> {
        self.ids = ids.to_vec();
        let Some(answer) = self.answer.take() else { return Ok(()) };
        // pytest reads it as soon as it exists, so it is renamed when it is complete.
        let part = answer.with_extension("part");
        fs_err::write(&part, json!({ "run": ids }).to_string())?;
        rocwheel_system::rename(part, answer)
    }

    fn read(&mut self, _output: &[u8]) -> io::Result<Vec<StreamEvent>> {
        let events = self.lines()?.into_iter().filter_map(|event| {
            Some(match event {
                PluginEvent::Started { id } => StreamEvent::Started(id),
                PluginEvent::Attempt { id, outcome, seconds, message, output } => {
                    let attempt = TestAttempt { outcome, seconds, message, output, ..TestAttempt::not_run(&id, "") };
                    StreamEvent::Ended(attempt)
                }
                PluginEvent::Missing { ids } => StreamEvent::Missing(ids),
                PluginEvent::Poisoned { id } => StreamEvent::Poisoned(id),
                PluginEvent::Problem { message } => StreamEvent::Problem(message),
                PluginEvent::Finished { .. } => StreamEvent::Finished,
                _ => return None,
            })
        });
        Ok(events.collect())
    }
}
