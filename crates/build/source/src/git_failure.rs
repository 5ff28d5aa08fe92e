//! Input: the end of a git command and its error output. Output: the failure, with its cause and a
//! remedy as far as the output shows them.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;

use rocwheel_progress::{Exit, Hint};

#[derive(Debug)]
pub struct GitFailure {
    pub(crate) command: String,
    pub(crate) directory: PathBuf,
    pub(crate) status: Option<ExitStatus>,
    pub(crate) complaint: String,
}

impl GitFailure {
    /// `true` if git's error output contains one of these texts.
    pub(crate) fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|words| self.complaint.contains(words))
    }

    /// The names that follow `words` at the beginning of lines of git's error output, without a
    /// line number at the end.
    pub(crate) fn named_after(&self, words: &str) -> Vec<String> {
        let names = self.complaint.lines().filter_map(|line| line.strip_prefix(words));
        names.map(|name| name.rsplit_once(':').map_or(name, |(name, _)| name).to_owned()).collect()
    }

    fn cause(&self) -> Option<Cause> {
        CAUSES.iter().find(|(_, words)| self.says(words)).map(|(cause, _)| *cause)
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.cause() == Some(Cause::Network)
    }
}

impl fmt::Display for GitFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` in `{}` ", self.command, self.directory.display())?;
        match self.status.and_then(|status| status.code()) {
            Some(code) => write!(formatter, "ended with {code}")?,
            None => write!(formatter, "was ended by a signal")?,
        }
        // Progress overwrites itself with carriage returns; only the last state of each line
        // matters.
        let lines: Vec<&str> =
            self.complaint.lines().map(|line| line.rsplit('\r').next().unwrap_or(line).trim_end()).collect();
        let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        for line in &lines[lines.len().saturating_sub(12)..] {
            write!(formatter, "\n    {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for GitFailure {}

/// The cause of a failure as far as git's output shows it, the most certain first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Space,
    Owner,
    Lock,
    LocalSubmodule,
    Credentials,
    Gone,
    Damaged,
    Network,
}

/// Messages of git and curl by cause. Private hosts ask for a password instead of saying that a
/// repository does not exist.
const CAUSES: [(Cause, &[&str]); 8] = [
    (Cause::Space, &["No space left on device", "Disk quota exceeded"]),
    (Cause::Owner, &["dubious ownership"]),
    (Cause::Lock, &[".lock': File exists"]),
    (Cause::LocalSubmodule, &["transport 'file' not allowed"]),
    (
        Cause::Credentials,
        &[
            "terminal prompts disabled",
            "could not read Username",
            "could not read Password",
            "unable to get password from user",
            "Authentication failed",
            "Permission denied (publickey",
            "returned error: 401",
            "returned error: 403",
        ],
    ),
    (
        Cause::Gone,
        &[
            "does not appear to be a git repository",
            "epository not found",
            "repository not exported",
            "/' not found",
            "does not exist",
            "returned error: 404",
        ],
    ),
    (
        Cause::Damaged,
        &["repository corruption on the remote side", "remote: fatal: unable to read", "remote: fatal: bad object"],
    ),
    (
        Cause::Network,
        &[
            "Could not resolve host",
            "Temporary failure in name resolution",
            "unable to look up",
            "Connection timed out",
            "Connection refused",
            "Connection reset",
            "Couldn't connect",
            "Could not connect",
            "Failed to connect",
            "unable to connect to",
            "Network is unreachable",
            "No route to host",
            "Operation timed out",
            "Operation too slow",
            "Empty reply from server",
            "transfer closed",
            "RPC failed",
            "unexpected disconnect",
            "hung up unexpectedly",
            "hung up upon initial contact",
            "early EOF",
            "The requested URL returned error: 429",
            "The requested URL returned error: 5",
        ],
    ),
];

impl Hint for GitFailure {
    fn hint(&self) -> Option<String> {
        let is_submodule = self.command.starts_with("git submodule");
        Some(match self.cause()? {
            Cause::Space => "free some space and run it again: it continues where it stopped".to_owned(),
            Cause::Owner => {
                format!("if you trust it: `git config --global --add safe.directory {}`", self.directory.display())
            }
            Cause::Lock => "another git is working there, or one was killed: if none is, remove the named lock file and run it again".to_owned(),
            Cause::LocalSubmodule => "submodules on this machine are taken only when the project itself is: see `protocol.file.allow` in git's manual".to_owned(),
            Cause::Credentials => "it never asks: set up a credential helper or an SSH agent for that address, or name another with `--origin`; a repository that is \
                 gone looks the same on many servers"
                .to_owned(),
            Cause::Gone if is_submodule => "an address in .gitmodules leads nowhere: if the submodule has moved, `git config --global url.NEW.insteadOf OLD` leads there".to_owned(),
            Cause::Gone => "the origin is gone or never was: name the right one with `--origin`".to_owned(),
            Cause::Damaged => "the repository at the other end is damaged: tell its owner, or name another with `--origin`".to_owned(),
            Cause::Network => "the network failed: run it again, and it continues where it stopped".to_owned(),
        })
    }

    fn exit(&self) -> Exit {
        if self.is_temporary() { Exit::TryAgain } else { Exit::Failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_complaint_are_shown() {
        let complaint = format!("{}Receiving 1%\rReceiving 2%\nfatal: it broke\n", "noise\n".repeat(50));
        let failure = GitFailure { command: "git fetch".into(), directory: "d".into(), status: None, complaint };
        let text = failure.to_string();
        assert!(text.contains("was ended by a signal") && text.ends_with("\n    fatal: it broke"), "{text}");
        assert!(!text.contains("1%") && text.lines().count() == 13, "{text}");
    }

    #[test]
    fn complaints_are_told_apart() {
        let failure = |complaint: &str| GitFailure {
            command: "git fetch".into(),
            directory: "d".into(),
            status: None,
            complaint: complaint.into(),
        };
        assert_eq!(failure("fatal: Could not resolve host: x").exit(), Exit::TryAgain);
        assert_eq!(failure("fatal: terminal prompts disabled").exit(), Exit::Failed);
        assert!(failure("error: file write error: No space left on device").hint().unwrap().contains("space"));
        assert!(failure("fatal: 'x' does not appear to be a git repository").hint().unwrap().contains("--origin"));
        assert!(failure("fatal: detected dubious ownership").hint().unwrap().contains("safe.directory d"));
        assert!(failure("fatal: repository 'http://h/x/' not found").hint().unwrap().contains("gone or never was"));
        assert_eq!(
            failure("fatal: could not read Username: terminal prompts disabled\nearly EOF").exit(),
            Exit::Failed
        );
        let damaged = "remote: aborting due to possible repository corruption on the remote side.\nfatal: early EOF";
        assert_eq!(failure(damaged).exit(), Exit::Failed);
        assert!(failure(damaged).hint().unwrap().contains("is damaged"));
        assert_eq!(failure("error: RPC failed; curl 18 transfer closed").exit(), Exit::TryAgain);
        assert_eq!(failure("something new").hint(), None);
    }
}
