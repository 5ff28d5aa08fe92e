//! Input: the facts of a run, or a report of another tool. Output: the job of which it is a try.
//!
//! A pass undoes a failure only if both are tries of one job: the same wheels and tests on the same
//! GPU target of the same machine. Elsewhere a pass says nothing about the failure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::outcome::{TestRunFacts, WholeCollection};

/// The facts that tries of one job have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum TestJob {
    /// A run of ours.
    Run {
        machine: String,
        targets: BTreeSet<String>,
        wheels: BTreeMap<String, String>,
        tests: TestsOrigin,
        /// The project below the origin, if its tests are named from there.
        folder: Option<String>,
    },
    /// A report of another tool. PyTorch's runner and others write the reports of all tries into
    /// one folder.
    Report {
        folder: PathBuf,
        host: Option<String>,
        /// The suite that the report itself names.
        suite: String,
    },
}

/// Where tests come from. Two projects may have tests of the same names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum TestsOrigin {
    /// The source that a run names.
    Source(String),
    /// The folder that a run without a source ran in; empty for an old run, which names none.
    Directory(String),
}

impl TestJob {
    pub(super) fn of_run(facts: &TestRunFacts, collected: Option<&WholeCollection>) -> TestJob {
        TestJob::Run {
            machine: facts.machine.clone(),
            targets: facts.targets(),
            wheels: facts.wheels.clone(),
            tests: match (&facts.source, &facts.directory) {
                (Some(source), _) => TestsOrigin::Source(source.clone()),
                (None, directory) => TestsOrigin::Directory(directory.clone().unwrap_or_default()),
            },
            folder: collected.and_then(|whole| whole.folder.clone()),
        }
    }

    /// The job on any machine: a test that did not run on one of them has run if it did on another
    /// one, since what never began has not failed.
    pub(super) fn anywhere(&self) -> TestJob {
        let mut job = self.clone();
        if let TestJob::Run { machine, .. } = &mut job {
            machine.clear();
        }
        job
    }
}
