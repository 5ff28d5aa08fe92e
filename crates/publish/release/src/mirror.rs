//! Input: indexes, requirements, Pythons and systems. Output: a folder with every file that
//! installing them takes, and pages of an index over it, for sites without a network.
//!
//! uv resolves, once for each Python and system; this module fetches what it chose, with the hashes
//! that it wrote into its lock (PEP 751). Source distributions bring what building them takes, as
//! wheels. `mirror.json` has the size and SHA-256 of every file, so the folder can be compared with
//! it after a transport.

mod bucket;
mod lock;
mod resolve;
mod status;
mod transfer;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_content::archive_path::join;
use rocwheel_content::{hexadecimal, sha256_of};
use rocwheel_index::Http;
use rocwheel_progress::{Reporter, Unit, Watched, counted};
use rocwheel_store::{Error as StoreError, FolderStore, Store};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use crate::build::{BuildOptions, build};
use crate::status::FILE as STATUS_FILE;
use crate::{Error, Layout, StatusTable};
pub use bucket::{mirror_into, verify_stored_mirror};
pub use lock::LockedFile;
pub use resolve::{MirrorRequest, ResolvedSet};

/// The list of all files of a mirror.
pub const MIRROR_MANIFEST: &str = "mirror.json";
/// The form of that list.
const SCHEMA: u32 = 1;

/// What a mirror has, or will have.
#[derive(Debug, Clone, Serialize)]
pub struct MirrorPlan {
    /// The files that were resolved for each Python and system.
    pub sets: Vec<ResolvedSet>,
    /// The distributions by file name.
    pub files: BTreeMap<String, LockedFile>,
    /// Which of them are withdrawn in their index, and the status of their projects.
    pub status: StatusTable,
}

/// What a run did with a mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MirrorReport {
    /// Distributions that were fetched.
    pub fetched: Vec<String>,
    /// How many were there before.
    pub kept: usize,
    /// Distributions that nothing needs any more, which were removed.
    pub removed: Vec<String>,
    /// Bytes of all distributions.
    pub bytes: u64,
    /// The folder of the first page, which installers are given.
    pub index: String,
}

/// What a mirror differs in from its list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MirrorVerdict {
    /// Files that are as listed.
    pub good: usize,
    /// Listed files that are not there.
    pub missing: Vec<String>,
    /// Files with other bytes.
    pub changed: Vec<String>,
    /// Files that are not listed.
    pub unlisted: Vec<String>,
}

impl MirrorVerdict {
    /// `true` if there is no difference.
    pub fn is_good(&self) -> bool {
        self.missing.is_empty() && self.changed.is_empty() && self.unlisted.is_empty()
    }
}

/// `mirror.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct MirrorList {
    schema: u32,
    /// Name, version and so on of what was asked for, for people.
    sets: Vec<ResolvedSet>,
    /// Every file below the folder by its path.
    files: BTreeMap<String, ListedFile>,
    /// The paths of distributions, which a later run may remove.
    distributions: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ListedFile {
    size: u64,
    sha256: String,
}

/// Resolves the requirements, and those of building the source distributions among the files. These
/// are fetched into `folder` for that, whatever the mirror has.
///
/// # Errors
/// [`Error::Mirror`] with what uv says; what cannot be fetched.
pub fn plan_mirror(request: &MirrorRequest, folder: &Path, reporter: &dyn Reporter) -> Result<MirrorPlan, Error> {
    resolve::plan(request, folder, reporter)
}

