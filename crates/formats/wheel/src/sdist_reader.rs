//! Input: a source distribution (`name-version.tar.gz`, PEP 625) of any tool. Output: its members,
//! one after the other, or its metadata. The archive is read as a stream and never unpacked to
//! disk.

use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use rocwheel_archive::check_member_name;
use rocwheel_content::reader::MeasuredReader;
use rocwheel_content::{PACK_WITHOUT_SPARSE, open_regular, pax_sparse_name};
use rocwheel_progress::Reporter;
use tar::EntryType;

use crate::{Error, Headers};

/// Limit for the unpacked bytes of an archive of which only the metadata is read.
const MOST_UNPACKED: u64 = 1 << 30;
/// Limit for the bytes after the end of the tar archive, because writers fill the last record.
const PADDING: u64 = 1 << 20;

/// The largest PKG-INFO in bytes.
const LARGEST_PKG_INFO: u64 = 16 << 20;

/// The type of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SdistMemberKind {
    /// A file.
    File {
        /// In bytes.
        size: u64,
        /// `true` if the mode has an execute bit.
        executable: bool,
    },
    /// A folder.
    Directory,
    /// A symbolic link with this text.
    Symlink(String),
    /// To the member with this path in the archive.
    HardLink(String),
}

/// A member as it is in the archive.
pub struct SdistMember {
    /// Its path, without a slash at the end.
    pub path: String,
    /// File, folder or link.
    pub kind: SdistMemberKind,
}

/// The PKG-INFO of a source distribution. The file may be from an untrusted source, so one that
/// unpacks to more than 1 GiB is refused.
///
/// # Errors
/// [`Error::OpenSdist`] and [`Error::MalformedSdist`] for a file that is not a source distribution,
/// and for one without PKG-INFO.
pub fn sdist_metadata(path: &Path, reporter: &dyn Reporter) -> Result<Headers, Error> {
    let file = open_regular(path).map_err(Error::open_sdist(path))?;
    sdist_metadata_of(path, file, reporter)
}

/// As [`sdist_metadata`], of the bytes that a reader gives; `path` is the one that messages name.
///
/// # Errors
/// Those of [`sdist_metadata`], and those of the reader.
pub fn sdist_metadata_of(path: &Path, file: impl Read, reporter: &dyn Reporter) -> Result<Headers, Error> {
    let mut found = None;
    for_each_in(MOST_UNPACKED, (path, file), reporter, |entry, content| {
        let is_it = entry.path.split_once('/').is_some_and(|(_, rest)| rest == "PKG-INFO");
        if let SdistMemberKind::File { size, .. } = entry.kind
            && is_it
        {
            if found.is_some() {
                return Err(Error::malformed_sdist(path, "it has several of `PKG-INFO`"));
            }
            if size > LARGEST_PKG_INFO {
                return Err(Error::malformed_sdist(path, "its `PKG-INFO` is too large"));
            }
            let mut text = String::new();
            let read = content.read_to_string(&mut text);
            read.map_err(|_| Error::malformed_sdist(path, "`PKG-INFO` is not UTF-8"))?;
            found = Some(Headers::parse(&text));
        }
        Ok(())
    })?;
    found.ok_or_else(|| Error::malformed_sdist(path, "it has no `PKG-INFO`"))
}

/// Passes every member to `sink`, which may read its bytes.
///
/// # Errors
/// A file that is not a source distribution, and the errors of `sink`.
pub fn for_each_sdist_member<E: From<Error>>(
    path: &Path,
    reporter: &dyn Reporter,
    sink: impl FnMut(SdistMember, &mut dyn Read) -> Result<(), E>,
) -> Result<(), E> {
    let file = open_regular(path).map_err(Error::open_sdist(path))?;
    for_each_in(u64::MAX, (path, file), reporter, sink)
}

