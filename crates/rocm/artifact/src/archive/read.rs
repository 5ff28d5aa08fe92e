//! Input: an archive. Output: its members one by one, each checked before the caller sees it.

use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::path::Path;

use rocwheel_content::reader::MeasuredReader;
use rocwheel_content::{PACK_WITHOUT_SPARSE, open_regular, pax_sparse_name};
use rocwheel_progress::{Failure, Reporter, Watched};
use tar::EntryType;

use super::Compression;
use crate::entry::{ArtifactEntry, EntryKind};
use crate::error::Error;
use crate::scan::{self, Basedirs, MANIFEST};

/// Largest manifest that is read, in bytes. Manifests are far smaller.
const LARGEST_MANIFEST: u64 = 16 << 20;
/// Bytes of memory that the xz decoder may use; level 9 needs 65 MiB.
const XZ_MEMORY: u64 = 256 << 20;

/// A member whose name, parent directories and links have been checked.
#[derive(Debug)]
pub(crate) struct Member {
    /// Relative path made of names only, unique in the archive.
    pub(crate) path: String,
    pub(crate) kind: MemberKind,
    /// Permission bits.
    pub(crate) mode: u32,
}

#[derive(Debug)]
pub(crate) enum MemberKind {
    /// A regular file; its bytes come from the reader passed with the member.
    File,
    Directory,
    Symlink {
        target: String,
    },
    /// Another name of the file at `first`, an earlier member.
    HardLink {
        first: String,
    },
}

/// The reader of a member's bytes; its errors mean that the archive is damaged.
pub(crate) type Content<'a> = &'a mut dyn Read;

/// Reads a whole archive and passes every member to `take`: the manifest first, then the others in
/// the archive's order. Returns everything below the basedirs, sorted by basedir and path, with
/// hard links as files. Advances the reporter's stage by the compressed bytes read.
///
/// # Errors
/// A damaged or truncated archive, a manifest that is not the first member, a sparse file in the
/// PAX format, and every member that must not be unpacked: absolute, with `..`, below a link or a
/// file, repeated, a device, outside the manifest's basedirs, a hard link to anything but an
/// earlier file, a symbolic link that leads out of its basedir.
pub(crate) fn for_each_member(
    archive: &Path,
    reporter: &dyn Reporter,
    take: &mut dyn FnMut(&Member, Content) -> Result<(), Error>,
) -> Result<Vec<ArtifactEntry>, Error> {
    for_each_member_of(Box::new(open(archive, reporter)?), archive, reporter, take)
}

/// Opens an archive. A wrong suffix is reported before a missing file.
pub(crate) fn open<'a>(archive: &Path, reporter: &'a dyn Reporter) -> Result<Watched<'a, fs_err::File>, Error> {
    Compression::of(archive)?;
    Ok(Watched::new(open_regular(archive)?, reporter))
}

/// [`for_each_member`] for bytes from another source. `archive` names them in errors, and its
/// suffix gives their compression.
pub(crate) fn for_each_member_of(
    file: Box<dyn Read + '_>,
    archive: &Path,
    reporter: &dyn Reporter,
    take: &mut dyn FnMut(&Member, Content) -> Result<(), Error>,
) -> Result<Vec<ArtifactEntry>, Error> {
    let compression = Compression::of(archive)?;
    let decoder: Box<dyn Read + '_> = match compression {
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(file).map_err(read_error(archive, reporter))?),
        Compression::Xz => {
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)
                .map_err(|error| read_error(archive, reporter)(error.into()))?;
            Box::new(liblzma::read::XzDecoder::new_stream(BufReader::with_capacity(1 << 16, file), stream))
        }
    };
    let mut tarball = tar::Archive::new(decoder);
    let mut checker: Option<Checker> = None;
    for entry in tarball.entries().map_err(read_error(archive, reporter))? {
        let mut entry = entry.map_err(read_error(archive, reporter))?;
        if entry.header().entry_type() == EntryType::XGlobalHeader {
            continue;
        }
        if let Some(member) = pax_sparse_name(&mut entry).map_err(read_error(archive, reporter))? {
            let archive = archive.display();
            return Err(Failure::message(format!(
                "`{member}` of the archive `{archive}` is a sparse file in the PAX format, which is not supported"
            ))
            .with_hint(PACK_WITHOUT_SPARSE)
            .into());
        }
        let Some(checker) = &mut checker else {
            let (first, bytes) = read_manifest(&mut entry, archive, reporter)?;
            checker = Some(first);
            let member = Member { path: MANIFEST.into(), kind: MemberKind::File, mode: 0o644 };
            take(&member, &mut bytes.as_slice())?;
            continue;
        };
        let member = checker.member(&entry, archive)?;
        let mut content = MeasuredReader::at_least(entry.size(), &mut entry);
        take(&member, &mut content)?;
        io::copy(&mut content, &mut io::sink()).map_err(read_error(archive, reporter))?;
    }
    finish(tarball.into_inner()).map_err(read_error(archive, reporter))?;
    let Some(checker) = checker else {
        let error = io::Error::new(io::ErrorKind::UnexpectedEof, "the archive is empty");
        return Err(read_error(archive, reporter)(error));
    };
    checker.finish(archive)
}

