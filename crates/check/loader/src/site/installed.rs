//! Input: the files of RECORD in a folder of installed packages. Output: access to them, and their
//! contradictions to RECORD.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use positioned_io::ReadAt as _;
use rayon::prelude::*;
use rocwheel_progress::Reporter;
use rocwheel_system::{FileIdentity, FileMetadata as _};
use rocwheel_wheel::RecordRow;
use rocwheel_wheel::read::WheelProblem;

use super::prefix::prefix_of;
use crate::Error;

/// Limit for the bytes of a file that are held in memory.
const IN_MEMORY: u64 = 64 << 20;
/// Number of bytes that are read at a time.
const WINDOW: usize = 1 << 18;

/// The files of an installed distribution.
#[derive(Debug, Default)]
pub struct Installed {
    /// The folder of the packages.
    pub(super) folder: PathBuf,
    /// Name of the `.dist-info` folder in it; empty for the files of no distribution.
    pub(super) info: String,
    /// Files by their paths in RECORD, relative to the folder of the packages.
    pub(super) files: BTreeMap<String, InstalledFile>,
    pub(super) record: InstalledRecord,
    /// The URL of the source from which an editable installation takes its files.
    pub(super) editable: Option<String>,
}

/// An installed file.
#[derive(Debug, Clone)]
pub(super) struct InstalledFile {
    /// Its path on this machine.
    pub(super) path: PathBuf,
    /// Its path in the environment.
    pub(super) place: String,
    pub(super) size: u64,
    pub(super) executable: bool,
    /// Device and inode; links have those of their target.
    pub(super) identity: FileIdentity,
}

#[derive(Debug, Default)]
pub(super) enum InstalledRecord {
    #[default]
    Absent,
    /// It cannot be parsed, with the reason.
    Damaged(String),
    Rows(Vec<RecordRow>),
}

pub(super) fn read_error(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Read { path, source }
}

/// Python creates and removes these files at any time.
pub(super) fn is_bytecode(path: &str) -> bool {
    path.ends_with(".pyc") || path.ends_with(".pyo")
}

impl InstalledFile {
    pub(super) fn new(path: PathBuf, place: String) -> Option<InstalledFile> {
        let metadata = fs_err::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
        let (executable, identity) = (metadata.is_executable(&path), metadata.identity(&path).ok()?);
        Some(InstalledFile { path, place, size: metadata.len(), executable, identity })
    }
}

impl Installed {
    pub(super) fn info(&self) -> &str {
        &self.info
    }

    pub(super) fn rows(&self) -> &[RecordRow] {
        match &self.record {
            InstalledRecord::Rows(rows) => rows,
            InstalledRecord::Absent | InstalledRecord::Damaged(_) => &[],
        }
    }

    pub(super) fn record_is_missing(&self) -> bool {
        !matches!(self.record, InstalledRecord::Rows(_))
    }

    /// The URL of the source of an editable installation.
    pub fn editable(&self) -> Option<&str> {
        self.editable.as_deref()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.editable.is_none() && !self.record_is_missing()
    }

    pub(super) fn is_rest(&self) -> bool {
        self.info.is_empty()
    }

    /// The virtual environment that contains the packages; `None` if they are not in one.
    pub fn environment(&self) -> Option<&Path> {
        prefix_of(&self.folder).filter(|prefix| prefix.join("pyvenv.cfg").is_file())
    }

    /// The path of a file on this machine.
    pub fn path(&self, member: &str) -> Option<&Path> {
        self.files.get(member).map(|file| file.path.as_path())
    }

    /// The hash column of a file in RECORD; `None` if it is empty.
    pub(super) fn recorded(&self, member: &str) -> Option<&str> {
        self.rows().iter().find(|row| row.path == member).map(|row| row.hash.as_str()).filter(|hash| !hash.is_empty())
    }

    fn open(&self, member: &str) -> Result<(fs_err::File, u64), Error> {
        let file = self.files.get(member).ok_or_else(|| Error::NoSuchFile { path: member.to_owned() })?;
        Ok((fs_err::File::open(&file.path).map_err(read_error(&file.path))?, file.size))
    }

