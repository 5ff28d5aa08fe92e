//! Input: a [`TreePlan`]. Output: the artifacts it describes, in a directory that appears complete
//! or not at all.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_artifact::{Artifact, ArtifactEntry, ArtifactForm, ArtifactName, Catalog, EntryKind};
use rocwheel_content::{Content as _, FileContent};
use rocwheel_elf::PatchedContent;
use rocwheel_kpack::bundle::Checksum;
use rocwheel_output::{OutputTree, TreeMaker};
use rocwheel_progress::{Failure, Reporter, Unit};
use rocwheel_system::FileMetadata as _;
use serde::Serialize;

use super::entry_destination::{PlannedArtifact, archive_artifact};
use super::{Request, TreePlan, check, is_manifest};
use crate::copy::copy;
use crate::engine::{self, Host};
use crate::verify::{Checks, Verification, VerificationReport};

/// The owner of the output of `rocwheel split`.
pub const MAKER: TreeMaker = TreeMaker { marker: ".rocwheel-split", command: "rocwheel split" };

#[derive(Debug, Serialize)]
pub struct SplitArtifactsReport {
    /// Sorted by name.
    pub artifacts: Vec<WrittenArtifact>,
    /// Bytes of the fat binary sections in the input.
    pub section_bytes: u64,
    pub archive_bytes: u64,
    /// Groups whose archives are larger than the sections they come from.
    pub grown: Vec<Grown>,
    /// Result of the check; `None` if it was skipped.
    pub verification: Option<VerificationReport>,
}

impl SplitArtifactsReport {
    /// `true` if the output was written, because the check found no differences or was skipped.
    pub fn is_good(&self) -> bool {
        self.verification.as_ref().is_none_or(VerificationReport::is_clean)
    }
}

#[derive(Debug, Serialize)]
pub struct WrittenArtifact {
    pub name: ArtifactName,
    /// Number of files and links in it.
    pub files: u64,
    /// Number of the links among them.
    pub links: u64,
    /// Bytes of its files.
    pub bytes: u64,
}

/// A group whose GPU code takes more bytes in archives than before.
#[derive(Debug, Serialize)]
pub struct Grown {
    /// `{name}_{component}`.
    pub group: String,
    /// Bytes of its fat binary sections.
    pub before: u64,
    /// Bytes of its archives.
    pub after: u64,
}

/// Writes the artifacts of a plan into `output`, which appears complete or not at all. The output
/// of an earlier split is replaced. Inputs are only read.
///
/// # Errors
/// An output that was not made by this command, or lies in an input; files that cannot be read or
/// written. Differences that the check finds are not an error: they are in
/// [`SplitArtifactsReport::verification`], and then nothing is written.
pub fn execute(
    plan: &TreePlan,
    catalog: &Catalog,
    request: &Request,
    output: &Path,
    reporter: &dyn Reporter,
) -> Result<SplitArtifactsReport, Failure> {
    let inputs = catalog.artifacts.iter().map(|artifact| match &artifact.form {
        ArtifactForm::Directory => artifact.root.clone(),
        ArtifactForm::Archive { path, .. } => path.clone(),
    });
    let inputs: Vec<PathBuf> = inputs.collect();
    rocwheel_artifact::separate(output, &inputs)?;
    let staging = OutputTree::new(output, request.maker)?;
    let writer = Writer { plan, catalog, root: staging.root(), reporter };
    let mut outcome = writer.write(request)?;
    if request.verification == Verification::Full {
        let scratch = tempfile::tempdir_in(staging.root())?;
        let written = Catalog::open(staging.root(), scratch.path(), reporter)?;
        // The engine compared the checksums when it read the bundles.
        let checks = Checks {
            selection: &plan.selection,
            checksum: Checksum::Skip,
            memory: request.packing.memory,
            ..Checks::default()
        };
        let report = check::verify_catalogs(catalog, &written, &checks, reporter)?;
        outcome.verification = Some(report);
        scratch.close()?;
    }
    reporter.check()?;
    if outcome.is_good() {
        staging.commit()?;
    }
    Ok(outcome)
}

struct Writer<'a> {
    plan: &'a TreePlan,
    catalog: &'a Catalog,
    root: &'a Path,
    reporter: &'a dyn Reporter,
}

