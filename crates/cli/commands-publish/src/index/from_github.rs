//! The options of `rocwheel index build` for files that are in releases on GitHub.

use std::path::PathBuf;

use clap::Args;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_console::store::StorePlace;
use rocwheel_index::Http;
use rocwheel_store::{GithubAccess, LinkedStore, ReleaseKinds, Store};
use url::{Host, Url};

use crate::release::pages::repository;

/// Where GitHub answers; in its own jobs and on GitHub Enterprise, `GITHUB_API_URL` has the
/// address.
const API: &str = "https://api.github.com";

/// Options for files that are in releases on GitHub.
#[derive(Debug, Args)]
#[command(next_help_heading = "Files on GitHub")]
pub(super) struct GithubOptions {
    /// List the files in the releases of this repository; DIR gets the pages, which link them. The
    /// token in GITHUB_TOKEN or GH_TOKEN is used, if any
    #[arg(long, value_name = "OWNER/NAME", value_parser = repository, conflicts_with_all = ["layout", "project"])]
    from_github: Option<String>,
    /// Also list files of prereleases
    #[arg(long, requires = "from_github")]
    prereleases: bool,
    /// Also list files of drafts, which only you can download
    #[arg(long, requires = "from_github")]
    drafts: bool,
}

/// Releases, and the folder for their pages.
#[derive(Debug)]
pub(super) struct GithubSource {
    folder: PathBuf,
    access: GithubAccess,
}

impl GithubOptions {
    /// The releases that were asked for.
    pub(super) fn source(self, place: &StorePlace) -> Result<Option<GithubSource>> {
        let Some(repository) = self.from_github else { return Ok(None) };
        let folder = folder_for_pages(place, "--from-github")?;
        let text = environment::first_of(&["GITHUB_API_URL"]).unwrap_or_else(|| API.to_owned());
        let api =
            Url::parse(&text).map_err(|_| Usage::new(format!("GITHUB_API_URL is `{text}`, which is no address")))?;
        let token = environment::first_of(&["GITHUB_TOKEN", "GH_TOKEN"]);
        if token.is_some() && api.scheme() != "https" && !is_loopback(&api) {
            let problem = format!("GITHUB_API_URL is `{api}`: a token is sent to https addresses only");
            return Err(Usage::new(problem).hint("unset GITHUB_TOKEN and GH_TOKEN, or use https").into());
        }
        let kinds = ReleaseKinds { prereleases: self.prereleases, drafts: self.drafts };
        let access = GithubAccess { repository, kinds, api, token };
        Ok(Some(GithubSource { folder, access }))
    }
}

/// The folder for pages that link files of other servers, as `option` makes them.
pub(super) fn folder_for_pages(place: &StorePlace, option: &str) -> Result<PathBuf> {
    if let StorePlace::Folder(folder) = place {
        return Ok(folder.clone());
    }
    let hint = "name a folder, and upload it with `rocwheel release upload`";
    Err(Usage::new(format!("with `{option}` the pages go into a folder")).hint(hint).into())
}

fn is_loopback(address: &Url) -> bool {
    match address.host() {
        Some(Host::Ipv4(host)) => host.is_loopback(),
        Some(Host::Ipv6(host)) => host.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

impl GithubSource {
    /// Asks GitHub for the files. A missing folder for the pages is made.
    pub(super) fn open(&self, write: bool, printer: &Printer) -> Result<Box<dyn Store>> {
        if write {
            fs_err::create_dir_all(&self.folder)?;
        }
        let proxy = environment::proxy().filter(|_| self.access.api.scheme() == "https");
        let http = Http::new(proxy.as_deref()).map_err(Failure::other)?;
        let store = LinkedStore::of_releases(self.access.clone(), &self.folder, Box::new(http), printer.reporter())?;
        Ok(Box::new(store))
    }
}
