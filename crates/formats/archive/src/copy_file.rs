//! Input: a file. Output: a copy of it, which gets its name when it is complete.

use std::path::Path;

use positioned_io::ReadAt as _;
use rocwheel_content::open_regular;
use rocwheel_progress::{Reporter, Unit};

use crate::Error;
use crate::options::WriteOptions;
use crate::output::Output;
use crate::written::Written;

/// Number of bytes that are copied between two checks for an interruption.
const DIRECT: u64 = 16 << 20;

/// Copies the file `input` to `path`, by the kernel where it can.
pub fn copy_file(input: &Path, path: &Path, options: &WriteOptions, reporter: &dyn Reporter) -> Result<Written, Error> {
    let source = open_regular(input).map_err(Error::open(input))?;
    let size = source.metadata().map_err(Error::open(input))?.len();
    let mut output = Output::create(path, options.digest)?;
    let name = path.file_name().unwrap_or_default().display();
    let _stage = reporter.stage(&format!("copying {name}"), Some(size), Unit::Bytes);
    let mut position = 0;
    while position < size {
        reporter.check()?;
        let length = (size - position).min(DIRECT);
        let count = if let Some(count) = output.copy_from(&source, position, length) {
            count
        } else {
            let length = length.min(output.room().map_err(Error::write(path, None))? as u64);
            let file = source.file();
            output
                .append(length as usize, |window| file.read_exact_at(position, window).map_err(Error::open(input)))?;
            length
        };
        position += count;
        reporter.advance(count);
    }
    output.finish(0, size)
}
