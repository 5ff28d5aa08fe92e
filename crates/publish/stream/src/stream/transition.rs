//! Input: a stream and the manifest that comes next. Output: the pages of that, in an order in
//! which every step can be installed from.
//!
//! Requirements between packages of a set are `==`, so a new version can be seen only through the
//! packages that people ask for. First new files are added to pages, required packages before those
//! that require them; then the first page changes; then old files are taken from pages, in the
//! opposite order. The head is last.
//!
//! What is under way is in `.release/pending.json` before the first page changes. A publisher that
//! finds it there finishes it, so a killed run is never half visible for longer than that.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use rocwheel_content::archive_path::{join, parent};
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_index::pages::{IndexedProject, page_generation};
use rocwheel_pages::chooser;
use rocwheel_progress::{Reporter, Unit};
use rocwheel_store::site::HTML;
use rocwheel_store::with_threads;
use serde::{Deserialize, Serialize};

use super::chooser_page::StreamView;
use super::manifest::{SCHEMA, SnapshotFile, SnapshotManifest, StreamHead};
use super::pages::{self, Pages};
use super::sets::ReleaseSet;
use super::{
    CHOOSER, HEAD, PENDING, SNAPSHOT_TYPE, SignedEnvelope, SigningKey, Stream, StreamFault, document_key,
    read_snapshot, set_key, signers_of, snapshot_key,
};
use crate::error::Error;

/// The next publication.
pub struct Transition {
    /// The next manifest, made by [`Stream::next`].
    pub manifest: SnapshotManifest,
    /// Sets that are new or changed, by name.
    pub sets: BTreeMap<String, ReleaseSet>,
}

/// A publication whose pages may have changed in part.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Pending {
    schema: u32,
    generation: u64,
    /// SHA-256 of the snapshot's file.
    sha256: String,
}

