//! Input: an [`Image`]. Output: the number of dynamic symbols and the sizes of their hash tables.
//! Without section headers, only the hash tables themselves contain these numbers.

use object::elf;
use object::endian::{Endianness, U32};

use crate::Error;
use crate::image::Image;
use crate::source::{Source, cast};

const WHAT: &str = "symbol hash table";
/// Largest number of symbols in a chain, which holds the symbols of one bucket; real chains have a
/// handful.
const CHAIN_LIMIT: usize = 1 << 16;

/// Returns the number of dynamic symbols, from the section headers or else from a hash table.
pub(crate) fn count(image: &Image, source: Source<'_>) -> Result<Option<u64>, Error> {
    if let Some(section) = image.sections.iter().find(|section| section.kind == elf::SHT_DYNSYM.0) {
        return Ok(Some(section.size / image.symbol_size()));
    }
    count_hashed(image, source)
}

/// Returns the number of dynamic symbols of the table at `address` (DT_SYMTAB), from the section
/// header of that table or else from a hash table; `None` if all symbols are needed ones, which
/// `.gnu.hash` does not count.
pub(crate) fn dynamic_count(image: &Image, source: Source<'_>, address: u64) -> Result<Option<u64>, Error> {
    let mut tables = image.sections.iter().filter(|section| section.kind == elf::SHT_DYNSYM.0);
    match tables.find(|section| section.address == address && section.size > 0) {
        Some(section) => Ok(Some(section.size / image.symbol_size())),
        None => count_hashed(image, source),
    }
}

fn count_hashed(image: &Image, source: Source<'_>) -> Result<Option<u64>, Error> {
    if let Some(offset) = place(image, elf::DT_HASH) {
        return Ok(Some(number(image, source, offset.saturating_add(4))?));
    }
    Ok(gnu(image, source)?.and_then(|(_, count)| count))
}

/// Returns the size of DT_HASH in bytes.
pub(crate) fn hash_size(image: &Image, source: Source<'_>) -> Result<Option<u64>, Error> {
    let Some(offset) = place(image, elf::DT_HASH) else { return Ok(None) };
    Ok(Some((2 + number(image, source, offset)? + number(image, source, offset + 4)?) * 4))
}

/// Returns the size of DT_GNU_HASH in bytes.
pub(crate) fn gnu_hash_size(image: &Image, source: Source<'_>) -> Result<Option<u64>, Error> {
    Ok(gnu(image, source)?.map(|(size, _)| size))
}

fn place(image: &Image, tag: elf::DynamicTag) -> Option<u64> {
    let address = image.dynamic_value(tag)?;
    image.offset_of(address)
}

fn number(image: &Image, source: Source<'_>, offset: u64) -> Result<u64, Error> {
    let word: U32<Endianness> = cast(&source.bytes(offset, 4, WHAT)?, WHAT)?;
    Ok(word.get(image.endian).into())
}

/// Returns the size of the GNU hash table and, if a symbol is exported, the number of symbols,
/// which is the last chain's end.
fn gnu(image: &Image, source: Source<'_>) -> Result<Option<(u64, Option<u64>)>, Error> {
    let Some(offset) = place(image, elf::DT_GNU_HASH) else { return Ok(None) };
    let header: elf::GnuHashHeader<Endianness> =
        cast(&source.bytes(offset, size_of::<elf::GnuHashHeader<Endianness>>() as u64, WHAT)?, WHAT)?;
    let base = u64::from(header.symbol_base.get(image.endian));
    let word = if image.is_64 { 8 } else { 4 };
    let buckets_start = 16 + word * u64::from(header.bloom_count.get(image.endian));
    let buckets_size = 4 * u64::from(header.bucket_count.get(image.endian));
    let buckets = source.bytes(offset.saturating_add(buckets_start), buckets_size, WHAT)?;
    let buckets = buckets.chunks_exact(4).filter_map(|bytes| cast::<U32<Endianness>>(bytes, WHAT).ok());
    let chains_start = buckets_start + buckets_size;
    let Some(mut symbol) = buckets.map(|bucket| u64::from(bucket.get(image.endian))).max().filter(|&last| last >= base)
    else {
        return Ok(Some((chains_start, None)));
    };
    for _ in 0..CHAIN_LIMIT {
        let place = offset.saturating_add(chains_start + (symbol - base) * 4);
        symbol += 1;
        if number(image, source, place)? & 1 != 0 {
            return Ok(Some((chains_start + (symbol - base) * 4, Some(symbol))));
        }
    }
    Err(Error::malformed(WHAT, format!("a chain of more than {CHAIN_LIMIT} symbols")))
}
