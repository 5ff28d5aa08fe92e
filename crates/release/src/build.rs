//! Input: a store with distributions, and options. Output: the pages of its index, of which only
//! those are written that changed.
//!
//! A file is read once: what is known of it is in a record beside the pages, until its size or time
//! changes. METADATA comes beside each wheel before a page names it, a project's page before the
//! first page names the project, so an interruption leaves an index that works.

pub(crate) mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::SystemTime;

use jiff::Timestamp;
use rayon::prelude::*;
use rocwheel_content::archive_path::{file_name, join};
use rocwheel_report::{Reporter, Unit};
use serde::{Deserialize, Serialize};

use crate::facts::{self, Facts, Fault};
use crate::known::{self, KnownFile, KnownProject};
use crate::layout::{self, IndexRoot, Layout};
use crate::listing::{Distribution, Listing, NameFilter, clashes};
use crate::status::{self, StatusTable};
use crate::store::{Store, StoredFile, with_threads};
use crate::stream::{self, StreamFault};
use crate::{ChooserOptions, Error, IndexView};
use pages::Writer;
pub(crate) use pages::{HTML, JSON, VERSIONED_HTML, check_ours, put};

/// How an index is made.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// Where files and pages are; `None`: as the files are.
    pub layout: Option<Layout>,
    /// Patterns of the names of files that are listed; none: all.
    pub filters: Vec<String>,
    /// The one project whose pages are written, by its canonical name.
    pub project: Option<String>,
    /// The time of files that the index did not have before.
    pub now: Timestamp,
    /// The table of withdrawn files and of projects that are not active; `None`: the one in the
    /// store, if any.
    pub status: Option<(PathBuf, StatusTable)>,
    /// The public address of the store, ending in `/`. Attestations (PEP 740) need it.
    pub address: Option<String>,
    /// Smaller indexes over the same files.
    pub views: Vec<IndexView>,
    /// Also write pages in JSON as `v1_json/PROJECT/index.html`, for hosts whose only choice is the
    /// type of a stored file.
    pub json_root: bool,
    /// What the page for people tells; `None`: no such page, and none of an earlier run.
    pub chooser: Option<ChooserOptions>,
    /// Replace pages that others wrote.
    pub replace_pages: bool,
    /// `false` for a dry run.
    pub write: bool,
}

/// What happened to a page, or will happen to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PageChange {
    /// There was none.
    New,
    /// It was different.
    Changed,
    /// Its project has no files any more.
    Removed,
}

/// A page that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PageFile {
    /// Its key in the store.
    pub page: String,
    /// What happened to it.
    pub change: PageChange,
}

/// A finished index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BuiltIndex {
    /// The folder of the first page, which is what installers are given; empty at the top.
    pub folder: String,
    /// The page for `--find-links`.
    pub find_links: Option<String>,
    /// The page on which people choose packages.
    pub chooser: Option<String>,
    /// How many projects it has.
    pub projects: usize,
    /// How many files it lists.
    pub files: usize,
}

/// What a build did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Built {
    /// The word for the layout.
    pub layout: &'static str,
    /// The indexes, views after the index that they are of.
    pub indexes: Vec<BuiltIndex>,
    /// Pages that changed, in the order in which they were written.
    pub pages: Vec<PageFile>,
    /// How many files were read because they are new or changed.
    pub files_read: usize,
    /// The bytes that were read of them. Of a wheel in a bucket with a known SHA-256, that is
    /// METADATA.
    pub bytes_read: u64,
    /// Files that are archives and no Python packages.
    pub ignored: Vec<String>,
}

/// Makes the index of a store.
///
/// # Errors
/// [`Error::Files`] for distributions that cannot be in an index, all of them at once and before
/// any page is written; [`Error::Layout`], [`Error::Empty`], [`Error::ForeignPage`],
/// [`Error::Status`]; what cannot be read or written.
pub fn build(store: &dyn Store, options: &BuildOptions, reporter: &dyn Reporter) -> Result<Built, Error> {
    with_threads(store, || build_index(store, options, reporter))
}

