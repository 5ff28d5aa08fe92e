//! Input: a folder and arguments. Output: the answer of `git`. git is started only here.
//!
//! git receives only what it needs to reach repositories: no `GIT_*` variables, and of the settings
//! of the user and the machine only those for transport, credentials and large files. It never asks
//! questions. So a checkout does not depend on its user: line ends, hooks, signatures and global
//! ignore rules have no effect, and neither do names and dates in commits.

mod settings;

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rocwheel_progress::{Failure, Interrupted, Reporter, shell_word};
use rocwheel_system::RunningGroup;

use crate::error;
use crate::folder_lock::FolderLock;
use crate::git_failure::GitFailure;

const NAME: &str = "rocwheel";
const EMAIL: &str = "rocwheel@localhost";

/// Bytes of git's error output that are kept: the last ones explain the failure.
const LONGEST_COMPLAINT: usize = 16 << 10;

/// Time that git has to clean up after it was asked to stop.
const PATIENCE: Duration = Duration::from_secs(5);

/// git with an isolated environment.
#[derive(Debug, Clone)]
pub struct Git {
    variables: Vec<(OsString, OsString)>,
    settings: Vec<(String, String)>,
    lock: Option<FolderLock>,
}

/// The output of a successful call.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) output: Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct Call<'a> {
    git: &'a Git,
    directory: &'a Path,
    arguments: Vec<OsString>,
    variables: Vec<(&'static str, OsString)>,
    settings: Vec<(String, String)>,
}

pub(crate) enum Broken {
    Failed(GitFailure),
    Other(Failure),
}

impl Git {
    /// git with an environment from which all variables `GIT_*` are removed.
    pub fn new(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Git, Failure> {
        let variables = environment.into_iter().filter(|(name, _)| {
            let name = name.to_string_lossy();
            !name.starts_with("GIT_")
                && !["SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "LANGUAGE", "LC_ALL"].contains(&name.as_ref())
        });
        let mut git = Git { variables: variables.collect(), settings: Vec::new(), lock: None };
        settings::check_version(&git)?;
        git.settings = settings::of_the_user(&git);
        Ok(git)
    }

    /// The same git, recording the processes that it starts in a lock.
    pub(crate) fn leaving_word(&self, lock: FolderLock) -> Git {
        Git { lock: Some(lock), ..self.clone() }
    }

    /// Begins a command in a folder.
    pub(crate) fn at<'a>(&'a self, directory: &'a Path) -> Call<'a> {
        Call { git: self, directory, arguments: Vec::new(), variables: Vec::new(), settings: Vec::new() }
    }

    /// The process without settings, used to read the settings themselves.
    fn bare(&self) -> Command {
        let mut command = Command::new("git");
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
        command
    }
}

impl Call<'_> {
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    pub(crate) fn variable(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name, value.as_ref().to_owned()));
        self
    }

    /// Adds a setting for this command and its children.
    pub(crate) fn setting(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Sets the date of commits in git's format (`1700000000 +0000`).
    pub(crate) fn dated(self, date: &str) -> Self {
        // Without the `@`, git does not read a small number as seconds.
        let date = format!("@{date}");
        self.variable("GIT_AUTHOR_DATE", &date).variable("GIT_COMMITTER_DATE", &date)
    }

    /// Runs the command and returns its answer. An exit code other than 0 is a failure.
    pub(crate) fn run(self, reporter: &dyn Reporter) -> Result<Answer, Broken> {
        let command = shown(&self.arguments);
        let directory = self.directory.to_owned();
        let (status, output, complaint) = self.wait(reporter).map_err(Broken::Other)?;
        if status.success() {
            return Ok(Answer { output });
        }
        let complaint = if complaint.is_empty() { output } else { complaint };
        let complaint = String::from_utf8_lossy(&complaint).into_owned();
        Err(Broken::Failed(GitFailure { command, directory, status: Some(status), complaint }))
    }

    /// Runs the command; `attempt` becomes part of the error.
    pub(crate) fn expect(self, attempt: impl Into<String>, reporter: &dyn Reporter) -> Result<Answer, Failure> {
        self.run(reporter).map_err(|broken| broken.into_failure(attempt))
    }

    /// Runs the command; `true` if its exit code is 0.
    pub(crate) fn succeeds(self, reporter: &dyn Reporter) -> Result<bool, Failure> {
        self.wait(reporter).map(|(status, ..)| status.success())
    }

    /// Runs the command and returns its output without trailing white space; `None` if it fails.
    pub(crate) fn answer(self, reporter: &dyn Reporter) -> Result<Option<String>, Failure> {
        let (status, output, _) = self.wait(reporter)?;
        Ok(status.success().then(|| String::from_utf8_lossy(&output).trim_end().to_owned()))
    }

    fn wait(self, reporter: &dyn Reporter) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), Failure> {
        let mut command = self.git.bare();
        command.current_dir(self.directory).args(&self.arguments);
        settings::apply(&mut command, self.git.settings.iter().chain(&self.settings));
        command.env("GIT_AUTHOR_NAME", NAME).env("GIT_AUTHOR_EMAIL", EMAIL);
        command.env("GIT_COMMITTER_NAME", NAME).env("GIT_COMMITTER_EMAIL", EMAIL);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // Without a repository in the folder, git must not use one of a parent folder.
        if let Some(above) = self.directory.parent() {
            command.env("GIT_CEILING_DIRECTORIES", above);
        }
        // git gets its own process group. When the work stops, everything that git has started
        // stops with it.
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        reporter.check()?;
        if let Some(lock) = &self.git.lock {
            let (name, value) = lock.variable();
            command.env(name, value);
        }
        let child = RunningGroup::start(&mut command).map_err(|source| match source.kind() {
            // A missing working folder looks like a missing program.
            std::io::ErrorKind::NotFound if !self.directory.is_dir() => {
                std::io::Error::new(source.kind(), format!("there is no folder `{}`", self.directory.display())).into()
            }
            _ => error::no_git(source),
        })?;
        if let Some(lock) = &self.git.lock {
            lock.has_begun(child.id())?;
        }
        watch(child, reporter)
    }
}

