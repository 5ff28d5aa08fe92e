//! What a mirror is for.

use std::path::PathBuf;
use std::sync::Arc;

use rocwheel_index::{Http, text_without_users};

#[derive(Clone)]
pub struct MirrorRequest {
    pub uv: PathBuf,
    /// Addresses of indexes; a package is taken from the first one that has it.
    pub indexes: Vec<String>,
    /// Requirements (PEP 508).
    pub requirements: Vec<String>,
    /// `3.12`
    pub pythons: Vec<String>,
    /// Systems by uv's names: `x86_64-manylinux_2_28`.
    pub platforms: Vec<String>,
    /// `true`: pre-releases count as other versions.
    pub pre_releases: bool,
    /// The client that fetches the files. It knows the users named in the addresses of the indexes.
    pub http: Arc<Http>,
}

/// Without the users of addresses.
impl std::fmt::Debug for MirrorRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let indexes: Vec<String> = self.indexes.iter().map(|index| text_without_users(index)).collect();
        formatter
            .debug_struct("MirrorRequest")
            .field("uv", &self.uv)
            .field("indexes", &indexes)
            .field("requirements", &self.requirements)
            .field("pythons", &self.pythons)
            .field("platforms", &self.platforms)
            .field("pre_releases", &self.pre_releases)
            .finish_non_exhaustive()
    }
}
