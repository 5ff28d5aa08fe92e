//! The folder of a plan: the plan, its jobs, and the records of its cells.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rayon::prelude::*;
use rocwheel_progress::Reporter;

use super::record::{Attempt, End, Ended, Record};
use super::{Plan, PlannedCell, SCHEMA, SkipReason};
use crate::error::Error;
use crate::job::Job;
use crate::shared_files::{self, replace};
use crate::toml_text::from_toml;

const PLAN: &str = "plan.toml";
const JOBS: &str = "jobs";
const STATE: &str = "state";
/// Folder of plans below the folder of outputs.
const PLANS: &str = ".rocwheel/plans";
/// Interval at which a lock is tried that another process holds.
const TICK: Duration = Duration::from_millis(200);

/// Number of checks of the locks of running cells, and the time between two checks.
const LOOKS: u32 = 16;
const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

#[derive(Debug, Clone)]
pub struct PlanFolder {
    path: PathBuf,
    pub plan: Plan,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Seen<'a> {
    pub cell: &'a PlannedCell,
    pub state: State,
    /// All attempts, in order.
    pub attempts: Vec<Attempt>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// The cell is not to be built.
    LeftOut(SkipReason),
    /// No attempt has begun.
    Waiting,
    /// A process runs the cell.
    Running,
    /// The process that ran the cell has ended without a record: it was killed, or the machine
    /// failed.
    Lost,
    /// The last attempt ended.
    Ended(Ended),
}

/// A cell that this process has locked until the value is dropped.
#[derive(Debug)]
pub struct Taken {
    path: PathBuf,
    record: Record,
    began: Instant,
    _lock: rocwheel_system::Lock,
}

impl PlanFolder {
    /// Writes a plan below its folder of outputs. Equal plans share one folder.
    pub fn create(plan: Plan, jobs: &[Job]) -> Result<PlanFolder, Error> {
        let place = plan.output.join(PLANS).join(plan.key());
        Self::create_at(&place, plan, jobs)
    }

    /// Writes a plan into the given folder.
    pub fn create_at(place: &Path, plan: Plan, jobs: &[Job]) -> Result<PlanFolder, Error> {
        let place = std::path::absolute(place)?;
        if place.join(PLAN).is_file() {
            let there = Self::open(&place)?;
            if there.plan.key() != plan.key() {
                return Err(Error::request_with(
                    format!("`{}` holds another plan", place.display()),
                    "name another folder, or remove that one",
                ));
            }
            // Sources and ROCm may have moved since the last time, and other wheels may exist. The
            // records of the cells stay.
            write_jobs(&place, &plan, jobs)?;
            // The file is written even if nothing changes: its time shows which plan was used last.
            replace(&place.join(PLAN), text(&plan)?.as_bytes())?;
            return Ok(PlanFolder { path: place, plan });
        }
        let parent = place.parent().unwrap_or(Path::new("/"));
        fs_err::create_dir_all(parent)?;
        let staged = tempfile::Builder::new().prefix(".plan-").tempdir_in(parent)?;
        rocwheel_system::set_mode(staged.path(), 0o755)?;
        for folder in [JOBS, STATE] {
            fs_err::create_dir(staged.path().join(folder))?;
        }
        write_jobs(staged.path(), &plan, jobs)?;
        fs_err::write(staged.path().join(PLAN), text(&plan)?)?;
        match rocwheel_system::rename(staged.path(), &place) {
            Ok(()) => drop(staged.keep()),
            // Another run has just written the same plan.
            Err(_) if place.join(PLAN).is_file() => return Self::open(&place),
            Err(error) => return Err(error.into()),
        }
        Ok(PlanFolder { path: place, plan })
    }

    /// Opens the folder of an existing plan.
    pub fn open(path: &Path) -> Result<PlanFolder, Error> {
        let path = std::path::absolute(path)?;
        let file = path.join(PLAN);
        let shown = file.to_string_lossy().into_owned();
        let plan: Plan = from_toml(&fs_err::read_to_string(&file)?, &shown)?;
        if plan.schema != SCHEMA {
            let reason = format!("its schema is {}, and this program knows {SCHEMA}", plan.schema);
            return Err(Error::malformed(&shown, reason));
        }
        Ok(PlanFolder { path, plan })
    }

