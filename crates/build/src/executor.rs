//! Where a job runs, and in which image of a container.

use serde::{Deserialize, Serialize};

use crate::cell::named;

named! {
    /// Where jobs run.
    Executor, "executor" {
        /// On this machine.
        Here = "here",
        /// In a container of Docker.
        Docker = "docker",
        /// In a container of Podman.
        Podman = "podman",
        /// On the nodes of a cluster.
        Slurm = "slurm",
    }
}

named! {
    /// What is done about an image.
    Pull, "way to fetch images" {
        /// One that is not there is an error.
        Never = "never",
        /// One that is not there is fetched.
        Missing = "missing",
        /// It is fetched, in case there is a newer one.
        Always = "always",
    }
}

/// The image that a job runs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// As the engine takes it, `pytorch/manylinux2_28-builder:rocm7.2`.
    pub name: String,
    /// The engine's identifier of what that was when the job was made, `sha256:…`; `None`: nobody has looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl Image {
    /// An image that nobody has looked at.
    pub fn named(name: impl Into<String>) -> Image {
        Image { name: name.into(), digest: None }
    }

    /// By what jobs in it are told apart from those in others.
    pub(crate) fn identity(&self) -> &str {
        self.digest.as_deref().unwrap_or(&self.name)
    }
}
