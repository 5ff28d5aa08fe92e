//! `rocwheel test shards`: divides a suite by the durations of earlier runs.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use comfy_table::CellAlignment::Right;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::output_file::{FileKind, OutputFile, OutputOption};
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_progress::{Context as _, Exit};
use rocwheel_suite::shard::{TestDurations, assign, check_union, merge_durations, read_durations};

const COLUMNS: [Column; 4] = [("Shard", Right), ("Tests", Right), ("Seconds", Right), ("Of the mean", Right)];

/// Divide tests into shards that take the same time
///
/// Durations come from run folders of `rocwheel test`, from pytest-split's `.test_durations` and
/// from PyTorch's `test-times.json`; of several, the median of each test counts. A test without a
/// duration counts as one of the median duration. Every test is in exactly one shard.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run folders and files with durations
    #[arg(value_name = "DURATIONS", required = true, value_hint = ValueHint::AnyPath)]
    durations: Vec<PathBuf>,
    /// Number of shards
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    shards: u32,
    /// Print the tests of this shard, from 1
    #[arg(long, value_name = "I", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    shard: Option<u32>,
    /// List of tests, one per line [default: those that have durations]
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    tests: Option<PathBuf>,
    /// Job in PyTorch's file
    #[arg(long, value_name = "JOB", default_value = "default")]
    job: String,
    /// Configuration in PyTorch's file
    #[arg(long, value_name = "NAME", default_value = "default")]
    test_config: String,
    /// Write the merged durations, in the form of pytest-split
    #[arg(long, value_name = "FILE")]
    write_durations: Option<OutputOption>,
}

/// The tests, and how long they take.
#[derive(Debug)]
pub(crate) struct Settings {
    ids: Vec<String>,
    durations: TestDurations,
    shards: u32,
    shard: Option<u32>,
    pub output: Option<OutputFile>,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        if let Some(shard) = arguments.shard.filter(|shard| *shard > arguments.shards) {
            let text = format!("`--shard {shard}` is more than `--shards {}`", arguments.shards);
            return Err(rocwheel_console::failure::Usage::new(text).hint("shards are counted from 1").into());
        }
        let kind = FileKind::Durations;
        let output = arguments
            .write_durations
            .map(|file| file.check("--write-durations", kind, &arguments.durations))
            .transpose()?;
        let all = arguments.durations.iter();
        let all = all.map(|path| read_durations(path, &arguments.job, &arguments.test_config));
        let all: Vec<TestDurations> = all.collect::<Result<_, _>>()?;
        let durations = merge_durations(&all);
        let ids = match &arguments.tests {
            Some(path) => {
                let text = fs_err::read_to_string(path).context("cannot read the list of tests")?;
                text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
            }
            None => durations.keys().cloned().collect(),
        };
        Ok(Self { ids, durations, shards: arguments.shards, shard: arguments.shard, output })
    }
}

/// Prints the shards.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let parts = assign(&settings.ids, &settings.durations, settings.shards);
    check_union(&settings.ids, &parts)?;
    // The sum of no numbers is -0.0.
    let seconds = parts.iter().map(|part| 0.0 + part.iter().filter_map(|id| settings.durations.get(id)).sum::<f64>());
    let mean = seconds.clone().sum::<f64>() / f64::from(settings.shards);
    let shards = (1..).zip(parts.iter().zip(seconds));
    if let Some(file) = &settings.output {
        let text = serde_json::to_string_pretty(&settings.durations).map_err(Failure::other)?;
        file.write(&format!("{text}\n"))?;
    }
    let unknown = settings.ids.iter().filter(|id| !settings.durations.contains_key(*id)).count();
    if unknown > 0 {
        printer.note(format!("{unknown} of {} tests have no duration, and count as the median", settings.ids.len()));
    }
    match (printer.format(), settings.shard) {
        (ResultFormat::Json, _) => {
            let rows: Vec<_> = shards
                .filter(|(number, _)| settings.shard.is_none_or(|shard| shard == *number))
                .map(|(number, (tests, seconds))| {
                    serde_json::json!({ "shard": number, "seconds": seconds, "tests": tests })
                })
                .collect();
            printer.json(&serde_json::json!({ "shards": rows, "mean_seconds": mean, "without_duration": unknown }))?;
        }
        (ResultFormat::Text, Some(shard)) => {
            parts[shard as usize - 1].iter().try_for_each(|id| printer.line(id))?;
        }
        (ResultFormat::Text, None) => {
            let rows = shards.map(|(number, (part, seconds))| {
                let ratio = if mean > 0.0 { seconds / mean } else { 1.0 };
                vec![number.to_string(), part.len().to_string(), format!("{seconds:.1}"), format!("{ratio:.3}")]
            });
            printer.table(&COLUMNS, rows)?;
        }
    }
    Ok(Exit::Done)
}
