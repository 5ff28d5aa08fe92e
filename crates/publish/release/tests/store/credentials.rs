//! Keys that a service gives out: the token service of AWS for a web identity, and that of a
//! container's host.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use rocwheel_progress::{Hint as _, Silent, with_causes};
use rocwheel_store::{Error, S3Options, S3Store, Store as _};

use crate::server::Server;

/// A service that answers every request in the same way.
struct Giver {
    address: String,
    /// First line, headers and body of each request.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Giver {
    fn start(status: u16, answer: String) -> Giver {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        // The thread ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let (mut head, mut length) = (String::new(), 0);
                while !head.ends_with("\r\n\r\n") {
                    let begin = head.len();
                    reader.read_line(&mut head).unwrap();
                    let line = head[begin..].to_ascii_lowercase();
                    length = line.strip_prefix("content-length:").map_or(length, |text| text.trim().parse().unwrap());
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                log.lock().unwrap().push(head + std::str::from_utf8(&body).unwrap());
                let size = answer.len();
                let answer =
                    format!("HTTP/1.1 {status} x\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n{answer}");
                reader.into_inner().write_all(answer.as_bytes()).unwrap();
            }
        });
        Giver { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// A time in the answers: keys that are valid for so many seconds.
fn in_seconds(seconds: i64) -> String {
    (jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds)).to_string()
}

fn with(server: &Server, variables: &[(&str, &str)]) -> S3Options {
    let mut options = server.options("s3://bucket");
    options.variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    options
}

fn write_twice(options: &S3Options) -> Result<(), Error> {
    let store = S3Store::open(options, Arc::new(Silent))?;
    store.write("x", b"1")?;
    store.write("x", b"2")
}

fn role(expiration: &str) -> String {
    format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
         <AssumeRoleWithWebIdentityResult><SubjectFromWebIdentityToken>s</SubjectFromWebIdentityToken><Credentials>\
         <AccessKeyId>AKIATEST</AccessKeyId><SecretAccessKey>top-secret</SecretAccessKey>\
         <SessionToken>a/b+c=</SessionToken><Expiration>{expiration}</Expiration></Credentials>\
         </AssumeRoleWithWebIdentityResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>\
         </AssumeRoleWithWebIdentityResponse>"
    )
}

#[test]
fn a_web_identity_is_exchanged_for_keys_until_they_expire() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let file = folder.path().join("token");
    fs_err::write(&file, "ey.J+w=\n").unwrap();
    // Keys that expire within five minutes are fetched again for each request.
    for (seconds, times) in [(3600, 1), (60, 2)] {
        let service = Giver::start(200, role(&in_seconds(seconds)));
        let variables = [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().unwrap()),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/ci"),
            ("AWS_ENDPOINT_URL_STS", &service.address),
        ];
        write_twice(&with(&server, &variables)).unwrap();
        let asked = service.asked();
        assert_eq!(asked.len(), times, "{asked:?}");
        assert!(asked[0].starts_with("POST / HTTP/1.1\r\n"), "{asked:?}");
        assert!(asked[0].contains("Action=AssumeRoleWithWebIdentity&Version=2011-06-15"), "{asked:?}");
        assert!(asked[0].contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fci"), "{asked:?}");
        assert!(asked[0].ends_with("WebIdentityToken=ey.J%2Bw%3D"), "{asked:?}");
    }
}

#[test]
fn a_container_asks_its_host_for_keys() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let expiration = in_seconds(3600);
    let keys = format!(
        "{{\"AccessKeyId\":\"AKIATEST\",\"SecretAccessKey\":\"top-secret\",\"Token\":\"t\",\"Expiration\":\"{expiration}\"}}"
    );
    let host = Giver::start(200, keys);
    let token = folder.path().join("token");
    fs_err::write(&token, "bearer-1\n").unwrap();
    let address = format!("{}/v1/credentials", host.address);
    let variables = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", address.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap()),
    ];
    write_twice(&with(&server, &variables)).unwrap();
    let asked = host.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].starts_with("GET /v1/credentials HTTP/1.1\r\n"), "{asked:?}");
    assert!(asked[0].to_ascii_lowercase().contains("\r\nauthorization: bearer-1\r\n"), "{asked:?}");
}

#[test]
fn keys_that_cannot_be_had_have_a_reason_and_show_no_secret() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let file = folder.path().join("token");
    fs_err::write(&file, "hunter2").unwrap();
    let missing = folder.path().join("none");
    let denied = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>hunter2</Message></Error></ErrorResponse>";
    let denied = Giver::start(403, denied.to_owned());
    let page = Giver::start(200, "<html>hunter2</html>".to_owned());
    let identity = |file: &std::path::Path, service: &str| {
        let file = file.to_str().unwrap();
        let variables =
            [("AWS_WEB_IDENTITY_TOKEN_FILE", file), ("AWS_ROLE_ARN", "arn"), ("AWS_ENDPOINT_URL_STS", service)];
        with(&server, &variables)
    };
    let distant = "http://192.0.2.1/keys";
    let rows = [
        (identity(&missing, &denied.address), "No such file"),
        (identity(&file, &denied.address), "(AccessDenied)"),
        (identity(&file, &page.address), "the answer of the token service has no keys"),
        (with(&server, &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &page.address)]), "has no keys"),
        (with(&server, &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", distant)]), "neither HTTPS nor a service"),
    ];
    for (options, reason) in rows {
        let error = write_twice(&options).unwrap_err();
        let text = format!("{} {error:?} {:?}", with_causes(&error), error.hint());
        assert!(text.contains(reason) && !text.contains("hunter2"), "{reason}: {text}");
    }
}
