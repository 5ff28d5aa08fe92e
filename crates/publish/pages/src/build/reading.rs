//! Input: listed files and the records of the last run. Output: the facts that pages need, of
//! projects whose pages have to be made. Only new and changed files are read.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use jiff::Timestamp;
use rayon::prelude::*;
use rocwheel_content::archive_path::{file_name, parent};
use rocwheel_content::{Digest, Sha256, hexadecimal};
use rocwheel_index::companion::ATTESTATIONS;
use rocwheel_progress::{Reporter, Unit};
use rocwheel_store::listing::{Candidate, clashes, distribution};
use rocwheel_store::site::JSON;
use rocwheel_store::{Error as StoreError, Store, StoredFile};
use rocwheel_wheel::WheelName;
use serde::Deserialize;

use super::work::{ProjectState, Work};
use crate::attestations::check_attestations;
use crate::catalog::{ListedFile, ListedProject};
use crate::error::Error;
use crate::facts::{DistributionFacts, FactsFault};
use crate::layout::IndexRoot;
use crate::record::{self, KnownFile, RecordedFile, Texts};

/// The projects of an index.
pub(super) struct ReadProjects<'a> {
    pub(super) projects: Vec<ProjectState<'a>>,
    pub(super) files: usize,
    pub(super) bytes: u64,
}

/// What is known of a file while others are read.
enum Slot {
    Known(KnownFile),
    /// The SHA-256 and the time of publication that the record has of it.
    Unread(Option<Box<(Digest, Timestamp)>>),
    Read(KnownFile, Option<Box<(Digest, Timestamp)>>),
}

/// A project before its files are read.
struct Looked<'a> {
    name: &'a str,
    listed: &'a ListedProject,
    seen: String,
    /// `true` if its pages need not be made again.
    is_current: bool,
    /// One for each file; none if no page needs the facts.
    slots: Mutex<Vec<Slot>>,
}

impl Looked<'_> {
    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The upload times of a page that this program wrote.
#[derive(Deserialize)]
struct OldPage {
    files: Vec<OldFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct OldFile {
    filename: String,
    hashes: BTreeMap<String, String>,
    upload_time: Option<Timestamp>,
}

#[derive(Default)]
struct Found {
    texts: Texts,
    problems: Vec<String>,
    bytes: u64,
    /// The sizes of the remote files that were read to the end.
    downloads: Vec<u64>,
}

/// Finds out what pages say of each file.
pub(super) struct Reading<'a> {
    pub(super) work: &'a Work<'a>,
    pub(super) began: SystemTime,
}

