//! Input: a program with its environment and its time limit. Output: how it ended, and the end of
//! its output.
//!
//! A program runs in its own process group. At its time limit, or when the user stops the work,
//! everything that it has started ends with it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rocwheel_progress::{Exit, Hint, Interrupted, Reporter};
use rocwheel_system::{RunningGroup, ending_signal, find_program};

/// A program that was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its output cannot be read, or its log cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error(transparent)]
    NotStarted(#[from] NotStarted),
}

#[derive(Debug, thiserror::Error)]
#[error("could not start `{program}`")]
pub struct NotStarted {
    /// Its name or path.
    pub program: String,
    pub source: io::Error,
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Error::NotStarted(program) => program.hint(),
            Error::Io(_) | Error::Interrupted(_) => None,
        }
    }

    fn exit(&self) -> Exit {
        if matches!(self, Error::Interrupted(_)) { Exit::Interrupted } else { Exit::Failed }
    }
}

impl Hint for NotStarted {
    fn hint(&self) -> Option<String> {
        Some(format!("install `{}`, or put its folder into PATH", self.program))
    }
}

/// Bytes of a program's output that are kept in memory.
const KEPT: usize = 1 << 20;
/// Time that a program has to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that background processes of a finished program may keep its output open.
const STRAGGLERS: Duration = Duration::from_secs(2);
/// Interval at which the time limit and the user's wish to stop are checked.
const TICK: Duration = Duration::from_millis(20);
/// Time within which every process hears a signal that is sent to all.
const HEARD: Duration = Duration::from_millis(500);

#[derive(Debug, Clone)]
pub struct Program<'a> {
    /// The program and its arguments.
    pub words: Vec<String>,
    pub directory: &'a Path,
    /// The complete environment; nothing is inherited.
    pub environment: &'a BTreeMap<String, String>,
    /// Time limit of the program.
    pub timeout: Duration,
    /// Time at which all work has to stop.
    pub deadline: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited with this code.
    Code(i32),
    /// Another process ended it with this signal.
    Signal(i32),
    /// Its own time limit was reached.
    TimedOut,
    /// The deadline of the work was reached.
    Deadline,
}

#[derive(Debug)]
pub struct FinishedProcess {
    pub ended: ProcessEnd,
    /// The end of its output, stdout and stderr in the order in which they came.
    pub said: String,
}

impl FinishedProcess {
    /// The last `count` lines that are not empty.
    pub fn tail(&self, count: usize) -> Vec<String> {
        let lines: Vec<&str> = self.lines().collect();
        lines[lines.len().saturating_sub(count)..].iter().map(|&line| line.to_owned()).collect()
    }

    /// All kept lines that are not empty. Of text that overwrites itself with carriage returns,
    /// only the last state remains.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
        let lines = self.said.lines().map(|line| line.trim_end().rsplit('\r').next().unwrap_or("").trim_end());
        lines.filter(|line| !line.is_empty())
    }
}

/// A program that runs until it is released or dropped; its stdin stays open until then.
#[derive(Debug)]
pub struct HeldProcess {
    child: RunningGroup,
    /// Its end closes when this value is dropped, and also when this process ends for any reason.
    stdin: Option<ChildStdin>,
    pages: mpsc::Receiver<Vec<u8>>,
}

/// Starts a program that runs until it is released.
pub fn hold(program: &Program<'_>) -> Result<HeldProcess, Error> {
    let (mut child, pages) = spawn(program, Stdio::piped())?;
    let stdin = child.stdin.take();
    Ok(HeldProcess { child, stdin, pages })
}

impl HeldProcess {
    /// Waits until the program prints `line`. Returns its result if it ends before that or takes
    /// too long.
    pub fn wait_for(
        &mut self,
        line: &str,
        timeout: Duration,
        reporter: &dyn Reporter,
    ) -> Result<Option<FinishedProcess>, Error> {
        let began = Instant::now();
        let mut said = Vec::new();
        loop {
            let page = self.pages.recv_timeout(TICK);
            said.extend(page.as_ref().into_iter().flatten());
            let text = String::from_utf8_lossy(&said);
            if text.lines().any(|other| other.trim_end() == line) {
                return Ok(None);
            }
            reporter.check()?;
            let ended = if began.elapsed() >= timeout {
                ProcessEnd::TimedOut
            } else if page == Err(RecvTimeoutError::Disconnected) {
                ended(self.child.wait()?)
            } else {
                continue;
            };
            return Ok(Some(FinishedProcess { ended, said: text.into_owned() }));
        }
    }

