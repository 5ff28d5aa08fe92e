//! Input: a [`Plan`] and the files it was made from. Output: the archives, and for every host file
//! a patch that removes its GPU code.
//!
//! Each thread holds one uncompressed code object in memory at a time, or a window of a large one,
//! and threads wait for each other where [`Packing::memory`] would not suffice. Code objects that
//! wait to be written are compressed, and beyond a limit they wait in a file: librccl is one
//! compressed bundle of 1.2 GB, and all its code objects come before the first can be written.

use std::collections::BTreeMap;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err::File;
use positioned_io::Cursor;
use rocwheel_content::{Content, MemoryBudget};
use rocwheel_kpack::archive::{ArchiveWriter, Blob, Scheme, StoredCode};
use rocwheel_kpack::fatbin::{FatBinary, Magic, NewWrapper, Replacement};
use rocwheel_kpack::marker::Marker;
use rocwheel_progress::{Exit, Failure, NamedWriter, Reporter, Unit as Counted, Watched, write_error};
use serde::Serialize;

use crate::code::{self, Code, CodeSource, Piece};
use crate::error::{gpu_code_error, read_error};
use crate::plan::{CandidateFile, Plan, PlannedBinary, PlannedKpack, is_kept};

/// Alignment of markers in bytes.
const MARKER_ALIGNMENT: usize = 16;
/// Bytes that are copied at a time.
const WINDOW: usize = 256 << 10;

/// Storage of code objects in archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    pub scheme: Scheme,
    /// The level of zstd; ignored for [`Scheme::None`].
    pub level: i32,
    /// Bytes of memory that all threads together may use for code objects. A piece of work that
    /// needs more (a window of 128 MiB to decompress, and one of 64 MiB to compress) runs alone.
    /// The result does not depend on it.
    pub memory: u64,
}

impl Default for Packing {
    /// Returns zstd at the level that existing tools use.
    fn default() -> Self {
        Self { scheme: Scheme::ZstdPerKernel, level: 3, memory: default_memory() }
    }
}

/// Returns the default of [`Packing::memory`]: 256 MiB, and 32 MiB for each thread.
pub fn default_memory() -> u64 {
    (256 << 20) + rayon::current_num_threads() as u64 * (32 << 20)
}

impl Packing {
    /// Memory for pieces of work in progress, in bytes. A quarter is left for finished ones.
    fn for_work(self) -> u64 {
        self.memory - self.memory / 4
    }

    /// Bytes of compressed code objects that a piece of work may hold until they are written; more
    /// of them wait in a file. At most two pieces for each thread are between start and end.
    fn held(self) -> u64 {
        self.memory / 4 / (2 * rayon::current_num_threads() as u64)
    }
}

#[derive(Debug)]
pub struct SplitParts {
    /// One for each binary of the plan, in its order.
    pub hosts: Vec<Host>,
    /// One for each archive of the plan, in its order.
    pub archives: Vec<WrittenArchive>,
}

/// A host file without its GPU code.
#[derive(Debug, Clone)]
pub struct Host {
    pub key: String,
    pub patch: rocwheel_elf::Patch,
}

#[derive(Debug, Clone, Serialize)]
pub struct WrittenArchive {
    pub name: String,
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
}

/// A part of a bundle that one thread compresses.
struct Work<'a> {
    binary: &'a PlannedBinary,
    bundle: usize,
    piece: Piece,
}

struct Packed<'a> {
    archive: usize,
    key: &'a str,
    bundle: u32,
    target: &'a str,
    blob: Waiting,
}

/// An archive that is being written, whose errors name it.
type NamedArchive = ArchiveWriter<BufWriter<NamedWriter<File>>>;

enum Waiting {
    Held(Blob),
    /// Offset and size in the file, and the size of the code object, in bytes.
    Parked {
        file: Arc<File>,
        offset: u64,
        size: u64,
        original_size: u64,
    },
}

impl Packed<'_> {
    fn write(self, writer: &mut NamedArchive) -> Result<(), rocwheel_kpack::Error> {
        match self.blob {
            Waiting::Held(blob) => writer.add(self.key, self.bundle, self.target, &blob),
            Waiting::Parked { file, offset, size, original_size } => {
                let bytes = &mut BufReader::with_capacity(WINDOW, Cursor::new_pos(file.file(), offset));
                let code = StoredCode { original_size, size, bytes };
                writer.add_stored(self.key, self.bundle, self.target, code)
            }
        }
    }
}

/// Keeps the code objects of one piece of work: some in memory, the rest in a file.
struct WaitingRoom<'a> {
    folder: &'a Path,
    /// Bytes that may still be held in memory.
    left: u64,
    file: Option<Arc<File>>,
    /// Bytes in the file.
    parked: u64,
    reporter: &'a dyn Reporter,
}

