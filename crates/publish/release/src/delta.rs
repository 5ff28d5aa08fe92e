//! Input: the name of a wheel, an index that has it, and folders with other wheels of its project.
//! Output: the wheel, of which only those bytes were downloaded that no other wheel has.
//!
//! `WHEEL.delta` beside a wheel ([`description`]) lists its pieces by their hashes. It is made from
//! the wheel alone: any other wheel that has some of the pieces helps, whatever its version, and
//! the publisher need not have one. It is not trusted: the result is compared with the hash on the
//! page of the index, and after any failure the whole wheel is downloaded.

mod choose;
mod cut;
pub(crate) mod description;
mod extras;
mod held;
mod rebuild;
mod transfer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rocwheel_content::{HashAlgorithm, Hasher, hexadecimal};
use rocwheel_index::Fetch;
use rocwheel_index::companion::DELTA;
use rocwheel_index::page::{FileHash, PageLink};
use rocwheel_output::{Staged, StagedFile, StagingFolder};
use rocwheel_progress::{Exit, Reporter, Unit, Watched};
use rocwheel_store::Error as StoreError;
use rocwheel_wheel::{Platform, PythonVersion};
use serde::Serialize;
use url::Url;

use crate::Error;
pub(crate) use choose::ProjectAnswer;
use choose::{ChosenWheel, shown};
use description::Description;
use rebuild::{Rebuilt, rebuild};
pub(crate) use transfer::RemoteFile;

/// Limit in bytes for a description: that of a wheel of 200 GB has less.
const LIMIT: u64 = 64 << 20;

/// Describes the pieces of a wheel with this SHA-256 in hexadecimal.
///
/// # Errors
/// A file that is no ZIP file or cannot be read; an interruption.
pub(crate) fn describe(path: &Path, sha256: &str, reporter: &dyn Reporter) -> Result<Vec<u8>, Error> {
    let pieces = cut::cut(path, reporter)?;
    let size = pieces.iter().map(|piece| u64::from(piece.length)).sum();
    Ok(Description { size, sha256: sha256.to_owned(), pieces }.to_bytes())
}

/// An index, and the client that reads it.
pub struct IndexSite {
    /// The address of its first page.
    pub root: Url,
    /// Reads its pages and files, and ranges of files.
    pub fetch: Arc<dyn Fetch>,
}

impl std::fmt::Debug for IndexSite {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("IndexSite").field(&shown(&self.root)).finish()
    }
}

/// The input of [`plan_get`].
#[derive(Debug, Clone, Copy)]
pub struct GetRequest<'a> {
    /// A project, a requirement that names versions, or the name of a wheel.
    pub name: &'a str,
    /// Indexes; the first one that has the project counts.
    pub sites: &'a [IndexSite],
    /// Wheels, and folders with wheels.
    pub have: &'a [PathBuf],
    /// The folder of the result.
    pub output: &'a Path,
    /// The Python that the wheel is for; `None` if the version has one wheel only.
    pub python: Option<PythonVersion>,
    /// The system that the wheel is for.
    pub platform: Platform,
}

/// The way in which a wheel was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GetMethod {
    /// It existed, with the right hash.
    Existing,
    /// Made of pieces of other wheels and ranges.
    Delta,
    /// Downloaded as a whole.
    Whole,
}

/// A wheel that is in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GotWheel {
    /// Path of the wheel, in [`GetRequest::output`].
    pub path: PathBuf,
    /// Bytes of the wheel.
    pub size: u64,
    /// The hash that the index promises and the file has: `sha256=…`.
    pub hash: String,
    /// How it was made.
    pub method: GetMethod,
    /// Bytes that were downloaded, with the description and without pages.
    pub transferred: u64,
    /// Bytes that other wheels have.
    pub reused: u64,
    /// The other wheels.
    pub from: Vec<PathBuf>,
    /// Why it was downloaded as a whole.
    pub reason: Option<String>,
}

/// A wheel that was chosen and can be verified, and whose place is free or has it.
#[derive(Debug)]
pub struct GetPlan<'a> {
    request: GetRequest<'a>,
    chosen: ChosenWheel<'a>,
    hash: FileHash,
    path: PathBuf,
    /// Bytes of the wheel if it is in its place.
    existing: Option<u64>,
}

impl GetPlan<'_> {
    /// Bytes of the wheel in its place; `None` if nothing is there.
    fn find_existing(&self, reporter: &dyn Reporter) -> Result<Option<u64>, Error> {
        match existing(&self.path, &self.hash, reporter)? {
            Existing::Nothing => Ok(None),
            Existing::Wheel { size } => Ok(Some(size)),
            Existing::Other(what) => Err(refused(
                &self.chosen.link,
                format!("`{}` {what}", self.path.display()),
                "move it away, or choose another folder with `--output`",
            )),
        }
    }
}