    pub fn is_over(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Closes its stdin and waits at most `patience` for its end; `true` if it ended by itself.
    pub fn release(mut self, patience: Duration) -> bool {
        self.stdin.take();
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if self.is_over() {
                return true;
            }
            thread::sleep(TICK);
        }
        self.child.end(PATIENCE);
        false
    }
}

/// Starts a program in its own process group; its output arrives in pages.
fn spawn(program: &Program<'_>, stdin: Stdio) -> Result<(RunningGroup, mpsc::Receiver<Vec<u8>>), Error> {
    let (mut reader, writer) = io::pipe()?;
    let mut command = Command::new(locate(program).as_ref().map_or(Path::new(&program.words[0]), PathBuf::as_path));
    command.args(&program.words[1..]).current_dir(program.directory).env_clear().envs(program.environment);
    command.stdin(stdin).stdout(writer.try_clone()?).stderr(writer);
    let spawned = RunningGroup::start(&mut command);
    // The command holds the write ends of the pipe.
    drop(command);
    let child = spawned.map_err(|source| -> Error {
        match source.kind() {
            io::ErrorKind::NotFound if !program.directory.is_dir() => {
                io::Error::new(source.kind(), format!("there is no folder `{}`", program.directory.display())).into()
            }
            _ => NotStarted { program: program.words[0].clone(), source }.into(),
        }
    })?;
    let (sender, pages) = mpsc::channel::<Vec<u8>>();
    thread::spawn(move || {
        let mut page = vec![0; 1 << 14];
        while let Ok(read @ 1..) = reader.read(&mut page) {
            if sender.send(page[..read].to_vec()).is_err() {
                break;
            }
        }
    });
    Ok((child, pages))
}

/// `true` if this program is being asked to stop. It is called after a child has ended: a cluster
/// that cancels a task signals all its processes, and a child may end before the signal is heard
/// here.
pub fn is_stopping(reporter: &dyn Reporter) -> bool {
    let end = Instant::now() + HEARD;
    while !reporter.interrupted() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(TICK);
    }
    true
}

/// Runs a program; its output also goes to `log`.
///
/// # Errors
/// The program cannot be started, the log cannot be written, or the user stopped the work.
pub fn run(
    program: &Program<'_>,
    log: Option<&mut dyn Write>,
    reporter: &dyn Reporter,
) -> Result<FinishedProcess, Error> {
    reporter.check()?;
    let (mut child, pages) = spawn(program, Stdio::null())?;
    let mut watch = Watch { program, reporter, began: Instant::now(), stopped: None };
    let listened = watch.listen(&mut child, &pages, log);
    if listened.is_err() {
        child.end(PATIENCE);
    }
    let (status, said) = listened?;
    let ended = match watch.stopped {
        Some(Stopped::Interrupted) => return Err(Error::Interrupted(Interrupted)),
        Some(Stopped::TimedOut) => ProcessEnd::TimedOut,
        Some(Stopped::Deadline) => ProcessEnd::Deadline,
        None if reporter.interrupted() && !status.success() => return Err(Error::Interrupted(Interrupted)),
        None => ended(status),
    };
    Ok(FinishedProcess { ended, said: String::from_utf8_lossy(&said).into_owned() })
}

/// Looks the program up in the PATH that it gets, not in ours. Programs that it starts are looked
/// up there too.
fn locate(program: &Program<'_>) -> Option<PathBuf> {
    find_program(&program.words[0], program.environment.get("PATH")?)
}

#[derive(Clone, Copy)]
enum Stopped {
    Interrupted,
    TimedOut,
    Deadline,
}

struct Watch<'a> {
    program: &'a Program<'a>,
    reporter: &'a dyn Reporter,
    began: Instant,
    stopped: Option<Stopped>,
}

impl Watch<'_> {
    fn listen(
        &mut self,
        child: &mut RunningGroup,
        pages: &mpsc::Receiver<Vec<u8>>,
        mut log: Option<&mut dyn Write>,
    ) -> Result<(ExitStatus, Vec<u8>), Error> {
        let mut said = Vec::new();
        let mut take = |page: Vec<u8>| -> io::Result<()> {
            if let Some(log) = &mut log {
                log.write_all(&page)?;
            }
            said.extend_from_slice(&page);
            if said.len() > 2 * KEPT {
                said.drain(..said.len() - KEPT);
            }
            Ok(())
        };
        let status = loop {
            match pages.recv_timeout(TICK) {
                Ok(page) => take(page)?,
                Err(RecvTimeoutError::Disconnected) => thread::sleep(TICK.min(Duration::from_millis(2))),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if self.stopped.is_none() {
                self.stopped = self.reason();
                if self.stopped.is_some() {
                    child.end(PATIENCE);
                }
            }
        };
        // Output that is still in the pipe is read, but background processes are not waited for.
        let end = Instant::now() + STRAGGLERS;
        while let Ok(page) = pages.recv_timeout(end.saturating_duration_since(Instant::now())) {
            take(page)?;
        }
        Ok((status, said))
    }

    /// The reason why the program has to stop now, if any.
    fn reason(&self) -> Option<Stopped> {
        if self.reporter.interrupted() {
            Some(Stopped::Interrupted)
        } else if self.program.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Some(Stopped::Deadline)
        } else if self.began.elapsed() >= self.program.timeout {
            Some(Stopped::TimedOut)
        } else {
            None
        }
    }
}

