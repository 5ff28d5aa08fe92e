//! `rocwheel test bench`: measures, and compares with earlier measurements on the same hardware.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_output::StagingFolder;
use rocwheel_report::{Context as _, Exit};
use rocwheel_verify::bench::{
    BenchCommand, BenchComparison, BenchKey, BenchMovement, BenchRecord, Better, History, Measurement, Summary,
    compare, github_benchmarks, measure, parse_measurements,
};
use rocwheel_verify::doctor::{self, MachineTree, Patient, SessionVariables};

use crate::environment;
use crate::failure::{Failure, Result, Usage};
use crate::output_file::{FileKind, OutputFile, OutputOption};
use crate::printer::{Column, Format, Printer};

const COLUMNS: [Column; 6] = [
    ("Benchmark", Left),
    ("Median", Right),
    ("Deviation", Right),
    ("Samples", Right),
    ("Ratio", Right),
    ("Change", Left),
];

/// Measure benchmarks, and find those that became slower
///
/// Runs PyTorch's operator benchmarks, or a command of yours behind `--` that prints JSON or CSV,
/// each sample in a fresh process. A benchmark is slower if its median moved by more than 5 % and
/// by more than the noise, if a rank test agrees, and if a second series says the same; then the
/// exit code is 1. Measurements of another GPU, partition, driver or power limit are never
/// compared.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<OsString>,
    /// Sources of PyTorch, whose operator benchmarks are run
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "operators", conflicts_with = "words")]
    pytorch_dir: Option<PathBuf>,
    /// Operator benchmarks to run, such as `add` or `matmul`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "pytorch_dir")]
    operators: Vec<String>,
    /// Python that runs PyTorch's benchmarks
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, default_value = "python3")]
    python: PathBuf,
    /// Results that were measured already, instead of a command; may be repeated
    #[arg(long, value_name = "RESULTS", value_hint = ValueHint::FilePath, conflicts_with_all = ["words", "pytorch_dir"])]
    import: Vec<PathBuf>,
    /// File that the command writes its results to, instead of printing them
    #[arg(long, value_name = "RESULTS", requires = "words")]
    result_file: Option<PathBuf>,
    /// Folder with the history: a file in JSON lines for each kind of hardware
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    history: Option<PathBuf>,
    /// Name of the state that is measured, such as a version or a commit
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Compare with this label [default: the newest measurement that was not slower]
    #[arg(long, value_name = "LABEL", requires = "history")]
    baseline: Option<String>,
    /// Samples of each benchmark
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(8..=10_000))]
    samples: u32,
    /// Runs before the first sample
    #[arg(long, value_name = "N", default_value = "1")]
    warm_up: u32,
    /// Longest time of one run in seconds
    #[arg(long, value_name = "SECONDS", default_value = "600")]
    timeout: u64,
    /// Number of the GPU that is measured, as HIP counts [default: 0, or the processor if there is
    /// none]
    #[arg(long, value_name = "N", conflicts_with = "cpu")]
    gpu: Option<usize>,
    /// The processor is measured, and no GPU
    #[arg(long)]
    cpu: bool,
    /// Write the medians for github-action-benchmark (`customSmallerIsBetter`)
    #[arg(long, value_name = "FILE")]
    export: Option<OutputOption>,
}

/// Where measurements come from.
#[derive(Debug)]
enum BenchSource {
    Commands(Vec<BenchCommand>),
    Files(Vec<PathBuf>),
}

