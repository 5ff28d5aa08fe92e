//! Input: what a user wants. Output: the wheel in its place.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use rocwheel_index::page::{FileHash, PageLink};
use rocwheel_output::{Staged, StagedFile, StagingFolder};
use rocwheel_progress::{Exit, Reporter};
use rocwheel_store::Error as StoreError;
use serde::Serialize;

use crate::choose;
use crate::chosen_wheel::ChosenWheel;
use crate::download::hash_of;
use crate::error::Error;
use crate::own_wheels;
use crate::request::GetRequest;
use crate::wheel_download::Download;

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
    pub path: PathBuf,
    /// Bytes of the wheel.
    pub size: u64,
    /// The hash that the index promises and the file has: `sha256=…`.
    pub hash: String,
    pub method: GetMethod,
    /// Bytes that were downloaded, with the description and without pages.
    pub transferred: u64,
    /// Bytes that other wheels have.
    pub reused: u64,
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
pub fn plan_get<'a>(request: GetRequest<'a>, reporter: &dyn Reporter) -> Result<GetPlan<'a>, Error> {
    own_wheels::check_places(request.have)?;
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
/// After an error, the folder is as before.
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
    let staging = StagingFolder::for_results(request.output, ".rocwheel-").map_err(StoreError::write(path))?;
    let staged = staging.path().join(file_name);
    let transferred = AtomicU64::new(0);
    let work = Download { chosen, hash, request, staged: &staged, transferred: &transferred, reporter };
    let outcome = work.run().map_err(|error| match error {
        // The user knows the result, and not where it is written first.
        Error::Store(StoreError::Write { source, .. }) => StoreError::write(path)(source).into(),
        error => error,
    })?;
    got.transferred = transferred.into_inner();
    got.size = fs_err::metadata(&staged).map_err(StoreError::write(path))?.len();
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
    commit.map_err(|error| StoreError::write(path)(std::io::Error::other(error)))?;
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
    match fs_err::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(Existing::Other("is a folder")),
        // To read a pipe would take for ever.
        Ok(metadata) if !metadata.is_file() => Ok(Existing::Other("is no file")),
        Ok(metadata) if hash_of(path, hash.algorithm, reporter)? == hash.hexadecimal => {
            Ok(Existing::Wheel { size: metadata.len() })
        }
        Ok(_) => Ok(Existing::Other("has other bytes than the index says")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match fs_err::symlink_metadata(path) {
            Ok(_) => Ok(Existing::Other("is a link that leads nowhere")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Existing::Nothing),
            Err(source) => Err(StoreError::read(path)(source).into()),
        },
        Err(source) => Err(StoreError::read(path)(source).into()),
    }
}
