//! Input: requests to a bucket. Output: their answers, waited for.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE, ETAG, HeaderMap, LAST_MODIFIED};
use http::{Method, StatusCode};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, Checksum};
use object_store::client::{HttpClient, HttpConnector as _, HttpErrorKind, HttpRequest, ReqwestConnector};
use object_store::path::Path;
use object_store::{Attribute, BackoffConfig, ClientOptions, RetryConfig};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rocwheel_content::{Digest, parse_sha256};
use rocwheel_progress::{Interrupted, Reporter};
use tokio::runtime::Runtime;
use url::Url;

use super::{S3Options, Signing, Special};
use crate::bucket_fault::BucketFault;
use crate::error::Error;

/// The key of the SHA-256 in the metadata of an object, as PyTorch's and AMD's scripts read it.
pub(super) const CHECKSUM: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("checksum-sha256"));
/// How often a wait asks whether the user wants to stop.
const TICK: Duration = Duration::from_millis(100);
/// A request that moves nothing for this long is given up. It includes the sending of a part.
const SILENCE: Duration = Duration::from_mins(2);
const CONNECT: Duration = Duration::from_secs(15);
/// A request is tried this often, and not again after this time.
const TRIES: usize = 6;
const TRYING: Duration = Duration::from_mins(1);
/// What S3 does not encode in a key before it signs it.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Why there is no answer.
pub(super) enum Stop {
    Interrupted(Interrupted),
    Fault(BucketFault),
}

impl Stop {
    pub(super) fn error(self, attempted: String) -> Error {
        match self {
            Stop::Interrupted(interrupted) => interrupted.into(),
            Stop::Fault(source) => Error::Bucket { attempted, source },
        }
    }
}

impl From<BucketFault> for Stop {
    fn from(fault: BucketFault) -> Stop {
        Stop::Fault(fault)
    }
}

impl From<object_store::Error> for BucketFault {
    fn from(error: object_store::Error) -> BucketFault {
        BucketFault::of_store(&error)
    }
}

pub(super) struct Head {
    pub(super) size: u64,
    pub(super) etag: Option<String>,
    pub(super) sha256: Option<Digest>,
    /// Seconds from the last change until now, by the server's clock.
    pub(super) age: Option<Duration>,
}

pub(super) struct Client {
    runtime: Runtime,
    pub(super) store: AmazonS3,
    http: HttpClient,
    /// The address of the bucket, without a slash at the end.
    base: String,
    region: String,
    signing: Signing,
    reporter: Arc<dyn Reporter>,
}

