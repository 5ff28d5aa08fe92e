//! `rocwheel test bench`: measures, and compares with earlier measurements on the same hardware.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::github::AnnotationLevel;
use rocwheel_console::output_file::{FileKind, OutputFile, OutputOption};
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_doctor::{MachineTree, diagnose};
use rocwheel_output::StagingFolder;
use rocwheel_progress::{Context as _, Exit};
use rocwheel_suite::bench::{
    Baseline, BenchCommand, BenchComparison, BenchConditions, BenchKey, BenchMovement, BenchRecord, Better, History,
    Measurement, Summary, compare, measure, measure_pair, median_rows, parse_measurements,
};

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
/// Runs PyTorch's operator benchmarks, or a command of yours behind `--` that prints JSON, each
/// sample in a fresh process. A benchmark is slower if its median moved by more than 5 % and
/// by more than the noise, if a rank test agrees, and if a second series says the same; then the
/// exit code is 1. Measurements of another GPU, partition, driver or power limit are never
/// compared; those of another governor or of a busy machine have no verdict (exit code 3).
///
/// `--base` and `--base-python` measure two states in turns, and need no history.
#[derive(Debug, Args)]
pub struct Arguments {
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
    /// Command of the state to compare with, as one text; both commands run in turns
    #[arg(long, value_name = "COMMAND", requires = "words", conflicts_with_all = ["base_python", "history"])]
    base: Option<String>,
    /// Python of the environment to compare with: the first word of its command, or its `--python`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["import", "history"])]
    base_python: Option<PathBuf>,
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
    /// Write the medians as JSON, which `--import` reads
    #[arg(long, value_name = "FILE")]
    export: Option<OutputOption>,
}

/// Where measurements come from.
#[derive(Debug)]
enum BenchSource {
    Commands(Vec<BenchCommand>),
    /// The state to compare with, and the new one.
    Pairs(Vec<[BenchCommand; 2]>),
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
                let command = |python: &Path, name: &String| {
                    let module = format!("pt.{}_test", name.trim_end_matches("_test"));
                    let device = if arguments.cpu { "cpu" } else { "cuda" };
                    let words = ["-m", &module, "--omp-num-threads", "1", "--mkl-num-threads", "1", "--device", device];
                    let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
                    words.insert(0, python.into());
                    words.extend(["--output-csv".into(), file.clone().into()]);
                    BenchCommand { words, directory: Some(folder.clone()), file: Some(file.clone()), ..plain.clone() }
                };
                let python = absolute_program(&arguments.python)?;
                let names = arguments.operators.iter();
                match &arguments.base_python {
                    Some(base) => {
                        let base = absolute_program(base)?;
                        BenchSource::Pairs(names.map(|name| [command(&base, name), command(&python, name)]).collect())
                    }
                    None => BenchSource::Commands(names.map(|name| command(&python, name)).collect()),
                }
            }
            None if !arguments.import.is_empty() => BenchSource::Files(arguments.import),
            None if plain.words.is_empty() => {
                return Err(Usage::new("there is nothing to measure")
                    .hint("give a command: `rocwheel test bench --history DIR -- python bench.py`")
                    .into());
            }
            None => match base_words(&plain.words, arguments.base.as_deref(), arguments.base_python)? {
                Some(words) => BenchSource::Pairs(vec![[BenchCommand { words, ..plain.clone() }, plain]]),
                None => BenchSource::Commands(vec![plain]),
            },
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

fn absolute_program(program: &Path) -> Result<PathBuf> {
    Ok(match environment::program(&program.to_string_lossy()) {
        Some(program) => program,
        None => std::path::absolute(program)?,
    })
}

/// The command of the state to compare with; `None` if there is none.
fn base_words(words: &[OsString], base: Option<&str>, python: Option<PathBuf>) -> Result<Option<Vec<OsString>>> {
    if let Some(python) = python {
        let program = OsString::from(python);
        return Ok(Some([program].into_iter().chain(words.iter().skip(1).cloned()).collect()));
    }
    let Some(base) = base else { return Ok(None) };
    let words = shlex::split(base).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| {
        Usage::new("`--base` is no command").hint("write it as for a shell: `--base 'old/bin/python bench.py'`")
    })?;
    Ok(Some(words.into_iter().map(OsString::from).collect()))
}

/// Measurements, and those of the state to compare with, if it was measured in turns.
#[derive(Default)]
struct MeasuredStates {
    new: BTreeMap<String, Measurement>,
    base: Option<BTreeMap<String, Measurement>>,
}

