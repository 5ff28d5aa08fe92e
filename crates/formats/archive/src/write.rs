//! Input: named contents in the order of the archive, and members of other archives. Output: a ZIP
//! file, and the SHA-256 of every new member.

mod blocks;
mod chunks;
mod deflate;
mod format;

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use positioned_io::ReadAt as _;
use rayon::prelude::*;
use rocwheel_content::{Content, Digest};
use rocwheel_progress::Reporter;

use crate::Error;
use crate::level::Level;
use crate::options::{FileDigest, WriteOptions};
use crate::output::{Beginning, Hashing, Output};
use crate::read::{Listed, MemberKind, ZipFile};
use crate::reuse::{KnownMember, PackedMember, PackedPiece, SearchedMembers, last_part};
use crate::written::Written;
use chunks::{Done, Large, Packed, Part, Unit, Workshop};
pub(crate) use deflate::{CHUNK, Place, unpack_part};
pub(crate) use format::REGULAR_FILE;
use format::{DIRECTORY, DosTime, Header, Method, SYMLINK};

/// Maximum number of small members in one unit of work.
const MEMBERS_A_UNIT: usize = 256;

/// Number of bytes that are copied between two checks for an interruption.
const DIRECT: u64 = 16 << 20;

pub struct ZipSource<'a> {
    /// Path inside the archive.
    pub name: &'a str,
    /// Type and permission bits, as in Unix.
    pub mode: u32,
    pub content: &'a dyn Content,
}

/// The mode of a regular file with or without execute permission.
pub fn file_mode(executable: bool) -> u32 {
    REGULAR_FILE | if executable { 0o755 } else { 0o644 }
}

/// The bytes of a member of another archive, and the header that it gets.
struct Copied<'a> {
    header: Header<'a>,
    bytes: Range<u64>,
    zip: &'a ZipFile,
}

impl Copied<'_> {
    /// `true` if its archive has the same header and then its bytes, from the position `place` on.
    fn follows(&self, header: &[u8], place: u64) -> bool {
        let mut there = vec![0; header.len()];
        self.bytes.start == place + header.len() as u64
            && self.zip.file().read_exact_at(place, &mut there).is_ok_and(|()| there == header)
    }
}

pub struct WrittenMember {
    /// SHA-256 of its bytes.
    pub sha256: Digest,
    /// In bytes.
    pub size: u64,
}

pub struct ZipWriter {
    output: Output,
    options: WriteOptions,
    central: Vec<u8>,
    entries: u64,
    raw: u64,
    large: Growing,
    comment: Vec<u8>,
    /// How members were packed, for later runs; empty if that is not recorded.
    packed: Vec<PackedMember>,
    /// How members of the wheel that is copied from were packed, by the position of their bytes.
    inherited: HashMap<u64, PackedMember>,
    /// Names of the members that have the text that is searched for.
    found_in: BTreeSet<String>,
    /// `true` if members were copied, which are not searched.
    has_copies: bool,
    /// The beginning that the archive shares with the one that its members are copied from; `None`
    /// while all of it is shared.
    common: Option<Beginning>,
}

#[derive(Default)]
struct Growing {
    offset: u64,
    crc32: crc32fast::Hasher,
    size: u64,
    compressed: u64,
    pieces: Vec<PackedPiece>,
}

impl ZipWriter {
    /// Begins the file `path` in a folder that must exist.
    pub fn create(path: &Path, options: WriteOptions) -> Result<ZipWriter, Error> {
        let output = Output::create(path, options.digest)?;
        let common = (options.digest == FileDigest::Skip).then(Beginning::default);
        Ok(ZipWriter {
            output,
            options,
            central: Vec::new(),
            entries: 0,
            raw: 0,
            large: Growing::default(),
            comment: Vec::new(),
            packed: Vec::new(),
            inherited: HashMap::new(),
            found_in: BTreeSet::new(),
            has_copies: false,
            common,
        })
    }

    /// The next bytes may differ from those of the archive that members are copied from.
    fn differ(&mut self) -> Result<(), Error> {
        if self.common.is_none() {
            self.common = Some(self.output.beginning().map_err(Error::write(self.output.path(), None))?);
        }
        Ok(())
    }

