//! Input: the files of a mirror, and the indexes that they are from. Output: what the pages there
//! say of the files, which of them are withdrawn, and the status of their projects.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use rocwheel_content::HashAlgorithm;
use rocwheel_index::Fetch;
use rocwheel_index::page::{FileHash, MetadataBeside, PageLink};
use rocwheel_pages::StatusTable;
use rocwheel_progress::{Reporter, Unit};
use rocwheel_store::FolderSite;
use rocwheel_store::attempts::{TransferFault, attempt, with_connections};
use rocwheel_store::listing::project_of;
use url::Url;

use crate::cannot;
use crate::lock::{LockedFile, ToldFacts};
use crate::project_page::{ProjectPage, RawPage, page_address};
use crate::request::MirrorRequest;
use rocwheel_progress::Failure;

/// Reads the pages of the projects. The page that lists the files of a project counts; a file that
/// no index lists, because its address was given, is not withdrawn.
pub(crate) fn read(
    request: &MirrorRequest,
    files: &mut BTreeMap<String, LockedFile>,
    reporter: &dyn Reporter,
) -> Result<StatusTable, Failure> {
    let mut projects: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, file) in &*files {
        projects.entry(file.project.clone()).or_default().insert(name.clone());
    }
    reporter.begin("Reading pages", Some(projects.len() as u64), Unit::Items);
    let pages = projects.par_iter().map(|(project, names)| {
        let found = request.indexes.iter().find_map(|index| {
            let page = attempt(reporter, || project_page(request, index, project)).transpose()?;
            match page {
                Ok(page) if page.links.iter().any(|link| names.contains(&link.file_name)) => Some(Ok(page)),
                Ok(_) => None,
                Err(fault) => Some(Err(fault)),
            }
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
    });
    let pages = with_connections(|| pages.collect::<Result<Vec<_>, Failure>>());
    reporter.end();
    let mut table = StatusTable::default();
    for ((project, names), page) in projects.iter().zip(pages?) {
        let Some(page) = page else { continue };
        // The index leaves out files whose names tell no project.
        if names.iter().any(|name| project_of(name).as_ref() == Some(project)) {
            table.set_project(project, page.status, page.reason);
        }
        for link in page.links.into_iter().filter(|link| names.contains(&link.file_name)) {
            if let Some(file) = files.get_mut(&link.file_name) {
                file.told = told(&link);
            }
            if let Some(reason) = link.yanked.filter(|_| project_of(&link.file_name).as_ref() == Some(project)) {
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
    let index = Url::parse(named.map_or(index, |(_, address)| address)).map_err(TransferFault::lasting)?;
    let site: &dyn Fetch = if index.scheme() == "file" { &FolderSite } else { &*request.http };
    RawPage::read(site, &page_address(&index, project))?.map(|page| page.project()).transpose()
}

/// What a page says of one of its files.
fn told(link: &PageLink) -> ToldFacts {
    ToldFacts {
        sha256: sha256_of_page(link.hash.as_ref()).is_some(),
        metadata: match &link.metadata {
            MetadataBeside::Yes(hash) => sha256_of_page(hash.as_ref()),
            MetadataBeside::No => None,
        },
        uploaded: link.uploaded.as_deref().and_then(|time| time.parse().ok()),
    }
}

/// The hash of a page, if it is SHA-256.
pub(crate) fn sha256_of_page(hash: Option<&FileHash>) -> Option<String> {
    hash.filter(|hash| hash.algorithm == HashAlgorithm::Sha256).map(|hash| hash.hexadecimal.clone())
}
