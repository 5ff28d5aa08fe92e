//! Everything that can go wrong while planning and writing packages.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Hint, few_in_backticks, in_backticks};
use rocwheel_wheel::Platform;

use crate::request::Shape;
use crate::search_path::AbsentLibrary;
use crate::stub;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The table of distributions cannot be read.
    #[error("cannot read the table of distributions")]
    Rules {
        /// The parser's error.
        source: Box<toml::de::Error>,
    },
    /// The artifacts cannot be read.
    #[error(transparent)]
    Artifact(#[from] rocwheel_artifact::Error),
    /// An error in the name of a GPU target or family.
    #[error(transparent)]
    Rocm(#[from] rocwheel_tables::Error),
    /// A wheel or the selector cannot be written.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// A finished package cannot be moved to its destination.
    #[error(transparent)]
    Output(#[from] rocwheel_output::Error),
    /// An ELF file cannot be read or edited.
    #[error("cannot read the headers of `{path}`")]
    Elf {
        /// Path of the file.
        path: PathBuf,
        /// The error of the ELF reader or editor.
        source: rocwheel_elf::Error,
    },
    /// A link to a program that cannot be replaced by an exec stub.
    #[error("cannot make an exec stub")]
    Stub {
        /// The reason.
        source: stub::Error,
    },
    /// A file operation failed; the source names the path.
    #[error("cannot {attempt}")]
    Io {
        /// The operation, as a verb phrase for the message.
        attempt: String,
        /// The operating system's error, with the path.
        source: std::io::Error,
    },
    /// Artifacts for one system hold programs or libraries that only the other can run.
    #[error("the artifacts for {system} in `{artifacts}` hold {} for {}: {}", files(paths.len()), system.other(), first(paths))]
    Foreign {
        /// The system that the artifacts are for.
        system: Platform,
        /// The folder of the artifacts.
        artifacts: PathBuf,
        /// The files, relative to that folder.
        paths: Vec<String>,
    },
    /// A path that cannot be installed on Windows.
    #[error("`{path}` cannot be packaged for Windows: {reason}")]
    WindowsPath {
        /// Path in the package.
        path: String,
        /// The reason, for the message.
        reason: String,
    },
    /// A platform tag of the other system.
    #[error("`{tag}` is not a platform tag for {system}, which these artifacts are for")]
    PlatformTag {
        /// The tag as given.
        tag: String,
        /// The system that the artifacts are for.
        system: Platform,
    },
    /// The artifacts for Linux and for Windows have different versions.
    #[error("the artifacts for Linux are of version {linux}, those for Windows of version {windows}")]
    Versions {
        /// Version in the manifest of the artifacts for Linux.
        linux: String,
        /// Version in the manifest of the artifacts for Windows.
        windows: String,
    },
    /// The artifacts for Linux and for Windows have different shapes.
    #[error("the artifacts for Linux are made for the shape `{linux}`, those for Windows for `{windows}`")]
    Shapes {
        /// Shape of the artifacts for Linux.
        linux: Shape,
        /// Shape of the artifacts for Windows.
        windows: Shape,
    },
    /// Two artifacts provide different contents at one path (defect C1 of the scripts).
    #[error("`{path}` is in `{first}` and in `{second}`, with different contents")]
    Conflict {
        /// Path in the flattened tree.
        path: String,
        /// Name of one artifact.
        first: String,
        /// Name of the other.
        second: String,
    },
    /// A version that does not conform to PEP 440.
    #[error("`{value}` is not a version that pip accepts (PEP 440)")]
    Version {
        /// The version as given.
        value: String,
    },
    /// A version that is not in its canonical form (PEP 440).
    #[error("`{value}` is not how installers write this version (PEP 440)")]
    VersionForm {
        /// The version as given.
        value: String,
        /// The canonical form.
        canonical: String,
    },
    /// A version suffix that cannot be part of the name of an import package.
    #[error("`{value}` cannot be part of the name of an import package")]
    Suffix {
        /// The suffix as given.
        value: String,
    },
    /// The manifest has no version, and the request neither.
    #[error("the manifest of `{artifacts}` does not name a version")]
    NoManifestVersion {
        /// The folder of the artifacts.
        artifacts: PathBuf,
    },
    /// The manifest has a version that does not conform to PEP 440.
    #[error("the manifest of `{artifacts}` names version `{value}`, which pip does not accept (PEP 440)")]
    ManifestVersion {
        /// The version in the manifest.
        value: String,
        /// The folder of the artifacts.
        artifacts: PathBuf,
    },
    /// A file with a name that wheels cannot hold.
    #[error("`{path}` cannot be packaged under its name")]
    Name {
        /// Path of the artifact's file.
        path: PathBuf,
        /// The defect of the name.
        source: rocwheel_wheel::Error,
    },
    /// Two packages whose names are the same to installers (PEP 503).
    #[error("`{}` and `{}` are one name to installers; the artifacts are {}", names[0], names[1], in_backticks(artifacts))]
    SameName {
        /// The names of the two distributions.
        names: [String; 2],
        /// The artifacts that the two packages are made from.
        artifacts: Vec<String>,
    },
    /// Requested targets for which no artifact holds code.
    #[error("no artifact holds code for {}", targets.join(", "))]
    MissingTargets {
        /// The base targets that were requested and are missing.
        targets: Vec<String>,
        /// The base targets that the artifacts hold.
        present: Vec<String>,
    },
    /// The set would not load, because libraries are missing.
    #[error("the set is incomplete:{}", problems.iter().map(|problem| format!("\n  {problem}")).collect::<String>())]
    Incomplete {
        /// One line for each missing library, with the files that need it.
        problems: Vec<String>,
        /// The missing libraries, with all files that need them.
        missing: Vec<AbsentLibrary>,
        /// Solutions besides adding the missing artifact, for the hint.
        ways: Ways,
    },
    /// The artifacts for a target hold no file for its device package.
    #[error(
        "nothing is in the artifacts for {target} that belongs into its device package: {}",
        in_backticks(artifacts)
    )]
    EmptyTarget {
        /// The base target.
        target: String,
        /// Names of the artifacts for this target.
        artifacts: Vec<String>,
    },
    /// With `--strict`: files or artifacts that no rule claims.
    #[error("{} that no rule claims:{}", count(unclaimed.len()), unclaimed.iter().map(|line| format!("\n  {line}")).collect::<String>())]
    Unclaimed {
        /// One line for each artifact or file.
        unclaimed: Vec<String>,
    },
    /// A shape that is impossible for these artifacts.
    #[error("shape `{shape}` does not fit these artifacts: {reason}")]
    Shape {
        /// The requested shape.
        shape: String,
        /// The reason, for the message.
        reason: String,
    },
    /// Device code in `.kpack` archives, for a runtime that cannot read them (pitfalls 8).
    #[error("`{path}` expects its device code in .kpack archives, but the HIP runtime of this set cannot read them")]
    KpackUnsupported {
        /// Path of the library.
        path: PathBuf,
    },
    /// Templates that cannot be used.
    #[error("the templates in `{path}` cannot be used: {reason}")]
    Templates {
        /// The folder of the templates.
        path: PathBuf,
        /// The reason, for the message.
        reason: String,
    },
    /// The artifacts hold nothing to package.
    #[error("`{path}` holds no artifact for {wanted}")]
    Nothing {
        /// The folder of the artifacts.
        path: PathBuf,
        /// The request, in words for the message.
        wanted: String,
    },
    /// The output folder is not empty and was not created by this program.
    #[error("`{path}` is not empty and was not made by `rocwheel package`")]
    ForeignOutput {
        /// The output folder.
        path: PathBuf,
    },
    /// The output folder has packages of another version, which would be removed.
    #[error("`{path}` has packages of version {there}, which those of version {version} would replace")]
    OtherVersion {
        /// The output folder.
        path: PathBuf,
        /// The version of the existing packages.
        there: String,
        /// The version of the planned packages.
        version: String,
    },
    /// Another run is writing to the output folder.
    #[error("another run is writing to `{path}`")]
    Locked {
        /// The output folder.
        path: PathBuf,
    },
    /// The disk is full. It has no source, which would name a temporary file that is removed by
    /// now.
    #[error("no space is left on the disk of `{output}`")]
    DiskFull {
        /// The output folder.
        output: PathBuf,
    },
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
}

