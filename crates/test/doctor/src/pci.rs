//! Input: `/sys/bus/pci/devices`. Output: AMD's GPUs on the bus, whatever drives them.

use crate::finding::Symptom;
use crate::kfd::AMD;
use crate::tree::{MachineTree, ReadFault};

pub(crate) const DEVICES: &str = "/sys/bus/pci/devices";

/// A GPU on the PCI bus.
#[derive(Debug, Clone)]
pub(crate) struct PciGpu {
    /// Domain, bus, device and function: `0000:03:00.0`.
    pub(crate) address: String,
    /// Name of its driver: `amdgpu`, `vfio-pci`.
    pub(crate) driver: Option<String>,
    /// Number of the product.
    pub(crate) device: u64,
    pub(crate) path: String,
}

/// The GPUs of AMD on the bus, by address, and what could not be read.
pub(crate) fn read(tree: &MachineTree) -> (Vec<PciGpu>, Vec<Symptom>) {
    let question = "Which GPUs are on the PCI bus";
    let names = match tree.names(DEVICES) {
        Ok(names) => names,
        Err(ReadFault::Absent) => return (Vec::new(), Vec::new()),
        Err(fault) => return (Vec::new(), vec![Symptom::not_read(question, DEVICES, &fault)]),
    };
    let (mut gpus, mut faults) = (Vec::new(), Vec::new());
    for address in names {
        let path = format!("{DEVICES}/{address}");
        match number_in(tree, &path, "vendor") {
            Ok(Some(AMD)) => {}
            Ok(_) | Err(ReadFault::Absent) => continue,
            Err(fault) => {
                faults.push(Symptom::not_read(question, &format!("{path}/vendor"), &fault));
                continue;
            }
        }
        // Class 03 are display controllers; 12 are processing accelerators, as datacentre GPUs are.
        let class = number_in(tree, &path, "class").ok().flatten().unwrap_or(0);
        if class >> 16 != 0x03 && class >> 16 != 0x12 {
            continue;
        }
        let driver = tree.link_name(&format!("{path}/driver"));
        let device = number_in(tree, &path, "device").ok().flatten().unwrap_or(0);
        gpus.push(PciGpu { address, driver, device, path });
    }
    (gpus, faults)
}

fn number_in(tree: &MachineTree, folder: &str, name: &str) -> Result<Option<u64>, ReadFault> {
    Ok(hexadecimal(&tree.text(&format!("{folder}/{name}"))?))
}

/// `0x1002` as a number.
pub(crate) fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

/// The product of a GPU: what its folder says, else libdrm's table of this machine, else its
/// number.
pub(crate) fn product(tree: &MachineTree, folder: &str, device: u64) -> String {
    if let Some(name) = tree.text_if_any(&format!("{folder}/product_name")) {
        return name.chars().take(80).collect();
    }
    let revision = tree.text_if_any(&format!("{folder}/revision")).and_then(|text| hexadecimal(&text));
    let table = tree.text_up_to("/usr/share/libdrm/amdgpu.ids", 1 << 20).unwrap_or_default();
    let listed = table.lines().find_map(|line| {
        let mut fields = line.splitn(3, ',').map(str::trim);
        let (id, fits, name) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = hexadecimal(id) == Some(device) && revision.is_some() && hexadecimal(fits) == revision;
        is_it.then(|| name.to_owned())
    });
    listed.unwrap_or_else(|| format!("AMD GPU 1002:{device:04X}"))
}
