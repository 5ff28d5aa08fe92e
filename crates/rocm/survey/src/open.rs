//! Input: a file's bytes at random access. Output: its type, and the tables of its GPU code.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use positioned_io::ReadAt;
use rocwheel_content::Reader;
use rocwheel_elf::{DynamicSymbols, Elf, Pe};
use rocwheel_kpack::archive::KpackArchive;
use rocwheel_kpack::bundle::{self, Bundle};
use rocwheel_kpack::fatbin::{FatBinary, Format, Magic, Points};
use rocwheel_kpack::marker::Marker;
use rocwheel_kpack::{Error, aotriton, code_object};

use crate::{BundleSummary, FileFormat, FileMessage, Location, Subject, Surveyed};

/// Number of first bytes that are needed to recognise a file. The magic of a tar archive is at
/// offset 257.
pub(crate) const START: usize = 512;

/// The section of an ELF file with code for NVIDIA's GPUs.
pub const CUDA: &str = ".nv_fatbin";
/// The same section of a PE file, where names have at most eight characters.
pub const WINDOWS_CUDA: &str = ".nv_fatb";

/// The apparent type of a file, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looks {
    /// ELF or PE.
    Host,
    CodeObject,
    Bundle,
    Kpack,
    /// An archive of AOTriton.
    Images,
    Zip,
    /// A tar archive. If the file is compressed this is only a guess.
    Tar(Packing),
    Other,
}

/// The compression of a tar archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Gzip,
    Xz,
    Zstd,
}

pub(crate) fn looks(start: &[u8]) -> Looks {
    if code_object::is_code_object(start) {
        return Looks::CodeObject;
    }
    let tar = start.get(257..262) == Some(b"ustar");
    [
        (&b"\x7fELF"[..], Looks::Host),
        (b"MZ", Looks::Host),
        (b"__CLANG_OFFLOAD_BUNDLE__", Looks::Bundle),
        (b"CCOB", Looks::Bundle),
        (b"KPAK", Looks::Kpack),
        (&aotriton::MAGIC, Looks::Images),
        (b"PK\x03\x04", Looks::Zip),
        (b"PK\x05\x06", Looks::Zip),
        (b"\x28\xb5\x2f\xfd", Looks::Tar(Packing::Zstd)),
        (b"\xfd7zXZ\0", Looks::Tar(Packing::Xz)),
        (b"\x1f\x8b", Looks::Tar(Packing::Gzip)),
    ]
    .into_iter()
    .find_map(|(magic, looks)| start.starts_with(magic).then_some(looks))
    .unwrap_or(if tar { Looks::Tar(Packing::None) } else { Looks::Other })
}

/// A file that will be surveyed. Its tables have been read.
pub(crate) struct Open {
    pub(crate) location: Location,
    pub(crate) kind: FileFormat,
    pub(crate) size: u64,
    pub(crate) packed: Option<u64>,
    pub(crate) reader: Reader,
    /// The range of the file that bundle offsets are relative to.
    pub(crate) section: Range<u64>,
    pub(crate) bundles: Vec<Bundle>,
    pub(crate) archive: Option<KpackArchive>,
    summaries: Vec<BundleSummary>,
    wrappers: usize,
    markers: Vec<Marker>,
    has_cuda: bool,
    findings: Vec<FileMessage>,
}

impl Open {
    /// A file that has nothing to read, only findings.
    pub(crate) fn only(location: Location, size: u64, findings: Vec<FileMessage>) -> Self {
        Self {
            location,
            kind: FileFormat::Other,
            size,
            packed: None,
            reader: Box::new(Vec::new()),
            section: 0..0,
            bundles: Vec::new(),
            archive: None,
            summaries: Vec::new(),
            wrappers: 0,
            markers: Vec::new(),
            has_cuda: false,
            findings,
        }
    }

    /// Reads the tables. For a broken file the result contains a finding.
    pub(crate) fn read(location: Location, size: u64, looks: Looks, reader: Reader) -> Self {
        let mut file = Self { reader, ..Self::only(location, size, Vec::new()) };
        let expected = [
            ("whl", Looks::Zip, "wheel"),
            ("kpack", Looks::Kpack, "kpack archive"),
            ("aks2", Looks::Images, "archive of AOTriton"),
        ];
        let extension = file.location.to_string();
        let named = expected.iter().find(|(extension_of, is, _)| {
            looks != *is && Path::new(&extension).extension().is_some_and(|found| found == *extension_of)
        });
        if let (Looks::Other, Some((_, _, what))) = (looks, named) {
            let message = if size == 0 { "it is empty".to_owned() } else { format!("it is no {what}") };
            file.findings.push(FileMessage::fault(Subject::Unreadable, message));
        }
        let read = match looks {
            Looks::Host => file.read_host(),
            Looks::CodeObject => {
                file.kind = FileFormat::CodeObject;
                Ok(())
            }
            Looks::Bundle => file.read_bundles(),
            Looks::Kpack => file.read_archive(),
            Looks::Images => {
                file.kind = FileFormat::Aotriton;
                Ok(())
            }
            Looks::Zip | Looks::Tar(_) | Looks::Other => Ok(()),
        };
        if let Err(error) = read {
            file.findings.push(FileMessage::of(&error));
        }
        file
    }

