//! Input: requests to a bucket. Output: their answers, waited for.
//!
//! Each request has a thread of its own, which is left behind when its answer is no longer wanted:
//! then it sends no more of its body, and is not repeated.

use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, DATE, ETAG, HeaderMap, LAST_MODIFIED};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rocwheel_content::{Digest, parse_sha256};
use rocwheel_index::Pace;
use rocwheel_progress::{Interrupted, Reporter};
use rusty_s3::Method;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Proxy, SendBody};
use url::Url;

use super::credentials::Keys;
use super::{REQUESTS, S3Options, Signing};
use crate::bucket_fault::{BucketFault, Failure};
use crate::error::Error;

/// How often a wait asks whether the user wants to stop.
const TICK: Duration = Duration::from_millis(100);
/// A request that moves nothing for this long is given up, and so is the sending of a part.
const SILENCE: Duration = Duration::from_mins(2);
const CONNECT: Duration = Duration::from_secs(15);
/// A request is tried this often, and not again after this time.
const TRIES: u32 = 6;
const TRYING: Duration = Duration::from_mins(1);
/// Time before the second try; each later one waits three times as long.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a signature is valid, in seconds: a request may wait for a connection.
const VALID: u64 = 900;
/// S3 refuses requests whose clock is off by more than this, and then says only "denied".
const SKEW: Duration = Duration::from_mins(15);
/// What S3 does not encode in a key before it signs it.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Why there is no answer.
pub(super) enum Stop {
    Interrupted(Interrupted),
    Fault(BucketFault),
    /// The answer arrives too slowly ([`Pace`]).
    Slow(io::Error),
}

impl Stop {
    pub(super) fn error(self, attempted: String) -> Error {
        match self {
            Stop::Interrupted(interrupted) => interrupted.into(),
            Stop::Fault(source) => Error::Bucket { attempted, source },
            Stop::Slow(error) => Error::Bucket { attempted, source: BucketFault::Unreachable(error.to_string()) },
        }
    }
}

impl From<BucketFault> for Stop {
    fn from(fault: BucketFault) -> Stop {
        Stop::Fault(fault)
    }
}

/// A request to S3.
pub(super) struct Request {
    method: Method,
    /// The key of the object; empty: the bucket.
    key: String,
    /// Sorted by name, not yet encoded.
    query: Vec<(&'static str, String)>,
    /// Names in lower case.
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    /// Statuses besides those of success that are an answer rather than an error.
    answers: &'static [StatusCode],
}

impl Request {
    pub(super) fn new(method: Method, key: &str) -> Request {
        let (key, body) = (key.to_owned(), Bytes::new());
        Request { method, key, query: Vec::new(), headers: Vec::new(), body, answers: &[] }
    }

