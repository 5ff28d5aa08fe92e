//! Input: a job, or a request for several. Output: wheels or a tarball, checked and audited, or the
//! reason why there are none.
//!
//! [`job_maker`] completes a request with sources, ROCm and images, [`combinations`] does it for
//! every cell of a plan. [`execute`] runs a job on this machine, [`containers`] in a container of
//! Docker or Podman, [`slurm`] on the nodes of a cluster; [`schedule`] runs many. [`preflight`]
//! reports beforehand what would fail after hours.

pub mod combinations;
pub mod containers;
pub mod engine;
mod error;
pub mod execute;
mod failure_causes;
pub mod job_maker;
pub mod preflight;
mod python;
pub mod schedule;
pub mod slurm;
pub mod source_choice;

pub use error::{ContainerFailure, StepFailure, failed_step};
pub use python::PythonInterpreter;
