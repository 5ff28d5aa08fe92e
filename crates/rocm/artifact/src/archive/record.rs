//! Input: a planned archive. Output: the archive that an earlier run wrote of the same files with
//! the same options, if it still exists unchanged.
//!
//! The records are in a folder beside the archives. They have only what the file system knows about
//! the files, so no file is read to compare.

use std::io;
use std::path::Path;

use rocwheel_content::{CacheEntry, CacheFolder, FileStamp, document};
use serde::{Deserialize, Serialize};

use super::plan::{ArchiveOptions, ArchiveState, PackedArtifact, PlannedArchive};
use super::sidecar::{read_sidecar, sidecar_path};
use crate::entry::EntryKind;
use crate::input::read_small;
use crate::scan::MANIFEST;

const FOLDER: &str = ".rocwheel-archives";
/// Limit in bytes for all records, which have some 300 bytes each.
const ALL_RECORDS: u64 = 16 << 20;

pub(super) struct ArchiveRecords(CacheFolder);

#[derive(Serialize, Deserialize)]
struct ArchiveRecord {
    /// A hash of all inputs.
    inputs: String,
    archive: String,
    digest: String,
    raw: u64,
    compressed: u64,
}

/// Everything that decides the bytes of an archive.
#[derive(PartialEq, Eq)]
pub(super) struct ArchiveInputs {
    hash: String,
    files: Vec<FileStamp>,
}

impl ArchiveInputs {
    pub(super) fn of(planned: &PlannedArchive, options: ArchiveOptions) -> io::Result<ArchiveInputs> {
        let ArchiveOptions { compression, level, epoch, threads: _ } = options;
        let artifact = &planned.contents;
        let mut hasher = blake3::Hasher::new();
        hasher.update(format!("{} {compression:?} {level} {epoch}\0", env!("CARGO_PKG_VERSION")).as_bytes());
        hasher.update(&read_small(&artifact.root.join(MANIFEST))?);
        let mut files = Vec::new();
        for entry in &artifact.entries {
            let name = format!("{}/{}", artifact.basedirs[entry.basedir], entry.path);
            hasher.update(format!("\0{name}\0{:?}\0", entry.kind).as_bytes());
            if let EntryKind::File { .. } = entry.kind {
                let stamp = FileStamp::at(&artifact.path(entry))?;
                hasher.update(stamp.to_string().as_bytes());
                files.push(stamp);
            }
        }
        Ok(ArchiveInputs { hash: hasher.finalize().to_hex().to_string(), files })
    }
}

impl ArchiveRecords {
    pub(super) fn beside(archive: &Path) -> ArchiveRecords {
        let folder = archive.parent().unwrap_or(Path::new(".")).join(FOLDER);
        ArchiveRecords(CacheFolder::new(folder, "record", ALL_RECORDS))
    }

    /// The existing archive, if it was made from these `inputs`.
    pub(super) fn unchanged(&self, planned: &PlannedArchive, inputs: &ArchiveInputs) -> Option<PackedArtifact> {
        let CacheEntry { content, written } = self.0.read(&name(planned))?;
        let record: ArchiveRecord = serde_json::from_slice(&content).ok()?;
        let is_same = record.inputs == inputs.hash
            && inputs.files.iter().all(|file| file.had_settled(written))
            && record.archive == FileStamp::at(&planned.path).ok()?.to_string()
            && read_sidecar(&planned.path).ok()?.as_ref() == Some(&record.digest);
        is_same.then(|| PackedArtifact {
            artifact: planned.artifact.clone(),
            path: planned.path.clone(),
            sidecar: sidecar_path(&planned.path),
            digest: record.digest,
            files: planned.files,
            raw: record.raw,
            compressed: record.compressed,
            state: ArchiveState::Unchanged,
        })
    }

    /// Records an archive that was written. Without the record the next run writes it again.
    pub(super) fn write(&self, planned: &PlannedArchive, inputs: &ArchiveInputs, packed: &PackedArtifact) {
        let Ok(archive) = FileStamp::at(&packed.path) else { return };
        let record = ArchiveRecord {
            inputs: inputs.hash.clone(),
            archive: archive.to_string(),
            digest: packed.digest.clone(),
            raw: packed.raw,
            compressed: packed.compressed,
        };
        let _ = self.0.write(&name(planned), &document::write(&record));
    }
}

fn name(planned: &PlannedArchive) -> String {
    planned.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