    /// The plans of a folder: the folder itself, or the plans in a folder of outputs, the last used
    /// first.
    pub fn all_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
        if folder.join(PLAN).is_file() {
            return Ok(vec![folder.to_owned()]);
        }
        let mut found = Vec::new();
        if let Ok(entries) = fs_err::read_dir(folder.join(PLANS)) {
            for entry in entries {
                let path = entry?.path();
                if let Ok(metadata) = path.join(PLAN).metadata() {
                    found.push((metadata.modified()?, path));
                }
            }
        }
        if found.is_empty() {
            let reason = if folder.is_dir() {
                format!("there is no plan in `{}`", folder.display())
            } else {
                format!("there is no folder `{}`", folder.display())
            };
            return Err(Error::request_with(reason, "name the folder of outputs of a build with several cells"));
        }
        found.sort_by(|one, other| other.cmp(one));
        Ok(found.into_iter().map(|(_, path)| path).collect())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn job_file(&self, cell: &PlannedCell) -> PathBuf {
        self.path.join(JOBS).join(format!("{}.json", cell.id))
    }

    pub fn output(&self, cell: &PlannedCell) -> PathBuf {
        self.plan.output.join(&cell.folder)
    }

    /// The job of a cell, with the wheels of the cells before it. The inner `Err` names a cell that
    /// has not been built.
    pub fn job(&self, cell: &PlannedCell) -> Result<Result<Job, String>, Error> {
        let mut job = Job::read(&self.job_file(cell))?;
        for id in &cell.needs {
            let before = self.plan.cell(id)?;
            let record = self.record(before)?;
            match record.attempts.last().and_then(|attempt| attempt.end.as_ref()) {
                Some(end) if end.status.is_there() => {
                    let outputs = if before.installs { &end.outputs[..] } else { &[] };
                    job.with.extend(before.inputs(&self.plan, outputs));
                }
                _ => return Ok(Err(before.title.clone())),
            }
        }
        Ok(Ok(job))
    }

    /// Locks a cell for an attempt. If another process has it, waits at most `patience`, but at
    /// least a second.
    /// Fails with [`Error::Locked`] if the lock is not released in time.
    pub fn take(&self, cell: &PlannedCell, patience: Duration, reporter: &dyn Reporter) -> Result<Taken, Error> {
        let path = self.path.join(STATE).join(format!("{}.json", cell.id));
        let began = Instant::now();
        let lock = loop {
            if let Some(lock) = shared_files::lock(&path.with_extension("lock"))? {
                break lock;
            }
            reporter.check()?;
            // Status checks hold the lock for a moment.
            if began.elapsed() >= patience.max(TICK * 5) {
                return Err(Error::Locked { job: cell.title.clone() });
            }
            thread::sleep(TICK);
        };
        Ok(Taken { path, record: self.record(cell)?, began: Instant::now(), _lock: lock })
    }

