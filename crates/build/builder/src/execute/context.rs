//! The state and the functions that all stages of a job share.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use regex::Regex;
use rocwheel_progress::{Failure, Interrupted, Reporter};

use crate::error::{self, StepFailure};
use crate::execute::JobPlace;
use crate::execute::counted_output::CountedOutput;
use crate::execute::folder::{self, Log};
use crate::failure_causes::{self, Likely};
use rocwheel_process::{FinishedProcess, ProcessEnd, Program};
use rocwheel_recipe::BuildMode;
use rocwheel_recipe::duration::words;
use rocwheel_recipe::recipe::WorkOn;
use rocwheel_recipe::script::quoted;
use rocwheel_recipe::{Job, JobSource};

/// Number of output lines that an error shows.
const TAIL: usize = 15;

pub(super) struct Context<'a> {
    pub(super) job: &'a Job,
    pub(super) place: &'a JobPlace,
    pub(super) folder: PathBuf,
    pub(super) reporter: &'a dyn Reporter,
    /// Facts by name, as far as they are known.
    pub(super) known: RefCell<BTreeMap<String, String>>,
    pub(super) variables: RefCell<Option<BTreeMap<String, String>>>,
}

pub(super) struct Call<'a> {
    pub(super) stage: &'a str,
    pub(super) words: Vec<String>,
    pub(super) directory: &'a Path,
    pub(super) environment: &'a BTreeMap<String, String>,
    pub(super) timeout: Duration,
}

/// Installer options, and the variables of pip and uv that replace them.
const ADDRESSES: [(&str, &[&str]); 4] = [
    ("--default-index", &["UV_DEFAULT_INDEX"]),
    ("--index-url", &["PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"]),
    ("--extra-index-url", &["PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL"]),
    ("--find-links", &["PIP_FIND_LINKS", "UV_FIND_LINKS"]),
];

/// `true` if a variable of pip or uv is set to yes.
pub(crate) fn is_on(name: &str, environment: &BTreeMap<String, String>) -> bool {
    let value = environment.get(name).map(|value| value.to_lowercase());
    value.is_some_and(|value| !["", "0", "false", "no", "off"].contains(&value.as_str()))
}

/// Moves passwords from a pip or uv command into variables. All users of a machine see command
/// lines, but not the variables of a program.
pub(super) fn hidden(
    mut words: Vec<String>,
    environment: &BTreeMap<String, String>,
) -> (Vec<String>, Cow<'_, BTreeMap<String, String>>) {
    let mut environment = Cow::Borrowed(environment);
    if !words.iter().take(3).any(|word| word == "pip") {
        return (words, environment);
    }
    for (option, variables) in ADDRESSES {
        while let Some(at) =
            words.windows(2).position(|pair| pair[0] == option && rocwheel_source::without_secret(&pair[1]) != pair[1])
        {
            let address = words.drain(at..at + 2).nth(1).unwrap_or_default();
            let environment = environment.to_mut();
            for variable in variables {
                let separator = if *variable == "UV_FIND_LINKS" { "," } else { " " };
                let value = environment.entry((*variable).to_owned()).or_default();
                // There is only one main index; the other variables are lists.
                if ["--default-index", "--index-url"].contains(&option) || value.is_empty() {
                    value.clone_from(&address);
                } else {
                    value.push_str(&format!("{separator}{address}"));
                }
            }
        }
    }
    (words, environment)
}

