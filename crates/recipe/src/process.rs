//! Input: a program with its environment and its time. Output: how it ended, and what it said last.
//! The only place that starts programs.
//!
//! A program runs in a group of its own: when its time is over, or when the user stops the work,
//! everything that it has started ends with it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rocwheel_report::{Interrupted, Reporter};

use crate::error::Error;

/// How much of what a program says is kept in memory.
const KEPT: usize = 1 << 20;
/// How long a program may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long what a program has left in the background may keep its output open.
const STRAGGLERS: Duration = Duration::from_secs(2);
/// How often time and the user's wish are looked at.
const TICK: Duration = Duration::from_millis(20);
/// Within this time a signal to all processes is heard by each.
const HEARD: Duration = Duration::from_millis(500);

/// A program that is about to run.
#[derive(Debug, Clone)]
pub(crate) struct Program<'a> {
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    /// The folder it runs in.
    pub(crate) directory: &'a Path,
    /// All of its environment.
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// How long it may take.
    pub(crate) timeout: Duration,
    /// When the work has to stop.
    pub(crate) deadline: Option<Instant>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// Somebody else's signal ended it.
    Signal(i32),
    /// Its own time was over.
    TimedOut,
    /// The time of the work was over.
    Deadline,
}

/// What a program came to.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) ended: Ended,
    /// The last that it said, stdout and stderr as they came.
    pub(crate) said: String,
}

impl Finished {
    /// The last lines, without empty ones.
    pub(crate) fn tail(&self, count: usize) -> Vec<String> {
        let lines: Vec<&str> = self.lines().collect();
        lines[lines.len().saturating_sub(count)..].iter().map(|&line| line.to_owned()).collect()
    }

    /// All kept lines. Of what overwrites itself with carriage returns the last remains.
    pub(crate) fn lines(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
        let lines = self.said.lines().map(|line| line.trim_end().rsplit('\r').next().unwrap_or("").trim_end());
        lines.filter(|line| !line.is_empty())
    }
}

/// A program that runs as long as it is held, and reads until then.
#[derive(Debug)]
pub(crate) struct Held {
    child: Child,
    /// What it reads has an end when this is dropped, and when this process ends in whatever way.
    stdin: Option<ChildStdin>,
    pages: mpsc::Receiver<Vec<u8>>,
}

/// Starts a program that is to run until it is released.
///
/// # Errors
/// A program that cannot be started.
pub(crate) fn hold(program: &Program<'_>) -> Result<Held, Error> {
    let (mut child, pages) = spawn(program, Stdio::piped())?;
    let stdin = child.stdin.take();
    Ok(Held { child, stdin, pages })
}

impl Held {
    /// Waits until it says a line. What it came to when it ends before, or takes too long.
    ///
    /// # Errors
    /// The user's wish to stop.
    pub(crate) fn wait_for(
        &mut self,
        line: &str,
        timeout: Duration,
        reporter: &dyn Reporter,
    ) -> Result<Option<Finished>, Error> {
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
                Ended::TimedOut
            } else if page == Err(RecvTimeoutError::Disconnected) {
                ended(self.child.wait()?)
            } else {
                continue;
            };
            return Ok(Some(Finished { ended, said: text.into_owned() }));
        }
    }

    /// Whether it has ended by itself.
    pub(crate) fn is_over(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends what it reads and waits for it; whether it ended by that.
    pub(crate) fn release(mut self, patience: Duration) -> bool {
        self.stdin.take();
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if self.is_over() {
                return true;
            }
            thread::sleep(TICK);
        }
        stop(&mut self.child);
        false
    }
}

/// Starts a program in a group of its own; what it says comes as pages.
fn spawn(program: &Program<'_>, stdin: Stdio) -> Result<(Child, mpsc::Receiver<Vec<u8>>), Error> {
    let (mut reader, writer) = io::pipe()?;
    let mut command = Command::new(locate(program).as_ref().map_or(Path::new(&program.words[0]), PathBuf::as_path));
    command.args(&program.words[1..]).current_dir(program.directory).env_clear().envs(program.environment);
    command.stdin(stdin).stdout(writer.try_clone()?).stderr(writer);
    own_group(&mut command);
    let spawned = command.spawn();
    // It holds the other ends of the pipe.
    drop(command);
    let child = spawned.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound if !program.directory.is_dir() => {
            io::Error::new(source.kind(), format!("there is no folder `{}`", program.directory.display())).into()
        }
        _ => Error::NoProgram { program: program.words[0].clone(), source },
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

/// Whether this program is being told to stop, asked after one that it started has ended: a cluster
/// that cancels a task signals all its processes, and what it started may end before the signal is
/// heard here.
pub(crate) fn is_stopping(reporter: &dyn Reporter) -> bool {
    let end = Instant::now() + HEARD;
    while !reporter.interrupted() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(TICK);
    }
    true
}