/// The measurements, and their history.
#[derive(Debug)]
pub(crate) struct Settings {
    source: BenchSource,
    history: Option<PathBuf>,
    label: Option<String>,
    baseline: Option<String>,
    gpu: Option<usize>,
    cpu: bool,
    export: Option<OutputFile>,
    /// Holds what commands write.
    _scratch: Option<StagingFolder>,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let export = arguments
            .export
            .map(|file| file.check("--export", FileKind::Measurements, &arguments.import))
            .transpose()?;
        let plain = BenchCommand {
            words: arguments.words,
            directory: None,
            file: arguments.result_file,
            variables: Vec::new(),
            timeout: Duration::from_secs(arguments.timeout),
            warm_up: arguments.warm_up,
            samples: arguments.samples as usize,
        };
        let mut scratch = None;
        let source = match &arguments.pytorch_dir {
            Some(sources) => {
                let folder = sources.join("benchmarks/operator_benchmark");
                if !folder.is_dir() {
                    return Err(Usage::new(format!("`{}` has no `benchmarks/operator_benchmark`", sources.display()))
                        .hint("name a checkout of PyTorch: its wheels do not have the benchmarks")
                        .into());
                }
                let place = environment::scratch_below(&environment::scratch())?;
                let file = place.path().join("operators.csv");
                scratch = Some(place);
                let python = match environment::program(&arguments.python.to_string_lossy()) {
                    Some(program) => program,
                    None => std::path::absolute(&arguments.python)?,
                };
                let command = |name: &String| {
                    let module = format!("pt.{}_test", name.trim_end_matches("_test"));
                    let device = if arguments.cpu { "cpu" } else { "cuda" };
                    let words = ["-m", &module, "--omp-num-threads", "1", "--mkl-num-threads", "1", "--device", device];
                    let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
                    words.insert(0, python.clone().into());
                    words.extend(["--output-csv".into(), file.clone().into()]);
                    BenchCommand { words, directory: Some(folder.clone()), file: Some(file.clone()), ..plain.clone() }
                };
                BenchSource::Commands(arguments.operators.iter().map(command).collect())
            }
            None if !arguments.import.is_empty() => BenchSource::Files(arguments.import),
            None if plain.words.is_empty() => {
                return Err(Usage::new("there is nothing to measure")
                    .hint("give a command: `rocwheel test bench --history DIR -- python bench.py`")
                    .into());
            }
            None => BenchSource::Commands(vec![plain]),
        };
        Ok(Self {
            source,
            history: arguments.history,
            label: arguments.label,
            baseline: arguments.baseline,
            gpu: arguments.gpu,
            cpu: arguments.cpu,
            export,
            _scratch: scratch,
        })
    }
}

impl Settings {
    fn measure(&self, printer: &Printer) -> Result<BTreeMap<String, Measurement>> {
        let mut all = BTreeMap::new();
        match &self.source {
            BenchSource::Commands(commands) => {
                for command in commands {
                    join(&mut all, measure(command, printer.reporter())?);
                }
            }
            BenchSource::Files(files) => {
                for path in files {
                    let text = fs_err::read_to_string(path).context("cannot read results")?;
                    join(&mut all, parse_measurements(&text, &path.to_string_lossy())?);
                }
            }
        }
        Ok(all)
    }

    /// The hardware that is measured.
    fn key(&self, printer: &Printer) -> Result<BenchKey> {
        let tree = MachineTree::live();
        if self.cpu {
            return Ok(BenchKey::of_processor(&tree));
        }
        let patient = Patient {
            tree,
            variables: SessionVariables::of(environment::text_variables()),
            user: None,
            python: None,
            needs_gpu: false,
            scratch: environment::scratch(),
        };
        let diagnosis = doctor::diagnose(&patient, printer.reporter())?;
        match (BenchKey::of_gpu(&patient.tree, &diagnosis, self.gpu.unwrap_or(0)), self.gpu) {
            (Some(key), _) => Ok(key),
            (None, None) => {
                printer.note("HIP has no GPU here, so the measurements are of the processor");
                Ok(BenchKey::of_processor(&patient.tree))
            }
            (None, Some(number)) => Err(Failure::from(
                Usage::new(format!("HIP has no GPU {number} here")).hint("`rocwheel doctor` lists the GPUs"),
            )),
        }
    }
}

/// Samples of one name in several outputs are of one benchmark.
fn join(all: &mut BTreeMap<String, Measurement>, more: BTreeMap<String, Measurement>) {
    for (name, one) in more {
        match all.get_mut(&name) {
            Some(known) => known.samples.extend(one.samples),
            None => drop(all.insert(name, one)),
        }
    }
}

