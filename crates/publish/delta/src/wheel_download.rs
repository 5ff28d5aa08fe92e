//! A wheel on its way from an index to a file.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use rocwheel_index::page::FileHash;
use rocwheel_progress::Reporter;
use url::Url;

use crate::chosen_wheel::ChosenWheel;
use crate::request::GetRequest;
use crate::transfer::RemoteFile;

pub(crate) struct Download<'a> {
    pub(crate) chosen: &'a ChosenWheel<'a>,
    pub(crate) hash: &'a FileHash,
    pub(crate) request: &'a GetRequest<'a>,
    /// Where it is written.
    pub(crate) staged: &'a Path,
    pub(crate) transferred: &'a AtomicU64,
    pub(crate) reporter: &'a dyn Reporter,
}

impl Download<'_> {
    pub(crate) fn remote<'a>(&'a self, address: &'a Url) -> RemoteFile<'a> {
        RemoteFile { fetch: &*self.chosen.site.fetch, address, transferred: self.transferred, reporter: self.reporter }
    }
}
