//! Input: a file on a page. Output: where the page and the file contradict each other.

use std::io::{self, Read, Write as _};
use std::path::Path;

use rocwheel_content::{HashAlgorithm, Hasher, hexadecimal};
use rocwheel_delta::DeltaDescription;
use rocwheel_index::Answer;
use rocwheel_index::companion::DELTA;
use rocwheel_index::page::{FileHash, MetadataBeside, PageLink};
use rocwheel_progress::{NamedWriter, Watched};
use rocwheel_store::Error as StoreError;
use rocwheel_store::listing::distribution;
use rocwheel_wheel::{Headers, WheelName};
use url::Url;

use super::installers::{Installer, unpack};
use super::page::stored;
use super::{IndexFault, Site};
use crate::error::Error;
use crate::{facts, file_rules};

/// The largest METADATA that is read.
const METADATA_LIMIT: u64 = 64 << 20;

impl Site<'_> {
    pub(super) fn file(&self, page: &Url, link: &PageLink, faults: &mut Vec<IndexFault>) -> Result<(), Error> {
        let name = &link.file_name;
        if link.hash.is_none() {
            let text = format!(
                "`{name}` has no hash of SHA-2: installers do not notice that it was damaged or replaced, \
                 and lock files get no hash that `--require-hashes` accepts"
            );
            faults.push(IndexFault::error(page, text));
        }
        if link.size.is_none() || link.uploaded.is_none() {
            let text =
                "files have no size or upload time: `uv --exclude-newer` ignores them, `pip --uploaded-prior-to` stops";
            faults.push(IndexFault::warning(page, text));
        }
        if Url::parse(&link.written).is_ok() && link.address.origin() == page.origin() && page.scheme() != "file" {
            faults.push(IndexFault::warning(page, "links are absolute: mirrors and proxies cannot rewrite them"));
        }
        if link.written.contains('+') {
            let text = "`+` stands in addresses: S3 and some proxies read it as a blank";
            faults.push(IndexFault::warning(page, text).hint("write `%2B`"));
        }
        if !self.exists(link, faults) {
            return Ok(());
        }
        let beside = self.metadata(link, faults);
        if WheelName::is_wheel(name) && link.metadata == MetadataBeside::No {
            let text =
                "wheels have no METADATA beside them: installers download whole wheels to read their requirements";
            faults.push(IndexFault::warning(page, text));
        }
        let mut headers = beside.as_deref().map(|bytes| Headers::parse(&String::from_utf8_lossy(bytes)));
        if self.options.files || link.address.scheme() == "file" {
            self.delta(link, faults);
            let inside = self.contents(link, beside.as_deref(), faults)?;
            headers = headers.or(inside);
        }
        if let Some(headers) = headers {
            self.found.add(link, &headers);
        }
        Ok(())
    }

    fn exists(&self, link: &PageLink, faults: &mut Vec<IndexFault>) -> bool {
        let answer = match self.fetch.head(&link.address) {
            Ok(Answer { status, .. }) if ![200, 404, 410].contains(&status) => {
                // Servers and signed addresses may know GET alone.
                let answer = self.fetch.get_with(&link.address, &[("Range", "bytes=0-0")]);
                if answer.as_ref().is_ok_and(|answer| matches!(answer.status, 200 | 206)) {
                    let text = format!("it answers {status} to HEAD: uv and pip do not read parts of it");
                    faults.push(IndexFault::warning(&link.address, text));
                    return true;
                }
                answer
            }
            answer => answer,
        };
        let answer = match answer {
            Ok(answer) if answer.status == 200 => answer,
            Ok(answer) => {
                faults.push(IndexFault::error(
                    &link.address,
                    format!("the page lists it, and it answers {}", answer.status),
                ));
                return false;
            }
            Err(error) => {
                faults.push(IndexFault::error(
                    &link.address,
                    format!("the page lists it, and there is no answer: {error}"),
                ));
                return false;
            }
        };
        if let (Some(size), Some(listed)) = (answer.size, link.size)
            && size != listed
        {
            let text = format!("it has {size} bytes, and the page says {listed}: it was replaced or cut off");
            faults.push(IndexFault::error(&link.address, text));
        }
        check_encoding(&link.address, &answer, faults);
        if is_page(&answer) {
            let text = format!("it is a page (`{}`), and no file: installers cannot read it", answer.content_type);
            faults.push(
                IndexFault::error(&link.address, text)
                    .hint("if it is the page of a login or of an error, let the server answer 401 or 404"),
            );
            return false;
        }
        if answer.cache_control.to_ascii_lowercase().contains("no-store") {
            let text = "files have `Cache-Control: no-store`: installers download them every time";
            faults.push(IndexFault::warning(&link.address, text));
        }
        true
    }

    /// METADATA beside a wheel, if it is what the page promises.
    fn metadata(&self, link: &PageLink, faults: &mut Vec<IndexFault>) -> Option<Vec<u8>> {
        let MetadataBeside::Yes(hash) = &link.metadata else { return None };
        let mut address = link.address.clone();
        address.set_path(&format!("{}.metadata", link.address.path()));
        let mut first: Option<Vec<u8>> = None;
        for installer in Installer::ALL {
            let bytes = match self.read_metadata(&address, installer, faults) {
                Ok(bytes) => bytes,
                Err(reason) => {
                    faults.push(IndexFault::error(&address, reason));
                    return None;
                }
            };
            if first.as_ref() == Some(&bytes) {
                break;
            }
            if let Some(hash) = hash
                && digest(hash, &bytes[..]).is_ok_and(|found| found != hash.hexadecimal)
            {
                let text = format!("its hash is not that of the page: {} stops", installer.name());
                faults.push(IndexFault::error(&address, text));
            }
            first.get_or_insert(bytes);
        }
        let bytes = first?;
        let headers = Headers::parse(&String::from_utf8_lossy(&bytes));
        if let Some(one) = distribution(stored(link))
            && let Err(reason) = file_rules::check_metadata(&headers, &one)
        {
            faults.push(IndexFault::error(&address, format!("{reason}: installers stop")));
            return Some(bytes);
        }
        let python = headers.get("Requires-Python").filter(|python| !python.trim().is_empty());
        if python != link.python {
            let [own, listed] = [&python, &link.python].map(|python| python.as_deref().unwrap_or("nothing"));
            let text = format!("it has Requires-Python {own}, and the page {listed}");
            faults.push(IndexFault::error(&address, text));
        }
        Some(bytes)
    }

    /// METADATA as an installer gets it. The error is the reason why it does not.
    fn read_metadata(
        &self,
        address: &Url,
        installer: Installer,
        faults: &mut Vec<IndexFault>,
    ) -> Result<Vec<u8>, String> {
        let answer = match self.fetch.get_with(address, &installer.metadata_headers()) {
            Ok(answer) if answer.status == 200 => answer,
            Ok(answer) => {
                return Err(format!("the page promises it, and it answers {}: installers stop", answer.status));
            }
            Err(error) => return Err(format!("the page promises it, and there is no answer: {error}")),
        };
        let encoding = answer.encoding.clone();
        let unpacks = installer == Installer::Uv;
        if !unpacks {
            check_encoding(address, &answer, faults);
        }
        let mut bytes = Vec::new();
        answer
            .body
            .take(METADATA_LIMIT)
            .read_to_end(&mut bytes)
            .and_then(|_| if unpacks { unpack(&encoding, bytes, METADATA_LIMIT) } else { Ok(bytes) })
            .map_err(|error| format!("{} cannot read it: {error}", installer.name()))
    }

    /// The description of a wheel's pieces, if there is one.
    fn delta(&self, link: &PageLink, faults: &mut Vec<IndexFault>) {
        let mut address = link.address.clone();
        address.set_path(&format!("{}{DELTA}", link.address.path()));
        let Ok(answer) = self.fetch.get(&address, "*/*") else { return };
        let mut bytes = Vec::new();
        if answer.status != 200 || answer.body.take(METADATA_LIMIT).read_to_end(&mut bytes).is_err() {
            return;
        }
        let sha256 = link.hash.as_ref().filter(|hash| hash.algorithm == HashAlgorithm::Sha256);
        let sha256 = sha256.map(|hash| hash.hexadecimal.as_str());
        let checked = DeltaDescription::parse(&bytes).and_then(|description| description.check(link.size, sha256));
        if let Err(reason) = checked {
            let text = format!("it {reason}: `rocwheel release get` downloads the whole wheel");
            faults.push(IndexFault::warning(&address, text).hint("publish the wheel again with `--delta`"));
        }
    }

    /// The fault of a wheel that cannot be unpacked, although the page was made of it.
    fn damage(&self, path: &Path, link: &PageLink) -> Result<Option<IndexFault>, Error> {
        let unpacked = facts::unpack(path, self.reporter);
        self.reporter.check()?;
        Ok(unpacked.err().map(|error| {
            let text = format!("{}: installers stop", rocwheel_progress::with_causes(&error));
            let fault = IndexFault::error(&link.address, text);
            IndexFault { needs_files: true, ..fault.hint("build or download the wheel again, and make its page again") }
        }))
    }

    /// Compares the file itself with its page and with METADATA beside it. Returns its METADATA, if
    /// there is none beside it.
    fn contents(
        &self,
        link: &PageLink,
        beside: Option<&[u8]>,
        faults: &mut Vec<IndexFault>,
    ) -> Result<Option<Headers>, Error> {
        let folder;
        let path = if let Ok(path) = link.address.to_file_path() {
            path
        } else {
            folder = tempfile::tempdir().map_err(|source| StoreError::Write { path: std::env::temp_dir(), source })?;
            let path = folder.path().join(&link.file_name);
            if let Err(error) = self.download(&link.address, &path, faults) {
                self.reporter.check()?;
                let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
                if let Some(kind @ (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) = kind {
                    // That says nothing about the index.
                    return Err(StoreError::Write { path: std::env::temp_dir(), source: kind.into() }.into());
                }
                faults.push(IndexFault::error(&link.address, format!("it cannot be downloaded: {error}")));
                return Ok(None);
            }
            path
        };
        let is_wheel = WheelName::is_wheel(&link.file_name);
        let mut damage = None;
        if self.options.files
            && let Some(hash) = &link.hash
        {
            let read = fs_err::File::open(&path).and_then(|file| digest(hash, Watched::new(file, self.reporter)));
            self.reporter.check()?;
            match read {
                Ok(found) if found == hash.hexadecimal && !is_wheel => {}
                Ok(found) if found == hash.hexadecimal => damage = self.damage(&path, link)?,
                Ok(found) => {
                    let (name, listed) = (hash.algorithm.name(), &hash.hexadecimal);
                    let text = format!("its {name} is {found}, and the page says {listed}: every installation fails");
                    faults.push(IndexFault::error(&link.address, text));
                }
                Err(error) => faults.push(IndexFault::error(&link.address, format!("it cannot be read: {error}"))),
            }
        }
        if let Some(beside) = beside.filter(|_| is_wheel) {
            match facts::metadata(&path) {
                Ok(inside) if inside == beside => {}
                Ok(_) => {
                    let text = "METADATA beside it is not that in the wheel: pip 26.2 and later stops";
                    faults.push(IndexFault::error(&link.address, text));
                }
                // A damaged wheel has its fault already, and no new page mends it.
                Err(_) if damage.is_some() => {}
                Err(error) => faults.push(IndexFault::error(&link.address, rocwheel_progress::with_causes(&error))),
            }
        }
        faults.extend(damage);
        if beside.is_some() {
            return Ok(None);
        }
        if is_wheel {
            return Ok(facts::metadata(&path).ok().map(|bytes| Headers::parse(&String::from_utf8_lossy(&bytes))));
        }
        Ok(rocwheel_wheel::sdist_metadata(&path, self.reporter).ok())
    }

    fn download(
        &self,
        address: &Url,
        path: &std::path::Path,
        faults: &mut Vec<IndexFault>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let answer = self.fetch.get_with(address, &Installer::Pip.metadata_headers())?;
        if answer.status != 200 {
            return Err(format!("it answers {}", answer.status).into());
        }
        check_encoding(address, &answer, faults);
        let mut file = NamedWriter::new(fs_err::File::create(path)?, std::env::temp_dir());
        io::copy(&mut Watched::new(answer.body, self.reporter), &mut file)?;
        file.flush()?;
        Ok(())
    }
}

/// Reports an answer that is packed although the request did not allow it. uv unpacks it, pip does
/// not.
fn check_encoding(address: &Url, answer: &Answer, faults: &mut Vec<IndexFault>) {
    if answer.encoding.is_empty() {
        return;
    }
    let text = format!(
        "it has `Content-Encoding: {}` for those who ask for `identity`: pip takes the bytes as they come, uv unpacks \
         them, and one of the two cannot read it",
        answer.encoding
    );
    faults.push(IndexFault::error(address, text).hint("let the server send packages and METADATA without that header"));
}

fn is_page(answer: &Answer) -> bool {
    answer.content_type.trim_start().to_ascii_lowercase().starts_with("text/html")
}

fn digest(hash: &FileHash, reader: impl Read) -> io::Result<String> {
    let mut hasher = Hasher::new(hash.algorithm);
    hasher.read(reader)?;
    Ok(hexadecimal(&hasher.finish()))
}
