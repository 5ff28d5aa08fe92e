//! Input: a planned wheel. Output: about how large it becomes, without packing it.
//!
//! Windows of its files are compressed quickly. Of ROCm 7.2.4's libraries, 5 GB of which most is
//! compressed already, 100 MB are read in a second, and the estimate is a few percent too high.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use positioned_io::ReadAt;
use rayon::prelude::*;

use rocwheel_progress::Failure;

use crate::error::io_error;
use crate::plan::{LargeWheel, PlannedWheel};
use crate::populate::PlannedFile;

/// Bytes that are read at a time.
const WINDOW: u64 = 64 << 10;
/// Level of the compression. Level 1 of zlib-rs takes fixed codes, and says twice the size for
/// text.
const QUICK: Compression = Compression::new(2);
/// One window is read for each of this many bytes of a file.
const DISTANCE: u64 = 4 << 20;

/// Returns the wheels that will be larger than `limit` bytes, in the order of the plan. Development
/// trees, which are packed otherwise, are not counted.
pub(crate) fn larger_than(limit: u64, wheels: &[PlannedWheel]) -> Result<Vec<LargeWheel>, Failure> {
    let mut large = Vec::new();
    for wheel in wheels {
        if wheel.files.values().map(|file| file.size).sum::<u64>() <= limit {
            continue;
        }
        let bytes = wheel.files.par_iter().map(|(_, file)| packed(file)).sum::<Result<u64, Failure>>()?;
        if bytes > limit {
            large.push(LargeWheel { file_name: wheel.file_name.clone(), bytes });
        }
    }
    Ok(large)
}

/// Returns about how many bytes a file has in a wheel.
fn packed(file: &PlannedFile) -> Result<u64, Failure> {
    let Some(path) = file.path().filter(|_| file.size > 0) else { return Ok(file.size) };
    let opened = fs_err::File::open(path).map_err(io_error("open an artifact's file"))?;
    let windows = (file.size / DISTANCE).max(1);
    let (mut raw, mut compressed) = (0u64, 0u64);
    let mut buffer = vec![0; WINDOW as usize];
    for index in 0..windows {
        let at = (file.size / windows * index + file.size / windows / 2).min(file.size.saturating_sub(WINDOW));
        let read = opened.file().read_at(at, &mut buffer).map_err(io_error("read an artifact's file"))?;
        let mut encoder = ZlibEncoder::new(Vec::new(), QUICK);
        let written = std::io::Write::write_all(&mut encoder, &buffer[..read]).and_then(|()| encoder.finish());
        raw += read as u64;
        compressed += written.map_err(io_error("compress a part of an artifact's file"))?.len() as u64;
    }
    Ok((u128::from(file.size) * u128::from(compressed) / u128::from(raw.max(1))) as u64)
}
