//! Input: code objects, one at a time. Output: a `.kpack` archive. Only the table of contents is
//! kept in memory.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

use rmp::encode;
use zstd::bulk::Compressor;

use super::{HEADER_SIZE, MAGIC, MAX_BLOBS, MAX_BLOBS_SIZE, Scheme, VERSION, WINDOW, describe, key, table};
use crate::error::Error;

/// A code object in the form in which an archive stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Size of the code object in bytes.
    pub original_size: u64,
    /// The stored bytes: the code object, or its zstd frame.
    pub bytes: Vec<u8>,
}

impl Blob {
    /// Compresses a code object according to `scheme`; `level` is zstd's (existing tools use 3).
    ///
    /// # Errors
    /// [`Error::WriteArchive`] if zstd has not enough memory.
    pub fn pack(code_object: &[u8], scheme: Scheme, level: i32) -> Result<Self, Error> {
        let bytes = match scheme {
            Scheme::None => code_object.to_vec(),
            Scheme::ZstdPerKernel => compress(code_object, level).map_err(Error::WriteArchive)?,
        };
        Ok(Self { original_size: code_object.len() as u64, bytes })
    }

    /// `true` for a code object of `size` bytes whose frame should be written with
    /// [`Blob::pack_to`], which needs less memory.
    pub fn is_large(size: u64, scheme: Scheme) -> bool {
        size >= LARGE as u64 && scheme == Scheme::ZstdPerKernel
    }

    /// Writes the bytes that [`Blob::pack`] would store of a large code object of `size` bytes.
    ///
    /// # Errors
    /// [`Error::WriteArchive`] if `code` or `out` fails, if `code` has another size, or if zstd has
    /// not enough memory.
    pub fn pack_to(code: &mut dyn Read, size: u64, level: i32, out: &mut dyn Write) -> Result<(), Error> {
        compress_large(code, size, level, out).map_err(Error::WriteArchive)
    }
}

/// A code object in the form in which an archive stores it, that is read when it is added.
pub struct StoredCode<'a> {
    /// Size of the code object in bytes.
    pub original_size: u64,
    /// Number of stored bytes.
    pub size: u64,
    /// The stored bytes.
    pub bytes: &'a mut dyn Read,
}

thread_local! {
    /// A compressor with its level, and a buffer for its result that is reused, because fresh pages
    /// for each code object cost time. The result does not depend on earlier code objects.
    static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>, Vec<u8>)>> = const { RefCell::new(None) };
}

/// Creates a compressor. Its frames end with a checksum of 4 bytes, which zstd itself compares when
/// it decompresses them, in the loader too.
fn compressor(level: i32) -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(level)?;
    compressor.include_checksum(true)?;
    Ok(compressor)
}

fn compress(bytes: &[u8], level: i32) -> io::Result<Vec<u8>> {
    if bytes.len() >= LARGE {
        let mut frame = Vec::new();
        compress_large(&mut &*bytes, bytes.len() as u64, level, &mut frame)?;
        return Ok(frame);
    }
    COMPRESSOR.with_borrow_mut(|kept| {
        let of_level = kept.take().filter(|(of, ..)| *of == level);
        let mut state = match of_level {
            Some(state) => state,
            None => (level, compressor(level)?, Vec::new()),
        };
        let (_, compressor, buffer) = &mut state;
        buffer.clear();
        buffer.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        compressor.compress_to_buffer(bytes, buffer)?;
        let frame = buffer.as_slice().to_vec();
        *kept = Some(state);
        Ok(frame)
    })
}

/// Code objects of at least this many bytes are compressed as a stream, because the reused buffer
/// would stay as large as the largest of them.
const LARGE: usize = 32 << 20;
/// Base-2 logarithm of the distance over which repetitions in large code objects are found. 64 MiB
/// make the one of librccl for gfx942 5 % smaller at level 3, for 40 % more time. The loader
/// decompresses a frame in one step, which takes any distance; streams take up to 27 by default.
const DISTANCE: u32 = 26;

fn compress_large(code: &mut dyn Read, size: u64, level: i32, out: &mut dyn Write) -> io::Result<()> {
    let mut encoder = zstd::stream::write::Encoder::new(out, level)?;
    encoder.include_checksum(true)?;
    encoder.include_contentsize(true)?;
    encoder.set_pledged_src_size(Some(size))?;
    encoder.long_distance_matching(true)?;
    encoder.window_log(DISTANCE)?;
    io::copy(&mut BufReader::with_capacity(WINDOW, code), &mut encoder)?;
    encoder.finish().map(drop)
}

/// Number and original size of the code object of each target.
type OfTargets = BTreeMap<String, (u64, u64)>;

