//! Input: the audited wheels and the sources of others ([`Source`]: folders of wheels, package
//! indexes). Output: the wheels that would be installed with them ([`Gathered`]); those of indexes
//! are in a cache folder.
//!
//! The choice is greedy. For each distribution it takes the newest version that meets every known
//! requirement and has a wheel for this Python and system, and then follows the requirements of
//! that version. If a later requirement rules out a choice, everything is chosen again with that
//! knowledge. Unlike pip, it never tries older versions to avoid a conflict.
//!
//! Only wheels are chosen, since nothing is built. If no wheel of a project meets the requirements
//! but a source distribution does, the requirements of the source distribution are followed.
//! Pre-releases count if a requirement names one or if there is nothing else (PEP 440), withdrawn
//! files if a version is pinned (PEP 592).

mod choice;
pub mod companion;
mod credentials;
mod error;
mod folder;
mod http;
mod least_speed;
pub mod page;
pub mod pages;
pub mod requirement;
pub mod settings;
mod store;
pub mod tags;
mod tool;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Context as _, Exit, Failure, Reporter};
use rocwheel_wheel::Headers;
use rocwheel_wheel::read::Wheel;
use url::Url;

use choice::Chooser;
pub use credentials::{Credentials, NoNetrc, address_without_user, text_without_users};
pub use error::{BadAddress, address_hint, bad_status, not_fetched};
pub use http::{Http, HttpAnswer};
pub use least_speed::Pace;
use requirement::{InstallTarget, Requirement, Requirements};

/// A place to search for wheels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The `.whl` files of a folder, without its subfolders, and the requirements of its source
    /// distributions.
    Folder(PathBuf),
    /// A package index: the address of its list of projects (PEP 503, PEP 691), ending in `/`. That
    /// of one in a folder begins with `file:`.
    Index(Url),
}

impl Source {
    /// Parses a text that begins with `http://`, `https://` or `file://` as an index, and one that
    /// begins with no scheme as a folder.
    ///
    /// # Errors
    /// The address of an index cannot be parsed, or is not that of a web server.
    pub fn parse(text: &str) -> Result<Source, Failure> {
        match scheme_of(text).as_deref() {
            None => return Ok(Source::Folder(PathBuf::from(text))),
            Some("http" | "https" | "file") => {}
            Some(_) => {
                return Err(Failure::message(format!(
                    "`{}` is not the address of an index: it begins with none of `http://`, `https://` and `file://`",
                    text_without_users(text)
                ))
                .with_exit(Exit::Usage));
            }
        }
        let mut address = Url::parse(text).map_err(|error| {
            Failure::other(error)
                .context(format!("`{}` is not the address of an index", text_without_users(text)))
                .with_exit(Exit::Usage)
        })?;
        if !address.path().ends_with('/') {
            address.set_path(&format!("{}/", address.path()));
        }
        Ok(Source::Index(address))
    }
}

/// The scheme of a text that is meant to be an address, in lower case; `None` for a path. The
/// address may still be wrong.
pub fn scheme_of(text: &str) -> Option<String> {
    let (scheme, _) = text.split_once("://")?;
    // One letter is a drive of Windows.
    let begins = scheme.len() > 1 && scheme.as_bytes()[0].is_ascii_alphabetic();
    let is_scheme = begins && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then(|| scheme.to_ascii_lowercase())
}

/// Reads files of an index: [`Http`], or a stand-in for tests.
pub trait Fetch: Send + Sync {
    /// Requests an address; `accept` is the value of the header Accept. An answer with any status
    /// is a success.
    ///
    /// # Errors
    /// The cause that prevented an answer.
    fn get(&self, address: &Url, accept: &str) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>>;

    /// Requests an address with headers of the caller's, which the servers of redirections do not
    /// get if they are secret (`Authorization`).
    fn get_with(
        &self,
        address: &Url,
        headers: &[(&str, &str)],
    ) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        let accept = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("accept"));
        self.get(address, accept.map_or("*/*", |(_, value)| value))
    }

    /// `true` if a request for an address has a name or password.
    fn has_user(&self, _address: &Url) -> bool {
        false
    }

    /// Requests the headers of a file; the answer has no body.
    fn head(&self, address: &Url) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Answer { body: Box::new(std::io::empty()), ..self.get(address, "*/*")? })
    }
}

