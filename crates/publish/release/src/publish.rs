//! Input: a folder with built files and a stream. Output: the stream with all of them, or an error
//! and the stream as before.
//!
//! A [`PublicationPlan`] is made from the state of the stream and checked: everything in the set
//! can be installed from the set and the stream alone, and nothing that people had is gone. Then
//! files are uploaded, which needs no lock; then, under the lock, the plan is made again from the
//! state of that moment, and pages change ([`rocwheel_stream`]).

pub(crate) mod attested;
mod closed_world;
mod local;
mod previous;
pub(crate) mod promoted;
pub(crate) mod pythons;
mod set_facts;
mod withdrawn;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use globset::GlobSet;
use rayon::prelude::*;
use rocwheel_content::archive_path::parent;
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_index::companion::ATTESTATIONS;
use rocwheel_progress::Reporter;
use rocwheel_store::{Error as StoreError, NewFile, Store, with_threads};
use serde::Serialize;

use crate::Error;
use closed_world::ClosedWorld;
use local::LocalFile;
pub use local::{LocalSet, read_promoted, read_set};
use previous::Objection;
use rocwheel_stream::{
    Error as StreamError, ReleaseSet, SnapshotFile, SnapshotManifest, Stream, StreamChange, StreamFault, Transition,
    dependencies_first, is_name, patterns_of, statement_key,
};
use set_facts::{complete, default_name, required_names};

/// How often a publication begins again because others were quicker.
const TRIES: usize = 5;

/// What a publication may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AllowedGap {
    /// Extras, Pythons and systems that the version before has.
    Fewer,
    /// Pythons that some compiled packages of the set have, and others have not.
    Holes,
    /// Versions of an older line than the stream's newest.
    Older,
    /// Versions that sort before the stream's newest of the same line.
    Misordered,
    /// Final versions beside pre-releases of one project.
    Mixed,
}

