//! Input: the folder of a run, a filter, and an output. Output: the artifacts in the output.
//!
//! Each artifact is unpacked while its archive arrives, into a folder that goes if the archive's
//! hash is another one. It appears in the output as a whole; a record in the output says which
//! checksums its artifacts have, so that a second run skips them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use rocwheel_artifact::ArtifactName;
use rocwheel_artifact::archive::{parse_sidecar, sidecar_line, sidecar_path, unpack_over};
use rocwheel_artifact::flatten::{Flattened, Replaceable, flatten};
use rocwheel_content::{hexadecimal, sha256_of};
use rocwheel_output::Mode;
use rocwheel_output::StagingFolder;
use rocwheel_progress::{Exit, Failure, Reporter, Unit, Watched, WithoutProgress, in_backticks};
use serde::{Deserialize, Serialize};

use crate::DownloadFault;
use crate::arriving::unpack_as_it_arrives;
use crate::cache::{CachedFile, DownloadCache, Wanted, wait};
use crate::error::{artifacts_failure, disk_error, unmatched};
use crate::intact::{is_archive, tree_digest};
use crate::select::{self, ArtifactFilter, NamePattern};
use crate::source::{ArtifactSource, FileFacts, FileStream, SourceFile};

const SIDECAR: &str = ".sha256sum";
/// The file of an output that says what was fetched into it.
const RECORD: &str = ".rocwheel-fetch.json";
/// Beginning of the names of folders in which artifacts are unpacked.
const STAGING: &str = ".rocwheel-fetch-";
/// How often small requests are tried.
const TRIES: u32 = 4;
/// The longest pause between two looks at a run that is waited for.
const LONGEST_LOOK: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Serialize)]
pub struct FetchPlan {
    pub source: String,
    /// Sorted by artifact.
    pub artifacts: Vec<PlannedFetch>,
}

#[derive(Debug, Clone, Serialize)]
pub struct PlannedFetch {
    pub artifact: ArtifactName,
    pub file: String,
    /// Bytes of the archive; `None` if the listing does not tell.
    pub size: Option<u64>,
    pub has_checksum: bool,
    #[serde(skip)]
    stamp: String,
}

/// What becomes of the archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchForm {
    /// Each is a directory, as `rocwheel package --artifacts` reads them.
    Directories,
    /// They stay archives, with their sidecars.
    Archives,
    /// All of them become one tree.
    Tree,
}

/// Where artifacts go, and how.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    pub output: PathBuf,
    pub form: FetchForm,
    /// Downloads at the same time.
    pub connections: usize,
    /// What may be replaced: directories of the same names, or the whole tree.
    pub existing: Replaceable,
}

/// Who knew the SHA-256 of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChecksumSource {
    Sidecar,
    /// The store, in the metadata of the object.
    Store,
    /// No checksum: only the size was compared.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FetchState {
    Fetched,
    Cached,
    Unchanged,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FetchedArtifact {
    pub artifact: ArtifactName,
    /// Its directory or archive; of a tree, the tree.
    pub path: PathBuf,
    /// SHA-256 of the archive in hexadecimal.
    pub sha256: String,
    pub checksum: ChecksumSource,
    pub state: FetchState,
    /// Bytes of the archive.
    pub size: Option<u64>,
}

/// Lists the run and chooses artifacts. First it waits until each of the patterns `awaited` meets
/// an archive, for at most `patience`.
pub fn plan(
    source: &dyn ArtifactSource,
    filter: &ArtifactFilter,
    (awaited, patience): (&[NamePattern], Duration),
    reporter: &dyn Reporter,
) -> Result<FetchPlan, Failure> {
    let folder = source.name();
    let files = list_when_ready(source, awaited, patience, reporter)?;
    let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
    let by_name: BTreeMap<&str, &SourceFile> = files.iter().map(|file| (file.name.as_str(), file)).collect();
    let planned = filter.select(&names, &folder)?.into_iter().map(|found| {
        let listed = by_name.get(found.file.as_str());
        PlannedFetch {
            artifact: found.name,
            has_checksum: by_name.contains_key(format!("{}{SIDECAR}", found.file).as_str()),
            size: listed.and_then(|file| file.size),
            stamp: listed.map(|file| file.stamp.clone()).unwrap_or_default(),
            file: found.file,
        }
    });
    Ok(FetchPlan { source: folder, artifacts: planned.collect() })
}

