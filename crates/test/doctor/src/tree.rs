//! Input: a path of a machine, such as `/sys/module/amdgpu/version`. Output: its text, its names or
//! the reason why there are none.
//!
//! The machine is this one, or a copy in a folder. Links of a copy stay inside of the folder. A
//! copy cannot hold errors of the kernel, owners or devices: the file `doctor.toml` at its top
//! does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use rocwheel_system::{FileMetadata as _, FileOwner};
use serde::{Deserialize, Serialize};

use crate::Error;

/// Limit in bytes of a file of the kernel; those that are read here have less than a page.
pub(crate) const SMALL: u64 = 64 << 10;
/// Limit of the names of a folder.
const MOST_NAMES: usize = 4096;
/// Limit of links on the way to a file, that of Linux.
const MOST_LINKS: usize = 40;
/// The file of a copy with what files cannot hold.
const NOTES: &str = "doctor.toml";

/// Error numbers of Linux on x86-64 and AArch64.
const EPERM: i32 = 1;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const ENODEV: i32 = 19;

/// The reason why a file was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadFault {
    Absent,
    /// EPERM: a device cgroup or a security module refuses.
    NotPermitted,
    /// EACCES: owner, group and mode refuse.
    Denied,
    /// Any other reason, in words.
    Other(String),
}

impl From<io::Error> for ReadFault {
    fn from(error: io::Error) -> ReadFault {
        ReadFault::of(&error)
    }
}

impl ReadFault {
    fn of(error: &io::Error) -> ReadFault {
        match error.raw_os_error() {
            Some(EPERM) => ReadFault::NotPermitted,
            Some(EACCES) => ReadFault::Denied,
            _ if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => ReadFault::Absent,
            Some(number) => ReadFault::Other(words(number)),
            None => ReadFault::Other(error.to_string()),
        }
    }

    /// The reason in words, for evidence.
    pub(crate) fn words(&self) -> String {
        match self {
            ReadFault::Absent => "does not exist".to_owned(),
            ReadFault::NotPermitted => words(EPERM),
            ReadFault::Denied => words(EACCES),
            ReadFault::Other(words) => words.clone(),
        }
    }
}

/// The system's text of an error number, with its name if it is one of ours.
fn words(number: i32) -> String {
    let name = NAMES.iter().find(|(_, known)| *known == number).map(|(name, _)| *name);
    let text = io::Error::from_raw_os_error(number).to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    name.map_or_else(|| text.clone(), |name| format!("{name}: {text}"))
}

/// The names of errors that a copy can ask for.
const NAMES: [(&str, i32); 6] =
    [("EPERM", EPERM), ("ENOENT", 2), ("EIO", EIO), ("EACCES", EACCES), ("EBUSY", EBUSY), ("ENODEV", ENODEV)];

