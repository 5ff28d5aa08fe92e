//! Input: a folder. Output: its wheels and source distributions, by the name of the distribution.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::Failure;
use rocwheel_wheel::WheelName;

use crate::address_hint;

/// The files of one distribution in a folder, sorted by name.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) wheels: Vec<(WheelName, PathBuf)>,
    /// Source distributions, each with the name that a pure wheel of its version would have.
    pub(crate) sdists: Vec<(WheelName, PathBuf)>,
}

/// Lists the wheels and source distributions of a folder by distribution. Other files are ignored.
pub(crate) fn list(folder: &Path) -> Result<BTreeMap<String, Files>, Failure> {
    let mut found: BTreeMap<String, Files> = BTreeMap::new();
    let entries = fs_err::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|error| {
        let hint = if error.kind() == io::ErrorKind::NotFound { address_hint(folder) } else { None };
        let failure = Failure::from(error).context(format!("could not list the wheels in `{}`", folder.display()));
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    })?;
    for entry in entries {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Ok(name) = name.parse::<WheelName>() {
            found.entry(rocwheel_wheel::canonical_name(&name.distribution)).or_default().wheels.push((name, path));
        } else if let Some(name) = source_name(&name) {
            found.entry(rocwheel_wheel::canonical_name(&name.distribution)).or_default().sdists.push((name, path));
        }
    }
    for files in found.values_mut() {
        files.wheels.sort();
        files.sdists.sort();
    }
    Ok(found)
}

/// The name that a pure wheel of a source distribution's version would have. File names from before
/// PEP 625 may contain hyphens.
pub(super) fn source_name(file_name: &str) -> Option<WheelName> {
    let (name, version) = file_name.strip_suffix(".tar.gz")?.rsplit_once('-')?;
    format!("{}-{version}-py3-none-any.whl", name.replace('-', "_")).parse().ok()
}
