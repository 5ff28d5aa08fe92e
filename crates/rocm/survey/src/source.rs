//! Input: paths. Output: units of work, file by file. Folders are walked; ZIP files and tar
//! archives are searched.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use positioned_io::{Cursor, ReadAt};
use rocwheel_archive::{Listed, ZipFile};
use rocwheel_content::{PACK_WITHOUT_SPARSE, Reader, pax_sparse_name};
use rocwheel_progress::{NamedWriter, write_error};
use tar::EntryType;
use walkdir::WalkDir;

use crate::open::{Looks, Open, Packing, START, Shared, Window, looks};
use crate::{FileMessage, Location, Options, Subject};

/// Limit of the bytes of unpacked members in memory; the next file is not opened before they are
/// freed.
const HELD: u64 = 32 << 20;
/// Members of tar archives of up to this many bytes are unpacked in memory.
const IN_MEMORY: u64 = 64 << 20;
/// Number of bytes that are read from an archive at once.
const WINDOW: usize = 1 << 18;
/// Memory limit of the xz decoder in bytes; level 9 needs 65 MiB.
const XZ_MEMORY: u64 = 256 << 20;

/// A part of a file that is examined independently.
pub(crate) struct Unit {
    pub(crate) file: Shared,
    /// The number of the bundle, or of the group of entries.
    pub(crate) number: usize,
    /// `true` if it is the last unit of its file.
    pub(crate) is_last: bool,
}

pub(crate) fn units(file: Open) -> VecDeque<Unit> {
    let file = Arc::new(file);
    let parts = file.parts();
    (0..parts).map(|number| Unit { file: Arc::clone(&file), number, is_last: number + 1 == parts }).collect()
}

/// The reason for an early end of the units.
pub(crate) enum Pause {
    /// The memory limit is reached.
    Full,
    /// A tar archive, which must be read from front to back.
    Tar(Tarball),
}

pub(crate) struct Tarball {
    location: Location,
    size: u64,
    packing: Packing,
    reader: Reader,
}

/// Sources that still have to be read, the innermost last.
enum Feeder<'a> {
    Paths(std::iter::Cloned<std::slice::Iter<'a, PathBuf>>),
    Folder(walkdir::IntoIter),
    Zip { path: PathBuf, zip: ZipFile, members: std::vec::IntoIter<Listed> },
}

/// The units of all paths. The iterator ends at a [`Pause`]; after [`Sources::resume`] it
/// continues.
pub(crate) struct Sources<'a> {
    feeders: Vec<Feeder<'a>>,
    /// The real paths of the folders that are walked.
    walked: Vec<PathBuf>,
    /// The real paths of files outside of them that links led to.
    linked: BTreeSet<PathBuf>,
    ready: VecDeque<Unit>,
    held: u64,
    pause: Option<Pause>,
}

impl<'a> Sources<'a> {
    pub(crate) fn new(paths: &'a [PathBuf]) -> Self {
        let feeders = vec![Feeder::Paths(paths.iter().cloned())];
        let walked = paths.iter().filter(|path| path.is_dir()).filter_map(|path| fs_err::canonicalize(path).ok());
        let (walked, linked) = (walked.collect(), BTreeSet::new());
        Self { feeders, walked, linked, ready: VecDeque::new(), held: 0, pause: None }
    }

    /// The reason why it ended; `None` if all units have been returned.
    pub(crate) fn resume(&mut self) -> Option<Pause> {
        self.held = 0;
        self.pause.take()
    }

    fn add(&mut self, file: Open) {
        self.ready.extend(units(file));
    }

    fn say(&mut self, location: Location, size: u64, finding: FileMessage) {
        self.add(Open::only(location, size, vec![finding]));
    }

