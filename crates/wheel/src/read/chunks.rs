//! Input: a member whose stream [`crate::write_wheel`] may have made. Output: where its chunks
//! begin, one of them unpacked, or the hash of all of it, unpacked by all threads of the pool.

use std::io;

use libdeflater::Decompressor;
use memchr::memmem;
use positioned_io::ReadAt as _;

use super::unpack::{Fault, Packed};
use crate::Error;
use crate::archive::CHUNK;
use crate::record::{Algorithm, Hash};

/// How a part of a stream ends that more follows (an empty stored block), and a block that ends a
/// stream.
const MARK: [u8; 4] = [0, 0, 0xff, 0xff];
const END: [u8; 5] = [1, 0, 0, 0xff, 0xff];

impl Packed<'_> {
    /// Where the chunks begin, if there are as many marks as a stream of ours has. The bytes of a
    /// mark can be in other streams too, and in ours by chance; then their number is not right, or
    /// the chunks are not as long as ours.
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
            // A mark may lie across the end of the window; one that ends there has been seen.
            position = (position + (length + 1 - MARK.len()) as u64).max(last);
        }
        starts.push(self.listed.compressed);
        Ok((starts.len() == count + 1).then_some(starts))
    }

    /// One chunk of a stream of ours; `None` when it is none after all.
    pub(super) fn chunk(&self, starts: &[u64], number: usize) -> io::Result<Option<Vec<u8>>> {
        let (start, end) = (starts[number], starts[number + 1]);
        let mut packed = vec![0; (end - start) as usize];
        self.window().read_exact_at(start, &mut packed)?;
        let is_last = number + 2 == starts.len();
        if !is_last {
            packed.extend_from_slice(&END);
        }
        let from = number as u64 * CHUNK as u64;
        let mut unpacked = vec![0; (self.listed.size - from).min(CHUNK as u64) as usize];
        let length = Decompressor::new().deflate_decompress(&packed, &mut unpacked);
        Ok((length == Ok(unpacked.len())).then_some(unpacked))
    }

    /// The hash of the member, whose chunks are unpacked by several threads while this one hashes:
    /// of a large library three quarters of the time is unpacking. `None` when a chunk is none
    /// after all, or the checksum is another one: then [`Packed::each`] says what is wrong with the
    /// stream.
    pub(super) fn hash_of_chunks(&self, starts: &[u64], algorithm: Algorithm) -> Result<Option<Hash>, Error> {
        let mut context = ring::digest::Context::new(algorithm);
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
                        context.update(&bytes);
                    }
                    _ => is_whole = false,
                }
                Ok::<_, Error>(())
            },
        )?;
        is_whole &= crc32.finalize() == self.listed.crc32;
        Ok(is_whole.then(|| Hash::new(context.finish())))
    }
}