    fn read_host(&mut self) -> Result<(), Error> {
        let Some(fat) = FatBinary::read(&self.reader, self.size)? else {
            return self.read_without_code();
        };
        self.kind = match fat.format {
            Format::Elf => FileFormat::Elf,
            Format::Pe => FileFormat::Pe,
        };
        self.section = fat.section;
        self.bundles = fat.bundles;
        self.wrappers = fat.wrappers.len();
        self.markers = fat.markers.into_iter().map(|(marker, _)| marker).collect();
        self.summarise();
        for (number, wrapper) in fat.wrappers.iter().enumerate() {
            match wrapper.points {
                Points::Bundle(bundle) => self.summaries[bundle].wrappers.push(number),
                Points::Marker(_) => {}
                Points::Elsewhere(address) => {
                    let meant = match wrapper.magic {
                        Magic::Fat => "offload bundle",
                        Magic::Kpacked => "marker",
                    };
                    let message = format!("wrapper {number} points to {address:#x}, where no {meant} is");
                    self.findings.push(FileMessage::fault(Subject::Wrapper, message));
                }
            }
        }
        if self.wrappers == 0 && !self.bundles.is_empty() {
            let message = "its offload bundles are registered by no wrapper of this file";
            self.findings.push(FileMessage::note(Subject::Wrapper, message));
        } else {
            let lonely = self.summaries.iter().enumerate().filter(|(_, bundle)| bundle.wrappers.is_empty());
            let messages = lonely.map(|(number, _)| format!("no wrapper reaches bundle {number}"));
            self.findings.extend(messages.map(|message| FileMessage::note(Subject::Wrapper, message)));
        }
        Ok(())
    }

    /// Examines a host file without a section for AMD's GPU code.
    fn read_without_code(&mut self) -> Result<(), Error> {
        if rocwheel_elf::is_pe(&self.reader)? {
            let pe = Pe::read(&self.reader)?;
            self.kind = FileFormat::Pe;
            self.has_cuda = pe.is_some_and(|pe| pe.sections.iter().any(|section| section.name == WINDOWS_CUDA));
            return Ok(());
        }
        let Some(elf) = Elf::read(&self.reader)? else { return Ok(()) };
        self.kind = FileFormat::Elf;
        self.has_cuda = elf.sections.iter().any(|section| section.name == CUDA);
        if elf.sections.is_empty()
            && let Ok(symbols) = DynamicSymbols::read(&self.reader)
            && symbols.undefined().any(|symbol| symbol.name == "__hipRegisterFatBinary")
        {
            let message = "it registers GPU code, which cannot be found: it has no section headers";
            self.findings.push(FileMessage::fault(Subject::Unreadable, message));
        }
        Ok(())
    }

    fn read_bundles(&mut self) -> Result<(), Error> {
        self.kind = FileFormat::Bundle;
        self.section = 0..self.size;
        self.bundles = bundle::read(&self.reader, self.section.clone())?;
        self.summarise();
        Ok(())
    }

    fn read_archive(&mut self) -> Result<(), Error> {
        self.kind = FileFormat::Kpack;
        let archive = self.archive.insert(KpackArchive::open(&self.reader, self.size)?);
        let mut unnumbered = archive.entries().filter(|located| located.index.is_none());
        if let Some(first) = unnumbered.next() {
            let (name, target) = (first.name.escape_debug(), first.target.escape_debug());
            let others = match unnumbered.count() {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            let message = format!("no wrapper asks for `{name}` for `{target}`{others}: no index follows the name");
            self.findings.push(FileMessage::fault(Subject::Wrapper, message));
        }
        Ok(())
    }

    fn summarise(&mut self) {
        let start = self.section.start;
        let summaries = self.bundles.iter().map(|bundle| BundleSummary {
            offset: start + bundle.offset,
            length: bundle.length,
            compression: bundle.compression,
            wrappers: Vec::new(),
        });
        self.summaries = summaries.collect();
    }

    /// Number of work units; at least one, so that every file is handed over. The last one of a
    /// host file for Linux is its data, in which code objects may lie.
    pub(crate) fn parts(&self) -> usize {
        let entries = self.archive.as_ref().map_or(0, |archive| archive.entries().len().div_ceil(ENTRIES));
        (self.bundles.len() + usize::from(self.kind == FileFormat::Elf)).max(entries).max(1)
    }

    /// The facts that are known before any code object is read.
    pub(crate) fn surveyed(&self) -> Surveyed {
        Surveyed {
            location: self.location.clone(),
            kind: self.kind,
            size: self.size,
            packed: self.packed,
            wrappers: self.wrappers,
            bundles: self.summaries.clone(),
            markers: self.markers.clone(),
            has_cuda: self.has_cuda,
            code_objects: Vec::new(),
            findings: self.findings.clone(),
        }
    }
}

/// Number of entries of an archive in one unit of work.
pub(crate) const ENTRIES: usize = 16;

/// Makes a part of a file readable as a file.
pub(crate) struct Window<'a> {
    pub(crate) reader: &'a dyn ReadAt,
    pub(crate) range: Range<u64>,
}

impl ReadAt for Window<'_> {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = self.range.start.saturating_add(position).min(self.range.end);
        let length = (self.range.end - start).min(buffer.len() as u64) as usize;
        self.reader.read_at(start, &mut buffer[..length])
    }
}

/// An open file, shared by its units of work.
pub(crate) type Shared = Arc<Open>;
