//! Input: the marks that containers leave. Output: the kind of container.

use super::tree::MachineTree;
use super::variables::SessionVariables;

/// The program that started the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContainerKind {
    Docker,
    /// Docker Desktop: the kernel is that of its own virtual machine.
    DockerDesktop,
    Podman,
    Apptainer,
    Kubernetes,
    /// LXC, systemd-nspawn and others.
    Other,
}

impl ContainerKind {
    /// The name for reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            ContainerKind::Docker => "Docker",
            ContainerKind::DockerDesktop => "Docker Desktop",
            ContainerKind::Podman => "Podman",
            ContainerKind::Apptainer => "Apptainer",
            ContainerKind::Kubernetes => "Kubernetes",
            ContainerKind::Other => "yes, of an unknown kind",
        }
    }

    /// The container that this process runs in; `None` outside of containers.
    pub(super) fn find(tree: &MachineTree, variables: &SessionVariables) -> Option<ContainerKind> {
        let has_variable = |prefix: &str| variables.beginning(prefix).next().is_some();
        let kernel = tree.text_if_any("/proc/version").unwrap_or_default();
        let groups = tree.text_if_any("/proc/1/cgroup").unwrap_or_default();
        let is_docker = tree.exists("/.dockerenv") || groups.contains("/docker");
        if ["APPTAINER_", "SINGULARITY_"].iter().any(|prefix| has_variable(prefix)) || tree.exists("/.singularity.d") {
            Some(ContainerKind::Apptainer)
        } else if is_docker && kernel.contains("linuxkit") {
            Some(ContainerKind::DockerDesktop)
        } else if groups.contains("kubepods") || variables.get("KUBERNETES_SERVICE_HOST").is_some() {
            Some(ContainerKind::Kubernetes)
        } else if tree.exists("/run/.containerenv") || variables.get("container") == Some("podman") {
            Some(ContainerKind::Podman)
        } else if is_docker {
            Some(ContainerKind::Docker)
        } else if variables.filled("container").is_some() || groups.contains("/lxc") {
            Some(ContainerKind::Other)
        } else {
            None
        }
    }
}

/// `true` if the numbers of users are not those of the host.
pub(super) fn is_rootless(tree: &MachineTree) -> bool {
    let map = tree.text_if_any("/proc/self/uid_map").unwrap_or_default();
    let first: Vec<&str> = map.lines().next().unwrap_or_default().split_whitespace().collect();
    !first.is_empty() && first[..] != ["0", "0", "4294967295"]
}
