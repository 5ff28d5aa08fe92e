//! In: a wheel, or a library, with GPU code. Out: the seconds that this machine needs for what
//! every program that splits it has to do, one step after the other, as one line of JSON.
//!
//! Read the file once, inflate the members that hold GPU code, decompress their compressed bundles,
//! compress each code object with zstd, deflate what is left of the members, write the result once.
//! All but the inflation of a member, which is one stream, is on all cores. Finding out where the
//! code objects are is not counted, nor are checksums, RECORD, and any check of the result.

use std::borrow::Cow;
use std::io::{Cursor, Write};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rocwheel_kpack::bundle::Method;
use rocwheel_kpack::{Bundle, FatBinary};
use libdeflater::{CompressionLvl, Compressor, Decompressor};
use positioned_io::ReadAt;
use rayon::prelude::*;

/// libdeflate's level that rocwheel uses.
const DEFLATE: i32 = 5;
/// The level at which the existing tools compress code objects.
const ZSTD: i32 = 3;
const CHUNK: usize = 4 << 20;
/// Bytes of code in memory at a time, once a bundle is in it.
const BATCH: u64 = 256 << 20;

#[derive(Default)]
struct Floor {
    input: u64,
    code: u64,
    output: u64,
    read: Duration,
    inflate: Duration,
    decompress: Duration,
    zstd: Duration,
    deflate: Duration,
    write: Duration,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [scratch, input] = arguments.as_slice() else {
        bail!("usage: split-floor SCRATCH INPUT");
    };
    let mut output = Output { file: fs_err::File::create(scratch)?, floor: Floor::default() };
    if input.ends_with(".whl") { wheel(Path::new(input), &mut output)? } else { library(Path::new(input), &mut output)? };
    fs_err::remove_file(scratch)?;
    let floor = output.floor;
    println!(
        "{{\"input\": {}, \"code\": {}, \"output\": {}, \"read\": {:.3}, \"inflate\": {:.3}, \"decompress\": {:.3}, \
         \"zstd\": {:.3}, \"deflate\": {:.3}, \"write\": {:.3}}}",
        floor.input,
        floor.code,
        floor.output,
        floor.read.as_secs_f64(),
        floor.inflate.as_secs_f64(),
        floor.decompress.as_secs_f64(),
        floor.zstd.as_secs_f64(),
        floor.deflate.as_secs_f64(),
        floor.write.as_secs_f64(),
    );
    Ok(())
}

struct Output {
    file: fs_err::File,
    floor: Floor,
}

impl Output {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let begin = Instant::now();
        self.file.write_all(bytes)?;
        self.floor.write += begin.elapsed();
        self.floor.output += bytes.len() as u64;
        Ok(())
    }
}

/// Members with GPU code are inflated; the others are written as they are.
fn wheel(path: &Path, output: &mut Output) -> Result<()> {
    let begin = Instant::now();
    let bytes = fs_err::read(path)?;
    output.floor.read += begin.elapsed();
    output.floor.input += bytes.len() as u64;
    let mut archive = zip::ZipArchive::new(Cursor::new(&bytes))?;
    for index in 0..archive.len() {
        let member = archive.by_index_raw(index)?;
        let start = member.data_start().context("a member has data")? as usize;
        let packed = &bytes[start..start + member.compressed_size() as usize];
        let deflated = member.compression() == zip::CompressionMethod::Deflated;
        let begin = Instant::now();
        let content: Cow<'_, [u8]> = if deflated {
            let mut content = vec![0; member.size() as usize];
            Decompressor::new().deflate_decompress(packed, &mut content).context("inflating a member")?;
            content.into()
        } else {
            packed.into()
        };
        let elapsed = begin.elapsed();
        match FatBinary::read(&&*content, content.len() as u64)? {
            Some(fat) if !fat.bundles.is_empty() => {
                output.floor.inflate += elapsed;
                binary(&Source::Memory(&content), &fat, content.len() as u64, Host::Deflate, output)?;
            }
            _ => output.write(packed)?,
        }
    }
    Ok(())
}

fn library(path: &Path, output: &mut Output) -> Result<()> {
    let file = fs_err::File::open(path)?;
    let size = file.metadata()?.len();
    let fat = FatBinary::read(file.file(), size)?.context("the library has no GPU code")?;
    output.floor.input += size;
    binary(&Source::File(file.file()), &fat, size, Host::Store, output)
}

