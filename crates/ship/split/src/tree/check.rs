//! Input: artifacts, directories or files, before a split and after it. Output: the [`View`]s that
//! the checks compare.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rocwheel_artifact::{Catalog, EntryKind, manifest};
use rocwheel_content::{Content, FileContent};
use rocwheel_kpack::fatbin::FatBinary;
use rocwheel_progress::{Failure, Reporter};

use super::is_manifest;
use crate::error::gpu_code_error;
use crate::verify::{self, Checks, Difference, Item, VerificationReport, View};

/// The flag of `therock_manifest.json` that is set if GPU code is in archives.
const FLAG: &str = "KPACK_SPLIT_ARTIFACTS";

/// Compares artifacts after a split with those before it, separately for each name and component.
pub fn verify_catalogs(
    before: &Catalog,
    after: &Catalog,
    checks: &Checks<'_>,
    reporter: &dyn Reporter,
) -> Result<VerificationReport, Failure> {
    let (before, mut after) = (views(before, Side::Before)?, views(after, Side::After)?);
    let mut total = VerificationReport::default();
    for (group, before) in before {
        let after = after.remove(&group).unwrap_or_default();
        total.merge(verify::verify(&before, &after, checks, reporter)?);
    }
    for group in after.keys() {
        total.differences.push(Difference::new(group, "was not there before"));
    }
    total.finish();
    Ok(total)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// Merges the artifacts into one tree for each name and component, as they will be installed.
fn views(catalog: &Catalog, side: Side) -> Result<BTreeMap<String, View>, Failure> {
    let mut views: BTreeMap<String, View> = BTreeMap::new();
    for artifact in &catalog.artifacts {
        let view = views.entry(format!("{}_{}", artifact.name.name, artifact.name.component)).or_default();
        for entry in &artifact.entries {
            let path = artifact.path(entry);
            let item = match &entry.kind {
                EntryKind::Directory => continue,
                EntryKind::Symlink { target } => Item::Link { target: target.clone() },
                EntryKind::File { executable, .. } => {
                    let content: Arc<dyn Content> = if side == Side::Before && is_manifest(artifact, entry) {
                        Arc::new(with_flag(&path)?)
                    } else {
                        Arc::new(FileContent::new(&path)?)
                    };
                    Item::File { content, executable: *executable }
                }
            };
            // Two basedirs of an artifact may hold the same path; the second file is compared under
            // its full path.
            let full = format!("{}/{}", artifact.basedirs[entry.basedir], entry.path);
            let path = if view.get(&entry.path).is_some() { &full } else { &entry.path };
            view.insert(path, item);
        }
    }
    Ok(views)
}

/// Returns the text of `therock_manifest.json` with the flag set.
pub(super) fn with_flag(path: &Path) -> Result<Vec<u8>, Failure> {
    Ok(manifest::read_with_flag(path, FLAG, true)?.into_bytes())
}

/// Returns the text of `therock_manifest.json` with the flag cleared, or unchanged if it has no
/// flag.
pub fn without_flag(path: &Path) -> Result<Vec<u8>, Failure> {
    let flags = rocwheel_artifact::Manifest::read(path)?.flags;
    if flags.is_some_and(|flags| flags.contains_key(FLAG)) {
        return Ok(manifest::read_with_flag(path, FLAG, false)?.into_bytes());
    }
    Ok(fs_err::read(path)?)
}

/// Reads everything below a directory: an installed prefix, an unpacked wheel, or an output of ours
/// without its marker file.
pub fn view_of_directory(root: &Path) -> Result<View, Failure> {
    let mut view = View::default();
    let mut open = vec![(root.to_owned(), String::new())];
    while let Some((directory, prefix)) = open.pop() {
        for entry in fs_err::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| rocwheel_artifact::not_unicode(&entry.path()))?;
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push((entry.path(), format!("{path}/")));
            } else if kind.is_symlink() {
                let target = fs_err::read_link(entry.path())?.to_string_lossy().into_owned();
                view.insert(path, Item::Link { target });
            } else if kind.is_file() && !(prefix.is_empty() && name.starts_with(MARKERS)) {
                view.insert(path, file(&entry.path())?);
            }
        }
    }
    Ok(view)
}

/// Prefix of the file name that marks an output of ours; the file is not part of the result.
const MARKERS: &str = ".rocwheel-";

fn file(path: &Path) -> Result<Item, Failure> {
    use rocwheel_system::FileMetadata as _;
    let executable = fs_err::metadata(path)?.is_executable(path);
    Ok(Item::File { content: Arc::new(FileContent::new(path)?), executable })
}

/// Returns the view of a single file before, and the view of the same file after with the archives
/// that its markers lead to, in any directory.
pub fn views_of_files(before: &Path, after: &Path) -> Result<(View, View), Failure> {
    let content = FileContent::new(after)?;
    let reader = content.open()?;
    let key = after.display().to_string();
    let fat = FatBinary::read(&reader, content.size()).map_err(gpu_code_error(&key))?;
    let searches: Vec<String> =
        fat.iter().flat_map(|fat| &fat.markers).flat_map(|(marker, _)| marker.search_paths.clone()).collect();
    // The view has so many directories above the file that no search path leaves the tree.
    let depth = searches.iter().map(|search| search.matches("..").count()).max().unwrap_or(0);
    let name = after.file_name().unwrap_or_default().to_string_lossy();
    let path = format!("{}{name}", "_/".repeat(depth));
    let (mut old, mut new) = (View::default(), View::default());
    old.insert(&path, file(before)?);
    new.insert(&path, file(after)?);
    for search in &searches {
        let (Some(placed), Some((directory, _))) =
            (rocwheel_content::archive_path::link_target(&path, search), search.rsplit_once('/'))
        else {
            continue;
        };
        let placed = placed.rsplit_once('/').map_or("", |(directory, _)| directory);
        let directory = after.parent().unwrap_or(Path::new(".")).join(directory);
        let Ok(found) = fs_err::read_dir(&directory) else { continue };
        for entry in found {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if crate::group::is_archive(&name) && entry.path().is_file() {
                new.insert(format!("{placed}/{name}"), file(&entry.path())?);
            }
        }
    }
    Ok((old, new))
}
