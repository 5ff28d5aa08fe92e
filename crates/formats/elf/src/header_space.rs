//! Input: an [`Image`] and the space behind its program header table. Output: the small sections
//! that have to move so that the table can grow ([`Block`]s), or `None` if it cannot.
//!
//! Only sections to which nothing but headers and the dynamic section refers may move: the
//! interpreter's name, notes, hash tables, symbols, versions and strings. Everything else (code,
//! data, relocations, other tables) is fixed.

use object::elf;

use crate::image::{Image, SectionHeader};
use crate::source::Source;
use crate::{Error, symbols};

/// Bytes of padding that alignment can explain. Without section headers, larger gaps may hold
/// anything.
const PADDING: u64 = 16;

/// A range of the file that can move as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Alignment that its new position must have, in bytes.
    pub(crate) align: u64,
}

#[derive(Debug, Clone, Copy)]
struct Claim {
    start: u64,
    end: u64,
    movable: bool,
    align: u64,
}

/// Returns the blocks to move so that the bytes `start..end`, behind the program header table, are
/// free. `None`: they hold something that cannot move.
pub(crate) fn make(image: &Image, source: Source<'_>, start: u64, end: u64) -> Result<Option<Vec<Block>>, Error> {
    let table = image.program_header_offset;
    let mut loads = image.segments.iter().filter(|segment| segment.is_load() && segment.file_size > 0);
    let Some(owner) = loads.clone().find(|load| load.holds_offset(table, start - table)) else { return Ok(None) };
    if end > owner.file_end() || loads.any(|load| load.offset > table && load.offset < end) {
        return Ok(None);
    }
    let mut claims = segment_claims(image);
    if image.sections.is_empty() {
        claims.extend(dynamic_claims(image, source)?);
    } else {
        claims.extend(section_claims(image, &claims));
    }
    claims.sort_by_key(|claim| (claim.start, claim.end));
    let mut blocks: Vec<Block> = Vec::new();
    let mut covered = start;
    for claim in merged(&claims) {
        if claim.end <= start {
            continue;
        }
        if claim.start < start {
            return Ok(None);
        }
        let gap_end = claim.start.min(end);
        let unexplained = image.sections.is_empty() && claim.start.saturating_sub(covered) >= PADDING;
        if gap_end > covered && (unexplained || !is_zero(source, covered, gap_end)?) {
            return Ok(None);
        }
        covered = covered.max(claim.end);
        if claim.start >= end {
            break;
        }
        if !claim.movable || claim.end > owner.file_end() {
            return Ok(None);
        }
        blocks.push(Block { offset: claim.start, length: claim.end - claim.start, align: claim.align });
    }
    let free = covered >= end || (!image.sections.is_empty() && is_zero(source, covered, end)?);
    Ok(free.then_some(blocks))
}

fn is_zero(source: Source<'_>, start: u64, end: u64) -> Result<bool, Error> {
    Ok(source.bytes(start, end - start, "gap behind the program header table")?.iter().all(|&byte| byte == 0))
}

/// Joins claims that overlap: they move together or not at all.
fn merged(sorted: &[Claim]) -> Vec<Claim> {
    let mut result: Vec<Claim> = Vec::new();
    for claim in sorted {
        match result.last_mut() {
            Some(last) if claim.start < last.end => {
                last.end = last.end.max(claim.end);
                last.movable &= claim.movable;
                last.align = last.align.max(claim.align);
            }
            _ => result.push(*claim),
        }
    }
    result
}

fn segment_claims(image: &Image) -> Vec<Claim> {
    let ignored = [elf::PT_NULL, elf::PT_LOAD, elf::PT_PHDR, elf::PT_GNU_RELRO, elf::PT_GNU_STACK];
    let movable = [elf::PT_INTERP, elf::PT_NOTE, elf::PT_GNU_PROPERTY];
    let claims = image
        .segments
        .iter()
        .filter(|segment| segment.file_size > 0 && !ignored.contains(&elf::ProgramType(segment.kind)))
        .map(|segment| Claim {
            start: segment.offset,
            end: segment.file_end(),
            movable: movable.contains(&elf::ProgramType(segment.kind)),
            align: segment.align.max(1),
        });
    claims.collect()
}

/// Section types and dynamic tags of tables to which only the dynamic section refers.
const TABLES: [(elf::SectionType, elf::DynamicTag); 7] = [
    (elf::SHT_GNU_HASH, elf::DT_GNU_HASH),
    (elf::SHT_HASH, elf::DT_HASH),
    (elf::SHT_DYNSYM, elf::DT_SYMTAB),
    (elf::SHT_STRTAB, elf::DT_STRTAB),
    (elf::SHT_GNU_VERSYM, elf::DT_VERSYM),
    (elf::SHT_GNU_VERNEED, elf::DT_VERNEED),
    (elf::SHT_GNU_VERDEF, elf::DT_VERDEF),
];

fn section_claims(image: &Image, segments: &[Claim]) -> Vec<Claim> {
    let section_table = Claim {
        start: image.section_header_offset,
        end: image.section_header_offset + image.sections.len() as u64 * 64,
        movable: false,
        align: 8,
    };
    let claims =
        image.sections.iter().filter(|section| section.kind != elf::SHT_NULL.0 && section.file_size() > 0).map(
            |section| {
                let (start, end) = (section.offset, section.offset.saturating_add(section.file_size()));
                let in_segment = segments.iter().any(|claim| claim.movable && claim.start <= start && end <= claim.end);
                let movable = section.is_allocated() && (in_segment || is_table(image, section));
                Claim { start, end, movable, align: section.align.max(1) }
            },
        );
    claims.chain([section_table]).collect()
}

/// `true` if the dynamic section lists the section.
fn is_table(image: &Image, section: &SectionHeader) -> bool {
    let mut tables = TABLES.iter().filter(|(kind, _)| kind.0 == section.kind);
    tables.any(|&(_, tag)| image.dynamic_value(tag) == Some(section.address))
}

/// Returns the tables that the dynamic section lists, for files without section headers. Tables of
/// unknown size are fixed.
fn dynamic_claims(image: &Image, source: Source<'_>) -> Result<Vec<Claim>, Error> {
    if image.dynamic.is_none() {
        return Ok(Vec::new());
    }
    let count = symbols::count(image, source)?;
    let sized = [
        (elf::DT_HASH, symbols::hash_size(image, source)?),
        (elf::DT_GNU_HASH, symbols::gnu_hash_size(image, source)?),
        (elf::DT_SYMTAB, count.map(|count| count.saturating_mul(image.symbol_size()))),
        (elf::DT_VERSYM, count.map(|count| count.saturating_mul(2))),
        (elf::DT_STRTAB, image.dynamic_value(elf::DT_STRSZ)),
    ];
    let unsized_tables =
        [elf::DT_VERNEED, elf::DT_VERDEF, elf::DT_RELA, elf::DT_JMPREL, elf::DT_RELR, elf::DT_INIT, elf::DT_FINI];
    let tables = sized.into_iter().chain(unsized_tables.map(|tag| (tag, None)));
    let claims = tables.filter_map(|(tag, length)| {
        let start = image.offset_of(image.dynamic_value(tag)?)?;
        let end = start.saturating_add(length.unwrap_or(1));
        Some(Claim { start, end, movable: length.is_some(), align: 8 })
    });
    Ok(claims.collect())
}
