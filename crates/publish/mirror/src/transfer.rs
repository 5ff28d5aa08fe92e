//! Input: addresses with hashes. Output: the files in a folder, each complete and verified.

use std::collections::BTreeMap;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_content::{Sha256, hexadecimal, sha256_of};
use rocwheel_index::Http;
use rocwheel_progress::{Exit, Reporter, Unit};
use rocwheel_store::attempts::{CONNECTIONS, TransferFault, attempt};
use url::Url;

use crate::cannot;
use crate::lock::LockedFile;
use rocwheel_progress::Failure;

/// Fetches the files that the folder does not have, and returns their names.
///
/// # Errors
/// It names every file that could not be fetched; the others are in the folder.
pub(crate) fn fetch_all(
    files: &BTreeMap<String, LockedFile>,
    folder: &Path,
    http: &Http,
    reporter: &dyn Reporter,
) -> Result<Vec<String>, Failure> {
    reporter.begin("Fetching distributions", Some(files.len() as u64), Unit::Items);
    let one = |(name, file): (&String, &LockedFile)| -> Result<bool, (String, TransferFault)> {
        let result = if reporter.interrupted() {
            Err(TransferFault::passing("interrupted"))
        } else if is_there(&folder.join(name), &file.sha256) {
            Ok(false)
        } else {
            fetch(http, file, &folder.join(name), reporter).map(|()| true)
        };
        reporter.advance(1);
        result.map_err(|fault| (name.clone(), fault))
    };
    let work = || files.par_iter().map(one).collect::<Vec<_>>();
    let results = match rayon::ThreadPoolBuilder::new().num_threads(CONNECTIONS).build() {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    };
    reporter.end();
    reporter.check()?;
    let (mut fetched, mut problems, mut may_pass) = (Vec::new(), Vec::new(), true);
    for (name, result) in files.keys().zip(results) {
        match result {
            Ok(true) => fetched.push(name.clone()),
            Ok(false) => {}
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

fn fetch(http: &Http, file: &LockedFile, path: &Path, reporter: &dyn Reporter) -> Result<(), TransferFault> {
    attempt(reporter, || fetch_once(http, file, path, reporter))
}

fn fetch_once(http: &Http, file: &LockedFile, path: &Path, reporter: &dyn Reporter) -> Result<(), TransferFault> {
    let mut reader = open(http, &file.address)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let disk = |source: io::Error| TransferFault::Write { path: path.to_owned(), source };
    // Its name begins with a dot, so an index over the folder does not see it.
    let mut temporary = tempfile::Builder::new().prefix(".rocwheel-mirror-").tempfile_in(folder).map_err(disk)?;
    let (mut hash, mut window) = (Sha256::new(), vec![0; 1 << 18]);
    loop {
        reporter.check().map_err(TransferFault::passing)?;
        let read = reader.read(&mut window).map_err(|error| TransferFault::of_body(&error))?;
        if read == 0 {
            break;
        }
        hash.update(&window[..read]);
        temporary.write_all(&window[..read]).map_err(disk)?;
    }
    let actual = hexadecimal(&hash.finish());
    if actual != file.sha256 {
        return Err(TransferFault::lasting(format!("its SHA-256 is {actual}, but the index says {}", file.sha256)));
    }
    rocwheel_system::set_open_mode(temporary.as_file(), 0o644).map_err(disk)?;
    rocwheel_system::persist(temporary, path).map_err(disk)
}

fn open(http: &Http, address: &str) -> Result<Box<dyn Read + Send>, TransferFault> {
    let local = |path: PathBuf| -> Result<Box<dyn Read + Send>, TransferFault> {
        Ok(Box::new(fs_err::File::open(path).map_err(TransferFault::lasting)?))
    };
    let Ok(url) = Url::parse(address) else { return local(PathBuf::from(address)) };
    if url.scheme() == "file" {
        return local(url.to_file_path().map_err(|()| TransferFault::lasting("its address is no path"))?);
    }
    let answer = http.get_with(&url, &[]).map_err(|error| TransferFault::of_request(&*error))?;
    if answer.status == 200 { Ok(answer.body) } else { Err(TransferFault::of_status(answer.status)) }
}
