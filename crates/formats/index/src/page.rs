//! Input: a page of an index about one project, JSON (PEP 691, 700) or HTML (PEP 503, 592, 658,
//! 714). Output: the files of the project.

use std::collections::BTreeMap;

use html5gum::{Error, StartTag, Token, Tokenizer};
use percent_encoding::percent_decode_str;
use rocwheel_content::HashAlgorithm;
use rocwheel_wheel::WheelName;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::pages::ProjectStatus;

/// The accepted media types: JSON, otherwise HTML.
pub const ACCEPT: &str =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01";

/// The first bytes of a gzip file (RFC 1952).
pub const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A file of a project, as listed on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLink {
    /// The file name; on HTML pages, the last part of the address.
    pub file_name: String,
    /// The address as the page writes it: relative or absolute, without the fragment.
    pub written: String,
    /// The absolute address, without the fragment.
    pub address: Url,
    /// The hash of SHA-2: SHA-256 where the page has several.
    pub hash: Option<FileHash>,
    /// The value of Requires-Python; installers take an empty one for none.
    pub python: Option<String>,
    /// Why the file is withdrawn (PEP 592), empty where the page does not say it; `None` for a file
    /// that is not.
    pub yanked: Option<String>,
    /// The METADATA beside the file (PEP 658).
    pub metadata: MetadataBeside,
    /// Size in bytes (PEP 700; in HTML an extension of uv).
    pub size: Option<u64>,
    /// Time of publication (PEP 700; in HTML an extension of uv).
    pub uploaded: Option<String>,
}

/// A promise that METADATA is at the address of the wheel plus `.metadata` (PEP 658).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataBeside {
    /// The page makes no promise.
    No,
    /// METADATA exists, with this hash if the page gives one.
    Yes(Option<FileHash>),
}

/// The hash that a file must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHash {
    pub algorithm: HashAlgorithm,
    /// The hash in lower-case hexadecimal.
    pub hexadecimal: String,
}

impl FileHash {
    fn new(algorithm: &str, hexadecimal: &str) -> Option<FileHash> {
        let algorithm = HashAlgorithm::named(algorithm)?;
        let is_hash = !hexadecimal.is_empty() && hexadecimal.chars().all(|digit| digit.is_ascii_hexdigit());
        is_hash.then(|| FileHash { algorithm, hexadecimal: hexadecimal.to_ascii_lowercase() })
    }

    /// Parses a text such as `sha256=0123…`.
    fn parse(text: &str) -> Option<FileHash> {
        let (algorithm, hexadecimal) = text.split_once('=')?;
        FileHash::new(algorithm, hexadecimal)
    }

    fn of(hashes: &BTreeMap<String, String>) -> Option<FileHash> {
        HashAlgorithm::ALL.iter().find_map(|algorithm| FileHash::new(algorithm.name(), hashes.get(algorithm.name())?))
    }
}

/// Reads the files from the page at `base`.
///
/// # Errors
/// The defect of the page, in words.
pub fn parse(content_type: &str, body: &[u8], base: &Url) -> Result<Vec<PageLink>, String> {
    check_unpacked(body)?;
    match PageForm::of(content_type)? {
        PageForm::Json => json(body, base),
        PageForm::Html => {
            check_version(body)?;
            let links = html(body, base);
            check_purpose(body, links.iter().any(|link| is_of_index(link, base)))?;
            Ok(links)
        }
    }
}

/// The names of the tags with which a whole page ends.
const LAST_TAGS: [&[u8]; 2] = [b"html", b"body"];

/// How a page in HTML ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageEnd {
    /// With the tags that it opened. A page may do without these.
    Complete,
    /// Before the end tag of its `<html>` or `<body>`.
    Open,
    /// In the middle of a tag or comment, of which a parser takes nothing.
    InTag,
}

impl PageEnd {
    /// How a page ends.
    pub fn of(body: &[u8]) -> PageEnd {
        let mut end = PageEnd::Complete;
        for Ok(token) in Tokenizer::new(body) {
            match token {
                Token::StartTag(tag) if LAST_TAGS.contains(&&tag.name[..]) => end = PageEnd::Open,
                Token::EndTag(tag) if LAST_TAGS.contains(&&tag.name[..]) => end = PageEnd::Complete,
                Token::Error(error)
                    if matches!(*error, Error::EofInTag | Error::EofBeforeTagName | Error::EofInComment) =>
                {
                    return PageEnd::InTag;
                }
                _ => {}
            }
        }
        end
    }
}

