//! Runs Slurm's own programs: sbatch, squeue, scancel, sacct, scontrol. All knowledge about Slurm
//! comes from their output.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rocwheel_progress::{Exit, Failure, Reporter};
use serde::Serialize;

use rocwheel_process::{FinishedProcess, NotStarted, ProcessEnd, Program};

use crate::error;

/// Time limit for a call: a busy controller answers late.
const PATIENCE: Duration = Duration::from_mins(3);
/// Default `MaxArraySize`, for a Slurm that does not print it (slurm.conf(5)).
const USUAL_ARRAY: usize = 1001;
/// Maximum number of jobs in one call.
const MOST_JOBS: usize = 500;

pub struct Client<'a> {
    /// The environment of the programs.
    pub environment: &'a BTreeMap<String, String>,
    /// Reports the user's wish to stop.
    pub reporter: &'a dyn Reporter,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Queued {
    /// Slurm's job number of the array.
    pub job: u64,
    /// Number of the task in the array.
    pub task: usize,
    /// Slurm's name of the state: `PENDING`, `RUNNING`, `COMPLETED`, `NODE_FAIL`, ….
    pub state: String,
    /// The reason why it waits.
    pub reason: String,
    /// Name of the node that runs it.
    pub node: String,
}

impl Queued {
    /// `true` if it runs or will run.
    pub fn is_active(&self) -> bool {
        const OVER: [&str; 10] = [
            "COMPLETED",
            "FAILED",
            "CANCELLED",
            "TIMEOUT",
            "NODE_FAIL",
            "OUT_OF_MEMORY",
            "BOOT_FAIL",
            "DEADLINE",
            "PREEMPTED",
            "REVOKED",
        ];
        !OVER.iter().any(|word| self.state.starts_with(word))
    }
}

impl Client<'_> {
    fn call(&self, words: &[String]) -> Result<FinishedProcess, Failure> {
        let program = Program {
            words: words.to_vec(),
            directory: Path::new("/"),
            environment: self.environment,
            timeout: PATIENCE,
            deadline: None,
        };
        match rocwheel_process::run(&program, None, self.reporter) {
            Err(rocwheel_process::Error::NotStarted(NotStarted { program, .. })) => {
                Err(Failure::message(format!("{program} says: it is not on this machine"))
                    .with_hint("run this where jobs are submitted, or build here with `--executor here`"))
            }
            other => Ok(other?),
        }
    }

    /// Runs one of Slurm's programs; a failure is an error.
    fn ask(&self, words: &[String]) -> Result<String, Failure> {
        let finished = self.call(words)?;
        if finished.ended == ProcessEnd::Code(0) {
            return Ok(finished.said);
        }
        Err(refused(&words[0], &finished))
    }

    /// The upper limit of task numbers, exclusive (`MaxArraySize`).
    pub fn largest_array(&self) -> Result<usize, Failure> {
        let said = self.ask(&["scontrol", "show", "config"].map(str::to_owned))?;
        let value = said.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == "MaxArraySize").then(|| value.trim().parse().ok())?
        });
        Ok(value.unwrap_or(USUAL_ARRAY).max(1))
    }

    /// Submits a script and returns the job number.
    pub fn submit(&self, script: &Path, options: &[String]) -> Result<u64, Failure> {
        let mut words = vec!["sbatch".to_owned(), "--parsable".to_owned()];
        words.extend(options.iter().cloned());
        words.push(script.to_string_lossy().into_owned());
        let said = self.ask(&words)?;
        // `123` or `123;cluster`, after any output of the site's plugins.
        let number = said.lines().rev().find_map(|line| line.split(';').next()?.trim().parse().ok());
        number.ok_or_else(|| Failure::message(format!("sbatch says: it says no number of a job: {}", said.trim())))
    }

    /// The tasks of arrays that Slurm still knows.
    /// A job that Slurm has forgotten is not an error.
    pub fn queue(&self, jobs: &[u64]) -> Result<Vec<Queued>, Failure> {
        let mut found = Vec::new();
        for some in jobs.chunks(MOST_JOBS) {
            let list: Vec<String> = some.iter().map(u64::to_string).collect();
            let words = [
                "squeue",
                "--noheader",
                "--array",
                "--states=all",
                "--format=%F|%K|%T|%r|%N",
                "--jobs",
                &list.join(","),
            ];
            let finished = self.call(&words.map(str::to_owned))?;
            let is_forgotten = finished.said.contains("Invalid job id");
            if finished.ended != ProcessEnd::Code(0) && !is_forgotten {
                return Err(refused("squeue", &finished));
            }
            found.extend(finished.said.lines().filter_map(queued));
        }
        Ok(found)
    }

    /// The final states of tasks that Slurm's queue has forgotten, from its accounting: task →
    /// state. Empty without accounting.
    pub fn accounting(&self, jobs: &[u64]) -> BTreeMap<(u64, usize), String> {
        let mut found = BTreeMap::new();
        for some in jobs.chunks(MOST_JOBS) {
            let list: Vec<String> = some.iter().map(u64::to_string).collect();
            let words = [
                "sacct",
                "--noheader",
                "--parsable2",
                "--allocations",
                "--format=JobID,State",
                "--jobs",
                &list.join(","),
            ];
            let Ok(finished) = self.call(&words.map(str::to_owned)) else { continue };
            if finished.ended != ProcessEnd::Code(0) {
                continue;
            }
            for line in finished.said.lines() {
                let Some((id, state)) = line.split_once('|') else { continue };
                let Some((job, task)) = id.split_once('_') else { continue };
                if let (Ok(job), Ok(task)) = (job.parse(), task.parse()) {
                    found.insert((job, task), state.to_owned());
                }
            }
        }
        found
    }

    /// Cancels arrays. Those that have ended already are ignored.
    pub fn cancel(&self, jobs: &[u64]) -> Result<(), Failure> {
        for some in jobs.chunks(MOST_JOBS) {
            let words: Vec<String> =
                ["scancel".to_owned()].into_iter().chain(some.iter().map(u64::to_string)).collect();
            let finished = self.call(&words)?;
            let is_over =
                finished.said.contains("Invalid job id") || finished.said.contains("already completing or completed");
            if finished.ended != ProcessEnd::Code(0) && !is_over {
                return Err(refused("scancel", &finished));
            }
        }
        Ok(())
    }
}

