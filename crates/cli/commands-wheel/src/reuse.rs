//! The options of commands that write wheels about packed bytes of earlier wheels. Input: the
//! options and the output. Output: the [`PackedSource`] of the run.

mod stream;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rocwheel_archive::{EarlierWheel, PackedSource};
use rocwheel_artifact::archive::Scratch;
use rocwheel_attest::PublicKey;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_console::store::BucketOptions;
use rocwheel_console::{environment, message};
use rocwheel_index::page::{self, PageLink};
use rocwheel_index::{Fetch, Source, scheme_of, text_without_users};
use rocwheel_progress::{Context, Reporter, Watched, WithoutProgress};
use rocwheel_store::{RemoteServer, StoredBytes, open_remote};
use rocwheel_wheel::{WheelName, add_earlier_wheels};
use url::{Origin, Url};

/// Projects of an index whose pages are read. More are no index of one team's wheels.
const MOST_PROJECTS: usize = 1000;
/// Things of one kind that a warning names.
const MOST_NAMES: usize = 3;
/// Limit in bytes for a page of an index.
const PAGE: u64 = 64 << 20;

/// The options of every command that compresses members of wheels.
#[derive(Debug, Clone, Default, Args)]
pub struct ReuseArguments {
    /// Directory, package index or bucket (s3://…) with wheels of an earlier run: content that
    /// they have is not compressed again; may be repeated [always searched: the output directory]
    ///
    /// The result is the same with and without it. Only wheels whose packing rocwheel recorded in
    /// its cache (ROCWHEEL_CACHE) are reused, and those of a stream with `--reuse-key`.
    #[arg(long, value_name = "DIR|INDEX|STORE", conflicts_with = "no_reuse")]
    reuse: Vec<OsString>,
    /// Public key of which a stream in `--reuse` needs a signature, in PEM; may be repeated. The
    /// stream's newest wheels are reused as if this machine had packed them
    #[arg(long, value_name = "FILE", requires = "reuse")]
    reuse_key: Vec<PathBuf>,
    /// Unpack what is reused, and compare it with the content. Otherwise the hashes of both in the
    /// records are believed
    #[arg(long, conflicts_with = "no_reuse")]
    verify_reuse: bool,
    /// Compress everything, and record nothing for later runs
    #[arg(long)]
    no_reuse: bool,
}

impl ReuseArguments {
    /// `true` if the user named earlier wheels.
    pub(crate) fn is_given(&self) -> bool {
        !self.reuse.is_empty()
    }

    /// The folders of this machine with earlier wheels.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> {
        let places = self.reuse.iter().filter(|place| place.to_str().is_none_or(|text| scheme_of(text).is_none()));
        places.map(Path::new)
    }

    /// The scratch directory for archives, as these options want it.
    pub(crate) fn unpacking(&self, scratch: Scratch) -> Scratch {
        match (self.no_reuse, self.verify_reuse) {
            (true, _) => scratch.anew(),
            (_, true) => scratch.compare(),
            _ => scratch,
        }
    }

    /// The earlier wheels, with those in `output`.
    ///
    /// # Errors
    /// A directory, index or bucket that cannot be listed, and other addresses.
    pub(crate) fn source(&self, output: Option<&Path>, printer: &Printer) -> Result<PackedSource> {
        let Some(cache) = environment::cache().filter(|_| !self.no_reuse) else {
            return Ok(PackedSource::default());
        };
        let source = records_below(&cache);
        if self.verify_reuse {
            source.verify();
        }
        if let Some(output) = output {
            // It may be missing, or a folder that the command refuses later.
            let _ = add_earlier_wheels(&source, output);
        }
        let keys = self.reuse_key.iter().map(|path| public_key(path)).collect::<Result<Vec<_>>>()?;
        for place in &self.reuse {
            if !keys.is_empty() && stream::add_stream(&source, place, &keys, printer)? {
                continue;
            }
            let scheme = place.to_str().and_then(|text| Some((text, scheme_of(text)?)));
            match scheme.as_ref().map(|(text, scheme)| (*text, scheme.as_str())) {
                None => add_folder(&source, Path::new(place), printer)?,
                Some((text, "http" | "https")) => add_index(&source, text, printer)?,
                Some((text, "s3")) => add_store(&source, text, printer)?,
                Some((text, _)) => {
                    let message = format!("`{}` cannot be searched for wheels", text_without_users(text));
                    let hint = "give a folder, or an address that begins with http://, https:// or s3://";
                    return Err(Usage::new(message).hint(hint).into());
                }
            }
        }
        Ok(source)
    }
}

