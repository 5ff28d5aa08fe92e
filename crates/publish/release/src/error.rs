//! What can go wrong when an index is made, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Hint, Interrupted, space_hint};

use crate::{BucketFault, StreamFault};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A wheel or source distribution cannot be read.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// A folder of files, or of an index, cannot be listed.
    #[error("cannot read the folder `{}`", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A page cannot be written or removed.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The page.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A path that cannot be an address.
    #[error("the name of `{}` is not UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// Files that cannot be listed; each line names one and the reason.
    #[error("{} cannot be in an index:{}", count(problems.len()), list(problems))]
    Files {
        /// `FILE: why`.
        problems: Vec<String>,
    },
    /// The files are not where any layout has them.
    #[error("`{store}` has no layout of an index: {reason}")]
    Layout {
        /// The store.
        store: String,
        /// The files that contradict each other.
        reason: String,
        /// What the user can do, as one sentence.
        hint: String,
    },
    /// There is nothing to list.
    #[error("`{store}` has no wheels and no source distributions{filter}")]
    Empty {
        /// The store.
        store: String,
        /// ` that …`, where a filter left none.
        filter: String,
    },
    /// A page that another program or a person wrote.
    #[error("`{page}` was not written by `rocwheel index build`")]
    ForeignPage {
        /// The page.
        page: String,
    },
    /// The table of withdrawn files and the status of projects is wrong.
    #[error("`{}`: {reason}", path.display())]
    Status {
        /// The table.
        path: PathBuf,
        /// The wrong row or key, with the reason.
        reason: String,
    },
    /// A pattern of `--filter` that cannot be read.
    #[error("`{pattern}` is not a pattern of file names")]
    Pattern {
        /// As it was given.
        pattern: String,
        /// The error of the parser, with the place in the pattern.
        source: globset::Error,
    },
    /// The first page of an index cannot be read.
    #[error("`{address}` is not an index: {reason}")]
    Check {
        /// Its address.
        address: String,
        /// The reason, for people.
        reason: String,
    },
    /// Another publisher is at work.
    #[error("another run is writing the index of `{store}`")]
    Locked {
        /// The store.
        store: String,
    },
    /// Another publisher holds the lock of a bucket.
    #[error("another run is writing the index of `{store}`: {owner}")]
    Leased {
        /// The store.
        store: String,
        /// Who it is, as they say.
        owner: String,
        /// The seconds until the lock ends, if it is not renewed.
        seconds: u64,
    },
    /// A bucket did not do what it was asked.
    #[error("cannot {attempted}")]
    Bucket {
        /// `list `s3://…``.
        attempted: String,
        /// The refusal of the server, or the failed transfer.
        source: BucketFault,
    },
    /// Repositories of native packages that cannot be published.
    #[error("the native packages cannot be published:{}", list(problems))]
    Native {
        /// `REPOSITORY: why`.
        problems: Vec<String>,
    },
    /// The indexes of an aggregate contradict each other, or are not complete.
    #[error("no index of all products can be made:{}", list(problems))]
    Aggregate {
        /// One line for each problem.
        problems: Vec<String>,
    },
    /// GitHub did not answer as it should.
    #[error("cannot {attempted}: {reason}")]
    Github {
        /// `list the releases of `OWNER/NAME``.
        attempted: String,
        /// The reason, for people.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A mirror cannot be made or verified.
    #[error("cannot {attempted}: {reason}")]
    Mirror {
        /// `make the mirror …`, the words after "cannot".
        attempted: String,
        /// The reason, for people.
        reason: String,
        /// What the user can do, as one sentence.
        hint: String,
        /// `Exit::TryAgain` if another try may help.
        exit: Exit,
    },
    /// A file of an index cannot be chosen or downloaded.
    #[error("cannot {attempted}: {reason}")]
    Get {
        /// `download …`, the words after "cannot".
        attempted: String,
        /// The reason, for people.
        reason: String,
        /// What the user can do, as one sentence.
        hint: String,
        /// `Exit::TryAgain` if another try may help.
        exit: Exit,
    },
    /// A stream cannot be read or changed.
    #[error(transparent)]
    Stream(#[from] StreamFault),
    /// The files of an upload contradict, or there are none.
    #[error("cannot upload:{}", list(problems))]
    Uploads {
        /// One line for each problem.
        problems: Vec<String>,
    },
    /// Files of the same names with other contents are in the store.
    #[error("the store has other contents of {}:{}", count(problems.len()), list(problems))]
    OtherBytes {
        /// The addresses of the files.
        problems: Vec<String>,
    },
}

/// Files that a message lists; `--json` has all of them.
const SHOWN: usize = 20;

/// `1 file`, `2 files`.
pub(crate) fn count(files: usize) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

/// The first problems, a line each.
pub(crate) fn list(problems: &[String]) -> String {
    let mut text: String = problems.iter().take(SHOWN).map(|problem| format!("\n  {problem}")).collect();
    if problems.len() > SHOWN {
        text.push_str(&format!("\n  and {} more", problems.len() - SHOWN));
    }
    text
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
            Self::Layout { hint, .. } | Self::Mirror { hint, .. } | Self::Get { hint, .. } => hint.clone(),
            Self::Github { hint, .. } => hint.clone()?,
            Self::ForeignPage { .. } => {
                "if the page may be replaced, add `--replace-pages`; else move the files to another folder".to_owned()
            }
            Self::Check { .. } => {
                "give the address of the page that lists the projects; installers get it with `--index-url`".to_owned()
            }
            Self::Locked { .. } => "try again when it is done".to_owned(),
            Self::Leased { seconds, .. } => {
                format!("try again when it is done; if it was killed, its lock ends after {seconds} seconds")
            }
            Self::Aggregate { .. } => {
                "a project has one owner and a page there: fix the indexes of the products, and build this one again"
                    .to_owned()
            }
            Self::Bucket { source, .. } => source.hint()?.to_owned(),
            Self::Stream(fault) => fault.hint()?,
            Self::Write { path, source } => space_hint(path, source)?,
            Self::Wheel(error) => error.hint()?,
            Self::OtherBytes { .. } => "give the new files another version or build number".to_owned(),
            _ => return None,
        })
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::Stream(fault) => fault.rows(),
            Self::Files { problems }
            | Self::Aggregate { problems }
            | Self::Uploads { problems }
            | Self::Native { problems }
            | Self::OtherBytes { problems } => problems.clone(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Locked { .. } | Self::Leased { .. } => Exit::TryAgain,
            Self::Bucket { source, .. } => source.exit(),
            Self::Mirror { exit, .. } | Self::Get { exit, .. } => *exit,
            Self::Stream(fault) => fault.exit(),
            Self::Pattern { .. } | Self::Uploads { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
