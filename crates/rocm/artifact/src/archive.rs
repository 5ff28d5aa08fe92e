//! Input: artifact directories. Output: `.tar.zst` and `.tar.xz` archives with sidecars. Also
//! unpacks such archives into artifact directories.

mod encoder;
mod file_state;
mod plan;
mod previous_tree;
mod read;
mod record;
mod sidecar;
mod tarball;
mod unpack;
mod write;

pub use plan::{ArchiveOptions, ArchivePlan, ArchiveState, PackedArtifact, PlannedArchive, plan};
pub use sidecar::{digest, parse_sidecar, sidecar_line, sidecar_path, verify_digest};
pub use unpack::{Scratch, unpack, unpack_over, unpack_stream};
pub use write::{update, write};

pub(crate) use read::for_each_member;
pub(crate) use sidecar::read_sidecar;
pub(crate) use unpack::provide;

/// The compression of an archive, which determines the suffix of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// `.tar.zst`
    Zstd,
    /// `.tar.xz`
    Xz,
}

impl Compression {
    /// With the leading dot.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Zstd => ".tar.zst",
            Self::Xz => ".tar.xz",
        }
    }

    /// The same as `TheRock`'s.
    pub const fn default_level(self) -> u32 {
        match self {
            Self::Zstd => 3,
            Self::Xz => 6,
        }
    }

    pub const fn levels(self) -> std::ops::RangeInclusive<u32> {
        match self {
            Self::Zstd => 1..=22,
            Self::Xz => 0..=9,
        }
    }

    /// Splits the file name of an archive into the part before the suffix and the compression.
    pub fn split(file_name: &str) -> Option<(&str, Self)> {
        [Self::Zstd, Self::Xz]
            .into_iter()
            .find_map(|compression| Some((file_name.strip_suffix(compression.suffix())?, compression)))
    }

    pub fn of(path: &std::path::Path) -> Result<Self, crate::Error> {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let split = Self::split(&file_name);
        split.map(|(_, compression)| compression).ok_or_else(|| crate::unknown_archive(path).into())
    }
}
