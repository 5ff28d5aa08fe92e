//! Input: a file of a run. Output: its path in a folder of verified archives, downloaded if it was
//! not there.
//!
//! `{sha256}/{name}` is a complete file. `partial/{id}` is what was downloaded of one so far, which
//! the next run continues; `id` names the checksum, or the place, size and stamp of a file without
//! one. `known/{id}` has the checksum of a file that the store has none of.

use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocwheel_content::{Sha256, hexadecimal, sha256, sha256_of};
use rocwheel_progress::{Reporter, Watched};
use rocwheel_system::Lock;

use crate::DownloadFault;
use crate::growth::DownloadGrowth;
use crate::source::{ArtifactSource, FileFacts, FileStream, SourceFile, bucket_fault};

/// How often a file is asked for without getting any of it.
const TRIES: u32 = 4;
/// The pause after the first failure; each further one is three times as long.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes read at a time.
const WINDOW: usize = 1 << 18;

/// A folder of downloaded files, which any number of processes share.
#[derive(Debug, Clone)]
pub struct DownloadCache {
    folder: PathBuf,
    is_kept: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CachedFile {
    pub(crate) path: PathBuf,
    /// Hexadecimal.
    pub(crate) sha256: String,
    /// `false` if nothing was downloaded for it.
    pub(crate) is_new: bool,
}

pub(crate) struct Wanted<'a> {
    pub(crate) source: &'a dyn ArtifactSource,
    pub(crate) file: &'a SourceFile,
    /// The SHA-256 in hexadecimal, and its origin.
    pub(crate) expected: Option<(String, &'static str)>,
    /// Size, stamp and hash, as the store has them.
    pub(crate) facts: FileFacts,
    /// Where the progress of the download goes, for a reader that follows it.
    pub(crate) growth: Option<&'a DownloadGrowth>,
}

impl Wanted<'_> {
    fn id(&self) -> String {
        if let Some((digest, _)) = &self.expected {
            return digest.clone();
        }
        let (name, facts) = (&self.file.name, &self.facts);
        let text = format!("{}\n{name}\n{:?}\n{}", self.source.name(), facts.size, facts.stamp);
        hexadecimal(&sha256(text.as_bytes()))
    }

    /// `true` if size and stamp are enough to recognise the file again.
    fn is_recognisable(&self) -> bool {
        self.expected.is_some() || (self.facts.size.is_some() && !self.facts.stamp.is_empty())
    }
}

