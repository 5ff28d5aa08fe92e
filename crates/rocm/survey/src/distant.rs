//! Input: a file on a server. Output: the GPU code in it, as far as directories, tables and headers
//! name it. No code object is read, so kernels are not counted.
//!
//! Of a wheel, the directory is read, and the beginning of each member that may have GPU code. A
//! stored member is read where its tables are. A compressed one would have to be downloaded from
//! its beginning: that is done with small ones, and the others are reported.

use std::path::{Path, PathBuf};

use positioned_io::ReadAt as _;
use rayon::prelude::*;
use rocwheel_archive::{DistantMember, Listed, MemberKind};
use rocwheel_content::{Content, Reader};
use rocwheel_kpack::Error;
use rocwheel_kpack::archive::{read_table, share};
use rocwheel_kpack::code_object::{self, MetadataFormat};
use rocwheel_progress::{Reporter, Unit};
use rocwheel_wheel::read::WheelDirectory;

use crate::open::{Looks, Open, START, looks};
use crate::{CodeFormat, FileFormat, FileMessage, FoundCode, Location, Options, Subject, Surveyed};

/// Compressed members of up to this many packed bytes are downloaded.
const SMALL: u64 = 256 << 10;
/// Bytes of a compressed code object that are unpacked for its target.
const HEADER: usize = 4096;
/// Requests to a server at the same time.
const CONNECTIONS: usize = 8;
/// Endings of files without GPU code. Each beginning of a member costs a request.
const TEXTS: [&str; 24] = [
    ".py", ".pyi", ".txt", ".md", ".rst", ".h", ".hpp", ".hip", ".inc", ".cmake", ".json", ".yaml", ".yml", ".toml",
    ".html", ".css", ".js", ".csv", ".pc", ".sh", ".xml", ".pyx", ".c", ".cpp",
];

/// A file on a server, and how it is read.
pub struct DistantFile<'a> {
    pub path: PathBuf,
    /// Its file name. An address has it with `%2B` for `+`, as all wheels with a local version do.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Opens it, once for each thread and member. Reads are small and far from each other.
    pub open: &'a (dyn Fn() -> Reader + Sync),
}

/// The same as a content, for its directory.
struct Directory<'a>(&'a DistantFile<'a>);

impl Content for Directory<'_> {
    fn size(&self) -> u64 {
        self.0.size
    }

    fn open(&self) -> std::io::Result<Reader> {
        Ok((self.0.open)())
    }
}

/// Surveys a distant file, or the members of a distant wheel, sorted by name. A problem of a file
/// becomes a finding, and so does a member that would have to be downloaded. It is an error if the
/// first bytes cannot be read.
pub fn survey_distant(
    file: &DistantFile<'_>,
    options: &Options,
    reporter: &dyn Reporter,
) -> Result<Vec<Surveyed>, Error> {
    let reader = (file.open)();
    let mut start = vec![0; START.min(usize::try_from(file.size).unwrap_or(START))];
    reader.read_exact_at(0, &mut start).map_err(|source| Error::Io { what: "the first bytes", source })?;
    let location = Location { path: file.path.clone(), member: None };
    match looks(&start) {
        Looks::Zip => members(file, options, reporter),
        looks => Ok(vec![survey_tables((location, file.size), looks, reader, options)]),
    }
}

fn members(file: &DistantFile<'_>, options: &Options, reporter: &dyn Reporter) -> Result<Vec<Surveyed>, Error> {
    let wheel = match WheelDirectory::open(Path::new(&file.name), &Directory(file)) {
        Ok(wheel) => wheel,
        Err(error) => {
            let location = Location { path: file.path.clone(), member: None };
            return Ok(vec![Open::only(location, file.size, vec![FileMessage::of(&error)]).surveyed()]);
        }
    };
    let mut members: Vec<&Listed> = wheel.members().iter().filter(|member| member.kind == MemberKind::File).collect();
    members.sort_by(|left, right| left.name.cmp(&right.name));
    let _stage = reporter.stage(&format!("reading tables of {}", file.name), Some(members.len() as u64), Unit::Items);
    let surveyed = members.par_iter().map(|member| {
        reporter.check().map_err(Error::from)?;
        let surveyed = survey_member(file, &wheel, member, options);
        reporter.advance(1);
        Ok(surveyed)
    });
    match rayon::ThreadPoolBuilder::new().num_threads(CONNECTIONS).build() {
        Ok(pool) => pool.install(|| surveyed.collect()),
        Err(_) => surveyed.collect(),
    }
}

fn survey_member(file: &DistantFile<'_>, wheel: &WheelDirectory, member: &Listed, options: &Options) -> Surveyed {
    let location = Location { path: file.path.clone(), member: Some(member.name.clone()) };
    if is_text(wheel, &member.name) || member.size == 0 {
        return Open::only(location, member.size, Vec::new()).surveyed();
    }
    let found = wheel
        .open_member(member, (file.open)())
        .and_then(|opened| read_member(&opened, member, location.clone(), options));
    let surveyed =
        found.unwrap_or_else(|error| Open::only(location, member.size, vec![FileMessage::of(&error)]).surveyed());
    Surveyed { packed: Some(member.compressed), ..surveyed }
}