impl Stream<'_> {
    /// Makes a publication the present one. The caller holds the lock. The answer is the keys of
    /// the pages that changed.
    ///
    /// # Errors
    /// [`StreamFault::Raced`] when another publisher was quicker, whose work is untouched; what
    /// cannot be written. After that, the next publisher finishes this publication.
    pub fn commit(
        &mut self,
        next: Transition,
        keys: &[SigningKey],
        reporter: &dyn Reporter,
    ) -> Result<Vec<String>, Error> {
        let Transition { mut manifest, sets } = next;
        self.check_head()?;
        for (name, set) in sets {
            let bytes = set.bytes();
            let digest = hexadecimal(&sha256(&bytes));
            self.store.write(&document_key(&digest), &bytes)?;
            manifest.sets.insert(name, digest);
        }
        let number = manifest.number;
        let sealed = SignedEnvelope::seal(SNAPSHOT_TYPE, &manifest.payload(), keys);
        let envelope = sealed.bytes();
        self.put_snapshot(number, &envelope)?;
        let head = StreamHead::new(number, &envelope);
        let pending = Pending { schema: SCHEMA, generation: number, sha256: head.sha256.clone() };
        let bytes = serde_json::to_vec(&pending).expect("all keys are text");
        self.replace(PENDING, &bytes)?;
        let written = self.finish(manifest, head, reporter)?;
        self.signers = signers_of(&sealed);
        Ok(written)
    }

    /// Writes the snapshot of the next publication. One of that number may be left of a run that
    /// was killed before it changed a page, and is replaced; one of a run that is ahead is not.
    fn put_snapshot(&self, number: u64, envelope: &[u8]) -> Result<(), Error> {
        let key = snapshot_key(number);
        let left = self.store.read(&key)?;
        if left.as_deref() == Some(envelope) {
            return Ok(());
        }
        if left.is_some() {
            // `pending.json` names a run that is ahead, until the head does.
            if self.store.read(PENDING)?.is_some() {
                return Err(self.raced());
            }
            self.check_head()?;
        }
        if self.store.compare_and_swap(&key, left.as_deref(), envelope)? { Ok(()) } else { Err(self.raced()) }
    }

    /// Finishes the publication that a killed publisher left.
    pub(super) fn recover(&mut self, reporter: &dyn Reporter) -> Result<(), Error> {
        let Some(bytes) = self.store.read(PENDING)? else { return Ok(()) };
        let pending = serde_json::from_slice::<Pending>(&bytes)
            .ok()
            .filter(|pending| pending.schema == SCHEMA && pending.generation == self.manifest.number + 1);
        if let Some(pending) = pending {
            match read_snapshot(self.store, pending.generation, Some(&pending.sha256)) {
                Ok((manifest, envelope)) if manifest.previous == self.head_sha256() => {
                    reporter.warn(&format!("finishing what another run began: {}", manifest.action));
                    let head = StreamHead { sha256: pending.sha256, ..StreamHead::new(pending.generation, &[]) };
                    self.finish(manifest, head, reporter)?;
                    self.signers = signers_of(&envelope);
                    return Ok(());
                }
                Ok(_) => {}
                // Another run's snapshot has replaced it, so no page of it had changed: the request
                // arrived after its run had lost the lock.
                Err(Error::Stream(StreamFault::Altered { .. }))
                    if read_snapshot(self.store, pending.generation, None).is_ok() => {}
                Err(error) => return Err(error),
            }
        }
        // It was finished, and its last step is missing.
        Ok(self.store.remove(PENDING)?)
    }

    /// Writes pages, sets and head.
    fn finish(
        &mut self,
        manifest: SnapshotManifest,
        head: StreamHead,
        reporter: &dyn Reporter,
    ) -> Result<Vec<String>, Error> {
        let changed = Change::new(&self.manifest, &manifest);
        // A set that is not whole any more must not look whole.
        for name in self.manifest.sets.keys().filter(|name| !manifest.sets.contains_key(*name)) {
            self.store.remove(&set_key(name))?;
        }
        reporter.begin("Writing pages", Some(changed.projects.len() as u64), Unit::Items);
        let written = self.write_pages(&changed, reporter);
        reporter.end();
        let written = written?;
        for (name, digest) in &manifest.sets {
            if self.manifest.sets.get(name) != Some(digest) {
                let set = self.document(name, digest)?;
                self.replace(&set_key(name), &set.bytes())?;
            }
        }
        let before = self.head.as_ref().map(|(_, bytes)| bytes.as_slice());
        let bytes = head.bytes();
        if !self.store.compare_and_swap(HEAD, before, &bytes)? {
            return Err(self.raced());
        }
        self.head = Some((head, bytes));
        self.manifest = manifest;
        self.store.remove(PENDING)?;
        Ok(written)
    }

    /// Errors if there was a publication since this one was planned. A run that slept for longer
    /// than a lock lives must not write over that.
    fn check_head(&self) -> Result<(), Error> {
        let before = self.head.as_ref().map(|(_, bytes)| bytes.as_slice());
        if self.store.read(HEAD)?.as_deref() == before { Ok(()) } else { Err(self.raced()) }
    }

    fn raced(&self) -> Error {
        StreamFault::Raced { store: self.store.name() }.into()
    }

    fn write_pages(&self, change: &Change<'_>, reporter: &dyn Reporter) -> Result<Vec<String>, Error> {
        let mut written = Vec::new();
        let generation = change.after.number;
        let requires: BTreeMap<String, BTreeSet<String>> = merged(&change.before.requires, &change.after.requires);
        let levels = pages::levels(&change.projects, &requires);
        let views = ChangedViews::new(change);
        let has_button = self.store.read(CHOOSER)?.is_some();
        // The pages of a level do not require each other, so they change at the same time.
        for level in &levels {
            written.extend(self.at_once(level, |name| {
                reporter.check()?;
                let page = pages::project(&change.both, name);
                if page == pages::project(change.before, name) {
                    return Ok(Vec::new());
                }
                let mut written = self.put_views(&views.after, &page, generation)?;
                written.extend(self.put(pages::project_pages(page, generation), generation)?);
                Ok(written)
            })?);
        }
        let (before, after) = (change.before.projects(), change.after.projects());
        for name in after.iter().filter(|name| !views.new.is_empty() && !change.projects.contains(*name)) {
            written.extend(self.put_views(&views.new, &pages::project(change.after, name), generation)?);
        }
        for view in &views.after {
            let page = view.root_pages(change.after, generation);
            if views.new.contains(view) || page != view.root_pages(change.before, generation) {
                written.extend(self.put(page, generation)?);
            }
        }
        let gets_button = self.chooser.is_some() && !has_button;
        if before != after || change.before.number == 0 || gets_button {
            let chooser = (has_button || gets_button).then_some(chooser::FILE);
            written.extend(self.put(pages::root_pages(&after, chooser, generation), generation)?);
        }
        for level in levels.iter().rev() {
            written.extend(self.at_once(level, |name| {
                reporter.check()?;
                reporter.advance(1);
                self.take_from_page(change, &views, name)
            })?);
        }
        for view in &views.removed {
            written.extend(self.remove(&view.page_keys(""))?);
            for name in &before {
                let page = pages::project(change.before, name);
                if view.project_pages(&page, generation).is_some() {
                    written.extend(self.remove(&view.page_keys(name))?);
                }
            }
        }
        if let Some(options) = &self.chooser {
            let (page, record) = self.chooser_page(change.before, change.after, options)?;
            written.extend(self.put(vec![(chooser::FILE.to_owned(), page)], generation)?);
            self.replace(CHOOSER, &record)?;
        }
        Ok(written)
    }

    /// Replaces the pages of a project, which have the files of both snapshots.
    fn take_from_page(&self, change: &Change<'_>, views: &ChangedViews, name: &str) -> Result<Vec<String>, Error> {
        let (page, both) = (pages::project(change.after, name), pages::project(&change.both, name));
        if page == both {
            return Ok(Vec::new());
        }
        let (generation, mut written) = (change.after.number, Vec::new());
        for view in &views.after {
            match view.project_pages(&page, generation) {
                Some(pages) => written.extend(self.put(pages, generation)?),
                None if view.project_pages(&both, generation).is_some() => {
                    written.extend(self.remove(&view.page_keys(name))?);
                }
                None => {}
            }
        }
        written.extend(if page.files.is_empty() {
            self.remove(&pages::page_keys(name))?
        } else {
            self.put(pages::project_pages(page, generation), generation)?
        });
        Ok(written)
    }

    /// Does some work for each project of a level, with as many threads as the store deserves.
    fn at_once(
        &self,
        level: &[&str],
        work: impl Fn(&&str) -> Result<Vec<String>, Error> + Sync + Send,
    ) -> Result<Vec<String>, Error> {
        let done = with_threads(self.store, || level.par_iter().map(work).collect::<Result<Vec<_>, _>>());
        Ok(done?.into_iter().flatten().collect())
    }

    /// Writes the pages of a project in views that list it.
    fn put_views(
        &self,
        views: &BTreeSet<StreamView>,
        page: &IndexedProject,
        generation: u64,
    ) -> Result<Vec<String>, Error> {
        let mut written = Vec::new();
        for pages in views.iter().filter_map(|view| view.project_pages(page, generation)) {
            written.extend(self.put(pages, generation)?);
        }
        Ok(written)
    }

    fn remove(&self, keys: &[String; 3]) -> Result<Vec<String>, Error> {
        keys.iter().try_for_each(|key| self.store.remove(key))?;
        Ok(keys.to_vec())
    }

    fn put(&self, pages: Pages, generation: u64) -> Result<Vec<String>, Error> {
        let Some((first, _)) = pages.first() else { return Ok(Vec::new()) };
        let main = join(parent(first), HTML);
        if self.store.read(&main)?.map_or(0, |page| page_generation(&page)) > generation {
            return Err(self.raced());
        }
        let mut written = Vec::new();
        for (key, bytes) in pages {
            if self.replace(&key, &bytes)? {
                written.push(key);
            }
        }
        Ok(written)
    }

    /// Writes a small file unless it has these bytes; `false` if it has. Fails and changes nothing
    /// if another publisher wrote it first.
    fn replace(&self, key: &str, bytes: &[u8]) -> Result<bool, Error> {
        let before = self.store.read(key)?;
        if before.as_deref() == Some(bytes) {
            return Ok(false);
        }
        let is_written = self.store.compare_and_swap(key, before.as_deref(), bytes)?;
        if is_written { Ok(true) } else { Err(self.raced()) }
    }
}

