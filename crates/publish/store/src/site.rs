//! Input: a folder or a store with an index. Output: what a server would answer that serves it.

mod folder;
mod stored;

pub use folder::FolderSite;
pub use stored::StoreSite;

/// A page in HTML. Servers choose one of the three by `Accept`; the names are bandersnatch's.
pub const HTML: &str = "index.html";
/// The same page as [`HTML`], for clients that ask for version 1 of the API.
pub const VERSIONED_HTML: &str = "index.v1_html";
/// A page in JSON.
pub const JSON: &str = "index.v1_json";
