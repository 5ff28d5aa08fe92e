//! Input: the files of a mirror, and the indexes that they are from. Output: which of the files are
//! withdrawn there, and the status of their projects.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use rayon::prelude::*;
use rocwheel_index::Fetch;
use rocwheel_index::page::{self, PageLink};
use rocwheel_index::pages::ProjectStatus;
use rocwheel_pages::StatusTable;
use rocwheel_progress::{Reporter, Unit};
use rocwheel_store::FolderSite;
use rocwheel_store::attempts::{CONNECTIONS, TransferFault, attempt};
use rocwheel_store::listing::project_of;
use url::Url;

use crate::cannot;
use crate::lock::LockedFile;
use crate::request::MirrorRequest;
use rocwheel_progress::Failure;

/// The largest page that is read.
const PAGE_LIMIT: u64 = 256 << 20;

/// The files and the status on the page of a project.
struct ProjectPage {
    links: Vec<PageLink>,
    status: ProjectStatus,
    reason: Option<String>,
}

/// Reads the pages of the projects. The page that lists the files of a project counts; a file that
/// no index lists, because its address was given, is not withdrawn.
pub(crate) fn read(
    request: &MirrorRequest,
    files: &BTreeMap<String, LockedFile>,
    reporter: &dyn Reporter,
) -> Result<StatusTable, Failure> {
    let mut projects: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, file) in files {
        projects.entry(&file.project).or_default().insert(name);
    }
    reporter.begin("Reading pages", Some(projects.len() as u64), Unit::Items);
    let one = |(project, names): (&&str, &BTreeSet<&str>)| -> Result<Option<ProjectPage>, Failure> {
        let found = request.indexes.iter().find_map(|index| {
            let page = attempt(reporter, || project_page(request, index, project)).transpose()?;
            let lists = |page: &ProjectPage| page.links.iter().any(|link| names.contains(link.file_name.as_str()));
            page.map_or_else(|fault| Some(Err(fault)), |page| lists(&page).then_some(Ok(page)))
        });
        reporter.advance(1);
        reporter.check()?;
        found.transpose().map_err(|fault| {
            cannot(
                &format!("read the page of `{project}`"),
                &fault.to_string(),
                "check the index with `rocwheel index check`",
            )
            .with_exit(fault.exit())
        })
    };
    let work = || projects.par_iter().map(one).collect::<Result<Vec<_>, _>>();
    let pages = match rayon::ThreadPoolBuilder::new().num_threads(CONNECTIONS).build() {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    };
    reporter.end();
    let mut table = StatusTable::default();
    for ((project, names), page) in projects.iter().zip(pages?) {
        let Some(page) = page else { continue };
        // The index leaves out files whose names tell no project.
        let is_listed = |name: &str| project_of(name).as_deref() == Some(*project);
        if names.iter().any(|name| is_listed(name)) {
            table.set_project(project, page.status, page.reason);
        }
        let mirrored = |link: &PageLink| names.contains(link.file_name.as_str()) && is_listed(&link.file_name);
        for link in page.links.into_iter().filter(mirrored) {
            if let Some(reason) = link.yanked {
                table.yank_file(link.file_name, reason);
            }
        }
    }
    Ok(table)
}

/// The page of a project; `None` if the index does not have it.
fn project_page(request: &MirrorRequest, index: &str, project: &str) -> Result<Option<ProjectPage>, TransferFault> {
    // uv also takes `NAME=ADDRESS`.
    let named = index.split_once('=').filter(|(name, _)| !name.contains(['/', ':']));
    let mut address = Url::parse(named.map_or(index, |(_, address)| address)).map_err(TransferFault::lasting)?;
    if let Ok(mut segments) = address.path_segments_mut() {
        segments.pop_if_empty().push(project).push("");
    }
    let site: &dyn Fetch = if address.scheme() == "file" { &FolderSite } else { &*request.http };
    let answer = site.get(&address, page::ACCEPT).map_err(|error| TransferFault::of_request(&*error))?;
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
    let links = page::parse(&kind, &body, &address).map_err(TransferFault::lasting)?;
    let (status, reason) = page::parse_status(&kind, &body).map_err(TransferFault::lasting)?;
    Ok(Some(ProjectPage { links, status, reason }))
}
