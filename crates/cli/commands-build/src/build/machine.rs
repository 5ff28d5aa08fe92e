//! GPU targets of the machine, read from the kernel's driver: no ROCm is needed.

use std::path::Path;

/// The GPU targets of all GPUs, sorted and each once; empty without a driver. `root` is `/` except
/// in tests.
pub(crate) fn gpu_targets(root: &Path) -> Vec<String> {
    let Ok(nodes) = fs_err::read_dir(root.join("sys/class/kfd/kfd/topology/nodes")) else { return Vec::new() };
    let files = nodes.filter_map(|node| fs_err::read_to_string(node.ok()?.path().join("properties")).ok());
    let versions = files.filter_map(|text| {
        let value = text.lines().find_map(|line| line.strip_prefix("gfx_target_version "))?;
        value.trim().parse::<u32>().ok()
    });
    let mut targets: Vec<String> = versions.filter(|version| *version > 0).map(target).collect();
    rocwheel_tables::target::sort(&mut targets);
    targets.dedup();
    targets
}

/// Converts a version such as `90402` to gfx942: two decimal digits each for the minor number and
/// the stepping; the stepping is written in hexadecimal.
fn target(version: u32) -> String {
    format!("gfx{}{}{:x}", version / 10_000, version / 100 % 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_the_driver() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(gpu_targets(root.path()), Vec::<String>::new());
        for (node, text) in [
            ("0", "cpu_cores_count 16\ngfx_target_version 0\n"),
            ("1", "simd_count 304\ngfx_target_version 90402\n"),
            ("2", "gfx_target_version 90402\n"),
            ("3", "gfx_target_version 90010\n"),
            ("4", "gfx_target_version 110501\n"),
        ] {
            let folder = root.path().join("sys/class/kfd/kfd/topology/nodes").join(node);
            fs_err::create_dir_all(&folder).unwrap();
            fs_err::write(folder.join("properties"), text).unwrap();
        }
        assert_eq!(gpu_targets(root.path()), ["gfx90a", "gfx942", "gfx1151"]);
    }
}
