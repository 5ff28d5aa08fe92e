//! The options of `rocwheel build` about how jobs run, whether they come from recipes or from an
//! existing plan.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use rocwheel_builder::execute::StageSelection;
use rocwheel_builder::schedule::slurm::Cluster;
use rocwheel_console::environment;
use rocwheel_console::failure::Result;
use rocwheel_recipe::duration;
use rocwheel_recipe::executor::Executor;

use super::containers::{self, ContainerArguments};
use super::{RESULT, STEPS, WHERE};

/// How jobs run.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(super) containers: ContainerArguments,
    /// With --executor slurm: wait until all cells have ended
    #[arg(long, help_heading = WHERE)]
    pub(super) wait: bool,
    /// With --executor slurm: an option of sbatch, such as --partition=long; may be repeated, and
    /// wins over the recipe
    #[arg(long, help_heading = WHERE, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch_option: Vec<String>,
    /// Interpreter to build with
    #[arg(long, help_heading = WHERE, value_name = "PROGRAM")]
    pub(super) interpreter: Option<PathBuf>,
    /// Install with Python's own pip, even if uv is installed
    #[arg(long, help_heading = WHERE)]
    pub(super) no_uv: bool,
    /// Run this step again, unfinished steps before it, and none after it
    #[arg(long, help_heading = STEPS, value_name = "STEP", conflicts_with = "from")]
    pub(super) only: Option<String>,
    /// Run this step, or this recipe, and all later ones again
    #[arg(long, help_heading = STEPS, value_name = "STEP")]
    pub(super) from: Option<String>,
    /// Stop after this long (330m, 5h30m) with exit code 3; the same command continues
    #[arg(long, help_heading = STEPS, value_name = "TIME", value_parser = time)]
    pub(super) time_limit: Option<Duration>,
    /// Keep the environment and the copies of sources of a finished job
    #[arg(long, help_heading = STEPS)]
    pub(super) keep: bool,
    /// Do not check the disk space first
    #[arg(long, help_heading = STEPS)]
    pub(super) no_preflight: bool,
    /// Replace files of the same name that are not earlier results
    #[arg(long, help_heading = RESULT)]
    pub(super) overwrite: bool,
    /// Do not audit the result
    #[arg(long, help_heading = RESULT)]
    pub(super) no_audit: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| "write it as `90s`, `330m` or `5h30m`".to_owned())
}

impl RunArguments {
    /// The steps to run. `from` is the step of `--from`, unless that named a recipe.
    pub(super) fn selection(&self, from: Option<String>) -> StageSelection {
        match (self.only.clone(), from) {
            (Some(step), _) => StageSelection::Only(step),
            (None, Some(step)) => StageSelection::From(step),
            (None, None) => StageSelection::Rest,
        }
    }

    /// The cluster that runs plans; `None` runs them here.
    pub(super) fn cluster(&self) -> Result<Option<Cluster>> {
        if self.containers.executor() != Executor::Slurm {
            return Ok(None);
        }
        Ok(Some(Cluster {
            program: environment::this_program()?,
            options: self.task_options(),
            sbatch: self.sbatch_option.clone(),
            wait: self.wait,
        }))
    }

    /// The options that a task of a cluster needs; the others are in the plan.
    fn task_options(&self) -> Vec<String> {
        let flags = [
            (self.no_uv, "--no-uv"),
            (self.keep, "--keep"),
            (self.overwrite, "--overwrite"),
            (self.no_audit, "--no-audit"),
            (self.no_preflight, "--no-preflight"),
        ];
        let mut words: Vec<String> = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| (*flag).to_owned()).collect();
        if let Some(interpreter) = &self.interpreter {
            words.extend(["--interpreter".to_owned(), of_task(interpreter).to_string_lossy().into_owned()]);
        }
        words.extend(self.containers.task_options());
        words
    }
}

/// The interpreter for a task, which runs in another folder. A bare name is searched for in PATH.
fn of_task(interpreter: &Path) -> PathBuf {
    let is_name = interpreter.components().count() == 1 && !interpreter.is_absolute();
    if is_name { interpreter.to_owned() } else { containers::absolute(interpreter) }
}
