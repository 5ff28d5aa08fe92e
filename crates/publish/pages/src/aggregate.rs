//! Input: structured indexes in one store, each with the projects of one product. Output: one index
//! with the projects of all of them, as TheRock's `aggregate_index.py` lays it out.
//!
//! A server with routes needs the first page and the table of routes. For any other server there is
//! a page for each project as well, whose links lead to the files of the products. The pages of the
//! products stay the ones that say what exists: they are read again on each run.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rocwheel_content::archive_path::{join, parent};
use rocwheel_index::page::parse_root;
use rocwheel_index::pages::{
    HTML_TYPE, IndexedFile, IndexedProject, JSON_TYPE, ProjectStatus, project_html, project_json, root_html, root_json,
};
use rocwheel_progress::{Reporter, Unit};
use rocwheel_store::listing::{DistributionListing, NameFilter};
use rocwheel_store::site::{HTML, JSON, VERSIONED_HTML};
use rocwheel_store::{PageChange, Store, StoredFile};
use rocwheel_wheel::canonical_name;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::build::offered_in;
use crate::chooser::{self, ChooserData, ChooserOptions};
use crate::error::Error;
use crate::page_file::{PageFile, check_ours, put};

/// The version of both documents.
const SCHEMA: u32 = 2;
const REPORT: &str = "validation.json";
/// What links are resolved against, since keys are not addresses.
const SITE: &str = "http://aggregate.invalid/";

/// What an aggregate index is made of.
#[derive(Debug, Clone)]
pub struct AggregateOptions {
    /// Where the index is below the address of the store: `/rocm/whl-next`.
    pub public_base: String,
    /// The products' indexes, below the parent of the public base: `core/whl-next`.
    pub owners: Vec<String>,
    /// The name of the stream in both documents: `nightly`.
    pub stream: String,
    /// For which servers it is made.
    pub hosting: Hosting,
    /// The contents of the page for people; `None` leaves out the page, and removes that of an
    /// earlier run.
    pub chooser: Option<ChooserOptions>,
    /// Where a product whose pages `index build` does not write keeps the data of its page for
    /// people, below its folder.
    pub kept_chooser: &'static str,
    /// Replace pages that others wrote.
    pub replace_pages: bool,
    /// `false` for a dry run.
    pub write: bool,
}

/// How the server of an aggregate index finds the pages of projects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosting {
    /// It serves files: each project has a page.
    Files,
    /// It follows the table of routes to the products' pages.
    Routes,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Aggregated {
    pub folder: String,
    pub projects: usize,
    /// Pages that changed, in the order in which they were written.
    pub pages: Vec<PageFile>,
}

// Keys of both documents are sorted, as the peer writes them.
#[derive(Serialize)]
struct Routes<'a> {
    public_base: &'a str,
    routes: Vec<Route<'a>>,
    schema_version: u32,
    stream: &'a str,
}

#[derive(Serialize)]
struct Route<'a> {
    owner_path: &'a str,
    package: &'a str,
    target: String,
}

#[derive(Serialize)]
struct Validation<'a> {
    content_validated: bool,
    generation_mode: &'a str,
    owners: BTreeMap<&'a str, Value>,
    package_count: usize,
    packages: Vec<ValidatedPackage<'a>>,
    public_base: &'a str,
    schema_version: u32,
    stream: &'a str,
    unpublished_package_count: usize,
    unpublished_packages: [(); 0],
}

#[derive(Serialize)]
struct ValidatedPackage<'a> {
    name: &'a str,
    owner_path: &'a str,
    package_index: String,
    product_root_index: String,
    source: &'a str,
}

