//! Input: the files of an archive, and an older version of the artifact. Output: the files. Those
//! that did not change are second names of the older ones: their bytes are compared while they
//! arrive, and nothing is written.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rocwheel_system::FileMetadata as _;

/// Which older files can get another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Files with a single name, since other programs may use the second one.
    Sole,
    /// All files. They are in a scratch directory, where files are never changed.
    Any,
}

/// The directory of an older version.
pub(super) struct OlderTree<'a> {
    root: Option<&'a Path>,
    sharing: Sharing,
    /// Folders, and `true` for those that are no link and are in such folders.
    folders: HashMap<PathBuf, bool>,
}

impl<'a> OlderTree<'a> {
    pub(super) fn new(root: Option<&'a Path>, sharing: Sharing) -> OlderTree<'a> {
        OlderTree { root, sharing, folders: HashMap::new() }
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
        Some(OlderFile { path, file, size: metadata.len(), compared: 0 })
    }

    /// `true` for a folder below the root that is reached without a link.
    fn is_plain(&mut self, folder: &Path) -> bool {
        if let Some(known) = self.folders.get(folder) {
            return *known;
        }
        let is_folder = || fs_err::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir());
        let is_plain =
            is_folder() && (Some(folder) == self.root || folder.parent().is_some_and(|parent| self.is_plain(parent)));
        self.folders.insert(folder.to_owned(), is_plain);
        is_plain
    }
}

/// An older file, of which the first `compared` bytes are those of the new one.
pub(super) struct OlderFile {
    path: PathBuf,
    file: fs_err::File,
    size: u64,
    compared: u64,
}

impl OlderFile {
    /// `true` if it goes on with these bytes.
    fn has_next(&mut self, bytes: &[u8], scratch: &mut Vec<u8>) -> bool {
        if self.compared + bytes.len() as u64 > self.size {
            return false;
        }
        scratch.resize(bytes.len(), 0);
        let is_same = self.file.read_exact(scratch).is_ok() && scratch == bytes;
        if is_same {
            self.compared += bytes.len() as u64;
        }
        is_same
    }
}

/// A file that arrives piece by piece. It has no name of its own while it is equal to the older
/// one.
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

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let State::Equal(older) = &mut self.state
            && older.has_next(bytes, &mut self.scratch)
        {
            return Ok(());
        }
        self.file()?.write_all(bytes)
    }

    /// The new file, which has all bytes so far.
    fn file(&mut self) -> io::Result<&mut fs_err::File> {
        if !matches!(self.state, State::Written(_)) {
            let mut file = fs_err::OpenOptions::new().write(true).create_new(true).open(self.path)?;
            if let State::Equal(older) = &self.state {
                let mut begin = fs_err::File::open(&older.path)?.take(older.compared);
                if io::copy(&mut begin, &mut file)? != older.compared {
                    let path = older.path.display();
                    return Err(io::Error::other(format!("`{path}` was cut while it was read")));
                }
            }
            self.state = State::Written(file);
        }
        match &mut self.state {
            State::Written(file) => Ok(file),
            State::Equal(_) | State::Empty => Err(io::Error::other("the file is not open")),
        }
    }

    pub(super) fn finish(mut self, mode: u32) -> io::Result<()> {
        if let State::Equal(older) = &self.state
            && older.compared == older.size
            && fs_err::hard_link(&older.path, self.path).is_ok()
        {
            return Ok(());
        }
        self.file()?;
        rocwheel_system::set_mode(self.path, mode)
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
}
