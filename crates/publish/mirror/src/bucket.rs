//! Input: a plan, and a store such as a bucket. Output: the mirror in it.
//!
//! Files pass through a folder of this machine, a few at a time, because they are verified before
//! they are uploaded.

use std::collections::BTreeMap;
use std::path::Path;

use positioned_io::Cursor;
use rayon::prelude::*;
use rocwheel_content::{hexadecimal, parse_sha256, sha256, sha256_of};
use rocwheel_index::Http;
use rocwheel_pages::{BuildOptions, Layout, build};
use rocwheel_progress::{Reporter, Unit, Watched};
use rocwheel_store::{Error as StoreError, FileTransfer, NewFile, Store, StoredBytes, StoredFile, with_threads};

use crate::manifest::{
    ListedFile, MIRROR_MANIFEST, MirrorList, MirrorPlan, MirrorReport, MirrorVerdict, SCHEMA, check_names, no_list,
    status_table, verdict,
};
use crate::origin;
use crate::transfer::{self, FetchedFile};
use rocwheel_progress::Failure;

/// Files that are on this machine at the same time.
const AT_ONCE: usize = 16;

/// Fetches the files of a plan that the store does not have, by way of the folder `scratch`, writes
/// the pages, and removes what an earlier run fetched and nothing needs any more.
///
/// # Errors
/// As [`make_mirror`](crate::make_mirror); [`rocwheel_store::Error::OtherBytes`] for a file that
/// the store has with other bytes.
pub fn mirror_into(
    plan: &MirrorPlan,
    (store, scratch): (&dyn Store, &Path),
    options: &BuildOptions,
    http: &Http,
    reporter: &dyn Reporter,
) -> Result<MirrorReport, Failure> {
    let before = read_list(store)?;
    let stored: BTreeMap<String, StoredFile> =
        store.list("", reporter)?.into_iter().map(|file| (file.key.clone(), file)).collect();
    let old = before.as_ref().map(|list| list.distributions.clone()).unwrap_or_default();
    check_names(plan, &store.name(), stored.keys().filter(|key| !key.contains('/')), &old)?;
    let listed = before.as_ref().map(|list| &list.files);
    let mut wanted: Vec<&String> = plan.files.keys().collect();
    wanted.retain(|name| {
        let (Some(stored), Some(listed)) = (stored.get(*name), listed.and_then(|files| files.get(*name))) else {
            return true;
        };
        stored.size != listed.size || plan.files[*name].sha256.as_ref() != Some(&listed.sha256)
    });
    let mut fetched = BTreeMap::new();
    for names in wanted.chunks(AT_ONCE) {
        fetched.append(&mut upload(plan, names, (store, scratch), http, reporter)?);
    }
    // Pages name only what stays, before the rest goes.
    let names: Vec<String> = plan.files.keys().map(|name| globset::escape(name)).collect();
    let status = Some(status_table(store, &plan.status)?);
    let uploaded = origin::upload_times(&plan.files, &fetched);
    let options = BuildOptions { layout: Some(Layout::Flat), filters: names, status, uploaded, ..options.clone() };
    let built = build(store, &options, reporter)?;
    let removed: Vec<String> = old.into_iter().filter(|name| !plan.files.contains_key(name)).collect();
    for name in &removed {
        store.remove(name)?;
        store.remove(&format!("{name}.metadata"))?;
    }
    let mut known: BTreeMap<&str, &str> =
        plan.files.iter().filter_map(|(name, file)| Some((name.as_str(), file.sha256.as_deref()?))).collect();
    known.extend(fetched.iter().map(|(name, file)| (name.as_str(), file.sha256.as_str())));
    let list = MirrorList {
        schema: SCHEMA,
        sets: plan.sets.clone(),
        files: stored_files(store, &known, reporter)?,
        distributions: plan.files.keys().cloned().collect(),
    };
    store.write(MIRROR_MANIFEST, &list.bytes())?;
    let bytes = plan.files.keys().filter_map(|name| list.files.get(name)).map(|file| file.size).sum();
    let index = built.indexes.first().map(|index| index.folder.clone()).unwrap_or_default();
    let origins = origin::of_mirror(&plan.files, &fetched, store, reporter)?;
    let fetched: Vec<String> = fetched.into_keys().collect();
    Ok(MirrorReport { kept: plan.files.len() - fetched.len(), fetched, removed, bytes, index, origins })
}

