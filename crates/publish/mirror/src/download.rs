//! Input: the address of a file, and what is known of it. Output: the file in a temporary one,
//! complete and compared with that.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rocwheel_content::{HashAlgorithm, Hasher, hexadecimal};
use rocwheel_index::page::FileHash;
use rocwheel_index::{Http, HttpAnswer};
use rocwheel_progress::Reporter;
use rocwheel_store::attempts::TransferFault;
use tempfile::NamedTempFile;
use url::Url;

pub(crate) struct Downloaded {
    pub(crate) file: NamedTempFile,
    /// SHA-256 in hexadecimal.
    pub(crate) sha256: String,
    /// When the server says that the file was changed last.
    pub(crate) modified: Option<Timestamp>,
}

/// Downloads a file into a temporary one in `folder`, whose name begins with a dot, so an index
/// over the folder does not see it. An address without a scheme is a path of this machine.
pub(crate) fn download(
    http: &Http,
    address: &str,
    hash: Option<&FileHash>,
    folder: &Path,
    reporter: &dyn Reporter,
) -> Result<Downloaded, TransferFault> {
    let OpenFile { mut reader, modified } = open(http, address, hash.is_some())?;
    let mut file = tempfile::Builder::new()
        .prefix(".rocwheel-mirror-")
        .tempfile_in(folder)
        .map_err(|source| TransferFault::Write { path: folder.to_owned(), source })?;
    let mut sha256 = Hasher::new(HashAlgorithm::Sha256);
    let mut told = hash.map(|hash| (hash, Hasher::new(hash.algorithm)));
    let mut window = vec![0; 1 << 18];
    loop {
        reporter.check().map_err(TransferFault::passing)?;
        let read = reader.read(&mut window).map_err(|error| TransferFault::of_body(&error))?;
        if read == 0 {
            break;
        }
        sha256.update(&window[..read]);
        if let Some((_, hasher)) = &mut told {
            hasher.update(&window[..read]);
        }
        file.write_all(&window[..read]).map_err(|source| TransferFault::Write { path: folder.to_owned(), source })?;
    }
    if let Some((FileHash { algorithm, hexadecimal: wanted }, hasher)) = told {
        let actual = hexadecimal(&hasher.finish());
        if actual != *wanted {
            let algorithm = algorithm.name().to_uppercase().replace("SHA", "SHA-");
            return Err(TransferFault::lasting(format!("its {algorithm} is {actual}, but the index says {wanted}")));
        }
    }
    Ok(Downloaded { file, sha256: hexadecimal(&sha256.finish()), modified })
}

struct OpenFile {
    reader: Box<dyn Read + Send>,
    /// When the server says that the file was changed last.
    modified: Option<Timestamp>,
}

/// Opens a file. Where a hash will tell whether it is the right one, its headers do not matter.
fn open(http: &Http, address: &str, has_hash: bool) -> Result<OpenFile, TransferFault> {
    let Ok(url) = Url::parse(address) else { return open_local(PathBuf::from(address)) };
    if url.scheme() == "file" {
        return open_local(url.to_file_path().map_err(|()| TransferFault::lasting("its address is no path"))?);
    }
    let answer = http.get_with(&url, &[]).map_err(|error| TransferFault::of_request(&*error))?;
    // A part (206) was not asked for.
    if answer.status != 200 {
        return Err(TransferFault::of_status(answer.status));
    }
    if !has_hash {
        check_answer(&answer)?;
    }
    let modified = last_modified(&answer);
    Ok(OpenFile { reader: answer.body, modified })
}

fn open_local(path: PathBuf) -> Result<OpenFile, TransferFault> {
    let reader = Box::new(fs_err::File::open(path).map_err(TransferFault::lasting)?);
    Ok(OpenFile { reader, modified: None })
}

/// Refuses an answer that is not the file itself: a refusal, the page of a login, a packed body.
pub(crate) fn check_answer(answer: &HttpAnswer) -> Result<(), TransferFault> {
    if !matches!(answer.status, 200 | 206) {
        return Err(TransferFault::of_status(answer.status));
    }
    let kind = answer.header("content-type").unwrap_or_default().trim();
    if kind.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("text/html")) {
        return Err(TransferFault::lasting("the server sends a page in place of the file, perhaps that of a login"));
    }
    match answer.header("content-encoding").unwrap_or_default().trim() {
        "" => Ok(()),
        encoding if encoding.eq_ignore_ascii_case("identity") => Ok(()),
        encoding => Err(TransferFault::lasting(format!("the server packs it ({encoding}) without being asked to"))),
    }
}

pub(crate) fn last_modified(answer: &HttpAnswer) -> Option<Timestamp> {
    Some(jiff::fmt::rfc2822::parse(answer.header("last-modified")?).ok()?.timestamp())
}
