//! Input: a wheel that is far away, as a content. Output: its directory and the bytes of single
//! members, with no more of the wheel read than that.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use positioned_io::ReadAt;
use rocwheel_content::{Content, Reader};

use super::{Fault, Kind, Listed, Packed, directory, info_folder};
use crate::{Error, WheelName};

/// The directory of a wheel, at the end of the file. [`super::Wheel`] also reads the header before
/// each member, which over a network would take as many requests as there are members. Here only
/// the headers of members that are read are compared with the directory.
pub struct WheelDirectory {
    path: PathBuf,
    file: SharedReader,
    members: Vec<Listed>,
    info: String,
}

/// An open content with several owners.
#[derive(Clone)]
struct SharedReader(Arc<Reader>);

impl ReadAt for SharedReader {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(position, buffer)
    }
}

impl WheelDirectory {
    /// Reads the directory of the wheel in `content`. `path` ends in its file name, and is the path
    /// that messages name.
    ///
    /// # Errors
    /// Those of [`super::Wheel::open`] that the directory shows.
    pub fn open(path: &Path, content: &dyn Content) -> Result<WheelDirectory, Error> {
        let _: WheelName = path.file_name().unwrap_or_default().to_string_lossy().parse()?;
        let file = content.open().map_err(|source| Error::Open { path: path.to_owned(), source })?;
        let members = directory::read_central(path, &file, content.size())?;
        let info = info_folder(&members, path)?;
        let wheel = WheelDirectory { path: path.to_owned(), file: SharedReader(Arc::new(file)), members, info };
        for needed in ["METADATA", "WHEEL"] {
            wheel.find(&format!("{}/{needed}", wheel.info))?;
        }
        Ok(wheel)
    }

    /// The name of the `.dist-info` folder, without a slash.
    pub fn info(&self) -> &str {
        &self.info
    }

    /// The bytes of one member, at most 64 MiB; the CRC is checked.
    ///
    /// # Errors
    /// A member that does not exist, has another header than the directory says, or cannot be
    /// unpacked.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>, Error> {
        let listed = directory::locate(&self.path, &self.file, self.find(name)?)?;
        let packed = Packed { path: &self.path, file: &self.file, listed: &listed };
        if listed.kind == Kind::Directory { Err(packed.error(Fault::Directory)) } else { packed.bytes() }
    }

    fn find(&self, name: &str) -> Result<&Listed, Error> {
        self.members
            .iter()
            .find(|member| member.name == name)
            .ok_or_else(|| Error::Malformed { path: self.path.clone(), reason: format!("it has no `{name}`") })
    }
}
