//! Input: bytes in order, and occasional corrections of earlier bytes. Output: a complete file with
//! its SHA-256, or nothing at all.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use positioned_io::Cursor;
use rocwheel_content::{Sha256, SharedFile, WINDOW, hexadecimal};
use rocwheel_progress::write_error;
use rocwheel_system::{copy_range, link_nameless, nameless_file, persist, temporary_mode};
use tempfile::NamedTempFile;

use crate::Error;
use crate::options::FileDigest;
use crate::written::Written;

/// Fewer bytes than this are copied through the buffer: two writes cost more than a copy in memory.
const WORTHWHILE: u64 = 1 << 18;

/// A file that is being written in the folder of its final path. If the file system supports it the
/// file is unnamed, so nothing is left when the process is killed; otherwise it has a temporary
/// name. Dropping it removes it.
pub(crate) struct Output {
    path: PathBuf,
    file: Unfinished,
    /// The first `filled` bytes have not been written; they belong after the first `written` bytes.
    buffer: Box<[u8]>,
    filled: usize,
    written: u64,
    /// Hash of the first `hashed` bytes, which do not change any more; `None` if no hash was
    /// requested.
    hash: Option<Sha256>,
    hashed: u64,
    /// `true` if the bytes being written may still be corrected and so must not be hashed.
    open: bool,
    hashing: Hashing,
    /// `true` until the kernel turns out to be unable to copy from other files.
    direct: bool,
}

/// The time at which bytes are hashed. To hash a copy takes about as long as to write it, so doing
/// both at once halves the time. But if the pool compresses, a thread that waits for a second one
/// would wait for whole chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hashing {
    /// After writing, on the same thread.
    After,
    /// During writing, on another thread of the pool.
    Beside,
}

/// The SHA-256 of the first bytes of a file, by default of none.
#[derive(Default)]
pub struct Beginning {
    /// Number of these bytes.
    pub length: u64,
    hash: Sha256,
}

impl Beginning {
    /// The SHA-256 in hexadecimal of a file that begins with these bytes. Only the rest is read.
    pub fn complete(mut self, file: &SharedFile) -> io::Result<String> {
        self.hash.read_ahead(&mut Cursor::new_pos(file, self.length))?;
        Ok(hexadecimal(&self.hash.finish()))
    }
}

enum Unfinished {
    Nameless(fs_err::File),
    Named(NamedTempFile),
}

impl Unfinished {
    fn create(directory: &Path) -> io::Result<Unfinished> {
        if let Some(file) = nameless_file(directory, MODE) {
            return Ok(Unfinished::Nameless(file));
        }
        // tempfile's own default mode is 0600.
        let mut builder = builder();
        temporary_mode(&mut builder, MODE).tempfile_in(directory).map(Unfinished::Named)
    }

    #[expect(clippy::disallowed_types, reason = "both kinds of files have one inside, and errors name the path anyway")]
    fn file(&mut self) -> &mut std::fs::File {
        match self {
            Unfinished::Nameless(file) => file.file_mut(),
            Unfinished::Named(file) => file.as_file_mut(),
        }
    }

    fn persist(self, path: &Path) -> io::Result<()> {
        match self {
            Unfinished::Nameless(file) => {
                // An unnamed file can only get a name that does not exist, and replacing an
                // existing file must be one step.
                let named =
                    builder().make_in(path.parent().unwrap_or(Path::new(".")), |name| link_nameless(&file, name))?;
                persist(named, path)
            }
            Unfinished::Named(file) => persist(file, path),
        }
    }
}

/// Like any other output, the file is readable for everyone whom the umask allows.
const MODE: u32 = 0o666;

fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".rocwheel-").suffix(".partial");
    builder
}

impl Output {
    /// Begins the file `path` in a folder that must exist.
    pub(crate) fn create(path: &Path, digest: FileDigest) -> Result<Output, Error> {
        let directory = path.parent().unwrap_or(Path::new("."));
        let file = Unfinished::create(directory)
            .map_err(|source| Error::Create { directory: directory.to_owned(), source })?;
        Ok(Output {
            path: path.to_owned(),
            file,
            buffer: vec![0; WINDOW].into(),
            filled: 0,
            written: 0,
            hash: (digest == FileDigest::Sha256).then(Sha256::new),
            hashed: 0,
            open: false,
            hashing: Hashing::After,
            direct: true,
        })
    }

    /// The final path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of bytes so far.
    pub(crate) fn position(&self) -> u64 {
        self.written + self.filled as u64
    }

