//! Input: one bundle of a file, some entries of an archive, or a code object. Output: its code
//! objects and findings.

use positioned_io::ReadAt;
use rocwheel_archive::FileDigest;
use rocwheel_content::{MemoryBudget, sha256_at};
use rocwheel_kpack::Error;
use rocwheel_kpack::aotriton::{ImageArchive, XZ_MEMORY};
use rocwheel_kpack::archive::{Scheme, share};
use rocwheel_kpack::bundle::{Bundle, BundleEntry, Limits};
use rocwheel_kpack::code_object::{CodeObject, EmbeddedCode, MetadataFormat, agrees, embedded, is_bitcode, is_spirv};
use rocwheel_tables::target::TargetId;

use crate::open::{ENTRIES, Shared, Window};
use crate::source::Unit;
use crate::stream_front::Front;
use crate::{CodeFormat, FileFormat, FileMessage, FoundCode, Kernels, Options, Subject};

pub(crate) struct Part {
    pub(crate) file: Shared,
    pub(crate) is_last: bool,
    pub(crate) code_objects: Vec<FoundCode>,
    pub(crate) findings: Vec<FileMessage>,
}

/// Memory for the windows of decoders, in bytes, which threads share.
const MEMORY: u64 = 132 << 20;
/// Largest window of zstd that a reader of streams takes by default, in bytes.
const LARGEST_WINDOW: u64 = 128 << 20;

pub(crate) fn memory() -> MemoryBudget {
    MemoryBudget::new(MEMORY)
}

pub(crate) fn examine(unit: Unit, options: &Options, memory: &MemoryBudget) -> Part {
    let Unit { file, number, is_last } = unit;
    let mut examiner = Examiner { options, memory, code_objects: Vec::new(), findings: Vec::new() };
    let done = if let Some(bundle) = file.bundles.get(number) {
        examiner.bundle(&file, number, bundle)
    } else if let Some(archive) = &file.archive {
        examiner.entries(&file, archive, number)
    } else if file.kind == FileFormat::CodeObject {
        let place = Place { size: file.size, stored: file.size, ..Place::default() };
        examiner.code(&file.reader, place)
    } else if file.kind == FileFormat::Elf {
        examiner.embedded(&file)
    } else if file.kind == FileFormat::Aotriton {
        examiner.images(&file)
    } else {
        Ok(())
    };
    if let Err(error) = done {
        examiner.findings.push(FileMessage::of(&error));
    }
    Part { file, is_last, code_objects: examiner.code_objects, findings: examiner.findings }
}

struct Examiner<'a> {
    options: &'a Options,
    memory: &'a MemoryBudget,
    code_objects: Vec<FoundCode>,
    findings: Vec<FileMessage>,
}

/// The facts about a code object that are known before it is read.
#[derive(Default)]
struct Place {
    declared: Option<String>,
    bundle: Option<usize>,
    entry: Option<String>,
    offset: Option<u64>,
    size: u64,
    stored: u64,
}

impl Place {
    fn of(entry: &BundleEntry, bundle: usize, stored: u64) -> Self {
        let declared = entry.target().map(str::to_owned);
        Self { declared, bundle: Some(bundle), size: entry.size, stored, ..Self::default() }
    }

    /// A description for messages.
    fn name(&self) -> String {
        let target = self.declared.as_deref().unwrap_or("its target").escape_debug();
        match (&self.bundle, &self.entry) {
            (Some(bundle), _) => format!("the code for `{target}` in bundle {bundle}"),
            (None, Some(entry)) if self.declared.is_none() => format!("the image `{}`", entry.escape_debug()),
            (None, Some(entry)) => format!("the code for `{target}` of `{}`", entry.escape_debug()),
            (None, None) => match self.offset {
                Some(offset) => format!("the code object at offset {offset:#x}"),
                None => "the code object".to_owned(),
            },
        }
    }
}