fn list_when_ready(
    source: &dyn ArtifactSource,
    awaited: &[NamePattern],
    patience: Duration,
    reporter: &dyn Reporter,
) -> Result<Vec<SourceFile>, Failure> {
    let (begin, mut pause) = (Instant::now(), Duration::from_millis(500));
    loop {
        let files = source.list(reporter)?;
        let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
        let missing = select::unmet(awaited, &names);
        if missing.is_empty() {
            return Ok(files);
        }
        let left = patience.saturating_sub(begin.elapsed());
        if left.is_zero() {
            let seconds = patience.as_secs();
            let (missing, folder) = (in_backticks(missing), source.name());
            let text = format!("{missing} did not appear in `{folder}` within {seconds} seconds");
            return Err(Failure::message(text)
                .with_hint("look at the run on GitHub, or wait longer with `--timeout`")
                .with_exit(Exit::TryAgain));
        }
        wait(pause.min(left), reporter)?;
        pause = (pause * 2).min(LONGEST_LOOK);
    }
}

/// The artifacts that earlier runs fetched into an output.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct OutputRecord {
    /// SHA-256 and source of the archive of each directory or archive, by its name.
    #[serde(default)]
    artifacts: BTreeMap<String, RecordedArtifact>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct RecordedArtifact {
    sha256: String,
    source: String,
    /// The [`tree_digest`] of a directory. Records of earlier versions have none.
    #[serde(default)]
    tree: Option<String>,
}

