//! Input: a store with distributions, and options. Output: the pages of its index, of which only
//! those are written that changed.
//!
//! A file is read once: what is known of it is in a record beside the pages, until its size or time
//! changes. METADATA comes beside each wheel before a page names it, a project's page before the
//! first page names the project, so an interruption leaves an index that works.

mod pages;
mod reading;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use jiff::Timestamp;
use rocwheel_content::archive_path::{file_name, join};
use rocwheel_progress::Reporter;
use rocwheel_store::listing::NameFilter;
use rocwheel_store::{Error as StoreError, Store, StoredFile, with_threads};
use serde::Serialize;

use crate::catalog::Catalog;
use crate::chooser::ChooserOptions;
use crate::error::Error;
use crate::facts;
use crate::layout::{self, Layout};
use crate::page_file::PageFile;
use crate::status::{self, StatusTable};
use crate::views::IndexView;
use pages::Writer;
use reading::Reading;
pub(crate) use work::offered_in;
use work::{Records, Work, with_views};

#[derive(Debug, Clone, Default)]
pub struct BuildOptions {
    /// Where files and pages are; `None`: as the files are.
    pub layout: Option<Layout>,
    /// Patterns of the names of files that are listed; none: all.
    pub filters: Vec<String>,
    /// The one project whose pages are written, by its canonical name.
    pub project: Option<String>,
    /// The time of files that the index did not have before.
    pub now: Timestamp,
    /// When such files were published, by name, where that is known better.
    pub uploaded: BTreeMap<String, Timestamp>,
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
    /// The contents of the page for people; `None` leaves out the page, and removes that of an
    /// earlier run.
    pub chooser: Option<ChooserOptions>,
    /// Replace pages that others wrote.
    pub replace_pages: bool,
    /// `false` for a dry run.
    pub write: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BuiltIndex {
    /// The folder of the first page, which is what installers are given; empty at the top.
    pub folder: String,
    /// The page for `--find-links`.
    pub find_links: Option<String>,
    /// The page on which people choose packages.
    pub chooser: Option<String>,
    pub projects: usize,
    pub files: usize,
}

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

pub fn build(store: &dyn Store, options: &BuildOptions, reporter: &dyn Reporter) -> Result<Built, Error> {
    with_threads(store, || build_index(store, options, reporter))
}

fn build_index(store: &dyn Store, options: &BuildOptions, reporter: &dyn Reporter) -> Result<Built, Error> {
    let began = SystemTime::now();
    let _lock = options.write.then(|| store.lock()).transpose()?;
    let catalog = list(store, options, reporter)?;
    let layout = match options.layout {
        Some(layout) => layout,
        None if options.project.is_some() => Layout::Structured,
        None => Layout::of(&catalog, &store.name())?,
    };
    let roots = layout::roots(layout, &catalog).map_err(|problems| StoreError::Files { problems })?;
    let status = status_table(store, options)?;
    if let Some((path, table)) = &status
        && options.project.is_none()
    {
        let unused = table.unused(&catalog);
        if !unused.is_empty() {
            return Err(Error::Status { path: path.clone(), reason: unused.join("; ") });
        }
    }
    let records = Records::read(store, reporter)?;
    let roots = with_views(roots, options, &catalog, &records.heads, reporter);
    let work = Work {
        store,
        options,
        catalog: &catalog,
        roots: &roots,
        root_records: Work::root_records(store, &roots)?,
        heads: &records.heads,
        status: &status.map(|(_, table)| table).unwrap_or_default(),
    };
    let read = Reading { work: &work, began }.projects(catalog.problems.clone(), reporter)?;
    if options.address.is_none() && catalog.has_attestations {
        reporter.warn("attestations (`*.provenance`) are not on the pages: they need the public address of the index");
    }
    let mut writer = Writer::new(&work);
    writer.check_pages(&read.projects)?;
    let indexes = writer.write(&read.projects, &records, reporter)?;
    let (metadata, mut changes) = writer.done();
    let (files_read, bytes_read) = (read.files, read.bytes);
    drop(read.projects);
    let mut pages = metadata.pages(catalog.projects);
    pages.append(&mut changes);
    Ok(Built { layout: layout.word(), indexes, pages, files_read, bytes_read, ignored: catalog.ignored })
}

fn list(store: &dyn Store, options: &BuildOptions, reporter: &dyn Reporter) -> Result<Catalog, Error> {
    let filter = NameFilter::new(&options.filters)?;
    let folder = options.project.as_deref().unwrap_or_default();
    let catalog = Catalog::read(store, folder, &filter, reporter)?;
    if catalog.projects.is_empty() && catalog.problems.is_empty() {
        let filter = match &options.filters[..] {
            [] => String::new(),
            patterns => format!(" whose names match `{}`", patterns.join("`, `")),
        };
        let store = join(&store.name(), folder);
        return Err(Error::Empty { store, filter });
    }
    Ok(catalog)
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

/// METADATA of a wheel; `None` for another file.
fn metadata_of(store: &dyn Store, file: &StoredFile) -> Result<Option<Vec<u8>>, Error> {
    if !rocwheel_wheel::WheelName::is_wheel(file_name(&file.key)) {
        return Ok(None);
    }
    Ok(Some(facts::stored_metadata(file, &store.bytes(file)?)?))
}

fn metadata_key(wheel: &str) -> String {
    format!("{wheel}.metadata")
}
