//! Input: paths. Output: where artifacts are, as directories or archives, judged by name only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocwheel_progress::Failure;

use crate::archive::Compression;
use crate::error::{self, Error};
use crate::name::ArtifactName;
use crate::scan::MANIFEST;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactForm {
    Directory,
    /// As an archive, which is unpacked before it is read.
    Archive {
        path: PathBuf,
        /// Its SHA-256 digest in lower-case hexadecimal.
        digest: String,
    },
}

/// The location of an artifact that is not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactLocation {
    /// A directory, or a link to one.
    Directory(PathBuf),
    /// An archive, or a link to one.
    Archive(PathBuf, Compression),
}

impl ArtifactLocation {
    /// A link is not resolved, because its name is the artifact's.
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::Archive(path, _) => path,
        }
    }
}

/// Sorted by name.
pub(crate) fn locate(inputs: &[PathBuf]) -> Result<Vec<(ArtifactName, ArtifactLocation)>, Error> {
    let mut places: BTreeMap<ArtifactName, ArtifactLocation> = BTreeMap::new();
    for path in inputs {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_directory = fs_err::metadata(path)?.is_dir();
        let (stem, place) = if is_directory {
            if !path.join(MANIFEST).is_file() && ArtifactName::parse(&file_name).is_none() {
                let path = path.display();
                return Err(Failure::message(format!(
                    "`{path}` is neither an artifact directory nor an artifact archive"
                ))
                .into());
            }
            (file_name.as_str(), ArtifactLocation::Directory(path.clone()))
        } else {
            let compression = Compression::of(path)?;
            (
                file_name.strip_suffix(compression.suffix()).unwrap_or(&file_name),
                ArtifactLocation::Archive(path.clone(), compression),
            )
        };
        let Some(name) = ArtifactName::parse(stem) else {
            return Err(error::malformed_name(stem, path).into());
        };
        if let Some(other) = places.insert(name.clone(), place) {
            return Err(error::given_twice(&name, other.path(), path).into());
        }
    }
    Ok(places.into_iter().collect())
}
