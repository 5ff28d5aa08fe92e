//! Executes a [`Plan`]: opens the source files, patches ELF headers and writes wheels and
//! selectors.
//!
//! A library is never copied to be edited: its patch is applied while the wheel writer reads the
//! original (pitfalls 15), so every input byte is read once and every output byte written once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;
use rocwheel_archive::tar::TarBuilder;
use rocwheel_archive::{WriteOptions, Written};
use rocwheel_content::{Content, FileContent, Reader};
use rocwheel_elf::{Edit, Patch, Patched, SearchPath, StackFlag};
use rocwheel_output::{LastLook, Staged, StagedFile};
use rocwheel_progress::{Failure, Reporter};
use rocwheel_wheel::{EntryPoints, Member, Platform, Tag, WheelContents, WheelName};
use serde::Serialize;

use crate::devel::DevelEntry;
use crate::error::{elf_error, io_error, or_full_disk};
use crate::plan::{Plan, PlannedDevel, PlannedSelector, PlannedWheel};
use crate::populate::{FileSource, PlannedFile};
use crate::request::{Request, SelectorForm};
use crate::state::{FinishedPackage, OutputFolder};
use crate::{selector, stub};

/// The folder of the packages, in the output folder.
const DIST: &str = "dist";

#[derive(Debug, Clone, Serialize)]
pub struct WrittenPackage {
    /// Path relative to the output folder.
    pub path: String,
    /// Number of members.
    pub files: u64,
    /// Bytes of all members before compression.
    pub raw: u64,
    /// Size of the file in bytes.
    pub compressed: u64,
    /// SHA-256 digest of the file, hexadecimal.
    pub sha256: String,
    /// Seconds it took to write; 0 if it was up to date.
    pub seconds: f64,
    /// `false` if it was up to date already.
    pub written: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct PackagingReport {
    pub packages: Vec<WrittenPackage>,
    /// Packages of earlier runs that were removed because the set no longer has them.
    pub removed: Vec<String>,
    /// Files in `dist/` that rocwheel did not write; they were not changed.
    pub strangers: Vec<String>,
}

/// Writes all packages of `plan` to `folder`.
///
/// All packages appear in `dist/` together once they are complete; after an error the folder is
/// unchanged.
///
/// # Errors
/// Files that cannot be read or written, and an interruption.
pub fn execute(
    plan: &Plan,
    request: &Request,
    folder: &mut OutputFolder,
    reporter: &dyn Reporter,
) -> Result<PackagingReport, Failure> {
    let prepared = prepare(plan, request, folder, reporter)?.commit()?;
    prepared.record(folder, LastLook::Skip).map_err(|failure| or_full_disk(failure, &request.output))
}

/// The packages of a run as they will be after the commit, and what the output folder records then.
pub struct Prepared {
    packages: Vec<WrittenPackage>,
    moved: Moved,
    removed: Vec<String>,
    scratch: PathBuf,
}

/// Wheels that are installed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedSet {
    pub system: Platform,
    /// Current path and destination of each wheel.
    pub wheels: Vec<(PathBuf, PathBuf)>,
    /// Wheels for all families that are installed with the wheels of one family.
    pub beside: Vec<PathBuf>,
}

/// Like [`execute`] without the last steps, so that the packages can be audited before they are
/// moved. After the commit, call [`Prepared::record`].
pub fn prepare(
    plan: &Plan,
    request: &Request,
    folder: &mut OutputFolder,
    reporter: &dyn Reporter,
) -> Result<Staged<Prepared>, Failure> {
    write(plan, request, folder, reporter).map_err(|failure| or_full_disk(failure, &request.output))
}

