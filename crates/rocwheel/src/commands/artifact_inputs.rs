//! Input: paths of artifacts, or of directories that hold artifacts. Output: paths of artifacts, sorted by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use artifact::ArtifactName;
use artifact::archive::Compression;

use crate::printer::Printer;

/// The file that makes a directory an artifact.
const MANIFEST: &str = "artifact_manifest.txt";

/// Which forms of artifacts a command takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forms {
    /// Directories only.
    Directories,
    /// Directories, and archives where there is no directory of that name.
    All,
}

/// Replaces each directory that is no artifact by the artifacts in it.
pub(crate) fn expand(paths: &[PathBuf], forms: Forms, printer: &Printer) -> anyhow::Result<Vec<PathBuf>> {
    let mut inputs = Vec::new();
    for path in paths {
        let metadata = fs_err::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => artifact::Error::NotThere { path: path.clone() },
            _ => error.into(),
        })?;
        let is_artifact = !metadata.is_dir() || path.join(MANIFEST).exists() || name_of(path).is_some();
        if is_artifact {
            inputs.push(path.clone());
        } else {
            inputs.extend(inside(path, forms, printer)?);
        }
    }
    Ok(inputs)
}

/// The name of an artifact directory or archive. A file is an archive or no artifact: libraries have underscores too.
pub(crate) fn name_of(path: &Path) -> Option<ArtifactName> {
    let file_name = path.file_name()?.to_str()?;
    let archive = ArtifactName::parse_archive(file_name).map(|(name, _)| name);
    archive.or_else(|| if path.is_file() { None } else { ArtifactName::parse(file_name) })
}

fn inside(directory: &Path, forms: Forms, printer: &Printer) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = fs_err::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<PathBuf>, std::io::Error>>()?;
    // A directory sorts before the archive of the same name.
    paths.sort();
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in paths {
        let is_directory = path.is_dir();
        // One that is named like an artifact is meant as one; what keeps it from being read is said when it is.
        if is_directory && name_of(&path).is_none() && !path.join(MANIFEST).exists() {
            continue;
        }
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let archive = Compression::split(&file_name);
        if !is_directory && archive.is_none() {
            continue;
        }
        let stem = archive.map_or(&*file_name, |(stem, _)| stem).to_owned();
        if is_directory || (forms == Forms::All && name_of(&path).is_some()) {
            found.entry(stem).or_insert(path);
        } else if name_of(&path).is_none() {
            printer.warn(format!("`{}` is not named like an artifact and is left out", path.display()));
        }
    }
    if found.is_empty() {
        return Err(artifact::Error::NoArtifacts { path: directory.to_owned() }.into());
    }
    Ok(found.into_values().collect())
}
