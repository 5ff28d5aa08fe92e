//! Facts about the system that a report begins with.

use serde::Serialize;

use crate::container::ContainerKind;
use crate::tree::MachineTree;
use crate::variables::SessionVariables;
use crate::wsl;

#[derive(Debug, Clone, Serialize)]
pub struct SystemFacts {
    /// Release of the kernel: `6.12.48-amd64`.
    pub kernel: Option<String>,
    /// `true` if the module amdgpu is loaded or built in; `None` if there is no list of modules.
    pub driver_loaded: Option<bool>,
    /// Version of the driver, which only that of AMD's own packages has (DKMS).
    pub driver: Option<String>,
    /// The kind of container; `None` outside of one.
    pub container: Option<&'static str>,
    /// `true` in the Windows Subsystem for Linux.
    pub wsl: bool,
    /// Name and version as `/etc/os-release` has them: `debian 13`.
    pub distribution: Option<String>,
}

impl SystemFacts {
    pub(crate) fn read(
        tree: &MachineTree,
        variables: &SessionVariables,
        container: Option<ContainerKind>,
    ) -> SystemFacts {
        // Only amdgpu describes nodes, and a copy may lack its folder.
        let is_loaded = tree.exists("/sys/module/amdgpu") || tree.exists("/sys/class/kfd/kfd/topology/nodes");
        SystemFacts {
            kernel: tree.text_if_any("/proc/sys/kernel/osrelease"),
            driver_loaded: (is_loaded || tree.exists("/sys/module")).then_some(is_loaded),
            driver: tree.text_if_any("/sys/module/amdgpu/version"),
            container: container.map(ContainerKind::name),
            wsl: wsl::is_wsl(tree, variables),
            distribution: tree.text_if_any("/etc/os-release").as_deref().and_then(distribution),
        }
    }
}

fn distribution(release: &str) -> Option<String> {
    let values = ["ID=", "VERSION_ID="].map(|key| release.lines().find_map(|line| line.strip_prefix(key)));
    let [Some(name), Some(version)] = values else { return None };
    Some([name, version].map(|value| value.trim_matches(['"', '\''])).join(" "))
}

/// Bytes of the list of processors; one with 512 threads has some 800 KB.
const PROCESSORS: u64 = 8 << 20;

/// The name of the processor and its number of threads; empty if the kernel does not say it.
pub fn processor(tree: &MachineTree) -> String {
    let Ok(text) = tree.text_up_to("/proc/cpuinfo", PROCESSORS) else { return String::new() };
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let fields: Vec<(&str, &str)> = fields.map(|(key, value)| (key.trim(), value.trim())).collect();
    let threads = fields.iter().filter(|(key, _)| *key == "processor").count();
    let model = fields.iter().find(|(key, _)| ["model name", "CPU part"].contains(key));
    format!("{} ({threads})", model.map_or("unknown", |(_, value)| *value))
}
