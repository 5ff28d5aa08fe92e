//! Input: a folder with built files. Output: what installers read in each ([`LocalSet`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use rocwheel_content::archive_path::{file_name, join};
use rocwheel_content::{Digest, hexadecimal, parse_sha256};
use rocwheel_index::companion::{ATTESTATIONS, DELTA, PACKING};
use rocwheel_pages::facts::{DistributionFacts, FactsFault, headers};
use rocwheel_progress::{Reporter, Unit};
use rocwheel_promote::Promoted;
use rocwheel_store::listing::{DistributionListing, NameFilter, StoredDistribution};
use rocwheel_store::{Error as StoreError, FileTransfer, FolderStore, NewFile, Store, put, with_threads};
use rocwheel_stream::{SetFile, SetParts, SnapshotFile, Stream, statement_key};
use rocwheel_wheel::canonical_name;

use super::attested;
use crate::Error;

/// Built files that are published together.
#[derive(Debug, Default)]
pub struct LocalSet {
    /// By the key that they get in a stream.
    pub(crate) files: BTreeMap<String, LocalFile>,
    /// Archives in the folder that are not Python packages, such as tarballs of ROCm.
    pub ignored: Vec<String>,
    /// [`FileTransfer::Link`] for files that no other program uses.
    pub transfer: FileTransfer,
}

#[derive(Debug)]
pub(crate) struct LocalFile {
    pub(crate) path: PathBuf,
    pub(crate) sha256: Digest,
    pub(crate) metadata_sha256: Option<String>,
    /// METADATA of a wheel, byte for byte.
    pub(crate) metadata: Option<Vec<u8>>,
    /// Its attestations (PEP 740).
    pub(crate) provenance: Option<Vec<u8>>,
    /// The description of its pieces; only of wheels, after [`LocalSet::describe_pieces`].
    pub(crate) delta: Option<Vec<u8>>,
    /// The record of how it was packed; only of wheels, after [`LocalSet::record_packing`].
    pub(crate) packing: Option<Vec<u8>>,
    pub(crate) set_file: SetFile,
}

impl LocalSet {
    /// The paths of the files, by key.
    pub fn paths(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.files.iter().map(|(key, file)| (key.as_str(), file.path.as_path()))
    }

    pub fn hashes(&self) -> BTreeMap<&Path, String> {
        self.files.values().map(|file| (file.path.as_path(), file.set_file.sha256.clone())).collect()
    }

    /// The attestations (PEP 740) of the file of this name.
    pub fn attestations(&self, name: &str) -> Option<Vec<u8>> {
        let found = self.files.iter().find(|(key, _)| file_name(key) == name)?;
        found.1.provenance.clone()
    }

    /// `true` if any file has attestations beside it.
    pub fn has_attestations(&self) -> bool {
        self.files.values().any(|file| file.provenance.is_some())
    }

    /// Describes the pieces of each wheel, so that publishing writes `WHEEL.delta` beside it.
    pub fn describe_pieces(&mut self, reporter: &dyn Reporter) -> Result<(), Error> {
        let mut wheels: Vec<&mut LocalFile> = self.files.values_mut().filter(|file| file.metadata.is_some()).collect();
        let total = wheels.iter().map(|file| file.set_file.size).sum();
        let _stage = reporter.stage("Describing wheels", Some(total), Unit::Bytes);
        wheels.par_iter_mut().try_for_each(|file| {
            file.delta = Some(rocwheel_delta::describe(&file.path, &file.set_file.sha256, reporter)?);
            Ok(())
        })
    }

    /// Takes the record of how each wheel was packed from `record_of`, which gets its path and may
    /// have none, so that publishing writes `WHEEL.packing` beside it.
    pub fn record_packing(&mut self, record_of: impl Fn(&Path) -> Option<Vec<u8>>) {
        for file in self.files.values_mut().filter(|file| file.metadata.is_some()) {
            file.packing = record_of(&file.path);
        }
    }

