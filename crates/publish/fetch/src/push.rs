//! Input: archives of artifacts and a store. Output: the folder of a run in the store, with
//! sidecars and a page; nothing that the store had is replaced.
//!
//! Each sidecar is written before its archive, so a reader that sees an archive can verify it. The
//! page comes last.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_artifact::ArtifactName;
use rocwheel_artifact::archive::{digest, sidecar_line};
use rocwheel_content::archive_path::join;
use rocwheel_progress::{Failure, Reporter, Unit};
use rocwheel_store::{S3Store, Store, UploadOptions, UploadState, plan_uploads, upload};
use serde::Serialize;

use crate::BuildSystem;
use crate::error::{artifacts_failure, disk_error};
use crate::page::{FolderEntry, folder_page};
use crate::place::folder_of_run;

const PAGE: &str = "index.html";

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PushState {
    /// The store gets it.
    New,
    /// The store has it.
    Unchanged,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PushedFile {
    pub artifact: ArtifactName,
    /// The key of the archive in the store.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    pub state: PushState,
}

/// The archives of a run, with their sidecars in a temporary folder.
#[derive(Debug)]
pub struct PushPlan {
    /// `{run}-{platform}`, below the prefix that the store has.
    pub folder: String,
    archives: Vec<Archive>,
}

#[derive(Debug)]
struct Archive {
    artifact: ArtifactName,
    path: PathBuf,
    sidecar: PathBuf,
    size: u64,
    sha256: String,
}

impl Archive {
    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Hashes archives and writes their sidecars into `scratch`. Sidecars that lie beside archives are
/// compared with them first.
pub fn push_plan(
    archives: &[PathBuf],
    (run, system): (&str, BuildSystem),
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Result<PushPlan, Failure> {
    let sizes: Vec<u64> = archives
        .iter()
        .map(|path| fs_err::metadata(path).map(|file| file.len()).map_err(disk_error("read", path)))
        .collect::<Result<_, _>>()?;
    let mut planned: Vec<Archive> = Vec::new();
    reporter.begin("Hashing archives", Some(sizes.iter().sum()), Unit::Bytes);
    for (path, size) in archives.iter().zip(sizes) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((artifact, _)) = ArtifactName::parse_archive(&name) else {
            return Err(rocwheel_artifact::unknown_archive(path));
        };
        if let Some(other) = planned.iter().find(|archive| archive.artifact == artifact) {
            return Err(rocwheel_artifact::given_twice(&artifact, &other.path, path));
        }
        let sha256 = rocwheel_artifact::archive::verify_digest(path, reporter)?;
        let sidecar = scratch.join(format!("{name}.sha256sum"));
        fs_err::write(&sidecar, sidecar_line(&sha256, &name)).map_err(disk_error("write", &sidecar))?;
        planned.push(Archive { artifact, path: path.clone(), sidecar, size, sha256 });
    }
    reporter.end();
    planned.sort_by(|one, other| one.artifact.cmp(&other.artifact));
    Ok(PushPlan { folder: folder_of_run(run, system)?, archives: planned })
}

/// Uploads the archives of a plan; with `write` false it only compares.
pub fn push_to_bucket(
    plan: &PushPlan,
    store: &S3Store,
    write: bool,
    reporter: &dyn Reporter,
) -> Result<Vec<PushedFile>, Failure> {
    let archives: Vec<_> = plan.archives.iter().map(|archive| plan.with_key(&archive.path)).collect();
    let archives = plan_uploads(store, &archives, UploadOptions::Keep, reporter)?;
    if write {
        // A sidecar of another program has other bytes and says the same. It follows the archive,
        // which does not change.
        let missing: Vec<(PathBuf, String)> = plan
            .archives
            .iter()
            .map(|archive| (archive, plan.with_key(&archive.sidecar)))
            .filter_map(|(archive, (path, key))| match store.read(&key) {
                Ok(Some(bytes)) if says(&bytes, &archive.sha256) => None,
                _ => Some((path, key)),
            })
            .collect();
        let sidecars = plan_uploads(store, &missing, UploadOptions::Keep, reporter)?;
        upload(store, &sidecars, reporter)?;
        upload(store, &archives, reporter)?;
        write_page(plan, store, reporter)?;
    }
    let files = plan.archives.iter().zip(&archives).map(|(archive, upload)| {
        let is_unchanged = upload.state == UploadState::Unchanged;
        pushed(plan, archive, if is_unchanged { PushState::Unchanged } else { PushState::New })
    });
    Ok(files.collect())
}

impl PushPlan {
    fn with_key(&self, path: &Path) -> (PathBuf, String) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (path.to_owned(), join(&self.folder, &name))
    }
}

fn says(sidecar: &[u8], digest: &str) -> bool {
    rocwheel_artifact::archive::parse_sidecar(&String::from_utf8_lossy(sidecar)).as_deref() == Some(digest)
}

fn pushed(plan: &PushPlan, archive: &Archive, state: PushState) -> PushedFile {
    PushedFile {
        artifact: archive.artifact.clone(),
        key: join(&plan.folder, &archive.name()),
        size: archive.size,
        sha256: archive.sha256.clone(),
        state,
    }
}

fn write_page(plan: &PushPlan, store: &dyn Store, reporter: &dyn Reporter) -> Result<(), Failure> {
    let prefix = format!("{}/", plan.folder);
    let mut entries: Vec<FolderEntry> = Vec::new();
    for file in store.list(&plan.folder, reporter)? {
        let Some(below) = file.key.strip_prefix(&prefix) else { continue };
        let entry = match below.split_once('/') {
            Some((folder, _)) => FolderEntry { name: format!("{folder}/"), size: None },
            None => FolderEntry { name: below.to_owned(), size: Some(file.size) },
        };
        if entry.name != PAGE && entries.last() != Some(&entry) {
            entries.push(entry);
        }
    }
    Ok(store.write(&format!("{prefix}{PAGE}"), folder_page(&plan.folder, &entries, false).as_bytes())?)
}

/// Copies the archives of a plan into a folder of this machine, which is made if it is missing;
/// with `write` false it only compares.
pub fn push_to_folder(
    plan: &PushPlan,
    top: &Path,
    write: bool,
    reporter: &dyn Reporter,
) -> Result<Vec<PushedFile>, Failure> {
    let folder = top.join(&plan.folder);
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for archive in &plan.archives {
        let there = folder.join(archive.name());
        let state = if !there.is_file() {
            PushState::New
        } else if digest(&there, reporter)? == archive.sha256 {
            PushState::Unchanged
        } else {
            problems.push(format!("`{}`", there.display()));
            continue;
        };
        files.push(pushed(plan, archive, state));
    }
    if !problems.is_empty() {
        return Err(artifacts_failure(|count| format!("the store has other contents of {count}"), problems).with_hint(
            "a run's artifacts do not change: push under another `--run-id`, or remove the old ones first",
        ));
    }
    if write {
        fs_err::create_dir_all(&folder).map_err(disk_error("write", &folder))?;
        reporter.begin("Copying archives", Some(files.len() as u64), Unit::Items);
        for (archive, file) in plan.archives.iter().zip(&files) {
            reporter.check()?;
            for path in [&archive.sidecar, &archive.path] {
                let name = path.file_name().unwrap_or_default();
                let is_there = file.state == PushState::Unchanged && folder.join(name).is_file();
                if !is_there {
                    copy(path, &folder.join(name)).map_err(disk_error("write", &folder.join(name)))?;
                }
            }
            reporter.advance(1);
        }
        reporter.end();
        let entries = folder_entries(&folder).map_err(disk_error("write", &folder))?;
        let page = folder.join(PAGE);
        let text = folder_page(&plan.folder, &entries, false);
        rocwheel_system::replace(&page, text.as_bytes(), 0o644).map_err(disk_error("write", &page))?;
    }
    Ok(files)
}

/// Copies a file, which appears complete or not at all.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let folder = to.parent().unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new().prefix(".rocwheel-push-").tempfile_in(folder)?;
    io::copy(&mut fs_err::File::open(from)?, temporary.as_file_mut())?;
    rocwheel_system::set_open_mode(temporary.as_file(), 0o644)?;
    rocwheel_system::persist(temporary, to)
}

fn folder_entries(folder: &Path) -> io::Result<Vec<FolderEntry>> {
    let mut entries = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let (name, metadata) = (entry.file_name().to_string_lossy().into_owned(), entry.metadata()?);
        if name.starts_with('.') || name == PAGE {
            continue;
        }
        entries.push(if metadata.is_dir() {
            FolderEntry { name: format!("{name}/"), size: None }
        } else {
            FolderEntry { name, size: Some(metadata.len()) }
        });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}