    /// Looks up how members of the archive that others are copied from were packed.
    pub fn inherit(&mut self, zip: &ZipFile) {
        let members = self.options.reuse.packing_of(zip.file()).into_iter();
        self.inherited = members.filter_map(|member| Some((member.pieces.first()?.offset, member))).collect();
    }

    /// A member was copied from one position to another.
    fn note_copy(&mut self, name: &str, from: u64, to: u64) {
        if let Some(mut member) = self.inherited.remove(&from) {
            last_part(name).clone_into(&mut member.file_name);
            for piece in &mut member.pieces {
                // A record that lies leads to bytes that are found to be others.
                piece.offset = piece.offset.wrapping_sub(from).wrapping_add(to);
            }
            self.packed.push(member);
        }
    }

    /// Sets the comment of the archive, which installers ignore.
    pub fn set_comment(&mut self, comment: &[u8]) {
        comment.clone_into(&mut self.comment);
    }

    /// Sets the compression level of the members that are added from now on.
    pub fn set_level(&mut self, level: Level) {
        self.options.level = level;
    }

    /// Adds members in the given order.
    pub fn add(&mut self, sources: &[ZipSource<'_>], reporter: &dyn Reporter) -> Result<Vec<WrittenMember>, Error> {
        self.differ()?;
        self.output.set_hashing(Hashing::After);
        self.options.reuse.look_up();
        let workshop = Workshop::new(self.options.level, self.options.reuse.clone());
        let units = units(&workshop, sources)?;
        let mut entries = Vec::with_capacity(sources.len());
        rocwheel_pipeline::ordered(
            units.into_iter(),
            |unit| chunks::run(&workshop, sources, unit),
            |done| {
                reporter.check()?;
                match done {
                    Done::Small(members) => {
                        for packed in members {
                            let source = &sources[packed.index];
                            self.note_search(source, packed.is_hit);
                            self.write_small(source, &packed)
                                .map_err(Error::write(self.output.path(), Some(source.name)))?;
                            entries.push(WrittenMember { sha256: packed.sha256, size: source.content.size() });
                            reporter.advance(source.content.size());
                        }
                    }
                    Done::Chunk(large, part) => {
                        let source = &sources[large.index];
                        self.note_search(source, part.is_hit);
                        reporter.advance(part.size);
                        let is_last = part.number + 1 == Large::chunks(source.content.size());
                        self.write_part(source, large.method, &part)
                            .and_then(|()| if is_last { self.close_large(source, large.method) } else { Ok(()) })
                            .map_err(Error::write(self.output.path(), Some(source.name)))?;
                        part.give_back(&workshop);
                        if is_last {
                            let sha256 = large.digest(&workshop, self.large.crc32.clone().finalize())?;
                            let pieces = std::mem::take(&mut self.large.pieces);
                            self.note_packing(source, sha256, pieces);
                            entries.push(WrittenMember { sha256, size: source.content.size() });
                        }
                    }
                }
                Ok(())
            },
        )?;
        Ok(entries)
    }

    /// Adds a member of another archive under a name, with its packed bytes unchanged and new
    /// headers.
    pub fn copy(&mut self, zip: &ZipFile, member: &Listed, name: &str, reporter: &dyn Reporter) -> Result<(), Error> {
        let kind = match member.kind {
            MemberKind::File => REGULAR_FILE,
            MemberKind::Directory => DIRECTORY,
            MemberKind::Symlink => SYMLINK,
        };
        let header = Header {
            name,
            mode: kind | member.mode,
            method: if member.is_stored() { Method::Stored } else { Method::Deflated },
            crc32: member.crc32,
            size: member.size,
            compressed: member.compressed,
            offset: self.output.position(),
            large: format::is_large(member.size, member.compressed),
        };
        let copied = Copied { header, bytes: member.offset..member.range().end, zip };
        let local = copied.header.local(self.time());
        if self.common.is_none() && !copied.follows(&local, copied.header.offset) {
            self.differ()?;
        }
        self.has_copies = true;
        self.output.set_hashing(Hashing::Beside);
        self.output.write_all(&local).map_err(Error::write(self.output.path(), Some(name)))?;
        self.note_copy(name, copied.bytes.start, self.output.position());
        self.copy_bytes((zip, copied.bytes), Some(name), reporter)?;
        self.enter(&copied.header);
        Ok(())
    }

    /// `true` if the headers of members in the next `length` bytes need no 64-bit fields.
    fn has_room_for_run(&self, length: u64) -> bool {
        self.output.position() + length < u64::from(u32::MAX)
    }

    /// Adds adjacent members of another archive with their headers unchanged: in their directory
    /// entries, which are given, only the offset changes. Returns `false` and adds nothing if the
    /// offsets need 64-bit fields.
    pub fn copy_run(
        &mut self,
        zip: &ZipFile,
        members: &[(&Listed, &[u8])],
        reporter: &dyn Reporter,
    ) -> Result<bool, Error> {
        let (Some((first, _)), Some((last, _))) = (members.first(), members.last()) else { return Ok(false) };
        let bytes = first.range().start..last.range().end;
        if !self.has_room_for_run(bytes.end - bytes.start) {
            return Ok(false);
        }
        let begin = self.output.position();
        if begin != bytes.start {
            self.differ()?;
        }
        self.has_copies = true;
        self.output.set_hashing(Hashing::Beside);
        self.copy_bytes((zip, bytes.clone()), None, reporter)?;
        for (listed, entry) in members {
            let place = begin + (listed.header - bytes.start);
            let at = self.central.len() + format::CENTRAL_OFFSET;
            self.central.extend_from_slice(entry);
            self.central[at..at + 4].copy_from_slice(&(place as u32).to_le_bytes());
            self.count(listed.size);
            self.note_copy(&listed.name, listed.offset, begin + (listed.offset - bytes.start));
        }
        Ok(true)
    }

    /// Copies a range of another file to the end of this one.
    fn copy_bytes(
        &mut self,
        (zip, bytes): (&ZipFile, Range<u64>),
        member: Option<&str>,
        reporter: &dyn Reporter,
    ) -> Result<(), Error> {
        let mut position = bytes.start;
        while position < bytes.end {
            reporter.check()?;
            let length = (bytes.end - position).min(DIRECT);
            if let Some(count) = self.output.copy_from(zip.file().file(), position, length) {
                position += count;
                reporter.advance(count);
                continue;
            }
            let room = self.output.room().map_err(Error::write(self.output.path(), member))?;
            let length = (bytes.end - position).min(room as u64);
            self.output.append(length as usize, |window| {
                zip.file().read_exact_at(position, window).map_err(Error::open(zip.path()))
            })?;
            position += length;
            reporter.advance(length);
        }
        Ok(())
    }

    fn write_small(&mut self, source: &ZipSource<'_>, packed: &Packed) -> io::Result<()> {
        let header = Header {
            name: source.name,
            mode: source.mode,
            method: packed.method,
            crc32: packed.crc32,
            size: source.content.size(),
            compressed: packed.data.len() as u64,
            offset: self.output.position(),
            large: false,
        };
        self.output.write_all(&header.local(self.time()))?;
        if let Some(piece) = packed.piece {
            let piece = PackedPiece { offset: self.output.position(), ..piece };
            self.note_packing(source, packed.sha256, vec![piece]);
        }
        self.output.write_all(&packed.data)?;
        self.enter(&header);
        Ok(())
    }

    fn note_search(&mut self, source: &ZipSource<'_>, is_hit: bool) {
        if is_hit {
            self.found_in.insert(source.name.to_owned());
        }
    }

    fn note_packing(&mut self, source: &ZipSource<'_>, sha256: Digest, pieces: Vec<PackedPiece>) {
        if !pieces.is_empty() {
            let file_name = last_part(source.name).to_owned();
            self.packed.push(PackedMember { file_name, size: source.content.size(), sha256, pieces });
        }
    }

    /// Writes a chunk. Before the first one it writes a header without sizes, as a placeholder.
    fn write_part(&mut self, source: &ZipSource<'_>, method: Method, part: &Part) -> io::Result<()> {
        if part.number == 0 {
            self.output.open()?;
            self.large = Growing { offset: self.output.position(), ..Growing::default() };
            let place = self.large_header(source, method);
            self.output.write_all(&place.local(self.time()))?;
        }
        self.large.crc32.combine(&part.crc32);
        self.large.size += part.size;
        self.large.compressed += part.len() as u64;
        if let Some(piece) = part.piece {
            self.large.pieces.push(PackedPiece { offset: self.output.position(), ..piece });
        }
        self.output.write_all(part)
    }

    /// Overwrites the header, now with the sizes.
    fn close_large(&mut self, source: &ZipSource<'_>, method: Method) -> io::Result<()> {
        let header = self.large_header(source, method);
        self.output.correct(header.offset, &header.local(self.time()))?;
        self.output.settle()?;
        self.enter(&header);
        Ok(())
    }

    fn large_header<'a>(&self, source: &ZipSource<'a>, method: Method) -> Header<'a> {
        Header {
            name: source.name,
            mode: source.mode,
            method,
            crc32: self.large.crc32.clone().finalize(),
            size: self.large.size,
            compressed: self.large.compressed,
            offset: self.large.offset,
            large: format::needs_large(source.content.size()),
        }
    }

    fn time(&self) -> DosTime {
        DosTime::from_epoch(self.options.epoch)
    }

    fn enter(&mut self, header: &Header<'_>) {
        self.central.extend(header.central(self.time()));
        self.count(header.size);
    }

    fn count(&mut self, size: u64) {
        self.entries += 1;
        self.raw += size;
    }

    /// Writes the central directory and renames the file to its final name. Also returns the
    /// beginning that the file shares with the one its members are copied from.
    pub fn finish(mut self, reporter: &dyn Reporter) -> Result<(Written, Beginning), Error> {
        self.differ()?;
        let offset = self.output.position();
        let end = format::end(self.entries, offset, self.central.len() as u64, &self.comment);
        let tail = self.output.write_all(&self.central).and_then(|()| self.output.write_all(&end));
        tail.map_err(Error::write(self.output.path(), None))?;
        let written = self.output.finish(self.entries, self.raw)?;
        let sought = self.options.reuse.sought().filter(|_| !self.has_copies).zip(written.sha256.clone());
        let searched =
            sought.map(|(text, sha256)| SearchedMembers { text: text.to_owned(), sha256, members: self.found_in });
        self.options.reuse.remember(&written, self.packed, searched, reporter);
        Ok((written, self.common.unwrap_or_default()))
    }
}

