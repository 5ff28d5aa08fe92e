//! Input: what a stream lists, and the files of a set. Output: which of the files are withdrawn,
//! because their versions are.

use std::collections::BTreeMap;

use rocwheel_content::archive_path::file_name;
use rocwheel_store::listing::{StoredDistribution, distributions};
use rocwheel_stream::SnapshotManifest;

/// Why a file of a set is withdrawn in the stream, or would be: all listed files of its version
/// are.
pub(super) fn withdrawal(manifest: &SnapshotManifest, one: &StoredDistribution) -> Option<String> {
    if let Some(listed) = manifest.files.get(&one.file.key) {
        return listed.yanked.clone();
    }
    // One that pages listed before stays withdrawn.
    let before = manifest.unlisted.get(&one.file.key).and_then(|file| file.file.yanked.clone());
    before.or_else(|| {
        let listed = distributions(manifest.files_of(&one.project).map(|(key, _)| key));
        let of_version = listed.iter().filter(|other| other.version == one.version);
        let reasons: Option<Vec<String>> =
            of_version.map(|other| manifest.files.get(&other.file.key)?.yanked.clone()).collect();
        reasons?.into_iter().next()
    })
}

/// The reasons of those of new files that are withdrawn, by key.
pub(super) fn reasons<'k>(
    manifest: &SnapshotManifest,
    new: impl IntoIterator<Item = &'k String>,
) -> BTreeMap<String, String> {
    let new = distributions(new).into_iter();
    new.filter_map(|one| Some((one.file.key.clone(), withdrawal(manifest, &one)?))).collect()
}

/// The same, in words.
pub(super) fn objections<'k>(manifest: &SnapshotManifest, new: impl IntoIterator<Item = &'k String>) -> Vec<String> {
    let reasons = reasons(manifest, new).into_iter();
    let words = reasons.map(|(key, reason)| format!("`{}` is withdrawn, as its version is: {reason}", file_name(&key)));
    words.collect()
}
