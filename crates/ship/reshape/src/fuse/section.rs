//! Input: a [`Binary`]. Output: its new fat binary section in an unlinked temporary file, and the
//! positions of its bundles.
//!
//! Bundles are written in parallel, each with one code object in memory at a time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use positioned_io::ReadAt;
use rocwheel_content::WINDOW;
use rocwheel_kpack::bundle::{self, ALIGNMENT, BundleForm, Checksum};
use rocwheel_kpack::{BundleEntry, CodeObject};
use rocwheel_progress::{Failure, Reporter};
use rocwheel_system::PositionedWriter;

use super::combine::{Binary, FusedBundle, FusedCode};
use super::fuse_error;
use super::gather::{BuildPart, Origin, shown};
use rocwheel_split::code::{self, CodeSource, Piece};
use rocwheel_split::error::{gpu_code_error, read_error};

/// A fat binary section that is not yet part of a file.
pub(crate) struct Section {
    pub(crate) content: Arc<dyn ReadAt + Send + Sync>,
    pub(crate) size: u64,
    /// Offset of each bundle in bytes.
    pub(crate) bundles: Vec<u64>,
}

/// Writes the section of a binary to a temporary file in `scratch`.
pub(crate) fn write(
    binary: &Binary,
    form: BundleForm,
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Result<Section, Failure> {
    let file = tempfile::tempfile_in(scratch)?;
    let (mut bundles, mut end) = (Vec::new(), 0_u64);
    if form == BundleForm::Plain {
        // The sizes of plain bundles are known beforehand, so each is written directly to its
        // position.
        let mut places = Vec::new();
        for planned in &binary.bundles {
            let start = end.next_multiple_of(ALIGNMENT);
            end = start + plain_size(planned);
            bundles.push(start);
            places.push((planned, start));
        }
        file.set_len(end)?;
        rocwheel_pipeline::ordered(
            places.into_iter(),
            |(planned, start)| {
                let mut out = PositionedWriter::new(&file, start);
                write_bundle(binary, planned, form, (scratch, &mut out), reporter)
            },
            |_| Ok(()),
        )?;
    } else {
        rocwheel_pipeline::ordered(
            binary.bundles.iter(),
            |planned| {
                let mut out = tempfile::tempfile_in(scratch)?;
                let size = write_bundle(binary, planned, form, (scratch, &mut out), reporter)?;
                out.seek(SeekFrom::Start(0))?;
                Ok::<_, Failure>((out, size))
            },
            |(compressed, size)| {
                let start = end.next_multiple_of(ALIGNMENT);
                copy(&compressed, size, &mut PositionedWriter::new(&file, start))?;
                bundles.push(start);
                end = start + size;
                Ok(())
            },
        )?;
    }
    Ok(Section { content: Arc::new(file), size: end, bundles })
}

fn copy(from: &dyn ReadAt, size: u64, to: &mut PositionedWriter<'_>) -> io::Result<()> {
    let mut window = vec![0; WINDOW.min(size as usize)];
    let mut done = 0;
    while done < size {
        let length = (size - done).min(WINDOW as u64) as usize;
        from.read_exact_at(done, &mut window[..length])?;
        to.write_all(&window[..length])?;
        done += length as u64;
    }
    Ok(())
}

/// A code object that is loaded when its first byte is read, and dropped after its last.
struct Lazy<'a> {
    load: &'a dyn Fn() -> Result<Vec<u8>, Failure>,
    bytes: RefCell<Option<Vec<u8>>>,
    error: &'a RefCell<Option<Failure>>,
}

impl ReadAt for Lazy<'_> {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.borrow_mut();
        if bytes.is_none() {
            *bytes = Some((self.load)().map_err(|error| {
                *self.error.borrow_mut() = Some(error);
                io::Error::other("the code object could not be read")
            })?);
        }
        let Some(loaded) = bytes.as_ref() else { return Ok(0) };
        let rest = loaded.get(position as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        if count == rest.len() {
            *bytes = None;
        }
        Ok(count)
    }
}

fn plain_size(planned: &FusedBundle) -> u64 {
    let none: &[u8] = &[];
    let mut parts = vec![bundle::Part { id: &planned.host, size: 0, content: &none }];
    parts.extend(planned.entries.iter().map(|entry| bundle::Part { id: &entry.id, size: entry.size, content: &none }));
    bundle::plain_size(&parts)
}

fn write_bundle(
    binary: &Binary,
    planned: &FusedBundle,
    form: BundleForm,
    (scratch, out): (&Path, &mut dyn Write),
    reporter: &dyn Reporter,
) -> Result<u64, Failure> {
    let spools = Spools::new(binary, planned, scratch)?;
    let (failure, kernels) = (RefCell::new(None), SeenKernels::default());
    let load = |entry: &FusedCode| -> Result<Vec<u8>, Failure> {
        reporter.check()?;
        let bytes = same(binary, entry, (&spools, &kernels))?;
        reporter.advance(entry.size);
        Ok(bytes)
    };
    let loads: Vec<_> = planned.entries.iter().map(|entry| move || load(entry)).collect();
    let lazies: Vec<Lazy<'_>> =
        loads.iter().map(|load| Lazy { load, bytes: RefCell::new(None), error: &failure }).collect();
    let none: &[u8] = &[];
    let mut parts = vec![bundle::Part { id: &planned.host, size: 0, content: &none }];
    let pairs = planned.entries.iter().zip(&lazies);
    parts.extend(pairs.map(|(entry, lazy)| bundle::Part { id: &entry.id, size: entry.size, content: lazy }));
    let written = bundle::write(&parts, form, out);
    drop(parts);
    drop(lazies);
    written.map_err(|error| failure.take().unwrap_or_else(|| gpu_code_error(&binary.path)(error)))
}

