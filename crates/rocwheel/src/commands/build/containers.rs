//! Where jobs run, as options say it.

use build::executor::Executor;
use clap::Args;

use crate::failure::Usage;

/// Options about where jobs run.
#[derive(Debug, Clone, Args)]
pub(crate) struct ContainerArguments {
    /// Where jobs run: here, docker, podman or slurm
    #[arg(long, value_name = "NAME", default_value = "here")]
    pub(crate) executor: Executor,
}

impl ContainerArguments {
    /// What cannot be done yet is refused.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        match self.executor {
            Executor::Here => Ok(()),
            other => Err(Usage::new(format!("`--executor {other}` cannot be used yet"))),
        }
    }
}
