//! Input: an archive of AOTriton (`.aks2`). Output: its code objects, one after the other.
//!
//! AOTriton's `packed_kernel.cc` has the format. 16 bytes are the header: the magic, the size of
//! the unpacked data, the number of images and the size of the directory. An xz stream follows, of
//! the directory and the images. A row of the directory has five numbers and a name that ends in a
//! zero byte: shared memory, threads, offset behind the directory, size, and length of the name.
//! All numbers are little endian with 32 bits.

use std::io::{self, BufReader, Read};

use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use positioned_io::{Cursor, ReadAt, Slice};

use crate::archive::share;
use crate::error::Error;

/// The first bytes of an archive.
pub const MAGIC: [u8; 4] = *b"AKS2";

/// Memory limit of the xz decoder in bytes; level 9 needs 65 MiB.
pub const XZ_MEMORY: u64 = 128 << 20;

/// Size of the header in bytes.
const HEADER: u64 = 16;
/// Numbers of a row of the directory, in bytes.
const ROW: usize = 20;
/// Limits in bytes. Real directories have 21 kB, real images 80 kB.
const MOST_DIRECTORY: u64 = 64 << 20;
const MOST_IMAGE: u64 = 256 << 20;

/// The header of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageArchive {
    /// Size of the archive in bytes.
    pub size: u64,
    /// Size of the directory and all images, unpacked, in bytes.
    pub uncompressed: u64,
    images: usize,
    directory: u64,
}

/// One image of an archive: the code of a kernel for one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelImage {
    /// The name, which states kernel, variant and target.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Its share of the archive in bytes.
    pub stored: u64,
    offset: u64,
}

impl ImageArchive {
    /// Reads the header of an archive of `size` bytes.
    ///
    /// # Errors
    /// [`Error::Images`] for a file that is not an archive, or whose header is cut off.
    pub fn open(reader: &dyn ReadAt, size: u64) -> Result<Self, Error> {
        let mut header = [0; HEADER as usize];
        if size < HEADER {
            return Err(malformed(format!("it has {size} bytes, and its header alone has {HEADER}")));
        }
        reader.read_exact_at(0, &mut header).map_err(Error::ReadImages)?;
        if header[..4] != MAGIC {
            return Err(malformed(format!("it starts with `{}`", header[..4].escape_ascii())));
        }
        let [uncompressed, images, directory] = [1, 2, 3].map(|index| u64::from(number(&header, index)));
        if directory > uncompressed || directory > MOST_DIRECTORY || images * ROW as u64 > directory {
            let reason = format!("a directory of {directory} bytes for {images} images, {uncompressed} bytes in all");
            return Err(malformed(reason));
        }
        Ok(Self { size, uncompressed, images: images as usize, directory })
    }

    /// Calls `each` with every image and its bytes, in the order of the archive. One image is in
    /// memory at a time. Kernels without an image, which AOTriton could not compile, are skipped.
    ///
    /// # Errors
    /// Those of `each`; [`Error::Images`] and [`Error::ReadImages`] for a damaged archive. Damage
    /// may only be detected at the end, after the last call of `each`.
    pub fn visit<E: From<Error>>(
        &self,
        reader: &dyn ReadAt,
        mut each: impl FnMut(&KernelImage, &Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let packed = Slice::new(reader, HEADER, Some(self.size.saturating_sub(HEADER)));
        let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED).map_err(|error| failed(error.into()))?;
        let mut stream = XzDecoder::new_stream(BufReader::with_capacity(1 << 16, Cursor::new(packed)), stream);
        let (mut position, mut bytes) = (0, Vec::new());
        for image in self.read_directory(&mut stream)? {
            let Some(gap) = image.offset.checked_sub(position) else {
                let name = image.name.escape_debug();
                return Err(malformed(format!("the image `{name}` overlaps the one before it")).into());
            };
            skip(&mut stream, gap)?;
            read(&mut stream, image.size, &mut bytes)?;
            position = image.offset + image.size;
            each(&image, &bytes)?;
        }
        let rest = io::copy(&mut stream.take(self.uncompressed + 1), &mut io::sink()).map_err(failed)?;
        let unpacked = (self.directory + position).saturating_add(rest);
        if unpacked != self.uncompressed {
            let reason = format!("it has {unpacked} bytes unpacked, and its header says {}", self.uncompressed);
            return Err(malformed(reason).into());
        }
        Ok(())
    }

    /// Reads the rows of images that have bytes, by their offsets.
    fn read_directory(&self, stream: &mut impl Read) -> Result<Vec<KernelImage>, Error> {
        let mut directory = Vec::new();
        read(stream, self.directory, &mut directory)?;
        let mut rest = directory.as_slice();
        let mut images = Vec::new();
        for row in 0..self.images {
            let (numbers, behind) = rest.split_at_checked(ROW).ok_or_else(|| row_is_cut(row))?;
            let [offset, size, length] = [2, 3, 4].map(|index| number(numbers, index));
            let (name, behind) = behind.split_at_checked(length as usize).ok_or_else(|| row_is_cut(row))?;
            rest = behind;
            let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
            let (offset, size) = (u64::from(offset), u64::from(size));
            if size > MOST_IMAGE || self.directory + offset + size > self.uncompressed {
                let name = name.escape_debug();
                return Err(malformed(format!("the image `{name}` has {size} bytes at offset {offset}")));
            }
            images.push(KernelImage { name, size, stored: 0, offset });
        }
        images.retain(|image| image.size > 0);
        images.sort_by_key(|image| image.offset);
        let total = images.iter().map(|image| image.size).sum();
        let mut seen = 0;
        for image in &mut images {
            // The difference between two running sums, so that all shares add up to the whole.
            let before = share(self.size, seen, total);
            seen += image.size;
            image.stored = share(self.size, seen, total) - before;
        }
        Ok(images)
    }
}

/// Reads `size` bytes into `bytes`, which grow as they arrive.
fn read(stream: &mut impl Read, size: u64, bytes: &mut Vec<u8>) -> Result<(), Error> {
    bytes.clear();
    let count = stream.take(size).read_to_end(bytes).map_err(failed)?;
    if count as u64 == size { Ok(()) } else { Err(failed(io::ErrorKind::UnexpectedEof.into())) }
}

fn skip(stream: &mut impl Read, size: u64) -> Result<(), Error> {
    let count = io::copy(&mut stream.take(size), &mut io::sink()).map_err(failed)?;
    if count == size { Ok(()) } else { Err(failed(io::ErrorKind::UnexpectedEof.into())) }
}

/// The number with this index; 0 if the bytes are too short.
fn number(bytes: &[u8], index: usize) -> u32 {
    bytes.as_chunks::<4>().0.get(index).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn failed(error: io::Error) -> Error {
    Error::ReadImages(error)
}

fn malformed(reason: impl Into<String>) -> Error {
    Error::Images { reason: reason.into() }
}

fn row_is_cut(row: usize) -> Error {
    malformed(format!("row {row} of its directory is cut"))
}
