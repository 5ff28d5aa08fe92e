//! Input: a Linux inside of Windows. Output: whether the runtime can reach the GPU there.
//!
//! WSL has neither /dev/kfd nor the module amdgpu; their absence is not a finding.

use crate::container::ContainerKind;
use crate::finding::{Gravity, Symptom};
use crate::tree::MachineTree;
use crate::variables::SessionVariables;

const DOOR: &str = "/dev/dxg";
/// Folders of the distribution and of ROCm's installer.
const FOLDERS: [&str; 4] = ["/opt/rocm/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib"];

/// No command can bring it.
const UNPACKAGED: &str =
    "librocdxg.so was not found. No package has it: it is built from the sources of librocdxg, a project of ROCm.";

/// `true` in the Windows Subsystem for Linux.
pub(crate) fn is_wsl(tree: &MachineTree, variables: &SessionVariables) -> bool {
    let kernel = tree.text_if_any("/proc/version").unwrap_or_default().to_lowercase();
    let is_named = kernel.contains("microsoft") || kernel.contains("wsl");
    tree.exists(DOOR) || is_named || variables.get("WSL_DISTRO_NAME").is_some()
}

/// Looks for what the runtime needs. `own` are folders of installed packages with the runtime, as
/// paths of the tree.
pub(crate) fn check(
    tree: &MachineTree,
    variables: &SessionVariables,
    (own, container): (&[String], Option<ContainerKind>),
    symptoms: &mut Vec<Symptom>,
) {
    if !tree.exists(DOOR) && container.is_some() {
        let symptom = Symptom::new("wsl-libraries").fill("reason", "The container was started without /dev/dxg.");
        let command = "docker run --device /dev/dxg --volume /usr/lib/wsl:/usr/lib/wsl {image}";
        return symptoms.push(symptom.fill("command", command).seen(DOOR, "does not exist"));
    }
    if !tree.exists(DOOR) {
        let reason = "There is no /dev/dxg: WSL 1, or a driver of Windows that does not offer the GPU.";
        let symptom = Symptom::new("wsl-libraries").fill("reason", reason).fill("command", "wsl.exe --update");
        return symptoms.push(symptom.seen(DOOR, "does not exist"));
    }
    let folders: Vec<&str> = own.iter().map(String::as_str).chain(FOLDERS).collect();
    let bridge = folders.iter().find(|folder| has_library(tree, folder, "librocdxg.so"));
    let distribution = FOLDERS[1..3].iter().find(|folder| has_library(tree, folder, "libhsa-runtime64.so"));
    if bridge.is_none() {
        let symptom = Symptom::new("wsl-libraries").fill("reason", UNPACKAGED).without_command();
        symptoms.push(folders.iter().fold(symptom, |symptom, folder| symptom.seen(*folder, "no librocdxg.so")));
    } else if let Some(folder) = distribution {
        let symptom = Symptom::new("wsl-libraries")
            .fill("reason", "The distribution's libhsa-runtime64 comes first.")
            .fill("command", "sudo apt remove libhsa-runtime64-1 libhsakmt1");
        symptoms.push(symptom.seen(*folder, "libhsa-runtime64.so"));
    } else if variables.get("HSA_ENABLE_DXG_DETECTION") != Some("1") {
        let symptom = Symptom::new("wsl-libraries")
            .fill("reason", "HSA_ENABLE_DXG_DETECTION is not 1.")
            .fill("command", "export HSA_ENABLE_DXG_DETECTION=1")
            .weighing(Gravity::Warning);
        let value = variables.get("HSA_ENABLE_DXG_DETECTION").unwrap_or("not set");
        symptoms.push(symptom.seen("HSA_ENABLE_DXG_DETECTION", value));
    }
}

fn has_library(tree: &MachineTree, folder: &str, start: &str) -> bool {
    tree.names(folder).unwrap_or_default().iter().any(|name| name.starts_with(start))
}