struct ChangedViews {
    after: BTreeSet<StreamView>,
    /// Those that only the second manifest has: they have no pages yet.
    new: BTreeSet<StreamView>,
    /// Those that only the first manifest has.
    removed: BTreeSet<StreamView>,
}

impl ChangedViews {
    fn new(change: &Change<'_>) -> ChangedViews {
        let before = StreamView::all(change.before);
        let after = StreamView::all(change.after);
        let new = after.difference(&before).cloned().collect();
        ChangedViews { new, removed: before.difference(&after).cloned().collect(), after }
    }
}

/// What differs between two manifests.
struct Change<'a> {
    before: &'a SnapshotManifest,
    after: &'a SnapshotManifest,
    /// The changed projects, with the files of both. Files that either has not withdrawn are not.
    both: SnapshotManifest,
    projects: BTreeSet<&'a str>,
}

impl<'a> Change<'a> {
    fn new(before: &'a SnapshotManifest, after: &'a SnapshotManifest) -> Change<'a> {
        let mut projects: BTreeSet<&str> = before.projects();
        projects.extend(after.projects());
        if before.notice == after.notice && before.address == after.address {
            projects.retain(|name| !before.files_of(name).eq(after.files_of(name)));
        }
        let mut both = SnapshotManifest {
            notice: after.notice.clone(),
            address: after.address.clone(),
            ..SnapshotManifest::empty(&after.stream)
        };
        for name in &projects {
            both.files.extend(before.files_of(name).map(|(key, file)| (key.clone(), file.clone())));
            for (key, file) in after.files_of(name) {
                let yanked =
                    file.yanked.clone().filter(|_| before.files.get(key).is_none_or(|old| old.yanked.is_some()));
                both.files.insert(key.clone(), SnapshotFile { yanked, ..file.clone() });
            }
        }
        Change { before, after, both, projects }
    }
}

