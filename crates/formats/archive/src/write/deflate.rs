//! Input: a chunk of a member. Output: its part of the member's deflate stream. Parts can be made
//! independently and in parallel; concatenated they are one valid stream.

use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::blocks;
use crate::level::Level;

/// A member larger than this many bytes is cut into chunks of this size. Matches do not cross a
/// cut, which costs 0.02 %.
pub(crate) const CHUNK: usize = 4 << 20;

/// The largest stored block in bytes.
const STORED: usize = u16::MAX as usize;

/// The position of a part in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// More parts follow.
    Inner,
    /// It ends the stream.
    Last,
}

/// libdeflate's level for ours; `None` if nothing is compressed.
///
/// Measured on Debian trixie's ROCm, 3922 MB in 4 MiB chunks, on one core of a 2.5 GHz Xeon:
///
/// | libdeflate | MB/s | MB |
/// | --- | --- | --- |
/// | 1 | 139 | 1087.5 |
/// | 2 | 95 | 1058.8 |
/// | 3 | 96 | 1050.3 |
/// | 4 | 94 | 1043.2 |
/// | 5 | 88 | 1027.0 |
/// | 6 | 76 | 1019.4 |
/// | 7 | 72 | 1015.8 |
/// | 9 | 38 | 1013.4 |
/// | zlib 6 | 34 | 1027.4 |
///
/// 10 makes 1.3 % less than 9 at 8 MB/s, 12 another 0.4 % at 4 MB/s. The ideal choice of a level
/// for every chunk, with full knowledge of sizes and times, would be 9 % faster than 5 at the same
/// size, which is not worth the guesses.
pub(crate) fn level_number(level: Level) -> Option<u8> {
    match level {
        Level::None => None,
        Level::Fast => Some(1),
        Level::Default => Some(5),
        Level::Small => Some(6),
        Level::Best => Some(10),
    }
}

/// A compressor for a level; `None` if nothing is compressed.
pub(crate) fn compressor(level: Level) -> Option<Compressor> {
    let number = level_number(level)?;
    Some(Compressor::new(CompressionLvl::new(i32::from(number)).unwrap_or_default()))
}

/// A block that ends a stream.
const END: [u8; 5] = [1, 0, 0, 0xff, 0xff];

/// Unpacks a part of a stream. `true` if it has as many bytes as `output`. The part is a vector
/// because it gets an end while it is unpacked.
pub(crate) fn unpack_part(part: &mut Vec<u8>, place: Place, output: &mut [u8]) -> bool {
    let length = part.len();
    if place == Place::Inner {
        part.extend_from_slice(&END);
    }
    let unpacked = Decompressor::new().deflate_decompress(part, output);
    part.truncate(length);
    unpacked == Ok(output.len())
}

/// Compresses `input` to its part of the stream and puts that into `output`.
pub(crate) fn part(compressor: &mut Compressor, input: &[u8], place: Place, output: &mut Vec<u8>) {
    output.resize(input.len(), 0);
    match compressor.deflate_compress(input, output) {
        Ok(length) => output.truncate(length),
        // The input does not shrink.
        Err(_) => return stored(input, place, output),
    }
    if place == Place::Last {
        return;
    }
    let Some(last) = blocks::find_last_block(output, input).or_else(|| blocks::last_block(output)) else {
        debug_assert!(false, "the compressor's own stream can be walked");
        return stored(input, place, output);
    };
    output[last.header / 8] &= !(1 << (last.header % 8));
    // An empty stored block ends at a byte boundary: three zero bits, zero bits up to the next
    // byte, lengths. If fewer than three bits are left in the last byte, its header begins there
    // and ends in the next byte.
    if output.len() * 8 - last.end < 3 {
        output.push(0);
    }
    output.extend_from_slice(&[0, 0, 0xff, 0xff]);
}