/// Runs it; what it says goes to `log` too.
///
/// # Errors
/// A program that cannot be started, a log that cannot be written, and the user's wish to stop.
pub(crate) fn run(
    program: &Program<'_>,
    log: Option<&mut dyn Write>,
    reporter: &dyn Reporter,
) -> Result<Finished, Error> {
    reporter.check()?;
    let (mut child, pages) = spawn(program, Stdio::null())?;
    let mut watch = Watch { program, reporter, began: Instant::now(), stopped: None };
    let listened = watch.listen(&mut child, &pages, log);
    if listened.is_err() {
        stop(&mut child);
    }
    let (status, said) = listened?;
    let ended = match watch.stopped {
        Some(Stopped::Interrupted) => return Err(Error::Interrupted(Interrupted)),
        Some(Stopped::TimedOut) => Ended::TimedOut,
        Some(Stopped::Deadline) => Ended::Deadline,
        None if reporter.interrupted() && !status.success() => return Err(Error::Interrupted(Interrupted)),
        None => ended(status),
    };
    Ok(Finished { ended, said: String::from_utf8_lossy(&said).into_owned() })
}

/// Where the program is by the PATH it gets, not by ours: that is where those it starts will be
/// looked for.
fn locate(program: &Program<'_>) -> Option<PathBuf> {
    find(&program.words[0], program.environment.get("PATH")?)
}

/// A program in a list of folders, as PATH is one; `None` for what names a folder itself.
pub fn find(name: &str, path: &str) -> Option<PathBuf> {
    if name.contains(['/', '\\']) {
        return None;
    }
    let suffixes: &[&str] = if cfg!(windows) { &[".exe", ".bat", ".cmd", ""] } else { &[""] };
    let candidates = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let mut candidates =
        candidates.flat_map(|folder| suffixes.iter().map(move |suffix| folder.join(format!("{name}{suffix}"))));
    candidates.find(|path| is_executable(path))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
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
        child: &mut Child,
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
                    stop(child);
                }
            }
        };
        // What is in the pipe still is read, but nobody waits for what runs on in the background.
        let end = Instant::now() + STRAGGLERS;
        while let Ok(page) = pages.recv_timeout(end.saturating_duration_since(Instant::now())) {
            take(page)?;
        }
        Ok((status, said))
    }

    /// Why the program has to stop now.
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

#[cfg(unix)]
fn own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

#[cfg(windows)]
fn own_group(command: &mut Command) {
    use std::os::windows::process::CommandExt as _;
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// Asks the whole group to end, and makes it end when it does not.
#[cfg(unix)]
fn stop(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let Some(group) = Pid::from_raw(child.id().cast_signed()) else { return };
    // It may have ended by itself, which is as well.
    let _ = kill_process_group(group, Signal::TERM);
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        // The child is gone when it was waited for, others of its group when nobody is left to get
        // a signal.
        let _ = child.try_wait();
        if rustix::process::test_kill_process_group(group).is_err() {
            return;
        }
        thread::sleep(TICK);
    }
    let _ = kill_process_group(group, Signal::KILL);
}

#[cfg(windows)]
fn stop(child: &mut Child) {
    let _ = Command::new("taskkill").args(["/T", "/F", "/PID", &child.id().to_string()]).status();
}

#[cfg(unix)]
fn ended(status: ExitStatus) -> Ended {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, signal) => Ended::Signal(signal.unwrap_or(0)),
    }
}

#[cfg(not(unix))]
fn ended(status: ExitStatus) -> Ended {
    Ended::Code(status.code().unwrap_or(-1))
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rocwheel_report::{Silent, Unit};

    use super::*;

    fn shell(
        script: &str,
        timeout: f64,
        deadline: Option<Instant>,
        reporter: &dyn Reporter,
    ) -> Result<Finished, Error> {
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
        assert_eq!(finished.ended, Ended::Code(3));
        assert_eq!(finished.tail(2), ["err", "none"]);
        let finished = shell("printf '1%%\\r2%%\\rdone\\r\\n\\n'; kill -9 $$", 10.0, None, &Silent).unwrap();
        assert_eq!((finished.ended, finished.tail(9)), (Ended::Signal(9), vec!["done".to_owned()]));
    }

    #[test]
    fn what_hangs_is_stopped_with_everything_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("(sleep 3; touch {}) & sleep 60", mark.display());
        let began = Instant::now();
        let finished = shell(&script, 0.2, None, &Silent).unwrap();
        assert_eq!(finished.ended, Ended::TimedOut);
        // A group that ends when it is asked to is not waited for.
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
        thread::sleep(Duration::from_millis(3500));
        assert!(!mark.exists(), "what it had started went on");
        let finished = shell("sleep 60", 60.0, Some(Instant::now()), &Silent).unwrap();
        assert_eq!(finished.ended, Ended::Deadline);
    }

    #[test]
    fn background_work_does_not_hold_us_up() {
        let began = Instant::now();
        let finished = shell("sleep 30 & echo $!", 10.0, None, &Silent).unwrap();
        assert_eq!(finished.ended, Ended::Code(0));
        assert!(began.elapsed() < STRAGGLERS * 2);
        let pid = finished.said.trim().parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    /// Somebody who wants to stop once this has been asked so often.
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
