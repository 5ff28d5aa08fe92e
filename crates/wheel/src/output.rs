//! Input: bytes in order, and now and then a correction of earlier ones. Output: a complete file
//! with its SHA-256, or nothing at all.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rocwheel_content::{Sha256, hexadecimal};
use rocwheel_system::{copy_range, link_nameless, nameless_file, permissions};
use tempfile::NamedTempFile;

use crate::{Error, FileDigest, Written};

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 20;
/// Fewer bytes than this are copied through the buffer: two writes cost more than a copy in memory.
const WORTHWHILE: u64 = 1 << 18;

/// A file that comes into being beside its final place: without a name where the file system can do
/// that, so that nothing is left of it when the process is killed, elsewhere under a temporary one.
/// Dropping it removes it.
pub(crate) struct Output {
    path: PathBuf,
    file: Unfinished,
    /// The first `filled` bytes are not written yet; they follow `written`.
    buffer: Box<[u8]>,
    filled: usize,
    written: u64,
    /// Hash of the first `hashed` bytes, which will not change any more; `None` when nobody wants
    /// to know it.
    hash: Option<Sha256>,
    hashed: u64,
    /// Whether what is written may still be corrected and thus not be hashed.
    open: bool,
    hashing: Hashing,
    /// Whether the kernel may copy from other files; it may be that it cannot.
    direct: bool,
}

/// When bytes are hashed. A copy takes about as long to hash as to write, so both at once halve the
/// time; but a thread that waits for a second one would wait for whole chunks when the pool
/// compresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hashing {
    /// After they are written, on the same thread.
    After,
    /// While they are written, on another thread of the pool.
    Beside,
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
        // tempfile's own default is 0600.
        let mut builder = builder();
        builder.permissions(permissions(MODE));
        builder.tempfile_in(directory).map(Unfinished::Named)
    }

    #[expect(clippy::disallowed_types, reason = "both kinds of files have one inside, and errors name the path anyway")]
    fn file(&mut self) -> &mut std::fs::File {
        match self {
            Unfinished::Nameless(file) => file.file_mut(),
            Unfinished::Named(file) => file.as_file_mut(),
        }
    }

    /// Moves the file to `path`.
    fn persist(self, path: &Path) -> io::Result<()> {
        match self {
            Unfinished::Nameless(file) => {
                // A name can only be given where there is none yet, and taking one that is there
                // has to be one step.
                let named =
                    builder().make_in(path.parent().unwrap_or(Path::new(".")), |name| link_nameless(&file, name))?;
                named.persist(path).map(drop).map_err(|error| error.error)
            }
            Unfinished::Named(file) => file.persist(path).map(drop).map_err(|error| error.error),
        }
    }
}

/// Readable for everybody the umask lets, like any other output.
const MODE: u32 = 0o666;

fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".rocwheel-").suffix(".partial");
    builder
}

impl Output {
    /// Begins the file `path`, whose folder must exist.
    pub(crate) fn create(path: &Path, digest: FileDigest) -> Result<Output, Error> {
        let directory = path.parent().unwrap_or(Path::new("."));
        let file = Unfinished::create(directory)
            .map_err(|source| Error::Create { directory: directory.to_owned(), source })?;
        Ok(Output {
            path: path.to_owned(),
            file,
            buffer: vec![0; BUFFER].into(),
            filled: 0,
            written: 0,
            hash: (digest == FileDigest::Sha256).then(Sha256::new),
            hashed: 0,
            open: false,
            hashing: Hashing::After,
            direct: true,
        })
    }

    /// The final name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes so far.
    pub(crate) fn position(&self) -> u64 {
        self.written + self.filled as u64
    }

    /// From here on bytes may be corrected, until [`Output::settle`].
    pub(crate) fn open(&mut self) -> io::Result<()> {
        self.flush()?;
        self.open = true;
        Ok(())
    }

    /// Everything so far is as it will stay. Hashes what was written since [`Output::open`], which
    /// the page cache still holds.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        self.flush()?;
        self.open = false;
        let Some(hash) = &mut self.hash else {
            self.hashed = self.written;
            return Ok(());
        };
        let mut window = vec![0; BUFFER.min((self.written - self.hashed) as usize)];
        let file = self.file.file();
        file.seek(SeekFrom::Start(self.hashed))?;
        while self.hashed < self.written {
            let length = (self.written - self.hashed).min(BUFFER as u64) as usize;
            file.read_exact(&mut window[..length])?;
            hash.update(&window[..length]);
            self.hashed += length as u64;
        }
        Ok(())
    }

    /// How many bytes [`Output::append`] takes now; at least one.
    pub(crate) fn room(&mut self) -> io::Result<usize> {
        if self.filled == BUFFER {
            self.flush()?;
        }
        Ok(BUFFER - self.filled)
    }

    /// Writes `length` bytes, no more than there is room for, which `read` provides.
    pub(crate) fn append<E>(&mut self, length: usize, read: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        read(&mut self.buffer[self.filled..self.filled + length])?;
        self.filled += length;
        Ok(())
    }

    /// Writes up to `length` bytes that `source` has at `position`, without bringing them here.
    /// Says how many; `None` when this is not the way, because they are few or to be hashed or the
    /// system cannot: then they are to be read and appended, which also says what is wrong if
    /// something is.
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

    /// Says who else has work for the threads of the pool.
    pub(crate) fn set_hashing(&mut self, hashing: Hashing) {
        self.hashing = hashing;
    }

    /// Replaces bytes that were written at `position`, which is not before the last
    /// [`Output::open`].
    pub(crate) fn correct(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        let file = self.file.file();
        file.seek(SeekFrom::Start(position))?;
        file.write_all(bytes)?;
        file.seek(SeekFrom::Start(self.written))?;
        Ok(())
    }

    /// Moves the file to its name.
    pub(crate) fn finish(mut self, files: u64, raw: u64) -> Result<Written, Error> {
        self.settle().map_err(|source| Error::Write { path: self.path.clone(), member: None, source })?;
        self.file.persist(&self.path).map_err(|source| Error::Persist { path: self.path.clone(), source })?;
        let sha256 = self.hash.map(|hash| hexadecimal(&hash.finish()));
        Ok(Written { path: self.path, files, raw, compressed: self.written, sha256 })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.filled + bytes.len() > BUFFER {
            self.flush()?;
        }
        if bytes.len() >= BUFFER {
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
        if self.open {
            file.write_all(bytes)?;
        } else {
            match &mut self.hash {
                Some(hash) if self.hashing == Hashing::Beside => {
                    rayon::join(|| file.write_all(bytes), || hash.update(bytes)).0?;
                }
                Some(hash) => {
                    file.write_all(bytes)?;
                    hash.update(bytes);
                }
                None => file.write_all(bytes)?,
            }
        }
        self.written += bytes.len() as u64;
        if !self.open {
            self.hashed = self.written;
        }
        Ok(())
    }
}
