//! What can go wrong when an index is made or checked, and what to do about it.

use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint, Interrupted, listed_problems};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Store(#[from] rocwheel_store::Error),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    #[error("`{store}` has no layout of an index: {reason}")]
    Layout {
        store: String,
        /// The files that contradict each other.
        reason: String,
        hint: String,
    },
    /// There is nothing to list.
    #[error("`{store}` has no wheels and no source distributions{filter}")]
    Empty {
        store: String,
        /// ` that …`, where a filter left none.
        filter: String,
    },
    #[error("`{page}` was not written by `rocwheel index build`")]
    ForeignPage { page: String },
    #[error("`{}`: {reason}", path.display())]
    Status {
        path: PathBuf,
        /// The wrong row or key, with the reason.
        reason: String,
    },
    #[error("`{address}` is not an index: {reason}")]
    Check { address: String, reason: String },
    /// The indexes of an aggregate contradict each other, or are not complete.
    #[error("no index of all products can be made:{}", listed_problems(problems))]
    Aggregate { problems: Vec<String> },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Store(error) => error.hint()?,
            Self::Wheel(error) => error.hint()?,
            Self::Layout { hint, .. } => hint.clone(),
            Self::ForeignPage { .. } => {
                "if the page may be replaced, add `--replace-pages`; else move the files to another folder".to_owned()
            }
            Self::Check { .. } => {
                "give the address of the page that lists the projects; installers get it with `--index-url`".to_owned()
            }
            Self::Aggregate { .. } => {
                "a project has one owner and a page there: fix the indexes of the products, and build this one again"
                    .to_owned()
            }
            Self::Interrupted(_) | Self::Empty { .. } | Self::Status { .. } => return None,
        })
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.rows(),
            Self::Aggregate { problems } => problems.clone(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => error.exit(),
            Self::Interrupted(_) => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }
}
