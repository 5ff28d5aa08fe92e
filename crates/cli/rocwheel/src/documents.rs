//! `data/documents.toml`: the names that other documents and tools use for features of rocwheel,
//! and the page that is generated from it (docs/coming-from.md).

#[cfg(test)]
mod page;
#[cfg(test)]
mod support;

use std::sync::LazyLock;

use serde::Deserialize;

/// The part of the table that the program needs. The command lines of documents are only for the
/// page and the tests.
#[derive(Debug, Deserialize)]
struct Table {
    #[serde(rename = "word")]
    words: Vec<Word>,
    plumbing: Vec<String>,
}

/// Words with the same meaning, typed at one command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Word {
    /// The command at which they are typed: `source checkout`; empty for the program itself.
    pub(crate) at: String,
    pub(crate) typed: Vec<String>,
    /// The words to type instead.
    pub(crate) meant: Option<String>,
    /// The reason; if there is nothing to type instead, the advice.
    pub(crate) why: String,
}

/// The words, those of one command in the order of the table.
pub(crate) fn words() -> &'static [Word] {
    &TABLE.words
}

/// Scripts of a CI that make and move no packages, without their endings.
pub(crate) fn plumbing() -> &'static [String] {
    &TABLE.plumbing
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("../../../../data/documents.toml")).expect("a test reads the table"));
