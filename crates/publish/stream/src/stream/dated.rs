//! Input: a snapshot. Output: a package index in a folder of this machine, as the stream was then.
//! Files stay where they are.

use std::collections::BTreeMap;
use std::path::Path;

use rocwheel_content::archive_path::{join, parent};
use rocwheel_index::pages::encoded_segment;
use rocwheel_store::Error as StoreError;

use super::manifest::SnapshotManifest;
use super::pages;

/// Writes the pages of a snapshot. `files` is the address of the stream, ending in `/`, which
/// links begin with, except those of the keys in `elsewhere`.
pub fn write_dated_index(
    manifest: &SnapshotManifest,
    files: &str,
    elsewhere: &BTreeMap<String, String>,
    folder: &Path,
) -> Result<(), StoreError> {
    let names = manifest.projects();
    for name in &names {
        let mut project = pages::project(manifest, name);
        for file in &mut project.files {
            file.url = match elsewhere.get(&join(name, &file.name)) {
                Some(address) => address.clone(),
                None => format!("{files}{}/{}", encoded_segment(name), file.url),
            };
        }
        for (key, bytes) in pages::project_pages(project, manifest.number) {
            debug_assert_eq!(parent(&key), *name);
            write(folder, &key, &bytes)?;
        }
    }
    for (key, bytes) in pages::root_pages(&names, None, manifest.number) {
        write(folder, &key, &bytes)?;
    }
    Ok(())
}

fn write(folder: &Path, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let path = folder.join(key);
    let written = fs_err::create_dir_all(path.parent().unwrap_or(folder)).and_then(|()| fs_err::write(&path, bytes));
    written.map_err(StoreError::write(&path))
}
