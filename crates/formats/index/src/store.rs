//! Input: links of an index. Output: pages and METADATA in memory, wheels in the cache folder. Each
//! file is checked against the index's hash, and moved into the cache when it is complete.
//!
//! In the cache a file lies in a folder named after its hash, or after its address if the index
//! gives no hash. A file of an index in a folder is used where it is.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use rocwheel_content::{HashAlgorithm, Hasher, hexadecimal, open_regular, sha256};
use rocwheel_progress::{Failure, Reporter, Unit, Watched, WithoutProgress};
use tempfile::NamedTempFile;
use url::Url;

use crate::error::{self, TooLarge, not_fetched};
use crate::page::{FileHash, MetadataBeside, PageLink};
use crate::{Answer, Fetch, shown};

/// Limit in bytes for a page or METADATA: those of the largest projects have some megabytes.
const TEXT_LIMIT: u64 = 64 << 20;
/// Limit in bytes for a source distribution whose metadata is read. PyPI accepts files of up to 100
/// MB unless a project requests more.
const SDIST_LIMIT: u64 = 128 << 20;
/// Limit in bytes for a wheel. The largest wheels of ROCm and PyTorch have a third of it.
const WHEEL_LIMIT: u64 = 16 << 30;
const WINDOW: usize = 1 << 18;

pub(crate) struct Store<'a> {
    pub(crate) fetch: &'a dyn Fetch,
    pub(crate) cache: &'a Path,
    pub(crate) reporter: &'a dyn Reporter,
}

