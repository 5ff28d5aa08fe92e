//! Input: the entries of artifacts. Output: the artifact that each entry is written to.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_artifact::{Artifact, ArtifactEntry, ArtifactName, Catalog, EntryKind};
use rocwheel_tables::Databases;
use rocwheel_tables::target::{self, TargetId};
use serde::Serialize;

use rocwheel_progress::Failure;

use super::same_path;
use super::{ARCHIVES, GENERIC, Request, Units};
use crate::group;
use crate::plan::{Plan, PlannedKpack};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryDestination {
    /// The part that all GPUs share.
    Generic,
    /// The part for this base target.
    Target(String),
    /// None: the entry is for a target that is not selected.
    Dropped,
}

#[derive(Debug, Clone, Serialize)]
pub struct PlannedArtifact {
    pub name: ArtifactName,
    /// Number of files and links that come from the input.
    pub files: u64,
    /// Bytes of these files, before GPU code is removed.
    pub bytes: u64,
    /// Paths of the archives that are written into it, relative to the artifact.
    pub archives: Vec<String>,
    /// Lines of its `artifact_manifest.txt`.
    pub basedirs: Vec<String>,
    #[serde(skip)]
    pub(crate) placements: Vec<Placement>,
}

/// An entry and its treatment in the artifact it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Index of the source artifact in the catalog.
    pub(crate) artifact: usize,
    /// Index of the entry in that artifact.
    pub(crate) entry: usize,
    /// Index of the group and of the plan's binary, if GPU code is removed from the file.
    pub(crate) host: Option<(usize, usize)>,
}

/// Sorts entries into artifacts.
pub(super) struct Sorter<'a> {
    catalog: &'a Catalog,
    request: &'a Request,
    outputs: BTreeMap<ArtifactName, Output>,
    notes: Vec<String>,
    dropped: BTreeSet<String>,
    /// Index of the group that is being placed.
    pub(super) group: usize,
}

pub(super) struct Sorted {
    pub(super) artifacts: Vec<PlannedArtifact>,
    /// Messages about files of kernel databases that are not moved.
    pub(super) notes: Vec<String>,
    /// Artifacts and files for targets that are not selected.
    pub(super) dropped: Vec<String>,
}

#[derive(Default)]
struct Output {
    placements: Vec<Placement>,
    /// In the order of the manifests they come from.
    basedirs: Vec<String>,
    archives: Vec<String>,
}

impl Output {
    fn add_basedir(&mut self, basedir: &str) {
        if !self.basedirs.iter().any(|known| known == basedir) {
            self.basedirs.push(basedir.to_owned());
        }
    }
}

impl<'a> Sorter<'a> {
    pub(super) fn new(catalog: &'a Catalog, request: &'a Request) -> Self {
        let (notes, dropped) = (Vec::new(), BTreeSet::new());
        Self { catalog, request, outputs: BTreeMap::new(), notes, dropped, group: 0 }
    }

    /// Returns the destination of each entry, as far as it follows from its path.
    pub(super) fn destinations(&mut self, artifact: &Artifact) -> Vec<EntryDestination> {
        let mut destinations = Vec::with_capacity(artifact.entries.len());
        for entry in &artifact.entries {
            let destination = self.destination(artifact, entry);
            if destination == EntryDestination::Dropped {
                self.dropped.insert(format!("{}/{}", artifact.name, entry.path));
            }
            destinations.push(destination);
        }
        destinations
    }

    fn destination(&mut self, artifact: &Artifact, entry: &ArtifactEntry) -> EntryDestination {
        if entry.kind == EntryKind::Directory {
            return EntryDestination::Generic;
        }
        let own_target = (!artifact.name.is_generic() && is_gpu(artifact.name.base_target())).then_some(&artifact.name);
        if let Some(name) = own_target
            && entry.path.starts_with(".kpack/")
            && group::is_archive(&entry.path)
        {
            return self.wanted(&name.target_family);
        }
        let Some(member) = Databases::embedded().classify(&entry.path) else { return EntryDestination::Generic };
        if !self.request.databases.takes(member.database) {
            return EntryDestination::Generic;
        }
        let Some(target) = &member.target else { return EntryDestination::Generic };
        if !is_gpu(target::base_target(target)) {
            self.notes.push(format!(
                "`{}` of `{}` is for the family {target}, not for one target, and stays in the generic part",
                entry.path, artifact.name
            ));
            return EntryDestination::Generic;
        }
        self.wanted(target)
    }