pub fn aggregate(store: &dyn Store, options: &AggregateOptions, reporter: &dyn Reporter) -> Result<Aggregated, Error> {
    let _lock = options.write.then(|| store.lock()).transpose()?;
    let base = options.public_base.trim_matches('/').to_owned();
    let mut work = Aggregate { store, options, base, packages: BTreeMap::new(), problems: Vec::new() };
    for owner in &options.owners {
        work.read_root(owner)?;
    }
    let mut projects = Vec::new();
    reporter.begin("Reading pages", Some(work.packages.len() as u64), Unit::Items);
    let packages = work.packages.clone();
    for (name, owner) in &packages {
        reporter.check()?;
        projects.extend(work.read_project(name, owner)?);
        reporter.advance(1);
    }
    reporter.end();
    if !work.problems.is_empty() {
        work.problems.sort();
        return Err(Error::Aggregate { problems: work.problems });
    }
    let pages = work.write(&projects)?;
    Ok(Aggregated { folder: work.base, projects: packages.len(), pages })
}

struct Aggregate<'a> {
    store: &'a dyn Store,
    options: &'a AggregateOptions,
    /// The folder of the first page.
    base: String,
    /// The owner of each project.
    packages: BTreeMap<String, String>,
    problems: Vec<String>,
}

impl Aggregate<'_> {
    fn root(&self, owner: &str) -> String {
        join(parent(&self.base), owner)
    }

    fn text(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.store.read(key)?.filter(|bytes| !bytes.is_empty()))
    }

    fn read_root(&mut self, owner: &str) -> Result<(), Error> {
        let folder = self.root(owner);
        let json = join(&folder, JSON);
        let html = join(&folder, HTML);
        let (key, kind, body) = match self.text(&json)? {
            Some(body) => (json, JSON_TYPE, Some(body)),
            None => (html.clone(), HTML_TYPE, self.text(&html)?),
        };
        let Some(body) = body else {
            self.problems.push(format!("`{html}`: there is no such page; `rocwheel index build` makes it"));
            return Ok(());
        };
        let names = match address(&folder).map(|at| parse_root(kind, &body, &at)) {
            Some(Ok(names)) => names,
            Some(Err(reason)) => {
                self.problems.push(format!("`{key}`: {reason}"));
                return Ok(());
            }
            None => Vec::new(),
        };
        if names.is_empty() {
            self.problems.push(format!("`{key}`: it names no projects"));
        }
        for name in names {
            if canonical_name(&name) != name {
                self.problems.push(format!("`{key}`: `{name}` is not the canonical form of a name"));
            } else if let Some(other) = self.packages.get(&name) {
                let same = if other == owner { "twice".to_owned() } else { format!("in `{other}` too") };
                self.problems.push(format!("`{name}` of `{owner}` is {same}"));
            } else {
                self.packages.insert(name, owner.to_owned());
            }
        }
        Ok(())
    }

    /// The project with links from its page in the aggregate; `None` where only routes lead to it.
    fn read_project(&mut self, name: &str, owner: &str) -> Result<Option<IndexedProject>, Error> {
        let folder = join(&self.root(owner), name);
        if self.text(&join(&folder, HTML))?.is_none() {
            self.problems
                .push(format!("`{}`: there is no such page, and `{owner}` names the project", join(&folder, HTML)));
            return Ok(None);
        }
        if self.options.hosting == Hosting::Routes {
            return Ok(None);
        }
        let key = join(&folder, JSON);
        let Some(body) = self.text(&key)? else {
            self.problems.push(format!("`{key}`: there is no such page; `rocwheel index build` makes it"));
            return Ok(None);
        };
        let page: ProductPage = match serde_json::from_slice(&body) {
            Ok(page) => page,
            Err(error) => {
                self.problems.push(format!("`{key}`: {error}"));
                return Ok(None);
            }
        };
        let (Some(from), Some(to)) = (address(&folder), address(&join(&self.base, name))) else { return Ok(None) };
        let mut project = IndexedProject { name: name.to_owned(), ..IndexedProject::default() };
        if let Some(ProductStatus { status, reason }) = page.project_status {
            (project.status, project.status_reason) = (status, reason);
        }
        for file in page.files {
            let file_name = file.filename.clone();
            match file.indexed(&from, &to) {
                Some(file) => project.files.push(file),
                None => self.problems.push(format!("`{key}`: `{file_name}` has no SHA-256, or no name of a package")),
            }
        }
        Ok(Some(project))
    }

    /// Writes the pages of projects, then the first page, then the table of routes.
    fn write(&self, projects: &[IndexedProject]) -> Result<Vec<PageFile>, Error> {
        let chooser = join(&self.base, chooser::FILE);
        let page = self.chooser()?;
        // Before anything is written.
        let folders = projects.iter().map(|project| join(&self.base, &project.name)).chain([self.base.clone()]);
        for key in folders.map(|folder| join(&folder, HTML)).chain(page.iter().map(|_| chooser.clone())) {
            check_ours(self.store, self.options.replace_pages, &key)?;
        }
        let mut pages = Vec::new();
        for project in projects {
            let folder = join(&self.base, &project.name);
            let (html, json) = (project_html(project), project_json(project));
            for (name, text) in [(HTML, &html), (VERSIONED_HTML, &html), (JSON, &json)] {
                pages.extend(self.put(join(&folder, name), text)?);
            }
        }
        if let Some(page) = &page {
            pages.extend(self.put(chooser.clone(), page)?);
        }
        let names = self.packages.keys().map(String::as_str);
        let json = root_json(names.clone());
        let html = root_html(names, page.as_ref().map(|_| chooser::FILE), None);
        for (name, text) in [(HTML, &html), (VERSIONED_HTML, &html), (JSON, &json)] {
            pages.extend(self.put(join(&self.base, name), text)?);
        }
        pages.extend(self.put(format!("{}-routes.json", self.base.replace('/', "-")), &self.routes())?);
        pages.extend(self.put(REPORT.to_owned(), &self.report())?);
        pages.extend(self.remove_others(projects)?);
        let is_left = page.is_none() && self.store.read(&chooser)?.is_some();
        if is_left && check_ours(self.store, false, &chooser).is_ok() {
            if self.options.write {
                self.store.remove(&chooser)?;
            }
            pages.push(PageFile { page: chooser, change: PageChange::Removed });
        }
        Ok(pages)
    }

    /// The page for people, from what the products' own runs kept of it. There is none if no
    /// product has such a page.
    fn chooser(&self) -> Result<Option<String>, Error> {
        let Some(options) = &self.options.chooser else { return Ok(None) };
        let mut data = ChooserData::default();
        for owner in &self.options.owners {
            let kept = self.store.read(&join(&self.root(owner), self.options.kept_chooser))?;
            let product = match kept.as_deref().and_then(ChooserData::parse) {
                Some(product) => product,
                None => offered_in(self.store, &self.root(owner))?,
            };
            for (name, _) in self.packages.iter().filter(|(_, its)| *its == owner) {
                data.add_from(&product, name);
            }
        }
        Ok((!data.projects.is_empty()).then(|| data.ordered().page("", None, options)))
    }

    /// Removes the pages of projects that no product has any more.
    fn remove_others(&self, projects: &[IndexedProject]) -> Result<Vec<PageFile>, Error> {
        let kept: BTreeSet<&str> = projects.iter().map(|project| project.name.as_str()).collect();
        let mut removed = Vec::new();
        for file in self.store.list(&self.base, &rocwheel_progress::Silent)? {
            let Some((project, page)) =
                file.key.strip_prefix(&format!("{}/", self.base)).and_then(|at| at.split_once('/'))
            else {
                continue;
            };
            let is_page = [HTML, VERSIONED_HTML, JSON].contains(&page);
            let html = join(&join(&self.base, project), HTML);
            if kept.contains(project) || !is_page || check_ours(self.store, false, &html).is_err() {
                continue;
            }
            // Of the three pages only this one names its author, so it goes last.
            if page != HTML && self.store.read(&html)?.is_none() {
                continue;
            }
            removed.push(file.key);
        }
        removed.sort_by_key(|key| key.ends_with(HTML));
        let mut pages = Vec::new();
        for page in removed {
            if self.options.write {
                self.store.remove(&page)?;
            }
            pages.push(PageFile { page, change: PageChange::Removed });
        }
        Ok(pages)
    }

    fn put(&self, key: String, text: &str) -> Result<Option<PageFile>, Error> {
        Ok(put(self.store, self.options.write, key, text.as_bytes())?)
    }

    /// Projects in the order of both documents: by owner, then by name.
    fn ordered(&self) -> Vec<(&str, &str)> {
        let mut all: Vec<(&str, &str)> =
            self.packages.iter().map(|(name, owner)| (owner.as_str(), name.as_str())).collect();
        all.sort_unstable();
        all
    }

    fn routes(&self) -> String {
        let routes = self.ordered().into_iter().map(|(owner_path, package)| {
            let target = format!("/{}/", join(&self.root(owner_path), package));
            Route { owner_path, package, target }
        });
        document(&Routes {
            public_base: &self.options.public_base,
            routes: routes.collect(),
            schema_version: SCHEMA,
            stream: &self.options.stream,
        })
    }

    fn report(&self) -> String {
        let ordered = self.ordered();
        let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
        for (owner, _) in &ordered {
            *owners.entry(owner).or_default() += 1;
        }
        let packages = ordered.iter().map(|(owner_path, name)| {
            let root = self.root(owner_path);
            let package_index = format!("/{}", join(&join(&root, name), HTML));
            let product_root_index = format!("/{}", join(&root, HTML));
            ValidatedPackage { name, owner_path, package_index, product_root_index, source: "exact" }
        });
        document(&Validation {
            content_validated: true,
            generation_mode: "content",
            owners: owners
                .into_iter()
                .map(|(owner, count)| (owner, serde_json::json!({"package_count": count})))
                .collect(),
            package_count: ordered.len(),
            packages: packages.collect(),
            public_base: &self.options.public_base,
            schema_version: SCHEMA,
            stream: &self.options.stream,
            unpublished_package_count: 0,
            unpublished_packages: [],
        })
    }
}

