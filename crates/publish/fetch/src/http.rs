//! Input: the address of a folder on a web server. Output: the files that its index page links to.
//!
//! TheRock's buckets have such a page (`index.html`) in the folder of each run, and most servers
//! make one of a folder themselves.

use std::io::Read;

use rocwheel_index::{Http, HttpAnswer, address_without_user, page, text_without_users};
use rocwheel_progress::{Exit, Failure, Interrupted, Reporter};
use url::Url;

use crate::DownloadFault;
use crate::error::{self, wrong_place};
use crate::source::{ArtifactSource, FileFacts, FileStream, SourceFile};

/// Bytes of the largest page and sidecar that is read.
const LARGEST: u64 = 64 << 20;
/// How often a page is asked for while the server is out of order.
const TRIES: u32 = 4;

pub struct HttpSource {
    http: Http,
    /// Ends in a slash.
    folder: Url,
}

impl HttpSource {
    pub fn new(folder: &str, http: Http) -> Result<HttpSource, Failure> {
        let text = format!("`{}` is no address", text_without_users(folder));
        let mut folder = Url::parse(folder).map_err(|error| wrong_place(format!("{text}: {error}")))?;
        if !matches!(folder.scheme(), "http" | "https") {
            return Err(wrong_place(format!("{text}: it begins with neither `http://` nor `https://`")));
        }
        folder.set_query(None);
        folder.set_fragment(None);
        let path = folder.path().trim_end_matches("index.html").trim_end_matches('/').to_owned();
        folder.set_path(&format!("{path}/"));
        let folder = http.remember(&folder);
        Ok(HttpSource { http, folder })
    }

    fn address(&self, name: &str) -> Url {
        let mut address = self.folder.clone();
        if let Ok(mut parts) = address.path_segments_mut() {
            parts.pop_if_empty().push(name);
        }
        address
    }

    /// A page or another small file, asked for again while the server is out of order; `None` for
    /// one that does not exist.
    fn small(
        &self,
        address: &Url,
        reporter: Option<&dyn Reporter>,
    ) -> Result<Option<(HttpAnswer, Vec<u8>)>, Unanswered> {
        let mut tried = 0;
        loop {
            tried += 1;
            let error = match self.http.get_with(address, &[]) {
                Ok(mut answer) => match answer.status {
                    200 => {
                        let mut body = Vec::new();
                        match answer.body.by_ref().take(LARGEST).read_to_end(&mut body) {
                            Ok(_) => return Ok(Some((answer, body))),
                            Err(error) => Unanswered::Silent(error.to_string()),
                        }
                    }
                    404 | 410 => return Ok(None),
                    status if status >= 500 || status == 429 => Unanswered::Status(status),
                    status => return Err(Unanswered::Status(status)),
                },
                Err(error) => Unanswered::Silent(error.to_string()),
            };
            if tried == TRIES {
                return Err(error);
            }
            if let Some(reporter) = reporter {
                reporter.check().map_err(Unanswered::Interrupted)?;
            }
            std::thread::sleep(std::time::Duration::from_millis(200 << tried));
        }
    }
}

/// Why a small file was not read.
enum Unanswered {
    Interrupted(Interrupted),
    Status(u16),
    /// The server cannot be reached, or breaks off.
    Silent(String),
}

impl Unanswered {
    fn of(self, address: &Url) -> Failure {
        match self {
            Self::Interrupted(interrupted) => interrupted.into(),
            Self::Silent(reason) => error::unreachable(&shown(address), reason),
            Self::Status(status) => {
                let exit = if status >= 500 || status == 429 { Exit::TryAgain } else { Exit::Failed };
                Failure::message(format!("cannot read `{}`: the server answers {status}", shown(address)))
                    .with_hint("check the address: it is that of the folder with the artifacts")
                    .with_exit(exit)
            }
        }
    }
}

/// An address without the user and the password that it may have.
pub(crate) fn shown(address: &Url) -> String {
    address_without_user(address).to_string()
}