impl Client {
    pub(super) fn new(options: &S3Options, reporter: Arc<dyn Reporter>) -> Result<Client, Error> {
        let failed = |source| Error::Bucket { attempted: format!("open `{}`", options.address), source };
        // The first one to say so decides for the process; ureq brings its own.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let variable = |name: &str| {
            let found = options.variables.iter().find(|(known, value)| known == name && !value.is_empty());
            found.map(|(_, value)| value.clone())
        };
        if options.signing == Signing::Credentials && !has_credentials(&variable) {
            return Err(failed(BucketFault::NoCredentials));
        }
        let region = options.region().unwrap_or("us-east-1").to_owned();
        let endpoint = options.server().map(endpoint_address).transpose().map_err(failed)?;
        // object_store itself would take more of the environment than is meant here.
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&options.address.bucket)
            .with_region(&region)
            .with_retry(retries())
            .with_checksum_algorithm(Checksum::SHA256)
            .with_disable_bulk_delete(true)
            .with_skip_signature(options.signing == Signing::Anonymous);
        for (key, name) in CREDENTIALS {
            if let Some(value) = variable(name) {
                builder = builder.with_config(key, value);
            }
        }
        let mut transport = ClientOptions::new()
            .with_timeout_disabled()
            .with_read_timeout(SILENCE)
            .with_connect_timeout(CONNECT)
            .with_user_agent(http::HeaderValue::from_static(concat!("rocwheel/", env!("CARGO_PKG_VERSION"))));
        let server = endpoint.clone().unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        if let Some(endpoint) = endpoint {
            transport = transport.with_allow_http(endpoint.starts_with("http:"));
            builder = builder.with_endpoint(endpoint);
        }
        let other = |error: object_store::Error| failed(BucketFault::Options(rocwheel_progress::with_causes(&error)));
        let http = ReqwestConnector::default().connect(&transport).map_err(other)?;
        let store = builder.with_client_options(transport).build().map_err(other)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("bucket")
            .enable_all()
            .build()
            .map_err(|error| failed(BucketFault::Other(error.to_string())))?;
        let base = format!("{server}/{}", options.address.bucket);
        Ok(Client { runtime, store, http, base, region, signing: options.signing, reporter })
    }

    /// Waits for the end of `work`, or of the user's patience.
    pub(super) fn wait<T>(&self, work: impl Future<Output = Result<T, BucketFault>>) -> Result<T, Stop> {
        self.wait_while(|| Ok(()), work)
    }

    /// Waits as [`Client::wait`] does, and asks `check` before each step of `work`: after an error
    /// of it no request is sent or repeated.
    pub(super) fn wait_while<T>(
        &self,
        check: impl Fn() -> Result<(), BucketFault>,
        work: impl Future<Output = Result<T, BucketFault>>,
    ) -> Result<T, Stop> {
        self.runtime.block_on(async {
            let mut work = pin!(work);
            let mut steps = poll_fn(|context| match check() {
                Ok(()) => work.as_mut().poll(context),
                Err(fault) => Poll::Ready(Err(fault)),
            });
            loop {
                self.reporter.check().map_err(Stop::Interrupted)?;
                if let Ok(result) = tokio::time::timeout(TICK, &mut steps).await {
                    return result.map_err(Stop::Fault);
                }
            }
        })
    }

    /// Waits for the end of `work` for at most `limit`, also after an interruption: to tidy up.
    pub(super) fn finish<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        self.runtime.block_on(async { tokio::time::timeout(limit, work).await.ok() })
    }

    /// Runs `work` beside everything else until it ends or its handle is aborted.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> tokio::task::AbortHandle {
        self.runtime.spawn(work).abort_handle()
    }

    /// What the bucket says of an object; `None` when there is none. `object_store` cannot ask for
    /// the checksum.
    pub(super) async fn head(&self, path: &Path) -> Result<Option<Head>, BucketFault> {
        let ask = Special {
            method: Method::HEAD,
            query: String::new(),
            headers: vec![("x-amz-checksum-mode", "ENABLED".to_owned())],
            body: Bytes::new(),
            answers: &[StatusCode::NOT_FOUND],
        };
        let (status, headers, _) = self.send(path, &ask).await?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let size = text(CONTENT_LENGTH.as_str()).and_then(|size| size.parse().ok());
        Ok(Some(Head {
            size: size.ok_or_else(|| BucketFault::Other("the answer has no size".to_owned()))?,
            etag: text(ETAG.as_str()).map(str::to_owned),
            sha256: checksum(&headers),
            age: age(&headers),
        }))
    }

    /// Sends a request that `object_store` does not know, again where that may help.
    pub(super) async fn send(
        &self,
        path: &Path,
        special: &Special<'_>,
    ) -> Result<(StatusCode, HeaderMap, Bytes), BucketFault> {
        let mut pause = Duration::from_millis(100);
        for attempt in 1.. {
            let is_last = attempt == TRIES;
            match self.send_once(path, special).await? {
                // S3 reports some failures in a body, after a status of success.
                Ok((status, headers, body)) => {
                    let is_answer = special.answers.contains(&status) || status.is_success();
                    let is_fault =
                        !is_answer || body.windows(7).any(|window| window == b"<Error>") && status.is_success();
                    if !is_fault {
                        return Ok((status, headers, body));
                    }
                    let fault = BucketFault::of_answer(status, &String::from_utf8_lossy(&body));
                    if is_last || !matches!(fault, BucketFault::Busy(_)) {
                        return Err(fault);
                    }
                }
                Err(fault) if is_last => return Err(fault),
                Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause *= 3;
        }
        Err(BucketFault::Busy("no answer".to_owned()))
    }

    /// The outer error is final, the inner one worth another try.
    #[allow(clippy::type_complexity, reason = "an answer is a status, headers and a body")]
    async fn send_once(
        &self,
        path: &Path,
        special: &Special<'_>,
    ) -> Result<Result<(StatusCode, HeaderMap, Bytes), BucketFault>, BucketFault> {
        let other = |error: &dyn std::error::Error| BucketFault::Other(rocwheel_progress::with_causes(error));
        let mark = if special.query.is_empty() { "" } else { "?" };
        let address = format!("{}/{}{mark}{}", self.base, utf8_percent_encode(path.as_ref(), KEPT), special.query);
        let mut request = http::Request::builder().method(special.method.clone()).uri(address);
        for (name, value) in &special.headers {
            request = request.header(*name, value);
        }
        if special.method != Method::HEAD {
            request = request.header(CONTENT_LENGTH, special.body.len());
        }
        let mut request: HttpRequest = request.body(special.body.clone().into()).map_err(|error| other(&error))?;
        if self.signing == Signing::Credentials {
            let credential = self.store.credentials().get_credential().await?;
            AwsAuthorizer::new(&credential, "s3", &self.region).try_authorize(&mut request, None)?;
        }
        let unanswered = |error: object_store::client::HttpError| match error.kind() {
            HttpErrorKind::Decode => Err(other(&error)),
            _ => Ok(Err(BucketFault::of_store(&object_store::Error::Generic { store: "S3", source: Box::new(error) }))),
        };
        let response = match self.http.execute(request).await {
            Ok(response) => response,
            Err(error) => return unanswered(error),
        };
        let (parts, body) = response.into_parts();
        match body.bytes().await {
            Ok(body) => Ok(Ok((parts.status, parts.headers, body))),
            Err(error) => unanswered(error),
        }
    }
}

