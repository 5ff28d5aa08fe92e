//! Input: a stream or a copy of it, and public keys. Output: everything in it that is not as the
//! last snapshot says. Nothing but the store is asked.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rayon::prelude::*;
use rocwheel_content::archive_path::{file_name, join, parent};
use rocwheel_content::{Digest, hexadecimal, sha256, sha256_of};
use rocwheel_delta::DeltaDescription;
use rocwheel_index::companion::{ATTESTATIONS, DELTA, PACKING};
use rocwheel_index::page::{self, PageLink};
use rocwheel_pages::chooser;
use rocwheel_progress::{Reporter, Unit, Watched};
use rocwheel_store::listing::project_of;
use rocwheel_store::site::{HTML, JSON, VERSIONED_HTML};
use rocwheel_store::{Error as StoreError, Store, StoredBytes, StoredFile, with_threads};
use serde::Serialize;
use url::Url;

use super::chooser_page::StreamView;
use super::history::numbers;
use super::manifest::{SnapshotFile, SnapshotManifest};
use super::pages::Pages;
use super::{
    InnerStreams, PublicKey, SNAPSHOT_TYPE, SignedEnvelope, Stream, StreamFault, pages, set_key, snapshot_key,
    statement_key,
};
use crate::error::Error;

#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// Keys of which one has to have signed the last snapshot; none: signatures are not verified.
    pub keys: Vec<PublicKey>,
    /// The time with which the expiry is compared.
    pub now: Timestamp,
    /// `false` to believe the SHA-256 that a bucket keeps of a file, and of a folder its sizes.
    pub read_files: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifiedStream {
    /// The name in its last snapshot.
    pub stream: String,
    pub number: u64,
    pub created: Timestamp,
    /// The ids of those keys that have signed it.
    pub signers: Vec<String>,
    pub files: usize,
    pub bytes: u64,
    /// The problems, sorted.
    pub problems: Vec<String>,
    /// Pages of which the snapshot says nothing, so they were compared with nothing: that for
    /// people.
    pub unverified: Vec<String>,
}