    /// Opens the next source; `false` if there is none.
    fn feed(&mut self) -> bool {
        let Some(feeder) = self.feeders.last_mut() else {
            return false;
        };
        match feeder {
            Feeder::Paths(paths) => match paths.next() {
                Some(path) => self.path(path),
                None => drop(self.feeders.pop()),
            },
            Feeder::Folder(walk) => match walk.next() {
                Some(Ok(entry)) if entry.file_type().is_file() => self.file(entry.into_path()),
                Some(Ok(entry)) if entry.path_is_symlink() => self.link(entry.into_path()),
                // Devices and sockets are ignored.
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    let path = error.path().unwrap_or(Path::new("")).to_owned();
                    let finding = match error.io_error() {
                        Some(error) => unreadable(error),
                        None => FileMessage::of(&error),
                    };
                    self.say(Location { path, member: None }, 0, finding);
                }
                None => drop(self.feeders.pop()),
            },
            Feeder::Zip { path, zip, members } => match members.next() {
                Some(member) if member.kind == rocwheel_archive::MemberKind::File => {
                    let location = Location { path: path.clone(), member: Some(member.name.clone()) };
                    let opened = open_member(zip, &member);
                    self.member(location, &member, opened);
                }
                Some(_) => {}
                None => drop(self.feeders.pop()),
            },
        }
        true
    }

    /// Adds a path that the user named: a folder, a file, or a link to one.
    fn path(&mut self, path: PathBuf) {
        match fs_err::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                self.feeders.push(Feeder::Folder(WalkDir::new(path).sort_by_file_name().into_iter()));
            }
            Ok(metadata) if metadata.is_file() => self.file(path),
            Ok(_) => {
                let finding = FileMessage::fault(Subject::Unreadable, "it is neither a file nor a folder");
                self.say(Location { path, member: None }, 0, finding);
            }
            Err(error) => self.say(Location { path, member: None }, 0, unreadable(&error)),
        }
    }

    /// Adds the file that a link in a folder leads to, once. Files in the folders are surveyed at
    /// their own paths, and links to folders are not followed.
    fn link(&mut self, path: PathBuf) {
        let Ok(real) = fs_err::canonicalize(&path) else { return };
        let is_outside = !self.walked.iter().any(|folder| real.starts_with(folder));
        if is_outside && real.is_file() && self.linked.insert(real) {
            self.file(path);
        }
    }

    fn file(&mut self, path: PathBuf) {
        let location = Location { path, member: None };
        let opened = fs_err::File::open(&location.path).and_then(|file| {
            let size = file.metadata()?.len();
            let (file, _) = file.into_parts();
            let mut start = vec![0; START.min(size as usize)];
            file.read_exact_at(0, &mut start)?;
            Ok((file, size, looks(&start)))
        });
        match opened {
            Err(error) => self.say(location, 0, unreadable(&error)),
            Ok((_, _, Looks::Zip)) => match ZipFile::open(&location.path) {
                Ok(zip) => {
                    let mut members = zip.members().to_vec();
                    members.sort_by(|left, right| left.name.cmp(&right.name));
                    self.feeders.push(Feeder::Zip { path: location.path, zip, members: members.into_iter() });
                }
                Err(error) => self.say(location, 0, FileMessage::of(&error)),
            },
            Ok((file, size, Looks::Tar(packing))) => {
                let reader = Box::new(file);
                self.pause = Some(Pause::Tar(Tarball { location, size, packing, reader }));
            }
            Ok((file, size, looks)) => self.add(Open::read(location, size, looks, Box::new(file))),
        }
    }

    fn member(&mut self, location: Location, member: &Listed, opened: Result<(Looks, Reader), rocwheel_wheel::Error>) {
        match opened {
            Err(error) => self.say(location, member.size, FileMessage::of(&error)),
            Ok((Looks::Tar(packing), reader)) => {
                self.pause = Some(Pause::Tar(Tarball { location, size: member.size, packing, reader }));
            }
            Ok((Looks::Zip, _)) => {
                let finding = FileMessage::note(Subject::Skipped, "an archive inside an archive is not looked into");
                self.say(location, member.size, finding);
            }
            Ok((looks, reader)) => {
                let mut file = Open::read(location, member.size, looks, reader);
                file.packed = Some(member.compressed);
                if !member.is_stored() && member.size <= IN_MEMORY {
                    self.held += member.size;
                }
                self.add(file);
            }
        }
    }
}

impl Iterator for Sources<'_> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        loop {
            if let Some(unit) = self.ready.pop_front() {
                return Some(unit);
            }
            if self.pause.is_none() && self.held >= HELD {
                self.pause = Some(Pause::Full);
            }
            if self.pause.is_some() || !self.feed() {
                return None;
            }
        }
    }
}

