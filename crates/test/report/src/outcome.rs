//! What happens to a test: the events of a run, one JSON object a line.
//!
//! A run is written by a supervisor ([`TestEvent`], file `events.jsonl`) and read by the report
//! and by the gate. A line is complete when it ends with a line feed; the last line of a killed
//! run may be cut.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_content::{hexadecimal, sha256};
use serde::{Deserialize, Serialize};

/// How one attempt at a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOutcome {
    /// It did what it should.
    Passed,
    /// An assertion of the test failed.
    Failed,
    /// The set-up or the clean-up failed, or the file could not be imported.
    Error,
    /// The test skipped itself.
    Skipped,
    /// Our own list says not to run it.
    Deselected,
    /// It failed, as the list of known failures says.
    ExpectedFailure,
    /// It passed although the list of known failures says that it fails.
    UnexpectedPass,
    /// The process died: by a signal, or by an exit in the middle.
    Crashed,
    /// The supervisor ended it after its time.
    TimedOut,
    /// The supervisor ended it because its processes used more memory than they may.
    OutOfMemory,
    /// It was not started: no GPU, a shard is missing, the run was cut off.
    NotRun,
    /// The report's word for its end is unknown, so it is neither a pass nor a failure.
    Unknown,
}

impl TestOutcome {
    /// The word for tables and for JSON: `timed_out`.
    pub fn word(self) -> &'static str {
        match self {
            TestOutcome::Passed => "passed",
            TestOutcome::Failed => "failed",
            TestOutcome::Error => "error",
            TestOutcome::Skipped => "skipped",
            TestOutcome::Deselected => "deselected",
            TestOutcome::ExpectedFailure => "expected_failure",
            TestOutcome::UnexpectedPass => "unexpected_pass",
            TestOutcome::Crashed => "crashed",
            TestOutcome::TimedOut => "timed_out",
            TestOutcome::OutOfMemory => "out_of_memory",
            TestOutcome::NotRun => "not_run",
            TestOutcome::Unknown => "unknown",
        }
    }

    /// `true` if the test did not do what it should.
    pub fn is_bad(self) -> bool {
        use TestOutcome::{Crashed, Error, Failed, OutOfMemory, TimedOut};
        matches!(self, Failed | Error | Crashed | TimedOut | OutOfMemory)
    }

    /// `true` if the test passed, expected or not.
    pub fn is_pass(self) -> bool {
        matches!(self, TestOutcome::Passed | TestOutcome::UnexpectedPass)
    }

    /// `true` if nothing was tried: such an attempt says nothing against an earlier failure.
    pub fn tried_nothing(self) -> bool {
        matches!(self, TestOutcome::Skipped | TestOutcome::Deselected | TestOutcome::NotRun)
    }
}

/// A cause outside of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideCause {
    /// A disk or a quota is full.
    DiskFull,
    /// The GPU hung, was reset or has gone.
    GpuLost,
    /// The kernel ended processes to get memory.
    MemoryKiller,
    /// Names are not resolved, or there is no way to a machine.
    Network,
}

impl OutsideCause {
    /// For messages: `the disk is full`.
    pub fn words(self) -> &'static str {
        match self {
            Self::DiskFull => "the disk is full",
            Self::GpuLost => "the GPU was lost or reset",
            Self::MemoryKiller => "the kernel ended processes for want of memory",
            Self::Network => "the network does not work",
        }
    }
}

/// One try at a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestAttempt {
    /// Identity of the test: pytest's node id, `Suite.Case` of gtest, the name of a script.
    pub id: String,
    /// 1 for the first try; each further one ran in a fresh process.
    pub attempt: u32,
    pub outcome: TestOutcome,
    /// Duration in seconds, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Why it ended so, in a line: the assertion, the signal, the reason of a skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it printed and its traceback, at most 64 KiB, in valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The GPU it ran on, as [`TestRunFacts::gpus`] names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// What outside of the test made it fail, as far as that can be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<OutsideCause>,
    /// A list has the test in quarantine, so a pass of it does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quarantined: bool,
}

impl TestAttempt {
    /// An attempt that did not happen.
    pub fn not_run(id: &str, message: &str) -> TestAttempt {
        TestAttempt {
            id: id.to_owned(),
            attempt: 1,
            outcome: TestOutcome::NotRun,
            seconds: None,
            message: Some(message.to_owned()),
            output: None,
            gpu: None,
            cause: None,
            quarantined: false,
        }
    }
}

