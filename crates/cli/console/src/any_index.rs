//! A client for the indexes of servers and for those in folders.

use std::error::Error;

use rocwheel_index::{Answer, BadAddress, Fetch, Http};
use rocwheel_store::FolderSite;
use url::Url;

use crate::environment;
use crate::failure::Result;

type Answered = std::result::Result<Answer, Box<dyn Error + Send + Sync>>;

/// Reads indexes of servers, and those whose addresses begin with `file:`.
pub struct AnyIndex {
    /// `None` if nothing may be downloaded.
    http: Option<Http>,
}

impl AnyIndex {
    /// Creates the client, with the proxy and the users of the environment.
    pub fn new(is_offline: bool) -> Result<AnyIndex> {
        Ok(AnyIndex { http: if is_offline { None } else { Some(environment::http("https")?) } })
    }

    fn of(&self, address: &Url) -> std::result::Result<&dyn Fetch, BadAddress> {
        match &self.http {
            _ if address.scheme() == "file" => Ok(&FolderSite),
            Some(http) => Ok(http),
            None => Err(BadAddress::new(address, "is on a server, and nothing may be downloaded")),
        }
    }
}

impl Fetch for AnyIndex {
    fn get(&self, address: &Url, accept: &str) -> Answered {
        self.of(address)?.get(address, accept)
    }

    fn get_with(&self, address: &Url, headers: &[(&str, &str)]) -> Answered {
        self.of(address)?.get_with(address, headers)
    }

    fn head(&self, address: &Url) -> Answered {
        self.of(address)?.head(address)
    }

    fn has_user(&self, address: &Url) -> bool {
        self.of(address).is_ok_and(|fetch| fetch.has_user(address))
    }
}
