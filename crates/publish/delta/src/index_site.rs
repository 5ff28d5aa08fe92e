//! Input: the address of an index. Output: the files that it has of a project.

use std::io::Read as _;
use std::sync::Arc;

use rocwheel_index::page::{self, PageLink};
use rocwheel_index::pages::JSON_TYPE;
use rocwheel_index::{Fetch, address_without_user};
use rocwheel_progress::{Exit, Reporter, Watched, WithoutProgress};
use rocwheel_store::attempts::TransferFault;
use rocwheel_wheel::{WheelName, canonical_name};
use url::Url;

use crate::error::Error;

/// Limit in bytes for a page: those of the largest projects have some megabytes.
const PAGE: u64 = 64 << 20;

/// An index, and the client that reads it.
pub struct IndexSite {
    pub root: Url,
    /// Used for its pages and files, and for ranges of files.
    pub fetch: Arc<dyn Fetch>,
}

impl std::fmt::Debug for IndexSite {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("IndexSite").field(&shown(&self.root)).finish()
    }
}

/// What an index answers when it is asked for a project.
pub enum ProjectAnswer {
    Files(Vec<PageLink>),
    /// There is no such page; the HTTP status.
    Missing(u16),
}

impl IndexSite {
    /// The wheels of a project; `None` if the index does not have it.
    pub(crate) fn links(
        &self,
        project: &str,
        reporter: &dyn Reporter,
    ) -> Result<Option<Vec<(PageLink, WheelName)>>, Error> {
        let ProjectAnswer::Files(links) = self.project(project, reporter)? else { return Ok(None) };
        let wheels = links.into_iter().filter_map(|link| {
            let name: WheelName = link.file_name.parse().ok()?;
            // The name becomes that of a file.
            let is_plain = !link.file_name.contains(['/', '\\']);
            (is_plain && canonical_name(&name.distribution) == project).then_some((link, name))
        });
        Ok(Some(wheels.collect()))
    }

    /// Checks that the first page lists projects.
    pub fn check_root(&self, reporter: &dyn Reporter) -> Result<(), Error> {
        let answer = self.fetch.get(&self.root, page::ACCEPT);
        let answer = answer.map_err(|fault| self.root_error(TransferFault::of_request(&*fault).to_string()))?;
        if answer.status != 200 {
            return Err(self.root_error(format!("the server answers {}", answer.status)));
        }
        // The list of PyPI has 40 MB, and this type is an index's alone.
        if answer.content_type.starts_with(JSON_TYPE) {
            return Ok(());
        }
        let mut body = Vec::new();
        let read = Watched::new(answer.body, &WithoutProgress(reporter)).take(PAGE).read_to_end(&mut body);
        reporter.check()?;
        read.map_err(|fault| self.root_error(TransferFault::of_body(&fault).to_string()))?;
        match page::parse_root(&answer.content_type, &body, &answer.address) {
            Ok(names) if !names.is_empty() => Ok(()),
            Ok(_) => Err(self.root_error("it lists no project".to_owned())),
            Err(reason) => Err(self.root_error(format!("it is no page of an index: {reason}"))),
        }
    }

    fn root_error(&self, reason: String) -> Error {
        Error::Get {
            attempted: format!("read the index `{}`", shown(&self.root)),
            reason,
            hint: "give the address of the page that lists its projects; that of PyPI ends in `/simple/`".to_owned(),
            exit: Exit::Failed,
        }
    }

    pub fn project(&self, project: &str, reporter: &dyn Reporter) -> Result<ProjectAnswer, Error> {
        let mut address = self.root.clone();
        address.set_path(&format!("{}/{project}/", self.root.path().trim_end_matches('/')));
        let answer = self.fetch.get(&address, page::ACCEPT);
        let answer = answer.map_err(|error| transfer_error(&address, &TransferFault::of_request(&*error)))?;
        match answer.status {
            200 => {}
            // Storage services answer 403 for missing files if the client may not list them. To a
            // user it is a refusal, and the next index could have another project of the name.
            403 if self.fetch.has_user(&address) => {
                let (reason, hint) = ("the server answers 403 to this user", "check the name and the password");
                return Err(page_error(&address, reason.to_owned(), Some(hint), Exit::Failed));
            }
            status @ (403 | 404 | 410) => return Ok(ProjectAnswer::Missing(status)),
            status => return Err(transfer_error(&address, &TransferFault::of_status(status))),
        }
        let mut body = Vec::new();
        let read = Watched::new(answer.body, &WithoutProgress(reporter)).take(PAGE).read_to_end(&mut body);
        reporter.check()?;
        read.map_err(|error| transfer_error(&address, &TransferFault::of_body(&error)))?;
        let links = page::parse(&answer.content_type, &body, &answer.address).map_err(|reason| {
            page_error(&address, format!("it is no page of an index: {reason}"), None, Exit::Failed)
        })?;
        Ok(ProjectAnswer::Files(links))
    }
}

fn transfer_error(address: &Url, fault: &TransferFault) -> Error {
    page_error(address, fault.to_string(), fault.hint(), fault.exit())
}

fn page_error(address: &Url, reason: String, hint: Option<&str>, exit: Exit) -> Error {
    let hint = hint.unwrap_or("check the index with `rocwheel index check`").to_owned();
    Error::Get { attempted: format!("read `{}`", shown(address)), reason, hint, exit }
}

/// An address without the user and the password that it may have.
pub(crate) fn shown(address: &Url) -> String {
    address_without_user(address).to_string()
}
