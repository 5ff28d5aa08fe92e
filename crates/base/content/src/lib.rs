//! Input: files, byte vectors or sequences of both. Output: [`Content`], bytes of a known size that
//! are read at any position, and only when they are needed.
//!
//! A content is opened when its first bytes are read and closed after its last ones, so a wheel of
//! ten thousand members needs a handful of file descriptors.

#![warn(missing_docs)]

pub mod archive_path;
mod budget;
mod cache_folder;
mod digest;
mod digest_cache;
pub mod document;
mod file_stamp;
pub mod reader;
mod regular_file;
mod sparse_member;
mod spool;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use positioned_io::ReadAt;

pub use budget::{MemoryBudget, MemoryShare};
pub use cache_folder::{CacheEntry, CacheFolder, with_checksum, without_checksum};
pub use digest::{
    Digest, HashAlgorithm, Hasher, Sha256, hexadecimal, parse_sha256, sha256, sha256_ahead, sha256_at, sha256_of,
};
pub use digest_cache::DigestCache;
pub use file_stamp::FileStamp;
pub use regular_file::{open_regular, read_small};
pub use sparse_member::{PACK_WITHOUT_SPARSE, pax_sparse_name};
pub use spool::{OpenContent, Opening, Spool, Spooled};

/// Number of bytes of a large file that are read, hashed, compared or written at a time. They stay
/// in the second cache of a core until all of that is done: with 1 MiB, the kernel takes twice as
/// long for a copy that is hashed (docs/benchmarks.md, "Promotions").
pub const WINDOW: usize = 1 << 18;

/// An open content. Many threads can read from it at once.
pub type Reader = Box<dyn ReadAt + Send + Sync>;

/// An open archive that is shared by its own reader and the readers of its members.
#[derive(Clone)]
pub struct SharedFile(Arc<fs_err::File>);

impl SharedFile {
    /// Shares an open file; the last owner closes it.
    pub fn new(file: fs_err::File) -> SharedFile {
        SharedFile(Arc::new(file))
    }

    /// The open file, for system calls that copy from it.
    pub fn file(&self) -> &fs_err::File {
        &self.0
    }
}

impl ReadAt for SharedFile {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        // fs_err's `read_at` would put the path into every error, and the callers add it
        // themselves.
        self.0.file().read_at(position, buffer)
    }
}

/// Bytes that will become a member of an archive.
pub trait Content: Send + Sync {
    /// Number of bytes; it must not change.
    fn size(&self) -> u64;

    /// Opens the content. The errors are those of the underlying file.
    fn open(&self) -> io::Result<Reader>;

    /// The file that contains the bytes, for error messages; `None` if they come from memory or
    /// from several files.
    fn origin(&self) -> Option<&Path> {
        None
    }
}

impl<T: Content + ?Sized> Content for Box<T> {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn open(&self) -> io::Result<Reader> {
        (**self).open()
    }

    fn origin(&self) -> Option<&Path> {
        (**self).origin()
    }
}

impl<T: Content + ?Sized> Content for Arc<T> {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn open(&self) -> io::Result<Reader> {
        (**self).open()
    }

    fn origin(&self) -> Option<&Path> {
        (**self).origin()
    }
}

/// Bytes in memory, meant for generated text. `open` copies them.
impl Content for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn open(&self) -> io::Result<Reader> {
        Ok(Box::new(self.clone()))
    }
}

/// A whole file as a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// Path of the file.
    pub path: PathBuf,
    /// Its size in bytes when it was listed; if the size differs when the file is read, reading
    /// fails.
    pub size: u64,
}

impl FileContent {
    /// The file at `path` with its current size. Fails if the file cannot be inspected or is not a
    /// regular file.
    pub fn new(path: impl Into<PathBuf>) -> io::Result<FileContent> {
        let path = path.into();
        let metadata = fs_err::metadata(&path)?;
        if !metadata.is_file() {
            return Err(io::Error::other(format!("`{}` is not a regular file", path.display())));
        }
        Ok(FileContent { size: metadata.len(), path })
    }
}

impl Content for FileContent {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Reader> {
        // Not `positioned_io::RandomAccessFile`: it turns off the kernel's read-ahead, and windows
        // are read in order.
        let (file, _) = fs_err::File::open(&self.path)?.into_parts();
        let actual = file.metadata()?.len();
        if actual != self.size {
            let message = format!("`{}` has {actual} bytes now, it had {}", self.path.display(), self.size);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(Box::new(file))
    }

    fn origin(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

/// Several contents one after the other. Only the part that is being read is open.
pub struct Concat {
    parts: Arc<[Part]>,
    size: u64,
}

struct Part {
    start: u64,
    content: Box<dyn Content>,
}

impl Concat {
    /// Concatenates `contents`.
    pub fn new(contents: Vec<Box<dyn Content>>) -> Concat {
        let mut size = 0;
        let mut parts = Vec::with_capacity(contents.len());
        for content in contents {
            let start = size;
            size += content.size();
            // An empty part is never read. Without it all starts are distinct, as the search
            // requires.
            if content.size() > 0 {
                parts.push(Part { start, content });
            }
        }
        Concat { parts: parts.into(), size }
    }
}

impl Content for Concat {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Reader> {
        Ok(Box::new(ConcatReader { parts: Arc::clone(&self.parts), last: std::sync::Mutex::new(None) }))
    }
}

struct ConcatReader {
    parts: Arc<[Part]>,
    /// The part that was read last and its open reader: most windows are read in order.
    last: std::sync::Mutex<Option<(usize, Arc<Reader>)>>,
}

impl ConcatReader {
    fn part(&self, index: usize) -> io::Result<Arc<Reader>> {
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((open, reader)) = &*last
            && *open == index
        {
            return Ok(Arc::clone(reader));
        }
        let content = &self.parts[index].content;
        let reader = content.open().map_err(|error| named(content, error))?;
        let reader = Arc::new(reader);
        *last = Some((index, Arc::clone(&reader)));
        Ok(reader)
    }
}

/// Adds the path of the part to an error, because the caller has only the path of the whole. fs_err
/// may have added it already.
fn named(part: &dyn Content, error: io::Error) -> io::Error {
    match part.origin() {
        Some(path) if !error.to_string().contains(&*path.to_string_lossy()) => {
            io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
        }
        _ => error,
    }
}

impl ReadAt for ConcatReader {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        let mut index = self.parts.partition_point(|part| part.start <= position).saturating_sub(1);
        while done < buffer.len() && index < self.parts.len() {
            let part = &self.parts[index];
            let offset = position + done as u64 - part.start;
            let left = part.content.size().saturating_sub(offset);
            let want = left.min((buffer.len() - done) as u64) as usize;
            if want > 0 {
                let reader = self.part(index)?;
                let window = &mut buffer[done..done + want];
                reader.read_exact_at(offset, window).map_err(|error| named(&part.content, error))?;
                done += want;
            }
            index += 1;
        }
        Ok(done)
    }
}
