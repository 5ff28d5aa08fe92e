//! Input: the wheels of a build. Output: repaired wheels that load on other machines, and a
//! separate wheel with the code for each GPU target.

use std::path::{Path, PathBuf};

use rocwheel_archive::{FileDigest, Level, WriteOptions};
use rocwheel_progress::Failure;
use rocwheel_repair::{self as repair, ReadingDepth, Resolve, RocmFrom};
use rocwheel_split::tree::OldRuntime;
use rocwheel_split::verify::Verification;
use rocwheel_split::{Packing, TargetNames, wheels};
use rocwheel_wheel::WheelName;

use crate::execute::context::Context;
use crate::execute::folder::{Folder, Log};
use rocwheel_recipe::Repair;
use rocwheel_recipe::{BuiltFile, Rocm};

/// The stages that replace wheels by others, in order.
const STAGES: [&str; 2] = ["repair", "split"];

/// Compression level of code objects, the same as for `rocwheel split`.
const ZSTD_LEVEL: i32 = 3;

impl Context<'_> {
    /// Makes an empty folder for results, and removes what an earlier run made from its own.
    pub(super) fn fresh_made(&self) -> Result<PathBuf, Failure> {
        let made = self.folder.join("made");
        for folder in STAGES.iter().map(|stage| self.before(stage)).chain([made.clone()]) {
            if folder.exists() {
                fs_err::remove_dir_all(folder)?;
            }
        }
        fs_err::create_dir_all(&made)?;
        Ok(made)
    }

    /// Folder of the wheels that a stage takes as input.
    fn before(&self, stage: &str) -> PathBuf {
        self.folder.join(format!("before-{stage}"))
    }

    /// Moves the wheels for a stage out of the folder of results. A stage that runs again gets the
    /// same wheels.
    fn take(&self, stage: &str) -> Result<Vec<PathBuf>, Failure> {
        let (made, before) = (self.folder.join("made"), self.before(stage));
        let later = STAGES.iter().skip_while(|one| **one != stage).skip(1);
        for folder in later.map(|stage| self.before(stage)).filter(|folder| folder.exists()) {
            fs_err::remove_dir_all(folder)?;
        }
        if !before.exists() {
            rocwheel_system::rename(&made, &before)?;
        } else if made.exists() {
            fs_err::remove_dir_all(&made)?;
        }
        fs_err::create_dir_all(&made)?;
        Ok(files(&before)?.into_iter().filter(|path| WheelName::is_wheel(path)).collect())
    }

    /// Wheels that will be installed together with the result, and folders of such wheels.
    pub(super) fn beside(&self) -> Vec<PathBuf> {
        let mut beside: Vec<PathBuf> = self.job.with.iter().map(|input| input.path.clone()).collect();
        if let Rocm::FindLinks { links, .. } = &self.job.rocm {
            beside.extend(Some(PathBuf::from(links)).filter(|folder| folder.is_dir()));
        }
        beside
    }

    pub(super) fn repair(&self, way: Repair, folder: &mut Folder, log: &mut Log) -> Result<(), Failure> {
        let wheels = self.take("repair")?;
        let has_rocm = self.job.rocm != Rocm::None;
        // Users of the wheel do not have this machine's ROCm; their torch brings one.
        let rocm_from = match self.job.rocm {
            Rocm::Prefix { .. } => RocmFrom::Torch,
            _ => RocmFrom::Packages,
        };
        let request = repair::Request {
            mode: Some(if way == Repair::Rocm { repair::RepairMode::Rocm } else { repair::RepairMode::Graft }),
            resolve: Resolve::Rpath,
            library_path: if has_rocm { vec![PathBuf::from(self.fact("rocm.lib")?)] } else { Vec::new() },
            system: repair::system_directories(),
            beside: self.beside(),
            exclude: Vec::new(),
            platform: None,
            only_platform: false,
            rocm_version: if has_rocm { Some(self.fact("rocm.sdk-version")?) } else { None },
            rocm_from,
            tree: None,
            package: None,
            strip: None,
            budget: None,
            scratch: self.folder.clone(),
            write: WriteOptions {
                level: Level::Small,
                epoch: self.job.epoch,
                digest: FileDigest::Skip,
                ..WriteOptions::default()
            },
            depth: ReadingDepth::Whole,
        };
        let made = self.folder.join("made");
        for wheel in wheels {
            let prepared = repair::plan(&wheel, &request, self.reporter).map_err(repair_failure)?;
            let plan = &prepared.plan;
            for graft in &plan.grafted {
                log.say(&format!("({} comes into the wheel, for {})", graft.name, graft.needed_by.join(", ")))?;
            }
            for left in &plan.kept_out {
                let from = left.distribution.as_deref().unwrap_or("the driver");
                log.say(&format!("({} stays out: {from} has it)", left.library))?;
            }
            for requirement in plan.requirements.iter().filter_map(|requirement| requirement.after.as_ref()) {
                log.say(&format!("(requirement {requirement})"))?;
            }
            log.say(&format!("(tag {} → {})", plan.tags.before.join("."), plan.tags.after.join(".")))?;
            for note in &plan.notes {
                self.reporter.warn(note);
            }
            let outcome = prepared.execute(&made, &request, self.reporter).map_err(repair_failure)?;
            log.say(&format!("(wrote {})", outcome.path.display()))?;
        }
        self.gather(folder)
    }

    /// Moves the code for each GPU target into a separate wheel.
    pub(super) fn split(&self, folder: &mut Folder, log: &mut Log) -> Result<(), Failure> {
        let wheels = self.take("split")?;
        let request = wheels::Request {
            scratch: self.folder.clone(),
            prefix: None,
            requires: Vec::new(),
            host_requires: Vec::new(),
            old_runtime: OldRuntime::Allow,
            targets: None,
            overlay_root: None,
            databases: None,
            variant: None,
            names: TargetNames::Base,
            packing: Packing { level: ZSTD_LEVEL, ..Packing::default() },
            level: Level::Default,
            epoch: self.job.epoch,
            reuse: rocwheel_archive::PackedSource::default(),
            verification: Verification::Full,
        };
        let made = self.folder.join("made");
        for wheel in wheels {
            let plan = wheels::plan(&wheel, &request, self.reporter)?;
            for kept in &plan.kept {
                self.reporter.warn(&format!("`{}` keeps its GPU code: {}", kept.member, kept.reason));
            }
            let outcome = wheels::execute(&plan, &request, &made, self.reporter)?;
            for output in &outcome.wheels {
                log.say(&format!("(wrote {})", output.path.display()))?;
            }
        }
        self.gather(folder)
    }

    /// Records the files in the folder of results as the job's outputs, the wheel of the recipe
    /// first.
    fn gather(&self, folder: &mut Folder) -> Result<(), Failure> {
        let own = self.job.recipe.distribution.as_deref().map(rocwheel_wheel::canonical_name);
        let mut outputs = Vec::new();
        for path in files(&self.folder.join("made"))? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let distribution = name.parse::<WheelName>()?.distribution;
            let (size, sha256) = (path.metadata()?.len(), rocwheel_source::sha256(&path, &rocwheel_progress::Silent)?);
            let is_other = own.as_deref() != Some(rocwheel_wheel::canonical_name(&distribution).as_str());
            outputs.push((is_other, BuiltFile { path: PathBuf::from(name), size, sha256 }));
        }
        outputs.sort_by(|one, other| (one.0, &one.1.path).cmp(&(other.0, &other.1.path)));
        folder.set_outputs(outputs.into_iter().map(|(_, made)| made).collect())
    }
}

/// The files of a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths)
}

/// Libraries that are missing where a wheel is built have another remedy than where it is repaired.
fn repair_failure(error: repair::Error) -> Failure {
    let is_missing = matches!(error, repair::Error::Missing { .. } | repair::Error::Unreachable { .. });
    let failure = Failure::from(error);
    if !is_missing {
        return failure;
    }
    failure.with_hint(
        "install the package of that library on this machine; or build without `--repair`, and call `rocwheel repair` with \
         `--lib-path` or `--exclude` afterwards",
    )
}
