//! Input: an index and what is known of its files. Output: its pages in the store, where they
//! differ from those of before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use rocwheel_content::archive_path::{join, parent, relative};
use rocwheel_content::hexadecimal;
use rocwheel_index::pages::{
    GENERATOR, IndexedFile, IndexedProject, encoded_segment, find_links_html, project_json, project_texts, root_html,
    root_json,
};
use rocwheel_progress::{Reporter, Unit};
use rocwheel_store::listing::{StoredDistribution, distribution_of};
use rocwheel_store::site::{HTML, JSON, VERSIONED_HTML};
use rocwheel_store::{self as store, Error as StoreError, PageChange};

use super::work::{ProjectState, Records, RootRecord, Work};
use super::{BuiltIndex, metadata_key, metadata_of};
use crate::catalog::ListedProject;
use crate::chooser::{ChooserData, ChooserProject, OfferedFile, OfferedProject};
use crate::error::Error;
use crate::layout::IndexRoot;
use crate::page_file::{PageFile, check_ours, link, page_head, put};
use crate::record::{self, KnownFile, ProjectHead};

/// The folder of pages that are JSON and called `index.html`. A project's has no `_` in its name.
const JSON_ROOT: &str = "v1_json";

struct WrittenProject<'a> {
    name: &'a str,
    head: ProjectHead,
    /// METADATA that was put beside wheels, by the numbers of their files.
    metadata: Vec<(usize, PageChange)>,
    /// The pages that changed, for each index.
    pages: Vec<Vec<PageFile>>,
    /// Pages of the last run that this one does not have.
    stale: Vec<String>,
}

#[derive(Clone, Copy)]
struct FileFacts<'f> {
    distribution: &'f StoredDistribution,
    known: &'f KnownFile,
    has_metadata: bool,
    has_attestations: bool,
}

/// Writes the pages of an index. Memory has the pages of a few projects at a time.
pub(super) struct Writer<'a> {
    work: &'a Work<'a>,
    /// The data of the pages for people, for each index.
    choosers: Vec<Mutex<ChooserData>>,
    metadata: MetadataChanges,
    changes: Vec<PageFile>,
}

/// METADATA that was put beside wheels: the numbers of the files by project. A first run writes as
/// many as there are wheels, and their keys are in the catalog.
#[derive(Default)]
pub(super) struct MetadataChanges(BTreeMap<String, Vec<(usize, PageChange)>>);

impl MetadataChanges {
    /// The changed files in the order of their keys.
    pub(super) fn pages(self, mut projects: BTreeMap<String, ListedProject>) -> Vec<PageFile> {
        let mut pages = Vec::with_capacity(self.0.values().map(Vec::len).sum());
        for (name, changed) in self.0 {
            let mut files = projects.remove(&name).unwrap_or_default().files;
            pages.extend(changed.into_iter().map(|(at, change)| {
                let page = metadata_key(&std::mem::take(&mut files[at].file.key));
                PageFile { page, change }
            }));
        }
        pages.sort_unstable_by(|one, other| one.page.cmp(&other.page));
        pages
    }
}