fn read_member(
    opened: &DistantMember,
    member: &Listed,
    location: Location,
    options: &Options,
) -> Result<Surveyed, rocwheel_wheel::Error> {
    let place = (location, member.size);
    let start = opened.start(HEADER)?;
    let looks = looks(&start);
    let reader = match (looks, opened.stored()) {
        (Looks::Other, _) => Box::new(Vec::new()) as Reader,
        (_, Some(reader)) => reader,
        (Looks::CodeObject, None) => Box::new(start),
        (Looks::Tar(_) | Looks::Zip | Looks::Images, None) => Box::new(Vec::new()),
        (_, None) if member.compressed <= SMALL => Box::new(opened.bytes()?),
        (_, None) => {
            let message = format!("it is compressed, so {} bytes would have to be downloaded", member.compressed);
            let finding = FileMessage::note(Subject::Skipped, message);
            return Ok(Open::only(place.0, place.1, vec![finding]).surveyed());
        }
    };
    Ok(survey_tables(place, looks, reader, options))
}

/// `true` for a file whose name shows that it has no GPU code.
fn is_text(wheel: &WheelDirectory, name: &str) -> bool {
    let is_metadata = name.strip_prefix(wheel.info()).is_some_and(|rest| rest.starts_with('/'));
    let extension = Path::new(name).extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    is_metadata || extension.is_some_and(|extension| TEXTS.contains(&extension.as_str()))
}

/// Lists the code of a file by its tables.
fn survey_tables((location, size): (Location, u64), looks: Looks, reader: Reader, options: &Options) -> Surveyed {
    let mut surveyed = match looks {
        Looks::Kpack => {
            let mut surveyed = Open::only(location, size, Vec::new()).surveyed();
            surveyed.kind = FileFormat::Kpack;
            match read_table(&reader, size) {
                Ok(entries) => surveyed.code_objects.extend(entries.into_iter().map(|entry| FoundCode {
                    entry: Some(entry.key),
                    ..unread(entry.target, entry.original_size, entry.stored)
                })),
                Err(error) => surveyed.findings.push(FileMessage::of(&error)),
            }
            surveyed
        }
        Looks::CodeObject => {
            let mut surveyed = Open::only(location, size, Vec::new()).surveyed();
            surveyed.kind = FileFormat::CodeObject;
            match code_object::target(&reader) {
                Ok(target) => surveyed.code_objects.extend(target.map(|(target, _)| FoundCode {
                    own_target: Some(target.clone()),
                    code: CodeFormat::Elf,
                    ..unread(target.to_string(), size, size)
                })),
                Err(error) => surveyed.findings.push(FileMessage::of(&error)),
            }
            surveyed
        }
        Looks::Host | Looks::Bundle => {
            let open = Open::read(location, size, looks, reader);
            let mut surveyed = open.surveyed();
            for (number, bundle) in open.bundles.iter().enumerate() {
                let with_code = bundle.entries.iter().filter(|entry| entry.has_code());
                let with_code: Vec<_> = with_code.filter_map(|entry| Some((entry.target()?, entry.size))).collect();
                let total = with_code.iter().map(|(_, size)| *size).fold(0, u64::saturating_add);
                let mut seen: u64 = 0;
                for (target, size) in with_code {
                    let before = share(bundle.length, seen, total);
                    seen = seen.saturating_add(size);
                    let part = share(bundle.length, seen, total) - before;
                    let stored = if bundle.compression.is_some() { part } else { size };
                    let found = unread(target.to_owned(), size, stored);
                    surveyed.code_objects.push(FoundCode { bundle: Some(number), ..found });
                }
            }
            surveyed
        }
        Looks::Images => {
            let message = "its targets are in compressed data, which would have to be downloaded";
            Open::only(location, size, vec![FileMessage::note(Subject::Skipped, message)]).surveyed()
        }
        Looks::Zip | Looks::Tar(_) => {
            let message = "an archive that is far away is not looked into, unless it is a wheel";
            Open::only(location, size, vec![FileMessage::note(Subject::Skipped, message)]).surveyed()
        }
        Looks::Other => Open::read(location, size, looks, reader).surveyed(),
    };
    surveyed.code_objects.retain(|found| options.wants(&found.target));
    surveyed
}

/// A code object by its table; its bytes are not known.
fn unread(target: String, size: u64, stored: u64) -> FoundCode {
    FoundCode {
        target,
        own_target: None,
        bundle: None,
        entry: None,
        offset: None,
        size,
        stored,
        digest: None,
        code: CodeFormat::Unknown,
        version: None,
        metadata: MetadataFormat::Absent,
        kernel_count: None,
        kernels: Vec::new(),
    }
}
