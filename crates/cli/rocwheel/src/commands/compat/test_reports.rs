//! `rocwheel compat summarize_test_results` and `generate_test_sharding_matrix`: TheRock's flags.

use std::path::PathBuf;

use clap::Args;
use rocwheel_commands_test::test::report;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_progress::Exit;

use super::given;

/// summarize_test_results: what the tests of PyTorch said; nothing and damage are no pass
#[derive(Debug, Args)]
pub(super) struct SummaryArguments {
    /// Folder with the reports of one shard
    #[arg(long, value_name = "DIR", default_value = "external-builds/pytorch/pytorch/test/test-reports")]
    reports_dir: PathBuf,
    /// Folder with folders `test-reports-CONFIG-SHARD-SHARDS`
    #[arg(long, value_name = "DIR")]
    combined_dir: Option<PathBuf>,
    /// Name of the configuration, for the title
    #[arg(long, value_name = "NAME", env = "TEST_CONFIG", default_value = "")]
    test_config: String,
    /// GPU family, for the title
    #[arg(long, value_name = "FAMILY", env = "AMDGPU_FAMILY", default_value = "")]
    amdgpu_family: String,
    /// Version of torch, for the title
    #[arg(long, value_name = "VERSION", env = "TORCH_VERSION", default_value = "")]
    torch_version: String,
    /// Version of Python, for the title
    #[arg(long, value_name = "VERSION", env = "PYTHON_VERSION", default_value = "")]
    python_version: String,
    /// Index of the packages, for the title
    #[arg(long, value_name = "URL", env = "PACKAGE_INDEX_URL", default_value = "")]
    package_index_url: String,
    /// Branch of PyTorch, for the title
    #[arg(long, value_name = "REF", env = "PYTORCH_GIT_REF", default_value = "")]
    pytorch_git_ref: String,
}

impl SummaryArguments {
    pub(super) fn settings(self) -> report::Settings {
        let folder = self.combined_dir.filter(|path| !path.as_os_str().is_empty()).unwrap_or(self.reports_dir);
        let parts = [
            given(Some(self.test_config)),
            given(Some(self.amdgpu_family)),
            given(Some(self.torch_version)).map(|version| format!("torch {version}")),
            given(Some(self.python_version)).map(|version| format!("Python {version}")),
            given(Some(self.pytorch_git_ref)).map(|commit| format!("sources {commit}")),
            given(Some(self.package_index_url)),
        ];
        let title: Vec<String> = parts.into_iter().flatten().collect();
        let title = if title.is_empty() { "Tests of PyTorch".to_owned() } else { title.join(", ") };
        report::Settings::of_folder(folder, title)
    }
}

/// generate_test_sharding_matrix: the jobs that PyTorch's tests are divided into
#[derive(Debug, Args)]
pub(super) struct MatrixArguments {
    /// Configurations, with spaces between them
    #[arg(long, value_name = "NAMES")]
    test_configs: String,
    /// Label of runners with one GPU
    #[arg(long, value_name = "LABEL")]
    default_runner: String,
    /// Label of runners with several GPUs
    #[arg(long, value_name = "LABEL")]
    multi_gpu_runner: String,
}

/// Shards of each configuration in PyTorch's own CI (framework-builds spec 3.6).
const SHARDS: [(&str, u32); 3] = [("default", 6), ("distributed", 3), ("inductor", 2)];
/// Shards of other configurations.
const OTHER: u32 = 4;

/// A job of the matrix.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct ShardJob {
    test_config: String,
    shard: u32,
    num_shards: u32,
    runs_on: String,
}

impl MatrixArguments {
    pub(super) fn jobs(self) -> Result<Vec<ShardJob>, Usage> {
        let mut jobs = Vec::new();
        for config in self.test_configs.split_whitespace() {
            let num_shards = SHARDS.iter().find(|(name, _)| *name == config).map_or(OTHER, |(_, shards)| *shards);
            let runner = if config == "distributed" { &self.multi_gpu_runner } else { &self.default_runner };
            if runner.trim().is_empty() {
                return Err(Usage::new(format!("the configuration `{config}` has no runner"))
                    .hint("a job without a label would wait for ever"));
            }
            jobs.extend((1..=num_shards).map(|shard| ShardJob {
                test_config: config.to_owned(),
                shard,
                num_shards,
                runs_on: runner.clone(),
            }));
        }
        if jobs.is_empty() {
            return Err(Usage::new("`--test-configs` names no configuration"));
        }
        Ok(jobs)
    }
}

/// Prints the matrix, and sets it as the output `matrix` of the step.
pub(super) fn print_matrix(jobs: &[ShardJob], printer: &Printer) -> Result<Exit> {
    let matrix = serde_json::json!({ "include": jobs });
    printer.outputs(&[("matrix", &matrix.to_string())])?;
    if printer.format() == ResultFormat::Json {
        printer.json(&matrix)?;
    } else {
        printer.line(format!("matrix={matrix}"))?;
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_that_of_the_script() {
        let arguments = |configs: &str, multi: &str| MatrixArguments {
            test_configs: configs.to_owned(),
            default_runner: "one".to_owned(),
            multi_gpu_runner: multi.to_owned(),
        };
        let jobs = arguments("default distributed inductor new", "many").jobs().unwrap();
        assert_eq!(jobs.len(), 6 + 3 + 2 + 4);
        assert!(jobs.iter().all(|job| (job.runs_on == "many") == (job.test_config == "distributed")));
        assert_eq!(
            serde_json::to_string(&jobs[0]).unwrap(),
            r#"{"test_config":"default","shard":1,"num_shards":6,"runs_on":"one"}"#
        );
        assert!(arguments(" ", "many").jobs().is_err() && arguments("distributed", "").jobs().is_err());
    }
}
