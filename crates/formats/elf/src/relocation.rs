//! Input: a random-access file. Output: the words of data that the loader fills with addresses, and
//! these addresses: the entries of DT_RELA and the words of DT_RELR, whose addends are in place.

use object::elf;
use positioned_io::ReadAt;

use crate::Error;
use crate::dynamic_symbols::visit_symbols;
use crate::image::Image;
use crate::source::Source;

/// Bytes in a window, in which relocations are read; a multiple of the size of every kind of entry.
const WINDOW: u64 = 24 << 11;
const RELA_SIZE: u64 = 24;
const SYMBOL_SIZE: u64 = 24;
const WORD: u64 = 8;
const PACKED: &str = "packed relocation table";

/// A word that the loader writes when it loads the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// Virtual address of the word.
    pub address: u64,
    /// The value that the loader writes.
    pub value: RelocatedValue,
    /// The place of the relocation in the file.
    pub record: RelocationRecord,
}

/// The value that the loader writes into a relocated word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelocatedValue {
    /// The load address of the file plus this, a virtual address of the file.
    Relative(u64),
    /// The address of a symbol plus `addend` (`R_X86_64_64`).
    Symbol {
        /// Index of the symbol in the dynamic symbol table.
        index: u32,
        /// Added to the symbol's address.
        addend: i64,
    },
    /// Another type of relocation: copies, thread-local offsets, functions called to find the
    /// address.
    Other,
}

/// The place of a relocation in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelocationRecord {
    /// An `Elf64_Rela` at this offset of the file.
    Rela(u64),
    /// A bit or word of DT_RELR; the addend is the word itself.
    Packed,
}

/// Calls `each` for every dynamic relocation of a 64-bit x86-64 file, in the order of the file.
/// Files without dynamic section have none.
///
/// # Errors
/// [`Error::NotElf`], [`Error::Machine`], and [`Error::Truncated`] or [`Error::Malformed`] for
/// tables that leave their segment; an error of `each` ends the walk.
pub fn relocations(reader: &dyn ReadAt, each: &mut dyn FnMut(&Relocation) -> Result<(), Error>) -> Result<(), Error> {
    let source = Source { reader };
    let image = Image::read(source)?.ok_or(Error::NotElf)?;
    visit(&image, source, each)
}

pub(crate) fn visit(
    image: &Image,
    source: Source<'_>,
    each: &mut dyn FnMut(&Relocation) -> Result<(), Error>,
) -> Result<(), Error> {
    crate::plan::check_machine(image)?;
    let Some((offset, size)) = table(image, elf::DT_RELA, elf::DT_RELASZ, "relocation table")? else {
        return packed(image, source, each);
    };
    let mut start = 0;
    while start < size {
        let bytes = source.bytes(offset + start, WINDOW.min(size - start), "relocation table")?;
        for (index, entry) in bytes.chunks_exact(RELA_SIZE as usize).enumerate() {
            let info = word(entry, 8);
            let addend = word(entry, 16);
            let value = match elf::RelocationType(info as u32) {
                elf::R_X86_64_RELATIVE => RelocatedValue::Relative(addend),
                elf::R_X86_64_64 => RelocatedValue::Symbol { index: (info >> 32) as u32, addend: addend.cast_signed() },
                _ => RelocatedValue::Other,
            };
            let place = offset + start + index as u64 * RELA_SIZE;
            each(&Relocation { address: word(entry, 0), value, record: RelocationRecord::Rela(place) })?;
        }
        start += bytes.len() as u64;
    }
    packed(image, source, each)
}

/// Reads DT_RELR: an even word is an address; an odd one has a bit for each of the 63 words that
/// follow.
fn packed(
    image: &Image,
    source: Source<'_>,
    each: &mut dyn FnMut(&Relocation) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some((offset, size)) = table(image, elf::DT_RELR, elf::DT_RELRSZ, PACKED)? else { return Ok(()) };
    let mut words = Words { image, source, address: 0, bytes: Vec::new() };
    let (mut start, mut next) = (0, 0u64);
    while start < size {
        let bytes = source.bytes(offset + start, WINDOW.min(size - start), PACKED)?;
        for entry in bytes.chunks_exact(WORD as usize).map(|entry| word(entry, 0)) {
            if entry & 1 == 0 {
                each(&words.relocation(entry)?)?;
                next = checked_address(entry, 1)?;
            } else {
                for bit in (0..63).filter(|bit| entry >> (bit + 1) & 1 == 1) {
                    each(&words.relocation(checked_address(next, bit)?)?)?;
                }
                next = checked_address(next, 63)?;
            }
        }
        start += bytes.len() as u64;
    }
    Ok(())
}

