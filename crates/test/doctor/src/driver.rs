//! Input: the kernel's command line and the firmware of each GPU. Output: what is known to fail.

use std::collections::BTreeSet;

use crate::boot;
use crate::finding::{Gravity, Symptom, known_bad};
use crate::gpus::GpuFacts;
use crate::pci::hexadecimal;
use crate::tree::{MachineTree, ReadFault};

/// Compares the firmware of the GPUs with the pairs that are known to fail.
pub(crate) fn check_firmware(tree: &MachineTree, gpus: &[GpuFacts], symptoms: &mut Vec<Symptom>) {
    for row in known_bad() {
        let Some(gpu) = gpus.iter().find(|gpu| gpu.target.as_deref() == Some(&row.target)) else { continue };
        let path = format!("{}/fw_version/{}", gpu.folder, row.file);
        let bad: Vec<String> = row.bad.iter().map(|bad| format!("{bad:#x}")).collect();
        let symptom = Symptom::new("known-bad-firmware").fill("link", &row.link);
        match tree.text(&path).map(|text| hexadecimal(&text).map(|number| number & row.mask)) {
            Ok(Some(version)) if row.bad.contains(&version) => {
                let reason = format!("The firmware {version:#x} is one of those that fail ({}).", bad.join(", "));
                symptoms.push(symptom.fill("reason", &reason).seen(path, format!("{version:#x}")).without_check());
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                let reason = format!(
                    "For {}, the versions {} of the MES firmware fail, and files do not show which one runs.",
                    row.target,
                    bad.join(" and ")
                );
                let symptom = symptom.fill("reason", &reason).seen(path, "no version");
                symptoms.push(symptom.weighing(Gravity::Note));
            }
        }
    }
}

/// Several GPUs behind a translating IOMMU.
pub(crate) fn check_iommu(tree: &MachineTree, gpus: &[GpuFacts], symptoms: &mut Vec<Symptom>) {
    const GROUPS: &str = "/sys/class/iommu";
    let cards: BTreeSet<&str> = gpus.iter().filter(|gpu| !gpu.integrated).map(GpuFacts::card).collect();
    if cards.len() < 2 {
        return;
    }
    let units = match tree.names(GROUPS) {
        Ok(units) => units,
        Err(ReadFault::Absent) => return,
        Err(fault) => return symptoms.push(Symptom::not_read("Whether an IOMMU is on", GROUPS, &fault)),
    };
    // A kernel may pass addresses through without being told to.
    let modes: Vec<(String, String)> = gpus
        .iter()
        .filter(|gpu| !gpu.integrated)
        .filter_map(|gpu| {
            let path = format!("{}/iommu_group/type", gpu.folder);
            tree.text_if_any(&path).map(|mode| (path, mode))
        })
        .collect();
    let translating = modes.iter().find(|(_, mode)| mode != "identity");
    if translating.is_none() && !modes.is_empty() {
        return;
    }
    let line = tree.text_if_any("/proc/cmdline").unwrap_or_default();
    let is_set = line.split_whitespace().any(|word| {
        ["iommu=pt", "iommu.passthrough=1", "amd_iommu=off", "intel_iommu=off", "iommu=off"].contains(&word)
    });
    if !units.is_empty() && !is_set {
        let symptom = Symptom::new("iommu").seen(GROUPS, units.join(", ")).seen("/proc/cmdline", "no iommu=pt");
        let symptom = boot::with_command(symptom, boot::add(tree, "iommu=pt"));
        symptoms.push(translating.into_iter().fold(symptom, |symptom, (path, mode)| symptom.seen(path, mode)));
    }
}
