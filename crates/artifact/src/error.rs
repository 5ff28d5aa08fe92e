//! What can go wrong with artifacts, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_report::{Exit, Hint};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the message of the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A directory tree could not be walked.
    #[error("could not read `{path}`")]
    Walk {
        /// Where it failed.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_report::Interrupted),
    /// The disk is full. No source: it would name a temporary file that is gone by now.
    #[error("no space is left on the disk of `{output}`")]
    DiskFull {
        /// The output, or the directory that archives are unpacked in.
        output: PathBuf,
    },

    /// A directory or archive that was meant as an artifact has a name that does not parse.
    #[error("`{path}` is not named like an artifact: `{name}` does not have exactly three fields separated by `_`")]
    MalformedName {
        /// The name without archive suffixes.
        name: String,
        /// Where it lies.
        path: PathBuf,
    },
    /// A symbolic link that is named like an artifact and leads nowhere, or in a circle.
    #[error("`{path}` is named like an artifact, but is a link that cannot be followed")]
    DanglingArtifact {
        /// The link.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// An artifact directory or archive without `artifact_manifest.txt`.
    #[error("artifact `{artifact}` at `{path}` has no artifact_manifest.txt")]
    MissingManifest {
        /// The artifact.
        artifact: String,
        /// The directory or archive.
        path: PathBuf,
    },
    /// A line of `artifact_manifest.txt` that cannot be a basedir.
    #[error("artifact_manifest.txt of `{path}` lists `{line}`, which is not a plain relative path")]
    UnsafeBasedir {
        /// The directory or archive.
        path: PathBuf,
        /// The offending line.
        line: String,
    },
    /// Two lines of `artifact_manifest.txt` claim the same files.
    #[error("artifact_manifest.txt of `{path}` lists `{inner}` inside `{outer}`, so its files have two places")]
    NestedBasedirs {
        /// The directory or archive.
        path: PathBuf,
        /// The enclosing basedir.
        outer: String,
        /// The enclosed basedir.
        inner: String,
    },
    /// Files that no basedir of the manifest covers.
    #[error(
        "artifact `{artifact}` at `{path}` has files that artifact_manifest.txt does not cover: {count}, first `{first}`"
    )]
    OutsideBasedirs {
        /// The artifact.
        artifact: String,
        /// The directory or archive.
        path: PathBuf,
        /// How many there are.
        count: usize,
        /// The first of them, sorted.
        first: String,
    },
    /// Something that is neither file, directory nor symbolic link.
    #[error("`{path}` is a {what}; artifacts hold files, directories and symbolic links")]
    UnsupportedFile {
        /// Where it lies.
        path: PathBuf,
        /// A device, a socket, …
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
        /// The artifact's directory or archive.
        path: PathBuf,
        /// The link, relative to the artifact.
        link: String,
        /// Its text.
        target: String,
    },
    /// The same artifact exists twice.
    #[error("artifact `{artifact}` is given twice: `{first}` and `{second}`")]
    DuplicateArtifact {
        /// The artifact.
        artifact: String,
        /// One place.
        first: PathBuf,
        /// The other place.
        second: PathBuf,
    },
    /// One path would come from two places.
    #[error("`{path}` is provided twice, by {first} and by {second}")]
    Conflict {
        /// The path in the flattened tree.
        path: String,
        /// Artifact and basedir, in backticks.
        first: String,
        /// Artifact and basedir, in backticks.
        second: String,
    },

    /// An archive cannot be read to its end.
    #[error("could not read the archive `{path}`")]
    DamagedArchive {
        /// The archive.
        path: PathBuf,
        /// What the decompressor or the tar reader said.
        #[source]
        source: io::Error,
    },
    /// An archive holds something that must not be unpacked.
    #[error("refused to unpack `{member}` of the archive `{path}`: {reason}")]
    UnsafeMember {
        /// The archive.
        path: PathBuf,
        /// The member's name.
        member: String,
        /// Why.
        reason: String,
    },
    /// The first member of an archive is not the manifest.
    #[error("the archive `{path}` does not begin with artifact_manifest.txt but with `{member}`")]
    ManifestNotFirst {
        /// The archive.
        path: PathBuf,
        /// The first member.
        member: String,
    },
    /// An archive whose name ends in neither `.tar.zst` nor `.tar.xz`.
    #[error("`{path}` is not an artifact archive: its name ends in neither .tar.zst nor .tar.xz")]
    UnknownArchive {
        /// The file.
        path: PathBuf,
    },
    /// The sidecar names another digest than the archive has.
    #[error("`{path}` has the SHA-256 digest `{actual}`, but its sidecar says `{expected}`")]
    DigestMismatch {
        /// The archive.
        path: PathBuf,
        /// Hexadecimal, from the sidecar.
        expected: String,
        /// Hexadecimal, of the file.
        actual: String,
    },
    /// A sidecar without a digest in it.
    #[error("the sidecar `{path}` does not begin with a SHA-256 digest")]
    MalformedSidecar {
        /// The sidecar.
        path: PathBuf,
    },
    /// A compression level that the format does not have.
    #[error("there is no compression level {level}: levels go from {least} to {most}")]
    UnknownLevel {
        /// What was asked for.
        level: u32,
        /// The lowest.
        least: u32,
        /// The highest.
        most: u32,
    },
    /// Writing an archive failed.
    #[error("could not write the archive `{path}`")]
    WriteArchive {
        /// The archive.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },

    /// The output holds something this program did not write.
    #[error("the output `{path}` is not empty and was not made by this command")]
    OutputNotOurs {
        /// The directory.
        path: PathBuf,
    },
    /// An output that would change or remove an input.
    #[error("the output `{output}` and the input `{input}` are inside one another")]
    OutputOverlapsInput {
        /// The output.
        output: PathBuf,
        /// The input.
        input: PathBuf,
    },
    /// The input is neither an artifact directory nor an archive.
    #[error("`{path}` is neither an artifact directory nor an artifact archive")]
    NotAnArtifact {
        /// The path.
        path: PathBuf,
    },
    /// The output is a link to nothing.
    #[error("the output `{path}` is a link to `{target}`, which does not exist")]
    DanglingOutput {
        /// The link.
        path: PathBuf,
        /// Its text.
        target: PathBuf,
    },
    /// The artifacts are not there.
    #[error("there is no `{path}`")]
    NotThere {
        /// Where they were looked for.
        path: PathBuf,
    },
    /// The directory of artifacts is a file.
    #[error("`{path}` is not a directory")]
    NoDirectory {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// One artifact where a directory of them is wanted.
    #[error("`{path}` is an artifact, not a directory that holds artifacts")]
    IsAnArtifact {
        /// The artifact.
        path: PathBuf,
    },
    /// The directory of artifacts holds none.
    #[error("there is no artifact in `{path}`")]
    NoArtifacts {
        /// The directory.
        path: PathBuf,
    },

    /// `therock_manifest.json` is not where it has to be.
    #[error("there is no therock_manifest.json: artifact `base_lib_generic` does not hold `{path}`")]
    ManifestNotFound {
        /// The fixed path below the directory of artifacts.
        path: PathBuf,
    },
    /// A JSON file that does not parse or misses a field.
    #[error("could not understand `{path}`")]
    MalformedJson {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The name of a GPU target, or a table.
    #[error(transparent)]
    Rocm(#[from] rocwheel_rocm::Error),
}

impl Error {
    /// The same, or [`Error::DiskFull`] when a file of the output could not be written for lack of
    /// space.
    pub(crate) fn or_full_disk(self, output: &Path) -> Self {
        match self {
            Self::Io(source) if is_full(&source) => Self::DiskFull { output: output.to_owned() },
            other => other,
        }
    }
}

/// The message with its cause, for a report of one line.
pub(crate) fn with_source(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Whether writing failed for lack of space.
pub(crate) fn is_full(source: &io::Error) -> bool {
    matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
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
            Self::Rocm(error) => return error.hint(),
            _ => return None,
        };
        Some(text.to_owned())
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Rocm(error) => error.exit(),
            Self::UnknownArchive { .. } | Self::UnknownLevel { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}

/// The directory that holds `path`, as one would type it.
fn above(path: &Path) -> PathBuf {
    match (path.file_name(), path.parent()) {
        (None, _) => path.join(".."),
        (Some(_), Some(parent)) if !parent.as_os_str().is_empty() => parent.to_owned(),
        (Some(_), _) => PathBuf::from("."),
    }
}

pub(crate) fn storage_hint(source: &io::Error) -> Option<String> {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("make room on the disk and run it again".into())
        }
        io::ErrorKind::PermissionDenied => Some("check the permissions of the path and of its directory".into()),
        // Linux answers ENAMETOOLONG from 4096 bytes on.
        io::ErrorKind::InvalidFilename => {
            Some(
                "a file name has more than 255 bytes, or the path is longer than the system allows: rename the file, or work in \
                 a directory with a shorter path"
                    .into(),
            )
        }
        _ => None,
    }
}