fn merged(
    one: &BTreeMap<String, BTreeSet<String>>,
    other: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut merged = one.clone();
    for (name, requires) in other {
        merged.entry(name.clone()).or_default().extend(requires.iter().cloned());
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rocwheel_progress::Silent;
    use rocwheel_store::{FolderStore, Store};

    use super::*;
    use crate::stream::{StreamChange, UnsignedChange};

    /// A publication of one file.
    fn next(stream: &Stream<'_>, name: &str) -> Transition {
        let (now, patience) = ("2026-11-20T01:02:03Z".parse().unwrap(), Duration::ZERO);
        let unsigned = UnsignedChange::Refuse;
        let change = StreamChange { stream: "s", now, keys: &[], unsigned, patience, chooser: None, write: true };
        let mut manifest = stream.next(&change, format!("publish {name}"));
        let row = serde_json::json!({ "size": 1, "sha256": "0", "uploaded": now, "set": name });
        let file: SnapshotFile = serde_json::from_value(row).unwrap();
        manifest.files.insert(format!("{name}/{name}-1-py3-none-any.whl"), file);
        Transition { manifest, sets: BTreeMap::new() }
    }

    /// A publisher whose lock another one has taken over, because it slept.
    #[test]
    fn a_publisher_that_slept_writes_over_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        let mut slow = Stream::read(&store, "s").unwrap();
        let mut quick = Stream::read(&store, "s").unwrap();
        let late = next(&slow, "slow");
        quick.commit(next(&quick, "quick"), &[], &Silent).unwrap();
        let snapshot = store.read(&snapshot_key(1)).unwrap();
        let error = slow.commit(late, &[], &Silent).unwrap_err();
        assert!(matches!(error, Error::Stream(StreamFault::Raced { .. })), "{error}");
        assert_eq!(store.read(&snapshot_key(1)).unwrap(), snapshot, "the other's snapshot is as it was");
        assert!(store.read("slow/index.html").unwrap().is_none());
        let listed = String::from_utf8(store.read("index.html").unwrap().unwrap()).unwrap();
        assert!(listed.contains("quick/") && !listed.contains("slow/"), "{listed}");
    }

    #[test]
    fn only_a_snapshot_of_a_killed_run_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        let mut stream = Stream::read(&store, "s").unwrap();
        store.write(&snapshot_key(1), b"of another run").unwrap();
        store.write(PENDING, b"{}").unwrap();
        let publication = next(&stream, "a");
        let error = stream.commit(publication, &[], &Silent).unwrap_err();
        assert!(matches!(error, Error::Stream(StreamFault::Raced { .. })), "{error}");
        assert_eq!(store.read(&snapshot_key(1)).unwrap().unwrap(), b"of another run");
        assert_eq!(store.read(PENDING).unwrap().unwrap(), b"{}");
        store.remove(PENDING).unwrap();
        let publication = next(&stream, "a");
        stream.commit(publication, &[], &Silent).unwrap();
        assert_eq!(Stream::existing(&store, "s").unwrap().manifest.number, 1);
    }

    #[test]
    fn a_note_that_arrived_late_blocks_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        let mut stream = Stream::read(&store, "s").unwrap();
        let publication = next(&stream, "a");
        stream.commit(publication, &[], &Silent).unwrap();
        let pending = Pending { schema: SCHEMA, generation: 2, sha256: "0".repeat(64) };
        let note = serde_json::to_vec(&pending).unwrap();
        store.write(PENDING, &note).unwrap();
        // A damaged snapshot may be the one that the note is about.
        store.write(&snapshot_key(2), b"damaged").unwrap();
        let error = stream.recover(&Silent).unwrap_err();
        assert!(matches!(error, Error::Stream(StreamFault::Altered { .. })), "{error}");
        let other = SignedEnvelope::seal(SNAPSHOT_TYPE, &next(&stream, "b").manifest.payload(), &[]);
        store.write(&snapshot_key(2), &other.bytes()).unwrap();
        stream.recover(&Silent).unwrap();
        assert_eq!(store.read(PENDING).unwrap(), None);
        let publication = next(&stream, "c");
        stream.commit(publication, &[], &Silent).unwrap();
        assert_eq!(Stream::existing(&store, "s").unwrap().manifest.number, 2);
    }
}
