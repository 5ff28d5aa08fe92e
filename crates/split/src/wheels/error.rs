//! What can go wrong while a wheel is split, and what to do about it.

use std::io;
use std::path::PathBuf;

use report::{Exit, Hint};

use crate::Reason;
use crate::verify::Difference;

/// How many differences are listed; the report has all.
const LISTED: usize = 20;

/// Every failure of splitting wheels.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A wheel cannot be read or written.
    #[error(transparent)]
    Wheel(#[from] wheel::Error),
    /// GPU code cannot be taken out or packed.
    #[error("could not split `{}`", path.display())]
    Code {
        /// The wheel.
        path: PathBuf,
        /// Why.
        source: Box<crate::Error>,
    },
    /// The list of wanted targets has an unknown name.
    #[error(transparent)]
    Targets(Box<artifact::Error>),
    /// There is nothing to split.
    #[error("`{}` holds no GPU code that can be split off{}", path.display(), because(reasons))]
    NoGpuCode {
        /// The wheel.
        path: PathBuf,
        /// The files with GPU code that has to stay, and why.
        reasons: Vec<(String, Reason)>,
    },
    /// The host wheel would have the name of its input.
    #[error("the host wheel of `{}` has the same name, so it cannot be written to `{}`", input.display(), output.display())]
    SameFolder {
        /// The wheel.
        input: PathBuf,
        /// The output folder.
        output: PathBuf,
    },
    /// Two inputs, or a host and a device wheel, would be written to one file.
    #[error("`{first}` and `{second}` would both be written to `{name}`")]
    SameName {
        /// What is written.
        first: String,
        /// What else is.
        second: String,
        /// The file name.
        name: String,
    },
    /// The folder for archives does not fit the wheel.
    #[error("`{root}` cannot be the folder for the archives of `{}`: {reason}", path.display())]
    OverlayRoot {
        /// The wheel.
        path: PathBuf,
        /// The folder as given.
        root: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The wheel has an extra of the name that is needed.
    #[error("`{}` has an extra `{extra}` already", path.display())]
    ExtraExists {
        /// The wheel.
        path: PathBuf,
        /// The extra.
        extra: String,
    },
    /// A requirement that no installer would understand.
    #[error("`{requirement}` is not a requirement: {reason}")]
    Requirement {
        /// As it would be written.
        requirement: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A database that no rule knows.
    #[error("there is no kernel database `{name}`")]
    Database {
        /// As given.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// A variant label that the draft does not allow.
    #[error("`{label}` cannot be the label of a wheel variant: {reason}")]
    Label {
        /// As given.
        label: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A file of the output cannot be made, moved or read.
    #[error("could not {attempt} `{}`", path.display())]
    Io {
        /// What was attempted, `write` or `move to`.
        attempt: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was written does not hold what was there before. Nothing of it is kept.
    #[error("the parts of `{}` are not what it was: {}", path.display(), listed(differences))]
    Verification {
        /// The wheel.
        path: PathBuf,
        /// What is different.
        differences: Vec<Difference>,
    },
}

impl From<artifact::Error> for Error {
    fn from(error: artifact::Error) -> Error {
        Error::Targets(Box::new(error))
    }
}

fn because(reasons: &[(String, Reason)]) -> String {
    let reasons: Vec<String> = reasons.iter().map(|(key, reason)| format!("; `{key}`: {reason}")).collect();
    reasons.concat()
}

fn listed(differences: &[Difference]) -> String {
    let mut lines: Vec<String> = differences.iter().take(LISTED).map(|found| format!("\n  {found}")).collect();
    if differences.len() > LISTED {
        lines.push(format!("\n  and {} more", differences.len() - LISTED));
    }
    lines.concat()
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Wheel(source) => source.hint(),
            Self::Code { source, .. } => source.hint(),
            Self::Targets(source) => source.hint(),
            Self::NoGpuCode { reasons, .. } if reasons.is_empty() => {
                Some("`rocwheel kernels` shows what GPU code a wheel holds".to_owned())
            }
            Self::SameFolder { .. } => Some("choose another folder with `--output`, or move the wheel".to_owned()),
            Self::SameName { .. } => Some(
                "split the wheels one by one into different folders, or give each its own `--device-prefix`".to_owned(),
            ),
            Self::OverlayRoot { .. } => {
                Some("give a package of the wheel, for example `torch/`, or leave `--overlay-root` out".to_owned())
            }
            Self::ExtraExists { .. } => Some("the wheel looks like one that was split before".to_owned()),
            Self::Database { known, .. } => Some(format!("the databases are {}", known.join(", "))),
            Self::Label { .. } => Some("use lower case letters, digits, `_` and `.`, for example `amd`".to_owned()),
            Self::Verification { .. } => Some(
                "this should not happen: please report it with the name of the wheel; nothing was written".to_owned(),
            ),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Wheel(source) => source.exit(),
            Self::Code { source, .. } => source.exit(),
            Self::Targets(source) => source.exit(),
            Self::Requirement { .. } | Self::Database { .. } | Self::Label { .. } | Self::SameFolder { .. } => {
                Exit::Usage
            }
            _ => Exit::Failed,
        }
    }
}
