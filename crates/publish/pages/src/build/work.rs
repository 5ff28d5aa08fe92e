//! What all steps of a build have in common: the store, the options, what is listed, and what the
//! last run recorded.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use rocwheel_content::archive_path::join;
use rocwheel_content::{Digest, hexadecimal, sha256};
use rocwheel_progress::Reporter;
use rocwheel_store::{Error as StoreError, Store, StoredFile};
use serde::{Deserialize, Serialize};

use super::{BuildOptions, metadata_key};
use crate::catalog::{Catalog, ListedProject};
use crate::chooser::ChooserData;
use crate::error::Error;
use crate::layout::IndexRoot;
use crate::record::{self, KnownFile, ProjectHead};
use crate::seal::{sealed, unsealed};
use crate::status::StatusTable;
use crate::views::IndexView;

/// A project whose files are known.
pub(super) struct ProjectState<'a> {
    pub(super) name: &'a str,
    pub(super) listed: &'a ListedProject,
    /// [`ProjectHead::seen`] of this run.
    pub(super) seen: String,
    /// `true` if its own pages stay as they are.
    pub(super) is_current: bool,
    /// The facts about its files, in their order; `None` if no page needs them.
    pub(super) known: Option<Vec<KnownFile>>,
    /// The numbers of the files that were read.
    pub(super) read: Vec<usize>,
}

/// What the last run recorded.
#[derive(Default)]
pub(super) struct Records {
    pub(super) heads: BTreeMap<String, ProjectHead>,
    pub(super) keys: Vec<String>,
}

impl Records {
    pub(super) fn read(store: &dyn Store, reporter: &dyn Reporter) -> Result<Records, Error> {
        let keys: Vec<String> = store.list(record::FOLDER, reporter)?.into_iter().map(|file| file.key).collect();
        let read = keys.par_iter().map(|key| {
            let Some(project) = record::head_project(key) else { return Ok(None) };
            Ok(store.read(key)?.map(|bytes| (project.to_owned(), ProjectHead::parse(&bytes))))
        });
        let (mut heads, mut damaged) = (BTreeMap::new(), 0);
        for (project, head) in read.collect::<Result<Vec<_>, Error>>()?.into_iter().flatten() {
            match head {
                Some(head) => drop(heads.insert(project, head)),
                None => damaged += 1,
            }
        }
        if damaged > 0 {
            let (records, verb) = if damaged == 1 { ("record", "is") } else { ("records", "are") };
            reporter.warn(&format!(
                "{damaged} {records} in `{}` {verb} damaged or of another version of rocwheel, and ignored",
                join(&store.name(), record::FOLDER)
            ));
        }
        Ok(Records { heads, keys })
    }
}

/// The record of the pages that an index has once.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct RootRecord {
    schema: u32,
    /// A digest of what the pages were made of beside the projects.
    pub(super) made_with: String,
    /// The size of the page for `--find-links` in bytes.
    pub(super) find_links: Option<u64>,
    /// The size of the page for people in bytes.
    pub(super) chooser: Option<u64>,
    /// What the page for people has of each project.
    pub(super) data: ChooserData,
}

impl RootRecord {
    pub(super) fn new(made_with: String, data: ChooserData) -> RootRecord {
        RootRecord { schema: record::SCHEMA, made_with, find_links: None, chooser: None, data }
    }

    /// The record at a key; an empty one where it is missing, damaged or of another form.
    fn read(store: &dyn Store, key: &str) -> Result<RootRecord, Error> {
        let bytes = store.read(key)?;
        let record: Option<RootRecord> =
            bytes.as_deref().and_then(unsealed).and_then(|text| serde_json::from_str(text).ok());
        Ok(record.filter(|record| record.schema == record::SCHEMA).unwrap_or_default())
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_string(self).expect("all keys are text");
        text.push('\n');
        sealed(text)
    }
}

/// What the page for people has of the structured index in a folder; nothing where it has none.
pub(crate) fn offered_in(store: &dyn Store, folder: &str) -> Result<ChooserData, Error> {
    Ok(RootRecord::read(store, &join(folder, &record::root_key("")))?.data)
}

