//! Input: the address of an index that another program made. Output: its distributions as a store
//! over which an index can be built, with what its pages leave out.
//!
//! METADATA is read by ranges. A file is read as a whole if its page has no SHA-256, if its server
//! sends no ranges, or if all hashes shall be compared.

mod content;
mod listing;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rayon::prelude::*;
use rocwheel_content::{parse_sha256, sha256};
use rocwheel_index::companion::METADATA;
use rocwheel_index::page::{MetadataBeside, PageLink};
use rocwheel_index::{Http, HttpAnswer};
use rocwheel_pages::{BuildOptions, StatusTable};
use rocwheel_progress::{Failure, Reporter, Unit};
use rocwheel_store::attempts::{CONNECTIONS, TransferFault, attempt, with_connections};
use rocwheel_store::{LinkedFile, LinkedStore};
use rocwheel_wheel::WheelName;
use url::Url;

use crate::cannot;
use crate::download::{check_answer, last_modified};
use crate::manifest::status_table;
use crate::origin::{FactSource, FileOrigins};
use crate::status::sha256_of_page;
use content::{ForeignContent, RangeServers};

/// The largest METADATA that is read.
const METADATA_LIMIT: u64 = 64 << 20;

/// Selects the files of a foreign index, and how they are examined.
pub struct ForeignRequest {
    pub address: Url,
    /// The canonical names of the projects; none: all that the first page names.
    pub projects: Vec<String>,
    /// Patterns of the names of files; none: all.
    pub filters: Vec<String>,
    /// `true`: read every file, and compare it with the hash of its page.
    pub compare: bool,
    pub http: Arc<Http>,
    /// The folder for files that are read as a whole.
    pub scratch: PathBuf,
}

/// The distributions of a foreign index.
pub struct ForeignIndex {
    files: BTreeMap<String, LinkedFile>,
    /// Withdrawn files and the status of the projects (PEP 592, PEP 792).
    status: StatusTable,
    /// The source of each fact on the new pages, by file name.
    pub origins: BTreeMap<String, FileOrigins>,
}

/// A distribution with METADATA beside it.
struct ExaminedFile {
    file: LinkedFile,
    metadata: Option<LinkedFile>,
    origins: FileOrigins,
}

impl ForeignIndex {
    /// The files as a store whose pages go into the existing folder `pages`, and the options with
    /// which its index has what is withdrawn. A table of the user's comes first.
    pub fn into_store(self, pages: &Path, options: BuildOptions) -> Result<(LinkedStore, BuildOptions), Failure> {
        let store = LinkedStore::new(pages, self.files, CONNECTIONS)?;
        let status = match options.status {
            None => status_table(&store, &self.status)?,
            Some((path, mut table)) => {
                table.add(&self.status);
                (path, table)
            }
        };
        Ok((store, BuildOptions { status: Some(status), ..options }))
    }
}

/// Reads the pages of an index, and asks its servers for what they do not say.
///
/// # Errors
/// Pages that cannot be read or list nothing, and files that are missing, that are pages, or that
/// have another size than their page says.
pub fn read_foreign_index(request: &ForeignRequest, reporter: &Arc<dyn Reporter>) -> Result<ForeignIndex, Failure> {
    let projects = listing::read(request, &**reporter)?;
    let examiner = Examiner { request, servers: Arc::default(), reporter };
    let links: Vec<&PageLink> = projects.iter().flat_map(|(_, page)| &page.links).collect();
    let stage = reporter.stage("Asking for files", Some(links.len() as u64), Unit::Items);
    let examined: Vec<_> = with_connections(|| links.par_iter().map(|link| examiner.examine(link)).collect());
    drop(stage);
    reporter.check()?;
    let (mut files, mut origins, mut faults) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (link, one) in links.iter().zip(examined) {
        let name = &link.file_name;
        match one {
            Ok(ExaminedFile { file, metadata, origins: origin }) => {
                files.extend(metadata.map(|metadata| (format!("{name}{METADATA}"), metadata)));
                files.insert(name.clone(), file);
                origins.insert(name.clone(), origin);
            }
            Err(fault) => faults.push((name, fault)),
        }
    }
    if let Some((_, first)) = faults.first() {
        // A fault that lasts decides: trying again does not help.
        let (_, fault) = faults.iter().find(|(_, fault)| !fault.may_pass()).unwrap_or(&faults[0]);
        let exit = if fault.may_pass() { first.exit() } else { fault.exit() };
        let problems: Vec<String> = faults.iter().map(|(name, fault)| format!("`{name}`: {fault}")).collect();
        let hint = "`--filter` chooses files by name; `rocwheel index check` finds what else is wrong there";
        let attempted = format!("list the files of `{}`", listing::shown(&request.address));
        return Err(cannot(&attempted, &problems.join("; "), hint).with_exit(exit));
    }
    Ok(ForeignIndex { files, status: listing::status(&projects), origins })
}

struct Examiner<'a> {
    request: &'a ForeignRequest,
    servers: Arc<RangeServers>,
    reporter: &'a Arc<dyn Reporter>,
}

/// Facts from the headers of an answer.
struct FileHeaders {
    size: Option<u64>,
    /// A text that changes when the file does.
    stamp: String,
    modified: Option<Timestamp>,
}