impl Settings {
    fn measure(&self, printer: &Printer) -> Result<MeasuredStates> {
        let mut states = MeasuredStates::default();
        let all = &mut states.new;
        match &self.source {
            BenchSource::Pairs(pairs) => {
                let olds = states.base.insert(BTreeMap::new());
                for [base, new] in pairs {
                    let [old, found] = measure_pair([base, new], printer.reporter())?;
                    join(olds, old)?;
                    join(all, found)?;
                }
            }
            BenchSource::Commands(commands) => {
                for command in commands {
                    join(all, measure(command, printer.reporter())?)?;
                }
            }
            BenchSource::Files(files) => {
                for path in files {
                    let text = fs_err::read_to_string(path).context("cannot read results")?;
                    join(all, parse_measurements(&text, &path.to_string_lossy())?)?;
                }
            }
        }
        Ok(states)
    }

    /// The hardware that is measured.
    fn key(&self, printer: &Printer) -> Result<BenchKey> {
        let patient = crate::this_machine();
        if self.cpu {
            return Ok(BenchKey::of_processor(&patient.tree));
        }
        let diagnosis = diagnose(&patient, printer.reporter())?;
        match (BenchKey::of_gpu(&patient.tree, &diagnosis, self.gpu.unwrap_or(0)), self.gpu) {
            (Some(key), _) => Ok(key),
            (None, None) => Ok(BenchKey::of_processor(&patient.tree)),
            (None, Some(number)) => Err(Failure::from(
                Usage::new(format!("HIP has no GPU {number} here")).hint("`rocwheel doctor` lists the GPUs"),
            )),
        }
    }
}

/// Samples of one name in several outputs are of one benchmark.
fn join(all: &mut BTreeMap<String, Measurement>, more: BTreeMap<String, Measurement>) -> Result<()> {
    for (name, one) in more {
        match all.get_mut(&name) {
            Some(known) if known.unit == one.unit && known.better == one.better => known.samples.extend(one.samples),
            Some(known) => {
                let text = format!("`{name}` has two units: `{}` and `{}`", known.unit, one.unit);
                return Err(Failure::message(text));
            }
            None => drop(all.insert(name, one)),
        }
    }
    Ok(())
}

/// What measurements are compared with.
struct Standard<'a> {
    settings: &'a Settings,
    history: Option<&'a History>,
    conditions: &'a BenchConditions,
}

