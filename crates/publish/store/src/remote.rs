//! Input: a server and readers of its wheels. Output: the same readers, which stop asking for what
//! does not come.
//!
//! Earlier wheels save time, and need not be read. A server that stalls would cost a minute for
//! each piece of each wheel.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use positioned_io::ReadAt;
use rocwheel_content::Reader;
use rocwheel_index::Fetch;
use rocwheel_progress::Reporter;
use url::Url;

use crate::ranges::io_error;

/// Failed reads of a wheel after which it is given up.
const MOST_FAULTS: u32 = 2;
/// Wheels that cannot be read, after which their server is given up.
const MOST_LOST: usize = 3;

/// A server with wheels of earlier runs. It is given up, with a warning, when it does not answer in
/// time, or when several of its wheels cannot be read.
pub struct RemoteServer {
    name: String,
    reporter: Arc<dyn Reporter>,
    is_given_up: AtomicBool,
    lost: AtomicUsize,
}

impl std::fmt::Debug for RemoteServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("RemoteServer").field(&self.name).finish()
    }
}

impl RemoteServer {
    /// The server with the address `name`, which has no password. Warnings go to `reporter`.
    pub fn new(name: impl Into<String>, reporter: Arc<dyn Reporter>) -> Arc<RemoteServer> {
        let (is_given_up, lost) = (AtomicBool::new(false), AtomicUsize::new(0));
        Arc::new(RemoteServer { name: name.into(), reporter, is_given_up, lost })
    }

    /// `true` when nothing more may be requested.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    /// The size of a file in bytes; `None` if the server does not say it.
    pub fn size(&self, fetch: &dyn Fetch, address: &Url) -> Option<u64> {
        if self.is_given_up() {
            return None;
        }
        match fetch.head(address) {
            Ok(answer) => answer.size.filter(|_| answer.status == 200),
            Err(error) => {
                self.lose(address.path().rsplit('/').next().unwrap_or_default(), &io_error(error));
                None
            }
        }
    }

    /// The reader of a wheel of this server. It asks for nothing after its second failed read, nor
    /// when the server was given up.
    pub fn watch(self: &Arc<Self>, reader: Reader, file_name: impl Into<String>) -> Reader {
        let state = Mutex::new(ReadState::default());
        Box::new(WatchedReader { reader, file_name: file_name.into(), server: Arc::clone(self), state })
    }

    /// Notes a request without a result: after a timeout, the server is given up.
    pub fn note(&self, error: &io::Error) {
        if error.kind() == io::ErrorKind::TimedOut {
            self.give_up(&error.to_string());
        }
    }

    fn lose(&self, file_name: &str, error: &io::Error) {
        if self.is_given_up() {
            return;
        }
        // A file that went away says nothing about the server.
        let is_lost = error.kind() != io::ErrorKind::NotFound;
        if error.kind() == io::ErrorKind::TimedOut {
            self.give_up(&error.to_string());
        } else if is_lost && self.lost.fetch_add(1, Ordering::AcqRel) + 1 == MOST_LOST {
            self.give_up(&format!("{MOST_LOST} of its wheels cannot be read, the last one because of this: {error}"));
        } else {
            self.warn(&format!("`{file_name}` of {}", self.name), &error.to_string());
        }
    }

    fn give_up(&self, reason: &str) {
        if !self.is_given_up.swap(true, Ordering::AcqRel) {
            self.warn(&self.name, reason);
        }
    }

    fn warn(&self, what: &str, reason: &str) {
        // Ctrl-C ends requests too.
        if !self.reporter.interrupted() {
            self.reporter.warn(&format!("nothing more of {what} is reused: {reason}"));
        }
    }
}

struct WatchedReader {
    reader: Reader,
    file_name: String,
    server: Arc<RemoteServer>,
    state: Mutex<ReadState>,
}

#[derive(Default)]
struct ReadState {
    /// `true` after a read succeeded.
    has_read: bool,
    faults: u32,
}