    /// Writes the descriptions of pieces that the store does not have, and returns their keys. They
    /// are on no page and in no snapshot, because nothing believes them.
    pub(super) fn put_deltas(&self, store: &dyn Store, reporter: &dyn Reporter) -> Result<Vec<String>, Error> {
        let described: Vec<(String, &Vec<u8>)> =
            self.files.iter().filter_map(|(key, file)| Some((format!("{key}{DELTA}"), file.delta.as_ref()?))).collect();
        let written = described.par_iter().map(|(key, bytes)| {
            reporter.check()?;
            Ok(put(store, true, key, bytes)?.map(|_| key.clone()))
        });
        let written = with_threads(store, || written.collect::<Result<Vec<_>, Error>>())?;
        Ok(written.into_iter().flatten().collect())
    }

    /// Returns the parts of a published set that can be written again from these files and
    /// `statements`.
    pub(super) fn parts<'l>(&'l self, statements: &'l [Vec<u8>]) -> SetParts<'l> {
        let mut small: BTreeMap<String, &[u8]> = BTreeMap::new();
        for (key, file) in &self.files {
            let provenance = file.provenance.iter().map(|bytes| (ATTESTATIONS, bytes));
            for (ending, bytes) in file.beside().chain(provenance) {
                small.insert(format!("{key}{ending}"), bytes);
            }
        }
        for bytes in statements {
            small.insert(statement_key(&hexadecimal(&rocwheel_content::sha256(bytes))), bytes);
        }
        SetParts { files: self.files.keys().map(String::as_str).collect(), small }
    }

    /// Files with attestations that the stream does not have yet.
    pub(super) fn newly_attested(&self, stream: &Stream<'_>) -> Vec<(&String, &Vec<u8>)> {
        let new = self.files.iter().filter(|(key, file)| {
            stream.manifest.files.get(*key).is_none_or(|row| row.provenance_sha256 != file.provenance_sha256())
        });
        new.filter_map(|(key, file)| Some((key, file.provenance.as_ref()?))).collect()
    }

    /// Writes METADATA beside each wheel, as installers read it from an index.
    pub fn write_metadata(&self) -> Result<(), Error> {
        for file in self.files.values() {
            let Some(metadata) = &file.metadata else { continue };
            let mut path = file.path.clone().into_os_string();
            path.push(".metadata");
            fs_err::write(&path, metadata).map_err(|source| StoreError::Write { path: path.into(), source })?;
        }
        Ok(())
    }
}

impl LocalFile {
    pub(crate) fn new_file(&self, key: &str, transfer: FileTransfer) -> NewFile {
        let (path, key) = (self.path.clone(), key.to_owned());
        NewFile { path, key, size: self.set_file.size, sha256: self.sha256, transfer }
    }

    pub(crate) fn provenance_sha256(&self) -> Option<String> {
        self.provenance.as_ref().map(|bytes| hexadecimal(&rocwheel_content::sha256(bytes)))
    }

    /// What a publication writes beside the new file, by the ending of its name.
    pub(crate) fn beside(&self) -> impl Iterator<Item = (&'static str, &Vec<u8>)> {
        let both = [(".metadata", &self.metadata), (PACKING, &self.packing)];
        both.into_iter().filter_map(|(ending, bytes)| Some((ending, bytes.as_ref()?)))
    }

    /// The row of the manifest; the caller sets the time.
    pub(crate) fn snapshot_file(&self, set: &str, uploaded: jiff::Timestamp) -> SnapshotFile {
        SnapshotFile {
            size: self.set_file.size,
            sha256: self.set_file.sha256.clone(),
            uploaded,
            requires_python: self.set_file.requires_python.clone(),
            metadata_sha256: self.metadata_sha256.clone(),
            provenance_sha256: self.provenance_sha256(),
            packing_sha256: self.packing.as_ref().map(|bytes| hexadecimal(&rocwheel_content::sha256(bytes))),
            yanked: None,
            set: set.to_owned(),
        }
    }
}

