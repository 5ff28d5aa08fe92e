//! `data/documents.toml`: what other documents and tools call the things that rocwheel does, and
//! the page that is made of it (docs/coming-from.md).

#[cfg(test)]
mod page;
#[cfg(test)]
mod support;

use serde::Deserialize;

/// The part of the table that the program needs: command lines of documents are for the page and
/// the tests.
#[derive(Debug, Deserialize)]
struct Table {
    #[serde(rename = "word")]
    words: Vec<Word>,
}

/// Words that mean the same, typed at one command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Word {
    /// The command that they are typed at: `source checkout`; empty for the program itself.
    pub(crate) at: String,
    pub(crate) typed: Vec<String>,
    /// What to type in their place.
    pub(crate) meant: Option<String>,
    /// The reason; where nothing is to be typed in their place, the advice.
    pub(crate) why: String,
    /// `true` for what rocwheel cannot do yet.
    #[serde(default)]
    pub(crate) later: bool,
}

/// The words, those of one command in the order of the table.
///
/// # Panics
///
/// When the embedded table is wrong, which a test excludes.
pub(crate) fn words() -> Vec<Word> {
    let table: Table = toml::from_str(include_str!("../../../data/documents.toml")).expect("a test reads the table");
    table.words
}
