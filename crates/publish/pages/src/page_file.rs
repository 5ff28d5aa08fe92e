//! Input: the key of a page and its bytes. Output: the page in the store, if it differs and no
//! other program wrote it.

use rocwheel_content::archive_path::{join, relative};
use rocwheel_index::pages::{GENERATOR, encoded_segment};
use rocwheel_store::{self as store, Error as StoreError, PageChange, Store};
use serde::Serialize;

use crate::error::Error;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PageFile {
    pub page: String,
    pub change: PageChange,
}

/// The beginning of a page, with its author and title. The links behind it may be megabytes.
pub(crate) fn page_head(store: &dyn Store, page: &str) -> Result<Option<String>, StoreError> {
    Ok(store.read_start(page, 8192)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// A page that another program wrote is replaced only when the user says so.
pub(crate) fn check_ours(store: &dyn Store, replace_pages: bool, page: &str) -> Result<(), Error> {
    if replace_pages || is_ours(store, page)? {
        return Ok(());
    }
    Err(Error::ForeignPage { page: join(&store.name(), page) })
}

/// `true` for a page that this program wrote, and for one that does not exist.
pub fn is_ours(store: &dyn Store, page: &str) -> Result<bool, StoreError> {
    Ok(page_head(store, page)?.is_none_or(|head| head.contains(GENERATOR)))
}

/// Writes a page where it differs from the one of before; `write` is `false` for a dry run.
pub(crate) fn put(store: &dyn Store, write: bool, key: String, bytes: &[u8]) -> Result<Option<PageFile>, StoreError> {
    Ok(store::put(store, write, &key, bytes)?.map(|change| PageFile { page: key, change }))
}

/// The address of a file on a page in `folder`, percent-encoded.
pub fn link(folder: &str, key: &str) -> String {
    let way = relative(folder, key);
    way.split('/')
        .map(|part| if part == ".." { part.to_owned() } else { encoded_segment(part) })
        .collect::<Vec<_>>()
        .join("/")
}