fn refused(link: &PageLink, reason: String, hint: &str) -> Error {
    let attempted = format!("get `{}`", link.file_name);
    Error::Get { attempted, reason, hint: hint.to_owned(), exit: Exit::Failed }
}

/// Chooses a wheel of an index. Nothing is downloaded but pages, and METADATA for an error.
///
/// # Errors
/// [`Error::Get`] for a wheel that cannot be chosen, a name with extras, a wheel without a hash on
/// its page, or whose place has another file; [`rocwheel_store::Error::Read`] for a path of [`GetRequest::have`]
/// that does not exist; what cannot be read; an interruption.
pub fn plan_get<'a>(request: GetRequest<'a>, reporter: &dyn Reporter) -> Result<GetPlan<'a>, Error> {
    held::check_places(request.have)?;
    let chosen = choose::choose(&request, reporter)?;
    let Some(hash) = chosen.link.hash.clone() else {
        let reason = "the index has no hash of it, so its bytes cannot be verified".to_owned();
        return Err(refused(&chosen.link, reason, "ask for hashes on its pages: `rocwheel index build` writes them"));
    };
    let path = request.output.join(&chosen.link.file_name);
    let plan = GetPlan { request, chosen, hash, path, existing: None };
    Ok(GetPlan { existing: plan.find_existing(reporter)?, ..plan })
}

/// Gets a wheel of an index.
///
/// # Errors
/// [`Error::Get`] for a wheel whose bytes on the server are not those of the page; what cannot be
/// downloaded, read or written; an interruption. The folder is then as before.
pub fn get(plan: &GetPlan<'_>, reporter: &dyn Reporter) -> Result<GotWheel, Error> {
    let GetPlan { request, chosen, hash, path, existing } = plan;
    let file_name = &chosen.link.file_name;
    let mut got = GotWheel {
        path: path.clone(),
        size: 0,
        hash: format!("{}={}", hash.algorithm.name(), hash.hexadecimal),
        method: GetMethod::Existing,
        transferred: 0,
        reused: 0,
        from: Vec::new(),
        reason: None,
    };
    // Another name of the same command may have got it meanwhile.
    let existing = existing.map_or_else(|| plan.find_existing(reporter), |size| Ok(Some(size)))?;
    if let Some(size) = existing {
        got.size = size;
        return Ok(got);
    }
    let write = |source| StoreError::Write { path: path.clone(), source };
    let staging = StagingFolder::for_results(request.output, ".rocwheel-").map_err(write)?;
    let staged = staging.path().join(file_name);
    let transferred = AtomicU64::new(0);
    let work = Download { chosen, hash, request, staged: &staged, transferred: &transferred, reporter };
    let outcome = work.run().map_err(|error| match error {
        // The user knows the result, and not where it is written first.
        Error::Store(StoreError::Write { source, .. }) => write(source).into(),
        error => error,
    })?;
    got.transferred = transferred.into_inner();
    got.size = fs_err::metadata(&staged).map_err(write)?.len();
    match outcome {
        Ok(rebuilt) => {
            got.method = GetMethod::Delta;
            got.reused = rebuilt.reused;
            got.from = rebuilt.from;
        }
        Err(reason) => {
            got.method = GetMethod::Whole;
            got.reason = Some(reason);
        }
    }
    let file = StagedFile { staged, place: path.clone() };
    let commit = Staged::new(staging, ()).with_file(file).commit();
    commit.map_err(|error| write(std::io::Error::other(error)))?;
    Ok(got)
}

/// The file in the place of the result.
enum Existing {
    Nothing,
    /// The wheel, or a link to it, of `size` bytes.
    Wheel {
        size: u64,
    },
    /// Something else, in words that follow its path.
    Other(&'static str),
}

fn existing(path: &Path, hash: &FileHash, reporter: &dyn Reporter) -> Result<Existing, Error> {
    let is_missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let fail = |source| StoreError::Read { path: path.to_owned(), source };
    match fs_err::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(Existing::Other("is a folder")),
        // To read a pipe would take for ever.
        Ok(metadata) if !metadata.is_file() => Ok(Existing::Other("is no file")),
        Ok(metadata) if hash_of(path, hash.algorithm, reporter)? == hash.hexadecimal => {
            Ok(Existing::Wheel { size: metadata.len() })
        }
        Ok(_) => Ok(Existing::Other("has other bytes than the index says")),
        Err(error) if is_missing(&error) => match fs_err::symlink_metadata(path) {
            Ok(_) => Ok(Existing::Other("is a link that leads nowhere")),
            Err(error) if is_missing(&error) => Ok(Existing::Nothing),
            Err(source) => Err(fail(source).into()),
        },
        Err(source) => Err(fail(source).into()),
    }
}

