//! Input: addresses with a user, and the text of a netrc file. Output: the header Authorization of
//! a request.
//!
//! As pip does it, a user that was named in one address counts for all addresses of its server:
//! links of a private index have no user. What an address names comes before the netrc file. The
//! rows of the file are used for HTTPS and for servers of this machine only, and its `default` is
//! not used: it would be sent to every server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use url::{Host, Origin, Url};

/// Printed in place of a secret.
const MASK: &str = "****";

#[derive(Clone)]
struct Login {
    user: String,
    password: String,
}

/// Users of servers. `Debug` and errors do not print them.
#[derive(Clone, Default)]
pub struct Credentials {
    /// Server, path and user of the addresses that named one.
    named: Vec<(Origin, String, Login)>,
    /// Hosts of the netrc file.
    hosts: Vec<(String, Login)>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Credentials")
    }
}

/// An address without its user and password.
pub fn address_without_user(address: &Url) -> Url {
    let mut plain = address.clone();
    // Both calls fail only for addresses that cannot have a user.
    let _ = plain.set_password(None);
    let _ = plain.set_username("");
    plain
}

/// A text with addresses, such as a message of another program, without the users in them.
pub fn text_without_users(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace).map(|word| match word.find("://") {
        Some(scheme) => {
            let (begin, rest) = word.split_at(scheme + 3);
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            // People forget to escape a slash in a password, so the `@` may be behind one.
            let end = if rest[..end].contains('@') { end } else { rest.len() };
            match rest[..end].rfind('@') {
                Some(at) => format!("{begin}{}", &rest[at + 1..]),
                None => word.to_owned(),
            }
        }
        None => word.to_owned(),
    });
    words.collect()
}

impl Credentials {
    /// Adds the rows of a netrc file.
    ///
    /// # Errors
    /// The text is not a netrc file. The error has no details, because they could contain a
    /// password.
    pub fn add_netrc(&mut self, text: &str) -> Result<(), NoNetrc> {
        let netrc: netrc::Netrc = text.parse().map_err(|_| NoNetrc)?;
        let rows = netrc.hosts.into_iter().filter(|(host, _)| host != "default");
        self.hosts.extend(
            rows.map(|(host, row)| (host.to_ascii_lowercase(), Login { user: row.login, password: row.password })),
        );
        Ok(())
    }

    /// Takes the user out of an address and remembers it.
    pub fn take(&mut self, address: &Url) -> Url {
        let plain = address_without_user(address);
        if plain != *address {
            let login = [address.username(), address.password().unwrap_or_default()];
            let [user, password] = login.map(|text| percent_decode_str(text).decode_utf8_lossy().into_owned());
            let folder = address.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            let row = (address.origin(), format!("{folder}/"), Login { user, password });
            self.named.retain(|(origin, path, _)| (origin, path) != (&row.0, &row.1));
            self.named.push(row);
        }
        plain
    }

    /// The value of the header Authorization (RFC 7617) for an address; `None` for a server without
    /// a user.
    pub fn authorization(&self, address: &Url) -> Option<String> {
        let Login { user, password } = self.login(address)?;
        Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
    }

    /// The address with the user of its server, for the environment of a program that is started.
    pub fn restore(&self, address: &Url) -> Url {
        let mut full = address.clone();
        if let Some((.., login)) = self.of_address(address) {
            let _ = full.set_username(&login.user);
            let _ = full.set_password(Some(login.password.as_str()).filter(|password| !password.is_empty()));
        }
        full
    }

    /// A text without the passwords that addresses have named.
    pub fn mask(&self, text: &str) -> String {
        let mut masked = text_without_users(text);
        for (.., Login { user, password }) in &self.named {
            let secret = if password.is_empty() { user } else { password };
            if !secret.is_empty() {
                masked = masked.replace(secret.as_str(), MASK);
            }
        }
        masked
    }