impl WaitingRoom<'_> {
    /// Compresses a code object of `size` bytes, and reports them as progress: a bundle of a
    /// gigabyte is compressed for minutes before the first of its code objects is written. One that
    /// is large goes to the file at once.
    fn take(&mut self, (code, size): (Code<'_>, u64), packing: Packing, key: &str) -> Result<Waiting, Failure> {
        let reporter = self.reporter;
        let file = match code {
            Code::Whole(code) if !Blob::is_large(size, packing.scheme) => {
                let blob = Blob::pack(code, packing.scheme, packing.level);
                let blob = blob.map_err(interruption_or(reporter, gpu_code_error(key)))?;
                reporter.advance(size);
                if let Some(left) = self.left.checked_sub(blob.bytes.len() as u64) {
                    self.left = left;
                    return Ok(Waiting::Held(blob));
                }
                let file = self.file()?;
                file.as_ref().write_all(&blob.bytes).map_err(write_error(self.folder))?;
                file
            }
            code => {
                let file = self.file()?;
                let mut whole: &[u8];
                let stream: &mut dyn Read = match code {
                    Code::Whole(bytes) => {
                        whole = bytes;
                        &mut whole
                    }
                    Code::Stream(stream) => stream,
                };
                let mut stream = Watched::new(stream, reporter);
                let mut parked = NamedWriter::new(file.as_ref(), self.folder);
                match packing.scheme {
                    Scheme::None => {
                        io::copy(&mut stream, &mut parked).map_err(interruption_or(reporter, Failure::from))?;
                    }
                    Scheme::ZstdPerKernel => {
                        Blob::pack_to(&mut stream, size, packing.level, &mut parked)
                            .map_err(interruption_or(reporter, gpu_code_error(key)))?;
                    }
                }
                file
            }
        };
        let (offset, end) = (self.parked, file.as_ref().stream_position()?);
        self.parked = end;
        Ok(Waiting::Parked { file, offset, size: end - offset, original_size: size })
    }

    fn file(&mut self) -> Result<Arc<File>, Failure> {
        let file = if let Some(file) = &self.file {
            Arc::clone(file)
        } else {
            let file = tempfile::tempfile_in(self.folder).map_err(write_error(self.folder))?;
            Arc::new(File::from_parts(file, self.folder))
        };
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }
}

/// Writes the archives to the paths that `place` returns (directories are created) and computes the
/// patches. Existing files are overwritten, so `place` should return paths in a directory that only
/// the caller uses. The bytes do not depend on the number of threads.
///
/// # Errors
/// GPU code that is malformed behind its entry table, files that cannot be read or written, an
/// interruption.
pub fn execute(
    plan: &Plan,
    units: &[CandidateFile],
    packing: Packing,
    place: &(dyn Fn(&PlannedKpack) -> PathBuf + Sync),
    reporter: &dyn Reporter,
) -> Result<SplitParts, Failure> {
    let stage = reporter.stage("Moving GPU code to archives", Some(plan.code().1), Counted::Bytes);
    let archives = write_archives(plan, units, packing, place, reporter)?;
    drop(stage);
    let hosts = plan
        .binaries
        .iter()
        .map(|binary| Ok(Host { key: binary.key.clone(), patch: patch(plan, binary, &units[binary.unit])? }))
        .collect::<Result<_, Failure>>()?;
    Ok(SplitParts { hosts, archives })
}

/// Writes one set after the other, so that no more archives are open than there are targets.
fn write_archives(
    plan: &Plan,
    units: &[CandidateFile],
    packing: Packing,
    place: &(dyn Fn(&PlannedKpack) -> PathBuf + Sync),
    reporter: &dyn Reporter,
) -> Result<Vec<WrittenArchive>, Failure> {
    let mut written = Vec::new();
    for set in 0..plan.sets.len() {
        let mut open: BTreeMap<usize, (PathBuf, NamedArchive)> = BTreeMap::new();
        for (index, archive) in plan.archives.iter().enumerate().filter(|(_, archive)| archive.set == set) {
            let path = place(archive);
            let file = create(&path)?;
            let (group, family) = (&plan.sets[set].name, &archive.family);
            let writer = ArchiveWriter::new(
                BufWriter::new(NamedWriter::new(file, &path)),
                group,
                family,
                &archive.targets,
                packing.scheme,
            );
            let writer = writer.map_err(archive_error(&path))?;
            open.insert(index, (path, writer));
        }
        let Some((first, _)) = open.values().next() else { continue };
        let folder = first.parent().unwrap_or(first).to_owned();
        let work = plan.binaries.iter().flat_map(|binary| work_of(plan, binary, set));
        let memory = MemoryBudget::new(packing.for_work());
        rocwheel_pipeline::ordered(
            work,
            |work| {
                reporter.check()?;
                let bundle = &work.binary.fat.bundles[work.bundle];
                let _share = memory.take(code::memory(bundle, &work.piece, |entry| is_kept(entry, &plan.selection)));
                let room = WaitingRoom { folder: &folder, left: packing.held(), file: None, parked: 0, reporter };
                pack(plan, &units[work.binary.unit], &work, (packing, room))
            },
            |packed| {
                for code in packed {
                    let Some((path, writer)) = open.get_mut(&code.archive) else { continue };
                    code.write(writer).map_err(archive_error(path))?;
                }
                Ok(())
            },
        )?;
        for (index, (path, writer)) in open {
            let finished = writer.finish().map_err(archive_error(&path))?;
            let file = finished.into_inner().map_err(io::IntoInnerError::into_error)?;
            let size = file.get_ref().metadata()?.len();
            written.push(WrittenArchive { name: plan.archives[index].name.clone(), path, size });
        }
    }
    Ok(written)
}

