//! Input: a host program or library, ELF or PE. Output: a [`FatBinary`], its GPU part: the section
//! of offload bundles, the wrappers that the runtime is given, and what each wrapper's pointer
//! reaches once the file is loaded.
//!
//! A translation unit registers its device code with a wrapper of 24 bytes: magic, version,
//! pointer, and an index that only kpacked files use (spec 1.1). The pointer's value is rarely in
//! place: relocations supply it.

mod elf_file;
mod pe_file;
mod replace;

pub use replace::{NewWrapper, Replacement};

use std::collections::BTreeMap;
use std::ops::Range;

use positioned_io::ReadAt;

use crate::bundle::{self, ALIGNMENT, Bundle};
use crate::error::Error;
use crate::marker::Marker;

/// Bytes of a wrapper.
pub const WRAPPER_SIZE: u64 = 24;
/// Where a wrapper's pointer is, from its start.
pub const WRAPPER_POINTER: u64 = 8;
/// The only version of the wrapper that the runtime takes.
const WRAPPER_VERSION: u32 = 1;
/// The runtime reads at most this much of a marker (spec 3).
const MARKER_LIMIT: u64 = 64 << 10;
/// More wrappers than any program has translation units; a section that claims more lies.
const MAX_WRAPPERS: u64 = 1 << 20;

/// The GPU part of one host program or library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FatBinary {
    /// What kind of file it is in.
    pub format: Format,
    /// The file bytes of the section of device code (`.hip_fatbin`, in PE files `.hip_fat`). Empty
    /// when the section has none in the file any more, as in libraries that AMD's tool has split.
    pub section: Range<u64>,
    /// Virtual address of the section; in PE files relative to the image's base.
    pub address: u64,
    /// Bytes the section has in memory, which are more than in the file when its content was taken
    /// out.
    pub memory_size: u64,
    /// The bundles in the section, by offset.
    pub bundles: Vec<Bundle>,
    /// The wrappers, by address. Empty when there is no `.hipFatBinSegment`: nothing registers the
    /// code, and the file is best left alone.
    pub wrappers: Vec<Wrapper>,
    /// The markers that wrappers point at, each once, by file offset.
    pub markers: Vec<(Marker, u64)>,
}

/// A kind of host file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// Linux.
    Elf,
    /// Windows.
    Pe,
}

/// What a translation unit hands to `__hipRegisterFatBinary`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapper {
    /// File offset.
    pub offset: u64,
    /// Virtual address; in PE files relative to the image's base.
    pub address: u64,
    /// Whether the code is in the file.
    pub magic: Magic,
    /// What the pointer holds once the file is loaded.
    pub points: Points,
    /// Which code object of the name in the marker; 0 in fat files.
    pub index: u64,
}

/// The first word of a wrapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Magic {
    /// The pointer reaches a bundle.
    Fat,
    /// The pointer reaches a marker; the code is in `.kpack` archives.
    Kpacked,
}

impl Magic {
    const FAT: u32 = 0x4849_5046;
    const KPACKED: u32 = 0x4b50_4948;

    /// The bytes in the file.
    pub fn bytes(self) -> [u8; 4] {
        match self {
            Self::Fat => Self::FAT,
            Self::Kpacked => Self::KPACKED,
        }
        .to_le_bytes()
    }

    fn from_bytes(bytes: [u8; 4]) -> Option<Self> {
        match u32::from_le_bytes(bytes) {
            Self::FAT => Some(Self::Fat),
            Self::KPACKED => Some(Self::Kpacked),
            _ => None,
        }
    }
}

/// What a wrapper's pointer reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Points {
    /// The bundle of this number.
    Bundle(usize),
    /// The marker of this number.
    Marker(usize),
    /// Neither: this virtual address, 0 when nothing sets the pointer.
    Elsewhere(u64),
}

impl FatBinary {
    /// Reads the GPU part of a file of `size` bytes through bounded reads; `None` when it is
    /// neither ELF nor PE or has no section of device code.
    ///
    /// The sections are found by name, so an ELF file without section headers
    /// (`strip --strip-section-headers`) holds none that could be told apart from other data: also
    /// `None`.
    ///
    /// # Errors
    /// [`Error::Elf`] for broken headers, [`Error::Wrapper`] and [`Error::FatBinary`] for wrappers
    /// and sections that contradict themselves, [`Error::Malformed`] and its like for bundles.
    pub fn read(reader: &dyn ReadAt, size: u64) -> Result<Option<Self>, Error> {
        if rocwheel_elf::is_pe(reader)? {
            return pe_file::read(reader);
        }
        elf_file::read(reader, size)
    }
}

/// A wrapper as it lies in the file, and where its pointer will lead.
struct RawWrapper {
    offset: u64,
    address: u64,
    magic: Magic,
    index: u64,
    pointer: u64,
}

