//! Input: code objects and their ids. Output: an offload bundle in clang's layout.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Read, Write};

use flate2::write::ZlibEncoder;
use md5::{Digest, Md5};
use positioned_io::{Cursor, ReadAt};

use super::visit::checksum;
use super::{ALIGNMENT, COMPRESSED_MAGIC, MAGIC, MAX_ENTRIES, MAX_ID, Method};
use crate::error::Error;

const CHUNK: usize = 256 * 1024;

/// An entry of a bundle to be written.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Kind, triple and target.
    pub id: &'a str,
    /// Size of the code object in bytes; 0 for the host's entry.
    pub size: u64,
    /// The bytes of the code object.
    pub content: &'a dyn ReadAt,
}

/// The form of a bundle in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleForm {
    /// Uncompressed, with code objects on multiples of [`ALIGNMENT`].
    Plain,
    /// Compressed, with a `CCOB` header.
    Compressed {
        /// 1, 2 or 3: clang 18 and older read 1, clang 17 to 19 read 2, newer ones 3.
        version: u16,
        /// Compression of the payload.
        method: Method,
        /// Level of the compression: 0 to 9 for zlib, zstd's levels for zstd.
        level: i32,
    },
}

/// Returns the size in bytes of the plain bundle that [`write()`] makes of the parts, before
/// compression.
pub fn plain_size(parts: &[Part<'_>]) -> u64 {
    let (table, placed) = layout(parts);
    placed.last().map_or(table, |(_, end)| *end).max(table)
}

/// Writes a bundle with the parts in the given order (clang has the host's first) and returns its
/// size in bytes. If the entries of a plain bundle of clang are written in their order, the result
/// is identical byte for byte.
///
/// Some kilobytes of the code objects are in memory at a time; of a compressed bundle the whole
/// payload is, because the header before it contains its size.
///
/// # Errors
/// [`Error::NoBundle`] for parts that readers would refuse, the other variants if reading,
/// compressing or writing fails.
pub fn write(parts: &[Part<'_>], form: BundleForm, out: &mut dyn Write) -> Result<u64, Error> {
    check(parts)?;
    let size = plain_size(parts);
    let BundleForm::Compressed { version, method, level } = form else {
        write_plain(parts, out)?;
        return Ok(size);
    };
    let mut compressor = Compressor::new(method, level, size).map_err(Error::WriteBundle)?;
    write_plain(parts, &mut compressor)?;
    let (payload, checksum) = compressor.finish().map_err(Error::WriteBundle)?;
    let header = header(version, method, (size, payload.len() as u64), checksum)?;
    out.write_all(&header).and_then(|()| out.write_all(&payload)).map_err(Error::WriteBundle)?;
    Ok((header.len() + payload.len()) as u64)
}

fn check(parts: &[Part<'_>]) -> Result<(), Error> {
    if parts.len() as u64 > MAX_ENTRIES {
        return Err(refused(format!("{} entries are more than the {MAX_ENTRIES} that one may have", parts.len())));
    }
    let mut seen = BTreeSet::new();
    for Part { id, size, .. } in parts {
        if id.is_empty() || id.len() as u64 > MAX_ID {
            return Err(refused(format!("an id has 1 to {MAX_ID} bytes, `{}` has {}", id.escape_debug(), id.len())));
        }
        if !seen.insert(id) {
            return Err(refused(format!("two entries are called `{}`", id.escape_debug())));
        }
        if *size >= 1 << 48 {
            return Err(refused(format!("the entry `{}` would have {size} bytes", id.escape_debug())));
        }
    }
    Ok(())
}

/// Returns the size of the table in bytes, and start and end of each part.
fn layout(parts: &[Part<'_>]) -> (u64, Vec<(u64, u64)>) {
    let table = parts.iter().map(|part| 24 + part.id.len() as u64).sum::<u64>() + MAGIC.len() as u64 + 8;
    let mut position = table;
    let placed = parts.iter().map(|part| {
        let start = position.next_multiple_of(ALIGNMENT);
        position = start + part.size;
        (start, position)
    });
    let placed = placed.collect();
    (table, placed)
}

fn write_plain(parts: &[Part<'_>], out: &mut dyn Write) -> Result<(), Error> {
    let (table, placed) = layout(parts);
    let mut out = BufWriter::with_capacity(CHUNK, out);
    let mut bytes = Vec::with_capacity(table as usize);
    bytes.extend(MAGIC);
    bytes.extend((parts.len() as u64).to_le_bytes());
    for (part, (start, _)) in parts.iter().zip(&placed) {
        for number in [*start, part.size, part.id.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(part.id.as_bytes());
    }
    out.write_all(&bytes).map_err(Error::WriteBundle)?;
    let mut position = table;
    for (part, (start, end)) in parts.iter().zip(&placed) {
        let padded = io::copy(&mut io::repeat(0).take(start - position), &mut out);
        let written = padded.and_then(|_| copy(part, &mut out));
        written.map_err(|source| Error::WriteEntry { id: part.id.to_owned(), source })?;
        position = *end;
    }
    out.flush().map_err(Error::WriteBundle)
}

fn copy(part: &Part<'_>, out: &mut dyn Write) -> io::Result<()> {
    let copied = io::copy(&mut Cursor::new(part.content).take(part.size), out)?;
    if copied == part.size { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Returns the header before a payload; `sizes` are those of the plain bundle and of the payload.
fn header(version: u16, method: Method, sizes: (u64, u64), checksum: u64) -> Result<Vec<u8>, Error> {
    let (plain, payload) = sizes;
    let mut bytes = COMPRESSED_MAGIC.to_vec();
    bytes.extend(version.to_le_bytes());
    let number: u16 = match method {
        Method::Zlib => 0,
        Method::Zstd => 1,
    };
    bytes.extend(number.to_le_bytes());
    let sizes = match version {
        1 => vec![plain],
        2 => vec![payload + 24, plain],
        3 => vec![payload + 32, plain],
        _ => return Err(refused(format!("there is no version {version} of compressed bundles"))),
    };
    let width = if version == 3 { 8 } else { 4 };
    for size in sizes {
        if version != 3 && u32::try_from(size).is_err() {
            let reason = format!("version {version} cannot say that it has {plain} bytes; version 3 can");
            return Err(refused(reason));
        }
        bytes.extend(&size.to_le_bytes()[..width]);
    }
    bytes.extend(checksum.to_le_bytes());
    Ok(bytes)
}

/// Receives a plain bundle, and keeps its compressed payload and its checksum.
struct Compressor {
    encoder: Encoder,
    digest: Md5,
}

enum Encoder {
    Zlib(ZlibEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Compressor {
    fn new(method: Method, level: i32, size: u64) -> io::Result<Self> {
        let encoder = match method {
            Method::Zlib => {
                Encoder::Zlib(ZlibEncoder::new(Vec::new(), flate2::Compression::new(level.clamp(0, 9).cast_unsigned())))
            }
            Method::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level)?;
                // Readers decompress into a buffer of the size in the frame.
                encoder.set_pledged_src_size(Some(size))?;
                encoder.include_contentsize(true)?;
                Encoder::Zstd(encoder)
            }
        };
        Ok(Self { encoder, digest: Md5::new() })
    }

    fn finish(self) -> io::Result<(Vec<u8>, u64)> {
        let payload = match self.encoder {
            Encoder::Zlib(encoder) => encoder.finish()?,
            Encoder::Zstd(encoder) => encoder.finish()?,
        };
        Ok((payload, checksum(self.digest)))
    }
}

impl Write for Compressor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.encoder {
            Encoder::Zlib(encoder) => encoder.write(bytes)?,
            Encoder::Zstd(encoder) => encoder.write(bytes)?,
        };
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn refused(reason: impl Into<String>) -> Error {
    Error::NoBundle { reason: reason.into() }
}
