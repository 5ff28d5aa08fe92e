//! Input: a directory of artifacts. Output: findings about everything in them that is wrong or
//! unusual.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use rocwheel_progress::{Reporter, Severity};
use rocwheel_tables::{Pattern, Predicate, TargetTable};
use serde::Serialize;

use crate::catalog::{self, Artifact, Catalog};
use crate::component::Component;
use crate::entry::EntryKind;
use crate::error::{Error, no_artifacts, with_source};
use crate::links::{self, Links};
use crate::location::{ArtifactForm, ArtifactLocation};
use crate::manifest::{self, DistInfo, Manifest};
use crate::name::ArtifactName;
use crate::{archive, contents, scan};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactFinding {
    /// Severity; one error makes the check fail.
    pub severity: Severity,
    /// Name of the artifact, or the file name if it is not an artifact.
    pub artifact: String,
    /// Path in the flattened tree that the finding is about, if any.
    pub path: Option<String>,
    pub message: String,
}

impl ArtifactFinding {
    fn order(&self) -> impl Ord {
        (Reverse(self.severity), &self.artifact, &self.path, &self.message)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactsReport {
    pub artifacts: u64,
    /// Number of files and links in all artifacts.
    pub files: u64,
    /// The findings, sorted by severity with errors first, artifact and path.
    pub findings: Vec<ArtifactFinding>,
}

impl ArtifactsReport {
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }
}

/// Checks every artifact of a directory. The findings are about names, manifests, sidecars, links
/// that leave the tree (by themselves or through links of other artifacts), paths provided twice,
/// names that other systems cannot hold, files that belong to another component, empty artifacts
/// and unknown targets. Archives are unpacked below `scratch`.
/// Every defect of an artifact is a finding, not an error.
pub fn verify(
    directory: &Path,
    scratch: &Path,
    targets: &TargetTable,
    reporter: &dyn Reporter,
) -> Result<ArtifactsReport, Error> {
    let survey = catalog::survey(directory)?;
    let mut findings = Findings::default();
    for (path, problem) in &survey.problems {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        findings.add(Severity::Error, &name, None, with_source(problem));
    }
    for ignored in &survey.ignored {
        if ignored.looks_like_artifact {
            let name = ignored.path.file_name().unwrap_or_default().to_string_lossy();
            findings.add(Severity::Warning, &name, None, format!("is not read: {}", ignored.reason));
        }
    }
    if survey.places.is_empty() {
        let message = no_artifacts(directory).to_string();
        findings.add(Severity::Error, "", None, message);
    }
    let catalog = read(&survey.places, scratch, &mut findings, reporter)?;
    for artifact in &catalog.artifacts {
        check_artifact(artifact, targets, &mut findings);
    }
    check_collisions(&catalog, &mut findings, reporter)?;
    check_merged_links(&catalog, &mut findings);
    check_portable(&catalog, &mut findings);
    if let Err(error) = Manifest::find(&catalog) {
        let is_missing = manifest::locate(&catalog, manifest::MANIFEST_FILE).is_none();
        let severity = if is_missing { Severity::Warning } else { Severity::Error };
        findings.add(severity, manifest::BASE_ARTIFACT, None, with_source(&error));
    }
    if let Err(error) = DistInfo::find(&catalog) {
        findings.add(Severity::Error, manifest::BASE_ARTIFACT, None, with_source(&error));
    }
    let mut list = findings.list;
    list.sort_by(|one, other| one.order().cmp(&other.order()));
    Ok(ArtifactsReport {
        artifacts: survey.places.len() as u64,
        files: catalog.artifacts.iter().map(|artifact| artifact.size().0).sum(),
        findings: list,
    })
}

#[derive(Default)]
struct Findings {
    list: Vec<ArtifactFinding>,
}

impl Findings {
    fn add(&mut self, severity: Severity, artifact: &str, path: Option<&str>, message: String) {
        let (artifact, path) = (artifact.to_owned(), path.map(str::to_owned));
        self.list.push(ArtifactFinding { severity, artifact, path, message });
    }
}

/// Reads all artifacts that can be read; each failure is added to the findings.
fn read(
    places: &[(ArtifactName, ArtifactLocation)],
    scratch: &Path,
    findings: &mut Findings,
    reporter: &dyn Reporter,
) -> Result<Catalog, Error> {
    let mut catalog = Catalog::default();
    let roots = archive::provide(places, &archive::Scratch::new(scratch), reporter);
    for ((name, place), root) in places.iter().zip(roots) {
        let label = name.to_string();
        if let ArtifactLocation::Archive(path, _) = place
            && archive::read_sidecar(path).is_ok_and(|digest| digest.is_none())
        {
            findings.add(Severity::Note, &label, None, "the archive has no sidecar to check it against".into());
        }
        let read = root.and_then(|(root, form)| Ok((scan::scan(&root, name, place.path(), reporter)?, root, form)));
        match read {
            Ok((scan, root, form)) => {
                for problem in &scan.problems {
                    findings.add(Severity::Error, &label, problem_path(problem), problem.to_string());
                }
                let (basedirs, entries) = (scan.basedirs, scan.entries);
                catalog.artifacts.push(Artifact { name: name.clone(), root, form, basedirs, entries });
            }
            Err(error @ Error::Interrupted(_)) => return Err(error),
            Err(error) => findings.add(Severity::Error, &label, problem_path(&error), with_source(&error)),
        }
    }
    Ok(catalog)
}

fn problem_path(problem: &Error) -> Option<&str> {
    match problem {
        Error::Member { member, .. } => Some(member),
        _ => None,
    }
}

fn check_artifact(artifact: &Artifact, targets: &TargetTable, findings: &mut Findings) {
    let label = artifact.name.to_string();
    let family = &artifact.name.target_family;
    if !artifact.name.is_generic() && targets.members(family).is_empty() && !targets.is_known(family) {
        let message = format!("`{family}` is no GPU target or family of the table; it is kept unchanged");
        findings.add(Severity::Note, &label, None, message);
    }
    if artifact.size().0 == 0 {
        let message = match &artifact.form {
            ArtifactForm::Directory => "the artifact holds no file",
            ArtifactForm::Archive { .. } => "the archive holds no file",
        };
        findings.add(Severity::Note, &label, None, message.into());
    }
    if let Some(component) = artifact.name.known_component() {
        check_component(artifact, component, findings);
    } else {
        let known = Component::CHAIN.map(Component::name).join(", ");
        let message = format!("`{}` is no component; they are {known}", artifact.name.component);
        findings.add(Severity::Warning, &label, None, message);
    }
}

/// Groups the files by the component they should be in, so that a thousand of them make one
/// finding.
fn check_component(artifact: &Artifact, component: Component, findings: &mut Findings) {
    let name = &artifact.name.name;
    let forced = component.forced_includes(name).map(|glob| Pattern::new(&glob));
    let claims: Vec<(Component, Predicate)> = Component::CHAIN
        .into_iter()
        .filter(|other| !other.takes_everything())
        .map(|other| (other, other.predicate(name)))
        .collect();
    let mut groups: BTreeMap<Option<Component>, (u64, &str)> = BTreeMap::new();
    for entry in artifact.entries.iter().filter(|entry| entry.kind != EntryKind::Directory) {
        if forced.iter().any(|pattern| pattern.matches(&entry.path)) || is_of_the_build(artifact, &entry.path) {
            continue;
        }
        // The first component of the chain that claims a file gets it; later ones never see it.
        let owner = claims.iter().find(|(_, predicate)| predicate.matches(&entry.path)).map(|(owner, _)| *owner);
        let in_place = match owner {
            Some(owner) => owner == component || (component.takes_everything() && component < owner),
            None => component.takes_everything(),
        };
        if !in_place {
            groups.entry(owner).or_insert((0, &entry.path)).0 += 1;
        }
    }
    for (owner, (count, first)) in groups {
        let (severity, message) = if let Some(owner) = owner {
            (Severity::Warning, format!("named like files of the component `{owner}`: {count}, first `{first}`"))
        } else {
            let text =
                format!("matched by no default pattern of the component `{component}`: {count}, first `{first}`");
            (Severity::Note, text)
        };
        findings.add(severity, &artifact.name.to_string(), Some(first), message);
    }
}

/// `true` for the notes that a build or an import writes about itself; no pattern matches them.
fn is_of_the_build(artifact: &Artifact, path: &str) -> bool {
    artifact.name.to_string() == manifest::BASE_ARTIFACT && path.starts_with("share/therock/")
}

fn check_collisions(catalog: &Catalog, findings: &mut Findings, reporter: &dyn Reporter) -> Result<(), Error> {
    let (different, equal) = contents::conflicts(catalog, reporter)?;
    let different = different.into_iter().map(|collision| (collision, Severity::Error, "different"));
    let equal = equal.into_iter().map(|collision| (collision, Severity::Note, "the same"));
    for (collision, severity, contents) in different.chain(equal) {
        let owners: Vec<String> = collision.owners.iter().map(ToString::to_string).collect();
        let message = format!("provided with {contents} contents by {}", owners.join(" and by "));
        let artifact = collision.owners[0].artifact.to_string();
        findings.add(severity, &artifact, Some(&collision.path), message);
    }
    Ok(())
}

/// Finds links that stay inside their own artifact but leave the tree once all artifacts are
/// merged.
fn check_merged_links(catalog: &Catalog, findings: &mut Findings) {
    let mut merged = Links::new();
    for artifact in &catalog.artifacts {
        for (_, path, target) in links_of(artifact) {
            merged.entry(path).or_insert(target);
        }
    }
    for artifact in &catalog.artifacts {
        let mut alone: BTreeMap<usize, Links> = BTreeMap::new();
        for (basedir, path, target) in links_of(artifact) {
            alone.entry(basedir).or_default().insert(path, target);
        }
        for (basedir, path, target) in links_of(artifact) {
            if !links::leaves_tree(path, target, &alone[&basedir]) && links::leaves_tree(path, target, &merged) {
                let message = format!("the link to `{target}` leaves the tree through links of other artifacts");
                findings.add(Severity::Error, &artifact.name.to_string(), Some(path), message);
            }
        }
    }
}

/// Basedir index, path and text of every link.
fn links_of(artifact: &Artifact) -> impl Iterator<Item = (usize, &str, &str)> {
    artifact.entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Symlink { target } => Some((entry.basedir, entry.path.as_str(), target.as_str())),
        _ => None,
    })
}

/// Adds notes about names that are valid on Linux, for which the trees are made, and not on other
/// systems.
fn check_portable(catalog: &Catalog, findings: &mut Findings) {
    let mut owners: BTreeMap<&str, &Artifact> = BTreeMap::new();
    for artifact in &catalog.artifacts {
        let mut refused: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
        for entry in &artifact.entries {
            owners.entry(entry.path.as_str()).or_insert(artifact);
            if let Some(reason) = rocwheel_system::refused_by_windows(&entry.path) {
                refused.entry(reason).or_insert((0, &entry.path)).0 += 1;
            }
        }
        for (reason, (count, first)) in refused {
            let message = format!("Windows cannot hold this path, as {reason}: {count}, first `{first}`");
            findings.add(Severity::Note, &artifact.name.to_string(), Some(first), message);
        }
    }
    for (first, second) in rocwheel_system::same_but_for_case(owners.keys().copied()) {
        let message = format!("differs only by case from `{first}`, which not every file system can hold beside it");
        findings.add(Severity::Note, &owners[second.as_str()].name.to_string(), Some(&second), message);
    }
}