impl Store<'_> {
    fn ask(&self, action: &str, address: &Url, accept: &str) -> Result<Answer, Failure> {
        self.reporter.check()?;
        let answer = self.fetch.get(address, accept);
        answer.map_err(|error| not_fetched(action, &shown(address), error))
    }

    /// Reads a page: the answer without its body, and the body. Any status is a success.
    pub(crate) fn text(&self, address: &Url, accept: &str) -> Result<(Answer, Vec<u8>), Failure> {
        let mut answer = self.ask("read", address, accept)?;
        let mut text = Vec::new();
        let body = std::mem::replace(&mut answer.body, Box::new(std::io::empty()));
        let read = Watched::new(body, &WithoutProgress(self.reporter)).take(TEXT_LIMIT + 1).read_to_end(&mut text);
        self.reporter.check()?;
        read.map_err(|error| not_fetched("read", &shown(address), error))?;
        if text.len() as u64 > TEXT_LIMIT {
            let reason = format!("it is longer than {} MiB", TEXT_LIMIT >> 20);
            return Err(error::no_page(&shown(address), &reason));
        }
        Ok((answer, text))
    }

    /// The METADATA beside a wheel; `None` if the index has none.
    pub(crate) fn metadata(&self, link: &PageLink) -> Result<Option<String>, Failure> {
        let MetadataBeside::Yes(hash) = &link.metadata else { return Ok(None) };
        let mut address = link.address.clone();
        address.set_path(&format!("{}.metadata", link.address.path()));
        let (answer, text) = self.text(&address, "*/*")?;
        if answer.status != 200 {
            return Ok(None);
        }
        if let Some(hash) = hash {
            let mut hasher = Hasher::new(hash.algorithm);
            hasher.update(&text);
            check(&address, hash, hasher)?;
        }
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    /// The path of a wheel, which is downloaded unless it is in the cache. One over the limit, or
    /// that has more bytes than the index says, is refused.
    pub(crate) fn wheel(&self, link: &PageLink) -> Result<PathBuf, Failure> {
        // One byte more than the index says shows that there are more; the hash is compared later.
        let listed = link.size.map_or(WHEEL_LIMIT, |size| size.saturating_add(1));
        self.file(link, "wheels", listed.min(WHEEL_LIMIT))
    }

    /// The path of a source distribution, downloaded like a wheel. One over the limit is refused.
    pub(crate) fn sdist(&self, link: &PageLink) -> Result<PathBuf, Failure> {
        self.file(link, "sdists", SDIST_LIMIT)
    }

    fn file(&self, link: &PageLink, kind: &str, limit: u64) -> Result<PathBuf, Failure> {
        if link.address.scheme() == "file"
            && let Ok(path) = link.address.to_file_path()
        {
            return self.local(path, link);
        }
        let folder = if let Some(hash) = &link.hash {
            format!("{}-{}", hash.algorithm.name(), hash.hexadecimal)
        } else {
            format!("address-{}", hexadecimal(&sha256(link.address.as_str().as_bytes())))
        };
        let folder = self.cache.join(kind).join(folder);
        let path = folder.join(&link.file_name);
        if fs_err::exists(&path).map_err(cache_error(&path))? {
            return Ok(path);
        }
        let answer = self.ask("download", &link.address, "*/*")?;
        if answer.status != 200 {
            return Err(error::bad_status(&shown(&link.address), answer.status));
        }
        fs_err::create_dir_all(&folder).map_err(cache_error(&folder))?;
        let mut file = NamedTempFile::new_in(&folder).map_err(cache_error(&folder))?;
        let algorithm = link.hash.as_ref().map_or(HashAlgorithm::Sha256, |hash| hash.algorithm);
        let body = Box::new(answer.body.take(limit));
        let stage = self.reporter.stage(&format!("Downloading {}", link.file_name), answer.size, Unit::Bytes);
        let found = self.copy(body, &mut file, algorithm, &link.address)?;
        drop(stage);
        let size = file.as_file().metadata().map_err(cache_error(&path))?.len();
        if size == limit {
            return Err(TooLarge { address: shown(&link.address), limit }.into());
        }
        if let Some(hash) = &link.hash {
            check(&link.address, hash, found)?;
        }
        rocwheel_system::persist(file, &path).map_err(cache_error(&path))?;
        Ok(path)
    }

    /// The path of a file of an index in a folder, after its hash was compared.
    fn local(&self, path: PathBuf, link: &PageLink) -> Result<PathBuf, Failure> {
        let mut file = open_regular(&path).map_err(unreadable(&path))?;
        let Some(hash) = &link.hash else { return Ok(path) };
        let mut hasher = Hasher::new(hash.algorithm);
        let mut window = vec![0; WINDOW];
        loop {
            self.reporter.check()?;
            match file.read(&mut window) {
                Ok(0) => break,
                Ok(count) => hasher.update(&window[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(&path)(error)),
            }
        }
        check(&link.address, hash, hasher)?;
        Ok(path)
    }

    fn copy(
        &self,
        mut body: Box<dyn Read + Send>,
        file: &mut NamedTempFile,
        algorithm: HashAlgorithm,
        address: &Url,
    ) -> Result<Hasher, Failure> {
        let mut hasher = Hasher::new(algorithm);
        let mut window = vec![0; WINDOW];
        loop {
            self.reporter.check()?;
            let count = match body.read(&mut window) {
                Ok(0) => return Ok(hasher),
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(not_fetched("download", &shown(address), error)),
            };
            hasher.update(&window[..count]);
            self.reporter.advance(count as u64);
            let path = file.path().to_owned();
            file.write_all(&window[..count]).map_err(cache_error(&path))?;
        }
    }
}

fn check(address: &Url, hash: &FileHash, found: Hasher) -> Result<(), Failure> {
    let found = hexadecimal(&found.finish());
    if found == hash.hexadecimal {
        return Ok(());
    }
    let (address, algorithm, wanted) = (shown(address), hash.algorithm.name(), &hash.hexadecimal);
    Err(Failure::message(format!("`{address}` has the {algorithm} `{found}`, and the index says `{wanted}`"))
        .with_hint("try again; if it happens again, the index or the file has changed"))
}

fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    Failure::attempt(format!("could not read `{}`", path.display()))
}

fn cache_error(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    Failure::attempt(format!("could not write `{}`", path.display()))
}
