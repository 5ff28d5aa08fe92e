//! The options of `rocwheel build` about plans with many cells, and about existing plans.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Command};

use crate::failure::{Result, Usage};

/// Options about builds of many cells.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Plans of many cells")]
pub(crate) struct PlanArguments {
    /// Every ROCm, torch, Python and backend of the table that options do not name
    #[arg(long)]
    matrix: bool,
    /// Skip cells whose wheel is in the output already, by its name
    #[arg(long)]
    missing_only: bool,
    /// With --dry-run: also list the cells that the table excludes, with the reasons
    #[arg(long, requires = "dry_run")]
    excluded: bool,
    /// Write the plan of all cells (a folder), and build nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["write_job", "dry_run"])]
    write_plan: Option<PathBuf>,
    /// Run an existing plan
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "job", "output", "work", "CellArguments", "SourceArguments", "RocmArguments"])]
    plan: Option<PathBuf>,
    /// Only these cells of the plan, by title or number
    #[arg(long = "cell", value_name = "CELL")]
    cells: Vec<String>,
    /// Show the state of the cells of a plan; DIR is its folder, or that of the outputs (also
    /// `rocwheel build status DIR`)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "job", "plan"])]
    status: Option<PathBuf>,
    /// Take the cells of a plan off Slurm (also `rocwheel build cancel DIR`)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "job", "plan", "status", "dry_run"])]
    cancel: Option<PathBuf>,
    /// Show the logs of cells that failed or run, or of those named with --cell (also
    /// `rocwheel build logs DIR`)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "job", "plan", "status", "cancel"])]
    logs: Option<PathBuf>,
    /// With --executor slurm: wait until all cells have ended
    #[arg(long)]
    wait: bool,
    /// With --executor slurm: an option of sbatch, such as --partition=long; may be repeated, and
    /// wins over the recipe
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch_option: Vec<String>,
}

/// The request for an existing plan.
#[derive(Debug)]
pub(super) enum Asked {
    /// Runs it, or only some of its cells.
    Run(PathBuf, Vec<String>),
    Status(PathBuf),
    Cancel(PathBuf),
    Logs(PathBuf, Vec<String>),
}

/// The options for making and running plans.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug)]
pub(super) struct Choices {
    pub(super) matrix: bool,
    pub(super) missing_only: bool,
    /// `true` if cells that the table excludes are listed.
    pub(super) excluded: bool,
    pub(super) write_plan: Option<PathBuf>,
    pub(super) wait: bool,
    pub(super) sbatch: Vec<String>,
}

/// Options about a plan that can be typed as words: `build status DIR` is `build --status DIR`.
/// `recipe new` refuses them as names.
pub(crate) const QUESTIONS: [&str; 4] = ["status", "logs", "cancel", "plan"];

/// Replaces these words of the command line with the options that they stand for.
pub(crate) fn with_questions(program: &Command, mut words: Vec<OsString>) -> Vec<OsString> {
    let is_question = |pair: &[OsString]| pair[0] == "build" && QUESTIONS.iter().any(|word| pair[1] == *word);
    let Some(at) = words.windows(2).position(is_question) else { return words };
    // `build` may be another word: a file of another command.
    let Ok(matches) = program.clone().ignore_errors(true).try_get_matches_from(&words[..=at]) else { return words };
    if matches.subcommand_name() == Some("build") {
        let mut option = OsString::from("--");
        option.push(&words[at + 1]);
        words[at + 1] = option;
    }
    words
}

impl PlanArguments {
    /// The request for an existing plan, if there is one, and the options for new plans.
    pub(super) fn choices(self) -> Result<(Option<Asked>, Choices), Usage> {
        if !self.cells.is_empty() && self.plan.is_none() && self.logs.is_none() {
            return Err(Usage::new("`--cell` chooses of a plan").hint("name it with `--plan DIR` or `--logs DIR`"));
        }
        let asked = match (self.plan, self.status, self.cancel, self.logs) {
            (Some(folder), ..) => Some(Asked::Run(folder, self.cells)),
            (_, Some(folder), ..) => Some(Asked::Status(folder)),
            (_, _, Some(folder), _) => Some(Asked::Cancel(folder)),
            (.., Some(folder)) => Some(Asked::Logs(folder, self.cells)),
            _ => None,
        };
        let choices = Choices {
            matrix: self.matrix,
            missing_only: self.missing_only,
            excluded: self.excluded,
            write_plan: self.write_plan,
            wait: self.wait,
            sbatch: self.sbatch_option,
        };
        Ok((asked, choices))
    }
}
