//! The folder of a job. It records which stages are done, and a lock keeps other runs out.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocwheel_progress::Failure;
use serde::{Deserialize, Serialize};

use crate::error;
use crate::execute::JobPlace;
use rocwheel_recipe::shared_files;
use rocwheel_recipe::{BuiltFile, Job};

const STATE: &str = "state.json";
const JOB: &str = "job.toml";
const LOCK: &str = "lock";
const LOGS: &str = "logs";

/// The content of state.json.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    schema: u32,
    title: String,
    /// Stages that are done, with their durations in seconds.
    done: BTreeMap<String, f64>,
    outputs: Vec<BuiltFile>,
    /// `true` if the outputs have been moved to the folder of outputs.
    is_published: bool,
}

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    state: State,
    _lock: rocwheel_system::Lock,
}

pub(super) struct Log {
    path: PathBuf,
    file: fs_err::File,
}

impl Log {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn say(&mut self, line: &str) -> Result<(), Failure> {
        Ok(self.file.write_all(format!("{line}\n").as_bytes())?)
    }

    pub(super) fn writer(&mut self) -> &mut dyn Write {
        &mut self.file
    }
}

impl Folder {
    /// Opens and locks the job's folder, and creates it if it does not exist.
    pub(super) fn open(job: &Job, place: &JobPlace) -> Result<Folder, Failure> {
        let path = place.work.join(format!("{}-{}", job.recipe.recipe, job.key()));
        fs_err::create_dir_all(path.join(LOGS))?;
        let lock = shared_files::lock(&path.join(LOCK))?.ok_or_else(|| error::locked(job.title()))?;
        let state = match fs_err::read(path.join(STATE)) {
            // A file that cannot be parsed is from another version of the program. All stages run
            // again.
            Ok(bytes) => serde_json::from_slice(&bytes).ok().filter(|state: &State| state.schema == 1),
            Err(_) => None,
        };
        let state = state.unwrap_or_else(|| State { schema: 1, title: job.title(), ..State::default() });
        let folder = Folder { path, state, _lock: lock };
        job.write(&folder.path.join(JOB))?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The outputs, if the job is done and they are unchanged in the folder of outputs.
    pub(super) fn finished(&self, place: &JobPlace) -> Option<Vec<BuiltFile>> {
        if !self.state.is_published {
            return None;
        }
        for made in &self.state.outputs {
            let path = place.output.join(&made.path);
            path.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() == made.size)?;
            let sha256 = rocwheel_source::sha256(&path, &rocwheel_progress::Silent);
            sha256.ok().filter(|sha256| *sha256 == made.sha256)?;
        }
        Some(self.state.outputs.clone())
    }

    pub(super) fn is_done(&self, stage: &str) -> bool {
        self.state.done.contains_key(stage)
    }

    /// Marks stages as not done. If the job is published and its environment has been removed, all
    /// stages run again, because the files that they need are gone.
    pub(super) fn forget(&mut self, stages: impl Iterator<Item = String>) -> Result<(), Failure> {
        for stage in stages {
            self.state.done.remove(&stage);
        }
        if std::mem::take(&mut self.state.is_published) && !self.path.join("venv").is_dir() {
            self.state.done.clear();
        }
        self.save()
    }

    pub(super) fn mark(&mut self, stage: &str, took: Duration) -> Result<(), Failure> {
        // Milliseconds are precise enough.
        self.state.done.insert(stage.to_owned(), (took.as_secs_f64() * 1000.0).round() / 1000.0);
        self.save()
    }

    pub(super) fn outputs(&self) -> &[BuiltFile] {
        &self.state.outputs
    }

    /// Records the outputs, which are still in the job's own folder.
    pub(super) fn set_outputs(&mut self, outputs: Vec<BuiltFile>) -> Result<(), Failure> {
        self.state.outputs = outputs;
        self.save()
    }

    /// Records that the outputs are in the folder of outputs.
    pub(super) fn set_published(&mut self) -> Result<(), Failure> {
        self.state.is_published = true;
        self.save()
    }

    pub(super) fn log(&self, number: usize, stage: &str) -> Result<Log, Failure> {
        log(&self.path, number, stage)
    }

    /// Removes everything except the records and the logs.
    pub(super) fn tidy(&self) -> Result<(), Failure> {
        for entry in fs_err::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            if [STATE, JOB, LOCK, LOGS].iter().any(|kept| name == *kept) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs_err::remove_dir_all(entry.path())?;
            } else {
                fs_err::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn save(&self) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(&self.state).map_err(std::io::Error::other)?;
        Ok(shared_files::replace(&self.path.join(STATE), text.as_bytes())?)
    }
}

/// Opens the log of a stage in a job's folder to append to it.
pub(super) fn log(folder: &Path, number: usize, stage: &str) -> Result<Log, Failure> {
    let path = folder.join(LOGS).join(format!("{number:02}-{stage}.log"));
    let file = fs_err::OpenOptions::new().create(true).append(true).open(&path)?;
    Ok(Log { path, file })
}

/// `true` if a job with its folder in `work` made an output file with this path and digest.
pub(super) fn is_ours(work: &Path, output: &Path, sha256: &str) -> bool {
    let Ok(entries) = fs_err::read_dir(work) else { return false };
    let states = entries.filter_map(|entry| fs_err::read(entry.ok()?.path().join(STATE)).ok());
    let mut states = states.filter_map(|bytes| serde_json::from_slice::<State>(&bytes).ok());
    states.any(|state| state.outputs.iter().any(|made| made.path == output && made.sha256 == sha256))
}