impl AllowedGap {
    /// The word for it on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fewer => "fewer",
            Self::Holes => "holes",
            Self::Older => "older",
            Self::Misordered => "misordered",
            Self::Mixed => "mixed",
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct PublishOptions {
    /// The name of the set; `None`: that of its entry point and version.
    pub set: Option<String>,
    /// The name of a published set that gets more files.
    pub join: Option<String>,
    /// Patterns of the names of projects that installers get elsewhere, besides those of the
    /// stream.
    pub outside: Vec<String>,
    pub allowed: BTreeSet<AllowedGap>,
    /// GPU targets that were asked for and that the set does not have.
    pub dropped: BTreeSet<String>,
    /// Pythons that were left out, as [`SetPythons::incomplete`] names them.
    ///
    /// [`SetPythons::incomplete`]: crate::SetPythons::incomplete
    pub dropped_pythons: BTreeSet<String>,
    /// Signed statements about the set, which are stored with it: DSSE envelopes.
    pub statements: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedEnvironment {
    /// `3.12`, `3.13t`.
    pub python: String,
    pub platform: rocwheel_wheel::Platform,
    /// Keys of files of the set, one for each project.
    pub files: Vec<String>,
    /// Keys of files of the stream that they require.
    pub beside: Vec<String>,
}

/// What a publication does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PublicationPlan {
    pub set: String,
    pub number: u64,
    pub document: ReleaseSet,
    /// Keys of files that the stream gets.
    pub new: Vec<String>,
    /// Keys of files that it has.
    pub unchanged: Vec<String>,
    pub bytes: u64,
    /// Objections that an option accepts, and new files that are withdrawn because their versions
    /// are.
    pub accepted: Vec<String>,
    /// Where the set can be installed.
    pub environments: Vec<PlannedEnvironment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Published {
    /// The plan, as it was carried out.
    pub plan: PublicationPlan,
    /// How many files were missing in the store.
    pub uploaded: usize,
    /// Keys of the pages that changed.
    pub pages: Vec<String>,
    /// Keys of the descriptions of pieces that were written.
    pub deltas: Vec<String>,
    /// How many of the new wheels have a record of how they were packed.
    pub recorded: usize,
    /// Keys of what was missing or damaged of a set that is published already, and was written
    /// again.
    pub repaired: Vec<String>,
    /// The number of the snapshot that signs a set which is published already, and was not signed.
    pub signed: Option<u64>,
}

/// Plans a publication and checks it.
pub fn plan_publication(
    stream: &Stream<'_>,
    local: &LocalSet,
    options: &PublishOptions,
    change: &StreamChange<'_>,
) -> Result<PublicationPlan, Error> {
    stream.check_signed(change)?;
    let mut objections: Vec<Objection> = Vec::new();
    let mut fatal = previous::other_bytes(stream, local)?;
    fatal.extend(previous::several_versions(local.files.keys().cloned()));
    let set = describe(stream, local, options, change)?;
    if fatal.is_empty() {
        fatal.extend(previous::several_versions(set.files.keys().cloned()));
    }
    if fatal.is_empty()
        && options.join.is_none()
        && stream.manifest.sets.contains_key(&set.name)
        && previous::published_set(stream, &set)?.is_none()
    {
        let what = format!("`{}` cannot be published", set.name);
        let hint = format!("add files to it with `--join {}`, or name this one with `--set`", set.name);
        let problems = vec!["the stream has a set of this name with other files".to_owned()];
        return Err(StreamFault::Refused { what, problems, hint }.into());
    }
    objections.extend(fatal.into_iter().map(|text| (None, text)));
    objections.extend(previous::kinds(stream, &set));
    objections.extend(previous::order(stream, &set));
    objections.extend(previous::fewer(stream, &set)?);
    let mut world = ClosedWorld::new(stream, &set, outside(stream, options)?);
    objections.extend(world.holes().into_iter().map(|text| (Some(AllowedGap::Holes), text)));
    objections.extend(world.gaps()?.lines().into_iter().map(|text| (None, text)));
    let environments = environments(&mut world, &set)?;
    let mut accepted = refuse(&set, change.stream, objections, options)?;
    accepted.extend(world.unchecked());
    let (new, unchanged): (Vec<&String>, Vec<&String>) =
        local.files.keys().partition(|key| !stream.manifest.files.contains_key(*key));
    let bytes = new.iter().filter_map(|key| Some(local.files.get(*key)?.set_file.size)).sum();
    accepted.extend(withdrawn::objections(&stream.manifest, new.iter().copied()));
    let plan = PublicationPlan {
        set: set.name.clone(),
        number: stream.manifest.number + 1,
        document: set,
        new: new.into_iter().cloned().collect(),
        unchanged: unchanged.into_iter().cloned().collect(),
        bytes,
        accepted,
        environments,
    };
    stream.check_pages(&next_manifest(stream, &plan, local, change), change)?;
    Ok(plan)
}

/// Projects that installers get elsewhere.
fn outside(stream: &Stream<'_>, options: &PublishOptions) -> Result<GlobSet, Error> {
    let all: Vec<String> = stream.settings.outside.iter().chain(&options.outside).cloned().collect();
    Ok(patterns_of(&all).map_err(|source| StoreError::Pattern { pattern: options.outside.join(" "), source })?)
}

/// The GPU targets of a set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetTargets {
    /// Those of which everything can be installed.
    pub complete: BTreeSet<String>,
    /// The others.
    pub incomplete: BTreeSet<String>,
}

/// Finds the targets of which something cannot be installed, on any Python or system of the set.
pub fn find_targets(
    stream: &Stream<'_>,
    local: &LocalSet,
    options: &PublishOptions,
    change: &StreamChange<'_>,
) -> Result<SetTargets, Error> {
    let set = describe(stream, local, options, change)?;
    let (mut complete, incomplete) = ClosedWorld::new(stream, &set, outside(stream, options)?).targets()?;
    complete.retain(|target| !incomplete.contains(target));
    Ok(SetTargets { complete, incomplete })
}

/// Fails if `--allow` does not accept every objection.
fn refuse(
    set: &ReleaseSet,
    stream: &str,
    objections: Vec<Objection>,
    options: &PublishOptions,
) -> Result<Vec<String>, Error> {
    let (accepted, refused): (Vec<Objection>, Vec<Objection>) =
        objections.into_iter().partition(|(gap, _)| gap.is_some_and(|gap| options.allowed.contains(&gap)));
    if refused.is_empty() {
        return Ok(accepted.into_iter().map(|(_, text)| text).collect());
    }
    let gaps: Option<BTreeSet<AllowedGap>> = refused.iter().map(|(gap, _)| *gap).collect();
    let hint = match gaps {
        Some(gaps) if gaps.contains(&AllowedGap::Mixed) => {
            let other = other_stream(stream, set);
            format!(
                "publish it to another stream, such as `--stream {other}`: a final version hides pre-releases from \
                 installers. `--allow {}` mixes them nevertheless",
                words(gaps)
            )
        }
        Some(gaps) => {
            format!("if that is what you want, add `--allow {}`", words(gaps))
        }
        None if refused.iter().any(|(_, text)| text.contains(" is withdrawn: ")) => {
            "require another version, or restore the withdrawn one with `rocwheel release yank --undo`".to_owned()
        }
        None if refused.iter().any(|(_, text)| text.contains("requires")) => {
            "publish what is missing first, add it to the set, or name it with `--outside` if installers get it elsewhere"
                .to_owned()
        }
        None => "give other bytes another version; the stream and what was published in it are unchanged".to_owned(),
    };
    let mut problems: Vec<String> = refused.into_iter().map(|(_, text)| text).collect();
    problems.sort();
    Err(StreamFault::Refused { what: format!("`{}` cannot be published", set.name), problems, hint }.into())
}

fn words(gaps: BTreeSet<AllowedGap>) -> String {
    let words: Vec<&str> = gaps.into_iter().map(AllowedGap::word).collect();
    words.join(" ")
}

/// The name of a stream for the kind of versions of a set.
fn other_stream(stream: &str, set: &ReleaseSet) -> String {
    let kind = set.kinds().first().map_or("other", |kind| kind.word());
    if stream.contains(kind) { format!("{stream}-only") } else { kind.to_owned() }
}

fn describe(
    stream: &Stream<'_>,
    local: &LocalSet,
    options: &PublishOptions,
    change: &StreamChange<'_>,
) -> Result<ReleaseSet, Error> {
    let mut set = ReleaseSet::new("", change.now);
    set.files.extend(local.files.iter().map(|(key, file)| (key.clone(), file.set_file.clone())));
    complete(&mut set);
    set.name = match (&options.join, &options.set) {
        (Some(name), _) | (None, Some(name)) => name.clone(),
        (None, None) => default_name(&set)?,
    };
    if !is_name(&set.name) {
        return Err(StreamFault::Name { what: "set", name: set.name }.into());
    }
    if let Some(joined) = &options.join {
        add_published(&mut set, stream.set(joined)?);
    } else if let Some(before) = previous::published_set(stream, &set)? {
        set.created = before.created;
        add_published(&mut set, before);
    }
    set.targets_dropped.extend(options.dropped.iter().cloned());
    set.targets_dropped.sort();
    set.targets_dropped.dedup();
    set.pythons_dropped.extend(options.dropped_pythons.iter().cloned());
    set.targets_promised.retain(|target| !set.targets_dropped.contains(target));
    let new: Vec<String> = options.statements.iter().map(|bytes| hexadecimal(&sha256(bytes))).collect();
    set.statements.extend(new);
    set.statements.sort();
    set.statements.dedup();
    Ok(set)
}

fn add_published(set: &mut ReleaseSet, before: ReleaseSet) {
    for (key, file) in before.files {
        set.files.entry(key).or_insert(file);
    }
    complete(set);
    set.statements = before.statements;
    set.targets_dropped = before.targets_dropped;
    set.pythons_dropped = before.pythons_dropped;
}

impl LocalSet {
    /// The files of each project. Projects that others require come first, so a host that shows
    /// every file at once never has one that pins a missing one.
    pub fn in_order(&self) -> Vec<(&str, Vec<&Path>)> {
        let projects: BTreeSet<&str> = self.files.keys().map(|key| parent(key)).collect();
        let mut requires: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (key, file) in &self.files {
            requires.entry(parent(key).to_owned()).or_default().extend(required_names(&file.set_file));
        }
        let mut ordered = Vec::new();
        for name in dependencies_first(&projects, &requires) {
            let Some(project) = projects.get(name) else { continue };
            let own = self.files.iter().filter(|(key, _)| parent(key) == name);
            ordered.push((*project, own.map(|(_, file)| file.path.as_path()).collect()));
        }
        ordered
    }
}

fn environments(world: &mut ClosedWorld<'_>, set: &ReleaseSet) -> Result<Vec<PlannedEnvironment>, Error> {
    let mut found: Vec<PlannedEnvironment> = Vec::new();
    for place in world.worlds() {
        let (mut files, mut beside) = (Vec::new(), BTreeMap::new());
        for project in set.versions.keys() {
            let Some(own) = world.own(project, &place) else { continue };
            files.push(own.key.clone());
            if let Ok(installed) = world.install(&place, &own, None)? {
                for (name, choice) in installed {
                    if !set.files.contains_key(&choice.key) && !set.versions.contains_key(&name) {
                        beside.entry(name).or_insert_with(|| choice.key.clone());
                    }
                }
            }
        }
        let beside: Vec<String> = beside.into_values().collect();
        // Sets of wheels for any Python are one environment.
        if found.iter().any(|one| one.files == files && one.beside == beside && one.platform == place.target.platform) {
            continue;
        }
        let python = place.target.python.to_string();
        found.push(PlannedEnvironment { python, platform: place.target.platform, files, beside });
    }
    Ok(found)
}

/// Publishes a set. If the stream has the set, only its missing or damaged parts are written again.
///
/// What is uploaded and on no page is used by the next try.
pub fn publish(
    store: &dyn Store,
    local: &LocalSet,
    options: &PublishOptions,
    change: &StreamChange<'_>,
    reporter: &dyn Reporter,
) -> Result<Published, Error> {
    let stream = Stream::read(store, change.stream)?;
    let plan = plan_publication(&stream, local, options, change)?;
    drop(stream);
    let files: Vec<NewFile> = local.files.iter().map(|(key, file)| file.new_file(key, local.transfer)).collect();
    let (mut uploaded, mut tries) = (0, 0);
    loop {
        tries += 1;
        let put = store.put_files(&files, reporter);
        uploaded += put.map_err(|error| previous::stored_otherwise(error, &plan.set))?;
        match publish_pages(store, local, options, change, reporter) {
            Err(Error::Stream(StreamError::Stream(StreamFault::Raced { .. }))) if tries < TRIES => {}
            other => {
                let PublishedPages { changed, deltas, repaired, signed } = other?;
                let new = changed.iter().flat_map(|(plan, _)| &plan.new).filter_map(|key| local.files.get(key));
                let recorded = new.filter(|file| file.packing.is_some()).count();
                let (plan, pages) = changed.unwrap_or((plan, Vec::new()));
                return Ok(Published { plan, uploaded, pages, deltas, recorded, repaired, signed });
            }
        }
    }
}

/// The result of the second half of a publication.
#[derive(Debug)]
struct PublishedPages {
    /// The plan, and the keys of the pages that changed; `None` when the stream has everything.
    changed: Option<(PublicationPlan, Vec<String>)>,
    /// As [`Published::deltas`].
    deltas: Vec<String>,
    /// As [`Published::repaired`].
    repaired: Vec<String>,
    /// As [`Published::signed`].
    signed: Option<u64>,
}

/// The second half, under the lock.
fn publish_pages(
    store: &dyn Store,
    local: &LocalSet,
    options: &PublishOptions,
    change: &StreamChange<'_>,
    reporter: &dyn Reporter,
) -> Result<PublishedPages, Error> {
    let (lock, mut stream) = Stream::lock(store, change, reporter)?;
    let plan = plan_publication(&stream, local, options, change)?;
    // Files that the stream has may still be new in the set that they join.
    let attested = local.newly_attested(&stream);
    if plan.new.is_empty()
        && attested.is_empty()
        && let Some(before) = previous::published_set(&stream, &plan.document)?
    {
        let repaired = stream.repair(&before, &local.parts(&options.statements), reporter)?;
        let signed = stream.sign_again(change, reporter)?;
        return Ok(PublishedPages { changed: None, deltas: local.put_deltas(store, reporter)?, repaired, signed });
    }
    if !has_files(store, &plan, reporter)? {
        return Err(StreamFault::Raced { store: store.name() }.into());
    }
    with_threads(store, || {
        plan.new.par_iter().try_for_each(|key| {
            reporter.check()?;
            let mut beside = local.files.get(key).into_iter().flat_map(LocalFile::beside);
            beside.try_for_each(|(ending, bytes)| store.write(&format!("{key}{ending}"), bytes))
        })?;
        attested.par_iter().try_for_each(|(key, bytes)| store.write(&format!("{key}{ATTESTATIONS}"), bytes))
    })?;
    let deltas = local.put_deltas(store, reporter)?;
    for bytes in &options.statements {
        store.write(&statement_key(&hexadecimal(&sha256(bytes))), bytes)?;
    }
    let mut manifest = next_manifest(&stream, &plan, local, change);
    for (key, bytes) in attested {
        if let Some(row) = manifest.files.get_mut(key) {
            row.provenance_sha256 = Some(hexadecimal(&sha256(bytes)));
        }
    }
    let sets = BTreeMap::from([(plan.set.clone(), plan.document.clone())]);
    let pages = stream.commit(Transition { manifest, sets }, change.keys, reporter)?;
    drop(lock);
    Ok(PublishedPages { changed: Some((plan, pages)), deltas, repaired: Vec::new(), signed: None })
}

/// `true` if the store has the new files. A pruning may have deleted those of an old version
/// between their upload, which found them, and the lock.
fn has_files(store: &dyn Store, plan: &PublicationPlan, reporter: &dyn Reporter) -> Result<bool, Error> {
    let projects: BTreeSet<&str> = plan.new.iter().map(|key| parent(key)).collect();
    let mut stored = BTreeSet::new();
    for project in projects {
        stored.extend(store.list(project, reporter)?.into_iter().map(|file| (file.key, file.size)));
    }
    Ok(plan.new.iter().all(|key| {
        let size = plan.document.files.get(key).map_or(0, |file| file.size);
        stored.contains(&(key.clone(), size))
    }))
}

fn next_manifest(
    stream: &Stream<'_>,
    plan: &PublicationPlan,
    local: &LocalSet,
    change: &StreamChange<'_>,
) -> SnapshotManifest {
    let mut manifest = stream.next(change, format!("publish {}", plan.set));
    let mut withdrawn = withdrawn::reasons(&stream.manifest, &plan.new);
    for key in &plan.new {
        let Some(file) = local.files.get(key) else { continue };
        // A file that pages listed before keeps its time.
        let uploaded = manifest.unlisted.remove(key).map_or(change.now, |file| file.file.uploaded);
        let yanked = withdrawn.remove(key);
        manifest.files.insert(key.clone(), SnapshotFile { yanked, ..file.snapshot_file(&plan.set, uploaded) });
    }
    let projects: BTreeSet<String> = manifest.projects().into_iter().map(str::to_owned).collect();
    for (key, file) in &local.files {
        let names = required_names(&file.set_file).into_iter().filter(|name| projects.contains(name));
        manifest.requires.entry(parent(key).to_owned()).or_default().extend(names);
    }
    manifest
}

#[cfg(test)]
mod tests {
    use rocwheel_stream::UnsignedChange;

