//! Input: the headers of a program or library ([`Elf`]). Output: the features that a loader has to
//! know for it, or refuses, and that no symbol version shows ([`LoaderFeature`]).
//!
//! The rules are those of glibc (`open_verify`, `_dl_map_object_from_fd` and
//! `_dl_check_map_versions`) and of musl (`map_library`, `do_relocs`). A program is mapped by the
//! kernel, so most rules are for libraries only.

use rocwheel_elf::{Elf, ElfKind, Segment};
use serde::{Deserialize, Serialize};

/// `PT_LOAD`.
const LOAD: u32 = 1;
/// `DF_1_NOOPEN` and `DF_1_PIE`.
const NOT_OPENED: u64 = 0x40;
const POSITION_INDEPENDENT_EXECUTABLE: u64 = 0x0800_0000;
/// Bytes in a page of x86-64.
const PAGE: u64 = 4096;
/// `ELFOSABI_SYSV` and `ELFOSABI_GNU`.
const SYSTEM_V: u8 = 0;
const GNU: u8 = 3;
/// glibc takes a file of `ELFOSABI_GNU` with a smaller version than this (`LIBC_ABI_MAX`).
const GNU_VERSIONS: u8 = 4;
/// The C library of glibc, and its symbol version that announces `DT_RELR`.
const C_LIBRARY: &str = "libc.so.6";
const ANNOUNCES_PACKED: &str = "GLIBC_ABI_DT_RELR";

/// Something about a file that loaders have to know, or refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LoaderFeature {
    /// Relocations in `DT_RELR`, which older loaders do not apply: every pointer stays wrong.
    PackedRelocations,
    /// Such relocations in a file that needs symbol versions of libc, but not the version
    /// `GLIBC_ABI_DT_RELR`: lld writes it.
    UnannouncedPackedRelocations,
    /// A program, which cannot be loaded into a process.
    Program,
    /// A library that forbids `dlopen`.
    NotOpened,
    /// A library for another operating system.
    OperatingSystem,
    /// A segment whose address and position in the file differ within a page.
    PageAlignment,
    /// A segment that is not aligned as it says, although its pages can be mapped.
    SegmentAlignment,
}

/// The C libraries whose loaders are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CLibrary {
    /// The one of manylinux.
    Glibc,
    /// The one of musllinux.
    Musl,
}

/// The loaders that load files with a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoaderSupport {
    /// Every version.
    Always,
    /// This version and newer ones: `2.36`.
    Since(&'static str),
    /// None.
    Never,
}

/// A row of the table of features.
struct Row {
    feature: LoaderFeature,
    glibc: LoaderSupport,
    musl: LoaderSupport,
    /// The feature, as the object of "has".
    name: &'static str,
    /// The message of glibc, or the effect.
    fault: &'static str,
}

use LoaderSupport::{Always, Never, Since};

const TABLE: [Row; 7] = [
    Row {
        feature: LoaderFeature::PackedRelocations,
        glibc: Since("2.36"),
        musl: Since("1.2.4"),
        name: "packed relocations (`DT_RELR`)",
        fault: "older loaders do not apply them, and every pointer stays wrong",
    },
    Row {
        feature: LoaderFeature::UnannouncedPackedRelocations,
        glibc: Never,
        musl: Always,
        name: "packed relocations (`DT_RELR`) and symbol versions of libc, but not `GLIBC_ABI_DT_RELR`",
        fault: "DT_RELR without GLIBC_ABI_DT_RELR dependency",
    },
    Row {
        feature: LoaderFeature::Program,
        glibc: Never,
        musl: Always,
        name: "the flags of a program",
        fault: "cannot dynamically load position-independent executable",
    },
    Row {
        feature: LoaderFeature::NotOpened,
        glibc: Never,
        musl: Always,
        name: "the flag `DF_1_NOOPEN`",
        fault: "shared object cannot be dlopen()ed",
    },
    Row {
        feature: LoaderFeature::OperatingSystem,
        glibc: Never,
        musl: Always,
        name: "another operating system in its header (`EI_OSABI`)",
        fault: "ELF file OS ABI invalid",
    },
    Row {
        feature: LoaderFeature::PageAlignment,
        glibc: Never,
        musl: Never,
        name: "a segment that cannot be mapped",
        fault: "ELF load command address/offset not page-aligned",
    },
    Row {
        feature: LoaderFeature::SegmentAlignment,
        glibc: Since("2.35"),
        musl: Always,
        name: "a segment that is not aligned as it says",
        fault: "ELF load command address/offset not properly aligned",
    },
];