/// Solutions for a missing library besides adding the artifact that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ways {
    /// `true` if the artifacts were imported: the import can be told to allow the library to be
    /// missing.
    pub import: bool,
    /// `true` if the package that needs the library can be skipped.
    pub drop: bool,
}

impl Ways {
    fn hint(self) -> String {
        let mut ways = vec!["add the artifact or package that holds it"];
        if self.import {
            ways.push("import again with --allow-unresolved LIB");
        } else {
            ways.push("accept it with `rocwheel package --allow-unresolved LIB`");
        }
        if self.drop {
            ways.push("ship the complete packages with `rocwheel package --drop-incomplete`");
        }
        let last = ways.pop().unwrap_or_default();
        format!("{}, or {last}", ways.join(", "))
    }
}

fn files(number: usize) -> String {
    if number == 1 { "a file".into() } else { format!("{number} files") }
}

/// Lists the first names, and the number of the others.
pub(crate) fn first(names: &[String]) -> String {
    few_in_backticks(names, 3)
}

fn count(number: usize) -> String {
    if number == 1 { "1 thing".into() } else { format!("{number} things") }
}

impl Error {
    /// Turns an I/O error that means a full disk into [`Error::DiskFull`]; other errors stay
    /// unchanged.
    pub(crate) fn or_full_disk(self, output: &Path) -> Error {
        let is_full = match &self {
            Error::Io { source, .. }
            | Error::Wheel(
                rocwheel_wheel::Error::Write { source, .. } | rocwheel_wheel::Error::Create { source, .. },
            ) => {
                matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
            }
            _ => false,
        };
        if is_full { Error::DiskFull { output: output.to_owned() } } else { self }
    }

