//! Everything that can go wrong when a wheel is split, and hints how to fix it.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

use crate::plan::UnchangedReason;
use crate::verify::Difference;

/// Number of differences in a message; the report has all of them.
const LISTED: usize = 20;

/// Every failure of this module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The GPU code of a wheel, or a file, cannot be read or written.
    #[error(transparent)]
    Split(#[from] crate::Error),
    /// The GPU code of a wheel cannot be removed or packed.
    #[error("could not split `{}`", path.display())]
    Code {
        /// Path of the wheel.
        path: PathBuf,
        /// The error for the file in the wheel.
        source: Box<crate::Error>,
    },
    /// A wheel has nothing to split.
    #[error("`{}` holds no GPU code that can be split off{}", path.display(), because_all(reasons))]
    NoGpuCode {
        /// Path of the wheel.
        path: PathBuf,
        /// The files with GPU code that has to stay, and the reasons.
        reasons: Vec<(String, UnchangedReason)>,
    },
    /// The host wheel would have the name of its input.
    #[error("the host wheel of `{}` has the same name, so it cannot be written to `{}`", input.display(), output.display())]
    SameFolder {
        /// Path of the wheel.
        input: PathBuf,
        /// The output folder.
        output: PathBuf,
    },
    /// Two wheels would be written to the same file.
    #[error("`{first}` and `{second}` would both be written to `{name}`")]
    SameWheel {
        /// Description of one wheel.
        first: String,
        /// Description of the other.
        second: String,
        /// The file name of both.
        name: String,
    },
    /// The folder for archives cannot be used for the wheel.
    #[error("`{root}` cannot be the folder for the archives of `{}`: {reason}", path.display())]
    OverlayRoot {
        /// Path of the wheel.
        path: PathBuf,
        /// The folder as given.
        root: String,
        /// The reason, for the message.
        reason: &'static str,
    },
    /// The wheel already has an extra with a name that the split needs.
    #[error("`{}` has an extra `{extra}` already", path.display())]
    ExtraExists {
        /// Path of the wheel.
        path: PathBuf,
        /// Name of the extra.
        extra: String,
    },
    /// A requirement that violates PEP 508.
    #[error("`{requirement}` is not a requirement: {reason}")]
    Requirement {
        /// The requirement as it would be written.
        requirement: String,
        /// The reason, for the message.
        reason: String,
    },
    /// The requirements of a wheel allow no ROCm that reads `.kpack` archives.
    #[error("`{}` requires `{requirement}`, and no such ROCm reads `.kpack` archives: its users would have no kernels", path.display())]
    OldRuntime {
        /// Path of the wheel.
        path: PathBuf,
        /// The requirement in METADATA, or one that was given.
        requirement: String,
    },
    /// A variant label that the draft does not allow.
    #[error("`{label}` cannot be the label of a wheel variant: {reason}")]
    Label {
        /// The label as given.
        label: String,
        /// The reason, for the message.
        reason: &'static str,
    },
    /// A wheel of the output cannot be written, moved or read.
    #[error("could not {attempt} `{}`", path.display())]
    Place {
        /// The operation, as a verb for the message: `write` or `move to`.
        attempt: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The written wheels together do not hold the contents of the input. They are removed.
    #[error("the parts of `{}` are not what it was: {}", path.display(), listed(differences))]
    NotSplit {
        /// Path of the input wheel.
        path: PathBuf,
        /// All differences.
        differences: Vec<Difference>,
    },
}

crate::error::passes_on!(Error);

fn because_all(reasons: &[(String, UnchangedReason)]) -> String {
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
            Self::Split(error) => error.hint(),
            Self::Code { source, .. } => source.hint(),
            Self::NoGpuCode { reasons, .. } if reasons.is_empty() => {
                Some("`rocwheel kernels` shows what GPU code a wheel holds".to_owned())
            }
            Self::SameFolder { .. } => Some("choose another folder with `--output`, or move the wheel".to_owned()),
            Self::SameWheel { .. } => Some(
                "split the wheels one by one into different folders, or give each its own `--device-prefix`".to_owned(),
            ),
            Self::OverlayRoot { .. } => {
                Some("give a package of the wheel, for example `torch/`, or remove `--overlay-root`".to_owned())
            }
            Self::ExtraExists { .. } => Some("the wheel looks like one that was split before".to_owned()),
            Self::OldRuntime { .. } => Some(
                "build it for a newer ROCm, or add `--force` if its users have a runtime that was built for archives"
                    .to_owned(),
            ),
            Self::Label { .. } => Some("use lower case letters, digits, `_` and `.`, for example `amd`".to_owned()),
            Self::NotSplit { .. } => Some(
                "this should not happen: please report it with the name of the wheel; nothing was written".to_owned(),
            ),
            _ => None,
        }
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::NotSplit { differences, .. } => differences.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Split(error) => error.exit(),
            Self::Code { source, .. } => source.exit(),
            Self::Requirement { .. } | Self::Label { .. } | Self::SameFolder { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
