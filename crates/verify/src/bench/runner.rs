//! Input: a command that prints measurements. Output: the samples of many runs of it, each in a
//! fresh process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rocwheel_report::{Reporter, Unit, one_line};

use super::BenchError;
use super::formats::{Measurement, parse_measurements};

/// Bytes that are kept of an output.
const LARGEST: u64 = 64 << 20;
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
    /// Variables that it gets.
    pub variables: Vec<(OsString, OsString)>,
    /// The longest time of one run.
    pub timeout: Duration,
    /// Runs whose measurements are dropped.
    pub warm_up: u32,
    /// Samples of each benchmark that there should be at least.
    pub samples: usize,
}

/// Runs a command until each of its benchmarks has enough samples.
///
/// # Errors
/// [`BenchError`] if a run fails or prints no measurements.
pub fn measure(command: &BenchCommand, reporter: &dyn Reporter) -> Result<BTreeMap<String, Measurement>, BenchError> {
    let mut all: BTreeMap<String, Measurement> = BTreeMap::new();
    let runs = u64::from(command.warm_up) + command.samples as u64;
    let stage = reporter.stage("measuring", Some(runs), Unit::Items);
    for _ in 0..command.warm_up {
        command.run(reporter)?;
        reporter.advance(1);
    }
    // A program that drops a benchmark now and then is not run for ever.
    for _ in 0..command.samples {
        let found = command.run(reporter)?;
        for (name, one) in found {
            match all.get_mut(&name) {
                Some(known) => known.samples.extend(one.samples),
                None => drop(all.insert(name, one)),
            }
        }
        reporter.advance(1);
        if all.values().all(|one| one.samples.len() >= command.samples) {
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

    fn run(&self, reporter: &dyn Reporter) -> Result<BTreeMap<String, Measurement>, BenchError> {
        let program = self.name();
        if let Some(file) = &self.file
            && let Err(source) = fs_err::remove_file(file)
            && source.kind() != std::io::ErrorKind::NotFound
        {
            return Err(BenchError::File { path: file.clone(), source });
        }
        let output = self.output(reporter)?;
        match &self.file {
            None => parse_measurements(&output, &program),
            Some(file) => {
                let wrong = |source| BenchError::File { path: file.clone(), source };
                let bytes = fs_err::read(file).map_err(wrong)?;
                parse_measurements(&String::from_utf8_lossy(&bytes), &file.to_string_lossy())
            }
        }
    }

    /// What one run prints.
    fn output(&self, reporter: &dyn Reporter) -> Result<String, BenchError> {
        let program = self.name();
        let mut command = Command::new(self.words.first().cloned().unwrap_or_default());
        command.args(self.words.iter().skip(1)).envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| BenchError::Start { program: program.clone(), source })?;
        let (printed, said) = (reader(child.stdout.take()), reader(child.stderr.take()));
        let status = self.wait(&mut child, reporter);
        if status.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let status = status?;
        let (printed, said) = (joined(printed), joined(said));
        if status.success() {
            return Ok(printed);
        }
        let last =
            said.lines().rev().find(|line| !line.trim().is_empty()).map(|line| one_line(line.trim()).into_owned());
        Err(BenchError::Failed { program, status: status.to_string(), last })
    }

    fn wait(&self, child: &mut Child, reporter: &dyn Reporter) -> Result<std::process::ExitStatus, BenchError> {
        let program = self.name();
        let begin = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(source) => return Err(BenchError::Start { program, source }),
            }
            reporter.check()?;
            if begin.elapsed() > self.timeout {
                return Err(BenchError::TimedOut { program, seconds: self.timeout.as_secs() });
            }
            thread::sleep(PAUSE);
        }
    }
}

type Text = thread::JoinHandle<String>;

/// Reads an output to its end, and keeps its beginning.
fn reader(output: Option<impl Read + Send + 'static>) -> Option<Text> {
    let mut output = output?;
    Some(thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = output.by_ref().take(LARGEST).read_to_end(&mut bytes);
        let _ = std::io::copy(&mut output, &mut std::io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    }))
}

fn joined(text: Option<Text>) -> String {
    text.and_then(|text| text.join().ok()).unwrap_or_default()
}