    fn wanted(&self, target: &str) -> EntryDestination {
        if self.request.selection.takes(target) {
            EntryDestination::Target(target::base_target(target).to_owned())
        } else {
            EntryDestination::Dropped
        }
    }

    /// Assigns the entries of a group to their artifacts. Returns the members that are split; the
    /// others are copied.
    pub(super) fn place(
        &mut self,
        members: &[usize],
        destinations: &[Vec<EntryDestination>],
        plan: &Plan,
        units: &Units,
    ) -> Vec<usize> {
        let mut hosts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (number, binary) in plan.binaries.iter().enumerate() {
            hosts.insert(units.origins[binary.unit], number);
        }
        let mut sources = Vec::new();
        for (index, destinations) in members.iter().zip(destinations) {
            let artifact = &self.catalog.artifacts[*index];
            let has_code = hosts.keys().any(|(owner, _)| owner == index);
            let taken_apart = has_code || is_mixed(artifact, destinations);
            if taken_apart {
                sources.push(*index);
            }
            let generic = if taken_apart {
                ArtifactName { target_family: GENERIC.into(), ..artifact.name.clone() }
            } else {
                artifact.name.clone()
            };
            if !taken_apart && is_dropped(artifact, destinations) {
                continue;
            }
            let output = self.outputs.entry(generic.clone()).or_default();
            artifact.basedirs.iter().for_each(|basedir| output.add_basedir(basedir));
            for (number, destination) in destinations.iter().enumerate() {
                let entry = &artifact.entries[number];
                let name = match destination {
                    EntryDestination::Dropped => continue,
                    EntryDestination::Target(target) if taken_apart => {
                        ArtifactName { target_family: target.clone(), ..artifact.name.clone() }
                    }
                    _ => generic.clone(),
                };
                let host = hosts.get(&(*index, number)).map(|binary| (self.group, *binary));
                let output = self.outputs.entry(name).or_default();
                output.add_basedir(&artifact.basedirs[entry.basedir]);
                output.placements.push(Placement { artifact: *index, entry: number, host });
            }
        }
        if !sources.is_empty() {
            let basedirs = plan.binaries.iter().map(|binary| {
                let (artifact, entry) = units.origins[binary.unit];
                let artifact = &self.catalog.artifacts[artifact];
                artifact.basedirs[artifact.entries[entry].basedir].clone()
            });
            let basedir = basedirs.min();
            let first = &self.catalog.artifacts[members[0]].name;
            for archive in &plan.archives {
                let Some(basedir) = &basedir else { continue };
                let output = self.outputs.entry(archive_artifact(first, archive)).or_default();
                output.add_basedir(basedir);
                output.archives.push(format!("{basedir}/{ARCHIVES}/{}", archive.name));
            }
        }
        sources
    }

    /// Returns the artifacts with all entries that were placed.
    ///
    /// # Errors
    /// Two artifacts of the input have the same path.
    pub(super) fn finish(self) -> Result<Sorted, Failure> {
        let mut artifacts = Vec::new();
        for (name, output) in self.outputs {
            let mut planned = PlannedArtifact {
                name,
                files: 0,
                bytes: 0,
                archives: output.archives,
                basedirs: output.basedirs,
                placements: output.placements,
            };
            if planned.name.target_family != GENERIC {
                planned.basedirs.sort();
            }
            check_paths(self.catalog, &planned)?;
            for placement in &planned.placements {
                match self.catalog.artifacts[placement.artifact].entries[placement.entry].kind {
                    EntryKind::File { size, .. } => {
                        planned.files += 1;
                        planned.bytes += size;
                    }
                    EntryKind::Symlink { .. } => planned.files += 1,
                    EntryKind::Directory => {}
                }
            }
            artifacts.push(planned);
        }
        Ok(Sorted { artifacts, notes: self.notes, dropped: self.dropped.into_iter().collect() })
    }
}

