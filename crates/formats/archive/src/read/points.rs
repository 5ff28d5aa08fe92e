//! Input: a large member that any tool has packed. Output: random access to its bytes, without a
//! file and with little memory.
//!
//! A deflate stream can only be unpacked from its beginning. One pass compares the checksum and
//! keeps, every few megabytes, the state of the decoder and the 32 KiB that later bytes may repeat
//! (RFC 1951, section 2). From each of these points the stream can be unpacked again, by several
//! threads at once.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use positioned_io::ReadAt;
use rocwheel_content::SharedFile;

use super::Listed;
use super::unpack::Packed;
use crate::Error;
use crate::fault::Fault;

/// Distance of two points in unpacked bytes, unless that would be more than [`MOST`] points.
const SPAN: u64 = 2 << 20;
/// Maximum number of points; each needs 43 KB.
const MOST: u64 = 512;
/// The farthest that a deflate stream refers back, in bytes.
const HISTORY: usize = 32 << 10;
/// Packed bytes that are read at once.
const WINDOW: usize = 1 << 18;

/// Random access to a packed member. The checksum has been compared.
pub(super) struct Points {
    path: PathBuf,
    file: SharedFile,
    listed: Listed,
    /// Distance of two points in unpacked bytes.
    span: u64,
    points: Vec<Point>,
    /// Spans that were unpacked last, by number.
    unpacked: Mutex<VecDeque<(usize, Arc<Span>)>>,
}

/// The bytes from one point to the next.
struct Span {
    /// The bytes before the point that they may repeat, and the bytes.
    buffer: Vec<u8>,
    /// Number of bytes before the point.
    before: usize,
}

impl Span {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.before..]
    }
}

/// A decoder within a stream.
#[derive(Clone)]
struct Point {
    state: Box<DecompressorOxide>,
    /// Packed bytes that the decoder has taken.
    taken: u64,
    /// The unpacked bytes before this point, at most [`HISTORY`].
    history: Vec<u8>,
}

impl Packed<'_> {
    /// Unpacks the member once and finds its points.
    pub(super) fn points(&self) -> Result<Points, Error> {
        self.points_every(SPAN.max(self.listed.size.div_ceil(MOST)))
    }

    fn points_every(&self, span: u64) -> Result<Points, Error> {
        let listed = self.listed;
        let mut points = Points {
            path: self.path.to_owned(),
            file: self.file.clone(),
            listed: listed.clone(),
            span,
            points: Vec::new(),
            unpacked: Mutex::default(),
        };
        let mut point = Point { state: Box::default(), taken: 0, history: Vec::new() };
        let (mut actual, mut crc32) = (0, crc32fast::Hasher::new());
        while actual < listed.size {
            points.points.push(point.clone());
            let unpacked = point.unpack(self, span.min(listed.size - actual) as usize)?;
            let bytes = unpacked.bytes();
            if bytes.is_empty() {
                break;
            }
            actual += bytes.len() as u64;
            crc32.update(bytes);
            points.keep(points.points.len() - 1, Arc::new(unpacked));
        }
        if actual == listed.size && !point.unpack(self, 1)?.bytes().is_empty() {
            return Err(self.error(Fault::Longer { announced: listed.size }));
        }
        self.check_end(actual, crc32.finalize())?;
        Ok(points)
    }
}

impl Point {
    /// Unpacks the next `length` bytes, or fewer if the stream ends before, and moves there.
    fn unpack(&mut self, packed: &Packed<'_>, length: usize) -> Result<Span, Error> {
        let before = self.history.len();
        let mut buffer = vec![0; before + length];
        buffer[..before].copy_from_slice(&self.history);
        let mut at = before;
        let mut input = vec![0; WINDOW];
        let all = packed.listed.compressed;
        while at < buffer.len() {
            let read = (all - self.taken).min(WINDOW as u64) as usize;
            packed
                .window()
                .read_exact_at(self.taken, &mut input[..read])
                .map_err(|error| packed.error(Fault::Read(error)))?;
            let more = if self.taken + (read as u64) < all { TINFL_FLAG_HAS_MORE_INPUT } else { 0 };
            let flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF | more;
            let (status, taken, written) = decompress(&mut self.state, &input[..read], &mut buffer, at, flags);
            self.taken += taken as u64;
            at += written;
            match status {
                TINFLStatus::Done => break,
                TINFLStatus::HasMoreOutput | TINFLStatus::NeedsMoreInput if taken + written > 0 => {}
                _ => return Err(packed.error(Fault::Damaged)),
            }
        }
        buffer.truncate(at);
        self.history = buffer[at.saturating_sub(HISTORY)..].to_vec();
        Ok(Span { buffer, before })
    }
}

impl Points {
    fn packed(&self) -> Packed<'_> {
        Packed { path: &self.path, file: &self.file, listed: &self.listed }
    }

    fn span(&self, number: usize) -> Result<Arc<Span>, Error> {
        let known = {
            let unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
            unpacked.iter().find(|(known, _)| *known == number).map(|(_, span)| Arc::clone(span))
        };
        if let Some(span) = known {
            return Ok(span);
        }
        let rest = self.listed.size - number as u64 * self.span;
        let span = Arc::new(self.points[number].clone().unpack(&self.packed(), self.span.min(rest) as usize)?);
        self.keep(number, Arc::clone(&span));
        Ok(span)
    }

    /// Keeps a span, as many as threads use at the same time and a few more.
    fn keep(&self, number: usize, span: Arc<Span>) {
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        while unpacked.len() >= rayon::current_num_threads() + 2 {
            unpacked.pop_front();
        }
        unpacked.push_back((number, span));
    }
}

