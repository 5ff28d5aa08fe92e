//! Input: artifact directories. Output: `.tar.zst` and `.tar.xz` archives with sidecars, and the
//! way back.

mod encoder;
mod read;
mod sidecar;
mod tarball;
mod unpack;
mod write;

pub use sidecar::{digest, sidecar_path, verify_digest};
pub use unpack::unpack;
pub use write::{ArchivePlan, PlannedArchive, WriteOptions, Written, plan, write};

pub(crate) use read::for_each_member;
pub(crate) use sidecar::read_sidecar;
pub(crate) use unpack::provide;

/// How an archive is compressed, which is also how its name ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// `.tar.zst`
    Zstd,
    /// `.tar.xz`
    Xz,
}

impl Compression {
    /// The end of the archive's name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Zstd => ".tar.zst",
            Self::Xz => ".tar.xz",
        }
    }

    /// The level used when none is given: what `TheRock` uses.
    pub const fn default_level(self) -> u32 {
        match self {
            Self::Zstd => 3,
            Self::Xz => 6,
        }
    }

    /// The levels there are.
    pub const fn levels(self) -> std::ops::RangeInclusive<u32> {
        match self {
            Self::Zstd => 1..=22,
            Self::Xz => 0..=9,
        }
    }

    /// Splits an archive's file name into what comes before the suffix and the compression.
    pub fn split(file_name: &str) -> Option<(&str, Self)> {
        [Self::Zstd, Self::Xz]
            .into_iter()
            .find_map(|compression| Some((file_name.strip_suffix(compression.suffix())?, compression)))
    }

    /// The compression of a file, by its name.
    ///
    /// # Errors
    /// [`Error::UnknownArchive`](crate::Error::UnknownArchive) for any other ending.
    pub fn of(path: &std::path::Path) -> Result<Self, crate::Error> {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let split = Self::split(&file_name);
        split.map(|(_, compression)| compression).ok_or_else(|| crate::Error::UnknownArchive { path: path.to_owned() })
    }
}
