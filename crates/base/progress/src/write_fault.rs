//! Input: an error of writing that happens while something is read or copied. Output: the same
//! error with the file that could not be written, which [`Failure`](crate::Failure) puts first.
//!
//! A function that unpacks, copies or caches answers one `io::Error`, and its caller blames what is
//! read: "cannot read `a.whl`: No space left on device". So the writer names the file, and the name
//! survives any error that is put around it.

use std::fmt;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::Hint;

/// Prefix of folders that hold results until they are complete. Messages name the place of the
/// result instead.
const STAGING: &str = ".rocwheel-";

/// Prefix of folders for unpacked files; six random letters follow.
const SCRATCH: &str = "rocwheel-";

#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`", path.display())]
pub struct WriteFault {
    path: PathBuf,
    source: io::Error,
}

/// Keeps a [`WriteFault`] in an `io::Error`, whose own `source` would hide it otherwise.
#[derive(Debug)]
struct Carrier(WriteFault);

impl fmt::Display for Carrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whole, because many callers print an `io::Error` without its causes.
        write!(formatter, "{}: {}", self.0, self.0.source)
    }
}

impl std::error::Error for Carrier {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Puts the file or folder that could not be written into an error of the same kind, to be used as
/// `.map_err(write_error(path))`.
pub fn write_error(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |source| {
        if source.kind() == io::ErrorKind::Interrupted || WriteFault::find(&source).is_some() {
            return source;
        }
        io::Error::new(source.kind(), Carrier(WriteFault { path: without_staging(path), source }))
    }
}

/// The path without staging folders, and without a scratch folder at its end.
fn without_staging(path: &Path) -> PathBuf {
    let parts = path.components();
    let path: PathBuf = parts.filter(|part| !part.as_os_str().to_string_lossy().starts_with(STAGING)).collect();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let random = name.strip_prefix(SCRATCH).filter(|text| text.len() == 6);
    let is_random = random.is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    match path.parent() {
        Some(folder) if is_random => folder.to_owned(),
        _ => path,
    }
}

impl WriteFault {
    /// The fault in an error or one of its causes.
    pub(crate) fn find<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e WriteFault> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(fault) = error.downcast_ref() {
                return Some(fault);
            }
            // The source of an `io::Error` is that of the error inside.
            next = error.source();
        }
        None
    }

    pub(crate) fn copy(&self) -> WriteFault {
        let source = match system_error(&self.source) {
            Some(code) => io::Error::from_raw_os_error(code),
            None if is_full(&self.source) => io::Error::from(self.source.kind()),
            None => io::Error::new(self.source.kind(), self.source.to_string()),
        };
        WriteFault { path: self.path.clone(), source }
    }
}

/// The number of the system's error at the end of a chain, whose other texts may name temporary
/// files.
fn system_error(error: &io::Error) -> Option<i32> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut code = None;
    while let Some(error) = next {
        code = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error).or(code);
        next = error.source();
    }
    code
}

impl Hint for WriteFault {
    fn hint(&self) -> Option<String> {
        space_hint(&self.path, &self.source)
    }
}

/// Advice for an error of writing on a full disk; `None` for another error.
pub fn space_hint(path: &Path, source: &io::Error) -> Option<String> {
    is_full(source).then(|| {
        let path = without_staging(path);
        format!("free space on the file system of `{}`, or choose another place", path.display())
    })
}

/// `true` if writing failed because the disk, or what the user may use of it, is full.
pub fn is_full(source: &io::Error) -> bool {
    matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A writer whose errors name the file that it writes.
#[derive(Debug)]
pub struct NamedWriter<W> {
    writer: W,
    path: PathBuf,
}

impl<W> NamedWriter<W> {
    /// Names `path` in the errors of a writer.
    pub fn new(writer: W, path: impl Into<PathBuf>) -> NamedWriter<W> {
        NamedWriter { writer, path: path.into() }
    }

    pub fn get_ref(&self) -> &W {
        &self.writer
    }
}

impl<W: Write> Write for NamedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes).map_err(write_error(&self.path))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush().map_err(write_error(&self.path))
    }
}

impl<W: Seek> Seek for NamedWriter<W> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.writer.seek(position).map_err(write_error(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exit, Failure};

    /// An error that blames what was read.
    #[derive(Debug, thiserror::Error)]
    enum Blaming {
        #[error("cannot read `a.whl`")]
        Read(#[source] io::Error),
        #[error(transparent)]
        Io(#[from] io::Error),
    }

    impl Hint for Blaming {}

    fn full() -> io::Error {
        io::Error::from(io::ErrorKind::StorageFull)
    }

    #[test]
    fn the_file_that_could_not_be_written_comes_first() {
        let fault = || write_error(Path::new("/out/.rocwheel-x1/a.whl"))(full());
        assert_eq!(fault().kind(), io::ErrorKind::StorageFull);
        for failure in [
            Failure::from(Blaming::Read(fault())),
            Failure::from(Blaming::Io(fault())),
            Failure::from(fault()),
            Failure::from(Blaming::Read(write_error(Path::new("/elsewhere"))(fault()))),
        ] {
            let hint = "free space on the file system of `/out/a.whl`, or choose another place";
            assert_eq!(format!("{failure:?}"), "cannot write `/out/a.whl`: no storage space");
            assert_eq!((failure.hint(), failure.exit()), (Some(hint), Exit::Failed));
        }
        let failure = Failure::from(Blaming::Read(fault())).context("cannot repair");
        assert_eq!(format!("{failure:?}"), "cannot repair: cannot write `/out/a.whl`: no storage space");
    }

    #[test]
    fn no_temporary_folder_is_named() {
        for (path, shown) in [
            ("/out/.rocwheel-x1/a.whl", "/out/a.whl"),
            ("/tmp/rocwheel-D5z1OO", "/tmp"),
            ("/tmp/rocwheel-checkout", "/tmp/rocwheel-checkout"),
            ("out/a.whl", "out/a.whl"),
        ] {
            assert_eq!(without_staging(Path::new(path)), Path::new(shown));
        }
    }

    /// As `tempfile` makes its errors: the source of its error is that of the system's.
    #[test]
    fn a_cause_that_names_a_temporary_file_is_cut_to_its_kind() {
        #[derive(Debug, thiserror::Error)]
        #[error("no space at path \"/out/unfinished-x\"")]
        struct AtPath;
        let temporary = io::Error::new(io::ErrorKind::StorageFull, AtPath);
        let failure = Failure::from(Blaming::Read(write_error(Path::new("/out/a"))(temporary)));
        assert_eq!(format!("{failure:?}"), "cannot write `/out/a`: no storage space");
    }

    #[test]
    fn an_error_of_reading_stays_one() {
        let failure = Failure::from(Blaming::Read(io::Error::other("it broke off")));
        assert_eq!(format!("{failure:?}"), "cannot read `a.whl`: it broke off");
        assert_eq!(failure.hint(), None);
        // Nobody named the file that was written.
        let failure = Failure::from(Blaming::Read(full()));
        assert_eq!(failure.hint(), Some("free space on the file system that is written to"));
    }

    #[test]
    fn a_writer_names_its_file() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(full())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = io::copy(&mut &b"x"[..], &mut NamedWriter::new(Full, "/out/x")).unwrap_err();
        assert_eq!(WriteFault::find(&error).unwrap().to_string(), "cannot write `/out/x`");
        let text = "cannot read `a.whl`: cannot write `/out/x`: no storage space";
        assert_eq!(crate::with_causes(&Blaming::Read(error)), text);
    }
}
