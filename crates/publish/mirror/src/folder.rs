//! Input: a plan, and a folder of this machine. Output: the mirror in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_content::{hexadecimal, sha256_of};
use rocwheel_index::Http;
use rocwheel_pages::{BuildOptions, Layout, build};
use rocwheel_progress::{Reporter, Unit, Watched};
use rocwheel_store::{Error as StoreError, FolderStore, is_shown};
use walkdir::WalkDir;

use crate::manifest::{
    ListedFile, MIRROR_MANIFEST, MirrorList, MirrorPlan, MirrorReport, MirrorVerdict, SCHEMA, check_names, no_list,
    status_table, verdict,
};
use crate::{origin, transfer};
use rocwheel_progress::Failure;

/// Fetches the files of a plan, writes the pages, and removes what an earlier run fetched and
/// nothing needs any more.
///
/// # Errors
/// Files with other hashes, and for distributions in the folder that no run
/// fetched; what cannot be fetched or written. Files that were fetched stay for the next run.
pub fn make_mirror(
    plan: &MirrorPlan,
    folder: &Path,
    options: &BuildOptions,
    http: &Http,
    reporter: &dyn Reporter,
) -> Result<MirrorReport, Failure> {
    fs_err::create_dir_all(folder).map_err(StoreError::write(folder))?;
    let before = read_list(folder)?.map(|list| list.distributions).unwrap_or_default();
    check_foreign(plan, folder, &before)?;
    let fetched = transfer::fetch_all(&plan.files, folder, http, reporter)?;
    // Pages name only what stays, before the rest goes.
    let names: Vec<String> = plan.files.keys().map(|name| globset::escape(name)).collect();
    let store = FolderStore::open(folder)?;
    let status = Some(status_table(&store, &plan.status)?);
    let uploaded = origin::upload_times(&plan.files, &fetched);
    let options = BuildOptions { layout: Some(Layout::Flat), filters: names, status, uploaded, ..options.clone() };
    let built = build(&store, &options, reporter)?;
    let removed: Vec<String> = before.into_iter().filter(|name| !plan.files.contains_key(name)).collect();
    for name in &removed {
        for path in [folder.join(name), folder.join(format!("{name}.metadata"))] {
            match fs_err::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::Write { path, source }.into());
                }
                _ => {}
            }
        }
    }
    let list = MirrorList {
        schema: SCHEMA,
        sets: plan.sets.clone(),
        files: all_files(folder, reporter)?,
        distributions: plan.files.keys().cloned().collect(),
    };
    let path = folder.join(MIRROR_MANIFEST);
    rocwheel_system::replace(&path, &list.bytes(), 0o644).map_err(StoreError::write(&path))?;
    let bytes = plan.files.keys().filter_map(|name| list.files.get(name)).map(|file| file.size).sum();
    let index = built.indexes.first().map(|index| index.folder.clone()).unwrap_or_default();
    let origins = origin::of_mirror(&plan.files, &fetched, &store, reporter)?;
    let fetched: Vec<String> = fetched.into_keys().collect();
    Ok(MirrorReport { kept: plan.files.len() - fetched.len(), fetched, removed, bytes, index, origins })
}

/// Distributions that no run fetched would be in the index, or in the way of its files.
fn check_foreign(plan: &MirrorPlan, folder: &Path, before: &BTreeSet<String>) -> Result<(), Failure> {
    let names = fs_err::read_dir(folder).and_then(|entries| {
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<Vec<_>>>()
    });
    let names = names.map_err(|source| StoreError::Folder { path: folder.to_owned(), source })?;
    check_names(plan, &folder.to_string_lossy(), names.iter(), before)
}

fn read_list(folder: &Path) -> Result<Option<MirrorList>, Failure> {
    let path = folder.join(MIRROR_MANIFEST);
    let bytes = match fs_err::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StoreError::Read { path, source }.into()),
    };
    MirrorList::parse(&bytes, &path).map(Some)
}

/// Sizes and hashes of all files below a folder, except the list itself and what begins with a dot.
fn all_files(folder: &Path, reporter: &dyn Reporter) -> Result<BTreeMap<String, ListedFile>, Failure> {
    let mut paths: Vec<(String, PathBuf, u64)> = Vec::new();
    for entry in WalkDir::new(folder).sort_by_file_name().into_iter().filter_entry(is_shown) {
        let entry = entry.map_err(|error| StoreError::Read { path: folder.to_owned(), source: error.into() })?;
        if entry.file_type().is_dir() {
            continue;
        }
        let below = rocwheel_system::slashed(entry.path().strip_prefix(folder).unwrap_or(entry.path()));
        let name = below.to_string_lossy().into_owned();
        let size = entry.metadata().map_or(0, |metadata| metadata.len());
        if name != MIRROR_MANIFEST {
            paths.push((name, entry.path().to_owned(), size));
        }
    }
    reporter.begin("Hashing files", Some(paths.iter().map(|(.., size)| size).sum()), Unit::Bytes);
    let mut files = BTreeMap::new();
    for (name, path, size) in paths {
        let file = fs_err::File::open(&path).map_err(StoreError::read(&path))?;
        let digest = sha256_of(Watched::new(file, reporter));
        reporter.check()?;
        files.insert(name, ListedFile { size, sha256: hexadecimal(&digest.map_err(StoreError::read(&path))?) });
    }
    reporter.end();
    Ok(files)
}

/// Compares a folder with its list.
pub fn verify_mirror(folder: &Path, reporter: &dyn Reporter) -> Result<MirrorVerdict, Failure> {
    let list = read_list(folder)?.ok_or_else(|| no_list(&folder.to_string_lossy()))?;
    Ok(verdict(list, all_files(folder, reporter)?))
}
