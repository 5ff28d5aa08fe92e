//! Input: the descriptor of an artifact (`artifact-*.toml`) and the root of a build tree. Output:
//! the component that gets each file, and artifact directories with these files
//! (rocm-python-packages spec 1.4).

mod claim;
mod parse;
mod write;

use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

pub use claim::{Claimed, ClaimedComponent, Claims, Repeated};
pub use parse::{Descriptor, Options};
pub use write::write;

/// A defect of a descriptor, or a failure while it is applied to a build tree.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Artifact(#[from] crate::Error),
    #[error("cannot understand the descriptor `{path}`")]
    Malformed { path: PathBuf, source: Box<toml::de::Error> },
    #[error("the descriptor `{path}` has an illegal key: `{key}` in {place}")]
    Key { path: PathBuf, key: String, place: String, known: &'static [&'static str] },
    #[error("the descriptor `{path}` has a wrong value for `{key}` in {place}: it should be {expected}")]
    Value {
        path: PathBuf,
        key: String,
        place: String,
        /// The form the value should have, as words for the message.
        expected: &'static str,
    },
    /// Components that extend each other in a circle, or one that does not exist.
    #[error("the descriptor `{path}` has components that extend each other in a circle, or one that does not exist: {}", .components.join(", "))]
    Circular {
        path: PathBuf,
        /// Names of the components that cannot be resolved.
        components: Vec<String>,
    },
    #[error("the descriptor `{path}` has no component `{component}`")]
    NoComponent { path: PathBuf, component: String, known: Vec<String> },
    /// One path in two basedirs, with different contents: only one of them could be installed.
    #[error("`{path}` is in the basedirs `{first}` and `{second}` with different contents")]
    Conflict {
        /// The path relative to both basedirs.
        path: String,
        first: String,
        second: String,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Artifact(error) => return error.hint(),
            Self::Malformed { .. } => return None,
            Self::Key { known, .. } => format!("known are: {}", known.join(", ")),
            Self::Value { .. } => "see the other descriptors for the form".to_owned(),
            Self::Circular { .. } => "correct `extends`, or define the component that is missing".to_owned(),
            Self::NoComponent { known, .. } => format!("it has {}", known.join(", ")),
            Self::Conflict { .. } => {
                "exclude the file from one of the two basedirs, or give it to two artifacts".to_owned()
            }
        })
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Artifact(error) => error.exit(),
            Self::NoComponent { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