fn build_index(store: &dyn Store, options: &BuildOptions, reporter: &dyn Reporter) -> Result<Built, Error> {
    let began = SystemTime::now();
    if stream::is_stream(store)? {
        return Err(StreamFault::IsStream { store: store.name() }.into());
    }
    let _lock = options.write.then(|| store.lock()).transpose()?;
    let listing = list(store, options, reporter)?;
    let layout = match options.layout {
        Some(layout) => layout,
        None if options.project.is_some() => Layout::Structured,
        None => Layout::of(&listing.distributions, &store.name())?,
    };
    let roots = layout::roots(layout, &listing.distributions).map_err(|problems| Error::Files { problems })?;
    let mut problems: Vec<String> = listing.problems.clone();
    problems.extend(roots.iter().flat_map(|root| clashes(root.distributions())));
    let status = status_table(store, options)?;
    if let Some((path, table)) = &status
        && options.project.is_none()
    {
        let unused = table.unused(&listing.distributions);
        if !unused.is_empty() {
            return Err(Error::Status { path: path.clone(), reason: unused.join("; ") });
        }
    }
    let records = records(store, reporter)?;
    let work = Reading { store, listing: &listing, records: &records, options, began };
    let ReadFiles { files, read, bytes: bytes_read } = work.files(problems, reporter)?;
    if options.address.is_none() && listing.others.keys().any(|key| key.ends_with(".provenance")) {
        reporter.warn("attestations (`*.provenance`) are not on the pages: they need the public address of the index");
    }
    let empty = StatusTable::default();
    let status = status.as_ref().map_or(&empty, |(_, table)| table);
    let mut writer = Writer::new(store, options, &listing.others, &files, status);
    writer.metadata(&read, reporter)?;
    let mut indexes = Vec::new();
    let mut with_views = Vec::new();
    for mut root in roots {
        // A run for one project leaves that page as it is.
        let place = root.chooser_place();
        let has_chooser = options.chooser.is_some() && (options.project.is_none() || store.read(&place)?.is_some());
        root.chooser = has_chooser.then_some(place);
        let views: Vec<IndexRoot<'_>> = options.views.iter().flat_map(|view| view.of(&root)).collect();
        with_views.push(root);
        with_views.extend(views);
    }
    for root in &with_views {
        writer.index(root, &records, reporter)?;
        indexes.push(BuiltIndex {
            folder: root.pages.clone(),
            find_links: root.find_links.clone(),
            chooser: root.chooser.clone(),
            projects: root.projects.len(),
            files: root.distributions().count(),
        });
    }
    if options.project.is_none() {
        writer.remove_choosers(&with_views)?;
        writer.remove_others(&with_views, &records)?;
    }
    Ok(Built {
        layout: layout.word(),
        indexes,
        pages: writer.done(),
        files_read: read.len(),
        bytes_read,
        ignored: listing.ignored,
    })
}

/// The records of the last run by their keys.
type Records = BTreeMap<String, KnownProject>;

fn list(store: &dyn Store, options: &BuildOptions, reporter: &dyn Reporter) -> Result<Listing, Error> {
    let filter = NameFilter::new(&options.filters)?;
    let folder = options.project.as_deref().unwrap_or_default();
    let listing = Listing::of(store.list(folder, reporter)?, &filter);
    if listing.distributions.is_empty() && listing.problems.is_empty() {
        let filter = match &options.filters[..] {
            [] => String::new(),
            patterns => format!(" whose names match `{}`", patterns.join("`, `")),
        };
        let store = join(&store.name(), folder);
        return Err(Error::Empty { store, filter });
    }
    Ok(listing)
}

fn status_table(store: &dyn Store, options: &BuildOptions) -> Result<Option<(PathBuf, StatusTable)>, Error> {
    if let Some(status) = &options.status {
        return Ok(Some(status.clone()));
    }
    let Some(bytes) = store.read(status::FILE)? else { return Ok(None) };
    let path = PathBuf::from(join(&store.name(), status::FILE));
    let table = StatusTable::parse(&String::from_utf8_lossy(&bytes), &path)?;
    Ok(Some((path, table)))
}

fn records(store: &dyn Store, reporter: &dyn Reporter) -> Result<Records, Error> {
    let files = store.list(known::FOLDER, reporter)?;
    let read = |file: &StoredFile| -> Result<Option<(String, KnownProject)>, Error> {
        let bytes = store.read(&file.key)?;
        Ok(bytes.and_then(|bytes| Some((file.key.clone(), KnownProject::parse(&bytes)?))))
    };
    let records: Vec<_> = files.par_iter().map(read).collect::<Result<_, _>>()?;
    Ok(records.into_iter().flatten().collect())
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

/// What pages say of all files.
struct ReadFiles {
    /// By key.
    files: BTreeMap<String, KnownFile>,
    /// Those that were read for it.
    read: Vec<StoredFile>,
    /// The bytes that were read of them.
    bytes: u64,
}

/// Finds out what pages say of each file.
struct Reading<'a> {
    store: &'a dyn Store,
    listing: &'a Listing,
    records: &'a Records,
    options: &'a BuildOptions,
    began: SystemTime,
}