/// The address of a folder, for resolving links.
fn address(folder: &str) -> Option<Url> {
    Url::parse(SITE).ok()?.join(&format!("{folder}/")).ok()
}

fn document(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).expect("all keys are text");
    format!("{text}\n")
}

/// The page of a project as `rocwheel index build` writes it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ProductPage {
    files: Vec<ProductFile>,
    project_status: Option<ProductStatus>,
}

#[derive(Deserialize)]
struct ProductStatus {
    status: ProjectStatus,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ProductFile {
    filename: String,
    url: String,
    hashes: BTreeMap<String, String>,
    requires_python: Option<String>,
    #[serde(default)]
    core_metadata: Value,
    size: u64,
    upload_time: Option<Timestamp>,
    #[serde(default)]
    yanked: Value,
    provenance: Option<String>,
}

impl ProductFile {
    /// The file with its address on the page `to` instead of the page `from`.
    fn indexed(mut self, from: &Url, to: &Url) -> Option<IndexedFile> {
        let stored = StoredFile { key: self.filename.clone(), size: self.size, stamp: String::new() };
        let distribution = DistributionListing::of(vec![stored], &NameFilter::default()).distributions.pop()?;
        let place = from.join(&self.url).ok()?;
        let url = if place.origin() == to.origin() { to.make_relative(&place)? } else { place.into() };
        Some(IndexedFile {
            url,
            version: distribution.version,
            size: self.size,
            sha256: self.hashes.remove("sha256")?,
            requires_python: self.requires_python,
            metadata_sha256: self.core_metadata.get("sha256").and_then(Value::as_str).map(str::to_owned),
            uploaded: self.upload_time,
            yanked: match self.yanked {
                Value::String(reason) => Some(reason),
                Value::Bool(true) => Some(String::new()),
                _ => None,
            },
            provenance: self.provenance,
            name: self.filename,
        })
    }
}
