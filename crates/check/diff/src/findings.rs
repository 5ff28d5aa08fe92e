//! What the comparisons of all types of files share: their settings, two opened files, and the
//! result.

use std::io;
use std::path::Path;

use positioned_io::ReadAt;
use rocwheel_content::{Content, Spool};
use rocwheel_progress::{Failure, Reporter};

use crate::change::Change;
use crate::report::{FileReport, Sizes};
use crate::version_change::VersionChanges;

/// Bytes compared at a time.
const WINDOW: usize = 1 << 18;

pub(crate) struct Context<'a> {
    pub(crate) scratch: &'a Path,
    pub(crate) spool: Spool,
    pub(crate) versions: VersionChanges,
    pub(crate) reporter: &'a dyn Reporter,
}

impl<'a> Context<'a> {
    pub(crate) fn new(scratch: &'a Path, versions: VersionChanges, reporter: &'a dyn Reporter) -> Context<'a> {
        Context { scratch, spool: Spool::new(scratch), versions, reporter }
    }
}

/// The result for two files whose bytes differ.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) changes: Vec<Change>,
    pub(crate) notes: Vec<String>,
    /// Sizes of GPU code by target.
    pub(crate) targets: Vec<(String, Sizes)>,
    /// Reports of the files inside, if the file is an archive.
    pub(crate) inside: Vec<FileReport>,
}

impl Findings {
    pub(crate) fn change(change: Change) -> Findings {
        Findings { changes: vec![change], ..Findings::default() }
    }

    pub(crate) fn note(text: impl Into<String>) -> Findings {
        Findings { notes: vec![text.into()], ..Findings::default() }
    }
}

pub(crate) struct Opened<'a> {
    /// The path without version, which determines how the files are compared.
    pub(crate) key: &'a str,
    pub(crate) old: Box<dyn Content + 'a>,
    pub(crate) new: Box<dyn Content + 'a>,
    pub(crate) versions: &'a VersionChanges,
}

/// Reads all bytes of a small file.
pub(crate) fn whole(content: &dyn Content) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; usize::try_from(content.size()).unwrap_or(usize::MAX)];
    content.open()?.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// `true` if the first `size` bytes of two files are the same.
pub(crate) fn same_bytes(old: &dyn ReadAt, new: &dyn ReadAt, size: u64, reporter: &dyn Reporter) -> io::Result<bool> {
    let length = WINDOW.min(usize::try_from(size).unwrap_or(WINDOW));
    let (mut one, mut other) = (vec![0; length], vec![0; length]);
    let mut position = 0;
    while position < size {
        if reporter.interrupted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = (size - position).min(WINDOW as u64) as usize;
        old.read_exact_at(position, &mut one[..length])?;
        new.read_exact_at(position, &mut other[..length])?;
        if one[..length] != other[..length] {
            return Ok(false);
        }
        position += length as u64;
    }
    Ok(true)
}

/// Formats a size for a change: exact, because a change of one byte matters too.
pub(crate) fn bytes(amount: u64) -> String {
    format!("{amount} bytes")
}

/// `true` if the name ends in `.ending`.
pub(crate) fn has_ending(name: &str, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == ending)
}
