//! Everything that can go wrong when two sides are compared, and hints how to fix it.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint, Reporter};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading a file or a folder failed; the message of the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    #[error(transparent)]
    Elf(#[from] rocwheel_elf::Error),
    #[error(transparent)]
    GpuCode(#[from] rocwheel_kpack::Error),
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    #[error("could not read the archive `{archive}`")]
    Archive {
        /// Path of the archive; `outer:inner` for one inside another file.
        archive: String,
        source: io::Error,
    },
    /// A path is neither a file nor a folder.
    #[error("`{}` is neither a file nor a folder", path.display())]
    NoFile { path: PathBuf },
    /// Neither side has a file.
    #[error("`{}` and `{}` have no files: there is nothing to compare", old.display(), new.display())]
    NoFiles { old: PathBuf, new: PathBuf },
    /// Two packages of one side are the same distribution for the same Python and system.
    #[error("`{}` and `{}` are both `{name}`: which of them is to be compared is not known", first.display(), second.display())]
    Ambiguous {
        /// The distribution and the other criteria.
        name: String,
        first: PathBuf,
        second: PathBuf,
    },
    #[error("could not understand the deviations in `{}`", path.display())]
    Deviations { path: PathBuf, source: Box<toml::de::Error> },
    #[error("deviation {number} in `{}` {reason}", path.display())]
    Deviation {
        path: PathBuf,
        /// Number of the deviation, from 1 on; 0 for the file as a whole.
        number: usize,
        /// The defect, as a phrase for the message.
        reason: String,
    },
    #[error("`{rule}` is not a change that `--fail-on` knows")]
    Rule { rule: String, nearest: Option<&'static str> },
    #[error("`{text}` is not a limit for growth")]
    Growth { text: String },
}

/// Converts an error of a reader: it is an interruption if the reporter was told to stop.
pub(crate) fn read(error: io::Error, reporter: &dyn Reporter) -> Error {
    reporter.check().map_or_else(Error::Interrupted, |()| Error::Io(error))
}

/// For `map_err`: an archive inside of a package that cannot be read.
pub(crate) fn unreadable(archive: &str) -> impl FnOnce(io::Error) -> Error {
    |source| Error::Archive { archive: archive.to_owned(), source }
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