impl Standard<'_> {
    fn compare(&self, states: &MeasuredStates, name: &str) -> BenchComparison {
        let Some(new) = states.new.get(name) else { return BenchComparison::none(BenchMovement::NoBaseline) };
        match self.baseline(states, name, new) {
            Baseline::Found(old) => compare(&old.samples, &new.samples, new.better),
            Baseline::OtherConditions(_) => BenchComparison::none(BenchMovement::OtherConditions),
            Baseline::OtherUnit(_) => BenchComparison::none(BenchMovement::OtherUnit),
            Baseline::None => BenchComparison::none(BenchMovement::NoBaseline),
        }
    }

    fn baseline<'a>(&'a self, states: &'a MeasuredStates, name: &str, new: &Measurement) -> Baseline<'a> {
        match (&states.base, self.history) {
            (Some(base), _) => match base.get(name) {
                Some(old) => old.in_unit_of(new).map_or_else(|| Baseline::OtherUnit(old.unit.clone()), Baseline::Found),
                None => Baseline::None,
            },
            (None, Some(history)) => history.baseline(name, new, self.conditions, self.settings.baseline.as_deref()),
            (None, None) => Baseline::None,
        }
    }

    /// Benchmarks whose numbers are no result: a sentence about each, by its name.
    fn faults(
        &self,
        states: &MeasuredStates,
        comparisons: &BTreeMap<String, BenchComparison>,
    ) -> BTreeMap<String, String> {
        let mut faults = BTreeMap::new();
        for (name, new) in &states.new {
            let fault = match comparisons.get(name).map(|one| one.movement) {
                Some(BenchMovement::Zero) => {
                    format!("`{name}` has a value of 0 before or now, which is neither faster nor slower")
                }
                Some(BenchMovement::OtherUnit) => {
                    let Baseline::OtherUnit(old) = self.baseline(states, name, new) else { continue };
                    let (old, new) = (unit_words(&old), unit_words(&new.unit));
                    format!("`{name}` was measured {old}, and now {new}: they cannot be compared")
                }
                _ => continue,
            };
            faults.insert(name.clone(), fault);
        }
        faults
    }

    /// Compares all benchmarks; a second series confirms what moved, and its samples are added.
    fn compare_all(&self, states: &mut MeasuredStates, printer: &Printer) -> Result<BTreeMap<String, BenchComparison>> {
        let names: Vec<String> = states.new.keys().cloned().collect();
        let mut comparisons: BTreeMap<String, BenchComparison> =
            names.iter().map(|name| (name.clone(), self.compare(states, name))).collect();
        if matches!(self.settings.source, BenchSource::Files(_)) || !comparisons.values().any(has_moved) {
            return Ok(comparisons);
        }
        printer.note("benchmarks moved: a second series decides");
        let again = self.settings.measure(printer)?;
        for name in again.new.keys() {
            let second = self.compare(&again, name);
            if let Some(first) = comparisons.get_mut(name)
                && has_moved(first)
                && first.movement != second.movement
            {
                *first = BenchComparison { movement: BenchMovement::Same, ..second };
            }
        }
        join(&mut states.new, again.new)?;
        if let (Some(base), Some(more)) = (&mut states.base, again.base) {
            join(base, more)?;
        }
        Ok(comparisons)
    }

    /// Benchmarks of the state to compare with that were not measured now. One that crashes has
    /// no measurement, and would be no slower.
    fn vanished(&self, states: &MeasuredStates) -> Vec<String> {
        let named = self.settings.baseline.as_deref().zip(self.history);
        let labelled = named.iter().flat_map(|(label, history)| history.labelled(label));
        let base = states.base.iter().flat_map(|base| base.keys().map(String::as_str));
        let before: BTreeSet<&str> = labelled.chain(base).collect();
        before.into_iter().filter(|name| !states.new.contains_key(*name)).map(str::to_owned).collect()
    }

    /// Why benchmarks have no verdict.
    fn reasons(&self, states: &MeasuredStates) -> Vec<String> {
        let Some(history) = self.history else { return Vec::new() };
        let label = self.settings.baseline.as_deref();
        let found =
            states.new.iter().filter_map(|(name, new)| match history.baseline(name, new, self.conditions, label) {
                Baseline::OtherConditions(reasons) => Some(reasons),
                _ => None,
            });
        let mut reasons: Vec<String> = found.flatten().collect();
        reasons.sort();
        reasons.dedup();
        reasons
    }
}

fn unit_words(unit: &str) -> String {
    if unit.is_empty() { "without a unit".to_owned() } else { format!("in `{unit}`") }
}

fn has_moved(comparison: &BenchComparison) -> bool {
    matches!(comparison.movement, BenchMovement::Slower | BenchMovement::Faster)
}

/// Benchmarks whose new value is 0 and the old one is not; they are no baseline.
fn zeros<'a>(
    new: &'a BTreeMap<String, Measurement>,
    comparisons: &'a BTreeMap<String, BenchComparison>,
) -> impl Iterator<Item = &'a String> {
    let compared = comparisons.iter().filter(|(_, one)| one.movement == BenchMovement::Zero).map(|(name, _)| name);
    compared.filter(move |name| {
        let summary = new.get(*name).and_then(|one| Summary::of(&one.samples));
        summary.is_some_and(|summary| summary.median <= 0.0)
    })
}

/// A baseline that was named has to exist: without it nothing is compared, and nothing is slower.
fn require_label(label: &str, history: &History) -> Result<()> {
    let labels = history.labels();
    if labels.contains(label) {
        return Ok(());
    }
    let known: Vec<String> = labels.iter().rev().take(8).map(|label| format!("`{label}`")).collect();
    let hint = if known.is_empty() {
        "measure the state to compare with first, with `--label`".to_owned()
    } else {
        format!("measured on this hardware: {}", known.join(", "))
    };
    Err(Usage::new(format!("`{}` has no measurement `{label}`", history.path().display())).hint(hint).into())
}

