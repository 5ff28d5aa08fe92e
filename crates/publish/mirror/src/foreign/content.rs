//! Input: a file of a foreign index. Output: its bytes at random access, by ranges where that is
//! enough and the server sends them, and else as a temporary file.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rocwheel_content::{Content, Reader, SharedFile};
use rocwheel_index::page::FileHash;
use rocwheel_index::{Fetch, Http};
use rocwheel_progress::Reporter;
use rocwheel_store::attempts::attempt;
use rocwheel_store::open_remote;
use url::Url;

use crate::download::download;

/// Which servers send ranges, by their origin; each is asked once.
#[derive(Default)]
pub(super) struct RangeServers(Mutex<BTreeMap<String, bool>>);

impl RangeServers {
    fn send_ranges(&self, http: &Http, address: &Url) -> io::Result<bool> {
        let origin = address.origin().ascii_serialization();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = known.get(&origin) {
            return Ok(*answer);
        }
        let answer = http.get_with(address, &[("Range", "bytes=0-0")]).map_err(rocwheel_store::io_error)?;
        known.insert(origin, answer.status == 206);
        Ok(answer.status == 206)
    }
}

pub(super) struct ForeignContent {
    pub(super) http: Arc<Http>,
    pub(super) address: Url,
    pub(super) size: u64,
    /// The hash of its page, of any kind.
    pub(super) hash: Option<FileHash>,
    /// `true`: ranges are not enough.
    pub(super) is_read_whole: bool,
    pub(super) servers: Arc<RangeServers>,
    /// The folder for the temporary file.
    pub(super) scratch: PathBuf,
    pub(super) reporter: Arc<dyn Reporter>,
}

impl Content for ForeignContent {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Reader> {
        if !self.is_read_whole && self.servers.send_ranges(&self.http, &self.address)? {
            let fetch: Arc<dyn Fetch> = Arc::<Http>::clone(&self.http);
            return Ok(open_remote(fetch, self.address.clone(), self.size, Arc::clone(&self.reporter)));
        }
        let (address, reporter) = (self.address.as_str(), &*self.reporter);
        let fetched = attempt(reporter, || download(&self.http, address, self.hash.as_ref(), &self.scratch, reporter));
        let fetched = fetched.map_err(io::Error::other)?;
        let file = fetched.file.into_file();
        let found = file.metadata()?.len();
        if found != self.size {
            let message = format!("the server sent {found} bytes, and said that it has {}", self.size);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        Ok(Box::new(SharedFile::new(fs_err::File::from_parts(file, self.address.path()))))
    }
}