fn read_error(archive: &Path, reporter: &dyn Reporter) -> impl Fn(io::Error) -> Error {
    move |source| {
        let damaged = Error::DamagedArchive { path: archive.to_owned(), source };
        reporter.check().map_or_else(Error::Interrupted, |()| damaged)
    }
}

/// An archive has a member that must not be unpacked.
fn unsafe_member(archive: &Path, member: String, reason: &str) -> Error {
    let text = format!("refused to unpack `{member}` of the archive `{}`: {reason}", archive.display());
    Error::Member { member, failure: Failure::message(text) }
}

fn read_manifest<R: Read>(
    entry: &mut tar::Entry<R>,
    archive: &Path,
    reporter: &dyn Reporter,
) -> Result<(Checker, Vec<u8>), Error> {
    let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    if name != MANIFEST || entry.header().entry_type() != EntryType::Regular {
        let archive = archive.display();
        return Err(Failure::message(format!(
            "the archive `{archive}` does not begin with artifact_manifest.txt but with `{name}`"
        ))
        .with_hint("write the archive with `rocwheel artifact archive`")
        .into());
    }
    if entry.size() > LARGEST_MANIFEST {
        return Err(unsafe_member(archive, name, &format!("it has {} bytes", entry.size())));
    }
    let size = entry.size();
    let mut bytes = Vec::new();
    MeasuredReader::at_least(size, entry).read_to_end(&mut bytes).map_err(read_error(archive, reporter))?;
    let (basedirs, mut problems) = scan::parse_manifest(&String::from_utf8_lossy(&bytes), archive);
    if !problems.is_empty() {
        return Err(problems.swap_remove(0));
    }
    Ok((Checker { basedirs, seen: HashMap::new() }, bytes))
}

/// The members read so far, against which the next one is checked.
struct Checker {
    basedirs: Vec<String>,
    seen: HashMap<String, EntryKind>,
}

impl Checker {
    fn member<R: Read>(&mut self, entry: &tar::Entry<R>, archive: &Path) -> Result<Member, Error> {
        self.check(entry).map_err(|reason| {
            unsafe_member(archive, String::from_utf8_lossy(&entry.path_bytes()).into_owned(), &reason)
        })
    }

