//! Input: paths of files and folders of any kind. Output: every piece of GPU code in them, file by
//! file: its target, size, kernels and position, and the problems with it.
//!
//! The first bytes of a file determine its type, never its name. Host programs and libraries, code
//! objects, offload bundles, `.kpack` archives and those of AOTriton are read in folders, in wheels
//! and other ZIP files, and in tar archives. Files are opened one after the other; their bundles
//! are read in parallel and handed over in order.

mod distant;
mod examine;
mod open;
mod source;
mod stream_front;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use positioned_io::ReadAt as _;
use rocwheel_archive::FileDigest;
use rocwheel_content::{Digest, Reader};
use rocwheel_kpack::Error;
use rocwheel_kpack::bundle::CompressionHeader;
use rocwheel_kpack::code_object::{Kernel, MetadataFormat};
use rocwheel_kpack::marker::Marker;
use rocwheel_progress::{Reporter, Unit as Counted};
use rocwheel_tables::target::{TargetId, base_target};

pub use distant::{DistantFile, survey_distant};
use open::Open;
pub use open::{CUDA, WINDOWS_CUDA};
pub use rocwheel_kpack::bundle::Checksum;
use source::{Pause, Sources, Unit};

#[derive(Debug, Clone)]
pub struct Options {
    /// Folder for data that must be unpacked before it can be read: members of tar archives of more
    /// than 64 MiB. The files are unnamed, so nothing is left behind.
    pub scratch: PathBuf,
    /// Report only code for these targets; a target without features includes its variants. `None`
    /// reports all targets.
    pub targets: Option<BTreeSet<String>>,
    /// List the kernels or only count them. A large library has a hundred thousand.
    pub kernels: Kernels,
    /// Read all bytes of code objects for [`FoundCode::digest`], or only headers and notes.
    pub digest: FileDigest,
    /// Compare the content of compressed bundles with the checksums that they state, an MD5, which
    /// takes longer than all the rest. LLVM's clang-offload-bundler does not compare them either.
    pub checksum: Checksum,
}

/// The amount of information about kernels that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// The number of kernels.
    Counted,
    /// The kernels themselves.
    Listed,
}

impl Options {
    fn wants(&self, target: &str) -> bool {
        self.targets.as_ref().is_none_or(|targets| targets.contains(target) || targets.contains(base_target(target)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The file on disk.
    pub path: PathBuf,
    /// The name of the member, if that file is an archive.
    pub member: Option<String>,
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.path.display())?;
        match &self.member {
            Some(member) => write!(formatter, ":{}", member.escape_debug()),
            None => Ok(()),
        }
    }
}

/// The type of a file, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileFormat {
    /// A Linux program, library or object file.
    Elf,
    /// A Windows program or library.
    Pe,
    /// One AMDGPU ELF file.
    CodeObject,
    /// Offload bundles without a host file, plain or compressed.
    Bundle,
    /// A `.kpack` archive.
    Kpack,
    /// An archive of AOTriton (`.aks2`).
    Aotriton,
    /// Any other file; it has no GPU code.
    Other,
}

impl FileFormat {
    /// The name in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Elf => "elf",
            Self::Pe => "pe",
            Self::CodeObject => "code-object",
            Self::Bundle => "bundle",
            Self::Kpack => "kpack",
            Self::Aotriton => "aotriton",
            Self::Other => "other",
        }
    }
}

/// One file and the GPU code in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surveyed {
    pub location: Location,
    pub kind: FileFormat,
    /// Size of the unpacked file in bytes.
    pub size: u64,
    /// Size in the archive in bytes; `None` for a file that is not a member of an archive.
    pub packed: Option<u64>,
    /// Number of wrappers, which register the code with the runtime.
    pub wrappers: usize,
    /// The bundles, in the order of the file.
    pub bundles: Vec<BundleSummary>,
    /// The markers that name the archives with the code of a split file.
    pub markers: Vec<Marker>,
    /// The code objects, by bundle, then in the order of the bundle; those of an archive by name,
    /// index and target.
    pub code_objects: Vec<FoundCode>,
    /// `true` if the file also has code for NVIDIA's GPUs, which is not examined.
    pub has_cuda: bool,
    /// Problems of the file, and facts worth knowing.
    pub findings: Vec<FileMessage>,
}

impl Surveyed {
    /// `true` if the file contains GPU code, contained some before it was split, or should contain
    /// some.
    pub fn is_of_interest(&self) -> bool {
        !self.code_objects.is_empty()
            || !self.bundles.is_empty()
            || !self.markers.is_empty()
            || !self.findings.is_empty()
    }
}

/// One bundle of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleSummary {
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Size in the file in bytes, without padding.
    pub length: u64,
    /// The compression; `None` for a plain bundle.
    pub compression: Option<CompressionHeader>,
    /// The numbers of the wrappers that refer to it: one, or several if translation units were
    /// linked for the device (`-fgpu-rdc`).
    pub wrappers: Vec<usize>,
}