/// Measures, compares and remembers.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let key = settings.key(printer)?;
    let history = settings.history.as_deref().map(|folder| History::open(folder, &key)).transpose()?;
    let mut benchmarks = settings.measure(printer)?;
    let baseline = |name: &str| history.as_ref()?.baseline(name, settings.baseline.as_deref());
    let against = |name: &str, one: &Measurement| {
        let before = baseline(name).map_or(&[][..], |before| &before.samples);
        compare(before, &one.samples, one.better)
    };
    let mut comparisons: BTreeMap<String, BenchComparison> =
        benchmarks.iter().map(|(name, one)| (name.clone(), against(name, one))).collect();
    let has_moved =
        comparisons.values().any(|one| matches!(one.movement, BenchMovement::Slower | BenchMovement::Faster));
    if has_moved && matches!(settings.source, BenchSource::Commands(_)) {
        printer.note("benchmarks moved: a second series decides");
        for (name, again) in settings.measure(printer)? {
            let second = against(&name, &again);
            if let Some(first) = comparisons.get_mut(&name)
                && first.movement != second.movement
                && matches!(first.movement, BenchMovement::Slower | BenchMovement::Faster)
            {
                *first = BenchComparison { movement: BenchMovement::Same, ..second };
            }
            if let Some(known) = benchmarks.get_mut(&name) {
                known.samples.extend(again.samples);
            }
        }
    }
    let slower: Vec<String> = comparisons
        .iter()
        .filter(|(_, one)| one.movement == BenchMovement::Slower)
        .map(|(name, _)| name.clone())
        .collect();
    if let Some(history) = &history {
        let record = BenchRecord {
            schema: 1,
            key: key.clone(),
            time: environment::present()?.to_string(),
            label: settings.label.clone(),
            conditions: BTreeMap::new(),
            benchmarks: benchmarks.clone(),
            slower: slower.clone(),
        };
        history.append(&record)?;
        if history.is_empty() && history.others() > 0 {
            printer.note("there is no baseline: the history has measurements of other hardware only");
        }
    }
    if let Some(file) = &settings.export {
        let rows = github_benchmarks(&benchmarks, Better::Smaller);
        file.write(&format!("{}\n", serde_json::to_string_pretty(&rows).map_err(Failure::other)?))?;
    }
    print(&benchmarks, &comparisons, &key, printer)?;
    for name in &slower {
        printer.point_out(&format!("`{name}` became slower"));
    }
    Ok(if slower.is_empty() { Exit::Done } else { Exit::Failed })
}

fn print(
    benchmarks: &BTreeMap<String, Measurement>,
    comparisons: &BTreeMap<String, BenchComparison>,
    key: &BenchKey,
    printer: &Printer,
) -> Result<()> {
    let summaries = benchmarks.iter().filter_map(|(name, one)| Some((name, one, Summary::of(&one.samples)?)));
    if printer.format() == Format::Json {
        let rows: BTreeMap<&String, serde_json::Value> = summaries
            .map(|(name, one, summary)| {
                let row = serde_json::json!({
                    "unit": one.unit, "better": one.better, "summary": summary, "comparison": comparisons.get(name),
                });
                (name, row)
            })
            .collect();
        return printer.json(&serde_json::json!({ "hardware": key.facts(), "benchmarks": rows }));
    }
    let rows = summaries.map(|(name, one, summary)| {
        let comparison = comparisons.get(name);
        let ratio = comparison.and_then(|one| one.ratio).map_or_else(String::new, |ratio| format!("{ratio:.3}"));
        vec![
            name.clone(),
            format!("{:.4} {}", summary.median, one.unit).trim_end().to_owned(),
            format!("{:.4}", summary.deviation),
            summary.samples.to_string(),
            ratio,
            comparison.map_or("", |one| one.movement.words()).to_owned(),
        ]
    });
    printer.table(&COLUMNS, rows)
}
