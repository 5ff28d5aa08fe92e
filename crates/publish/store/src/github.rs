//! Input: the releases of a repository on GitHub. Output: a [`LinkedStore`] with their wheels and
//! source distributions.
//!
//! GitHub keeps the SHA-256 of a file (`digest`), so no wheel is downloaded: METADATA is read in
//! ranges. The folder with the pages can be published anywhere, for example with GitHub Pages.
//! METADATA beside a wheel is on the pages where the release has it as a file `WHEEL.metadata`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use rocwheel_content::{Content, Reader, parse_sha256};
use rocwheel_index::{Answer, Fetch};
use rocwheel_progress::Reporter;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::error::Error;
use crate::linked::{LinkedFile, LinkedStore, is_distribution};
use crate::ranges::RangeReader;

/// Rows of one page of an answer; GitHub sends no more.
const ROWS: usize = 100;
/// The rows of files that the list of releases has in any case. Of a release with more, the files
/// are asked for separately.
const INLINE: usize = 30;
/// The largest answer in bytes.
const LIMIT: u64 = 64 << 20;
/// Requests at once; GitHub slows down clients with many.
const REQUESTS: usize = 8;
const VERSION: &str = "2022-11-28";

/// Which releases are listed, and how to reach GitHub.
#[derive(Clone)]
pub struct GithubAccess {
    /// `OWNER/NAME`.
    pub repository: String,
    pub kinds: ReleaseKinds,
    /// The address of the API, which a server of GitHub Enterprise has elsewhere.
    pub api: Url,
    /// A token, for private repositories and more requests per hour. It is sent to the API only.
    pub token: Option<String>,
}

impl fmt::Debug for GithubAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        formatter
            .debug_struct("GithubAccess")
            .field("repository", &self.repository)
            .field("kinds", &self.kinds)
            .field("api", &self.api.as_str())
            .field("token", &token)
            .finish()
    }
}

/// Which releases count beside those for everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReleaseKinds {
    /// Releases that are marked as prereleases.
    pub prereleases: bool,
    /// Releases that are not published; only a token sees them.
    pub drafts: bool,
}

#[derive(Deserialize)]
struct Release {
    tag_name: String,
    draft: bool,
    prerelease: bool,
    assets_url: Url,
    assets: Vec<Asset>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Asset {
    name: String,
    size: u64,
    state: String,
    /// `sha256:…`; files from before June 2025 have none.
    digest: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    browser_download_url: Url,
    /// The address in the API, which also answers for drafts and private repositories.
    url: Url,
}

struct Client {
    access: GithubAccess,
    fetch: Box<dyn Fetch>,
}

impl LinkedStore {
    /// The store of the files of all releases that count; pages go into the existing folder
    /// `pages`.
    pub fn of_releases(
        access: GithubAccess,
        pages: &Path,
        fetch: Box<dyn Fetch>,
        reporter: &dyn Reporter,
    ) -> Result<LinkedStore, Error> {
        let client = Client { access, fetch };
        let GithubAccess { repository, kinds, api, .. } = &client.access;
        let attempted = format!("list the releases of `{repository}`");
        let address = format!("{}/repos/{repository}/releases", api.as_str().trim_end_matches('/'));
        let mut assets: BTreeMap<String, (String, Asset)> = BTreeMap::new();
        let mut problems = Vec::new();
        for mut release in client.all::<Release>(&address, &attempted, reporter)? {
            if (release.draft && !kinds.drafts) || (release.prerelease && !kinds.prereleases) {
                continue;
            }
            let tag = std::mem::take(&mut release.tag_name);
            let found = if release.assets.len() < INLINE {
                release.assets
            } else {
                let attempted = format!("list the files of release `{tag}` of `{repository}`");
                client.all(release.assets_url.as_str(), &attempted, reporter)?
            };
            for asset in found {
                if asset.state != "uploaded" {
                    reporter.warn(&format!(
                        "`{}` of release `{tag}` is not listed: its upload is not complete",
                        asset.name
                    ));
                    continue;
                }
                match assets.get(&asset.name) {
                    Some((other, known)) if known.digest.is_none() || known.digest != asset.digest => {
                        problems.push(format!("`{}`: releases `{other}` and `{tag}` have different files", asset.name));
                    }
                    Some(_) => {}
                    None => drop(assets.insert(asset.name.clone(), (tag.clone(), asset))),
                }
            }
        }
        // Two releases often have files such as SHA256SUMS in common.
        problems
            .retain(|problem| is_distribution(problem.trim_start_matches('`').split('`').next().unwrap_or_default()));
        if !problems.is_empty() {
            return Err(Error::Files { problems });
        }
        let client = Arc::new(client);
        let files = assets.into_iter().map(|(name, (_, asset))| (name, asset.linked(&client))).collect();
        LinkedStore::new(pages, files, REQUESTS)
    }
}

impl Asset {
    fn linked(self, client: &Arc<Client>) -> LinkedFile {
        let digest = self.digest.as_deref().unwrap_or_default();
        LinkedFile {
            size: self.size,
            stamp: format!("{} {digest}", self.updated_at),
            sha256: digest.strip_prefix("sha256:").and_then(parse_sha256),
            uploaded: Some(self.created_at),
            address: self.browser_download_url.clone(),
            content: Some(Arc::new(AssetContent { client: Arc::clone(client), asset: self })),
        }
    }
}

impl Client {
    /// All rows of a list, page by page.
    fn all<T: DeserializeOwned>(
        &self,
        address: &str,
        attempted: &str,
        reporter: &dyn Reporter,
    ) -> Result<Vec<T>, Error> {
        let mut rows = Vec::new();
        for page in 1.. {
            reporter.check()?;
            let mut url = Url::parse(address).map_err(|error| github_error(attempted, &error))?;
            url.query_pairs_mut().append_pair("per_page", &ROWS.to_string()).append_pair("page", &page.to_string());
            let answer = self.ask(&url, &[("Accept", "application/vnd.github+json")]);
            let answer = answer.map_err(|error| github_error(attempted, &error))?;
            let status = answer.status;
            let mut body = Vec::new();
            answer.body.take(LIMIT).read_to_end(&mut body).map_err(|error| github_error(attempted, &error))?;
            if status != 200 {
                return Err(self.refusal(status, &body, attempted));
            }
            let found: Vec<T> = serde_json::from_slice(&body)
                .map_err(|error| github_error(attempted, &format_args!("its answer: {error}")))?;
            let is_last = found.len() < ROWS;
            rows.extend(found);
            if is_last {
                break;
            }
        }
        Ok(rows)
    }

