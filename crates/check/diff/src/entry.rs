//! A path of a package, independent of the form in which the package is stored.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use positioned_io::ReadAt;
use rocwheel_content::{Content, FileContent, Reader, Spool};
use rocwheel_progress::Failure;
use rocwheel_wheel::read::{MemberContent, Wheel};

/// A file or link of a package.
#[derive(Clone)]
pub(crate) enum Entry {
    File(File),
    Link { target: String },
}

#[derive(Clone)]
pub(crate) struct File {
    pub(crate) size: u64,
    pub(crate) executable: bool,
    pub(crate) source: Source,
}

/// The contents of an archive, unpacked one member after the other.
pub(crate) type Unpacked = Arc<dyn ReadAt + Send + Sync>;

#[derive(Clone)]
pub(crate) enum Source {
    Disk(PathBuf),
    Member {
        wheel: Arc<Wheel>,
        name: String,
    },
    /// A part of an unpacked archive.
    Part {
        unpacked: Unpacked,
        start: u64,
    },
}

impl Entry {
    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            Entry::File(file) => Some(file.size),
            Entry::Link { .. } => None,
        }
    }
}

impl File {
    /// Returns the bytes. Temporary data of unpacking live as long as the content.
    pub(crate) fn content(&self, spool: &Spool) -> Result<Arc<dyn Content>, Failure> {
        Ok(match &self.source {
            Source::Disk(path) => Arc::new(FileContent { path: path.clone(), size: self.size }),
            Source::Member { wheel, name } => Arc::new(MemberContent::spooled(wheel, name, spool)?),
            Source::Part { unpacked, start } => {
                Arc::new(Part { unpacked: Arc::clone(unpacked), range: *start..*start + self.size })
            }
        })
    }

    /// Returns the first bytes.
    pub(crate) fn start(&self, length: usize) -> Result<Vec<u8>, Failure> {
        let length = length.min(usize::try_from(self.size).unwrap_or(usize::MAX));
        if let Source::Member { wheel, name } = &self.source {
            return Ok(wheel.start(name, length)?);
        }
        let mut bytes = vec![0; length];
        match &self.source {
            Source::Disk(path) => fs_err::File::open(path)?.into_parts().0.read_exact_at(0, &mut bytes)?,
            Source::Part { unpacked, start } => unpacked.read_exact_at(*start, &mut bytes)?,
            Source::Member { .. } => {}
        }
        Ok(bytes)
    }

    /// `true` if two files are certain to differ, without reading them.
    pub(crate) fn surely_differs(&self, other: &File) -> bool {
        let checksums = [self, other].map(|file| match &file.source {
            Source::Member { wheel, name } => wheel.member(name).map(rocwheel_archive::Listed::crc32),
            _ => None,
        });
        self.size != other.size || matches!(checksums, [Some(one), Some(other)] if one != other)
    }

    /// `true` if two members have the same compressed bytes, so that they need not be unpacked.
    pub(crate) fn is_packed_copy(&self, other: &File) -> Result<bool, Failure> {
        match (&self.source, &other.source) {
            (Source::Member { wheel, name }, Source::Member { wheel: other, name: other_name }) => {
                Ok(wheel.is_copy(name, other, other_name)?)
            }
            _ => Ok(false),
        }
    }
}

/// A part of an unpacked archive as a file.
struct Part {
    unpacked: Unpacked,
    range: Range<u64>,
}

impl Content for Part {
    fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn open(&self) -> io::Result<Reader> {
        Ok(Box::new(Part { unpacked: Arc::clone(&self.unpacked), range: self.range.clone() }))
    }
}

impl ReadAt for Part {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = self.range.start.saturating_add(position).min(self.range.end);
        let length = (self.range.end - start).min(buffer.len() as u64) as usize;
        self.unpacked.read_at(start, &mut buffer[..length])
    }
}
