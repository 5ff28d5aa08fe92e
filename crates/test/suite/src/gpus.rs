//! Input: the GPUs of this machine as the driver shows them. Output: one worker for each, with the
//! variable that hides the others.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_doctor::{MachineTree, PackageChoice, Patient, SessionVariables};
use rocwheel_progress::Reporter;

use crate::worker::TestWorker;

/// Facts about GPUs by the names that attempts have: `gpu0`.
pub type GpuTable = BTreeMap<String, BTreeMap<String, String>>;

/// The GPUs that a process can open here, after all masks, and a worker for each. Only GPUs of
/// `targets` count; all if it is empty.
pub fn find_gpus(
    variables: &BTreeMap<String, String>,
    targets: &BTreeSet<String>,
    scratch: &std::path::Path,
    reporter: &dyn Reporter,
) -> Result<(GpuTable, Vec<TestWorker>), rocwheel_doctor::Error> {
    let patient = Patient {
        tree: MachineTree::live(),
        variables: SessionVariables::of(variables.clone()),
        user: None,
        packages: PackageChoice::NotAsked,
        index: None,
        directory: None,
        needs_gpu: false,
        scratch: scratch.to_owned(),
    };
    let diagnosis = rocwheel_doctor::diagnose(&patient, reporter)?;
    let (mut table, mut workers) = (GpuTable::new(), Vec::new());
    let mut gpus: Vec<_> = diagnosis.gpus.iter().filter_map(|gpu| Some((gpu.hip_index?, gpu))).collect();
    gpus.sort_by_key(|(index, _)| *index);
    for (index, gpu) in gpus {
        let target = gpu.target.clone().unwrap_or_default();
        if !targets.is_empty() && !targets.contains(&target) {
            continue;
        }
        let name = format!("gpu{index}");
        let facts = [
            ("target", Some(target)),
            ("product", Some(gpu.product.clone())),
            ("location", Some(gpu.address.clone())),
            ("partition", gpu.partition.clone()),
            ("driver", diagnosis.system.driver.clone()),
            ("kernel", diagnosis.system.kernel.clone()),
            ("compute_units", Some(gpu.compute_units.to_string())),
        ];
        let facts = facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        table.insert(name.clone(), facts);
        workers.push(TestWorker { gpu: Some(name), variables: only_gpu(variables, index) });
    }
    Ok((table, workers))
}

/// The targets of these GPUs; `wanted` if there is none.
pub fn targets_of(gpus: &GpuTable, wanted: &BTreeSet<String>) -> Vec<String> {
    let found: BTreeSet<String> = gpus.values().filter_map(|facts| facts.get("target").cloned()).collect();
    if found.is_empty() { wanted.iter().cloned().collect() } else { found.into_iter().collect() }
}

/// The variable that leaves one of the visible GPUs. A mask that is set already numbers them, with
/// names such as `GPU-1f…` too.
fn only_gpu(variables: &BTreeMap<String, String>, index: usize) -> BTreeMap<String, String> {
    let mask = ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"]
        .iter()
        .find_map(|name| variables.get(*name).filter(|value| !value.trim().is_empty()));
    let token = mask
        .and_then(|mask| mask.split(',').nth(index))
        .map_or_else(|| index.to_string(), |token| token.trim().to_owned());
    BTreeMap::from([("HIP_VISIBLE_DEVICES".to_owned(), token)])
}

/// Distributes the workers evenly over the GPUs; one worker if there is no GPU.
pub fn workers_for(gpus: &[TestWorker], wanted: Option<usize>) -> Vec<TestWorker> {
    let count = wanted.unwrap_or(gpus.len()).max(1);
    (0..count).map(|index| gpus.get(index % gpus.len().max(1)).cloned().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_that_is_set_numbers_the_gpus() {
        let variables = |mask: &str| BTreeMap::from([("HIP_VISIBLE_DEVICES".to_owned(), mask.to_owned())]);
        let token = |mask: &str, index| only_gpu(&variables(mask), index)["HIP_VISIBLE_DEVICES"].clone();
        assert_eq!(token("2,3", 1), "3");
        assert_eq!(token("GPU-1f, 0", 0), "GPU-1f");
        assert_eq!(only_gpu(&BTreeMap::new(), 1)["HIP_VISIBLE_DEVICES"], "1");
    }

    #[test]
    fn workers_share_the_gpus() {
        let gpus: Vec<TestWorker> =
            ["gpu0", "gpu1"].map(|name| TestWorker { gpu: Some(name.into()), ..TestWorker::default() }).to_vec();
        let names = |wanted| -> Vec<Option<String>> {
            workers_for(&gpus, wanted).into_iter().map(|worker| worker.gpu).collect()
        };
        assert_eq!(names(None).len(), 2);
        assert_eq!(names(Some(3))[2].as_deref(), Some("gpu0"));
        assert_eq!(workers_for(&[], None).len(), 1);
        assert_eq!(workers_for(&[], Some(3)).len(), 3);
    }
}