pub(super) fn archive_artifact(name: &ArtifactName, archive: &PlannedKpack) -> ArtifactName {
    ArtifactName { target_family: archive.family.clone(), ..name.clone() }
}

/// `true` if an artifact without fat binaries has to be split: it holds files for several GPUs, or
/// for one and for all, or is named after a family of GPUs.
fn is_mixed(artifact: &Artifact, destinations: &[EntryDestination]) -> bool {
    let mut files = artifact.entries.iter().zip(destinations).filter(|(entry, _)| entry.kind != EntryKind::Directory);
    if artifact.name.is_generic() {
        return files.any(|(_, destination)| *destination != EntryDestination::Generic);
    }
    let own = artifact.name.base_target();
    if !is_gpu(own) {
        return true;
    }
    // An artifact whose files are all for its own target, or were dropped, is split already.
    !files.all(|(_, destination)| match destination {
        EntryDestination::Target(target) => target == own,
        EntryDestination::Dropped => true,
        EntryDestination::Generic => false,
    })
}

/// `true` if every file of an artifact is for targets that are not selected.
fn is_dropped(artifact: &Artifact, destinations: &[EntryDestination]) -> bool {
    let mut files = artifact.entries.iter().zip(destinations).filter(|(entry, _)| entry.kind != EntryKind::Directory);
    let first = files.next();
    first.is_some_and(|(_, found)| *found == EntryDestination::Dropped)
        && files.all(|(_, found)| *found == EntryDestination::Dropped)
}

/// `true` if a name is that of one GPU target, or of a generic target that the runtime looks for.
fn is_gpu(name: &str) -> bool {
    let Ok(target) = name.parse::<TargetId>() else { return false };
    let Some(digits) = target.processor.strip_prefix("gfx") else { return false };
    let digits = digits.strip_suffix("-strict").unwrap_or(digits);
    let is_number = digits.len() >= 3
        && digits[..digits.len() - 2].bytes().all(|byte| byte.is_ascii_digit())
        && digits[digits.len() - 2..].bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase());
    is_number || digits.ends_with("-generic")
}

fn check_paths(catalog: &Catalog, planned: &PlannedArtifact) -> Result<(), Failure> {
    let mut seen: BTreeMap<String, Option<usize>> =
        planned.archives.iter().map(|archive| (archive.clone(), None)).collect();
    if let Some(target) = Some(&planned.name.target_family).filter(|family| *family != GENERIC) {
        group::check_target_name(&planned.name.to_string(), target)?;
    }
    for placement in &planned.placements {
        let artifact = &catalog.artifacts[placement.artifact];
        let entry = &artifact.entries[placement.entry];
        let path = format!("{}/{}", artifact.basedirs[entry.basedir], entry.path);
        if let Some(other) = seen.insert(path.clone(), Some(placement.artifact)) {
            if entry.kind == EntryKind::Directory {
                continue;
            }
            let first = other.map_or_else(
                || "an archive of this split".into(),
                |other| format!("`{}`", catalog.artifacts[other].name),
            );
            let second = format!("`{}`", artifact.name);
            return Err(same_path(&planned.name.to_string(), &path, &first, &second));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_no_gpus() {
        for gpu in ["gfx942", "gfx90a", "gfx1100", "gfx803", "gfx9-4-generic", "gfx1250-strict", "gfx10-1-generic"] {
            assert!(is_gpu(gpu), "{gpu}");
        }
        for family in ["gfx11", "gfx12_0", "gfx110x", "gfx94X-dcgpu", "gfx110X-all", "generic", "", "gfx", "x"] {
            assert!(!is_gpu(family), "{family}");
        }
    }
}
