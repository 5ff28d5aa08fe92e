//! Input: folders, and the pieces of a wheel. Output: which of the pieces are in wheels of these
//! folders.
//!
//! The wheels may be of any version, and have any name: pip keeps them in its cache under the hash
//! of their address. They are cut as the described wheel was, so equal pieces have equal hashes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pep440_rs::Version;
use rocwheel_archive::ZipFile;
use rocwheel_progress::{Reporter, Unit};
use rocwheel_store::Error as StoreError;
use rocwheel_wheel::read::info_folder;
use rocwheel_wheel::{WheelName, canonical_name};
use walkdir::WalkDir;

use crate::cut::{Piece, PieceHash, cut};
use crate::error::Error;

/// Wheels that are searched for pieces. Older versions rarely have what newer ones lack.
const MOST_WHEELS: usize = 4;
/// Folders below a named one that are searched. pip's cache has six.
const DEPTH: usize = 8;
/// The folders in which rocwheel writes results begin so; a wheel in one of them may be half
/// written.
const STAGING: &str = ".rocwheel-";
/// How pip names the answers of servers in its cache.
const PIP_ENDING: &str = "body";

/// A wheel of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldWheel {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    version: Version,
    /// How many tags it shares with the wanted wheel.
    tags: usize,
}

/// Where a piece is on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldPiece {
    /// Number of the wheel.
    pub(crate) wheel: usize,
    pub(crate) offset: u64,
}

/// Errors for a path that does not exist, in the words of [`find_wheels`].
pub(crate) fn check_places(places: &[PathBuf]) -> Result<(), Error> {
    for place in places {
        if let Some(Err(error)) = WalkDir::new(place).max_depth(0).follow_links(true).into_iter().next() {
            return Err(StoreError::Read { path: place.clone(), source: error.into() }.into());
        }
    }
    Ok(())
}

/// Finds the wheels of a project, those with the tags of `wanted` first, and the newest of them.
pub(crate) fn find_wheels(
    places: &[PathBuf],
    wanted: &WheelName,
    reporter: &dyn Reporter,
) -> Result<Vec<HeldWheel>, Error> {
    let mut found = Vec::new();
    for place in places {
        let walk = WalkDir::new(place).max_depth(DEPTH).follow_links(true).sort_by_file_name();
        let finished = walk.into_iter().filter_entry(|entry| {
            let name = entry.file_name().to_string_lossy();
            entry.depth() == 0 || !entry.file_type().is_dir() || !name.starts_with(STAGING)
        });
        for entry in finished {
            reporter.check()?;
            let entry = match entry {
                Ok(entry) => entry,
                // Links in a circle or to missing files are skipped.
                Err(error) if error.depth() > 0 => continue,
                Err(error) => return Err(StoreError::Read { path: place.clone(), source: error.into() }.into()),
            };
            if entry.file_type().is_file()
                && let Some(wheel) = held_wheel(entry.path(), wanted)
            {
                found.push(wheel);
            }
        }
    }
    found.sort_by(|one, other| (other.tags, &other.version, &one.path).cmp(&(one.tags, &one.version, &other.path)));
    // One place may be in another one.
    found.dedup_by(|one, other| one.path == other.path);
    Ok(found)
}

/// The file as a wheel of the project of `wanted`; `None` for any other file.
fn held_wheel(path: &Path, wanted: &WheelName) -> Option<HeldWheel> {
    let name = path.file_name()?.to_string_lossy();
    let (project, version, tags) = if WheelName::is_wheel(path) {
        let name: WheelName = name.parse().ok()?;
        let (own, others) = (name.tags(), wanted.tags());
        let shared = own.iter().filter(|tag| others.contains(tag)).count();
        (name.distribution, name.version, shared)
    } else if path.extension().is_some_and(|ending| ending == PIP_ENDING) {
        let info = info_folder(ZipFile::open(path).ok()?.members(), path).ok()?;
        let (project, version) = info.strip_suffix(".dist-info")?.rsplit_once('-')?;
        (project.to_owned(), version.to_owned(), 0)
    } else {
        return None;
    };
    let version = version.replace('_', "-").parse().ok()?;
    let size = fs_err::metadata(path).ok()?.len();
    let is_same = canonical_name(&project) == canonical_name(&wanted.distribution);
    is_same.then(|| HeldWheel { path: path.to_owned(), size, version, tags })
}

