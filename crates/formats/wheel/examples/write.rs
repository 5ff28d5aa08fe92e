//! Writes the files of a folder into a wheel and prints seconds, MB/s and peak memory, beside the
//! minimum cost of reading, hashing and compressing:
//! `cargo run --release -p rocwheel-wheel --example write -- FOLDER [LEVEL] [THREADS]`.

#![allow(clippy::cast_precision_loss)] // bytes as megabytes to print

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rocwheel_archive::{Level, WriteOptions};
use rocwheel_content::FileContent;
use rocwheel_progress::Silent;
use rocwheel_wheel::{EntryPoints, Member, Metadata, Tag, WheelContents, write_wheel};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: write FOLDER [none|fast|default|best] [THREADS]")?);
    let (level, number) = match arguments.next().as_deref().unwrap_or("default") {
        "none" => (Level::None, 0),
        "fast" => (Level::Fast, 1),
        "best" => (Level::Best, 10),
        _ => (Level::Default, 5),
    };
    if let Some(threads) = arguments.next() {
        rayon::ThreadPoolBuilder::new().num_threads(threads.parse()?).build_global()?;
    }
    let mut paths = Vec::new();
    walk(&folder, &mut paths)?;
    paths.sort();
    let mut members = Vec::new();
    for path in &paths {
        let name = path.strip_prefix(&folder)?.to_string_lossy().into_owned();
        members.push(Member::new(name, FileContent::new(path)?));
    }
    let distribution = WheelContents {
        name: "bench".to_owned(),
        version: "1.0".to_owned(),
        tags: vec![Tag::any()],
        metadata: Metadata::default(),
        entry_points: EntryPoints::default(),
        licenses: Vec::new(),
        members,
    };
    let output = tempfile::tempdir()?;
    let options = WriteOptions { level, ..WriteOptions::default() };
    let mut out = std::io::stdout().lock();
    let (begin, processor) = (Instant::now(), processor_seconds()?);
    let written = write_wheel(&distribution, output.path(), &options, &Silent)?;
    let (seconds, processor) = (begin.elapsed().as_secs_f64(), processor_seconds()? - processor);
    let megabytes = written.raw as f64 / 1e6;
    writeln!(
        out,
        "{level:?}, {} threads: {} files, {megabytes:.1} MB -> {:.1} MB in {seconds:.2} s ({processor:.2} s of \
         processor), {:.1} MB/s, peak {} MB",
        rayon::current_num_threads(),
        written.files,
        written.compressed as f64 / 1e6,
        megabytes / seconds,
        peak_megabytes()?,
    )?;
    floor(&paths, number, &mut out)
}

/// Measures reading alone, then reading and compressing, on as many threads as the pool has.
fn floor(paths: &[PathBuf], level: i32, out: &mut impl std::io::Write) -> Result<(), Box<dyn Error>> {
    for (what, level) in [("read", 0), ("read and deflate", level)] {
        let begin = Instant::now();
        let next = AtomicUsize::new(0);
        let windows: Vec<(&Path, u64)> = paths
            .iter()
            .flat_map(|path| {
                let size = path.metadata().map(|metadata| metadata.len()).unwrap_or_default();
                (0..size).step_by(4 << 20).map(move |start| (path.as_path(), start))
            })
            .collect();
        std::thread::scope(|scope| {
            for _ in 0..rayon::current_num_threads() {
                scope.spawn(|| {
                    let mut window = vec![0; 4 << 20];
                    let mut output = vec![0; 5 << 20];
                    let quality = libdeflater::CompressionLvl::new(level.max(1)).unwrap_or_default();
                    let mut compressor = libdeflater::Compressor::new(quality);
                    while let Some((path, start)) = windows.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let Ok(file) = fs_err::File::open(path) else { continue };
                        let (file, _) = file.into_parts();
                        let mut length = 0;
                        while let Ok(count @ 1..) =
                            positioned_io::ReadAt::read_at(&file, start + length as u64, &mut window[length..])
                        {
                            length += count;
                        }
                        if level > 0 {
                            let _ = compressor.deflate_compress(&window[..length], &mut output);
                        }
                    }
                });
            }
        });
        writeln!(out, "floor: {what}: {:.2} s", begin.elapsed().as_secs_f64())?;
    }
    Ok(())
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), paths)?;
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
    Ok(())
}

/// User and system time of this process in seconds; /proc counts in hundredths.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let text = fs_err::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}

fn peak_megabytes() -> Result<u64, Box<dyn Error>> {
    let mut text = String::new();
    fs_err::File::open("/proc/self/status")?.read_to_string(&mut text)?;
    let line = text.lines().find(|line| line.starts_with("VmHWM")).ok_or("no VmHWM")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()? / 1024)
}
