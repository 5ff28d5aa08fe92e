//! Input: the files of an archive, and an older version of the artifact. Output: the files. Those
//! that did not change are second names of the older ones: their bytes are compared while they
//! arrive, and nothing is written. An older file that changes meanwhile is not used.

use std::collections::HashMap;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use rocwheel_system::FileMetadata as _;

use super::file_state::FileState;
use crate::error::Error;

/// Which older files can get another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Files with a single name, since other programs may use the second one.
    Sole,
    /// All files. They are in a scratch directory, where files are never changed.
    Any,
}

pub(super) struct OlderTree<'a> {
    root: Option<&'a Path>,
    sharing: Sharing,
    /// Folders, and `true` for those that are no link and are in such folders.
    folders: HashMap<PathBuf, bool>,
    /// New files that are second names, and the states in which they were compared.
    shared: Vec<(PathBuf, FileState)>,
}

impl<'a> OlderTree<'a> {
    pub(super) fn new(root: Option<&'a Path>, sharing: Sharing) -> OlderTree<'a> {
        OlderTree { root, sharing, folders: HashMap::new(), shared: Vec::new() }
    }

    /// The older file at a relative path, if it has this mode and can get another name.
    pub(super) fn find(&mut self, relative: &str, mode: u32) -> Option<OlderFile> {
        let path = self.root?.join(relative);
        let metadata = fs_err::symlink_metadata(&path).ok()?;
        let is_usable = metadata.is_file()
            && metadata.mode(&path) & 0o7777 == mode & 0o7777
            && (self.sharing == Sharing::Any || metadata.link_count(&path).ok()? == 1)
            && self.is_plain(path.parent()?);
        if !is_usable {
            return None;
        }
        let file = fs_err::File::open(&path).ok()?;
        let state = FileState::of_open(&file).ok()?;
        Some(OlderFile { path, file, state, compared: 0 })
    }

    /// Remembers that a new file is a second name of an older one, which had this state.
    pub(super) fn share(&mut self, path: PathBuf, state: FileState) {
        self.shared.push((path, state));
    }

    /// A new file that is a second name and was changed after it was compared.
    pub(super) fn changed(&self) -> Option<&Path> {
        let changed = self.shared.iter().find(|(path, state)| FileState::of_path(path).ok() != Some(*state));
        changed.map(|(path, _)| path.as_path())
    }

    /// `true` for a folder below the root that is reached without a link.
    fn is_plain(&mut self, folder: &Path) -> bool {
        if let Some(known) = self.folders.get(folder) {
            return *known;
        }
        let is_plain = fs_err::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir())
            && (Some(folder) == self.root || folder.parent().is_some_and(|parent| self.is_plain(parent)));
        self.folders.insert(folder.to_owned(), is_plain);
        is_plain
    }
}

/// An older file, of which the first `compared` bytes are those of the new one.
pub(super) struct OlderFile {
    path: PathBuf,
    file: fs_err::File,
    /// Before its first byte was read.
    state: FileState,
    compared: u64,
}

impl OlderFile {
    /// `true` if the file continues with these bytes.
    fn has_next(&mut self, bytes: &[u8], scratch: &mut Vec<u8>) -> bool {
        if self.compared + bytes.len() as u64 > self.state.size {
            return false;
        }
        scratch.resize(bytes.len(), 0);
        let is_same = self.file.read_exact(scratch).is_ok() && scratch == bytes;
        if is_same {
            self.compared += bytes.len() as u64;
        }
        is_same
    }

    /// Writes what was compared into the new file. The path may lead to another file by now.
    fn copy_compared(&mut self, file: &mut fs_err::File) -> Result<(), Error> {
        self.file.seek(SeekFrom::Start(0))?;
        let copied = io::copy(&mut (&mut self.file).take(self.compared), file)?;
        if copied != self.compared || FileState::of_open(&self.file)? != self.state {
            return Err(Error::OlderChanged { path: self.path.clone() });
        }
        Ok(())
    }
}

/// A file that arrives piece by piece. It is not created while it is equal to the older one.
pub(super) struct UnpackedFile<'a> {
    path: &'a Path,
    state: State,
    scratch: Vec<u8>,
}

enum State {
    Equal(OlderFile),
    Empty,
    Written(fs_err::File),
}

impl<'a> UnpackedFile<'a> {
    pub(super) fn new(path: &'a Path, older: Option<OlderFile>) -> UnpackedFile<'a> {
        let state = older.map_or(State::Empty, State::Equal);
        UnpackedFile { path, state, scratch: Vec::new() }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let State::Equal(older) = &mut self.state
            && older.has_next(bytes, &mut self.scratch)
        {
            return Ok(());
        }
        Ok(self.file()?.write_all(bytes)?)
    }

    /// The new file, which has all bytes so far.
    fn file(&mut self) -> Result<&mut fs_err::File, Error> {
        if !matches!(self.state, State::Written(_)) {
            let mut file = fs_err::OpenOptions::new().write(true).create_new(true).open(self.path)?;
            if let State::Equal(older) = &mut self.state {
                older.copy_compared(&mut file)?;
            }
            self.state = State::Written(file);
        }
        match &mut self.state {
            State::Written(file) => Ok(file),
            State::Equal(_) | State::Empty => Err(io::Error::other("the file is not open").into()),
        }
    }

    /// Ends the file. Returns the state of the older one if it is a second name of it.
    ///
    /// # Errors
    /// [`Error::OlderChanged`]: the older file was written to while it was compared.
    pub(super) fn finish(mut self, mode: u32) -> Result<Option<FileState>, Error> {
        if let State::Equal(older) = &self.state
            && older.compared == older.state.size
            && fs_err::hard_link(&older.path, self.path).is_ok()
        {
            if FileState::of_path(self.path)? == older.state {
                return Ok(Some(older.state));
            }
            fs_err::remove_file(self.path)?;
        }
        self.file()?;
        rocwheel_system::set_mode(self.path, mode)?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(path: &Path) -> u64 {
        fs_err::metadata(path).unwrap().identity(path).unwrap().inode
    }

    /// Unpacks `content` in pieces of three bytes.
    fn unpack(older: &mut OlderTree<'_>, (name, content): (&str, &[u8]), place: &Path) -> PathBuf {
        let path = place.join(name.replace('/', "-"));
        let mut file = UnpackedFile::new(&path, older.find(name, 0o644));
        for piece in content.chunks(3) {
            file.write(piece).unwrap();
        }
        file.finish(0o644).unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), content, "{name}");
        path
    }

