//! The errors of a `rocwheel.toml`, or of `[tool.rocwheel]` in a `pyproject.toml`.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

/// The configuration file cannot be used. None of its options take effect.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source names the file.
    #[error("cannot read the configuration")]
    Read { source: io::Error },
    #[error("the configuration `{}` is no TOML file", path.display())]
    Toml { path: PathBuf, source: toml::de::Error },
    #[error("`{}` has no table `[tool.rocwheel]`", path.display())]
    NoTable { path: PathBuf },
    /// `what` is an option or a command, and the command that it would belong to.
    #[error("`{}`, line {line}: there is no {what}", path.display())]
    Unknown { path: PathBuf, line: usize, what: String, hint: String },
    #[error("`{}`, line {line}: `{option}` is {expected} and not {found}", path.display())]
    Type { path: PathBuf, line: usize, option: String, expected: &'static str, found: &'static str },
    #[error("`{}`, line {line}: {reason}", path.display())]
    Value { path: PathBuf, line: usize, reason: String, known: Vec<String> },
    #[error("`{}`, line {line}: `{option}` stands on the command line only", path.display())]
    NotHere { path: PathBuf, line: usize, option: String },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { hint, .. } => Some(hint.clone()),
            Self::Value { known, .. } if !known.is_empty() => Some(format!("it is one of {}", known.join(", "))),
            Self::NotHere { option, .. } if option == "json" => {
                Some("programs that read the result ask for it themselves".to_owned())
            }
            Self::Read { .. } => None,
            Self::NoTable { .. } => Some("options of rocwheel are in that table: `[tool.rocwheel.audit]`".to_owned()),
            _ => Some(
                "`rocwheel config show` reads the file and does nothing else; `--no-config` leaves it out".to_owned(),
            ),
        }
    }

    fn exit(&self) -> Exit {
        Exit::Usage
    }
}
