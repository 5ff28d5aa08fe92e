//! Input: a wheel file made by any tool. Output: its members and metadata, their bytes at random
//! access, and the contradictions to its RECORD.
//!
//! Opening reads the directory and the header of each member, and refuses archives that installers
//! would read differently. Requirements of some uses only (RECORD, a matching name, methods that
//! can be unpacked) are checked by those uses.

mod verify;
mod wheel_directory;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rocwheel_archive::{
    ForeignBytes, Listed, MemberMemory, MemberStream, PackedSource, SearchedMembers, Sparse, ZipFile,
};
use rocwheel_content::{Content, HashAlgorithm, Opening, Reader, SharedFile, Spool, Spooled};
use rocwheel_progress::Reporter;

use crate::record::{Hash, RecordRow, parse_rows};
use crate::{Error, Headers, WheelName};
pub use verify::same_version;
pub(crate) use verify::unhashed;
pub use verify::{Known, WheelProblem};
pub use wheel_directory::WheelDirectory;

/// An open wheel. Many threads can read from it at once; the file must not change during that time.
pub struct Wheel {
    /// The parsed file name.
    pub name: WheelName,
    zip: ZipFile,
    /// Name → index of the member.
    index: BTreeMap<String, usize>,
    /// The name of the `.dist-info` folder, without a slash.
    info: String,
    /// The rows of RECORD, after they have been requested.
    rows: OnceLock<Vec<RecordRow>>,
}

impl Wheel {
    /// Opens the wheel at `path`. Fails if the file name is not that of a wheel, the file is not a
    /// ZIP file, the name of a member is absolute, leaves the folder or occurs twice, a member
    /// overlaps another one or has an impossible size, or there is not exactly one `.dist-info`
    /// folder with METADATA and WHEEL in it.
    ///
    /// The name of the `.dist-info` folder may contradict that of the file
    /// ([`Wheel::name_agrees`]), and RECORD may be missing.
    pub fn open(path: &Path) -> Result<Wheel, Error> {
        check_is_file(path)?;
        Wheel::open_as(path, path.file_name().unwrap_or_default().to_string_lossy().parse()?)
    }

    /// Opens a wheel under any file name. If that is not the name of a wheel, [`Wheel::name`] has
    /// the name, version and tags in METADATA and WHEEL.
    ///
    /// # Errors
    /// Those of [`Wheel::open`] but for the file name; METADATA or WHEEL without these fields.
    pub fn open_renamed(path: &Path) -> Result<Wheel, Error> {
        check_is_file(path)?;
        if let Ok(name) = path.file_name().unwrap_or_default().to_string_lossy().parse() {
            return Wheel::open_as(path, name);
        }
        let mut wheel = Wheel::open_as(path, WheelName::unknown())?;
        wheel.name = WheelName::described(&Headers::parse(&wheel.metadata()?), &Headers::parse(&wheel.wheel()?))?;
        Ok(wheel)
    }

    fn open_as(path: &Path, name: WheelName) -> Result<Wheel, Error> {
        let zip = ZipFile::open(path)?;
        let info = info_folder(zip.members(), path)?;
        let index = zip.members().iter().enumerate().map(|(index, member)| (member.name.clone(), index)).collect();
        let wheel = Wheel { name, zip, index, info, rows: OnceLock::new() };
        for needed in ["METADATA", "WHEEL"] {
            wheel.check_has(needed)?;
        }
        Ok(wheel)
    }

    fn check_has(&self, file: &str) -> Result<(), Error> {
        let member = format!("{}/{file}", self.info);
        if self.index.contains_key(&member) { Ok(()) } else { Err(self.malformed(format!("it has no `{member}`"))) }
    }

    fn malformed(&self, reason: String) -> Error {
        rocwheel_archive::Error::malformed(self.path(), reason).into()
    }

    /// The path of the wheel.
    pub fn path(&self) -> &Path {
        self.zip.path()
    }

    /// Which members have the text that this machine searched for when it packed the wheel; `None`
    /// without such a record. It is the recorded wheel only if its SHA-256 is that of the record.
    pub fn searched(&self, records: &PackedSource) -> Option<SearchedMembers> {
        records.searched(self.zip.file())
    }

