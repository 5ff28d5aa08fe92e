//! Input: the wheels that are looked at, and where others are ([`Source`]: folders of wheels,
//! package indexes). Output: the wheels that would be installed along with them ([`Gathered`]),
//! those of indexes in a cache folder.
//!
//! The choice is greedy: of each distribution the newest version that meets every requirement known
//! of it and has a wheel for this Python and system, and whatever that one requires in turn. When a
//! requirement that is met later rules a choice out, all is chosen again with what was learned;
//! nothing older is tried to avoid a conflict, as pip would. Wheels only: what would have to be
//! built is not there, but where no wheel of a project meets what is required of it, the
//! requirements of a source distribution that does are met. Pre-releases count where a requirement
//! names one or nothing else is left (PEP 440), withdrawn files where a version is pinned (PEP
//! 592).

mod choice;
mod error;
mod folder;
mod http;
pub mod page;
pub mod pages;
pub mod requirement;
pub mod settings;
mod store;
mod tags;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use rocwheel_report::Reporter;
use rocwheel_wheel::Headers;
use rocwheel_wheel::read::Wheel;
use url::Url;

use choice::Chooser;
pub use error::Error;
pub use http::Http;
use requirement::{InstallTarget, Requirement, Requirements};

/// Where wheels are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The `.whl` files of a folder, not of those below it, and what its source distributions
    /// require.
    Folder(PathBuf),
    /// A package index: the address of its list of projects (PEP 503, PEP 691), ending in `/`.
    Index(Url),
}

impl Source {
    /// An index where the text begins with `http://` or `https://`, else a folder.
    ///
    /// # Errors
    /// [`Error::Address`] when it is no address.
    pub fn parse(text: &str) -> Result<Source, Error> {
        if !text.starts_with("http://") && !text.starts_with("https://") {
            return Ok(Source::Folder(PathBuf::from(text)));
        }
        let mut address = Url::parse(text).map_err(|source| Error::Address { text: text.to_owned(), source })?;
        if !address.path().ends_with('/') {
            address.set_path(&format!("{}/", address.path()));
        }
        Ok(Source::Index(address))
    }
}

/// How files of an index are had: [`Http`], or something else in tests.
pub trait Fetch: Send + Sync {
    /// Asks for an address; `accept` is the header of that name. An answer of any status is no
    /// error.
    ///
    /// # Errors
    /// Whatever kept the answer from coming.
    fn get(&self, address: &Url, accept: &str) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>>;

    /// Asks for the headers of a file; the answer has no body.
    ///
    /// # Errors
    /// As [`Fetch::get`].
    fn head(&self, address: &Url) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Answer { body: Box::new(std::io::empty()), ..self.get(address, "*/*")? })
    }
}

/// What an index answered.
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    /// The header of that name, empty without one.
    pub content_type: String,
    /// The header Cache-Control, empty without one.
    pub cache_control: String,
    /// The size of the body in bytes, where the server says it and does not compress.
    pub size: Option<u64>,
    /// Where it came from in the end, which relative links start at.
    pub address: Url,
    /// The bytes.
    pub body: Box<dyn Read + Send>,
}

/// What is wanted.
pub struct Request<'a> {
    /// The wheels that are looked at, and `.dist-info` folders of what is installed. Of one
    /// distribution the last counts.
    pub audited: &'a [PathBuf],
    /// Where others are looked for; what is in several is taken from the first.
    pub sources: &'a [Source],
    /// What the environment is for.
    pub target: &'a InstallTarget,
    /// A folder for downloads, which may be kept and shared.
    pub cache: &'a Path,
    /// How indexes are reached; without, they are refused.
    pub fetch: Option<&'a dyn Fetch>,
}

/// The wheels that come along.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gathered {
    /// The files, sorted by the name of the distribution.
    pub wheels: Vec<PathBuf>,
    /// Requirements that nothing meets.
    pub unmet: Vec<Unmet>,
}

/// A requirement that no source has a wheel for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unmet {
    /// Who asks, name and version: `torch 2.9.0`.
    pub requirer: String,
    /// What for, as METADATA has it.
    pub requirement: String,
    /// Why there is none.
    pub reason: String,
}

/// Finds the wheels that would be installed with the audited ones.
///
/// # Errors
/// [`Error::Offline`] for an index without [`Request::fetch`], [`Error::Conflict`] when
/// requirements of two wheels exclude each other, [`Error::Fetch`], [`Error::Status`],
/// [`Error::Page`] and [`Error::Hash`] for what an index does wrong, [`Error::Wheel`] for a wheel
/// that cannot be opened.
pub fn gather(request: &Request<'_>, reporter: &dyn Reporter) -> Result<Gathered, Error> {
    if request.fetch.is_none()
        && let Some(Source::Index(address)) = request.sources.iter().find(|source| matches!(source, Source::Index(_)))
    {
        return Err(Error::Offline { address: shown(address) });
    }
    let mut audited = BTreeMap::new();
    for path in request.audited {
        let known = Known::open(path)?;
        audited.insert(known.name.clone(), known);
    }
    Chooser::new(request, audited, reporter)?.run()
}

/// A wheel whose requirements are known.
#[derive(Debug, Clone)]
struct Known {
    name: String,
    version: pep440_rs::Version,
    requirements: Vec<Requirement>,
    /// Requires-Python.
    python: Option<String>,
}

impl Known {
    fn open(path: &Path) -> Result<Known, Error> {
        if path.is_dir() {
            let metadata = path.join("METADATA");
            let bytes = fs_err::read(&metadata).map_err(|source| Error::Read { path: metadata.clone(), source })?;
            let metadata = Headers::parse(&String::from_utf8_lossy(&bytes));
            let said = |field: &str| metadata.get(field).unwrap_or_default();
            return Ok(Known::with(&said("Name"), &said("Version"), &metadata));
        }
        let wheel = Wheel::open(path)?;
        let bytes = wheel.bytes(&format!("{}/METADATA", wheel.info()))?;
        Ok(Known::of(&wheel.name, &Headers::parse(&String::from_utf8_lossy(&bytes))))
    }

    fn of(name: &rocwheel_wheel::WheelName, metadata: &Headers) -> Known {
        // What is in a file name is escaped.
        Known::with(&name.distribution, &name.version.replace('_', "-"), metadata)
    }

    fn with(name: &str, version: &str, metadata: &Headers) -> Known {
        Known {
            name: rocwheel_wheel::canonical_name(name),
            // The name of a wheel is read only when it has a version.
            version: version.parse().unwrap_or_else(|_| pep440_rs::Version::new([0])),
            requirements: Requirements::of(metadata).all,
            python: metadata.get("Requires-Python"),
        }
    }
}

/// An address without the password that may be in it.
fn shown(address: &Url) -> String {
    let mut address = address.clone();
    if address.password().is_some() {
        // Both fail for addresses that cannot have one only.
        let _ = address.set_password(None);
        let _ = address.set_username("");
    }
    address.to_string()
}