/// Reads both outputs to their end, and ends the process if the user stops the work.
fn watch(mut child: RunningGroup, reporter: &dyn Reporter) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), Failure> {
    let (done, finished) = mpsc::channel();
    let output = child.stdout.take().map(|stream| gather(stream, usize::MAX, done.clone()));
    let complaint = child.stderr.take().map(|stream| gather(stream, LONGEST_COMPLAINT, done));
    let mut interrupted = false;
    loop {
        match finished.recv_timeout(Duration::from_millis(50)) {
            // Both outputs are closed when the channel is.
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if reporter.interrupted() && !interrupted => {
                interrupted = true;
                child.end(PATIENCE);
            }
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
    let status = child.wait()?;
    let joined =
        |thread: Option<thread::JoinHandle<Vec<u8>>>| thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
    let (output, complaint) = (joined(output), joined(complaint));
    if interrupted || (reporter.interrupted() && !status.success()) {
        return Err(Interrupted.into());
    }
    Ok((status, output, complaint))
}

/// Reads a stream to its end and keeps the last `longest` bytes.
fn gather(
    mut stream: impl Read + Send + 'static,
    longest: usize,
    done: mpsc::Sender<()>,
) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut page = vec![0; 1 << 14];
        while let Ok(read @ 1..) = stream.read(&mut page) {
            kept.extend_from_slice(&page[..read]);
            if kept.len() > longest.saturating_mul(2) {
                kept.drain(..kept.len() - longest);
            }
        }
        let _ = done.send(());
        kept
    })
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).trim_end().to_owned()
    }

    /// The records of output with `-z`.
    pub(crate) fn records(&self) -> impl Iterator<Item = String> + '_ {
        self.output
            .split(|byte| *byte == 0)
            .filter(|record| !record.is_empty())
            .map(|record| String::from_utf8_lossy(record).into_owned())
    }
}

impl Broken {
    pub(crate) fn into_failure(self, attempt: impl Into<String>) -> Failure {
        match self {
            Broken::Failed(failure) => Failure::from(failure).context(format!("could not {}", attempt.into())),
            Broken::Other(failure) => failure,
        }
    }
}

/// A command in shell syntax, without the password of an address.
fn shown(arguments: &[OsString]) -> String {
    let mut text = "git".to_owned();
    for argument in arguments {
        text.push(' ');
        text.push_str(&shell_word(&without_secret(&argument.to_string_lossy())));
    }
    text
}

/// A word of a command line without the user names and passwords of its addresses, for logs and
/// messages. A user name alone is kept, except in HTTP addresses: there it is a token.
pub fn without_secret(word: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(word.len()), word);
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        // `--index-url=https`, `name @ git+https`.
        let scheme = before[..at].rsplit(|sign: char| !sign.is_ascii_alphanumeric()).next().unwrap_or_default();
        let is_http = ["http", "https"].iter().any(|http| scheme.eq_ignore_ascii_case(http));
        let end = after.find(|sign: char| sign.is_whitespace() || "/?#\"'".contains(sign)).unwrap_or(after.len());
        let user = after[..end].rsplit_once('@').map_or("", |(user, _)| user);
        let is_secret = !user.is_empty() && (is_http || user.contains(':'));
        rest = if is_secret { &after[user.len() + 1..] } else { after };
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_typed_and_without_secrets() {
        let shown = |arguments: &[&str]| shown(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(shown(&["fetch", "https://user:secret@host/x y"]), "git fetch 'https://host/x y'");
        assert_eq!(shown(&["fetch", "https://token@host/x"]), "git fetch https://host/x");
        for (word, expected) in [
            ("HTTPS://token@host/x", "HTTPS://host/x"),
            ("git+https://token@host/x.git@v1", "git+https://host/x.git@v1"),
            ("demo @ git+https://token@host/x", "demo @ git+https://host/x"),
            ("--index-url=https://user:p@ss@host:80/simple", "--index-url=https://host:80/simple"),
            ("https://one@host https://two@host/?mail=a@b", "https://host https://host/?mail=a@b"),
            ("https://host?mail=a@b", "https://host?mail=a@b"),
            ("git+ssh://git@host/x", "git+ssh://git@host/x"),
            ("ssh://git:secret@host/x", "ssh://host/x"),
            ("https://", "https://"),
        ] {
            assert_eq!(without_secret(word), expected);
        }
        assert_eq!(shown(&["fetch", "ssh://git@host/x", "it's"]), r"git fetch ssh://git@host/x 'it'\''s'");
    }
}
