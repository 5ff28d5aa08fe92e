//! Input: files, byte vectors or pieces of both. Output: [`Content`], bytes of a known size that
//! are read at random and only when they are needed.
//!
//! A content is opened when its first window is read and closed after its last one, so a wheel of
//! ten thousand members holds a handful of file descriptors.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use positioned_io::ReadAt;

/// An open content. Many threads read from it at once.
pub type Reader = Box<dyn ReadAt + Send + Sync>;

/// An open archive with several owners: itself and the readers of its members.
#[derive(Clone)]
pub struct SharedFile(Arc<fs_err::File>);

impl SharedFile {
    /// Shares an open file; the last owner closes it.
    pub fn new(file: fs_err::File) -> SharedFile {
        SharedFile(Arc::new(file))
    }

    /// The file, for the kernel to copy from.
    pub fn file(&self) -> &fs_err::File {
        &self.0
    }
}

impl ReadAt for SharedFile {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        // fs_err's own would put the path into every error, which says it already.
        self.0.file().read_at(position, buffer)
    }
}

/// Bytes that will become a member of an archive.
pub trait Content: Send + Sync {
    /// Number of bytes; must not change.
    fn size(&self) -> u64;

    /// Opens the content. Errors are those of the file behind it.
    fn open(&self) -> io::Result<Reader>;

    /// The file the bytes come from, for error messages; `None` when they come from memory or from
    /// several files.
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

/// Bytes in memory, meant for generated text. Opening copies them.
impl Content for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn open(&self) -> io::Result<Reader> {
        Ok(Box::new(self.clone()))
    }
}

/// A whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes when it was listed; a different size when it is read is an error.
    pub size: u64,
}

impl FileContent {
    /// The file at `path` with the size it has now. Errors when the file cannot be inspected or is
    /// no regular file.
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
        // Not positioned_io::RandomAccessFile: it switches the kernel's read-ahead off, and windows
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
    /// Lays `contents` end to end.
    pub fn new(contents: Vec<Box<dyn Content>>) -> Concat {
        let mut size = 0;
        let mut parts = Vec::with_capacity(contents.len());
        for content in contents {
            let start = size;
            size += content.size();
            // An empty part can never be read; leaving it out keeps the starts distinct for the
            // search.
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
    /// The part that was read last and its open reader, since windows are mostly read in order.
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

/// The error with the path of the part, which the whole cannot tell; fs_err may have put it in
/// already.
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
