//! Runs the command that writes reports of tests, and notes how it ended.

use std::ffi::OsString;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rocwheel_console::environment;
use rocwheel_console::failure::Result;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_progress::{Context as _, Hint, Interrupted};
use rocwheel_report::RunnerEnd;
use rocwheel_system::{RunningGroup, ending_signal};

/// Time between two looks at the command.
const TICK: Duration = Duration::from_millis(20);
/// Time in which it may write its reports after Ctrl-C.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// A command of the user that runs tests.
#[derive(Debug)]
pub(super) struct RunnerCommand {
    /// The program and its arguments.
    pub(super) words: Vec<OsString>,
    /// The longest time that it may take.
    pub(super) timeout: Option<Duration>,
}

/// The command is no program.
#[derive(Debug, thiserror::Error)]
#[error("cannot start `{program}`, which should run the tests")]
struct NoRunner {
    program: String,
    source: std::io::Error,
}

impl Hint for NoRunner {
    fn hint(&self) -> Option<String> {
        Some("write the command behind `--` as in a shell: `-- pytest --junitxml=reports/junit.xml`".to_owned())
    }
}

impl RunnerCommand {
    /// Runs it to its end. Its output is not touched; with `--json` it goes to stderr. Ctrl-C and
    /// SIGTERM reach it as Ctrl-C.
    pub(super) fn run(&self, printer: &Printer) -> Result<RunnerEnd> {
        let program = self.words.first().cloned().unwrap_or_default();
        let name = program.to_string_lossy().into_owned();
        // Windows finds programs such as `npx.cmd` only with their extension.
        let found = environment::program(&name).map_or(program, OsString::from);
        let mut command = Command::new(found);
        // It is in a process group of its own, which may not read from a terminal.
        command.args(self.words.iter().skip(1)).stdin(Stdio::null());
        if printer.format() == ResultFormat::Json {
            command.stdout(Stdio::from(std::io::stderr()));
        }
        let mut child = RunningGroup::start(&mut command).map_err(|source| NoRunner { program: name, source })?;
        let begin = Instant::now();
        loop {
            if let Some(status) = child.try_wait().context("cannot tell how the runner ended")? {
                return Ok(end_of(status));
            }
            if printer.reporter().interrupted() {
                child.interrupt();
                wait_until(&mut child, Instant::now() + LAST_WORDS);
                child.end(GRACE);
                let _ = child.wait();
                return Err(Interrupted.into());
            }
            if let Some(limit) = self.timeout.filter(|limit| begin.elapsed() > *limit) {
                child.end(GRACE);
                let _ = child.wait();
                return Ok(RunnerEnd::TimedOut { seconds: limit.as_secs() });
            }
            std::thread::sleep(TICK);
        }
    }
}

fn wait_until(child: &mut RunningGroup, end: Instant) {
    while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(TICK);
    }
}

fn end_of(status: ExitStatus) -> RunnerEnd {
    match status.code() {
        Some(code) => RunnerEnd::Exited { code: code.cast_unsigned() },
        None => RunnerEnd::Killed { signal: ending_signal(status).unwrap_or_default() },
    }
}

/// The value of `--runner-exit`.
///
/// # Errors
/// A text that is neither `unknown` nor an exit code.
pub(super) fn runner_exit(text: &str) -> Result<RunnerEnd, String> {
    if text == "unknown" {
        return Ok(RunnerEnd::Unknown);
    }
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let code = text.parse().ok().filter(|_| is_number);
    code.map(|code| RunnerEnd::Exited { code }).ok_or_else(|| {
        "an exit code from 0 to 4294967295 is expected, or `unknown`; shells say 137 for the end by signal 9".to_owned()
    })
}
