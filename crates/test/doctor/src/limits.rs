//! Input: the limits of the session. Output: a finding if little memory may be locked.

use crate::finding::Symptom;
use crate::tree::MachineTree;

/// The file with the limits of a process.
pub(crate) const LIMITS: &str = "/proc/self/limits";
/// Bytes below which a limit is an old one: kernels and systemd of today have 8 MiB.
const LITTLE: u64 = 1 << 20;

/// Looks at the limit of locked memory; `false` if the file does not tell it.
pub(crate) fn check(tree: &MachineTree, symptoms: &mut Vec<Symptom>) -> bool {
    let Some(text) = tree.text_if_any(LIMITS) else { return false };
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("Max locked memory")) else { return false };
    let Some(soft) = line.split_whitespace().next() else { return false };
    match soft.parse::<u64>() {
        Ok(bytes) if bytes < LITTLE => {
            let limit = format!("{} KiB", bytes >> 10);
            symptoms.push(Symptom::new("locked-memory").fill("limit", &limit).seen(LIMITS, format!("{soft} bytes")));
            true
        }
        Ok(_) => true,
        Err(_) => soft == "unlimited",
    }
}
