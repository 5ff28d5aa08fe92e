//! Input: a member whose stream [`crate::ZipWriter`] may have made. Output: the positions of its
//! chunks, a single unpacked chunk, or all bytes, unpacked by all threads of the pool.

use std::io;

use memchr::memmem;
use positioned_io::ReadAt as _;

use super::unpack::Packed;
use crate::Error;
use crate::fault::Fault;
use crate::write::{CHUNK, Place, unpack_part};

/// The end of each part of a stream except the last one: an empty stored block.
const MARK: [u8; 4] = [0, 0, 0xff, 0xff];

impl Packed<'_> {
    /// The positions of the chunks, if the number of marks is that of a stream made by this crate.
    /// The bytes of a mark can occur in other streams too, and in our own by chance. Then their
    /// number is wrong, or the chunks do not have the length of ours.
    pub(super) fn chunks(&self) -> io::Result<Option<Vec<u64>>> {
        if self.check_form().is_err() || self.listed.method == 0 {
            return Ok(None);
        }
        let count = self.listed.size.div_ceil(CHUNK as u64) as usize;
        let longest = (CHUNK + CHUNK / 256) as u64;
        let finder = memmem::Finder::new(&MARK);
        let packed = self.window();
        let mut starts = vec![0];
        let mut window = vec![0; 1 << 20];
        let mut position = 0;
        while position < self.listed.compressed {
            let length = (self.listed.compressed - position).min(window.len() as u64) as usize;
            packed.read_exact_at(position, &mut window[..length])?;
            for found in finder.find_iter(&window[..length]) {
                let start = position + (found + MARK.len()) as u64;
                if start < self.listed.compressed {
                    starts.push(start);
                }
            }
            let last = starts[starts.len() - 1];
            if starts.len() > count || position + length as u64 - last > longest {
                return Ok(None);
            }
            if position + length as u64 == self.listed.compressed {
                break;
            }
            // A mark may cross the end of the window; one that ends at the end has been found.
            position = (position + (length + 1 - MARK.len()) as u64).max(last);
        }
        starts.push(self.listed.compressed);
        Ok((starts.len() == count + 1).then_some(starts))
    }

    /// Unpacks one chunk of a stream made by this crate; `None` if it turns out not to be one.
    pub(super) fn chunk(&self, starts: &[u64], number: usize) -> io::Result<Option<Vec<u8>>> {
        let (start, end) = (starts[number], starts[number + 1]);
        let mut packed = vec![0; (end - start) as usize];
        self.window().read_exact_at(start, &mut packed)?;
        let place = if number + 2 == starts.len() { Place::Last } else { Place::Inner };
        let from = number as u64 * CHUNK as u64;
        let mut unpacked = vec![0; (self.listed.size - from).min(CHUNK as u64) as usize];
        Ok(unpack_part(&mut packed, place, &mut unpacked).then_some(unpacked))
    }

    /// Passes the bytes to `sink` in order, while several threads unpack the chunks: unpacking is
    /// three quarters of the time that it takes to hash a large library. `false` if a chunk turns
    /// out not to be one, or if the checksum differs: then [`Packed::each`] reports the problem of
    /// the stream.
    pub(super) fn each_chunk(&self, starts: &[u64], mut sink: impl FnMut(&[u8])) -> Result<bool, Error> {
        let mut crc32 = crc32fast::Hasher::new();
        let mut is_whole = true;
        rocwheel_pipeline::ordered(
            0..starts.len() - 1,
            |number| {
                let bytes = self.chunk(starts, number).map_err(|error| self.error(Fault::Read(error)))?;
                let crc32 = bytes.as_deref().map(|bytes| {
                    let mut crc32 = crc32fast::Hasher::new();
                    crc32.update(bytes);
                    crc32
                });
                Ok(bytes.zip(crc32))
            },
            |done| {
                match done {
                    Some((bytes, of_chunk)) if is_whole => {
                        crc32.combine(&of_chunk);
                        sink(&bytes);
                    }
                    _ => is_whole = false,
                }
                Ok::<_, Error>(())
            },
        )?;
        Ok(is_whole && crc32.finalize() == self.listed.crc32)
    }
}
