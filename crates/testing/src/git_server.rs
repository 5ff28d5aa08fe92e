//! Serves Git repositories on this machine: `git://` by `git daemon` and `http://` by
//! `git http-backend`, behind a server that can be told to break connections, to stall, or to deny
//! that a repository exists.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `git://`
    Git,
    /// `http://`, in version 2 of git's protocol.
    Http,
    /// `http://` by a server that supports only version 0, in which commits can be requested only
    /// through names that lead to them.
    OldHttp,
}

/// The treatment of answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behaviour {
    /// Send them.
    Serve,
    /// End those of one repository after a number of bytes.
    Cut {
        /// Name of the repository.
        repository: String,
        /// Number of bytes that are sent.
        after: usize,
    },
    /// Stop sending those of one repository after a number of bytes, without closing the
    /// connection.
    Stall {
        /// Name of the repository.
        repository: String,
        /// Number of bytes that are sent.
        after: usize,
    },
    /// Ask for a password if a repository does not exist, as large hosts do for removed and private
    /// repositories.
    AskWhereNothingIs,
}

/// An answer that was sent, possibly only in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Name of the repository.
    pub repository: String,
    /// Number of bytes that were sent.
    pub bytes: usize,
}

/// Serves all repositories in a folder until it is dropped.
pub struct GitServer {
    address: String,
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    root: PathBuf,
    protocol: Protocol,
    behaviour: Mutex<Behaviour>,
    served: Mutex<Vec<Served>>,
    /// Number of answers that have stalled so far.
    stalled: Mutex<u64>,
    has_stalled: Condvar,
    is_over: AtomicBool,
}

