//! Input: artifact directories. Output: `.tar.zst` and `.tar.xz` archives with sidecars, and the way back.

/// How an archive is compressed, which is also how its name ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

    /// Splits an archive's file name into what comes before the suffix and the compression.
    pub fn split(file_name: &str) -> Option<(&str, Self)> {
        [Self::Zstd, Self::Xz].into_iter().find_map(|compression| {
            Some((file_name.strip_suffix(compression.suffix())?, compression))
        })
    }
}
