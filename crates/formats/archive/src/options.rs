//! The settings for writing an archive.

use crate::level::Level;
use crate::reuse::PackedSource;

#[derive(Debug, Clone)]
pub struct WriteOptions {
    pub level: Level,
    /// Time stamp of every member in seconds since 1970 (`SOURCE_DATE_EPOCH`). Wheels clamp it to
    /// 1980–2107, the range that ZIP can represent.
    pub epoch: u64,
    pub digest: FileDigest,
    /// Wheels whose packed bytes are used instead of compressing the same content again. The
    /// result has the same bytes with and without them.
    pub reuse: PackedSource,
}

/// Decides if the SHA-256 of a finished file is computed. If almost all bytes are copied, the hash
/// costs more than the rest: processors without SHA instructions hash a tenth of what they copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileDigest {
    /// Compute it while the bytes are written.
    #[default]
    Sha256,
    /// Do not compute it; [`Written::sha256`] is `None`.
    Skip,
}

/// 1980-01-01, the first time that a ZIP file can hold; used if the user sets no epoch.
pub const DEFAULT_EPOCH: u64 = 315_532_800;

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions {
            level: Level::Default,
            epoch: DEFAULT_EPOCH,
            digest: FileDigest::Sha256,
            reuse: PackedSource::default(),
        }
    }
}