/// Compares a stream with its last snapshot.
pub fn verify_stream(
    store: &dyn Store,
    options: &VerifyOptions,
    reporter: &dyn Reporter,
) -> Result<VerifiedStream, Error> {
    let stream = Stream::existing(store, "")?;
    let manifest = &stream.manifest;
    let mut problems = Vec::new();
    let signers = signers(&stream, options, &mut problems)?;
    problems.extend(manifest.expiry(options.now));
    problems.extend(chain(&stream, reporter)?);
    let stored: BTreeMap<String, StoredFile> =
        store.list("", reporter)?.into_iter().map(|file| (file.key.clone(), file)).collect();
    let total = manifest.files.values().map(|file| file.size).sum();
    reporter.begin("Verifying files", Some(total), Unit::Bytes);
    let work = Verification { store, stored: &stored, views: StreamView::all(manifest), options, reporter };
    let found = with_threads(store, || {
        let files: Vec<_> =
            manifest.files.par_iter().map(|(key, file)| work.file(key, file)).collect::<Result<_, _>>()?;
        let names: Vec<&str> = manifest.projects().into_iter().collect();
        let pages: Vec<_> = names.par_iter().map(|name| work.page(manifest, name)).collect::<Result<_, _>>()?;
        Ok::<_, Error>((files, pages))
    });
    reporter.end();
    let (files, pages) = found?;
    problems.extend(files.into_iter().flatten());
    let mut listed: BTreeSet<String> = BTreeSet::new();
    for compared in pages.into_iter().chain([work.root_pages(manifest)?]) {
        problems.extend(compared.problems);
        listed.extend(compared.keys);
    }
    let mut inner = InnerStreams::new(store);
    for key in stored.keys() {
        let has_page = stored.contains_key(&join(parent(key), HTML));
        if is_unlisted(key, manifest, &listed, has_page) && !inner.have(key)? {
            problems.push(format!("`{key}` is not listed"));
        }
    }
    for name in manifest.sets.keys() {
        let set = match stream.set(name) {
            Ok(set) => set,
            Err(Error::Stream(fault)) => {
                problems.push(fault.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        if store.read(&set_key(name))?.is_none_or(|bytes| bytes != set.bytes()) {
            problems.push(format!("`{}` is not the description of the set", set_key(name)));
        }
        for expected in &set.statements {
            problems.extend(small_problem(store, &statement_key(expected), expected)?);
        }
    }
    problems.sort();
    Ok(VerifiedStream {
        stream: manifest.stream.clone(),
        number: manifest.number,
        created: manifest.created,
        signers,
        files: manifest.files.len(),
        bytes: total,
        problems,
        unverified: stored.keys().filter(|key| *key == chooser::FILE).cloned().collect(),
    })
}

/// The small files beside a file that the snapshot names: their keys and SHA-256.
pub(super) fn beside<'f>(key: &'f str, file: &'f SnapshotFile) -> impl Iterator<Item = (String, &'f str)> {
    let all = [
        (&file.metadata_sha256, ".metadata"),
        (&file.provenance_sha256, ATTESTATIONS),
        (&file.packing_sha256, PACKING),
    ];
    all.into_iter().filter_map(move |(expected, ending)| Some((format!("{key}{ending}"), expected.as_deref()?)))
}

/// Returns the problem of a small file that should have this SHA-256; `None` if it has.
pub(super) fn small_problem(store: &dyn Store, key: &str, expected: &str) -> Result<Option<String>, Error> {
    Ok(match store.read(key)? {
        None => Some(format!("`{key}` is missing")),
        Some(bytes) if hexadecimal(&sha256(&bytes)) != expected => Some(format!("`{key}` has other bytes")),
        Some(_) => None,
    })
}

/// The contents of a page.
#[derive(Debug, Clone, Copy)]
pub(super) enum PageKind {
    /// The files of a project.
    Project,
    /// The projects of an index.
    First,
}

impl PageKind {
    /// Returns the problem of a page that should list the same as `expected`; `None` if it does.
    /// Only the parts that installers read are compared, because an older version of rocwheel may
    /// have written the same list with other texts.
    pub(super) fn problem(
        self,
        store: &dyn Store,
        (key, expected): &(String, Vec<u8>),
    ) -> Result<Option<String>, Error> {
        let Some(found) = store.read(key)? else { return Ok(Some(format!("`{key}` is missing"))) };
        let (is_same, what) = match self {
            Self::Project => (links(key, &found) == links(key, expected), "what the snapshot does"),
            Self::First => (names(key, &found) == names(key, expected), "the projects of the snapshot"),
        };
        Ok((!is_same).then(|| format!("`{key}` does not list {what}")))
    }
}

/// The pages of a project in the index and in its views, those of each folder by themselves.
pub(super) fn project_pages(manifest: &SnapshotManifest, views: &BTreeSet<StreamView>, name: &str) -> Vec<Pages> {
    let project = pages::project(manifest, name);
    let of_views = views.iter().filter_map(|view| view.project_pages(&project, manifest.number));
    let mut all: Vec<Pages> = of_views.collect();
    all.push(pages::project_pages(project, manifest.number));
    all
}

/// The first pages of the index and of its views, those of each folder by themselves. `chooser` is
/// as in [`pages::root_pages`].
pub(super) fn first_pages(
    manifest: &SnapshotManifest,
    views: &BTreeSet<StreamView>,
    chooser: Option<&str>,
) -> Vec<Pages> {
    let of_views = views.iter().map(|view| view.root_pages(manifest, manifest.number));
    of_views.chain([pages::root_pages(&manifest.projects(), chooser, manifest.number)]).collect()
}

/// `true` for what installers would read and the snapshot does not have: pages that are not among
/// `pages`, and distributions in the folders of no project, which servers list by themselves. What
/// a publication that is under way, or was killed, has in the folder of a project is on no page.
fn is_unlisted(key: &str, manifest: &SnapshotManifest, pages: &BTreeSet<String>, has_page: bool) -> bool {
    if [HTML, VERSIONED_HTML, JSON].contains(&file_name(key)) {
        return !pages.contains(key);
    }
    let is_known = manifest.files.contains_key(key) || manifest.unlisted.contains_key(key);
    let project = project_of(file_name(key));
    let may_be_new = project.as_deref() == Some(parent(key)) && !has_page;
    !is_known && !may_be_new && manifest.files_of(parent(key)).next().is_none() && project.is_some()
}

fn signers(stream: &Stream<'_>, options: &VerifyOptions, problems: &mut Vec<String>) -> Result<Vec<String>, Error> {
    let key = snapshot_key(stream.manifest.number);
    let bytes = stream.store.read(&key)?.unwrap_or_default();
    let (envelope, payload) = SignedEnvelope::parse(&bytes, &key, SNAPSHOT_TYPE).map_err(StreamFault::from)?;
    let signers = envelope.signers(&payload, &options.keys);
    if !options.keys.is_empty() && signers.is_empty() {
        let by = match envelope.signatures().len() {
            0 => "it has no signature".to_owned(),
            _ => "none of its signatures is of a key that was given".to_owned(),
        };
        problems.push(format!("snapshot {} cannot be trusted: {by}", stream.manifest.number));
    }
    Ok(signers)
}

/// Each snapshot names the one before by its bytes.
fn chain(stream: &Stream<'_>, reporter: &dyn Reporter) -> Result<Vec<String>, Error> {
    let existing: BTreeSet<u64> = numbers(stream.store, reporter)?.into_iter().collect();
    let mut problems = Vec::new();
    let (mut number, mut expected) = (stream.manifest.number, stream.manifest.previous.clone());
    while number > 1 && existing.contains(&(number - 1)) {
        reporter.check()?;
        number -= 1;
        let key = snapshot_key(number);
        let bytes = stream.store.read(&key)?.unwrap_or_default();
        if expected.as_deref() != Some(&hexadecimal(&sha256(&bytes))) {
            problems.push(format!("`{key}` is not the snapshot before {}", number + 1));
            break;
        }
        let (_, payload) = SignedEnvelope::parse(&bytes, &key, SNAPSHOT_TYPE).map_err(StreamFault::from)?;
        expected = SnapshotManifest::parse(&payload, &key)?.previous;
    }
    Ok(problems)
}

/// Files and pages are compared on many threads.
struct Verification<'a> {
    store: &'a dyn Store,
    stored: &'a BTreeMap<String, StoredFile>,
    views: BTreeSet<StreamView>,
    options: &'a VerifyOptions,
    reporter: &'a dyn Reporter,
}

impl Verification<'_> {
    fn file(&self, key: &str, file: &SnapshotFile) -> Result<Vec<String>, Error> {
        self.reporter.check()?;
        let Some(stored) = self.stored.get(key) else { return Ok(vec![format!("`{key}` is missing")]) };
        let mut problems = Vec::new();
        if stored.size != file.size {
            problems.push(format!("`{key}` has {} bytes instead of {}", stored.size, file.size));
        } else if self.digest(stored)?.is_some_and(|digest| hexadecimal(&digest) != file.sha256) {
            problems.push(format!("`{key}` has other bytes"));
        }
        for (small, expected) in beside(key, file) {
            problems.extend(small_problem(self.store, &small, expected)?);
        }
        let delta = format!("{key}{DELTA}");
        if self.stored.contains_key(&delta) {
            let bytes = self.store.read(&delta)?.unwrap_or_default();
            let description = DeltaDescription::parse(&bytes);
            let checked = description.and_then(|description| description.check(Some(file.size), Some(&file.sha256)));
            problems.extend(checked.err().map(|reason| format!("`{delta}` {reason}")));
        }
        Ok(problems)
    }

    /// The SHA-256 of a stored file, as far as the options want it.
    fn digest(&self, stored: &StoredFile) -> Result<Option<Digest>, StoreError> {
        if !self.options.read_files {
            self.reporter.advance(stored.size);
            return self.store.sha256(stored);
        }
        let name = join(&self.store.name(), &stored.key);
        let digest = match self.store.bytes(stored)? {
            StoredBytes::Local(path) => {
                let file = fs_err::File::open(path).map_err(StoreError::read(name.as_ref()))?;
                sha256_of(Watched::new(file, self.reporter))
            }
            StoredBytes::Remote(content) => content
                .open()
                .and_then(|reader| sha256_of(Watched::new(positioned_io::Cursor::new(reader), self.reporter))),
        };
        self.reporter.check()?;
        digest.map(Some).map_err(StoreError::read(name.as_ref()))
    }

    /// The pages of a project, in the index and in its views.
    fn page(&self, manifest: &SnapshotManifest, name: &str) -> Result<ComparedPages, Error> {
        self.reporter.check()?;
        self.compare(PageKind::Project, project_pages(manifest, &self.views, name))
    }

    /// The first pages of the index and of its views.
    fn root_pages(&self, manifest: &SnapshotManifest) -> Result<ComparedPages, Error> {
        self.compare(PageKind::First, first_pages(manifest, &self.views, None))
    }

    fn compare(&self, kind: PageKind, wanted: Vec<Pages>) -> Result<ComparedPages, Error> {
        let mut compared = ComparedPages::default();
        for page in wanted.into_iter().flatten() {
            compared.problems.extend(kind.problem(self.store, &page)?);
            compared.keys.push(page.0);
        }
        Ok(compared)
    }
}

/// Pages that the snapshot has.
#[derive(Debug, Default)]
struct ComparedPages {
    keys: Vec<String>,
    problems: Vec<String>,
}

fn media(key: &str) -> &'static str {
    if key.ends_with("json") { rocwheel_index::pages::JSON_TYPE } else { "text/html" }
}

/// The address of the folder of a page, so that relative links lead somewhere.
fn address(key: &str) -> Option<Url> {
    let top = Url::parse("http://stream.invalid/").ok()?;
    if parent(key).is_empty() { Some(top) } else { top.join(&format!("{}/", parent(key))).ok() }
}

/// The links of a project's page; `None` if it cannot be parsed.
fn links(key: &str, page: &[u8]) -> Option<Vec<PageLink>> {
    page::parse(media(key), page, &address(key)?).ok()
}

/// The projects of a first page; `None` if it cannot be parsed.
fn names(key: &str, page: &[u8]) -> Option<BTreeSet<String>> {
    Some(page::parse_root(media(key), page, &address(key)?).ok()?.into_iter().collect())
}