/// What was tested, where and with which lists: the first line of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TestRunFacts {
    /// Name of the run: unique in its folder.
    pub run: String,
    /// Name of the suite: `pytorch`, `smoke`, `rocblas`.
    pub suite: String,
    /// Where the tests come from: a commit, the SHA-256 of an sdist, or, of a folder in a checkout,
    /// `COMMIT:FOLDER/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The folder that they were run in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Which part of the whole this is, from 1.
    pub shard: u32,
    /// Number of parts of the whole.
    pub shards: u32,
    /// File name → SHA-256 of every wheel that was installed.
    #[serde(default)]
    pub wheels: BTreeMap<String, String>,
    /// File name → SHA-256 of every list of skips, disabled and slow tests.
    #[serde(default)]
    pub lists: BTreeMap<String, String>,
    /// Name → facts in words (`target`, `driver`, `partition`, `location`) of every GPU.
    #[serde(default)]
    pub gpus: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    pub machine: String,
    /// Start in RFC 3339.
    pub started: String,
    /// Options and names that left tests of the suite out: `-k nn`, ids of tests; empty for the
    /// whole suite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selection: Vec<String>,
    pub rocwheel: String,
}

impl TestRunFacts {
    /// GPU targets of the run, without features such as `:sramecc+`, which policies do not name.
    pub fn targets(&self) -> BTreeSet<String> {
        let targets = self.gpus.values().filter_map(|gpu| plain_target(gpu));
        targets.map(str::to_owned).collect()
    }
}

/// The target in the facts of a GPU, without its features.
pub(crate) fn plain_target(gpu: &BTreeMap<String, String>) -> Option<&str> {
    gpu.get("target")?.split(':').next()
}

/// All tests that a run collected, before shards divided them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeCollection {
    pub tests: u64,
    /// SHA-256 in hexadecimal of their sorted identities, each with a line feed behind it.
    pub sha256: String,
    /// The folder that pytest's identities start from, where it is one below
    /// [`TestRunFacts::directory`]: that of a project with settings of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

impl WholeCollection {
    /// That of identities in any order. `folder` is [`WholeCollection::folder`].
    pub fn of(ids: &[String], folder: Option<String>) -> WholeCollection {
        let mut sorted: Vec<&String> = ids.iter().collect();
        sorted.sort_unstable();
        let sha256 = sha256_of_ids(sorted.into_iter().map(String::as_str));
        WholeCollection { tests: ids.len() as u64, sha256, folder }
    }
}

/// SHA-256 in hexadecimal of sorted identities, each with a line feed behind it.
pub(crate) fn sha256_of_ids<'a>(sorted: impl Iterator<Item = &'a str>) -> String {
    let text: String = sorted.flat_map(|id| [id, "\n"]).collect();
    hexadecimal(&sha256(text.as_bytes()))
}

/// A line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TestEvent {
    /// The first line.
    Run(TestRunFacts),
    /// Tests that belong to this shard, before any runs. There may be several such lines.
    Collected {
        /// Their identities, in the order they run.
        ids: Vec<String>,
        /// The tests that all shards together have to have, in the first of these lines.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole: Option<WholeCollection>,
    },
    /// A test begins. Without an attempt after it, its process died in it.
    Started {
        id: String,
        /// Which try, from 1.
        attempt: u32,
    },
    /// A test ended.
    Attempt(TestAttempt),
    /// Something that is not about a test: a file that cannot be imported, a full disk.
    Problem {
        /// One sentence.
        message: String,
    },
    /// The last line; without it the run was cut off.
    End {
        /// Time in RFC 3339.
        finished: String,
        /// Every collected test has an outcome.
        complete: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_with_its_name() {
        let event = TestEvent::Attempt(TestAttempt {
            id: "test_nn.py::TestNN::test_linear".into(),
            attempt: 1,
            outcome: TestOutcome::TimedOut,
            seconds: Some(2.5),
            message: None,
            output: None,
            gpu: None,
            cause: None,
            quarantined: false,
        });
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(
            line,
            r#"{"event":"attempt","id":"test_nn.py::TestNN::test_linear","attempt":1,"outcome":"timed_out","seconds":2.5}"#
        );
        assert_eq!(serde_json::from_str::<TestEvent>(&line).unwrap(), event);
    }

    #[test]
    fn the_whole_does_not_depend_on_the_order() {
        let ids = ["b", "a"].map(str::to_owned);
        let found = WholeCollection::of(&ids, None);
        assert_eq!((found.tests, found.sha256), (2, hexadecimal(&sha256(b"a\nb\n"))));
        assert_eq!(WholeCollection::of(&["a".to_owned(), "b".to_owned()], None), WholeCollection::of(&ids, None));
        assert_ne!(WholeCollection::of(&["ab".to_owned()], None), WholeCollection::of(&ids, None));
    }
}
