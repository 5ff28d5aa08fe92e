//! Input: `uv.toml` and `pyproject.toml`. Output: their settings for indexes (uv's documentation,
//! "Settings"). Lists of several files are joined; for other keys the strongest file wins. Explicit
//! indexes are skipped: they are only for packages that name them. Paths are relative to the folder
//! of the file.

use std::path::{Path, PathBuf};

use rocwheel_progress::Failure;
use serde::Deserialize;

use super::{Answer, unnamed};
use crate::tool::Tool;

/// The keys that matter here; a file may have others.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Settings {
    index: Vec<Index>,
    index_url: Option<String>,
    extra_index_url: Vec<String>,
    find_links: Vec<String>,
    no_index: Option<bool>,
    offline: Option<bool>,
    /// The same keys for `uv pip` only, which take precedence.
    pip: Option<Box<Settings>>,
}

#[derive(Debug, Deserialize)]
struct Index {
    url: String,
    /// `flat` for a folder of wheels or a page with links, as in `find-links`.
    #[serde(default)]
    format: Option<String>,
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
    fn read(path: &Path, text: &str) -> Result<Settings, Failure> {
        let is_project = path.file_name().is_some_and(|name| name == "pyproject.toml");
        let read = if is_project {
            toml::from_str::<Project>(text).map(|project| project.tool.uv)
        } else {
            toml::from_str(text)
        };
        read.map_err(|error| Tool::Uv.unreadable(path, error.message()))
    }

    /// `true` if the file sets any source of packages.
    fn says_where(&self) -> bool {
        let Settings { index, index_url, extra_index_url, find_links, no_index, offline: _, pip } = self;
        !(index.is_empty() && extra_index_url.is_empty() && find_links.is_empty())
            || index_url.is_some()
            || no_index.is_some()
            || pip.as_ref().is_some_and(|pip| pip.says_where())
    }

    /// Adds the settings of a file in `folder`.
    fn add_to(self, answer: &mut Answer, folder: &Path) {
        if let Some(pip) = self.pip {
            pip.add_to(answer, folder);
        }
        for index in self.index.into_iter().filter(|index| !index.explicit) {
            if index.format.as_deref() == Some("flat") {
                answer.has_flat_default |= index.default;
                answer.folders.push(place_in(folder, index.url));
            } else if index.default {
                answer.main.get_or_insert_with(|| place_in(folder, index.url));
            } else {
                answer.more.push(place_in(folder, index.url));
            }
        }
        if let Some(address) = self.index_url {
            answer.main.get_or_insert_with(|| place_in(folder, unnamed(&address)));
        }
        answer.more.extend(self.extra_index_url.into_iter().map(|place| place_in(folder, place)));
        answer.folders.extend(self.find_links.into_iter().map(|place| place_in(folder, place)));
        answer.no_index = answer.no_index.or(self.no_index);
    }
}

fn place_in(folder: &Path, place: String) -> String {
    if place.contains("://") { place } else { folder.join(place).to_string_lossy().into_owned() }
}

/// Adds settings from files where the variables set none. The flag is `true` if a file sets
/// `offline`.
pub(super) fn with_files(mut answer: Answer, files: &[(PathBuf, String)]) -> Result<(Answer, bool), Failure> {
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
