//! Input: the pages of an index. Output: the faults of each, and the files that it lists.

use std::collections::BTreeMap;
use std::io::Read as _;

use jiff::Timestamp;
use rocwheel_index::Answer;
use rocwheel_index::page::{PageLink, parse, parse_root, written_base};
use rocwheel_index::pages::{HTML_TYPE, JSON_TYPE};
use rocwheel_wheel::canonical_name;
use url::Url;

use super::{IndexFault, NOBODY, Site};
use crate::Error;
use crate::listing::{Listing, NameFilter, clashes};
use crate::store::StoredFile;

/// The largest page that is read. One of 4,800 files has 2.4 MB.
const PAGE_LIMIT: u64 = 256 << 20;
/// New versions are seen this late at most, in seconds, before it is worth a word.
const LATE: u64 = 600;
const HTML_ACCEPT: &str = "application/vnd.pypi.simple.v1+html, text/html;q=0.1";

/// A page, read.
struct Page {
    kind: String,
    address: Url,
    body: Vec<u8>,
}

impl Site<'_> {
    /// The canonical names of the projects on the first page.
    pub(super) fn root(&self, root: &Url, faults: &mut Vec<IndexFault>) -> Result<Vec<String>, Error> {
        let fail = |reason: String| Error::Check { address: root.to_string(), reason };
        let page = match self.page(root, &format!("{JSON_TYPE}, {HTML_ACCEPT}"), faults)? {
            Ok(page) => page,
            Err(reason) => return Err(fail(reason)),
        };
        let names = parse_root(&page.kind, &page.body, &page.address).map_err(fail)?;
        if names.is_empty() {
            return Err(fail("it names no projects".to_owned()));
        }
        for name in names.iter().filter(|name| canonical_name(name) != **name) {
            let text =
                format!("`{name}` is not the canonical form of a name; installers ask for `{}`", canonical_name(name));
            faults.push(IndexFault::warning(root, text));
        }
        Ok(names.iter().map(|name| canonical_name(name)).collect())
    }

    /// What the index answers for a project that it does not have.
    pub(super) fn missing(&self, root: &Url, faults: &mut Vec<IndexFault>) {
        let Ok(address) = root.join(&format!("{NOBODY}/")) else { return };
        match self.fetch.get(&address, HTML_ACCEPT).map(|answer| answer.status) {
            Ok(404) => {}
            Ok(status @ (401 | 403)) => faults.push(
                IndexFault::error(
                    root,
                    format!("a missing project answers {status}: uv stops there and asks no other index"),
                )
                .hint(
                    "let the server answer 404: on S3, allow the reader `s3:ListBucket`, or map 403 to 404 in the CDN",
                ),
            ),
            Ok(status @ 200..300) => faults.push(IndexFault::error(
                root,
                format!(
                    "a project that does not exist has a page (status {status}): installers find no files and stop"
                ),
            )),
            Ok(status) => {
                faults.push(IndexFault::warning(root, format!("a missing project answers {status}, not 404")));
            }
            Err(error) => faults.push(IndexFault::warning(&address, format!("no answer: {error}"))),
        }
    }

    /// Checks a project; answers how many files it lists.
    pub(super) fn project(&self, root: &Url, name: &str, faults: &mut Vec<IndexFault>) -> Result<usize, Error> {
        let Ok(address) = root.join(&format!("{name}/")) else { return Ok(0) };
        let json = self.links(&address, JSON_TYPE, faults)?;
        let html = self.links(&address, HTML_ACCEPT, faults)?;
        let links = match (json, html) {
            (None, None) => {
                faults.push(IndexFault::error(&address, "the project has no page that an installer can read"));
                return Ok(0);
            }
            (Some(json), None) => {
                let text = "there is no page in HTML: `file:` and old versions of pip need one";
                faults.push(IndexFault::warning(&address, text));
                json
            }
            (None, Some(html)) => html,
            (Some(json), Some(html)) => {
                compare(&address, &json, &html, faults);
                json
            }
        };
        check_names(&address, name, &links, faults);
        for link in &links {
            self.reporter.check()?;
            self.file(&address, link, faults)?;
        }
        Ok(links.len())
    }

    /// The files of a page in one form; `None` where the index does not offer it.
    fn links(&self, address: &Url, accept: &str, faults: &mut Vec<IndexFault>) -> Result<Option<Vec<PageLink>>, Error> {
        let page = match self.page(address, accept, faults)? {
            Ok(page) => page,
            Err(reason) => {
                // The other form may be there; both missing is a fault of its own.
                if !reason.contains("404") && !reason.contains("406") {
                    faults.push(IndexFault::error(address, reason));
                }
                return Ok(None);
            }
        };
        let is_json = page.kind.contains("json");
        if is_json != accept.contains("json") {
            return Ok(None);
        }
        match parse(&page.kind, &page.body, &page.address) {
            Ok(links) => {
                if is_json {
                    check_times(address, &links, faults);
                } else {
                    check_base(address, &page.body, faults);
                }
                Ok(Some(links))
            }
            Err(reason) => {
                faults.push(IndexFault::error(address, reason));
                Ok(None)
            }
        }
    }

    /// A page; the inner error says why there is none.
    fn page(&self, address: &Url, accept: &str, faults: &mut Vec<IndexFault>) -> Result<Result<Page, String>, Error> {
        self.reporter.check()?;
        let answer = match self.fetch.get(address, accept) {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(format!("no answer: {error}"))),
        };
        if answer.status != 200 {
            return Ok(Err(format!("it answers {}", answer.status)));
        }
        check_headers(address, &answer, faults);
        let Answer { content_type: kind, address, body, .. } = answer;
        let mut bytes = Vec::new();
        match body.take(PAGE_LIMIT).read_to_end(&mut bytes) {
            Ok(_) => Ok(Ok(Page { kind, address, body: bytes })),
            Err(error) => Ok(Err(format!("it breaks off: {error}"))),
        }
    }
}