impl ReadAt for WatchedReader {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        // Others that want to read wait here, and learn that the wheel was given up meanwhile.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.faults >= MOST_FAULTS || self.server.is_given_up() {
            return Err(io::Error::other("it was given up"));
        }
        let read = self.reader.read_at(position, buffer);
        match &read {
            Ok(_) => state.has_read = true,
            Err(error) => {
                // Without a first read, nothing is known of the wheel, and no other will follow.
                state.faults = if state.has_read { state.faults + 1 } else { MOST_FAULTS };
                if state.faults == MOST_FAULTS {
                    self.server.lose(&self.file_name, error);
                } else {
                    self.server.note(error);
                }
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use rocwheel_fixtures::Warnings;
    use rocwheel_index::Answer;

    use super::*;
    use crate::open_remote;

    /// A server of zeros that fails from a request on, and counts requests.
    struct Failing {
        after: usize,
        with: io::ErrorKind,
        requests: AtomicUsize,
    }

    impl Failing {
        fn new(after: usize, with: io::ErrorKind) -> Arc<Failing> {
            Arc::new(Failing { after, with, requests: AtomicUsize::new(0) })
        }

        fn requests(&self) -> usize {
            self.requests.load(Ordering::Relaxed)
        }
    }

    impl Fetch for Failing {
        fn get(&self, address: &Url, _: &str) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
            if self.requests.fetch_add(1, Ordering::Relaxed) >= self.after {
                return Err(io::Error::new(self.with, "no").into());
            }
            Ok(Answer {
                status: 206,
                content_type: String::new(),
                cache_control: String::new(),
                encoding: String::new(),
                size: Some(1),
                address: address.clone(),
                body: Box::new(io::repeat(0)),
            })
        }
    }

    fn server() -> (Arc<Warnings>, Arc<RemoteServer>) {
        let warnings = Arc::new(Warnings::default());
        let server = RemoteServer::new("http://host", Arc::clone(&warnings) as Arc<dyn Reporter>);
        (warnings, server)
    }

    fn open(fetch: &Arc<Failing>, server: &Arc<RemoteServer>, name: &str) -> Reader {
        let address = Url::parse("http://host/").unwrap().join(name).unwrap();
        let (fetch, reporter) = (Arc::clone(fetch) as Arc<dyn Fetch>, Arc::clone(&server.reporter));
        server.watch(open_remote(fetch, address, 100 << 20, reporter), name)
    }

    /// Reads at several places that are far from each other; the number that succeeded.
    fn read(reader: &Reader) -> usize {
        (0..8).filter(|place| reader.read_exact_at(*place * (10 << 20), &mut [0; 10]).is_ok()).count()
    }

    #[test]
    fn a_wheel_is_given_up_after_its_second_failure() {
        let (warnings, server) = server();
        let fetch = Failing::new(3, io::ErrorKind::Other);
        assert_eq!(read(&open(&fetch, &server, "a.whl")), 3);
        assert_eq!(fetch.requests(), 5);
        assert_eq!(warnings.all(), ["nothing more of `a.whl` of http://host is reused: no"]);
        // Others are read until three cannot be, the next ones at their first request.
        assert_eq!((read(&open(&fetch, &server, "b.whl")), fetch.requests()), (0, 6));
        assert!(!server.is_given_up());
        assert_eq!((read(&open(&fetch, &server, "c.whl")), fetch.requests()), (0, 7));
        assert_eq!((read(&open(&fetch, &server, "d.whl")), fetch.requests()), (0, 7));
        assert!(server.is_given_up());
        let last =
            "nothing more of http://host is reused: 3 of its wheels cannot be read, the last one because of this: no";
        assert_eq!((warnings.all().len(), warnings.all()[2].as_str()), (3, last));
    }

    #[test]
    fn a_server_is_given_up_after_a_timeout() {
        let (warnings, server) = server();
        let fetch = Failing::new(1, io::ErrorKind::TimedOut);
        let readers = ["a.whl", "b.whl"].map(|name| open(&fetch, &server, name));
        assert_eq!((read(&readers[0]), read(&readers[1]), fetch.requests()), (1, 0, 2));
        assert_eq!(server.size(&*fetch, &Url::parse("http://host/c.whl").unwrap()), None);
        assert_eq!(fetch.requests(), 2);
        assert_eq!(warnings.all(), ["nothing more of http://host is reused: no"]);
    }

    #[test]
    fn files_that_went_away_are_no_fault_of_the_server() {
        let (warnings, server) = server();
        let fetch = Failing::new(0, io::ErrorKind::NotFound);
        for name in ["a.whl", "b.whl", "c.whl", "d.whl"] {
            assert_eq!(read(&open(&fetch, &server, name)), 0);
        }
        assert!(!server.is_given_up());
        assert_eq!((warnings.all().len(), fetch.requests()), (4, 4));
    }
}
