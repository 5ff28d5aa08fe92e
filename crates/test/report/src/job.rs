//! Input: the facts of a run, or a report of another tool. Output: the job of which it is a try.
//!
//! A pass undoes a failure only if both are tries of one job: the same wheels and tests on the same
//! GPU target of the same machine. Elsewhere a pass says nothing about the failure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::discover::ReportSource;
use crate::junit_dialect::dotted_folder;
use crate::outcome::{TestRunFacts, WholeCollection};

/// The facts that tries of one job have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TestJob {
    /// A run of ours.
    Run {
        machine: String,
        targets: BTreeSet<String>,
        wheels: BTreeMap<String, String>,
        tests: TestsOrigin,
        /// The project below the origin, if its tests are named from there.
        folder: Option<String>,
    },
    /// A report of another tool.
    Report {
        tries: TriesOf,
        host: Option<String>,
        /// The suite that the report itself names.
        suite: String,
    },
}

/// Which reports of another tool may be tries at the same tests. A retry has to be stated: two
/// files in a folder are those of two configurations as often as those of two tries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TriesOf {
    /// This report alone.
    Report(PathBuf),
    /// The folder in which PyTorch's runner writes a report for each process of a file of tests.
    TestFile(PathBuf),
    /// A folder of which the user says that it has tries.
    Folder {
        folder: PathBuf,
        /// The name of the report without the number of a try.
        name: String,
        /// What the report says of its origin: files and properties.
        origin: BTreeSet<String>,
    },
}

impl TriesOf {
    pub(crate) fn of(source: &ReportSource, origin: BTreeSet<String>, retries_in_folder: bool) -> TriesOf {
        let folder = source.folder();
        if dotted_folder(&source.path).is_some() {
            TriesOf::TestFile(folder)
        } else if retries_in_folder {
            let stem = source.path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
            TriesOf::Folder { folder, name: without_counter(&stem).to_owned(), origin }
        } else {
            TriesOf::Report(source.path.clone())
        }
    }
}

/// A name without the number of a try: `report-2`, `report.attempt2`, `report-rerun`. Numbers of
/// versions and of GPU targets stay.
fn without_counter(name: &str) -> &str {
    let Some((rest, last)) = name.rsplit_once(['-', '_', '.', ' ']) else { return name };
    let word = last.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let digits = last.len() - word.len();
    let is_word = ["attempt", "try", "retry", "rerun", "run"].contains(&word.to_ascii_lowercase().as_str());
    let is_number = word.is_empty() && digits <= 2 && !rest.ends_with(|letter: char| letter.is_ascii_digit());
    match is_word || is_number {
        // `report-attempt-2`
        true if is_number && rest != without_counter(rest) => without_counter(rest),
        true => rest,
        false => name,
    }
}

/// Where tests come from. Two projects may have tests of the same names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TestsOrigin {
    /// The source that a run names.
    Source(String),
    /// The folder that a run without a source ran in; empty for an old run, which names none.
    Directory(String),
}

impl TestJob {
    pub(crate) fn of_run(facts: &TestRunFacts, collected: Option<&WholeCollection>) -> TestJob {
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
    pub(crate) fn anywhere(&self) -> TestJob {
        let mut job = self.clone();
        if let TestJob::Run { machine, .. } = &mut job {
            machine.clear();
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_of_a_try_is_left_out() {
        for (name, expected) in [
            ("report-2", "report"),
            ("report.attempt3", "report"),
            ("report-attempt-2", "report"),
            ("report-rerun", "report"),
            ("report", "report"),
            ("gfx942", "gfx942"),
            ("gfx-942", "gfx-942"),
            ("junit-3.12", "junit-3.12"),
            ("unit-x", "unit-x"),
        ] {
            assert_eq!(without_counter(name), expected);
        }
    }
}