/// Recognises a member, and unpacks it only if it can contain GPU code. Most members of a wheel
/// cannot.
fn open_member(zip: &ZipFile, member: &Listed) -> Result<(Looks, Reader), rocwheel_wheel::Error> {
    let looks = looks(&zip.start(member, START)?);
    let reader = match looks {
        Looks::Other | Looks::Zip => Box::new(Vec::new()),
        _ => zip.reader(member)?,
    };
    Ok((looks, reader))
}

/// Calls `each` for every member that can contain GPU code, and once for the archive itself if it
/// has a problem.
pub(crate) fn for_each_tar_member<E>(
    tarball: &Tarball,
    options: &Options,
    each: &mut impl FnMut(Open) -> Result<(), E>,
) -> Result<(), E> {
    let mut count = 0;
    let mut failed: Option<E> = None;
    let ended = walk_tar(tarball, options, &mut |file| {
        count += 1;
        each(file).map_err(|error| {
            failed = Some(error);
            io::ErrorKind::Interrupted.into()
        })
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let location = tarball.location.clone();
    match ended {
        Ok(()) => Ok(()),
        // A compressed file that is not a tar archive has no GPU code that a program could load.
        Err(_) if count == 0 && tarball.packing != Packing::None => {
            each(Open::only(location, tarball.size, Vec::new()))
        }
        Err(error) => each(Open::only(location, tarball.size, vec![unreadable(&error)])),
    }
}

fn walk_tar(tarball: &Tarball, options: &Options, each: &mut dyn FnMut(Open) -> io::Result<()>) -> io::Result<()> {
    let window = Window { reader: &tarball.reader, range: 0..tarball.size };
    let source = BufReader::with_capacity(WINDOW, Cursor::new(window));
    let decoder: Box<dyn Read + '_> = match tarball.packing {
        Packing::None => Box::new(source),
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(source)?),
        Packing::Xz => {
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(source, stream))
        }
    };
    let mut archive = tar::Archive::new(decoder);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse) {
            continue;
        }
        let size = entry.size();
        let sparse = pax_sparse_name(&mut entry)?;
        let is_sparse = sparse.is_some();
        let name = sparse.unwrap_or_else(|| String::from_utf8_lossy(&entry.path_bytes()).into_owned());
        let name = match &tarball.location.member {
            Some(outer) => format!("{outer}:{name}"),
            None => name,
        };
        let location = Location { path: tarball.location.path.clone(), member: Some(name) };
        if is_sparse {
            let reason =
                format!("it is a sparse file in the PAX format, which is not supported: {PACK_WITHOUT_SPARSE}");
            each(Open::only(location, size, vec![FileMessage::fault(Subject::Unreadable, reason)]))?;
            continue;
        }
        let mut start = Vec::new();
        entry.by_ref().take(START as u64).read_to_end(&mut start)?;
        let looks = looks(&start);
        let file = match looks {
            Looks::Other => Open::only(location, size, Vec::new()),
            Looks::Zip | Looks::Tar(_) => {
                let finding = FileMessage::note(Subject::Skipped, "an archive inside an archive is not looked into");
                Open::only(location, size, vec![finding])
            }
            _ => {
                let reader = spool(start, &mut entry, size, &options.scratch)?;
                Open::read(location, size, looks, reader)
            }
        };
        each(file)?;
    }
    Ok(())
}

/// Random access to `size` bytes: `start` and the bytes that follow it in `rest`.
fn spool(start: Vec<u8>, rest: &mut impl Read, size: u64, scratch: &Path) -> io::Result<Reader> {
    let mut bytes = start;
    if size <= IN_MEMORY {
        rest.read_to_end(&mut bytes)?;
        return if bytes.len() as u64 == size { Ok(Box::new(bytes)) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
    }
    let file = tempfile::tempfile_in(scratch).map_err(write_error(scratch))?;
    let mut kept = NamedWriter::new(&file, scratch);
    kept.write_all(&bytes)?;
    let copied = io::copy(rest, &mut kept)?;
    if bytes.len() as u64 + copied == size { Ok(Box::new(file)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn unreadable(error: &io::Error) -> FileMessage {
    FileMessage::fault(Subject::Unreadable, format!("it cannot be read: {}", plain(error)))
}

/// The system's reason without the prefix that `fs_err` adds: the finding already names the path.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.rsplit_once("`: ").map_or(text.as_str(), |(_, reason)| reason).to_owned()
}
