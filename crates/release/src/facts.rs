//! Input: a wheel or source distribution. Output: what its page says of it.

use std::path::Path;

use pep440_rs::Version;
use rocwheel_content::{hexadecimal, sha256, sha256_of};
use rocwheel_report::{Interrupted, Reporter, Watched, with_causes};
use rocwheel_wheel::edit::sdist_metadata;
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{Headers, canonical_name};

use crate::listing::Distribution;

/// What can be read in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// SHA-256 of the file in hexadecimal.
    pub(crate) sha256: String,
    pub(crate) requires_python: Option<String>,
    /// SHA-256 of METADATA in hexadecimal; only wheels have it beside them.
    pub(crate) metadata_sha256: Option<String>,
}

/// Why a file cannot be in an index.
pub(crate) enum Fault {
    Interrupted(Interrupted),
    /// The reason, in words.
    File(String),
}

impl Facts {
    /// Reads all of the file at `path`, and reports the bytes.
    pub(crate) fn read(path: &Path, distribution: &Distribution, reporter: &dyn Reporter) -> Result<Facts, Fault> {
        let fault = |text: String| match reporter.check() {
            Err(interrupted) => Fault::Interrupted(interrupted),
            Ok(()) => Fault::File(text),
        };
        let (headers, metadata_sha256) = if distribution.wheel.is_some() {
            let metadata = metadata(path).map_err(|error| fault(with_causes(&error)))?;
            let text = String::from_utf8_lossy(&metadata);
            (Some(Headers::parse(&text)), Some(hexadecimal(&sha256(&metadata))))
        } else if distribution.name().ends_with(".zip") {
            // No tool has written such a source distribution for ten years.
            (None, None)
        } else {
            let headers = sdist_metadata(path, reporter).map_err(|error| fault(with_causes(&error)))?;
            (Some(headers), None)
        };
        let mut requires_python = None;
        if let Some(headers) = headers {
            agree(&headers, distribution).map_err(fault)?;
            requires_python = headers.get("Requires-Python").filter(|text| !text.is_empty());
        }
        let file = fs_err::File::open(path).map_err(|error| fault(error.to_string()))?;
        let digest = sha256_of(Watched::new(file, reporter)).map_err(|error| fault(error.to_string()))?;
        Ok(Facts { sha256: hexadecimal(&digest), requires_python, metadata_sha256 })
    }
}

/// METADATA of a wheel, byte for byte.
pub(crate) fn metadata(path: &Path) -> Result<Vec<u8>, rocwheel_wheel::Error> {
    let wheel = Wheel::open(path)?;
    wheel.bytes(&format!("{}/METADATA", wheel.info()))
}

/// Installers believe the name first and METADATA later, and fail where they differ.
fn agree(headers: &Headers, distribution: &Distribution) -> Result<(), String> {
    let name = headers.get("Name").unwrap_or_default();
    if canonical_name(&name) != distribution.project {
        return Err(format!("its metadata is of `{name}`, and its name of `{}`", distribution.project));
    }
    let version = headers.get("Version").unwrap_or_default();
    if version.parse::<Version>().as_ref() != Ok(&distribution.version) {
        return Err(format!("its metadata is of version `{version}`, and its name of `{}`", distribution.version));
    }
    Ok(())
}
