//! Input: the address of a file, and ranges of it. Output: these bytes at their places in a file of
//! this machine.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use rocwheel_content::WINDOW;
use rocwheel_index::page::GZIP;
use rocwheel_index::{Answer, Fetch};
use rocwheel_progress::{Reporter, Watched, WithoutProgress};
use rocwheel_store::Error as StoreError;
use rocwheel_store::attempts::{TransferFault, attempt_unless_stalled, with_connections};
use rocwheel_system::PositionedWriter;
use url::Url;

use crate::error::{Error, PartResult, reason_inside};
use crate::index_site::shown;

/// Limit in bytes for a file whose size the index does not say. The largest wheels of ROCm and
/// PyTorch have a third of it.
const UNLISTED: u64 = 16 << 30;
/// The fault of a server whose answer begins so.
const PACKED: &str = "the server packed it with gzip, and was not asked to";
/// The advice after a range at which the server stopped sending.
const WITHOUT_RANGES: &str = "try again later; without `--have`, and with an empty folder as `--output`, the whole wheel is downloaded in one request";

/// A file of a server, a folder or a bucket.
pub struct RemoteFile<'a> {
    pub fetch: &'a dyn Fetch,
    pub address: &'a Url,
    /// Bytes that were transferred, also those of requests that failed later.
    pub transferred: &'a AtomicU64,
    /// Hears of progress, and tells whether to continue.
    pub reporter: &'a dyn Reporter,
}

impl RemoteFile<'_> {
    /// Requests the file, with these headers.
    fn ask(&self, headers: &[(&str, &str)]) -> Result<Answer, TransferFault> {
        // A packed answer would have other bytes than the file.
        let headers = [&[("Accept-Encoding", "identity")], headers].concat();
        self.fetch.get_with(self.address, &headers).map_err(|error| TransferFault::of_request(&*error))
    }

    /// Attempts a request as often as may help. The inner error is the last fault of the server.
    fn tried<T>(&self, request: impl Fn() -> Result<T, TransferFault>) -> Result<Result<T, TransferFault>, Error> {
        let fault = match attempt_unless_stalled(self.reporter, request) {
            Ok(done) => return Ok(Ok(done)),
            Err(fault) => fault,
        };
        self.reporter.check()?;
        match fault {
            TransferFault::Write { path, source } => Err(StoreError::Write { path, source }.into()),
            fault => Ok(Err(fault)),
        }
    }

    /// A small file as a whole; `None` if there is none. The inner error is why it could not be
    /// read, such as more bytes than `limit`.
    pub fn small(&self, limit: u64) -> Result<Result<Option<Vec<u8>>, TransferFault>, Error> {
        self.tried(|| {
            let answer = self.ask(&[])?;
            match answer.status {
                200 => {}
                // Storage services answer 403 for missing files if the client may not list them.
                403 | 404 | 410 => return Ok(None),
                status => return Err(TransferFault::of_status(status)),
            }
            let mut bytes = Vec::new();
            let muted = WithoutProgress(self.reporter);
            let read = Watched::new(answer.body, &muted).take(limit + 1).read_to_end(&mut bytes);
            read.map_err(|error| TransferFault::of_body(&error))?;
            self.transferred.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if bytes.len() as u64 > limit {
                return Err(TransferFault::lasting(format!("it has more than {} MiB", limit >> 20)));
            }
            Ok(Some(bytes))
        })
    }

    /// The size of the file in bytes; `None` if the server does not say it.
    pub(crate) fn size(&self) -> Result<Option<u64>, Error> {
        let asked = self.tried(|| {
            let answer = self.fetch.head(self.address).map_err(|error| TransferFault::of_request(&*error))?;
            if answer.status == 200 { Ok(answer.size) } else { Err(TransferFault::of_status(answer.status)) }
        })?;
        Ok(asked.ok().flatten())
    }

    /// Writes ranges of the file to the same places of `file`, several at a time. The inner error
    /// is the reason why one of them did not arrive.
    pub(crate) fn ranges(&self, ranges: &[Range<u64>], file: &fs_err::File) -> Result<Result<(), String>, Error> {
        // The first answer says whether there are ranges at all.
        let Some((first, others)) = ranges.split_first() else { return Ok(Ok(())) };
        let written = self
            .tried_range(first, file)
            .and_then(|()| with_connections(|| others.par_iter().try_for_each(|range| self.tried_range(range, file))));
        reason_inside(written)
    }

    fn tried_range(&self, range: &Range<u64>, file: &fs_err::File) -> PartResult {
        match self.tried(|| self.range(range, file)) {
            Ok(Ok(())) => Ok(()),
            // The whole wheel from the same server would cost another minute.
            Ok(Err(fault @ TransferFault::Stalled(_))) => Err(Err(self.failed(&fault, WITHOUT_RANGES))),
            Ok(Err(fault)) => Err(Ok(format!("a request for a range of it failed: {fault}"))),
            Err(error) => Err(Err(error)),
        }
    }

    fn range(&self, range: &Range<u64>, file: &fs_err::File) -> Result<(), TransferFault> {
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let answer = self.ask(&[("Range", &bytes)])?;
        match answer.status {
            206 => {}
            200 => return Err(TransferFault::lasting("the server sends no ranges")),
            416 => return Err(TransferFault::lasting("the server has fewer bytes of it")),
            status => return Err(TransferFault::of_status(status)),
        }
        let wanted = range.end - range.start;
        let length = self.copy(answer.body.take(wanted), (file, range.start), |_| {})?;
        if length == wanted {
            Ok(())
        } else {
            Err(TransferFault::passing(format!("{length} of {wanted} bytes arrived")))
        }
    }

    /// Writes the whole file, of at most `listed` bytes, or [`UNLISTED`]; `take` also gets each
    /// block. `restart` is called before each try. Returns what `take` made, and the number of
    /// bytes.
    pub(crate) fn whole<T>(
        &self,
        listed: Option<u64>,
        file: &fs_err::File,
        (restart, take): (impl Fn() -> T, impl Fn(&mut T, &[u8])),
    ) -> Result<(T, u64), Error> {
        let limit = listed.unwrap_or(UNLISTED);
        let done = self.tried(|| {
            let answer = self.ask(&[])?;
            if answer.status != 200 {
                return Err(TransferFault::of_status(answer.status));
            }
            if answer.size.is_some_and(|size| size > limit) {
                return Err(too_many(listed));
            }
            let (size, mut state) = (answer.size, restart());
            file.set_len(0).map_err(|source| TransferFault::Write { path: file.path().to_owned(), source })?;
            // One byte more shows that there are more.
            let body = answer.body.take(limit.saturating_add(1));
            let mut packed = None;
            let length = self.copy(body, (file, 0), |block| {
                packed.get_or_insert_with(|| block.starts_with(&GZIP));
                take(&mut state, block);
            })?;
            match size {
                _ if packed == Some(true) => Err(TransferFault::lasting(PACKED)),
                _ if length > limit => Err(too_many(listed)),
                Some(size) if size != length => {
                    Err(TransferFault::passing(format!("{length} of {size} bytes arrived")))
                }
                _ => Ok((state, length)),
            }
        })?;
        done.map_err(|fault| {
            let hint = fault.hint().unwrap_or(match listed {
                _ if fault.may_pass() => "try again later",
                _ if matches!(&fault, TransferFault::Lasting(reason) if reason == PACKED) => {
                    "let the server send files without `Content-Encoding`"
                }
                Some(_) => "check the index with `rocwheel index check`",
                None => {
                    "check its address, and ask for sizes on the pages of the index: `rocwheel index build` writes them"
                }
            });
            self.failed(&fault, hint)
        })
    }

    fn failed(&self, fault: &TransferFault, hint: &str) -> Error {
        let attempted = format!("download `{}`", shown(self.address));
        Error::Get { attempted, reason: fault.to_string(), hint: hint.to_owned(), exit: fault.exit() }
    }

    /// Copies a body to a position of a file; `take` also gets each block. Returns its length.
    fn copy(
        &self,
        mut body: impl Read,
        (file, position): (&fs_err::File, u64),
        mut take: impl FnMut(&[u8]),
    ) -> Result<u64, TransferFault> {
        let mut writer = PositionedWriter::new(file.file(), position);
        let (mut block, mut length) = (vec![0; WINDOW], 0);
        loop {
            self.reporter.check().map_err(TransferFault::lasting)?;
            match body.read(&mut block) {
                Ok(0) => return Ok(length),
                Ok(count) => {
                    take(&block[..count]);
                    let written = writer.write_all(&block[..count]);
                    written.map_err(|source| TransferFault::Write { path: file.path().to_owned(), source })?;
                    length += count as u64;
                    self.transferred.fetch_add(count as u64, Ordering::Relaxed);
                    self.reporter.advance(count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TransferFault::of_body(&error)),
            }
        }
    }
}

