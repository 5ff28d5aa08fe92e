//! What can go wrong when wheels are looked for in folders and indexes, and what to do about it.

use std::path::PathBuf;

use rocwheel_report::{Exit, Hint};

use crate::settings::Tool;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration file of pip or uv cannot be parsed.
    #[error("`{}`, which {}: {reason}", path.display(), tool.complaint())]
    Settings {
        /// The file.
        path: PathBuf,
        /// The tool that would read it.
        tool: Tool,
        /// What the parser says.
        reason: String,
    },
    /// A file is no wheel, or a member of it cannot be unpacked.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_report::Interrupted),
    /// A file or folder of an environment cannot be read.
    #[error("could not read `{}`", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// An index is asked for and the network may not be used.
    #[error("cannot read the index `{address}` offline")]
    Offline {
        /// Its address.
        address: String,
    },
    /// The address of an index is none.
    #[error("`{text}` is not the address of an index")]
    Address {
        /// As it was given.
        text: String,
        /// Why.
        source: url::ParseError,
    },
    /// A folder of wheels cannot be listed.
    #[error("could not list the wheels in `{}`", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No answer, or one that broke off.
    #[error("could not {action} `{address}`")]
    Fetch {
        /// What was attempted.
        action: &'static str,
        /// The address, without password.
        address: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An answer that is neither the file nor that there is none.
    #[error("`{address}` answered with status {status}")]
    Status {
        /// The address, without password.
        address: String,
        /// The status of HTTP.
        status: u16,
    },
    /// An index that has none of the projects.
    #[error("none of {asked} requirements is at `{address}`")]
    NothingThere {
        /// The address of the first index, without password.
        address: String,
        /// How many projects were asked for.
        asked: usize,
    },
    /// A page that is not of a package index.
    #[error("the page `{address}` is not of a package index: {reason}")]
    Page {
        /// The address, without password.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// A file is not the one that the index names.
    #[error("`{address}` has the {algorithm} `{found}`, and the index says `{wanted}`")]
    Hash {
        /// The address, without password.
        address: String,
        /// The algorithm.
        algorithm: &'static str,
        /// As the index has it, hexadecimal.
        wanted: String,
        /// Of the bytes that came.
        found: String,
    },
    /// The folder for downloads cannot be used.
    #[error("could not write `{}`", path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No version meets what two wheels require.
    #[error("no version of {name} is right for both: {first}, {second}")]
    Conflict {
        /// The canonical name of the distribution.
        name: String,
        /// Who requires what.
        first: String,
        /// And who requires what else.
        second: String,
    },
    /// The choice of versions goes round in circles.
    #[error("no version of {name} was found that stays right: every choice changes what is required of it")]
    Unsettled {
        /// The canonical name of the distribution.
        name: String,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Wheel(error) => error.hint(),
            Self::Settings { tool, .. } => Some(tool.hint().to_owned()),
            Self::Offline { .. } => Some("download the wheels first, and name their folder with `--with`".to_owned()),
            Self::Fetch { .. } => Some("check the address and the network, and try again".to_owned()),
            Self::NothingThere { address, .. } if !address.ends_with("/simple/") => {
                Some(format!("did you mean `{address}simple/`?"))
            }
            Self::NothingThere { .. } => {
                Some("check the address; `--with index` asks those that pip and uv use".to_owned())
            }
            Self::Status { status: 401, .. } => {
                Some("put the name and password into the address: `https://name:password@host/simple/`".to_owned())
            }
            Self::Hash { .. } => Some("try again; if it happens again, the index or the file has changed".to_owned()),
            Self::Conflict { .. } | Self::Unsettled { .. } => {
                Some("put the wheels that belong together into a folder, and name it with `--with`".to_owned())
            }
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Wheel(error) => error.exit(),
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Settings { .. } | Self::Address { .. } | Self::Offline { .. } => Exit::Usage,
            Self::Fetch { .. } | Self::Status { status: 429 | 500..=599, .. } => Exit::TryAgain,
            _ => Exit::Failed,
        }
    }
}
