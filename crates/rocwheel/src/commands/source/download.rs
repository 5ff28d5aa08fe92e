//! Input: the address of a source archive and its SHA-256. Output: the file, from the cache or the
//! network.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rocwheel_index::{Fetch as _, Http};
use rocwheel_report::Context;
use rocwheel_report::{Interrupted, Reporter, Unit};
use url::Url;

use crate::environment;
use crate::failure::{Failure, Result};

/// The file below `cache`, where it is under its digest, so that what is there is what is wanted.
pub(crate) fn archive(address: &str, sha256: &str, cache: &Path, reporter: &dyn Reporter) -> Result<PathBuf> {
    let url = Url::parse(address)
        .map_err(Failure::other)
        .with_context(|| format!("cannot understand the address `{address}`"))?;
    let name = url.path_segments().and_then(|mut parts| parts.next_back()).filter(|name| !name.is_empty());
    let folder = cache.join("archives").join(sha256);
    let path = folder.join(name.unwrap_or("archive"));
    if path.is_file() && rocwheel_source::sha256(&path, reporter)? == sha256 {
        return Ok(path);
    }
    fs_err::create_dir_all(&folder)?;
    let fetched = fetch(&url, &folder, reporter).with_context(|| format!("cannot fetch `{address}`"))?;
    let found = rocwheel_source::sha256(fetched.path(), reporter)?;
    if found != sha256 {
        let wanted = sha256.to_owned();
        return Err(rocwheel_source::Error::Checksum { path: address.into(), found, wanted }.into());
    }
    fetched.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}

fn fetch(url: &Url, folder: &Path, reporter: &dyn Reporter) -> Result<tempfile::NamedTempFile> {
    let http = Http::new(environment::proxy().as_deref()).map_err(Failure::other)?;
    let mut answer = http.get(url, "*/*").map_err(Failure::other)?;
    if !(200..300).contains(&answer.status) {
        return Err(Failure::message(format!("the server answered with status {}", answer.status)));
    }
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    reporter.begin("Fetching the archive", None, Unit::Bytes);
    let mut page = vec![0; 1 << 16];
    let written: io::Result<()> = loop {
        match answer.body.read(&mut page) {
            Ok(0) => break Ok(()),
            _ if reporter.interrupted() => break Err(io::Error::other("interrupted")),
            Ok(read) => {
                if let Err(error) = file.write_all(&page[..read]) {
                    break Err(error);
                }
                reporter.advance(read as u64);
            }
            Err(error) => break Err(error),
        }
    };
    reporter.end();
    match written {
        Ok(()) => Ok(file),
        Err(_) if reporter.interrupted() => Err(rocwheel_source::Error::Interrupted(Interrupted).into()),
        Err(error) => Err(error.into()),
    }
}