    use super::*;

    #[test]
    fn a_file_that_was_pruned_after_its_upload_is_on_no_page() {
        let (folder, dist) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = rocwheel_store::FolderStore::open(folder.path()).unwrap();
        let text = b"Metadata-Version: 2.1\nName: a\nVersion: 1\n";
        let mut sdist = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        sdist.append_data(&mut header, "a-1/PKG-INFO", &text[..]).unwrap();
        fs_err::write(dist.path().join("a-1.tar.gz"), sdist.into_inner().unwrap().finish().unwrap()).unwrap();
        let local = read_set(dist.path(), &rocwheel_progress::Silent).unwrap();
        let (now, patience) = (jiff::Timestamp::UNIX_EPOCH, std::time::Duration::ZERO);
        let unsigned = UnsignedChange::Refuse;
        let change = StreamChange { stream: "s", now, keys: &[], unsigned, patience, chooser: None, write: true };
        let options = PublishOptions::default();
        // Without the upload.
        let raced = publish_pages(&store, &local, &options, &change, &rocwheel_progress::Silent).unwrap_err();
        assert!(matches!(raced, Error::Stream(StreamError::Stream(StreamFault::Raced { .. }))), "{raced}");
        assert!(store.read("index.html").unwrap().is_none());
        publish(&store, &local, &options, &change, &rocwheel_progress::Silent).unwrap();
        assert!(store.read("a/index.html").unwrap().is_some());
    }
}
