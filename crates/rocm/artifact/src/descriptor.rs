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
    /// A file could not be read or written, or a directory has a defect.
    #[error(transparent)]
    Artifact(#[from] crate::Error),
    /// The text is not TOML.
    #[error("cannot understand the descriptor `{path}`")]
    Malformed {
        /// Path of the descriptor.
        path: PathBuf,
        /// The parser's error, with its position.
        source: Box<toml::de::Error>,
    },
    /// A key that descriptors do not have.
    #[error("the descriptor `{path}` has an illegal key: `{key}` in {place}")]
    Key {
        /// Path of the descriptor.
        path: PathBuf,
        /// The key as written.
        key: String,
        /// The table that holds the key.
        place: String,
        /// The keys that this table can have.
        known: &'static [&'static str],
    },
    /// A value of the wrong type.
    #[error("the descriptor `{path}` has a wrong value for `{key}` in {place}: it should be {expected}")]
    Value {
        /// Path of the descriptor.
        path: PathBuf,
        /// The key as written.
        key: String,
        /// The table that holds the key.
        place: String,
        /// The form the value should have, as words for the message.
        expected: &'static str,
    },
    /// Components that extend each other in a circle, or one that does not exist.
    #[error("the descriptor `{path}` has components that extend each other in a circle, or one that does not exist: {}", .components.join(", "))]
    Circular {
        /// Path of the descriptor.
        path: PathBuf,
        /// Names of the components that cannot be resolved.
        components: Vec<String>,
    },
    /// The requested component does not exist.
    #[error("the descriptor `{path}` has no component `{component}`")]
    NoComponent {
        /// Path of the descriptor.
        path: PathBuf,
        /// Name of the component.
        component: String,
        /// Names of the components that exist.
        known: Vec<String>,
    },
    /// One path in two basedirs, with different contents: only one of them could be installed.
    #[error("`{path}` is in the basedirs `{first}` and `{second}` with different contents")]
    Conflict {
        /// The path relative to both basedirs.
        path: String,
        /// The basedir whose file would be used.
        first: String,
        /// The other basedir.
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
