//! Input: files as they will be installed. Output: a [`View`], one tree that the checks read.

use std::collections::BTreeMap;
use std::sync::Arc;

use rocwheel_content::Content;

/// The files of an installation, by their path with `/`.
#[derive(Clone, Default)]
pub struct View {
    items: BTreeMap<String, Item>,
}

/// One path of a [`View`].
#[derive(Clone)]
pub enum Item {
    /// A file.
    File {
        /// Its bytes.
        content: Arc<dyn Content>,
        /// Whether it may be executed.
        executable: bool,
    },
    /// A symbolic link.
    Link {
        /// Its text.
        target: String,
    },
}

impl View {
    /// Adds a path; one that was there is replaced and returned.
    pub fn insert(&mut self, path: impl Into<String>, item: Item) -> Option<Item> {
        self.items.insert(path.into(), item)
    }

    /// Everything, sorted by path.
    pub fn items(&self) -> impl Iterator<Item = (&str, &Item)> {
        self.items.iter().map(|(path, item)| (path.as_str(), item))
    }

    /// What is at `path`.
    pub fn get(&self, path: &str) -> Option<&Item> {
        self.items.get(path)
    }

    /// The file at `path`, not followed when it is a link.
    pub fn file(&self, path: &str) -> Option<&Arc<dyn Content>> {
        match self.items.get(path)? {
            Item::File { content, .. } => Some(content),
            Item::Link { .. } => None,
        }
    }

    /// The paths of files that begin with `start`.
    pub(super) fn paths_from<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        self.items
            .range(start.to_owned()..)
            .take_while(move |(path, _)| path.starts_with(start))
            .filter(|(_, item)| matches!(item, Item::File { .. }))
            .map(|(path, _)| path.as_str())
    }
}
