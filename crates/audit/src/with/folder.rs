//! Input: a folder. Output: the wheels in it by the name of their distribution.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wheel::WheelName;

use crate::Error;

/// The files of the folder that are named as wheels are; others are none of ours.
pub(super) fn list(folder: &Path) -> Result<BTreeMap<String, Vec<(WheelName, PathBuf)>>, Error> {
    let failed = |source| Error::Folder { path: folder.to_owned(), source };
    let mut found: BTreeMap<String, Vec<(WheelName, PathBuf)>> = BTreeMap::new();
    for entry in fs_err::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Ok(name) = name.parse::<WheelName>() {
            found.entry(wheel::canonical_name(&name.distribution)).or_default().push((name, path));
        }
    }
    for wheels in found.values_mut() {
        wheels.sort();
    }
    Ok(found)
}
