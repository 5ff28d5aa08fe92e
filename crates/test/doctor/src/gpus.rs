//! Input: the nodes of the topology and the devices on the bus. Output: the GPUs in the runtime's
//! order, joined by PCI address, and what is wrong with the way they are offered.

use std::collections::BTreeMap;

use rocwheel_tables::TargetTable;
use serde::Serialize;

use crate::finding::{Gravity, Symptom};
use crate::kfd::{KfdNode, Topology, target_of};
use crate::pci::{self, PciGpu};
use crate::tree::MachineTree;
use crate::{module, reserved};

/// A GPU that the driver offers for computing. A partition of a GPU is one, too.
#[derive(Debug, Clone, Serialize)]
pub struct GpuFacts {
    /// Number of the node in the driver's topology.
    pub node: u64,
    /// Domain, bus, device and function on the PCI bus: `0000:03:00.0`.
    pub address: String,
    /// Path of the render node; `None` if the driver names none.
    pub render_node: Option<String>,
    /// The target: `gfx942`; `None` if the driver says nothing usable.
    pub target: Option<String>,
    pub product: String,
    /// `true` for a GPU inside the processor.
    pub integrated: bool,
    pub compute_units: u64,
    /// Memory in bytes, as the driver counts it.
    pub memory: u64,
    /// The mode of partitions, such as `CPX`.
    pub partition: Option<String>,
    /// The number that HIP gives it, after all masks; `None` if it is hidden or does not open.
    pub hip_index: Option<usize>,
    /// `true` if a mask hides it.
    pub masked: bool,
    /// The number that the runtime names a GPU by in masks. Partitions share it, and it is 0 for a
    /// GPU inside a processor. It identifies the machine, so no report has it.
    #[serde(skip)]
    pub(crate) unique_id: u64,
    /// Folder of the PCI device.
    #[serde(skip)]
    pub(crate) folder: String,
    #[serde(skip)]
    pub(crate) device: u64,
}

