//! Input: the manifest of a stream. Output: its page for people, and smaller indexes over its files
//! for each Python or GPU target.
//!
//! What packages require is in the descriptions of sets, which are large. The data of the page is
//! kept in `.release/chooser.json`, so that only those of changed projects are read again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use pep440_rs::Version;
use rayon::prelude::*;
use rocwheel_content::archive_path::{file_name, join, parent};
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_index::pages::{IndexedProject, ProjectStatus, project_html, project_json, root_html, root_json_of};
use rocwheel_pages::chooser::{self, ChooserData, ChooserProject, OfferedFile, OfferedProject, needs_of_lists};
use rocwheel_pages::page_file::is_ours;
use rocwheel_pages::views::pythons;
use rocwheel_pages::{ChangedVersion, ChooserOptions, IndexChanges, IndexView};
use rocwheel_store::listing::distribution_of;
use rocwheel_store::site::HTML;
use rocwheel_store::with_threads;

use super::manifest::{SnapshotChanges, SnapshotFile, SnapshotManifest};
use super::pages::{self, Pages};
use super::{CHOOSER, Stream, StreamChange, StreamFault, is_stream_folder};
use crate::error::Error;

/// What a file requires, as the page has it, and the version of ROCm that it pins.
type Needs = (Arc<str>, Option<Arc<str>>);

impl Stream<'_> {
    /// The page for people, and the record that the next publication begins with.
    pub(super) fn chooser_page(
        &self,
        before: &SnapshotManifest,
        after: &SnapshotManifest,
        options: &ChooserOptions,
    ) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let kept = self.store.read(CHOOSER)?;
        let mut data = kept.as_deref().and_then(ChooserData::parse).unwrap_or_default();
        let names = after.projects();
        data.projects.retain(|name, _| names.contains(name.as_str()));
        let mut changed: BTreeMap<&str, String> = names.iter().map(|name| (*name, seen(after, name))).collect();
        changed.retain(|name, seen| data.projects.get(*name).is_none_or(|entry| entry.seen != *seen));
        let needs = self.needs(after, &changed)?;
        for (name, seen) in &changed {
            data.add(name, ChooserProject::new(&offered(after, name, &needs), seen));
        }
        let data = data.ordered();
        let changes = (before.number > 0).then(|| changes(before, after));
        let page = data.page("", None, &ChooserOptions { changes, ..options.clone() });
        Ok((page.into_bytes(), data.record()))
    }

    /// Errors for pages that another program wrote and that a publication would replace.
    ///
    /// # Errors
    /// [`StreamFault::ForeignPage`]; [`StreamFault::InnerStream`] for those of another stream; what
    /// cannot be read.
    pub fn check_pages(&self, after: &SnapshotManifest, change: &StreamChange<'_>) -> Result<(), Error> {
        let (old_names, old_views) = (self.manifest.projects(), StreamView::all(&self.manifest));
        let views = StreamView::all(after);
        let mut pages: Vec<String> = Vec::new();
        for name in after.projects().difference(&old_names) {
            pages.push(join(name, HTML));
            pages.extend(views.iter().map(|view| join(&join(&view.folder(), name), HTML)));
        }
        pages.extend(views.difference(&old_views).map(|view| join(&view.folder(), HTML)));
        if change.chooser.is_some() && self.store.read(CHOOSER)?.is_none() {
            pages.push(chooser::FILE.to_owned());
        }
        with_threads(self.store, || pages.par_iter().try_for_each(|page| self.check_page(page)))
    }

    fn check_page(&self, page: &str) -> Result<(), Error> {
        let folder = parent(page);
        if !folder.is_empty() && is_stream_folder(self.store, folder)? {
            return Err(StreamFault::InnerStream { folder: join(&self.store.name(), folder) }.into());
        }
        if is_ours(self.store, page)? {
            return Ok(());
        }
        Err(StreamFault::ForeignPage { page: join(&self.store.name(), page) }.into())
    }

    /// What the files of these projects require, by key. One set is in memory at a time.
    fn needs(
        &self,
        manifest: &SnapshotManifest,
        names: &BTreeMap<&str, String>,
    ) -> Result<HashMap<String, Needs>, Error> {
        let sets: BTreeSet<&str> =
            names.keys().flat_map(|name| manifest.files_of(name)).map(|(_, file)| file.set.as_str()).collect();
        let mut texts: HashMap<String, Arc<str>> = HashMap::new();
        let mut needs = HashMap::new();
        for name in sets {
            let Some(digest) = manifest.sets.get(name) else { continue };
            for (key, file) in self.document(name, digest)?.files {
                if names.contains_key(parent(&key)) {
                    let version = distribution_of(&key).map(|one| one.version);
                    let (text, rocm) = needs_of_lists(version, file.extras.into_iter().collect(), &file.requires);
                    needs.insert(key, (shared(&mut texts, text), rocm.map(|rocm| shared(&mut texts, rocm))));
                }
            }
        }
        Ok(needs)
    }
}