/// Name of the `<meta>` with the version of the interface, which only an index has (PEP 629).
const REPOSITORY_VERSION: &str = "pypi:repository-version";

/// Refuses a page in HTML of a higher major version.
fn check_version(body: &[u8]) -> Result<(), String> {
    for Ok(token) in Tokenizer::new(body) {
        let Token::StartTag(tag) = token else { continue };
        let mut attributes = attributes(&tag);
        if attributes.get("name").is_some_and(|name| name == REPOSITORY_VERSION) {
            let version = attributes.remove("content").unwrap_or_default();
            return Meta { version }.check();
        }
    }
    Ok(())
}

/// `true` for a link to a package or to something below its page.
fn is_of_index(link: &PageLink, base: &Url) -> bool {
    let is_below = link.address != *base && link.address.as_str().starts_with(base.as_str());
    is_below || WheelName::is_wheel(&link.file_name) || ARCHIVES.iter().any(|end| link.file_name.ends_with(end))
}

/// The ends of names of source distributions.
const ARCHIVES: [&str; 4] = [".gz", ".zip", ".bz2", ".xz"];

/// Refuses the page of a login, which would look like an empty index: one that asks for a password,
/// or that lists nothing, names no version of the interface and has a form or a script.
fn check_purpose(body: &[u8], is_list: bool) -> Result<(), String> {
    for Ok(token) in Tokenizer::new(body) {
        let Token::StartTag(tag) = token else { continue };
        let word = match &tag.name[..] {
            b"input" if attributes(&tag).get("type").is_some_and(|kind| kind.eq_ignore_ascii_case("password")) => {
                "a field for a password"
            }
            // Our own first page may have a form and no projects.
            b"meta" if attributes(&tag).get("name").is_some_and(|name| name == REPOSITORY_VERSION) => return Ok(()),
            b"form" if !is_list => "a form",
            b"script" if !is_list => "a script",
            _ => continue,
        };
        return Err(format!("it has {word}, as the page of a login has"));
    }
    Ok(())
}

enum PageForm {
    Json,
    Html,
}

impl PageForm {
    /// The form that the header Content-Type says; the error is the defect of the page, in words.
    fn of(content_type: &str) -> Result<PageForm, String> {
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/vnd.pypi.simple.v1+json" | "application/vnd.pypi.simple.latest+json" | "application/json" => {
                Ok(PageForm::Json)
            }
            "application/vnd.pypi.simple.v1+html" | "application/vnd.pypi.simple.latest+html" | "text/html" | "" => {
                Ok(PageForm::Html)
            }
            other => Err(format!("it is `{other}`, neither JSON nor HTML of a package index")),
        }
    }
}

/// Reads the status of the project from its page (PEP 792), and the reason for it. A project
/// without a known status is active.
///
/// # Errors
/// The defect of the page, in words.
pub fn parse_status(content_type: &str, body: &[u8]) -> Result<(ProjectStatus, Option<String>), String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct StatusPage {
        project_status: Option<Status>,
    }
    #[derive(Deserialize)]
    struct Status {
        status: Option<String>,
        reason: Option<String>,
    }
    check_unpacked(body)?;
    let (mut word, mut reason) = (None, None);
    if is_json(content_type) {
        let page: StatusPage = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if let Some(status) = page.project_status {
            (word, reason) = (status.status, status.reason);
        }
    } else {
        for Ok(token) in Tokenizer::new(body) {
            let Token::StartTag(tag) = token else { continue };
            let attributes = attributes(&tag);
            match attributes.get("name").map(String::as_str) {
                Some("pypi:project-status") => word = attributes.get("content").cloned(),
                Some("pypi:project-status-reason") => reason = attributes.get("content").cloned(),
                _ => {}
            }
        }
    }
    let all = [ProjectStatus::Archived, ProjectStatus::Quarantined, ProjectStatus::Deprecated];
    let known = all.into_iter().find(|status| word.as_deref() == Some(status.word()));
    Ok(known.map_or((ProjectStatus::Active, None), |status| (status, reason)))
}

/// A packed page would look like one without links.
fn check_unpacked(body: &[u8]) -> Result<(), String> {
    if body.starts_with(&GZIP) {
        return Err("the server packed it with gzip, and was not asked to".to_owned());
    }
    Ok(())
}

