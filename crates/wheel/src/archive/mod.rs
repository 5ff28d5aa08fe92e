//! Input: named contents in the order they are to have. Output: a ZIP file, and the SHA-256 of every member.

mod format;

use std::io::{self, Write as _};
use std::path::Path;

use report::{Reporter, Unit};
use sha2::Digest as _;

use crate::output::Output;
use crate::record::Digest;
use crate::{Content, Error, Level, Written};
use format::{DosTime, Header, Method};

/// A member to be.
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) executable: bool,
    pub(crate) content: &'a dyn Content,
}

/// What became of a member.
pub(crate) struct Entry {
    pub(crate) sha256: Digest,
    pub(crate) size: u64,
}

/// What holds for the whole archive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) level: Level,
    pub(crate) epoch: u64,
}

/// A ZIP file that comes into being.
pub(crate) struct Archive {
    output: Output,
    settings: Settings,
    central: Vec<u8>,
    entries: u64,
    raw: u64,
}

impl Archive {
    pub(crate) fn create(path: &Path, settings: Settings) -> Result<Archive, Error> {
        Ok(Archive {
            output: Output::create(path)?,
            settings,
            central: Vec::new(),
            entries: 0,
            raw: 0,
        })
    }

    /// Adds the members in the order given.
    pub(crate) fn add(
        &mut self,
        sources: &[Source<'_>],
        reporter: &dyn Reporter,
    ) -> Result<Vec<Entry>, Error> {
        let total = sources.iter().map(|source| source.content.size()).sum();
        let name = self
            .output
            .path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        reporter.begin(&format!("writing {name}"), Some(total), Unit::Bytes);
        let mut entries = Vec::with_capacity(sources.len());
        let time = DosTime::from_epoch(self.settings.epoch);
        for source in sources {
            if reporter.interrupted() {
                return Err(Error::Interrupted {
                    path: self.output.path().to_owned(),
                });
            }
            let size = source.content.size();
            let mut data = vec![0; size as usize];
            let reader = source
                .content
                .open()
                .map_err(|error| read_error(source.name, source.content, error))?;
            reader
                .read_exact_at(0, &mut data)
                .map_err(|error| read_error(source.name, source.content, error))?;
            let sha256: Digest = sha2::Sha256::digest(&data).into();
            let crc32 = crc32fast::hash(&data);
            let mut method = Method::Stored;
            if self.settings.level != Level::None {
                let mut compressor =
                    libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
                let mut packed = vec![0; data.len()];
                if let Ok(length) = compressor.deflate_compress(&data, &mut packed)
                    && length < data.len()
                {
                    packed.truncate(length);
                    data = packed;
                    method = Method::Deflated;
                }
            }
            let header = Header {
                name: source.name,
                executable: source.executable,
                method,
                crc32,
                size,
                compressed: data.len() as u64,
                offset: self.output.position(),
                large: format::needs_large(size),
            };
            self.write(&header.local(time), source.name)?;
            self.write(&data, source.name)?;
            self.central.extend(header.central(time));
            self.entries += 1;
            self.raw += size;
            reporter.advance(size);
            entries.push(Entry { sha256, size });
        }
        reporter.end();
        Ok(entries)
    }

    fn write(&mut self, bytes: &[u8], member: &str) -> Result<(), Error> {
        self.output.write_all(bytes).map_err(|source| Error::Write {
            path: self.output.path().to_owned(),
            member: Some(member.to_owned()),
            source,
        })
    }

    /// Writes the central directory and moves the file to its name.
    pub(crate) fn finish(mut self) -> Result<Written, Error> {
        let offset = self.output.position();
        let end = format::end(self.entries, offset, self.central.len() as u64);
        let path = self.output.path().to_owned();
        self.output
            .write_all(&self.central)
            .and_then(|()| self.output.write_all(&end))
            .map_err(|source| Error::Write {
                path,
                member: None,
                source,
            })?;
        self.output.finish(self.entries, self.raw)
    }
}

/// The error for a content that could not be read.
pub(crate) fn read_error(member: &str, content: &dyn Content, source: io::Error) -> Error {
    let member = member.to_owned();
    let origin = content.origin().map(Path::to_owned);
    match source.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Error::SizeChanged {
            member,
            origin,
            expected: content.size(),
        },
        _ => Error::Read {
            member,
            origin,
            source,
        },
    }
}