/// What a copy of a machine cannot hold of a path.
#[derive(Debug, Clone, Default)]
struct PathNote {
    error: Option<i32>,
    mode: Option<u32>,
    owner: Option<FileOwner>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotesFile {
    #[serde(default)]
    path: Vec<NoteRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoteRow {
    path: String,
    error: Option<String>,
    mode: Option<String>,
    owner: Option<String>,
}

/// Mode and owner of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct FileRights {
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

#[derive(Debug, Default)]
pub struct MachineTree {
    /// The folder of a copy; `None` for this machine.
    root: Option<PathBuf>,
    notes: BTreeMap<String, PathNote>,
}

impl MachineTree {
    pub fn live() -> MachineTree {
        MachineTree::default()
    }

    /// A copy of a machine: a folder with `sys`, `dev`, `proc` and `etc`, as far as they were
    /// copied.
    pub fn of_folder(root: &Path) -> Result<MachineTree, Error> {
        let folder = rocwheel_system::canonicalize(root).ok().filter(|folder| folder.is_dir());
        let folder = folder.ok_or_else(|| Error::NoRoot { path: root.to_owned() })?;
        let path = folder.join(NOTES);
        let mut notes = BTreeMap::new();
        match fs_err::read_to_string(&path) {
            Ok(text) => {
                let file: NotesFile = toml::from_str(&text)
                    .map_err(|source| Error::TreeFile { path: path.clone(), source: source.into() })?;
                for row in file.path {
                    let key = format!("/{}", row.path.trim_start_matches('/'));
                    let note = row.note().map_err(|reason| Error::TreeValue { path: path.clone(), reason })?;
                    notes.insert(key, note);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::Read { path, source }),
        }
        Ok(MachineTree { root: Some(folder), notes })
    }

    /// The folder of a copy; `None` for this machine.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// `true` for this machine if it runs Windows, which has none of Linux's files.
    pub(crate) fn is_windows(&self) -> bool {
        cfg!(windows) && self.root.is_none()
    }

    /// The path of the machine for a folder that the user named, which may be inside of the copy.
    pub(crate) fn path_inside(&self, folder: &Path) -> String {
        let inside = self.root.as_ref().and_then(|root| folder.strip_prefix(root).ok());
        let path = folder.to_string_lossy().into_owned();
        inside.map_or(path, |inside| format!("/{}", inside.display()))
    }

    fn fault_of(&self, path: &str) -> Option<ReadFault> {
        let number = self.notes.get(path)?.error?;
        Some(ReadFault::of(&io::Error::from_raw_os_error(number)))
    }

    /// The path of this machine for a path of the tree. Links of a copy are followed inside of it.
    pub(crate) fn locate(&self, path: &str) -> Result<PathBuf, ReadFault> {
        // On Windows it would be on the drive of the working directory.
        if self.is_windows() && path.starts_with('/') {
            return Err(ReadFault::Absent);
        }
        let Some(root) = &self.root else { return Ok(PathBuf::from(path)) };
        let mut pending = parts(Path::new(path));
        let mut found = root.clone();
        let mut links = 0;
        while let Some(part) = pending.pop() {
            if part == ".." {
                if found != *root {
                    found.pop();
                }
                continue;
            }
            found.push(&part);
            let Ok(target) = fs_err::read_link(&found) else { continue };
            links += 1;
            if links > MOST_LINKS {
                return Err(ReadFault::Other("links lead in a circle".to_owned()));
            }
            if target.is_absolute() {
                found.clone_from(root);
            } else {
                found.pop();
            }
            pending.extend(parts(&target));
        }
        Ok(found)
    }

    /// The bytes of a file of at most `limit` bytes. A larger file, or one that is not a regular
    /// file, is a fault.
    pub(crate) fn bytes(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadFault> {
        if let Some(fault) = self.fault_of(path) {
            return Err(fault);
        }
        let place = self.locate(path)?;
        let (file, _) = rocwheel_system::open_numbered(&place)?.into_parts();
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            let kind = if metadata.is_dir() { "a folder" } else { rocwheel_system::special_kind(metadata.file_type()) };
            return Err(ReadFault::Other(format!("is {kind}, not a file")));
        }
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(ReadFault::Other(format!("has more than {limit} bytes")));
        }
        Ok(bytes)
    }

    /// The text of a file of at most `limit` bytes, without spaces around it. A file that is not
    /// text is a fault, too.
    pub(crate) fn text_up_to(&self, path: &str, limit: u64) -> Result<String, ReadFault> {
        match String::from_utf8(self.bytes(path, limit)?) {
            Ok(text) if !text.contains('\0') || path.starts_with("/proc/") => Ok(text.trim().to_owned()),
            _ => Err(ReadFault::Other("is not text".to_owned())),
        }
    }

    /// [`MachineTree::text_up_to`] for a file of the kernel.
    pub(crate) fn text(&self, path: &str) -> Result<String, ReadFault> {
        self.text_up_to(path, SMALL)
    }

    /// The text of a file; `None` for any fault, where that means nothing.
    pub fn text_if_any(&self, path: &str) -> Option<String> {
        self.text(path).ok().filter(|text| !text.is_empty())
    }

    /// The names in a folder, at most 4096, sorted by number and then by name.
    pub(crate) fn names(&self, path: &str) -> Result<Vec<String>, ReadFault> {
        if let Some(fault) = self.fault_of(path) {
            return Err(fault);
        }
        let place = self.locate(path)?;
        let entries = rocwheel_system::folder_entries(&place).map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory => ReadFault::Other("is a file, not a folder".to_owned()),
            _ => ReadFault::of(&error),
        });
        let mut names = Vec::new();
        for entry in entries? {
            let entry = entry.map_err(|error| ReadFault::of(&error))?;
            if names.len() == MOST_NAMES {
                return Err(ReadFault::Other(format!("has more than {MOST_NAMES} names")));
            }
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort_by_cached_key(|name| (name.parse::<u64>().unwrap_or(u64::MAX), name.clone()));
        Ok(names)
    }

    /// The names in a folder, sorted; `None` if it cannot be read.
    pub fn names_if_any(&self, path: &str) -> Option<Vec<String>> {
        self.names(path).ok()
    }

    /// The last name of the text of a link: the driver, for the link `driver` of a device.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        let (folder, name) = path.rsplit_once('/')?;
        let target = fs_err::read_link(self.locate(folder).ok()?.join(name)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// `true` if something exists at a path, which need not be readable.
    pub(crate) fn exists(&self, path: &str) -> bool {
        match self.fault_of(path) {
            Some(fault) => fault != ReadFault::Absent,
            None => self.locate(path).is_ok_and(|place| place.exists()),
        }
    }

    pub(crate) fn rights(&self, path: &str) -> Option<FileRights> {
        let place = self.locate(path).ok()?;
        let metadata = fs_err::metadata(&place).ok()?;
        let note = self.notes.get(path).cloned().unwrap_or_default();
        let owner = note.owner.or_else(|| metadata.owner())?;
        let mode = note.mode.unwrap_or_else(|| metadata.mode(&place)) & 0o7777;
        Some(FileRights { mode, user: owner.user, group: owner.group })
    }

    /// Opens a device file of this machine for reading and writing, as the runtime does, and closes
    /// it. For a copy, `None` means that its rights decide.
    pub(crate) fn open_device(&self, path: &str) -> Option<Result<(), ReadFault>> {
        if let Some(fault) = self.fault_of(path) {
            return Some(Err(fault));
        }
        if self.root.is_some() {
            return (!self.exists(path)).then_some(Err(ReadFault::Absent));
        }
        Some(rocwheel_system::try_device(Path::new(path)).map_err(|error| ReadFault::of(&error)))
    }
}

/// The names of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    });
    names.collect()
}

impl NoteRow {
    fn objection(&self, wanted: &str, value: &str) -> String {
        format!("`{}`: `{value}` is not {wanted}", self.path)
    }

