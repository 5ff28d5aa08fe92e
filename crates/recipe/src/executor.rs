//! Where a job runs, in which image of a container, and what the image is given besides.

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

/// Packages of the system that a build needs besides what its image has, by package manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImagePackages {
    /// For dnf, and for yum and microdnf, which know the same names: Fedora, RHEL, AlmaLinux.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dnf: Vec<String>,
    /// For apt: Debian, Ubuntu.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apt: Vec<String>,
}

impl ImagePackages {
    /// `true` when an image is taken as it is.
    pub fn is_empty(&self) -> bool {
        self.dnf.is_empty() && self.apt.is_empty()
    }

    /// Managers and their packages, in words: `gcc-gfortran (dnf) or gfortran (apt)`.
    pub fn describe(&self) -> String {
        let lists = [("dnf", &self.dnf), ("apt", &self.apt)];
        let lists = lists.iter().filter(|(_, names)| !names.is_empty());
        let lists: Vec<String> = lists.map(|(manager, names)| format!("{} ({manager})", names.join(" "))).collect();
        lists.join(" or ")
    }

    /// A name that no package has. Names become words of a shell.
    pub(crate) fn wrong_name(&self) -> Option<&str> {
        let is_name = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_alphanumeric())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-._:".contains(&byte))
        };
        self.dnf.iter().chain(&self.apt).map(String::as_str).find(|name| !is_name(name))
    }
}

/// The image that a job runs in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// As the engine takes it, `pytorch/manylinux2_28-builder:rocm7.2`.
    pub name: String,
    /// The engine's identifier of what that was when the job was made, `sha256:…`; `None`: nobody
    /// has looked.
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
