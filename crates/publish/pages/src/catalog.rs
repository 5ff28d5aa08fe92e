//! Input: a store. Output: its distributions by project, with what pages need of all other files,
//! in memory that is small enough for hundreds of thousands of files.
//!
//! Names are parsed to find the project and parsed again where more of them is needed: what is in a
//! name takes ten times the memory of the name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use rocwheel_content::archive_path::file_name;
use rocwheel_index::companion::{ATTESTATIONS, METADATA};
use rocwheel_progress::Reporter;
use rocwheel_store::listing::{Identity, NameFilter, StoredDistribution, distribution, identity};
use rocwheel_store::site::{HTML, JSON, VERSIONED_HTML};
use rocwheel_store::{Store, StoredFile};

use crate::chooser;
use crate::error::Error;
use crate::views::pythons;

/// How many files are looked at between two looks at their results.
const CHUNK: usize = 16 * 1024;

#[derive(Debug)]
pub(crate) struct ListedFile {
    pub(crate) file: StoredFile,
    /// `true` if METADATA is beside it.
    pub(crate) has_metadata: bool,
    /// `true` if attestations are beside it.
    pub(crate) has_attestations: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ListedProject {
    /// Sorted by key.
    pub(crate) files: Vec<ListedFile>,
    /// The CPythons that its wheels were compiled for: `cp312`.
    pub(crate) pythons: BTreeSet<String>,
}

impl ListedProject {
    /// The files with what their names say, in the same order.
    pub(crate) fn distributions(&self) -> Vec<StoredDistribution> {
        self.files.iter().filter_map(|listed| distribution(listed.file.clone())).collect()
    }
}

/// The distributions of a store by the canonical names of their projects.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) projects: BTreeMap<String, ListedProject>,
    /// The bytes of each page, by key.
    pub(crate) pages: BTreeMap<String, u64>,
    /// `true` if any file has attestations beside it.
    pub(crate) has_attestations: bool,
    /// Archives that an index does not list: `therock-dist-*.tar.gz`, and what has no version.
    pub(crate) ignored: Vec<String>,
    /// `FILE: why`, for names that look like those of distributions but are not. Versions were not
    /// looked at: that costs as much as all the rest, and those of an unchanged project are good.
    pub(crate) problems: Vec<String>,
}

impl Catalog {
    /// Lists the files below a folder of a store.
    pub(crate) fn read(
        store: &dyn Store,
        folder: &str,
        filter: &NameFilter,
        reporter: &dyn Reporter,
    ) -> Result<Catalog, Error> {
        let all = Mutex::new(Catalog::default());
        store.list_batches(
            folder,
            |key| !key.ends_with(METADATA),
            &|files| {
                let part = Catalog::of_batch(files, filter);
                all.lock().unwrap_or_else(PoisonError::into_inner).append(part);
            },
            reporter,
        )?;
        let mut catalog = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        for project in catalog.projects.values_mut() {
            project.files.sort_unstable_by(|one, other| one.file.key.cmp(&other.file.key));
            project.files.shrink_to_fit();
        }
        catalog.ignored.sort_unstable();
        catalog.problems.sort_unstable();
        Ok(catalog)
    }

    fn of_batch(files: Vec<StoredFile>, filter: &NameFilter) -> Catalog {
        let (mut catalog, mut last) = (Catalog::default(), String::new());
        let mut files = files.into_iter().peekable();
        while files.peek().is_some() {
            // As few names as possible are in memory in parts.
            let chunk: Vec<StoredFile> = files.by_ref().take(CHUNK).collect();
            let found: Vec<Found> =
                chunk.par_iter().with_min_len(1024).map(|file| Found::of(&file.key, filter)).collect();
            for (file, found) in chunk.into_iter().zip(found) {
                catalog.add(file, found, &mut last);
            }
        }
        catalog
    }

    /// Adds a file. `last` is the project of the distribution before it.
    fn add(&mut self, file: StoredFile, found: Found, last: &mut String) {
        match found {
            Found::Distribution(name, pythons) => {
                let project = self.projects.entry(name.clone()).or_default();
                project.pythons.extend(pythons);
                project.files.push(ListedFile { file, has_metadata: false, has_attestations: false });
                *last = name;
            }
            Found::Beside(beside) => {
                self.mark(beside, file.key.strip_suffix(beside.ending()).unwrap_or_default(), last);
            }
            Found::Wrong(reason) => self.problems.push(format!("`{}`: {reason}", file.key)),
            Found::Archive => self.ignored.push(file.key),
            Found::Other if is_page(&file.key) => drop(self.pages.insert(file.key, file.size)),
            Found::Other => {}
        }
    }

    /// Says what is beside a distribution. Keys are in order: it is nearly always the one before.
    fn mark(&mut self, beside: Beside, key: &str, last: &str) {
        let before = self.projects.get_mut(last).and_then(|project| project.files.last_mut());
        let found = match before.filter(|before| before.file.key == key) {
            Some(before) => Some(before),
            None => match identity(file_name(key)) {
                Identity::Distribution(parts) => self.projects.get_mut(&parts.project()).and_then(|project| {
                    let at = project.files.binary_search_by(|one| one.file.key.as_str().cmp(key)).ok()?;
                    project.files.get_mut(at)
                }),
                _ => None,
            },
        };
        let Some(found) = found else { return };
        match beside {
            Beside::Metadata => found.has_metadata = true,
            Beside::Attestations => {
                found.has_attestations = true;
                self.has_attestations = true;
            }
        }
    }

    fn append(&mut self, mut other: Catalog) {
        for (name, mut project) in other.projects {
            let own = self.projects.entry(name).or_default();
            own.files.append(&mut project.files);
            own.pythons.append(&mut project.pythons);
        }
        self.pages.append(&mut other.pages);
        self.has_attestations |= other.has_attestations;
        self.ignored.append(&mut other.ignored);
        self.problems.append(&mut other.problems);
    }

    /// Every distribution with the canonical name of its project.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &StoredFile)> {
        let projects = self.projects.iter();
        projects.flat_map(|(name, project)| project.files.iter().map(move |listed| (name.as_str(), &listed.file)))
    }
}

/// The kind of a file, by its name.
enum Found {
    /// A distribution: its project, and the CPythons that it was compiled for.
    Distribution(String, Vec<String>),
    Beside(Beside),
    Wrong(String),
    Archive,
    Other,
}

impl Found {
    fn of(key: &str, filter: &NameFilter) -> Found {
        if let Some(beside) = Beside::of(key) {
            return Found::Beside(beside);
        }
        let name = file_name(key);
        match if filter.accepts(name) { identity(name) } else { Identity::Other } {
            Identity::Distribution(parts) => {
                let pythons = parts.wheel.iter().flat_map(pythons).map(str::to_owned);
                Found::Distribution(parts.project(), pythons.collect())
            }
            Identity::Wrong(reason) => Found::Wrong(reason),
            Identity::Archive => Found::Archive,
            Identity::Other => Found::Other,
        }
    }
}

/// A kind of file that is beside a distribution and named after it.
#[derive(Clone, Copy)]
enum Beside {
    Metadata,
    Attestations,
}

impl Beside {
    fn of(key: &str) -> Option<Beside> {
        [Beside::Metadata, Beside::Attestations].into_iter().find(|beside| key.ends_with(beside.ending()))
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Metadata => METADATA,
            Self::Attestations => ATTESTATIONS,
        }
    }
}

fn is_page(key: &str) -> bool {
    [HTML, VERSIONED_HTML, JSON, chooser::FILE].contains(&file_name(key))
}