impl Writer<'_> {
    fn write(&self, request: &Request) -> Result<SplitArtifactsReport, Failure> {
        let mut outcome = SplitArtifactsReport {
            artifacts: vec![],
            section_bytes: 0,
            archive_bytes: 0,
            grown: vec![],
            verification: None,
        };
        let mut hosts: Vec<Vec<Host>> = Vec::new();
        for group in &self.plan.groups {
            let place = |archive: &crate::plan::PlannedKpack| self.archive_path(group, archive);
            let done = engine::execute(&group.plan, &group.units, request.packing, &place, self.reporter)?;
            let before: u64 = group.plan.binaries.iter().map(|binary| binary.section).sum();
            let after: u64 = done.archives.iter().map(|archive| archive.size).sum();
            outcome.section_bytes += before;
            outcome.archive_bytes += after;
            if after > before {
                outcome.grown.push(Grown { group: group.group.clone(), before, after });
            }
            hosts.push(done.hosts);
        }
        let bytes = self.plan.artifacts.iter().map(|artifact| artifact.bytes).sum();
        let stage = self.reporter.stage("Writing artifacts", Some(bytes), Unit::Bytes);
        let artifacts = self.plan.artifacts.iter();
        let written: Result<Vec<WrittenArtifact>, Failure> =
            artifacts.map(|planned| self.write_artifact(planned, &hosts)).collect();
        drop(stage);
        outcome.artifacts = written?;
        Ok(outcome)
    }

    /// Returns the path of an archive of a group, which the plan's artifacts list by name.
    fn archive_path(&self, group: &super::PlannedGroup, archive: &crate::plan::PlannedKpack) -> PathBuf {
        let artifact = archive_artifact(&group.sources[0], archive);
        let planned = self.plan.artifacts.iter().find(|planned| planned.name == artifact);
        let mut paths = planned.iter().flat_map(|planned| &planned.archives);
        let path = paths.find(|path| path.rsplit('/').next() == Some(&archive.name));
        self.root.join(artifact.to_string()).join(path.map_or(archive.name.as_str(), String::as_str))
    }

    fn write_artifact(&self, planned: &PlannedArtifact, hosts: &[Vec<Host>]) -> Result<WrittenArtifact, Failure> {
        let root = self.root.join(planned.name.to_string());
        make_directory(&root, 0o755)?;
        let manifest = root.join("artifact_manifest.txt");
        fs_err::write(&manifest, planned.basedirs.iter().map(|basedir| format!("{basedir}\n")).collect::<String>())?;
        rocwheel_system::set_mode(&manifest, 0o644)?;
        let mut files: Vec<Transfer<'_>> = Vec::new();
        let mut hard_links: Vec<(PathBuf, PathBuf)> = Vec::new();
        let mut first_names: HashMap<_, PathBuf> = HashMap::new();
        for placement in &planned.placements {
            let artifact = &self.catalog.artifacts[placement.artifact];
            let entry = &artifact.entries[placement.entry];
            let to = root.join(&artifact.basedirs[entry.basedir]).join(&entry.path);
            let from = artifact.path(entry);
            if entry.kind == EntryKind::Directory {
                let mode = fs_err::symlink_metadata(&from)?.mode(&from);
                make_directory(&to, mode & 0o777 | 0o700)?;
                continue;
            }
            if let Some(parent) = to.parent() {
                make_directory(parent, 0o755)?;
            }
            match &entry.kind {
                EntryKind::Symlink { target } => rocwheel_system::symlink(target, &to)?,
                EntryKind::File { size, .. } => {
                    let metadata = fs_err::symlink_metadata(&from)?;
                    let host = placement.host.map(|(group, binary)| &hosts[group][binary]);
                    // A host file is never a hard link, because its marker holds its own path.
                    if metadata.link_count(&from)? > 1 && host.is_none() {
                        let inode = metadata.identity(&from)?;
                        if let Some(first) = first_names.get(&inode) {
                            hard_links.push((first.clone(), to));
                            continue;
                        }
                        first_names.insert(inode, to.clone());
                    }
                    let mode = metadata.mode(&from) & 0o7777;
                    files.push(Transfer { artifact, entry, from, to, size: *size, mode, host });
                }
                EntryKind::Directory => {}
            }
        }
        files.par_iter().try_for_each(|transfer| self.transfer(transfer))?;
        for (first, second) in hard_links {
            fs_err::hard_link(first, second)?;
        }
        let sizes = files.iter().map(|file| file.host.map_or(file.size, |host| host.patch.size));
        let archives = planned.archives.iter().map(|path| Ok(fs_err::metadata(root.join(path))?.len()));
        let archives: u64 = archives.sum::<Result<u64, Failure>>()?;
        let entries = planned.placements.iter().map(|at| &self.catalog.artifacts[at.artifact].entries[at.entry]);
        let links = entries.filter(|entry| matches!(entry.kind, EntryKind::Symlink { .. })).count() as u64;
        Ok(WrittenArtifact {
            name: planned.name.clone(),
            links,
            files: planned.files + planned.archives.len() as u64,
            bytes: sizes.sum::<u64>() + archives,
        })
    }

    fn transfer(&self, transfer: &Transfer<'_>) -> Result<(), Failure> {
        self.reporter.check()?;
        if let Some(host) = transfer.host {
            let content = PatchedContent::new(FileContent::new(&transfer.from)?, host.patch.clone());
            copy(&content, fs_err::File::create(&transfer.to)?, self.reporter)?;
            // The removed bytes count as progress too.
            self.reporter.advance(transfer.size.saturating_sub(content.size()));
        } else if is_manifest(transfer.artifact, transfer.entry) {
            fs_err::write(&transfer.to, check::with_flag(&transfer.from)?)?;
            self.reporter.advance(transfer.size);
        } else {
            fs_err::copy(&transfer.from, &transfer.to)?;
            self.reporter.advance(transfer.size);
        }
        rocwheel_system::set_mode(&transfer.to, transfer.mode)?;
        Ok(())
    }
}

struct Transfer<'a> {
    artifact: &'a Artifact,
    entry: &'a ArtifactEntry,
    from: PathBuf,
    to: PathBuf,
    size: u64,
    mode: u32,
    host: Option<&'a Host>,
}

/// Creates a directory and its parents, and sets its mode regardless of the umask.
fn make_directory(path: &Path, mode: u32) -> Result<(), Failure> {
    if !path.is_dir() {
        if let Some(parent) = path.parent() {
            make_directory(parent, 0o755)?;
        }
        fs_err::create_dir(path)?;
        rocwheel_system::set_mode(path, mode)?;
    }
    Ok(())
}