/// A digest of what the page has of a project.
fn seen(manifest: &SnapshotManifest, name: &str) -> String {
    let files: BTreeMap<&String, &SnapshotFile> = manifest.files_of(name).collect();
    let sets: BTreeSet<&String> = files.values().filter_map(|file| manifest.sets.get(&file.set)).collect();
    let seen = serde_json::to_vec(&(env!("CARGO_PKG_VERSION"), &manifest.notice, sets, files));
    hexadecimal(&sha256(&seen.unwrap_or_default()))
}

fn offered(manifest: &SnapshotManifest, name: &str, needs: &HashMap<String, Needs>) -> OfferedProject {
    let files = manifest.files_of(name).filter_map(|(key, file)| {
        let one = distribution_of(key)?;
        let (needs, rocm) = needs.get(key).cloned().unwrap_or_else(|| {
            let (text, _) = needs_of_lists(None, Vec::new(), &[]);
            (text.into(), None)
        });
        Some(OfferedFile {
            tags: one.wheel.as_ref().map_or_else(String::new, |wheel| {
                format!("{}-{}-{}", wheel.pythons.join("."), wheel.abis.join("."), wheel.platforms.join("."))
            }),
            version: one.version,
            requires_python: file.requires_python.as_deref().map(Into::into),
            needs,
            rocm,
            uploaded: file.uploaded,
            yanked: file.yanked.clone(),
        })
    });
    let (status, status_reason) = match &manifest.notice {
        Some(notice) => (ProjectStatus::Deprecated, Some(notice.text())),
        None => (ProjectStatus::Active, None),
    };
    OfferedProject { name: name.to_owned(), status, status_reason, files: files.collect() }
}

fn shared(texts: &mut HashMap<String, Arc<str>>, text: String) -> Arc<str> {
    Arc::clone(texts.entry(text).or_insert_with_key(|text| text.as_str().into()))
}

/// The versions that a publication adds, removes and withdraws.
fn changes(before: &SnapshotManifest, after: &SnapshotManifest) -> IndexChanges {
    let found = SnapshotChanges::between(before, after);
    let day: String = before.created.to_string().chars().take(10).collect();
    IndexChanges {
        since: format!("{day} (publication {})", before.number),
        added: changed_versions(&found.added),
        removed: changed_versions(&found.removed),
        withdrawn: changed_versions(&found.yanked),
    }
}

fn changed_versions(keys: &[String]) -> Vec<ChangedVersion> {
    let mut counts: BTreeMap<(String, Version), usize> = BTreeMap::new();
    for one in keys.iter().filter_map(|key| distribution_of(key)) {
        *counts.entry((one.project, one.version)).or_default() += 1;
    }
    let counts = counts.into_iter();
    counts.map(|((project, version), files)| ChangedVersion { project, version: version.to_string(), files }).collect()
}

/// A smaller index over the files of a stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamView {
    view: IndexView,
    name: String,
}

impl StreamView {
    pub(super) fn all(manifest: &SnapshotManifest) -> BTreeSet<StreamView> {
        let views = &manifest.views;
        let mut projects: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        if !views.is_empty() {
            for one in manifest.files.keys().filter_map(|key| distribution_of(key)) {
                let compiled: Vec<String> = one.parts().iter().flat_map(pythons).map(str::to_owned).collect();
                projects.entry(one.project).or_default().extend(compiled);
            }
        }
        let named = views
            .iter()
            .flat_map(|view| view.names(&projects).into_iter().map(|name| StreamView { view: *view, name }));
        named.collect()
    }

    fn has(&self, file_name: &str) -> bool {
        distribution_of(file_name).is_some_and(|one| self.view.has(&one, &self.name))
    }

    /// The folder of its first page.
    fn folder(&self) -> String {
        join(self.view.folder(), &self.name)
    }

    /// The files of a project's page; none if the view has no file of it.
    pub(super) fn project_pages(&self, project: &IndexedProject, generation: u64) -> Option<Pages> {
        let mut project = IndexedProject { generation: Some(generation), ..project.clone() };
        project.files.retain(|file| self.has(&file.name));
        if project.files.is_empty() {
            return None;
        }
        for file in &mut project.files {
            // From the folder of the view's page to that of the files.
            file.url = format!("../../../{}/{}", project.name, file.url);
        }
        let folder = join(&self.folder(), &project.name);
        Some(pages::three(&folder, &project_html(&project), &project_json(&project)))
    }

    /// The keys of a project's page.
    pub(super) fn page_keys(&self, project: &str) -> [String; 3] {
        pages::page_keys(&join(&self.folder(), project))
    }

    /// The files of its first page.
    pub(super) fn root_pages(&self, manifest: &SnapshotManifest, generation: u64) -> Pages {
        let keys = manifest.files.keys().filter(|key| self.has(file_name(key)));
        let names: BTreeSet<&str> = keys.map(|key| parent(key)).collect();
        let html = root_html(names.iter().copied(), None, Some(generation));
        pages::three(&self.folder(), &html, &root_json_of(names.iter().copied(), Some(generation)))
    }
}
