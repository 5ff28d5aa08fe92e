//! The files of a finished promotion.

use serde::Serialize;

use crate::set_file::SetFileKind;

/// Name of the statement beside the promoted files.
pub const STATEMENT: &str = "promotion.intoto.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Promoted {
    pub name: String,
    pub kind: SetFileKind,
    pub size: u64,
    /// Its SHA-256 in hexadecimal.
    pub sha256: String,
    /// The file that it was made from; `None` for a copy of a wheel's metadata.
    pub source: Option<PromotedFrom>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromotedFrom {
    pub name: String,
    /// Its SHA-256 in hexadecimal.
    pub sha256: String,
}
