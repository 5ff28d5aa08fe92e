//! Input: artifact directories and an output. Output: the plan of an archive for each of them.

use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Failure, Reporter};
use serde::Serialize;

use super::Compression;
use crate::catalog::Artifact;
use crate::error::{self, Error};
use crate::input::outside;
use crate::name::ArtifactName;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ArchiveOptions {
    /// The format, which also determines the suffix of the name.
    pub compression: Compression,
    /// One of [`Compression::levels`].
    pub level: u32,
    /// Modification time of every member, in seconds since 1970.
    pub epoch: u64,
    /// Number of threads that compress. The bytes do not depend on it.
    pub threads: usize,
}

#[derive(Debug, Clone, Serialize)]
pub struct ArchivePlan {
    pub options: ArchiveOptions,
    /// The archives, sorted by artifact name.
    pub archives: Vec<PlannedArchive>,
}

#[derive(Debug, Clone, Serialize)]
pub struct PlannedArchive {
    pub artifact: ArtifactName,
    pub source: PathBuf,
    pub path: PathBuf,
    /// Number of files and links.
    pub files: u64,
    pub bytes: u64,
    #[serde(skip)]
    pub(super) contents: Artifact,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ArchiveState {
    Written,
    /// An earlier run wrote it of the same files.
    Unchanged,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PackedArtifact {
    pub artifact: ArtifactName,
    pub path: PathBuf,
    pub sidecar: PathBuf,
    /// SHA-256 digest of the archive in lower-case hexadecimal.
    pub digest: String,
    pub files: u64,
    /// Total size of all files in bytes, each hard link counted once.
    pub raw: u64,
    /// Size of the archive in bytes.
    pub compressed: u64,
    pub state: ArchiveState,
}

/// Reads the artifact directories and plans one archive each below `output`, for
/// [`super::write()`].
pub fn plan(
    directories: &[PathBuf],
    output: &Path,
    options: ArchiveOptions,
    reporter: &dyn Reporter,
) -> Result<ArchivePlan, Error> {
    let levels = options.compression.levels();
    if !levels.contains(&options.level) {
        let (level, least, most) = (options.level, levels.start(), levels.end());
        let text = format!("there is no compression level {level}: levels go from {least} to {most}");
        return Err(Failure::message(text).with_exit(Exit::Usage).into());
    }
    outside(output, directories)?;
    let mut archives: Vec<PlannedArchive> = Vec::new();
    for directory in directories {
        let file_name = directory.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = ArtifactName::parse(&file_name) else {
            return Err(error::malformed_name(&file_name, directory).into());
        };
        if let Some(other) = archives.iter().find(|archive| archive.artifact == name) {
            return Err(error::given_twice(&name, &other.source, directory).into());
        }
        let contents = Artifact::open(name.clone(), directory, reporter)?;
        let (files, bytes) = contents.size();
        let path = output.join(name.archive_name(options.compression));
        archives.push(PlannedArchive { artifact: name, source: directory.clone(), path, files, bytes, contents });
    }
    archives.sort_by(|left, right| left.artifact.cmp(&right.artifact));
    Ok(ArchivePlan { options, archives })
}
