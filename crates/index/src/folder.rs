//! Input: a folder. Output: the wheels and source distributions in it by the name of their
//! distribution.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocwheel_wheel::WheelName;

use crate::Error;

/// The files of one distribution in a folder, sorted by name.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) wheels: Vec<(WheelName, PathBuf)>,
    /// Source distributions, each with the name of a pure wheel of the same version.
    pub(crate) sdists: Vec<(WheelName, PathBuf)>,
}

/// The wheels and source distributions in a folder, by file name. Other files are ignored.
pub(crate) fn list(folder: &Path) -> Result<BTreeMap<String, Files>, Error> {
    let failed = |source| Error::Folder { path: folder.to_owned(), source };
    let mut found: BTreeMap<String, Files> = BTreeMap::new();
    for entry in fs_err::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of = |name: &WheelName| rocwheel_wheel::canonical_name(&name.distribution);
        if let Ok(name) = name.parse::<WheelName>() {
            found.entry(of(&name)).or_default().wheels.push((name, path));
        } else if let Some(stem) = name.strip_suffix(".tar.gz")
            && let Ok(name) = format!("{stem}-py3-none-any.whl").parse::<WheelName>()
        {
            found.entry(of(&name)).or_default().sdists.push((name, path));
        }
    }
    for files in found.values_mut() {
        files.wheels.sort();
        files.sdists.sort();
    }
    Ok(found)
}
