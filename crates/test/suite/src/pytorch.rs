//! PyTorch's own tests: which files there are, the environment in which they run, and the command
//! of its runner (`test/run_test.py`), as TheRock's script has them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rocwheel_tables::TargetTable;

use crate::supervisor::ProgramLine;
use rocwheel_progress::{Exit, Failure};

/// The files that TheRock's script runs.
pub const PYTORCH_FILES: [&str; 6] =
    ["test_nn", "test_torch", "test_cuda", "test_unary_ufuncs", "test_binary_ufuncs", "test_autograd"];

/// The job of PyTorch's CI whose recorded times divide the tests on targets without a job.
const OTHER_JOB: &str = "linux-noble-rocm-py3.12-mi300";

#[derive(Debug, Clone)]
pub struct PytorchTests {
    /// The checkout, as an absolute path.
    pub checkout: PathBuf,
    /// Names such as `test_nn` or `nn/test_pooling`; if there are none, [`PYTORCH_FILES`].
    pub names: Vec<String>,
}

impl PytorchTests {
    fn names(&self) -> Vec<&str> {
        if self.names.is_empty() { PYTORCH_FILES.to_vec() } else { self.names.iter().map(String::as_str).collect() }
    }

    /// The paths of the tests, for pytest.
    pub fn paths(&self) -> Result<Vec<String>, Failure> {
        let mut paths = Vec::new();
        for name in self.names() {
            let (file, ids) = name.find("::").map_or((name, ""), |place| name.split_at(place));
            let path = self.checkout.join("test").join(format!("{}.py", file.trim_end_matches(".py")));
            if !path.is_file() {
                return Err(Failure::message(format!("`{}` does not exist", path.display()))
                    .with_hint("name files of PyTorch's `test` folder: test_nn, nn/test_pooling")
                    .with_exit(Exit::Usage));
            }
            paths.push(format!("{}{ids}", path.display()));
        }
        Ok(paths)
    }

    /// Sets the environment and the working directory of the tests. `is_rocm` says that torch is
    /// built for HIP.
    pub fn prepare(&self, base: &mut ProgramLine, scratch: &Path, is_rocm: bool) -> Result<(), Failure> {
        base.directory = self.checkout.join("test");
        let mut search = base.directory.clone().into_os_string();
        if let Some(given) = base.variables.get(&OsString::from("PYTHONPATH")).filter(|given| !given.is_empty()) {
            search.push(":");
            search.push(given);
        }
        base.set("PYTHONPATH", search);
        base.set("PYTORCH_PRINT_REPRO_ON_FAILURE", "0");
        if is_rocm {
            base.set("PYTORCH_TEST_WITH_ROCM", "1");
            base.set("PYTORCH_TESTING_DEVICE_ONLY_FOR", "cuda");
            let cache = scratch.join("miopen");
            fs_err::create_dir_all(&cache)?;
            base.set("MIOPEN_CUSTOM_CACHE_DIR", cache);
        }
        // With CI set, PyTorch's tests download lists of the day, and a failed download is an empty
        // list.
        base.variables.remove(&OsString::from("CI"));
        Ok(())
    }

    /// The command of PyTorch's runner. `base` is the environment of [`PytorchTests::prepare`],
    /// `options` those of the user, and `targets` the GPUs that it runs on.
    pub fn runner(
        &self,
        base: &ProgramLine,
        python: &Path,
        options: &RunnerOptions<'_>,
        targets: &[String],
    ) -> ProgramLine {
        let mut words: Vec<OsString> = vec![python.into()];
        words.extend(["test/run_test.py", "--keep-going", "--verbose"].map(OsString::from));
        if let Some((index, count)) = options.shard {
            words.extend(["--shard".into(), index.to_string().into(), count.to_string().into()]);
        }
        words.push("--include".into());
        words.extend(self.names().into_iter().map(|name| OsString::from(name.trim_end_matches(".py"))));
        if let Some(expression) = options.expression {
            words.extend(["-k".into(), expression.into()]);
        }
        words.extend(options.more.iter().map(OsString::from));
        let mut program = ProgramLine { words, directory: self.checkout.clone(), variables: base.variables.clone() };
        set_runner_variables(&mut program, targets);
        program
    }
}