    /// Asks GitHub. The token goes to the API alone.
    fn ask(&self, url: &Url, headers: &[(&str, &str)]) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        let mut all = headers.to_vec();
        let is_api = url.origin() == self.access.api.origin();
        let bearer = self.access.token.as_ref().filter(|_| is_api).map(|token| format!("Bearer {token}"));
        if is_api {
            all.push(("X-GitHub-Api-Version", VERSION));
        }
        if let Some(bearer) = &bearer {
            all.push(("Authorization", bearer));
        }
        self.fetch.get_with(url, &all)
    }

    fn refusal(&self, status: u16, body: &[u8], attempted: &str) -> Error {
        #[derive(Deserialize, Default)]
        struct Refusal {
            #[serde(default)]
            message: String,
        }
        let said = serde_json::from_slice::<Refusal>(body).unwrap_or_default().message;
        let has_token = self.access.token.is_some();
        let (reason, hint) = match status {
            403 | 429 if status == 429 || said.to_ascii_lowercase().contains("rate limit") => {
                let until = self.reset().map_or_else(String::new, |time| format!(" until {time}"));
                let hint = if has_token {
                    "try again then; a token has its own limit for each hour"
                } else {
                    "set GITHUB_TOKEN: without a token GitHub answers 60 requests in an hour"
                };
                (format!("GitHub's limit of requests is reached{until}"), hint)
            }
            401 => ("GitHub refuses the token".to_owned(), "check GITHUB_TOKEN, or unset it for a public repository"),
            404 if has_token => {
                ("there is no such repository for this token".to_owned(), "check its name and the token")
            }
            404 => ("there is no such public repository".to_owned(), "for a private one, set GITHUB_TOKEN"),
            _ => (format!("GitHub answers {status}: {}", said.escape_debug()), "try again later"),
        };
        Error::Github { attempted: attempted.to_owned(), reason, hint: Some(hint.to_owned()) }
    }

    /// When the limit of requests ends. This question is not counted.
    fn reset(&self) -> Option<Timestamp> {
        #[derive(Deserialize)]
        struct Limits {
            resources: Resources,
        }
        #[derive(Deserialize)]
        struct Resources {
            core: Core,
        }
        #[derive(Deserialize)]
        struct Core {
            reset: i64,
        }
        let url = format!("{}/rate_limit", self.access.api.as_str().trim_end_matches('/'));
        let answer = self.ask(&Url::parse(&url).ok()?, &[]).ok()?;
        let limits: Limits = serde_json::from_reader(answer.body.take(LIMIT)).ok()?;
        Timestamp::from_second(limits.resources.core.reset).ok()
    }

    fn range(&self, asset: &Asset, range: Range<u64>) -> io::Result<Bytes> {
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let headers =
            [("Range", bytes.as_str()), ("Accept", "application/octet-stream"), ("Accept-Encoding", "identity")];
        let answer = self.ask(self.address(asset), &headers).map_err(io::Error::other)?;
        let is_whole = range == (0..asset.size);
        if answer.status != 206 && !(answer.status == 200 && is_whole) {
            return Err(io::Error::other(format!("GitHub answers {} to a request for a range", answer.status)));
        }
        let mut found = Vec::new();
        answer.body.take(range.end - range.start + 1).read_to_end(&mut found)?;
        Ok(found.into())
    }

    fn address<'a>(&self, asset: &'a Asset) -> &'a Url {
        if self.access.kinds.drafts { &asset.url } else { &asset.browser_download_url }
    }
}

fn github_error(attempted: &str, reason: &dyn ToString) -> Error {
    Error::Github { attempted: attempted.to_owned(), reason: reason.to_string(), hint: None }
}

struct AssetContent {
    client: Arc<Client>,
    asset: Asset,
}

impl Content for AssetContent {
    fn size(&self) -> u64 {
        self.asset.size
    }

    fn open(&self) -> io::Result<Reader> {
        let (client, asset) = (Arc::clone(&self.client), self.asset.clone());
        Ok(Box::new(RangeReader::new(asset.size, move |range| client.range(&asset, range))))
    }
}