/// Writes an archive. The same calls give the same bytes; the table of contents is sorted, the code
/// objects are in the order in which they were added.
#[derive(Debug)]
pub struct ArchiveWriter<W: Write + Seek> {
    out: W,
    group: String,
    family: String,
    targets: BTreeSet<String>,
    written_targets: Vec<String>,
    scheme: Scheme,
    kernels: BTreeMap<(String, Option<u32>), OfTargets>,
    /// Offset and size of each code object, in bytes.
    blobs: Vec<(u64, u64)>,
    position: u64,
}

impl<W: Write + Seek> ArchiveWriter<W> {
    /// Starts an archive at the beginning of `out`. The loader opens it for exactly the `targets`;
    /// they are written in the given order, and each must get a code object before
    /// [`ArchiveWriter::finish`].
    pub fn new(out: W, group: &str, family: &str, targets: &[String], scheme: Scheme) -> Result<Self, Error> {
        let set: BTreeSet<String> = targets.iter().cloned().collect();
        if set.len() != targets.len() || set.is_empty() || set.contains("") {
            return Err(refused("its targets must be named, each once"));
        }
        let (group, family, written_targets) = (group.to_owned(), family.to_owned(), targets.to_vec());
        let (kernels, blobs) = (BTreeMap::new(), Vec::new());
        let mut writer =
            Self { out, group, family, targets: set, written_targets, scheme, kernels, blobs, position: 0 };
        writer.put(&[0; HEADER_SIZE as usize])?;
        if scheme == Scheme::ZstdPerKernel {
            // The number of frames, which is known at the end.
            writer.put(&[0; 4])?;
        }
        Ok(writer)
    }

    /// Adds a code object. `name` comes from the binary's marker, `index` from its wrapper; it is
    /// `None` for code that was read without an index.
    pub fn add(&mut self, name: &str, index: impl Into<Option<u32>>, target: &str, blob: &Blob) -> Result<(), Error> {
        let (size, bytes) = (blob.bytes.len() as u64, &mut blob.bytes.as_slice());
        self.add_stored(name, index, target, StoredCode { original_size: blob.original_size, size, bytes })
    }

    /// Like [`ArchiveWriter::add`], for a code object that is not in memory.
    pub fn add_stored(
        &mut self,
        name: &str,
        index: impl Into<Option<u32>>,
        target: &str,
        code: StoredCode<'_>,
    ) -> Result<(), Error> {
        let StoredCode { original_size, size, bytes } = code;
        let index = index.into();
        if name.is_empty() || table::split(&key(name, index)) != (name.to_owned(), index) {
            return Err(refused(format!("`{}` cannot be a name in it", name.escape_debug())));
        }
        if !self.targets.contains(target) {
            return Err(refused(format!("{} is for none of its targets", describe(name, index, target))));
        }
        if self.scheme == Scheme::None && original_size != size {
            return Err(refused(format!("{} is compressed, and the archive is not", describe(name, index, target))));
        }
        let place = (name.to_owned(), index);
        if self.kernels.get(&place).is_some_and(|targets| targets.contains_key(target)) {
            return Err(refused(format!("it would have {} twice", describe(name, index, target))));
        }
        let ordinal = self.blobs.len() as u64;
        if ordinal == MAX_BLOBS {
            return Err(refused(format!(
                "it would have more than {MAX_BLOBS} code objects, which the loader does not take"
            )));
        }
        if self.scheme == Scheme::ZstdPerKernel {
            if self.position - HEADER_SIZE + 4 + size > MAX_BLOBS_SIZE {
                return Err(refused("it would have more than 4 GiB of code objects, which the loader does not take"));
            }
            let length = u32::try_from(size).map_err(|_| refused("a code object has more than 4 GiB"))?;
            self.put(&length.to_le_bytes())?;
        }
        self.blobs.push((self.position, size));
        let copied = io::copy(&mut bytes.take(size), &mut self.out).map_err(Error::WriteArchive)?;
        if copied < size {
            return Err(Error::WriteArchive(io::ErrorKind::UnexpectedEof.into()));
        }
        self.position += copied;
        self.kernels.entry(place).or_default().insert(target.to_owned(), (ordinal, original_size));
        Ok(())
    }

    /// Returns the number of bytes written so far.
    pub fn size(&self) -> u64 {
        self.position
    }