impl Prepared {
    /// Returns the sets that have a wheel which was not audited yet. Packages of a GPU family are
    /// in a separate folder and are installed with those for all families. Packages for Linux and
    /// for Windows are never installed together.
    pub fn sets(&self, folder: &OutputFolder) -> Vec<StagedSet> {
        let wheels = self.packages.iter().map(|package| package.path.as_str()).filter(|path| WheelName::is_wheel(path));
        let mut groups: BTreeMap<(&str, Platform), Vec<&str>> = BTreeMap::new();
        for path in wheels {
            let group = path.rsplit_once('/').map_or("", |(group, _)| group);
            for system in systems(path, &self.packages) {
                groups.entry((group, system)).or_default().push(path);
            }
        }
        let new = groups.iter().filter(|(_, paths)| {
            let mut paths = paths.iter();
            paths.any(|path| self.moved.iter().any(|(moved, ..)| moved == path) || !folder.was_looked_at(path))
        });
        let sets = new.map(|((group, system), paths)| {
            let common = groups.get(&(DIST, *system)).filter(|_| *group != DIST);
            StagedSet {
                system: *system,
                wheels: paths.iter().map(|path| (self.staged(path, folder), folder.path(path))).collect(),
                beside: common.into_iter().flatten().map(|path| self.staged(path, folder)).collect(),
            }
        });
        sets.collect()
    }

    fn staged(&self, path: &str, folder: &OutputFolder) -> PathBuf {
        let moved = self.moved.iter().find(|(moved, ..)| moved == path);
        moved.map_or_else(|| folder.path(path), |(_, staged, _)| staged.clone())
    }

    /// For temporary files, until the commit.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Records the committed packages in the output folder, so that a later run writes only what
    /// has changed. `look` tells if they were audited.
    ///
    /// # Errors
    /// Packages that cannot be looked at; a record that cannot be written.
    pub fn record(self, folder: &mut OutputFolder, look: LastLook) -> Result<PackagingReport, Failure> {
        let Prepared { packages, moved, removed, .. } = self;
        let paths: Vec<String> = packages.iter().map(|package| package.path.clone()).collect();
        let looked = if look == LastLook::Audit { &paths[..] } else { &[] };
        let moved = moved.into_iter().map(|(path, _, finished)| (path, finished)).collect();
        folder.record(moved, &removed, looked)?;
        Ok(PackagingReport { packages, removed, strangers: folder.strangers() })
    }
}

/// Returns the system that the tag of a wheel names.
fn system_of(path: &str) -> Option<Platform> {
    Platform::of_tag(path.strip_suffix(".whl")?.rsplit('-').next()?)
}

/// Returns the systems that a wheel is installed on: that of its tag, or for a wheel without one
/// those of the other packages.
fn systems(path: &str, packages: &[WrittenPackage]) -> BTreeSet<Platform> {
    if let Some(system) = system_of(path) {
        return BTreeSet::from([system]);
    }
    let all: BTreeSet<Platform> = packages.iter().filter_map(|package| system_of(&package.path)).collect();
    if all.is_empty() { BTreeSet::from([Platform::Linux]) } else { all }
}

fn write(
    plan: &Plan,
    request: &Request,
    folder: &mut OutputFolder,
    reporter: &dyn Reporter,
) -> Result<Staged<Prepared>, Failure> {
    let staging = folder.staging()?;
    let scratch = staging.path().to_owned();
    // A promotion need not unpack members without the version.
    if let Ok(version) = plan.version.parse() {
        request.reuse.search_for(&rocwheel_wheel::version_sign(&version));
    }
    let run = Run {
        plan,
        options: WriteOptions {
            level: request.level,
            epoch: request.epoch,
            reuse: request.reuse.clone(),
            ..WriteOptions::default()
        },
        staging: &scratch,
        reporter,
    };
    let mut packages = Vec::new();
    let mut moved = Vec::new();
    for wheel in &plan.wheels {
        let path = place(DIST, wheel.folder.as_deref(), &wheel.file_name);
        let digest = run.digest(wheel, folder)?;
        run.package(folder, path, digest, &mut packages, &mut moved, |staging| run.wheel(wheel, staging))?;
    }
    for selector in &plan.selectors {
        let path = place(selector.place, selector.folder.as_deref(), &selector.file_name);
        let digest = run.selector_digest(selector);
        run.package(folder, path, digest, &mut packages, &mut moved, |staging| {
            let (promise, templates) = (&selector.promise, &selector.templates);
            Ok(match selector.form {
                SelectorForm::Sdist => {
                    rocwheel_wheel::write_sdist(&selector::sdist(promise, templates)?, staging, &run.options, reporter)?
                }
                SelectorForm::Wheel => {
                    rocwheel_wheel::write_wheel(&selector::wheel(promise, templates), staging, &run.options, reporter)?
                }
            })
        })?;
    }
    reporter.check()?;
    // With --only, packages that were not requested stay unchanged.
    let paths: Vec<String> = packages.iter().map(|package: &WrittenPackage| package.path.clone()).collect();
    let removed = if request.only.is_empty() { folder.superfluous(&paths) } else { Vec::new() };
    let files: Vec<StagedFile> = moved
        .iter()
        .map(|(path, staged, _): &(String, PathBuf, _)| StagedFile { staged: staged.clone(), place: folder.path(path) })
        .collect();
    let old: Vec<PathBuf> = removed.iter().map(|path| folder.path(path)).filter(|path| path.exists()).collect();
    let prepared = Prepared { packages, moved, removed, scratch };
    let staged = files.into_iter().fold(Staged::new(staging, prepared), Staged::with_file);
    Ok(old.into_iter().fold(staged, |staged, path| staged.with_removed(path, Some(request.output.clone()))))
}

