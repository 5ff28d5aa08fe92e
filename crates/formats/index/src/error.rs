//! The failures of a search for wheels in folders and indexes, and the advice for each.

use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Hint};
use url::Url;

use crate::address_without_user;
use crate::tool::Tool;

/// An address that a client of [`crate::Fetch`] cannot request, now or later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{address}` {reason}")]
pub struct BadAddress {
    /// The address, without password.
    address: String,
    /// The end of the sentence.
    reason: String,
}

impl BadAddress {
    /// `reason` is the end of a sentence that begins with the address.
    pub fn new(address: &Url, reason: impl Into<String>) -> BadAddress {
        BadAddress { address: address_without_user(address).to_string(), reason: reason.into() }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("`{}`, which {}: {reason}", path.display(), tool.complaint())]
    Settings {
        path: PathBuf,
        tool: Tool,
        /// The message of the parser.
        reason: String,
    },
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    #[error("could not read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The request needs an index, but the network must not be used.
    #[error("cannot read the index `{address}` offline")]
    Offline { address: String },
    /// The address of an index cannot be parsed.
    #[error("`{text}` is not the address of an index")]
    Address {
        /// The text as given, without password.
        text: String,
        source: url::ParseError,
    },
    /// An address whose scheme is not that of a web server.
    #[error("`{text}` is not the address of an index: it begins with none of `http://`, `https://` and `file://`")]
    Scheme {
        /// The text as given, without password.
        text: String,
    },
    #[error("could not list the wheels in `{}`", path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("`{address}` has {limit} bytes or more")]
    TooLarge {
        /// The address, without password.
        address: String,
        /// The limit in bytes; the file must be smaller.
        limit: u64,
    },
    /// The server did not answer, or the connection broke.
    #[error("could not {action} `{address}`")]
    Fetch {
        /// The attempted action, a verb for the message.
        action: &'static str,
        /// The address, without password.
        address: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The status is neither that of a file nor that of a missing file.
    #[error("`{address}` answered with status {status}")]
    Status {
        /// The address, without password.
        address: String,
        status: u16,
    },
    /// An index has none of the requested projects.
    #[error("none of {asked} requirements is at `{address}`")]
    NothingThere {
        /// The address of the first index, without password.
        address: String,
        /// Number of requested projects.
        asked: usize,
    },
    #[error("the page `{address}` is not of a package index: {reason}")]
    Page {
        /// The address, without password.
        address: String,
        /// The defect of the page, for the message.
        reason: String,
    },
    #[error("`{address}` has the {algorithm} `{found}`, and the index says `{wanted}`")]
    Hash {
        /// The address, without password.
        address: String,
        algorithm: &'static str,
        /// The hash on the index, hexadecimal.
        wanted: String,
        /// The hash of the received bytes.
        found: String,
    },
    #[error("could not write `{}`", path.display())]
    Cache { path: PathBuf, source: std::io::Error },
    /// No version meets the requirements of two wheels.
    #[error("no version of {name} is right for both: {first}, {second}")]
    Conflict {
        /// The canonical name of the distribution.
        name: String,
        /// One wheel and its requirement.
        first: String,
        /// The other wheel and its requirement.
        second: String,
    },
    /// The choice of versions does not settle: each choice changes the requirements.
    #[error("no version of {name} was found that stays right: every choice changes what is required of it")]
    Unsettled {
        /// The canonical name of the distribution.
        name: String,
    },
}

/// The advice for a folder that does not exist and begins like an address without its scheme:
/// `example.org/simple`.
pub fn address_hint(path: &Path) -> Option<String> {
    let first = path.components().next()?.as_os_str().to_string_lossy().into_owned();
    let is_label =
        |label: &str| !label.is_empty() && label.chars().all(|one| one.is_ascii_alphanumeric() || one == '-');
    let is_host = first.contains('.') && first.split([':', '.']).all(is_label);
    (is_host && !path.exists())
        .then(|| format!("if it is an address, write it with `https://`: `https://{}`", path.display()))
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Wheel(error) => error.hint(),
            Self::Settings { tool, .. } => Some(tool.hint().to_owned()),
            Self::Folder { path, source } if source.kind() == std::io::ErrorKind::NotFound => address_hint(path),
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
            Self::Status { status: 403, .. } => {
                Some("the server knows the user and refuses: check the name and the password".to_owned())
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
            Self::Settings { .. } | Self::Address { .. } | Self::Scheme { .. } | Self::Offline { .. } => Exit::Usage,
            Self::Fetch { .. } | Self::Status { status: 429 | 500..=599, .. } => Exit::TryAgain,
            _ => Exit::Failed,
        }
    }
}
