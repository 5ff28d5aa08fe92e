//! The failures of a search for wheels in folders and indexes, and the advice for each.

use std::path::Path;

use rocwheel_progress::{Exit, Failure, Hint};
use url::Url;

use crate::address_without_user;

/// An address that a client of [`crate::Fetch`] cannot request, now or later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{address}` {reason}")]
pub struct BadAddress {
    /// The address, without password.
    address: String,
    /// The end of the sentence.
    reason: String,
}

impl BadAddress {
    /// `reason` is the end of a sentence that begins with the address.
    pub fn new(address: &Url, reason: impl Into<String>) -> BadAddress {
        BadAddress { address: address_without_user(address).to_string(), reason: reason.into() }
    }
}

/// A file over the limit in bytes. The address is without password.
#[derive(Debug, thiserror::Error)]
#[error("`{address}` has {limit} bytes or more")]
pub(crate) struct TooLarge {
    pub(crate) address: String,
    pub(crate) limit: u64,
}

impl Hint for TooLarge {}

/// The request needs an index, but the network must not be used. The address of this and the
/// following failures is without password.
pub(crate) fn offline(address: &str) -> Failure {
    Failure::message(format!("cannot read the index `{address}` offline"))
        .with_hint("download the wheels first, and name their folder with `--with`")
        .with_exit(Exit::Usage)
}

/// The server did not answer, or the connection broke. `action` is the attempted action, a verb for
/// the message.
pub fn not_fetched(
    action: &str,
    address: &str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Failure {
    Failure::other(source)
        .context(format!("could not {action} `{address}`"))
        .with_hint("check the address and the network, and try again")
        .with_exit(Exit::TryAgain)
}

/// The status is neither that of a file nor that of a missing file.
pub fn bad_status(address: &str, status: u16) -> Failure {
    let failure = Failure::message(format!("`{address}` answered with status {status}"));
    match status {
        401 => failure.with_hint("put the name and password into the address: `https://name:password@host/simple/`"),
        403 => failure.with_hint("the server knows the user and refuses: check the name and the password"),
        429 | 500..=599 => failure.with_exit(Exit::TryAgain),
        _ => failure,
    }
}

pub(crate) fn no_page(address: &str, reason: &str) -> Failure {
    Failure::message(format!("the page `{address}` is not of a package index: {reason}"))
}

/// No version of a distribution is right.
pub(crate) fn no_version(text: String) -> Failure {
    Failure::message(text).with_hint("put the wheels that belong together into a folder, and name it with `--with`")
}

/// The advice for a folder that does not exist and begins like an address without its scheme:
/// `example.org/simple`.
pub fn address_hint(path: &Path) -> Option<String> {
    let first = path.components().next()?.as_os_str().to_string_lossy().into_owned();
    let is_label =
        |label: &str| !label.is_empty() && label.chars().all(|one| one.is_ascii_alphanumeric() || one == '-');
    let is_host = first.contains('.') && first.split([':', '.']).all(is_label);
    (is_host && !path.exists())
        .then(|| format!("if it is an address, write it with `https://`: `https://{}`", path.display()))
}
