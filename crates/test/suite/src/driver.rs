//! What the engine needs to know of a kind of tests: how to list them, how to start some of them,
//! and how to read what their process tells.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Failure, Reporter};
use rocwheel_report::ProgramEnd;
use rocwheel_report::outcome::{TestAttempt, TestOutcome};

use crate::supervisor::{ProgramLine, SupervisedProgram};
use crate::worker::{SuiteLimits, TestWorker};

/// The tests that exist.
#[derive(Debug, Default)]
pub struct Collection {
    /// Their ids, in the order in which they run.
    pub ids: Vec<String>,
    /// Files that cannot be imported, with the reason and what was printed.
    pub failed: Vec<FailedCollection>,
    /// Tests that cannot run here, with the reason.
    pub not_run: Vec<(String, String)>,
    /// Tests and files of tests that skip themselves before anything of them runs, with the reason.
    pub skipped: Vec<(String, String)>,
    /// As in [`rocwheel_report::outcome::WholeCollection::folder`].
    pub folder: Option<String>,
}

impl Collection {
    /// Every id once, also of what cannot run.
    pub(crate) fn all_ids(&self) -> Vec<String> {
        let failed = self.failed.iter().map(|failed| &failed.id);
        let other = failed.chain(self.not_run.iter().chain(&self.skipped).map(|(id, _)| id));
        let mut seen = BTreeSet::new();
        self.ids.iter().chain(other).filter(|id| seen.insert((*id).clone())).cloned().collect()
    }
}

/// Variables with which programs of GoogleTest leave out a part of their tests, or repeat them in
/// one process. They are meant for another run: of these tests every one is to run once.
const CHOICES: [&str; 7] = [
    "GTEST_FAIL_FAST",
    "GTEST_FILTER",
    "GTEST_OUTPUT",
    "GTEST_REPEAT",
    "GTEST_SHARD_INDEX",
    "GTEST_SHARD_STATUS_FILE",
    "GTEST_TOTAL_SHARDS",
];

/// The program without variables that choose among its tests.
pub(crate) fn without_choices(mut program: ProgramLine) -> ProgramLine {
    for name in CHOICES {
        program.variables.remove(OsStr::new(name));
    }
    program
}

/// A file whose tests are not known.
#[derive(Debug, Clone)]
pub struct FailedCollection {
    pub id: String,
    /// The reason in a line.
    pub message: String,
    pub output: Option<String>,
}

#[derive(Debug)]
pub enum StreamEvent {
    /// A test begins.
    Started(String),
    /// A test ended; the number of the attempt is filled in by the engine.
    Ended(TestAttempt),
    /// Tests that were asked for and do not exist in this process.
    Missing(Vec<String>),
    /// The test that lost the GPU: everything that follows in this process fails.
    Poisoned(String),
    /// Something that is about no test.
    Problem(String),
    /// Nothing more will be told; the process should end now.
    Finished,
}

pub trait TestStream: Send {
    /// Tells a [`WaitingProcess`] which of its tests run.
    fn choose(&mut self, _ids: &[String]) -> io::Result<()> {
        Ok(())
    }

    /// The events since the last call. `output` are the bytes that it printed since then.
    fn read(&mut self, output: &[u8]) -> io::Result<Vec<StreamEvent>>;

    /// What only the end of the process shows: reports that it writes at last. It is not called if
    /// the supervisor ended the process before it had told everything.
    fn close(&mut self) -> io::Result<Vec<StreamEvent>> {
        Ok(Vec::new())
    }

    /// The outcome of the test that was running when the process ended, if the end of the process
    /// is the outcome.
    fn judge(&self, _end: ProgramEnd) -> Option<(TestOutcome, Option<String>)> {
        None
    }
}

/// A process that has listed its tests and waits for the choice of those that run.
pub struct WaitingProcess {
    pub running: SupervisedProgram,
    pub program: ProgramLine,
    /// What it tells, and where it gets the choice.
    pub stream: Box<dyn TestStream>,
    /// Folder of this process alone.
    pub scratch: PathBuf,
}

/// How the tests of a run are listed.
pub struct CollectionRequest<'a> {
    pub scratch: &'a Path,
    /// The first worker, for whose GPU a process that waits is started.
    pub worker: &'a TestWorker,
    pub limits: &'a SuiteLimits,
    pub reporter: &'a dyn Reporter,
}

pub(crate) fn not_listed(reason: &str) -> Failure {
    Failure::message(format!("the tests cannot be listed: {reason}"))
        .with_hint("run the tests without rocwheel once to see more")
}

pub trait TestDriver: Sync {
    fn collect(&self, scratch: &Path, reporter: &dyn Reporter) -> Result<Collection, Failure>;

    /// Lists the tests, and may leave the process that did it waiting for the first batch: to
    /// import what is tested can take longer than to test it.
    fn open(&self, request: &CollectionRequest<'_>) -> Result<(Collection, Option<WaitingProcess>), Failure> {
        Ok((self.collect(request.scratch, request.reporter)?, None))
    }

    /// A program that runs these tests in this order, and the reader of what it tells. `scratch` is
    /// a folder of this process alone.
    fn start(&self, ids: &[String], scratch: &Path) -> io::Result<(ProgramLine, Box<dyn TestStream>)>;

    /// `true` if every test needs its own process.
    fn is_single(&self) -> bool {
        false
    }

    /// `true` for a test beside which no other may run.
    fn runs_alone(&self, _id: &str) -> bool {
        false
    }

    /// The GPU of a test that names one itself.
    fn gpu_of(&self, _id: &str) -> Option<String> {
        None
    }

    /// `true` if one process can run tests of several files.
    fn mixes_groups(&self) -> bool {
        true
    }

    /// The file or program of a test. Tests of one share a process.
    fn group_of<'a>(&self, id: &'a str) -> &'a str {
        id.split_once("::").map_or(id, |(file, _)| file)
    }
}