    /// Wraps an I/O error with the operation that failed, to be used as
    /// `.map_err(Error::io("write the state"))`.
    pub(crate) fn io(attempt: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let attempt = attempt.into();
        move |source| Error::Io { attempt, source }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Error::Artifact(error) => error.hint(),
            Error::Rocm(error) => error.hint(),
            Error::Wheel(error) => error.hint(),
            Error::Elf { source, .. } => source.hint(),
            Error::Stub { source } => source.hint(),
            Error::Output(error) => error.hint(),
            Error::Conflict { .. } => {
                Some("remove one of the two artifacts, or build both from the same sources".into())
            }
            Error::Foreign { system, .. } => Some(format!(
                "keep the two apart: `--artifacts DIR` for Linux, `--windows-artifacts DIR` for Windows. Remove what came \
                 from a build for {}",
                system.other()
            )),
            Error::PlatformTag { .. } => Some("remove --platform-tag: rocwheel finds the right one".into()),
            Error::Shapes { .. } => Some("split those that are not split, or name one shape for both with --shape".into()),
            Error::Versions { .. } => Some("take both from one build, or say with --version what the packages are".into()),
            Error::Version { .. } | Error::NoManifestVersion { .. } => {
                Some("give one such as `7.1.0` or `7.1.0a20261121` with --version".into())
            }
            Error::Name { .. } | Error::WindowsPath { .. } => Some("rename the file in the artifact, or remove it".into()),
            Error::ManifestVersion { .. } => Some(
                "set the packages' version with --version, or correct `rocm_package_version` in therock_manifest.json"
                    .into(),
            ),
            Error::SameName { .. } => Some("package them in two runs with different --targets".into()),
            Error::MissingTargets { present, .. } if present.is_empty() => {
                Some("no artifact is for a target: fetch the missing ones, or ask for no target".into())
            }
            Error::MissingTargets { present, .. } => {
                Some(format!("fetch the missing artifacts, or ask only for existing targets: {}", present.join(",")))
            }
            Error::EmptyTarget { target, .. } => {
                Some(format!("fetch these artifacts again, remove them, or ask for the targets without {target}"))
            }
            Error::VersionForm { canonical, .. } => Some(format!("give it as `--version {canonical}`")),
            Error::Suffix { .. } => Some("use letters, digits and `_`".into()),
            Error::Incomplete { ways, .. } => Some(ways.hint()),
            Error::Unclaimed { .. } => Some("remove --strict to package the rest".into()),
            Error::Shape { .. } => Some("remove --shape to use the one that the artifacts are made for".into()),
            Error::KpackUnsupported { .. } => Some(
                "package the libraries with their code inside (--shape fat from unsplit artifacts), or --force".into(),
            ),
            Error::Templates { .. } => Some(
                "give the folder `build_tools/packaging/python/templates` of a TheRock checkout of this ROCm's time, or \
                 leave --python-templates out"
                    .into(),
            ),
            Error::ForeignOutput { .. } => Some("name another folder with --output".into()),
            Error::OtherVersion { .. } => Some("name another folder with --output, or replace them with --replace".into()),
            Error::DiskFull { .. } => Some("make room on that disk, or choose another output".into()),
            Error::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                Some("check the permissions of the path and of its directory".into())
            }
            Error::Locked { .. } => Some("wait for it, or name another folder with --output".into()),
            _ => None,
        }
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Error::Foreign { paths, .. } => paths.clone(),
            Error::Incomplete { missing, .. } => missing.iter().map(AbsentLibrary::whole).collect(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Artifact(error) => error.exit(),
            Error::Rocm(error) => error.exit(),
            Error::Wheel(error) => error.exit(),
            Error::Interrupted(_) => Exit::Interrupted,
            Error::Locked { .. } => Exit::TryAgain,
            Error::Version { .. }
            | Error::VersionForm { .. }
            | Error::Suffix { .. }
            | Error::Shape { .. }
            | Error::PlatformTag { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