    /// The record of a cell.
    pub fn record(&self, cell: &PlannedCell) -> Result<Record, Error> {
        let path = self.path.join(STATE).join(format!("{}.json", cell.id));
        match fs_err::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Error::Malformed {
                path: path.to_string_lossy().into_owned(),
                line: Some(error.line()),
                reason: error.to_string(),
                hint: Some("remove it: built files stay, and the next run finds them".into()),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Record { schema: SCHEMA, attempts: Vec::new() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The state of all cells.
    pub fn look(&self) -> Result<Vec<Seen<'_>>, Error> {
        let mut all: Vec<Seen<'_>> =
            self.plan.cells.par_iter().map(|cell| self.look_at(cell)).collect::<Result<_, _>>()?;
        // A process that is killed while it starts a program leaves its lock to that child until
        // the child executes, which takes a while on a busy machine. A cell counts as running if
        // its lock is held at every check.
        for _ in 1..LOOKS {
            if !all.iter().any(|seen| seen.state == State::Running) {
                break;
            }
            thread::sleep(BETWEEN_LOOKS);
            for seen in all.iter_mut().filter(|seen| seen.state == State::Running) {
                *seen = self.look_at(seen.cell)?;
            }
        }
        // Cells that wait for a failed cell are not started. They come after it in the list.
        let mut failed: BTreeSet<&str> = BTreeSet::new();
        for seen in &mut all {
            if seen.state == State::Waiting && seen.cell.needs.iter().any(|id| failed.contains(id.as_str())) {
                seen.state = State::Ended(Ended::LeftOut);
            }
            if matches!(seen.state, State::Ended(Ended::Failed | Ended::LeftOut)) {
                failed.insert(&seen.cell.id);
            }
        }
        Ok(all)
    }

    fn look_at<'a>(&self, cell: &'a PlannedCell) -> Result<Seen<'a>, Error> {
        if let Some(left_out) = &cell.left_out {
            return Ok(Seen { cell, state: State::LeftOut(left_out.clone()), attempts: Vec::new() });
        }
        let lock = self.path.join(STATE).join(format!("{}.lock", cell.id));
        let before = self.record(cell)?;
        let is_open = before.attempts.last().is_some_and(|attempt| attempt.end.is_none());
        // The cell may have ended between the two checks.
        let is_held = is_open && shared_files::is_locked(&lock)?;
        let (record, held) = if is_open && !is_held { (self.record(cell)?, false) } else { (before, is_open) };
        let state = match record.attempts.last() {
            None => State::Waiting,
            Some(Attempt { end: Some(end), .. }) => State::Ended(end.status),
            Some(_) if held => State::Running,
            Some(_) => State::Lost,
        };
        Ok(Seen { cell, state, attempts: record.attempts })
    }
}

impl Taken {
    /// Records the start of an attempt. `task` is the scheduler's number of it.
    pub fn begin(&mut self, host: &str, task: Option<String>) -> Result<(), Error> {
        self.began = Instant::now();
        let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        self.record.attempts.push(Attempt { began, host: host.to_owned(), task, stage: None, log: None, end: None });
        self.save()
    }

    /// Records the start of a stage.
    pub fn stage(&mut self, stage: &str, log: &Path) -> Result<(), Error> {
        if let Some(attempt) = self.record.attempts.last_mut() {
            (attempt.stage, attempt.log) = (Some(stage.to_owned()), Some(log.to_owned()));
        }
        self.save()
    }

    /// Records the end of the attempt.
    pub fn end(mut self, mut end: End) -> Result<(), Error> {
        end.seconds = (self.began.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
        if let Some(attempt) = self.record.attempts.last_mut() {
            attempt.end = Some(end);
        }
        self.save()
    }

    /// The end of the last attempt; `None` if it has none.
    pub fn last(&self) -> Option<&End> {
        self.record.attempts.last()?.end.as_ref()
    }

    fn save(&self) -> Result<(), Error> {
        replace(&self.path, serde_json::to_string_pretty(&self.record).map_err(std::io::Error::other)?.as_bytes())
    }
}

fn text(plan: &Plan) -> Result<String, Error> {
    toml::to_string(plan).map_err(Error::unwritable(PLAN))
}

/// Writes a file for each job. A file that changes is replaced as a whole, because another process
/// may be reading it.
fn write_jobs(folder: &Path, plan: &Plan, jobs: &[Job]) -> Result<(), Error> {
    let folder = folder.join(JOBS);
    plan.cells.par_iter().zip(jobs).try_for_each(|(cell, job)| {
        let (path, text) = (folder.join(format!("{}.json", cell.id)), job.json()?);
        if fs_err::read(&path).is_ok_and(|there| there == text.as_bytes()) {
            Ok(())
        } else {
            replace(&path, text.as_bytes())
        }
    })
}
