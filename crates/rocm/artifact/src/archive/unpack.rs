//! Input: an archive. Output: the artifact directory it was made from.

use std::collections::HashSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_content::open_regular;
use rocwheel_progress::{Failure, Interrupted, Reporter, Unit, Watched};
use rocwheel_system::FileMetadata as _;
use walkdir::WalkDir;

use super::file_state::FileState;
use super::previous_tree::{OlderTree, Sharing, UnpackedFile};
use super::read::{self, Content, Member, MemberKind};
use super::sidecar::verify_digest;
use crate::error::{AGAIN, Error};
use crate::location::{ArtifactForm, ArtifactLocation};
use crate::name::ArtifactName;

/// Name of the file that is written last into a directory of the scratch space: the digest of the
/// archive, and that of [`state_of`] the tree. A directory without it is incomplete.
const COMPLETE: &str = "complete";
/// Name of the artifact directory beside it.
const TREE: &str = "tree";
/// Beginning of the names of directories that are not complete.
const UNFINISHED: &str = ".unpack-";
/// Digits of an archive's digest in the name of its directory.
const DIGITS: usize = 32;

/// Unpacks an archive into `destination`, which must not exist and is removed after an error.
/// Permission bits are kept, but the owner can always read and write; owners and times are not
/// restored. Advances the reporter's stage by the compressed bytes read.
pub fn unpack(archive: &Path, destination: &Path, reporter: &dyn Reporter) -> Result<(), Error> {
    unpack_over(archive, (destination, None), reporter)
}

/// [`unpack`], with another version of the artifact beside it: files with the same bytes are not
/// written again, but get a second name.
pub fn unpack_over(
    archive: &Path,
    (destination, older): (&Path, Option<&Path>),
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    match unpack_stream(Box::new(read::open(archive, reporter)?), archive, (destination, older), reporter) {
        Err(Error::OlderChanged { .. }) => unpack(archive, destination, reporter),
        unpacked => unpacked,
    }
}

/// [`unpack_over`] for bytes from another source, such as a download. `archive` names them in
/// errors, and its suffix gives their compression.
pub fn unpack_stream(
    file: Box<dyn Read + '_>,
    archive: &Path,
    (destination, older): (&Path, Option<&Path>),
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    unpack_tree(file, archive, (destination, &mut OlderTree::new(older, Sharing::Sole)), reporter)
}

fn unpack_tree(
    file: Box<dyn Read + '_>,
    archive: &Path,
    (destination, older): (&Path, &mut OlderTree),
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    fs_err::create_dir(destination)?;
    let unpacked = unpack_into(file, archive, (destination, older), reporter);
    if unpacked.is_err() {
        fs_err::remove_dir_all(destination)?;
    }
    unpacked
}

fn unpack_into(
    file: Box<dyn Read + '_>,
    archive: &Path,
    (destination, older): (&Path, &mut OlderTree),
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let mut made: HashSet<PathBuf> = HashSet::new();
    let mut buffer = vec![0; 1 << 18];
    // Made last: see `make_links`.
    let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut paths = rocwheel_system::PathCheck::default();
    read::for_each_member_of(file, archive, reporter, &mut |member: &Member, content: Content| {
        paths.check(&member.path)?;
        let path = destination.join(&member.path);
        if let Some(parent) = path.parent() {
            make_directories(parent, destination, &mut made)?;
        }
        match &member.kind {
            MemberKind::Directory => {
                make_directories(&path, destination, &mut made)?;
                rocwheel_system::set_mode(&path, member.mode | 0o700)?;
            }
            MemberKind::Symlink { target } => links.push((target.into(), path)),
            MemberKind::HardLink { first } => fs_err::hard_link(destination.join(first), &path)?,
            MemberKind::File => {
                let mode = member.mode | 0o600;
                let mut file = UnpackedFile::new(&path, older.find(&member.path, mode));
                loop {
                    let read = content.read(&mut buffer).map_err(|source| {
                        if reporter.interrupted() {
                            Error::Interrupted(Interrupted)
                        } else {
                            Error::DamagedArchive { path: archive.to_owned(), source }
                        }
                    })?;
                    if read == 0 {
                        break;
                    }
                    file.write(&buffer[..read])?;
                }
                if let Some(state) = file.finish(mode)? {
                    older.share(path, state);
                }
            }
        }
        Ok(())
    })?;
    Ok(rocwheel_system::make_links(links)?)
}