impl OutputRecord {
    fn read(output: &Path) -> OutputRecord {
        // A record that cannot be read costs a download.
        let text = fs_err::read(output.join(RECORD)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write(&self, output: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        text.push(b'\n');
        rocwheel_system::replace(&output.join(RECORD), &text, 0o644)
    }
}

struct Fetching<'a> {
    source: &'a dyn ArtifactSource,
    cache: &'a DownloadCache,
    options: &'a FetchOptions,
    staging: PathBuf,
    record: Mutex<OutputRecord>,
    is_disk_full: AtomicBool,
}

/// An artifact that is in the output, or in the cache for a tree.
struct FetchedFile {
    fetched: FetchedArtifact,
    /// The archive, if the tree still needs it.
    archive: Option<CachedFile>,
}

/// Fetches the artifacts of a plan.
///
/// # Errors
/// The failure names every artifact that was not fetched; the others are in the output. A tree is
/// written only if everything was fetched.
pub fn fetch(
    plan: &FetchPlan,
    source: &dyn ArtifactSource,
    cache: &DownloadCache,
    options: &FetchOptions,
    reporter: &dyn Reporter,
) -> Result<Vec<FetchedArtifact>, Failure> {
    let parent = match options.form {
        FetchForm::Tree => options.output.parent().filter(|parent| !parent.as_os_str().is_empty()),
        _ => Some(options.output.as_path()),
    };
    let parent = parent.unwrap_or(Path::new("."));
    let staging = StagingFolder::for_results(parent, STAGING).map_err(disk_error("write", &options.output))?;
    let record = OutputRecord::read(&options.output);
    warn_of_others(&record, plan, options, reporter);
    let fetching = Fetching {
        source,
        cache,
        options,
        staging: staging.path().to_owned(),
        record: Mutex::new(record),
        is_disk_full: AtomicBool::new(false),
    };
    let done = fetching.all(plan, reporter)?;
    let archives: Vec<&CachedFile> = done.iter().filter_map(|file| file.archive.as_ref()).collect();
    if options.form == FetchForm::Tree {
        lay_out(&archives, options, reporter)?;
    }
    for archive in archives {
        cache.release(archive);
    }
    cache.tidy();
    staging.close().map_err(disk_error("write", &options.output))?;
    let mut fetched: Vec<FetchedArtifact> = done.into_iter().map(|file| file.fetched).collect();
    fetched.sort_by(|one, other| one.artifact.cmp(&other.artifact));
    Ok(fetched)
}

fn lay_out(archives: &[&CachedFile], options: &FetchOptions, reporter: &dyn Reporter) -> Result<Flattened, Failure> {
    let inputs: Vec<PathBuf> = archives.iter().map(|archive| archive.path.clone()).collect();
    Ok(flatten(&inputs, &options.output, options.existing, Mode::Execute, reporter)?)
}

/// A build must not be mixed with another one unnoticed.
fn warn_of_others(record: &OutputRecord, plan: &FetchPlan, options: &FetchOptions, reporter: &dyn Reporter) {
    if options.form == FetchForm::Tree {
        return;
    }
    let names: BTreeSet<String> = plan.artifacts.iter().map(|planned| options.form.name_of(planned)).collect();
    let others: Vec<&str> = record
        .artifacts
        .iter()
        .filter(|(name, recorded)| {
            recorded.source != plan.source && !names.contains(*name) && options.output.join(name).exists()
        })
        .map(|(name, _)| name.as_str())
        .collect();
    if let [first, more @ ..] = others.as_slice() {
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        reporter.warn(&format!("`{}` also has artifacts of another run: `{first}`{more}", options.output.display()));
    }
}

impl FetchForm {
    fn name_of(self, planned: &PlannedFetch) -> String {
        match self {
            Self::Archives => planned.file.clone(),
            Self::Directories | Self::Tree => planned.artifact.to_string(),
        }
    }
}

impl Fetching<'_> {
    fn all(&self, plan: &FetchPlan, reporter: &dyn Reporter) -> Result<Vec<FetchedFile>, Failure> {
        // The largest first: the last one to end decides when everything ends.
        let mut wanted: Vec<&PlannedFetch> = plan.artifacts.iter().collect();
        wanted.sort_by_key(|planned| std::cmp::Reverse(planned.size));
        let total = wanted.iter().map(|planned| planned.size).sum::<Option<u64>>();
        let fetches = wanted.par_iter().with_max_len(1);
        let fetches = fetches.map(|planned| (*planned, self.unless_full(planned, reporter)));
        reporter.begin("Fetching artifacts", total, Unit::Bytes);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.options.connections.max(1)).build();
        let results: Vec<_> = match pool {
            Ok(pool) => pool.install(|| fetches.collect()),
            Err(_) => fetches.collect(),
        };
        reporter.end();
        reporter.check()?;
        let (mut done, mut faults) = (Vec::new(), Vec::new());
        for (planned, result) in results {
            match result {
                Some(Ok(file)) => done.push(file),
                Some(Err(fault)) => faults.push((planned.file.clone(), fault)),
                None => {}
            }
        }
        if faults.is_empty() { Ok(done) } else { Err(summary(faults)) }
    }

    fn unless_full(
        &self,
        planned: &PlannedFetch,
        reporter: &dyn Reporter,
    ) -> Option<Result<FetchedFile, DownloadFault>> {
        if self.is_disk_full.load(Ordering::Relaxed) || reporter.interrupted() {
            return None;
        }
        let result = self.one(planned, reporter);
        let kind = match &result {
            Err(DownloadFault::Disk { source, .. }) => Some(source.kind()),
            Err(DownloadFault::Artifact(rocwheel_artifact::Error::Io(error))) => Some(error.kind()),
            _ => None,
        };
        if let Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) = kind {
            self.is_disk_full.store(true, Ordering::Relaxed);
        }
        Some(result)
    }

    fn one(&self, planned: &PlannedFetch, reporter: &dyn Reporter) -> Result<FetchedFile, DownloadFault> {
        let sidecar = self.sidecar(planned, reporter)?;
        let name = self.options.form.name_of(planned);
        let path = match self.options.form {
            FetchForm::Tree => self.options.output.clone(),
            _ => self.options.output.join(&name),
        };
        let mut fetched = FetchedArtifact {
            artifact: planned.artifact.clone(),
            path: path.clone(),
            sha256: sidecar.clone().unwrap_or_default(),
            checksum: if sidecar.is_some() { ChecksumSource::Sidecar } else { ChecksumSource::None },
            state: FetchState::Unchanged,
            size: planned.size,
        };
        if self.has_already(&name, &path, sidecar.as_deref(), reporter)? {
            reporter.advance(planned.size.unwrap_or_default());
            return Ok(FetchedFile { fetched, archive: None });
        }
        let file = SourceFile { name: planned.file.clone(), size: planned.size, stamp: planned.stamp.clone() };
        let facts = again(reporter, || self.source.facts(&file))?;
        let mut expected = sidecar.map(|digest| (digest, "its sidecar"));
        if expected.is_none()
            && let Some(digest) = facts.sha256
        {
            expected = Some((hexadecimal(&digest), "the store"));
            fetched.checksum = ChecksumSource::Store;
        }
        fetched.size = fetched.size.or(facts.size);
        let wanted = Wanted { source: self.source, file: &file, expected, facts, growth: None };
        let archive = match (self.existing(&wanted, reporter)?, self.options.form) {
            (Some(archive), _) => archive,
            (None, FetchForm::Directories) => {
                let staged = self.staging.join(&name);
                unpack_as_it_arrives(self.cache, wanted, (&staged, older(&path)), reporter)?
            }
            (None, _) => self.cache.download(&wanted, reporter)?,
        };
        fetched.state = if archive.is_new { FetchState::Fetched } else { FetchState::Cached };
        fetched.sha256.clone_from(&archive.sha256);
        if self.options.form == FetchForm::Tree {
            return Ok(FetchedFile { fetched, archive: Some(archive) });
        }
        self.put(&archive, &name, &path, reporter)?;
        self.cache.release(&archive);
        Ok(FetchedFile { fetched, archive: None })
    }

    /// The SHA-256 in the sidecar, if there is a sidecar.
    fn sidecar(&self, planned: &PlannedFetch, reporter: &dyn Reporter) -> Result<Option<String>, DownloadFault> {
        if !planned.has_checksum {
            return Ok(None);
        }
        let name = format!("{}{SIDECAR}", planned.file);
        let Some(bytes) = again(reporter, || self.source.read(&name))? else { return Ok(None) };
        parse_sidecar(&String::from_utf8_lossy(&bytes)).map(Some).ok_or(DownloadFault::Sidecar)
    }

    /// `true` if the output has this artifact unchanged. Another one in its place may have to stay.
    fn has_already(
        &self,
        name: &str,
        path: &Path,
        digest: Option<&str>,
        reporter: &dyn Reporter,
    ) -> Result<bool, DownloadFault> {
        if self.options.form == FetchForm::Tree || fs_err::symlink_metadata(path).is_err() {
            return Ok(false);
        }
        let recorded = self.record.lock().unwrap_or_else(PoisonError::into_inner).artifacts.get(name).cloned();
        match recorded {
            Some(recorded) if Some(recorded.sha256.as_str()) != digest => Ok(false),
            Some(recorded) if self.options.form == FetchForm::Archives => {
                let is_intact = is_archive(path, &recorded.sha256, &WithoutProgress(reporter));
                reporter.check()?;
                Ok(is_intact)
            }
            Some(recorded) => Ok(recorded.tree.is_some() && tree_digest(path).ok() == recorded.tree),
            None if self.options.existing == Replaceable::Anything => Ok(false),
            None => Err(DownloadFault::Foreign { path: path.to_owned() }),
        }
    }

    /// The verified archive if it is on this machine: where the store has it, or in the cache.
    fn existing(&self, wanted: &Wanted<'_>, reporter: &dyn Reporter) -> Result<Option<CachedFile>, DownloadFault> {
        let facts = FileFacts { sha256: None, ..wanted.facts.clone() };
        if let Some(path) = self.local(wanted, &facts)? {
            let file = fs_err::File::open(&path).map_err(DownloadFault::disk(&path))?;
            let digest = sha256_of(Watched::new(file, reporter));
            reporter.check()?;
            let actual = hexadecimal(&digest.map_err(DownloadFault::disk(&path))?);
            return match &wanted.expected {
                Some((expected, said_by)) if *expected != actual => {
                    Err(DownloadFault::Digest { expected: expected.clone(), actual, said_by })
                }
                _ => Ok(Some(CachedFile { path, sha256: actual, is_new: true })),
            };
        }
        Ok(self.cache.find(wanted, reporter))
    }

    fn local(&self, wanted: &Wanted<'_>, facts: &FileFacts) -> Result<Option<PathBuf>, DownloadFault> {
        if !self.source.is_local() {
            return Ok(None);
        }
        match self.source.open(wanted.file, facts, 0)? {
            FileStream::Local(path) => Ok(Some(path)),
            _ => Ok(None),
        }
    }

    /// Puts an artifact into the output, complete or not at all.
    fn put(&self, archive: &CachedFile, name: &str, path: &Path, reporter: &dyn Reporter) -> Result<(), DownloadFault> {
        let staged = self.staging.join(name);
        match self.options.form {
            FetchForm::Archives => {
                // A link would let a change of the output reach the store or the cache.
                fs_err::copy(&archive.path, &staged).map_err(DownloadFault::disk(path))?;
                let line = sidecar_line(&archive.sha256, name);
                let written = rocwheel_system::replace(&sidecar_path(path), line.as_bytes(), 0o644);
                written.map_err(DownloadFault::disk(path))?;
            }
            // It was unpacked while it arrived.
            _ if staged.is_dir() => {}
            _ => unpack_over(&archive.path, (&staged, older(path)), &WithoutProgress(reporter)).map_err(|error| {
                match error {
                    rocwheel_artifact::Error::Interrupted(interrupted) => DownloadFault::Interrupted(interrupted),
                    error => DownloadFault::Artifact(error),
                }
            })?,
        }
        let tree = match self.options.form {
            FetchForm::Archives => None,
            _ => Some(tree_digest(&staged).map_err(DownloadFault::disk(path))?),
        };
        if fs_err::symlink_metadata(path).is_ok() {
            let renamed = rocwheel_system::rename(path, self.staging.join(format!("old-{name}")));
            renamed.map_err(DownloadFault::disk(path))?;
        }
        rocwheel_system::rename(&staged, path).map_err(DownloadFault::disk(path))?;
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = RecordedArtifact { sha256: archive.sha256.clone(), source: self.source.name(), tree };
        record.artifacts.insert(name.to_owned(), recorded);
        record.write(&self.options.output).map_err(DownloadFault::disk(path))
    }
}

