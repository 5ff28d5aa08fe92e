//! Input: a way to fetch a range of a remote file. Output: its bytes at random access, in ranges
//! that grow while they are read in order.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use positioned_io::{Cursor, ReadAt};
use rocwheel_content::Reader;
use rocwheel_index::Fetch;
use rocwheel_progress::{Reporter, Watched, WithoutProgress};
use url::Url;

/// Bytes of the first range at the end of a file, where wheels have their directory. That of a
/// wheel of 2,000 members is smaller.
const TAIL: u64 = 256 << 10;
/// Bytes of the first range elsewhere: more than METADATA has, packed.
const FIRST: u64 = 64 << 10;
/// The same for readers of a few headers: more than a header and a table of symbols has.
const LITTLE: u64 = 8 << 10;
/// Bytes of the largest range. With one for each thread, this bounds the memory.
const LARGEST: u64 = 4 << 20;

/// Fetches a range, which is never empty.
type FetchRange = Box<dyn Fn(Range<u64>) -> io::Result<Bytes> + Send + Sync>;

/// The bytes of a file of `size` bytes at an address, fetched in ranges when they are read. A
/// server that does not send ranges is an error of reading, and so is an interruption, which
/// `reporter` tells.
pub fn open_remote(fetch: Arc<dyn Fetch>, address: Url, size: u64, reporter: Arc<dyn Reporter>) -> Reader {
    Box::new(remote_ranges(fetch, address, size, reporter))
}

/// Like [`open_remote`], for a few bytes here and there: no range is longer than 8 KiB unless more
/// is read at once, or read in order.
pub fn open_remote_sparsely(fetch: Arc<dyn Fetch>, address: Url, size: u64, reporter: Arc<dyn Reporter>) -> Reader {
    Box::new(RangeReader { tail: 0, first: LITTLE, ..remote_ranges(fetch, address, size, reporter) })
}

fn remote_ranges(fetch: Arc<dyn Fetch>, address: Url, size: u64, reporter: Arc<dyn Reporter>) -> RangeReader {
    RangeReader::new(size, move |range| fetch_range(&*fetch, &address, &range, &*reporter))
}

fn fetch_range(fetch: &dyn Fetch, address: &Url, range: &Range<u64>, reporter: &dyn Reporter) -> io::Result<Bytes> {
    // Not the kind `Interrupted`: that one means to try again.
    reporter.check().map_err(io::Error::other)?;
    let (bytes, length) = (format!("bytes={}-{}", range.start, range.end - 1), range.end - range.start);
    let headers = [("Range", bytes.as_str()), ("Accept-Encoding", "identity")];
    let answer = fetch.get_with(address, &headers).map_err(io_error)?;
    if answer.status != 206 {
        let message = format!("the server answers {} to a request for a range", answer.status);
        let kind = if matches!(answer.status, 404 | 410) { io::ErrorKind::NotFound } else { io::ErrorKind::Other };
        return Err(io::Error::new(kind, message));
    }
    let mut body = Vec::with_capacity(length as usize);
    // A body may arrive byte by byte.
    Watched::new(answer.body, &WithoutProgress(reporter)).take(length).read_to_end(&mut body)?;
    Ok(body.into())
}

/// The error of a request, with its kind if it has one.
pub fn io_error(error: Box<dyn std::error::Error + Send + Sync>) -> io::Error {
    error.downcast::<io::Error>().map_or_else(io::Error::other, |error| *error)
}

/// The range that a request with these headers asks for, of a file of `size` bytes; `None` if it
/// asks for the file. Ranges that begin or end elsewhere are not understood, as servers may do.
pub(crate) fn asked_range(headers: &[(&str, &str)], size: u64) -> Option<Range<u64>> {
    let (_, value) = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("range"))?;
    let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
    let range = first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?;
    (range.start < range.end && range.end <= size).then_some(range)
}

/// A range of a content as the body of an answer.
pub(crate) fn range_body(reader: impl ReadAt + Send + 'static, range: &Range<u64>) -> Box<dyn Read + Send> {
    Box::new(Cursor::new_pos(reader, range.start).take(range.end - range.start))
}

pub(crate) struct RangeReader {
    size: u64,
    fetch: FetchRange,
    /// Bytes of the first range at the end.
    tail: u64,
    /// Bytes of the first range elsewhere.
    first: u64,
    fetched: Mutex<Fetched>,
}

/// Bytes that are in memory.
#[derive(Default)]
struct Fetched {
    tail: Option<Window>,
    window: Option<Window>,
}

impl Fetched {
    fn copy_to(&self, buffer: &mut [u8], position: u64) -> Option<usize> {
        let rest = [&self.tail, &self.window].into_iter().flatten().find_map(|window| window.after(position))?;
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Some(length)
    }
}

