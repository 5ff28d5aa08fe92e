//! `--format github`: cells as jobs of GitHub Actions, with their machines and GPU targets.

use std::collections::BTreeMap;

use clap::Args;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::Printer;
use rocwheel_github::workflow::{self, GpuTargetSet, JobSources, RunnerLabels, StagedJobs};
use rocwheel_recipe::matrix::{Matrix, MatrixRow, Origin};
use rocwheel_recipe::request::parse_targets;
use rocwheel_recipe::{Book, Platform};
use serde_json::Value;

use super::Settings;

/// How cells become jobs.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --format github")]
pub(super) struct JobArguments {
    /// Into how many stages cells may be divided that install each other's wheels, as outputs
    /// matrix-STAGE-PART; in one stage each is built by itself
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    stages: u16,
    /// Largest number of matrices for the cells of a stage, as outputs matrix-1, matrix-2 and so
    /// on; GitHub takes 256 cells in each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    parts: u16,
    /// GPU targets and families to build for, separated by `;` or `,`; given twice, cells are built
    /// separately for each set [default: what the build chooses]
    #[arg(long, value_name = "LIST")]
    gpu_targets: Vec<String>,
    /// Label of the machines for Linux
    #[arg(long, value_name = "LABEL")]
    runner: Option<String>,
    /// Labels of other machines, as JSON: `{"gfx942": ["self-hosted", "mi300"], "triton":
    /// "ubuntu-24.04", "windows": "windows-2022"}`. A key is a set of GPU targets as in
    /// --gpu-targets, a backend, a system, or several of these separated by blanks; cells for
    /// Windows need the key `windows`
    #[arg(long, value_name = "JSON")]
    runners: Option<String>,
    /// Machines with GPUs that test what was built, by GPU target, as JSON: `{"gfx942":
    /// ["self-hosted", "mi300"]}`; becomes the output tests
    #[arg(long, value_name = "JSON")]
    test_runners: Option<String>,
}

/// The options of jobs.
#[derive(Debug)]
pub(super) struct JobChoices {
    stages: usize,
    parts: usize,
    targets: Vec<GpuTargetSet>,
    runners: RunnerLabels,
    test_runners: BTreeMap<String, Value>,
}

impl JobChoices {
    pub(super) fn new(arguments: JobArguments, book: &Book) -> Result<JobChoices> {
        let mut targets: Vec<GpuTargetSet> = Vec::new();
        for list in &arguments.gpu_targets {
            let set = GpuTargetSet { text: list.trim().to_owned(), names: parse_targets(list)? };
            if let Some(other) = targets.iter().find(|other| other.names == set.names) {
                let usage = Usage::new(format!("`{}` and `{}` are the same GPU targets", other.text, set.text));
                return Err(usage.hint("name each set once").into());
            }
            targets.push(set);
        }
        let labels =
            arguments.runners.as_deref().map(|text| parse_labels("--runners", text)).transpose()?.unwrap_or_default();
        let runners = RunnerLabels { default: arguments.runner.map(Value::String), labels };
        if let Some(word) = runners.unknown(book, &targets).first() {
            let usage = Usage::new(format!("`--runners` has a label for `{word}`, which no cell is"));
            let hint = "words are backends, `linux`, `windows`, and GPU targets as `--gpu-targets` has them";
            return Err(usage.hint(hint).into());
        }
        let machines =
            arguments.test_runners.as_deref().map(|text| parse_labels("--test-runners", text)).transpose()?;
        let test_runners = machines.unwrap_or_default();
        for target in test_runners.keys() {
            if parse_targets(target)? != std::slice::from_ref(target) {
                let usage =
                    Usage::new(format!("`--test-runners` has a machine for `{target}`, which is not one GPU target"));
                return Err(usage.hint("name the target of the machine's GPU, such as `gfx942`").into());
            }
        }
        let (stages, parts) = (arguments.stages.into(), arguments.parts.into());
        Ok(JobChoices { stages, parts, targets, runners, test_runners })
    }

    /// `true` if an option is given that only applies to jobs.
    pub(super) fn are_given(&self) -> bool {
        !self.targets.is_empty()
            || self.runners.default.is_some()
            || !self.runners.labels.is_empty()
            || !self.test_runners.is_empty()
    }

