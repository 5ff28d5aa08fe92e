//! Input: an address. Output: the answer of the server. Only this module knows the HTTP client.

use std::io::{self, Read};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use ureq::config::RedirectAuthHeaders;
use ureq::http::Method;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Proxy, ResponseExt as _};
use url::Url;

use crate::least_speed::{Pace, Paced};
use crate::{Answer, BadAddress, Credentials, Fetch, address_without_user};

/// Longest wait for the first or next bytes of an answer.
const SILENCE: Duration = Duration::from_mins(1);
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(30);

/// Reads files over HTTP and HTTPS. It follows redirections and trusts the certificates of the
/// system. The user that an address names is used for later addresses of the same server too, and
/// no answer has it in its address. A body that arrives at less than 64 KiB a minute ends with an
/// error.
pub struct Http {
    agent: Agent,
    credentials: RwLock<Credentials>,
    /// The least pace of a body.
    pace: fn() -> Pace,
}

impl Http {
    /// Creates a client, with an optional proxy (`http://host:port`).
    ///
    /// # Errors
    /// The address of the proxy cannot be parsed.
    pub fn new(proxy: Option<&str>) -> Result<Http, Box<dyn std::error::Error + Send + Sync>> {
        let proxy = proxy.map(Proxy::new).transpose()?;
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .tls_config(tls)
            .proxy(proxy)
            // Private indexes redirect within their server; another server gets no password.
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .user_agent(concat!("rocwheel/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .build();
        Ok(Http { agent: config.into(), credentials: RwLock::default(), pace: Pace::default })
    }

    #[must_use]
    pub fn with_credentials(self, credentials: Credentials) -> Http {
        Http { credentials: RwLock::new(credentials), ..self }
    }

    /// Takes the user out of an address, for this and later requests.
    pub fn remember(&self, address: &Url) -> Url {
        if address.username().is_empty() && address.password().is_none() {
            return address.clone();
        }
        self.credentials.write().unwrap_or_else(PoisonError::into_inner).take(address)
    }

    /// A request without a body. The caller's `Authorization` comes before that of the server.
    fn request(
        &self,
        method: &ureq::http::Method,
        address: &Url,
        headers: &[(&str, &str)],
    ) -> Result<ureq::http::Response<ureq::Body>, Box<dyn std::error::Error + Send + Sync>> {
        let plain = self.remember(address);
        if !matches!(plain.scheme(), "http" | "https") {
            return Err(BadAddress::new(&plain, "is not the address of a web server").into());
        }
        let mut request = ureq::http::Request::builder().method(method).uri(plain.as_str());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !has_header(headers, "accept-encoding") {
            // Nothing here unpacks bodies, and a packed one would have another size than the file.
            request = request.header("Accept-Encoding", "identity");
        }
        if !has_header(headers, "authorization") {
            let known = self.credentials.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(value) = known.authorization(&plain) {
                request = request.header("Authorization", value);
            }
        }
        let request =
            request.body(()).map_err(|error| BadAddress::new(&plain, format!("cannot be requested: {error}")))?;
        self.agent.run(request).map_err(|error| match error {
            // Callers know the kind, and not the client.
            error @ ureq::Error::Timeout(_) => timed_out(error).into(),
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => error.into(),
            error => error.into(),
        })
    }

    /// Requests an address with more headers, such as Range. Bodies are not compressed.
    ///
    /// # Errors
    /// The cause that prevented an answer; an answer with any status is a success.
    pub fn get_with(
        &self,
        address: &Url,
        headers: &[(&str, &str)],
    ) -> Result<HttpAnswer, Box<dyn std::error::Error + Send + Sync>> {
        let response = self.request(&Method::GET, address, headers)?;
        Ok(self.answer_with_headers(response, address))
    }

    /// Requests the headers of a file.
    pub fn head_of(&self, address: &Url) -> Result<HttpAnswer, Box<dyn std::error::Error + Send + Sync>> {
        let response = self.request(&Method::HEAD, address, &[])?;
        Ok(self.answer_with_headers(response, address))
    }

    fn answer_with_headers(&self, response: ureq::http::Response<ureq::Body>, asked: &Url) -> HttpAnswer {
        let headers = response.headers().iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
        HttpAnswer {
            status: response.status().as_u16(),
            address: final_address(&response, asked),
            headers: headers.collect(),
            body: self.body(response),
        }
    }

    fn answer(&self, response: ureq::http::Response<ureq::Body>, asked: &Url) -> Answer {
        let encoding = header(&response, "content-encoding").to_ascii_lowercase().replace("identity", "");
        Answer {
            status: response.status().as_u16(),
            content_type: header(&response, "content-type").to_owned(),
            cache_control: header(&response, "cache-control").to_owned(),
            size: header(&response, "content-length").parse().ok().filter(|_| encoding.is_empty()),
            encoding,
            address: final_address(&response, asked),
            body: self.body(response),
        }
    }

    fn body(&self, response: ureq::http::Response<ureq::Body>) -> Box<dyn Read + Send> {
        Box::new(Paced::new(Body(response.into_body().into_reader()), (self.pace)()))
    }
}

/// The answer of a server with all its headers.
pub struct HttpAnswer {
    pub status: u16,
    /// The address after all redirections.
    pub address: Url,
    pub body: Box<dyn Read + Send>,
    headers: Vec<(String, String)>,
}

impl HttpAnswer {
    /// A header by its name in lower case, if the server sent it.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Fetch for Http {
    fn get(&self, address: &Url, accept: &str) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.answer(self.request(&Method::GET, address, &[("Accept", accept)])?, address))
    }