/// The hash of a file in hexadecimal.
fn hash_of(path: &Path, algorithm: HashAlgorithm, reporter: &dyn Reporter) -> Result<String, Error> {
    let fail = |source| StoreError::Read { path: path.to_owned(), source };
    let file = fs_err::File::open(path).map_err(fail)?;
    let size = file.metadata().map_err(fail)?.len();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let _stage = reporter.stage(&format!("Verifying {name}"), Some(size), Unit::Bytes);
    let mut hasher = Hasher::new(algorithm);
    let read = hasher.read(Watched::new(file, reporter));
    reporter.check()?;
    read.map_err(fail)?;
    Ok(hexadecimal(&hasher.finish()))
}

/// A wheel on its way.
struct Download<'a> {
    chosen: &'a ChosenWheel<'a>,
    hash: &'a FileHash,
    request: &'a GetRequest<'a>,
    /// Where it is written.
    staged: &'a Path,
    transferred: &'a AtomicU64,
    reporter: &'a dyn Reporter,
}

impl Download<'_> {
    fn remote<'a>(&'a self, address: &'a Url) -> RemoteFile<'a> {
        RemoteFile { fetch: &*self.chosen.site.fetch, address, transferred: self.transferred, reporter: self.reporter }
    }

    /// Downloads the wheel. The inner error is why all of it was downloaded.
    fn run(&self) -> Result<Result<Rebuilt, String>, Error> {
        let reason = match self.described()? {
            Ok(description) => match rebuild(self, &description)? {
                Ok(rebuilt) if hash_of(self.staged, self.hash.algorithm, self.reporter)? == self.hash.hexadecimal => {
                    return Ok(Ok(rebuilt));
                }
                Ok(_) => "the pieces do not make it: the description is wrong, or a file changed meanwhile".to_owned(),
                Err(reason) => reason,
            },
            Err(reason) => reason,
        };
        self.whole()?;
        Ok(Err(reason))
    }

    /// The description of the wheel; the inner error is why it cannot be used.
    fn described(&self) -> Result<Result<Description, String>, Error> {
        let mut address = self.chosen.link.address.clone();
        address.set_path(&format!("{}{DELTA}", self.chosen.link.address.path()));
        let link = &self.chosen.link;
        let bytes = match self.remote(&address).small(LIMIT)? {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Err(format!("there is no `{}{DELTA}`", link.file_name))),
            Err(fault) => return Ok(Err(format!("its description cannot be read: {fault}"))),
        };
        let sha256 = (self.hash.algorithm == HashAlgorithm::Sha256).then_some(self.hash.hexadecimal.as_str());
        let checked = Description::parse(&bytes)
            .and_then(|description| description.check(link.size, sha256).map(|()| description));
        let description = match checked {
            Ok(description) => description,
            Err(reason) => return Ok(Err(format!("its description {reason}"))),
        };
        if link.size.is_none() {
            // The hash is compared at the end, when a lie would have filled the disk.
            let Some(size) = self.remote(&link.address).size()? else {
                return Ok(Err("neither the page nor the server says how many bytes it has".to_owned()));
            };
            if let Err(reason) = description.check(Some(size), None) {
                return Ok(Err(format!("its description {reason}")));
            }
        }
        Ok(Ok(description))
    }

    /// Downloads all of the wheel.
    fn whole(&self) -> Result<(), Error> {
        let file = fs_err::File::create(self.staged)
            .map_err(|source| StoreError::Write { path: self.staged.to_owned(), source })?;
        let link = &self.chosen.link;
        let _stage = self.reporter.stage(&format!("Downloading {}", link.file_name), link.size, Unit::Bytes);
        let algorithm = self.hash.algorithm;
        let hashing = (|| Hasher::new(algorithm), |hasher: &mut Hasher, block: &[u8]| hasher.update(block));
        let (hasher, length) = self.remote(&link.address).whole(link.size, &file, hashing)?;
        let (found, address) = (hexadecimal(&hasher.finish()), shown(&link.address));
        let (name, wanted) = (algorithm.name(), &self.hash.hexadecimal);
        let reason = match link.size {
            _ if found != *wanted => format!("the {name} of `{address}` is {found}, and the page says {wanted}"),
            Some(size) if size != length => {
                format!("the index is wrong: `{address}` has the {name} of the page and {length} bytes, not {size}")
            }
            _ => return Ok(()),
        };
        Err(Error::Get {
            attempted: format!("get `{}`", link.file_name),
            reason,
            hint: "try again in case the index was being changed; if it stays, `rocwheel index check --files` names the files"
                .to_owned(),
            exit: Exit::Failed,
        })
    }
}
