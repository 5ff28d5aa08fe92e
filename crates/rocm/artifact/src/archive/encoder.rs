//! Input: bytes. Output: the same bytes compressed, identical for any number of threads.
//!
//! Both encoders always run in their multi-threaded mode with a fixed job size: zstd without worker
//! threads writes other bytes than with one, but the same bytes with one worker as with many.

use std::io::{self, Write};

use liblzma::stream::{Check, MtStreamBuilder};
use zstd::zstd_safe::CParameter;

use super::Compression;

/// Bytes of input for each zstd job. 8 MiB is four windows of level 3; smaller jobs compress worse.
const ZSTD_JOB: u32 = 8 << 20;
/// Bytes of input for each xz block: three dictionaries of level 6, the default of `xz` itself.
const XZ_BLOCK: u64 = 24 << 20;
/// Upper limits of threads, which bound memory: a thread takes about 30 MB for zstd, 150 MB for xz.
const MOST_ZSTD_THREADS: u32 = 16;
const MOST_XZ_THREADS: u32 = 4;

pub(super) enum Encoder<W: Write> {
    Zstd(zstd::stream::write::Encoder<'static, W>),
    Xz(liblzma::write::XzEncoder<W>),
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(output: W, compression: Compression, level: u32, threads: usize) -> io::Result<Self> {
        let threads = u32::try_from(threads.max(1)).unwrap_or(u32::MAX);
        match compression {
            Compression::Zstd => {
                let level = i32::try_from(level).map_err(io::Error::other)?;
                let mut encoder = zstd::stream::write::Encoder::new(output, level)?;
                encoder.include_checksum(true)?;
                encoder.set_parameter(CParameter::NbWorkers(threads.min(MOST_ZSTD_THREADS)))?;
                encoder.set_parameter(CParameter::JobSize(ZSTD_JOB))?;
                Ok(Self::Zstd(encoder))
            }
            Compression::Xz => {
                let stream = MtStreamBuilder::new()
                    .preset(level)
                    .check(Check::Crc64)
                    .block_size(XZ_BLOCK)
                    .threads(threads.min(MOST_XZ_THREADS))
                    .encoder()?;
                Ok(Self::Xz(liblzma::write::XzEncoder::new_stream(output, stream)))
            }
        }
    }

    pub(super) fn finish(self) -> io::Result<W> {
        match self {
            Self::Zstd(encoder) => encoder.finish(),
            Self::Xz(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Zstd(encoder) => encoder.write(bytes),
            Self::Xz(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.flush(),
            Self::Xz(encoder) => encoder.flush(),
        }
    }
}