/// Creates a directory and its parents, with mode 755 regardless of the umask.
fn make_directories(path: &Path, destination: &Path, made: &mut HashSet<PathBuf>) -> io::Result<()> {
    if path == destination || made.contains(path) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_directories(parent, destination, made)?;
    }
    fs_err::create_dir(path)?;
    rocwheel_system::set_mode(path, 0o755)?;
    made.insert(path.to_owned());
    Ok(())
}

/// The directory below which archives are unpacked, and those of earlier runs. What an earlier run
/// unpacked from the very same archive gets a second name if it is as that run left it. A file that
/// another version of the archive has, too, is compared while its bytes arrive, so such a directory
/// may have any content and may change meanwhile. A later write into an earlier file changes ours.
/// Any number of processes may use the same directory.
#[derive(Debug, Clone)]
pub struct Scratch {
    folder: PathBuf,
    earlier: Vec<PathBuf>,
    anew: bool,
    compares: bool,
}

impl Scratch {
    /// The directory is created when it is needed.
    pub fn new(folder: impl Into<PathBuf>) -> Scratch {
        Scratch { folder: folder.into(), earlier: Vec::new(), anew: false, compares: false }
    }

    /// `true` if a directory of this name below a scratch directory is one that this module made.
    pub fn is_place(name: &str) -> bool {
        let digits = name.rsplit_once('-').map_or("", |(_, digits)| digits);
        name.starts_with(UNFINISHED) || (digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }

    /// Unpacks every archive again and shares no files with earlier trees.
    #[must_use]
    pub fn anew(self) -> Scratch {
        Scratch { anew: true, ..self }
    }

    /// Compares all files with those of earlier trees, also if an earlier run unpacked the very
    /// same archive.
    #[must_use]
    pub fn compare(self) -> Scratch {
        Scratch { compares: true, ..self }
    }

    /// Adds the scratch directory of another run, which may not exist and is not changed.
    #[must_use]
    pub fn after(mut self, earlier: impl Into<PathBuf>) -> Scratch {
        self.earlier.push(earlier.into());
        self
    }

    /// The place of an archive. `label` makes its name recognisable.
    fn place(&self, label: &str, digest: &str) -> PathBuf {
        self.folder.join(format!("{label}-{}", &digest[..DIGITS.min(digest.len())]))
    }

    /// The newest unpacked archive with this label on the file system of the scratch directory:
    /// files get no second name on another one.
    fn newest(&self, label: &str) -> Option<PathBuf> {
        let here = device_of(&self.folder);
        let folders = std::iter::once(&self.folder).chain(&self.earlier).filter(|folder| device_of(folder) == here);
        let entries = folders.flat_map(|folder| fs_err::read_dir(folder).into_iter().flatten().flatten());
        let labelled = entries.filter(|entry| {
            let name = entry.file_name();
            let ours = name.to_str().filter(|name| Scratch::is_place(name) && name.len() == label.len() + 1 + DIGITS);
            ours.is_some_and(|name| name.starts_with(label))
        });
        let dated = labelled.filter_map(|entry| {
            let finished = fs_err::metadata(entry.path().join(COMPLETE)).ok()?.modified().ok()?;
            Some((finished, entry.path()))
        });
        dated.max().map(|(_, place)| place.join(TREE))
    }

    /// `true` if the directory of an archive need not be unpacked.
    fn has(&self, place: &Path) -> bool {
        !self.anew && is_intact(place)
    }

    /// The artifact directory of an archive. It is unpacked again if it is missing or was changed.
    /// `digest` is the archive's in `state`.
    fn provide(
        &self,
        (archive, label): (&Path, &str),
        (digest, state): &(String, FileState),
        reporter: &dyn Reporter,
    ) -> Result<PathBuf, Error> {
        let place = self.place(label, digest);
        if self.has(&place) {
            return Ok(place.join(TREE));
        }
        fs_err::create_dir_all(&self.folder)?;
        let temporary = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&self.folder)?;
        let tree = temporary.path().join(TREE);
        let tree_state = match self.link_same(&place, &tree) {
            Some(linked) => linked,
            None => self.unpack_and_compare((archive, label), *state, (&tree, reporter))?,
        };
        fs_err::write(temporary.path().join(COMPLETE), format!("{digest}\n{tree_state}\n"))?;
        if place.exists() && !self.has(&place) {
            fs_err::remove_dir_all(&place)?;
        }
        match rocwheel_system::rename(temporary.path(), &place) {
            // Another process was faster; it unpacked the same bytes.
            Err(_) if is_intact(&place) => {}
            renamed => renamed?,
        }
        Ok(place.join(TREE))
    }

