//! Input: the `AWS_*` variables. Output: the keys that requests are signed with, fetched again
//! before they expire.
//!
//! The machine's metadata service is not asked: off AWS it takes a minute to fail.

use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use rocwheel_progress::with_causes;
use rusty_s3::Credentials;
use serde::Deserialize;
use ureq::Agent;
use url::{Host, Url};

use crate::bucket_fault::{BucketFault, Failure};

/// Keys are fetched again this long before they expire.
const EARLY: Duration = Duration::from_mins(5);
/// Bytes of the longest answer of a service that gives out keys.
const LONGEST: u64 = 1 << 20;
/// Where containers of ECS ask, unless a variable has the whole address.
const CONTAINERS: &str = "http://169.254.170.2";
/// The services of ECS and EKS, which a variable may name over plain HTTP.
const SERVICES: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// Who gives out the keys.
enum Giver {
    /// Nobody: they are in variables.
    Environment(Arc<Credentials>),
    /// The Security Token Service, for a token that a file holds (`AssumeRoleWithWebIdentity`).
    WebIdentity { service: String, role: String, session: String, token_file: String },
    /// The service of the container's host. The token is for its `Authorization`.
    Container { address: String, token: Option<Token> },
}

enum Token {
    Text(String),
    /// Read anew each time, because the file is renewed.
    File(String),
}

pub(super) struct Keys {
    giver: Giver,
    /// Keys that were given, and when they expire.
    given: Mutex<Option<(Arc<Credentials>, Timestamp)>>,
}

/// An answer of the container's service.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GivenKeys {
    access_key_id: String,
    secret_access_key: String,
    #[serde(alias = "SessionToken")]
    token: String,
    expiration: Timestamp,
}

/// An answer of the Security Token Service.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AssumedRole {
    assume_role_with_web_identity_result: AssumedRoleResult,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AssumedRoleResult {
    credentials: GivenKeys,
}

impl Keys {
    /// The keys that variables hold or lead to, in the order of AWS' own tools.
    ///
    /// # Errors
    /// [`BucketFault::NoCredentials`]; an address that must not be asked.
    pub(super) fn find(variable: impl Fn(&str) -> Option<String>, region: &str) -> Result<Keys, BucketFault> {
        let giver = if let (Some(key), Some(secret)) =
            (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
        {
            Giver::Environment(Arc::new(match variable("AWS_SESSION_TOKEN") {
                Some(token) => Credentials::new_with_token(key, secret, token),
                None => Credentials::new(key, secret),
            }))
        } else if let (Some(token_file), Some(role)) =
            (variable("AWS_WEB_IDENTITY_TOKEN_FILE"), variable("AWS_ROLE_ARN"))
        {
            let service = variable("AWS_ENDPOINT_URL_STS");
            Giver::WebIdentity {
                service: service.unwrap_or_else(|| format!("https://sts.{region}.amazonaws.com")),
                role,
                session: variable("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "rocwheel".to_owned()),
                token_file,
            }
        } else {
            let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("{CONTAINERS}{path}"));
            let address = relative.or_else(|| variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"));
            let address = address.ok_or(BucketFault::NoCredentials)?;
            if !may_be_asked(&address) {
                let reason = "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither HTTPS nor a service of this machine";
                return Err(BucketFault::Options(reason.to_owned()));
            }
            let file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(Token::File);
            let token = file.or_else(|| variable("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Token::Text));
            Giver::Container { address, token }
        };
        Ok(Keys { giver, given: Mutex::default() })
    }

    /// The keys that are valid now.
    pub(super) fn current(&self, agent: &Agent) -> Result<Arc<Credentials>, Failure> {
        if let Giver::Environment(keys) = &self.giver {
            return Ok(Arc::clone(keys));
        }
        // Others wait for the one that asks.
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((keys, expiration)) = &*given
            && Timestamp::now() + EARLY < *expiration
        {
            return Ok(Arc::clone(keys));
        }
        let answer = self.ask(agent)?;
        let keys = Credentials::new_with_token(answer.access_key_id, answer.secret_access_key, answer.token);
        let keys = Arc::new(keys);
        *given = Some((Arc::clone(&keys), answer.expiration));
        Ok(keys)
    }

    fn ask(&self, agent: &Agent) -> Result<GivenKeys, Failure> {
        match &self.giver {
            Giver::Environment(_) => Err(refusal("keys of the environment are not asked for")),
            Giver::WebIdentity { service, role, session, token_file } => {
                let token = read_token(token_file)?;
                let fields = [
                    ("Action", "AssumeRoleWithWebIdentity"),
                    ("Version", "2011-06-15"),
                    ("RoleArn", role),
                    ("RoleSessionName", session),
                    ("WebIdentityToken", &token),
                ];
                let body = text_of(agent.post(service).send_form(fields))?;
                let read: Result<AssumedRole, _> = quick_xml::de::from_str(&body);
                // The error of a reader would quote the answer, which has the keys.
                let role = read.map_err(|_| refusal("the answer of the token service has no keys"))?;
                Ok(role.assume_role_with_web_identity_result.credentials)
            }
            Giver::Container { address, token } => {
                let mut request = agent.get(address);
                if let Some(token) = token {
                    let text = match token {
                        Token::Text(text) => text.clone(),
                        Token::File(path) => read_token(path)?,
                    };
                    request = request.header("Authorization", text);
                }
                let body = text_of(request.call())?;
                serde_json::from_str(&body).map_err(|_| refusal("the answer of the container's service has no keys"))
            }
        }
    }
}

fn refusal(reason: &str) -> Failure {
    Failure::Lasting(BucketFault::Credentials(reason.to_owned()))
}

fn read_token(path: &str) -> Result<String, Failure> {
    let text = fs_err::read_to_string(path).map_err(|error| refusal(&format!("no token: {}", with_causes(&error))))?;
    Ok(text.trim().to_owned())
}

/// The body of a successful answer.
fn text_of(answer: Result<http::Response<ureq::Body>, ureq::Error>) -> Result<String, Failure> {
    let answer = answer.map_err(|error| Failure::of_client(&error))?;
    let status = answer.status();
    let mut body = String::new();
    let read = answer.into_body().into_reader().take(LONGEST).read_to_string(&mut body);
    read.map_err(|error| Failure::of_client(&error))?;
    if status.is_success() {
        return Ok(body);
    }
    let fault = BucketFault::of_answer(status, &body);
    Err(match fault {
        BucketFault::Busy(_) => Failure::Passing(fault),
        _ if status == StatusCode::NOT_FOUND => refusal("the service that gives out keys answers 404"),
        BucketFault::Other(reason) => refusal(&reason),
        BucketFault::Denied(code) => refusal(&code),
        fault => Failure::Lasting(fault),
    })
}

/// Keys are asked for over HTTPS, or of this machine and the services of its cloud.
fn may_be_asked(address: &str) -> bool {
    let Ok(address) = Url::parse(address) else { return false };
    match (address.scheme(), address.host()) {
        ("https", Some(_)) => true,
        ("http", Some(Host::Domain(name))) => name == "localhost",
        ("http", Some(Host::Ipv4(number))) => number.is_loopback() || SERVICES.contains(&number.to_string().as_str()),
        ("http", Some(Host::Ipv6(number))) => {
            number.is_loopback() || SERVICES.contains(&format!("[{number}]").as_str())
        }
        _ => false,
    }
}
