//! Input: a content. Output: its bytes in a file or other writer.

use std::io::{BufWriter, Write};

use positioned_io::ReadAt as _;
use rocwheel_content::{Content, WINDOW};
use rocwheel_progress::{Failure, Reporter};

/// Writes a content to `to` and reports its bytes as progress.
pub fn copy(content: &dyn Content, to: impl Write, reporter: &dyn Reporter) -> Result<(), Failure> {
    let reader = content.open()?;
    let mut to = BufWriter::with_capacity(WINDOW, to);
    let mut window = vec![0; WINDOW.min(content.size() as usize)];
    let mut done = 0;
    while done < content.size() {
        reporter.check()?;
        let length = (content.size() - done).min(WINDOW as u64) as usize;
        reader.read_exact_at(done, &mut window[..length])?;
        to.write_all(&window[..length])?;
        done += length as u64;
        reporter.advance(length as u64);
    }
    Ok(to.flush()?)
}
