//! Streams in `--reuse`. Input: the address of a stream, and keys. Output: its wheels in the
//! [`PackedSource`], those with a record that the signed snapshot names as if they were our own.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use rocwheel_archive::{EarlierWheel, PackedSource};
use rocwheel_attest::PublicKey;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::index_site::site;
use rocwheel_console::printer::Printer;
use rocwheel_console::store::BucketOptions;
use rocwheel_console::{environment, message};
use rocwheel_delta::IndexSite;
use rocwheel_index::{scheme_of, text_without_users};
use rocwheel_progress::Context;
use rocwheel_store::{FolderSite, RemoteServer, open_remote};
use rocwheel_stream::{RecordedStream, StreamWheel, read_recorded};
use url::Url;

use super::first_of;

/// Adds the wheels of a stream. Returns `false` if there is no stream at `place`.
///
/// # Errors
/// A stream that cannot be read, or that none of the keys has signed.
pub(super) fn add_stream(source: &PackedSource, place: &OsStr, keys: &[PublicKey], printer: &Printer) -> Result<bool> {
    let IndexSite { root, fetch } = open_site(place, printer)?;
    let shown = text_without_users(&place.to_string_lossy());
    let Some(stream) = read_recorded((&*fetch, &root), (keys, environment::clock()), printer.reporter())? else {
        printer.note(format!("`{shown}` is no stream, so `--reuse-key` changes nothing there"));
        return Ok(false);
    };
    let RecordedStream { wheels, damaged, expired } = stream;
    let server = RemoteServer::new(format!("`{shown}`"), printer.progress());
    let open = |wheel: &StreamWheel| match wheel.address.to_file_path() {
        Ok(path) if wheel.address.scheme() == "file" => EarlierWheel::at(&path),
        _ => {
            let reader = open_remote(Arc::clone(&fetch), wheel.address.clone(), wheel.size, printer.progress());
            let name = wheel.address.path().rsplit('/').next().unwrap_or_default();
            Some(EarlierWheel::remote(server.watch(reader, name), wheel.size))
        }
    };
    let own = source.recorded_sizes();
    let (mut recorded, mut others) = (0, 0);
    for wheel in &wheels {
        if let Some(record) = &wheel.record {
            recorded += 1;
            let Some(earlier) = open(wheel) else { continue };
            others += u64::from(!source.add_recorded(earlier, record));
        }
        if own.contains(&wheel.size)
            && let Some(earlier) = open(wheel)
        {
            source.add(earlier);
        }
    }
    if let Some(reason) = expired {
        printer.warn(format!("`--reuse-key` changes nothing at `{shown}`: {reason}"));
    } else if recorded == 0 && damaged.is_empty() {
        printer.note(format!("no wheel of `{shown}` was published with a record of how it was packed"));
    }
    if others > 0 {
        let others = message::count(others, "wheel", "wheels");
        printer.note(format!("not reused: {others} of `{shown}`, not packed by this version of rocwheel"));
    }
    if !damaged.is_empty() {
        let wheels = message::count(damaged.len() as u64, "wheel", "wheels");
        printer.warn(format!("{wheels} of `{shown}` cannot be reused: {}", first_of(damaged)));
    }
    Ok(true)
}

/// A client for the files below an address or a folder.
fn open_site(place: &OsStr, printer: &Printer) -> Result<IndexSite> {
    if place.to_str().and_then(scheme_of).is_some() {
        return site(place, &BucketOptions::of_environment(), printer);
    }
    let path = rocwheel_system::canonicalize(Path::new(place))
        .with_context(|| format!("cannot search `{}` for wheels", place.display()))?;
    let root = Url::from_directory_path(&path);
    let root = root.map_err(|()| Failure::message(format!("`{}` has no address", path.display())))?;
    Ok(IndexSite { root, fetch: Arc::new(FolderSite) })
}
