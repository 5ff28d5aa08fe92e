//! Input: a compressed bundle (`CCOB`) in a section. Output: its header, and its content as a
//! stream.

use std::io::{BufReader, Read};

use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::{CompressionHeader, Method, Window, malformed, more_than_stated};
use crate::error::Error;

/// Bytes read and decompressed at a time.
const CHUNK: usize = 128 * 1024;

pub(super) struct Header {
    pub(super) compression: CompressionHeader,
    /// Size of header and payload in bytes.
    pub(super) total: u64,
}

impl Header {
    pub(super) fn read(window: &Window<'_>, bundle: u64) -> Result<Self, Error> {
        let version = window.number(bundle, 4, 2)? as u16;
        let method = match window.number(bundle, 6, 2)? as u16 {
            0 => Method::Zlib,
            1 => Method::Zstd,
            value => return Err(Error::Unsupported { offset: bundle, field: "method", value }),
        };
        // Position and width of the size of the decompressed bundle. The checksum is at the end of
        // the header.
        let (at, width) = match version {
            1 => (8, 4),
            2 => (12, 4),
            3 => (16, 8),
            value => return Err(Error::Unsupported { offset: bundle, field: "version", value }),
        };
        let uncompressed = window.number(bundle, at, width)?;
        let size = header_size(version);
        let checksum = window.number(bundle, size - 8, 8)?;
        let compression = CompressionHeader { version, method, uncompressed, checksum };
        let total = match version {
            1 => size + payload_length(window, bundle, size, compression)?,
            _ => window.number(bundle, 8, width)?,
        };
        let end = bundle.checked_add(total).filter(|end| total >= size && *end <= window.size());
        end.ok_or_else(|| malformed(bundle, format!("its size {total} does not fit the section")))?;
        Ok(Self { compression, total })
    }
}

/// Returns the size of the header in bytes for a version.
fn header_size(version: u16) -> u64 {
    match version {
        1 => 20,
        2 => 24,
        _ => 32,
    }
}

/// Returns the decompressed content of the bundle of `length` bytes at `bundle`, as a stream.
pub(super) fn payload<'a>(
    window: &'a Window<'a>,
    bundle: u64,
    length: u64,
    header: CompressionHeader,
) -> Result<Box<dyn Read + 'a>, Error> {
    let position = bundle.saturating_add(header_size(header.version));
    let end = bundle.saturating_add(length).min(window.size());
    let span = BufReader::with_capacity(CHUNK, window.stream(position, end));
    Ok(match header.method {
        Method::Zlib => Box::new(flate2::bufread::ZlibDecoder::new(span)),
        Method::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(span);
            // The bytes behind the frame are padding.
            Box::new(decoder.map_err(|source| Error::Read { offset: bundle, source })?.single_frame())
        }
    })
}

/// Returns the size of the payload of version 1. The header only has the size of the decompressed
/// content, so the payload is decompressed to find its end.
fn payload_length(window: &Window<'_>, bundle: u64, header: u64, compression: CompressionHeader) -> Result<u64, Error> {
    let mut stream = match compression.method {
        Method::Zlib => Stream::Zlib(Decompress::new(true)),
        Method::Zstd => Stream::Zstd(Decoder::new().map_err(|source| Error::Read { offset: bundle, source })?),
    };
    let start = bundle + header;
    let mut input = vec![0; CHUNK];
    let mut output = vec![0; CHUNK];
    let (mut consumed, mut produced) = (0, 0);
    loop {
        let available = (CHUNK as u64).min(window.size().saturating_sub(start + consumed)) as usize;
        window.fill(bundle, start + consumed, &mut input[..available])?;
        let step = stream.step(&input[..available], &mut output);
        let step = step.map_err(|source| Error::Read { offset: bundle, source })?;
        consumed += step.consumed as u64;
        produced += step.produced as u64;
        if produced > compression.uncompressed {
            return Err(more_than_stated(bundle, compression.uncompressed));
        }
        if step.finished {
            return Ok(consumed);
        }
        if step.consumed == 0 && step.produced == 0 {
            return Err(malformed(bundle, "it ends within its payload"));
        }
    }
}

enum Stream {
    Zlib(Decompress),
    Zstd(Decoder<'static>),
}

struct Step {
    consumed: usize,
    produced: usize,
    finished: bool,
}

impl Stream {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> std::io::Result<Step> {
        match self {
            Self::Zlib(stream) => {
                let (read, written) = (stream.total_in(), stream.total_out());
                let status = stream.decompress(input, output, FlushDecompress::None).map_err(std::io::Error::other)?;
                let (consumed, produced) = (stream.total_in() - read, stream.total_out() - written);
                let (consumed, produced) = (consumed as usize, produced as usize);
                Ok(Step { consumed, produced, finished: status == Status::StreamEnd })
            }
            Self::Zstd(stream) => {
                let (mut source, mut target) = (InBuffer::around(input), OutBuffer::around(output));
                let hint = stream.run(&mut source, &mut target)?;
                Ok(Step { consumed: source.pos(), produced: target.pos(), finished: hint == 0 })
            }
        }
    }
}
