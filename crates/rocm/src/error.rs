//! Names and tables that cannot be used.

use rocwheel_report::{Exit, Hint};

/// A name that is in no table, or a table that does not parse.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that is not a GPU target.
    #[error("`{target}` is no GPU target: {reason}")]
    Target {
        /// The text.
        target: String,
        /// Why not, without a full stop.
        reason: String,
    },
    /// A table of GPU targets that does not parse.
    #[error("could not understand the table of GPU targets")]
    MalformedTargets(#[source] Box<toml::de::Error>),
    /// A GPU target or family that no table has.
    #[error("unknown GPU target or family `{name}`")]
    UnknownFamily {
        /// As the user wrote it.
        name: String,
        /// The known names that begin with it, else the most similar one.
        near: Vec<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// A table of kernel databases that does not parse.
    #[error("could not read the table of kernel databases")]
    Table(#[from] toml::de::Error),
    /// A regular expression of the table that does not compile.
    #[error("could not compile the expression `{expression}` of the table of kernel databases")]
    Expression {
        /// As written in the table.
        expression: String,
        /// What the regular expression engine says.
        source: Box<regex::Error>,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownFamily { near, known, .. } => Some(match near.split_last() {
                Some((only, [])) => format!("did you mean `{only}`?"),
                Some((last, others)) => format!("did you mean `{}` or `{last}`?", others.join("`, `")),
                None => format!("`rocwheel kernels` shows what a file has; known are: {}", known.join(", ")),
            }),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::UnknownFamily { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