enum Source<'a> {
    Memory(&'a [u8]),
    File(&'a std::fs::File),
}

impl<'a> Source<'a> {
    fn bytes(&self, range: Range<u64>, floor: &mut Floor) -> Result<Cow<'a, [u8]>> {
        match self {
            Self::Memory(bytes) => Ok(bytes[range.start as usize..range.end as usize].into()),
            Self::File(file) => {
                let begin = Instant::now();
                let mut bytes = vec![0; (range.end - range.start) as usize];
                file.read_exact_at(range.start, &mut bytes)?;
                floor.read += begin.elapsed();
                Ok(bytes.into())
            }
        }
    }
}

/// What becomes of the host part.
enum Host {
    Deflate,
    Store,
}

fn binary(source: &Source<'_>, fat: &FatBinary, size: u64, host: Host, output: &mut Output) -> Result<()> {
    for part in [0..fat.section.start, fat.section.end..size] {
        let mut start = part.start;
        while start < part.end {
            let end = part.end.min(start + BATCH);
            let bytes = source.bytes(start..end, &mut output.floor)?;
            match host {
                Host::Store => output.write(&bytes)?,
                Host::Deflate => {
                    let begin = Instant::now();
                    let packed = bytes.par_chunks(CHUNK).map(deflate).collect::<Result<Vec<_>>>()?;
                    output.floor.deflate += begin.elapsed();
                    packed.iter().try_for_each(|chunk| output.write(chunk))?;
                }
            }
            start = end;
        }
    }
    let mut batch = Vec::new();
    let mut waiting = 0;
    for bundle in &fat.bundles {
        let start = fat.section.start + bundle.offset;
        batch.push((bundle, source.bytes(start..start + bundle.length, &mut output.floor)?));
        waiting += bundle.compression.map_or(bundle.length, |compression| compression.uncompressed);
        if waiting >= BATCH {
            code(&std::mem::take(&mut batch), output)?;
            waiting = 0;
        }
    }
    code(&batch, output)
}

fn deflate(chunk: &[u8]) -> Result<Vec<u8>> {
    let level = CompressionLvl::new(DEFLATE).map_err(|_| anyhow::anyhow!("libdeflate has levels 0 to 12"))?;
    let mut compressor = Compressor::new(level);
    let mut deflated = vec![0; compressor.deflate_compress_bound(chunk.len())];
    let size = compressor.deflate_compress(chunk, &mut deflated).context("deflating a chunk")?;
    deflated.truncate(size);
    Ok(deflated)
}

/// Decompresses bundles, compresses their code objects, writes these.
fn code(bundles: &[(&Bundle, Cow<'_, [u8]>)], output: &mut Output) -> Result<()> {
    let begin = Instant::now();
    let plain = bundles.par_iter().map(|(bundle, bytes)| plain(bundle, bytes)).collect::<Result<Vec<_>>>()?;
    output.floor.decompress += begin.elapsed();
    let objects: Vec<&[u8]> = bundles
        .iter()
        .zip(&plain)
        .flat_map(|((bundle, _), bytes)| bundle.entries.iter().map(move |entry| (entry, bytes)))
        .filter(|(entry, _)| entry.size > 0)
        .map(|(entry, bytes)| &bytes[entry.offset as usize..(entry.offset + entry.size) as usize])
        .collect();
    output.floor.code += objects.iter().map(|object| object.len() as u64).sum::<u64>();
    let begin = Instant::now();
    let compressor = || zstd::bulk::Compressor::new(ZSTD);
    let frames = objects.par_iter().map_init(compressor, |compressor, object| match compressor {
        Ok(compressor) => Ok(compressor.compress(object)?),
        Err(error) => bail!("no memory for zstd: {error}"),
    });
    let frames = frames.collect::<Result<Vec<_>>>()?;
    output.floor.zstd += begin.elapsed();
    frames.iter().try_for_each(|frame| output.write(frame))
}

fn plain<'a>(bundle: &Bundle, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>> {
    let Some(compression) = bundle.compression else { return Ok(bytes.into()) };
    if compression.method != Method::Zstd {
        bail!("the floor knows bundles compressed with zstd only");
    }
    let header = if compression.version == 3 { 32 } else { 24 };
    Ok(zstd::bulk::decompress(&bytes[header..], compression.uncompressed as usize)?.into())
}