impl<'a> Reading<'a> {
    /// Reads the distributions that are new or changed. `problems` are those of their names.
    pub(super) fn projects(
        &self,
        mut problems: Vec<String>,
        reporter: &dyn Reporter,
    ) -> Result<ReadProjects<'a>, Error> {
        let (mut projects, clashes) = self.look_at_all()?;
        problems.extend(clashes);
        let mut found = self.read(&projects, reporter)?;
        problems.append(&mut found.problems);
        if self.work.options.address.is_some() {
            for one in &projects {
                problems.extend(self.problems_of_attestations(one)?);
            }
        }
        if !problems.is_empty() {
            problems.sort();
            return Err(StoreError::Files { problems }.into());
        }
        let read = projects.iter().map(|one| one.slots().iter().filter(|slot| matches!(slot, Slot::Read(..))).count());
        let files = read.sum();
        warn_of_downloads(&found.downloads, files, self.work.store, reporter);
        let states = projects.drain(..).map(|one| self.finish(one, reporter)).collect::<Result<_, _>>()?;
        Ok(ReadProjects { projects: states, files, bytes: found.bytes })
    }

    fn look_at_all(&self) -> Result<(Vec<Looked<'a>>, Vec<String>), Error> {
        let all: Vec<_> = self.work.catalog.projects.iter().collect();
        let looked = all.into_par_iter().map(|(name, listed)| self.look(name, listed, false));
        let looked: Vec<(Looked<'a>, Vec<String>)> = looked.collect::<Result<_, Error>>()?;
        let (mut looked, problems): (Vec<_>, Vec<_>) = looked.into_iter().unzip();
        // A page for `--find-links` has the files of all projects.
        if self.work.roots.iter().any(|root| root.find_links.is_some())
            && (looked.iter().any(|one| !one.is_current) || !self.work.has_find_links())
        {
            looked = looked
                .into_par_iter()
                .map(|one| if one.slots().is_empty() { Ok(self.look(one.name, one.listed, true)?.0) } else { Ok(one) })
                .collect::<Result<_, Error>>()?;
        }
        Ok((looked, problems.concat()))
    }

    /// Compares the files of a project with its record. `needs_facts` asks for them even if nothing
    /// changed.
    fn look(
        &self,
        name: &'a str,
        listed: &'a ListedProject,
        needs_facts: bool,
    ) -> Result<(Looked<'a>, Vec<String>), Error> {
        let work = self.work;
        let seen = self.seen(name, listed)?;
        let is_current = listed.files.iter().all(|file| self.has_metadata(file))
            && work.heads.get(name).is_some_and(|head| head.seen == seen && work.has_pages(head));
        let mut looked = Looked { name, listed, seen, is_current, slots: Mutex::default() };
        if is_current && !needs_facts && work.is_offered(name, &looked.seen) {
            return Ok((looked, Vec::new()));
        }
        let mut problems = Vec::new();
        if !is_current {
            for root in work.roots.iter().filter(|root| root.view.is_none()) {
                problems.extend(problems_of(name, listed, root));
            }
            problems.sort();
            problems.dedup();
        }
        let record = work.store.read(&record::files_key(name))?;
        let recorded = record.as_deref().and_then(record::parse_files).unwrap_or_default();
        let slots = listed.files.iter().map(|file| match find(&recorded, &file.file.key) {
            Some(found) if found.is_of(&file.file) && self.has_metadata(file) => Slot::Known(found.known.clone()),
            found => Slot::Unread(found.map(|one| Box::new((one.known.sha256, one.known.uploaded)))),
        });
        let slots: Vec<Slot> = slots.collect();
        looked.is_current &= slots.iter().all(|slot| matches!(slot, Slot::Known(_)));
        looked.slots = Mutex::new(slots);
        Ok((looked, problems))
    }

    /// `false` for a wheel whose METADATA was removed: it is read again.
    fn has_metadata(&self, file: &ListedFile) -> bool {
        file.has_metadata || !self.work.store.takes_metadata() || !WheelName::is_wheel(file_name(&file.file.key))
    }

    /// A digest of everything that the pages of a project are made of. The facts in a file do not
    /// change while its size and stamp stay.
    fn seen(&self, name: &str, listed: &ListedProject) -> Result<String, Error> {
        let Work { store, options, roots, status, .. } = self.work;
        let mut hasher = Sha256::new();
        add_text(&mut hasher, env!("CARGO_PKG_VERSION"));
        add_text(&mut hasher, if options.json_root { "json root" } else { "" });
        add_text(&mut hasher, options.address.as_deref().unwrap_or_default());
        add_text(&mut hasher, &status.rows_of(name));
        roots.iter().for_each(|root| add_text(&mut hasher, &root.pages));
        for ListedFile { file, has_metadata, has_attestations } in &listed.files {
            add_text(&mut hasher, &file.key);
            add_text(&mut hasher, &file.size.to_string());
            add_text(&mut hasher, &file.stamp);
            if options.address.is_some() {
                add_text(&mut hasher, if *has_attestations { "attested" } else { "" });
            }
            if let Some(address) = store.address(file) {
                add_text(&mut hasher, &address);
            }
            if !store.takes_metadata() {
                let digest = if *has_metadata { self.work.stored_metadata(&file.key)? } else { None };
                add_text(&mut hasher, &digest.map(|digest| hexadecimal(&digest)).unwrap_or_default());
            }
        }
        Ok(hexadecimal(&hasher.finish()))
    }

    fn read(&self, projects: &[Looked<'a>], reporter: &dyn Reporter) -> Result<Found, Error> {
        let mut unread: Vec<(&Looked<'a>, usize)> = Vec::new();
        for one in projects {
            let slots = one.slots();
            let unread_slots = slots.iter().enumerate().filter(|(_, slot)| matches!(slot, Slot::Unread(_)));
            unread.extend(unread_slots.map(|(at, _)| (one, at)));
        }
        let total = unread.iter().map(|(one, at)| one.listed.files[*at].file.size).sum();
        let stage = reporter.stage("Reading new files", Some(total), Unit::Bytes);
        let found = Mutex::new(Found::default());
        unread.par_iter().try_for_each(|(one, at)| {
            reporter.check()?;
            self.read_file(one, *at, &found, reporter)
        })?;
        drop(stage);
        Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn read_file(
        &self,
        one: &Looked<'_>,
        at: usize,
        found: &Mutex<Found>,
        reporter: &dyn Reporter,
    ) -> Result<(), Error> {
        let file: &StoredFile = &one.listed.files[at].file;
        let Some(distribution) = distribution(file.clone()) else { return Ok(()) };
        let facts = DistributionFacts::read(self.work.store, &distribution, reporter);
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        match facts {
            Ok(facts) => {
                found.bytes += facts.bytes;
                if facts.downloaded {
                    found.downloads.push(file.size);
                }
                let known = KnownFile::new(file, &facts, &mut found.texts, self.began);
                let slot = &mut one.slots()[at];
                let before = if let Slot::Unread(before) = slot { before.take() } else { None };
                *slot = Slot::Read(known, before);
            }
            Err(FactsFault::Store(error)) => return Err(error),
            Err(FactsFault::File(reason)) => {
                reporter.check()?;
                found.problems.push(format!("`{}`: {reason}", file.key));
            }
        }
        Ok(())
    }

    fn problems_of_attestations(&self, one: &Looked<'_>) -> Result<Vec<String>, Error> {
        let mut problems = Vec::new();
        for (slot, ListedFile { file, has_attestations, .. }) in one.slots().iter().zip(&one.listed.files) {
            let (Slot::Known(known) | Slot::Read(known, _)) = slot else { continue };
            if one.is_current || !has_attestations {
                continue;
            }
            let Some(bytes) = self.work.store.read(&format!("{}{ATTESTATIONS}", file.key))? else { continue };
            let checked = check_attestations(&bytes, file_name(&file.key), &hexadecimal(&known.sha256));
            problems.extend(checked.err().map(|reason| format!("`{}`: {reason}", file.key)));
        }
        Ok(problems)
    }

    /// Gives files that were read their time of publication.
    fn finish(&self, one: Looked<'a>, reporter: &dyn Reporter) -> Result<ProjectState<'a>, Error> {
        let Looked { name, listed, seen, is_current, slots } = one;
        let slots = slots.into_inner().unwrap_or_else(PoisonError::into_inner);
        let has_read = slots.iter().any(|slot| matches!(slot, Slot::Read(..)));
        let times = if has_read { self.old_times(name)? } else { BTreeMap::new() };
        let (mut known, mut read) = (Vec::with_capacity(slots.len()), Vec::new());
        for (at, (slot, ListedFile { file, .. })) in slots.into_iter().zip(&listed.files).enumerate() {
            let (mut facts, before) = match slot {
                Slot::Known(facts) => {
                    known.push(facts);
                    continue;
                }
                Slot::Read(facts, before) => (facts, before),
                // Files that could not be read ended the run.
                Slot::Unread(_) => continue,
            };
            if before.as_ref().is_some_and(|before| before.0 != facts.sha256) {
                reporter.warn(&format!(
                    "`{}` has other bytes than before: lock files and caches with its old hash will refuse it",
                    file.key
                ));
            }
            let same = before.filter(|before| before.0 == facts.sha256).map(|before| before.1);
            let name = file_name(&file.key);
            let time = same.or_else(|| times.get(&(name.to_owned(), hexadecimal(&facts.sha256))).copied());
            let time = time.or_else(|| self.work.options.uploaded.get(name).copied());
            facts.uploaded = time.or_else(|| self.work.store.uploaded(file)).unwrap_or(self.work.options.now);
            known.push(facts);
            read.push(at);
        }
        let known = (!known.is_empty()).then_some(known);
        Ok(ProjectState { name, listed, seen, is_current, known, read })
    }

    /// When files were published, by name and SHA-256, as the pages of a project have it. The
    /// record may have been lost; the time of a file never changes.
    fn old_times(&self, project: &str) -> Result<BTreeMap<(String, String), Timestamp>, Error> {
        let pages = self.work.catalog.pages.keys();
        let mut times = BTreeMap::new();
        for key in pages.filter(|key| file_name(key) == JSON && file_name(parent(key)) == project) {
            let page = self.work.store.read(key)?.and_then(|bytes| serde_json::from_slice::<OldPage>(&bytes).ok());
            for mut file in page.into_iter().flat_map(|page| page.files) {
                if let (Some(time), Some(sha256)) = (file.upload_time, file.hashes.remove("sha256")) {
                    times.insert((file.filename, sha256), time);
                }
            }
        }
        Ok(times)
    }
}

fn add_text(hasher: &mut Sha256, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}

/// Files that cannot be on one index, and names without a version.
fn problems_of(project: &str, listed: &ListedProject, root: &IndexRoot) -> Vec<String> {
    let keys = listed.files.iter().map(|listed| listed.file.key.as_str()).filter(|key| root.has_folder(parent(key)));
    let (mut candidates, mut problems) = (Vec::with_capacity(listed.files.len()), Vec::new());
    for key in keys {
        match Candidate::of_file(key, project) {
            Ok(candidate) => candidates.push(candidate),
            Err(reason) => problems.push(format!("`{key}`: {reason}")),
        }
    }
    problems.extend(clashes(candidates));
    problems
}

fn find<'r>(recorded: &'r [RecordedFile], key: &str) -> Option<&'r RecordedFile> {
    let at = recorded.binary_search_by(|one| one.key.as_str().cmp(key)).ok()?;
    recorded.get(at)
}

/// Reports the bytes that only a recorded hash would have saved.
fn warn_of_downloads(sizes: &[u64], read: usize, store: &dyn Store, reporter: &dyn Reporter) {
    if !sizes.is_empty() {
        let (count, bytes) = (sizes.len(), sizes.iter().sum::<u64>());
        // Nobody can upload to a server that only reads.
        let cure = if store.takes_metadata() { "; `rocwheel release upload` stores it" } else { "" };
        reporter.warn(&format!(
            "{count} of {read} files had no SHA-256 in the store, so {bytes} bytes were downloaded to hash them{cure}"
        ));
    }
}