/// How this machine packed wheels, for those who publish them.
pub fn own_records() -> PackedSource {
    environment::cache().map_or_else(PackedSource::default, |cache| records_below(&cache))
}

fn records_below(cache: &Path) -> PackedSource {
    PackedSource::new(cache.join("packed"))
}

/// Reports how much was not compressed again.
pub(crate) fn tell_reuse(source: &PackedSource, printer: &Printer) {
    let bytes = source.reused();
    if bytes > 0 {
        printer.note(format!("{} of unchanged content were not compressed again", message::bytes(bytes)));
    }
}

/// Adds a wheel, or the wheels in a folder and below it, without hidden folders. A folder below it
/// that cannot be read is a warning: what its wheels have is compressed again.
fn add_folder(source: &PackedSource, path: &Path, printer: &Printer) -> Result<()> {
    let unlisted =
        add_earlier_wheels(source, path).with_context(|| format!("cannot search `{}` for wheels", path.display()))?;
    if !unlisted.is_empty() {
        let errors = unlisted.iter().map(ToString::to_string).collect();
        printer.warn(format!("not searched for earlier wheels: {}", first_of(errors)));
    }
    Ok(())
}

/// Adds the wheels of a bucket that have the size of a recorded one.
fn add_store(source: &PackedSource, text: &str, printer: &Printer) -> Result<()> {
    let store = BucketOptions::of_environment().place(text.into())?.open(printer)?;
    let server = RemoteServer::new(format!("`{text}`"), printer.progress());
    let sizes = source.recorded_sizes();
    for file in store.list("", printer.reporter())? {
        if WheelName::is_wheel(&file.key)
            && sizes.contains(&file.size)
            && let StoredBytes::Remote(content) = store.bytes(&file)?
        {
            source.add(EarlierWheel::remote(server.watch(content.open()?, file.key), file.size));
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
    let mut servers = Servers::new(printer);
    let links = wheel_links((&*http, &root), "earlier wheels", &mut servers)?;
    let sizes = source.recorded_sizes();
    for link in links {
        printer.reporter().check()?;
        let server = servers.of(&link.address);
        let size = link.size.or_else(|| server.size(&*http, &link.address));
        if let Some(size) = size.filter(|size| sizes.contains(size)) {
            let reader = open_remote(Arc::clone(&http), link.address, size, printer.progress());
            source.add(EarlierWheel::remote(server.watch(reader, link.file_name), size));
        }
    }
    Ok(())
}

/// The wheels of an index, of one project in it, or of another page with links to wheels. `purpose`
/// is for messages: `earlier wheels`.
///
/// # Errors
/// An address that cannot be read, is no page of an index, or has too many projects.
pub(crate) fn wheel_links(
    (http, root): (&dyn Fetch, &Url),
    purpose: &str,
    servers: &mut Servers<'_>,
) -> Result<Vec<PageLink>> {
    let reporter = servers.printer.reporter();
    let first = IndexPage::read(http, root, reporter);
    reporter.check()?;
    let first = first.with_context(|| format!("cannot read `{root}` for {purpose}"))?;
    // The JSON form of a list of projects has no files.
    let links = first.wheels().unwrap_or_default();
    if links.is_empty() {
        let projects = page::parse_root(&first.content_type, &first.body, &first.address)
            .map_err(|reason| Failure::message(format!("`{root}` is no page of a package index: {reason}")))?;
        let names: BTreeSet<String> = projects.iter().map(|name| rocwheel_wheel::canonical_name(name)).collect();
        if names.len() > MOST_PROJECTS {
            let message = format!("`{root}` has {} projects, too many to search for {purpose}", names.len());
            return Err(Usage::new(message).hint("name the page of one project").into());
        }
        return links_of_projects((http, root), &names, purpose, servers);
    }
    Ok(links)
}

/// The wheels of some projects. The index may change while it is read, so a page that cannot be
/// read is a warning.
fn links_of_projects(
    (http, root): (&dyn Fetch, &Url),
    names: &BTreeSet<String>,
    purpose: &str,
    servers: &mut Servers<'_>,
) -> Result<Vec<PageLink>> {
    let server = servers.of(root);
    let printer = servers.printer;
    let (mut links, mut skipped) = (Vec::new(), Vec::new());
    for name in names {
        printer.reporter().check()?;
        if server.is_given_up() {
            break;
        }
        let address = root.join(&format!("{name}/")).map_err(Failure::other)?;
        match IndexPage::read(http, &address, printer.reporter()).and_then(|page| page.wheels()) {
            Ok(wheels) => links.extend(wheels),
            // The server is given up, which is a warning too.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => server.note(&error),
            Err(error) => skipped.push(format!("`{name}` ({error})")),
        }
    }
    printer.reporter().check()?;
    if !skipped.is_empty() {
        let (count, all) = (message::count(skipped.len() as u64, "page", "pages"), names.len());
        let first = first_of(skipped);
        printer.warn(format!("{count} of {all} at `{root}` cannot be read for {purpose}: {first}"));
    }
    Ok(links)
}

/// The first few texts of a warning, and the number of the others.
fn first_of(mut texts: Vec<String>) -> String {
    let more = texts.len().saturating_sub(MOST_NAMES);
    texts.truncate(MOST_NAMES);
    if more > 0 {
        texts.push(format!("{more} more"));
    }
    texts.join(", ")
}

/// The servers of one run. An index may link to files of others.
pub(crate) struct Servers<'a> {
    all: HashMap<Origin, Arc<RemoteServer>>,
    printer: &'a Printer,
}

impl<'a> Servers<'a> {
    pub(crate) fn new(printer: &'a Printer) -> Servers<'a> {
        Servers { all: HashMap::new(), printer }
    }

    /// The server of an address.
    pub(crate) fn of(&mut self, address: &Url) -> Arc<RemoteServer> {
        let server = self.all.entry(address.origin()).or_insert_with_key(|origin| {
            RemoteServer::new(format!("`{}`", origin.ascii_serialization()), self.printer.progress())
        });
        Arc::clone(server)
    }
}

/// A page of an index.
struct IndexPage {
    content_type: String,
    body: Vec<u8>,
    address: Url,
}

impl IndexPage {
    fn read(http: &dyn Fetch, address: &Url, reporter: &dyn Reporter) -> io::Result<IndexPage> {
        let answer = http.get(address, page::ACCEPT).map_err(rocwheel_store::io_error)?;
        if answer.status != 200 {
            return Err(io::Error::other(format!("the server answers {}", answer.status)));
        }
        let mut body = Vec::new();
        Watched::new(answer.body, &WithoutProgress(reporter)).take(PAGE).read_to_end(&mut body)?;
        Ok(IndexPage { content_type: answer.content_type, body, address: answer.address })
    }

    fn wheels(&self) -> io::Result<Vec<PageLink>> {
        let links = page::parse(&self.content_type, &self.body, &self.address);
        let mut links =
            links.map_err(|reason| io::Error::other(format!("it is no page of a package index: {reason}")))?;
        links.retain(|link| WheelName::is_wheel(&link.file_name));
        Ok(links)
    }
}

/// Reads a public key, or the public half of a private one.
pub fn public_key(path: &Path) -> Result<PublicKey> {
    Ok(PublicKey::parse(&fs_err::read_to_string(path)?, &path.to_string_lossy())?)
}
