//! Input: paths, before and after the runner of tests has run. Output: its reports. Those that were
//! there before are not read; tests that only they have are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rocwheel_progress::{Reporter, counted};

use crate::census::named;
use crate::discover::{FoundReports, ReportSource};
use crate::model::{ReportForm, ReportProblem, TestReport};
use crate::read::read_found;
use crate::{ReportError, ReportOptions};

/// How much earlier than the clock says a file may be dated: the kernel counts in 4 ms, FAT in 2 s.
const GRANULARITY: Duration = Duration::from_secs(2);

/// The reports that were there before the runner began.
#[derive(Debug, Clone)]
pub struct EarlierReports {
    began: SystemTime,
    files: BTreeMap<PathBuf, FileState>,
}

/// What changes when a file is written again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileState {
    modified: SystemTime,
    size: u64,
}

impl FileState {
    fn of(path: &Path) -> io::Result<FileState> {
        let metadata = fs_err::metadata(path)?;
        Ok(FileState { modified: metadata.modified()?, size: metadata.len() })
    }
}

impl EarlierReports {
    /// Looks for them. A path that does not exist yet has none.
    pub fn find(paths: &[PathBuf]) -> EarlierReports {
        let began = SystemTime::now();
        let mut found = FoundReports::default();
        for path in paths {
            // What is wrong with old files and folders does not matter.
            let _ = found.search(path);
        }
        let files = found.sources.into_iter();
        let files = files.filter_map(|source| Some((FileState::of(&source.path).ok()?, source.path)));
        EarlierReports { began, files: files.map(|(state, path)| (path, state)).collect() }
    }

    /// `true` for a file that the runner did not write: it has not changed, or it is dated before
    /// the start, as a copy that keeps its time.
    fn has(&self, path: &Path) -> bool {
        let Ok(state) = FileState::of(path) else { return false };
        self.files.get(path) == Some(&state) || state.modified + GRANULARITY < self.began
    }
}

/// Reads the reports in `paths` that were written since `earlier` was made.
///
/// A path that does not exist is a problem of the report, because the runner should have written
/// it.
pub fn read_fresh_reports(
    paths: &[PathBuf],
    earlier: &EarlierReports,
    options: &ReportOptions,
    reporter: &dyn Reporter,
) -> Result<TestReport, ReportError> {
    let mut found = FoundReports::default();
    for path in paths {
        match found.search(path) {
            Err(ReportError::Missing { path }) => {
                found.lost(&path, format!("the runner wrote no `{}`", path.display()));
            }
            other => other?,
        }
    }
    found.name_programs();
    let (old, new): (Vec<ReportSource>, Vec<ReportSource>) =
        found.sources.into_iter().partition(|source| earlier.has(&source.path));
    let mut report = read_found(FoundReports { sources: new, problems: found.problems }, options, reporter)?;
    if !old.is_empty() {
        let old = read_found(FoundReports { sources: old, problems: Vec::new() }, options, reporter)?;
        report.compare_with_old(&old);
    }
    Ok(report)
}

impl TestReport {
    /// Reports old files, and the tests that no new one has.
    fn compare_with_old(&mut self, old: &TestReport) {
        let present: BTreeSet<(&str, &str)> = self.tests.iter().map(|test| (&*test.suite, test.id.as_str())).collect();
        let mut absent: BTreeMap<&Path, Vec<&str>> = old.runs.iter().map(|run| (run.path.as_path(), vec![])).collect();
        for test in old.tests.iter().filter(|test| !present.contains(&(&*test.suite, test.id.as_str()))) {
            let runs: BTreeSet<u32> = test.attempts.iter().map(|attempt| attempt.run).collect();
            for run in runs.into_iter().filter_map(|run| old.runs.get(run as usize)) {
                absent.entry(&run.path).or_default().push(&test.id);
            }
        }
        let mut damaged: BTreeSet<&Path> =
            old.problems.iter().filter(|problem| problem.loses_results).filter_map(|one| one.path.as_deref()).collect();
        // A run of ours that was cut off says at its beginning which tests it has.
        for run in old.runs.iter().filter(|run| run.form == ReportForm::Events && run.attempts > 0) {
            damaged.remove(run.path.as_path());
        }
        for path in damaged.iter().filter(|path| path.is_file()) {
            absent.entry(path).or_default();
        }
        let mut problems = Vec::new();
        for (path, ids) in absent {
            let begin = format!("`{}` is older than the start of the runner, and is not read", path.display());
            let (end, loses_results) = if !ids.is_empty() {
                let tests = counted(ids.len() as u64, "test");
                (format!("; no new report has {tests} of it: {}", named(&ids)), true)
            } else if damaged.contains(path) {
                ("; it is damaged, so whether a new report has its tests cannot be told".to_owned(), true)
            } else {
                ("; new reports have all of its tests".to_owned(), false)
            };
            let message = format!("{begin}{end}");
            problems.push(ReportProblem { path: Some(path.to_owned()), message, loses_results });
        }
        self.problems.extend(problems);
    }
}