struct Window {
    start: u64,
    bytes: Bytes,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The part of the window from `position` on.
    fn after(&self, position: u64) -> Option<&[u8]> {
        let offset = usize::try_from(position.checked_sub(self.start)?).ok()?;
        self.bytes.get(offset..).filter(|rest| !rest.is_empty())
    }
}

impl RangeReader {
    pub(crate) fn new(
        size: u64,
        fetch: impl Fn(Range<u64>) -> io::Result<Bytes> + Send + Sync + 'static,
    ) -> RangeReader {
        RangeReader { size, fetch: Box::new(fetch), tail: TAIL, first: FIRST, fetched: Mutex::default() }
    }

    fn fetch(&self, range: Range<u64>) -> io::Result<Window> {
        let (start, length) = (range.start, range.end - range.start);
        let bytes = (self.fetch)(range)?;
        if bytes.len() as u64 != length {
            let message = format!("the server sent {} bytes instead of {length}", bytes.len());
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        Ok(Window { start, bytes })
    }
}

impl ReadAt for RangeReader {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if position >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(length) = fetched.copy_to(buffer, position) {
            return Ok(length);
        }
        let tail = self.size.saturating_sub(self.tail);
        if fetched.tail.is_none() && position >= tail {
            fetched.tail = Some(self.fetch(tail..self.size)?);
        } else {
            let follows = fetched.window.as_ref().filter(|window| window.end() == position);
            let grown = follows.map_or(self.first, |window| (window.bytes.len() as u64 * 4).min(LARGEST));
            let wanted = grown.max((buffer.len() as u64).min(LARGEST));
            let limit = fetched.tail.as_ref().map_or(self.size, |tail| tail.start);
            fetched.window = None;
            fetched.window = Some(self.fetch(position..(position + wanted).min(limit))?);
        }
        Ok(fetched.copy_to(buffer, position).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rocwheel_index::Answer;
    use rocwheel_progress::Unit;

    use super::*;

    /// Sends every range byte by byte, and counts the bytes.
    #[derive(Default)]
    struct Dripping(Arc<AtomicUsize>);

    struct Drip(Arc<AtomicUsize>);

    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.fetch_add(1, Ordering::Relaxed);
            buffer[0] = 7;
            Ok(1)
        }
    }

    impl Fetch for Dripping {
        fn get(&self, address: &Url, _: &str) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
            Ok(Answer {
                status: 206,
                content_type: String::new(),
                cache_control: String::new(),
                encoding: String::new(),
                size: None,
                address: address.clone(),
                body: Box::new(Drip(Arc::clone(&self.0))),
            })
        }
    }

    /// Interrupts after some bytes.
    struct InterruptsAfter(usize, Arc<AtomicUsize>);

    impl Reporter for InterruptsAfter {
        fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {}
        fn advance(&self, _amount: u64) {}
        fn end(&self) {}
        fn warn(&self, _message: &str) {}
        fn interrupted(&self) -> bool {
            self.1.load(Ordering::Relaxed) >= self.0
        }
    }

    #[test]
    fn an_interruption_is_heard_between_the_bytes_of_a_range() {
        let address = Url::parse("http://host/a.whl").unwrap();
        for open in [open_remote, open_remote_sparsely] {
            let fetch = Dripping::default();
            let sent = Arc::clone(&fetch.0);
            let reporter = Arc::new(InterruptsAfter(20, Arc::clone(&sent)));
            let reader = open(Arc::new(fetch), address.clone(), 1 << 20, reporter);
            let error = reader.read_at(0, &mut [0; 10]).unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::Other, "interrupted"));
            assert_eq!(sent.load(Ordering::Relaxed), 20);
            assert!(reader.read_at(500, &mut [0; 10]).is_err());
            assert_eq!(sent.load(Ordering::Relaxed), 20, "nothing more is requested");
        }
    }

    #[test]
    fn a_range_is_inside_of_the_file() {
        let of = |value: &str| asked_range(&[("Accept", "*/*"), ("range", value)], 100);
        assert_eq!(of("bytes=0-99"), Some(0..100));
        assert_eq!(of("bytes=5-5"), Some(5..6));
        for other in
            "bytes=5-4 bytes=0-100 bytes=-5 bytes=5- lines=1-2 bytes=0-1,4-5 bytes=0-18446744073709551615".split(' ')
        {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(asked_range(&[("Accept", "*/*")], 100), None);
        let mut body = Vec::new();
        range_body(vec![1, 2, 3, 4, 5], &(1..4)).read_to_end(&mut body).unwrap();
        assert_eq!(body, [2, 3, 4]);
    }
}