/// Fetches the files of a plan, writes the pages, and removes what an earlier run fetched and
/// nothing needs any more.
///
/// # Errors
/// [`Error::Mirror`] for files with other hashes, and for distributions in the folder that no run
/// fetched; what cannot be fetched or written. Files that were fetched stay for the next run.
pub fn make_mirror(
    plan: &MirrorPlan,
    folder: &Path,
    options: &BuildOptions,
    http: &Http,
    reporter: &dyn Reporter,
) -> Result<MirrorReport, Error> {
    let write = |path: &Path, source: io::Error| StoreError::Write { path: path.to_owned(), source };
    fs_err::create_dir_all(folder).map_err(|source| write(folder, source))?;
    let before = MirrorList::read(folder)?.map(|list| list.distributions).unwrap_or_default();
    check_foreign(plan, folder, &before)?;
    let fetched = transfer::fetch_all(&plan.files, folder, http, reporter)?;
    // Pages name only what stays, before the rest goes.
    let names: Vec<String> = plan.files.keys().map(|name| globset::escape(name)).collect();
    let store = FolderStore::open(folder)?;
    let status = Some(status_table(&store, plan)?);
    let options = BuildOptions { layout: Some(Layout::Flat), filters: names, status, ..options.clone() };
    let built = build(&store, &options, reporter)?;
    let removed: Vec<String> = before.into_iter().filter(|name| !plan.files.contains_key(name)).collect();
    for name in &removed {
        for path in [folder.join(name), folder.join(format!("{name}.metadata"))] {
            match fs_err::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(write(&path, source).into()),
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
    rocwheel_system::replace(&path, &list.bytes(), 0o644).map_err(|source| write(&path, source))?;
    let bytes = plan.files.keys().filter_map(|name| list.files.get(name)).map(|file| file.size).sum();
    let index = built.indexes.first().map(|index| index.folder.clone()).unwrap_or_default();
    Ok(MirrorReport { kept: plan.files.len() - fetched.len(), fetched, removed, bytes, index })
}

/// The statuses in the store's `index-status.toml`, followed by those of the indexes.
fn status_table(store: &dyn Store, plan: &MirrorPlan) -> Result<(PathBuf, StatusTable), Error> {
    let path = PathBuf::from(join(&store.name(), STATUS_FILE));
    let mut table = match store.read(STATUS_FILE)? {
        Some(bytes) => StatusTable::parse(&String::from_utf8_lossy(&bytes), &path)?,
        None => StatusTable::default(),
    };
    table.add(&plan.status);
    Ok((path, table))
}

/// Distributions that no run fetched would be in the index, or in the way of its files.
fn check_foreign(plan: &MirrorPlan, folder: &Path, before: &BTreeSet<String>) -> Result<(), Error> {
    let read = |source| StoreError::Folder { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs_err::read_dir(folder).map_err(read)? {
        names.push(entry.map_err(read)?.file_name().to_string_lossy().into_owned());
    }
    check_names(plan, &folder.to_string_lossy(), names.iter(), before)
}

fn check_names<'n>(
    plan: &MirrorPlan,
    place: &str,
    names: impl Iterator<Item = &'n String>,
    before: &BTreeSet<String>,
) -> Result<(), Error> {
    let is_foreign = |name: &&String| {
        let is_distribution = [".whl", ".tar.gz", ".zip"].iter().any(|ending| name.ends_with(ending));
        // One of the plan may be of a run that was interrupted; its bytes are compared later.
        is_distribution && !before.contains(*name) && !plan.files.contains_key(*name)
    };
    let mut foreign: Vec<&String> = names.filter(is_foreign).collect();
    foreign.sort();
    match foreign.first() {
        None => Ok(()),
        Some(first) => Err(Error::Mirror {
            attempted: format!("mirror into `{place}`"),
            reason: format!("it has {} that no mirror needs: `{first}`", counted(foreign.len() as u64, "file")),
            hint: "choose another folder, or move these files away".to_owned(),
            exit: rocwheel_progress::Exit::Failed,
        }),
    }
}

impl MirrorList {
    fn read(folder: &Path) -> Result<Option<MirrorList>, Error> {
        let path = folder.join(MIRROR_MANIFEST);
        let bytes = match fs_err::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::Read { path, source }.into()),
        };
        MirrorList::parse(&bytes, &path).map(Some)
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<MirrorList, Error> {
        let wrong = |source: io::Error| StoreError::Read { path: path.to_owned(), source };
        let list: MirrorList = serde_json::from_slice(bytes).map_err(|error| wrong(error.into()))?;
        if list.schema != SCHEMA {
            let reason = format!("its schema is {}, and {SCHEMA} is known", list.schema);
            return Err(wrong(io::Error::other(reason)).into());
        }
        Ok(list)
    }

    /// # Panics
    /// Never: all keys are text.
    fn bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("all keys are text");
        text.push(b'\n');
        text
    }
}

/// Sizes and hashes of all files below a folder, except the list itself and what begins with a dot.
fn all_files(folder: &Path, reporter: &dyn Reporter) -> Result<BTreeMap<String, ListedFile>, Error> {
    let mut paths: Vec<(String, PathBuf, u64)> = Vec::new();
    let is_shown =
        |entry: &walkdir::DirEntry| entry.depth() == 0 || !entry.file_name().as_encoded_bytes().starts_with(b".");
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
        let read = |source| StoreError::Read { path: path.clone(), source };
        let digest = sha256_of(Watched::new(fs_err::File::open(&path).map_err(read)?, reporter));
        reporter.check()?;
        files.insert(name, ListedFile { size, sha256: hexadecimal(&digest.map_err(read)?) });
    }
    reporter.end();
    Ok(files)
}

/// Compares a folder with its list.
///
/// # Errors
/// [`Error::Mirror`] for a folder without a list; what cannot be read.
pub fn verify_mirror(folder: &Path, reporter: &dyn Reporter) -> Result<MirrorVerdict, Error> {
    let list = MirrorList::read(folder)?.ok_or_else(|| no_list(&folder.to_string_lossy()))?;
    Ok(verdict(list, all_files(folder, reporter)?))
}

fn no_list(place: &str) -> Error {
    Error::Mirror {
        attempted: format!("verify `{place}`"),
        reason: format!("it has no `{MIRROR_MANIFEST}`"),
        hint: "give the folder or bucket that `rocwheel release mirror --to` made".to_owned(),
        exit: rocwheel_progress::Exit::Failed,
    }
}

fn verdict(list: MirrorList, mut actual: BTreeMap<String, ListedFile>) -> MirrorVerdict {
    let mut verdict = MirrorVerdict::default();
    for (name, listed) in list.files {
        match actual.remove(&name) {
            None => verdict.missing.push(name),
            Some(found) if found == listed => verdict.good += 1,
            Some(_) => verdict.changed.push(name),
        }
    }
    verdict.unlisted = actual.into_keys().collect();
    verdict
}
