//! Input: a wheel that is far away, as a content. Output: its directory and the bytes of single
//! members, with no more of the wheel read than that.

use std::path::Path;

use rocwheel_archive::{DistantMember, Listed, ZipDirectory};
use rocwheel_content::{Content, Reader};

use super::info_folder;
use crate::{Error, WheelName};

/// The directory of a wheel, at the end of the file.
pub struct WheelDirectory {
    zip: ZipDirectory,
    info: String,
}

impl WheelDirectory {
    /// Reads the directory of the wheel in `content`. `path` ends in its file name, and is the path
    /// that messages name.
    ///
    /// # Errors
    /// Those of [`super::Wheel::open`] that the directory shows.
    pub fn open(path: &Path, content: &dyn Content) -> Result<WheelDirectory, Error> {
        let _: WheelName = path.file_name().unwrap_or_default().to_string_lossy().parse()?;
        let zip = ZipDirectory::open(path, content)?;
        let info = info_folder(zip.members(), path)?;
        let wheel = WheelDirectory { zip, info };
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
    /// A member that does not exist, and those of [`ZipDirectory::bytes`].
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>, Error> {
        Ok(self.zip.bytes(self.find(name)?)?)
    }

    /// All members in the order of the archive, as the directory has them.
    pub fn members(&self) -> &[Listed] {
        self.zip.members()
    }

    /// One of [`WheelDirectory::members`], read through `file`, as [`ZipDirectory::open_member`]
    /// does.
    ///
    /// # Errors
    /// Those of [`ZipDirectory::open_member`].
    pub fn open_member(&self, member: &Listed, file: Reader) -> Result<DistantMember, Error> {
        Ok(self.zip.open_member(member, file)?)
    }

    fn find(&self, name: &str) -> Result<&Listed, Error> {
        let found = self.members().iter().find(|member| member.name == name);
        Ok(found.ok_or_else(|| rocwheel_archive::Error::malformed(self.zip.path(), format!("it has no `{name}`")))?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor, Write as _};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use positioned_io::ReadAt;
    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    fn wheel() -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let ballast = vec![7; 1 << 20];
        let members = [("a/x.so", &ballast[..]), ("a-1.dist-info/METADATA", b"Name: a"), ("a-1.dist-info/WHEEL", b"")];
        for (name, bytes) in members {
            let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
            zip.start_file(name, stored).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    /// Counts the bytes that are read.
    struct Counted(Arc<Vec<u8>>, Arc<AtomicU64>);

    impl Content for Counted {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }

        fn open(&self) -> io::Result<Reader> {
            Ok(Box::new(Counted(Arc::clone(&self.0), Arc::clone(&self.1))))
        }
    }

    impl ReadAt for Counted {
        fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.0.as_slice().read_at(position, buffer)?;
            self.1.fetch_add(read as u64, Ordering::Relaxed);
            Ok(read)
        }
    }

    #[test]
    fn metadata_costs_the_end_of_the_file_and_itself() {
        let content = Counted(Arc::new(wheel()), Arc::default());
        let path = Path::new("a-1-py3-none-any.whl");
        let wheel = WheelDirectory::open(path, &content).unwrap();
        assert_eq!(wheel.info(), "a-1.dist-info");
        assert_eq!(wheel.bytes("a-1.dist-info/METADATA").unwrap(), b"Name: a");
        let read = content.1.load(Ordering::Relaxed);
        assert!(read < 100_000, "{read} bytes of {}", content.size());
        assert!(wheel.bytes("a-1.dist-info/RECORD").is_err());
        assert!(WheelDirectory::open(Path::new("a.zip"), &content).is_err());
    }

    #[test]
    fn a_member_that_contradicts_the_directory_is_an_error() {
        let mut bytes = wheel();
        let name = b"a-1.dist-info/METADATA";
        let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
        bytes[at] = b'b';
        let wheel = WheelDirectory::open(Path::new("a-1-py3-none-any.whl"), &bytes).unwrap();
        let error = wheel.bytes("a-1.dist-info/METADATA").unwrap_err().to_string();
        assert!(error.contains("another name in its own header"), "{error}");
        assert!(WheelDirectory::open(Path::new("a-1-py3-none-any.whl"), &bytes[..100].to_vec()).is_err());
    }
}
