//! Input: a tar archive, and rules for its members. Output: what changes in it, and the changed
//! archive. Bytes that stay are copied from their position.

use std::io::{self, BufReader, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};
use positioned_io::ReadAt;
use rocwheel_archive::tar::TarMembers;
use rocwheel_content::{Content, Reader};
use rocwheel_progress::{Failure, Interrupted, Reporter, Unit, Watched};

use crate::error;
use crate::member::MemberPath;
use crate::rules::{Findings, LARGEST_TEXT, Rules};

/// Blocks of tar archives have this many bytes.
const BLOCK: u64 = 512;
const WINDOW: usize = 1 << 18;

#[derive(Debug, Clone, Default)]
pub(crate) struct TarPatch {
    /// Ranges of the old archive in order, and the bytes in their place.
    edits: Vec<(Range<u64>, Vec<u8>)>,
    size: u64,
}

impl TarPatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    fn new_size(&self) -> u64 {
        let removed: u64 = self.edits.iter().map(|(range, _)| range.end - range.start).sum();
        let added: u64 = self.edits.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        self.size - removed + added
    }

    /// The changed archive, made from random access to the old one.
    pub(crate) fn content(self, source: impl ReadAt + Send + Sync + 'static) -> Spliced {
        let mut pieces = Vec::with_capacity(2 * self.edits.len() + 1);
        let (mut position, mut start) = (0, 0);
        let size = self.new_size();
        for (range, bytes) in self.edits {
            pieces.push(Piece { start, bytes: Bytes::Old(position) });
            start += range.start - position;
            let length = bytes.len() as u64;
            pieces.push(Piece { start, bytes: Bytes::New(bytes) });
            start += length;
            position = range.end;
        }
        pieces.push(Piece { start, bytes: Bytes::Old(position) });
        Spliced(Arc::new(Pieces { source: Box::new(source), pieces, size }))
    }
}

/// Reads an archive and plans its changes. Members are named `prefix` and their path in messages.
pub(crate) fn plan_tar(
    reader: impl Read,
    rules: &Rules,
    prefix: &str,
    reporter: &dyn Reporter,
    findings: &mut Findings,
) -> Result<TarPatch, PlanError> {
    let mut members = TarMembers::new(reader);
    let mut edits = Vec::new();
    while let Some(member) = members.next_member()? {
        reporter.check().map_err(Failure::from)?;
        let shown = format!("{prefix}{}", member.name);
        let path = MemberPath { path: &member.name, shown: &shown };
        let name = rules.new_name(path, &member.name, findings);
        let link = rules.new_name(path, &member.link, findings);
        let mut new = None;
        if member.is_file && member.size <= LARGEST_TEXT {
            let mut bytes = Vec::with_capacity(member.size as usize);
            members.read_to_end(&mut bytes)?;
            new = rules.new_text(path, &bytes, findings)?;
        } else if member.is_file {
            rules.search(path, &mut members, reporter, findings)?;
        }
        if let Some(text) = new {
            let mut bytes = member.header(&name, &link, text.len() as u64);
            bytes.extend_from_slice(text.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(BLOCK as usize), 0);
            edits.push((member.start..member.end(), bytes));
        } else if name != member.name || link != member.link {
            edits.push((member.start..member.content, member.header(&name, &link, member.size)));
        }
    }
    Ok(TarPatch { edits, size: members.finish()? })
}

/// An archive cannot be read, or a member not be changed.
#[derive(Debug)]
pub(crate) enum PlanError {
    Read(io::Error),
    Other(Failure),
}

impl PlanError {
    /// The error of the file at `path`. Readers that fail because the user wants to stop have no
    /// error of their own.
    pub(crate) fn at(self, path: &Path, reporter: &dyn Reporter) -> Failure {
        match self {
            PlanError::Read(_) if reporter.interrupted() => Interrupted.into(),
            PlanError::Read(error) => error::read(path)(error),
            PlanError::Other(error) => error,
        }
    }
}

impl From<io::Error> for PlanError {
    fn from(source: io::Error) -> Self {
        PlanError::Read(source)
    }
}

impl From<Failure> for PlanError {
    fn from(error: Failure) -> Self {
        PlanError::Other(error)
    }
}

/// The next `size` bytes of a reader.
pub(crate) fn read_whole(reader: &mut impl Read, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(size as usize);
    reader.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The unpacked bytes of a `.tar.gz` file.
pub(crate) fn unpacked<'a>(path: &Path, reporter: &'a dyn Reporter) -> Result<impl Read + 'a, Failure> {
    let file = fs_err::File::open(path).map_err(error::read(path))?;
    Ok(MultiGzDecoder::new(BufReader::with_capacity(WINDOW, Watched::new(file, reporter))))
}

