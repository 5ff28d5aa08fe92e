//! Input: a tar archive, compressed or not. Output: its entries. Their bytes are in an unnamed
//! temporary file, one after the other.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use positioned_io::{Cursor, ReadAt};
use rocwheel_content::{PACK_WITHOUT_SPARSE, pax_sparse_name};
use rocwheel_progress::{Failure, Reporter};
use tar::EntryType;

use crate::entry::{Entry, File, Source, Unpacked};
use crate::error;

/// Bytes read at a time.
const WINDOW: usize = 1 << 18;
/// Bytes of memory that the xz decoder may use; level 9 needs 65 MiB.
const XZ_MEMORY: u64 = 256 << 20;
/// Bytes needed to recognise a tar archive: its magic is at offset 257.
pub(crate) const START: usize = 512;

/// The compression of a file that may be a tar archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
    Xz,
    Zstd,
}

impl Packing {
    fn of(start: &[u8]) -> Option<Packing> {
        match start {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
            _ if start.get(257..262) == Some(b"ustar") => Some(Packing::None),
            _ => None,
        }
    }
}

/// `true` if a file with this name and beginning is a tar archive.
pub(crate) fn is_tarball(name: &str, start: &[u8]) -> bool {
    const ENDINGS: [&str; 6] = [".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst", ".crate"];
    ENDINGS.iter().any(|ending| name.ends_with(ending)) && Packing::of(start).is_some()
}

/// Unpacks the archive in `reader`; `name` is for messages.
pub(crate) fn unpack(
    name: &str,
    reader: impl ReadAt,
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Result<BTreeMap<String, Entry>, Failure> {
    let mut unpacked = tempfile::tempfile_in(scratch)?;
    let parts = collect(reader, &mut unpacked, reporter)
        .map_err(|source| reporter.check().map_or_else(Failure::from, |()| error::unreadable(name)(source)))?;
    let unpacked: Unpacked = Arc::new(unpacked);
    let entries = parts.into_iter().map(|(path, part)| match part {
        Part::File { size, executable, start } => {
            let source = Source::Part { unpacked: Arc::clone(&unpacked), start };
            (path, Entry::File(File { size, executable, source }))
        }
        Part::Link(target) => (path, Entry::Link { target }),
    });
    Ok(entries.collect())
}

/// A member while the temporary file is still being written.
#[derive(Clone)]
enum Part {
    File { size: u64, executable: bool, start: u64 },
    Link(String),
}

fn collect<'r>(
    reader: impl ReadAt + 'r,
    unpacked: &mut impl Write,
    reporter: &dyn Reporter,
) -> io::Result<BTreeMap<String, Part>> {
    let mut start = vec![0; START];
    let length = reader.read_at(0, &mut start)?;
    let source = BufReader::with_capacity(WINDOW, Cursor::new(reader));
    let decoder: Box<dyn Read + 'r> = match Packing::of(&start[..length]) {
        Some(Packing::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        Some(Packing::Xz) => {
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(source, stream))
        }
        Some(Packing::Zstd) => Box::new(zstd::stream::read::Decoder::with_buffer(source)?),
        Some(Packing::None) | None => Box::new(source),
    };
    let mut archive = tar::Archive::new(decoder);
    let mut parts: BTreeMap<String, Part> = BTreeMap::new();
    let mut written = 0;
    for member in archive.entries()? {
        if reporter.interrupted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let mut member = member?;
        if let Some(name) = pax_sparse_name(&mut member)? {
            let reason = format!("`{name}` is a sparse file in the PAX format, which is not supported");
            return Err(malformed(format!("{reason}: {PACK_WITHOUT_SPARSE}")));
        }
        let path = member_path(&member.path_bytes());
        let link = member.link_name_bytes().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let part = match member.header().entry_type() {
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            EntryType::Symlink => Part::Link(link.unwrap_or_default()),
            // A hard link is another name of the same bytes.
            EntryType::Link => {
                let first = member_path(link.unwrap_or_default().as_bytes());
                let part = parts.get(&first).cloned();
                part.ok_or_else(|| malformed(format!("`{path}` is a hard link to `{first}`, which does not exist")))?
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let executable = member.header().mode()? & 0o111 != 0;
                let (size, start) = (member.size(), written);
                written += io::copy(&mut member, unpacked)?;
                if written != start + size {
                    return Err(malformed(format!("it ends inside `{path}`")));
                }
                Part::File { size, executable, start }
            }
            other => return Err(malformed(format!("`{path}` is neither a file nor a folder nor a link ({other:?})"))),
        };
        if parts.insert(path.clone(), part).is_some() {
            return Err(malformed(format!("two members are named `{path}`")));
        }
    }
    // The archive is read up to its checksum, to detect that it is cut or damaged.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(parts)
}

fn malformed(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn member_path(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_start_matches("./").trim_end_matches('/').to_owned()
}