impl ReadAt for Points {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if position >= self.listed.size || buffer.is_empty() {
            return Ok(0);
        }
        let span = self.span((position / self.span) as usize).map_err(io::Error::other)?;
        // The archive may have changed since the first pass.
        let rest = span.bytes().get((position % self.span) as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use zip::write::SimpleFileOptions;

    use super::*;
    use crate::ZipFile;

    /// Bytes that compress like code.
    fn code(length: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let far = bytes.len().saturating_sub((state >> 40) as usize % 40_000);
            match state >> 62 {
                0 => bytes.extend_from_slice(&state.to_le_bytes()),
                1 => bytes.extend_from_within(far..bytes.len().min(far + 50)),
                _ => bytes.extend_from_slice(&[0x48, 0x89, 0xe5, (state >> 40) as u8, 0, 0, 0, 0]),
            }
        }
        bytes.truncate(length);
        bytes
    }

    fn archive(path: &Path, bytes: &[u8]) {
        let mut archive = zip::ZipWriter::new(fs_err::File::create(path).unwrap());
        archive.start_file("member", SimpleFileOptions::default()).unwrap();
        std::io::Write::write_all(&mut archive, bytes).unwrap();
        archive.finish().unwrap();
    }

    /// The member's points, each `span` bytes from the last one; `change` falsifies what the
    /// archive says of the member.
    fn points(path: &Path, span: u64, change: impl FnOnce(&mut Listed)) -> Result<Points, Error> {
        let zip = ZipFile::open(path).unwrap();
        let file = SharedFile::new(fs_err::File::open(path).unwrap());
        let mut listed = zip.members()[0].clone();
        change(&mut listed);
        Packed { path, file: &file, listed: &listed }.points_every(span)
    }

    #[test]
    fn any_range_is_read_from_the_point_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        let bytes = code(1_500_000);
        archive(&path, &bytes);
        for span in [1, 1000, 65_536, 1_500_000, 4 << 20].map(|span: u64| span.max(1000)) {
            let points = points(&path, span, |_| {}).unwrap();
            assert_eq!(points.points.len() as u64, 1_500_000_u64.div_ceil(span));
            // Backwards, so that nothing that is still unpacked helps.
            for position in (0..1_500_000).step_by(70_001).rev() {
                let mut read = vec![0; 50_000.min(bytes.len() - position)];
                points.read_exact_at(position as u64, &mut read).unwrap();
                assert!(read == bytes[position..position + read.len()], "{span}, {position}");
            }
            assert_eq!(points.read_at(1_500_000, &mut [0]).unwrap(), 0);
        }
    }

    #[test]
    fn threads_read_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        let bytes = code(1_000_000);
        archive(&path, &bytes);
        let points = points(&path, 10_000, |_| {}).unwrap();
        std::thread::scope(|scope| {
            for first in 0..4 {
                let (points, bytes) = (&points, &bytes);
                scope.spawn(move || {
                    for position in (first * 777..999_000).step_by(9_999) {
                        let mut read = [0; 1000];
                        points.read_exact_at(position as u64, &mut read).unwrap();
                        assert!(read == bytes[position..position + 1000]);
                    }
                });
            }
        });
    }

    #[test]
    fn what_the_archive_says_is_compared() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        archive(&path, &code(300_000));
        let fails = |change: fn(&mut Listed)| {
            let Err(error) = points(&path, 50_000, change) else { panic!("it was accepted") };
            std::error::Error::source(&error).unwrap().to_string()
        };
        assert_eq!(fails(|listed| listed.crc32 ^= 1), Fault::Checksum.to_string());
        assert_eq!(fails(|listed| listed.size -= 1), Fault::Longer { announced: 299_999 }.to_string());
        let shorter = Fault::Shorter { announced: 300_001, actual: 300_000 };
        assert_eq!(fails(|listed| listed.size += 1), shorter.to_string());
        assert_eq!(fails(|listed| listed.compressed -= 100), Fault::Damaged.to_string());
        assert_eq!(fails(|listed| listed.compressed = 0), Fault::Damaged.to_string());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn changed_bytes_are_an_error_or_change_nothing(at in 50_usize..20_000, value in 0_u8..255) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.zip");
            let bytes = code(60_000);
            archive(&path, &bytes);
            let zip = ZipFile::open(&path).unwrap();
            let listed = zip.members()[0].clone();
            let mut changed = fs_err::read(&path).unwrap();
            let place = listed.offset as usize + at % listed.compressed as usize;
            changed[place] = value;
            fs_err::write(&path, changed).unwrap();
            let file = SharedFile::new(fs_err::File::open(&path).unwrap());
            if let Ok(points) = (Packed { path: &path, file: &file, listed: &listed }).points_every(9_000) {
                let mut read = vec![0; bytes.len()];
                points.read_exact_at(0, &mut read).unwrap();
                prop_assert!(read == bytes);
            }
        }
    }
}
