//! Input: an artifact directory. Output: its archive and the archive's sidecar. The same files give
//! the same bytes, regardless of the number of threads, the umask, the time zone or the order of
//! the directory.

use std::collections::HashMap;
use std::io::{self, Read as _, Write};
use std::path::Path;

use rocwheel_content::{Sha256, hexadecimal};
use rocwheel_progress::{Reporter, Unit};
use rocwheel_system::FileMetadata as _;
use tar::EntryType;

use super::encoder::Encoder;
use super::plan::{ArchiveOptions, ArchivePlan, ArchiveState, PackedArtifact, PlannedArchive};
use super::record::{ArchiveInputs, ArchiveRecords};
use super::sidecar::{sidecar_line, sidecar_path};
use super::tarball::{Head, Tarball};
use crate::catalog::Artifact;
use crate::entry::EntryKind;
use crate::error::Error;
use crate::input::read_small;
use crate::scan::MANIFEST;

/// Writes the planned archives and their sidecars. Each appears complete or not at all; an existing
/// archive of the same name is replaced.
pub fn write(plan: &ArchivePlan, reporter: &dyn Reporter) -> Result<Vec<PackedArtifact>, Error> {
    let total = plan.archives.iter().map(|archive| archive.bytes).sum();
    let _stage = reporter.stage("Writing archives", Some(total), Unit::Bytes);
    plan.archives.iter().map(|archive| write_one(archive, plan.options, reporter)).collect()
}

/// Like [`write()`], but keeps an archive that an earlier call wrote of the same files with the
/// same options, if it is as that call left it. Files are compared by what the file system knows
/// about them.
pub fn update(plan: &ArchivePlan, reporter: &dyn Reporter) -> Result<Vec<PackedArtifact>, Error> {
    let total = plan.archives.iter().map(|archive| archive.bytes).sum();
    let _stage = reporter.stage("Writing archives", Some(total), Unit::Bytes);
    plan.archives.iter().map(|archive| update_one(archive, plan.options, reporter)).collect()
}

fn update_one(
    planned: &PlannedArchive,
    options: ArchiveOptions,
    reporter: &dyn Reporter,
) -> Result<PackedArtifact, Error> {
    let records = ArchiveRecords::beside(&planned.path);
    let before = ArchiveInputs::of(planned, options)?;
    if let Some(unchanged) = records.unchanged(planned, &before) {
        reporter.advance(planned.bytes);
        return Ok(unchanged);
    }
    let packed = write_one(planned, options, reporter)?;
    // If files change meanwhile, it is unknown which version is in the archive.
    if ArchiveInputs::of(planned, options)? == before {
        records.write(planned, &before, &packed);
    }
    Ok(packed)
}

fn write_one(
    planned: &PlannedArchive,
    options: ArchiveOptions,
    reporter: &dyn Reporter,
) -> Result<PackedArtifact, Error> {
    let directory = planned.path.parent().unwrap_or(Path::new("."));
    fs_err::create_dir_all(directory)?;
    let mut temporary = new_file(directory).map_err(write_error(planned, reporter))?;
    let counting = Counting { output: temporary.as_file_mut(), hash: Sha256::new(), bytes: 0 };
    let encoder = Encoder::new(counting, options.compression, options.level, options.threads)
        .map_err(write_error(planned, reporter))?;
    let mut tarball = Tarball::new(encoder, options.epoch);
    let raw = write_members(&planned.contents, &mut tarball, reporter).map_err(write_error(planned, reporter))?;
    let counted = tarball.finish().and_then(Encoder::finish).map_err(write_error(planned, reporter))?;
    let (digest, compressed) = (hexadecimal(&counted.hash.finish()), counted.bytes);

    let sidecar = sidecar_path(&planned.path);
    let mut temporary_sidecar = new_file(directory).map_err(write_error(planned, reporter))?;
    let file_name = planned.path.file_name().unwrap_or_default().to_string_lossy();
    temporary_sidecar
        .write_all(sidecar_line(&digest, &file_name).as_bytes())
        .map_err(write_error(planned, reporter))?;
    reporter.check()?;
    // An old sidecar must not stay beside the new archive if the program ends before the next step.
    match fs_err::remove_file(&sidecar) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    rocwheel_system::persist(temporary, &planned.path).map_err(write_error(planned, reporter))?;
    rocwheel_system::persist(temporary_sidecar, &sidecar).map_err(write_error(planned, reporter))?;
    let (artifact, path, files) = (planned.artifact.clone(), planned.path.clone(), planned.files);
    let state = ArchiveState::Written;
    Ok(PackedArtifact { artifact, path, sidecar, digest, files, raw, compressed, state })
}

