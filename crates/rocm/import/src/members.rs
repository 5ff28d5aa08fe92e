//! Input: a compressed tar archive as a stream. Output: calls of a [`Visitor`], one for each file
//! and link.
//!
//! Names are checked before the visitor sees them: relative and without `..`. Other names that no
//! file of an artifact may have are only refused if the visitor would import the file. Devices,
//! sockets and other special files are refused.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io::{self, BufReader, Read};
use std::path::Path;

use liblzma::stream::{CONCATENATED, MtStreamBuilder, Stream};
use rocwheel_artifact::links::{Links, leaves_tree};
use rocwheel_content::reader::TrackedReader;
use rocwheel_content::{PACK_WITHOUT_SPARSE, pax_sparse_name};
use rocwheel_progress::Failure;
use tar::EntryType;

use crate::error;

/// Upper limit of a single decompressor's memory in bytes: preset 9 of xz takes 65 MiB, zstd's
/// largest window 128 MiB.
const MEMORY_LIMIT: u64 = 512 << 20;
/// Upper limit of memory for parallel decompression in bytes; with Debian's 24 MiB blocks two
/// threads take some 110 MiB.
const PARALLEL_MEMORY_LIMIT: u64 = 160 << 20;

pub(crate) trait Visitor {
    /// `true` if the visitor imports a member with this path, so that its name has to be usable.
    /// Only asked about names that are not.
    fn takes(&self, _path: &str) -> bool {
        false
    }

    /// Receives a regular file of `size` bytes; `content` ends after them.
    fn file(&mut self, path: &str, size: u64, executable: bool, content: &mut dyn Read) -> Result<(), Failure>;

    fn symlink(&mut self, _path: &str, _target: &str) -> Result<(), Failure> {
        Ok(())
    }

    /// `target` is an earlier member.
    fn hard_link(&mut self, _path: &str, _target: &str) -> Result<(), Failure> {
        Ok(())
    }
}

/// An archive to be read and the way to decompress it.
pub(crate) struct Decoding<'a> {
    /// Path of the file on disk, for messages.
    pub(crate) archive: &'a Path,
    /// Name of the archive, whose ending determines the decompressor.
    pub(crate) member: &'a str,
    /// Number of threads for formats that are divided into blocks.
    pub(crate) threads: u32,
}

impl Decoding<'_> {
    fn damaged(&self, source: io::Error) -> Failure {
        error::damaged(self.archive, self.member, source)
    }

    fn refused(&self, member: &[u8], reason: &str) -> Failure {
        error::refused(self.archive, &String::from_utf8_lossy(member), reason)
    }

    fn decoder<'r>(&self, stream: &'r mut dyn Read) -> Result<Box<dyn Read + 'r>, Failure> {
        let ending = self.member.rsplit('.').next().unwrap_or_default();
        let stream = BufReader::with_capacity(1 << 16, stream);
        Ok(match ending {
            "tar" => Box::new(stream),
            "gz" | "tgz" => Box::new(flate2::bufread::MultiGzDecoder::new(stream)),
            "bz2" => Box::new(bzip2::bufread::MultiBzDecoder::new(stream)),
            "zst" => {
                let mut decoder =
                    zstd::stream::read::Decoder::with_buffer(stream).map_err(|error| self.damaged(error))?;
                decoder.window_log_max(27).map_err(|error| self.damaged(error))?;
                Box::new(decoder)
            }
            "xz" | "lzma" => {
                let decoder = if self.threads > 1 && ending == "xz" {
                    let mut builder = MtStreamBuilder::new();
                    builder.threads(self.threads).memlimit_stop(MEMORY_LIMIT);
                    builder.memlimit_threading(PARALLEL_MEMORY_LIMIT).decoder()
                } else {
                    Stream::new_auto_decoder(MEMORY_LIMIT, CONCATENATED)
                };
                let decoder = decoder.map_err(|error| self.damaged(error.into()))?;
                Box::new(liblzma::bufread::XzDecoder::new_stream(stream, decoder))
            }
            other => {
                let error = io::Error::new(io::ErrorKind::Unsupported, format!("unknown compression `{other}`"));
                return Err(self.damaged(error));
            }
        })
    }
}

const NO_TARGET: &str = "it is a link to nothing";

