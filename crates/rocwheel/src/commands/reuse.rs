//! The options of commands that write wheels about packed bytes of earlier wheels. Input: the
//! options and the output. Output: the [`PackedSource`] of the run.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use rocwheel_index::page::{self, PageLink};
use rocwheel_index::{Fetch, Source};
use rocwheel_release::{S3Address, StoredBytes, open_remote};
use rocwheel_report::Context;
use rocwheel_wheel::{EarlierWheel, PackedSource, WheelName};
use url::Url;

use crate::environment;
use crate::failure::{Failure, Result, Usage};
use crate::printer::{self, Printer};
use crate::store::BucketOptions;

/// Projects of an index whose pages are read. More are no index of one team's wheels.
const MOST_PROJECTS: usize = 1000;
/// Limit in bytes for a page of an index.
const PAGE: u64 = 64 << 20;

/// The options of every command that compresses members of wheels.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ReuseArguments {
    /// Directory, package index or bucket (s3://…) with wheels of an earlier run: content that
    /// they have is not compressed again; may be repeated [always searched: the output directory]
    ///
    /// The result is the same with and without it. Only wheels whose packing rocwheel recorded in
    /// its cache (ROCWHEEL_CACHE) are reused.
    #[arg(long, value_name = "DIR|INDEX|STORE", conflicts_with = "no_reuse")]
    reuse: Vec<OsString>,
    /// Compress everything, and record nothing for later runs
    #[arg(long)]
    no_reuse: bool,
}

impl ReuseArguments {
    /// `true` if the user named earlier wheels.
    pub(crate) fn is_given(&self) -> bool {
        !self.reuse.is_empty()
    }

    /// The earlier wheels, with those in `output`.
    ///
    /// # Errors
    /// A directory, index or bucket that cannot be listed.
    pub(crate) fn source(&self, output: Option<&Path>, printer: &Printer) -> Result<PackedSource> {
        let Some(cache) = environment::cache().filter(|_| !self.no_reuse) else {
            return Ok(PackedSource::default());
        };
        let source = PackedSource::new(cache.join("packed"));
        if let Some(output) = output {
            // It may be missing, or a folder that the command refuses later.
            let _ = source.add_path(output);
        }
        for place in &self.reuse {
            match place.to_str() {
                Some(text) if text.starts_with("http://") || text.starts_with("https://") => {
                    add_index(&source, text, printer)?;
                }
                Some(text) if S3Address::is_meant(text) => add_store(&source, place, printer)?,
                _ => {
                    let path = Path::new(place);
                    source.add_path(path).with_context(|| format!("cannot search `{}` for wheels", path.display()))?;
                }
            }
        }
        Ok(source)
    }
}

/// Reports how much was not compressed again.
pub(crate) fn tell_reuse(source: &PackedSource, printer: &Printer) {
    let bytes = source.reused();
    if bytes > 0 {
        printer.note(format!("{} of unchanged content were not compressed again", printer::bytes(bytes)));
    }
}

/// Adds the wheels of a bucket that have the size of a recorded one.
fn add_store(source: &PackedSource, place: &OsString, printer: &Printer) -> Result<()> {
    let store = BucketOptions::of_environment().place(place.clone())?.open(printer)?;
    let sizes = source.recorded_sizes();
    for file in store.list("", printer.reporter())? {
        if WheelName::is_wheel(&file.key)
            && sizes.contains(&file.size)
            && let StoredBytes::Remote(content) = store.bytes(&file)?
        {
            source.add(EarlierWheel::remote(content.open()?, file.size));
        }
    }
    Ok(())
}

/// Adds the wheels of an index that have the size of a recorded one. The address may be that of the
/// index, of one project in it, or of another page with links to wheels.
fn add_index(source: &PackedSource, text: &str, printer: &Printer) -> Result<()> {
    let Source::Index(root) = Source::parse(text)? else { return Ok(()) };
    let http = environment::http(root.scheme())?;
    let root = http.remember(&root);
    let http: Arc<dyn Fetch> = Arc::new(http);
    let first = IndexPage::read(&*http, &root)?;
    // The JSON form of a list of projects has no files.
    let mut links = first.wheels().unwrap_or_default();
    if links.is_empty() {
        let projects = page::parse_root(&first.content_type, &first.body, &first.address)
            .map_err(|reason| bad_page(&root, &reason))?;
        if projects.len() > MOST_PROJECTS {
            let message = format!("`{root}` has {} projects, too many to search for earlier wheels", projects.len());
            return Err(Usage::new(message).hint("name the page of one project").into());
        }
        for project in projects {
            printer.reporter().check()?;
            let name = rocwheel_wheel::canonical_name(&project);
            links.extend(IndexPage::read(&*http, &root.join(&format!("{name}/")).map_err(Failure::other)?)?.wheels()?);
        }
    }
    let sizes = source.recorded_sizes();
    for link in links {
        let size = match link.size {
            Some(size) => Some(size),
            None => http.head(&link.address).ok().and_then(|answer| answer.size),
        };
        if let Some(size) = size.filter(|size| sizes.contains(size)) {
            source.add(EarlierWheel::remote(open_remote(Arc::clone(&http), link.address, size), size));
        }
    }
    Ok(())
}

/// A page of an index.
struct IndexPage {
    content_type: String,
    body: Vec<u8>,
    address: Url,
}

impl IndexPage {
    fn read(http: &dyn Fetch, address: &Url) -> Result<IndexPage> {
        let attempt = || format!("cannot read `{address}` for earlier wheels");
        let answer = http.get(address, page::ACCEPT).map_err(|error| Failure::other(error).context(attempt()))?;
        if answer.status != 200 {
            return Err(Failure::message(format!("{}: the server answers {}", attempt(), answer.status)));
        }
        let mut body = Vec::new();
        answer.body.take(PAGE).read_to_end(&mut body).with_context(attempt)?;
        Ok(IndexPage { content_type: answer.content_type, body, address: answer.address })
    }

    fn wheels(&self) -> Result<Vec<PageLink>> {
        let links = page::parse(&self.content_type, &self.body, &self.address);
        let mut links = links.map_err(|reason| bad_page(&self.address, &reason))?;
        links.retain(|link| WheelName::is_wheel(&link.file_name));
        Ok(links)
    }
}

fn bad_page(address: &Url, reason: &str) -> Failure {
    Failure::message(format!("`{address}` is no page of a package index: {reason}"))
}