fn ended(status: ExitStatus) -> ProcessEnd {
    match (status.code(), ending_signal(status)) {
        (Some(code), _) => ProcessEnd::Code(code),
        (None, signal) => ProcessEnd::Signal(signal.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rocwheel_progress::{Silent, Unit};

    use super::*;

    fn shell(
        script: &str,
        timeout: f64,
        deadline: Option<Instant>,
        reporter: &dyn Reporter,
    ) -> Result<FinishedProcess, Error> {
        let environment = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").expect("the tests have a PATH"))]);
        let program = Program {
            words: ["sh", "-c", script].map(str::to_owned).to_vec(),
            directory: Path::new("/"),
            environment: &environment,
            timeout: Duration::from_secs_f64(timeout),
            deadline,
        };
        run(&program, None, reporter)
    }

    #[test]
    fn both_outputs_are_heard_and_nothing_of_our_environment_is_there() {
        let finished = shell("echo out; echo err >&2; echo ${HOME:-none}; exit 3", 10.0, None, &Silent).unwrap();
        assert_eq!(finished.ended, ProcessEnd::Code(3));
        assert_eq!(finished.tail(2), ["err", "none"]);
        let finished = shell("printf '1%%\\r2%%\\rdone\\r\\n\\n'; kill -9 $$", 10.0, None, &Silent).unwrap();
        assert_eq!((finished.ended, finished.tail(9)), (ProcessEnd::Signal(9), vec!["done".to_owned()]));
    }

    #[test]
    fn what_hangs_is_stopped_with_everything_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("(sleep 3; touch {}) & sleep 60", mark.display());
        let began = Instant::now();
        let finished = shell(&script, 0.2, None, &Silent).unwrap();
        assert_eq!(finished.ended, ProcessEnd::TimedOut);
        // A group that ends when it is asked to is not waited for.
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
        thread::sleep(Duration::from_millis(3500));
        assert!(!mark.exists(), "what it had started went on");
        let finished = shell("sleep 60", 60.0, Some(Instant::now()), &Silent).unwrap();
        assert_eq!(finished.ended, ProcessEnd::Deadline);
    }

    #[test]
    fn background_work_does_not_hold_us_up() {
        let began = Instant::now();
        let finished = shell("sleep 30 & echo $!", 10.0, None, &Silent).unwrap();
        assert_eq!(finished.ended, ProcessEnd::Code(0));
        assert!(began.elapsed() < STRAGGLERS * 2);
        rocwheel_system::kill_process(finished.said.trim().parse().unwrap());
    }

    /// A user who wants to stop after the question has been asked this many times.
    struct Wish(AtomicUsize);

    impl Reporter for Wish {
        fn begin(&self, _: &str, _: Option<u64>, _: Unit) {}
        fn advance(&self, _: u64) {}
        fn end(&self) {}
        fn warn(&self, _: &str) {}
        fn interrupted(&self) -> bool {
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
        }
    }

    #[test]
    fn the_users_wish_stops_it() {
        let error = shell("sleep 60", 60.0, None, &Wish(AtomicUsize::new(1))).unwrap_err();
        assert!(matches!(error, Error::Interrupted(_)), "{error}");
    }

    #[test]
    fn a_wish_that_comes_a_little_late_is_heard() {
        assert!(is_stopping(&Wish(AtomicUsize::new(3))));
        assert!(!is_stopping(&Silent));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let environment = BTreeMap::from([("PATH".to_owned(), "/nowhere".to_owned())]);
        let program = Program {
            words: vec!["no-such-program".into()],
            directory: Path::new("/"),
            environment: &environment,
            timeout: Duration::from_secs(1),
            deadline: None,
        };
        let error = run(&program, None, &Silent).unwrap_err();
        assert_eq!(error.to_string(), "could not start `no-such-program`");
        let gone = Program { directory: Path::new("/no/such/folder"), ..program };
        assert!(run(&gone, None, &Silent).unwrap_err().to_string().contains("there is no folder `/no/such/folder`"));
    }
}
