//! Input: wheels and source distributions of this machine, and indexes. Output: an index in a
//! folder that has these files beside those which the first index with the same project lists, as
//! it would be once they are published.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pep440_rs::Version;
use rocwheel_content::{hexadecimal, sha256_ahead};
use rocwheel_delta::{IndexSite, ProjectAnswer};
use rocwheel_index::page::{MetadataBeside, PageLink};
use rocwheel_index::pages::{escaped_html, root_html};
use rocwheel_index::{Answer, Fetch};
use rocwheel_progress::{Failure, Reporter};
use rocwheel_store::FolderSite;
use rocwheel_store::listing::distribution_of;
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{Headers, WheelName, sdist_metadata};
use url::Url;

/// A file that is judged, and what its METADATA says.
pub(crate) struct LocalFile {
    /// Canonical name of the project.
    pub(crate) name: String,
    pub(crate) version: Version,
    pub(crate) file: String,
    pub(crate) wheel: Option<WheelName>,
    pub(crate) headers: Headers,
    path: PathBuf,
    sha256: Option<String>,
}

impl LocalFile {
    /// # Errors
    /// A file that is no distribution, or whose METADATA cannot be read.
    pub(crate) fn read(path: &Path, sha256: Option<String>, reporter: &dyn Reporter) -> Result<LocalFile, Failure> {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(named) = distribution_of(&file) else {
            return Err(Failure::message(format!("`{}` is no wheel and no source distribution", path.display())));
        };
        let headers = match &named.wheel {
            Some(_) => Headers::parse(&Wheel::open(path)?.metadata()?),
            None => sdist_metadata(path, reporter)?,
        };
        let (name, version, wheel) = (named.project, named.version, named.wheel);
        Ok(LocalFile { name, version, file, wheel, headers, path: path.to_owned(), sha256 })
    }

    fn link(&self) -> Result<String, Failure> {
        let hash = match &self.sha256 {
            Some(hash) => hash.clone(),
            None => hexadecimal(&sha256_ahead(&self.path).map_err(Failure::other)?),
        };
        let path = rocwheel_system::canonicalize(&self.path).map_err(Failure::other)?;
        let mut address = Url::from_file_path(path)
            .map_err(|()| Failure::message(format!("`{}` has no address", self.path.display())))?;
        address.set_fragment(Some(&format!("sha256={hash}")));
        Ok(link(&self.file, &address, self.headers.get("Requires-Python").as_deref(), None, false))
    }
}

/// Writes the index into a folder. `sites` are the indexes that may have other versions.
///
/// # Errors
/// An index that cannot be read, and a folder that cannot be written.
pub(crate) fn write_overlay(
    files: &[LocalFile],
    sites: &[IndexSite],
    folder: &Path,
    reporter: &dyn Reporter,
) -> Result<IndexSite, Failure> {
    let mut pages: BTreeMap<&str, Vec<&LocalFile>> = BTreeMap::new();
    for file in files {
        pages.entry(&file.name).or_default().push(file);
    }
    for (name, own) in &pages {
        let mut text = String::from("<!DOCTYPE html>\n<html><body>\n");
        for file in own {
            text.push_str(&file.link()?);
        }
        for listed in first_listing(name, sites, reporter)? {
            // A file of the same name is replaced, as publishing it would be refused otherwise.
            if own.iter().all(|file| file.file != listed.file_name) {
                text.push_str(&again(&listed));
            }
        }
        let page = folder.join(name).join("index.html");
        fs_err::create_dir_all(folder.join(name)).map_err(Failure::other)?;
        fs_err::write(page, text + "</body></html>\n").map_err(Failure::other)?;
    }
    fs_err::write(folder.join("index.html"), root_html(pages.keys().copied(), None, None)).map_err(Failure::other)?;
    let path = rocwheel_system::canonicalize(folder).map_err(Failure::other)?;
    let root = Url::from_directory_path(path).map_err(|()| Failure::message("the folder has no address"))?;
    let others = sites.iter().map(|site| (site.root.clone(), Arc::clone(&site.fetch))).collect();
    Ok(IndexSite { root, fetch: Arc::new(OverlayFetch { others }) })
}

/// The files of a project on the first index that has it.
fn first_listing(name: &str, sites: &[IndexSite], reporter: &dyn Reporter) -> Result<Vec<PageLink>, Failure> {
    for site in sites {
        if let ProjectAnswer::Files(links) = site.project(name, reporter)? {
            return Ok(links);
        }
    }
    Ok(Vec::new())
}

fn again(listed: &PageLink) -> String {
    let mut address = listed.address.clone();
    if let Some(hash) = &listed.hash {
        address.set_fragment(Some(&format!("{}={}", hash.algorithm.name(), hash.hexadecimal)));
    }
    let has_metadata = matches!(listed.metadata, MetadataBeside::Yes(_));
    link(&listed.file_name, &address, listed.python.as_deref(), listed.yanked.as_deref(), has_metadata)
}

fn link(name: &str, address: &Url, python: Option<&str>, yanked: Option<&str>, has_metadata: bool) -> String {
    let metadata = has_metadata.then_some("true");
    let attributes = [("requires-python", python), ("yanked", yanked), ("core-metadata", metadata)];
    let attributes =
        attributes.iter().filter_map(|(name, value)| Some(format!(" data-{name}=\"{}\"", escaped_html((*value)?))));
    let attributes: String = attributes.collect();
    format!("<a href=\"{}\"{attributes}>{}</a><br>\n", escaped_html(address.as_str()), escaped_html(name))
}

/// Reads files of this machine, and those of the indexes as each is read.
struct OverlayFetch {
    others: Vec<(Url, Arc<dyn Fetch>)>,
}

type Answered = Result<Answer, Box<dyn std::error::Error + Send + Sync>>;

impl OverlayFetch {
    fn of(&self, address: &Url) -> &dyn Fetch {
        let own = self.others.iter().find(|(root, _)| root.origin() == address.origin());
        let web = own.or_else(|| self.others.iter().find(|(root, _)| root.scheme().starts_with("http")));
        web.filter(|_| address.scheme() != "file").map_or(&FolderSite, |(_, fetch)| &**fetch)
    }
}

impl Fetch for OverlayFetch {
    fn get(&self, address: &Url, accept: &str) -> Answered {
        self.of(address).get(address, accept)
    }

    fn get_with(&self, address: &Url, headers: &[(&str, &str)]) -> Answered {
        self.of(address).get_with(address, headers)
    }
}
