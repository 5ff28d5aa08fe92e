//! Input: Python source. Output: its tokens, and the values of its literals. No Python code runs:
//! tables, settings and lists of a tree are data.
//!
//! [`tokens`] reads any text and never fails. [`Module`] is for files that consist of literals,
//! such as the tables of `torch.utils.hipify`; anything else in them is an error with its line.

mod token;
mod value;

pub use token::{StringLiteral, Token, TokenKind, checked_tokens, tokens};
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
}