    /// The archive.
    pub(crate) fn zip(&self) -> &ZipFile {
        &self.zip
    }

    /// The open file.
    pub fn file(&self) -> &SharedFile {
        self.zip.file()
    }

    /// The bytes of the file that are not of the archive.
    pub fn foreign_bytes(&self) -> Result<ForeignBytes, Error> {
        Ok(self.zip.foreign_bytes()?)
    }

    /// The name of the `.dist-info` folder, without a slash.
    pub fn info(&self) -> &str {
        &self.info
    }

    pub(crate) fn record_name(&self) -> String {
        format!("{}/RECORD", self.info)
    }

    /// All members in the order of the archive.
    pub fn members(&self) -> &[Listed] {
        self.zip.members()
    }

    /// The member with this name.
    pub fn member(&self, name: &str) -> Option<&Listed> {
        self.index.get(name).map(|index| &self.members()[*index])
    }

    fn find(&self, name: &str) -> Result<&Listed, Error> {
        self.member(name).ok_or_else(|| Error::Member {
            path: self.path().to_owned(),
            member: name.to_owned(),
            reason: "does not exist",
        })
    }

    /// The bytes of one member, at most 64 MiB. The CRC is checked.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>, Error> {
        Ok(self.zip.bytes(self.find(name)?)?)
    }

    /// Shows the bytes of one member, at most 64 MiB, to `look`. The CRC is checked before that.
    pub fn with_bytes<T>(&self, name: &str, memory: &MemberMemory, look: impl FnOnce(&[u8]) -> T) -> Result<T, Error> {
        Ok(self.zip.with_bytes(self.find(name)?, memory, look)?)
    }

    /// The bytes of one member in their order. Nothing is kept, so the size does not matter. Size
    /// and CRC are checked at the end, where reading fails if they differ.
    pub fn stream(&self, name: &str) -> Result<MemberStream, Error> {
        Ok(self.zip.stream(self.find(name)?)?)
    }

    /// Random access to the bytes of one member. The CRC is checked here. A stored member is read
    /// in the archive, after one pass over it when it is first opened. Other members are unpacked:
    /// up to 64 MiB into memory (together with the packed bytes), larger ones into an unnamed file
    /// in the folder `scratch`, which is deleted with the reader.
    pub fn reader(&self, name: &str, scratch: &Path) -> Result<Reader, Error> {
        Ok(self.zip.reader_in(self.find(name)?, scratch)?)
    }

    /// Random access to a few ranges of one member. Only as much of it is unpacked as its stream
    /// requires; `scratch` is used like in [`Wheel::reader`]. The CRC is checked only if the whole
    /// member is unpacked.
    pub fn sparse(&self, name: &str, scratch: &Path) -> Result<Sparse, Error> {
        Ok(self.zip.sparse(self.find(name)?, scratch)?)
    }

    /// The first `length` bytes of one member, or all if it has fewer. The checksum is not checked.
    pub fn start(&self, name: &str, length: usize) -> Result<Vec<u8>, Error> {
        Ok(self.zip.start(self.find(name)?, length)?)
    }

    /// Unpacks the members with these names on all threads, and compares each with its CRC in the
    /// archive. The bytes are discarded: this is for members that are copied in packed form.
    ///
    /// # Errors
    /// The first member that cannot be unpacked or has a different CRC; an interruption.
    pub fn check_members<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        reporter: &dyn Reporter,
    ) -> Result<(), Error> {
        let members = names.into_iter().map(|name| self.find(name)).collect::<Result<_, _>>()?;
        Ok(self.zip.check_members(members, reporter)?)
    }

    /// `true` if a member has the same packed bytes as a member of another wheel, as copies do. For
    /// members that were packed by different tools the result may be `false` although their
    /// contents are equal.
    pub fn is_copy(&self, name: &str, other: &Wheel, other_name: &str) -> Result<bool, Error> {
        Ok(self.zip.is_copy(self.find(name)?, &other.zip, other.find(other_name)?)?)
    }

    fn info_text(&self, file: &str) -> Result<String, Error> {
        let name = format!("{}/{file}", self.info);
        String::from_utf8(self.bytes(&name)?).map_err(|_| self.malformed(format!("`{name}` is not UTF-8")))
    }

    /// The text of METADATA.
    pub fn metadata(&self) -> Result<String, Error> {
        self.info_text("METADATA")
    }

    /// The text of WHEEL.
    pub fn wheel(&self) -> Result<String, Error> {
        self.info_text("WHEEL")
    }

    /// The rows of RECORD. Fails if there is none.
    pub fn record(&self) -> Result<Vec<RecordRow>, Error> {
        if let Some(rows) = self.rows.get() {
            return Ok(rows.clone());
        }
        self.check_has("RECORD")?;
        let text = self.info_text("RECORD")?;
        let rows = parse_rows(&text).map_err(|reason| self.malformed(format!("RECORD: {reason}")))?;
        Ok(self.rows.get_or_init(|| rows).clone())
    }

    /// The hash of a member, which is unpacked in windows. `go_on` is called before each window.
    pub(crate) fn hash(
        &self,
        member: &Listed,
        algorithm: HashAlgorithm,
        go_on: impl Fn() -> Result<(), rocwheel_archive::Error>,
    ) -> Result<Hash, Error> {
        let hash = Hash::of(algorithm, |hasher| {
            self.zip.each(member, |window| {
                go_on()?;
                hasher.update(window);
                Ok(())
            })
        });
        Ok(hash?)
    }
}

