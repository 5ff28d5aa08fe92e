//! Input: distributions and their folders. Output: the indexes that they make, and where the pages
//! of each are.

use std::collections::BTreeSet;

use rocwheel_content::archive_path::{join, parent};
use rocwheel_store::listing::StoredDistribution;

use crate::catalog::Catalog;
use crate::chooser;
use crate::error::Error;
use crate::views::IndexView;

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
    pub fn word(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Structured => "structured",
            Self::Families => "families",
        }
    }

    /// The layout that fits where the files are.
    pub(crate) fn of(catalog: &Catalog, store: &str) -> Result<Layout, Error> {
        let (mut at_top, mut below, mut is_structured) = (None, None, true);
        for (project, file) in catalog.files() {
            let folder = parent(&file.key);
            if folder.contains('/') {
                let reason = format!("`{}` is more than one folder down", file.key);
                let hint = "name the folder that has the files, or folders of files".to_owned();
                return Err(Error::Layout { store: store.to_owned(), reason, hint });
            }
            if folder.is_empty() {
                at_top.get_or_insert(&file.key);
            } else {
                below.get_or_insert(&file.key);
                is_structured &= folder == project;
            }
        }
        match (at_top, below) {
            (_, None) => Ok(Layout::Flat),
            (None, Some(_)) if is_structured => Ok(Layout::Structured),
            (Some(top), Some(below)) if is_structured => Err(Error::Layout {
                store: store.to_owned(),
                reason: format!("`{top}` is beside the folders, and `{below}` is in that of its project"),
                hint: "move all files into the folders of their projects, or give `--layout families`".to_owned(),
            }),
            _ => Ok(Layout::Families),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct IndexRoot {
    /// The folder of its first page; empty at the top.
    pub(crate) pages: String,
    /// The page for `--find-links`.
    pub(crate) find_links: Option<String>,
    /// The page for people; views have none.
    pub(crate) chooser: Option<String>,
    /// The folder of files that it has beside those at the top; `None`: all files.
    pub(crate) family: Option<String>,
    pub(crate) view: Option<(IndexView, String)>,
}

impl IndexRoot {
    fn flat(folder: &str) -> IndexRoot {
        let (pages, find_links) = (join(folder, "simple"), Some(join(folder, "index.html")));
        IndexRoot { pages, find_links, ..IndexRoot::default() }
    }

    pub(crate) fn with_view(&self, view: IndexView, name: &str) -> IndexRoot {
        let pages = join(&join(&self.pages, view.folder()), name);
        IndexRoot { pages, view: Some((view, name.to_owned())), family: self.family.clone(), ..IndexRoot::default() }
    }

    pub(crate) fn has(&self, one: &StoredDistribution) -> bool {
        self.has_folder(one.folder()) && self.view.as_ref().is_none_or(|(view, name)| view.has(one, name))
    }

    /// `true` if it, or a view of it, lists the files of a folder.
    pub(crate) fn has_folder(&self, folder: &str) -> bool {
        self.family.as_ref().is_none_or(|family| folder.is_empty() || folder == family.as_str())
    }

    /// Where its page for people is: beside the page for `--find-links`, or else beside the first
    /// page.
    pub(crate) fn chooser_place(&self) -> String {
        join(self.find_links.as_deref().map_or(self.pages.as_str(), parent), chooser::FILE)
    }
}

/// The indexes of a layout. Files that contradict it are `FILE: why`.
pub(crate) fn roots(layout: Layout, catalog: &Catalog) -> Result<Vec<IndexRoot>, Vec<String>> {
    let mut problems = Vec::new();
    let mut families: BTreeSet<&str> = BTreeSet::new();
    for (project, file) in catalog.files() {
        let (folder, key) = (parent(&file.key), &file.key);
        match layout {
            Layout::Flat if !folder.is_empty() => problems.push(format!("`{key}`: it is not in the top folder")),
            Layout::Structured if folder != project => {
                problems.push(format!("`{key}`: the folder of its project is `{project}`"));
            }
            Layout::Families if !parent(folder).is_empty() => {
                problems.push(format!("`{key}`: it is more than one folder down"));
            }
            Layout::Families if !folder.is_empty() => drop(families.insert(folder)),
            _ => {}
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(match layout {
        Layout::Flat => vec![IndexRoot::flat("")],
        Layout::Structured => vec![IndexRoot::default()],
        Layout::Families => {
            let families = families.into_iter();
            families.map(|name| IndexRoot { family: Some(name.to_owned()), ..IndexRoot::flat(name) }).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use rocwheel_store::FolderStore;
    use rocwheel_store::listing::NameFilter;

    use super::*;

    fn catalog(keys: &[&str]) -> Catalog {
        let folder = tempfile::tempdir().unwrap();
        for key in keys {
            let path = folder.path().join(key);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, "").unwrap();
        }
        let store = FolderStore::open(folder.path()).unwrap();
        Catalog::read(&store, "", &NameFilter::default(), &rocwheel_progress::Silent).unwrap()
    }

    #[test]
    fn the_layout_is_that_of_the_files() {
        let of = |keys: &[&str]| Layout::of(&catalog(keys), "store").map_err(|error| error.to_string());
        assert_eq!(of(&["a-1-py3-none-any.whl", "b-1.tar.gz"]), Ok(Layout::Flat));
        assert_eq!(of(&["a/a-1-py3-none-any.whl", "b-c/B.c-1.tar.gz"]), Ok(Layout::Structured));
        assert_eq!(of(&["gfx942/a-1-py3-none-any.whl", "rocm-1.tar.gz"]), Ok(Layout::Families));
        assert_eq!(of(&["gfx942/a-1-py3-none-any.whl", "a/a-1-py3-none-any.whl"]), Ok(Layout::Families));
        assert!(of(&["a/a-1-py3-none-any.whl", "b-1.tar.gz"]).unwrap_err().contains("beside the folders"));
        assert!(of(&["x/y/a-1-py3-none-any.whl"]).unwrap_err().contains("more than one folder down"));
    }

    #[test]
    fn a_family_has_its_own_files_and_those_above() {
        let all = catalog(&["gfx110X/a-1-py3-none-any.whl", "gfx94X/a-1-py3-none-any.whl", "rocm-1.tar.gz"]);
        let roots = roots(Layout::Families, &all).unwrap();
        let distributions: Vec<StoredDistribution> =
            all.projects.values().flat_map(crate::catalog::ListedProject::distributions).collect();
        let shown: Vec<(&str, Vec<&str>)> = roots
            .iter()
            .map(|root| {
                let files = distributions.iter().filter(|one| root.has(one));
                (root.pages.as_str(), files.map(|one| one.file.key.as_str()).collect())
            })
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
