//! Everything that can go wrong with artifacts, and hints how to fix it.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_output::storage_hint;
use rocwheel_progress::{Exit, Hint, is_full};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("could not read `{path}`")]
    Walk {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// The disk is full. It has no source, which would name a temporary file that is removed by
    /// now.
    #[error("no space is left on the disk of `{output}`")]
    DiskFull { output: PathBuf },

    /// A directory or archive that was meant as an artifact has a name that does not parse.
    #[error("`{path}` is not named like an artifact: `{name}` does not have exactly three fields separated by `_`")]
    MalformedName { name: String, path: PathBuf },
    #[error("`{path}` is named like an artifact, but is a link that cannot be followed")]
    DanglingArtifact { path: PathBuf, source: io::Error },
    #[error("artifact `{artifact}` at `{path}` has no artifact_manifest.txt")]
    MissingManifest { artifact: String, path: PathBuf },
    /// A line of `artifact_manifest.txt` that cannot be a basedir.
    #[error("artifact_manifest.txt of `{path}` lists `{line}`, which is not a plain relative path")]
    UnsafeBasedir { path: PathBuf, line: String },
    /// Two lines of `artifact_manifest.txt` claim the same files.
    #[error("artifact_manifest.txt of `{path}` lists `{inner}` inside `{outer}`, so its files have two places")]
    NestedBasedirs { path: PathBuf, outer: String, inner: String },
    #[error(
        "artifact `{artifact}` at `{path}` has files that artifact_manifest.txt does not cover: {count}, first `{first}`"
    )]
    OutsideBasedirs { artifact: String, path: PathBuf, count: usize, first: String },
    /// A file that is neither a regular file, a directory nor a symbolic link.
    #[error("`{path}` is a {what}; artifacts hold files, directories and symbolic links")]
    UnsupportedFile {
        path: PathBuf,
        /// The type of the file: a device, a socket, …
        what: &'static str,
    },
    /// A file name that is not UTF-8, which no wheel can hold.
    #[error("the file name `{path}` is not UTF-8")]
    NotUnicode {
        /// The name, with replacement characters.
        path: PathBuf,
    },
    /// A symbolic link that leaves the tree its basedir makes.
    #[error("the link `{link}` in `{path}` points to `{target}`, out of the tree")]
    LinkLeavesTree {
        path: PathBuf,
        /// The link, relative to the artifact.
        link: String,
        target: String,
    },
    /// The same artifact exists twice.
    #[error("artifact `{artifact}` is given twice: `{first}` and `{second}`")]
    DuplicateArtifact { artifact: String, first: PathBuf, second: PathBuf },
    #[error("`{path}` is provided twice, by {first} and by {second}")]
    Conflict {
        path: String,
        /// Artifact and basedir, in backticks.
        first: String,
        /// Artifact and basedir, in backticks.
        second: String,
    },

    #[error("could not read the archive `{path}`")]
    DamagedArchive {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// An archive has a member that must not be unpacked.
    #[error("refused to unpack `{member}` of the archive `{path}`: {reason}")]
    UnsafeMember { path: PathBuf, member: String, reason: String },
    /// An archive has a sparse file in the PAX format (`GNU.sparse.*`).
    #[error("`{member}` of the archive `{path}` is a sparse file in the PAX format, which is not supported")]
    SparseMember { path: PathBuf, member: String },
    /// An archive was replaced or written to between its digest and its last byte.
    #[error("the archive `{path}` changed while it was read")]
    ArchiveChanged { path: PathBuf },
    /// A file of an earlier version was written to while the new one was compared with it.
    #[error("`{path}` changed while it was compared")]
    OlderChanged { path: PathBuf },
    /// The first member of an archive is not the manifest.
    #[error("the archive `{path}` does not begin with artifact_manifest.txt but with `{member}`")]
    ManifestNotFirst { path: PathBuf, member: String },
    /// An archive whose name ends in neither `.tar.zst` nor `.tar.xz`.
    #[error("`{path}` is not an artifact archive: its name ends in neither .tar.zst nor .tar.xz")]
    UnknownArchive { path: PathBuf },
    #[error("`{path}` has the SHA-256 digest `{actual}`, but its sidecar says `{expected}`")]
    DigestMismatch { path: PathBuf, expected: String, actual: String },
    /// A sidecar that does not begin with a digest.
    #[error("the sidecar `{path}` does not begin with a SHA-256 digest")]
    MalformedSidecar { path: PathBuf },
    /// A compression level that the format does not have.
    #[error("there is no compression level {level}: levels go from {least} to {most}")]
    UnknownLevel { level: u32, least: u32, most: u32 },
    #[error("could not write the archive `{path}`")]
    WriteArchive {
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    /// The output holds files that this program did not write.
    #[error("the output `{path}` is not empty and was not made by this command")]
    OutputNotOurs { path: PathBuf },
    /// An output that would change or remove an input.
    #[error("the output `{output}` and the input `{input}` are inside one another")]
    OutputOverlapsInput { output: PathBuf, input: PathBuf },
    /// The input is neither an artifact directory nor an archive.
    #[error("`{path}` is neither an artifact directory nor an artifact archive")]
    NotAnArtifact { path: PathBuf },
    #[error("the output `{path}` is a link to `{target}`, which does not exist")]
    DanglingOutput { path: PathBuf, target: PathBuf },
    #[error("there is no `{path}`")]
    NotThere { path: PathBuf },
    #[error("`{path}` is not a directory")]
    NoDirectory { path: PathBuf },
    /// An artifact was given instead of a directory of artifacts.
    #[error("`{path}` is an artifact, not a directory that holds artifacts")]
    IsAnArtifact { path: PathBuf },
    /// The directory of artifacts holds none.
    #[error("there is no artifact in `{path}`")]
    NoArtifacts { path: PathBuf },

    #[error("there is no therock_manifest.json: artifact `base_lib_generic` does not hold `{path}`")]
    ManifestNotFound {
        /// The expected path below the directory of artifacts.
        path: PathBuf,
    },
    #[error("could not understand `{path}`")]
    MalformedJson {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    /// An error in the name of a GPU target, or in a table.
    #[error(transparent)]
    Rocm(#[from] rocwheel_progress::Failure),
}

impl Error {
    /// Turns an I/O error that means a full disk into [`Error::DiskFull`]; other errors stay
    /// unchanged.
    pub(crate) fn or_full_disk(self, output: &Path) -> Self {
        match self {
            Self::Io(source) if is_full(&source) => Self::DiskFull { output: output.to_owned() },
            other => other,
        }
    }
}

pub(crate) fn with_source(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::DiskFull { .. } => "make room on that disk, or choose another output",
            Self::DanglingOutput { .. } => "make that directory, or choose another output",
            Self::NotThere { .. } | Self::NoDirectory { .. } => {
                "give the directory that holds the artifacts; `rocwheel artifact import` makes one of packages"
            }
            Self::IsAnArtifact { path } => {
                return Some(format!("give the directory above: `{}`", above(path).display()));
            }
            Self::Io(source) | Self::WriteArchive { source, .. } | Self::Walk { source, .. } => {
                return storage_hint(source);
            }
            Self::MalformedName { .. } => {
                "rename it to {name}_{component}_{target}, for example `core-hip_lib_generic`; fields cannot hold `_`"
            }
            Self::DanglingArtifact { .. } => "fetch what the link leads to, or remove the link",
            Self::MissingManifest { .. } => {
                "write one basedir per line into it, for example `stage`, or move the directory away if it is no artifact"
            }
            Self::OutsideBasedirs { .. } => "add their basedir to artifact_manifest.txt, or remove the files",
            Self::UnsafeBasedir { .. } | Self::NestedBasedirs { .. } => {
                "correct artifact_manifest.txt: one relative directory per line, none inside another"
            }
            Self::DuplicateArtifact { .. } => "keep one of the two and move the other away",
            Self::Conflict { .. } => "omit one of the two artifacts, or remove the file from one of them",
            Self::DamagedArchive { .. } | Self::DigestMismatch { .. } => {
                "fetch the archive again; it is incomplete or was changed after its digest was taken"
            }
            Self::SparseMember { .. } => rocwheel_content::PACK_WITHOUT_SPARSE,
            Self::ArchiveChanged { .. } | Self::OlderChanged { .. } => {
                "run the command again when nothing writes there"
            }
            Self::ManifestNotFirst { .. } => "write the archive with `rocwheel artifact archive`",
            Self::MalformedSidecar { .. } => "remove the sidecar, or write it again with `sha256sum`",
            Self::OutputNotOurs { .. } => "choose an empty directory, or remove this one",
            Self::OutputOverlapsInput { .. } => "choose an output beside the artifacts",
            Self::ManifestNotFound { .. } => {
                "fetch the artifact `base_lib_generic`, which every ROCm build makes, or use `rocwheel artifact import`"
            }
            Self::LinkLeavesTree { .. } => "make the link relative to a file of the same artifact, or remove it",
            Self::NoArtifacts { .. } => {
                "an artifact is called {name}_{component}_{target} and holds artifact_manifest.txt"
            }
            Self::Rocm(failure) => return failure.hint().map(str::to_owned),
            _ => return None,
        };
        Some(text.to_owned())
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Rocm(failure) => failure.exit(),
            Self::UnknownArchive { .. } | Self::UnknownLevel { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}

/// Returns the directory that holds `path`, as a user would type it.
fn above(path: &Path) -> PathBuf {
    match (path.file_name(), path.parent()) {
        (None, _) => path.join(".."),
        (Some(_), Some(parent)) if !parent.as_os_str().is_empty() => parent.to_owned(),
        (Some(_), _) => PathBuf::from("."),
    }
}
