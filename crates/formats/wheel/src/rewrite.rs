//! Input: an open wheel, and changes. Output: another wheel. Members that do not change keep their
//! packed bytes, so this takes about as long as a copy of the file.
//!
//! By default the result has the order of [`crate::write_wheel`], with sizes in the local headers
//! and one date for all members. With [`MemberOrder::Kept`] members keep their order, and those
//! that do not change keep their headers too: adjacent ones are copied at once, which is as fast in
//! the kernel as a copy of the file. Either way equal input gives equal bytes for any number of
//! threads.
//!
//! A hash in RECORD is kept with its size if it is SHA-256, SHA-384 or SHA-512 in the specified
//! form. The CRC of the archive is kept too. None of them is verified: that would require
//! unpacking, and [`crate::read::Wheel::verify`] does it. So a file that was changed after its
//! wheel was packed keeps the row that tells of it. Hashes that are missing, weak or in another
//! form are computed from the unpacked bytes, whose size and CRC are then checked.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rocwheel_archive::{
    Beginning, DirectoryEntries, FileDigest, Level, Listed, MemberKind, WriteOptions, Written, ZipSource, ZipWriter,
    check_tree, file_mode,
};
use rocwheel_content::{Content, HashAlgorithm};
use rocwheel_progress::{Reporter, Silent, Unit};

use crate::names::canonical_name;
use crate::read::{Wheel, same_version, unhashed};
use crate::record::{Hash, Record};
use crate::{Error, Headers, Member, WheelName};

/// The changes to make. The default changes no member, but still sorts them, completes RECORD and
/// removes its signatures.
#[derive(Default)]
pub struct Rewrite {
    /// Members to remove. METADATA, WHEEL and RECORD cannot be removed.
    pub drop: BTreeSet<String>,
    /// Members to replace, with their new bytes. They keep their mode.
    pub replace: BTreeMap<String, Box<dyn Content>>,
    /// Old names of members and their new ones. The bytes stay packed unless the member is also
    /// replaced.
    pub rename: BTreeMap<String, String>,
    /// New members. One may have the name of a removed member.
    pub add: Vec<Member>,
    /// New text of METADATA; see [`Headers`].
    pub metadata: Option<String>,
    /// New text of WHEEL.
    pub wheel: Option<String>,
    /// New file name. If it changes the distribution or the version, the `.dist-info` and `.data`
    /// folders are renamed, and METADATA must agree.
    pub name: Option<WheelName>,
    /// The behaviour if the output is the input itself.
    pub existing: Existing,
    /// The order of the members.
    pub order: MemberOrder,
}

/// The order of the members of a rewritten wheel. RECORD comes last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MemberOrder {
    /// Sorted by name with `.dist-info` last, regardless of the previous order, and with uniform
    /// headers.
    #[default]
    Sorted,
    /// The previous order, with new members at the end. Members that do not change keep their
    /// headers with date and mode, and the archive keeps its comment.
    Kept,
}

/// The behaviour if the output is the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// Report an error.
    #[default]
    Refuse,
    /// Replace the input by the finished file.
    Replace,
}

/// A member of the new wheel.
struct Item<'a> {
    name: Cow<'a, str>,
    /// Position in the file of the member that it comes from; new ones come after all others.
    place: u64,
    bytes: Bytes<'a>,
}

/// The source of a member's bytes.
enum Bytes<'a> {
    /// The packed bytes with a new header.
    Copied(&'a Listed),
    /// The packed bytes with their old header; the directory entry is given.
    Taken(&'a Listed, &'a [u8]),
    /// New bytes, with this mode.
    Written(u32, &'a dyn Content),
}

impl<'a> Bytes<'a> {
    fn copied(listed: &'a Listed, entry: Option<&'a [u8]>, name: &str) -> Bytes<'a> {
        // The local header contains the name, so it can only be reused if the name stays.
        let plain = entry.filter(|entry| name == listed.name && listed.is_plain(entry));
        plain.map_or(Bytes::Copied(listed), |entry| Bytes::Taken(listed, entry))
    }
}

impl<'a> Item<'a> {
    /// The member of the input that it is a copy of.
    fn copied(&self) -> Option<&'a Listed> {
        match self.bytes {
            Bytes::Copied(listed) | Bytes::Taken(listed, _) => Some(listed),
            Bytes::Written(..) => None,
        }
    }

    /// Number of bytes to read.
    fn length(&self) -> u64 {
        match self.bytes {
            Bytes::Copied(listed) => listed.compressed,
            Bytes::Taken(listed, _) => listed.range().end - listed.range().start,
            Bytes::Written(_, content) => content.size(),
        }
    }

    /// `true` if the two can be written at once: both are new, or they are adjacent and unchanged.
    fn goes_with(&self, next: &Item<'_>) -> bool {
        match (&self.bytes, &next.bytes) {
            (Bytes::Written(..), Bytes::Written(..)) => true,
            (Bytes::Taken(one, _), Bytes::Taken(next, _)) => one.range().end == next.range().start,
            _ => false,
        }
    }
}