/// Ignores poisoning: a poisoned lock belongs to a connection whose test has failed already.
fn open<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GitServer {
    /// Serves the repositories in `root`; a repository has the name of its folder.
    pub fn new(root: &Path, protocol: Protocol) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of this machine is free");
        let port = listener.local_addr().expect("it is bound").port();
        let scheme = if protocol == Protocol::Git { "git" } else { "http" };
        let shared = Arc::new(Shared {
            root: root.to_owned(),
            protocol,
            behaviour: Mutex::new(Behaviour::Serve),
            served: Mutex::new(Vec::new()),
            stalled: Mutex::new(0),
            has_stalled: Condvar::new(),
            is_over: AtomicBool::new(false),
        });
        let server = Self { address: format!("{scheme}://127.0.0.1:{port}"), port, shared: Arc::clone(&shared) };
        thread::spawn(move || {
            for connection in listener.incoming() {
                if shared.is_over.load(Ordering::Relaxed) {
                    break;
                }
                let (Ok(connection), shared) = (connection, Arc::clone(&shared)) else { continue };
                thread::spawn(move || {
                    // A client that disconnects is part of the tests.
                    let _ = match shared.protocol {
                        Protocol::Git => shared.git(connection),
                        Protocol::Http | Protocol::OldHttp => shared.http(connection),
                    };
                });
            }
        });
        server
    }

    /// The URL of a repository.
    pub fn address(&self, repository: &str) -> String {
        format!("{}/{repository}", self.address)
    }

    /// Changes the behaviour for later answers.
    pub fn behave(&self, behaviour: Behaviour) {
        *open(&self.shared.behaviour) = behaviour;
    }

    /// The answers since the last call.
    pub fn served(&self) -> Vec<Served> {
        std::mem::take(&mut *open(&self.shared.served))
    }

    /// Waits until `count` answers have stalled.
    pub fn wait_for_stall(&self, count: u64) {
        let begun = Instant::now();
        let mut stalled = open(&self.shared.stalled);
        while *stalled < count {
            assert!(begun.elapsed() < Duration::from_mins(1), "nobody asked for what would stall");
            let waited = self.shared.has_stalled.wait_timeout(stalled, Duration::from_millis(100));
            stalled = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    /// Sends an answer according to the current behaviour.
    fn send(&self, repository: &str, mut answer: impl Read, connection: &mut TcpStream) -> io::Result<()> {
        let (limit, stalls) = match &*open(&self.behaviour) {
            Behaviour::Cut { repository: of, after } if of == repository => (*after, false),
            Behaviour::Stall { repository: of, after } if of == repository => (*after, true),
            _ => (usize::MAX, false),
        };
        let mut sent = 0;
        let mut page = vec![0; 1 << 14];
        loop {
            let most = page.len().min(limit - sent);
            if most == 0 {
                break;
            }
            let read = answer.read(&mut page[..most])?;
            if read == 0 {
                break;
            }
            connection.write_all(&page[..read])?;
            sent += read;
        }
        open(&self.served).push(Served { repository: repository.to_owned(), bytes: sent });
        if sent == limit && stalls {
            *open(&self.stalled) += 1;
            self.has_stalled.notify_all();
            // Waits until the client disconnects.
            while matches!(connection.read(&mut page), Ok(1..)) {}
        }
        connection.shutdown(Shutdown::Both)
    }

    fn git(&self, mut connection: TcpStream) -> io::Result<()> {
        // A packet: four digits with its length, then `git-upload-pack /NAME\0host=…`.
        let mut first = vec![0; 4];
        connection.read_exact(&mut first)?;
        let length = std::str::from_utf8(&first).ok().and_then(|digits| usize::from_str_radix(digits, 16).ok());
        first.resize(length.unwrap_or(4).max(4), 0);
        connection.read_exact(&mut first[4..])?;
        let request = String::from_utf8_lossy(&first[4..]).into_owned();
        let name = request.split_once(" /").map_or("", |(_, rest)| rest.split(['\0', '/']).next().unwrap_or(""));
        let base = format!("--base-path={}", self.root.display());
        let mut daemon = git()
            .args(["daemon", "--inetd", "--export-all", "--log-destination=none", &base])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(mut input), Some(output)) = (daemon.stdin.take(), daemon.stdout.take()) else { return Ok(()) };
        input.write_all(&first)?;
        let mut from = connection.try_clone()?;
        // Not `io::copy`: it uses splice, and while that waits for the connection, the bytes in the
        // pipe cannot be read.
        thread::spawn(move || {
            let mut page = vec![0; 1 << 14];
            while let Ok(read @ 1..) = from.read(&mut page) {
                if input.write_all(&page[..read]).is_err() {
                    break;
                }
            }
        });
        let sent = self.send(name, output, &mut connection);
        end(daemon);
        sent
    }

    fn http(&self, connection: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(connection.try_clone()?);
        let mut connection = connection;
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next().unwrap_or("").to_owned(), words.next().unwrap_or("").to_owned());
        let mut headers: Vec<(String, String)> = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let header = |name: &str| headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value);
        let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let name = path.trim_start_matches('/').split('/').next().unwrap_or("");
        if !self.root.join(name).is_dir() {
            let asks = *open(&self.behaviour) == Behaviour::AskWhereNothingIs;
            let answer = if asks {
                "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n"
            } else {
                "HTTP/1.1 404 Not Found\r\n"
            };
            return connection.write_all(format!("{answer}Content-Length: 0\r\nConnection: close\r\n\r\n").as_bytes());
        }
        let mut command = git();
        command
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("PATH_INFO", path)
            .env("QUERY_STRING", query)
            .env("REQUEST_METHOD", &method)
            .env("CONTENT_TYPE", header("content-type"))
            .env("CONTENT_LENGTH", body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", header("content-encoding"));
        if self.protocol == Protocol::Http {
            command.env("GIT_PROTOCOL", header("git-protocol"));
        }
        let mut backend = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (backend.stdin.take(), backend.stdout.take());
        input.map(|mut input| input.write_all(&body)).transpose()?;
        let Some(mut output) = output.map(BufReader::new) else { return Ok(()) };
        let mut status = "200 OK".to_owned();
        let mut answer = String::new();
        loop {
            let mut line = String::new();
            output.read_line(&mut line)?;
            let line = line.trim_end();
            match line.split_once(": ") {
                None => break,
                Some(("Status", text)) => text.clone_into(&mut status),
                Some(_) => answer.push_str(&format!("{line}\r\n")),
            }
        }
        // The header contains the length, so the client notices missing bytes.
        let mut text = Vec::new();
        output.read_to_end(&mut text)?;
        let length = text.len();
        let head = format!("HTTP/1.1 {status}\r\n{answer}Content-Length: {length}\r\nConnection: close\r\n\r\n");
        connection.write_all(head.as_bytes())?;
        let sent = self.send(name, &*text, &mut connection);
        end(backend);
        sent
    }
}

/// git for the server, without the configuration of the user who runs the tests.
fn git() -> Command {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").stderr(Stdio::null());
    command
}

/// Kills a server's process in any state.
fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}
