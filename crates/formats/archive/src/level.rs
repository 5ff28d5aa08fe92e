//! How well archives are compressed.

/// Compression level. Every level but `None` uses deflate, the only method that every installer can
/// read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Members are stored uncompressed.
    None,
    /// A quick level for experiments.
    Fast,
    /// No larger than with Python's zlib at its level 6, and as fast as that allows.
    #[default]
    Default,
    /// A few thousandths smaller than `Default`, for a tenth more time. Use it if no single file
    /// may be larger than zlib makes it. The bytes of a file after its first 128 MiB are packed as
    /// with `Default`, which is enough for that.
    Small,
    /// For releases: the smallest result, however long it takes.
    Best,
}