/// Maps AWS variables to `object_store` keys. The metadata service is skipped: off AWS it takes a
/// minute to fail.
const CREDENTIALS: [(AmazonS3ConfigKey, &str); 8] = [
    (AmazonS3ConfigKey::AccessKeyId, "AWS_ACCESS_KEY_ID"),
    (AmazonS3ConfigKey::SecretAccessKey, "AWS_SECRET_ACCESS_KEY"),
    (AmazonS3ConfigKey::Token, "AWS_SESSION_TOKEN"),
    (AmazonS3ConfigKey::WebIdentityTokenFile, "AWS_WEB_IDENTITY_TOKEN_FILE"),
    (AmazonS3ConfigKey::RoleArn, "AWS_ROLE_ARN"),
    (AmazonS3ConfigKey::ContainerCredentialsRelativeUri, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
    (AmazonS3ConfigKey::ContainerCredentialsFullUri, "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    (AmazonS3ConfigKey::ContainerAuthorizationTokenFile, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
];

fn has_credentials(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let has = |names: &[&str]| names.iter().all(|name| variable(name).is_some());
    has(&["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
        || has(&["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"])
        || has(&["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"])
        || has(&["AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"])
}

/// The address of a server without a slash at the end. One with a password would be in messages.
fn endpoint_address(text: &str) -> Result<String, BucketFault> {
    let address = Url::parse(text).ok().filter(|address| matches!(address.scheme(), "http" | "https"));
    let address = address.filter(|address| address.query().is_none() && address.fragment().is_none());
    match address {
        Some(address) if address.username().is_empty() && address.password().is_none() => {
            Ok(String::from(address).trim_end_matches('/').to_owned())
        }
        Some(_) => Err(BucketFault::Options("the address of the server has a user name or password in it".to_owned())),
        None => Err(BucketFault::Options(format!("`{text}` is not the address of a server"))),
    }
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(10),
            base: 3.0,
        },
        max_retries: TRIES - 1,
        retry_timeout: TRYING,
    }
}

/// The SHA-256 of all bytes: the server's own unless it is one of parts, else the one that an
/// upload left (in the order of AMD's `manage_structured.py`). An ETag with a hyphen is that of an
/// object of parts, whose checksum some servers do not mark.
fn checksum(headers: &HeaderMap) -> Option<Digest> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let has_parts = text(ETAG.as_str()).is_some_and(|etag| etag.contains('-'));
    let is_of_parts = has_parts || text("x-amz-checksum-type") == Some("COMPOSITE");
    let own = text("x-amz-checksum-sha256").filter(|_| !is_of_parts).and_then(|text| {
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).ok()?;
        Digest::try_from(bytes).ok()
    });
    let left = || {
        let names = ["x-amz-meta-checksum-sha256", "x-amz-meta-x-amz-meta-checksum-sha256"];
        names.iter().find_map(|name| parse_sha256(text(name)?))
    };
    own.or_else(left)
}

/// Between the last change and the answer, both by the clock of the server.
fn age(headers: &HeaderMap) -> Option<Duration> {
    let time = |name| {
        let text = headers.get(name)?.to_str().ok()?;
        Some(jiff::fmt::rfc2822::parse(text).ok()?.timestamp())
    };
    (time(DATE)?.duration_since(time(LAST_MODIFIED)?)).try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_checksum_comes_first_unless_it_is_of_parts() {
        let headers = |all: &[(&'static str, &str)]| {
            let all = all.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
            all.collect::<HeaderMap>()
        };
        let hexadecimal = "01".repeat(32);
        let own = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";
        let left = ("x-amz-meta-checksum-sha256", hexadecimal.as_str());
        let of = |all: &[(&'static str, &str)]| checksum(&headers(all)).map(|digest| digest[0]);
        assert_eq!(of(&[("x-amz-checksum-sha256", own), left]), Some(2));
        assert_eq!(of(&[("x-amz-checksum-sha256", &format!("{own}-3")), left]), Some(1));
        assert_eq!(of(&[("x-amz-checksum-sha256", own), ("x-amz-checksum-type", "COMPOSITE"), left]), Some(1));
        assert_eq!(of(&[("x-amz-checksum-sha256", own), ("etag", "\"0f-3\""), left]), Some(1));
        assert_eq!(of(&[("x-amz-meta-checksum-sha256", "xyz")]), None);
        assert_eq!(of(&[]), None);
        let times = [("date", "Sun, 22 Nov 2026 10:00:30 GMT"), ("last-modified", "Sun, 22 Nov 2026 10:00:00 GMT")];
        assert_eq!(age(&headers(&times)), Some(Duration::from_secs(30)));
    }

    #[test]
    fn the_address_of_a_server_has_no_password() {
        let of = |text| endpoint_address(text).map_err(|fault| fault.to_string());
        assert_eq!(of("http://127.0.0.1:9000/").unwrap(), "http://127.0.0.1:9000");
        assert!(!of("https://me:hunter2@example.org").unwrap_err().contains("hunter2"));
        assert!(of("example.org").is_err() && of("ftp://example.org").is_err());
    }
}
