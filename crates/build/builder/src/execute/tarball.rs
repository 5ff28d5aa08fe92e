//! Input: a folder. Output: a reproducible `.tar.bz2` of it.

use std::path::Path;

use bzip2::Compression;
use bzip2::write::BzEncoder;
use rocwheel_progress::Failure;
use rocwheel_system::FileMetadata as _;
use tar::{Builder, EntryType, Header};
use walkdir::WalkDir;

/// Writes `members` of a folder, each with its files sorted. All entries have the time stamp
/// `epoch` (seconds since 1970) and no owner.
pub(super) fn write(from: &Path, members: &[String], place: &Path, epoch: u64) -> Result<(), Failure> {
    if let Some(parent) = place.parent() {
        fs_err::create_dir_all(parent)?;
    }
    let encoder = BzEncoder::new(fs_err::File::create(place)?, Compression::best());
    let mut tarball = Builder::new(encoder);
    for member in members {
        for entry in WalkDir::new(from.join(member)).sort_by_file_name() {
            let entry = entry.map_err(std::io::Error::from)?;
            let name = rocwheel_system::slashed(entry.path().strip_prefix(from).unwrap_or(entry.path()));
            let mut header = Header::new_gnu();
            header.set_mtime(epoch);
            header.set_mode(0o644);
            let kind = entry.file_type();
            if kind.is_dir() {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(0o755);
                header.set_size(0);
                tarball.append_data(&mut header, name, std::io::empty())?;
            } else if kind.is_symlink() {
                header.set_entry_type(EntryType::Symlink);
                header.set_mode(0o777);
                header.set_size(0);
                tarball.append_link(&mut header, name, fs_err::read_link(entry.path())?)?;
            } else {
                let file = fs_err::File::open(entry.path())?;
                let metadata = file.metadata()?;
                header.set_entry_type(EntryType::Regular);
                header.set_size(metadata.len());
                if metadata.is_executable(entry.path()) {
                    header.set_mode(0o755);
                }
                tarball.append_data(&mut header, name, file)?;
            }
        }
    }
    tarball.into_inner()?.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_folder_makes_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("include/magma.h", "1"), ("lib/libmagma.so.2", "2"), ("other/x", "3")] {
            let path = folder.path().join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        rocwheel_system::symlink("libmagma.so.2", folder.path().join("lib/libmagma.so")).unwrap();
        let members = ["lib".to_owned(), "include".to_owned()];
        let make = |name: &str| {
            let place = folder.path().join("out").join(name);
            write(folder.path(), &members, &place, 1000).unwrap();
            fs_err::read(place).unwrap()
        };
        let bytes = make("one.tar.bz2");
        fs_err::write(folder.path().join("lib/libmagma.so.2"), "2").unwrap();
        assert_eq!(make("two.tar.bz2"), bytes);
        let mut tarball = tar::Archive::new(bzip2::read::BzDecoder::new(&bytes[..]));
        let names: Vec<String> = tarball
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["lib", "lib/libmagma.so", "lib/libmagma.so.2", "include", "include/magma.h"]);
    }
}