    /// Parameters are given in the order of their names, as the signature wants them.
    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Request {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Request {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn headers(mut self, headers: impl IntoIterator<Item = (&'static str, String)>) -> Request {
        self.headers.extend(headers);
        self
    }

    pub(super) fn body(self, body: impl Into<Bytes>) -> Request {
        Request { body: body.into(), ..self }
    }

    pub(super) fn answered_by(self, answers: &'static [StatusCode]) -> Request {
        Request { answers, ..self }
    }
}

/// The answer to a request.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn etag(&self) -> Option<String> {
        self.header(ETAG.as_str()).map(str::to_owned)
    }
}

/// What the bucket says of an object.
pub(super) struct Head {
    pub(super) size: u64,
    pub(super) etag: Option<String>,
    pub(super) sha256: Option<Digest>,
    /// Seconds from the last change until now, by the server's clock.
    pub(super) age: Option<Duration>,
}

pub(super) struct Client {
    agent: Agent,
    /// The address of the bucket, without a slash at the end.
    base: String,
    region: String,
    /// `None` for requests that are not signed.
    keys: Option<Keys>,
    reporter: Arc<dyn Reporter>,
}

impl Client {
    pub(super) fn new(options: &S3Options, reporter: Arc<dyn Reporter>) -> Result<Client, BucketFault> {
        let region = options.region().unwrap_or("us-east-1").to_owned();
        let keys = match options.signing {
            Signing::Credentials => Some(Keys::find(|name| options.variable(&[name]).map(str::to_owned), &region)?),
            Signing::Anonymous => None,
        };
        let endpoint = options.server().map(endpoint_address).transpose()?;
        let server = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .tls_config(tls)
            .proxy(Proxy::try_from_env())
            // Another address needs another signature.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections_per_host(REQUESTS)
            .user_agent(concat!("rocwheel/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_send_body(Some(SILENCE))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .build()
            .new_agent();
        let base = format!("{server}/{}", options.address.bucket);
        Ok(Client { agent, base, region, keys, reporter })
    }

    /// Errors after an interruption.
    pub(super) fn check(&self) -> Result<(), Stop> {
        self.reporter.check().map_err(Stop::Interrupted)
    }

    /// Sends a request, again where that may help, and waits for its answer until an interruption.
    pub(super) fn send(self: &Arc<Self>, request: Request) -> Result<Reply, Stop> {
        self.send_while(request, &|| self.check())
    }

    /// Sends a request as [`Client::send`] does, for at most `limit`, also after an interruption.
    pub(super) fn finish(self: &Arc<Self>, limit: Duration, request: Request) -> Result<Reply, Stop> {
        let end = Instant::now() + limit;
        self.send_while(request, &|| within(end))
    }

    /// Sends a request as [`Client::send`] does, and gives it up when `check` fails.
    pub(super) fn send_while(
        self: &Arc<Self>,
        request: Request,
        check: &dyn Fn() -> Result<(), Stop>,
    ) -> Result<Reply, Stop> {
        let (request, began, mut pause) = (Arc::new(request), Instant::now(), PAUSE);
        for attempt in 1.. {
            check()?;
            match self.wait(&request, check)? {
                Ok(reply) => return Ok(reply),
                Err(Failure::Slow(error)) => return Err(Stop::Slow(error)),
                Err(Failure::Lasting(fault)) => return Err(fault.into()),
                Err(Failure::Passing(fault)) if attempt == TRIES || began.elapsed() > TRYING => {
                    return Err(fault.into());
                }
                Err(Failure::Passing(_)) => {}
            }
            let end = Instant::now() + pause;
            while Instant::now() < end {
                check()?;
                std::thread::sleep(TICK.min(end.saturating_duration_since(Instant::now())));
            }
            pause *= 3;
        }
        Err(BucketFault::Busy("no answer".to_owned()).into())
    }

    /// Waits for the end of one try, unless `check` fails before.
    fn wait(
        self: &Arc<Self>,
        request: &Arc<Request>,
        check: &dyn Fn() -> Result<(), Stop>,
    ) -> Result<Result<Reply, Failure>, Stop> {
        let (sender, receiver) = channel();
        let is_given_up = Arc::new(AtomicBool::new(false));
        let (client, request, flag) = (Arc::clone(self), Arc::clone(request), Arc::clone(&is_given_up));
        let thread = std::thread::Builder::new().name("bucket".to_owned());
        let spawned = thread.spawn(move || {
            // Nobody waits for the answer any more when it cannot be handed over.
            let _ = sender.send(client.exchange(&request, &flag));
        });
        spawned.map_err(|error| BucketFault::Other(format!("no thread can be started: {error}")))?;
        loop {
            match receiver.recv_timeout(TICK) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(BucketFault::Other("a request ended without an answer".to_owned()).into());
                }
            }
            if let Err(stop) = check() {
                is_given_up.store(true, Ordering::Relaxed);
                return Err(stop);
            }
        }
    }