pub struct Answer {
    pub status: u16,
    /// The header Content-Type; empty if absent.
    pub content_type: String,
    /// The header Cache-Control; empty if absent.
    pub cache_control: String,
    /// The header Content-Encoding in lower case; empty if absent or `identity`.
    pub encoding: String,
    /// Size of the body in bytes, if the server sends it and does not compress the body.
    pub size: Option<u64>,
    /// The address after all redirections; relative links start at it.
    pub address: Url,
    pub body: Box<dyn Read + Send>,
}

pub struct Request<'a> {
    /// The audited wheels, and `.dist-info` folders of installed distributions. Of several with one
    /// name, the last counts.
    pub audited: &'a [PathBuf],
    /// The sources of other wheels; a version that several have is taken from the first.
    pub sources: &'a [Source],
    /// The Python and system of the environment.
    pub target: &'a InstallTarget,
    /// A folder for downloads, which may be kept and shared.
    pub cache: &'a Path,
    /// The client for indexes; without it, those of servers are refused.
    pub fetch: Option<&'a dyn Fetch>,
}

/// The wheels that would be installed with the audited ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gathered {
    /// The files, sorted by the name of the distribution.
    pub wheels: Vec<PathBuf>,
    /// Requirements that no source meets.
    pub unmet: Vec<Unmet>,
}

/// A requirement that no source meets with a wheel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unmet {
    /// Name and version of the distribution with the requirement: `torch 2.9.0`.
    pub requirer: String,
    /// The requirement as in METADATA.
    pub requirement: String,
    /// Canonical name of the required distribution.
    pub name: String,
    pub reason: String,
    /// What it means for an installer that has only these sources.
    pub kind: UnmetKind,
}

/// What a requirement that no source meets means for an installer that has only these sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnmetKind {
    /// An audited wheel has the requirement, and no version meets it for any Python: every
    /// installer refuses.
    Impossible,
    /// An audited wheel has the requirement, and what meets it is not for this Python or system.
    OtherPython,
    /// A distribution that was chosen has the requirement, and an installer may choose another
    /// version of it; or the requirement names an address, which is not followed.
    Open,
}

/// Finds the wheels that would be installed with the audited ones.
///
/// # Errors
/// There is an index without [`Request::fetch`], or it does something wrong; the requirements of
/// two wheels exclude each other; a wheel cannot be opened.
pub fn gather(request: &Request<'_>, reporter: &dyn Reporter) -> Result<Gathered, Failure> {
    let server = request.sources.iter().find_map(|source| match source {
        Source::Index(address) if address.scheme() != "file" => Some(address),
        _ => None,
    });
    if let (None, Some(address)) = (request.fetch, server) {
        return Err(error::offline(&shown(address)));
    }
    let mut audited = BTreeMap::new();
    for path in request.audited {
        let known = Known::open(path)?;
        audited.insert(known.name.clone(), known);
    }
    Chooser::new(request, audited, reporter)?.run()
}

#[derive(Debug, Clone)]
struct Known {
    name: String,
    version: pep440_rs::Version,
    requirements: Vec<Requirement>,
    /// The value of Requires-Python.
    python: Option<String>,
}

impl Known {
    fn open(path: &Path) -> Result<Known, Failure> {
        if path.is_dir() {
            let metadata = path.join("METADATA");
            let bytes = fs_err::read(&metadata).with_context(|| format!("could not read `{}`", metadata.display()))?;
            let metadata = Headers::parse(&String::from_utf8_lossy(&bytes));
            let [name, version] = ["Name", "Version"].map(|field| metadata.get(field).unwrap_or_default());
            return Ok(Known::with(&name, &version, &metadata));
        }
        let wheel = Wheel::open(path)?;
        let bytes = wheel.bytes(&format!("{}/METADATA", wheel.info()))?;
        Ok(Known::of(&wheel.name, &Headers::parse(&String::from_utf8_lossy(&bytes))))
    }

    fn of(name: &rocwheel_wheel::WheelName, metadata: &Headers) -> Known {
        // The version in a file name is escaped.
        Known::with(&name.distribution, &name.version.replace('_', "-"), metadata)
    }

    fn with(name: &str, version: &str, metadata: &Headers) -> Known {
        Known {
            name: rocwheel_wheel::canonical_name(name),
            // A wheel name is parsed only with a version.
            version: version.parse().unwrap_or_else(|_| pep440_rs::Version::new([0])),
            requirements: Requirements::of(metadata).all,
            python: metadata.get("Requires-Python"),
        }
    }
}

/// An address without the user and the password that it may have.
fn shown(address: &Url) -> String {
    address_without_user(address).to_string()
}
