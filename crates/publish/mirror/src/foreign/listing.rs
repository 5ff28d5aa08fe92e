//! Input: the address of a foreign index. Output: its projects, with the distributions that their
//! pages list.

use std::collections::BTreeMap;

use rayon::prelude::*;
use rocwheel_index::address_without_user;
use rocwheel_index::pages::ProjectStatus;
use rocwheel_pages::StatusTable;
use rocwheel_progress::{Failure, Reporter, Unit};
use rocwheel_store::NameFilter;
use rocwheel_store::attempts::{TransferFault, attempt};
use rocwheel_store::listing::project_of;
use rocwheel_wheel::canonical_name;
use url::Url;

use super::ForeignRequest;
use crate::cannot;
use crate::project_page::{ProjectPage, RawPage, page_address};

/// The pages of the projects by their canonical names. A list of files without projects, such as a
/// server makes of a folder, counts as an index, too.
pub(super) fn read(request: &ForeignRequest, reporter: &dyn Reporter) -> Result<Vec<(String, ProjectPage)>, Failure> {
    let filter = NameFilter::new(&request.filters)?;
    let mut names = request.projects.clone();
    if names.is_empty() {
        let root = page(request, &request.address, reporter)?;
        let parsed = root.project().and_then(|files| Ok((files, root.projects()?)));
        let (files, projects) = parsed.map_err(|fault| unreadable(&request.address, &fault))?;
        let flat = by_project(files, &filter);
        if !flat.is_empty() {
            return flat.into_iter().map(|(project, page)| Ok((project, without_repeats(page)?))).collect();
        }
        names = projects.iter().map(|name| canonical_name(name)).collect();
        if names.is_empty() {
            let reason = TransferFault::lasting("the page names no project and no package");
            return Err(unreadable(&request.address, &reason));
        }
    }
    let stage = reporter.stage("Reading pages", Some(names.len() as u64), Unit::Items);
    let pages = names.par_iter().map(|name| {
        let address = page_address(&request.address, name);
        let page = page(request, &address, reporter)?.project().map_err(|fault| unreadable(&address, &fault))?;
        let is_empty = page.links.iter().all(|link| project_of(&link.file_name).as_ref() != Some(name));
        if is_empty && page.status != ProjectStatus::Quarantined {
            return Err(unreadable(&address, &TransferFault::lasting("the page lists no package of the project")));
        }
        reporter.advance(1);
        // Installers do not take what the page of another project lists.
        let own = by_project(page, &filter).remove(name).map(|page| Ok((name.clone(), without_repeats(page)?)));
        own.transpose()
    });
    let pages: Vec<_> = pages.collect::<Result<_, Failure>>()?;
    drop(stage);
    Ok(pages.into_iter().flatten().collect())
}

/// What is withdrawn, and the status of the projects.
pub(super) fn status(projects: &[(String, ProjectPage)]) -> StatusTable {
    let mut table = StatusTable::default();
    for (project, page) in projects.iter().filter(|(_, page)| !page.links.is_empty()) {
        table.set_project(project, page.status, page.reason.clone());
        for link in &page.links {
            if let Some(reason) = &link.yanked {
                table.yank_file(link.file_name.clone(), reason.clone());
            }
        }
    }
    table
}

pub(super) fn shown(address: &Url) -> String {
    address_without_user(address).to_string()
}

fn page(request: &ForeignRequest, address: &Url, reporter: &dyn Reporter) -> Result<RawPage, Failure> {
    reporter.check()?;
    let page = attempt(reporter, || RawPage::read(&*request.http, address));
    match page {
        Ok(Some(page)) => Ok(page),
        Ok(None) => {
            Err(unreadable(address, &TransferFault::lasting("the server does not have it, or not for this user")))
        }
        Err(fault) => Err(unreadable(address, &fault)),
    }
}

fn unreadable(address: &Url, fault: &TransferFault) -> Failure {
    let hint = "give the address of the page that lists the projects; a page of a login lists none";
    cannot(&format!("read the index page `{}`", shown(address)), &fault.to_string(), hint).with_exit(fault.exit())
}

/// The distributions of a page that the filter accepts, by the project of their names.
fn by_project(page: ProjectPage, filter: &NameFilter) -> BTreeMap<String, ProjectPage> {
    let ProjectPage { links, status, reason } = page;
    let mut pages: BTreeMap<String, ProjectPage> = BTreeMap::new();
    for link in links.into_iter().filter(|link| filter.accepts(&link.file_name)) {
        // A page may call its files what it likes; the names become keys of the store.
        if link.file_name.contains(['/', '\\']) {
            continue;
        }
        let Some(project) = project_of(&link.file_name) else { continue };
        let page = pages.entry(project);
        let page = page.or_insert_with(|| ProjectPage { links: Vec::new(), status, reason: reason.clone() });
        page.links.push(link);
    }
    pages
}

/// A page with each file once.
///
/// # Errors
/// Two links of one name to different files: installers would take either.
fn without_repeats(page: ProjectPage) -> Result<ProjectPage, Failure> {
    let mut links: BTreeMap<String, _> = BTreeMap::new();
    for link in page.links {
        match links.get(&link.file_name) {
            None => drop(links.insert(link.file_name.clone(), link)),
            Some(other) if *other == link => {}
            Some(other) => {
                let reason = format!("`{}` and `{}` have this name", shown(&other.address), shown(&link.address));
                let hint = "an installer would take either: let the index list one of them";
                return Err(cannot(&format!("list `{}`", link.file_name), &reason, hint));
            }
        }
    }
    Ok(ProjectPage { links: links.into_values().collect(), ..page })
}
