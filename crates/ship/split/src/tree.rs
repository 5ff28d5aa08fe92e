//! Input: a [`Catalog`] of artifacts. Output: a [`TreePlan`], from which [`execute`] writes
//! artifacts: `{name}_{component}_generic` without GPU code and `{name}_{component}_{target}` with
//! the code of one target.
//!
//! Archives are written to `.kpack/` of the tree that the artifacts form once they are merged.
//! Files of kernel databases are moved unchanged, by the rules of `data/libraries.toml`.

mod check;
mod entry_destination;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_artifact::{Artifact, ArtifactName, Catalog, EntryKind, manifest};
use rocwheel_content::FileContent;
use rocwheel_kpack::bundle::Checksum;
use rocwheel_kpack::runtime;
use rocwheel_output::TreeMaker;
use rocwheel_progress::{Exit, Failure, Reporter};
use rocwheel_tables::{Databases, target};
use serde::Serialize;

use crate::engine::Packing;
use crate::forecast::{ArchiveForecast, forecast};
use crate::group::{TargetNames, TargetSelection};
use crate::plan::{self, CandidateFile, Options, Plan};
use crate::verify::Verification;

pub use check::without_flag;
pub use check::{verify_catalogs, view_of_directory, views_of_files};
pub use entry_destination::{EntryDestination, PlannedArtifact};
pub use write::MAKER;
pub use write::{Grown, SplitArtifactsReport, WrittenArtifact, execute};

/// The directory of archives in the flattened tree.
pub const ARCHIVES: &str = ".kpack";
/// The family of artifacts that hold nothing for a particular GPU.
const GENERIC: &str = "generic";

#[derive(Debug, Clone)]
pub struct Request {
    pub selection: TargetSelection,
    pub databases: DatabaseChoice,
    pub names: TargetNames,
    pub packing: Packing,
    pub unsupported: OldRuntime,
    /// `Full` checks the result before it replaces the output.
    pub verification: Verification,
    /// The command that owns the output.
    pub maker: TreeMaker,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseChoice {
    #[default]
    All,
    Only(BTreeSet<String>),
}

impl DatabaseChoice {
    /// Selects only the databases with these names.
    ///
    /// # Errors
    /// A name that is not in the tables.
    pub fn only(names: impl IntoIterator<Item = String>) -> Result<Self, Failure> {
        let known = Databases::embedded().names();
        let names: BTreeSet<String> = names.into_iter().collect();
        match names.iter().find(|name| !known.contains(name.as_str())) {
            Some(name) => {
                let known = known.into_iter().collect::<Vec<_>>().join(", ");
                let failure = Failure::message(format!("there is no kernel database `{name}`"));
                Err(failure.with_hint(format!("known are {known}")).with_exit(Exit::Usage))
            }
            None => Ok(Self::Only(names)),
        }
    }

    fn takes(&self, database: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(database),
        }
    }
}

/// Treatment of a set whose HIP runtime cannot read archives: it would load and have no kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OldRuntime {
    #[default]
    Refuse,
    Allow,
}

#[derive(Debug, Serialize)]
pub struct TreePlan {
    /// The names and components that have GPU code, sorted.
    pub groups: Vec<PlannedGroup>,
    /// Sorted by name.
    pub artifacts: Vec<PlannedArtifact>,
    /// Messages about files of kernel databases that are not moved; sorted.
    pub notes: Vec<String>,
    /// Artifacts and files for targets that are not selected, sorted.
    pub dropped: Vec<String>,
    #[serde(skip)]
    selection: TargetSelection,
}

/// All artifacts of one name and component.
#[derive(Serialize)]
pub struct PlannedGroup {
    /// `{name}_{component}`, the first part of the archive names.
    pub group: String,
    /// The artifacts that are split; empty if all GPU code stays unchanged.
    pub sources: Vec<ArtifactName>,
    #[serde(flatten)]
    pub plan: Plan,
    /// The files that the plan was made from.
    #[serde(skip)]
    pub(crate) units: Vec<CandidateFile>,
}

impl std::fmt::Debug for PlannedGroup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PlannedGroup")
            .field("group", &self.group)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

/// Plans the split of all artifacts of a catalog. Nothing is written.
///
/// # Errors
/// Malformed GPU code, a set whose runtime cannot read archives, a selection that matches no
/// target, artifacts that would have the same files.
pub fn plan(catalog: &Catalog, request: &Request, reporter: &dyn Reporter) -> Result<TreePlan, Failure> {
    let mut by_group: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (index, artifact) in catalog.artifacts.iter().enumerate() {
        by_group.entry((&artifact.name.name, &artifact.name.component)).or_default().push(index);
    }
    let mut sorter = entry_destination::Sorter::new(catalog, request);
    let mut groups = Vec::new();
    for ((name, component), members) in by_group {
        let destinations: Vec<Vec<EntryDestination>> =
            members.iter().map(|index| sorter.destinations(&catalog.artifacts[*index])).collect();
        let group = format!("{name}_{component}");
        let units = units(catalog, &members, &destinations)?;
        let selection = request.selection.clone();
        let options = Options { group: group.clone(), selection, names: request.names, checksum: Checksum::Compare };
        let plan = plan::plan_any(&units.units, &options, reporter)?;
        sorter.group = groups.len();
        let sources = sorter.place(&members, &destinations, &plan, &units);
        if !sources.is_empty() || !plan.left_alone.is_empty() {
            let sources = sources.into_iter().map(|index| catalog.artifacts[index].name.clone()).collect();
            groups.push(PlannedGroup { group, sources, plan, units: units.units });
        }
    }
    if groups.iter().any(|group| !group.plan.binaries.is_empty()) {
        check_runtime(catalog, request.unsupported)?;
    }
    let entry_destination::Sorted { artifacts, mut notes, dropped } = sorter.finish()?;
    check_selection(&groups, &artifacts, &request.selection, &dropped)?;
    notes.sort();
    Ok(TreePlan { groups, artifacts, notes, dropped, selection: request.selection.clone() })
}

