//! Input: the address of a file, and ranges of it. Output: these bytes at their places in a file of
//! this machine.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use rocwheel_index::{Answer, Fetch};
use rocwheel_report::{Exit, Reporter};
use rocwheel_system::PositionedWriter;
use url::Url;

use super::choose::shown;
use crate::Error;
use crate::attempts::{CONNECTIONS, TransferFault, attempt};

/// Bytes that are copied at a time.
const BLOCK: usize = 1 << 18;

/// A file of a server, a folder or a bucket.
pub(super) struct RemoteFile<'a> {
    pub(super) fetch: &'a dyn Fetch,
    pub(super) address: &'a Url,
    /// Bytes that were transferred, also those of requests that failed later.
    pub(super) transferred: &'a AtomicU64,
    pub(super) reporter: &'a dyn Reporter,
}

/// Why ranges did not arrive.
pub(super) enum RangeFault {
    /// The server sends files as a whole only.
    NoRanges,
    Other(Error),
}

/// The outcome of one request for a range.
enum Attempt {
    Done,
    NoRanges,
    Failed(TransferFault),
}

impl RemoteFile<'_> {
    /// Requests the file, with these headers.
    fn ask(&self, headers: &[(&str, &str)]) -> Result<Answer, TransferFault> {
        // A packed answer would have other bytes than the file.
        let headers = [&[("Accept-Encoding", "identity")], headers].concat();
        self.fetch.get_with(self.address, &headers).map_err(TransferFault::passing)
    }

    /// Attempts a request as often as may help.
    fn tried<T>(&self, request: impl Fn() -> Result<T, TransferFault>) -> Result<T, Error> {
        let fault = match attempt(self.reporter, request) {
            Ok(done) => return Ok(done),
            Err(fault) => fault,
        };
        self.reporter.check()?;
        let (exit, hint) = if fault.may_pass {
            (Exit::TryAgain, "try again later")
        } else {
            (Exit::Failed, "check the index with `rocwheel index check`")
        };
        let attempted = format!("download `{}`", shown(self.address));
        Err(Error::Get { attempted, reason: fault.reason, hint: hint.to_owned(), exit })
    }

    /// A small file as a whole; `None` if there is none.
    ///
    /// # Errors
    /// A server that does not answer, or not with the file; more bytes than `limit`.
    pub(super) fn small(&self, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        self.tried(|| {
            let answer = self.ask(&[])?;
            match answer.status {
                200 => {}
                // Storage services answer 403 for missing files if the client may not list them.
                403 | 404 | 410 => return Ok(None),
                status => return Err(TransferFault::of_status(status)),
            }
            let mut bytes = Vec::new();
            answer.body.take(limit + 1).read_to_end(&mut bytes).map_err(TransferFault::passing)?;
            self.transferred.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if bytes.len() as u64 > limit {
                return Err(TransferFault::lasting(format!("it has more than {} MiB", limit >> 20)));
            }
            Ok(Some(bytes))
        })
    }

    /// Writes ranges of the file to the same places of `file`, several at a time.
    ///
    /// # Errors
    /// [`RangeFault::NoRanges`]; what cannot be read or written; an interruption.
    pub(super) fn ranges(&self, ranges: &[Range<u64>], file: &fs_err::File) -> Result<(), RangeFault> {
        let one = |range: &Range<u64>| -> Result<(), RangeFault> {
            let attempt = || match self.range(range, file) {
                Attempt::Done => Ok(true),
                Attempt::NoRanges => Ok(false),
                Attempt::Failed(fault) => Err(fault),
            };
            match self.tried(attempt) {
                Ok(true) => Ok(()),
                Ok(false) => Err(RangeFault::NoRanges),
                Err(error) => Err(RangeFault::Other(error)),
            }
        };
        // The first answer says whether there are ranges at all.
        let Some((first, others)) = ranges.split_first() else { return Ok(()) };
        one(first)?;
        let work = || others.par_iter().try_for_each(one);
        match rayon::ThreadPoolBuilder::new().num_threads(CONNECTIONS).build() {
            Ok(pool) => pool.install(work),
            Err(_) => work(),
        }
    }

    fn range(&self, range: &Range<u64>, file: &fs_err::File) -> Attempt {
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let answer = match self.ask(&[("Range", &bytes)]) {
            Ok(answer) => answer,
            Err(fault) => return Attempt::Failed(fault),
        };
        match answer.status {
            206 => {}
            200 => return Attempt::NoRanges,
            416 => return Attempt::Failed(TransferFault::lasting("it has fewer bytes than the index says")),
            status => return Attempt::Failed(TransferFault::of_status(status)),
        }
        let wanted = range.end - range.start;
        let mut writer = PositionedWriter::new(file.file(), range.start);
        match self.copy(answer.body.take(wanted), |block| writer.write_all(block)) {
            Ok(length) if length == wanted => Attempt::Done,
            Ok(length) => Attempt::Failed(TransferFault::passing(format!("{length} of {wanted} bytes arrived"))),
            Err(fault) => Attempt::Failed(fault),
        }
    }

    /// Writes the whole file; `take` also gets each block. `restart` is called before each try.
    ///
    /// # Errors
    /// What cannot be read or written; an interruption.
    pub(super) fn whole<T>(
        &self,
        file: &fs_err::File,
        (restart, take): (impl Fn() -> T, impl Fn(&mut T, &[u8])),
    ) -> Result<T, Error> {
        self.tried(|| {
            let answer = self.ask(&[])?;
            if answer.status != 200 {
                return Err(TransferFault::of_status(answer.status));
            }
            let (size, mut state) = (answer.size, restart());
            file.set_len(0).map_err(TransferFault::lasting)?;
            let mut writer = PositionedWriter::new(file.file(), 0);
            let length = self.copy(answer.body, |block| {
                take(&mut state, block);
                writer.write_all(block)
            })?;
            match size {
                Some(size) if size != length => {
                    Err(TransferFault::passing(format!("{length} of {size} bytes arrived")))
                }
                _ => Ok(state),
            }
        })
    }

    /// Copies a body and returns its length.
    fn copy(&self, mut body: impl Read, mut write: impl FnMut(&[u8]) -> io::Result<()>) -> Result<u64, TransferFault> {
        let (mut block, mut length) = (vec![0; BLOCK], 0);
        loop {
            self.reporter.check().map_err(TransferFault::lasting)?;
            match body.read(&mut block) {
                Ok(0) => return Ok(length),
                Ok(count) => {
                    write(&block[..count])
                        .map_err(|error| TransferFault::lasting(format!("it cannot be written: {error}")))?;
                    length += count as u64;
                    self.transferred.fetch_add(count as u64, Ordering::Relaxed);
                    self.reporter.advance(count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TransferFault::passing(error)),
            }
        }
    }
}