/// Reads PKG-INFO of a source distribution; `None` if there is none.
pub(crate) fn find_information(path: &Path, reporter: &dyn Reporter) -> Result<Option<String>, Failure> {
    let mut members = TarMembers::new(unpacked(path, reporter)?);
    while let Some(member) = members.next_member().map_err(error::read(path))? {
        let is_information = member.name.split_once('/').is_some_and(|(_, rest)| rest == "PKG-INFO");
        if member.is_file && member.size <= LARGEST_TEXT && is_information {
            let bytes = read_whole(&mut members, member.size).map_err(error::read(path))?;
            return Ok(String::from_utf8(bytes).ok());
        }
    }
    Ok(None)
}

/// Writes a changed `.tar.gz`. Its header does not depend on the machine or the date, as in
/// [`rocwheel_wheel::write_sdist`].
pub(crate) fn write_packed(
    input: &Path,
    patch: &TarPatch,
    output: &Path,
    reporter: &dyn Reporter,
) -> Result<(), Failure> {
    let size = fs_err::metadata(input).map_err(read_error(input, reporter))?.len();
    reporter.begin(&format!("Writing {}", output.file_name().unwrap_or_default().display()), Some(size), Unit::Bytes);
    let file = fs_err::File::create_new(output).map_err(error::write(output))?;
    let mut encoder = GzBuilder::new().mtime(0).operating_system(255).write(file, Compression::new(6));
    let mut reader = unpacked(input, reporter)?;
    let mut window = vec![0; WINDOW];
    let mut position = 0;
    let end = (patch.size..patch.size, Vec::new());
    for (range, bytes) in patch.edits.iter().chain([&end]) {
        while position < range.start {
            let length = (range.start - position).min(WINDOW as u64) as usize;
            reader.read_exact(&mut window[..length]).map_err(read_error(input, reporter))?;
            encoder.write_all(&window[..length]).map_err(error::write(output))?;
            position += length as u64;
        }
        let length = range.end - range.start;
        io::copy(&mut (&mut reader).take(length), &mut io::sink()).map_err(read_error(input, reporter))?;
        position = range.end;
        encoder.write_all(bytes).map_err(error::write(output))?;
    }
    // The checksum is behind the last byte.
    io::copy(&mut reader, &mut io::sink()).map_err(read_error(input, reporter))?;
    encoder.finish().map_err(error::write(output))?;
    reporter.end();
    Ok(())
}

fn read_error(path: &Path, reporter: &dyn Reporter) -> impl Fn(io::Error) -> Failure {
    |source| PlanError::Read(source).at(path, reporter)
}

/// An archive with other bytes in some places.
pub(crate) struct Spliced(Arc<Pieces>);

struct Pieces {
    source: Box<dyn ReadAt + Send + Sync>,
    pieces: Vec<Piece>,
    size: u64,
}

struct Piece {
    /// Position in the new archive.
    start: u64,
    bytes: Bytes,
}

enum Bytes {
    /// From this position of the old archive.
    Old(u64),
    New(Vec<u8>),
}

impl Content for Spliced {
    fn size(&self) -> u64 {
        self.0.size
    }

    fn open(&self) -> io::Result<Reader> {
        Ok(Box::new(SplicedReader(Arc::clone(&self.0))))
    }
}

struct SplicedReader(Arc<Pieces>);

impl ReadAt for SplicedReader {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Pieces { source, pieces, size } = &*self.0;
        if position >= *size || buffer.is_empty() {
            return Ok(0);
        }
        // The last piece that begins at or before the position; empty ones are passed over.
        let index = pieces.partition_point(|piece| piece.start <= position) - 1;
        let end = pieces.get(index + 1).map_or(*size, |next| next.start);
        let offset = position - pieces[index].start;
        let length = (end - position).min(buffer.len() as u64) as usize;
        match &pieces[index].bytes {
            Bytes::Old(old) => source.read_at(old + offset, &mut buffer[..length]),
            Bytes::New(bytes) => {
                let offset = offset as usize;
                buffer[..length].copy_from_slice(&bytes[offset..offset + length]);
                Ok(length)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_at_any_position() {
        let edits = vec![(0..2, b"AB".to_vec()), (2..2, b"+".to_vec()), (5..7, Vec::new()), (10..10, b"end".to_vec())];
        let patch = TarPatch { edits, size: 10 };
        let content = patch.content(b"0123456789".to_vec());
        let expected = b"AB+234789end";
        assert_eq!(content.size(), expected.len() as u64);
        let reader = content.open().unwrap();
        for start in 0..expected.len() {
            for length in 0..=expected.len() - start {
                let mut window = vec![0; length];
                reader.read_exact_at(start as u64, &mut window).unwrap();
                assert_eq!(window, &expected[start..start + length]);
            }
        }
    }
}
