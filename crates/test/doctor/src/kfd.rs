//! Input: the topology of the kernel driver in `/sys/class/kfd/kfd/topology` (libhsakmt reads the
//! same files). Output: its nodes, those that it hides, and what could not be read.
//!
//! A folder of a node has `gpu_id`, `properties` (a key and a decimal number a line) and
//! `mem_banks/N/properties`. Caches and links are thousands of files, which are not read.

use std::collections::BTreeMap;

use crate::finding::Symptom;
use crate::tree::{MachineTree, ReadFault};

const TOPOLOGY: &str = "/sys/class/kfd/kfd/topology";
/// The PCI number of AMD.
pub(crate) const AMD: u64 = 0x1002;
/// Times that a topology is read which changes meanwhile.
const ATTEMPTS: usize = 3;
/// Limit of the memory banks of a node.
const MOST_BANKS: usize = 64;

/// A node of the topology.
#[derive(Debug, Clone, Default)]
pub(crate) struct KfdNode {
    pub(crate) number: u64,
    /// The path of its `properties`.
    pub(crate) path: String,
    pub(crate) properties: BTreeMap<String, u64>,
    /// Sum of the sizes of its memory banks in bytes.
    pub(crate) memory: u64,
}

impl KfdNode {
    pub(crate) fn get(&self, key: &str) -> Option<u64> {
        self.properties.get(key).copied()
    }

    fn is_amd_gpu(&self, gpu_id: Option<u64>) -> bool {
        let is_gpu = gpu_id.map_or_else(|| self.get("simd_count").unwrap_or(0) > 0, |id| id != 0);
        is_gpu && self.get("vendor_id").is_none_or(|vendor| vendor == AMD)
    }
}

/// The nodes as the driver describes them.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// `true` if the driver offers computing at all.
    pub(crate) exists: bool,
    /// The GPUs of AMD, by number.
    pub(crate) gpus: Vec<KfdNode>,
    /// Numbers of the nodes that must not be read (EPERM), each with the path whose error it was.
    pub(crate) hidden: Vec<(u64, String)>,
    /// Checks that could not be made.
    pub(crate) faults: Vec<Symptom>,
}

impl Topology {
    pub(crate) fn read(tree: &MachineTree) -> Topology {
        let generation = format!("{TOPOLOGY}/generation_id");
        let mut before = tree.text_if_any(&generation);
        let mut found = Topology::read_once(tree);
        // A GPU that is added or reset meanwhile changes the number.
        for _ in 1..ATTEMPTS {
            let after = tree.text_if_any(&generation);
            if after == before {
                break;
            }
            before = after;
            found = Topology::read_once(tree);
        }
        found
    }

    fn read_once(tree: &MachineTree) -> Topology {
        let folder = format!("{TOPOLOGY}/nodes");
        let mut topology = Topology::default();
        let names = match tree.names(&folder) {
            Ok(names) => names,
            Err(ReadFault::Absent) => return topology,
            Err(fault) => {
                topology.exists = true;
                topology.faults.push(Symptom::not_read("Which GPUs the machine has", &folder, &fault));
                return topology;
            }
        };
        topology.exists = true;
        for name in names {
            let Ok(number) = name.parse::<u64>() else { continue };
            topology.read_node(tree, number, &format!("{folder}/{name}"));
        }
        topology
    }

    fn read_node(&mut self, tree: &MachineTree, number: u64, folder: &str) {
        let question = format!("Whether node {number} is a GPU that works");
        let path = format!("{folder}/properties");
        let id_path = format!("{folder}/gpu_id");
        // Old kernels and some copies have no such file.
        let gpu_id = match tree.text(&id_path) {
            Ok(text) => {
                let id = text.parse::<u64>().ok();
                if id.is_none() {
                    let symptom = Symptom::new("contradiction").fill("question", &question);
                    self.faults.push(symptom.seen(id_path, shown(&text)));
                }
                id
            }
            Err(ReadFault::Absent) => None,
            Err(ReadFault::NotPermitted) => return self.hidden.push((number, id_path)),
            Err(fault) => {
                self.faults.push(Symptom::not_read(&question, &id_path, &fault));
                None
            }
        };
        let text = match tree.text(&path) {
            Ok(text) => text,
            Err(ReadFault::NotPermitted) => return self.hidden.push((number, path)),
            Err(fault) => return self.faults.push(Symptom::not_read(&question, &path, &fault)),
        };
        let mut node = KfdNode { number, path: path.clone(), ..KfdNode::default() };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(key), Some(value), None) = (words.next(), words.next(), words.next()) else {
                return self
                    .faults
                    .push(Symptom::new("contradiction").fill("question", &question).seen(path, shown(line)));
            };
            let Ok(value) = value.parse::<u64>() else {
                return self
                    .faults
                    .push(Symptom::new("contradiction").fill("question", &question).seen(path, shown(line)));
            };
            node.properties.insert(key.to_owned(), value);
        }
        if node.properties.is_empty() {
            return self.faults.push(Symptom::new("contradiction").fill("question", &question).seen(path, "is empty"));
        }
        if node.is_amd_gpu(gpu_id) {
            node.memory = memory(tree, folder, &node);
            self.gpus.push(node);
        }
    }
}

/// A line for evidence, shortened.
fn shown(line: &str) -> String {
    line.chars().take(60).collect()
}

/// The memory of a GPU in bytes. New kernels have 0 in `local_mem_size`, old ones no folder.
fn memory(tree: &MachineTree, folder: &str, node: &KfdNode) -> u64 {
    let banks = tree.names(&format!("{folder}/mem_banks")).unwrap_or_default();
    let sizes = banks.iter().take(MOST_BANKS).filter_map(|bank| {
        let text = tree.text_if_any(&format!("{folder}/mem_banks/{bank}/properties"))?;
        text.lines().find_map(|line| line.strip_prefix("size_in_bytes ")?.trim().parse::<u64>().ok())
    });
    let sum = sizes.fold(0_u64, u64::saturating_add);
    if sum > 0 { sum } else { node.get("local_mem_size").unwrap_or(0) }
}

/// The target of the driver's `gfx_target_version`: 90402 is gfx942, 90010 gfx90a, 110000 gfx1100.
/// `None` for 0, and for numbers that no version has.
pub(crate) fn target_of(version: u64) -> Option<String> {
    let (major, minor, stepping) = (version / 10000, version / 100 % 100, version % 100);
    // Each of the two last digits of the name is one hexadecimal digit.
    ((1..=63).contains(&major) && minor < 16 && stepping < 16).then(|| format!("gfx{major}{minor:x}{stepping:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_decimal_and_names_are_not() {
        for (version, target) in [
            (90008, "gfx908"),
            (90010, "gfx90a"),
            (90012, "gfx90c"),
            (90402, "gfx942"),
            (90500, "gfx950"),
            (100_306, "gfx1036"),
            (110_501, "gfx1151"),
            (120_001, "gfx1201"),
            (120_500, "gfx1250"),
        ] {
            assert_eq!(target_of(version).as_deref(), Some(target));
        }
        for wrong in [0, 99, 90016, 91600, 990_000, u64::MAX] {
            assert_eq!(target_of(wrong), None, "{wrong}");
        }
    }
}
