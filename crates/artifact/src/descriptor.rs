//! Input: the descriptor of an artifact (`artifact-*.toml`) and the root of a build tree. Output:
//! which component gets which file, and from that artifact directories (rocm-python-packages spec
//! 1.4).

mod claim;
mod parse;
mod write;

use std::path::PathBuf;

use rocwheel_report::{Exit, Hint};

pub use claim::{Claimed, ClaimedComponent, Claims, Repeated};
pub use parse::{Descriptor, Options};
pub use write::write;

/// What can be wrong with a descriptor or with what it is applied to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file, or the state of a directory.
    #[error(transparent)]
    Artifact(#[from] crate::Error),
    /// It is not TOML.
    #[error("cannot understand the descriptor `{path}`")]
    Malformed {
        /// The descriptor.
        path: PathBuf,
        /// What TOML says.
        source: Box<toml::de::Error>,
    },
    /// A key that means nothing.
    #[error("the descriptor `{path}` has an illegal key: `{key}` in {place}")]
    Key {
        /// The descriptor.
        path: PathBuf,
        /// The key.
        key: String,
        /// The table it is in.
        place: String,
        /// The keys that may be there.
        known: &'static [&'static str],
    },
    /// A value of the wrong type.
    #[error("the descriptor `{path}` has a wrong value for `{key}` in {place}: it should be {expected}")]
    Value {
        /// The descriptor.
        path: PathBuf,
        /// The key.
        key: String,
        /// The table it is in.
        place: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Components that wait for each other, or for one that is not there.
    #[error("the descriptor `{path}` has components that extend each other in a circle, or one that does not exist: {}", .components.join(", "))]
    Circular {
        /// The descriptor.
        path: PathBuf,
        /// Those that cannot be worked out.
        components: Vec<String>,
    },
    /// A component that was asked for does not exist.
    #[error("the descriptor `{path}` has no component `{component}`")]
    NoComponent {
        /// The descriptor.
        path: PathBuf,
        /// The name.
        component: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// One path in two basedirs, with different contents: only one of them could be installed.
    #[error("`{path}` is in the basedirs `{first}` and `{second}` with different contents")]
    Conflict {
        /// The path below both.
        path: String,
        /// The one whose file is taken first.
        first: String,
        /// The other.
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