impl<'a> Context<'a> {
    pub(super) fn new(job: &'a Job, place: &'a JobPlace, folder: PathBuf, reporter: &'a dyn Reporter) -> Context<'a> {
        Context { job, place, folder, reporter, known: RefCell::default(), variables: RefCell::default() }
    }

    /// `true` if the deadline of the work has passed.
    pub(super) fn is_late(&self) -> bool {
        self.place.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(super) fn source(&self) -> PathBuf {
        match (&self.job.source, self.job.recipe.source.work_on) {
            (JobSource::Checkout { path, .. }, WorkOn::Checkout) => path.clone(),
            _ => self.folder.join("source"),
        }
    }

    /// The Python environment of the build: the job's own, or the one that `--develop` installs
    /// into.
    pub(super) fn venv(&self) -> PathBuf {
        self.of_user().map_or_else(|| self.folder.join("venv"), Path::to_owned)
    }

    /// The user's environment into which the sources are installed in place.
    pub(super) fn of_user(&self) -> Option<&Path> {
        self.place.into.as_deref().filter(|_| self.job.recipe.cell.mode == BuildMode::Develop)
    }

    /// Runs a program. A failure is an error; reaching the deadline is not.
    pub(super) fn run(&self, call: Call<'_>, log: &mut Log) -> Result<FinishedProcess, Failure> {
        let (stage, timeout) = (call.stage, call.timeout);
        let finished = self.attempt(call, log)?;
        self.accept(stage, timeout, &finished, log)?;
        Ok(finished)
    }

    /// Insists that a program ended well or reached the deadline.
    pub(super) fn accept(
        &self,
        stage: &str,
        timeout: Duration,
        finished: &FinishedProcess,
        log: &Log,
    ) -> Result<(), Failure> {
        match finished.ended {
            ProcessEnd::Code(0) | ProcessEnd::Deadline => Ok(()),
            _ if rocwheel_process::is_stopping(self.reporter) => Err(Interrupted.into()),
            ended => Err(self.failed(stage, ended, timeout, finished, log)),
        }
    }

    /// If memory ran out and several compilers ran at once, lets half as many run from now on.
    /// Returns `true` if the step should run again.
    pub(super) fn lets_fewer_run(
        &self,
        stage: &str,
        finished: &FinishedProcess,
        log: &mut Log,
    ) -> Result<bool, Failure> {
        let has_failed = !matches!(finished.ended, ProcessEnd::Code(0) | ProcessEnd::Deadline | ProcessEnd::TimedOut);
        if !has_failed || !failure_causes::is_of_memory(finished) || rocwheel_process::is_stopping(self.reporter) {
            return Ok(false);
        }
        // A recipe that does not ask for the number would run the same again.
        let mut known = self.known.borrow_mut();
        let Some(jobs) = known.get_mut("jobs") else { return Ok(false) };
        let count = jobs.parse().unwrap_or(1_u16);
        if count < 2 {
            return Ok(false);
        }
        *jobs = (count / 2).to_string();
        *self.variables.borrow_mut() = None;
        let message = format!("memory ran out with {count} compilers at once; `{stage}` continues with {}", count / 2);
        self.reporter.warn(&format!("{}: {message}", self.job.title()));
        log.say(&format!("({message})"))?;
        Ok(true)
    }

    pub(super) fn attempt(&self, call: Call<'_>, log: &mut Log) -> Result<FinishedProcess, Failure> {
        // Logs are shown to others, so they have no passwords.
        let shown: Vec<String> = call.words.iter().map(|word| quoted(&rocwheel_source::without_secret(word))).collect();
        log.say(&format!("$ cd {} && {}", quoted(&call.directory.to_string_lossy()), shown.join(" ")))?;
        let (words, environment) = hidden(call.words, call.environment);
        let program = Program {
            words,
            directory: call.directory,
            environment: &environment,
            timeout: call.timeout,
            deadline: self.place.deadline,
        };
        let name = format!("{}: {}", self.job.title(), call.stage);
        let mut output = CountedOutput::new(log.writer(), self.reporter, name);
        let finished = rocwheel_process::run(&program, Some(&mut output), self.reporter)?;
        drop(output);
        if finished.ended != ProcessEnd::Code(0) {
            log.say(&format!("({})", reason(finished.ended, call.timeout)))?;
        }
        Ok(finished)
    }

    pub(super) fn failed(
        &self,
        stage: &str,
        ended: ProcessEnd,
        timeout: Duration,
        finished: &FinishedProcess,
        log: &Log,
    ) -> Failure {
        let cause = failure_causes::likely(finished.lines())
            .or_else(|| (ended == failure_causes::KILLED).then(failure_causes::killed));
        let cause = cause.map(Likely::sentence).or_else(|| {
            (ended == ProcessEnd::TimedOut)
                .then(|| "if it only needs longer, raise `timeout` of that step in the recipe".into())
        });
        self.failure(stage, reason(ended, timeout), cause, finished.tail(TAIL), log)
    }

    /// Insists on what a program was to say. Its other words may tell why it did not.
    pub(super) fn insist(
        &self,
        stage: &str,
        expect: Option<&str>,
        finished: &FinishedProcess,
        log: &Log,
    ) -> Result<(), Failure> {
        let Some(expect) = expect else { return Ok(()) };
        if compiled(expect)?.is_match(&finished.said) {
            return Ok(());
        }
        let said = finished.tail(1).pop().unwrap_or_else(|| "nothing".into());
        let cause = failure_causes::likely(finished.lines()).map(Likely::sentence);
        Err(self.failure(stage, format!("it was to say `{expect}`, and said: {said}"), cause, Vec::new(), log))
    }

    /// The error for a stage that fails without a program.
    pub(super) fn broken(&self, stage: &str, reason: impl Into<String>, log: &Log) -> Failure {
        self.failure(stage, reason.into(), None, Vec::new(), log)
    }

    fn failure(&self, stage: &str, reason: String, cause: Option<String>, tail: Vec<String>, log: &Log) -> Failure {
        let (job, step, log) = (self.job.title(), stage.to_owned(), log.path().to_owned());
        StepFailure { job, step, reason, tail, log, cause }.into()
    }

    /// Runs the steps that come at the end in any case. Their failures are only warnings.
    pub(super) fn finish(&self, number: usize) {
        const PATIENCE: Duration = Duration::from_mins(1);
        for step in &self.job.recipe.finish {
            let place = JobPlace { deadline: Some(Instant::now() + PATIENCE), ..self.place.clone() };
            let calm = Context::new(self.job, &place, self.folder.clone(), &rocwheel_progress::Silent);
            let answer = folder::log(&self.folder, number, &step.name).and_then(|mut log| calm.step(step, &mut log));
            if let Err(error) = answer {
                self.reporter.warn(&rocwheel_progress::with_causes(&error));
            }
        }
    }
}

pub(super) fn compiled(pattern: &str) -> Result<Regex, Failure> {
    Regex::new(pattern)
        .map_err(|error| error::malformed("job", format!("`{pattern}` is no regular expression: {error}")))
}

pub(super) fn reason(ended: ProcessEnd, timeout: Duration) -> String {
    match ended {
        ProcessEnd::Code(code) => format!("exit code {code}"),
        ProcessEnd::Signal(signal) => format!("signal {signal} ended it"),
        ProcessEnd::TimedOut => format!("it took longer than {} and was stopped", words(timeout)),
        ProcessEnd::Deadline => "the time limit was reached".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_on_no_command_line() {
        let environment = BTreeMap::from([("PIP_EXTRA_INDEX_URL".to_owned(), "https://one/".to_owned())]);
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let line =
            "uv pip install --python p --index-url https://me:secret@two/ --extra-index-url https://token@three/ rocm";
        let (left, with) = hidden(words(line), &environment);
        assert_eq!(left, words("uv pip install --python p rocm"));
        for name in ["PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"] {
            assert_eq!(with[name], "https://me:secret@two/");
        }
        assert_eq!(with["PIP_EXTRA_INDEX_URL"], "https://one/ https://token@three/");
        assert_eq!(with["UV_EXTRA_INDEX_URL"], "https://token@three/");
        let (left, with) = hidden(words("uv pip install --default-index https://me:secret@two/ rocm"), &environment);
        assert_eq!((left, &*with["UV_DEFAULT_INDEX"]), (words("uv pip install rocm"), "https://me:secret@two/"));

        // Addresses without secrets stay visible, and commands of other programs stay unchanged,
        // because those may not read the variables.
        for line in ["p -m pip install --index-url https://two/ rocm", "./pip.sh --index-url https://me:secret@two/"] {
            let (left, with) = hidden(words(line), &environment);
            assert_eq!((left, &*with), (words(line), &environment));
        }
    }
}
