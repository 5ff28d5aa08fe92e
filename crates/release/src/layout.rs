//! Input: distributions and their folders. Output: the indexes that they make, and where the pages
//! of each are.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_content::archive_path::{join, parent};

use crate::Error;
use crate::chooser;
use crate::listing::Distribution;

/// Where files and pages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All files in one folder, the pages below `simple/`, and a page for `--find-links`.
    Flat,
    /// A folder for each project, with its files and its page: TheRock's `manage_structured.py`.
    Structured,
    /// A folder for each family of GPUs, each a flat index of its files and of those above:
    /// TheRock's `generate_local_index.py --per-family-indexes`.
    Families,
}

impl Layout {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Structured => "structured",
            Self::Families => "families",
        }
    }

    /// The layout that fits where the files are.
    pub(crate) fn of(distributions: &[Distribution], store: &str) -> Result<Layout, Error> {
        let fail =
            |reason: String, hint: &str| Err(Error::Layout { store: store.to_owned(), reason, hint: hint.to_owned() });
        if let Some(deep) = distributions.iter().find(|one| one.folder().contains('/')) {
            return fail(
                format!("`{}` is more than one folder down", deep.file.key),
                "name the folder that has the files, or folders of files",
            );
        }
        let at_top = distributions.iter().find(|one| one.folder().is_empty());
        let in_folder: Vec<&Distribution> = distributions.iter().filter(|one| !one.folder().is_empty()).collect();
        let is_structured = in_folder.iter().all(|one| one.folder() == one.project);
        match (at_top, in_folder.first()) {
            (_, None) => Ok(Layout::Flat),
            (None, Some(_)) if is_structured => Ok(Layout::Structured),
            (Some(top), Some(below)) if is_structured => fail(
                format!("`{}` is beside the folders, and `{}` is in that of its project", top.file.key, below.file.key),
                "move all files into the folders of their projects, or give `--layout families`",
            ),
            _ => Ok(Layout::Families),
        }
    }
}

/// One index of a store.
#[derive(Debug, Default)]
pub(crate) struct IndexRoot<'a> {
    /// The folder of its first page; empty at the top.
    pub(crate) pages: String,
    /// The page for `--find-links`.
    pub(crate) find_links: Option<String>,
    /// The page for people; views have none.
    pub(crate) chooser: Option<String>,
    /// Its files by the canonical name of their project.
    pub(crate) projects: BTreeMap<String, Vec<&'a Distribution>>,
}

impl<'a> IndexRoot<'a> {
    fn new(
        pages: String,
        find_links: Option<String>,
        distributions: impl IntoIterator<Item = &'a Distribution>,
    ) -> IndexRoot<'a> {
        let mut projects: BTreeMap<String, Vec<&Distribution>> = BTreeMap::new();
        for distribution in distributions {
            projects.entry(distribution.project.clone()).or_default().push(distribution);
        }
        IndexRoot { pages, find_links, chooser: None, projects }
    }

    /// Where its page for people is: beside the page for `--find-links`, or else beside the first
    /// page.
    pub(crate) fn chooser_place(&self) -> String {
        join(self.find_links.as_deref().map_or(self.pages.as_str(), parent), chooser::FILE)
    }

    /// All its files.
    pub(crate) fn distributions(&self) -> impl Iterator<Item = &'a Distribution> {
        self.projects.values().flatten().copied()
    }
}

fn flat<'a>(folder: &str, files: impl IntoIterator<Item = &'a Distribution>) -> IndexRoot<'a> {
    IndexRoot::new(join(folder, "simple"), Some(join(folder, "index.html")), files)
}

/// The indexes of a layout. Files that contradict it are `FILE: why`.
pub(crate) fn roots(layout: Layout, distributions: &[Distribution]) -> Result<Vec<IndexRoot<'_>>, Vec<String>> {
    let mut problems = Vec::new();
    for one in distributions {
        let (folder, key) = (one.folder(), &one.file.key);
        match layout {
            Layout::Flat if !folder.is_empty() => problems.push(format!("`{key}`: it is not in the top folder")),
            Layout::Structured if folder != one.project => {
                problems.push(format!("`{key}`: the folder of its project is `{}`", one.project));
            }
            Layout::Families if !parent(folder).is_empty() => {
                problems.push(format!("`{key}`: it is more than one folder down"));
            }
            _ => {}
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(match layout {
        Layout::Flat => vec![flat("", distributions)],
        Layout::Structured => vec![IndexRoot::new(String::new(), None, distributions)],
        Layout::Families => {
            let families: BTreeSet<&str> =
                distributions.iter().map(Distribution::folder).filter(|folder| !folder.is_empty()).collect();
            let is_in = |one: &Distribution, family: &str| one.folder().is_empty() || one.folder() == family;
            families
                .into_iter()
                .map(|family| flat(family, distributions.iter().filter(|one| is_in(one, family))))
                .collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::{Listing, NameFilter};
    use crate::store::StoredFile;

    fn distributions(keys: &[&str]) -> Vec<Distribution> {
        let file = |key: &&str| StoredFile { key: (*key).to_owned(), size: 1, stamp: String::new() };
        Listing::of(keys.iter().map(file).collect(), &NameFilter::default()).distributions
    }

    #[test]
    fn the_layout_is_that_of_the_files() {
        let of = |keys: &[&str]| Layout::of(&distributions(keys), "store").map_err(|error| error.to_string());
        assert_eq!(of(&["a-1-py3-none-any.whl", "b-1.tar.gz"]), Ok(Layout::Flat));
        assert_eq!(of(&["a/a-1-py3-none-any.whl", "b-c/B.c-1.tar.gz"]), Ok(Layout::Structured));
        assert_eq!(of(&["gfx942/a-1-py3-none-any.whl", "rocm-1.tar.gz"]), Ok(Layout::Families));
        assert_eq!(of(&["gfx942/a-1-py3-none-any.whl", "a/a-1-py3-none-any.whl"]), Ok(Layout::Families));
        assert!(of(&["a/a-1-py3-none-any.whl", "b-1.tar.gz"]).unwrap_err().contains("beside the folders"));
        assert!(of(&["x/y/a-1-py3-none-any.whl"]).unwrap_err().contains("more than one folder down"));
    }

    #[test]
    fn a_family_has_its_own_files_and_those_above() {
        let all = distributions(&["gfx110X/a-1-py3-none-any.whl", "gfx94X/a-1-py3-none-any.whl", "rocm-1.tar.gz"]);
        let roots = roots(Layout::Families, &all).unwrap();
        let shown: Vec<(&str, Vec<&str>)> = roots
            .iter()
            .map(|root| (root.pages.as_str(), root.distributions().map(|one| one.file.key.as_str()).collect()))
            .collect();
        assert_eq!(
            shown,
            [
                ("gfx110X/simple", vec!["gfx110X/a-1-py3-none-any.whl", "rocm-1.tar.gz"]),
                ("gfx94X/simple", vec!["gfx94X/a-1-py3-none-any.whl", "rocm-1.tar.gz"])
            ]
        );
        assert_eq!(roots[0].find_links.as_deref(), Some("gfx110X/index.html"));
        assert_eq!(super::roots(Layout::Structured, &all).unwrap_err().len(), 3);
    }
}
