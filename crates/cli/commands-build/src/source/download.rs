//! Input: the address of a source archive and its SHA-256. Output: the file, from the cache or the
//! network.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_index::{Fetch as _, Http};
use rocwheel_progress::{Reporter, Unit};
use tempfile::NamedTempFile;
use url::Url;

/// The path of an archive below `cache`, in a folder named after the digest. Downloads the archive
/// if it is missing or damaged.
pub(crate) fn archive(address: &str, sha256: &str, cache: &Path, reporter: &dyn Reporter) -> Result<PathBuf> {
    let url = Url::parse(address)
        .map_err(|error| Failure::other(error).context(format!("cannot understand the address `{address}`")))?;
    let name = url.path_segments().and_then(|mut parts| parts.next_back()).filter(|name| !name.is_empty());
    let folder = cache.join("archives").join(sha256);
    let path = folder.join(name.unwrap_or("archive"));
    if path.is_file() && rocwheel_source::sha256(&path, reporter)? == sha256 {
        return Ok(path);
    }
    fs_err::create_dir_all(&folder)?;
    let mut file = NamedTempFile::new_in(&folder)?;
    if let Err(failure) = fetch(&url, &mut file, reporter) {
        reporter.check()?;
        return Err(failure.context(format!("cannot fetch `{address}`")));
    }
    let found = rocwheel_source::sha256(file.path(), reporter)?;
    if found != sha256 {
        return Err(rocwheel_source::checksum(address.as_ref(), &found, sha256));
    }
    rocwheel_system::persist(file, &path)?;
    Ok(path)
}

fn fetch(url: &Url, file: &mut NamedTempFile, reporter: &dyn Reporter) -> Result<()> {
    let http = Http::new(environment::proxy().as_deref()).map_err(Failure::other)?;
    let mut answer = http.get(url, "*/*").map_err(Failure::other)?;
    if !(200..300).contains(&answer.status) {
        return Err(Failure::message(format!("the server answered with status {}", answer.status)));
    }
    let _stage = reporter.stage("Fetching the archive", None, Unit::Bytes);
    let written = copy(&mut answer.body, file, reporter);
    Ok(written?)
}

fn copy(body: &mut dyn io::Read, file: &mut NamedTempFile, reporter: &dyn Reporter) -> io::Result<()> {
    let mut page = vec![0; 1 << 16];
    loop {
        let read = body.read(&mut page)?;
        if read == 0 {
            return Ok(());
        }
        reporter.check().map_err(io::Error::other)?;
        file.write_all(&page[..read])?;
        reporter.advance(read as u64);
    }
}