impl GpuFacts {
    /// What has to be equal for measurements to be compared: target, product, division and limit of
    /// power in watts.
    pub fn benchmark_facts(&self, tree: &MachineTree) -> BTreeMap<String, String> {
        let facts = [
            ("target", self.target.clone().unwrap_or_default()),
            ("device", format!("{:04x}", self.device)),
            ("compute units", self.compute_units.to_string()),
            ("partition", self.partition.clone().unwrap_or_default()),
            ("power limit", self.power_limit(tree).map_or_else(String::new, |watts| watts.to_string())),
        ];
        facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The limit of power in watts; the driver has it in microwatts.
    fn power_limit(&self, tree: &MachineTree) -> Option<u64> {
        let folder = format!("{}/hwmon", self.folder);
        let monitors = tree.names(&folder).ok()?;
        let mut limits = monitors.iter().filter_map(|name| tree.text_if_any(&format!("{folder}/{name}/power1_cap")));
        Some(limits.next()?.parse::<u64>().ok()? / 1_000_000)
    }

    /// Domain, bus and device without the function, which partitions differ in.
    pub(crate) fn card(&self) -> &str {
        self.address.split('.').next().unwrap_or_default()
    }

    /// The target, or words that say that it is not known.
    pub(crate) fn target_or_words(&self) -> &str {
        self.target.as_deref().unwrap_or("an unknown target")
    }
}

/// Makes the GPUs of the topology; what makes no sense is added to `symptoms`.
pub(crate) fn join(tree: &MachineTree, topology: &Topology, symptoms: &mut Vec<Symptom>) -> Vec<GpuFacts> {
    let mut gpus = Vec::new();
    for node in &topology.gpus {
        let gpu = of_node(tree, node);
        if let Some(problem) = nonsense(node, &gpu) {
            let question = format!("What the GPU of node {} is", node.number);
            symptoms.push(Symptom::new("contradiction").fill("question", &question).seen(&node.path, problem));
        }
        // Old kernels do not say it, and packages cannot be compared with the GPU then.
        if node.get("gfx_target_version").is_none() {
            let question = format!("Which target the GPU of node {} is", node.number);
            let symptom = Symptom::new("not-read").fill("question", &question);
            symptoms.push(symptom.seen(&node.path, "no gfx_target_version"));
        }
        gpus.push(gpu);
    }
    gpus
}

fn of_node(tree: &MachineTree, node: &KfdNode) -> GpuFacts {
    let location = node.get("location_id").unwrap_or(0);
    let card = format!("{:04x}:{:02x}:{:02x}", node.get("domain").unwrap_or(0), location >> 8, location >> 3 & 31);
    let address = format!("{card}.{}", location & 7);
    // The functions of partitions exist in the driver only.
    let folder = [&address, &format!("{card}.0")]
        .map(|address| format!("/sys/bus/pci/devices/{address}"))
        .into_iter()
        .find(|folder| tree.exists(folder))
        .unwrap_or_else(|| format!("/sys/bus/pci/devices/{address}"));
    let render_node = node.get("drm_render_minor").filter(|minor| *minor > 0);
    let target = node.get("gfx_target_version").and_then(target_of);
    let device = node.get("device_id").unwrap_or(0);
    let per_unit = node.get("simd_per_cu").filter(|count| *count > 0).unwrap_or(4);
    GpuFacts {
        node: node.number,
        product: pci::product(tree, &folder, device),
        integrated: is_integrated(tree, &folder, node, target.as_deref()),
        compute_units: node.get("simd_count").unwrap_or(0) / per_unit,
        memory: node.memory,
        partition: tree.text_if_any(&format!("{folder}/current_compute_partition")),
        render_node: render_node.map(|minor| format!("/dev/dri/renderD{minor}")),
        hip_index: None,
        masked: false,
        unique_id: node.get("unique_id").unwrap_or(0),
        target,
        address,
        folder,
        device,
    }
}

/// The first thing about a node that cannot be true.
fn nonsense(node: &KfdNode, gpu: &GpuFacts) -> Option<String> {
    let version = node.get("gfx_target_version");
    if let Some(version) = version.filter(|_| gpu.target.is_none()) {
        return Some(format!("gfx_target_version {version}"));
    }
    if node.get("simd_count").unwrap_or(0) == 0 {
        return Some("simd_count 0 of a GPU".to_owned());
    }
    if node.get("location_id").is_none() && node.get("drm_render_minor").is_none() {
        return Some("neither location_id nor drm_render_minor".to_owned());
    }
    None
}

/// `true` for the GPU of a processor. The files are those that amdgpu has for cards with memory of
/// their own; sizes of memory decide next, and the target's family last.
fn is_integrated(tree: &MachineTree, folder: &str, node: &KfdNode, target: Option<&str>) -> bool {
    const GIBIBYTE: u64 = 1 << 30;
    if node.get("cpu_cores_count").unwrap_or(0) > 0 {
        return true;
    }
    if ["mem_info_vram_vendor", "board_info"].iter().any(|name| tree.exists(&format!("{folder}/{name}"))) {
        return false;
    }
    let sizes = ["mem_info_vram_total", "mem_info_gtt_total"]
        .map(|name| tree.text_if_any(&format!("{folder}/{name}"))?.parse::<u64>().ok());
    if let [Some(own), Some(shared)] = sizes {
        return own <= 4 * GIBIBYTE && shared >= 8 * GIBIBYTE && shared / 4 >= own;
    }
    let table = TargetTable::embedded();
    let row = target.and_then(|target| table.get(target));
    row.is_some_and(|row| row.families.iter().any(|family| family == "igpu-all"))
}

/// GPUs on the bus that the driver does not offer, and partitions that it lacks.
pub(crate) fn check_offer(tree: &MachineTree, gpus: &[GpuFacts], bus: &[PciGpu], symptoms: &mut Vec<Symptom>) {
    for gpu in bus.iter().filter(|gpu| !gpus.iter().any(|offered| gpu.address.starts_with(offered.card()))) {
        let driver_path = format!("{}/driver", gpu.path);
        let symptom = match gpu.driver.as_deref() {
            Some("amdgpu") => Symptom::new("no-compute-node")
                .seen(driver_path, "amdgpu")
                .seen("/sys/class/kfd/kfd/topology/nodes", format!("no node at {}", gpu.address))
                // Beside a GPU that computes, an old one often serves the display only.
                .weighing(if gpus.is_empty() { Gravity::Error } else { Gravity::Warning }),
            Some(driver @ "radeon") => Symptom::new("display-driver").fill("driver", driver).seen(driver_path, driver),
            Some(driver) => reserved::describe(tree, gpu, driver).seen(driver_path, driver),
            None if tree.exists("/sys/module/amdgpu") => Symptom::new("driver-refuses")
                .fill("reason", &firmware(tree))
                .seen(driver_path, "does not exist")
                .seen("/sys/module/amdgpu", "exists"),
            None => module::not_loaded(tree)
                .seen(format!("{}/vendor", gpu.path), "0x1002")
                .seen("/sys/module/amdgpu", "does not exist"),
        };
        let symptom = symptom.seen(format!("{}/device", gpu.path), format!("1002:{:04X}", gpu.device));
        symptoms.push(symptom.fill("address", &gpu.address));
    }
    partitions(gpus, symptoms);
}

/// A sentence about the firmware on the disk.
fn firmware(tree: &MachineTree) -> String {
    match tree.names("/lib/firmware/amdgpu") {
        Ok(names) if names.is_empty() => "`/lib/firmware/amdgpu` is empty.".to_owned(),
        Ok(names) => format!("`/lib/firmware/amdgpu` has {} files; the log names a missing one.", names.len()),
        Err(fault) => format!("`/lib/firmware/amdgpu` {}.", fault.words()),
    }
}

/// Compares cards of one product that are divided in the same way.
fn partitions(gpus: &[GpuFacts], symptoms: &mut Vec<Symptom>) {
    let mut cards: BTreeMap<(u64, Option<&str>), BTreeMap<&str, usize>> = BTreeMap::new();
    for gpu in gpus {
        let mode = gpu.partition.as_deref();
        *cards.entry((gpu.device, mode)).or_default().entry(gpu.card()).or_default() += 1;
    }
    for ((_, mode), counts) in cards {
        let most = counts.values().copied().max().unwrap_or(0);
        for (card, count) in counts.into_iter().filter(|(_, count)| *count < most) {
            symptoms.push(
                Symptom::new("partitions-missing")
                    .fill("address", card)
                    .fill("mode", mode.unwrap_or("unknown"))
                    .fill("found", &count.to_string())
                    .fill("expected", &most.to_string())
                    .seen("/sys/class/kfd/kfd/topology/nodes", format!("{} GPU nodes, {count} at {card}", gpus.len())),
            );
        }
    }
}

/// The GPUs that programs see if their devices open: those that no mask hides, or all if the masks
/// hide all.
pub(crate) fn visible(gpus: &[GpuFacts]) -> Vec<&GpuFacts> {
    let visible: Vec<&GpuFacts> = gpus.iter().filter(|gpu| !gpu.masked).collect();
    if visible.is_empty() { gpus.iter().collect() } else { visible }
}

/// GPUs that the driver must not describe.
pub(crate) fn check_hidden(topology: &Topology, symptoms: &mut Vec<Symptom>) {
    let Some((_, path)) = topology.hidden.first() else { return };
    let numbers: Vec<String> = topology.hidden.iter().map(|(number, _)| number.to_string()).collect();
    let symptom = Symptom::new("gpu-hidden").fill("nodes", &numbers.join(", ")).seen(path, "EPERM");
    symptoms.push(if topology.gpus.is_empty() { symptom.weighing(Gravity::Error) } else { symptom });
}