pub(super) struct Work<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) options: &'a BuildOptions,
    pub(super) catalog: &'a Catalog,
    /// Views come after the index that they are of.
    pub(super) roots: &'a [IndexRoot],
    /// The records of `roots`; empty ones of views.
    pub(super) root_records: Vec<RootRecord>,
    pub(super) heads: &'a BTreeMap<String, ProjectHead>,
    pub(super) status: &'a StatusTable,
}

impl Work<'_> {
    pub(super) fn root_records(store: &dyn Store, roots: &[IndexRoot]) -> Result<Vec<RootRecord>, Error> {
        let records = roots.iter().map(|root| match root.view {
            None => RootRecord::read(store, &record::root_key(&root.pages)),
            Some(_) => Ok(RootRecord::default()),
        });
        records.collect()
    }

    /// `true` if the pages of a project have the sizes that they were written with.
    pub(super) fn has_pages(&self, head: &ProjectHead) -> bool {
        head.pages.iter().all(|(key, size)| self.catalog.pages.get(key) == Some(size))
    }

    /// `true` if every page for people that lists a project has it as `seen` says.
    pub(super) fn is_offered(&self, name: &str, seen: &str) -> bool {
        let Some(head) = self.heads.get(name) else { return false };
        let offering = self.roots.iter().zip(&self.root_records).filter(|(root, _)| root.chooser.is_some());
        offering
            .filter(|(root, _)| head.roots.contains_key(&root.pages))
            .all(|(_, record)| record.data.projects.get(name).is_some_and(|entry| entry.seen == seen))
    }

    /// `true` if every index with a page for `--find-links` still has it.
    pub(super) fn has_find_links(&self) -> bool {
        self.roots.iter().zip(&self.root_records).all(|(root, record)| match &root.find_links {
            Some(page) => {
                let size = self.catalog.pages.get(page).copied();
                size.is_some() && size == record.find_links && record.made_with == self.made_with(root)
            }
            None => true,
        })
    }

    /// The SHA-256 of the file with METADATA beside a wheel, where the store knows it.
    pub(super) fn stored_metadata(&self, key: &str) -> Result<Option<Digest>, StoreError> {
        let file = StoredFile { key: metadata_key(key), size: 0, stamp: String::new() };
        self.store.sha256(&file)
    }

    /// A digest of what the pages of an index are made of beside its projects.
    pub(super) fn made_with(&self, root: &IndexRoot) -> String {
        let made_with = (env!("CARGO_PKG_VERSION"), root, &self.options.chooser);
        hexadecimal(&sha256(format!("{made_with:?}").as_bytes()))
    }
}

/// The indexes with their views.
pub(super) fn with_views(
    roots: Vec<IndexRoot>,
    options: &BuildOptions,
    catalog: &Catalog,
    heads: &BTreeMap<String, ProjectHead>,
    reporter: &dyn Reporter,
) -> Vec<IndexRoot> {
    let mut all = Vec::new();
    for root in roots {
        let chooser = options.chooser.as_ref().map(|_| root.chooser_place());
        let root = IndexRoot { chooser, ..root };
        let mut views = Vec::new();
        for view in &options.views {
            let mut names = view.names(catalog.projects.iter().map(|(name, project)| (name, &project.pythons)));
            if let Some(project) = &options.project {
                let existing = existing_views(&root, *view, heads);
                let is_alone = heads.keys().all(|other| other == project);
                let missing: Vec<String> = names.difference(&existing).cloned().collect();
                if !is_alone && !missing.is_empty() {
                    reporter.warn(&format!(
                        "there is no view yet of {}: a run without `--project` makes it, with all projects",
                        missing.join(", ")
                    ));
                    names.retain(|name| existing.contains(name));
                }
                names.extend(existing);
            }
            views.extend(names.iter().map(|name| root.with_view(*view, name)));
        }
        all.push(root);
        all.extend(views);
    }
    all
}

/// The names of the views of an index that have pages.
fn existing_views(root: &IndexRoot, view: IndexView, heads: &BTreeMap<String, ProjectHead>) -> BTreeSet<String> {
    let folder = format!("{}/", join(&root.pages, view.folder()));
    let names = heads.values().flat_map(|head| head.roots.keys()).filter_map(|pages| pages.strip_prefix(&folder));
    names.map(str::to_owned).collect()
}