/// Reads the projects from the first page of an index, with the names as the page spells them.
///
/// # Errors
/// The defect of the page, in words.
pub fn parse_root(content_type: &str, body: &[u8], base: &Url) -> Result<Vec<String>, String> {
    #[derive(Deserialize)]
    struct Root {
        #[serde(default)]
        meta: Meta,
        projects: Vec<Project>,
    }
    #[derive(Deserialize)]
    struct Project {
        name: String,
    }
    check_unpacked(body)?;
    if is_json(content_type) {
        let root: Root = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        root.meta.check()?;
        return Ok(root.projects.into_iter().map(|project| project.name).collect());
    }
    PageForm::of(content_type)?;
    check_version(body)?;
    let found = anchors(body, base);
    check_purpose(body, found.iter().any(|(link, _)| is_of_index(link, base)))?;
    Ok(found.into_iter().filter_map(|(link, text)| project_of(&link.address, text.trim(), base)).collect())
}

/// The project that a link of the first page leads to. Its text has to be the name (PEP 503), and
/// its address should end in the name and `/`. Pages of some programs have links to
/// `NAME/index.html`, without `/` or to another name of the server; installers use the text.
fn project_of(address: &Url, text: &str, base: &Url) -> Option<String> {
    // Lists of servers have links to themselves in another order.
    if address.query().is_some() || address == base {
        return None;
    }
    let path = address.path();
    if let Some(folder) = path.strip_suffix('/').filter(|_| address.as_str().starts_with(base.as_str())) {
        return folder.rsplit('/').next().map(str::to_owned);
    }
    let last = path.trim_end_matches("index.html").trim_end_matches('/').rsplit('/').next()?;
    let is_same = rocwheel_wheel::canonical_name(last) == rocwheel_wheel::canonical_name(text);
    // Files in a list have their names as texts too.
    let is_file = WheelName::is_wheel(text) || ARCHIVES.iter().chain(&[".html"]).any(|end| text.ends_with(end));
    (is_same && !text.is_empty() && !is_file).then(|| text.to_owned())
}

fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    kind.to_ascii_lowercase().ends_with("json")
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

impl Meta {
    /// A client has to refuse a higher major version (PEP 629).
    fn check(&self) -> Result<(), String> {
        let version = self.version.trim();
        if version.is_empty() || version.split('.').next() == Some("1") {
            return Ok(());
        }
        Err(format!("its version is {version}, and clients that know version 1 have to stop there (PEP 629)"))
    }
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
    size: Option<u64>,
    upload_time: Option<String>,
}

fn json(body: &[u8], base: &Url) -> Result<Vec<PageLink>, String> {
    let page: Page = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    page.meta.check()?;
    let links = page.files.into_iter().filter_map(|file| {
        let metadata = if file.core_metadata.is_null() { &file.dist_info_metadata } else { &file.core_metadata };
        Some(PageLink {
            address: resolve(base, &file.url)?.0,
            written: file.url,
            hash: FileHash::of(&file.hashes),
            python: file.requires_python.filter(|python| !python.trim().is_empty()),
            yanked: match file.yanked {
                Value::Null | Value::Bool(false) => None,
                Value::String(reason) => Some(reason),
                _ => Some(String::new()),
            },
            metadata: match metadata {
                Value::Bool(true) => MetadataBeside::Yes(None),
                Value::Object(_) => MetadataBeside::Yes(
                    serde_json::from_value(metadata.clone()).ok().and_then(|hashes| FileHash::of(&hashes)),
                ),
                _ => MetadataBeside::No,
            },
            file_name: file.filename,
            size: file.size,
            uploaded: file.upload_time,
        })
    });
    Ok(links.collect())
}

fn html(body: &[u8], page: &Url) -> Vec<PageLink> {
    anchors(body, page).into_iter().map(|(link, _)| link).collect()
}

/// The links of a page, each with its text.
fn anchors(body: &[u8], page: &Url) -> Vec<(PageLink, String)> {
    let mut base = page.clone();
    let mut links: Vec<(PageLink, String)> = Vec::new();
    let mut is_inside = false;
    for Ok(token) in Tokenizer::new(body) {
        let tag = match token {
            Token::StartTag(tag) => tag,
            Token::String(text) => {
                if let Some((_, named)) = links.last_mut().filter(|_| is_inside) {
                    named.push_str(&String::from_utf8_lossy(&text));
                }
                continue;
            }
            Token::EndTag(tag) => {
                let name: &[u8] = &tag.name;
                is_inside = is_inside && name != b"a";
                continue;
            }
            _ => continue,
        };
        let attributes = attributes(&tag);
        let Some(href) = attributes.get("href") else { continue };
        let name: &[u8] = &tag.name;
        match name {
            b"base" => base = page.join(href).unwrap_or(base),
            b"a" => {
                let link = anchor(&base, href, &attributes);
                is_inside = link.is_some();
                links.extend(link.map(|link| (link, String::new())));
            }
            _ => {}
        }
    }
    links
}

