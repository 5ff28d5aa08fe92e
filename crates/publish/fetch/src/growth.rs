//! Input: a file that is being downloaded. Output: a reader of it that waits for what is still to
//! come, so an archive is unpacked while it arrives.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rocwheel_progress::Reporter;

/// How often a waiting reader looks whether the user wants to stop.
const TICK: Duration = Duration::from_millis(100);

/// How far a download is. The writer reports it, and a [`FollowingReader`] follows.
#[derive(Default)]
pub(crate) struct DownloadGrowth {
    state: Mutex<GrowthState>,
    changed: Condvar,
}

#[derive(Default)]
struct GrowthState {
    /// Absent until the file exists.
    path: Option<PathBuf>,
    length: u64,
    /// How often the download began again.
    restarts: u32,
    /// `true` for a download that is complete and verified.
    end: Option<bool>,
}

impl DownloadGrowth {
    /// The file has `length` bytes of the download.
    pub(crate) fn reached(&self, path: &Path, length: u64) {
        let mut state = self.lock();
        state.path.get_or_insert_with(|| path.to_owned());
        state.length = length;
        self.changed.notify_all();
    }

    /// The bytes so far were not those of the file.
    pub(crate) fn restarted(&self) {
        let mut state = self.lock();
        state.restarts += 1;
        state.length = 0;
        self.changed.notify_all();
    }

    /// There will be no more.
    pub(crate) fn ended(&self, is_complete: bool) {
        self.lock().end = Some(is_complete);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, GrowthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a file that is being downloaded. It fails when the download does, and when that begins
/// again.
pub(crate) struct FollowingReader<'a> {
    growth: &'a DownloadGrowth,
    reporter: &'a dyn Reporter,
    file: Option<fs_err::File>,
    position: u64,
    /// [`GrowthState::restarts`] when the first byte was read.
    restarts: u32,
}

impl<'a> FollowingReader<'a> {
    pub(crate) fn new(growth: &'a DownloadGrowth, reporter: &'a dyn Reporter) -> FollowingReader<'a> {
        FollowingReader { growth, reporter, file: None, position: 0, restarts: 0 }
    }
}

impl Read for FollowingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.growth.lock();
        let available = loop {
            if self.reporter.interrupted() {
                return Err(io::Error::other("interrupted"));
            }
            if self.position == 0 {
                self.restarts = state.restarts;
            } else if state.restarts != self.restarts {
                return Err(io::Error::other("the download began again"));
            }
            match state.end {
                _ if state.length > self.position => break state.length - self.position,
                Some(true) => return Ok(0),
                Some(false) => return Err(io::Error::other("the download failed")),
                None => {}
            }
            state = self.growth.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
        };
        let path = state.path.clone();
        drop(state);
        if self.file.is_none() {
            let path = path.ok_or_else(|| io::Error::other("the download has no file"))?;
            self.file = Some(fs_err::File::open(path)?);
        }
        let Some(file) = &mut self.file else { return Ok(0) };
        let most = buffer.len().min(usize::try_from(available).unwrap_or(usize::MAX));
        let read = file.read(&mut buffer[..most])?;
        if read == 0 && most > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the download was cut off"));
        }
        self.position += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use rocwheel_progress::Silent;

    use super::*;

    #[test]
    fn a_reader_gets_what_arrives_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let growth = DownloadGrowth::default();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut text = String::new();
                FollowingReader::new(&growth, &Silent).read_to_string(&mut text).map(|_| text)
            });
            let mut length = 0;
            for text in ["one ", "two ", "three"] {
                let mut file = fs_err::OpenOptions::new().create(true).append(true).open(&path).unwrap();
                std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
                length += text.len() as u64;
                growth.reached(&path, length);
            }
            growth.ended(true);
            assert_eq!(reader.join().unwrap().unwrap(), "one two three");
        });
        // A server that cannot continue begins again before the first byte.
        growth.restarted();
        growth.reached(&path, 13);
        let mut reader = FollowingReader::new(&growth, &Silent);
        let mut some = [0; 4];
        reader.read_exact(&mut some).unwrap();
        growth.restarted();
        assert!(reader.read(&mut some).unwrap_err().to_string().contains("began again"));
        growth.ended(false);
        let failed = FollowingReader::new(&growth, &Silent).read(&mut some).unwrap_err();
        assert!(failed.to_string().contains("failed"));
    }
}
