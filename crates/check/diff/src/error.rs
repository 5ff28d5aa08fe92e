//! Everything that can go wrong when two sides are compared, and hints how to fix it.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint, Reporter};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading a file or a folder failed; the message of the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// An ELF file cannot be read.
    #[error(transparent)]
    Elf(#[from] rocwheel_elf::Error),
    /// GPU code cannot be read.
    #[error(transparent)]
    GpuCode(#[from] rocwheel_kpack::Error),
    /// A wheel cannot be opened.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// A tar archive cannot be read.
    #[error("could not read the archive `{archive}`")]
    Archive {
        /// Path of the archive; `outer:inner` for one inside another file.
        archive: String,
        source: io::Error,
    },
    /// A path is neither a file nor a folder.
    #[error("`{}` is neither a file nor a folder", path.display())]
    NoFile {
        /// The path that was given or found.
        path: PathBuf,
    },
    /// Neither side has a file.
    #[error("`{}` and `{}` have no files: there is nothing to compare", old.display(), new.display())]
    NoFiles {
        /// Path of the old side.
        old: PathBuf,
        /// Path of the new side.
        new: PathBuf,
    },
    /// Two packages of one side are the same distribution for the same Python and system.
    #[error("`{}` and `{}` are both `{name}`: which of them is to be compared is not known", first.display(), second.display())]
    Ambiguous {
        /// The distribution and the other criteria.
        name: String,
        /// Path of one package.
        first: PathBuf,
        /// Path of the other.
        second: PathBuf,
    },
    /// A file of deviations cannot be parsed.
    #[error("could not understand the deviations in `{}`", path.display())]
    Deviations { path: PathBuf, source: Box<toml::de::Error> },
    /// A deviation with a defect.
    #[error("deviation {number} in `{}` {reason}", path.display())]
    Deviation {
        path: PathBuf,
        /// Number of the deviation, from 1 on; 0 for the file as a whole.
        number: usize,
        /// The defect, as a phrase for the message.
        reason: String,
    },
    /// `--fail-on` has a name that is not a kind of change.
    #[error("`{rule}` is not a change that `--fail-on` knows")]
    Rule {
        /// The name as given.
        rule: String,
        /// The most similar name.
        nearest: Option<&'static str>,
    },
    /// A limit of growth is not a percentage or a number of bytes.
    #[error("`{text}` is not a limit for growth")]
    Growth {
        /// The text as given.
        text: String,
    },
}

/// Converts an error of a reader: it is an interruption if the reporter was told to stop.
pub(crate) fn read(error: io::Error, reporter: &dyn Reporter) -> Error {
    if reporter.interrupted() { Error::Interrupted(rocwheel_progress::Interrupted) } else { Error::Io(error) }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Wheel(source) => source.hint(),
            Self::Ambiguous { .. } => Some("compare the two files, or folders that hold one of them each".to_owned()),
            Self::Deviations { .. } | Self::Deviation { .. } => Some(
                "`rocwheel diff OLD NEW --write-deviations FILE` writes a file in the right form, without the reasons"
                    .to_owned(),
            ),
            Self::Rule { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            Self::Rule { nearest: None, .. } => {
                Some("`rocwheel diff --explain` lists the changes; `any` means all of them".to_owned())
            }
            Self::Growth { .. } => Some("it looks like `5%`, `20MB` or `0`".to_owned()),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Wheel(source) => source.exit(),
            Self::Rule { .. } | Self::Growth { .. } | Self::Deviations { .. } | Self::Deviation { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
