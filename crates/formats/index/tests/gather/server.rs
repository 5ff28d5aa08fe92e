//! A package index on the loopback interface, as a thread of the test.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Server {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start(pages: BTreeMap<String, Page>) -> Server {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = format!("http://{}/simple/", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        // The thread ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let path = asked_path(&stream);
                // Logged before the answer, since a client may read the log as soon as it has the
                // answer.
                log.lock().unwrap().push(path.clone());
                answer(stream, &pages, &path);
            }
        });
        Server { address, asked }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// The path of a request, which is read to its end.
fn asked_path(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    while line.trim() != "" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    path
}

fn answer(mut stream: TcpStream, pages: &BTreeMap<String, Page>, path: &str) {
    let missing = Page { status: 404, kind: "text/plain", body: b"nothing here".to_vec() };
    let page = pages.get(path).unwrap_or(&missing);
    let length = page.body.len();
    // A status of 0 means a connection that breaks in the middle.
    let (status, sent) = if page.status == 0 { (200, length / 2) } else { (page.status, length) };
    let head = format!(
        "HTTP/1.1 {status} x\r\nContent-Type: {}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n",
        page.kind
    );
    // A client that has read enough closes the connection.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&page.body[..sent]));
}
