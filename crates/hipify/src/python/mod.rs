//! Input: Python source. Output: the values of its literals. No Python code runs: the tables and
//! settings of a tree are data.

mod token;
mod value;

pub use token::{Token, TokenKind, tokens};
pub use value::{Module, Parser, Value};

/// The reason why a text cannot be read as literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Line, from 1.
    pub line: usize,
    /// A description of the code at that line.
    pub message: String,
}

impl Unreadable {
    fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }

    /// Converts it to an error for the file at `path`.
    pub(crate) fn at(self, path: &str) -> crate::Error {
        crate::Error::NotLiteral { path: path.to_owned(), line: self.line, message: self.message }
    }
}
