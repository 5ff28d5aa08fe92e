//! Input: libraries and programs. Output: a directory with the same files without GPU code, and
//! their archives in `.kpack` beside them.
//!
//! Each file has separate archives, named after it, so that a user who installs only one of the
//! files can install its archives with it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_content::{Content as _, FileContent};
use rocwheel_elf::PatchedContent;
use rocwheel_kpack::bundle::Checksum;
use rocwheel_output::OutputTree;
use rocwheel_progress::{Failure, NamedWriter, Reporter, Unit as Counted};
use rocwheel_system::FileMetadata as _;
use serde::Serialize;

use crate::copy::copy;
use crate::engine::{self, Packing, WrittenArchive};
use crate::forecast::{self, ArchiveForecast};
use crate::group::{TargetNames, TargetSelection};
use crate::plan::{self, CandidateFile, Options, Plan, given_twice};
use crate::tree::{ARCHIVES, MAKER, view_of_directory};
use crate::verify::{self, Checks, Item, Verification, VerificationReport, View};

#[derive(Debug, Clone)]
pub struct Request {
    pub selection: TargetSelection,
    pub names: TargetNames,
    pub packing: Packing,
    /// `Full` checks the result before it replaces the output.
    pub verification: Verification,
}

/// The work of [`execute`] for one file.
#[derive(Serialize)]
pub struct FileSplit {
    pub input: PathBuf,
    /// File name, which stays the same in the output.
    pub name: String,
    #[serde(flatten)]
    pub plan: Plan,
    #[serde(skip)]
    units: Vec<CandidateFile>,
}

#[derive(Debug, Serialize)]
pub struct SplitFilesReport {
    /// The written files, in the order of the plan.
    pub files: Vec<WrittenFile>,
    /// The archives of all files, with their paths in the output.
    pub archives: Vec<WrittenArchive>,
    /// Bytes of the fat binary sections in the input.
    pub section_bytes: u64,
    pub archive_bytes: u64,
    /// Result of the check; `None` if it was skipped.
    pub verification: Option<VerificationReport>,
}

/// A file without its GPU code.
#[derive(Debug, Clone, Serialize)]
pub struct WrittenFile {
    pub name: String,
    /// Size before the split in bytes.
    pub before: u64,
    /// Size after the split in bytes.
    pub size: u64,
}

impl SplitFilesReport {
    /// `true` if the output was written, because the check found no differences or was skipped.
    pub fn is_good(&self) -> bool {
        self.verification.as_ref().is_none_or(VerificationReport::is_clean)
    }
}

/// Plans the split of each file. Nothing is written.
///
/// # Errors
/// Files that cannot be read, that have the same name, or whose GPU code cannot be split off; a
/// selection that matches no target.
pub fn plan(paths: &[PathBuf], request: &Request, reporter: &dyn Reporter) -> Result<Vec<FileSplit>, Failure> {
    let (mut names, mut groups) = (BTreeSet::new(), BTreeSet::new());
    let mut planned = Vec::with_capacity(paths.len());
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !names.insert(name.clone()) {
            return Err(given_twice(&name));
        }
        let mut group = stem(&name).to_owned();
        if !groups.insert(group.clone()) {
            group.clone_from(&name);
            groups.insert(group.clone());
        }
        let units = vec![CandidateFile::new(&*name, Arc::new(FileContent::new(path)?), &name, ARCHIVES)];
        let selection = request.selection.clone();
        let options = Options { group, selection, names: request.names, checksum: Checksum::Compare };
        let plan = plan::plan(&units, &options, reporter)?;
        if plan.binaries.is_empty() {
            let reason = plan.left_alone.first().map(|left| format!(": {}", left.reason)).unwrap_or_default();
            let text = format!("`{}` holds no GPU code that can be split off{reason}", path.display());
            return Err(Failure::message(text).with_hint("`rocwheel kernels` shows what is in a file"));
        }
        planned.push(FileSplit { input: path.clone(), name, plan, units });
    }
    Ok(planned)
}

