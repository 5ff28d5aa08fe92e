//! Input: a page of an index about one project, JSON (PEP 691, 700) or HTML (PEP 503, 592, 658,
//! 714). Output: its files.

use std::collections::BTreeMap;

use html5gum::{Token, Tokenizer};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

/// What is asked for: JSON, else HTML.
pub(crate) const ACCEPT: &str =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01";

/// A file of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) file_name: String,
    /// Without the fragment.
    pub(crate) address: Url,
    pub(crate) hash: Option<Hash>,
    /// Requires-Python.
    pub(crate) python: Option<String>,
    /// Withdrawn.
    pub(crate) yanked: bool,
    /// METADATA is beside the file.
    pub(crate) metadata: Beside,
}

/// Whether METADATA can be had without the wheel (PEP 658).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Beside {
    No,
    Yes(Option<Hash>),
}

/// A hash that a file shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hash {
    pub(crate) algorithm: Algorithm,
    /// In lower case.
    pub(crate) hexadecimal: String,
}

/// Hashes that say something about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Sha256,
    Sha384,
    Sha512,
}

impl Algorithm {
    const ALL: [(&'static str, Algorithm); 3] =
        [("sha256", Algorithm::Sha256), ("sha384", Algorithm::Sha384), ("sha512", Algorithm::Sha512)];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

impl Hash {
    fn new(algorithm: &str, hexadecimal: &str) -> Option<Hash> {
        let (_, algorithm) = *Algorithm::ALL.iter().find(|(name, _)| *name == algorithm)?;
        let is_hash = !hexadecimal.is_empty() && hexadecimal.chars().all(|digit| digit.is_ascii_hexdigit());
        is_hash.then(|| Hash { algorithm, hexadecimal: hexadecimal.to_ascii_lowercase() })
    }

    /// `sha256=0123…`.
    fn parse(text: &str) -> Option<Hash> {
        let (algorithm, hexadecimal) = text.split_once('=')?;
        Hash::new(algorithm, hexadecimal)
    }

    fn of(hashes: &BTreeMap<String, String>) -> Option<Hash> {
        Algorithm::ALL.iter().find_map(|(name, _)| Hash::new(name, hashes.get(*name)?))
    }
}

/// The files of a page that came from `base`. The error says what is wrong with the page.
pub(crate) fn parse(content_type: &str, body: &[u8], base: &Url) -> Result<Vec<Link>, String> {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/vnd.pypi.simple.v1+json" | "application/vnd.pypi.simple.latest+json" | "application/json" => {
            json(body, base)
        }
        "application/vnd.pypi.simple.v1+html" | "application/vnd.pypi.simple.latest+html" | "text/html" | "" => {
            Ok(html(body, base))
        }
        other => Err(format!("it is `{other}`, neither JSON nor HTML of a package index")),
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    meta: Meta,
    files: Vec<File>,
}

#[derive(Deserialize, Default)]
struct Meta {
    #[serde(rename = "api-version", default)]
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
    requires_python: Option<String>,
    #[serde(default)]
    yanked: Value,
    #[serde(default)]
    core_metadata: Value,
    #[serde(default)]
    dist_info_metadata: Value,
}

fn json(body: &[u8], base: &Url) -> Result<Vec<Link>, String> {
    let page: Page = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if !page.meta.version.is_empty() && page.meta.version.split('.').next() != Some("1") {
        return Err(format!("its version is {}, and this program knows version 1", page.meta.version));
    }
    let links = page.files.into_iter().filter_map(|file| {
        let metadata = if file.core_metadata.is_null() { &file.dist_info_metadata } else { &file.core_metadata };
        Some(Link {
            address: resolve(base, &file.url)?.0,
            hash: Hash::of(&file.hashes),
            python: file.requires_python,
            yanked: !matches!(file.yanked, Value::Null | Value::Bool(false)),
            metadata: match metadata {
                Value::Bool(true) => Beside::Yes(None),
                Value::Object(_) => {
                    Beside::Yes(serde_json::from_value(metadata.clone()).ok().and_then(|hashes| Hash::of(&hashes)))
                }
                _ => Beside::No,
            },
            file_name: file.filename,
        })
    });
    Ok(links.collect())
}

fn html(body: &[u8], page: &Url) -> Vec<Link> {
    let mut base = page.clone();
    let mut links = Vec::new();
    for Ok(token) in Tokenizer::new(body) {
        let Token::StartTag(tag) = token else { continue };
        let attributes: BTreeMap<String, String> = tag
            .attributes
            .iter()
            .map(|(name, value)| {
                let value: &[u8] = value;
                (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned())
            })
            .collect();
        let Some(href) = attributes.get("href") else { continue };
        let name: &[u8] = &tag.name;
        match name {
            b"base" => base = page.join(href).unwrap_or(base),
            b"a" => links.extend(anchor(&base, href, &attributes)),
            _ => {}
        }
    }
    links
}

fn anchor(base: &Url, href: &str, attributes: &BTreeMap<String, String>) -> Option<Link> {
    let (address, fragment) = resolve(base, href)?;
    let last = address.path_segments()?.next_back()?;
    let file_name = percent_decode_str(last).decode_utf8_lossy().into_owned();
    let metadata = attributes.get("data-core-metadata").or_else(|| attributes.get("data-dist-info-metadata"));
    Some(Link {
        file_name,
        hash: fragment.split('&').find_map(Hash::parse),
        python: attributes.get("data-requires-python").cloned(),
        yanked: attributes.contains_key("data-yanked"),
        metadata: match metadata.map(String::as_str) {
            None | Some("false") => Beside::No,
            Some(text) => Beside::Yes(Hash::parse(text)),
        },
        address,
    })
}

/// An address and its fragment.
fn resolve(base: &Url, text: &str) -> Option<(Url, String)> {
    let mut address = base.join(text).ok()?;
    let fragment = address.fragment().unwrap_or_default().to_owned();
    address.set_fragment(None);
    Some((address, fragment))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Url {
        Url::parse("http://example.invalid/simple/torch/").unwrap()
    }

    #[test]
    fn html_and_json_say_the_same() {
        let hash = "0123456789abcdef".repeat(4);
        let html = format!(
            "<!DOCTYPE html><title>x</title><a class=y href=\"../../files/torch-2.0%2Brocm7-py3-none-any.whl#sha256={hash}\" \
             data-requires-python=\"&gt;=3.9\" data-yanked=\"\" data-core-metadata=\"sha256={hash}\">torch</a>\
             <A HREF='b-1.tar.gz'>b</A><a>no address</a><a href='http://[broken'>broken</a>"
        );
        let json = format!(
            r#"{{"meta": {{"api-version": "1.4"}}, "name": "torch", "files": [
              {{"filename": "torch-2.0+rocm7-py3-none-any.whl", "url": "../../files/torch-2.0%2Brocm7-py3-none-any.whl",
               "hashes": {{"md5": "00", "sha256": "{hash}"}}, "requires-python": ">=3.9", "yanked": "broken", "size": 7,
               "core-metadata": {{"sha256": "{hash}"}}}},
              {{"filename": "b-1.tar.gz", "url": "b-1.tar.gz", "hashes": {{}}, "yanked": false}}]}}"#
        );
        let from_html = parse("text/html; charset=utf-8", html.as_bytes(), &base()).unwrap();
        let from_json = parse("application/vnd.pypi.simple.v1+json", json.as_bytes(), &base()).unwrap();
        assert_eq!(from_html, from_json);
        let wheel = &from_html[0];
        assert_eq!(wheel.file_name, "torch-2.0+rocm7-py3-none-any.whl");
        assert_eq!(wheel.address.as_str(), "http://example.invalid/files/torch-2.0%2Brocm7-py3-none-any.whl");
        assert!(wheel.yanked && wheel.hash == Some(Hash { algorithm: Algorithm::Sha256, hexadecimal: hash }));
    }

    #[test]
    fn pages_of_another_kind_are_errors() {
        let error = |kind: &str, body: &str| parse(kind, body.as_bytes(), &base()).unwrap_err();
        assert!(error("application/zip", "PK").contains("application/zip"));
        assert!(error("application/json", "<html>").contains("expected value"));
        assert!(
            error("application/json", r#"{"meta": {"api-version": "2.0"}, "files": []}"#).contains("version is 2.0")
        );
        let page = parse("text/html", b"<base href='http://other.invalid/x/'><a href=a-1-py3-none-any.whl>", &base());
        assert_eq!(page.unwrap()[0].address.as_str(), "http://other.invalid/x/a-1-py3-none-any.whl");
    }
}