    /// Makes `tree` of second names of what an earlier run unpacked from the same archive, and
    /// returns its state; `None` if there is no such tree, or it is not as it was made.
    fn link_same(&self, place: &Path, tree: &Path) -> Option<String> {
        if self.anew || self.compares {
            return None;
        }
        let name = place.file_name()?;
        let (same, state) = self.earlier.iter().find_map(|folder| {
            let same = folder.join(name);
            let state = recorded_state(&same)?;
            (device_of(&same) == device_of(&self.folder)).then_some((same, state))
        })?;
        // A file that was written to has another state under its second name, too.
        let linked = link_tree(&same.join(TREE), tree).and_then(|()| state_of(tree));
        if linked.is_ok_and(|linked| linked == state) {
            return Some(state);
        }
        let _ = fs_err::remove_dir_all(tree);
        None
    }

    /// Unpacks an archive and shares files with the newest earlier tree of this label.
    fn unpack_and_compare(
        &self,
        (archive, label): (&Path, &str),
        state: FileState,
        (tree, reporter): (&Path, &dyn Reporter),
    ) -> Result<String, Error> {
        let newest = self.newest(label).filter(|_| !self.anew);
        match unpack_unchanged((archive, state), (tree, newest.as_deref()), reporter) {
            Err(Error::OlderChanged { .. }) => unpack_unchanged((archive, state), (tree, None), reporter),
            unpacked => unpacked,
        }
    }
}

/// Makes a tree of second names of the files of another one, on the same file system.
fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    let mut links = Vec::new();
    for entry in WalkDir::new(from) {
        let entry = entry?;
        let path = to.join(entry.path().strip_prefix(from).map_err(io::Error::other)?);
        if entry.file_type().is_dir() {
            fs_err::create_dir(&path)?;
            rocwheel_system::set_mode(&path, entry.metadata()?.mode(entry.path()))?;
        } else if entry.file_type().is_symlink() {
            links.push((fs_err::read_link(entry.path())?, path));
        } else {
            fs_err::hard_link(entry.path(), &path)?;
        }
    }
    rocwheel_system::make_links(links)
}

/// Unpacks an archive that must be in this state before and after. Returns the state of the tree.
fn unpack_unchanged(
    (archive, state): (&Path, FileState),
    (tree, older): (&Path, Option<&Path>),
    reporter: &dyn Reporter,
) -> Result<String, Error> {
    let file = open_regular(archive)?;
    let mut older = OlderTree::new(older, Sharing::Any);
    let unpacked = unpack_tree(Box::new(Watched::new(&file, reporter)), archive, (tree, &mut older), reporter);
    if FileState::of_open(&file)? != state && !matches!(unpacked, Err(Error::Interrupted(_))) {
        let text = format!("the archive `{}` changed while it was read", archive.display());
        return Err(Failure::message(text).with_hint(AGAIN).into());
    }
    unpacked?;
    let tree_state = state_of(tree)?;
    // A write before this would be part of that state; one after it differs from it.
    if let Some(path) = older.changed() {
        fs_err::remove_dir_all(tree)?;
        return Err(Error::OlderChanged { path: path.to_owned() });
    }
    Ok(tree_state)
}

/// The digest as [`verify_digest`] returns it, and the state of the archive that has it: a file
/// that is replaced or written to later has another state.
fn digest_and_state(archive: &Path, reporter: &dyn Reporter) -> Result<(String, FileState), Error> {
    let state = FileState::of_open(&open_regular(archive)?)?;
    Ok((verify_digest(archive, reporter)?, state))
}