/// How a large member is packed, and a member of an earlier wheel that may be equal.
type LargeMethod = (Method, Option<Arc<KnownMember>>);

/// Divides the work: large members into chunks, small ones gathered until they fill one chunk.
fn units<'a>(workshop: &Workshop, sources: &'a [ZipSource<'a>]) -> Result<Vec<Unit<'a>>, Error> {
    // Without large members nothing has to be tested, and the pool is not needed.
    let methods: Vec<_> = if sources.iter().any(|source| source.content.size() > CHUNK as u64) {
        sources.par_iter().map(|source| large_method(workshop, source)).collect::<Result<Vec<_>, Error>>()?
    } else {
        vec![None; sources.len()]
    };
    let mut units = Vec::new();
    let mut begin = 0;
    let mut bytes = 0;
    for (index, method) in methods.into_iter().enumerate() {
        let size = sources[index].content.size();
        bytes += size;
        if begin < index && (method.is_some() || bytes > CHUNK as u64 || index - begin == MEMBERS_A_UNIT) {
            units.push(Unit::Small(begin..index));
            begin = index;
            bytes = size;
        }
        if let Some(method) = method {
            let large = Arc::new(Large::new(index, &sources[index], method));
            units.extend((0..Large::chunks(size)).map(|number| Unit::Chunk(Arc::clone(&large), number)));
            begin = index + 1;
            bytes = 0;
        }
    }
    if begin < sources.len() {
        units.push(Unit::Small(begin..sources.len()));
    }
    Ok(units)
}

pub fn read_error(member: &str, content: &dyn Content) -> impl FnOnce(io::Error) -> Error {
    move |source| {
        let (member, origin) = (member.to_owned(), content.origin().map(Path::to_owned));
        match source.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                Error::SizeChanged { member, origin, expected: content.size(), source }
            }
            _ => Error::Read { member, origin, source },
        }
    }
}

fn large_method(workshop: &Workshop, source: &ZipSource<'_>) -> Result<Option<LargeMethod>, Error> {
    if source.content.size() <= CHUNK as u64 {
        return Ok(None);
    }
    if chunks::shrinks(workshop, source)? {
        return Ok(Some((Method::Deflated, chunks::known_member(workshop, source)?)));
    }
    Ok(Some((Method::Stored, None)))
}
