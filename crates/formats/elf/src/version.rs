//! Input: the `.gnu.version_r` and `.gnu.version_d` chains of an [`Image`]. Output: the versions
//! that the file needs from each library, and those that it defines.

use object::elf::{self, Vernaux, Verneed};
use object::endian::Endianness;

use crate::Error;
use crate::image::Image;
use crate::source::{Source, StringTable, cast};

/// Largest number of entries; real files have some dozens, and a wrong chain may be endless.
const CHAIN_LIMIT: usize = 1 << 18;

/// The versions needed from one library: one `Verneed` with its chain.
#[derive(Debug, Clone)]
pub(crate) struct NeedRecord {
    /// File offset of the `Verneed`.
    pub(crate) offset: u64,
    /// Index of the library's name in the dynamic strings.
    pub(crate) library: u64,
    /// File offset of the first `Vernaux`.
    pub(crate) first_version: u64,
    pub(crate) versions: Vec<NeedVersion>,
}

/// One `Vernaux`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NeedVersion {
    /// Index of the version's name in the dynamic strings.
    pub(crate) name: u64,
    /// The number of the version in `.gnu.version`.
    pub(crate) number: u16,
}

/// Reads the chain at DT_VERNEED.
pub(crate) fn needs(image: &Image, source: Source<'_>) -> Result<Vec<NeedRecord>, Error> {
    const WHAT: &str = "table of needed versions";
    let endian = image.endian;
    let Some((mut offset, count)) = chain_start(image, elf::DT_VERNEED, elf::DT_VERNEEDNUM, WHAT)? else {
        return Ok(Vec::new());
    };
    let mut records = Vec::new();
    let mut steps = 0;
    for _ in 0..count {
        let raw: Verneed<Endianness> =
            cast(&source.bytes(offset, size_of::<Verneed<Endianness>>() as u64, WHAT)?, WHAT)?;
        let first_version = offset.saturating_add(raw.vn_aux.get(endian).into());
        let mut record =
            NeedRecord { offset, library: raw.vn_file.get(endian).into(), first_version, versions: Vec::new() };
        let mut place = first_version;
        for _ in 0..raw.vn_cnt.get(endian) {
            step(&mut steps, WHAT)?;
            let version: Vernaux<Endianness> =
                cast(&source.bytes(place, size_of::<Vernaux<Endianness>>() as u64, WHAT)?, WHAT)?;
            let number = version.vna_other.get(endian).0;
            record.versions.push(NeedVersion { name: version.vna_name.get(endian).into(), number });
            match version.vna_next.get(endian) {
                0 => break,
                next => place = place.saturating_add(next.into()),
            }
        }
        records.push(record);
        step(&mut steps, WHAT)?;
        match raw.vn_next.get(endian) {
            0 => break,
            next => offset = offset.saturating_add(next.into()),
        }
    }
    Ok(records)
}

/// One `Verdef`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Definition {
    /// Index of the version's name in the dynamic strings.
    pub(crate) name: u64,
    /// The number of the version in `.gnu.version`.
    pub(crate) number: u16,
    /// `true` if it is the file's own name, not a version.
    pub(crate) is_base: bool,
}

/// Reads the chain at DT_VERDEF.
pub(crate) fn definitions(image: &Image, source: Source<'_>) -> Result<Vec<Definition>, Error> {
    const WHAT: &str = "table of defined versions";
    type Verdef = elf::Verdef<Endianness>;
    type Verdaux = elf::Verdaux<Endianness>;
    let endian = image.endian;
    let Some((mut offset, count)) = chain_start(image, elf::DT_VERDEF, elf::DT_VERDEFNUM, WHAT)? else {
        return Ok(Vec::new());
    };
    let mut definitions = Vec::new();
    let mut steps = 0;
    for _ in 0..count {
        step(&mut steps, WHAT)?;
        let raw: Verdef = cast(&source.bytes(offset, size_of::<Verdef>() as u64, WHAT)?, WHAT)?;
        let place = offset.saturating_add(raw.vd_aux.get(endian).into());
        let name: Verdaux = cast(&source.bytes(place, size_of::<Verdaux>() as u64, WHAT)?, WHAT)?;
        definitions.push(Definition {
            name: name.vda_name.get(endian).into(),
            number: raw.vd_ndx.get(endian).0,
            is_base: raw.vd_flags.get(endian).0 & elf::VER_FLG_BASE.0 != 0,
        });
        match raw.vd_next.get(endian) {
            0 => break,
            next => offset = offset.saturating_add(next.into()),
        }
    }
    Ok(definitions)
}

fn step(steps: &mut usize, what: &'static str) -> Result<(), Error> {
    *steps += 1;
    if *steps > CHAIN_LIMIT {
        return Err(Error::malformed(what, format!("more than {CHAIN_LIMIT} entries")));
    }
    Ok(())
}

/// Returns the file offset of a chain and its number of entries.
fn chain_start(
    image: &Image,
    start: elf::DynamicTag,
    count: elf::DynamicTag,
    what: &'static str,
) -> Result<Option<(u64, u64)>, Error> {
    let chain = image.dynamic_value(start).zip(image.dynamic_value(count));
    chain.map(|(address, count)| Ok((image.find_offset(address, what)?, count))).transpose()
}

/// Reads a name of the dynamic strings.
pub(crate) fn name(source: Source<'_>, strings: Option<StringTable>, index: u64) -> Result<Vec<u8>, Error> {
    const WHAT: &str = "dynamic string table";
    let table = strings.ok_or_else(|| Error::malformed(WHAT, "it is needed but missing"))?;
    source.string(table, index, WHAT)
}
