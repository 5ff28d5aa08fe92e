//! Input: the cells of a plan, in a folder that the nodes of a cluster share. Output: job arrays on
//! Slurm, one for each kind of cell, and what Slurm says of them.
//!
//! A task is `rocwheel build --plan FOLDER --cell GROUP.COLUMN`: what became of it stands in the
//! plan's folder, so that everything here works without Slurm's accounting, and a task that Slurm
//! starts again goes on. Cells of a column have the same number in their arrays: each waits for its
//! own predecessor only (`--dependency=aftercorr`), where that is so.

mod arrays;
mod client;
mod script;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use arrays::{Array, arrays};
pub use client::{Client, Queued};
pub use script::script;

use crate::error::Error;
use crate::files;
use crate::plan::PlanFolder;

const FOLDER: &str = "slurm";
const SUBMITTED: &str = "submitted.json";

/// What was given to Slurm.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Submitted {
    /// Version of the form.
    pub schema: u32,
    /// The arrays, in order.
    pub arrays: Vec<SubmittedArray>,
}

/// One array that Slurm has taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SubmittedArray {
    /// Slurm's number of it.
    pub job: u64,
    /// Number of each task → the cell.
    pub cells: BTreeMap<usize, String>,
}

impl Submitted {
    /// What was given to Slurm for a plan.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(folder: &PlanFolder) -> Result<Submitted, Error> {
        let path = place(folder).join(SUBMITTED);
        match fs_err::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| Error::malformed(&path.to_string_lossy(), error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Submitted::default()),
            Err(error) => Err(error.into()),
        }
    }

    fn write(&self, folder: &PlanFolder) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other)?;
        files::replace(&place(folder).join(SUBMITTED), text.as_bytes())
    }

    /// Numbers of all arrays.
    pub fn jobs(&self) -> Vec<u64> {
        self.arrays.iter().map(|array| array.job).collect()
    }

    /// The cell of a task.
    pub fn cell(&self, job: u64, task: usize) -> Option<&str> {
        self.arrays.iter().find(|array| array.job == job)?.cells.get(&task).map(String::as_str)
    }
}

/// How tasks are started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// This program, where the nodes find it too.
    pub program: PathBuf,
    /// Options of `rocwheel build` for every task.
    pub options: Vec<String>,
    /// Options for its first start only: a task that goes on begins no step again.
    pub first: Vec<String>,
    /// Options of sbatch; they win over what the recipes ask for.
    pub sbatch: Vec<String>,
    /// When a task has to stop by itself, in minutes.
    pub limit: Option<u64>,
}

/// Folder of scripts and logs.
fn place(folder: &PlanFolder) -> PathBuf {
    folder.path().join(FOLDER)
}

/// Gives the cells to Slurm that are to be built, as far as they are not with it already. What was
/// submitted now.
///
/// # Errors
/// Slurm refuses, with its own words: then nothing of it stays submitted.
pub fn submit(
    folder: &PlanFolder,
    wanted: &[String],
    launch: &Launch,
    client: &Client<'_>,
) -> Result<Submitted, Error> {
    // Where there is nothing to do, Slurm need not be there.
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
            .map_err(Error::from)
            .and_then(|()| client.submit(&script, &launch.sbatch))
            .and_then(|job| {
                let array = SubmittedArray { job, cells: array.tasks.clone() };
                new.arrays.push(array.clone());
                submitted.arrays.push(array);
                // At once: whatever happens to this program, the next one knows of it.
                submitted.write(folder)
            });
        if let Err(error) = answer {
            // Half of a plan is of no use to anybody: what is already there goes, and the user
            // hears why, also when that was they.
            let calm = Client { environment: client.environment, reporter: &rocwheel_report::Silent };
            if !new.arrays.is_empty() && calm.cancel(&new.jobs()).is_ok() {
                submitted.arrays.retain(|array| !new.arrays.contains(array));
                submitted.write(folder)?;
            }
            return Err(error);
        }
    }
    Ok(new)
}

/// Keeps others from submitting cells of a plan while it lives: who looks at the queue and then
/// submits does that alone.
#[derive(Debug)]
pub struct Alone {
    _lock: rocwheel_system::Lock,
}

impl Alone {
    /// Takes the plan.
    ///
    /// # Errors
    /// [`Error::Locked`] while somebody else has it.
    pub fn with(folder: &PlanFolder) -> Result<Alone, Error> {
        let place = place(folder);
        fs_err::create_dir_all(&place)?;
        let locked = || Error::Locked { job: format!("`{}`", folder.path().display()) };
        files::lock(&place.join("lock"))?.map(|lock| Alone { _lock: lock }).ok_or_else(locked)
    }
}

/// What Slurm has of a plan: cell → how it stands. Tasks that Slurm has forgotten are not there.
///
/// # Errors
/// Slurm does not answer.
pub fn queue(folder: &PlanFolder, client: &Client<'_>) -> Result<BTreeMap<String, Queued>, Error> {
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

/// As [`queue`], and what Slurm's accounting remembers of tasks that are over, where there is
/// accounting.
///
/// # Errors
/// Slurm does not answer.
pub fn states(folder: &PlanFolder, client: &Client<'_>) -> Result<BTreeMap<String, Queued>, Error> {
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