/// The address with which a page in HTML has its links joined, as the page writes it: that of its
/// first `<base>`.
pub fn written_base(body: &[u8]) -> Option<String> {
    Tokenizer::new(body).find_map(|token| {
        let Ok(Token::StartTag(tag)) = token else { return None };
        let name: &[u8] = &tag.name;
        if name == b"base" { attributes(&tag).remove("href") } else { None }
    })
}

fn attributes(tag: &StartTag<()>) -> BTreeMap<String, String> {
    let texts = tag.attributes.iter();
    let texts = texts.map(|(name, value)| (String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
    texts.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

fn anchor(base: &Url, href: &str, attributes: &BTreeMap<String, String>) -> Option<PageLink> {
    let (address, fragment) = resolve(base, href)?;
    let file_name = file_name(&address)?;
    let metadata = attributes.get("data-core-metadata").or_else(|| attributes.get("data-dist-info-metadata"));
    Some(PageLink {
        file_name,
        hash: fragment.split('&').find_map(FileHash::parse),
        python: attributes.get("data-requires-python").filter(|python| !python.trim().is_empty()).cloned(),
        yanked: attributes.get("data-yanked").cloned(),
        written: href.split('#').next().unwrap_or_default().to_owned(),
        size: attributes.get("data-size").and_then(|size| size.parse().ok()),
        uploaded: attributes.get("data-upload-time").cloned(),
        metadata: match metadata.map(String::as_str) {
            None | Some("false") => MetadataBeside::No,
            Some(text) => MetadataBeside::Yes(FileHash::parse(text)),
        },
        address,
    })
}

/// The name of the file at an address, without `%2B` and the like; empty for that of a folder.
/// `None` for an address without a path.
pub fn file_name(address: &Url) -> Option<String> {
    let last = address.path_segments()?.next_back()?;
    Some(percent_decode_str(last).decode_utf8_lossy().into_owned())
}

/// Resolves an address against `base`; also returns its fragment.
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
             data-requires-python=\"&gt;=3.9\" data-size=7 data-yanked=broken data-core-metadata=\"sha256={hash}\">torch</a>\
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
        assert!(
            wheel.yanked.is_some()
                && wheel.hash == Some(FileHash { algorithm: HashAlgorithm::Sha256, hexadecimal: hash })
        );
    }

    #[test]
    fn the_status_of_a_project_is_in_both_forms() {
        let html = "<meta name='pypi:project-status' content='deprecated'>\
                    <meta name='pypi:project-status-reason' content='use &lt;b&gt;'>";
        let json = r#"{"project-status": {"status": "deprecated", "reason": "use <b>"}, "files": []}"#;
        let status = (ProjectStatus::Deprecated, Some("use <b>".to_owned()));
        assert_eq!(parse_status("text/html", html.as_bytes()), Ok(status.clone()));
        assert_eq!(parse_status("application/vnd.pypi.simple.v1+json", json.as_bytes()), Ok(status));
        let active = Ok((ProjectStatus::Active, None));
        assert_eq!(parse_status("text/html", b"<a href=x>x</a>"), active);
        assert_eq!(parse_status("application/json", br#"{"project-status": {"status": "odd"}}"#), active);
    }

    #[test]
    fn links_of_a_first_page_name_projects() {
        let base = Url::parse("http://example.invalid/simple/").unwrap();
        let page = "<a href='torch/'>torch</a> <a href='Rocm_Sdk/'>Rocm.Sdk</a> \
                    <a href='six/index.html'>\n six </a> <a href='http://other.invalid/gl/Jax'>jax</a> \
                    <a href='vision'><b>vision</b></a> <a href='../'>../</a> <a href='?C=N'>Name</a> \
                    <a href='a-1-py3-none-any.whl'>a-1-py3-none-any.whl</a> <a href='b-1.tar.gz'>b-1.tar.gz</a> \
                    <a href='http://other.invalid/about'>home</a> <a href='index.html'>index.html</a>";
        let names = parse_root("text/html", page.as_bytes(), &base).unwrap();
        assert_eq!(names, ["torch", "Rocm_Sdk", "six", "jax", "vision"]);
    }

    #[test]
    fn the_page_of_a_login_is_no_index() {
        let root = Url::parse("http://example.invalid/simple/").unwrap();
        let help = "<a href='/help'>Help</a>";
        for (text, word) in [
            (format!("<form>Who are you?</form>{help}"), "a form"),
            (format!("{help}<script src=/app.js></script>"), "a script"),
            ("<a href='torch/'>torch</a><a href=a-1.whl>a</a><input type=Password>".to_owned(), "a password"),
        ] {
            let page = parse("text/html", text.as_bytes(), &base()).map(drop);
            for read in [page, parse_root("text/html", text.as_bytes(), &root).map(drop)] {
                assert!(read.unwrap_err().contains(word), "{text}");
            }
        }
        // devpi has a form beside its links.
        let list =
            "<form><input type=submit></form><a href='../../f/a-1-py3-none-any.whl'>a</a><a href='torch/'>torch</a>";
        assert_eq!(parse("text/html", list.as_bytes(), &base()).unwrap().len(), 2);
        assert_eq!(parse_root("text/html", list.as_bytes(), &root).unwrap(), ["torch"]);
        assert!(parse("text/html", b"<h1>Links for torch</h1>", &base()).unwrap().is_empty());
        let empty = crate::pages::root_html([], Some("choose.html"), None);
        assert!(parse_root("text/html", empty.as_bytes(), &root).unwrap().is_empty());
    }

    #[test]
    fn a_page_that_does_not_end_is_noticed() {
        for (page, end) in [
            ("<!DOCTYPE html><html><body><a href=x>x</a></body></html>\n", PageEnd::Complete),
            ("<!DOCTYPE html><a href=x>x</a>", PageEnd::Complete),
            ("", PageEnd::Complete),
            ("<html><body><a href=x>x</a>", PageEnd::Open),
            ("<html><body><a href=x>x</a></body>", PageEnd::Complete),
            ("<a href=x>x</a><a href=\"foo-1.0-py3-no", PageEnd::InTag),
            ("<a href=x>x</a><", PageEnd::InTag),
            ("<a href=x>x</a><!-- generated", PageEnd::InTag),
        ] {
            assert_eq!(PageEnd::of(page.as_bytes()), end, "{page}");
        }
    }

    #[test]
    fn an_empty_requires_python_is_none() {
        let html = "<a href=a-1-py3-none-any.whl data-requires-python=''>a</a>";
        let json = r#"{"files": [{"filename": "a-1-py3-none-any.whl", "url": "a-1-py3-none-any.whl",
            "requires-python": ""}]}"#;
        let from_html = parse("text/html", html.as_bytes(), &base()).unwrap();
        assert_eq!(from_html, parse("application/json", json.as_bytes(), &base()).unwrap());
        assert_eq!(from_html[0].python, None);
    }

    #[test]
    fn pages_of_another_kind_are_errors() {
        let error = |kind: &str, body: &str| parse(kind, body.as_bytes(), &base()).unwrap_err();
        assert!(error("application/zip", "PK").contains("application/zip"));
        assert!(error("application/json", "<html>").contains("expected value"));
        let packed = [0x1f, 0x8b, 8, 0];
        assert!(parse("text/html", &packed, &base()).unwrap_err().contains("gzip"));
        assert!(parse_root("text/html", &packed, &base()).unwrap_err().contains("gzip"));
        assert!(
            error("application/json", r#"{"meta": {"api-version": "2.0"}, "files": []}"#).contains("version is 2.0")
        );
        let later = "<meta name='pypi:repository-version' content='2.0'><a href=a-1-py3-none-any.whl>a</a>";
        assert!(error("text/html", later).contains("version is 2.0"));
        assert!(parse_root("text/html", later.as_bytes(), &base()).unwrap_err().contains("version is 2.0"));
        let page = parse("text/html", b"<base href='http://other.invalid/x/'><a href=a-1-py3-none-any.whl>", &base());
        assert_eq!(page.unwrap()[0].address.as_str(), "http://other.invalid/x/a-1-py3-none-any.whl");
        let base = |page: &str| written_base(page.as_bytes());
        assert_eq!(base("<base target=x><base href='/files/'><base href=y><a href=z>").as_deref(), Some("/files/"));
        assert_eq!(base("<a href=z>"), None);
    }
}
