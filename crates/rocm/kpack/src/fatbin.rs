//! Input: a host program or library, ELF or PE. Output: a [`FatBinary`], its GPU part: the section
//! of offload bundles, the wrappers that are registered with the runtime, and the target of each
//! wrapper's pointer once the file is loaded.
//!
//! A translation unit registers its device code with a wrapper of 24 bytes: magic, version,
//! pointer, and an index that only kpacked files use (spec 1.1). The value of the pointer is rarely
//! in the file: relocations supply it.

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

/// Size of a wrapper in bytes.
pub const WRAPPER_SIZE: u64 = 24;
/// Offset of the pointer in a wrapper, in bytes.
pub const WRAPPER_POINTER: u64 = 8;
/// The only wrapper version that the runtime accepts.
const WRAPPER_VERSION: u32 = 1;
/// Largest size of a marker, in bytes, that the runtime reads (spec 3).
const MARKER_LIMIT: u64 = 64 << 10;
/// Largest number of wrappers: more than any program has translation units.
const MAX_WRAPPERS: u64 = 1 << 20;

/// The GPU part of a host program or library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FatBinary {
    /// The format of the host file.
    pub format: Format,
    /// Range of the section of device code in the file (`.hip_fatbin`, in PE files `.hip_fat`).
    /// Empty if the section has no bytes in the file any more, as in libraries that AMD's tool has
    /// split.
    pub section: Range<u64>,
    /// Virtual address of the section; in PE files relative to the image's base.
    pub address: u64,
    /// Size of the section in memory, in bytes. It exceeds the size in the file if the content was
    /// removed.
    pub memory_size: u64,
    /// The bundles in the section, by offset.
    pub bundles: Vec<Bundle>,
    /// The wrappers, by address. Empty if the file has no `.hipFatBinSegment`: nothing registers
    /// the code, and it is best not to change the file.
    pub wrappers: Vec<Wrapper>,
    /// The markers that wrappers point at, without repetitions, by file offset.
    pub markers: Vec<(Marker, u64)>,
}

/// The format of a host file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// Linux.
    Elf,
    /// Windows.
    Pe,
}

/// The data that a translation unit passes to `__hipRegisterFatBinary`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapper {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Virtual address; in PE files relative to the image's base.
    pub address: u64,
    /// The first word: the code is in the file or in archives.
    pub magic: Magic,
    /// The target of the pointer once the file is loaded.
    pub points: Points,
    /// Index of the code object under the name in the marker; 0 in fat files.
    pub index: u64,
}

/// The first word of a wrapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Magic {
    /// The pointer leads to a bundle.
    Fat,
    /// The pointer leads to a marker; the code is in `.kpack` archives.
    Kpacked,
}

impl Magic {
    const FAT: u32 = 0x4849_5046;
    const KPACKED: u32 = 0x4b50_4948;

    /// Returns the bytes in the file.
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

/// The target of a wrapper's pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Points {
    /// The bundle with this index.
    Bundle(usize),
    /// The marker with this index.
    Marker(usize),
    /// Another virtual address; 0 if nothing sets the pointer.
    Elsewhere(u64),
}

impl FatBinary {
    /// Reads the GPU part of a file of `size` bytes through bounded reads; `None` if it is neither
    /// ELF nor PE or has no section of device code.
    ///
    /// The sections are found by name. In an ELF file without section headers
    /// (`strip --strip-section-headers`) they cannot be distinguished from other data, so the
    /// result is `None` too.
    ///
    /// # Errors
    /// [`Error::Elf`] for broken headers, [`Error::Wrapper`] and [`Error::FatBinary`] for wrappers
    /// and sections that contradict themselves, [`Error::Malformed`] and similar ones for bundles.
    pub fn read(reader: &dyn ReadAt, size: u64) -> Result<Option<Self>, Error> {
        if rocwheel_elf::is_pe(reader)? {
            return pe_file::read(reader);
        }
        elf_file::read(reader, size)
    }
}