/// Reads the wrappers in `section`. `pointer` is 0 where the file has none in place.
fn read_wrappers(reader: &dyn ReadAt, section: Range<u64>, address: u64) -> Result<Vec<RawWrapper>, Error> {
    let size = section.end.saturating_sub(section.start);
    if !size.is_multiple_of(WRAPPER_SIZE) {
        let reason = format!("the section of wrappers has {size} bytes, which are no multiple of {WRAPPER_SIZE}");
        return Err(Error::FatBinary { reason });
    }
    if size / WRAPPER_SIZE > MAX_WRAPPERS {
        return Err(Error::FatBinary { reason: format!("the section of wrappers claims {size} bytes") });
    }
    let mut bytes = vec![0; size as usize];
    reader.read_exact_at(section.start, &mut bytes).map_err(|source| Error::Io { what: "the wrappers", source })?;
    let mut wrappers = Vec::new();
    for (number, raw) in bytes.as_chunks::<{ WRAPPER_SIZE as usize }>().0.iter().enumerate() {
        let at = number as u64 * WRAPPER_SIZE;
        let refuse = |reason| Error::Wrapper { number, offset: section.start + at, reason };
        let [m0, m1, m2, m3, v0, v1, v2, v3, rest @ ..] = raw;
        let (pointer, index) = rest.split_at(8);
        let magic = Magic::from_bytes([*m0, *m1, *m2, *m3])
            .ok_or_else(|| refuse(format!("its magic is {:#010x}", u32::from_le_bytes([*m0, *m1, *m2, *m3]))))?;
        let version = u32::from_le_bytes([*v0, *v1, *v2, *v3]);
        if version != WRAPPER_VERSION {
            return Err(refuse(format!("its version is {version}; the runtime takes {WRAPPER_VERSION} only")));
        }
        wrappers.push(RawWrapper {
            offset: section.start + at,
            address: address + at,
            magic,
            index: number_of(index),
            pointer: number_of(pointer),
        });
    }
    Ok(wrappers)
}

fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// A section as its file format describes it.
struct Area {
    file: Range<u64>,
    address: u64,
    memory_size: u64,
}

/// Puts the parts together. `mapped` tells which file bytes, up to the end of what is mapped there,
/// lie at an address.
fn assemble(
    reader: &dyn ReadAt,
    format: Format,
    area: Area,
    raw: &[RawWrapper],
    mapped: &dyn Fn(u64) -> Option<Range<u64>>,
) -> Result<FatBinary, Error> {
    let mut found: BTreeMap<u64, Marker> = BTreeMap::new();
    for wrapper in raw.iter().filter(|wrapper| wrapper.magic == Magic::Kpacked) {
        if let Some(range) = mapped(wrapper.pointer)
            && !found.contains_key(&range.start)
            && let Some(marker) = read_marker(reader, &range)?
        {
            found.insert(range.start, marker);
        }
    }
    let markers: Vec<(Marker, u64)> = found.into_iter().map(|(offset, marker)| (marker, offset)).collect();
    let bundles = match read_bundles(reader, &area.file, &markers) {
        // No wrapper asks for a bundle, so nothing says that the section holds any: another tool
        // leaves parts of them.
        Err(Error::NotABundle { .. } | Error::Malformed { .. } | Error::Unsupported { .. })
            if raw.iter().all(|wrapper| wrapper.magic == Magic::Kpacked) =>
        {
            Vec::new()
        }
        other => other?,
    };
    let points = |wrapper: &RawWrapper| {
        let elsewhere = Points::Elsewhere(wrapper.pointer);
        match wrapper.magic {
            Magic::Fat => {
                let offset = wrapper.pointer.checked_sub(area.address);
                let bundle =
                    offset.and_then(|offset| bundles.binary_search_by_key(&offset, |bundle| bundle.offset).ok());
                bundle.map_or(elsewhere, Points::Bundle)
            }
            Magic::Kpacked => {
                let offset = mapped(wrapper.pointer).map(|range| range.start);
                let marker = offset.and_then(|offset| markers.binary_search_by_key(&offset, |marker| marker.1).ok());
                marker.map_or(elsewhere, Points::Marker)
            }
        }
    };
    let wrappers = raw
        .iter()
        .map(|wrapper| Wrapper {
            offset: wrapper.offset,
            address: wrapper.address,
            magic: wrapper.magic,
            points: points(wrapper),
            index: wrapper.index,
        })
        .collect();
    Ok(FatBinary {
        format,
        section: area.file,
        address: area.address,
        memory_size: area.memory_size,
        bundles,
        wrappers,
        markers,
    })
}

/// The marker at the start of `range`; `None` when there is something else.
fn read_marker(reader: &dyn ReadAt, range: &Range<u64>) -> Result<Option<Marker>, Error> {
    let length = (range.end - range.start).min(MARKER_LIMIT);
    let mut bytes = vec![0; length as usize];
    reader.read_exact_at(range.start, &mut bytes).map_err(|source| Error::Io { what: "a marker", source })?;
    Ok(Marker::decode(&bytes).ok())
}

/// The bundles of the section, whose pages with markers are none.
fn read_bundles(reader: &dyn ReadAt, section: &Range<u64>, markers: &[(Marker, u64)]) -> Result<Vec<Bundle>, Error> {
    let mut bundles = Vec::new();
    let mut start = 0;
    let size = section.end - section.start;
    let mut read = |start: u64, end: u64| -> Result<(), Error> {
        for mut bundle in bundle::read(reader, section.start + start..section.start + end)? {
            bundle.offset += start;
            bundles.push(bundle);
        }
        Ok(())
    };
    for (marker, offset) in markers.iter().filter(|(_, offset)| section.contains(offset)) {
        let first = (offset - section.start) / ALIGNMENT * ALIGNMENT;
        let length = marker.encode().map_or(1, |bytes| bytes.len() as u64);
        if first > start {
            read(start, first)?;
        }
        start = start.max((offset - section.start + length).next_multiple_of(ALIGNMENT));
    }
    if start < size {
        read(start, size)?;
    }
    Ok(bundles)
}
