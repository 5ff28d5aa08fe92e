//! Input: a command that prints measurements. Output: the samples of many runs of it, each in a
//! fresh process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rocwheel_progress::{Context as _, Failure, Reporter, Unit, one_line};
use rocwheel_system::RunningGroup;

use super::formats::{Measurement, parse_measurements};
use super::{file_error, formats::no_measurements};

/// Bytes that are kept of an output.
const LARGEST: usize = 64 << 20;
/// Time between two looks at a program.
const PAUSE: Duration = Duration::from_millis(5);

/// A benchmark that can be run again and again.
#[derive(Debug, Clone)]
pub struct BenchCommand {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// The folder it runs in.
    pub directory: Option<PathBuf>,
    /// A file that the program writes; `None` if it prints its measurements.
    pub file: Option<PathBuf>,
    pub variables: Vec<(OsString, OsString)>,
    /// The longest time of one run.
    pub timeout: Duration,
    /// Runs whose measurements are dropped.
    pub warm_up: u32,
    /// Samples of each benchmark that there should be at least.
    pub samples: usize,
}

/// Runs a command until each of its benchmarks has enough samples.
pub fn measure(command: &BenchCommand, reporter: &dyn Reporter) -> Result<BTreeMap<String, Measurement>, Failure> {
    let mut all: BTreeMap<String, Measurement> = BTreeMap::new();
    let runs = u64::from(command.warm_up) + command.samples as u64;
    let stage = reporter.stage("Measuring", Some(runs), Unit::Items);
    for _ in 0..command.warm_up {
        command.run(reporter)?;
        reporter.advance(1);
    }
    // A program that drops a benchmark now and then is not run for ever.
    for _ in 0..command.samples {
        command.add_run(&mut all, reporter)?;
        reporter.advance(1);
        if command.has_enough(&all) {
            break;
        }
    }
    drop(stage);
    Ok(all)
}

/// The measurements of two commands, by name.
pub type MeasuredPair = [BTreeMap<String, Measurement>; 2];

/// Runs two commands in turns, so that a GPU that becomes warm, or a machine that becomes busy, is
/// the same for both. The one that begins changes with every turn.
pub fn measure_pair(commands: [&BenchCommand; 2], reporter: &dyn Reporter) -> Result<MeasuredPair, Failure> {
    let mut all = MeasuredPair::default();
    let turns = commands[0].samples.max(commands[1].samples);
    let warm_up = commands[0].warm_up.max(commands[1].warm_up);
    let stage = reporter.stage("Measuring", Some(2 * (u64::from(warm_up) + turns as u64)), Unit::Items);
    for command in (0..warm_up).flat_map(|_| commands) {
        command.run(reporter)?;
        reporter.advance(1);
    }
    for turn in 0..turns {
        for side in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
            commands[side].add_run(&mut all[side], reporter)?;
            reporter.advance(1);
        }
        if (0..2).all(|side| commands[side].has_enough(&all[side])) {
            break;
        }
    }
    drop(stage);
    Ok(all)
}

impl BenchCommand {
    fn name(&self) -> String {
        self.words.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned())
    }

    fn has_enough(&self, all: &BTreeMap<String, Measurement>) -> bool {
        all.values().all(|one| one.samples.len() >= self.samples)
    }

    /// Runs it once, and adds the samples.
    fn add_run(&self, all: &mut BTreeMap<String, Measurement>, reporter: &dyn Reporter) -> Result<(), Failure> {
        for (name, one) in self.run(reporter)? {
            match all.get_mut(&name) {
                Some(known) if known.unit == one.unit && known.better == one.better => {
                    known.samples.extend(one.samples);
                }
                Some(known) => {
                    let reason = format!("the unit of `{name}` was `{}` and is `{}`", known.unit, one.unit);
                    return Err(no_measurements(&self.name(), &reason));
                }
                None => drop(all.insert(name, one)),
            }
        }
        Ok(())
    }

    fn run(&self, reporter: &dyn Reporter) -> Result<BTreeMap<String, Measurement>, Failure> {
        let program = self.name();
        if let Some(file) = &self.file
            && let Err(source) = fs_err::remove_file(file)
            && source.kind() != std::io::ErrorKind::NotFound
        {
            return Err(file_error(file)(source));
        }
        let output = self.output(reporter)?;
        match &self.file {
            None => parse_measurements(&output, &program),
            Some(file) => {
                let bytes = fs_err::read(file).map_err(file_error(file))?;
                parse_measurements(&String::from_utf8_lossy(&bytes), &file.to_string_lossy())
            }
        }
    }

    fn output(&self, reporter: &dyn Reporter) -> Result<String, Failure> {
        let program = self.name();
        let mut command = Command::new(self.words.first().cloned().unwrap_or_default());
        command.args(self.words.iter().skip(1)).envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = RunningGroup::start(&mut command);
        let mut child = started.with_context(|| format!("cannot start `{program}`"))?;
        let (printed, said) = (reader(child.stdout.take()), reader(child.stderr.take()));
        let status = self.wait(&mut child, reporter);
        // Its processes would keep the GPU busy, and its output open.
        child.end(Duration::ZERO);
        let _ = child.wait();
        let status = status?;
        let (printed, said) = (received(printed.as_ref()), received(said.as_ref()));
        if status.success() {
            return Ok(printed);
        }
        let last =
            said.lines().rev().find(|line| !line.trim().is_empty()).map(|line| one_line(line.trim()).into_owned());
        let last = last.map_or_else(String::new, |line| format!(": {line}"));
        Err(Failure::message(format!("`{program}` ended with {status}{last}")))
    }

    fn wait(&self, child: &mut RunningGroup, reporter: &dyn Reporter) -> Result<std::process::ExitStatus, Failure> {
        let program = self.name();
        let begin = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => return Err(Failure::from(error).context(format!("cannot start `{program}`"))),
            }
            reporter.check()?;
            if begin.elapsed() > self.timeout {
                let seconds = self.timeout.as_secs();
                return Err(Failure::message(format!("`{program}` ran longer than {seconds} s and was ended"))
                    .with_hint("`--timeout` sets the limit of one run"));
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Time in which the rest of an output arrives after the end of its program. A process that left
/// the group may hold it open for ever.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

type Text = mpsc::Receiver<Vec<u8>>;

/// Reads an output to its end in pages.
fn reader(output: Option<impl Read + Send + 'static>) -> Option<Text> {
    let mut output = output?;
    let (sender, pages) = mpsc::channel();
    thread::spawn(move || {
        let mut page = vec![0; 1 << 16];
        let mut kept = 0;
        while let Ok(read @ 1..) = output.read(&mut page) {
            kept += read;
            if kept <= LARGEST && sender.send(page[..read].to_vec()).is_err() {
                break;
            }
        }
    });
    Some(pages)
}

/// The beginning of an output, up to the largest size.
fn received(text: Option<&Text>) -> String {
    let Some(pages) = text else { return String::new() };
    let mut bytes = Vec::new();
    let until = Instant::now() + LAST_OUTPUT;
    while let Ok(page) = pages.recv_timeout(until.saturating_duration_since(Instant::now())) {
        bytes.extend(page);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
