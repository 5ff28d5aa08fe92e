//! Input: a wheel or source distribution. Output: what its page says of it.

use std::io;
use std::path::Path;

use positioned_io::Cursor;
use rocwheel_content::{Digest, hexadecimal, sha256, sha256_of};
use rocwheel_progress::{Reporter, Watched, with_causes};
use rocwheel_store::listing::StoredDistribution;
use rocwheel_store::{Store, StoredBytes, StoredFile};
use rocwheel_wheel::Headers;
use rocwheel_wheel::read::{Wheel, WheelDirectory};
use rocwheel_wheel::{sdist_metadata, sdist_metadata_of};

use crate::chooser::needs_of;
use crate::error::Error;
use crate::file_rules;

/// What can be read in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistributionFacts {
    /// SHA-256 of the file in hexadecimal.
    pub sha256: String,
    /// The value of Requires-Python.
    pub requires_python: Option<String>,
    /// SHA-256 of METADATA in hexadecimal; only wheels have it beside them.
    pub metadata_sha256: Option<String>,
    /// What its METADATA requires, as the chooser has it.
    pub needs: String,
    pub rocm: Option<String>,
    /// The bytes that were read of the file.
    pub bytes: u64,
    /// `true` when all of a remote file was read to hash it.
    pub downloaded: bool,
}

/// Why a file cannot be in an index.
pub enum FactsFault {
    Store(Error),
    /// An interruption is one, too: the caller asks the reporter before it reports the reason.
    File(String),
}

impl DistributionFacts {
    /// Reads what pages say of a file, and reports its bytes. Of a file on this machine that is all
    /// of it; of a remote one, no more than its metadata where the store knows its SHA-256.
    pub fn read(
        store: &dyn Store,
        distribution: &StoredDistribution,
        reporter: &dyn Reporter,
    ) -> Result<DistributionFacts, FactsFault> {
        let file = &distribution.file;
        let bytes = store.bytes(file).map_err(|error| FactsFault::Store(error.into()))?;
        let mut size = 0;
        let (headers, metadata_sha256) = if distribution.wheel.is_some() {
            let metadata = stored_metadata(file, &bytes).map_err(|error| FactsFault::File(with_causes(&error)))?;
            size = metadata.len() as u64;
            let text = String::from_utf8_lossy(&metadata);
            (Some(Headers::parse(&text)), Some(hexadecimal(&sha256(&metadata))))
        } else if distribution.is_zip() {
            // No tool has written such a source distribution for ten years.
            (None, None)
        } else {
            let headers = sdist_headers(file, &bytes, reporter);
            (Some(headers.map_err(|error| FactsFault::File(with_causes(&error)))?), None)
        };
        let mut requires_python = None;
        let (mut needs, mut rocm) = needs_of(&Headers::parse(""));
        if let Some(headers) = headers {
            file_rules::check_metadata(&headers, distribution).map_err(FactsFault::File)?;
            requires_python = headers.get("Requires-Python").filter(|text| !text.trim().is_empty());
            (needs, rocm) = needs_of(&headers);
        }
        file_rules::check_listed(distribution, requires_python.as_deref()).map_err(FactsFault::File)?;
        let known = store.sha256(file).map_err(|error| FactsFault::Store(error.into()))?;
        let digest = if let Some(digest) = known {
            reporter.advance(file.size);
            digest
        } else {
            digest(&bytes, reporter).map_err(|error| FactsFault::File(error.to_string()))?
        };
        Ok(DistributionFacts {
            sha256: hexadecimal(&digest),
            requires_python,
            metadata_sha256,
            needs,
            rocm,
            bytes: if known.is_some() { size } else { file.size },
            downloaded: known.is_none() && matches!(bytes, StoredBytes::Remote(_)),
        })
    }
}

/// The headers of a distribution of this machine, and METADATA of a wheel byte for byte.
pub fn headers(
    store: &dyn Store,
    distribution: &StoredDistribution,
    reporter: &dyn Reporter,
) -> Result<(Headers, Option<Vec<u8>>), Error> {
    let bytes = store.bytes(&distribution.file)?;
    if distribution.wheel.is_some() {
        let metadata = stored_metadata(&distribution.file, &bytes)?;
        return Ok((Headers::parse(&String::from_utf8_lossy(&metadata)), Some(metadata)));
    }
    if distribution.is_zip() {
        return Ok((Headers::parse(""), None));
    }
    Ok((sdist_headers(&distribution.file, &bytes, reporter)?, None))
}

/// METADATA of a wheel of this machine, byte for byte.
pub(crate) fn metadata(path: &Path) -> Result<Vec<u8>, rocwheel_wheel::Error> {
    let wheel = Wheel::open(path)?;
    wheel.bytes(&format!("{}/METADATA", wheel.info()))
}

/// Unpacks all of a wheel, and discards it.
pub(crate) fn unpack(path: &Path, reporter: &dyn Reporter) -> Result<(), rocwheel_wheel::Error> {
    let wheel = Wheel::open(path)?;
    let names = wheel.members().iter().map(|member| member.name.as_str());
    wheel.check_members(names.filter(|name| !name.ends_with('/')), reporter)
}

pub(crate) fn stored_metadata(file: &StoredFile, bytes: &StoredBytes) -> Result<Vec<u8>, rocwheel_wheel::Error> {
    match bytes {
        StoredBytes::Local(path) => metadata(path),
        StoredBytes::Remote(content) => {
            let wheel = WheelDirectory::open(Path::new(&file.key), content)?;
            wheel.bytes(&format!("{}/METADATA", wheel.info()))
        }
    }
}

fn sdist_headers(
    file: &StoredFile,
    bytes: &StoredBytes,
    reporter: &dyn Reporter,
) -> Result<Headers, rocwheel_wheel::Error> {
    match bytes {
        StoredBytes::Local(path) => sdist_metadata(path, reporter),
        StoredBytes::Remote(content) => {
            let path = Path::new(&file.key);
            let content = content.open();
            let content =
                content.map_err(|source| rocwheel_wheel::Error::OpenSdist { path: path.to_owned(), source })?;
            sdist_metadata_of(path, Cursor::new(content), reporter)
        }
    }
}

/// The SHA-256 of all bytes, whose number is reported.
fn digest(bytes: &StoredBytes, reporter: &dyn Reporter) -> io::Result<Digest> {
    match bytes {
        StoredBytes::Local(path) => sha256_of(Watched::new(fs_err::File::open(path)?, reporter)),
        StoredBytes::Remote(content) => sha256_of(Watched::new(Cursor::new(content.open()?), reporter)),
    }
}
