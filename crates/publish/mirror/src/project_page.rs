//! Input: the address of an index, and a project. Output: what its page says.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use rocwheel_index::Fetch;
use rocwheel_index::page::{self, PageLink};
use rocwheel_index::pages::ProjectStatus;
use rocwheel_store::attempts::TransferFault;
use url::Url;

/// The largest page that is read.
const PAGE_LIMIT: u64 = 256 << 20;

/// A page as a server sends it, unpacked.
pub(crate) struct RawPage {
    kind: String,
    address: Url,
    body: Vec<u8>,
}

/// The files and the status on the page of a project.
pub(crate) struct ProjectPage {
    pub(crate) links: Vec<PageLink>,
    pub(crate) status: ProjectStatus,
    pub(crate) reason: Option<String>,
}

impl RawPage {
    /// The page at an address; `None` if the server does not have it, or not for us.
    pub(crate) fn read(fetch: &dyn Fetch, address: &Url) -> Result<Option<RawPage>, TransferFault> {
        let answer = fetch.get(address, page::ACCEPT).map_err(|error| TransferFault::of_request(&*error))?;
        match answer.status {
            200 => {}
            401 | 403 | 404 | 410 => return Ok(None),
            status => return Err(TransferFault::of_status(status)),
        }
        let (kind, address) = (answer.content_type, answer.address);
        let mut body = Vec::new();
        answer.body.take(PAGE_LIMIT).read_to_end(&mut body).map_err(|error| TransferFault::of_body(&error))?;
        // Pages that are stored packed are sent so to everybody.
        if body.starts_with(&page::GZIP) {
            let packed = std::mem::take(&mut body);
            let mut page = MultiGzDecoder::new(&packed[..]).take(PAGE_LIMIT);
            page.read_to_end(&mut body).map_err(TransferFault::lasting)?;
        }
        Ok(Some(RawPage { kind, address, body }))
    }

    /// What it says as the page of a project.
    pub(crate) fn project(&self) -> Result<ProjectPage, TransferFault> {
        let links = page::parse(&self.kind, &self.body, &self.address).map_err(TransferFault::lasting)?;
        let (status, reason) = page::parse_status(&self.kind, &self.body).map_err(TransferFault::lasting)?;
        Ok(ProjectPage { links, status, reason })
    }

    /// The projects that it names as the first page of an index.
    pub(crate) fn projects(&self) -> Result<Vec<String>, TransferFault> {
        page::parse_root(&self.kind, &self.body, &self.address).map_err(TransferFault::lasting)
    }
}

/// The address of the page of a project.
pub(crate) fn page_address(index: &Url, project: &str) -> Url {
    let mut address = index.clone();
    if let Ok(mut segments) = address.path_segments_mut() {
        segments.pop_if_empty().push(project).push("");
    }
    address
}
