//! Input: paths of files and folders of any kind. Output: every piece of GPU code in them, file by
//! file: what it is for, how large it is, which kernels it has, where it lies, and what is wrong
//! with it.
//!
//! What a file is, its first bytes decide, never its name. Host programs and libraries, code
//! objects, offload bundles and `.kpack` archives are read where they are, in folders, in wheels
//! and other ZIP files, and in tar archives. Files are opened one after the other; their bundles
//! are read in parallel and handed over in order.

mod examine;
mod open;
mod source;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use positioned_io::ReadAt as _;
use rocwheel_content::{Digest, Reader};
use rocwheel_kpack::Error;
use rocwheel_kpack::bundle::Compression;
use rocwheel_kpack::code_object::{Kernel, Metadata};
use rocwheel_kpack::marker::Marker;
use rocwheel_report::{Reporter, Unit as Counted};
use rocwheel_rocm::target::{TargetId, base_target};
use rocwheel_wheel::FileDigest;

use open::Open;
pub use open::{CUDA, WINDOWS_CUDA};
use source::{Pause, Sources, Unit};

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder for what has to be unpacked to be read: members of wheels and tar archives of more
    /// than 64 MiB. The files have no name there, so nothing is left behind.
    pub scratch: PathBuf,
    /// Only code for these targets; a target without features stands for its variants too. `None`:
    /// all.
    pub targets: Option<BTreeSet<String>>,
    /// Whether kernels are listed or only counted. A large library has a hundred thousand.
    pub kernels: Kernels,
    /// Whether all bytes of code objects are read, for [`Found::digest`]; otherwise headers and
    /// notes are.
    pub digest: FileDigest,
}

/// What is kept of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// How many there are.
    Counted,
    /// All of them.
    Listed,
}

impl Options {
    fn wants(&self, target: &str) -> bool {
        self.targets.as_ref().is_none_or(|targets| targets.contains(target) || targets.contains(base_target(target)))
    }
}

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The file on disk.
    pub path: PathBuf,
    /// The member, when that file is an archive.
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

/// What a file is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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
    /// Something else, which has no GPU code.
    Other,
}

impl Kind {
    /// A word for listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Elf => "elf",
            Self::Pe => "pe",
            Self::CodeObject => "code-object",
            Self::Bundle => "bundle",
            Self::Kpack => "kpack",
            Self::Other => "other",
        }
    }
}

/// One file and the GPU code in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surveyed {
    /// Where it is.
    pub location: Location,
    /// What it is.
    pub kind: Kind,
    /// Bytes of the file, unpacked.
    pub size: u64,
    /// Bytes it takes in the archive it is a member of.
    pub packed: Option<u64>,
    /// Wrappers, which register the code with the runtime.
    pub wrappers: usize,
    /// The bundles, in the order of the file.
    pub bundles: Vec<BundleSummary>,
    /// Where the code of a split file went.
    pub markers: Vec<Marker>,
    /// The code objects, by bundle, then in the order of the bundle; those of an archive by name,
    /// index and target.
    pub code_objects: Vec<Found>,
    /// Whether it has code for NVIDIA's GPUs, which is not looked into.
    pub has_cuda: bool,
    /// What is wrong with it, and what is worth knowing.
    pub findings: Vec<Finding>,
}

impl Surveyed {
    /// Whether it holds GPU code, held some before it was split, or should hold some.
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
    /// First byte in the file.
    pub offset: u64,
    /// Bytes in the file, without padding.
    pub length: u64,
    /// How it is compressed.
    pub compression: Option<Compression>,
    /// The numbers of the wrappers that reach it: one, or several when translation units were
    /// linked for the device (`-fgpu-rdc`).
    pub wrappers: Vec<usize>,
}

