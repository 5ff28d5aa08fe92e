//! Input: a directory of artifacts. Output: one record for each artifact, printed as a table or as
//! JSON.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_progress::{Reporter, Unit, WithoutProgress};
use serde::Serialize;

use crate::archive;
use crate::catalog::{self, Ignored};
use crate::entry::EntryKind;
use crate::error::{Error, with_source};
use crate::location::ArtifactLocation;
use crate::name::ArtifactName;
use crate::scan;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// The artifacts, sorted by name.
    pub artifacts: Vec<ListedArtifact>,
    /// Directory entries that are not artifacts, sorted by path.
    pub ignored: Vec<Ignored>,
    /// Messages about names that were meant as artifacts and archives that exist twice.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedArtifact {
    pub artifact: ArtifactName,
    pub name: String,
    pub component: String,
    pub target_family: String,
    /// Directory, or the compression of its archive.
    pub form: ListedForm,
    pub path: PathBuf,
    pub files: u64,
    /// Bytes of all files after unpacking.
    pub bytes: u64,
    /// Result of comparing the archive with its sidecar.
    pub digest: DigestState,
    /// The first defect, as a message. The numbers then cover only the part that could be read.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ListedForm {
    Directory,
    /// As an archive compressed with zstd.
    Zstd,
    /// As an archive compressed with xz.
    Xz,
}

/// The result of comparing an archive with its sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DigestState {
    /// A directory, which has no sidecar.
    NotAnArchive,
    /// The archive has no sidecar.
    NoSidecar,
    /// The archive has the digest that is in its sidecar.
    Verified,
    /// The archive has a different digest.
    Mismatch,
    /// The sidecar or the archive cannot be read.
    Unreadable,
}

impl DigestState {
    /// As in the printed table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotAnArchive => "-",
            Self::NoSidecar => "no sidecar",
            Self::Verified => "verified",
            Self::Mismatch => "mismatch",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Lists a directory of artifacts. Archives are read to their end but not unpacked. A defect of one
/// artifact is reported in its record and does not stop the listing.
pub fn list(directory: &Path, reporter: &dyn Reporter) -> Result<Listing, Error> {
    let survey = catalog::survey(directory)?;
    let total = survey.places.len() as u64;
    let stage = reporter.stage("Listing artifacts", Some(total), Unit::Items);
    let lines: Vec<Result<ListedArtifact, Error>> = survey
        .places
        .par_iter()
        .map(|(name, place)| {
            let listed = list_one(name, place, &WithoutProgress(reporter));
            reporter.advance(1);
            listed
        })
        .collect();
    drop(stage);
    Ok(Listing {
        artifacts: lines.into_iter().collect::<Result<_, _>>()?,
        ignored: survey.ignored,
        problems: survey.problems.iter().map(|(_, problem)| with_source(problem)).collect(),
    })
}

fn list_one(name: &ArtifactName, place: &ArtifactLocation, reporter: &dyn Reporter) -> Result<ListedArtifact, Error> {
    let (form, digest, entries, problem) = match place {
        ArtifactLocation::Directory(path) => {
            let (entries, problem) = match scan::scan(path, name, path, reporter) {
                Ok(scan) => (scan.entries, scan.problems.first().map(ToString::to_string)),
                Err(error @ Error::Interrupted(_)) => return Err(error),
                Err(error) => (Vec::new(), Some(error.to_string())),
            };
            (ListedForm::Directory, DigestState::NotAnArchive, entries, problem)
        }
        ArtifactLocation::Archive(path, compression) => {
            let form = match compression {
                archive::Compression::Zstd => ListedForm::Zstd,
                archive::Compression::Xz => ListedForm::Xz,
            };
            let (digest, wrong) = digest_state(path, reporter)?;
            match archive::for_each_member(path, reporter, &mut |_, _| Ok(())) {
                Ok(entries) => (form, digest, entries, wrong),
                Err(error @ Error::Interrupted(_)) => return Err(error),
                Err(error) => (form, digest, Vec::new(), Some(wrong.unwrap_or_else(|| error.to_string()))),
            }
        }
    };
    Ok(ListedArtifact {
        artifact: name.clone(),
        name: name.name.clone(),
        component: name.component.clone(),
        target_family: name.target_family.clone(),
        form,
        path: place.path().to_owned(),
        files: entries.iter().filter(|entry| entry.kind != EntryKind::Directory).count() as u64,
        bytes: entries.iter().map(|entry| if let EntryKind::File { size, .. } = entry.kind { size } else { 0 }).sum(),
        digest,
        problem,
    })
}

/// The state of an archive's digest, with a message if it is wrong or unreadable.
fn digest_state(path: &Path, reporter: &dyn Reporter) -> Result<(DigestState, Option<String>), Error> {
    match archive::read_sidecar(path) {
        Ok(None) => return Ok((DigestState::NoSidecar, None)),
        Ok(Some(_)) => {}
        Err(error) => return Ok((DigestState::Unreadable, Some(error.to_string()))),
    }
    match archive::verify_digest(path, reporter) {
        Ok(_) => Ok((DigestState::Verified, None)),
        Err(error @ Error::Interrupted(_)) => Err(error),
        Err(error @ Error::DigestMismatch { .. }) => Ok((DigestState::Mismatch, Some(error.to_string()))),
        Err(error) => Ok((DigestState::Unreadable, Some(error.to_string()))),
    }
}