/// One code object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCode {
    /// The target that its bundle or archive declares, else the one in its own header.
    pub target: String,
    /// The target in its own header.
    pub own_target: Option<TargetId>,
    /// The number of its bundle in the file.
    pub bundle: Option<usize>,
    /// The name in an archive: `lib/librocblas.so.4#0`.
    pub entry: Option<String>,
    /// The offset in the file, if it lies in the data of a program or library and in no bundle.
    pub offset: Option<u64>,
    /// Size in bytes.
    pub size: u64,
    /// Bytes that it occupies in the file. The bytes of a compressed bundle are divided among its
    /// code objects in proportion to their size.
    pub stored: u64,
    /// The SHA-256 of the bytes; `None` if it was not requested.
    pub digest: Option<Digest>,
    pub code: CodeFormat,
    /// The code object version, 2 to 6.
    pub version: Option<u8>,
    /// The source of the list of kernels.
    pub metadata: MetadataFormat,
    /// Number of kernels; `None` if the code object was not read ([`survey_distant`]).
    pub kernel_count: Option<u64>,
    /// The kernels; empty if they were not requested.
    pub kernels: Vec<Kernel>,
}

/// The type of an entry's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodeFormat {
    /// An ELF file with code for one target.
    Elf,
    /// LLVM bitcode, which a device linker compiles.
    Bitcode,
    /// SPIR-V, which the runtime compiles.
    SpirV,
    /// Any other bytes.
    Unknown,
}

impl CodeFormat {
    /// The name in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Elf => "elf",
            Self::Bitcode => "bitcode",
            Self::SpirV => "spir-v",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMessage {
    pub subject: Subject,
    pub weight: Weight,
    /// One sentence that does not name the file.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The file, or a part of it, cannot be read.
    Unreadable,
    /// A code object is for a different target than its bundle or archive declares.
    Target,
    /// An entry is not code.
    Code,
    /// The metadata note.
    Metadata,
    /// A wrapper that refers to no bundle, or a bundle without a wrapper.
    Wrapper,
    /// A file that was not examined.
    Skipped,
}

impl Subject {
    /// The name in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Target => "target",
            Self::Code => "code",
            Self::Metadata => "metadata",
            Self::Wrapper => "wrapper",
            Self::Skipped => "skipped",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Worth knowing, but not a problem.
    Note,
    /// A problem of the file.
    Fault,
}

impl FileMessage {
    fn fault(subject: Subject, message: impl Into<String>) -> Self {
        Self { subject, weight: Weight::Fault, message: message.into() }
    }

    fn note(subject: Subject, message: impl Into<String>) -> Self {
        Self { subject, weight: Weight::Note, message: message.into() }
    }

    /// An error and its causes in one sentence.
    fn of(error: &dyn std::error::Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            let text = source.to_string();
            // The message of a transparent error already ends with that of its source.
            if !message.ends_with(&text) {
                message = format!("{message}: {text}");
            }
            cause = source.source();
        }
        Self::fault(Subject::Unreadable, message)
    }
}

/// Surveys one open file of `size` bytes. Archives other than `.kpack` are not searched.
///
/// It is an error if the first bytes cannot be read. Any other problem becomes a finding.
pub fn survey_file(location: Location, reader: Reader, size: u64, options: &Options) -> Result<Surveyed, Error> {
    let mut start = vec![0; open::START.min(usize::try_from(size).unwrap_or(open::START))];
    reader.read_exact_at(0, &mut start).map_err(|source| Error::Io { what: "the first bytes", source })?;
    let file = Open::read(location, size, open::looks(&start), reader);
    let mut surveyed = file.surveyed();
    let memory = examine::memory();
    rocwheel_pipeline::ordered(
        source::units(file).into_iter(),
        |unit: Unit| Ok(examine::examine(unit, options, &memory)),
        |part| {
            surveyed.code_objects.extend(part.code_objects);
            surveyed.findings.extend(part.findings);
            Ok::<(), Error>(())
        },
    )?;
    Ok(surveyed)
}

/// Surveys `paths` in order, folders sorted by name and without following links. Passes every file
/// to `each`, in an order that does not depend on the number of threads.
///
/// A problem with a file becomes a finding and does not stop the survey; an error of `each` does.
pub fn survey<E: From<Error> + Send>(
    paths: &[PathBuf],
    options: &Options,
    reporter: &dyn Reporter,
    mut each: impl FnMut(Surveyed) -> Result<(), E>,
) -> Result<(), E> {
    let _stage = reporter.stage("reading GPU code", None, Counted::Items);
    let mut current: Option<Surveyed> = None;
    let mut hand_over = |part: examine::Part| -> Result<(), E> {
        let file = current.get_or_insert_with(|| part.file.surveyed());
        file.code_objects.extend(part.code_objects);
        file.findings.extend(part.findings);
        if part.is_last
            && let Some(file) = current.take()
        {
            reporter.advance(1);
            each(file)?;
        }
        reporter.check().map_err(Error::from)?;
        Ok(())
    };
    let memory = examine::memory();
    let work = |unit: Unit| Ok(examine::examine(unit, options, &memory));
    let mut sources = Sources::new(paths);
    loop {
        rocwheel_pipeline::ordered(&mut sources, work, &mut hand_over)?;
        match sources.resume() {
            None => break,
            // All results so far have been handed over, so the memory is free again.
            Some(Pause::Full) => {}
            Some(Pause::Tar(file)) => {
                source::for_each_tar_member(&file, options, &mut |member: Open| {
                    rocwheel_pipeline::ordered(source::units(member).into_iter(), work, &mut hand_over)
                })?;
            }
        }
    }
    Ok(())
}
