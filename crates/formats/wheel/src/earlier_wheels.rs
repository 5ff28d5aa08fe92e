//! Input: a wheel or a folder of wheels. Output: a source of packed bytes that has them.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use rocwheel_archive::{EarlierWheel, PackedSource};

use crate::WheelName;

/// Folders below a folder of wheels that are searched: `dist/FAMILY`.
const DEPTH: usize = 3;

/// Adds a wheel to a source, or the wheels in a folder and up to three levels of folders below it,
/// without hidden ones. Returns the errors of folders below it that cannot be listed.
///
/// # Errors
/// A path that does not exist, or that is a folder that cannot be listed.
pub fn add_earlier_wheels(source: &PackedSource, path: &Path) -> io::Result<Vec<io::Error>> {
    let mut unlisted = Vec::new();
    add_below(source, path, DEPTH, &mut unlisted)?;
    Ok(unlisted)
}

fn add_below(source: &PackedSource, path: &Path, depth: usize, unlisted: &mut Vec<io::Error>) -> io::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        add_file(source, path);
        return Ok(());
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    for entry in entries {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if WheelName::is_wheel(&entry) {
            add_file(source, &entry);
        } else if depth > 0
            && !name.starts_with('.')
            && entry.is_dir()
            && let Err(error) = add_below(source, &entry, depth - 1, unlisted)
        {
            unlisted.push(error);
        }
    }
    Ok(())
}

fn add_file(source: &PackedSource, path: &Path) {
    if let Some(wheel) = EarlierWheel::at(path) {
        source.add(wheel);
    }
}