/// The bytes of an entry, after checking that all builds have the same.
fn same(binary: &Binary, entry: &FusedCode, (spools, kernels): (&Spools, &SeenKernels)) -> Result<Vec<u8>, Failure> {
    let mut found: Option<(Vec<u8>, usize)> = None;
    for (number, code) in &entry.codes {
        let part = &binary.parts[*number];
        let bytes = match (part.compressed(code), &code.origin) {
            (Some(bundle), Origin::Bundle { entry, .. }) => spools.read(*number, bundle, *entry, code.size)?,
            (_, Origin::Bundle { .. }) => part.code(code)?,
            (_, Origin::Archive { .. }) => {
                let bytes = part.code(code)?;
                kernels.check(binary, *number, (&entry.id, &bytes))?;
                bytes
            }
        };
        match &found {
            None => found = Some((bytes, *number)),
            Some((other, first)) if *other != bytes => {
                let builds = (&binary.parts[*first].build, &part.build);
                let why = format!("{} and {} have different code for `{}`", builds.0, builds.1, entry.id);
                return Err(fuse_error(&binary.path, &why));
            }
            Some(_) => {}
        }
    }
    Ok(found.map(|(bytes, _)| bytes).unwrap_or_default())
}

/// The kernels of a bundle in each part, for one target.
///
/// A wrapper registers the same kernels for each target. Archives that were numbered wrongly (kpack
/// specification 8, B3) have code of different translation units under one index.
#[derive(Default)]
struct SeenKernels(RefCell<BTreeMap<usize, (String, BTreeSet<String>)>>);

impl SeenKernels {
    fn check(&self, binary: &Binary, part: usize, (id, code): (&str, &[u8])) -> Result<(), Failure> {
        let Ok(Some(object)) = CodeObject::read(&code) else { return Ok(()) };
        let names: BTreeSet<String> = object.kernels.into_iter().map(|kernel| kernel.name).collect();
        if names.is_empty() {
            return Ok(());
        }
        let mut seen = self.0.borrow_mut();
        let (other, known) = seen.entry(part).or_insert_with(|| (id.to_owned(), names.clone()));
        if !known.is_disjoint(&names) {
            return Ok(());
        }
        let why = format!(
            "its archives have code of different translation units under one index: `{other}` and `{id}` have no kernel in common"
        );
        Err(fuse_error(shown(&binary.path), &why))
    }
}

/// Compressed bundles, decompressed to temporary files.
struct Spools {
    spools: Vec<Spool>,
}

/// The code objects of a compressed bundle, one after the other in a temporary file.
struct Spool {
    part: usize,
    bundle: usize,
    content: Arc<dyn ReadAt + Send + Sync>,
    /// Offset of each entry's code in bytes.
    places: Vec<u64>,
}

impl Spools {
    fn new(binary: &Binary, planned: &FusedBundle, scratch: &Path) -> Result<Self, Failure> {
        let mut spools: Vec<Spool> = Vec::new();
        for (number, code) in planned.entries.iter().flat_map(|entry| &entry.codes) {
            let part = &binary.parts[*number];
            let Some(bundle) = part.compressed(code) else { continue };
            if spools.iter().any(|spool| (spool.part, spool.bundle) == (*number, bundle)) {
                continue;
            }
            let (content, places) = spool(part, bundle, scratch)?;
            spools.push(Spool { part: *number, bundle, content, places });
        }
        Ok(Self { spools })
    }

    fn read(&self, part: usize, bundle: usize, entry: usize, size: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; size as usize];
        if let Some(spool) = self.spools.iter().find(|spool| (spool.part, spool.bundle) == (part, bundle)) {
            spool.content.read_exact_at(spool.places[entry], &mut bytes)?;
        }
        Ok(bytes)
    }
}

/// Decompresses the code objects of a bundle to a temporary file, and returns the offset of each
/// entry.
fn spool(
    part: &BuildPart,
    bundle: usize,
    scratch: &Path,
) -> Result<(Arc<dyn ReadAt + Send + Sync>, Vec<u64>), Failure> {
    let mut file = tempfile::tempfile_in(scratch)?;
    let found = &part.fat.bundles[bundle];
    let mut places = vec![0; found.entries.len()];
    let mut end = 0;
    let reader = part.content.open().map_err(read_error(&part.path))?;
    let source =
        CodeSource { key: &part.path, reader: &reader, section: &part.fat.section, checksum: Checksum::Compare };
    code::visit_whole(&source, (found, &Piece::Whole), BundleEntry::has_code, |entry, code| {
        if let Some(place) = found.entries.iter().position(|other| other.id == entry.id) {
            places[place] = end;
        }
        file.write_all(code)?;
        end += code.len() as u64;
        Ok(())
    })?;
    Ok((Arc::new(file), places))
}