/// Returns the address `count` words behind `address`.
fn checked_address(address: u64, count: u64) -> Result<u64, Error> {
    let address = address.checked_add(count * WORD);
    address.ok_or_else(|| Error::malformed(PACKED, "it leaves the address space"))
}

/// Reads words of the mapped file at ascending addresses: one read for many of them.
struct Words<'a> {
    image: &'a Image,
    source: Source<'a>,
    address: u64,
    bytes: Vec<u8>,
}

impl Words<'_> {
    /// Returns the packed relocation of the word at `address`.
    fn relocation(&mut self, address: u64) -> Result<Relocation, Error> {
        const WHAT: &str = "relocated data";
        let inside = address >= self.address && address - self.address + WORD <= self.bytes.len() as u64;
        if !inside {
            let length = self.image.mapped_after(address).min(WINDOW);
            let offset = self.image.offset_of(address).filter(|_| length >= WORD);
            let offset = offset.ok_or_else(|| Error::malformed(WHAT, format!("nothing is mapped at {address:#x}")))?;
            self.bytes = self.source.bytes(offset, length, WHAT)?;
            self.address = address;
        }
        let value = RelocatedValue::Relative(word(&self.bytes, (address - self.address) as usize));
        Ok(Relocation { address, value, record: RelocationRecord::Packed })
    }
}

/// Returns offset and size of a table that the dynamic section lists; it must lie in one segment.
fn table(
    image: &Image,
    address: elf::DynamicTag,
    size: elf::DynamicTag,
    what: &'static str,
) -> Result<Option<(u64, u64)>, Error> {
    let Some((address, size)) = image.dynamic_value(address).zip(image.dynamic_value(size)) else { return Ok(None) };
    if size == 0 {
        return Ok(None);
    }
    if size > image.mapped_after(address) {
        return Err(Error::malformed(what, format!("its {size} bytes do not fit into a segment")));
    }
    Ok(image.offset_of(address).map(|offset| (offset, size)))
}

/// Returns the value of a symbol of the dynamic symbol table; `None` if the file does not define
/// it.
///
/// # Errors
/// [`Error::NotElf`], [`Error::Machine`], and [`Error::Malformed`] if the symbol does not exist.
pub fn dynamic_symbol(reader: &dyn ReadAt, index: u32) -> Result<Option<u64>, Error> {
    let source = Source { reader };
    let image = Image::read(source)?.ok_or(Error::NotElf)?;
    crate::plan::check_machine(&image)?;
    symbol_value(&image, source, index)
}

pub(crate) fn symbol_value(image: &Image, source: Source<'_>, index: u32) -> Result<Option<u64>, Error> {
    const WHAT: &str = "dynamic symbol table";
    let table = image.dynamic_value(elf::DT_SYMTAB);
    let address = table.and_then(|table| table.checked_add(u64::from(index) * SYMBOL_SIZE));
    let address = address.filter(|&address| image.mapped_after(address) >= SYMBOL_SIZE);
    let offset = address.and_then(|address| image.offset_of(address));
    let offset = offset.ok_or_else(|| Error::malformed(WHAT, format!("it has no symbol {index}")))?;
    let bytes = source.bytes(offset, SYMBOL_SIZE, WHAT)?;
    let section = u16::from_le_bytes([bytes[6], bytes[7]]);
    Ok((section != elf::SHN_UNDEF.0).then(|| word(&bytes, 8)))
}

/// Returns the names of the dynamic symbols that the file defines, in the order of the table.
///
/// # Errors
/// [`Error::NotElf`], [`Error::Machine`], and [`Error::Truncated`] or [`Error::Malformed`] for
/// tables that are wrong.
pub fn exports(reader: &dyn ReadAt) -> Result<Vec<String>, Error> {
    let image = Image::read(Source { reader })?.ok_or(Error::NotElf)?;
    crate::plan::check_machine(&image)?;
    let mut names = Vec::new();
    visit_symbols(reader, &mut |symbol| {
        if symbol.defined {
            names.push((symbol.index, symbol.name.clone().into_owned()));
        }
        Ok(())
    })?;
    names.sort_unstable();
    Ok(names.into_iter().map(|(_, name)| name).collect())
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