    /// Sends a request once.
    fn exchange(&self, request: &Request, is_given_up: &Arc<AtomicBool>) -> Result<Reply, Failure> {
        let address = self.address(request)?;
        let method = request.method.to_str();
        let mut built = http::Request::builder().method(method).uri(address.as_str());
        for (name, value) in &request.headers {
            built = built.header(*name, value);
        }
        // A packed body would have another size than the object.
        built = built.header("accept-encoding", "identity");
        let has_body = matches!(request.method, Method::Put | Method::Post);
        let mut body = Until { inner: Cursor::new(request.body.clone()), is_given_up: Arc::clone(is_given_up) };
        let answer = if has_body {
            let built = built.header(CONTENT_LENGTH, request.body.len()).body(SendBody::from_reader(&mut body));
            built.map(|request| self.agent.run(request))
        } else {
            built.body(()).map(|request| self.agent.run(request))
        };
        // The address has the signature, and errors of the builder have no address.
        let answer = answer.map_err(|error| Failure::Lasting(BucketFault::Other(error.to_string())))?;
        let (parts, body) = answer.map_err(|error| Failure::of_client(&error))?.into_parts();
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let body = read_body(Until { inner: body.into_reader(), is_given_up: Arc::clone(is_given_up) })?;
        if request.method != Method::Head && length.is_some_and(|length: u64| length != body.len() as u64) {
            return Err(Failure::Passing(BucketFault::Unreachable("its answer ended too early".to_owned())));
        }
        let reply = Reply { status: parts.status, headers: parts.headers, body };
        judge(reply, request)
    }

    /// Where a request goes, with its signature.
    fn address(&self, request: &Request) -> Result<Url, Failure> {
        let mark = if request.key.is_empty() { "" } else { "/" };
        let address = format!("{}{mark}{}", self.base, utf8_percent_encode(&request.key, KEPT));
        let address = Url::parse(&address);
        let mut address =
            address.map_err(|error| Failure::Lasting(BucketFault::Other(format!("an address of it: {error}"))))?;
        let query = request.query.iter().map(|(name, value)| (*name, value.as_str()));
        let Some(keys) = &self.keys else {
            let parts = query.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
            let parts: Vec<String> = parts.collect();
            address.set_query((!parts.is_empty()).then(|| parts.join("&")).as_deref());
            return Ok(address);
        };
        let keys = keys.current(&self.agent)?;
        // AWS wants the signature of these, and proxies may change others.
        let mut signed: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        signed.retain(|(name, _)| name.starts_with("x-amz-"));
        signed.sort_unstable();
        let (now, region) = (Timestamp::now(), self.region.as_str());
        let (key, secret, token) = (keys.key(), keys.secret(), keys.token());
        let signed = signed.into_iter();
        Ok(rusty_s3::signing::sign(&now, request.method, address, key, secret, token, region, VALID, query, signed))
    }

    /// What the bucket says of an object; `None` when there is none.
    pub(super) fn head(self: &Arc<Self>, key: &str) -> Result<Option<Head>, Stop> {
        let request = Request::new(Method::Head, key).header("x-amz-checksum-mode", "ENABLED");
        let reply = self.send(request.answered_by(&[StatusCode::NOT_FOUND]))?;
        if reply.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let size = reply.header(CONTENT_LENGTH.as_str()).and_then(|size| size.parse().ok());
        Ok(Some(Head {
            size: size.ok_or_else(|| BucketFault::Other("the answer has no size".to_owned()))?,
            etag: reply.etag(),
            sha256: checksum(&reply),
            age: age(&reply.headers),
        }))
    }
}

/// Errors after `end`.
pub(super) fn within(end: Instant) -> Result<(), Stop> {
    if Instant::now() < end { Ok(()) } else { Err(BucketFault::Unreachable("not in time".to_owned()).into()) }
}

/// A reader that ends with an error once nobody wants it any more.
struct Until<R> {
    inner: R,
    is_given_up: Arc<AtomicBool>,
}

impl<R: Read> Read for Until<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_given_up.load(Ordering::Relaxed) {
            return Err(io::Error::other("given up"));
        }
        self.inner.read(buffer)
    }
}

fn read_body(mut body: impl Read) -> Result<Bytes, Failure> {
    let (mut bytes, mut pace, mut buffer) = (Vec::new(), Pace::default(), vec![0; 64 << 10]);
    loop {
        let began = Instant::now();
        let count = match body.read(&mut buffer) {
            Ok(0) => return Ok(bytes.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::of_client(&error)),
        };
        pace.note(began.elapsed(), count).map_err(Failure::Slow)?;
        bytes.extend_from_slice(&buffer[..count]);
    }
}