/// The directories of the artifacts, in the same order. Archives are compared with their sidecars
/// and unpacked in `scratch`, on all threads.
pub(crate) fn provide(
    places: &[(ArtifactName, ArtifactLocation)],
    scratch: &Scratch,
    reporter: &dyn Reporter,
) -> Vec<Result<(PathBuf, ArtifactForm), Error>> {
    let archives: Vec<(&ArtifactName, &Path)> = places
        .iter()
        .filter_map(|(name, place)| match place {
            ArtifactLocation::Archive(path, _) => Some((name, path.as_path())),
            ArtifactLocation::Directory(_) => None,
        })
        .collect();
    let unpacked = if archives.is_empty() { Vec::new() } else { provide_archives(&archives, scratch, reporter) };
    let mut unpacked = unpacked.into_iter();
    places
        .iter()
        .map(|(_, place)| match place {
            ArtifactLocation::Directory(path) => Ok((path.clone(), ArtifactForm::Directory)),
            ArtifactLocation::Archive(..) => unpacked.next().unwrap_or(Err(Error::Interrupted(Interrupted))),
        })
        .collect()
}

fn device_of(path: &Path) -> Option<u64> {
    Some(fs_err::metadata(path).ok()?.identity(path).ok()?.device)
}

fn provide_archives(
    archives: &[(&ArtifactName, &Path)],
    scratch: &Scratch,
    reporter: &dyn Reporter,
) -> Vec<Result<(PathBuf, ArtifactForm), Error>> {
    let sizes = archives.iter().map(|(_, path)| fs_err::metadata(path).map_or(0, |metadata| metadata.len()));
    let sizes: Vec<u64> = sizes.collect();
    let stage = reporter.stage("Checking archives", Some(sizes.iter().sum()), Unit::Bytes);
    let digests: Vec<_> = archives.par_iter().map(|(_, path)| digest_and_state(path, reporter)).collect();
    drop(stage);

    let missing = archives.iter().zip(&digests).zip(&sizes).filter_map(|(((name, _), digest), size)| {
        let place = scratch.place(&name.to_string(), &digest.as_ref().ok()?.0);
        (!scratch.has(&place)).then_some(*size)
    });
    let missing: Vec<u64> = missing.collect();
    let unpacks = !missing.is_empty();
    let _stage = unpacks.then(|| reporter.stage("Unpacking archives", Some(missing.iter().sum()), Unit::Bytes));
    let work: Vec<_> = archives.iter().zip(digests).collect();
    let unpacked = work.into_par_iter().map(|((name, path), digest)| {
        let digest = digest?;
        let root = scratch.provide((path, &name.to_string()), &digest, reporter);
        let root = root.map_err(|error| error.or_full_disk(&scratch.folder))?;
        Ok((root, ArtifactForm::Archive { path: path.to_path_buf(), digest: digest.0 }))
    });
    unpacked.collect()
}

/// `true` if the tree was unpacked to its end, and has not been changed since.
fn is_intact(place: &Path) -> bool {
    recorded_state(place).is_some_and(|state| state_of(&place.join(TREE)).is_ok_and(|now| now == state))
}

/// The state of the tree in a place when it was complete.
fn recorded_state(place: &Path) -> Option<String> {
    fs_err::read_to_string(place.join(COMPLETE)).ok()?.lines().nth(1).map(str::to_owned)
}

/// A digest of the names, kinds, modes, sizes and times in a tree. No file is read, so it differs
/// after every change but one that sets the old time again.
fn state_of(tree: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    for entry in WalkDir::new(tree).sort_by_file_name() {
        let entry = entry?;
        let (path, metadata) = (entry.path(), entry.metadata()?);
        let state = if metadata.is_symlink() {
            format!("link to {}", fs_err::read_link(path)?.display())
        } else if metadata.is_dir() {
            "folder".to_owned()
        } else {
            let time = metadata.modified_at();
            format!("file {} {} {}.{}", metadata.mode(path), metadata.len(), time.seconds, time.nanoseconds)
        };
        let below = path.strip_prefix(tree).unwrap_or(path).display();
        hasher.update(format!("{below}\0{state}\0").as_bytes());
    }
    Ok(hasher.finalize().to_hex().to_string())
}