    pub(super) fn start(&self, member: &str, length: usize) -> Result<Vec<u8>, Error> {
        let (file, size) = self.open(member)?;
        let mut start = vec![0; length.min(usize::try_from(size).unwrap_or(length))];
        file.file().read_exact_at(0, &mut start).map_err(read_error(file.path()))?;
        Ok(start)
    }

    pub(super) fn reader(&self, member: &str) -> Result<rocwheel_content::Reader, Error> {
        Ok(Box::new(self.open(member)?.0.into_parts().0))
    }

    pub(super) fn bytes(&self, member: &str) -> Result<Vec<u8>, Error> {
        let (file, size) = self.open(member)?;
        if size > IN_MEMORY {
            return Err(read_error(file.path())(io::Error::from(io::ErrorKind::FileTooLarge)));
        }
        fs_err::read(file.path()).map_err(read_error(file.path()))
    }

    pub(super) fn checksum(&self, member: &str) -> Option<(u64, u32)> {
        let (mut file, size) = self.open(member).ok()?;
        let mut crc32 = crc32fast::Hasher::new();
        let mut window = vec![0; WINDOW];
        loop {
            match io::Read::read(&mut file, &mut window).ok()? {
                0 => return Some((size, crc32.finalize())),
                length => crc32.update(&window[..length]),
            }
        }
    }

    /// The contradictions to RECORD. Rows of Python's bytecode are ignored, because these files
    /// come and go.
    pub(super) fn problems(&self, hashes: bool, reporter: &dyn Reporter) -> Option<Result<Vec<WheelProblem>, Error>> {
        let rows = match &self.record {
            InstalledRecord::Absent => return None,
            InstalledRecord::Damaged(reason) => {
                return Some(Err(Error::Record { info: self.info.clone(), reason: reason.clone() }));
            }
            InstalledRecord::Rows(rows) => rows,
        };
        let own = format!("{}/RECORD", self.info);
        let mut seen = BTreeSet::new();
        // pip adds a row for bytecode that it compiles, even if the wheel has one.
        let mut problems: Vec<WheelProblem> = rows
            .iter()
            .filter(|row| !is_bytecode(&row.path) && !seen.insert(row.path.as_str()))
            .map(|row| WheelProblem::Repeated(row.path.clone()))
            .collect();
        let compared = rows.par_iter().filter(|row| !is_bytecode(&row.path) && !row.path.starts_with(&own));
        problems.par_extend(compared.flat_map_iter(|row| {
            reporter.advance(self.files.get(&row.path).map_or(0, |file| file.size));
            self.compare(row, hashes)
        }));
        problems.sort();
        problems.dedup();
        Some(Ok(problems))
    }

    fn compare(&self, row: &RecordRow, hashes: bool) -> Vec<WheelProblem> {
        let Some(file) = self.files.get(&row.path) else {
            // The file may be outside the environment.
            let exists = self.folder.join(&row.path).exists();
            return if exists { Vec::new() } else { vec![WheelProblem::Missing(row.path.clone())] };
        };
        let mut problems = Vec::new();
        if row.hash.is_empty() {
            problems.push(WheelProblem::NoHash(row.path.clone()));
        }
        if row.size.is_some_and(|size| size != file.size) {
            problems.push(WheelProblem::Size(row.path.clone()));
        }
        // Other algorithms are hardly ever used; their hashes are not compared.
        if hashes && row.hash.starts_with("sha256=") {
            let digest = fs_err::File::open(&file.path).and_then(rocwheel_content::sha256_of);
            match digest {
                Ok(digest) if rocwheel_wheel::hash_column(&digest) != row.hash => {
                    problems.push(WheelProblem::Hash(row.path.clone()));
                }
                Ok(_) => {}
                Err(_) => problems.push(WheelProblem::Unreadable(row.path.clone())),
            }
        }
        problems
    }
}