/// Returns the interruption that stopped a stream instead of the stream's error.
fn interruption_or<E>(reporter: &dyn Reporter, failure: impl FnOnce(E) -> Failure) -> impl FnOnce(E) -> Failure {
    move |error| reporter.check().map_or_else(Failure::from, |()| failure(error))
}

fn archive_error(path: &Path) -> impl Fn(rocwheel_kpack::Error) -> Failure {
    move |error| {
        Failure::attempt(format!("could not write the archive `{}`", path.display()))(error).with_exit(Exit::Failed)
    }
}

fn create(path: &Path) -> Result<File, Failure> {
    if let Some(directory) = path.parent() {
        fs_err::create_dir_all(directory)?;
    }
    let file = File::create(path).map_err(write_error(path))?;
    rocwheel_system::set_open_mode(file.file(), 0o644)?;
    Ok(file)
}

/// Returns the pieces of a binary's bundles that belong to `set`.
fn work_of<'a>(plan: &'a Plan, binary: &'a PlannedBinary, set: usize) -> impl Iterator<Item = Work<'a>> {
    let of_set = binary.bundles.iter().enumerate().filter(move |(_, planned)| planned.set == set);
    of_set.flat_map(move |(bundle, _)| {
        let pieces = code::pieces(&binary.fat.bundles[bundle], |entry| is_kept(entry, &plan.selection));
        pieces.into_iter().map(move |piece| Work { binary, bundle, piece })
    })
}

fn pack<'a>(
    plan: &'a Plan,
    unit: &CandidateFile,
    work: &Work<'a>,
    (packing, mut room): (Packing, WaitingRoom<'_>),
) -> Result<Vec<Packed<'a>>, Failure> {
    let key = &work.binary.key;
    let reader = unit.content.open().map_err(read_error(key))?;
    let fat: &'a FatBinary = &work.binary.fat;
    let bundle = &fat.bundles[work.bundle];
    let set = work.binary.bundles[work.bundle].set;
    let mut packed = Vec::new();
    code::visit(
        &CodeSource { key, reader: &reader, section: &fat.section, checksum: plan.checksum },
        (bundle, &work.piece),
        |entry| is_kept(entry, &plan.selection),
        |entry, code| {
            // The targets of the set are those of the bundle; unlike the entry's, its strings live
            // as long as the plan.
            let target = plan.sets[set].targets.iter().find(|target| entry.target() == Some(target.as_str()));
            let place = target.and_then(|target| Some((target, plan.archive_of(set, target)?)));
            let (target, archive) = place.expect("every kept entry was planned");
            let blob = room.take((code, entry.size), packing, key)?;
            packed.push(Packed { archive, key, bundle: work.bundle as u32, target, blob });
            Ok(())
        },
    )?;
    Ok(packed)
}

/// Returns the patch that replaces the contents of the fat binary section by markers.
fn patch(plan: &Plan, binary: &PlannedBinary, unit: &CandidateFile) -> Result<rocwheel_elf::Patch, Failure> {
    let mut page: Vec<u8> = Vec::new();
    let mut offsets: BTreeMap<usize, u64> = BTreeMap::new();
    let mut wrappers = Vec::with_capacity(binary.wrappers.len());
    for &bundle in &binary.wrappers {
        let set = binary.bundles[bundle].set;
        let pointer = if let Some(offset) = offsets.get(&set) {
            *offset
        } else {
            let search_path = plan.sets[set].search_path(&unit.archives);
            let marker = Marker { kernel_name: binary.key.clone(), search_paths: vec![search_path] };
            let marker = marker.encode().map_err(gpu_code_error(&binary.key))?;
            page.resize(page.len().next_multiple_of(MARKER_ALIGNMENT), 0);
            let offset = page.len() as u64;
            page.extend_from_slice(&marker);
            offsets.insert(set, offset);
            offset
        };
        wrappers.push(NewWrapper { magic: Magic::Kpacked, pointer, index: bundle as u64 });
    }
    let reader = unit.content.open().map_err(read_error(&binary.key))?;
    let size = page.len() as u64;
    binary
        .fat
        .replace(&reader, Replacement { content: Arc::new(page), size, wrappers })
        .map_err(gpu_code_error(&binary.key))
}