/// Fetches one file that is not an artifact, such as the tarball of a release, into the cache.
pub fn fetch_file(
    source: &dyn ArtifactSource,
    name: &str,
    cache: &DownloadCache,
    reporter: &dyn Reporter,
) -> Result<PathBuf, Failure> {
    let files = source.list(reporter)?;
    let Some(file) = files.iter().find(|file| file.name == name) else {
        let names = files.iter().map(|file| file.name.as_str());
        let existing: Vec<String> = match rocwheel_progress::nearest(name, names.clone()) {
            Some(near) => vec![near.to_owned()],
            None => names.rev().take(3).map(str::to_owned).collect(),
        };
        return Err(unmatched(&source.name(), &[name.to_owned()], &existing));
    };
    reporter.begin("Fetching", file.size, Unit::Bytes);
    let fetched = (|| {
        let facts = again(reporter, || source.facts(file))?;
        if source.is_local()
            && let FileStream::Local(path) = source.open(file, &facts, 0)?
        {
            return Ok(path);
        }
        let expected = facts.sha256.map(|digest| (hexadecimal(&digest), "the store"));
        let wanted = Wanted { source, file, expected, facts, growth: None };
        match cache.find(&wanted, reporter) {
            Some(found) => Ok(found.path),
            None => Ok(cache.download(&wanted, reporter)?.path),
        }
    })();
    reporter.end();
    reporter.check()?;
    fetched.map_err(|fault| summary(vec![(name.to_owned(), fault)]))
}

