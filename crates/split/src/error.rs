//! What can go wrong when GPU code is taken out of host files, and what to do about it.

use std::io;
use std::path::PathBuf;

use rocwheel_report::{Exit, Hint};

use crate::plan::Reason;
use crate::verify::Difference;

/// How many differences are listed; the report has all.
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
    /// The GPU code of a file is malformed or of an unknown form.
    #[error("could not read the GPU code of `{key}`")]
    GpuCode {
        /// The file, relative to what is split.
        key: String,
        /// What is wrong with it.
        source: rocwheel_kpack::Error,
    },
    /// An archive could not be written.
    #[error("could not write the archive `{}`", path.display())]
    WriteArchive {
        /// The archive.
        path: PathBuf,
        /// Why.
        source: rocwheel_kpack::Error,
    },
    /// Bytes of a file could not be read.
    #[error("could not read `{key}`")]
    Read {
        /// The file, relative to what is split.
        key: String,
        /// Why.
        source: io::Error,
    },
    /// Two files have the same path.
    #[error("`{key}` is given twice")]
    DuplicateFile {
        /// The path.
        key: String,
    },
    /// A bundle has two code objects for one target; an archive holds one.
    #[error("bundle {bundle} of `{key}` has two code objects for `{target}`")]
    DuplicateTarget {
        /// The file.
        key: String,
        /// Number of the bundle in the fat binary section.
        bundle: usize,
        /// The target.
        target: String,
    },
    /// An entry with code that names no target, so no archive could be found for it.
    #[error("bundle {bundle} of `{key}` has {size} bytes of code under `{id}`, which names no GPU target")]
    NoTarget {
        /// The file.
        key: String,
        /// Number of the bundle in the fat binary section.
        bundle: usize,
        /// The entry's name.
        id: String,
        /// Its size in bytes.
        size: u64,
    },
    /// There is nothing to split.
    #[error("`{}` holds no GPU code that can be split off{}", path.display(), because(*reason))]
    NothingToSplit {
        /// The file.
        path: PathBuf,
        /// Why its GPU code has to stay; `None` when it has none.
        reason: Option<Reason>,
    },
    /// A code object that does not fit into memory, which no compiler makes.
    #[error("bundle {bundle} of `{key}` claims {size} bytes of code for {target}; up to {limit} are taken")]
    CodeObjectTooLarge {
        /// The file.
        key: String,
        /// Number of the bundle in the fat binary section.
        bundle: usize,
        /// The target.
        target: String,
        /// What it claims, in bytes.
        size: u64,
        /// In bytes.
        limit: u64,
    },
    /// A target whose name cannot become part of a file name.
    #[error("`{key}` has code for a target called `{}`, which cannot be part of a file name", target.escape_debug())]
    TargetName {
        /// The file.
        key: String,
        /// The target.
        target: String,
    },
    /// A wheel could not be read or written.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// Artifacts could not be read.
    #[error(transparent)]
    Artifact(#[from] rocwheel_artifact::Error),
    /// The output cannot be made.
    #[error(transparent)]
    Output(#[from] rocwheel_artifact::staging::Error),
    /// A kernel database without rules.
    #[error("there is no kernel database `{name}`")]
    UnknownDatabase {
        /// As asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The set's HIP runtime would load the host files and find no kernels.
    #[error("`{}` cannot read .kpack archives: there is no librocm_kpack in the set", runtime.display())]
    RuntimeWithoutArchives {
        /// The HIP runtime.
        runtime: PathBuf,
    },
    /// Two artifacts of the input would become one with the same file twice.
    #[error("`{path}` of the artifact `{artifact}` would come from {first} and from {second}")]
    SamePath {
        /// The artifact that would be written.
        artifact: String,
        /// The path in it.
        path: String,
        /// Who brings it, in backticks.
        first: String,
        /// Who else.
        second: String,
    },
    /// The GPU code of a file cannot be put back into it.
    #[error("cannot put the GPU code of `{key}` together: {why}")]
    Fuse {
        /// The file.
        key: String,
        /// Why not.
        why: String,
    },
    /// A file does not take its GPU code back.
    #[error("could not put the GPU code back into `{key}`")]
    PutBack {
        /// The file.
        key: String,
        /// Why not.
        source: rocwheel_kpack::Error,
        /// Whether compressed code might fit: a file for Windows has only the room that it had.
        try_compressed: bool,
    },
    /// Builds that were to become one are not of the same thing.
    #[error("{count} of the builds' files are not the same, first `{path}`: {why}")]
    Unequal {
        /// The first such file.
        path: String,
        /// How it differs.
        why: String,
        /// How many there are.
        count: usize,
    },
    /// A wrapper would register a bundle without any code.
    #[error("`{path}` would have a bundle without code: {why}")]
    WithoutCode {
        /// The file.
        path: String,
        /// The missing part.
        why: String,
    },
    /// An archive that was named has no code for what is fused.
    #[error("`{}` holds no code for the files that are put together", archive.display())]
    UnusedArchive {
        /// The archive.
        archive: PathBuf,
    },
    /// The result does not hold what went in: nothing is written.
    #[error("the fused `{path}` is not what went in: {why}")]
    NotFused {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file cannot be edited, since its own headers do not agree.
    #[error("`{key}` is damaged: {why}")]
    Contradiction {
        /// The file.
        key: String,
        /// The contradiction.
        why: String,
    },
    /// Bytes could not be kept in a temporary file.
    #[error("could not keep what becomes of `{key}` on the disk")]
    Scratch {
        /// The file.
        key: String,
        /// Why.
        source: io::Error,
    },
    /// No target is to be kept.
    #[error("no GPU target is named that is to be kept")]
    NothingWanted,
    /// A name in a list of targets that is not one.
    #[error(transparent)]
    Rocm(#[from] rocwheel_rocm::Error),
    /// A file, or a bundle of it, would have no code for any GPU left.
    #[error("`{key}` would have no GPU code left{}: it has code for {found}", of(*bundle))]
    Empty {
        /// The file.
        key: String,
        /// The bundle, when others would keep some.
        bundle: Option<usize>,
        /// What it has.
        found: String,
    },
    /// A path that is no file with GPU code, no wheel and no directory.
    #[error("`{}` has no GPU code that could be removed: {reason}", path.display())]
    Unsuitable {
        /// The path.
        path: PathBuf,
        /// What it is.
        reason: String,
    },
    /// Something is in the way of the output.
    #[error("the output `{}` exists", path.display())]
    Exists {
        /// What is there.
        path: PathBuf,
    },
    /// Two inputs would become one output.
    #[error("two inputs are called `{name}`")]
    SameName {
        /// The last part of both paths.
        name: String,
    },
    /// The output lies in an input.
    #[error("the output `{}` is in the input `{}`", output.display(), input.display())]
    Inside {
        /// The output.
        output: PathBuf,
        /// The input.
        input: PathBuf,
    },
    /// What was written without the code for some targets is not what should have been written.
    #[error("the result for `{}` is wrong, and was not kept: {}", path.display(), differences.join("; "))]
    NotPruned {
        /// The input.
        path: PathBuf,
        /// What differs.
        differences: Vec<String>,
    },
    /// GPU code of a wheel cannot be taken out or packed.
    #[error("could not split `{}`", path.display())]
    Code {
        /// The wheel.
        path: PathBuf,
        /// Why.
        source: Box<Error>,
    },
    /// A wheel has nothing to split.
    #[error("`{}` holds no GPU code that can be split off{}", path.display(), because_all(reasons))]
    NoGpuCode {
        /// The wheel.
        path: PathBuf,
        /// The files with GPU code that has to stay, and why.
        reasons: Vec<(String, Reason)>,
    },
    /// The host wheel would have the name of its input.
    #[error("the host wheel of `{}` has the same name, so it cannot be written to `{}`", input.display(), output.display())]
    SameFolder {
        /// The wheel.
        input: PathBuf,
        /// The output folder.
        output: PathBuf,
    },
    /// Two inputs, or a host and a device wheel, would be written to one file.
    #[error("`{first}` and `{second}` would both be written to `{name}`")]
    SameWheel {
        /// What is written.
        first: String,
        /// What else is.
        second: String,
        /// The file name.
        name: String,
    },
    /// The folder for archives does not fit the wheel.
    #[error("`{root}` cannot be the folder for the archives of `{}`: {reason}", path.display())]
    OverlayRoot {
        /// The wheel.
        path: PathBuf,
        /// The folder as given.
        root: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The wheel has an extra of the name that is needed.
    #[error("`{}` has an extra `{extra}` already", path.display())]
    ExtraExists {
        /// The wheel.
        path: PathBuf,
        /// The extra.
        extra: String,
    },
    /// A requirement that no installer would understand.
    #[error("`{requirement}` is not a requirement: {reason}")]
    Requirement {
        /// As it would be written.
        requirement: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A variant label that the draft does not allow.
    #[error("`{label}` cannot be the label of a wheel variant: {reason}")]
    Label {
        /// As given.
        label: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A wheel of the output cannot be made, moved or read.
    #[error("could not {attempt} `{}`", path.display())]
    Place {
        /// What was attempted, `write` or `move to`.
        attempt: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The wheels that were written do not hold what was there before. Nothing of them is kept.
    #[error("the parts of `{}` are not what it was: {}", path.display(), listed(differences))]
    NotSplit {
        /// The wheel.
        path: PathBuf,
        /// What is different.
        differences: Vec<Difference>,
    },
    /// None of the wanted targets is in the input.
    #[error("there is no GPU code for {wanted}: the input has code for {found}")]
    NothingSelected {
        /// The wanted targets.
        wanted: String,
        /// The targets in the input.
        found: String,
    },
}

fn because(reason: Option<Reason>) -> String {
    reason.map_or_else(String::new, |reason| format!(": {reason}"))
}

fn because_all(reasons: &[(String, Reason)]) -> String {
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

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Artifact(error) => error.exit(),
            Self::Wheel(error) => error.exit(),
            // The writer contradicts itself: that is not the user's fault.
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
