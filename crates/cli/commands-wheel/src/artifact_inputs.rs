//! Input: paths of artifacts, or of directories that hold artifacts. Output: paths of artifacts,
//! sorted by name.

use std::path::{Path, PathBuf};

use rocwheel_artifact::{ArtifactLocation, ArtifactName, Component, Ignored};
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::printer::Printer;

/// The file that makes a directory an artifact.
const MANIFEST: &str = "artifact_manifest.txt";

/// The forms of artifacts that a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forms {
    /// Directories only.
    Directories,
    /// Directories, and archives without a directory of the same name.
    All,
}

pub(crate) fn parse_component(name: &str) -> Result<Component, Usage> {
    Component::parse(name).ok_or_else(|| {
        let known = Component::CHAIN.map(Component::name).join(", ");
        Usage::new(format!("there is no component `{name}`")).hint(format!("the components are {known}"))
    })
}

/// Replaces each directory that is not an artifact with the artifacts in it.
pub(crate) fn expand(paths: &[PathBuf], forms: Forms, printer: &Printer) -> Result<Vec<PathBuf>> {
    let mut inputs = Vec::new();
    for path in paths {
        let metadata = fs_err::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => rocwheel_artifact::not_there(path),
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

/// The name of an artifact directory or archive. A file that is not an archive is not an artifact:
/// names of libraries have underscores too.
pub(crate) fn name_of(path: &Path) -> Option<ArtifactName> {
    let file_name = path.file_name()?.to_str()?;
    let archive = ArtifactName::parse_archive(file_name).map(|(name, _)| name);
    archive.or_else(|| if path.is_file() { None } else { ArtifactName::parse(file_name) })
}

fn inside(directory: &Path, forms: Forms, printer: &Printer) -> Result<Vec<PathBuf>> {
    let survey = rocwheel_artifact::survey(directory)?;
    if let Some((_, problem)) = survey.problems.into_iter().next() {
        return Err(problem);
    }
    for warning in survey.ignored.iter().filter_map(Ignored::warning) {
        printer.warn(warning);
    }
    let mut found = Vec::new();
    for (_, place) in survey.places {
        match place {
            ArtifactLocation::Archive(path, _) if forms == Forms::Directories => {
                printer.warn(format!("`{}` is an archive already and is skipped", path.display()));
            }
            ArtifactLocation::Directory(path) | ArtifactLocation::Archive(path, _) => found.push(path),
        }
    }
    if found.is_empty() {
        return Err(rocwheel_artifact::no_artifacts(directory));
    }
    Ok(found)
}