/// Copies a file of the cache or of a store to another place, where it replaces an older one.
pub fn place_file(file: &Path, place: &Path) -> Result<(), Failure> {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let placed = tempfile::Builder::new().prefix(STAGING).tempfile_in(folder).and_then(|staged| {
        fs_err::copy(file, staged.path())?;
        rocwheel_system::persist(staged, place)
    });
    placed.map_err(disk_error("write", place))
}

/// The directory that an artifact will replace. Files of it that did not change are kept.
fn older(path: &Path) -> Option<&Path> {
    fs_err::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()).then_some(path)
}

/// Repeats a small request while the network or the server is out of order.
fn again<T>(
    reporter: &dyn Reporter,
    mut request: impl FnMut() -> Result<T, DownloadFault>,
) -> Result<T, DownloadFault> {
    let mut pause = Duration::from_millis(200);
    for _ in 1..TRIES {
        match request() {
            Err(DownloadFault::Network(_)) => wait(pause, reporter)?,
            answer => return answer,
        }
        pause *= 3;
    }
    request()
}

fn summary(mut faults: Vec<(String, DownloadFault)>) -> Failure {
    faults.sort_by(|one, other| one.0.cmp(&other.0));
    // What another try cannot help decides.
    let exit =
        if faults.iter().all(|(_, fault)| fault.exit() == Exit::TryAgain) { Exit::TryAgain } else { Exit::Failed };
    let hint = faults.iter().find(|(_, fault)| fault.exit() == exit).and_then(|(_, fault)| fault.hint());
    let problems = faults.iter().map(|(file, fault)| format!("`{file}`: {fault}")).collect();
    let failure = artifacts_failure(|count| format!("{count} could not be fetched"), problems).with_exit(exit);
    hint.into_iter().fold(failure, Failure::with_hint)
}
