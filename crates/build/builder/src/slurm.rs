//! Input: the cells of a plan, in a folder that the nodes of a cluster share. Output: job arrays on
//! Slurm, one for each kind of cell, and their states in Slurm.
//!
//! A task is `rocwheel build plan FOLDER --cell GROUP.COLUMN`. Its outcome is recorded in the
//! plan's folder. So everything here works without Slurm's accounting, and a task that Slurm starts
//! again continues. Cells of a column have the same number in their arrays: each waits only for its
//! own predecessor (`--dependency=aftercorr`) where the arrays allow it.

mod arrays;
mod client;
mod script;

use std::collections::BTreeMap;
use std::path::PathBuf;

use rocwheel_progress::Failure;
use serde::{Deserialize, Serialize};

pub use arrays::{Array, arrays};
pub use client::{Client, Queued};
pub use script::script;

use rocwheel_recipe::plan::PlanFolder;
use rocwheel_recipe::shared_files;

use crate::error;

const FOLDER: &str = "slurm";
const SUBMITTED: &str = "submitted.json";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Submitted {
    pub schema: u32,
    /// The arrays, in order.
    pub arrays: Vec<SubmittedArray>,
}

/// One array that Slurm has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SubmittedArray {
    /// Slurm's job number of the array.
    pub job: u64,
    /// Number of each task → identifier of the cell.
    pub cells: BTreeMap<usize, String>,
}

impl Submitted {
    /// Reads the record of what was submitted for a plan; empty if there is none.
    pub fn read(folder: &PlanFolder) -> Result<Submitted, Failure> {
        let path = place(folder).join(SUBMITTED);
        match fs_err::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| error::malformed(&path.to_string_lossy(), error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Submitted::default()),
            Err(error) => Err(error.into()),
        }
    }

    fn write(&self, folder: &PlanFolder) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other)?;
        Ok(shared_files::replace(&place(folder).join(SUBMITTED), text.as_bytes())?)
    }

    pub fn jobs(&self) -> Vec<u64> {
        self.arrays.iter().map(|array| array.job).collect()
    }

    pub fn cell(&self, job: u64, task: usize) -> Option<&str> {
        self.arrays.iter().find(|array| array.job == job)?.cells.get(&task).map(String::as_str)
    }
}

#[derive(Debug, Clone)]
pub struct Launch {
    /// Path of this program, valid on the nodes too.
    pub program: PathBuf,
    /// Options of `rocwheel build` for every task.
    pub options: Vec<String>,
    /// Options for the first start only: a task that continues must not begin its steps again.
    pub first: Vec<String>,
    /// Options of sbatch; they override the requests of the recipes.
    pub sbatch: Vec<String>,
    /// Time in minutes after which a task has to stop by itself.
    pub limit: Option<u64>,
}

fn place(folder: &PlanFolder) -> PathBuf {
    folder.path().join(FOLDER)
}

/// Submits the cells that are to be built and that Slurm does not have yet. Returns what was
/// submitted by this call.
/// If Slurm refuses, nothing of this call stays submitted.
pub fn submit(
    folder: &PlanFolder,
    wanted: &[String],
    launch: &Launch,
    client: &Client<'_>,
) -> Result<Submitted, Failure> {
    // Without work, Slurm need not be installed.
    if wanted.is_empty() {
        return Ok(Submitted::default());
    }
    let place = place(folder);
    fs_err::create_dir_all(place.join("logs"))?;
    let mut submitted = Submitted::read(folder)?;
    submitted.schema = 1;
    let largest = client.largest_array()?;
    let mut new = Submitted { schema: 1, arrays: Vec::new() };
    let planned = arrays(&folder.plan, wanted, largest);
    for (number, array) in planned.iter().enumerate() {
        let name = format!("{number:02}-{}-{}.sh", array.name, submitted.arrays.len() + number);
        let script = place.join(name);
        let numbers: Vec<u64> = new.jobs();
        let text = array.script(folder, launch, &place.join("logs"), array.dependency(&numbers).as_deref());
        let answer = fs_err::write(&script, text)
            .map_err(Failure::from)
            .and_then(|()| client.submit(&script, &launch.sbatch))
            .and_then(|job| {
                let array = SubmittedArray { job, cells: array.tasks.clone() };
                new.arrays.push(array.clone());
                submitted.arrays.push(array);
                // The record is written at once, so that the next run knows of the array even if
                // this one is killed.
                submitted.write(folder)
            });
        if let Err(error) = answer {
            // Half of a plan is useless, so the arrays that were already submitted are cancelled
            // and the error is returned. The reporter is silent, so that cancelling works even if
            // the user stopped the work.
            let calm = Client { environment: client.environment, reporter: &rocwheel_progress::Silent };
            if !new.arrays.is_empty() && calm.cancel(&new.jobs()).is_ok() {
                submitted.arrays.retain(|array| !new.arrays.contains(array));
                submitted.write(folder)?;
            }
            return Err(error);
        }
    }
    Ok(new)
}

/// A lock that keeps other runs from submitting cells of a plan. It covers the look at the queue
/// and the submission after it.
#[derive(Debug)]
pub struct Alone {
    _lock: rocwheel_system::Lock,
}

impl Alone {
    /// Takes the lock of the plan.
    /// The error is temporary if another run has the lock.
    pub fn with(folder: &PlanFolder) -> Result<Alone, Failure> {
        let place = place(folder);
        fs_err::create_dir_all(&place)?;
        let lock = shared_files::lock(&place.join("lock"))?.map(|lock| Alone { _lock: lock });
        lock.ok_or_else(|| error::locked(format!("`{}`", folder.path().display())))
    }
}

/// The state of a plan's cells in Slurm's queue. Tasks that Slurm has forgotten are missing.
pub fn queue(folder: &PlanFolder, client: &Client<'_>) -> Result<BTreeMap<String, Queued>, Failure> {
    let submitted = Submitted::read(folder)?;
    let mut found = BTreeMap::new();
    if submitted.arrays.is_empty() {
        return Ok(found);
    }
    for queued in client.queue(&submitted.jobs())? {
        let Some(cell) = submitted.cell(queued.job, queued.task) else { continue };
        // A cell that failed may have been submitted again.
        if found.get(cell).is_none_or(|known: &Queued| known.job < queued.job) {
            found.insert(cell.to_owned(), queued);
        }
    }
    Ok(found)
}

/// The same as [`queue`], with finished tasks from Slurm's accounting if it is enabled.
pub fn states(folder: &PlanFolder, client: &Client<'_>) -> Result<BTreeMap<String, Queued>, Failure> {
    let submitted = Submitted::read(folder)?;
    let mut found = BTreeMap::new();
    for ((job, task), state) in client.accounting(&submitted.jobs()) {
        if let Some(cell) = submitted.cell(job, task) {
            let queued = Queued { job, task, state, reason: String::new(), node: String::new() };
            found.insert(cell.to_owned(), queued);
        }
    }
    found.extend(queue(folder, client)?);
    Ok(found)
}