/// uv reads no page in JSON of which it cannot read a time.
fn check_times(address: &Url, links: &[PageLink], faults: &mut Vec<IndexFault>) {
    for link in links {
        let Some(time) = link.uploaded.as_ref().filter(|time| time.parse::<Timestamp>().is_err()) else { continue };
        let text = format!("the upload time of `{}` is `{time}`: uv refuses the whole page", link.file_name);
        let hint = "write a time of UTC such as `2026-11-20T01:02:03Z`, or leave it out";
        faults.push(IndexFault::error(address, text).hint(hint));
    }
}

/// Reports a relative `<base>`: installers join links with it alone, not with the page's address.
fn check_base(address: &Url, body: &[u8], faults: &mut Vec<IndexFault>) {
    if let Some(base) = written_base(body)
        && Url::parse(&base).is_err()
    {
        let text = format!("`<base href=\"{base}\">` is relative: pip and uv find no file of the page in HTML");
        faults.push(IndexFault::error(address, text).hint("write the whole address, or leave `<base>` out"));
    }
}

/// Names that are not of the project, or that installers cannot tell apart.
fn check_names(address: &Url, project: &str, links: &[PageLink], faults: &mut Vec<IndexFault>) {
    let stored = |link: &PageLink| StoredFile { key: link.file_name.clone(), size: 0, stamp: String::new() };
    let listing = Listing::of(links.iter().map(stored).collect(), &NameFilter::default());
    for problem in &listing.problems {
        faults.push(IndexFault::error(address, format!("{problem}; installers ignore it")));
    }
    for other in listing.distributions.iter().filter(|one| one.project != project) {
        let text = format!("`{}` is a file of `{}`; installers ignore it here", other.name(), other.project);
        faults.push(IndexFault::error(address, text));
    }
    for clash in clashes(&listing.distributions) {
        faults.push(IndexFault::error(address, clash));
    }
}

fn check_headers(address: &Url, answer: &Answer, faults: &mut Vec<IndexFault>) {
    let kind = answer.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if ![JSON_TYPE, HTML_TYPE, "text/html"].contains(&kind.as_str()) {
        let text = format!("its type is `{kind}`: pip skips the page, and uv stops");
        faults.push(IndexFault::error(address, text).hint("give pages the types that docs/index-servers.md names"));
    }
    let cache = answer.cache_control.to_ascii_lowercase();
    let mut words = cache.split(',').map(str::trim);
    if words.clone().any(|word| word == "no-store") {
        let text = "`Cache-Control: no-store`: every request transfers the whole page, even if nothing changed";
        faults.push(IndexFault::warning(address, text).hint("`no-cache` with an ETag costs a short answer instead"));
    } else if let Some(age) = words.find_map(|word| word.strip_prefix("max-age=")?.parse::<u64>().ok())
        && age > LATE
        && !cache.contains("must-revalidate")
        && !cache.contains("no-cache")
    {
        let text = format!("`Cache-Control: max-age={age}`: pip 26.2 and uv see new versions up to {age} s late");
        faults.push(IndexFault::warning(address, text));
    }
}

/// Both forms have to say the same: clients prefer different ones.
fn compare(address: &Url, json: &[PageLink], html: &[PageLink], faults: &mut Vec<IndexFault>) {
    let by_name = |links: &[PageLink]| -> BTreeMap<String, PageLink> {
        links.iter().map(|link| (link.file_name.clone(), link.clone())).collect()
    };
    let (json, html) = (by_name(json), by_name(html));
    for name in json.keys().filter(|name| !html.contains_key(*name)) {
        faults.push(IndexFault::error(address, format!("`{name}` is in the JSON page only")));
    }
    for name in html.keys().filter(|name| !json.contains_key(*name)) {
        faults.push(IndexFault::error(address, format!("`{name}` is in the HTML page only")));
    }
    for (name, one) in &json {
        let Some(other) = html.get(name) else { continue };
        let differs = [
            ("hash", one.hash != other.hash),
            ("address", one.address != other.address),
            ("Requires-Python", one.python != other.python),
            ("withdrawal", one.yanked.is_some() != other.yanked.is_some()),
        ];
        for (what, _) in differs.into_iter().filter(|(_, differs)| *differs) {
            faults.push(IndexFault::error(address, format!("`{name}` has another {what} in JSON than in HTML")));
        }
    }
}
