//! In: files and directories. Out: the seconds that this machine needs to read all of their bytes
//! once, to deflate them once on all cores, and to write the result once, as one line of JSON.
//!
//! A packager has to do these three and more (walk, plan, hash, edit, frame), so their sum is a
//! floor for a program that does one after the other, and the largest of the three for one that
//! overlaps them perfectly. Chunks of 4 MiB with libdeflate, the level given: what a chunk loses by
//! not knowing its neighbour is far below one per cent. Files that are compressed already are
//! written as they are.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use libdeflater::{CompressionLvl, Compressor};
use rayon::prelude::*;

const CHUNK: usize = 4 << 20;

/// Chunks held at a time: 256 MiB, enough to keep every core busy between two writes.
const BATCH: usize = 64;

struct Floor {
    input: u64,
    output: u64,
    read: Duration,
    deflate: Duration,
    write: Duration,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [level, scratch, inputs @ ..] = arguments.as_slice() else {
        bail!("usage: floor LEVEL SCRATCH INPUT...");
    };
    let level = CompressionLvl::new(level.parse()?).map_err(|_| anyhow::anyhow!("libdeflate has levels 0 to 12"))?;
    let floor = measure(&files(inputs)?, level, Path::new(scratch))?;
    println!(
        "{{\"input\": {}, \"output\": {}, \"read\": {:.3}, \"deflate\": {:.3}, \"write\": {:.3}}}",
        floor.input,
        floor.output,
        floor.read.as_secs_f64(),
        floor.deflate.as_secs_f64(),
        floor.write.as_secs_f64(),
    );
    Ok(())
}

fn files(inputs: &[String]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for input in inputs {
        for entry in walkdir::WalkDir::new(input).sort_by_file_name() {
            let entry = entry?;
            if entry.file_type().is_file() {
                found.push(entry.into_path());
            }
        }
    }
    Ok(found)
}

fn is_compressed(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    matches!(extension, "kpack" | "xz" | "zst" | "gz" | "bz2" | "deb" | "whl")
}

fn measure(files: &[PathBuf], level: CompressionLvl, scratch: &Path) -> Result<Floor> {
    let mut floor = Floor { input: 0, output: 0, read: Duration::ZERO, deflate: Duration::ZERO, write: Duration::ZERO };
    let mut output = fs_err::File::create(scratch)?;
    let mut batch: Vec<(Vec<u8>, bool)> = Vec::new();
    for path in files {
        let packed = is_compressed(path);
        let file = fs_err::File::open(path)?;
        loop {
            let begin = Instant::now();
            let mut chunk = Vec::with_capacity(CHUNK);
            let read = (&file).take(CHUNK as u64).read_to_end(&mut chunk)?;
            floor.read += begin.elapsed();
            if read == 0 {
                break;
            }
            floor.input += read as u64;
            batch.push((chunk, packed));
            if batch.len() == BATCH {
                flush(&mut batch, level, &mut output, &mut floor)?;
            }
        }
    }
    flush(&mut batch, level, &mut output, &mut floor)?;
    fs_err::remove_file(scratch)?;
    Ok(floor)
}

fn flush(
    batch: &mut Vec<(Vec<u8>, bool)>,
    level: CompressionLvl,
    output: &mut fs_err::File,
    floor: &mut Floor,
) -> Result<()> {
    let begin = Instant::now();
    let packed: Vec<Vec<u8>> = std::mem::take(batch)
        .into_par_iter()
        .map_init(
            || Compressor::new(level),
            |compressor, (chunk, packed)| {
                if packed {
                    return Ok(chunk);
                }
                let mut deflated = vec![0; compressor.deflate_compress_bound(chunk.len())];
                let size = compressor.deflate_compress(&chunk, &mut deflated).context("deflating a chunk")?;
                deflated.truncate(size);
                Ok(deflated)
            },
        )
        .collect::<Result<_>>()?;
    floor.deflate += begin.elapsed();
    let begin = Instant::now();
    for chunk in &packed {
        output.write_all(chunk)?;
        floor.output += chunk.len() as u64;
    }
    floor.write += begin.elapsed();
    Ok(())
}