fn place(place: &str, folder: Option<&str>, file_name: &str) -> String {
    folder.map_or_else(|| format!("{place}/{file_name}"), |folder| format!("{place}/{folder}/{file_name}"))
}

type Moved = Vec<(String, PathBuf, FinishedPackage)>;

struct Run<'a> {
    plan: &'a Plan,
    options: WriteOptions,
    staging: &'a Path,
    reporter: &'a dyn Reporter,
}

impl Run<'_> {
    fn package(
        &self,
        folder: &mut OutputFolder,
        path: String,
        digest: String,
        packages: &mut Vec<WrittenPackage>,
        moved: &mut Moved,
        write: impl FnOnce(&Path) -> Result<Written, Failure>,
    ) -> Result<(), Failure> {
        self.reporter.check()?;
        let begin = Instant::now();
        if let Some(finished) = folder.up_to_date(&path, &digest) {
            packages.push(package(path, finished, Duration::ZERO, false));
            return Ok(());
        }
        // Selectors of several families have the same file name, so each package gets a separate
        // folder.
        let staging = self.staging.join(packages.len().to_string());
        fs::create_dir_all(&staging).map_err(io_error("create a folder for unfinished packages"))?;
        let written = write(&staging)?;
        let finished = FinishedPackage {
            digest,
            files: written.files,
            raw: written.raw,
            compressed: written.compressed,
            sha256: written.sha256.unwrap_or_default(),
            stamp: String::new(),
            looked_at: false,
        };
        packages.push(package(path.clone(), &finished, begin.elapsed(), true));
        moved.push((path, written.path, finished));
        Ok(())
    }

    fn wheel(&self, planned: &PlannedWheel, staging: &Path) -> Result<Written, Failure> {
        let mut members = self.members(&planned.files)?;
        if let Some(devel) = &planned.devel {
            members.push(Member::new(devel.path.clone(), self.tar(devel)?));
        }
        let mut metadata = selector::metadata(&planned.summary);
        metadata.license_expression = Some(planned.license.clone());
        metadata.requires_dist.clone_from(&planned.requires);
        metadata.description = Some(rocwheel_wheel::Description {
            content_type: "text/markdown".to_owned(),
            text: format!("{}.\n\nOne of the packages that `pip install rocm` selects.\n", planned.summary),
        });
        let mut entry_points = EntryPoints::default();
        for (name, reference) in &planned.scripts {
            entry_points.script(name, reference);
        }
        let distribution = WheelContents {
            name: planned.name.clone(),
            version: self.plan.version.clone(),
            tags: vec![Tag::platform(&planned.platform_tag)],
            metadata,
            entry_points,
            licenses: self.members(&planned.licenses)?,
            members,
        };
        Ok(rocwheel_wheel::write_wheel(&distribution, staging, &self.options, self.reporter)?)
    }

    fn members(&self, files: &BTreeMap<String, PlannedFile>) -> Result<Vec<Member>, Failure> {
        files
            .iter()
            .map(|(name, file)| {
                self.reporter.check()?;
                Ok(Member { name: name.clone(), executable: file.executable, content: content(file)? })
            })
            .collect()
    }

    fn tar(&self, devel: &PlannedDevel) -> Result<impl Content + 'static, Failure> {
        let mut tar = TarBuilder::new(self.options.epoch);
        for (path, entry) in &devel.members {
            let name = format!("{}/{path}", devel.root);
            match entry {
                DevelEntry::Directory => tar.directory(&name),
                DevelEntry::Symlink { target } => tar.symlink(&name, target),
                DevelEntry::File(file) => tar.file(&name, file.executable, content(file)?),
            }
        }
        Ok(tar.finish())
    }

    /// Returns a digest of everything that a wheel is made of; for file contents, the metadata of
    /// the file is used.
    fn digest(&self, wheel: &PlannedWheel, folder: &OutputFolder) -> Result<String, Failure> {
        let mut hasher = self.hasher();
        hasher.update(crate::contents::pretty(wheel).as_bytes());
        let in_tar = wheel.devel.iter().flat_map(|devel| &devel.members).filter_map(|(_, entry)| match entry {
            DevelEntry::File(file) => Some(file),
            _ => None,
        });
        for file in wheel.files.values().chain(wheel.licenses.values()).chain(in_tar) {
            if let Some(path) = file.path() {
                let stamp = folder.stamp_of_source(path).map_err(io_error("look at an artifact's file"))?;
                hasher.update(stamp.as_bytes());
            }
        }
        Ok(hasher.finalize().to_hex().to_string())
    }

    fn selector_digest(&self, selector: &PlannedSelector) -> String {
        let mut hasher = self.hasher();
        hasher.update(format!("{:?} {:?}", selector.form, selector.promise).as_bytes());
        for (name, text) in &selector.templates.selector {
            hasher.update(name.as_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    fn hasher(&self) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher.update(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes());
        hasher.update(format!("{:?} {} {}\0", self.options.level, self.options.epoch, self.plan.version).as_bytes());
        if let Ok(program) = stub::stub("program") {
            hasher.update(&program);
        }
        hasher
    }
}

fn package(path: String, finished: &FinishedPackage, time: Duration, written: bool) -> WrittenPackage {
    WrittenPackage {
        path,
        files: finished.files,
        raw: finished.raw,
        compressed: finished.compressed,
        sha256: finished.sha256.clone(),
        seconds: time.as_secs_f64(),
        written,
    }
}

fn content(file: &PlannedFile) -> Result<Box<dyn Content>, Failure> {
    Ok(match &file.source {
        FileSource::File { path } => Box::new(FileContent::new(path).map_err(io_error("open an artifact's file"))?),
        FileSource::Edited { path, search_path } => Box::new(PatchedFile::plan(path, search_path)?),
        FileSource::Stub { target } => {
            Box::new(stub::stub(target).map_err(Failure::attempt("cannot make an exec stub"))?)
        }
        FileSource::Text { text } => Box::new(text.clone().into_bytes()),
    })
}

/// An ELF file with its patch. The file is only open while it is read.
struct PatchedFile {
    path: PathBuf,
    patch: Patch,
}

impl PatchedFile {
    fn plan(path: &Path, search_path: &[String]) -> Result<PatchedFile, Failure> {
        let file = fs::File::open(path).map_err(io_error("open a library"))?;
        let edit = Edit {
            search_path: Some(SearchPath::Set(search_path.to_vec())),
            stack: StackFlag::Clear,
            ..Edit::default()
        };
        let patch = edit.plan(file.file()).map_err(elf_error(path))?;
        Ok(PatchedFile { path: path.to_owned(), patch })
    }
}

impl Content for PatchedFile {
    fn size(&self) -> u64 {
        self.patch.size
    }

    fn open(&self) -> io::Result<Reader> {
        let file = fs::File::open(&self.path)?.into_parts().0;
        Ok(Box::new(Patched::new(file, self.patch.clone())))
    }

    fn origin(&self) -> Option<&Path> {
        Some(&self.path)
    }
}