/// Tells answers from errors. S3 reports some failures in a body, after a status of success.
fn judge(reply: Reply, request: &Request) -> Result<Reply, Failure> {
    if request.answers.contains(&reply.status) && !is_about_bucket(&reply.body) {
        return Ok(reply);
    }
    let has_error = request.method == Method::Post && reply.body.windows(7).any(|window| window == b"<Error>");
    if reply.status.is_success() && !has_error {
        return Ok(reply);
    }
    let fault = BucketFault::of_answer(reply.status, &String::from_utf8_lossy(&reply.body));
    Err(match fault {
        BucketFault::Busy(_) if !fault.is_race() => Failure::Passing(fault),
        BucketFault::Denied(_) if is_clock_off(&reply.headers) => {
            Failure::Lasting(BucketFault::Credentials("RequestTimeTooSkewed".to_owned()))
        }
        // The object of an `If-Match` is gone: LocalStack answers 404, `s3s-fs` 412.
        BucketFault::Other(_) if request.method == Method::Put && reply.status == StatusCode::NOT_FOUND => {
            Failure::Lasting(BucketFault::Changed)
        }
        fault => Failure::Lasting(fault),
    })
}

/// `true` for an answer 404 that is not about an object.
fn is_about_bucket(body: &[u8]) -> bool {
    let word = b"<Code>NoSuchBucket</Code>";
    body.windows(word.len()).any(|window| window == word)
}

/// `true` if this machine's clock and the server's are too far apart for a signature.
fn is_clock_off(headers: &HeaderMap) -> bool {
    let server = time(headers, &DATE);
    server.is_some_and(|server| server.duration_since(Timestamp::now()).unsigned_abs() > SKEW)
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

/// The SHA-256 of all bytes: the server's own unless it is one of parts, else the one that an
/// upload left (in the order of AMD's `manage_structured.py`). An ETag with a hyphen is that of an
/// object of parts, whose checksum some servers do not mark.
fn checksum(reply: &Reply) -> Option<Digest> {
    let has_parts = reply.header(ETAG.as_str()).is_some_and(|etag| etag.contains('-'));
    let is_of_parts = has_parts || reply.header("x-amz-checksum-type") == Some("COMPOSITE");
    let own = reply.header("x-amz-checksum-sha256").filter(|_| !is_of_parts).and_then(|text| {
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).ok()?;
        Digest::try_from(bytes).ok()
    });
    own.or_else(|| {
        let names = ["x-amz-meta-checksum-sha256", "x-amz-meta-x-amz-meta-checksum-sha256"];
        names.iter().find_map(|name| parse_sha256(reply.header(name)?))
    })
}

/// Between the last change and the answer, both by the clock of the server.
fn age(headers: &HeaderMap) -> Option<Duration> {
    time(headers, &DATE)?.duration_since(time(headers, &LAST_MODIFIED)?).try_into().ok()
}

fn time(headers: &HeaderMap, name: &http::HeaderName) -> Option<Timestamp> {
    Some(jiff::fmt::rfc2822::parse(headers.get(name)?.to_str().ok()?).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_checksum_comes_first_unless_it_is_of_parts() {
        let headers = |all: &[(&'static str, &str)]| {
            let all = all.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
            Reply { status: StatusCode::OK, headers: all.collect(), body: Bytes::new() }
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
        assert_eq!(age(&headers(&times).headers), Some(Duration::from_secs(30)));
    }

    #[test]
    fn the_address_of_a_server_has_no_password() {
        let of = |text| endpoint_address(text).map_err(|fault| fault.to_string());
        assert_eq!(of("http://127.0.0.1:9000/").unwrap(), "http://127.0.0.1:9000");
        assert!(!of("https://me:hunter2@example.org").unwrap_err().contains("hunter2"));
        assert!(of("example.org").is_err() && of("ftp://example.org").is_err());
    }
}