impl<'a> Writer<'a> {
    pub(super) fn new(work: &'a Work<'a>) -> Writer<'a> {
        // The pages for people begin with what the last run kept of them.
        let choosers = work.root_records.iter().map(|record| Mutex::new(record.data.clone())).collect();
        Writer { work, choosers, metadata: MetadataChanges::default(), changes: Vec::new() }
    }

    /// The changes, in the order in which they were made: METADATA before the pages.
    pub(super) fn done(self) -> (MetadataChanges, Vec<PageFile>) {
        (self.metadata, self.changes)
    }

    /// Fails for pages that another program wrote, before anything is written.
    pub(super) fn check_pages(&self, states: &[ProjectState<'_>]) -> Result<(), Error> {
        let Work { store, options, roots, heads, .. } = self.work;
        for root in *roots {
            let first = join(&root.pages, HTML);
            for page in [&first].into_iter().chain(&root.find_links).chain(&root.chooser) {
                check_ours(*store, options.replace_pages, page)?;
            }
        }
        let new: Vec<&str> = states.iter().map(|one| one.name).filter(|name| !heads.contains_key(*name)).collect();
        new.par_iter().try_for_each(|name| {
            let mut pages = roots.iter().map(|root| join(&join(&root.pages, name), HTML));
            pages.try_for_each(|page| check_ours(*store, options.replace_pages, &page))
        })
    }

    /// Writes all pages, and the records last: a run that is killed before that writes the same
    /// pages again.
    pub(super) fn write(
        &mut self,
        states: &[ProjectState<'a>],
        records: &Records,
        reporter: &dyn Reporter,
    ) -> Result<Vec<BuiltIndex>, Error> {
        let stage = reporter.stage("Writing pages", Some(states.len() as u64), Unit::Items);
        let written = states.par_iter().map(|state| {
            reporter.check()?;
            let written = self.project(state)?;
            reporter.advance(1);
            Ok(written)
        });
        let mut written: Vec<WrittenProject<'a>> = written.collect::<Result<_, Error>>()?;
        drop(stage);
        let metadata = written.iter_mut().map(|one| (one.name.to_owned(), std::mem::take(&mut one.metadata)));
        self.metadata.0.extend(metadata.filter(|(_, changed)| !changed.is_empty()));
        let (mut indexes, mut root_records) = (Vec::new(), Vec::new());
        for (at, root) in self.work.roots.iter().enumerate() {
            for one in &mut written {
                self.changes.append(&mut one.pages[at]);
            }
            let files: Vec<usize> = written.iter().filter_map(|one| one.head.roots.get(&root.pages).copied()).collect();
            if files.is_empty() {
                continue;
            }
            root_records.push((root, self.root(at, root, states, &written)?));
            indexes.push(BuiltIndex {
                folder: root.pages.clone(),
                find_links: root.find_links.clone(),
                chooser: root.chooser.clone(),
                projects: files.len(),
                files: files.iter().sum(),
            });
        }
        if self.work.options.project.is_none() {
            self.remove_choosers()?;
        }
        self.remove_stale(&written, &indexes)?;
        if self.work.options.write {
            self.write_records(&written, &root_records, records)?;
        }
        Ok(indexes)
    }

    fn project(&self, state: &ProjectState<'a>) -> Result<WrittenProject<'a>, Error> {
        let Work { store, options, roots, heads, .. } = self.work;
        let (name, before) = (state.name, heads.get(state.name));
        // Files that may have changed while they were read are looked at again by the next run.
        let is_young = state.known.iter().flatten().any(|file| file.is_young);
        let seen = if is_young { "" } else { state.seen.as_str() };
        let mut written = WrittenProject {
            name,
            head: ProjectHead::new(seen.to_owned()),
            metadata: Vec::new(),
            pages: roots.iter().map(|_| Vec::new()).collect(),
            stale: Vec::new(),
        };
        if let (true, Some(before)) = (state.is_current, before) {
            written.head.clone_from(before);
        }
        let Some(known) = &state.known else { return Ok(written) };
        for at in &state.read {
            if store.takes_metadata()
                && let file = &state.listed.files[*at].file
                && let Some(bytes) = metadata_of(*store, file)?
                && let Some(change) = store::put(*store, options.write, &metadata_key(&file.key), &bytes)?
            {
                written.metadata.push((*at, change));
            }
        }
        let distributions = state.listed.distributions();
        let facts: Vec<FileFacts<'_>> = distributions
            .iter()
            .zip(known)
            .zip(&state.listed.files)
            .map(|((distribution, known), listed)| FileFacts {
                distribution,
                known,
                has_metadata: listed.has_metadata,
                has_attestations: listed.has_attestations,
            })
            .collect();
        for (at, root) in roots.iter().enumerate() {
            let files: Vec<FileFacts<'_>> = facts.iter().filter(|one| root.has(one.distribution)).copied().collect();
            if files.is_empty() {
                continue;
            }
            if root.chooser.is_some() && !self.is_kept(at, name, &state.seen) {
                let project = ChooserProject::new(&self.offered(name, &files), seen);
                self.chooser(at).add(name, project);
            }
            if !state.is_current {
                written.head.roots.insert(root.pages.clone(), files.len());
                self.put_project(root, name, &files, (&mut written.head, &mut written.pages[at]))?;
            }
        }
        if !state.is_current {
            let pages = &written.head.pages;
            let before = before.into_iter().flat_map(|head| head.pages.keys());
            written.stale = before.filter(|page| !pages.contains_key(*page)).cloned().collect();
            put(*store, options.write, record::files_key(name), &record::files_record(&state.listed.files, known))?;
        }
        Ok(written)
    }

    fn put_project(
        &self,
        root: &IndexRoot,
        name: &str,
        files: &[FileFacts<'_>],
        (head, changes): (&mut ProjectHead, &mut Vec<PageFile>),
    ) -> Result<(), Error> {
        let folder = join(&root.pages, name);
        let (html, json) = project_texts(&self.indexed(name, files, &folder)?);
        let mut pages =
            vec![(HTML, folder.clone(), &html), (VERSIONED_HTML, folder.clone(), &html), (JSON, folder, &json)];
        let other_json;
        if self.work.options.json_root {
            let folder = join(&join(&root.pages, JSON_ROOT), name);
            other_json = project_json(&self.indexed(name, files, &folder)?);
            pages.push((HTML, folder, &other_json));
        }
        for (page, folder, text) in pages {
            let key = join(&folder, page);
            head.pages.insert(key.clone(), text.len() as u64);
            changes.extend(put(self.work.store, self.work.options.write, key, text.as_bytes())?);
        }
        Ok(())
    }

    /// A project with links that start in `folder`.
    fn indexed(&self, name: &str, files: &[FileFacts<'_>], folder: &str) -> Result<IndexedProject, StoreError> {
        let Work { store, status, .. } = self.work;
        let mut links = Links::new(folder);
        let mut indexed = Vec::with_capacity(files.len());
        for FileFacts { distribution: one, known, has_metadata, has_attestations } in files.iter().copied() {
            let metadata = match known.metadata_sha256 {
                // METADATA that differs would stop installers.
                Some(hash) if !store.takes_metadata() => {
                    let stored = if has_metadata { self.work.stored_metadata(&one.file.key)? } else { None };
                    stored.filter(|stored| *stored == hash)
                }
                hash => hash,
            };
            indexed.push(IndexedFile {
                name: one.name().to_owned(),
                url: store.address(&one.file).unwrap_or_else(|| links.to(&one.file.key)),
                version: one.version.clone(),
                size: one.file.size,
                sha256: hexadecimal(&known.sha256),
                requires_python: known.requires_python.as_deref().map(str::to_owned),
                metadata_sha256: metadata.map(|hash| hexadecimal(&hash)),
                uploaded: Some(known.uploaded),
                yanked: status.yanked(one).map(str::to_owned),
                provenance: self.provenance(&one.file.key, has_attestations),
            });
        }
        let (status, reason) = status.of_project(name);
        let status_reason = reason.map(str::to_owned);
        Ok(IndexedProject { name: name.to_owned(), files: indexed, status, status_reason, generation: None })
    }

    /// The absolute address of a file's attestations.
    fn provenance(&self, key: &str, has_attestations: bool) -> Option<String> {
        let address = self.work.options.address.as_ref()?;
        has_attestations.then(|| format!("{address}{}", link("", &format!("{key}.provenance"))))
    }

    fn offered(&self, name: &str, files: &[FileFacts<'_>]) -> OfferedProject {
        let status = self.work.status;
        let files = files.iter().map(|FileFacts { distribution: one, known, .. }| OfferedFile {
            version: one.version.clone(),
            tags: one.wheel.as_ref().map_or_else(String::new, |wheel| {
                format!("{}-{}-{}", wheel.pythons.join("."), wheel.abis.join("."), wheel.platforms.join("."))
            }),
            requires_python: known.requires_python.clone(),
            needs: Arc::clone(&known.needs),
            rocm: known.rocm.clone(),
            uploaded: known.uploaded,
            yanked: status.yanked(one).map(str::to_owned),
        });
        let (status, reason) = status.of_project(name);
        let status_reason = reason.map(str::to_owned);
        OfferedProject { name: name.to_owned(), status, status_reason, files: files.collect() }
    }

    fn chooser(&self, at: usize) -> std::sync::MutexGuard<'_, ChooserData> {
        self.choosers[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_kept(&self, at: usize, name: &str, seen: &str) -> bool {
        self.chooser(at).projects.get(name).is_some_and(|entry| entry.seen == seen)
    }

    /// Writes the pages that an index has once, the first one after those that it leads to.
    fn root(
        &mut self,
        at: usize,
        root: &IndexRoot,
        states: &[ProjectState<'a>],
        written: &[WrittenProject<'a>],
    ) -> Result<RootRecord, Error> {
        let work = self.work;
        let mut names: BTreeSet<&str> = BTreeSet::new();
        names.extend(written.iter().filter(|one| one.head.roots.contains_key(&root.pages)).map(|one| one.name));
        if work.options.project.is_some() {
            let listed = work.heads.iter().filter(|(_, head)| head.roots.contains_key(&root.pages));
            names.extend(listed.map(|(name, _)| name.as_str()));
        }
        let before = &work.root_records[at];
        let mut record = RootRecord::new(work.made_with(root), self.chooser_data(at, root, &names)?);
        if let Some(page) = &root.find_links {
            record.find_links = before.find_links;
            if states.iter().all(|state| state.known.is_some()) {
                let folder = parent(page);
                let chooser = root.chooser.as_ref().map(|key| link(folder, key));
                let states = states.iter().filter(|state| names.contains(state.name));
                let projects = states.map(|state| self.listed(root, state, folder));
                let mut parts = find_links_html("Python packages", projects, chooser.as_deref());
                let (change, size) = work.store.put_parts(page, &mut parts, work.options.write)?;
                record.find_links = Some(size);
                drop(parts);
                self.changes.extend(change.map(|change| PageFile { page: page.clone(), change }));
            }
        }
        let chooser = root.chooser.as_ref().map(|key| link(&root.pages, key));
        let (html, json) =
            (root_html(names.iter().copied(), chooser.as_deref(), None), root_json(names.iter().copied()));
        for (name, text) in [(HTML, &html), (VERSIONED_HTML, &html), (JSON, &json)] {
            self.put(join(&root.pages, name), text.as_bytes())?;
        }
        if work.options.json_root {
            self.put(join(&root.pages, &format!("{JSON_ROOT}/{HTML}")), json.as_bytes())?;
        }
        self.put_chooser(root, before, &mut record)?;
        Ok(record)
    }

    /// A project of an index, for the page for `--find-links`.
    fn listed(&self, root: &IndexRoot, state: &ProjectState<'a>, folder: &str) -> Result<IndexedProject, StoreError> {
        let distributions = state.listed.distributions();
        let all = distributions.iter().zip(state.known.iter().flatten()).zip(&state.listed.files);
        let facts = all.map(|((distribution, known), listed)| FileFacts {
            distribution,
            known,
            has_metadata: listed.has_metadata,
            has_attestations: listed.has_attestations,
        });
        let files: Vec<FileFacts<'_>> = facts.filter(|one| root.has(one.distribution)).collect();
        self.indexed(state.name, &files, folder)
    }

    /// What the page for people has of the projects of an index. Those at which a run for one
    /// project does not look are as the last run left them.
    fn chooser_data(&self, at: usize, root: &IndexRoot, names: &BTreeSet<&str>) -> Result<ChooserData, Error> {
        let work = self.work;
        if root.chooser.is_none() {
            return Ok(ChooserData::default());
        }
        for name in names.iter().filter(|name| !work.catalog.projects.contains_key(**name)) {
            let Some(head) = work.heads.get(*name) else { continue };
            if !head.seen.is_empty() && self.is_kept(at, name, &head.seen) {
                continue;
            }
            let record = work.store.read(&record::files_key(name))?;
            let Some(recorded) = record.as_deref().and_then(record::parse_files) else { continue };
            let named = recorded.iter().filter_map(|file| Some((distribution_of(&file.key)?, &file.known)));
            let named: Vec<_> = named.collect();
            let files = named.iter().map(|(distribution, known)| FileFacts {
                distribution,
                known,
                has_metadata: false,
                has_attestations: false,
            });
            let files: Vec<FileFacts<'_>> = files.collect();
            self.chooser(at).add(name, ChooserProject::new(&self.offered(name, &files), &head.seen));
        }
        let mut data = self.chooser(at);
        data.projects.retain(|name, _| names.contains(name.as_str()));
        Ok(data.ordered())
    }

    /// Writes the page for people, unless it is made of the same as before.
    fn put_chooser(&mut self, root: &IndexRoot, before: &RootRecord, record: &mut RootRecord) -> Result<(), Error> {
        let work = self.work;
        let (Some(key), Some(options)) = (&root.chooser, &work.options.chooser) else { return Ok(()) };
        let size = work.catalog.pages.get(key).copied();
        let is_same = before.made_with == record.made_with
            && before.data.projects == record.data.projects
            && record.data.projects.values().all(|entry| !entry.seen.is_empty());
        if is_same && size.is_some() && size == before.chooser {
            record.chooser = size;
            return Ok(());
        }
        let folder = parent(key);
        let index = match relative(folder, &join(&root.pages, HTML)) {
            way if way.contains('/') => link(folder, &join(&root.pages, HTML)).trim_end_matches(HTML).to_owned(),
            _ => String::new(),
        };
        let find_links = root.find_links.as_ref().map(|page| link(folder, page));
        // The address of the folder is that of the page.
        let find_links = find_links.map(|page| page.trim_end_matches(HTML).to_owned());
        let html = record.data.page(&index, find_links.as_deref(), options);
        record.chooser = Some(html.len() as u64);
        self.put(key.clone(), html.as_bytes())
    }

    /// Removes the pages for people that this program wrote where there should be none now.
    fn remove_choosers(&mut self) -> Result<(), Error> {
        let work = self.work;
        for page in work.roots.iter().filter(|root| root.chooser.is_none()).map(IndexRoot::chooser_place) {
            let is_kept = work.roots.iter().any(|root| root.chooser.as_ref() == Some(&page));
            let is_there = work.catalog.pages.contains_key(&page);
            if !is_kept && is_there && check_ours(work.store, false, &page).is_ok() {
                self.remove(page)?;
            }
        }
        Ok(())
    }

    fn remove_stale(&mut self, written: &[WrittenProject<'a>], indexes: &[BuiltIndex]) -> Result<(), Error> {
        let work = self.work;
        let mut stale: BTreeSet<String> = written.iter().flat_map(|one| one.stale.iter().cloned()).collect();
        if work.options.project.is_none() {
            let gone = work.heads.iter().filter(|(name, _)| !work.catalog.projects.contains_key(*name));
            stale.extend(gone.flat_map(|(_, head)| head.pages.keys().cloned()));
            let before: BTreeSet<&String> = work.heads.values().flat_map(|head| head.roots.keys()).collect();
            for folder in before.into_iter().filter(|folder| indexes.iter().all(|index| index.folder != **folder)) {
                stale.extend([HTML, VERSIONED_HTML, JSON].map(|name| join(folder, name)));
                stale.insert(join(folder, &format!("{JSON_ROOT}/{HTML}")));
            }
            // The last run had JSON pages under other names; this one removes those of projects.
            for folder in indexes.iter().map(|index| join(&index.folder, JSON_ROOT)) {
                let inside = format!("{folder}/");
                let had = work.heads.values().flat_map(|head| head.pages.keys()).any(|page| page.starts_with(&inside));
                if had && !work.options.json_root {
                    stale.insert(join(&folder, HTML));
                }
            }
            stale.extend(self.pages_without_record()?);
        }
        // Several projects have pages in a folder, so what one of them left may be another's now.
        let kept: BTreeSet<&String> = written.iter().flat_map(|one| one.head.pages.keys()).collect();
        for page in stale.iter().filter(|page| !kept.contains(page)) {
            // A run for one project has not listed the folders of views.
            let is_there = work.catalog.pages.contains_key(page)
                || (work.options.project.is_some() && work.store.read(page)?.is_some());
            if is_there {
                self.remove(page.clone())?;
            }
        }
        Ok(())
    }

    /// The pages of projects that neither files nor records know. A run that was killed between the
    /// pages of a project and its record leaves them, if the files of the project went away.
    fn pages_without_record(&self) -> Result<Vec<String>, Error> {
        let Work { store, catalog, heads, roots, .. } = self.work;
        let mut found = Vec::new();
        for page in catalog.pages.keys() {
            let Some(folder) = page.strip_suffix(HTML).and_then(|folder| folder.strip_suffix('/')) else { continue };
            let (index, name) = folder.rsplit_once('/').unwrap_or(("", folder));
            let is_known = catalog.projects.contains_key(name) || heads.contains_key(name);
            if is_known || roots.iter().all(|root| root.pages != index) {
                continue;
            }
            // Another index may be in the folder, and other programs' pages.
            let title = format!("<title>Links for {name}</title>");
            let head = page_head(*store, page)?.unwrap_or_default();
            if head.contains(GENERATOR) && head.contains(&title) {
                found.extend([HTML, VERSIONED_HTML, JSON].map(|page| join(folder, page)));
                found.push(join(&join(&join(index, JSON_ROOT), name), HTML));
            }
        }
        Ok(found)
    }

    fn remove(&mut self, page: String) -> Result<(), Error> {
        if self.work.options.write {
            self.work.store.remove(&page)?;
        }
        self.changes.push(PageFile { page, change: PageChange::Removed });
        Ok(())
    }

    /// Writes what changed in the records, and removes those of projects that are gone.
    fn write_records(
        &self,
        written: &[WrittenProject<'a>],
        roots: &[(&IndexRoot, RootRecord)],
        records: &Records,
    ) -> Result<(), Error> {
        let Work { store, options, heads, .. } = self.work;
        written.par_iter().try_for_each(|one| match heads.get(one.name) {
            Some(before) if *before == one.head => Ok(()),
            _ => store.write(&record::head_key(one.name), &one.head.bytes()),
        })?;
        let roots = roots.iter().filter(|(root, _)| root.view.is_none());
        let mut kept: BTreeSet<String> = BTreeSet::new();
        for (root, record) in roots {
            let key = record::root_key(&root.pages);
            put(*store, true, key.clone(), &record.bytes())?;
            kept.insert(key);
        }
        if options.project.is_some() {
            return Ok(());
        }
        kept.extend(written.iter().flat_map(|one| [record::head_key(one.name), record::files_key(one.name)]));
        records.keys.iter().filter(|key| !kept.contains(*key)).try_for_each(|key| store.remove(key))?;
        Ok(())
    }

    fn put(&mut self, key: String, bytes: &[u8]) -> Result<(), Error> {
        self.changes.extend(put(self.work.store, self.work.options.write, key, bytes)?);
        Ok(())
    }
}

/// The addresses of files on a page. Most files of a page are in one folder.
struct Links<'f> {
    /// The folder of the page.
    folder: &'f str,
    /// The folder of the last file, and the way to it.
    last: Option<(String, String)>,
}

impl<'f> Links<'f> {
    fn new(folder: &'f str) -> Links<'f> {
        Links { folder, last: None }
    }

    fn to(&mut self, key: &str) -> String {
        let (place, name) = key.rsplit_once('/').unwrap_or(("", key));
        if self.last.as_ref().is_none_or(|(last, _)| last != place) {
            let way = link(self.folder, place);
            let way = if way.is_empty() { way } else { format!("{way}/") };
            self.last = Some((place.to_owned(), way));
        }
        let way = self.last.as_ref().map_or("", |(_, way)| way.as_str());
        format!("{way}{}", encoded_segment(name))
    }
}
