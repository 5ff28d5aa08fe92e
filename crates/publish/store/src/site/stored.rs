//! Input: a store with an index. Output: what a server would answer that serves it.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use percent_encoding::percent_decode_str;
use rocwheel_content::archive_path::{join, parent};
use rocwheel_index::pages::{HTML_TYPE, JSON_TYPE};
use rocwheel_index::{Answer, Fetch};
use rocwheel_progress::Silent;
use url::Url;

use super::{HTML, JSON};
use crate::ranges::{asked_range, range_body};
use crate::store::{Store, StoredBytes, StoredFile};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Reads an index in a store, such as a bucket, as if a server sent it.
pub struct StoreSite {
    store: Box<dyn Store>,
    root: Url,
    /// Files of the folders that were listed, by key.
    listed: Mutex<HashMap<String, StoredFile>>,
}

impl StoreSite {
    /// The site of a store whose top has the address `root`, which ends in `/`.
    pub fn new(store: Box<dyn Store>, root: Url) -> StoreSite {
        StoreSite { store, root, listed: Mutex::default() }
    }

    /// The key of an address; `None` for one that is not below the root.
    fn key(&self, address: &Url) -> Option<String> {
        let is_below = address.scheme() == self.root.scheme() && address.host_str() == self.root.host_str();
        let below = address.path().strip_prefix(self.root.path()).filter(|_| is_below)?;
        Some(percent_decode_str(below).decode_utf8().ok()?.into_owned())
    }

    /// A file as a listing of its folder has it; each folder is listed once.
    fn stored(&self, key: &str) -> Result<Option<StoredFile>, Failure> {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if !listed.contains_key(key) {
            for file in self.store.list(parent(key), &Silent)? {
                listed.insert(file.key.clone(), file);
            }
        }
        Ok(listed.get(key).cloned())
    }
}

impl Fetch for StoreSite {
    fn get(&self, address: &Url, accept: &str) -> Result<Answer, Failure> {
        self.get_with(address, &[("Accept", accept)])
    }

    fn get_with(&self, address: &Url, headers: &[(&str, &str)]) -> Result<Answer, Failure> {
        let empty = Answer {
            status: 404,
            content_type: String::new(),
            cache_control: String::new(),
            encoding: String::new(),
            size: None,
            address: address.clone(),
            body: Box::new(io::empty()),
        };
        let Some(key) = self.key(address) else { return Ok(empty) };
        if key.is_empty() || key.ends_with('/') {
            for (name, kind) in [(JSON, JSON_TYPE), (HTML, HTML_TYPE)] {
                if let Some(page) = self.store.read(&join(key.trim_end_matches('/'), name))? {
                    let body = Box::new(io::Cursor::new(page));
                    return Ok(Answer { status: 200, content_type: kind.to_owned(), body, ..empty });
                }
            }
            return Ok(empty);
        }
        let Some(file) = self.stored(&key)? else { return Ok(empty) };
        if let Some(range) = asked_range(headers, file.size) {
            let bytes = self.store.range(&file, range)?;
            let (size, body) = (Some(bytes.len() as u64), Box::new(io::Cursor::new(bytes)));
            return Ok(Answer { status: 206, size, body, ..empty });
        }
        let whole = 0..file.size;
        let body = match self.store.bytes(&file)? {
            StoredBytes::Local(path) => range_body(fs_err::File::open(path)?.into_parts().0, &whole),
            StoredBytes::Remote(content) => range_body(content.open()?, &whole),
        };
        Ok(Answer { status: 200, size: Some(file.size), body, ..empty })
    }
}
