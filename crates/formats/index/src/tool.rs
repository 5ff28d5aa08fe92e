//! The programs whose configuration files are read, and the words of errors about these files.

use std::path::Path;

use rocwheel_progress::{Exit, Failure};

/// A program that installs packages and has configuration files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Reads `pip.conf`.
    Pip,
    /// Reads `uv.toml` and `pyproject.toml`.
    Uv,
}

impl Tool {
    /// A file that the tool could not parse. `reason` is the message of the parser.
    pub(crate) fn unreadable(self, path: &Path, reason: &str) -> Failure {
        let complaint = match self {
            Tool::Pip => "pip reads too, is not a configuration file",
            Tool::Uv => "uv reads too, is not one of its configuration files",
        };
        Failure::message(format!("`{}`, which {complaint}: {reason}", path.display()))
            .with_hint(self.hint())
            .with_exit(Exit::Usage)
    }

    fn hint(self) -> &'static str {
        match self {
            Tool::Pip if cfg!(windows) => {
                "`PIP_CONFIG_FILE=nul` ignores such files; or name the index itself with `--with`"
            }
            Tool::Pip => "`PIP_CONFIG_FILE=/dev/null` ignores such files; or name the index itself with `--with`",
            Tool::Uv => "`UV_NO_CONFIG=1` ignores such files; or name the index itself with `--with`",
        }
    }
}
