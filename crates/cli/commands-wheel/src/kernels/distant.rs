//! Addresses in `rocwheel kernels`. Input: the address of a file, a package index or a bucket.
//! Output: the GPU code in its files, by their tables.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::index_site::site;
use rocwheel_console::printer::Printer;
use rocwheel_console::store::BucketOptions;
use rocwheel_delta::IndexSite;
use rocwheel_index::page::file_name;
use rocwheel_index::pages::encoded_segment;
use rocwheel_index::{Fetch, address_without_user};
use rocwheel_progress::Context;
use rocwheel_store::{io_error, open_remote_sparsely};
use rocwheel_survey::{DistantFile, Options, Surveyed, survey_distant};
use rocwheel_wheel::WheelName;
use url::Url;

use crate::reuse::{Servers, wheel_links};

/// A file of a server or a bucket.
struct RemoteFile {
    fetch: Arc<dyn Fetch>,
    address: Url,
    name: String,
    /// Size in bytes.
    size: u64,
}

/// Surveys the file, or the wheels and archives, at an address with the scheme `scheme`, and passes
/// each file in them to `each`.
///
/// # Errors
/// An address that cannot be read, and other schemes than http, https and s3.
pub(super) fn survey_address(
    (text, scheme): (&str, &str),
    options: &Options,
    printer: &Printer,
    each: &mut dyn FnMut(Surveyed),
) -> Result<()> {
    let files = match scheme {
        "s3" => files_of_bucket(text, printer)?,
        _ => match file_at(text, printer)? {
            Some(file) => vec![file],
            None => wheels_of_index(text, printer)?,
        },
    };
    for file in files {
        let path = PathBuf::from(address_without_user(&file.address).to_string());
        let open =
            || open_remote_sparsely(Arc::clone(&file.fetch), file.address.clone(), file.size, printer.progress());
        let distant = DistantFile { path, name: file.name, size: file.size, open: &open };
        let surveyed = survey_distant(&distant, options, printer.reporter());
        printer.reporter().check()?;
        let surveyed = surveyed.with_context(|| format!("cannot read `{}`", address_without_user(&file.address)))?;
        surveyed.into_iter().for_each(&mut *each);
    }
    Ok(())
}

/// The file at an address; `None` if the address is that of a page or a folder.
fn file_at(text: &str, printer: &Printer) -> Result<Option<RemoteFile>> {
    // The index reports what is wrong with an address.
    let Ok(address) = Url::parse(text) else { return Ok(None) };
    let name = file_name(&address).unwrap_or_default();
    if Path::new(&name).extension().is_none_or(|extension| extension.eq_ignore_ascii_case("html")) {
        return Ok(None);
    }
    let (plain, _) = text.split_once('?').unwrap_or((text, ""));
    let folder = plain.rsplit_once('/').map_or(plain, |(folder, _)| folder);
    let fetch = site(folder.as_ref(), &BucketOptions::of_environment(), printer)?.fetch;
    let address = address_without_user(&address);
    let shown = address.to_string();
    let answer = fetch.head(&address).map_err(io_error).with_context(|| format!("cannot read `{shown}`"))?;
    match (answer.status, answer.size) {
        (200, Some(size)) => Ok(Some(RemoteFile { fetch, address, name, size })),
        (200, None) => Err(sizeless(&shown)),
        (status, _) => Err(Failure::message(format!("cannot read `{shown}`: the server answers {status}"))),
    }
}

fn sizeless(shown: &str) -> Failure {
    let reason = "the server does not say its size; download it first, and give its path";
    Failure::message(format!("cannot read `{shown}`: {reason}"))
}

fn wheels_of_index(text: &str, printer: &Printer) -> Result<Vec<RemoteFile>> {
    let IndexSite { root, fetch } = site(text.as_ref(), &BucketOptions::of_environment(), printer)?;
    let mut servers = Servers::new(printer);
    let links = wheel_links((&*fetch, &root), "the wheels", &mut servers)?;
    let mut files = Vec::new();
    for link in links {
        printer.reporter().check()?;
        let size = link.size.or_else(|| servers.of(&link.address).size(&*fetch, &link.address));
        let Some(size) = size else { return Err(sizeless(address_without_user(&link.address).as_str())) };
        files.push(RemoteFile { fetch: Arc::clone(&fetch), address: link.address, name: link.file_name, size });
    }
    if files.is_empty() {
        return Err(Failure::message(format!("`{}` has no wheel", address_without_user(&root))));
    }
    Ok(files)
}

fn is_wheel_or_kpack(name: &str) -> bool {
    WheelName::is_wheel(name) || Path::new(name).extension().is_some_and(|extension| extension == "kpack")
}

/// The wheels and archives of a bucket, sorted by key; or the one file whose key the address is.
fn files_of_bucket(text: &str, printer: &Printer) -> Result<Vec<RemoteFile>> {
    let (folder, wanted) = match text.rsplit_once('/') {
        Some((folder, name)) if is_wheel_or_kpack(name) => (folder, Some(name)),
        _ => (text.trim_end_matches('/'), None),
    };
    let store = BucketOptions::of_environment().place(folder.into())?.open(printer)?;
    let IndexSite { root, fetch } = site(folder.as_ref(), &BucketOptions::of_environment(), printer)?;
    let mut files = Vec::new();
    for file in store.list("", printer.reporter())? {
        if wanted.map_or_else(|| is_wheel_or_kpack(&file.key), |wanted| file.key == wanted) {
            let segments: Vec<String> = file.key.split('/').map(encoded_segment).collect();
            let address = root.join(&segments.join("/")).map_err(Failure::other)?;
            let name = file_name(&address).unwrap_or_default();
            files.push(RemoteFile { fetch: Arc::clone(&fetch), address, name, size: file.size });
        }
    }
    files.sort_by(|left, right| left.address.cmp(&right.address));
    if files.is_empty() {
        let what = wanted.map_or_else(|| "no wheel".to_owned(), |name| format!("no `{name}`"));
        return Err(Failure::message(format!("`{folder}` has {what}")));
    }
    Ok(files)
}