    fn of_address(&self, address: &Url) -> Option<&(Origin, String, Login)> {
        let same = self.named.iter().filter(|(origin, ..)| *origin == address.origin());
        // Of several users, the one of the nearest folder.
        same.max_by_key(|(_, path, _)| if address.path().starts_with(path.as_str()) { path.len() + 1 } else { 0 })
    }

    fn login(&self, address: &Url) -> Option<&Login> {
        if let Some((.., login)) = self.of_address(address) {
            return Some(login);
        }
        let is_loopback = match address.host()? {
            Host::Ipv4(host) => host.is_loopback(),
            Host::Ipv6(host) => host.is_loopback(),
            Host::Domain(name) => name == "localhost",
        };
        let host = address.host_str().filter(|_| address.scheme() == "https" || is_loopback)?;
        self.hosts.iter().find(|(known, _)| known == host).map(|(_, login)| login)
    }
}

/// The text is not a netrc file.
#[derive(Debug, thiserror::Error)]
#[error("it is no netrc file")]
pub struct NoNetrc;

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn basic(text: &str) -> String {
        format!("Basic {}", STANDARD.encode(text))
    }

    #[test]
    fn a_user_counts_for_the_server_that_the_address_names() {
        let mut known = Credentials::default();
        let plain = known.take(&url("https://me:p%40ss@example.invalid/one/simple/"));
        assert_eq!(plain.as_str(), "https://example.invalid/one/simple/");
        assert_eq!(known.authorization(&url("https://example.invalid/files/a.whl")), Some(basic("me:p@ss")));
        known.take(&url("https://TOKEN@example.invalid/two/simple/"));
        assert_eq!(known.authorization(&url("https://example.invalid/two/simple/a/")), Some(basic("TOKEN:")));
        assert_eq!(known.authorization(&plain), Some(basic("me:p@ss")));
        for other in ["http://example.invalid/", "https://example.invalid:8443/", "https://a.example.invalid/"] {
            assert_eq!(known.authorization(&url(other)), None, "{other}");
        }
        assert_eq!(known.restore(&plain).as_str(), "https://me:p%40ss@example.invalid/one/simple/");
        let said = known.mask("Looking in https://me:p%40ss@example.invalid/one (p@ss), TOKEN");
        assert_eq!(said, "Looking in https://example.invalid/one (****), ****");
        assert!(!format!("{known:?}").contains("p@ss"));
    }

    #[test]
    fn a_netrc_file_is_for_named_hosts_and_safe_connections() {
        let mut known = Credentials::default();
        known
            .add_netrc("# mine\nmachine example.invalid\n  login me\n  password \"a b\"\ndefault login x password y\n")
            .unwrap();
        assert_eq!(known.authorization(&url("https://Example.invalid/a")), Some(basic("me:a b")));
        assert_eq!(known.authorization(&url("http://example.invalid/a")), None, "everybody could read it");
        assert_eq!(known.authorization(&url("https://other.invalid/")), None, "`default` is not used");
        known.take(&url("https://you:z@example.invalid/"));
        assert_eq!(known.authorization(&url("https://example.invalid/a")), Some(basic("you:z")));
        let error = known.add_netrc("password secret").unwrap_err();
        assert!(!error.to_string().contains("secret"));
        known.add_netrc("machine localhost login a password b").unwrap();
        assert_eq!(known.authorization(&url("http://localhost:8000/")), Some(basic("a:b")));
    }

    #[test]
    fn texts_have_no_users() {
        let clean = |text| text_without_users(text);
        assert_eq!(clean("cannot fetch `https://me:secret@host/simple/`\n"), "cannot fetch `https://host/simple/`\n");
        assert_eq!(clean("a@b and https://x/y\n"), "a@b and https://x/y\n");
        assert_eq!(clean("https://me:se/cret@host/a@b"), "https://b");
        assert_eq!(clean("https://host/a@b?c=d@e"), "https://e", "too much rather than too little");
    }
}
