//! Input: a job, the recipes of a command line, or a plan, and the place to run them. Output: the
//! outcome of each.
//!
//! [`run`] takes one job after the other. Jobs of recipes are made when it is their turn, because
//! each may be built against the results of those before it. Jobs of a plan are in its folder, with
//! the record of every attempt. A failure does not stop jobs that do not need its result. Slurm
//! receives a plan as a whole: its tasks are runs of single cells.

mod cells;
mod recipes;
pub mod slurm;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rocwheel_index::Fetch;
use rocwheel_progress::{Exit, Failure, with_causes};
use serde::Serialize;

use crate::containers::Containers;
use crate::engine::ContainerJob;
use crate::error;
use crate::execute::{self, JobOutcome, JobPlace, Listener, StageSelection};
use crate::job_maker::JobMaker;
use crate::preflight::Machine;
use crate::slurm::Submitted;
use cells::Cells;
use recipes::Recipes;
use rocwheel_recipe::Job;
use rocwheel_recipe::plan::PlanFolder;
use slurm::Cluster;

#[derive(Debug, Clone, Copy)]
pub enum Work<'a> {
    /// A job from a file.
    Job(&'a Job),
    /// Recipes without a plan: one combination each, or a few backends.
    Recipes(&'a JobMaker),
    /// A plan, or the named cells of it. No names: all cells that are to be built.
    Plan(&'a PlanFolder, &'a [String]),
}

/// The place and the settings with which jobs run.
#[derive(Debug)]
pub struct Executors {
    /// The place on this machine. Deadline, number of compilers and machine are set when a job
    /// starts.
    pub place: JobPlace,
    pub selection: StageSelection,
    /// The containers; `None`: all jobs run on this machine.
    pub containers: Option<Rc<Containers>>,
    /// `true` if this process runs in a container of the job's image.
    pub is_inside: bool,
    /// Number of parallel compilers; `None`: as many as memory and cores allow.
    pub compilers: Option<u16>,
    /// `false` if the disk is not checked beforehand.
    pub preflight: bool,
    /// After this time jobs stop, and the next run continues.
    pub time_limit: Option<Duration>,
    /// Name of this machine, for the records of a plan.
    pub host: String,
    /// Slurm; `None`: plans run on this process's machine.
    pub cluster: Option<Cluster>,
    /// Asks the index of ROCm what it has, before wheels are installed for the user (`--into`).
    pub index: Option<IndexClient>,
}

/// A client for package indexes.
pub struct IndexClient(pub Box<dyn Fetch>);

impl fmt::Debug for IndexClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("IndexClient")
    }
}

/// The outcome of a job, as a row of the summary.
#[derive(Debug, Serialize)]
pub struct JobResult {
    /// A name for messages.
    pub title: String,
    /// Key of the job; empty if no job was made.
    pub key: String,
    /// The outcome; `None`: it failed.
    #[serde(flatten)]
    pub outcome: Option<JobOutcome>,
    /// The error and its causes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The outcome of all work.
#[derive(Debug, Default)]
pub struct States {
    /// The jobs that were started, in order.
    pub results: Vec<JobResult>,
    /// Exit codes of the jobs, and of those that did not start.
    pub exits: Vec<Exit>,
    /// `true` if the user stopped the run of a plan.
    pub is_interrupted: bool,
    /// The tasks that Slurm has accepted; `None`: nothing was submitted.
    pub submitted: Option<Submitted>,
}

impl States {
    /// The exit code of all jobs together: the worst.
    pub fn exit(&self) -> Exit {
        if self.is_interrupted { Exit::Interrupted } else { worst(&self.exits) }
    }
}

/// The worst of several exit codes: a failure, then a temporary failure, then an incomplete result.
pub fn worst(exits: &[Exit]) -> Exit {
    match exits.iter().find(|exit| ![Exit::Done, Exit::Partial, Exit::TryAgain].contains(*exit)) {
        Some(Exit::Usage) => Exit::Usage,
        Some(_) => Exit::Failed,
        None if exits.contains(&Exit::TryAgain) => Exit::TryAgain,
        None if exits.contains(&Exit::Partial) => Exit::Partial,
        None => Exit::Done,
    }
}

/// Runs the work.
/// A failed single job is an error. Otherwise only what concerns all jobs is one, such as a plan
/// that cannot be read: failed jobs are reported to [`Listener::failed`], and the others continue.
pub fn run(work: Work<'_>, executors: &Executors, listener: &dyn Listener) -> Result<States, Failure> {
    let runner = Runner::new(executors, listener);
    match work {
        Work::Job(job) => {
            let (result, exit) = runner.job(job)?;
            Ok(States { results: vec![result], exits: vec![exit], ..States::default() })
        }
        Work::Recipes(recipes) => runner.walk(&mut Recipes::new(recipes, listener)?),
        Work::Plan(folder, named) => match &executors.cluster {
            Some(cluster) => slurm::hand_over(folder, named, cluster, &runner),
            None => runner.walk(&mut Cells::new(folder, named)?),
        },
    }
}

/// Jobs in build order.
trait Queue {
    /// The item that a turn works on.
    type Turn;