fn queued(line: &str) -> Option<Queued> {
    let mut fields = line.split('|');
    let (job, task, state) = (fields.next()?.trim(), fields.next()?.trim(), fields.next()?.trim());
    let (reason, node) = (fields.next()?.trim(), fields.next().unwrap_or("").trim());
    Some(Queued {
        job: job.parse().ok()?,
        task: task.parse().ok()?,
        state: state.to_owned(),
        reason: if reason == "None" { String::new() } else { reason.to_owned() },
        node: if node == "(null)" { String::new() } else { node.to_owned() },
    })
}

/// The error with Slurm's own message, and its usual meaning as the hint.
fn refused(program: &str, finished: &FinishedProcess) -> Failure {
    const KNOWN: [(&str, &str, bool); 10] = [
        ("munge", "the service munge has to run on this machine, with the key of the cluster", false),
        (
            "Protocol authentication error",
            "the service munge has to run on this machine, with the key of the cluster",
            false,
        ),
        ("invalid partition", "`sinfo` lists the partitions; `--sbatch-option=--partition=NAME` names one", false),
        (
            "Invalid account",
            "`--sbatch-option=--account=NAME` names one; `sacctmgr show associations` lists yours",
            false,
        ),
        (
            "node configuration is not available",
            "no node has so much; ask for less, as with `--sbatch-option=--cpus-per-task=8`",
            false,
        ),
        (
            "Invalid job array",
            "the cluster takes smaller arrays (MaxArraySize, MaxJobCount): build fewer cells at once",
            false,
        ),
        (
            "QOSMaxSubmitJob",
            "the cluster takes fewer jobs of one user at once: build fewer cells at once, or wait for those that run",
            false,
        ),
        (
            "violates accounting/QOS policy",
            "the cluster's limits for you are lower: `--sbatch-option` changes what is asked for",
            false,
        ),
        ("Unable to contact slurm controller", "the cluster does not answer: try again later", true),
        ("timed out", "the cluster does not answer: try again later", true),
    ];
    let lines = finished.tail(3);
    let said = if lines.is_empty() { "nothing".to_owned() } else { lines.join("; ") };
    let lower = said.to_lowercase();
    let known = KNOWN.iter().find(|(words, ..)| lower.contains(&words.to_lowercase()));
    let is_late = matches!(finished.ended, ProcessEnd::TimedOut);
    let said = if is_late { "it did not answer in time" } else { &said };
    let failure = error::with_optional_hint(format!("{program} says: {said}"), known.map(|(_, hint, _)| *hint));
    let is_temporary = is_late || known.is_some_and(|(.., temporary)| *temporary);
    if is_temporary { failure.with_exit(Exit::TryAgain) } else { failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_as_squeue_prints_them() {
        let task = queued("17|4|PENDING|Dependency|").unwrap();
        assert_eq!((task.job, task.task, task.reason.as_str(), task.is_active()), (17, 4, "Dependency", true));
        let task = queued("17|3|RUNNING|None|n2").unwrap();
        assert_eq!((task.node.as_str(), task.reason.as_str()), ("n2", ""));
        for over in ["CANCELLED", "PREEMPTED"] {
            assert!(!queued(&format!("17|3|{over}|None|n2")).unwrap().is_active());
        }
        assert_eq!(queued("slurm_load_jobs error: Invalid job id specified"), None);
    }

    #[test]
    fn slurms_own_words_are_told_with_what_they_mean() {
        let finished = |said: &str| FinishedProcess { ended: ProcessEnd::Code(1), said: said.to_owned() };
        let error = refused(
            "sbatch",
            &finished(
                "sbatch: error: invalid partition specified: gpu\nsbatch: error: Batch job submission failed: Invalid partition name specified\n",
            ),
        );
        assert!(
            error.to_string().starts_with("sbatch says: sbatch: error: invalid partition specified: gpu"),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("sinfo"));
        let error = refused("sbatch", &finished("Unable to contact slurm controller (connect failure)"));
        assert_eq!(error.exit(), rocwheel_progress::Exit::TryAgain);
        assert_eq!(refused("sbatch", &finished("")).to_string(), "sbatch says: nothing");
    }
}