fn refuse(address: &Url, status: u16) -> DownloadFault {
    let text = format!("the server answers {status} to `{}`", shown(address));
    match status {
        408 | 425 | 429 | 500.. => DownloadFault::Network(text),
        _ => DownloadFault::Refused { reason: text, hint: None },
    }
}

fn unreachable(address: &Url, error: &(dyn std::error::Error + Send + Sync)) -> DownloadFault {
    DownloadFault::Network(format!("cannot read `{}`: {error}", shown(address)))
}

/// A text that changes when the file does. A weak ETag promises no identical bytes.
fn stamp(answer: &HttpAnswer) -> String {
    let etag = answer.header("etag").filter(|etag| !etag.starts_with("W/"));
    etag.or_else(|| answer.header("last-modified")).unwrap_or_default().to_owned()
}

impl ArtifactSource for HttpSource {
    fn name(&self) -> String {
        shown(&self.folder).trim_end_matches('/').to_owned()
    }

    fn list(&self, reporter: &dyn Reporter) -> Result<Vec<SourceFile>, Failure> {
        let page = self.address("index.html");
        let mut found = self.small(&page, Some(reporter)).map_err(|error| error.of(&page))?;
        if found.is_none() {
            found = self.small(&self.folder, Some(reporter)).map_err(|error| error.of(&self.folder))?;
        }
        let Some((answer, body)) = found else { return Ok(Vec::new()) };
        let kind = answer.header("content-type").unwrap_or("text/html").to_owned();
        let links = page::parse(&kind, &body, &answer.address)
            .map_err(|reason| error::unreachable(&shown(&answer.address), reason))?;
        let folder =
            answer.address.join(".").map_or_else(|_| self.folder.path().to_owned(), |url| url.path().to_owned());
        let inside = links.into_iter().filter(|link| {
            let rest = link.address.path().strip_prefix(folder.as_str());
            rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
        });
        let mut names: Vec<String> = inside.map(|link| link.file_name).collect();
        // A name is a part of a path here too.
        names.retain(|name| !name.contains('/') && !matches!(name.as_str(), "" | "." | ".."));
        names.sort_unstable();
        names.dedup();
        Ok(names.into_iter().map(|name| SourceFile { name, size: None, stamp: String::new() }).collect())
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DownloadFault> {
        let address = self.address(name);
        let read = self.small(&address, None).map_err(|error| match error {
            Unanswered::Status(status) => refuse(&address, status),
            error => DownloadFault::Network(error.of(&address).to_string()),
        });
        Ok(read?.map(|(_, body)| body))
    }

    fn facts(&self, file: &SourceFile) -> Result<FileFacts, DownloadFault> {
        let address = self.address(&file.name);
        let answer = self.http.head_of(&address).map_err(|error| unreachable(&address, &*error))?;
        if answer.status != 200 {
            return Err(refuse(&address, answer.status));
        }
        let size = answer.header("content-length").and_then(|size| size.parse().ok());
        Ok(FileFacts { size, stamp: stamp(&answer), sha256: None })
    }

    fn open(&self, file: &SourceFile, facts: &FileFacts, from: u64) -> Result<FileStream, DownloadFault> {
        let address = self.address(&file.name);
        let range = format!("bytes={from}-");
        let mut headers = Vec::new();
        // Without a stamp nothing tells whether the rest belongs to the beginning.
        if from > 0 && !facts.stamp.is_empty() {
            headers.extend([("Range", range.as_str()), ("If-Range", facts.stamp.as_str())]);
        }
        let answer = self.http.get_with(&address, &headers).map_err(|error| unreachable(&address, &*error))?;
        let begins = format!("bytes {from}-");
        match answer.status {
            206 if answer.header("content-range").is_some_and(|range| range.starts_with(&begins)) => {
                Ok(FileStream::Continued(answer.body))
            }
            200 if from == 0 => Ok(FileStream::Continued(answer.body)),
            200 => Ok(FileStream::FromStart(answer.body)),
            status => Err(refuse(&address, status)),
        }
    }
}
