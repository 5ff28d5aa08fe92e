//! Input: an address. Output: the answer of the server. Only this module knows the HTTP client.

use std::io::Read;
use std::time::Duration;

use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Proxy, ResponseExt as _};
use url::Url;

use crate::{Answer, Fetch};

/// Longest wait for the first or next bytes of an answer.
const SILENCE: Duration = Duration::from_mins(1);
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(30);

/// Reads files over HTTP and HTTPS. It follows redirections and trusts the certificates of the
/// system.
pub struct Http {
    agent: Agent,
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
            .user_agent(concat!("rocwheel/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .build();
        Ok(Http { agent: config.into() })
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
        let mut request = self.agent.get(address.as_str()).header("Accept-Encoding", "identity");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Ok(HttpAnswer::of(request.call()?, address))
    }

    /// Requests the headers of a file.
    ///
    /// # Errors
    /// As [`Http::get_with`].
    pub fn head_of(&self, address: &Url) -> Result<HttpAnswer, Box<dyn std::error::Error + Send + Sync>> {
        let request = self.agent.head(address.as_str()).header("Accept-Encoding", "identity");
        Ok(HttpAnswer::of(request.call()?, address))
    }
}

/// The answer of a server with all its headers.
pub struct HttpAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The address after all redirections.
    pub address: Url,
    /// The bytes.
    pub body: Box<dyn Read + Send>,
    headers: Vec<(String, String)>,
}

impl HttpAnswer {
    fn of(response: ureq::http::Response<ureq::Body>, asked: &Url) -> HttpAnswer {
        let text = |value: &ureq::http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
        HttpAnswer {
            status: response.status().as_u16(),
            address: Url::parse(&response.get_uri().to_string()).unwrap_or_else(|_| asked.clone()),
            headers,
            body: Box::new(response.into_body().into_reader()),
        }
    }

    /// A header by its name in lower case, if the server sent it.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Fetch for Http {
    fn get(&self, address: &Url, accept: &str) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        Ok(answer(self.agent.get(address.as_str()).header("Accept", accept).call()?, address))
    }

    fn get_with(
        &self,
        address: &Url,
        headers: &[(&str, &str)],
    ) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        let mut request = self.agent.get(address.as_str());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Ok(answer(request.call()?, address))
    }

    fn head(&self, address: &Url) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        // A compressed answer would have another size than the file.
        let request = self.agent.head(address.as_str()).header("Accept-Encoding", "identity");
        Ok(answer(request.call()?, address))
    }
}

fn answer(response: ureq::http::Response<ureq::Body>, asked: &Url) -> Answer {
    let header = |name: &str| {
        let text = response.headers().get(name).and_then(|value| value.to_str().ok());
        text.unwrap_or_default().to_owned()
    };
    let is_plain = matches!(header("content-encoding").as_str(), "" | "identity");
    Answer {
        status: response.status().as_u16(),
        content_type: header("content-type"),
        cache_control: header("cache-control"),
        size: header("content-length").parse().ok().filter(|_| is_plain),
        address: Url::parse(&response.get_uri().to_string()).unwrap_or_else(|_| asked.clone()),
        body: Box::new(response.into_body().into_reader()),
    }
}