    /// Writes the table of contents and the header.
    ///
    /// # Errors
    /// [`Error::NoArchive`] if a target has no code object: the loader would open the archive for
    /// it and fail.
    pub fn finish(mut self) -> Result<W, Error> {
        let used: BTreeSet<&String> = self.kernels.values().flat_map(BTreeMap::keys).collect();
        if let Some(unused) = self.targets.iter().find(|target| !used.contains(target)) {
            return Err(refused(format!("it has no code object for its target `{unused}`")));
        }
        let table_offset = self.position;
        let table = self.table().map_err(Error::WriteArchive)?;
        self.put(&table)?;
        self.header(table_offset).map_err(Error::WriteArchive)?;
        Ok(self.out)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(Error::WriteArchive)?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn header(&mut self, table_offset: u64) -> io::Result<()> {
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(MAGIC)?;
        self.out.write_all(&VERSION.to_le_bytes())?;
        self.out.write_all(&table_offset.to_le_bytes())?;
        if self.scheme == Scheme::ZstdPerKernel {
            self.out.seek(SeekFrom::Start(HEADER_SIZE))?;
            self.out.write_all(&(self.blobs.len() as u32).to_le_bytes())?;
        }
        self.out.seek(SeekFrom::Start(self.position))?;
        self.out.flush()
    }

    /// Returns the table with its keys in the order of existing tools (spec 2).
    fn table(&self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let fields = match self.scheme {
            Scheme::None => 7,
            Scheme::ZstdPerKernel => 8,
        };
        encode::write_map_len(&mut out, fields)?;
        put_number(&mut out, "format_version", u64::from(VERSION))?;
        put_text(&mut out, "group_name", &self.group)?;
        put_text(&mut out, "gfx_arch_family", &self.family)?;
        encode::write_str(&mut out, "gfx_arches")?;
        encode::write_array_len(&mut out, length(self.written_targets.len())?)?;
        for target in &self.written_targets {
            encode::write_str(&mut out, target)?;
        }
        encode::write_str(&mut out, "toc")?;
        encode::write_map_len(&mut out, length(self.kernels.len())?)?;
        for ((name, index), targets) in &self.kernels {
            encode::write_str(&mut out, &key(name, *index))?;
            encode::write_map_len(&mut out, length(targets.len())?)?;
            for (target, (ordinal, original_size)) in targets {
                encode::write_str(&mut out, target)?;
                encode::write_map_len(&mut out, 3)?;
                put_text(&mut out, "type", "hsaco")?;
                put_number(&mut out, "ordinal", *ordinal)?;
                put_number(&mut out, "original_size", *original_size)?;
            }
        }
        put_text(&mut out, "compression_scheme", self.scheme.name())?;
        match self.scheme {
            Scheme::None => {
                encode::write_str(&mut out, "blobs")?;
                encode::write_array_len(&mut out, length(self.blobs.len())?)?;
                for (offset, size) in &self.blobs {
                    encode::write_map_len(&mut out, 2)?;
                    put_number(&mut out, "offset", *offset)?;
                    put_number(&mut out, "size", *size)?;
                }
            }
            Scheme::ZstdPerKernel => {
                put_number(&mut out, "zstd_offset", HEADER_SIZE)?;
                put_number(&mut out, "zstd_size", self.position - HEADER_SIZE)?;
            }
        }
        Ok(out)
    }
}

fn put_text(out: &mut Vec<u8>, key: &str, value: &str) -> io::Result<()> {
    encode::write_str(out, key)?;
    Ok(encode::write_str(out, value)?)
}

fn put_number(out: &mut Vec<u8>, key: &str, value: u64) -> io::Result<()> {
    encode::write_str(out, key)?;
    encode::write_uint(out, value)?;
    Ok(())
}

fn length(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(io::Error::other)
}

fn refused(reason: impl Into<String>) -> Error {
    Error::NoArchive { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_code_object_is_one_frame_that_repeats_from_afar() {
        let mut state = 1_u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let half: Vec<u8> = noise.take(LARGE / 2 + 5).collect();
        let code = [half.as_slice(), half.as_slice()].concat();
        let is_large = |code: &[u8]| Blob::is_large(code.len() as u64, Scheme::ZstdPerKernel);
        assert!(is_large(&code) && !is_large(&half));
        let blob = Blob::pack(&code, Scheme::ZstdPerKernel, 3).unwrap();
        assert!(blob.bytes.len() < half.len() + half.len() / 50, "{} of {}", blob.bytes.len(), half.len());
        let mut written = Vec::new();
        // A stream whose pieces have nothing to do with zstd's blocks.
        let mut pieces = code[..1_000_003].chain(&code[1_000_003..]);
        Blob::pack_to(&mut pieces, code.len() as u64, 3, &mut written).unwrap();
        assert!(written == blob.bytes, "the two ways store other bytes");
        let cut = Blob::pack_to(&mut half.as_slice(), code.len() as u64, 3, &mut Vec::new());
        assert!(matches!(cut, Err(Error::WriteArchive(_))), "a stream that is too short");
        // As the loader does: in one step, into a buffer of the size in the table.
        assert!(zstd::bulk::decompress(&blob.bytes, code.len()).unwrap() == code);
        assert!(zstd::stream::decode_all(blob.bytes.as_slice()).unwrap() == code);
    }
}