fn write_error(planned: &PlannedArchive, reporter: &dyn Reporter) -> impl Fn(io::Error) -> Error {
    move |source| {
        let failed = Error::WriteArchive { path: planned.path.clone(), source };
        reporter.check().map_or_else(Error::Interrupted, |()| failed)
    }
}

/// Creates a temporary file with mode 644, regardless of the umask.
fn new_file(directory: &Path) -> io::Result<tempfile::NamedTempFile> {
    let file = tempfile::Builder::new().prefix(".rocwheel-").tempfile_in(directory)?;
    rocwheel_system::set_open_mode(file.as_file(), 0o644)?;
    Ok(file)
}

/// Writes the manifest, then everything else by basedir and path. Files that share an inode become
/// hard links to the first of them in that order. Returns the bytes of all file contents.
fn write_members<W: Write>(artifact: &Artifact, tarball: &mut Tarball<W>, reporter: &dyn Reporter) -> io::Result<u64> {
    let manifest = read_small(&artifact.root.join(MANIFEST))?;
    let size = manifest.len() as u64;
    tarball.head(MANIFEST, Head { kind: EntryType::Regular, mode: 0o644, size, link: "" })?;
    tarball.write_all(&manifest)?;
    tarball.pad(size)?;

    let mut first_names: HashMap<_, String> = HashMap::new();
    let mut raw = 0;
    for entry in &artifact.entries {
        if reporter.interrupted() {
            return Err(io::Error::other("interrupted"));
        }
        let name = format!("{}/{}", artifact.basedirs[entry.basedir], entry.path);
        match &entry.kind {
            EntryKind::Directory => {
                let head = Head { kind: EntryType::Directory, mode: 0o755, size: 0, link: "" };
                tarball.head(&format!("{name}/"), head)?;
            }
            EntryKind::Symlink { target } => {
                tarball.head(&name, Head { kind: EntryType::Symlink, mode: 0o777, size: 0, link: target })?;
            }
            EntryKind::File { size, executable } => {
                let path = artifact.path(entry);
                let metadata = fs_err::symlink_metadata(&path)?;
                let mode = if *executable { 0o755 } else { 0o644 };
                if metadata.link_count(&path)? > 1 {
                    let inode = metadata.identity(&path)?;
                    if let Some(first) = first_names.get(&inode) {
                        tarball.head(&name, Head { kind: EntryType::Link, mode, size: 0, link: first })?;
                        reporter.advance(*size);
                        continue;
                    }
                    first_names.insert(inode, name.clone());
                }
                tarball.head(&name, Head { kind: EntryType::Regular, mode, size: *size, link: "" })?;
                write_content(&path, *size, tarball, reporter)?;
                raw += size;
            }
        }
    }
    Ok(raw)
}

fn write_content<W: Write>(
    path: &Path,
    size: u64,
    tarball: &mut Tarball<W>,
    reporter: &dyn Reporter,
) -> io::Result<()> {
    let mut file = fs_err::File::open(path)?;
    let mut buffer = vec![0; size.clamp(1, 1 << 20) as usize];
    let mut left = size;
    loop {
        if reporter.interrupted() {
            return Err(io::Error::other("interrupted"));
        }
        let read = file.read(&mut buffer)?;
        if read as u64 > left || (read == 0 && left > 0) {
            return Err(io::Error::other(format!("`{}` changed its size while it was read", path.display())));
        }
        if read == 0 {
            return tarball.pad(size);
        }
        tarball.write_all(&buffer[..read])?;
        left -= read as u64;
        reporter.advance(read as u64);
    }
}

/// Hashes and counts the bytes on their way to `output`.
struct Counting<W> {
    output: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
