//! Input: a machine. Output: facts that change measurements and that its hardware does not fix.

use std::collections::BTreeMap;

use rocwheel_doctor::MachineTree;
use serde::{Deserialize, Serialize};

/// Processes of one processor that wait or run, on average, from which a machine is busy.
const BUSY: f64 = 0.5;

/// What a machine was like when measurements began. Facts that could not be read are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BenchConditions(BTreeMap<String, String>);

impl BenchConditions {
    pub fn of(tree: &MachineTree) -> BenchConditions {
        let mut processors = tree.names_if_any("/sys/devices/system/cpu").unwrap_or_default();
        processors.retain(|name| name.strip_prefix("cpu").is_some_and(|rest| rest.parse::<u32>().is_ok()));
        let mut governors: Vec<String> = processors
            .iter()
            .filter_map(|name| tree.text_if_any(&format!("/sys/devices/system/cpu/{name}/cpufreq/scaling_governor")))
            .collect();
        governors.sort();
        governors.dedup();
        let load = tree.text_if_any("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        #[allow(clippy::cast_precision_loss, reason = "a machine has fewer than 2^52 processors")]
        let limit = BUSY * processors.len().max(1) as f64;
        let users = tree.names_if_any("/sys/class/kfd/kfd/proc");
        let facts = [
            ("governor", Some(governors.join(", "))),
            ("boost", tree.text_if_any("/sys/devices/system/cpu/cpufreq/boost")),
            ("machine", load.map(|load| if load >= limit { "busy" } else { "quiet" }.to_owned())),
            ("load", load.map(|load| load.to_string())),
            ("other programs on the GPUs", users.map(|users| if users.is_empty() { "no" } else { "yes" }.to_owned())),
        ];
        let known = facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        BenchConditions(known.filter(|(_, value)| !value.is_empty()).collect())
    }

    /// What differs, as `governor was powersave and is performance`. A fact that one side lacks
    /// does not count, and neither does the load itself, which is never the same twice.
    pub fn differences(&self, before: &BenchConditions) -> Vec<String> {
        self.compare(before, &["load"])
    }

    /// What changed while measurements were made, which make the machine busy themselves.
    pub fn changes(&self, begin: &BenchConditions) -> Vec<String> {
        self.compare(begin, &["load", "machine"])
    }

    fn compare(&self, before: &BenchConditions, left_out: &[&str]) -> Vec<String> {
        let compared = self.0.iter().filter(|(name, _)| !left_out.contains(&name.as_str()));
        let differences = compared.filter_map(|(name, now)| {
            let was = before.0.get(name).filter(|was| *was != now)?;
            Some(format!("{name} was {was} and is {now}"))
        });
        differences.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(governor: &str, load: &str) -> BenchConditions {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", governor),
            ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
            ("proc/loadavg", load),
        ] {
            let path = folder.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        BenchConditions::of(&MachineTree::of_folder(folder.path()).unwrap())
    }

    #[test]
    fn another_governor_and_a_busy_machine_are_other_conditions() {
        let quiet = machine("performance\n", "0.25 1.00 2.00 1/300 4000\n");
        assert_eq!(quiet.0["load"], "0.25");
        assert_eq!(machine("performance\n", "0.75 1.00 2.00 1/300 4000\n").differences(&quiet), Vec::<String>::new());
        assert_eq!(
            machine("powersave\n", "2 1 2 1/3 4\n").differences(&quiet),
            ["governor was performance and is powersave", "machine was quiet and is busy"]
        );
        assert_eq!(machine("performance\n", "2 1 2 1/3 4\n").changes(&quiet), Vec::<String>::new());
        // A history of an older version has no conditions.
        assert_eq!(quiet.differences(&BenchConditions::default()), Vec::<String>::new());
        assert!(machine("", "nonsense").0.keys().eq(["boost"]));
    }
}
