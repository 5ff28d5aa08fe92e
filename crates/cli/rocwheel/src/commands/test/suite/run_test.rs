//! The environment of PyTorch's own runner, `test/run_test.py`, as TheRock's script sets it.

use std::ffi::OsString;

use rocwheel_suite::supervisor::ProgramLine;

/// Targets and the jobs of PyTorch's own CI whose recorded times divide the tests into shards.
const TIMES: [(&str, &str); 3] = [
    ("gfx90a", "linux-jammy-rocm-py3.10-mi200"),
    ("gfx950", "linux-noble-rocm-py3.12-mi355"),
    ("gfx110", "linux-jammy-rocm-py3.10-navi31"),
];
/// The job of all other targets: relative times are similar.
const OTHER_TIMES: &str = "linux-noble-rocm-py3.12-mi300";

/// Sets what the runner needs for a torch with HIP. Variables that the user has set stay.
pub(super) fn set_variables(program: &mut ProgramLine, targets: &[String]) {
    let is_distributed = program.words.iter().any(|word| word == "--distributed-tests");
    let is_rocm = program.variables.contains_key(&OsString::from("PYTORCH_TEST_WITH_ROCM"));
    let mut wanted = vec![("TEST_CONFIG", if is_distributed { "distributed" } else { "default" })];
    if is_rocm {
        wanted.push(("BUILD_ENVIRONMENT", times_of(targets)));
    }
    if is_rocm && !is_distributed {
        // The runner counts the GPUs of the machine, and starts as many processes, which all get
        // the one GPU that is visible.
        wanted.push(("PYTORCH_TEST_RUN_EVERYTHING_IN_SERIAL", "1"));
    }
    for (name, value) in wanted {
        if !program.variables.contains_key(&OsString::from(name)) {
            program.set(name, value);
        }
    }
}

fn times_of(targets: &[String]) -> &'static str {
    let known = TIMES.iter().find(|(start, _)| targets.iter().any(|target| target.starts_with(start)));
    known.map_or(OTHER_TIMES, |(_, job)| job)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;

    fn variables(words: &[&str], given: &[(&str, &str)], targets: &[&str]) -> BTreeMap<String, String> {
        let pairs = given.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let mut program = ProgramLine {
            words: words.iter().map(OsString::from).collect(),
            directory: PathBuf::new(),
            variables: pairs.collect(),
        };
        let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
        set_variables(&mut program, &targets);
        let text = |value: &OsString| value.to_string_lossy().into_owned();
        program.variables.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn one_gpu_is_not_shared_and_times_are_of_the_same_gpu() {
        let rocm = ("PYTORCH_TEST_WITH_ROCM", "1");
        let found = variables(&["python"], &[rocm], &["gfx1100"]);
        assert_eq!(found["PYTORCH_TEST_RUN_EVERYTHING_IN_SERIAL"], "1");
        assert_eq!((&*found["TEST_CONFIG"], &*found["BUILD_ENVIRONMENT"]), ("default", TIMES[2].1));
        let found = variables(&["python", "--distributed-tests"], &[rocm, ("BUILD_ENVIRONMENT", "mine")], &["gfx942"]);
        assert!(!found.contains_key("PYTORCH_TEST_RUN_EVERYTHING_IN_SERIAL"));
        assert_eq!((&*found["TEST_CONFIG"], &*found["BUILD_ENVIRONMENT"]), ("distributed", "mine"));
        assert_eq!(times_of(&["gfx942".to_owned()]), OTHER_TIMES);
        assert!(!variables(&["python"], &[], &[]).contains_key("BUILD_ENVIRONMENT"), "a torch for the CPU");
    }
}