    fn get_with(
        &self,
        address: &Url,
        headers: &[(&str, &str)],
    ) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.answer(self.request(&Method::GET, address, headers)?, address))
    }

    fn has_user(&self, address: &Url) -> bool {
        let plain = self.remember(address);
        self.credentials.read().unwrap_or_else(PoisonError::into_inner).authorization(&plain).is_some()
    }

    fn head(&self, address: &Url) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.answer(self.request(&Method::HEAD, address, &[])?, address))
    }
}

fn has_header(headers: &[(&str, &str)], wanted: &str) -> bool {
    headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted))
}

fn header<'r>(response: &'r ureq::http::Response<ureq::Body>, name: &str) -> &'r str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The address after all redirections.
fn final_address(response: &ureq::http::Response<ureq::Body>, asked: &Url) -> Url {
    Url::parse(&response.get_uri().to_string()).unwrap_or_else(|_| address_without_user(asked))
}

fn timed_out(error: ureq::Error) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, error)
}

/// The body of an answer. A timeout has the kind [`io::ErrorKind::TimedOut`].
struct Body<R>(R);

impl<R: Read> Read for Body<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
            match inner {
                Some(ureq::Error::Timeout(reason)) => timed_out(ureq::Error::Timeout(*reason)),
                _ => error,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};

    use super::*;

    #[test]
    fn a_timeout_is_known_by_its_kind() {
        struct Stalled(Option<ureq::Error>);
        impl Read for Stalled {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(self.0.take().unwrap().into_io())
            }
        }
        let kind = |error| Body(Stalled(Some(error))).read(&mut [0]).unwrap_err().kind();
        assert_eq!(kind(ureq::Error::Timeout(ureq::Timeout::RecvBody)), io::ErrorKind::TimedOut);
        assert_eq!(kind(ureq::Error::HostNotFound), io::ErrorKind::Other);
    }

    #[test]
    fn other_schemes_are_no_addresses_and_show_no_password() {
        let http = Http::new(None).unwrap();
        for text in ["ftp://joe:S3cretPw@host/x", "file:///x"] {
            let Err(error) = http.get(&Url::parse(text).unwrap(), "*/*") else { panic!("{text} was requested") };
            assert!(error.is::<BadAddress>() && !error.to_string().contains("S3cret"), "{error}");
        }
    }

    #[test]
    fn a_body_that_drips_is_an_error() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = Url::parse(&format!("http://{}/a.whl", listener.local_addr().unwrap())).unwrap();
        // The thread ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut line = String::new();
                while line != "\r\n" {
                    line.clear();
                    reader.read_line(&mut line).unwrap();
                }
                let head = "HTTP/1.1 206 x\r\nContent-Length: 100\r\nConnection: close\r\n\r\n";
                let _ = reader.into_inner().write_all(&[head.as_bytes(), &[b'x'; 100]].concat());
            }
        });
        let dripping = Http { pace: || Pace::over(Duration::ZERO), ..Http::new(None).unwrap() };
        let mut bytes = Vec::new();
        let error = dripping.get(&address, "*/*").unwrap().body.read_to_end(&mut bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        let mut body = Http::get_with(&dripping, &address, &[("Range", "bytes=0-99")]).unwrap().body;
        assert_eq!(body.read_to_end(&mut bytes).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let patient = Http::new(None).unwrap();
        assert_eq!(patient.get(&address, "*/*").unwrap().body.read_to_end(&mut bytes).unwrap(), 100);
    }
}