impl TreePlan {
    /// Estimates the archives of the groups that have compressed bundles, in the order of
    /// [`TreePlan::groups`], from samples of their code.
    pub fn forecast(&self, packing: Packing, reporter: &dyn Reporter) -> Result<Vec<ArchiveForecast>, Failure> {
        self.groups.iter().map(|group| forecast(&group.plan, &group.units, packing, reporter)).collect()
    }
}

/// The files that may have GPU code, and their origins.
pub(crate) struct Units {
    pub(crate) units: Vec<CandidateFile>,
    /// Indices of the artifact and the entry of each file.
    pub(crate) origins: Vec<(usize, usize)>,
}

fn units(catalog: &Catalog, members: &[usize], destinations: &[Vec<EntryDestination>]) -> Result<Units, Failure> {
    let mut found = Units { units: Vec::new(), origins: Vec::new() };
    let mut owners: BTreeMap<String, usize> = BTreeMap::new();
    for (index, destinations) in members.iter().zip(destinations) {
        let artifact = &catalog.artifacts[*index];
        for (number, (entry, destination)) in artifact.entries.iter().zip(destinations).enumerate() {
            if !matches!(entry.kind, EntryKind::File { .. }) || *destination != EntryDestination::Generic {
                continue;
            }
            let key = format!("{}/{}", artifact.basedirs[entry.basedir], entry.path);
            if let Some(other) = owners.insert(key.clone(), *index) {
                let name = ArtifactName { target_family: GENERIC.to_owned(), ..artifact.name.clone() };
                let (first, second) = (format!("`{}`", catalog.artifacts[other].name), format!("`{}`", artifact.name));
                return Err(same_path(&name.to_string(), &key, &first, &second));
            }
            let content = Arc::new(FileContent::new(artifact.path(entry))?);
            found.units.push(CandidateFile::new(key, content, &entry.path, ARCHIVES));
            found.origins.push((*index, number));
        }
    }
    Ok(found)
}

/// Refuses a set whose runtime cannot read archives: it loads a split library silently and then
/// finds no kernels.
fn check_runtime(catalog: &Catalog, unsupported: OldRuntime) -> Result<(), Failure> {
    match (find_file(catalog, runtime::is_hip_runtime), find_file(catalog, runtime::is_archive_reader)) {
        (Some(runtime), None) if unsupported == OldRuntime::Refuse => Err(runtime_without_archives(&runtime)),
        _ => Ok(()),
    }
}

/// Returns the path of the first file with a wanted name.
fn find_file(catalog: &Catalog, is_wanted: fn(&str) -> bool) -> Option<PathBuf> {
    catalog.artifacts.iter().find_map(|artifact| {
        let found = artifact.entries.iter().find(|entry| entry.path.rsplit('/').next().is_some_and(is_wanted));
        found.map(|entry| artifact.path(entry))
    })
}

/// The set's HIP runtime would load the host files and find no kernels.
pub fn runtime_without_archives(runtime: &Path) -> Failure {
    let runtime = runtime.display();
    Failure::message(format!("`{runtime}` cannot read .kpack archives: there is no librocm_kpack in the set"))
        .with_hint("add the artifact `core-kpack`, or split all the same with `--force`")
}

/// Two artifacts of the input would be merged into one, but both have the same file.
fn same_path(artifact: &str, path: &str, first: &str, second: &str) -> Failure {
    Failure::message(format!("`{path}` of the artifact `{artifact}` would come from {first} and from {second}"))
        .with_hint("split builds for different GPU families one by one, then put them together")
}

fn check_selection(
    groups: &[PlannedGroup],
    artifacts: &[PlannedArtifact],
    selection: &TargetSelection,
    dropped: &[String],
) -> Result<(), Failure> {
    let mut found: Vec<String> = groups.iter().flat_map(|group| group.plan.targets.iter().cloned()).collect();
    target::sort(&mut found);
    let has_device_part = artifacts.iter().any(|artifact| artifact.name.target_family != GENERIC);
    if selection.targets().is_none() || has_device_part || (found.is_empty() && dropped.is_empty()) {
        return Ok(());
    }
    Err(plan::nothing_selected(selection, &found))
}

/// `true` if a file is the manifest with the flag for split artifacts.
pub fn is_manifest(artifact: &Artifact, entry: &rocwheel_artifact::ArtifactEntry) -> bool {
    artifact.name.to_string() == manifest::BASE_ARTIFACT
        && format!("{}/{}", artifact.basedirs[entry.basedir], entry.path)
            == format!("{}/{}", manifest::MANIFEST_DIRECTORY, manifest::MANIFEST_FILE)
}
