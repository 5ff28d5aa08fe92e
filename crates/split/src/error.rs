//! Everything that can go wrong when GPU code is moved out of host files or back, and hints how to
//! fix it.

use std::io;
use std::path::PathBuf;

use rocwheel_report::{Exit, Hint};

use crate::plan::UnchangedReason;
use crate::verify::Difference;

/// Number of differences in a message; the report has all of them.
const LISTED: usize = 20;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the message of the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_report::Interrupted),
    /// The GPU code of a file is malformed or has an unknown format.
    #[error("could not read the GPU code of `{key}`")]
    GpuCode {
        /// Path of the file, relative to the input.
        key: String,
        /// The error of the reader.
        source: rocwheel_kpack::Error,
    },
    /// An archive could not be written.
    #[error("could not write the archive `{}`", path.display())]
    WriteArchive {
        /// Path of the archive.
        path: PathBuf,
        /// The error of the writer.
        source: rocwheel_kpack::Error,
    },
    /// A file could not be read.
    #[error("could not read `{key}`")]
    Read {
        /// Path of the file, relative to the input.
        key: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// Two files have the same path.
    #[error("`{key}` is given twice")]
    DuplicateFile {
        /// The path of both files.
        key: String,
    },
    /// A bundle has two code objects for one target; an archive holds one.
    #[error("bundle {bundle} of `{key}` has two code objects for `{target}`")]
    DuplicateTarget {
        /// Path of the file.
        key: String,
        /// Index of the bundle in the fat binary section.
        bundle: usize,
        /// The target.
        target: String,
    },
    /// An entry with code that names no target, so that it cannot be put into an archive.
    #[error("bundle {bundle} of `{key}` has {size} bytes of code under `{id}`, which names no GPU target")]
    NoTarget {
        /// Path of the file.
        key: String,
        /// Index of the bundle in the fat binary section.
        bundle: usize,
        /// Name of the entry.
        id: String,
        /// Size of the entry in bytes.
        size: u64,
    },
    /// The file has nothing to split.
    #[error("`{}` holds no GPU code that can be split off{}", path.display(), because(*reason))]
    NothingToSplit {
        /// Path of the file.
        path: PathBuf,
        /// The reason why its GPU code has to stay; `None` if it has no GPU code.
        reason: Option<UnchangedReason>,
    },
    /// A code object too large for memory; compilers do not make such objects.
    #[error("bundle {bundle} of `{key}` claims {size} bytes of code for {target}; up to {limit} are taken")]
    CodeObjectTooLarge {
        /// Path of the file.
        key: String,
        /// Index of the bundle in the fat binary section.
        bundle: usize,
        /// The target of the code object.
        target: String,
        /// The size in the entry table, in bytes.
        size: u64,
        /// The largest accepted size, in bytes.
        limit: u64,
    },
    /// A target with characters that cannot be part of a file name.
    #[error("`{key}` has code for a target called `{}`, which cannot be part of a file name", target.escape_debug())]
    TargetName {
        /// Path of the file.
        key: String,
        /// Name of the target.
        target: String,
    },
    /// A wheel could not be read or written.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// Artifacts could not be read.
    #[error(transparent)]
    Artifact(#[from] rocwheel_artifact::Error),
    /// The output cannot be written.
    #[error(transparent)]
    Output(#[from] rocwheel_output::Error),
    /// The name of a kernel database that is not in the tables.
    #[error("there is no kernel database `{name}`")]
    UnknownDatabase {
        /// The name as given.
        name: String,
        /// The names in the tables, for the message.
        known: String,
    },
    /// The set's HIP runtime would load the host files and find no kernels.
    #[error("`{}` cannot read .kpack archives: there is no librocm_kpack in the set", runtime.display())]
    RuntimeWithoutArchives {
        /// Path of the HIP runtime.
        runtime: PathBuf,
    },
    /// Two artifacts of the input would be merged into one, but both have the same file.
    #[error("`{path}` of the artifact `{artifact}` would come from {first} and from {second}")]
    SamePath {
        /// The artifact that would be written.
        artifact: String,
        /// The path in that artifact.
        path: String,
        /// One source of the file, in backticks.
        first: String,
        /// The other source, in backticks.
        second: String,
    },
    /// The GPU code of a file cannot be put back into it.
    #[error("cannot put the GPU code of `{key}` together: {why}")]
    Fuse {
        /// Path of the file.
        key: String,
        /// The reason, for the message.
        why: String,
    },
    /// A file has no room for its GPU code, or cannot be edited.
    #[error("could not put the GPU code back into `{key}`")]
    PutBack {
        /// Path of the file.
        key: String,
        /// The error of the edit.
        source: rocwheel_kpack::Error,
        /// `true` if compressed code might fit: a file for Windows has only its original room.
        try_compressed: bool,
    },
    /// Builds to be merged differ in more than their GPU code.
    #[error("{count} of the builds' files are not the same, first `{path}`: {why}")]
    Unequal {
        /// The first file that differs.
        path: String,
        /// The difference, for the message.
        why: String,
        /// Number of files that differ.
        count: usize,
    },
    /// A wrapper would register a bundle without any code.
    #[error("`{path}` would have a bundle without code: {why}")]
    WithoutCode {
        /// Path of the file.
        path: String,
        /// The missing part, for the message.
        why: String,
    },
    /// A given archive has no code for any of the files.
    #[error("`{}` holds no code for the files that are put together", archive.display())]
    UnusedArchive {
        /// Path of the archive.
        archive: PathBuf,
    },
    /// The result does not hold the same code as the input: nothing is written.
    #[error("the fused `{path}` is not what went in: {why}")]
    NotFused {
        /// Path of the file.
        path: String,
        /// The difference, for the message.
        why: String,
    },
    /// A file cannot be edited, because its own headers contradict each other.
    #[error("`{key}` is damaged: {why}")]
    Contradiction {
        /// Path of the file.
        key: String,
        /// The contradiction, for the message.
        why: String,
    },
    /// A temporary file could not be written.
    #[error("could not keep what becomes of `{key}` on the disk")]
    Scratch {
        /// Path of the file that was being changed.
        key: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The list of targets to keep is empty.
    #[error("no GPU target is named that is to be kept")]
    NothingWanted,
    /// An error in a list of targets.
    #[error(transparent)]
    Rocm(#[from] rocwheel_rocm::Error),
    /// A file, or a bundle of it, would have no code for any GPU left.
    #[error("`{key}` would have no GPU code left{}: it has code for {found}", of(*bundle))]
    Empty {
        /// Path of the file.
        key: String,
        /// Index of the bundle; `None` if no bundle would have code.
        bundle: Option<usize>,
        /// The targets in the file.
        found: String,
    },
    /// A path that is not a file with GPU code, a wheel or a directory.
    #[error("`{}` has no GPU code that could be removed: {reason}", path.display())]
    Unsuitable {
        /// The path.
        path: PathBuf,
        /// The reason, for the message.
        reason: String,
    },
    /// The output exists already.
    #[error("the output `{}` exists", path.display())]
    Exists {
        /// Path of the output.
        path: PathBuf,
    },
    /// Two inputs would be written to the same output.
    #[error("two inputs are called `{name}`")]
    SameName {
        /// The last part of both paths.
        name: String,
    },
    /// The output lies in an input.
    #[error("the output `{}` is in the input `{}`", output.display(), input.display())]
    Inside {
        /// Path of the output.
        output: PathBuf,
        /// Path of the input.
        input: PathBuf,
    },
    /// The pruned result has a defect, and was removed.
    #[error("the result for `{}` is wrong, and was not kept: {}", path.display(), differences.join("; "))]
    NotPruned {
        /// Path of the input.
        path: PathBuf,
        /// The defects, one sentence each.
        differences: Vec<String>,
    },
    /// The GPU code of a wheel cannot be removed or packed.
    #[error("could not split `{}`", path.display())]
    Code {
        /// Path of the wheel.
        path: PathBuf,
        /// The error for the file in the wheel.
        source: Box<Error>,
    },
    /// A wheel has nothing to split.
    #[error("`{}` holds no GPU code that can be split off{}", path.display(), because_all(reasons))]
    NoGpuCode {
        /// Path of the wheel.
        path: PathBuf,
        /// The files with GPU code that has to stay, and the reasons.
        reasons: Vec<(String, UnchangedReason)>,
    },
    /// The host wheel would have the name of its input.
    #[error("the host wheel of `{}` has the same name, so it cannot be written to `{}`", input.display(), output.display())]
    SameFolder {
        /// Path of the wheel.
        input: PathBuf,
        /// The output folder.
        output: PathBuf,
    },
    /// Two wheels would be written to the same file.
    #[error("`{first}` and `{second}` would both be written to `{name}`")]
    SameWheel {
        /// Description of one wheel.
        first: String,
        /// Description of the other.
        second: String,
        /// The file name of both.
        name: String,
    },
    /// The folder for archives cannot be used for the wheel.
    #[error("`{root}` cannot be the folder for the archives of `{}`: {reason}", path.display())]
    OverlayRoot {
        /// Path of the wheel.
        path: PathBuf,
        /// The folder as given.
        root: String,
        /// The reason, for the message.
        reason: &'static str,
    },
    /// The wheel already has an extra with a name that the split needs.
    #[error("`{}` has an extra `{extra}` already", path.display())]
    ExtraExists {
        /// Path of the wheel.
        path: PathBuf,
        /// Name of the extra.
        extra: String,
    },
    /// A requirement that violates PEP 508.
    #[error("`{requirement}` is not a requirement: {reason}")]
    Requirement {
        /// The requirement as it would be written.
        requirement: String,
        /// The reason, for the message.
        reason: String,
    },
    /// A variant label that the draft does not allow.
    #[error("`{label}` cannot be the label of a wheel variant: {reason}")]
    Label {
        /// The label as given.
        label: String,
        /// The reason, for the message.
        reason: &'static str,
    },
    /// A wheel of the output cannot be written, moved or read.
    #[error("could not {attempt} `{}`", path.display())]
    Place {
        /// The operation, as a verb for the message: `write` or `move to`.
        attempt: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The written wheels together do not hold the contents of the input. They are removed.
    #[error("the parts of `{}` are not what it was: {}", path.display(), listed(differences))]
    NotSplit {
        /// Path of the input wheel.
        path: PathBuf,
        /// All differences.
        differences: Vec<Difference>,
    },
    /// The input has code for none of the requested targets.
    #[error("there is no GPU code for {wanted}: the input has code for {found}")]
    NothingSelected {
        /// The requested targets, separated by `, `.
        wanted: String,
        /// The targets in the input, separated by `, `.
        found: String,
    },
}

fn because(reason: Option<UnchangedReason>) -> String {
    reason.map_or_else(String::new, |reason| format!(": {reason}"))
}

fn because_all(reasons: &[(String, UnchangedReason)]) -> String {
    let reasons: Vec<String> = reasons.iter().map(|(key, reason)| format!("; `{key}`: {reason}")).collect();
    reasons.concat()
}

fn listed(differences: &[Difference]) -> String {
    let mut lines: Vec<String> = differences.iter().take(LISTED).map(|found| format!("\n  {found}")).collect();
    if differences.len() > LISTED {
        lines.push(format!("\n  and {} more", differences.len() - LISTED));
    }
    lines.concat()
}

fn of(bundle: Option<usize>) -> String {
    bundle.map(|bundle| format!(" in bundle {bundle}")).unwrap_or_default()
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::PutBack { try_compressed: true, .. } => {
                Some("its code was compressed, and there is no room for more: add `--compress`".to_owned())
            }
            Self::GpuCode { source, .. } | Self::WriteArchive { source, .. } | Self::PutBack { source, .. } => {
                source.hint()
            }
            Self::Artifact(error) => error.hint(),
            Self::Rocm(error) => error.hint(),
            Self::Output(error) => error.hint(),
            Self::Wheel(error) => error.hint(),
            Self::Unequal { .. } => {
                Some("only builds of the same sources for different GPUs can become one".to_owned())
            }
            Self::WithoutCode { .. } => Some(
                "give all archives that the file was split into, or allow bundles without code with `--allow-empty`"
                    .to_owned(),
            ),
            Self::UnusedArchive { .. } => {
                Some("`rocwheel kernels` shows what it holds; remove it, or give the file that it is for".to_owned())
            }
            Self::Contradiction { .. } => Some("get the file again, or build it again".to_owned()),
            Self::UnknownDatabase { known, .. } => Some(format!("known are {known}")),
            Self::RuntimeWithoutArchives { .. } => {
                Some("add the artifact `core-kpack`, or split all the same with `--force`".to_owned())
            }
            Self::SamePath { .. } => {
                Some("split builds for different GPU families one by one, then put them together".to_owned())
            }
            Self::NothingSelected { .. } | Self::NothingToSplit { .. } | Self::Unsuitable { .. } => {
                Some("`rocwheel kernels` shows what is in a file".to_owned())
            }
            Self::NothingWanted => Some("name targets or families with `--keep`: `--keep gfx942,gfx90a`".to_owned()),
            Self::Empty { .. } => {
                Some("keep one of its targets as well, or allow files without GPU code with `--allow-empty`".to_owned())
            }
            Self::Exists { .. } => Some("remove it, or choose another output".to_owned()),
            Self::Code { source, .. } => source.hint(),
            Self::NoGpuCode { reasons, .. } if reasons.is_empty() => {
                Some("`rocwheel kernels` shows what GPU code a wheel holds".to_owned())
            }
            Self::SameFolder { .. } => Some("choose another folder with `--output`, or move the wheel".to_owned()),
            Self::SameWheel { .. } => Some(
                "split the wheels one by one into different folders, or give each its own `--device-prefix`".to_owned(),
            ),
            Self::OverlayRoot { .. } => {
                Some("give a package of the wheel, for example `torch/`, or remove `--overlay-root`".to_owned())
            }
            Self::ExtraExists { .. } => Some("the wheel looks like one that was split before".to_owned()),
            Self::Label { .. } => Some("use lower case letters, digits, `_` and `.`, for example `amd`".to_owned()),
            Self::NotSplit { .. } => Some(
                "this should not happen: please report it with the name of the wheel; nothing was written".to_owned(),
            ),
            Self::SameName { .. } => Some("prune them one at a time, with an output for each".to_owned()),
            Self::Inside { .. } => Some("choose an output outside of the inputs".to_owned()),
            _ => None,
        }
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::NotSplit { differences, .. } => differences.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Artifact(error) => error.exit(),
            Self::Wheel(error) => error.exit(),
            // The writer contradicts itself, which is not the user's fault.
            Self::NotFused { .. } | Self::NotPruned { .. } => Exit::Bug,
            Self::Output(error) => error.exit(),
            Self::Code { source, .. } => source.exit(),
            Self::UnknownDatabase { .. }
            | Self::NothingWanted
            | Self::Rocm(_)
            | Self::Requirement { .. }
            | Self::Label { .. }
            | Self::SameFolder { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