impl Examiner<'_> {
    fn bundle(&mut self, file: &Shared, number: usize, bundle: &Bundle) -> Result<(), Error> {
        let with_code: Vec<&BundleEntry> =
            bundle.entries.iter().filter(|entry| entry.has_code() && entry.target().is_some()).collect();
        if bundle.compression.is_none() {
            // Headers and notes are enough; they are about a thousandth of the code.
            for entry in with_code {
                let start = file.section.start.saturating_add(bundle.offset).saturating_add(entry.offset);
                let range = start..start.saturating_add(entry.size).min(file.section.end).max(start);
                let window = Window { reader: &file.reader, range };
                self.code(&window, Place::of(entry, number, entry.size))?;
            }
            return Ok(());
        }
        let total: u64 = with_code.iter().map(|entry| entry.size).fold(0, u64::saturating_add);
        let mut seen: u64 = 0;
        let _share = self.memory.take(bundle.compression.map_or(0, |header| header.uncompressed.min(LARGEST_WINDOW)));
        let (wants_all, mut buffer) = (self.options.digest == FileDigest::Sha256, Vec::new());
        let limits = Limits { checksum: self.options.checksum, ..Limits::default() };
        bundle.visit_streams(&file.reader, file.section.clone(), limits, |entries, stream| {
            let before = (self.code_objects.len(), self.findings.len());
            let front = Front::new(if wants_all { stream.read_whole(&mut buffer)? } else { &[] }, stream);
            for entry in entries.iter().filter(|entry| entry.target().is_some()) {
                // Each target gets a share of the compressed bytes. A share is the difference
                // between two running sums, so all shares add up to the whole.
                let before = share(bundle.length, seen, total);
                seen = seen.saturating_add(entry.size);
                let stored = share(bundle.length, seen, total) - before;
                self.code(&front, Place::of(entry, number, stored))?;
            }
            if front.has_failed() {
                // The bundle's error, which is returned, reports it once.
                self.code_objects.truncate(before.0);
                self.findings.truncate(before.1);
            }
            Ok::<(), Error>(())
        })?;
        // The order of the entry table, which plain bundles use too.
        self.code_objects.sort_by_key(|found| with_code.iter().position(|entry| entry.target() == Some(&found.target)));
        Ok(())
    }

    fn entries(
        &mut self,
        file: &Shared,
        archive: &rocwheel_kpack::archive::KpackArchive,
        number: usize,
    ) -> Result<(), Error> {
        for located in archive.entries().skip(number * ENTRIES).take(ENTRIES) {
            let place = Place {
                declared: Some(located.target.to_owned()),
                entry: Some(located.key()),
                size: located.original_size,
                stored: located.size,
                ..Place::default()
            };
            if !archive.targets.iter().any(|target| target == located.target) && self.options.wants(located.target) {
                let message = format!("{} is never looked for: the archive does not list that target", place.name());
                self.findings.push(FileMessage::fault(Subject::Target, message));
            }
            match archive.scheme {
                Scheme::None => {
                    let range = located.offset..located.offset + located.size;
                    self.code(&Window { reader: &file.reader, range }, place)?;
                }
                Scheme::ZstdPerKernel => match archive.read(&file.reader, &located) {
                    Ok(bytes) => self.code(&bytes, place)?,
                    Err(error) => self.findings.push(FileMessage::of(&error)),
                },
            }
        }
        Ok(())
    }

    /// Examines the code objects in the data of a host file.
    fn embedded(&mut self, file: &Shared) -> Result<(), Error> {
        for EmbeddedCode { range, is_cut } in embedded(&file.reader, file.size)? {
            let size = range.end - range.start;
            let place = Place { offset: Some(range.start), size, stored: size, ..Place::default() };
            if is_cut {
                let message = format!("{} is cut, or its headers are damaged", place.name());
                self.findings.push(FileMessage::fault(Subject::Unreadable, message));
            }
            self.code(&Window { reader: &file.reader, range }, place)?;
        }
        Ok(())
    }

    /// Examines the images of an archive of AOTriton, whose headers name their targets.
    fn images(&mut self, file: &Shared) -> Result<(), Error> {
        let archive = ImageArchive::open(&file.reader, file.size)?;
        let _share = self.memory.take(archive.uncompressed.min(XZ_MEMORY));
        archive.visit(&file.reader, |image, bytes| {
            let entry = Some(image.name.clone());
            self.code(bytes, Place { entry, size: image.size, stored: image.stored, ..Place::default() })
        })
    }

    /// Examines one code object. An error becomes a finding and does not stop the others from being
    /// read.
    fn code(&mut self, reader: &dyn ReadAt, place: Place) -> Result<(), Error> {
        if place.declared.as_ref().is_some_and(|target| !self.options.wants(target)) {
            return Ok(());
        }
        let read = match CodeObject::read(reader) {
            Ok(read) => read,
            Err(error) => {
                let finding = FileMessage::of(&error);
                let message = format!("{}: {}", place.name(), finding.message);
                self.findings.push(FileMessage { message, ..finding });
                None
            }
        };
        let code = match &read {
            Some(_) => CodeFormat::Elf,
            None => self.other_code(reader, &place)?,
        };
        let own_target = read.as_ref().map(|read| read.target.clone());
        if let Some(read) = &read {
            self.check(read, &place);
        }
        let own = own_target.as_ref().map(ToString::to_string);
        let target = place.declared.or(own).unwrap_or_else(|| "unknown".to_owned());
        if !self.options.wants(&target) {
            return Ok(());
        }
        let digest = match self.options.digest {
            FileDigest::Sha256 => {
                Some(sha256_at(reader, place.size).map_err(|source| Error::ReadCodeObject { offset: 0, source })?)
            }
            FileDigest::Skip => None,
        };
        let (version, metadata, kernels) = read.map_or((None, MetadataFormat::Absent, Vec::new()), |read| {
            (read.code_object_version, read.metadata, read.kernels)
        });
        self.code_objects.push(FoundCode {
            target,
            own_target,
            bundle: place.bundle,
            entry: place.entry,
            offset: place.offset,
            size: place.size,
            stored: place.stored,
            digest,
            code,
            version,
            metadata,
            kernel_count: Some(kernels.len() as u64),
            kernels: if self.options.kernels == Kernels::Listed { kernels } else { Vec::new() },
        });
        Ok(())
    }

    /// The kind of an entry that is not an AMDGPU ELF file.
    fn other_code(&mut self, reader: &dyn ReadAt, place: &Place) -> Result<CodeFormat, Error> {
        let mut start = [0; 4];
        let count = reader.read_at(0, &mut start).map_err(|source| Error::ReadCodeObject { offset: 0, source })?;
        Ok(match &start[..count] {
            start if is_bitcode(start) => CodeFormat::Bitcode,
            start if is_spirv(start) => CodeFormat::SpirV,
            // A broken ELF file has been reported already.
            [0x7f, b'E', b'L', b'F']
                if self.findings.last().is_some_and(|last| last.message.starts_with(&place.name())) =>
            {
                CodeFormat::Unknown
            }
            start => {
                let message = format!("{} is no code object: it starts with `{}`", place.name(), start.escape_ascii());
                self.findings.push(FileMessage::fault(Subject::Code, message));
                CodeFormat::Unknown
            }
        })
    }

    fn check(&mut self, read: &CodeObject, place: &Place) {
        if let Some(declared) = &place.declared {
            match declared.parse::<TargetId>() {
                Err(error) => self.findings.push(FileMessage::fault(Subject::Target, error.to_string())),
                Ok(_) if !read.is_known => {
                    let machine = read.machine;
                    let message = format!("{} has the unknown machine number {machine:#04x}", place.name());
                    self.findings.push(FileMessage::note(Subject::Target, message));
                }
                Ok(target) if agrees(&target, read) => {}
                Ok(_) => {
                    let message = format!("{} is code for `{}` by its own ELF flags", place.name(), read.target);
                    self.findings.push(FileMessage::fault(Subject::Target, message));
                }
            }
        }
        match &read.metadata {
            MetadataFormat::MessagePack | MetadataFormat::Absent => {}
            MetadataFormat::Yaml => {
                let message = format!("{} has the metadata of code object version 2, which is not read", place.name());
                self.findings.push(FileMessage::note(Subject::Metadata, message));
            }
            MetadataFormat::Malformed(reason) => {
                let message = format!("{} has metadata that cannot be understood: {reason}", place.name());
                self.findings.push(FileMessage::fault(Subject::Metadata, message));
            }
        }
    }
}
