//! Input: an index and what is known of its files. Output: its pages in the store, where they
//! differ from those of before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;
use rocwheel_content::archive_path::{join, parent, relative};
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_index::pages::{
    GENERATOR, IndexedFile, IndexedProject, encoded_segment, find_links_html, project_html, project_json, root_html,
    root_json,
};
use rocwheel_report::{Reporter, Unit};

use super::{BuildOptions, PageChange, PageFile, Records, metadata_of};
use crate::Error;
use crate::chooser::{ChooserPage, OfferedFile, OfferedProject};
use crate::known::{self, KnownFile, KnownProject};
use crate::layout::IndexRoot;
use crate::listing::Distribution;
use crate::status::StatusTable;
use crate::store::{Store, StoredFile};

/// The pages of a folder, as bandersnatch calls them: servers choose one by `Accept`.
pub(crate) const HTML: &str = "index.html";
pub(crate) const VERSIONED_HTML: &str = "index.v1_html";
pub(crate) const JSON: &str = "index.v1_json";
/// The folder of pages that are JSON and called `index.html`. A project's has no `_` in its name.
const JSON_ROOT: &str = "v1_json";

pub(super) struct Writer<'a> {
    store: &'a dyn Store,
    options: &'a BuildOptions,
    /// Files of the store that are no distributions, among them the pages of before.
    others: &'a BTreeMap<String, StoredFile>,
    files: &'a BTreeMap<String, KnownFile>,
    status: &'a StatusTable,
    changes: Vec<PageFile>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        store: &'a dyn Store,
        options: &'a BuildOptions,
        others: &'a BTreeMap<String, StoredFile>,
        files: &'a BTreeMap<String, KnownFile>,
        status: &'a StatusTable,
    ) -> Writer<'a> {
        Writer { store, options, others, files, status, changes: Vec::new() }
    }

    /// The changes, in the order in which they were made.
    pub(super) fn done(self) -> Vec<PageFile> {
        self.changes
    }

    /// Puts METADATA beside wheels that were read.
    pub(super) fn metadata(&mut self, read: &[StoredFile], reporter: &dyn Reporter) -> Result<(), Error> {
        if !self.store.takes_metadata() {
            return Ok(());
        }
        let put = |file: &StoredFile| -> Result<Option<PageFile>, Error> {
            reporter.check()?;
            match metadata_of(self.store, file)? {
                Some((key, bytes)) => put(self.store, self.options.write, key, &bytes),
                None => Ok(None),
            }
        };
        let changes: Vec<_> = read.par_iter().map(put).collect::<Result<_, _>>()?;
        self.changes.extend(changes.into_iter().flatten());
        Ok(())
    }

    /// Writes the pages of an index.
    pub(super) fn index(
        &mut self,
        root: &IndexRoot<'_>,
        records: &Records,
        reporter: &dyn Reporter,
    ) -> Result<(), Error> {
        reporter.begin("Writing pages", Some(root.projects.len() as u64), Unit::Items);
        let written = self.projects(root, records, reporter);
        reporter.end();
        written?;
        if let Some(page) = &root.find_links {
            let projects: Vec<IndexedProject> =
                root.projects.iter().map(|(name, files)| self.project(name, files, parent(page))).collect();
            self.check_ours(page)?;
            let chooser = root.chooser.as_ref().map(|key| link(parent(page), key));
            self.put(page.clone(), find_links_html("Python packages", &projects, chooser.as_deref()).as_bytes())?;
        }
        let mut names: BTreeSet<&str> = root.projects.keys().map(String::as_str).collect();
        if self.options.project.is_some() {
            // The others have a record each.
            let folder = known::folder(&root.pages);
            names.extend(records.keys().filter(|key| parent(key) == folder).filter_map(|key| record_project(key)));
        }
        let chooser = root.chooser.as_ref().map(|key| link(&root.pages, key));
        let html = root_html(names.iter().copied(), chooser.as_deref(), None);
        let json = root_json(names.iter().copied());
        self.check_ours(&join(&root.pages, HTML))?;
        self.put_pages(&root.pages, &html, &json)?;
        if self.options.json_root {
            self.put(join(&root.pages, &format!("{JSON_ROOT}/{HTML}")), json.as_bytes())?;
        }
        self.chooser(root)
    }

    /// Writes the page for people, which needs all projects.
    fn chooser(&mut self, root: &IndexRoot<'_>) -> Result<(), Error> {
        let (Some(key), Some(options)) = (&root.chooser, &self.options.chooser) else { return Ok(()) };
        if self.options.project.is_some() {
            return Ok(());
        }
        let mut page = ChooserPage::default();
        for (name, files) in &root.projects {
            page.add(&self.offered(name, files));
        }
        let folder = parent(key);
        let index = match relative(folder, &join(&root.pages, HTML)) {
            way if way.contains('/') => link(folder, &join(&root.pages, HTML)).trim_end_matches(HTML).to_owned(),
            _ => String::new(),
        };
        let find_links = root.find_links.as_ref().map(|page| link(folder, page));
        // The address of the folder is that of the page.
        let find_links = find_links.map(|page| page.trim_end_matches(HTML).to_owned());
        let html = page.finish(&index, find_links.as_deref(), options);
        self.check_ours(key)?;
        self.put(key.clone(), html.as_bytes())
    }

    fn offered(&self, name: &str, distributions: &[&Distribution]) -> OfferedProject {
        let files = distributions.iter().filter_map(|one| {
            let known = self.files.get(&one.file.key)?;
            Some(OfferedFile {
                version: one.version.clone(),
                tags: one.wheel.as_ref().map_or_else(String::new, |wheel| {
                    format!("{}-{}-{}", wheel.pythons.join("."), wheel.abis.join("."), wheel.platforms.join("."))
                }),
                requires_python: known.requires_python.clone(),
                needs: Arc::clone(&known.needs),
                rocm: known.rocm.clone(),
                uploaded: known.uploaded,
                yanked: self.status.yanked(one).map(str::to_owned),
            })
        });
        let (status, reason) = self.status.of_project(name);
        let status_reason = reason.map(str::to_owned);
        OfferedProject { name: name.to_owned(), status, status_reason, files: files.collect() }
    }

    /// Removes the pages for people that this program wrote where there should be none now.
    pub(super) fn remove_choosers(&mut self, roots: &[IndexRoot<'_>]) -> Result<(), Error> {
        for page in roots.iter().filter(|root| root.chooser.is_none()).map(IndexRoot::chooser_place) {
            let kept = roots.iter().any(|root| root.chooser.as_ref() == Some(&page));
            if kept || !self.others.contains_key(&page) || self.check_ours(&page).is_err() {
                continue;
            }
            if self.options.write {
                self.store.remove(&page)?;
            }
            self.changes.push(PageFile { page, change: PageChange::Removed });
        }
        Ok(())
    }

    fn projects(&mut self, root: &IndexRoot<'_>, records: &Records, reporter: &dyn Reporter) -> Result<(), Error> {
        for (name, distributions) in &root.projects {
            reporter.check()?;
            let record_key = known::key(&root.pages, name);
            let known: BTreeMap<String, KnownFile> = distributions
                .iter()
                .filter_map(|one| Some((one.file.key.clone(), self.files.get(&one.file.key)?.clone())))
                .collect();
            let folder = join(&root.pages, name);
            let project = self.project(name, distributions, &folder);
            let mut record = KnownProject::new(self.fingerprint(&project), known);
            let before = records.get(&record_key);
            if !before.is_some_and(|before| before.made_with == record.made_with && self.has_pages(before)) {
                if before.is_none() {
                    self.check_ours(&join(&folder, HTML))?;
                }
                let (html, json) = (project_html(&project), project_json(&project));
                record.pages = self.put_pages(&folder, &html, &json)?;
                if self.options.json_root {
                    let folder = join(&join(&root.pages, JSON_ROOT), name);
                    let json = project_json(&self.project(name, distributions, &folder));
                    let key = join(&folder, HTML);
                    self.put(key.clone(), json.as_bytes())?;
                    record.pages.insert(key, json.len() as u64);
                }
            } else if let Some(before) = before {
                record.pages.clone_from(&before.pages);
            }
            if self.options.write && before != Some(&record) {
                self.store.write(&record_key, &record.bytes())?;
            }
            reporter.advance(1);
        }
        Ok(())
    }

    /// A project with links that start in `folder`.
    fn project(&self, name: &str, distributions: &[&Distribution], folder: &str) -> IndexedProject {
        let files = distributions.iter().filter_map(|one| {
            let known = self.files.get(&one.file.key)?;
            Some(IndexedFile {
                name: one.name().to_owned(),
                url: self.store.address(&one.file).unwrap_or_else(|| link(folder, &one.file.key)),
                version: one.version.to_string(),
                size: known.size,
                sha256: known.sha256.clone(),
                requires_python: known.requires_python.clone(),
                metadata_sha256: known.metadata_sha256.clone().filter(|hash| self.has_metadata(&one.file.key, hash)),
                uploaded: Some(known.uploaded),
                yanked: self.status.yanked(one).map(str::to_owned),
                provenance: self.provenance(&one.file.key),
            })
        });
        let (status, reason) = self.status.of_project(name);
        let status_reason = reason.map(str::to_owned);
        IndexedProject { name: name.to_owned(), files: files.collect(), status, status_reason, generation: None }
    }

    /// `true` if METADATA with this hash is beside a wheel, or will be. One that differs would stop
    /// installers.
    fn has_metadata(&self, key: &str, hash: &str) -> bool {
        if self.store.takes_metadata() {
            return true;
        }
        let Some(file) = self.others.get(&format!("{key}.metadata")) else { return false };
        self.store.sha256(file).ok().flatten().is_some_and(|found| hexadecimal(&found) == hash)
    }

    /// The absolute address of a file's attestations.
    fn provenance(&self, key: &str) -> Option<String> {
        let attestations = format!("{key}.provenance");
        let address = self.options.address.as_ref()?;
        self.others.contains_key(&attestations).then(|| format!("{address}{}", link("", &attestations)))
    }

    /// Changes when pages would: the JSON of a project has all that they say.
    fn fingerprint(&self, project: &IndexedProject) -> String {
        let options = format!("{} {} ", env!("CARGO_PKG_VERSION"), self.options.json_root);
        hexadecimal(&sha256(format!("{options}{}", project_json(project)).as_bytes()))
    }

    fn has_pages(&self, record: &KnownProject) -> bool {
        record.pages.iter().all(|(key, size)| self.others.get(key).is_some_and(|page| page.size == *size))
    }

    /// The pages of a folder and their sizes.
    fn put_pages(&mut self, folder: &str, html: &str, json: &str) -> Result<BTreeMap<String, u64>, Error> {
        let mut pages = BTreeMap::new();
        for (name, text) in [(HTML, html), (VERSIONED_HTML, html), (JSON, json)] {
            let key = join(folder, name);
            self.put(key.clone(), text.as_bytes())?;
            pages.insert(key, text.len() as u64);
        }
        Ok(pages)
    }

    fn put(&mut self, key: String, bytes: &[u8]) -> Result<(), Error> {
        self.changes.extend(put(self.store, self.options.write, key, bytes)?);
        Ok(())
    }

    fn check_ours(&self, page: &str) -> Result<(), Error> {
        check_ours(self.store, self.options.replace_pages, page)
    }

    /// Removes the pages of projects and views that are no more.
    pub(super) fn remove_others(&mut self, roots: &[IndexRoot<'_>], records: &Records) -> Result<(), Error> {
        let kept: BTreeSet<String> = roots
            .iter()
            .flat_map(|root| root.projects.keys().map(|project| known::key(&root.pages, project)))
            .collect();
        let mut gone: BTreeSet<String> = BTreeSet::new();
        for (key, record) in records.iter().filter(|(key, _)| !kept.contains(*key)) {
            gone.extend(record.pages.keys().cloned());
            let folder = parent(key).strip_prefix(known::FOLDER).unwrap_or_default().trim_start_matches('/');
            if !roots.iter().any(|root| root.pages == folder) {
                gone.extend([HTML, VERSIONED_HTML, JSON].map(|name| join(folder, name)));
                gone.insert(join(folder, &format!("{JSON_ROOT}/{HTML}")));
            }
        }
        for page in gone.into_iter().filter(|page| self.others.contains_key(page)) {
            if self.options.write {
                self.store.remove(&page)?;
            }
            self.changes.push(PageFile { page, change: PageChange::Removed });
        }
        for key in records.keys().filter(|key| self.options.write && !kept.contains(*key)) {
            self.store.remove(key)?;
        }
        Ok(())
    }
}

/// A page that another program wrote is replaced only when the user says so.
pub(crate) fn check_ours(store: &dyn Store, replace_pages: bool, page: &str) -> Result<(), Error> {
    let Some(bytes) = store.read(page)? else { return Ok(()) };
    let is_ours = replace_pages || String::from_utf8_lossy(&bytes).contains(GENERATOR);
    if is_ours { Ok(()) } else { Err(Error::ForeignPage { page: join(&store.name(), page) }) }
}

/// Writes a page where it differs from the one of before; `write` is `false` for a dry run.
pub(crate) fn put(store: &dyn Store, write: bool, key: String, bytes: &[u8]) -> Result<Option<PageFile>, Error> {
    let change = match store.read(&key)? {
        Some(before) if before == bytes => return Ok(None),
        Some(_) => PageChange::Changed,
        None => PageChange::New,
    };
    if write {
        store.write(&key, bytes)?;
    }
    Ok(Some(PageFile { page: key, change }))
}

/// The project of a record.
fn record_project(key: &str) -> Option<&str> {
    rocwheel_content::archive_path::file_name(key).strip_suffix(".json")
}

/// The address of a file on a page in `folder`, percent-encoded.
pub(crate) fn link(folder: &str, key: &str) -> String {
    let way = relative(folder, key);
    way.split('/')
        .map(|part| if part == ".." { part.to_owned() } else { encoded_segment(part) })
        .collect::<Vec<_>>()
        .join("/")
}
