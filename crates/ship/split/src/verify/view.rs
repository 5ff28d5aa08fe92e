//! Input: files as they will be installed. Output: a [`View`], one tree that the checks read.

use std::collections::BTreeMap;
use std::sync::Arc;

use rocwheel_content::Content;

/// The files of an installation, by their path, separated by `/`.
#[derive(Clone, Default)]
pub struct View {
    items: BTreeMap<String, Item>,
}

#[derive(Clone)]
pub enum Item {
    File {
        content: Arc<dyn Content>,
        executable: bool,
    },
    Link {
        /// The text of the link.
        target: String,
    },
}

impl View {
    /// Adds a path. An existing item is replaced and returned.
    pub fn insert(&mut self, path: impl Into<String>, item: Item) -> Option<Item> {
        self.items.insert(path.into(), item)
    }

    /// Returns all paths with their items, sorted by path.
    pub fn items(&self) -> impl Iterator<Item = (&str, &Item)> {
        self.items.iter().map(|(path, item)| (path.as_str(), item))
    }

    pub fn get(&self, path: &str) -> Option<&Item> {
        self.items.get(path)
    }

    /// Returns the content of the file at `path`; links are not followed.
    pub fn file(&self, path: &str) -> Option<&Arc<dyn Content>> {
        match self.items.get(path)? {
            Item::File { content, .. } => Some(content),
            Item::Link { .. } => None,
        }
    }

    /// Returns the paths of files that begin with `start`.
    pub(super) fn paths_from<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        self.items
            .range(start.to_owned()..)
            .take_while(move |(path, _)| path.starts_with(start))
            .filter(|(_, item)| matches!(item, Item::File { .. }))
            .map(|(path, _)| path.as_str())
    }
}
