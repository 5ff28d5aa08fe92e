//! Input: a wheel file. Output: its members and metadata, and what RECORD says that is not so.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::{Error, WheelName};

/// An open wheel.
pub struct Wheel {
    path: PathBuf,
    /// What the file name says.
    pub name: WheelName,
    archive: zip::ZipArchive<io::BufReader<fs_err::File>>,
}

impl Wheel {
    /// Opens the wheel at `path`, whose file name must be a wheel's.
    pub fn open(path: &Path) -> Result<Wheel, Error> {
        let fail = |source| Error::Open { path: path.to_owned(), source };
        let name = path.file_name().unwrap_or_default().to_string_lossy().parse()?;
        let file = fs_err::File::open(path).map_err(fail)?;
        let archive = zip::ZipArchive::new(io::BufReader::new(file)).map_err(|error| fail(error.into()))?;
        Ok(Wheel { path: path.to_owned(), name, archive })
    }

    /// Names of all members in the order of the archive.
    pub fn members(&self) -> Result<Vec<String>, Error> {
        self.archive
            .file_names()
            .map(|name| name.map(std::borrow::Cow::into_owned))
            .collect::<Result<_, _>>()
            .map_err(|error| Error::Open { path: self.path.clone(), source: error.into() })
    }

    /// The bytes of one member.
    pub fn bytes(&mut self, name: &str) -> Result<Vec<u8>, Error> {
        let fail = |source| Error::Open { path: self.path.clone(), source };
        let mut member = self.archive.by_name(name).map_err(|error| fail(error.into()))?;
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).map_err(fail)?;
        Ok(bytes)
    }
}