pub(crate) fn walk(decoding: &Decoding<'_>, stream: &mut dyn Read, visitor: &mut dyn Visitor) -> Result<(), Failure> {
    let decoder = decoding.decoder(stream)?;
    let mut archive = tar::Archive::new(BufReader::with_capacity(1 << 20, decoder));
    let mut files = HashSet::new();
    // Path → text.
    let mut symlinks: HashMap<String, String> = HashMap::new();
    for entry in archive.entries().map_err(|error| decoding.damaged(error))? {
        let mut entry = entry.map_err(|error| decoding.damaged(error))?;
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::XGlobalHeader) {
            continue;
        }
        if let Some(member) = pax_sparse_name(&mut entry).map_err(|error| decoding.damaged(error))? {
            let archive = decoding.archive.display();
            let text = format!("`{member}` of `{archive}` is a sparse file in the PAX format, which is not supported");
            return Err(Failure::message(text).with_hint(PACK_WITHOUT_SPARSE));
        }
        let raw = entry.path_bytes().into_owned();
        // The format v7 has no type for directories.
        let kind = if kind == EntryType::Regular && raw.ends_with(b"/") { EntryType::Directory } else { kind };
        let path = checked_path(decoding, &raw)?;
        if let Some(reason) = unusable_name(&raw)
            && kind != EntryType::Directory
            && visitor.takes(&path)
        {
            return Err(decoding.refused(&raw, reason));
        }
        match kind {
            EntryType::Directory => {}
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                files.insert(path.clone());
                let executable = entry.header().mode().map_err(|error| decoding.damaged(error))? & 0o111 != 0;
                let size = entry.size();
                let mut content = TrackedReader::new(&mut entry);
                let result = visitor.file(&path, size, executable, &mut content);
                let failed = content.has_failed;
                result.map_err(|failure| {
                    let is_of_reading = failed && failure.chain().next().is_some_and(<dyn Error>::is::<io::Error>);
                    if is_of_reading { error::damaged(decoding.archive, &path, failure) } else { failure }
                })?;
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().ok_or_else(|| decoding.refused(&raw, NO_TARGET))?;
                if std::str::from_utf8(&target).is_err() && visitor.takes(&path) {
                    return Err(decoding.refused(&raw, "the text of the link is not UTF-8"));
                }
                let target = String::from_utf8_lossy(&target).into_owned();
                check_symlink(decoding, &raw, &path, &target)?;
                visitor.symlink(&path, &target)?;
                symlinks.insert(path, target);
            }
            EntryType::Link => {
                let target = entry.link_name_bytes().ok_or_else(|| decoding.refused(&raw, NO_TARGET))?;
                let target = checked_path(decoding, &target)?;
                if files.contains(&target) {
                    files.insert(path.clone());
                    visitor.hard_link(&path, &target)?;
                } else if let Some(text) = symlinks.get(&target).cloned() {
                    check_symlink(decoding, &raw, &path, &text)?;
                    visitor.symlink(&path, &text)?;
                    symlinks.insert(path, text);
                } else {
                    let reason = format!("it is another name of `{target}`, which does not come before it");
                    return Err(decoding.refused(&raw, &reason));
                }
            }
            EntryType::Char | EntryType::Block => return Err(decoding.refused(&raw, "it is a device")),
            EntryType::Fifo => return Err(decoding.refused(&raw, "it is a named pipe")),
            _ => return Err(decoding.refused(&raw, "it is neither file, directory nor link")),
        }
    }
    // A truncated stream is only detected at its end.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| decoding.damaged(error))?;
    Ok(())
}

/// Refuses a symbolic link that leads out of the archive. Absolute links refer to the root that the
/// archive is unpacked into.
fn check_symlink(decoding: &Decoding<'_>, raw: &[u8], path: &str, target: &str) -> Result<(), Failure> {
    if !target.starts_with('/') && leaves_tree(path, target, &Links::new()) {
        return Err(decoding.refused(raw, "it is a link that leads out of the archive"));
    }
    Ok(())
}

/// The reason why no file of an artifact may have this name; `None` if it may.
fn unusable_name(raw: &[u8]) -> Option<&'static str> {
    match std::str::from_utf8(raw) {
        Err(_) => Some("its name is not UTF-8"),
        Ok(text) if text.contains(['\0', '\n', '\\']) => Some("its name holds a character that no file here may have"),
        Ok(_) => None,
    }
}

/// A relative path without `./`; empty for the root. Text that is not UTF-8 has replacement
/// characters.
fn checked_path(decoding: &Decoding<'_>, raw: &[u8]) -> Result<String, Failure> {
    let text = String::from_utf8_lossy(raw);
    if text.starts_with('/') {
        return Err(decoding.refused(raw, "its path is absolute"));
    }
    let mut path = String::with_capacity(text.len());
    for part in text.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            return Err(decoding.refused(raw, "its path leads out of the archive"));
        }
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(part);
    }
    Ok(path)
}
