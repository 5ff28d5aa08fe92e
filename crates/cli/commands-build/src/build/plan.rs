//! The options of `rocwheel build` about plans with many cells, and the commands about existing
//! plans.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use rocwheel_console::failure::{Result, Usage};
use rocwheel_recipe::recipe::PLAN_COMMANDS;

use super::run::RunArguments;
use super::{Arguments, PLANS};

/// Options about builds of many cells.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = PLANS)]
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
    #[command(flatten)]
    old: OldFlags,
}

/// The flags that were the commands of [`PlanCommand`] up to version 0.1. The next release refuses
/// them.
#[derive(Debug, Clone, Args)]
struct OldFlags {
    /// `rocwheel build plan DIR`
    #[arg(long, hide = true, value_name = "DIR", conflicts_with_all = ["names", "job", "output", "work", "CellArguments", "SourceArguments", "RocmArguments"])]
    plan: Option<PathBuf>,
    /// `--cell` of `rocwheel build plan` and `rocwheel build logs`
    #[arg(long = "cell", hide = true, value_name = "CELL")]
    cells: Vec<String>,
    /// `rocwheel build status DIR`
    #[arg(long, hide = true, value_name = "DIR", conflicts_with_all = ["names", "job", "plan"])]
    status: Option<PathBuf>,
    /// `rocwheel build cancel DIR`
    #[arg(long, hide = true, value_name = "DIR", conflicts_with_all = ["names", "job", "plan", "status", "dry_run"])]
    cancel: Option<PathBuf>,
    /// `rocwheel build logs DIR`
    #[arg(long, hide = true, value_name = "DIR", conflicts_with_all = ["names", "job", "plan", "status", "cancel"])]
    logs: Option<PathBuf>,
}

/// A command about an existing plan. Recipes cannot have these names.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Show the state of every cell of a plan
    Status {
        #[command(flatten)]
        place: PlanPlace,
    },
    /// Show the last lines of the logs of cells that failed or run
    Logs {
        #[command(flatten)]
        place: PlanPlace,
        /// Only of this cell, by title or number, whatever its state; may be repeated
        #[arg(long = "cell", value_name = "CELL")]
        cells: Vec<String>,
    },
    /// Take the cells of a plan off Slurm
    Cancel {
        #[command(flatten)]
        place: PlanPlace,
    },
    /// Run an existing plan
    ///
    /// `rocwheel build … --write-plan DIR` writes one. Cells that are finished are not run again.
    Plan(Box<ExistingPlan>),
}

/// Where a plan is.
#[derive(Debug, Args)]
pub(crate) struct PlanPlace {
    /// Folder of the plan, or of the outputs
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// The arguments of `rocwheel build plan`.
#[derive(Debug, Args)]
pub(crate) struct ExistingPlan {
    /// Folder of the plan
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Only this cell, by title or number; may be repeated
    #[arg(long = "cell", value_name = "CELL")]
    cells: Vec<String>,
    /// Print what would be done and build nothing
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: also list the cells that the table excludes, with the reasons
    #[arg(long, requires = "dry_run")]
    excluded: bool,
    #[command(flatten)]
    run: RunArguments,
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
    /// The command that replaces the flag that was typed.
    pub(super) instead: Option<&'static str>,
}

impl Arguments {
    /// Takes the request for an existing plan out of the arguments, if there is one. The options of
    /// `build plan` replace those of `build`, which clap does not allow in front of it.
    pub(super) fn take_plan(&mut self) -> Result<(Option<Asked>, Choices), Usage> {
        if let Some(word) = self.names.iter().find(|name| PLAN_COMMANDS.contains(&name.as_str())) {
            let usage = Usage::new(format!("`{word}` is a command about plans, not a recipe"));
            return Err(usage.hint(format!("write it first, and options behind it: `rocwheel build {word} DIR`")));
        }
        let (asked, instead) = match self.command.take() {
            None => self.plan.old.clone().asked()?,
            Some(command) => (Some(self.take_command(command)), None),
        };
        let PlanArguments { matrix, missing_only, excluded, write_plan, .. } = self.plan.clone();
        Ok((asked, Choices { matrix, missing_only, excluded, write_plan, wait: self.run.wait, instead }))
    }

    fn take_command(&mut self, command: PlanCommand) -> Asked {
        match command {
            PlanCommand::Status { place } => Asked::Status(place.folder),
            PlanCommand::Logs { place, cells } => Asked::Logs(place.folder, cells),
            PlanCommand::Cancel { place } => Asked::Cancel(place.folder),
            PlanCommand::Plan(plan) => {
                let ExistingPlan { folder, cells, dry_run, excluded, run } = *plan;
                (self.dry_run, self.plan.excluded, self.run) = (dry_run, excluded, run);
                Asked::Run(folder, cells)
            }
        }
    }
}

impl OldFlags {
    /// The request of the flags, and the command that is written instead of them.
    fn asked(self) -> Result<(Option<Asked>, Option<&'static str>), Usage> {
        if !self.cells.is_empty() && self.plan.is_none() && self.logs.is_none() {
            let usage = Usage::new("`--cell` chooses of a plan");
            return Err(usage.hint("write `rocwheel build plan DIR --cell CELL`, or `build logs DIR --cell CELL`"));
        }
        Ok(match (self.plan, self.status, self.cancel, self.logs) {
            (Some(folder), ..) => (Some(Asked::Run(folder, self.cells)), Some("plan")),
            (_, Some(folder), ..) => (Some(Asked::Status(folder)), Some("status")),
            (_, _, Some(folder), _) => (Some(Asked::Cancel(folder)), Some("cancel")),
            (.., Some(folder)) => (Some(Asked::Logs(folder, self.cells)), Some("logs")),
            _ => (None, None),
        })
    }
}
