//! What can go wrong with a store, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Hint, Interrupted, counted, listed_problems, space_hint};

use crate::bucket_fault::BucketFault;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("cannot read the folder `{}`", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A path that cannot be an address.
    #[error("the name of `{}` is not UTF-8", path.display())]
    NotText { path: PathBuf },
    /// Files that cannot be listed; each line names one and the reason.
    #[error("{} cannot be in an index:{}", counted(problems.len() as u64, "file"), listed_problems(problems))]
    Files {
        /// `FILE: why`.
        problems: Vec<String>,
    },
    #[error("`{pattern}` is not a pattern of file names")]
    Pattern { pattern: String, source: globset::Error },
    #[error("another run is writing the index of `{store}`")]
    Locked { store: String },
    /// Another publisher holds the lock of a bucket.
    #[error("another run is writing the index of `{store}`: {owner}")]
    Leased {
        store: String,
        /// The name that the publisher wrote into the lock.
        owner: String,
        /// The seconds until the lock ends, if it is not renewed.
        seconds: u64,
    },
    /// A bucket did not do what it was asked.
    #[error("cannot {attempted}")]
    Bucket {
        /// `list `s3://…``.
        attempted: String,
        source: BucketFault,
    },
    #[error("cannot {attempted}: {reason}")]
    Github {
        /// `list the releases of `OWNER/NAME``.
        attempted: String,
        reason: String,
        hint: Option<String>,
    },
    #[error("cannot upload:{}", listed_problems(problems))]
    Uploads { problems: Vec<String> },
    #[error("the store has other contents of {}:{}", counted(problems.len() as u64, "file"), listed_problems(problems))]
    OtherBytes {
        /// The addresses of the files.
        problems: Vec<String>,
    },
}

impl Error {
    /// To be used as `.map_err(Error::read(path))`.
    pub fn read(path: &Path) -> impl Fn(io::Error) -> Error {
        |source| Error::Read { path: path.to_owned(), source }
    }

    pub fn write(path: &Path) -> impl Fn(io::Error) -> Error {
        |source| Error::Write { path: path.to_owned(), source }
    }
}

/// The results, or [`Error::OtherBytes`] with all problems.
pub(crate) fn without_other_bytes<T>(results: Vec<Result<T, String>>) -> Result<Vec<T>, Error> {
    let (mut done, mut problems) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(one) => done.push(one),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(done) } else { Err(Error::OtherBytes { problems }) }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Folder { path, source } if source.kind() == io::ErrorKind::NotADirectory => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                format!("name the folder that has the file: `{}`", folder.unwrap_or(Path::new(".")).display())
            }
            Self::Files { .. } => {
                "an index with them would mislead installers: remove or rename them, or choose files with `--filter`"
                    .to_owned()
            }
            Self::Github { hint, .. } => hint.clone()?,
            Self::Locked { .. } => "try again when it is done".to_owned(),
            Self::Leased { seconds, .. } => {
                format!("try again when it is done; if it was killed, its lock ends after {seconds} seconds")
            }
            Self::Bucket { source, .. } => source.hint()?.to_owned(),
            Self::Write { path, source } => space_hint(path, source)?,
            Self::OtherBytes { .. } => "give the new files another version or build number".to_owned(),
            _ => return None,
        })
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::Files { problems } | Self::Uploads { problems } | Self::OtherBytes { problems } => problems.clone(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Locked { .. } | Self::Leased { .. } => Exit::TryAgain,
            Self::Bucket { source, .. } => source.exit(),
            Self::Pattern { .. } | Self::Uploads { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
