//! Input: the marks that containers leave. Output: the kind of container.

use crate::tree::MachineTree;
use crate::variables::SessionVariables;

/// The program that started the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerKind {
    Docker,
    /// Docker Desktop: the kernel is that of its own virtual machine.
    DockerDesktop,
    Podman,
    Apptainer,
    Kubernetes,
    /// LXC, as Proxmox starts it.
    Lxc,
    /// systemd-nspawn, the containers of Incus, and others.
    Other,
    /// A process whose users are not those of the host, and no other mark: `unshare`, `bwrap`.
    UserNamespace,
}

impl ContainerKind {
    /// The name for reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ContainerKind::Docker => "Docker",
            ContainerKind::DockerDesktop => "Docker Desktop",
            ContainerKind::Podman => "Podman",
            ContainerKind::Apptainer => "Apptainer",
            ContainerKind::Kubernetes => "Kubernetes",
            ContainerKind::Lxc => "LXC",
            ContainerKind::Other => "yes, of an unknown kind",
            ContainerKind::UserNamespace => "a user namespace",
        }
    }

    /// The key of its commands in the table.
    pub(crate) fn key(self) -> &'static str {
        match self {
            ContainerKind::Docker => "docker",
            ContainerKind::DockerDesktop => "docker-desktop",
            ContainerKind::Podman => "podman",
            ContainerKind::Apptainer => "apptainer",
            ContainerKind::Kubernetes => "kubernetes",
            ContainerKind::Lxc => "lxc",
            ContainerKind::Other => "other",
            ContainerKind::UserNamespace => "user-namespace",
        }
    }

    /// The container that this process runs in; `None` outside of containers.
    pub(crate) fn find(tree: &MachineTree, variables: &SessionVariables) -> Option<ContainerKind> {
        let prefixes = ["APPTAINER_", "SINGULARITY_"];
        let has_variable = prefixes.iter().any(|prefix| variables.beginning(prefix).next().is_some());
        let kernel = tree.text_if_any("/proc/version").unwrap_or_default();
        let groups = tree.text_if_any("/proc/1/cgroup").unwrap_or_default();
        let is_docker = tree.exists("/.dockerenv") || groups.contains("/docker");
        if has_variable || tree.exists("/.singularity.d") {
            Some(ContainerKind::Apptainer)
        } else if is_docker && kernel.contains("linuxkit") {
            Some(ContainerKind::DockerDesktop)
        } else if groups.contains("kubepods") || variables.get("KUBERNETES_SERVICE_HOST").is_some() {
            Some(ContainerKind::Kubernetes)
        } else if tree.exists("/run/.containerenv") || variables.get("container") == Some("podman") {
            Some(ContainerKind::Podman)
        } else if is_docker {
            Some(ContainerKind::Docker)
        } else {
            match named(tree, variables).as_deref() {
                // The sockets for guests of LXD and Incus, which have no `pct`.
                Some("lxc") if tree.exists("/dev/lxd") || tree.exists("/dev/incus") => Some(ContainerKind::Other),
                Some("lxc") => Some(ContainerKind::Lxc),
                Some("docker") => Some(ContainerKind::Docker),
                Some("podman") => Some(ContainerKind::Podman),
                // systemd calls WSL a container.
                Some("wsl") => None,
                Some(_) => Some(ContainerKind::Other),
                None if groups.contains("/lxc") => Some(ContainerKind::Lxc),
                None if is_rootless(tree) => Some(ContainerKind::UserNamespace),
                None => None,
            }
        }
    }
}

/// The kind that the container's manager told its first process: systemd keeps it in a file, and
/// only root may read the variables.
fn named(tree: &MachineTree, variables: &SessionVariables) -> Option<String> {
    let own = variables.filled("container").map(str::to_owned);
    own.or_else(|| tree.text_if_any("/run/systemd/container")).or_else(|| {
        let text = tree.text_if_any("/proc/1/environ")?;
        SessionVariables::parse(&text).filled("container").map(str::to_owned)
    })
}

/// `true` if the numbers of users are not those of the host.
pub(crate) fn is_rootless(tree: &MachineTree) -> bool {
    uid_map(tree).is_some_and(|map| map != "0 0 4294967295")
}

/// The first row of the map of users: number here, number on the host, count.
pub(crate) fn uid_map(tree: &MachineTree) -> Option<String> {
    let map = tree.text_if_any("/proc/self/uid_map")?;
    Some(map.lines().next()?.split_whitespace().collect::<Vec<_>>().join(" "))
}