    /// Starts a range that may be corrected until [`Output::settle`].
    pub(crate) fn open(&mut self) -> io::Result<()> {
        self.flush()?;
        self.open = true;
        Ok(())
    }

    /// Declares all bytes so far as final. Hashes those written since [`Output::open`], which are
    /// still in the page cache.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        self.flush()?;
        self.open = false;
        let Some(hash) = &mut self.hash else {
            self.hashed = self.written;
            return Ok(());
        };
        let mut window = vec![0; WINDOW.min((self.written - self.hashed) as usize)];
        let file = self.file.file();
        file.seek(SeekFrom::Start(self.hashed))?;
        while self.hashed < self.written {
            let length = (self.written - self.hashed).min(WINDOW as u64) as usize;
            file.read_exact(&mut window[..length])?;
            hash.update(&window[..length]);
            self.hashed += length as u64;
        }
        Ok(())
    }

    /// The hash of all bytes so far, which must be final; of none if no hash was requested.
    pub(crate) fn beginning(&mut self) -> io::Result<Beginning> {
        self.flush()?;
        let hash = self.hash.as_ref();
        Ok(hash.map(|hash| Beginning { length: self.hashed, hash: hash.clone() }).unwrap_or_default())
    }

    /// The number of bytes that [`Output::append`] accepts now; at least one.
    pub(crate) fn room(&mut self) -> io::Result<usize> {
        if self.filled == WINDOW {
            self.flush()?;
        }
        Ok(WINDOW - self.filled)
    }

    /// Appends `length` bytes, at most [`Output::room`], that `read` provides.
    pub(crate) fn append<E>(&mut self, length: usize, read: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        read(&mut self.buffer[self.filled..self.filled + length])?;
        self.filled += length;
        Ok(())
    }

    /// Lets the kernel copy up to `length` bytes from `position` in `source`. Returns their number.
    /// `None` if this is not possible or not useful: there are too few bytes, they must be hashed,
    /// or the system cannot do it. Then the caller must read and append them, which also reveals an
    /// error if there is one.
    pub(crate) fn copy_from(&mut self, source: &fs_err::File, position: u64, length: u64) -> Option<u64> {
        if !self.direct || self.open || self.hash.is_some() || length < WORTHWHILE {
            return None;
        }
        self.flush().ok()?;
        let copied = copy_range(source, position, &*self.file.file(), length);
        self.direct = copied.is_some();
        self.written += copied.unwrap_or_default();
        self.hashed = self.written;
        copied
    }

    /// Sets the time of hashing, which depends on the other work of the pool.
    pub(crate) fn set_hashing(&mut self, hashing: Hashing) {
        self.hashing = hashing;
    }

    /// Replaces bytes at `position`, which must not be before the last [`Output::open`].
    pub(crate) fn correct(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        let file = self.file.file();
        file.seek(SeekFrom::Start(position))?;
        file.write_all(bytes)?;
        file.seek(SeekFrom::Start(self.written))?;
        Ok(())
    }

    /// Renames the file to its final path.
    pub(crate) fn finish(mut self, files: u64, raw: u64) -> Result<Written, Error> {
        self.settle().map_err(Error::write(&self.path, None))?;
        self.file.persist(&self.path).map_err(|source| Error::Persist { path: self.path.clone(), source })?;
        let sha256 = self.hash.map(|hash| hexadecimal(&hash.finish()));
        Ok(Written { path: self.path, files, raw, compressed: self.written, sha256 })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.filled + bytes.len() > WINDOW {
            self.flush()?;
        }
        if bytes.len() >= WINDOW {
            self.put(bytes)?;
        } else {
            self.buffer[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
            self.filled += bytes.len();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let result = self.put(&buffer[..self.filled]);
        self.buffer = buffer;
        self.filled = 0;
        result
    }
}

impl Output {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = self.file.file();
        let hash = self.hash.as_mut().filter(|_| !self.open);
        let written = match hash {
            Some(hash) if self.hashing == Hashing::Beside => {
                rayon::join(|| file.write_all(bytes), || hash.update(bytes)).0
            }
            Some(hash) => {
                hash.update(bytes);
                file.write_all(bytes)
            }
            None => file.write_all(bytes),
        };
        written.map_err(write_error(&self.path))?;
        self.written += bytes.len() as u64;
        if !self.open {
            self.hashed = self.written;
        }
        Ok(())
    }
}
