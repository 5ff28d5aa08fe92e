//! Input: the address of a file, and what is known of it. Output: the file in a temporary one,
//! complete and compared with that.

use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rocwheel_content::{HashAlgorithm, Hasher, hexadecimal};
use rocwheel_index::page::FileHash;
use rocwheel_index::{Http, HttpAnswer};
use rocwheel_progress::Reporter;
use rocwheel_store::attempts::{TransferFault, attempt};
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
    attempt(reporter, || download_once(http, address, hash, folder, reporter))
}

fn download_once(
    http: &Http,
    address: &str,
    hash: Option<&FileHash>,
    folder: &Path,
    reporter: &dyn Reporter,
) -> Result<Downloaded, TransferFault> {
    let (mut reader, modified) = open(http, address)?;
    let disk = |source: io::Error| TransferFault::Write { path: folder.to_owned(), source };
    let mut file = tempfile::Builder::new().prefix(".rocwheel-mirror-").tempfile_in(folder).map_err(disk)?;
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
        file.write_all(&window[..read]).map_err(disk)?;
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

/// The bytes of a file, and when it was changed last.
type OpenFile = (Box<dyn Read + Send>, Option<Timestamp>);

fn open(http: &Http, address: &str) -> Result<OpenFile, TransferFault> {
    let Ok(url) = Url::parse(address) else { return open_local(PathBuf::from(address)) };
    if url.scheme() == "file" {
        return open_local(url.to_file_path().map_err(|()| TransferFault::lasting("its address is no path"))?);
    }
    let answer = http.get_with(&url, &[]).map_err(|error| TransferFault::of_request(&*error))?;
    check_answer(&answer)?;
    let modified = last_modified(&answer);
    Ok((answer.body, modified))
}

fn open_local(path: PathBuf) -> Result<OpenFile, TransferFault> {
    Ok((Box::new(fs_err::File::open(path).map_err(TransferFault::lasting)?), None))
}

/// Refuses an answer that is not the file itself: a refusal, the page of a login, a packed body.
pub(crate) fn check_answer(answer: &HttpAnswer) -> Result<(), TransferFault> {
    if !matches!(answer.status, 200 | 206) {
        return Err(TransferFault::of_status(answer.status));
    }
    let header = |name: &str| answer.header(name).unwrap_or_default().trim().to_ascii_lowercase();
    let kind = header("content-type");
    if kind.starts_with("text/html") {
        return Err(TransferFault::lasting("the server sends a page in place of the file, perhaps that of a login"));
    }
    match header("content-encoding").as_str() {
        "" | "identity" => Ok(()),
        encoding => Err(TransferFault::lasting(format!("the server packs it ({encoding}) without being asked to"))),
    }
}

pub(crate) fn last_modified(answer: &HttpAnswer) -> Option<Timestamp> {
    Some(jiff::fmt::rfc2822::parse(answer.header("last-modified")?).ok()?.timestamp())
}
