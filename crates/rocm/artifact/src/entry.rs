//! A file, directory or link of an artifact.

/// A file, directory or symbolic link of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactEntry {
    /// Index into [`Artifact::basedirs`].
    pub basedir: usize,
    /// Path relative to the basedir, separated by `/`; it is the path in the flattened tree too.
    pub path: String,
    pub kind: EntryKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    File {
        /// Size in bytes.
        size: u64,
        /// `true` if an execute bit is set for the user, the group or others.
        executable: bool,
    },
    /// A directory. Its contents are separate entries.
    Directory,
    /// A symbolic link, not followed.
    Symlink { target: String },
}