/// One code object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it is for, as its bundle or archive says, else by its own header.
    pub target: String,
    /// What it is for by its own header.
    pub own_target: Option<TargetId>,
    /// The number of its bundle in the file.
    pub bundle: Option<usize>,
    /// The text under which an archive has it: `lib/librocblas.so.4#0`.
    pub entry: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Bytes it takes in the file. Those of a compressed bundle are shared out among its code
    /// objects by their size.
    pub stored: u64,
    /// The SHA-256 of the bytes, if it was asked for.
    pub digest: Option<Digest>,
    /// What the bytes are.
    pub code: CodeFormat,
    /// The code object version, 2 to 6.
    pub version: Option<u8>,
    /// Where the kernels come from.
    pub metadata: Metadata,
    /// How many kernels it has.
    pub kernel_count: u64,
    /// The kernels, if they were asked for.
    pub kernels: Vec<Kernel>,
}

/// What the bytes of an entry are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodeFormat {
    /// Code for one target.
    Elf,
    /// LLVM bitcode, from which a device linker makes code.
    Bitcode,
    /// SPIR-V, which the runtime compiles.
    SpirV,
    /// None of these.
    Unknown,
}

impl CodeFormat {
    /// A word for listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Elf => "elf",
            Self::Bitcode => "bitcode",
            Self::SpirV => "spir-v",
            Self::Unknown => "unknown",
        }
    }
}

/// Something about a file that is to be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub subject: Subject,
    /// Whether something is wrong.
    pub weight: Weight,
    /// One sentence, without the file.
    pub message: String,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The file, or a part of it, cannot be read.
    Unreadable,
    /// A code object is for another target than its bundle or archive says.
    Target,
    /// An entry is no code.
    Code,
    /// The metadata note.
    Metadata,
    /// A wrapper that reaches nothing, or code that no wrapper reaches.
    Wrapper,
    /// A file that was not looked into.
    Skipped,
}

impl Subject {
    /// A word for listings.
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

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Worth knowing.
    Note,
    /// Something is wrong with the file.
    Fault,
}

impl Finding {
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
            // A transparent error repeats its source.
            if !message.ends_with(&text) {
                message = format!("{message}: {text}");
            }
            cause = source.source();
        }
        Self::fault(Subject::Unreadable, message)
    }
}

/// What one file of `size` bytes is and has, for those who have it open. Archives other than
/// `.kpack` are not looked into.
///
/// # Errors
/// [`Error::Io`] when the first bytes cannot be read. All other trouble is one of its findings.
pub fn survey_file(location: Location, reader: Reader, size: u64, options: &Options) -> Result<Surveyed, Error> {
    let mut start = vec![0; open::START.min(usize::try_from(size).unwrap_or(open::START))];
    let failed = |source| Error::Io { what: "the first bytes", source };
    reader.read_exact_at(0, &mut start).map_err(failed)?;
    let file = Open::read(location, size, open::looks(&start), reader);
    let mut surveyed = file.surveyed();
    rocwheel_pipeline::ordered(
        source::units(file).into_iter(),
        |unit: Unit| Ok(examine::examine(unit, options)),
        |part| {
            surveyed.code_objects.extend(part.code_objects);
            surveyed.findings.extend(part.findings);
            Ok::<(), Error>(())
        },
    )?;
    Ok(surveyed)
}

/// Looks through `paths` in their order, folders sorted and without following links, and hands
/// every file to `each`, in an order that does not depend on the number of threads.
///
/// Trouble with a file is one of its findings and does not stop the survey.
///
/// # Errors
/// Those of `each`, and [`Error::Interrupted`].
pub fn survey<E: From<Error> + Send>(
    paths: &[PathBuf],
    options: &Options,
    reporter: &dyn Reporter,
    mut each: impl FnMut(Surveyed) -> Result<(), E>,
) -> Result<(), E> {
    reporter.begin("reading GPU code", None, Counted::Items);
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
    let work = |unit: Unit| Ok(examine::examine(unit, options));
    let mut sources = Sources::new(paths, options);
    loop {
        rocwheel_pipeline::ordered(&mut sources, work, &mut hand_over)?;
        match sources.resume() {
            None => break,
            // Memory is free again.
            Some(Pause::Full) => {}
            Some(Pause::Tar(file)) => {
                source::for_each_tar_member(&file, options, &mut |member: Open| {
                    rocwheel_pipeline::ordered(source::units(member).into_iter(), work, &mut hand_over)
                })?;
            }
        }
    }
    reporter.end();
    Ok(())
}