/// A wrapper as in the file, and the value that its pointer will have.
struct RawWrapper {
    offset: u64,
    address: u64,
    magic: Magic,
    index: u64,
    pointer: u64,
}

/// Reads the wrappers in `section`. `pointer` is 0 if the file has no value in place.
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
        let (offset, address) = (section.start + at, address + at);
        let [m0, m1, m2, m3, v0, v1, v2, v3, rest @ ..] = raw;
        let (pointer, index) = rest.split_at(8);
        let Some(magic) = Magic::from_bytes([*m0, *m1, *m2, *m3]) else {
            let reason = format!("its magic is {:#010x}", u32::from_le_bytes([*m0, *m1, *m2, *m3]));
            return Err(Error::Wrapper { number, offset, reason });
        };
        let version = u32::from_le_bytes([*v0, *v1, *v2, *v3]);
        if version != WRAPPER_VERSION {
            let reason = format!("its version is {version}; the runtime takes {WRAPPER_VERSION} only");
            return Err(Error::Wrapper { number, offset, reason });
        }
        let (index, pointer) = (number_of(index), number_of(pointer));
        wrappers.push(RawWrapper { offset, address, magic, index, pointer });
    }
    Ok(wrappers)
}

fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// A section, independent of the file format.
struct Area {
    file: Range<u64>,
    address: u64,
    memory_size: u64,
}

/// Combines the parts. `mapped` returns the file bytes that are mapped from an address on.
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
        // No wrapper refers to a bundle, so the section need not hold any: another tool leaves
        // parts of them.
        Err(Error::NotABundle { .. } | Error::Malformed { .. } | Error::Unsupported { .. })
            if raw.iter().all(|wrapper| wrapper.magic == Magic::Kpacked) =>
        {
            Vec::new()
        }
        other => other?,
    };
    let wrappers = raw.iter().map(|wrapper| {
        let found = match wrapper.magic {
            Magic::Fat => wrapper.pointer.checked_sub(area.address).and_then(|offset| {
                let bundle = bundles.binary_search_by_key(&offset, |bundle| bundle.offset);
                bundle.ok().map(Points::Bundle)
            }),
            Magic::Kpacked => mapped(wrapper.pointer).and_then(|range| {
                let marker = markers.binary_search_by_key(&range.start, |marker| marker.1);
                marker.ok().map(Points::Marker)
            }),
        };
        let RawWrapper { offset, address, magic, index, pointer } = *wrapper;
        Wrapper { offset, address, magic, points: found.unwrap_or(Points::Elsewhere(pointer)), index }
    });
    let wrappers = wrappers.collect();
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

/// Reads the marker at the start of `range`; `None` if there is none.
fn read_marker(reader: &dyn ReadAt, range: &Range<u64>) -> Result<Option<Marker>, Error> {
    let length = (range.end - range.start).min(MARKER_LIMIT);
    let mut bytes = vec![0; length as usize];
    reader.read_exact_at(range.start, &mut bytes).map_err(|source| Error::Io { what: "a marker", source })?;
    Ok(Marker::decode(&bytes).ok())
}

/// Reads the bundles of the section; pages with markers are skipped.
fn read_bundles(reader: &dyn ReadAt, section: &Range<u64>, markers: &[(Marker, u64)]) -> Result<Vec<Bundle>, Error> {
    let mut gaps = Vec::new();
    let mut start = 0;
    let size = section.end - section.start;
    for (marker, offset) in markers.iter().filter(|(_, offset)| section.contains(offset)) {
        let first = (offset - section.start) / ALIGNMENT * ALIGNMENT;
        let length = marker.encode().map_or(1, |bytes| bytes.len() as u64);
        if first > start {
            gaps.push(start..first);
        }
        start = start.max((offset - section.start + length).next_multiple_of(ALIGNMENT));
    }
    if start < size {
        gaps.push(start..size);
    }
    let mut bundles = Vec::new();
    for gap in gaps {
        for mut bundle in bundle::read(reader, section.start + gap.start..section.start + gap.end)? {
            bundle.offset += gap.start;
            bundles.push(bundle);
        }
    }
    Ok(bundles)
}