/// Measures, compares and remembers.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let key = settings.key(printer)?;
    if key.is_of_processor() && !settings.cpu {
        printer.note("HIP has no GPU here, so the measurements are of the processor");
    }
    let conditions = BenchConditions::of(&MachineTree::live());
    let history = settings.history.as_deref().map(|folder| History::open(folder, &key)).transpose()?;
    if let (Some(label), Some(history)) = (&settings.baseline, &history) {
        require_label(label, history)?;
    }
    let mut states = settings.measure(printer)?;
    let standard = Standard { settings, history: history.as_ref(), conditions: &conditions };
    let mut comparisons = standard.compare_all(&mut states, printer)?;
    let vanished = standard.vanished(&states);
    let faults = standard.faults(&states, &comparisons);
    let mut reasons = standard.reasons(&states);
    // What changed meanwhile changed the measurements, so that they say nothing at any time.
    let mut changes = Vec::new();
    if !matches!(settings.source, BenchSource::Files(_)) {
        changes = settings.key(printer)?.differences(&key);
        changes.extend(BenchConditions::of(&MachineTree::live()).changes(&conditions));
    }
    if !changes.is_empty() {
        for one in comparisons.values_mut() {
            *one = BenchComparison::none(BenchMovement::OtherConditions);
        }
        reasons.extend(changes.iter().cloned());
    }
    let slower = comparisons.iter().filter(|(_, one)| one.movement == BenchMovement::Slower);
    let slower: Vec<String> = slower.map(|(name, _)| name.clone()).collect();
    if let Some(history) = history.as_ref().filter(|_| changes.is_empty()) {
        let record = BenchRecord {
            schema: 1,
            key: key.clone(),
            time: environment::present()?.to_string(),
            label: settings.label.clone(),
            conditions: conditions.clone(),
            benchmarks: states.new.clone(),
            slower: slower.iter().chain(zeros(&states.new, &comparisons)).cloned().collect(),
        };
        history.append(&record)?;
        if history.is_empty() && history.others() > 0 {
            printer.note("there is no baseline: the history has measurements of other hardware only");
        }
    }
    export(settings, &states.new, printer)?;
    let machine = serde_json::json!({ "hardware": key.facts(), "conditions": conditions, "no_verdict": reasons });
    print(&states, &comparisons, machine, printer)?;
    for name in &slower {
        printer.point_out(AnnotationLevel::Error, &format!("`{name}` became slower"));
    }
    for name in &vanished {
        let text = format!("`{name}` was measured before, and now it was not");
        printer.point_out(AnnotationLevel::Error, &text);
        printer.warn(text);
    }
    for text in faults.values() {
        printer.point_out(AnnotationLevel::Error, text);
        printer.warn(text);
    }
    for reason in &reasons {
        printer.warn(format!("there is no verdict: {reason}"));
    }
    let is_good = slower.is_empty() && vanished.is_empty() && faults.is_empty();
    let has_other_conditions = comparisons.values().any(|one| one.movement == BenchMovement::OtherConditions);
    Ok(match (is_good, has_other_conditions) {
        (false, _) => Exit::Failed,
        (true, true) => Exit::Partial,
        (true, false) => Exit::Done,
    })
}

fn export(settings: &Settings, benchmarks: &BTreeMap<String, Measurement>, printer: &Printer) -> Result<()> {
    let Some(file) = &settings.export else { return Ok(()) };
    let rows = median_rows(benchmarks, Better::Smaller);
    file.write(&format!("{}\n", serde_json::to_string_pretty(&rows).map_err(Failure::other)?))?;
    let others = benchmarks.values().filter(|one| one.better == Better::Bigger).count();
    if others > 0 {
        let path = file.path().display();
        printer.warn(format!("{others} benchmarks are better if they are bigger, and are not in `{path}`"));
    }
    Ok(())
}

fn print(
    states: &MeasuredStates,
    comparisons: &BTreeMap<String, BenchComparison>,
    mut machine: serde_json::Value,
    printer: &Printer,
) -> Result<()> {
    let summaries = states.new.iter().filter_map(|(name, one)| Some((name, one, Summary::of(&one.samples)?)));
    if printer.format() == ResultFormat::Json {
        let rows: BTreeMap<&String, serde_json::Value> = summaries
            .map(|(name, one, summary)| {
                let base = states.base.as_ref().and_then(|base| base.get(name)?.in_unit_of(one));
                let base = base.and_then(|base: Cow<'_, Measurement>| Summary::of(&base.samples));
                let row = serde_json::json!({
                    "unit": one.unit, "better": one.better, "summary": summary, "base": base,
                    "comparison": comparisons.get(name),
                });
                (name, row)
            })
            .collect();
        machine["benchmarks"] = serde_json::json!(rows);
        return printer.json(&machine);
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