impl DownloadCache {
    /// A cache in a folder, which is made when it is needed. `is_kept` is `false` for one whose
    /// files are removed as soon as they were used.
    pub fn new(folder: PathBuf, is_kept: bool) -> DownloadCache {
        DownloadCache { folder, is_kept }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes a file that was used, unless files are kept.
    pub(crate) fn release(&self, file: &CachedFile) {
        if self.is_kept || !file.path.starts_with(&self.folder) {
            return;
        }
        // The next run finds a file that could not be removed.
        let _ = fs_err::remove_file(&file.path);
        let _ = file.path.parent().map(fs_err::remove_dir);
    }

    /// Removes the empty folders of a cache that is not kept.
    pub(crate) fn tidy(&self) {
        if !self.is_kept {
            for folder in ["partial", "known", ""] {
                let _ = fs_err::remove_dir(self.folder.join(folder));
            }
        }
    }

    /// The file with this checksum, if the cache has it.
    pub(crate) fn find(&self, wanted: &Wanted<'_>, reporter: &dyn Reporter) -> Option<CachedFile> {
        let digest = match &wanted.expected {
            Some((digest, _)) => digest.clone(),
            None if wanted.is_recognisable() => {
                let text = fs_err::read_to_string(self.folder.join("known").join(wanted.id())).ok()?;
                text.trim().to_owned()
            }
            None => return None,
        };
        let path = self.place(&digest, &wanted.file.name);
        let file = fs_err::File::open(&path).ok()?;
        // A user may have changed it.
        match sha256_of(Watched::new(file, reporter)) {
            Ok(actual) if hexadecimal(&actual) == digest => Some(CachedFile { path, sha256: digest, is_new: false }),
            _ if reporter.interrupted() => None,
            _ => {
                let _ = fs_err::remove_file(&path);
                None
            }
        }
    }

    fn place(&self, digest: &str, name: &str) -> PathBuf {
        self.folder.join(digest).join(name)
    }

    /// Downloads a file, or the rest of it. What a failed download has stays for the next try if it
    /// can be continued.
    pub(crate) fn download(&self, wanted: &Wanted<'_>, reporter: &dyn Reporter) -> Result<CachedFile, DownloadFault> {
        let folder = self.folder.join("partial");
        fs_err::create_dir_all(&folder).map_err(DownloadFault::disk(&folder))?;
        let path = folder.join(wanted.id());
        let held = if wanted.is_recognisable() { Lock::at(&path).map_err(DownloadFault::disk(&path))? } else { None };
        let Some(mut file) = held else {
            // Another process downloads it, or nothing tells whether it can be continued.
            let temporary = tempfile::Builder::new().prefix("alone-").tempfile_in(&folder);
            let temporary = temporary.map_err(DownloadFault::disk(&path))?;
            let alone = temporary.path().to_owned();
            let mut file = fs_err::File::from_parts(temporary.reopen().map_err(DownloadFault::disk(&path))?, &alone);
            let partial = Partial::open(&mut file, reporter).map_err(DownloadFault::disk(&path))?;
            let digest = partial.fill(wanted, &alone, reporter)?;
            return self.keep(wanted, &digest, |place| rocwheel_system::persist(temporary, place));
        };
        let filled =
            Partial::open(&mut file, reporter).map_err(DownloadFault::disk(&path))?.fill(wanted, &path, reporter);
        // Wrong bytes cannot be continued.
        if let Err(DownloadFault::Digest { .. } | DownloadFault::Size { .. }) = &filled {
            let _ = fs_err::remove_file(&path);
        }
        // The lock is held until the file has its name.
        self.keep(wanted, &filled?, |place| rocwheel_system::rename(&path, place))
    }

    fn keep(
        &self,
        wanted: &Wanted<'_>,
        digest: &str,
        rename: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<CachedFile, DownloadFault> {
        let place = self.place(digest, &wanted.file.name);
        let kept = (|| {
            fs_err::create_dir_all(self.folder.join(digest))?;
            rename(&place)?;
            if wanted.expected.is_none() && wanted.is_recognisable() {
                let known = self.folder.join("known");
                fs_err::create_dir_all(&known)?;
                rocwheel_system::replace(&known.join(wanted.id()), format!("{digest}\n").as_bytes(), 0o644)?;
            }
            Ok(())
        })();
        kept.map_err(DownloadFault::disk(&place))?;
        Ok(CachedFile { path: place, sha256: digest.to_owned(), is_new: true })
    }
}

/// The downloaded beginning of a file, and its hash so far.
struct Partial<'a> {
    file: &'a mut fs_err::File,
    hash: Sha256,
    length: u64,
    /// `true` if an earlier run began it.
    is_older: bool,
}

/// Why a stream ended early.
enum Stop {
    Fault(DownloadFault),
    Broken(String),
}

impl From<DownloadFault> for Stop {
    fn from(fault: DownloadFault) -> Stop {
        Stop::Fault(fault)
    }
}

impl Stop {
    fn of_read(wanted: &Wanted<'_>, error: io::Error) -> Stop {
        match bucket_fault(wanted.source, &wanted.file.name, error) {
            Ok(fault) => Stop::Fault(fault),
            Err(error) => Stop::Broken(error.to_string()),
        }
    }
}

impl<'a> Partial<'a> {
    fn open(file: &'a mut fs_err::File, reporter: &dyn Reporter) -> io::Result<Partial<'a>> {
        let mut hash = Sha256::new();
        file.seek(SeekFrom::Start(0))?;
        let length = io::copy(&mut Watched::new(&mut *file, reporter), &mut hash)?;
        Ok(Partial { file, hash, length, is_older: length > 0 })
    }

    fn restart(&mut self, wanted: &Wanted<'_>) -> io::Result<()> {
        if let Some(growth) = wanted.growth {
            growth.restarted();
        }
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.hash = Sha256::new();
        self.length = 0;
        self.is_older = false;
        Ok(())
    }

    /// Reads the rest, and returns the SHA-256 of the whole file.
    fn fill(mut self, wanted: &Wanted<'_>, path: &Path, reporter: &dyn Reporter) -> Result<String, DownloadFault> {
        if wanted.facts.size.is_some_and(|size| self.length > size) {
            self.restart(wanted).map_err(DownloadFault::disk(path))?;
        }
        if let Some(growth) = wanted.growth {
            growth.reached(path, self.length);
        }
        loop {
            self.rest(wanted, path, reporter)?;
            let digest = hexadecimal(&self.hash.clone().finish());
            let fault = match (&wanted.expected, wanted.facts.size) {
                (_, Some(expected)) if expected != self.length => {
                    Some(DownloadFault::Size { expected, actual: self.length })
                }
                (Some((expected, said_by)), _) if *expected != digest => {
                    Some(DownloadFault::Digest { expected: expected.clone(), actual: digest.clone(), said_by })
                }
                _ => None,
            };
            match fault {
                None => return Ok(digest),
                // The beginning may be that of another file.
                Some(_) if self.is_older => self.restart(wanted).map_err(DownloadFault::disk(path))?,
                Some(fault) => return Err(fault),
            }
        }
    }

    /// Reads until the end, over as many connections as it takes.
    fn rest(&mut self, wanted: &Wanted<'_>, path: &Path, reporter: &dyn Reporter) -> Result<(), DownloadFault> {
        let (mut failures, mut pause) = (0, PAUSE);
        loop {
            if wanted.facts.size == Some(self.length) {
                return Ok(());
            }
            let before = self.length;
            let reason = match self.stream(wanted, path, reporter) {
                Ok(()) if wanted.facts.size.is_none_or(|size| self.length >= size) => return Ok(()),
                Ok(()) => "the server ended the answer early".to_owned(),
                Err(Stop::Broken(reason) | Stop::Fault(DownloadFault::Network(reason))) => reason,
                Err(Stop::Fault(fault)) => return Err(fault),
            };
            if self.length > before {
                (failures, pause) = (0, PAUSE);
            }
            failures += 1;
            if failures == TRIES {
                return Err(DownloadFault::Network(format!("{reason} (tried {TRIES} times)")));
            }
            wait(pause, reporter)?;
            pause *= 3;
        }
    }

    fn stream(&mut self, wanted: &Wanted<'_>, path: &Path, reporter: &dyn Reporter) -> Result<(), Stop> {
        let opened = wanted.source.open(wanted.file, &wanted.facts, self.length)?;
        let mut reader: Box<dyn Read + Send> = match opened {
            FileStream::Continued(reader) => reader,
            FileStream::FromStart(reader) => {
                self.restart(wanted).map_err(DownloadFault::disk(path))?;
                reader
            }
            FileStream::Local(local) => {
                let mut file = fs_err::File::open(&local).map_err(DownloadFault::disk(path))?;
                file.seek(SeekFrom::Start(self.length)).map_err(DownloadFault::disk(path))?;
                Box::new(file)
            }
        };
        let mut window = vec![0; WINDOW];
        loop {
            reporter.check().map_err(|interrupted| Stop::Fault(interrupted.into()))?;
            let read = match reader.read(&mut window) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Stop::of_read(wanted, error)),
            };
            self.file.write_all(&window[..read]).map_err(DownloadFault::disk(path))?;
            self.hash.update(&window[..read]);
            self.length += read as u64;
            if let Some(growth) = wanted.growth {
                growth.reached(path, self.length);
            }
            reporter.advance(read as u64);
            if wanted.facts.size.is_some_and(|size| self.length > size) {
                return Ok(());
            }
        }
    }
}

/// Sleeps, unless the user wants to stop.
pub(crate) fn wait(pause: Duration, reporter: &dyn Reporter) -> Result<(), rocwheel_progress::Interrupted> {
    let end = std::time::Instant::now() + pause;
    loop {
        reporter.check()?;
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}