/// Refuses a missing file and a folder, so that they are reported as that, whatever their name.
fn check_is_file(path: &Path) -> Result<(), Error> {
    let metadata = fs_err::metadata(path).map_err(rocwheel_archive::Error::open(path))?;
    if metadata.is_dir() {
        return Err(rocwheel_archive::Error::open(path)(io::Error::from(io::ErrorKind::IsADirectory)).into());
    }
    Ok(())
}

/// The one `.dist-info` folder, without a slash.
///
/// # Errors
/// None or several of them; `path` is the wheel that the message names.
pub fn info_folder(members: &[Listed], path: &Path) -> Result<String, Error> {
    let infos: BTreeSet<&str> = members
        .iter()
        .filter_map(|member| member.name.split_once('/'))
        .map(|(folder, _)| folder)
        .filter(|folder| folder.ends_with(".dist-info"))
        .collect();
    match infos.iter().copied().collect::<Vec<_>>()[..] {
        [info] => Ok(info.to_owned()),
        [] => Err(rocwheel_archive::Error::malformed(path, "it has no `.dist-info` folder").into()),
        [first, second, ..] => {
            let reason = format!("it has several `.dist-info` folders: `{first}`, `{second}`");
            Err(rocwheel_archive::Error::malformed(path, reason).into())
        }
    }
}

/// A member of a wheel as the content of a member of another archive. Opening it costs as much as
/// [`Wheel::reader`].
pub struct MemberContent {
    wheel: Arc<Wheel>,
    name: String,
    size: u64,
    scratch: PathBuf,
}

impl MemberContent {
    /// The member `name` of `wheel`; `scratch` is used like in [`Wheel::reader`]. Fails if there is
    /// no such file.
    pub fn new(wheel: &Arc<Wheel>, name: &str, scratch: &Path) -> Result<MemberContent, Error> {
        let size = wheel.find(name)?.size;
        Ok(MemberContent { wheel: Arc::clone(wheel), name: name.to_owned(), size, scratch: scratch.to_owned() })
    }
}

impl MemberContent {
    /// Like [`MemberContent::new`], but unpacked only once, no matter how often it is opened.
    pub fn spooled(wheel: &Arc<Wheel>, name: &str, spool: &Spool) -> Result<Spooled, Error> {
        let member = MemberContent::new(wheel, name, spool.scratch())?;
        let opening = match wheel.member(name) {
            Some(listed) if listed.is_held() => Opening::InMemory { input: listed.compressed },
            _ => Opening::Elsewhere,
        };
        Ok(spool.hold(member, opening))
    }
}

impl Content for MemberContent {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Reader> {
        self.wheel.reader(&self.name, &self.scratch).map_err(io::Error::other)
    }

    fn origin(&self) -> Option<&Path> {
        Some(self.wheel.path())
    }
}
