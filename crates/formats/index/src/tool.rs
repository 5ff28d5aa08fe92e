//! The programs whose configuration files are read, and the words of errors about these files.

/// A program that installs packages and has configuration files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Reads `pip.conf`.
    Pip,
    /// Reads `uv.toml` and `pyproject.toml`.
    Uv,
}

impl Tool {
    /// The words of an error about a file that the tool could not parse.
    pub(crate) fn complaint(self) -> &'static str {
        match self {
            Tool::Pip => "pip reads too, is not a configuration file",
            Tool::Uv => "uv reads too, is not one of its configuration files",
        }
    }

    pub(crate) fn hint(self) -> &'static str {
        match self {
            Tool::Pip if cfg!(windows) => {
                "`PIP_CONFIG_FILE=nul` ignores such files; or name the index itself with `--with`"
            }
            Tool::Pip => "`PIP_CONFIG_FILE=/dev/null` ignores such files; or name the index itself with `--with`",
            Tool::Uv => "`UV_NO_CONFIG=1` ignores such files; or name the index itself with `--with`",
        }
    }
}
