//! The place where a job runs, the image of its container, and the packages added to the image.

use serde::{Deserialize, Serialize};

use crate::cell::named;

named! {
    /// The place where jobs run.
    Executor, "executor" {
        /// On this machine.
        Here = "here",
        /// In a Docker container.
        Docker = "docker",
        /// In a Podman container.
        Podman = "podman",
        /// On the nodes of a cluster.
        Slurm = "slurm",
    }
}

named! {
    /// When images are pulled.
    Pull, "way to fetch images" {
        /// Never; a missing image is an error.
        Never = "never",
        /// If the image is missing.
        Missing = "missing",
        /// Always, because there may be a newer one.
        Always = "always",
    }
}

/// System packages that a build needs in addition to the image's, by package manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImagePackages {
    /// For dnf, yum and microdnf, which use the same names: Fedora, RHEL, AlmaLinux.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dnf: Vec<String>,
    /// For apt: Debian, Ubuntu.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apt: Vec<String>,
}

impl ImagePackages {
    /// `true` if the image is used unchanged.
    pub fn is_empty(&self) -> bool {
        self.dnf.is_empty() && self.apt.is_empty()
    }

    /// The packages by manager, in words: `gcc-gfortran (dnf) or gfortran (apt)`.
    pub fn describe(&self) -> String {
        let lists = [("dnf", &self.dnf), ("apt", &self.apt)];
        let lists = lists.iter().filter(|(_, names)| !names.is_empty());
        let lists: Vec<String> = lists.map(|(manager, names)| format!("{} ({manager})", names.join(" "))).collect();
        lists.join(" or ")
    }

    /// The first name that no package can have. The names become words of a shell command.
    pub(crate) fn wrong_name(&self) -> Option<&str> {
        self.dnf.iter().chain(&self.apt).map(String::as_str).find(|name| {
            !name.starts_with(|first: char| first.is_ascii_alphanumeric())
                || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-._:".contains(&byte))
        })
    }
}

/// The image that a job runs in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Name for the engine, `pytorch/manylinux2_28-builder:rocm7.2`.
    pub name: String,
    /// The engine's identifier of the image when the job was made, `sha256:…`; `None`: it has not
    /// been inspected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl Image {
    /// An image that has not been inspected.
    pub fn named(name: impl Into<String>) -> Image {
        Image { name: name.into(), digest: None }
    }

    /// The text that distinguishes jobs in this image from jobs in others: the digest, otherwise
    /// the name.
    pub fn identity(&self) -> &str {
        self.digest.as_deref().unwrap_or(&self.name)
    }
}