    fn note(&self) -> Result<PathNote, String> {
        let error = self.error.as_deref().map(|name| {
            let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
            known.ok_or_else(|| self.objection("an error such as EPERM, ENOENT, EIO, EACCES, EBUSY or ENODEV", name))
        });
        let mode = self.mode.as_deref().map(|text| {
            let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
            mode.ok_or_else(|| self.objection("a mode such as 0660", text))
        });
        let owner = self.owner.as_deref().map(|text| {
            let numbers =
                text.split_once(':').and_then(|(user, group)| Some((user.parse().ok()?, group.parse().ok()?)));
            numbers
                .map(|(user, group)| FileOwner { user, group })
                .ok_or_else(|| self.objection("an owner such as 0:109", text))
        });
        Ok(PathNote { error: error.transpose()?, mode: mode.transpose()?, owner: owner.transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &[u8])]) -> (tempfile::TempDir, MachineTree) {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, bytes).unwrap();
        }
        let tree = MachineTree::of_folder(folder.path()).unwrap();
        (folder, tree)
    }

    #[test]
    fn a_file_is_text_or_a_fault() {
        let large = vec![b'1'; 70_000];
        let (_folder, tree) = tree(&[("a", b"1\n"), ("b", b"\xff"), ("c", &large), ("d/e", b"")]);
        assert_eq!(tree.text("/a"), Ok("1".to_owned()));
        for (path, words) in [
            ("/b", "is not text"),
            ("/c", "has more than 65536 bytes"),
            ("/d", "is a folder, not a file"),
            ("/x", "does not exist"),
            ("/a/x", "does not exist"),
        ] {
            assert_eq!(tree.text(path).unwrap_err().words(), words, "{path}");
        }
        assert_eq!(tree.names("/").unwrap(), ["a", "b", "c", "d"]);
        assert!(tree.names("/a").is_err());
    }

    #[test]
    fn links_stay_in_the_tree() {
        let (folder, tree) = tree(&[("etc/passwd", b"mine"), ("sys/x", b"x")]);
        let link = |target: &str, name: &str| rocwheel_system::symlink(target, folder.path().join(name)).unwrap();
        link("/etc/passwd", "absolute");
        link("../../../../../etc/passwd", "sys/climbing");
        link("loop", "loop");
        assert_eq!(tree.text("/absolute"), Ok("mine".to_owned()));
        assert_eq!(tree.text("/sys/climbing"), Ok("mine".to_owned()));
        assert_eq!(tree.text("/loop").unwrap_err().words(), "links lead in a circle");
        assert_eq!(tree.link_name("/sys/climbing").as_deref(), Some("passwd"));
    }

    #[test]
    fn a_copy_says_what_it_cannot_hold() {
        let rows = "[[path]]\npath = \"sys/a\"\nerror = \"EPERM\"\n\n[[path]]\npath = \"/dev/kfd\"\nmode = \"0660\"\nowner = \"0:109\"\n";
        let (_folder, machine) = tree(&[("doctor.toml", rows.as_bytes()), ("sys/a", b"1"), ("dev/kfd", b"")]);
        assert_eq!(machine.text("/sys/a"), Err(ReadFault::NotPermitted));
        assert_eq!(machine.rights("/dev/kfd"), Some(FileRights { mode: 0o660, user: 0, group: 109 }));
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join(NOTES), "[[path]]\npath = \"a\"\nerror = \"EVIL\"\n").unwrap();
        let error = MachineTree::of_folder(folder.path()).unwrap_err();
        assert!(error.to_string().contains("`EVIL` is not an error"), "{error}");
    }

    /// `/proc/self/mem` has no bytes at its start, so reading it is an I/O error on any machine.
    #[test]
    fn an_error_of_the_kernel_has_its_name() {
        assert_eq!(MachineTree::live().text("/proc/self/mem").unwrap_err().words(), "EIO: Input/output error");
    }
}