    /// Returns a member that readers can use, or the reason against it.
    fn check<R: Read>(&mut self, entry: &tar::Entry<R>) -> Result<Member, String> {
        let raw = entry.path_bytes();
        let Ok(name) = std::str::from_utf8(&raw) else { return Err("its name is not UTF-8".into()) };
        let header = entry.header();
        let directory = header.entry_type() == EntryType::Directory;
        let path = if directory { name.trim_end_matches('/') } else { name };
        if path == MANIFEST {
            return Err("the archive holds several artifacts, of which readers see only the first".into());
        }
        check_name(path)?;
        self.check_parents(path)?;
        let size = entry.size();
        let (kind, seen) = match header.entry_type() {
            EntryType::Directory => (MemberKind::Directory, EntryKind::Directory),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let executable = header.mode().unwrap_or(0) & 0o111 != 0;
                (MemberKind::File, EntryKind::File { size, executable })
            }
            EntryType::Symlink => {
                let target = link_text(entry)?;
                (MemberKind::Symlink { target: target.clone() }, EntryKind::Symlink { target })
            }
            EntryType::Link => {
                let first = link_text(entry)?;
                let Some(kind @ EntryKind::File { .. }) = self.seen.get(&first).cloned() else {
                    return Err(format!("it is a hard link to `{first}`, which is no earlier file of the archive"));
                };
                (MemberKind::HardLink { first }, kind)
            }
            other => return Err(format!("it is {}", describe(other))),
        };
        match self.seen.get(path) {
            // A directory member may follow the files in it, which implied the directory.
            Some(EntryKind::Directory) if directory => {}
            Some(_) => return Err("there is an earlier member of that name".into()),
            None if !directory && Basedirs::new(&self.basedirs).split(path).is_none() => {
                return Err("artifact_manifest.txt lists no basedir that holds it".into());
            }
            None => {
                self.seen.insert(path.to_owned(), seen);
            }
        }
        let mode = header.mode().unwrap_or(0o644) & 0o777;
        Ok(Member { path: path.to_owned(), kind, mode })
    }

    /// Checks that every parent is a directory of the archive itself, so that no file is ever
    /// written through a link.
    fn check_parents(&mut self, path: &str) -> Result<(), String> {
        for (at, _) in path.rmatch_indices('/') {
            let parent = &path[..at];
            match self.seen.get(parent) {
                // The parents of a directory were checked together with it.
                Some(EntryKind::Directory) => break,
                Some(EntryKind::Symlink { .. }) => return Err(format!("`{parent}` is a symbolic link")),
                Some(EntryKind::File { .. }) => return Err(format!("`{parent}` is a file")),
                None => {
                    self.seen.insert(parent.to_owned(), EntryKind::Directory);
                }
            }
        }
        Ok(())
    }

    fn finish(self, archive: &Path) -> Result<Vec<ArtifactEntry>, Error> {
        let Self { basedirs, seen } = self;
        let lookup = Basedirs::new(&basedirs);
        let entries = seen.into_iter().filter_map(|(path, kind)| {
            let (basedir, rest) = lookup.split(&path)?;
            Some(ArtifactEntry { basedir, path: rest.to_owned(), kind })
        });
        let mut entries: Vec<ArtifactEntry> = entries.collect();
        entries.sort_by(|left, right| (left.basedir, &left.path).cmp(&(right.basedir, &right.path)));
        let mut problems = scan::leaving_links(&basedirs, &entries, archive);
        if problems.is_empty() { Ok(entries) } else { Err(problems.swap_remove(0)) }
    }
}

fn check_name(path: &str) -> Result<(), String> {
    if path.starts_with('/') {
        Err("its name is absolute".into())
    } else if path.split('/').any(|part| part == "..") {
        Err("its name holds `..`".into())
    } else if !scan::is_plain_path(path) {
        Err("its name is not a plain relative path".into())
    } else {
        Ok(())
    }
}

fn link_text<R: Read>(entry: &tar::Entry<R>) -> Result<String, String> {
    let bytes = entry.link_name_bytes().unwrap_or_default();
    match std::str::from_utf8(&bytes) {
        Ok("") => Err("it is a link to nothing".into()),
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err("its link is not UTF-8 text".into()),
    }
}

fn describe(kind: EntryType) -> String {
    match kind {
        EntryType::Char => "a character device".into(),
        EntryType::Block => "a block device".into(),
        EntryType::Fifo => "a named pipe".into(),
        other => format!("a member of the unknown type {:?}", char::from(other.as_byte())),
    }
}

/// Reads the rest after the first block of zeros: at least one more such block, and nothing else.
/// Decoders check their checksums only at the end of the stream, so it is read completely.
fn finish(mut rest: impl Read) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    let mut zeros = 0;
    loop {
        let read = rest.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        if buffer[..read].iter().any(|byte| *byte != 0) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "there is more data after the end of the archive"));
        }
        zeros += read;
    }
    if zeros < 512 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends before its end mark"));
    }
    Ok(())
}