/// What the user asks of PyTorch's runner.
#[derive(Debug, Clone, Copy)]
pub struct RunnerOptions<'a> {
    /// A part, from 1, and the number of parts.
    pub shard: Option<(u32, u32)>,
    pub expression: Option<&'a str>,
    /// Further options, unchanged.
    pub more: &'a [String],
}

/// Sets what the runner needs for a torch with HIP. Variables that the user has set stay.
fn set_runner_variables(program: &mut ProgramLine, targets: &[String]) {
    let is_distributed = program.words.iter().any(|word| word == "--distributed-tests");
    let is_rocm = program.variables.contains_key(&OsString::from("PYTORCH_TEST_WITH_ROCM"));
    program.set_default("TEST_CONFIG", if is_distributed { "distributed" } else { "default" });
    if is_rocm {
        program.set_default("BUILD_ENVIRONMENT", &job_of(targets));
    }
    if is_rocm && !is_distributed {
        // The runner counts the GPUs of the machine, and starts as many processes, which all get
        // the one GPU that is visible.
        program.set_default("PYTORCH_TEST_RUN_EVERYTHING_IN_SERIAL", "1");
    }
}

/// The job of PyTorch's CI for GPUs of these targets.
fn job_of(targets: &[String]) -> String {
    let table = TargetTable::embedded();
    let names: BTreeSet<&str> = targets.iter().filter_map(|target| target.split(':').next()).collect();
    let rows = table.targets().iter().filter(|row| names.contains(row.name.as_str()));
    rows.into_iter().find_map(|row| row.pytorch_job.clone()).unwrap_or_else(|| OTHER_JOB.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn variables(words: &[&str], given: &[(&str, &str)], targets: &[&str]) -> BTreeMap<String, String> {
        let pairs = given.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let mut program = ProgramLine {
            words: words.iter().map(OsString::from).collect(),
            directory: PathBuf::new(),
            variables: pairs.collect(),
        };
        let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
        set_runner_variables(&mut program, &targets);
        let pairs = program.variables.iter();
        pairs.map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())).collect()
    }

    #[test]
    fn one_gpu_is_not_shared_and_times_are_of_the_same_gpu() {
        let rocm = ("PYTORCH_TEST_WITH_ROCM", "1");
        let found = variables(&["python"], &[rocm], &["gfx1100"]);
        assert_eq!(found["PYTORCH_TEST_RUN_EVERYTHING_IN_SERIAL"], "1");
        assert_eq!(found["TEST_CONFIG"], "default");
        assert_eq!(found["BUILD_ENVIRONMENT"], "linux-jammy-rocm-py3.10-navi31");
        let found = variables(&["python", "--distributed-tests"], &[rocm, ("BUILD_ENVIRONMENT", "mine")], &["gfx942"]);
        assert!(!found.contains_key("PYTORCH_TEST_RUN_EVERYTHING_IN_SERIAL"));
        assert_eq!((&*found["TEST_CONFIG"], &*found["BUILD_ENVIRONMENT"]), ("distributed", "mine"));
        assert!(!variables(&["python"], &[], &[]).contains_key("BUILD_ENVIRONMENT"), "a torch for the CPU");
        for (target, job) in [
            ("gfx90a:xnack-", "linux-jammy-rocm-py3.10-mi200"),
            ("gfx950", "linux-noble-rocm-py3.12-mi355"),
            ("gfx1103", "linux-jammy-rocm-py3.10-navi31"),
            ("gfx942", OTHER_JOB),
        ] {
            assert_eq!(job_of(&[target.to_owned()]), job, "{target}");
        }
    }
}