    /// The inputs of the workflow with the same meaning.
    pub(super) fn inputs(&self) -> Result<Vec<(&'static str, String)>, Usage> {
        if self.targets.len() > 1 {
            let usage = Usage::new("wheels for several sets of GPU targets have the same names");
            return Err(usage.hint("a release takes one of each: name one set"));
        }
        let targets: Vec<&str> = self.targets.iter().map(|set| set.text.as_str()).collect();
        let runner = self.runners.default.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        let [runners, machines] = [&self.runners.labels, &self.test_runners]
            .map(|labels| if labels.is_empty() { String::new() } else { serde_json::json!(labels).to_string() });
        let targets = targets.join(" ");
        Ok(vec![("gpu-targets", targets), ("runner", runner), ("runners", runners), ("test-runners", machines)])
    }
}

/// Parses `--runners` and `--test-runners`.
fn parse_labels(option: &str, text: &str) -> Result<BTreeMap<String, Value>, Usage> {
    labels_in(text).map_err(|reason| {
        let usage = Usage::new(format!("`{option}` is no table of labels: {reason}"));
        usage.hint(format!(r#"write `{option} '{{"gfx942": "LABEL", "gfx1100": ["LABEL", "LABEL"]}}'`"#))
    })
}

/// The labels in a JSON object; the error is the reason.
fn labels_in(text: &str) -> Result<BTreeMap<String, Value>, String> {
    let labels: BTreeMap<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    for (words, value) in &labels {
        let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        if list.is_empty() || list.iter().any(|label| label.as_str().is_none_or(str::is_empty)) {
            return Err(format!("`{words}` has {value}, which is neither a label nor a list of some"));
        }
    }
    Ok(labels)
}

/// Prints the matrices, one per line since `$GITHUB_OUTPUT` takes one line per value, and sets the
/// outputs of the step.
pub(super) fn print(
    rows: &[(&MatrixRow, Option<Origin>)],
    matrix: &Matrix,
    settings: &Settings,
    printer: &Printer,
) -> Result<()> {
    let JobChoices { stages, parts, targets, runners, test_runners } = &settings.jobs;
    let sources = JobSources { table: &settings.table, book: &settings.book, matrix, targets, runners };
    let mut jobs = StagedJobs::new(rows, &sources)?;
    for reason in &jobs.left_out {
        printer.note(reason);
    }
    if *stages == 1 {
        jobs = jobs.independent();
    }
    if jobs.stages.len() > *stages {
        let usage = Usage::new(format!("some cells are {} stages behind others", jobs.stages.len()));
        return Err(usage.hint(format!("choose fewer recipes, or `--stages {}`", jobs.stages.len())).into());
    }
    let empty = Vec::new();
    let mut outputs = vec![("count".to_owned(), jobs.count().to_string())];
    outputs.push(("windows".to_owned(), jobs.has(Platform::Windows).to_string()));
    outputs.push(("tests".to_owned(), workflow::test_matrix(test_runners)));
    let mut lines = Vec::new();
    for stage in 0..*stages {
        let jobs = jobs.stages.get(stage).unwrap_or(&empty);
        let matrices = workflow::matrices(jobs);
        if matrices.len() > *parts {
            let most = workflow::MOST_JOBS;
            let usage =
                Usage::new(format!("{} are missing, and GitHub takes {most} jobs in a matrix", cells(jobs.len())));
            let hint =
                format!("choose fewer, by recipe, `--rocm`, `--torch` or `--python`, or `--parts {}`", matrices.len());
            return Err(usage.hint(hint).into());
        }
        if (*stages, *parts) == (1, 1) {
            outputs.push(("matrix".to_owned(), matrices[0].clone()));
        } else {
            let of_stage = if *stages == 1 { String::new() } else { format!("-{}", stage + 1) };
            // GitHub accepts no matrix without jobs, so an empty one is skipped by the job's
            // condition.
            outputs.extend((0..*parts).map(|part| {
                let text = matrices.get(part).filter(|_| !jobs.is_empty()).cloned().unwrap_or_default();
                (format!("matrix{of_stage}-{}", part + 1), text)
            }));
        }
        if stage == 0 || !jobs.is_empty() {
            lines.extend(matrices);
        }
    }
    printer.outputs(&outputs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>())?;
    printer.line(lines.join("\n"))
}

fn cells(number: usize) -> String {
    message::count(number as u64, "cell", "cells")
}