/// Like [`for_each_sdist_member`], for an open archive that unpacks to at most `limit` bytes.
fn for_each_in<E: From<Error>>(
    limit: u64,
    (path, file): (&Path, impl Read),
    reporter: &dyn Reporter,
    mut sink: impl FnMut(SdistMember, &mut dyn Read) -> Result<(), E>,
) -> Result<(), E> {
    let file = BufReader::with_capacity(1 << 18, file);
    let mut archive = tar::Archive::new(MeasuredReader::at_most(limit, GzDecoder::new(file)));
    let mut count = 0_u64;
    for entry in archive.entries().map_err(Error::open_sdist(path))? {
        reporter.check().map_err(Error::from)?;
        let mut entry = entry.map_err(Error::open_sdist(path))?;
        if let Some(name) = pax_sparse_name(&mut entry).map_err(Error::open_sdist(path))? {
            let reason = format!("`{name}` is a sparse file in the PAX format: {PACK_WITHOUT_SPARSE}");
            return Err(E::from(Error::malformed_sdist(path, reason)));
        }
        let name = utf8(path, &entry.path_bytes(), "the name")?;
        let name = name.strip_suffix('/').unwrap_or(&name).to_owned();
        let link = entry.link_name_bytes().map(|bytes| utf8(path, &bytes, "the link")).transpose()?;
        let link = link.unwrap_or_default();
        let mode = entry.header().mode().map_err(Error::open_sdist(path))?;
        let kind = match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                SdistMemberKind::File { size: entry.size(), executable: mode & 0o111 != 0 }
            }
            EntryType::Directory => SdistMemberKind::Directory,
            EntryType::Symlink => SdistMemberKind::Symlink(link),
            EntryType::Link => SdistMemberKind::HardLink(link),
            // Comments in archives made by git.
            EntryType::XGlobalHeader => continue,
            other => {
                let reason = format!("member `{name}` is neither a file nor a folder nor a link ({other:?})");
                return Err(E::from(Error::malformed_sdist(path, reason)));
            }
        };
        if let Err(rocwheel_archive::Error::MemberName { reason, .. }) = check_member_name(&name) {
            let reason = format!("member name `{name}` cannot be used: {reason}");
            return Err(E::from(Error::malformed_sdist(path, reason)));
        }
        count += 1;
        sink(SdistMember { path: name, kind }, &mut entry)?;
    }
    if count == 0 {
        return Err(E::from(Error::malformed_sdist(path, "it is empty")));
    }
    // Reads to the checksum, which reveals a truncated or damaged file.
    let mut rest = archive.into_inner().take(PADDING);
    let count = io::copy(&mut rest, &mut io::sink()).map_err(Error::open_sdist(path))?;
    if count == PADDING {
        return Err(E::from(Error::malformed_sdist(path, "more bytes follow the end of the archive")));
    }
    Ok(())
}

fn utf8(path: &Path, bytes: &[u8], what: &str) -> Result<String, Error> {
    String::from_utf8(bytes.to_vec()).map_err(|_| {
        let reason = format!("{what} `{}` is not UTF-8", String::from_utf8_lossy(bytes));
        Error::malformed_sdist(path, reason)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use rocwheel_progress::Silent;

    use super::*;

    #[test]
    fn what_unpacks_to_too_much_is_not_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bomb-1.0.tar.gz");
        let mut header = tar::Header::new_ustar();
        header.set_path("bomb-1.0/zeros").unwrap();
        header.set_size(1 << 20);
        header.set_mode(0o644);
        header.set_cksum();
        let mut gzip = GzEncoder::new(fs_err::File::create(&path).unwrap(), Compression::fast());
        gzip.write_all(header.as_bytes()).unwrap();
        gzip.write_all(&vec![0; (1 << 20) + 1024]).unwrap();
        gzip.finish().unwrap();
        let open = || fs_err::File::open(&path).unwrap();
        let read = |limit| for_each_in(limit, (&path, open()), &Silent, |_, _| Ok::<_, Error>(()));
        read(1 << 21).unwrap();
        let Error::OpenSdist { source, .. } = read(1 << 19).unwrap_err() else { panic!("another error") };
        assert_eq!(source.to_string(), "it unpacks to too much");
        let error = sdist_metadata(&path, &Silent).unwrap_err();
        assert!(error.to_string().contains("it has no `PKG-INFO`"), "{error}");
    }
}