/// Writes the changed wheel into the folder `output`, which must exist. Links are kept with a
/// warning, because installers do not create links. Folders are kept if they were empty before or
/// still have members. Rows of RECORD without a member are removed with a warning; RECORD.jws and
/// RECORD.p7s are removed, because they sign the old RECORD.
///
/// The file gets its name when it is complete; an error or interruption leaves nothing behind, and
/// the input never changes. Fails if the wheel has no RECORD, or if a member to remove or replace
/// does not exist.
pub fn rewrite(
    wheel: &Wheel,
    rewrite: &Rewrite,
    output: &Path,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<Written, Error> {
    Ok(write(wheel, rewrite, output, options, reporter)?.0)
}

/// Like [`rewrite()`]. The answer has also the SHA-256 of the input in hexadecimal. If the options
/// ask for that of the result, the bytes that both files begin with are read and hashed once.
pub fn rewrite_and_hash(
    wheel: &Wheel,
    rewrite: &Rewrite,
    output: &Path,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<(Written, String), Error> {
    let (written, beginning) = write(wheel, rewrite, output, options, reporter)?;
    Ok((written, beginning.complete(wheel.file()).map_err(rocwheel_archive::Error::open(wheel.path()))?))
}

fn write(
    wheel: &Wheel,
    rewrite: &Rewrite,
    output: &Path,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<(Written, Beginning), Error> {
    let file_name = match &rewrite.name {
        Some(name) => name.to_string(),
        None => wheel.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let path = output.join(&file_name);
    if rewrite.existing == Existing::Refuse && is_same(wheel.path(), &path) {
        return Err(Error::SameFile { path });
    }
    let texts = Texts::new(wheel, rewrite)?;
    let names = Names::new(wheel, rewrite, &texts)?;
    check(wheel, rewrite)?;
    let entries = if rewrite.order == MemberOrder::Kept { wheel.zip().entries()? } else { None };
    let items = items(wheel, rewrite, &texts, (&names, entries.as_ref()))?;
    let hashes = hashes(wheel, &items, reporter)?;

    let total = items.iter().map(Item::length).sum();
    let _stage = reporter.stage(&format!("writing {file_name}"), Some(total), Unit::Bytes);
    let job = Job { wheel, options, order: rewrite.order, reporter };
    let record = names.record();
    match options.digest {
        // On a thread of the pool a join with another one costs almost nothing; from outside it
        // costs two context switches.
        FileDigest::Sha256 => rayon::scope(|_| job.write(&path, &items, &hashes, &record)),
        FileDigest::Skip => job.write(&path, &items, &hashes, &record),
    }
}

fn is_same(input: &Path, output: &Path) -> bool {
    match (rocwheel_system::canonicalize(input), rocwheel_system::canonicalize(output)) {
        (Ok(input), Ok(output)) => input == output,
        _ => false,
    }
}

/// The new METADATA and WHEEL as contents.
struct Texts {
    contents: BTreeMap<String, Vec<u8>>,
}

impl Texts {
    fn new(wheel: &Wheel, rewrite: &Rewrite) -> Result<Texts, Error> {
        let mut contents = BTreeMap::new();
        for (file, text) in [("METADATA", &rewrite.metadata), ("WHEEL", &rewrite.wheel)] {
            let name = format!("{}/{file}", wheel.info());
            if let Some(text) = text {
                if rewrite.replace.contains_key(&name) {
                    return Err(member_error(wheel, &name, "is replaced twice"));
                }
                contents.insert(name, text.clone().into_bytes());
            }
        }
        Ok(Texts { contents })
    }
}

/// The old and the new names of members, and of the folders that contain the distribution's name.
struct Names<'a> {
    members: &'a BTreeMap<String, String>,
    folders: Vec<(String, String)>,
    info: String,
}

impl<'n> Names<'n> {
    fn new(wheel: &Wheel, rewrite: &'n Rewrite, texts: &Texts) -> Result<Names<'n>, Error> {
        let old = wheel.info().strip_suffix(".dist-info").unwrap_or_default();
        let unchanged = Names { members: &rewrite.rename, folders: Vec::new(), info: wheel.info().to_owned() };
        let Some(name) = &rewrite.name else { return Ok(unchanged) };
        let metadata = match texts.contents.get(&format!("{}/METADATA", wheel.info())) {
            Some(text) => String::from_utf8_lossy(text).into_owned(),
            None => wheel.metadata()?,
        };
        let metadata = Headers::parse(&metadata);
        let [old_name, version] = ["Name", "Version"].map(|field| metadata.get(field).unwrap_or_default());
        if canonical_name(&old_name) != canonical_name(&name.distribution) || !same_version(&version, &name.version) {
            let reason = format!("METADATA says `{old_name}` `{version}`");
            return Err(Error::Name { what: "new name", value: name.to_string(), reason });
        }
        let Some(new) = new_info(wheel, name) else { return Ok(unchanged) };
        let new = new.trim_end_matches(".dist-info");
        let folders = ["dist-info", "data"].map(|kind| (format!("{old}.{kind}/"), format!("{new}.{kind}/"))).into();
        Ok(Names { folders, info: format!("{new}.dist-info"), ..unchanged })
    }

    fn new_name<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if let Some(new) = self.members.get(name) {
            return Cow::Owned(new.clone());
        }
        for (old, new) in &self.folders {
            if let Some(rest) = name.strip_prefix(old.as_str()) {
                return Cow::Owned(format!("{new}{rest}"));
            }
        }
        Cow::Borrowed(name)
    }

    fn record(&self) -> String {
        format!("{}/RECORD", self.info)
    }
}

/// The name of the `.dist-info` folder in a wheel with this name; `None` if the current one is
/// equivalent. If the distribution is the same, its spelling is kept.
pub fn new_info(wheel: &Wheel, name: &WheelName) -> Option<String> {
    let old = wheel.info().strip_suffix(".dist-info").unwrap_or_default();
    let (distribution, version) = old.rsplit_once('-').unwrap_or((old, ""));
    let same_name = canonical_name(distribution) == canonical_name(&name.distribution);
    if same_name && same_version(version, &name.version) {
        return None;
    }
    let distribution = if same_name { distribution } else { name.distribution.as_str() };
    Some(format!("{distribution}-{}.dist-info", name.version))
}

/// The members that sign RECORD. They are removed when it changes.
pub fn signatures(wheel: &Wheel) -> Vec<String> {
    let names = unhashed(wheel.info()).into_iter();
    names.filter(|name| *name != wheel.record_name() && wheel.member(name).is_some()).collect()
}

fn member_error(wheel: &Wheel, name: &str, reason: &'static str) -> Error {
    Error::Member { path: wheel.path().to_owned(), member: name.to_owned(), reason }
}

/// Checks that all members to remove or replace exist and may be changed.
fn check(wheel: &Wheel, rewrite: &Rewrite) -> Result<(), Error> {
    for name in rewrite.rename.keys() {
        if wheel.member(name).is_none_or(|listed| listed.kind == MemberKind::Directory) {
            return Err(member_error(wheel, name, "is no file and cannot be renamed"));
        }
        if name.starts_with(&format!("{}/", wheel.info())) {
            return Err(member_error(wheel, name, "has the name that its folder gives it"));
        }
    }
    for name in rewrite.drop.iter().chain(rewrite.replace.keys()) {
        let listed = wheel.member(name).ok_or_else(|| member_error(wheel, name, "does not exist"))?;
        if *name == wheel.record_name() {
            return Err(member_error(wheel, name, "is always rewritten"));
        }
        if rewrite.replace.contains_key(name) {
            if rewrite.drop.contains(name) {
                return Err(member_error(wheel, name, "cannot be both dropped and replaced"));
            }
            match listed.kind {
                MemberKind::File => {}
                MemberKind::Symlink => return Err(member_error(wheel, name, "is a link and cannot get other bytes")),
                MemberKind::Directory => return Err(member_error(wheel, name, "is a folder and cannot get bytes")),
            }
        } else if name.strip_prefix(wheel.info()).is_some_and(|file| ["/METADATA", "/WHEEL"].contains(&file)) {
            return Err(member_error(wheel, name, "cannot be dropped: no wheel is without it"));
        }
    }
    Ok(())
}

/// The members of the new wheel in order, without RECORD.
fn items<'a>(
    wheel: &'a Wheel,
    rewrite: &'a Rewrite,
    texts: &'a Texts,
    (names, entries): (&Names<'_>, Option<&'a DirectoryEntries>),
) -> Result<Vec<Item<'a>>, Error> {
    let gone: BTreeSet<String> = unhashed(wheel.info()).into_iter().collect();
    let mut items = Vec::with_capacity(wheel.members().len() + rewrite.add.len());
    let mut folders = Vec::new();
    for (index, listed) in wheel.members().iter().enumerate() {
        if rewrite.drop.contains(&listed.name) || gone.contains(&listed.name) {
            continue;
        }
        let entry = entries.map(|entries| entries.of(index));
        let name = names.new_name(&listed.name);
        if listed.kind == MemberKind::Directory {
            folders.push((listed, entry, name));
            continue;
        }
        let content = rewrite.replace.get(&listed.name).map(|content| &**content as &dyn Content);
        let text = texts.contents.get(&listed.name).map(|text| text as &dyn Content);
        let bytes = match content.or(text) {
            Some(content) => Bytes::Written(listed.file_mode(), content),
            None => Bytes::copied(listed, entry, &name),
        };
        items.push(Item { name, place: listed.range().start, bytes });
    }
    items.extend(rewrite.add.iter().map(|member| Item {
        name: Cow::Borrowed(member.name.as_str()),
        place: u64::MAX,
        bytes: Bytes::Written(file_mode(member.executable), &*member.content),
    }));
    let record = names.record();
    check_tree(items.iter().map(|item| &*item.name).chain([record.as_str()]))?;
    for (listed, entry, name) in folders {
        let mut files = wheel.members().iter().filter(|file| file.kind != MemberKind::Directory);
        let was_empty = !files.any(|file| file.name.starts_with(&listed.name));
        if was_empty || items.iter().any(|item| item.name.starts_with(&*name)) {
            let bytes = Bytes::copied(listed, entry, &name);
            items.push(Item { name, place: listed.range().start, bytes });
        }
    }
    let info = format!("{}/", names.info);
    items.sort_by(|one, other| {
        let places = match rewrite.order {
            MemberOrder::Sorted => Ordering::Equal,
            MemberOrder::Kept => one.place.cmp(&other.place),
        };
        places
            .then_with(|| one.name.starts_with(&info).cmp(&other.name.starts_with(&info)))
            .then_with(|| one.name.as_bytes().cmp(other.name.as_bytes()))
    });
    for listed in items.iter().filter_map(Item::copied) {
        wheel.zip().check_form(listed)?;
    }
    Ok(items)
}

/// Hash and size in RECORD of the copied members, by their old names.
type Hashes<'a> = BTreeMap<&'a str, (String, u64)>;

/// The hashes and sizes of the copied members in the new RECORD: kept or computed.
fn hashes<'a>(wheel: &'a Wheel, items: &[Item<'a>], reporter: &dyn Reporter) -> Result<Hashes<'a>, Error> {
    let mut recorded = BTreeMap::new();
    for row in wheel.record()? {
        if wheel.member(&row.path).is_none() {
            reporter.warn(&format!("RECORD names `{}`, which is not in the wheel: the row is dropped", row.path));
        }
        recorded.entry(row.path.clone()).or_insert(row);
    }
    let mut hashes = BTreeMap::new();
    let mut missing = Vec::new();
    for listed in items.iter().filter_map(Item::copied) {
        if listed.kind == MemberKind::Directory {
            continue;
        }
        if listed.kind == MemberKind::Symlink {
            reporter.warn(&format!("`{}` is a link: installers make a file of it", listed.name));
        }
        let row = recorded.get(&listed.name).and_then(|row| Some((Hash::parse(&row.hash)?, row.size)));
        match row {
            Some((hash, size)) => {
                hashes.insert(listed.name.as_str(), (hash.column(), size.unwrap_or(listed.size)));
            }
            None => missing.push(listed),
        }
    }
    if missing.is_empty() {
        return Ok(hashes);
    }
    let total = missing.iter().map(|listed| listed.size).sum();
    let _stage = reporter.stage("hashing members that RECORD has no SHA-256 of", Some(total), Unit::Bytes);
    let result = rocwheel_pipeline::ordered(
        missing.into_iter(),
        |listed| {
            let hash = wheel.hash(listed, HashAlgorithm::Sha256, || Ok(reporter.check()?))?;
            Ok((listed, hash))
        },
        |(listed, hash)| {
            reporter.advance(listed.size);
            hashes.insert(listed.name.as_str(), (hash.column(), listed.size));
            Ok(())
        },
    );
    result.map(|()| hashes)
}

/// The data for writing, apart from the members.
struct Job<'a> {
    wheel: &'a Wheel,
    options: &'a WriteOptions,
    order: MemberOrder,
    reporter: &'a dyn Reporter,
}

impl Job<'_> {
    fn write(
        &self,
        path: &Path,
        items: &[Item<'_>],
        hashes: &Hashes<'_>,
        record_name: &str,
    ) -> Result<(Written, Beginning), Error> {
        let mut archive = ZipWriter::create(path, self.options.clone())?;
        archive.inherit(self.wheel.zip());
        if self.order == MemberOrder::Kept {
            archive.set_comment(self.wheel.zip().comment());
        }
        let mut record = Record::default();
        for run in items.chunk_by(Item::goes_with) {
            if run[0].copied().is_some() {
                self.copy(&mut archive, run)?;
                for (item, listed) in run.iter().filter_map(|item| Some((item, item.copied()?))) {
                    if let Some((hash, size)) = hashes.get(listed.name.as_str()) {
                        record.push_row(&item.name, hash, *size);
                    }
                }
                continue;
            }
            let sources: Vec<ZipSource<'_>> = run
                .iter()
                .filter_map(|item| match item.bytes {
                    Bytes::Written(mode, content) => Some(ZipSource { name: &item.name, mode, content }),
                    Bytes::Copied(_) | Bytes::Taken(..) => None,
                })
                .collect();
            for (source, entry) in sources.iter().zip(archive.add(&sources, self.reporter)?) {
                record.push(source.name, &entry.sha256, entry.size);
            }
        }
        let record = record.text(record_name).into_bytes();
        // Hashes do not compress, and a high level for RECORD takes a tenth of the time of an edit
        // of thousands of members.
        if self.order == MemberOrder::Kept {
            archive.set_level(self.options.level.min(Level::Fast));
        }
        // The bytes of RECORD are not part of the announced progress.
        archive.add(&[ZipSource { name: record_name, mode: file_mode(false), content: &record }], &Silent)?;
        Ok(archive.finish(self.reporter)?)
    }

    /// Copies adjacent members with their headers, or each one with a new header.
    fn copy(&self, archive: &mut ZipWriter, items: &[Item<'_>]) -> Result<(), Error> {
        let entries: Vec<(&Listed, &[u8])> = items
            .iter()
            .filter_map(|item| match item.bytes {
                Bytes::Taken(listed, entry) => Some((listed, entry)),
                Bytes::Copied(_) | Bytes::Written(..) => None,
            })
            .collect();
        if archive.copy_run(self.wheel.zip(), &entries, self.reporter)? {
            return Ok(());
        }
        for (item, listed) in items.iter().filter_map(|item| Some((item, item.copied()?))) {
            archive.copy(self.wheel.zip(), listed, &item.name, self.reporter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryPoints, Metadata, WheelContents, write_wheel};

    #[test]
    fn both_files_begin_with_the_same_bytes_up_to_the_first_change() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let noise: Vec<u8> = (0..3 << 20).map(|index: u32| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let contents = WheelContents {
            name: "pkg".to_owned(),
            version: "1.0".to_owned(),
            tags: vec!["py3-none-any".parse().unwrap()],
            metadata: Metadata::default(),
            entry_points: EntryPoints::default(),
            licenses: Vec::new(),
            members: vec![
                Member::new("pkg/a", b"a".to_vec()),
                Member::new("pkg/b", noise),
                Member::new("pkg/c", b"c".to_vec()),
            ],
        };
        let options = WriteOptions::default();
        let input = write_wheel(&contents, folders[0].path(), &options, &Silent).unwrap().path;
        let wheel = Wheel::open(&input).unwrap();
        let record = wheel.member(&wheel.record_name()).unwrap();
        for order in [MemberOrder::Sorted, MemberOrder::Kept] {
            let changes = [("pkg/a", 0), ("pkg/b", wheel.member("pkg/b").unwrap().range().start)];
            let changes = changes.into_iter().chain([("pkg/c", wheel.member("pkg/c").unwrap().range().start)]);
            for (name, length) in changes {
                let content: Box<dyn Content> = Box::new(b"new".to_vec());
                let change = Rewrite { replace: [(name.to_owned(), content)].into(), order, ..Rewrite::default() };
                let (_, beginning) = write(&wheel, &change, folders[1].path(), &options, &Silent).unwrap();
                assert_eq!(beginning.length, length, "{name}, {order:?}");
            }
            let unchanged = Rewrite { order, ..Rewrite::default() };
            let (_, beginning) = write(&wheel, &unchanged, folders[1].path(), &options, &Silent).unwrap();
            assert_eq!(beginning.length, record.range().start, "{order:?}");
        }
    }
}
