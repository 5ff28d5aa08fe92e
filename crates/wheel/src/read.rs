//! Input: a wheel file. Output: its members and metadata, and what its RECORD says that is not so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use zip::ZipArchive;

use crate::record::{Row, hash_column, parse_rows};
use crate::{Error, WheelName};

/// Bytes that are unpacked at once.
const WINDOW: usize = 1 << 18;

/// An open wheel.
pub struct Wheel {
    /// What the file name says.
    pub name: WheelName,
    path: PathBuf,
    archive: ZipArchive<BufReader<fs_err::File>>,
    /// The `.dist-info` folder, without a slash.
    info: String,
}

/// A member of an open wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Path inside the wheel.
    pub name: String,
    /// Bytes unpacked.
    pub size: u64,
    /// Bytes in the wheel.
    pub compressed: u64,
    /// Whether the mode has an execute bit.
    pub executable: bool,
}

/// A way in which RECORD and the members of a wheel disagree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// RECORD names a file that is not there.
    Missing(String),
    /// A file that RECORD does not name.
    Unrecorded(String),
    /// RECORD names a file twice.
    Repeated(String),
    /// RECORD gives no hash, or one of a kind that installers refuse.
    NoHash(String),
    /// The bytes are not those that were recorded.
    Hash(String),
    /// The size is not the one that was recorded.
    Size(String),
    /// The bytes cannot be unpacked, or their CRC is wrong.
    Unreadable(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Missing(name) => write!(formatter, "`{name}` is in RECORD but not in the wheel"),
            Problem::Unrecorded(name) => write!(formatter, "`{name}` is in the wheel but not in RECORD"),
            Problem::Repeated(name) => write!(formatter, "`{name}` is in RECORD more than once"),
            Problem::NoHash(name) => write!(formatter, "`{name}` has no SHA-256 in RECORD"),
            Problem::Hash(name) => write!(formatter, "`{name}` does not have the hash that RECORD says"),
            Problem::Size(name) => write!(formatter, "`{name}` does not have the size that RECORD says"),
            Problem::Unreadable(name) => write!(formatter, "`{name}` cannot be unpacked"),
        }
    }
}

impl Wheel {
    /// Opens the wheel at `path`. Errors when the file name is no wheel's, the file no ZIP, or its `.dist-info` folder
    /// is not the one that the name asks for.
    pub fn open(path: &Path) -> Result<Wheel, Error> {
        let fail = |source| Error::Open { path: path.to_owned(), source };
        let name: WheelName = path.file_name().unwrap_or_default().to_string_lossy().parse()?;
        let file = fs_err::File::open(path).map_err(fail)?;
        let archive = ZipArchive::new(BufReader::new(file)).map_err(|error| fail(error.into()))?;
        let info = format!("{}.dist-info", name.stem());
        let wheel = Wheel { name, path: path.to_owned(), archive, info };
        for needed in ["METADATA", "WHEEL", "RECORD"] {
            let member = format!("{}/{needed}", wheel.info);
            if wheel.archive.index_for_name(&member).is_none() {
                return Err(wheel.malformed(format!("it has no `{member}`")));
            }
        }
        Ok(wheel)
    }

    fn malformed(&self, reason: String) -> Error {
        Error::Malformed { path: self.path.clone(), reason }
    }

    /// All members in the order of the archive.
    pub fn members(&mut self) -> Result<Vec<Listed>, Error> {
        let mut members = Vec::with_capacity(self.archive.len());
        for index in 0..self.archive.len() {
            let member = self
                .archive
                .by_index_raw(index)
                .map_err(|error| Error::Open { path: self.path.clone(), source: error.into() })?;
            let name = member
                .name()
                .map_err(|error| Error::Open { path: self.path.clone(), source: error.into() })?
                .into_owned();
            members.push(Listed {
                name,
                size: member.size(),
                compressed: member.compressed_size(),
                executable: member.unix_mode().is_some_and(|mode| mode & 0o111 != 0),
            });
        }
        Ok(members)
    }

    /// The bytes of one member.
    pub fn bytes(&mut self, name: &str) -> Result<Vec<u8>, Error> {
        let fail = |source| Error::Open { path: self.path.clone(), source };
        let mut member = self.archive.by_name(name).map_err(|error| fail(error.into()))?;
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).map_err(fail)?;
        Ok(bytes)
    }

    fn info_text(&mut self, file: &str) -> Result<String, Error> {
        let name = format!("{}/{file}", self.info);
        let bytes = self.bytes(&name)?;
        String::from_utf8(bytes).map_err(|_| self.malformed(format!("`{name}` is not UTF-8")))
    }

    /// The text of METADATA.
    pub fn metadata(&mut self) -> Result<String, Error> {
        self.info_text("METADATA")
    }

    /// The text of WHEEL.
    pub fn wheel(&mut self) -> Result<String, Error> {
        self.info_text("WHEEL")
    }

    /// The rows of RECORD.
    pub fn record(&mut self) -> Result<Vec<Row>, Error> {
        let text = self.info_text("RECORD")?;
        parse_rows(&text).map_err(|reason| self.malformed(format!("RECORD: {reason}")))
    }

    /// Unpacks every member, in windows, and compares it with its row of RECORD. Sorted; empty when all is well.
    pub fn verify(&mut self) -> Result<Vec<Problem>, Error> {
        let mut problems = Vec::new();
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        for row in self.record()? {
            if let Some(earlier) = rows.insert(row.path.clone(), row) {
                problems.push(Problem::Repeated(earlier.path));
            }
        }
        let record = format!("{}/RECORD", self.info);
        let unhashed: BTreeSet<String> =
            ["", ".jws", ".p7s"].iter().map(|suffix| format!("{record}{suffix}")).collect();
        for (index, listed) in self.members()?.into_iter().enumerate() {
            let name = listed.name;
            let Some(row) = rows.remove(&name) else {
                // Signatures of RECORD are not in it.
                if !name.ends_with('/') && (name == record || !unhashed.contains(&name)) {
                    problems.push(Problem::Unrecorded(name));
                }
                continue;
            };
            if unhashed.contains(&name) {
                continue;
            }
            if !row.hash.starts_with("sha256=") {
                problems.push(Problem::NoHash(name.clone()));
            }
            if row.size.is_some_and(|size| size != listed.size) {
                problems.push(Problem::Size(name.clone()));
            }
            match self.hash(index) {
                Ok(hash) if row.hash.starts_with("sha256=") && row.hash != hash => problems.push(Problem::Hash(name)),
                Ok(_) => {}
                Err(_) => problems.push(Problem::Unreadable(name)),
            }
        }
        problems.extend(rows.into_keys().map(Problem::Missing));
        problems.sort();
        Ok(problems)
    }

    fn hash(&mut self, index: usize) -> io::Result<String> {
        let mut member = self.archive.by_index(index)?;
        let mut context = Context::new(&SHA256);
        let mut window = vec![0; WINDOW];
        loop {
            match member.read(&mut window)? {
                0 => break,
                count => context.update(&window[..count]),
            }
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        Ok(hash_column(&digest))
    }
}