/// Reads the wheels and source distributions of a folder and its subfolders.
pub fn read_set(folder: &Path, reporter: &dyn Reporter) -> Result<LocalSet, Error> {
    read_store(&FolderStore::open(folder)?, folder, reporter)
}

/// Reads the folder that a promotion has just written, where no other program writes: [`read_set`]
/// without the hashes, which were taken of the bytes on their way to the disk.
pub fn read_promoted(folder: &Path, promoted: &[Promoted], reporter: &dyn Reporter) -> Result<LocalSet, Error> {
    let hashes = promoted.iter().filter_map(|file| Some((file.name.clone(), parse_sha256(&file.sha256)?)));
    let store = FolderStore::open(folder)?.with_hashes(hashes.collect());
    Ok(LocalSet { transfer: FileTransfer::Link, ..read_store(&store, folder, reporter)? })
}

fn read_store(store: &FolderStore, folder: &Path, reporter: &dyn Reporter) -> Result<LocalSet, Error> {
    let listing = DistributionListing::of(store.list("", reporter)?, &NameFilter::default());
    if listing.distributions.is_empty() && listing.problems.is_empty() {
        return Err(rocwheel_pages::Error::Empty { store: store.name(), filter: String::new() }.into());
    }
    let total = listing.distributions.iter().map(|one| one.file.size).sum();
    reporter.begin("Reading built files", Some(total), Unit::Bytes);
    let found = Mutex::new((BTreeMap::new(), listing.problems.clone()));
    let read = listing.distributions.par_iter().try_for_each(|one| -> Result<(), Error> {
        reporter.check()?;
        let file = match read_file(store, folder, one, reporter) {
            Ok(file) => Ok(file),
            Err(FactsFault::Store(error)) => return Err(error.into()),
            Err(FactsFault::File(reason)) => {
                reporter.check()?;
                Err(format!("`{}`: {reason}", one.file.key))
            }
        };
        let (files, problems) = &mut *found.lock().unwrap_or_else(PoisonError::into_inner);
        match file {
            Ok(file) => {
                if let Some(other) = files.insert(join(&one.project, one.name()), file) {
                    let other: &LocalFile = &other;
                    problems.push(format!("`{}`: `{}` has the same name", one.file.key, other.path.display()));
                }
            }
            Err(problem) => problems.push(problem),
        }
        Ok(())
    });
    reporter.end();
    read?;
    let (files, mut problems) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    problems.sort();
    if problems.is_empty() {
        Ok(LocalSet { files, ignored: listing.ignored, transfer: FileTransfer::Copy })
    } else {
        Err(StoreError::Files { problems }.into())
    }
}

fn read_file(
    store: &FolderStore,
    folder: &Path,
    one: &StoredDistribution,
    reporter: &dyn Reporter,
) -> Result<LocalFile, FactsFault> {
    let facts = DistributionFacts::read(store, one, reporter)?;
    let (headers, metadata) = headers(store, one, reporter).map_err(FactsFault::Store)?;
    let extras: BTreeSet<String> = headers.all("Provides-Extra").iter().map(|extra| canonical_name(extra)).collect();
    let sha256 = parse_sha256(&facts.sha256).unwrap_or_default();
    let set_file = SetFile {
        size: one.file.size,
        sha256: facts.sha256,
        requires_python: facts.requires_python,
        requires: headers.all("Requires-Dist"),
        extras,
    };
    let metadata_sha256 = facts.metadata_sha256;
    let path = folder.join(&one.file.key);
    let provenance = attested::read(&path, &set_file.sha256).map_err(FactsFault::File)?;
    Ok(LocalFile { path, sha256, metadata_sha256, metadata, provenance, delta: None, packing: None, set_file })
}
