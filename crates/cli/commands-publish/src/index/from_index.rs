//! The options of `rocwheel index build` for files that another program's index lists.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_console::store::StorePlace;
use rocwheel_index::text_without_users;
use rocwheel_mirror::{FileOrigins, ForeignRequest, read_foreign_index};
use rocwheel_pages::BuildOptions;
use rocwheel_progress::Reporter;
use rocwheel_store::Store;
use url::Url;

use super::from_github::folder_for_pages;

/// Options for files that a foreign index lists.
#[derive(Debug, Args)]
#[command(next_help_heading = "Files of a foreign index")]
pub(super) struct IndexOptions {
    /// List the files of this index, or of this list of files; DIR gets the pages, which link them
    #[arg(long, value_name = "URL", conflicts_with_all = ["layout", "project", "from_github"])]
    from_index: Option<String>,
    /// List this project only; may be repeated
    #[arg(long, value_name = "NAME", requires = "from_index")]
    package: Vec<String>,
    /// Read every file, and compare it with the hash of its page
    #[arg(long, requires = "from_index")]
    files: bool,
}

/// A foreign index, and the folder for the pages.
#[derive(Debug)]
pub(super) struct IndexSource {
    folder: PathBuf,
    address: Url,
    projects: Vec<String>,
    compare: bool,
}

/// A foreign index that was read.
pub(super) struct OpenedIndex {
    pub(super) store: Box<dyn Store>,
    pub(super) options: BuildOptions,
    /// The source of each fact on the pages, by file name; empty for other sources of files.
    pub(super) origins: BTreeMap<String, FileOrigins>,
}

impl IndexOptions {
    /// The index that was asked for.
    pub(super) fn source(self, place: &StorePlace) -> Result<Option<IndexSource>> {
        let Some(text) = self.from_index else { return Ok(None) };
        let folder = folder_for_pages(place, "--from-index")?;
        let mut address =
            Url::parse(&text).ok().filter(|address| matches!(address.scheme(), "http" | "https")).ok_or_else(|| {
                Usage::new(format!("`{}` is not the address of an index on a server", text_without_users(&text)))
                    .hint("`rocwheel index build DIR` makes the pages of a folder")
            })?;
        if !address.path().ends_with('/') {
            address.set_path(&format!("{}/", address.path()));
        }
        let projects = self.package.iter().map(|name| rocwheel_wheel::canonical_name(name)).collect();
        Ok(Some(IndexSource { folder, address, projects, compare: self.files }))
    }
}

impl IndexSource {
    /// Reads the foreign index. A missing folder for the pages is made when that succeeded.
    pub(super) fn open(&self, options: BuildOptions, printer: &Printer) -> Result<OpenedIndex> {
        let http = environment::http(self.address.scheme())?;
        let scratch = environment::scratch_near(None, Some(&self.folder));
        let request = ForeignRequest {
            address: http.remember(&self.address),
            projects: self.projects.clone(),
            filters: options.filters.clone(),
            compare: self.compare,
            http: Arc::new(http),
            scratch,
        };
        let reporter: Arc<dyn Reporter> = printer.progress();
        let mut foreign = read_foreign_index(&request, &reporter)?;
        let origins = std::mem::take(&mut foreign.origins);
        if options.write {
            fs_err::create_dir_all(&self.folder)?;
        }
        let (store, options) = foreign.into_store(&self.folder, options)?;
        Ok(OpenedIndex { store: Box::new(store), options, origins })
    }
}
