//! Input: a content that is expensive to open, such as a compressed member of an archive. Output:
//! its bytes at random access; it is opened once, no matter how often they are read.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use positioned_io::ReadAt;
use rocwheel_progress::write_error;

use crate::{Content, MemoryBudget, MemoryShare, Reader};

/// Opened contents of up to this many bytes are kept in memory; larger ones go to a file.
const IN_MEMORY: u64 = 1 << 20;
/// Limit for the bytes of contents that threads decompress into memory at the same time. A larger
/// content is produced alone.
const AT_ONCE: u64 = 96 << 20;
/// Number of bytes that are copied from memory to a file at a time.
const WINDOW: usize = 1 << 18;

/// Keeps opened contents in unnamed files in one folder.
pub struct Spool {
    scratch: PathBuf,
    budget: Arc<MemoryBudget>,
}

impl Spool {
    /// A spool that keeps its files in the folder `scratch`.
    pub fn new(scratch: &Path) -> Spool {
        Spool { scratch: scratch.to_owned(), budget: Arc::new(MemoryBudget::new(AT_ONCE)) }
    }

    /// The folder that holds the files.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Wraps a content so that it is opened at most once, when its bytes are first read. The kept
    /// bytes are freed with the last owner.
    pub fn hold(&self, content: impl Content + 'static, opening: Opening) -> Spooled {
        let kept = match opening {
            Opening::InMemory { .. } if content.size() <= IN_MEMORY => Opening::Elsewhere,
            opening => opening,
        };
        let (scratch, budget) = (self.scratch.clone(), Arc::clone(&self.budget));
        Spooled { content: Box::new(content), opening: kept, scratch, budget, opened: Mutex::default() }
    }
}

/// The place of a content's bytes once it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// In a file: opening needs hardly any memory.
    Elsewhere,
    /// All in memory. Opening needs `input` bytes in addition.
    InMemory {
        /// Number of bytes that are held only during opening, such as the compressed data.
        input: u64,
    },
}

/// A content that is opened at most once; made by [`Spool::hold`].
pub struct Spooled {
    content: Box<dyn Content>,
    opening: Opening,
    scratch: PathBuf,
    budget: Arc<MemoryBudget>,
    opened: Mutex<Option<SharedReader>>,
}

/// An open reader with several owners.
#[derive(Clone)]
struct SharedReader(Arc<dyn ReadAt + Send + Sync>);

impl ReadAt for SharedReader {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(position, buffer)
    }
}

impl Spooled {
    /// Passes the bytes to `look`, which returns `Some` if they will be needed again. Only then are
    /// they kept.
    ///
    /// # Errors
    /// The errors of opening the content, and of the file that keeps the bytes.
    pub fn look<T>(&self, look: impl FnOnce(&Reader) -> Option<T>) -> io::Result<Option<T>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let _taken = self.take();
        let reader = self.content.open()?;
        let found = look(&reader);
        if found.is_some() {
            *opened = Some(self.keep(reader)?);
        }
        Ok(found)
    }

    fn take(&self) -> Option<MemoryShare<'_>> {
        match self.opening {
            Opening::InMemory { input } => Some(self.budget.take(self.content.size() + input)),
            Opening::Elsewhere => None,
        }
    }

    /// The reader for all later reads; bytes in memory are moved to a file.
    fn keep(&self, reader: Reader) -> io::Result<SharedReader> {
        let Opening::InMemory { .. } = self.opening else { return Ok(SharedReader(reader.into())) };
        let size = self.content.size();
        let named = write_error(&self.scratch);
        let mut file = tempfile::tempfile_in(&self.scratch).map_err(&named)?;
        let mut window = vec![0; WINDOW.min(size as usize)];
        let mut position = 0;
        while position < size {
            let length = (size - position).min(WINDOW as u64) as usize;
            reader.read_exact_at(position, &mut window[..length])?;
            file.write_all(&window[..length]).map_err(&named)?;
            position += length as u64;
        }
        Ok(SharedReader(Arc::new(file)))
    }
}

impl Content for Spooled {
    fn size(&self) -> u64 {
        self.content.size()
    }

    fn open(&self) -> io::Result<Reader> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = if let Some(shared) = &*opened {
            shared.clone()
        } else {
            let _taken = self.take();
            let kept = self.keep(self.content.open()?)?;
            opened.insert(kept).clone()
        };
        Ok(Box::new(shared))
    }

    fn origin(&self) -> Option<&Path> {
        self.content.origin()
    }
}

/// A content whose bytes are open already, such as an unnamed file.
pub struct OpenContent {
    reader: SharedReader,
    size: u64,
}

impl OpenContent {
    /// The first `size` bytes of a reader.
    pub fn new(reader: impl Into<Arc<dyn ReadAt + Send + Sync>>, size: u64) -> OpenContent {
        OpenContent { reader: SharedReader(reader.into()), size }
    }
}

impl Content for OpenContent {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Reader> {
        Ok(Box::new(self.reader.clone()))
    }
}