/// Estimates the archives of the files that have compressed bundles, from samples of their code.
pub fn forecast(plan: &[FileSplit], packing: Packing, reporter: &dyn Reporter) -> Result<ArchiveForecast, Failure> {
    let mut each = plan.iter().map(|file| forecast::forecast(&file.plan, &file.units, packing, reporter));
    each.try_fold(ArchiveForecast::default(), |sum, one| Ok(sum.plus(one?)))
}

/// Returns the name without extensions: `librocrand` for `librocrand.so.1.1`, `tool` for
/// `tool.exe`.
fn stem(name: &str) -> &str {
    let ends = [".so", ".dll", ".exe", ".pyd"].into_iter().filter_map(|end| name.find(end)).filter(|at| *at > 0);
    ends.min().map_or(name, |end| &name[..end])
}

/// Writes the files and archives of a plan into `output`, which appears complete or not at all. The
/// output of an earlier split is replaced.
///
/// # Errors
/// An output that was not made by this command, or that holds an input; files that cannot be read
/// or written. Differences that the check finds are not an error: they are in
/// [`SplitFilesReport::verification`], and then nothing is written.
pub fn execute(
    plan: &[FileSplit],
    request: &Request,
    output: &Path,
    reporter: &dyn Reporter,
) -> Result<SplitFilesReport, Failure> {
    let inputs: Vec<PathBuf> = plan.iter().map(|file| file.input.clone()).collect();
    rocwheel_artifact::separate(output, &inputs)?;
    let staging = OutputTree::new(output, MAKER)?;
    let mut outcome =
        SplitFilesReport { files: vec![], archives: vec![], section_bytes: 0, archive_bytes: 0, verification: None };
    for file in plan {
        let place = |archive: &crate::PlannedKpack| staging.root().join(ARCHIVES).join(&archive.name);
        let done = engine::execute(&file.plan, &file.units, request.packing, &place, reporter)?;
        outcome.section_bytes += file.plan.binaries.iter().map(|binary| binary.section).sum::<u64>();
        for mut archive in done.archives {
            outcome.archive_bytes += archive.size;
            archive.path = output.join(ARCHIVES).join(&archive.name);
            outcome.archives.push(archive);
        }
        let original = Arc::clone(&file.units[0].content);
        let before = original.size();
        for host in done.hosts {
            let content = PatchedContent::new(Arc::clone(&original), host.patch);
            let path = staging.root().join(&file.name);
            let to = fs_err::File::create(&path)?;
            let stage = reporter.stage("Writing files", Some(content.size()), Counted::Bytes);
            copy(&content, NamedWriter::new(to, output.join(&file.name)), reporter)?;
            drop(stage);
            let mode = fs_err::metadata(&file.input)?.mode(&file.input) & 0o7777;
            rocwheel_system::set_mode(&path, mode)?;
            outcome.files.push(WrittenFile { name: file.name.clone(), before, size: content.size() });
        }
    }
    if request.verification == Verification::Full {
        let mut before = View::default();
        for file in plan {
            let executable = fs_err::metadata(&file.input)?.is_executable(&file.input);
            let content = Arc::new(FileContent::new(&file.input)?);
            before.insert(&*file.name, Item::File { content, executable });
        }
        let after = view_of_directory(staging.root())?;
        // The engine compared the checksums when it read the bundles.
        let checks = Checks {
            selection: &request.selection,
            checksum: Checksum::Skip,
            memory: request.packing.memory,
            ..Checks::default()
        };
        outcome.verification = Some(verify::verify(&before, &after, &checks, reporter)?);
    }
    reporter.check()?;
    if outcome.is_good() {
        staging.commit()?;
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_named_after_the_library() {
        for (name, expected) in [
            ("librocrand.so.1.1", "librocrand"),
            ("librocrand.so", "librocrand"),
            ("_C.cpython-312-x86_64-linux-gnu.so", "_C.cpython-312-x86_64-linux-gnu"),
            ("rocblas.dll", "rocblas"),
            ("tool", "tool"),
            (".so", ".so"),
        ] {
            assert_eq!(stem(name), expected);
        }
    }
}
