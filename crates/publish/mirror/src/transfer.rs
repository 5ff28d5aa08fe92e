//! Input: addresses with hashes. Output: the files in a folder, each complete and verified.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use rayon::prelude::*;
use rocwheel_content::{hexadecimal, sha256_of};
use rocwheel_index::Http;
use rocwheel_progress::{Exit, Reporter, Unit};
use rocwheel_store::attempts::{TransferFault, attempt, with_connections};

use crate::cannot;
use crate::download::{Downloaded, download};
use crate::lock::LockedFile;
use rocwheel_progress::Failure;

/// A file that was fetched.
pub(crate) struct FetchedFile {
    /// SHA-256 in hexadecimal.
    pub(crate) sha256: String,
    /// When the server says that it was changed last.
    pub(crate) modified: Option<Timestamp>,
}

/// Fetches the files that the folder does not have, and returns these by name.
///
/// # Errors
/// It names every file that could not be fetched; the others are in the folder.
pub(crate) fn fetch_all(
    files: &BTreeMap<String, LockedFile>,
    folder: &Path,
    http: &Http,
    reporter: &dyn Reporter,
) -> Result<BTreeMap<String, FetchedFile>, Failure> {
    reporter.begin("Fetching distributions", Some(files.len() as u64), Unit::Items);
    let results = files.par_iter().map(|(name, file)| {
        let result = if reporter.interrupted() {
            Err(TransferFault::passing("interrupted"))
        } else if file.sha256.as_ref().is_some_and(|sha256| is_there(&folder.join(name), sha256)) {
            Ok(None)
        } else {
            fetch(http, file, &folder.join(name), reporter).map(Some)
        };
        reporter.advance(1);
        result.map_err(|fault| (name.clone(), fault))
    });
    let results = with_connections(|| results.collect::<Vec<_>>());
    reporter.end();
    reporter.check()?;
    let (mut fetched, mut problems, mut may_pass) = (BTreeMap::new(), Vec::new(), true);
    for (name, result) in files.keys().zip(results) {
        match result {
            Ok(Some(file)) => drop(fetched.insert(name.clone(), file)),
            Ok(None) => {}
            Err((name, fault)) => {
                may_pass &= fault.may_pass();
                problems.push(format!("`{name}`: {fault}"));
            }
        }
    }
    if problems.is_empty() {
        return Ok(fetched);
    }
    let exit = if may_pass { Exit::TryAgain } else { Exit::Failed };
    let hint = "run it again: files that were fetched stay";
    Err(cannot("fetch the distributions", &problems.join("; "), hint).with_exit(exit))
}

fn is_there(path: &Path, sha256: &str) -> bool {
    let digest = fs_err::File::open(path).and_then(sha256_of);
    digest.is_ok_and(|digest| hexadecimal(&digest) == sha256)
}

fn fetch(http: &Http, file: &LockedFile, path: &Path, reporter: &dyn Reporter) -> Result<FetchedFile, TransferFault> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let Downloaded { file: temporary, sha256, modified } =
        attempt(reporter, || download(http, &file.address, file.hash().as_ref(), folder, reporter))?;
    let placed = rocwheel_system::set_open_mode(temporary.as_file(), 0o644)
        .and_then(|()| rocwheel_system::persist(temporary, path));
    placed.map_err(|source| TransferFault::Write { path: path.to_owned(), source })?;
    Ok(FetchedFile { sha256, modified })
}
