//! Input: the pages of an index. Output: the faults of each, and the files that it lists.

use std::collections::BTreeMap;
use std::io::Read as _;

use jiff::Timestamp;
use rocwheel_index::page::{GZIP, PageEnd, PageLink, parse, parse_root, parse_status, written_base};
use rocwheel_index::pages::ProjectStatus;
use rocwheel_index::{Answer, address_without_user};
use rocwheel_store::StoredFile;
use rocwheel_store::listing::{DistributionListing, NameFilter, clashes, distribution, project_of};
use rocwheel_wheel::canonical_name;
use url::Url;

use super::installers::{Installer, RequestHeaders, unpack};
use super::{IndexFault, NOBODY, Site};
use crate::error::Error;
use crate::file_rules;

/// The largest page that is read. One of 4,800 files has 2.4 MB.
const PAGE_LIMIT: u64 = 256 << 20;
/// New versions are seen this late at most, in seconds, before it is worth a word.
const LATE: u64 = 600;
const HTML_ACCEPT: &str = "application/vnd.pypi.simple.v1+html, text/html;q=0.1";

struct Page {
    kind: String,
    /// Where it was found, after all redirections.
    address: Url,
    body: Vec<u8>,
}

impl Page {
    fn is_json(&self) -> bool {
        self.kind.contains("json")
    }
}

#[derive(Debug, thiserror::Error)]
enum PageFault {
    #[error("it answers {0}")]
    Status(u16),
    #[error("{0}")]
    Other(String),
}

/// The page of a project in one of its forms.
struct PageForm {
    /// Who gets it.
    reader: &'static str,
    page: Page,
    links: Vec<PageLink>,
    is_quarantined: bool,
}

