//! What all stages of a job work with.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use report::Reporter;

use crate::causes;
use crate::duration::words;
use crate::error::{Error, Failure};
use crate::execute::Place;
use crate::execute::folder::{self, Log};
use crate::job::{Job, Source};
use crate::process::{self, Ended, Finished, Program};
use crate::recipe::WorkOn;
use crate::script::quoted;

/// Lines that an error shows of what a program said.
const TAIL: usize = 15;

/// What all stages of a job work with.
pub(super) struct Context<'a> {
    pub(super) job: &'a Job,
    pub(super) place: &'a Place,
    /// The job's folder.
    pub(super) folder: PathBuf,
    pub(super) reporter: &'a dyn Reporter,
    /// What was found out already.
    pub(super) known: RefCell<BTreeMap<String, String>>,
    pub(super) variables: RefCell<Option<BTreeMap<String, String>>>,
}

/// A program that a stage runs.
pub(super) struct Call<'a> {
    pub(super) stage: &'a str,
    pub(super) words: Vec<String>,
    pub(super) directory: &'a Path,
    pub(super) environment: &'a BTreeMap<String, String>,
    pub(super) timeout: Duration,
}

impl<'a> Context<'a> {
    pub(super) fn new(job: &'a Job, place: &'a Place, folder: PathBuf, reporter: &'a dyn Reporter) -> Context<'a> {
        Context { job, place, folder, reporter, known: RefCell::default(), variables: RefCell::default() }
    }

    /// Whether the time of the work is over.
    pub(super) fn is_late(&self) -> bool {
        self.place.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Where the sources are built.
    pub(super) fn source(&self) -> PathBuf {
        match (&self.job.source, self.job.recipe.source.work_on) {
            (Source::Checkout { path, .. }, WorkOn::Checkout) => path.clone(),
            _ => self.folder.join("source"),
        }
    }

    pub(super) fn venv(&self) -> PathBuf {
        self.folder.join("venv")
    }

    /// Runs a program. A failure is an error; that the time is over is an answer.
    pub(super) fn run(&self, call: Call<'_>, log: &mut Log) -> Result<Finished, Error> {
        let (stage, timeout) = (call.stage, call.timeout);
        let finished = self.attempt(call, log)?;
        match finished.ended {
            Ended::Code(0) | Ended::Deadline => Ok(finished),
            ended => Err(self.failed(stage, ended, timeout, &finished, log)),
        }
    }

    /// Runs a program, however it ends.
    pub(super) fn attempt(&self, call: Call<'_>, log: &mut Log) -> Result<Finished, Error> {
        // Logs are shown to others.
        let shown: Vec<String> = call.words.iter().map(|word| quoted(&source::without_secret(word))).collect();
        log.say(&format!("$ cd {} && {}", quoted(&call.directory.to_string_lossy()), shown.join(" ")))?;
        let program = Program {
            words: call.words,
            directory: call.directory,
            environment: call.environment,
            timeout: call.timeout,
            deadline: self.place.deadline,
        };
        let finished = process::run(&program, Some(log.writer()), self.reporter)?;
        if finished.ended != Ended::Code(0) {
            log.say(&format!("({})", reason(finished.ended, call.timeout)))?;
        }
        Ok(finished)
    }

    /// The error about a program that failed.
    pub(super) fn failed(&self, stage: &str, ended: Ended, timeout: Duration, finished: &Finished, log: &Log) -> Error {
        const KILL: i32 = 9;
        let cause = causes::likely(finished.lines()).or_else(|| (ended == Ended::Signal(KILL)).then(causes::killed));
        let cause = cause.map(|likely| format!("likely cause: {}", likely.text)).or_else(|| {
            (ended == Ended::TimedOut)
                .then(|| "if it only needs longer, raise `timeout` of that step in the recipe".into())
        });
        Error::Step(Box::new(Failure {
            job: self.job.title(),
            step: stage.to_owned(),
            reason: reason(ended, timeout),
            tail: finished.tail(TAIL),
            log: log.path().to_owned(),
            cause,
        }))
    }

    /// The error about a stage that fails without a program.
    pub(super) fn broken(&self, stage: &str, reason: impl Into<String>, log: &Log) -> Error {
        Error::Step(Box::new(Failure {
            job: self.job.title(),
            step: stage.to_owned(),
            reason: reason.into(),
            tail: Vec::new(),
            log: log.path().to_owned(),
            cause: None,
        }))
    }

    /// What is done at the end whatever happened. What goes wrong there is only worth a warning.
    pub(super) fn finish(&self, number: usize) {
        const PATIENCE: Duration = Duration::from_mins(1);
        for step in &self.job.recipe.finish {
            let place = Place { deadline: Some(Instant::now() + PATIENCE), ..self.place.clone() };
            let calm = Context::new(self.job, &place, self.folder.clone(), &report::Silent);
            let answer = folder::log(&self.folder, number, &step.name).and_then(|mut log| calm.step(step, &mut log));
            if let Err(error) = answer {
                self.reporter.warn(&report::with_causes(&error));
            }
        }
    }
}

fn reason(ended: Ended, timeout: Duration) -> String {
    match ended {
        Ended::Code(code) => format!("exit code {code}"),
        Ended::Signal(signal) => format!("signal {signal} ended it"),
        Ended::TimedOut => format!("it took longer than {} and was stopped", words(timeout)),
        Ended::Deadline => "the time limit was reached".into(),
    }
}
