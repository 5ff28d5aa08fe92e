//! Input: how the program ended that wrote reports. Output: whether that contradicts them.
//!
//! Frameworks say some failures only with their exit code: a clean-up that throws, a worker that
//! was killed, a file that cannot be compiled. Their reports have no trace of it.

use std::process::ExitStatus;

use rocwheel_system::ending_signal;
use serde::Serialize;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    Code(i32),
    Signal(i32),
}

impl ProgramEnd {
    /// The end that a process reports.
    pub fn of(status: ExitStatus) -> Self {
        match (status.code(), ending_signal(status)) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }

    /// What happened, in words that follow "the process": `was ended by signal 11 (SIGSEGV)`.
    pub fn words(self) -> String {
        match self {
            Self::Code(code) => format!("exited with code {code}"),
            Self::Signal(number) => match signal_name(number) {
                Some(name) => format!("was ended by signal {number} ({name})"),
                None => format!("was ended by signal {number}"),
            },
        }
    }
}

/// Names of the signals that end tests; their numbers are the same on x86-64 and arm64 Linux.
fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL, perhaps because memory ran out",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

/// How the runner of the tests ended: the program that wrote the reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum RunnerEnd {
    /// It is unknown.
    #[default]
    Unknown,
    /// rocwheel ran the tests, and its events say how their processes ended.
    Supervised,
    Exited {
        /// 0 if the runner says that all is well.
        code: u32,
    },
    Killed {
        signal: i32,
    },
    /// It ran longer than it may and was ended.
    TimedOut {
        seconds: u64,
    },
}

impl RunnerEnd {
    /// `true` if its end says that something went wrong.
    pub fn is_bad(self) -> bool {
        !matches!(self, Self::Unknown | Self::Supervised | Self::Exited { code: 0 })
    }

    /// A clause without its stop: `the runner exited with code 1`.
    pub fn words(self) -> String {
        match self {
            Self::Unknown => "the exit code of the runner is not known".to_owned(),
            Self::Supervised => "the tests ran under rocwheel".to_owned(),
            Self::Exited { code } => format!("the runner exited with code {code}"),
            Self::Killed { signal } => format!("the runner {}", ProgramEnd::Signal(signal).words()),
            Self::TimedOut { seconds } => format!("the runner ran longer than {seconds} s and was ended"),
        }
    }
}
