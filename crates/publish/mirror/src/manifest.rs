//! What a mirror has: its plan, the list of its files, and how a place differs from the list.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_content::archive_path::join;
use rocwheel_pages::StatusTable;
use rocwheel_pages::status::FILE as STATUS_FILE;
use rocwheel_progress::counted;
use rocwheel_store::{Error as StoreError, Store};
use serde::{Deserialize, Serialize};

use crate::cannot;
use crate::lock::LockedFile;
use crate::origin::FileOrigins;
use rocwheel_progress::Failure;

/// The list of all files of a mirror.
pub const MIRROR_MANIFEST: &str = "mirror.json";
/// The form of that list.
pub(crate) const SCHEMA: u32 = 1;

/// What one Python on one system gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedSet {
    pub python: String,
    pub platform: String,
    /// `NAME==VERSION`, sorted.
    pub packages: BTreeSet<String>,
}

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
    pub fetched: Vec<String>,
    /// How many were there before.
    pub kept: usize,
    pub removed: Vec<String>,
    /// Bytes of all distributions.
    pub bytes: u64,
    /// The folder of the first page, which installers are given.
    pub index: String,
    /// The source of each fact on the pages, by file name.
    pub origins: BTreeMap<String, FileOrigins>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MirrorVerdict {
    /// Files that match the list.
    pub good: usize,
    pub missing: Vec<String>,
    /// Files with other bytes.
    pub changed: Vec<String>,
    pub unlisted: Vec<String>,
}

impl MirrorVerdict {
    pub fn is_good(&self) -> bool {
        self.missing.is_empty() && self.changed.is_empty() && self.unlisted.is_empty()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MirrorList {
    pub(crate) schema: u32,
    /// Name, version and so on of what was asked for, for people.
    pub(crate) sets: Vec<ResolvedSet>,
    /// Every file below the folder by its path.
    pub(crate) files: BTreeMap<String, ListedFile>,
    /// The paths of distributions, which a later run may remove.
    pub(crate) distributions: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedFile {
    pub(crate) size: u64,
    pub(crate) sha256: String,
}

impl MirrorList {
    pub(crate) fn parse(bytes: &[u8], path: &Path) -> Result<MirrorList, Failure> {
        let list: MirrorList = serde_json::from_slice(bytes).map_err(|error| StoreError::read(path)(error.into()))?;
        if list.schema != SCHEMA {
            let reason = format!("its schema is {}, and {SCHEMA} is known", list.schema);
            return Err(StoreError::read(path)(io::Error::other(reason)).into());
        }
        Ok(list)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("all keys are text");
        text.push(b'\n');
        text
    }
}

/// The statuses in the store's `index-status.toml`, followed by those of other indexes.
pub(crate) fn status_table(store: &dyn Store, others: &StatusTable) -> Result<(PathBuf, StatusTable), Failure> {
    let path = PathBuf::from(join(&store.name(), STATUS_FILE));
    let mut table = match store.read(STATUS_FILE)? {
        Some(bytes) => StatusTable::parse(&String::from_utf8_lossy(&bytes), &path)?,
        None => StatusTable::default(),
    };
    table.add(others);
    Ok((path, table))
}

/// Errors for distributions among `names` that neither the plan nor an earlier run has.
pub(crate) fn check_names<'n>(
    plan: &MirrorPlan,
    place: &str,
    names: impl Iterator<Item = &'n String>,
    before: &BTreeSet<String>,
) -> Result<(), Failure> {
    let foreign = names.filter(|name| {
        let is_distribution = [".whl", ".tar.gz", ".zip"].iter().any(|ending| name.ends_with(ending));
        // One of the plan may be of a run that was interrupted; its bytes are compared later.
        is_distribution && !before.contains(*name) && !plan.files.contains_key(*name)
    });
    let mut foreign: Vec<&String> = foreign.collect();
    foreign.sort();
    match foreign.first() {
        None => Ok(()),
        Some(first) => Err(cannot(
            &format!("mirror into `{place}`"),
            &format!("it has {} that no mirror needs: `{first}`", counted(foreign.len() as u64, "file")),
            "choose another folder, or move these files away",
        )),
    }
}

pub(crate) fn no_list(place: &str) -> Failure {
    cannot(
        &format!("verify `{place}`"),
        &format!("it has no `{MIRROR_MANIFEST}`"),
        "give the folder or bucket that `rocwheel release mirror --to` made",
    )
}

pub(crate) fn verdict(list: MirrorList, mut actual: BTreeMap<String, ListedFile>) -> MirrorVerdict {
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
