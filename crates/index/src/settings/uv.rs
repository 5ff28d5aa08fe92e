//! Input: `uv.toml` and `pyproject.toml`. Output: what they say about indexes (uv's documentation,
//! "Settings"): lists of several files are joined, of everything else the strongest file's counts.
//! Indexes that are explicit are for packages that name them. Paths are relative to the folder of
//! the file.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Answer, Tool, unnamed};
use crate::Error;

/// What of a file is of interest; everything else may be there too.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Settings {
    index: Vec<Index>,
    index_url: Option<String>,
    extra_index_url: Vec<String>,
    find_links: Vec<String>,
    no_index: Option<bool>,
    offline: Option<bool>,
    /// The same once more, for `uv pip` only, which goes before.
    pip: Option<Box<Settings>>,
}

#[derive(Debug, Deserialize)]
struct Index {
    url: String,
    #[serde(default)]
    default: bool,
    #[serde(default)]
    explicit: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Project {
    tool: ToolTable,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolTable {
    uv: Settings,
}

impl Settings {
    fn read(path: &Path, text: &str) -> Result<Settings, Error> {
        let is_project = path.file_name().is_some_and(|name| name == "pyproject.toml");
        let read = if is_project {
            toml::from_str::<Project>(text).map(|project| project.tool.uv)
        } else {
            toml::from_str(text)
        };
        read.map_err(|error| {
            let (path, reason) = (path.to_owned(), error.message().to_owned());
            Error::Settings { path, tool: Tool::Uv, reason }
        })
    }

    /// Whether anything is said of where packages are.
    fn says_where(&self) -> bool {
        let Settings { index, index_url, extra_index_url, find_links, no_index, offline: _, pip } = self;
        !(index.is_empty() && extra_index_url.is_empty() && find_links.is_empty())
            || index_url.is_some()
            || no_index.is_some()
            || pip.as_ref().is_some_and(|pip| pip.says_where())
    }

    /// Adds what a file in `folder` says to what is known.
    fn add_to(self, answer: &mut Answer, folder: &Path) {
        if let Some(pip) = self.pip {
            pip.add_to(answer, folder);
        }
        let place = |place: String| {
            if place.contains("://") { place } else { folder.join(place).to_string_lossy().into_owned() }
        };
        for index in self.index.into_iter().filter(|index| !index.explicit) {
            if index.default {
                answer.main.get_or_insert_with(|| place(index.url));
            } else {
                answer.more.push(place(index.url));
            }
        }
        if let Some(address) = self.index_url {
            answer.main.get_or_insert_with(|| place(unnamed(&address)));
        }
        answer.more.extend(self.extra_index_url.into_iter().map(place));
        answer.folders.extend(self.find_links.into_iter().map(place));
        answer.no_index = answer.no_index.or(self.no_index);
    }
}

/// What variables do not say, files may; and whether they say that nobody may be asked.
pub(super) fn with_files(mut answer: Answer, files: &[(PathBuf, String)]) -> Result<(Answer, bool), Error> {
    let mut offline = None;
    for (path, text) in files.iter().rev() {
        let settings = Settings::read(path, text)?;
        offline = offline.or(settings.offline);
        if settings.says_where() {
            answer.names.push(path.display().to_string());
            settings.add_to(&mut answer, path.parent().unwrap_or(Path::new("")));
        }
    }
    Ok((answer, offline.unwrap_or(false)))
}