impl LoaderFeature {
    /// The features of a file.
    pub fn of(elf: &Elf) -> Vec<LoaderFeature> {
        TABLE.iter().map(|row| row.feature).filter(|feature| feature.is_in(elf)).collect()
    }

    /// The loaders of a C library that load a file with the feature.
    pub fn support(self, library: CLibrary) -> LoaderSupport {
        match library {
            CLibrary::Glibc => self.row().glibc,
            CLibrary::Musl => self.row().musl,
        }
    }

    /// The feature, as the object of "has": "packed relocations (`DT_RELR`)".
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The message of glibc's loader, or the effect.
    pub fn fault(self) -> &'static str {
        self.row().fault
    }

    /// The word that stands for the feature in reports: `DT_RELR`.
    pub fn word(self) -> &'static str {
        match self {
            LoaderFeature::PackedRelocations | LoaderFeature::UnannouncedPackedRelocations => "DT_RELR",
            LoaderFeature::Program => "DF_1_PIE",
            LoaderFeature::NotOpened => "DF_1_NOOPEN",
            LoaderFeature::OperatingSystem => "EI_OSABI",
            LoaderFeature::PageAlignment | LoaderFeature::SegmentAlignment => "PT_LOAD",
        }
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    fn is_in(self, elf: &Elf) -> bool {
        let is_library = elf.kind == ElfKind::SharedLibrary;
        let mut loads = elf.segments.iter().filter(|segment| segment.kind == LOAD);
        match self {
            LoaderFeature::PackedRelocations => elf.has_packed_relocations && !announces_packed(elf),
            LoaderFeature::UnannouncedPackedRelocations => {
                let needs_libc = elf.version_needs.iter().any(|need| need.library == C_LIBRARY);
                elf.has_packed_relocations && needs_libc && !announces_packed(elf)
            }
            LoaderFeature::Program => {
                let is_fixed = loads.next().is_some_and(|segment| segment.address != 0);
                let is_marked = elf.flags_1 & POSITION_INDEPENDENT_EXECUTABLE != 0;
                matches!(elf.kind, ElfKind::Executable | ElfKind::StaticExecutable) && (is_marked || is_fixed)
            }
            LoaderFeature::NotOpened => is_library && elf.flags_1 & NOT_OPENED != 0,
            LoaderFeature::OperatingSystem => is_library && !is_linux(elf),
            LoaderFeature::PageAlignment => loads.any(|segment| !is_aligned(segment, PAGE)),
            LoaderFeature::SegmentAlignment => {
                is_library && loads.any(|segment| is_aligned(segment, PAGE) && !is_aligned_as_it_says(segment))
            }
        }
    }
}

fn announces_packed(elf: &Elf) -> bool {
    elf.version_needs.iter().flat_map(|need| &need.versions).any(|version| version == ANNOUNCES_PACKED)
}

fn is_linux(elf: &Elf) -> bool {
    match elf.os_abi {
        SYSTEM_V => elf.abi_version == 0,
        GNU => elf.abi_version < GNU_VERSIONS,
        _ => false,
    }
}

/// `true` if the address and the position in the file are equal in the lowest bits.
fn is_aligned(segment: &Segment, align: u64) -> bool {
    segment.address.wrapping_sub(segment.offset) & align.wrapping_sub(1) == 0
}

/// glibc before 2.35 asked for an alignment of whole pages, and for the same lowest bits.
fn is_aligned_as_it_says(segment: &Segment) -> bool {
    segment.align.is_multiple_of(PAGE) && is_aligned(segment, segment.align)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_its_row() {
        for (number, row) in TABLE.iter().enumerate() {
            assert_eq!(row.feature as usize, number, "{:?}", row.feature);
        }
    }

    #[test]
    fn alignment_is_judged_as_by_glibc_2_34() {
        for (address, offset, align, fits) in [
            (0x2000, 0x2000, 0x1000, true),
            (0x3df8, 0x2df8, 0x1000, true),
            (0x3df8, 0x2df8, 0x10000, false),
            (0x20_2df8, 0x2df8, 0x20_0000, true),
            (0x2000, 0x2000, 8, false),
            (0x2000, 0x2000, 0x1800, false),
            (0x2000, 0x2000, 0, true),
            (0x3000, 0x2000, 0, false),
        ] {
            let segment = Segment {
                kind: LOAD,
                flags: 4,
                offset,
                address,
                physical: address,
                file_size: 8,
                memory_size: 8,
                align,
            };
            assert!(is_aligned(&segment, PAGE));
            assert_eq!(is_aligned_as_it_says(&segment), fits, "{address:#x} {offset:#x} {align:#x}");
        }
    }
}