fn too_many(listed: Option<u64>) -> TransferFault {
    TransferFault::lasting(match listed {
        Some(listed) => format!("the index is wrong: it says {listed} bytes, and the server sends more"),
        None => format!("the index does not say its size, and the server sends more than {} GiB", UNLISTED >> 30),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use rocwheel_progress::{Exit, Silent};

    use super::*;

    /// Answers with half of each range, and then nothing.
    struct Stalling(AtomicUsize);

    struct Half(u64);

    impl Read for Half {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.min(buffer.len() as u64) as usize;
            self.0 -= length as u64;
            if length == 0 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(length) }
        }
    }

    impl Fetch for Stalling {
        fn get(&self, address: &Url, _: &str) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Answer {
                status: 206,
                content_type: String::new(),
                cache_control: String::new(),
                encoding: String::new(),
                size: None,
                address: address.clone(),
                body: Box::new(Half(50)),
            })
        }
    }

    #[test]
    fn a_range_that_stalls_ends_the_download() {
        let (fetch, transferred) = (Stalling(AtomicUsize::new(0)), AtomicU64::new(0));
        let address = Url::parse("http://joe:S3cretPw@host/a.whl").unwrap();
        let remote = RemoteFile { fetch: &fetch, address: &address, transferred: &transferred, reporter: &Silent };
        let folder = tempfile::tempdir().unwrap();
        let file = fs_err::File::create(folder.path().join("a.whl")).unwrap();
        let error = remote.ranges(&[0..100, 200..300], &file).unwrap_err();
        assert_eq!((fetch.0.into_inner(), transferred.into_inner()), (1, 50), "one attempt of one range");
        let Error::Get { attempted, reason, hint, exit } = error else { panic!("{error}") };
        assert_eq!((attempted.as_str(), exit), ("download `http://host/a.whl`", Exit::TryAgain));
        assert!(reason.starts_with("the server stopped sending: ") && hint.contains("the whole wheel"), "{reason}");
    }
}
