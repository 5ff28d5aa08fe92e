//! Input: `events.jsonl` of a run. Output: its events, in order, as far as they are complete.

use std::io::{BufRead, BufReader, Read};

use crate::outcome::TestEvent;

/// Bytes of a line; a list of 100,000 tests has some 10 MB.
const LONGEST_LINE: u64 = 256 << 20;

/// How a file ends.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EventsEnd {
    /// Lines that are not events, with their numbers and reasons.
    pub(crate) damaged: Vec<String>,
    /// The last line has no end: the supervisor was killed while it wrote.
    pub(crate) is_cut: bool,
}

/// Reads all lines. A line that is not an event is skipped and reported.
pub(crate) fn read(file: impl Read, take: &mut dyn FnMut(TestEvent)) -> std::io::Result<EventsEnd> {
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut end = EventsEnd::default();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let size = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if size == 0 {
            break;
        }
        let has_end = line.last() == Some(&b'\n');
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match serde_json::from_slice(text) {
            Ok(event) if has_end => take(event),
            _ if !has_end => end.is_cut = true,
            Err(error) if end.damaged.len() < 10 => end.damaged.push(format!("line {number} is no event: {error}")),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(end)
}