/// Puts the bytes into stored blocks.
fn stored(input: &[u8], place: Place, output: &mut Vec<u8>) {
    output.clear();
    let count = input.len().div_ceil(STORED).max(1);
    output.reserve(input.len() + 5 * count);
    for index in 0..count {
        let block = &input[index * STORED..input.len().min((index + 1) * STORED)];
        let is_last = index + 1 == count && place == Place::Last;
        let length = block.len() as u16;
        output.push(u8::from(is_last));
        output.extend_from_slice(&length.to_le_bytes());
        output.extend_from_slice(&(!length).to_le_bytes());
        output.extend_from_slice(block);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    fn join(chunks: &[Vec<u8>], level: Level) -> Vec<u8> {
        let mut compressor = compressor(level).unwrap();
        let mut stream = Vec::new();
        for (index, chunk) in chunks.iter().enumerate() {
            let place = if index + 1 == chunks.len() { Place::Last } else { Place::Inner };
            let mut output = Vec::new();
            part(&mut compressor, chunk, place, &mut output);
            stream.extend(output);
        }
        stream
    }

    fn assert_reads(stream: &[u8], expected: &[u8]) {
        let mut by_zlib = Vec::new();
        flate2::read::DeflateDecoder::new(stream).read_to_end(&mut by_zlib).unwrap();
        assert!(by_zlib == expected);
        let mut by_libdeflate = vec![0; expected.len()];
        let length = libdeflater::Decompressor::new().deflate_decompress(stream, &mut by_libdeflate).unwrap();
        assert!(length == expected.len() && by_libdeflate == expected);
    }

    /// Text, noise and zeros in turn, so that chunks end in blocks of all three types.
    fn mixture(length: usize, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let run = (state >> 40) as usize % 5000;
            match (state >> 33) % 3 {
                0 => bytes.extend(std::iter::repeat_n(0, run * 20)),
                1 => bytes.extend((0..run).map(|index| b"the quick brown fox, "[(index * index / 7) % 21])),
                _ => {
                    bytes
                        .extend((0..run).map(|index| (state.rotate_left(index as u32 % 64) >> 11) as u8 ^ index as u8));
                }
            }
        }
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn parts_of_every_size_join() {
        for level in [Level::Fast, Level::Default] {
            for length in [0, 1, 2, 3, 100, 65535, 65536, CHUNK - 1, CHUNK] {
                let chunks = [mixture(length, 7), mixture(length, 99), mixture(length.min(70_000), 5)];
                assert_reads(&join(&chunks, level), &chunks.concat());
            }
        }
    }

    #[test]
    fn bytes_that_do_not_shrink_are_stored_in_blocks() {
        let mut noise = Vec::new();
        let mut state = 1_u64;
        while noise.len() < 200_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            noise.extend_from_slice(&state.to_le_bytes());
        }
        let stream = join(&[noise.clone(), noise.clone()], Level::Default);
        assert!(stream.len() < 2 * noise.len() + 100, "{}", stream.len());
        assert_reads(&stream, &noise.repeat(2));
    }

    #[test]
    fn a_last_block_that_is_found_is_the_one() {
        let mut compressor = compressor(Level::Default).unwrap();
        let mut found = 0;
        for seed in 0..60 {
            let input = mixture(20_000 + seed * 7919, seed as u64);
            let mut stream = Vec::new();
            part(&mut compressor, &input, Place::Last, &mut stream);
            let last = blocks::last_block(&stream);
            if let Some(place) = blocks::find_last_block(&stream, &input) {
                assert_eq!(Some(place), last, "seed {seed}");
                found += 1;
            }
            // The end of another input differs from the end of this one.
            let other: Vec<u8> = input.iter().map(|byte| byte ^ 1).collect();
            assert_eq!(blocks::find_last_block(&stream, &other), None);
        }
        assert!(found > 20, "{found}");
    }

    #[test]
    fn what_is_cut_or_wrong_is_no_stream() {
        let stream = join(&[mixture(300_000, 3)], Level::Default);
        assert!(blocks::last_block(&stream).is_some());
        for length in (0..stream.len()).step_by(stream.len() / 97) {
            assert_eq!(blocks::last_block(&stream[..length]), None, "cut to {length}");
        }
        assert_eq!(blocks::last_block(&[7, 0, 0]), None);
    }

    proptest! {
        #[test]
        fn any_chunks_join(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3000), 1..6)) {
            assert_reads(&join(&chunks, Level::Default), &chunks.concat());
        }

        #[test]
        fn mixtures_join(seeds in proptest::collection::vec((any::<u64>(), 0..40_000_usize), 1..5)) {
            let chunks: Vec<Vec<u8>> = seeds.iter().map(|(seed, length)| mixture(*length, *seed)).collect();
            assert_reads(&join(&chunks, Level::Default), &chunks.concat());
        }

        #[test]
        fn a_walk_over_anything_ends(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let _ = blocks::last_block(&bytes);
        }
    }
}