/// Fetches some files, takes them into the store, and removes them from this machine.
fn upload(
    plan: &MirrorPlan,
    names: &[&String],
    (store, scratch): (&dyn Store, &Path),
    http: &Http,
    reporter: &dyn Reporter,
) -> Result<BTreeMap<String, FetchedFile>, Failure> {
    let files: BTreeMap<_, _> =
        names.iter().filter_map(|name| Some(((*name).clone(), plan.files.get(*name)?.clone()))).collect();
    let fetched = transfer::fetch_all(&files, scratch, http, reporter)?;
    let mut new = Vec::new();
    for (name, file) in &fetched {
        let path = scratch.join(name);
        let size = fs_err::metadata(&path).map_err(|source| StoreError::Read { path: path.clone(), source })?.len();
        let sha256 = parse_sha256(&file.sha256).unwrap_or_default();
        new.push(NewFile { path, key: name.clone(), size, sha256, transfer: FileTransfer::Copy });
    }
    store.put_files(&new, reporter)?;
    for file in new {
        fs_err::remove_file(&file.path).map_err(|source| StoreError::Write { path: file.path.clone(), source })?;
    }
    Ok(fetched)
}

/// Compares a store with its list. Every file is read.
pub fn verify_stored_mirror(store: &dyn Store, reporter: &dyn Reporter) -> Result<MirrorVerdict, Failure> {
    let list = read_list(store)?.ok_or_else(|| no_list(&store.name()))?;
    Ok(verdict(list, stored_files(store, &BTreeMap::new(), reporter)?))
}

fn read_list(store: &dyn Store) -> Result<Option<MirrorList>, Failure> {
    let path = format!("{}/{MIRROR_MANIFEST}", store.name());
    store.read(MIRROR_MANIFEST)?.map(|bytes| MirrorList::parse(&bytes, path.as_ref())).transpose()
}

/// Sizes and hashes of all files except the list itself. Files in `known` are not read.
fn stored_files(
    store: &dyn Store,
    known: &BTreeMap<&str, &str>,
    reporter: &dyn Reporter,
) -> Result<BTreeMap<String, ListedFile>, Failure> {
    let files: Vec<StoredFile> =
        store.list("", reporter)?.into_iter().filter(|file| file.key != MIRROR_MANIFEST).collect();
    let stage = reporter.stage("Hashing files", Some(files.iter().map(|file| file.size).sum()), Unit::Bytes);
    let hashed = files.par_iter().map(|file| {
        reporter.check()?;
        let sha256 = match known.get(file.key.as_str()) {
            Some(sha256) => {
                reporter.advance(file.size);
                (*sha256).to_owned()
            }
            None => hash(store, file, reporter)?,
        };
        Ok((file.key.clone(), ListedFile { size: file.size, sha256 }))
    });
    let hashed = with_threads(store, || hashed.collect());
    drop(stage);
    hashed
}

fn hash(store: &dyn Store, file: &StoredFile, reporter: &dyn Reporter) -> Result<String, Failure> {
    let name = format!("{}/{}", store.name(), file.key);
    let digest = match store.bytes(file)? {
        StoredBytes::Local(path) => fs_err::File::open(path).and_then(|file| sha256_of(Watched::new(file, reporter))),
        // A range of nothing is an error on most servers.
        StoredBytes::Remote(_) if file.size == 0 => Ok(sha256(b"")),
        StoredBytes::Remote(content) => {
            content.open().and_then(|reader| sha256_of(Watched::new(Cursor::new(reader), reporter)))
        }
    };
    reporter.check()?;
    Ok(hexadecimal(&digest.map_err(StoreError::read(name.as_ref()))?))
}
