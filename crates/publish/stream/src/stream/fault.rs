//! What can be wrong with a stream, its snapshots and its keys.

use rocwheel_progress::{Exit, Hint, listed_problems};

/// Why a stream cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamFault {
    #[error(transparent)]
    Attest(#[from] rocwheel_attest::AttestError),
    #[error("`{name}` is no document of a stream: {reason}")]
    Snapshot { name: String, reason: String },
    #[error("`{name}`: {reason}")]
    Settings { name: String, reason: String },
    /// A document of the stream has other bytes than the signed manifest says.
    #[error("`{name}` is not what the stream's snapshot says it is")]
    Altered { name: String },
    #[error("`{name}` is missing")]
    Missing { name: String },
    /// Nothing was published here.
    #[error("`{store}` has no stream")]
    NoStream { store: String },
    /// The folder has an index that `index build` or another program wrote.
    #[error("`{store}` has an index already, and it is not a stream")]
    OtherIndex { store: String },
    /// A page of another program has the place of a page of the stream.
    #[error("`{page}` was not written by `rocwheel release publish`")]
    ForeignPage { page: String },
    #[error("`{folder}` is a stream, and would be the folder of a project")]
    InnerStream { folder: String },
    #[error("`{store}` is a stream, whose pages list published files only")]
    IsStream { store: String },
    #[error("`{name}` cannot be the name of a {what}")]
    Name {
        /// `stream` or `set`.
        what: &'static str,
        name: String,
    },
    #[error("the stream has no {what}")]
    Nothing {
        /// `snapshot 7`, `set rocm-7.2.0`.
        what: String,
    },
    #[error("{what} cannot be restored: {missing} of its files were deleted, the first is `{first}`")]
    Gone {
        /// `snapshot 7`.
        what: String,
        missing: usize,
        first: String,
    },
    /// A publication does not keep what the stream promises; each line is one reason.
    #[error("{what}:{}", listed_problems(problems))]
    Refused {
        /// `` `rocm-7.2.0` cannot be published ``.
        what: String,
        problems: Vec<String>,
        hint: String,
    },
    /// A change without a key of a stream that was signed until now.
    #[error("snapshot {number} of the stream is signed, and this change is not")]
    Unsigned {
        /// The number of the last snapshot.
        number: u64,
    },
    /// Another publisher changed the stream again and again.
    #[error("other publishers changed `{store}` meanwhile")]
    Raced { store: String },
}

impl StreamFault {
    pub(super) fn settings(name: &str, reason: &dyn ToString) -> StreamFault {
        StreamFault::Settings { name: name.to_owned(), reason: reason.to_string() }
    }
}

impl Hint for StreamFault {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Attest(fault) => return fault.hint(),
            Self::Altered { .. } | Self::Snapshot { .. } => {
                "do not install from it; restore the file from a copy of the stream".to_owned()
            }
            Self::NoStream { .. } => {
                "`--stream` names the folder of a stream in the store; `rocwheel release publish` makes one".to_owned()
            }
            Self::OtherIndex { .. } => {
                "publish to a new folder: its pages list what was published there and nothing else".to_owned()
            }
            Self::ForeignPage { .. } => "publish to a new folder; if the page may be replaced, delete it".to_owned(),
            Self::InnerStream { .. } => "publish to a stream with no other stream in its folder".to_owned(),
            Self::IsStream { .. } => "`rocwheel release publish` adds files to it".to_owned(),
            Self::Name { .. } => "use letters, digits and `-`, `_`, `.`, `+`".to_owned(),
            Self::Nothing { .. } => "`rocwheel release list` prints snapshots and sets".to_owned(),
            Self::Gone { .. } => "choose a later snapshot: `rocwheel release list` prints them".to_owned(),
            Self::Refused { hint, .. } => hint.clone(),
            Self::Unsigned { .. } => {
                "name the key with `--signing-key`, or give the job the secret that ROCWHEEL_SIGNING_KEY is set from; with \
                 `--allow unsigned`, users who verify signatures refuse the stream from now on"
                    .to_owned()
            }
            Self::Raced { .. } => "run the command again: files that were uploaded are not uploaded again".to_owned(),
            _ => return None,
        })
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::Refused { problems, .. } => problems.clone(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Raced { .. } => Exit::TryAgain,
            Self::Attest(fault) => fault.exit(),
            Self::Name { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