    #[test]
    fn only_a_file_with_the_same_bytes_and_one_name_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs_err::create_dir_all(old.join("lib")).unwrap();
        fs_err::create_dir(&new).unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs_err::create_dir(&elsewhere).unwrap();
        fs_err::write(elsewhere.join("file"), "0123456789").unwrap();
        rocwheel_system::symlink(&elsewhere, old.join("link")).unwrap();
        let names = ["same", "other", "longer", "shorter", "empty", "mode", "linked"];
        for name in names {
            let path = old.join("lib").join(name);
            fs_err::write(&path, if name == "empty" { "" } else { "0123456789" }).unwrap();
            rocwheel_system::set_mode(&path, if name == "mode" { 0o755 } else { 0o644 }).unwrap();
        }
        fs_err::hard_link(old.join("lib/linked"), elsewhere.join("second")).unwrap();
        let mut older = OlderTree::new(Some(&old), Sharing::Sole);
        let mut kept = Vec::new();
        for name in names {
            let content: &[u8] = match name {
                "other" => b"01234567x9",
                "longer" => b"0123456789abc",
                "shorter" => b"01234567",
                "empty" => b"",
                _ => b"0123456789",
            };
            let path = unpack(&mut older, (&format!("lib/{name}"), content), &new);
            if inode(&path) == inode(&old.join("lib").join(name)) {
                kept.push(name);
            }
            assert_eq!(fs_err::metadata(&path).unwrap().mode(&path) & 0o777, 0o644, "{name}");
        }
        // Windows has no bit for programs, so the modes of both are the same there.
        let expected: &[&str] = if cfg!(windows) { &["same", "empty", "mode"] } else { &["same", "empty"] };
        assert_eq!(kept, expected);
        for name in names.iter().filter(|name| **name != "empty") {
            assert_eq!(fs_err::read(old.join("lib").join(name)).unwrap(), b"0123456789", "{name}");
        }
        let path = unpack(&mut older, ("link/file", b"0123456789"), &new);
        assert_ne!(inode(&path), inode(&elsewhere.join("file")), "it was reached through a link");
        unpack(&mut older, ("none", b"text"), &new);
        unpack(&mut OlderTree::new(None, Sharing::Sole), ("alone", b"text"), &new);
    }

    #[test]
    #[cfg_attr(windows, ignore = "Windows does not replace a file that is open")]
    fn a_file_that_changes_while_it_is_compared_gets_no_second_name() {
        let folder = tempfile::tempdir().unwrap();
        let (old, other) = (folder.path().join("old"), folder.path().join("other"));
        fs_err::create_dir(&old).unwrap();
        let file = old.join("file");
        // `end` is what arrives after the change.
        let attempt = |change: &dyn Fn(), end: &[u8]| {
            fs_err::write(&file, "0123456789").unwrap();
            let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
            fs_err::File::options().write(true).open(&file).unwrap().file().set_modified(long_ago).unwrap();
            rocwheel_system::set_mode(&file, 0o644).unwrap();
            let new = folder.path().join("new");
            let mut older = OlderTree::new(Some(&old), Sharing::Any);
            let mut unpacked = UnpackedFile::new(&new, older.find("file", 0o644));
            unpacked.write(b"01234").unwrap();
            change();
            let result = unpacked.write(end).and_then(|()| unpacked.finish(0o644));
            let bytes = fs_err::read(&new);
            let _ = fs_err::remove_file(&new);
            result.map(|shared| (shared.is_some(), String::from_utf8(bytes.unwrap()).unwrap()))
        };
        let whole = "0123456789".to_owned();
        assert_eq!(attempt(&|| {}, b"56789").unwrap(), (true, whole.clone()));
        let replace = || {
            fs_err::write(&other, "x123456789").unwrap();
            fs_err::rename(&other, &file).unwrap();
        };
        assert_eq!(attempt(&replace, b"56789").unwrap(), (false, whole.clone()));
        assert_eq!(attempt(&replace, b"abc").unwrap(), (false, "01234abc".to_owned()));
        let remove = || fs_err::remove_file(&file).unwrap();
        assert_eq!(attempt(&remove, b"56789").unwrap(), (false, whole));
        assert_eq!(attempt(&remove, b"abc").unwrap(), (false, "01234abc".to_owned()));
        let write = || fs_err::write(&file, "x123456789").unwrap();
        for end in [&b"56789"[..], b"abc"] {
            let error = attempt(&write, end).unwrap_err();
            assert!(matches!(&error, Error::OlderChanged { path } if *path == file), "{error}");
        }
    }
}
