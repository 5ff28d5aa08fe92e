//! Environment variables of the user that reach a job, here and in a container: they name the
//! sources of packages and how to reach them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::cell::CompilerCache;

/// Their values may be secret. They are passed in environments only, never on a command line.
pub const NETWORK: [&str; 23] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_OFFLINE",
    "UV_FIND_LINKS",
    "UV_NO_INDEX",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "UV_INSECURE_HOST",
];

/// Variables that name a file or a folder. A container has to see it too.
pub const FILES: [&str; 7] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "UV_CONFIG_FILE",
];

/// Prefixes of the variables that a compiler cache reads.
pub fn of_cache(cache: CompilerCache) -> &'static [&'static str] {
    match cache {
        CompilerCache::None => &[],
        CompilerCache::Ccache => &["CCACHE_"],
        // sccache may store its cache on Amazon S3.
        CompilerCache::Sccache | CompilerCache::SccacheNoWrap => &["SCCACHE_", "AWS_"],
    }
}

/// All environment variables of the user. Many hold secrets, so only their names are ever shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Surroundings(BTreeMap<String, String>);

impl fmt::Debug for Surroundings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl Deref for Surroundings {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Surroundings {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl FromIterator<(String, String)> for Surroundings {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(variables: T) -> Self {
        Self(variables.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        let variables = [("TOKEN", "secret"), ("PATH", "/bin")].map(|(name, value)| (name.into(), value.into()));
        let surroundings: Surroundings = variables.into_iter().collect();
        assert_eq!(format!("{surroundings:?}"), r#"{"PATH", "TOKEN"}"#);
        assert_eq!(surroundings.get("TOKEN").map(String::as_str), Some("secret"));
    }
}