impl Examiner<'_> {
    fn examine(&self, link: &PageLink) -> Result<ExaminedFile, TransferFault> {
        self.reporter.check().map_err(TransferFault::passing)?;
        let headers = attempt(&**self.reporter, || self.headers(link))?;
        let size = match (headers.size, link.size) {
            (Some(size), Some(told)) if size != told => {
                let reason = format!("it has {size} bytes, and the page says {told}: it was replaced or cut off");
                return Err(TransferFault::lasting(reason));
            }
            (size, told) => size.or(told).ok_or_else(|| TransferFault::lasting("the server does not say its size"))?,
        };
        let sha256 = sha256_of_page(link.hash.as_ref());
        let metadata = if WheelName::is_wheel(&link.file_name) { self.metadata(link)? } else { None };
        let origins = self.origins(link, metadata.is_some(), headers.modified);
        let is_read = self.request.compare || sha256.is_none();
        let content = ForeignContent {
            http: Arc::clone(&self.request.http),
            address: link.address.clone(),
            size,
            hash: link.hash.clone(),
            is_read_whole: is_read,
            servers: Arc::clone(&self.servers),
            scratch: self.request.scratch.clone(),
            reporter: Arc::clone(self.reporter),
        };
        let stamp = match &sha256 {
            // What shall be compared is read again.
            _ if self.request.compare => String::new(),
            Some(sha256) => sha256.clone(),
            None => headers.stamp,
        };
        let file = LinkedFile {
            size,
            stamp,
            sha256: sha256.as_deref().and_then(parse_sha256).filter(|_| !is_read),
            uploaded: uploaded(link).or(headers.modified),
            address: self.request.http.remember(&link.address),
            content: Some(Arc::new(content)),
        };
        Ok(ExaminedFile { file, metadata, origins })
    }

    /// The sources of the facts about a file; `has_metadata` if METADATA is beside it.
    fn origins(&self, link: &PageLink, has_metadata: bool, modified: Option<Timestamp>) -> FileOrigins {
        let metadata = match link.metadata {
            _ if !has_metadata => FactSource::Missing,
            MetadataBeside::Yes(_) => FactSource::Compared,
            MetadataBeside::No => FactSource::Found,
        };
        FileOrigins {
            sha256: match sha256_of_page(link.hash.as_ref()) {
                Some(_) if self.request.compare => FactSource::Compared,
                Some(_) => FactSource::Believed,
                None => FactSource::Computed,
            },
            metadata: WheelName::is_wheel(&link.file_name).then_some(metadata),
            uploaded: match (uploaded(link), modified) {
                (Some(_), _) => FactSource::Believed,
                (None, Some(_)) => FactSource::LastModified,
                (None, None) => FactSource::Run,
            },
        }
    }

    /// Servers and signed addresses may know GET alone.
    fn headers(&self, link: &PageLink) -> Result<FileHeaders, TransferFault> {
        let http = &self.request.http;
        let mut answer = http.head_of(&link.address).map_err(|error| TransferFault::of_request(&*error))?;
        if answer.status != 200 {
            let first = [("Range", "bytes=0-0")];
            answer = http.get_with(&link.address, &first).map_err(|error| TransferFault::of_request(&*error))?;
        }
        check_answer(&answer)?;
        let marks = ["etag", "last-modified"].map(|name| answer.header(name).unwrap_or_default());
        let stamp = marks.join(" ").trim().to_owned();
        Ok(FileHeaders { size: size_of(&answer), stamp, modified: last_modified(&answer) })
    }

    /// METADATA beside a wheel, whether the page promises it or not. One that is not what the page
    /// promises stops pip, so it counts as missing; that in the wheel is compared later.
    fn metadata(&self, link: &PageLink) -> Result<Option<LinkedFile>, TransferFault> {
        let mut address = link.address.clone();
        address.set_path(&format!("{}{METADATA}", link.address.path()));
        let bytes = attempt(&**self.reporter, || {
            let answer = self.request.http.get_with(&address, &[]);
            let answer = answer.map_err(|error| TransferFault::of_request(&*error))?;
            let mut bytes = Vec::new();
            // Only these say that there is none.
            if !matches!(answer.status, 200 | 401 | 403 | 404 | 410) {
                return Err(TransferFault::of_status(answer.status));
            }
            if check_answer(&answer).is_ok() {
                answer
                    .body
                    .take(METADATA_LIMIT)
                    .read_to_end(&mut bytes)
                    .map_err(|error| TransferFault::of_body(&error))?;
            }
            Ok(bytes)
        })?;
        let digest = sha256(&bytes);
        if let MetadataBeside::Yes(Some(hash)) = &link.metadata
            && sha256_of_page(Some(hash)).is_some_and(|told| parse_sha256(&told) != Some(digest))
        {
            return Ok(None);
        }
        let (size, stamp) = (bytes.len() as u64, String::new());
        let file = LinkedFile { size, stamp, sha256: Some(digest), uploaded: None, address, content: None };
        Ok((!bytes.is_empty()).then_some(file))
    }
}

fn uploaded(link: &PageLink) -> Option<Timestamp> {
    link.uploaded.as_deref()?.parse().ok()
}

/// The size of a whole file, of an answer with all of it or with a part.
fn size_of(answer: &HttpAnswer) -> Option<u64> {
    match answer.status {
        206 => answer.header("content-range")?.rsplit_once('/')?.1.parse().ok(),
        _ => answer.header("content-length")?.parse().ok(),
    }
}
