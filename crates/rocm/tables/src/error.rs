//! Names and tables that cannot be used.

use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

use crate::rows::KEYS;

/// A name that is in no table, or a table that does not parse.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("`{target}` is no GPU target: {reason}")]
    Target {
        target: String,
        /// The reason, without a full stop.
        reason: String,
    },
    /// A name that no table has as a GPU target or family.
    #[error("unknown GPU target or family `{name}`")]
    UnknownFamily {
        name: String,
        /// The known names that begin with it, else the most similar one.
        near: Vec<String>,
        known: Vec<String>,
    },
    /// A regular expression of the table that does not compile.
    #[error("could not compile the expression `{expression}` of the kernel databases")]
    Expression {
        /// As written in the table.
        expression: String,
        source: Box<regex::Error>,
    },
    /// A pattern for names of DLLs that is not a valid glob.
    #[error("could not understand a name of a DLL in the tables")]
    DllName { source: Box<globset::Error> },
    /// A file that is not TOML.
    #[error("could not read the tables in `{file}`")]
    Syntax {
        /// Name of the file, for the message.
        file: String,
        source: Box<toml::de::Error>,
    },
    /// A table that does not exist.
    #[error("`{file}` has `{table}`, which is the name of no table")]
    UnknownTable {
        /// Name of the file, for the message.
        file: String,
        table: String,
    },
    /// A table that is not a list of rows.
    #[error("`{table}` in `{file}` is not a list of rows")]
    NoRows {
        /// Name of the file, for the message.
        file: String,
        /// Name of the table: `library`.
        table: String,
    },
    /// A row without its key field.
    #[error("a row of `{table}` in `{file}` has no `{key}`")]
    NoKey {
        /// Name of the file, for the message.
        file: String,
        table: String,
        key: &'static str,
    },
    /// A file with two rows that have the same key.
    #[error("`{file}` has two rows `{row}` in `{table}`")]
    TwiceInTable {
        /// Name of the file, for the message.
        file: String,
        table: String,
        row: String,
    },
    /// A row with an unknown field, or without a required one.
    #[error("could not understand the row `{row}` of `{table}` in `{file}`")]
    BadRow {
        /// Name of the file, for the message.
        file: String,
        table: String,
        row: String,
        source: Box<toml::de::Error>,
    },
    /// A row that refers to another row that does not exist.
    #[error("the row `{row}` of `{table}` has the {field} `{name}`, which is no row")]
    NoSuchRow { table: &'static str, row: String, field: &'static str, name: String },
    /// A folder that is not a checkout of TheRock.
    #[error("`{folder}` is not a checkout of TheRock")]
    NoCheckout { folder: PathBuf, source: std::io::Error },
    /// A file of a checkout whose format has changed.
    #[error("found no {what} in `{file}`")]
    NotUnderstood { file: PathBuf, what: &'static str },
    /// Rows that were added after the tables had been read; the tables do not change any more.
    #[error("the tables were asked for before the user's rows were read")]
    TooLate,
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownFamily { near, known, .. } => Some(match near.split_last() {
                Some((only, [])) => format!("did you mean `{only}`?"),
                Some((last, others)) => format!("did you mean `{}` or `{last}`?", others.join("`, `")),
                None => format!("`rocwheel kernels` shows what a file has; known are: {}", known.join(", ")),
            }),
            Self::UnknownTable { .. } | Self::NoRows { .. } => {
                let tables: Vec<String> = KEYS.iter().map(|(name, _)| format!("`[[{name}]]`")).collect();
                Some(format!("rows are written as {}", tables.join(", ")))
            }
            Self::BadRow { table, .. } | Self::NoKey { table, .. } => {
                Some(format!("`rocwheel data list {table}` shows the rows that are there"))
            }
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::TooLate => Exit::Bug,
            Self::UnknownFamily { .. }
            | Self::Expression { .. }
            | Self::DllName { .. }
            | Self::Syntax { .. }
            | Self::UnknownTable { .. }
            | Self::NoRows { .. }
            | Self::NoKey { .. }
            | Self::TwiceInTable { .. }
            | Self::BadRow { .. }
            | Self::NoSuchRow { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