/// The pieces that were found in wheels.
#[derive(Debug, Default)]
pub(crate) struct FoundPieces {
    pub(crate) pieces: HashMap<PieceHash, HeldPiece>,
    /// Number of wheels that could not be read.
    pub(crate) unreadable: usize,
}

/// Searches wheels for pieces, until all are found or enough wheels were read. A wheel that cannot
/// be read is reported, and the next one is searched instead.
pub(crate) fn find_pieces(
    wheels: &[HeldWheel],
    wanted: &[Piece],
    reporter: &dyn Reporter,
) -> Result<FoundPieces, Error> {
    let mut missing: HashMap<PieceHash, u32> = wanted.iter().map(|piece| (piece.hash, piece.length)).collect();
    let mut found = FoundPieces::default();
    for (number, wheel) in wheels.iter().enumerate() {
        if missing.is_empty() || number - found.unreadable == MOST_WHEELS {
            break;
        }
        let name = wheel.path.file_name().unwrap_or_default().to_string_lossy();
        let stage = reporter.stage(&format!("Reading {name}"), Some(wheel.size), Unit::Bytes);
        let pieces = cut(&wheel.path, reporter);
        drop(stage);
        let pieces = match pieces {
            Ok(pieces) => pieces,
            Err(Error::Interrupted(interrupted)) => return Err(interrupted.into()),
            Err(error) => {
                let reason = rocwheel_progress::with_causes(&error);
                reporter.warn(&format!("nothing of `{}` is used: {reason}", wheel.path.display()));
                found.unreadable += 1;
                continue;
            }
        };
        let mut offset = 0;
        for piece in pieces {
            if missing.get(&piece.hash) == Some(&piece.length) {
                missing.remove(&piece.hash);
                found.pieces.insert(piece.hash, HeldPiece { wheel: number, offset });
            }
            offset += u64::from(piece.length);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_of_the_same_tags_come_first_and_the_newest_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let names = "torch-2.9.0-cp311-cp311-linux_x86_64.whl torch-2.10.0-cp311-cp311-linux_x86_64.whl \
                     Torch-2.8.0-cp312-cp312-linux_x86_64.whl torch-2.7.0-cp312-cp312-linux_x86_64.whl \
                     torchvision-1-cp312-cp312-linux_x86_64.whl torch-2.9.0.tar.gz broken.body";
        fs_err::create_dir_all(folder.path().join("a/b")).unwrap();
        for (number, name) in names.split(' ').enumerate() {
            fs_err::write(folder.path().join(["", "a", "a/b"][number % 3]).join(name), b"x").unwrap();
        }
        let wanted = "torch-2.11.0-cp312-cp312-linux_x86_64.whl".parse().unwrap();
        let places = [folder.path().to_owned(), folder.path().join("a")];
        let found = find_wheels(&places, &wanted, &rocwheel_progress::Silent).unwrap();
        let found: Vec<String> = found.iter().map(|wheel| wheel.version.to_string()).collect();
        assert_eq!(found, ["2.8.0", "2.7.0", "2.10.0", "2.9.0"]);
        let missing = [folder.path().join("missing")];
        assert!(find_wheels(&missing, &wanted, &rocwheel_progress::Silent).is_err());
    }

    #[test]
    fn half_written_wheels_are_not_searched() {
        let folder = tempfile::tempdir().unwrap();
        let staging = folder.path().join(".rocwheel-x1");
        fs_err::create_dir(&staging).unwrap();
        for place in [folder.path(), &staging] {
            fs_err::write(place.join("torch-2.9.0-py3-none-any.whl"), b"x").unwrap();
        }
        let wanted = "torch-2.11.0-py3-none-any.whl".parse().unwrap();
        let find = |place: &Path| find_wheels(&[place.to_owned()], &wanted, &rocwheel_progress::Silent).unwrap().len();
        assert_eq!((find(folder.path()), find(&staging)), (1, 1), "a named folder is searched whatever its name");
    }
}
