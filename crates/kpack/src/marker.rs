//! Input: the bytes a kpacked wrapper points at. Output: a [`Marker`], which says where the code is.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Where the runtime finds the code of a binary: MessagePack, a map with these two keys (spec 3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Archives to look into, relative to the folder of the binary; `@GFXARCH@` stands for a target.
    #[serde(rename = "kpack_search_paths")]
    pub search_paths: Vec<String>,
    /// The name under which the archives list the code, without the `#` and index.
    pub kernel_name: String,
}

impl Marker {
    /// The bytes of the marker.
    pub fn encode(&self) -> Vec<u8> {
        rmp_serde::to_vec_named(self).unwrap_or_default()
    }

    /// Reads the marker at the start of `bytes`; what follows it does not matter.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        rmp_serde::from_read(bytes)
            .map_err(|error| Error::FatBinary { reason: format!("its marker cannot be read: {error}") })
    }
}
