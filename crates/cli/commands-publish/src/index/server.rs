//! `rocwheel index server`: the configuration of a web server that serves an index in both of its
//! forms.
//!
//! The texts are files of `data/index` that work unchanged; only the folder and the address in them
//! are replaced.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_index::pages::encoded_segment;
use rocwheel_progress::Exit;

const NGINX: &str = include_str!("../../../../../data/index/nginx.conf");
const CADDY: &str = include_str!("../../../../../data/index/Caddyfile");
const APACHE: &str = include_str!("../../../../../data/index/httpd.conf");
const CLOUDFRONT: &str = include_str!("../../../../../data/index/cloudfront.js");

/// Print the configuration of a web server for an index
///
/// The server chooses HTML or JSON by what the client accepts, as PyPI does, and sends the types
/// and cache headers that pip and uv need. `nginx`, `caddy` and `apache` print a complete
/// configuration file, `cloudfront` a function for Amazon's CDN in front of a bucket.
#[derive(Debug, Args)]
pub struct Arguments {
    /// What serves the index
    #[arg(value_name = "SERVER")]
    server: ServerKind,
    /// Folder that `rocwheel index build` made an index of
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Where the server listens [default: 127.0.0.1:8000]
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<ListenAddress>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ServerKind {
    /// A file for `nginx -c`
    Nginx,
    /// A file for `caddy run --config`
    Caddy,
    /// A file for `apache2 -f`
    Apache,
    /// A function for CloudFront, runtime cloudfront-js-2.0
    Cloudfront,
}

/// A host and a port to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ListenAddress {
    /// A name or an address; an IPv6 address is in brackets.
    host: String,
    port: u16,
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or("a port is missing, as in `127.0.0.1:8000`")?;
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        let name = if is_bracketed { &host[1..host.len() - 1] } else { host };
        let is_name = name.chars().all(|character| {
            character.is_ascii_alphanumeric() || "-.".contains(character) || (is_bracketed && character == ':')
        });
        if name.is_empty() || !is_name {
            return Err("the host is no name or address; an address of IPv6 is in brackets");
        }
        match port.parse() {
            Ok(port) if port > 0 => Ok(Self { host: host.to_owned(), port }),
            _ => Err("the port is not a number from 1 to 65535"),
        }
    }
}

#[derive(Debug)]
pub struct Settings {
    server: ServerKind,
    /// Absolute. Links in it are kept, since a link may switch between versions of the index.
    root: PathBuf,
    address: ListenAddress,
    /// The addresses of folders whose page is for `--find-links`, which exists only in HTML.
    html_only: Vec<String>,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        if arguments.server == ServerKind::Cloudfront && arguments.address.is_some() {
            return Err(Usage::new("`--address` is for servers that listen, not for CloudFront")
                .hint("remove it")
                .into());
        }
        let root = std::path::absolute(&arguments.root)?;
        let html_only = find_links_folders(&root)?;
        if html_only.is_empty() && !has_json(&root) {
            let root = arguments.root.display();
            return Err(Usage::new(format!("`{root}` has no pages of an index"))
                .hint(format!("make them first: `rocwheel index build {root}`"))
                .into());
        }
        let address = arguments.address.unwrap_or(ListenAddress { host: "127.0.0.1".to_owned(), port: 8000 });
        Ok(Self { server: arguments.server, root, address, html_only })
    }
}

fn has_json(folder: &Path) -> bool {
    folder.join("index.v1_json").is_file()
}

/// The top folder and the folders in it (`Layout::Families`), if the index of each is in `simple`.
fn find_links_folders(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    if is_flat(root) {
        found.push("/".to_owned());
    }
    for entry in fs_err::read_dir(root)? {
        let entry = entry?;
        if is_flat(&entry.path()) {
            found.push(format!("/{}/", encoded_segment(&entry.file_name().to_string_lossy())));
        }
    }
    found.sort();
    Ok(found)
}

fn is_flat(folder: &Path) -> bool {
    !has_json(folder) && has_json(&folder.join("simple"))
}

pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let ListenAddress { host, port } = &settings.address;
    let text = match settings.server {
        ServerKind::Nginx => NGINX
            .replace("listen 127.0.0.1:8000;", &format!("listen {host}:{port};"))
            .replace("\"/srv/index\"", &quoted(&settings.root)?),
        ServerKind::Caddy => CADDY
            .replace("http://:8000", &format!("http://:{port}"))
            .replace("bind 127.0.0.1", &format!("bind {host}"))
            .replace("\"/srv/index\"", &quoted(&settings.root)?),
        ServerKind::Apache => APACHE
            .replace("127.0.0.1:8000", &format!("{host}:{port}"))
            .replace("\"/srv/index\"", &quoted(&settings.root)?),
        ServerKind::Cloudfront => {
            let folders: Vec<String> = settings.html_only.iter().map(|folder| format!("\"{folder}\"")).collect();
            CLOUDFRONT.replace("[\"/\"]", &format!("[{}]", folders.join(", ")))
        }
    };
    printer.raw(text.as_bytes())?;
    Ok(Exit::Done)
}

/// A quoted path. nginx and Apache expand `$` and have no escape for it; Caddy expands `{`.
fn quoted(folder: &Path) -> Result<String, Usage> {
    let text = folder.to_str().filter(|text| !text.contains(|character: char| is_special(character)));
    text.map(|text| format!("\"{text}\"")).ok_or_else(|| {
        Usage::new(format!("`{}` cannot be in the configuration of a web server", folder.display()))
            .hint("give a path without quotes, `\\`, `$`, `{` and `}`: a symbolic link to the folder, for example")
    })
}

fn is_special(character: char) -> bool {
    character.is_control() || "\"'`\\${}".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text that is replaced occurs exactly once.
    #[test]
    fn the_texts_have_their_places() {
        for (text, places) in [
            (NGINX, &["listen 127.0.0.1:8000;", "\"/srv/index\""][..]),
            (CADDY, &["bind 127.0.0.1", "\"/srv/index\"", "\nhttp://:8000 {"]),
            (CLOUDFRONT, &["[\"/\"]"]),
        ] {
            for place in places {
                assert_eq!(text.matches(place).count(), 1, "{place}");
            }
        }
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        let parse = |text: &str| text.parse::<ListenAddress>().map(|address| (address.host, address.port));
        assert_eq!(parse("0.0.0.0:80"), Ok(("0.0.0.0".to_owned(), 80)));
        assert_eq!(parse("[::1]:8080"), Ok(("[::1]".to_owned(), 8080)));
        for wrong in ["8000", ":8000", "::1:80", "host:0", "host:65536", "host:http", "a;b:80", "[]:80", "[:80"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_folder_cannot_add_to_the_configuration() {
        assert_eq!(quoted(Path::new("/srv/my index")).unwrap(), "\"/srv/my index\"");
        for wrong in ["/a\"b", "/a$b", "/a{b}", "/a\\b", "/a\nb", "/a'b"] {
            assert!(quoted(Path::new(wrong)).is_err(), "{wrong}");
        }
    }
}