    /// The next turn; `None` if nothing is left or the time limit is reached.
    fn next(&mut self, runner: &Runner<'_>, states: &mut States) -> Result<Option<Self::Turn>, Failure>;

    /// Makes the job of a turn and runs it.
    fn build(&mut self, turn: &Self::Turn, runner: &Runner<'_>) -> Result<Turned, Failure>;

    /// Records a failure. Returns the error with the row of the summary, or fails with it if the
    /// queue cannot continue.
    fn failed(&mut self, turn: &Self::Turn, error: Failure) -> Result<(Failure, Option<JobResult>), Failure>;
}

struct Turned {
    result: Option<JobResult>,
    exit: Exit,
    /// `true` if the following turns do not begin.
    is_last: bool,
}

struct Runner<'a> {
    executors: &'a Executors,
    listener: &'a dyn Listener,
    deadline: Option<Instant>,
}

impl<'a> Runner<'a> {
    fn new(executors: &'a Executors, listener: &'a dyn Listener) -> Runner<'a> {
        let deadline = executors.time_limit.map(|limit| Instant::now() + limit);
        Runner { executors, listener, deadline }
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn walk<Q: Queue>(&self, queue: &mut Q) -> Result<States, Failure> {
        let mut states = States::default();
        while let Some(turn) = queue.next(self, &mut states)? {
            match queue.build(&turn, self) {
                Ok(Turned { result, exit, is_last }) => {
                    states.results.extend(result);
                    states.exits.push(exit);
                    if is_last {
                        break;
                    }
                }
                Err(error) => {
                    let (error, result) = queue.failed(&turn, error)?;
                    let exit = error.exit();
                    self.listener.failed(error);
                    if exit == Exit::Interrupted {
                        states.is_interrupted = true;
                        break;
                    }
                    states.results.extend(result);
                    states.exits.push(exit);
                }
            }
        }
        Ok(states)
    }

    /// Runs a job and installs its wheels into the user's environment, if there is one.
    fn job(&self, job: &Job) -> Result<(JobResult, Exit), Failure> {
        let job = &*self.settled(job)?;
        let outcome = self.execute(job, &self.executors.place, self.listener)?;
        let exit = outcome.exit();
        self.install(job, &outcome)?;
        Ok((JobResult { title: job.title(), key: job.key(), outcome: Some(outcome), error: None, hint: None }, exit))
    }

    /// Installs the wheels of a job (`--into`), together with those that it was built with.
    fn install(&self, job: &Job, outcome: &JobOutcome) -> Result<(), Failure> {
        let place = &self.executors.place;
        let made = outcome.wheels(&place.output);
        let (Some(into), Some(index), [_, ..]) = (&place.into, &self.executors.index, &made[..]) else {
            return Ok(());
        };
        let wheels: Vec<_> = job.with.iter().chain(&made).map(|input| input.path.clone()).collect();
        let environment = execute::UserEnvironment::open(into, place, self.listener.reporter())?;
        environment.install(&wheels, &job.rocm, &*index.0)?;
        self.listener.note(&format!("installed {} into `{}`", job.title(), into.display()));
        Ok(())
    }

    fn containers_of(&self, job: &Job) -> Option<&Containers> {
        self.executors.containers.as_deref().filter(|containers| containers.take_job(job))
    }

    /// The job with the exact image that it runs in.
    fn settled<'b>(&self, job: &'b Job) -> Result<Cow<'b, Job>, Failure> {
        match self.containers_of(job) {
            Some(containers) => containers.settled(job, self.listener),
            None => Ok(Cow::Borrowed(job)),
        }
    }

    /// Runs a job in a container or on this machine. `listener` receives the events of its stages.
    fn execute(&self, job: &Job, place: &JobPlace, listener: &dyn Listener) -> Result<JobOutcome, Failure> {
        let executors = self.executors;
        match (self.containers_of(job), &job.image) {
            (Some(containers), _) => {
                let place = JobPlace { deadline: self.deadline, ..place.clone() };
                let order = ContainerJob {
                    job,
                    place: &place,
                    selection: &executors.selection,
                    jobs: executors.compilers,
                    preflight: executors.preflight,
                    talk: self.listener.talk(),
                };
                containers.run(&order, self.listener)
            }
            (None, Some(image)) if !executors.is_inside => Err(error::request_with(
                format!("{} is for the image `{}`, and jobs run here", job.title(), image.name),
                "say `--executor docker` or `podman`; `--inside` when this is a container of it",
            )),
            (None, _) => self.run_here(job, place, listener),
        }
    }

    fn run_here(&self, job: &Job, place: &JobPlace, listener: &dyn Listener) -> Result<JobOutcome, Failure> {
        let executors = self.executors;
        let machine = Machine::look(Path::new("/"), &place.work);
        let jobs = machine.jobs(&job.recipe, executors.compilers);
        listener.detail(&format!("{}: {} at a time ({})", job.title(), jobs.count, jobs.reason));
        let machine = executors.preflight.then_some(machine);
        let place = JobPlace { jobs: jobs.count, deadline: self.deadline, machine, ..place.clone() };
        let outcome = execute::run(job, &place, &executors.selection, listener, listener.reporter())?;
        if let (JobOutcome::Built { .. } | JobOutcome::Unchanged { .. }, Some(note)) =
            (&outcome, job.recipe.run_time_note())
        {
            listener.note(&format!("{} {note}", job.title()));
        }
        Ok(outcome)
    }
}

/// The row of the summary for a job that failed before or while it ran.
fn failed_job(title: &str, error: &Failure) -> JobResult {
    JobResult {
        title: title.to_owned(),
        key: String::new(),
        outcome: None,
        error: Some(with_causes(error)),
        hint: error.hint().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_exit_code_counts() {
        assert_eq!(worst(&[]), Exit::Done);
        assert_eq!(worst(&[Exit::Done, Exit::Partial, Exit::TryAgain]), Exit::TryAgain);
        assert_eq!(worst(&[Exit::Partial, Exit::Done]), Exit::Partial);
        assert_eq!(worst(&[Exit::TryAgain, Exit::Usage]), Exit::Usage);
        assert_eq!(worst(&[Exit::Partial, Exit::Interrupted]), Exit::Failed);
    }
}