impl Reading<'_> {
    /// Reads the distributions that are new or changed.
    fn files(&self, mut problems: Vec<String>, reporter: &dyn Reporter) -> Result<ReadFiles, Error> {
        let known: BTreeMap<&str, &KnownFile> = self
            .records
            .values()
            .flat_map(|record| record.files.iter().map(|(key, file)| (key.as_str(), file)))
            .collect();
        let mut files = BTreeMap::new();
        let mut unread = Vec::new();
        for distribution in &self.listing.distributions {
            let file = &distribution.file;
            // A wheel whose METADATA was removed is read again.
            let has_metadata = distribution.wheel.is_none()
                || !self.store.takes_metadata()
                || self.listing.others.contains_key(&format!("{}.metadata", file.key));
            match known.get(file.key.as_str()) {
                Some(known) if known.is_of(file) && has_metadata => {
                    files.insert(file.key.clone(), (*known).clone());
                }
                _ => unread.push(distribution),
            }
        }
        let total = unread.iter().map(|distribution| distribution.file.size).sum();
        reporter.begin("Reading new files", Some(total), Unit::Bytes);
        let found = Mutex::new((BTreeMap::new(), Vec::new()));
        let read = unread.par_iter().try_for_each(|distribution| -> Result<(), Error> {
            reporter.check()?;
            let facts = Facts::read(self.store, distribution, reporter);
            let (found, problems) = &mut *found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match facts {
                Ok(facts) => drop(found.insert(distribution.file.key.clone(), facts)),
                Err(Fault::Interrupted(interrupted)) => return Err(interrupted.into()),
                Err(Fault::Store(error)) => return Err(error),
                Err(Fault::File(reason)) => problems.push(format!("`{}`: {reason}", distribution.file.key)),
            }
            Ok(())
        });
        reporter.end();
        read?;
        let (mut found, faults) = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        problems.extend(faults);
        if !problems.is_empty() {
            problems.sort();
            return Err(Error::Files { problems });
        }
        let bytes = found.values().map(|facts: &Facts| facts.bytes).sum();
        warn_of_downloads(&unread, &found, reporter);
        let old = self.old_times(&unread.iter().map(|distribution| distribution.project.as_str()).collect())?;
        for distribution in &unread {
            let file = &distribution.file;
            let Some(facts) = found.remove(&file.key) else { continue };
            let before = known.get(file.key.as_str());
            if before.is_some_and(|before| before.sha256 != facts.sha256) {
                reporter.warn(&format!(
                    "`{}` has other bytes than before: lock files and caches with its old hash will refuse it",
                    file.key
                ));
            }
            let same = before.filter(|before| before.sha256 == facts.sha256).map(|before| before.uploaded);
            let paged = || old.get(&(distribution.name().to_owned(), facts.sha256.clone())).copied();
            let stored = || self.store.uploaded(file);
            let uploaded = same.or_else(paged).or_else(stored).unwrap_or(self.options.now);
            files.insert(file.key.clone(), KnownFile::new(file, facts, uploaded, self.began));
        }
        let read = unread.into_iter().map(|distribution| distribution.file.clone()).collect();
        Ok(ReadFiles { files, read, bytes })
    }

    /// When files were published, by name and SHA-256, as the pages of these projects have it. The
    /// record may have been lost; the time of a file never changes.
    fn old_times(&self, projects: &BTreeSet<&str>) -> Result<BTreeMap<(String, String), Timestamp>, Error> {
        let mut times = BTreeMap::new();
        let is_page = |key: &&String| {
            let mut parts = key.rsplit('/');
            parts.next() == Some(pages::JSON) && parts.next().is_some_and(|project| projects.contains(project))
        };
        for key in self.listing.others.keys().filter(is_page) {
            let page = self.store.read(key)?.and_then(|bytes| serde_json::from_slice::<OldPage>(&bytes).ok());
            for mut file in page.into_iter().flat_map(|page| page.files) {
                if let (Some(time), Some(sha256)) = (file.upload_time, file.hashes.remove("sha256")) {
                    times.insert((file.filename, sha256), time);
                }
            }
        }
        Ok(times)
    }
}

/// Reports the bytes that only a recorded hash would have saved.
fn warn_of_downloads(read: &[&Distribution], found: &BTreeMap<String, Facts>, reporter: &dyn Reporter) {
    let is_downloaded = |one: &&&Distribution| found.get(&one.file.key).is_some_and(|facts| facts.downloaded);
    let sizes: Vec<u64> = read.iter().filter(is_downloaded).map(|one| one.file.size).collect();
    if !sizes.is_empty() {
        reporter.warn(&format!(
            "{} of {} files had no SHA-256 in the store, so {} bytes were downloaded to hash them; `rocwheel release upload` stores it",
            sizes.len(),
            read.len(),
            sizes.iter().sum::<u64>()
        ));
    }
}

/// METADATA of a wheel and its key.
fn metadata_of(store: &dyn Store, file: &StoredFile) -> Result<Option<(String, Vec<u8>)>, Error> {
    if !rocwheel_wheel::WheelName::is_wheel(file_name(&file.key)) {
        return Ok(None);
    }
    let bytes = facts::stored_metadata(file, &store.bytes(file)?)?;
    Ok(Some((format!("{}.metadata", file.key), bytes)))
}