impl Site<'_> {
    /// The canonical names of the projects on the first page.
    pub(super) fn root(&self, root: &Url, faults: &mut Vec<IndexFault>) -> Result<Vec<String>, Error> {
        let page = match self.page(root, &Installer::Uv.page_headers(), faults)? {
            Ok(page) => page,
            Err(fault) => return Err(Error::Check { address: root.to_string(), reason: fault.to_string() }),
        };
        let names = parse_root(&page.kind, &page.body, &page.address);
        let names = names.map_err(|reason| Error::Check { address: root.to_string(), reason })?;
        if !page.is_json() {
            check_end(root, &page.body, faults);
        }
        if names.is_empty() {
            let reason = "it names no projects".to_owned();
            return Err(Error::Check { address: root.to_string(), reason });
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

    /// Checks a project; answers how many files of it an installer finds.
    pub(super) fn project(&self, root: &Url, name: &str, faults: &mut Vec<IndexFault>) -> Result<usize, Error> {
        let Ok(address) = root.join(&format!("{name}/")) else { return Ok(0) };
        let forms = self.forms(&address, faults)?;
        let Some(first) = forms.first() else { return Ok(0) };
        for other in &forms[1..] {
            compare(&address, first, other, faults);
        }
        let files: Vec<&PageLink> = first.links.iter().filter(|link| is_distribution_of(link, name)).collect();
        if files.is_empty() && !first.is_quarantined {
            faults.push(nothing_listed(&address, name, first));
        }
        check_names(&address, name, &first.links, faults);
        for link in &files {
            self.reporter.check()?;
            self.file(&address, link, faults)?;
        }
        Ok(files.len())
    }

    /// The page of a project as uv and pip get it, and in HTML. A form that repeats another one
    /// byte for byte is skipped. One that cannot be read is skipped too, and is a fault.
    fn forms(&self, address: &Url, faults: &mut Vec<IndexFault>) -> Result<Vec<PageForm>, Error> {
        let mut pages: Vec<(&'static str, Page)> = Vec::new();
        let mut missing = Vec::new();
        for installer in Installer::ALL {
            match self.page(address, &installer.page_headers(), faults)? {
                Ok(page) => pages.push((installer.name(), page)),
                Err(PageFault::Status(status @ (404 | 406))) => missing.push((installer, status)),
                Err(fault) => faults.push(IndexFault::error(address, fault.to_string())),
            }
        }
        match &missing[..] {
            [] => {}
            [(installer, status)] if !pages.is_empty() => {
                let text = format!("{} gets no page of the project: it answers {status}", installer.name());
                faults.push(IndexFault::error(address, text));
            }
            _ => faults.push(IndexFault::error(address, "the project has no page that an installer can read")),
        }
        let headers = [("Accept", HTML_ACCEPT), ("Accept-Encoding", "identity")];
        match self.page(address, &headers, faults)? {
            Ok(page) if !page.is_json() => pages.push(("a client that reads HTML alone", page)),
            Ok(_) | Err(PageFault::Status(404 | 406)) if pages.is_empty() => {}
            Ok(_) | Err(PageFault::Status(404 | 406)) => {
                let text = "there is no page in HTML: `file:` and old versions of pip need one";
                faults.push(IndexFault::warning(address, text));
            }
            Err(fault) => faults.push(IndexFault::error(address, fault.to_string())),
        }
        let mut forms: Vec<PageForm> = Vec::new();
        for (reader, page) in pages {
            if forms.iter().all(|form| form.page.kind != page.kind || form.page.body != page.body) {
                forms.extend(PageForm::read(address, reader, page, faults));
            }
        }
        Ok(forms)
    }

    /// A page; the inner error says why there is none.
    fn page(
        &self,
        address: &Url,
        headers: &RequestHeaders,
        faults: &mut Vec<IndexFault>,
    ) -> Result<Result<Page, PageFault>, Error> {
        self.reporter.check()?;
        let answer = match self.fetch.get_with(address, headers) {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(PageFault::Other(format!("no answer: {error}")))),
        };
        if answer.status != 200 {
            return Ok(Err(PageFault::Status(answer.status)));
        }
        check_headers(address, &answer, faults);
        let Answer { content_type: kind, address, body, encoding, .. } = answer;
        let mut bytes = Vec::new();
        if let Err(error) = body.take(PAGE_LIMIT).read_to_end(&mut bytes) {
            return Ok(Err(PageFault::Other(format!("it breaks off: {error}"))));
        }
        let body = match unpack(&encoding, bytes, PAGE_LIMIT) {
            Ok(body) => body,
            Err(error) => {
                let text =
                    format!("its header says `Content-Encoding: {encoding}`, and it cannot be unpacked: {error}");
                return Ok(Err(PageFault::Other(text)));
            }
        };
        if body.starts_with(&GZIP) {
            let text = "it is packed with gzip, and its headers do not say so: installers find no link in it";
            return Ok(Err(PageFault::Other(text.to_owned())));
        }
        Ok(Ok(Page { kind, address, body }))
    }
}

impl PageForm {
    /// Reads the links of a page, and reports what is wrong with its text.
    fn read(address: &Url, reader: &'static str, page: Page, faults: &mut Vec<IndexFault>) -> Option<PageForm> {
        let links = match parse(&page.kind, &page.body, &page.address) {
            Ok(links) => links,
            Err(_) if page.is_json() && page.body.trim_ascii_start().starts_with(b"<") => {
                let text = format!("its type is `{}`, and it is HTML: installers cannot read it", page.kind);
                faults.push(IndexFault::error(address, text));
                return None;
            }
            Err(reason) => {
                faults.push(IndexFault::error(address, reason));
                return None;
            }
        };
        if page.is_json() {
            check_times(address, &links, faults);
        } else {
            check_base(address, &page.body, faults);
            check_end(address, &page.body, faults);
        }
        let status = parse_status(&page.kind, &page.body);
        let is_quarantined = matches!(status, Ok((ProjectStatus::Quarantined, _)));
        Some(PageForm { reader, page, links, is_quarantined })
    }

    /// The words that tell it from another form.
    fn name(&self, other: &PageForm) -> String {
        match (self.page.is_json(), other.page.is_json()) {
            (true, false) => "JSON".to_owned(),
            (false, true) => "HTML".to_owned(),
            _ => format!("what {} gets", self.reader),
        }
    }
}

/// `true` for a link that an installer takes for a file of the project.
fn is_distribution_of(link: &PageLink, project: &str) -> bool {
    project_of(&link.file_name).is_some_and(|of| of == project)
}

/// The fault of a page on which an installer finds nothing.
fn nothing_listed(address: &Url, name: &str, form: &PageForm) -> IndexFault {
    let mut text = format!("it lists no file of `{name}`: installers find no version");
    if form.page.address.path() != address.path() || form.page.address.origin() != address.origin() {
        text = format!("{text}; the request was redirected to `{}`", address_without_user(&form.page.address));
    }
    IndexFault::error(address, text).hint(
        "if it is the page of a login or of an error, let the server answer 401 or 404; if a generator was \
         interrupted, run it again; else take the project off the first page",
    )
}

/// Reports a page in HTML that does not end.
fn check_end(address: &Url, body: &[u8], faults: &mut Vec<IndexFault>) {
    match PageEnd::of(body) {
        PageEnd::Complete => {}
        PageEnd::Open => faults.push(IndexFault::warning(address, "its last end tag is missing: it may be cut off")),
        PageEnd::InTag => faults.push(
            IndexFault::error(address, "it is cut off in the middle of a tag: installers do not find what followed")
                .hint("write the page again, under another name first, so that nobody reads half of it"),
        ),
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

/// A file of a page, by its name.
pub(super) fn stored(link: &PageLink) -> StoredFile {
    StoredFile { key: link.file_name.clone(), size: 0, stamp: String::new() }
}

/// Reports names of other projects, and names that installers take for the same.
fn check_names(address: &Url, project: &str, links: &[PageLink], faults: &mut Vec<IndexFault>) {
    let listing = DistributionListing::of(links.iter().map(stored).collect(), &NameFilter::default());
    for problem in &listing.problems {
        faults.push(IndexFault::error(address, format!("{problem}; installers ignore it")));
    }
    for (link, one) in links.iter().filter_map(|link| Some((link, distribution(stored(link))?))) {
        if let Err(reason) = file_rules::check_listed(&one, link.python.as_deref()) {
            faults.push(IndexFault::error(address, format!("`{}`: {reason}", link.file_name)));
        }
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
    if !Installer::reads(&kind) {
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

/// All forms have to say the same: clients prefer different ones.
fn compare(address: &Url, form: &PageForm, other: &PageForm, faults: &mut Vec<IndexFault>) {
    let (one, two) = (form.name(other), other.name(form));
    let (first, second) = (by_name(&form.links), by_name(&other.links));
    for name in first.keys().filter(|name| !second.contains_key(*name)) {
        faults.push(IndexFault::error(address, format!("`{name}` is in {one} only, and not in {two}")));
    }
    for name in second.keys().filter(|name| !first.contains_key(*name)) {
        faults.push(IndexFault::error(address, format!("`{name}` is in {two} only, and not in {one}")));
    }
    for (name, link) in &first {
        let Some(same) = second.get(name) else { continue };
        let differs = [
            ("hash", link.hash != same.hash),
            ("address", link.address != same.address),
            ("Requires-Python", link.python != same.python),
            ("withdrawal", link.yanked.is_some() != same.yanked.is_some()),
        ];
        for (what, _) in differs.into_iter().filter(|(_, differs)| *differs) {
            faults.push(IndexFault::error(address, format!("`{name}` has another {what} in {one} than in {two}")));
        }
    }
}

fn by_name(links: &[PageLink]) -> BTreeMap<&str, &PageLink> {
    links.iter().map(|link| (link.file_name.as_str(), link)).collect()
}
