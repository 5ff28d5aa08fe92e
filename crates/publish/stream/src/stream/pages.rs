//! Input: the manifest of a stream. Output: the pages of its index, and the order in which they
//! change.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_content::archive_path::{file_name, join};
use rocwheel_index::companion::ATTESTATIONS;
use rocwheel_index::pages::{
    IndexedFile, IndexedProject, ProjectStatus, project_html, project_json, root_html, root_json_of,
};
use rocwheel_pages::page_file::link;
use rocwheel_store::StoredFile;
use rocwheel_store::listing::{DistributionListing, NameFilter};
use rocwheel_store::site::{HTML, JSON, VERSIONED_HTML};

use super::manifest::{SnapshotFile, SnapshotManifest};

/// The page of a project as a manifest has it; it has no files where the manifest has none of the
/// project.
pub fn project(manifest: &SnapshotManifest, name: &str) -> IndexedProject {
    let files: BTreeMap<&String, &SnapshotFile> = manifest.files_of(name).collect();
    let stored =
        files.iter().map(|(key, file)| StoredFile { key: (*key).clone(), size: file.size, stamp: String::new() });
    let listing = DistributionListing::of(stored.collect(), &NameFilter::default());
    let indexed = listing.distributions.iter().filter_map(|one| {
        let file = files.get(&one.file.key)?;
        Some(IndexedFile {
            name: file_name(&one.file.key).to_owned(),
            url: link(name, &one.file.key),
            version: one.version.clone(),
            size: file.size,
            sha256: file.sha256.clone(),
            requires_python: file.requires_python.clone(),
            metadata_sha256: file.metadata_sha256.clone(),
            uploaded: Some(file.uploaded),
            yanked: file.yanked.clone(),
            provenance: provenance(manifest, &one.file.key, file),
        })
    });
    let (status, status_reason) = match &manifest.notice {
        Some(notice) => (ProjectStatus::Deprecated, Some(notice.text())),
        None => (ProjectStatus::Active, None),
    };
    IndexedProject { name: name.to_owned(), files: indexed.collect(), status, status_reason, generation: None }
}

/// The address of a file's attestations, which has to be a whole one (PEP 740).
fn provenance(manifest: &SnapshotManifest, key: &str, file: &SnapshotFile) -> Option<String> {
    file.provenance_sha256.as_ref()?;
    Some(format!("{}{}", manifest.address.as_ref()?, link("", &format!("{key}{ATTESTATIONS}"))))
}

/// The pages of a folder, with their keys.
pub type Pages = Vec<(String, Vec<u8>)>;

/// The files of a project's page.
pub fn project_pages(project: IndexedProject, generation: u64) -> Pages {
    let project = IndexedProject { generation: Some(generation), ..project };
    three(&project.name, &project_html(&project), &project_json(&project))
}

/// The files of the first page. `chooser` is the address of the page for people.
pub fn root_pages(names: &BTreeSet<&str>, chooser: Option<&str>, generation: u64) -> Pages {
    let html = root_html(names.iter().copied(), chooser, Some(generation));
    let json = root_json_of(names.iter().copied(), Some(generation));
    three("", &html, &json)
}

/// The files of a page in a folder.
pub(super) fn three(folder: &str, html: &str, json: &str) -> Pages {
    // Readers of `index.html` check its generation first, so it is written last.
    let pages = [(VERSIONED_HTML, html), (JSON, json), (HTML, html)];
    pages.map(|(name, text)| (join(folder, name), text.as_bytes().to_vec())).into()
}

pub fn page_keys(name: &str) -> [String; 3] {
    [HTML, VERSIONED_HTML, JSON].map(|file| join(name, file))
}

/// The projects, each after those that it requires. Projects that require each other are in the
/// order of their names.
pub fn dependencies_first<'a>(
    projects: &BTreeSet<&'a str>,
    requires: &'a BTreeMap<String, BTreeSet<String>>,
) -> Vec<&'a str> {
    let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
    for first in projects.iter().copied() {
        // Each entry has the requirements that are still to be visited.
        let mut open: Vec<(&'a str, Vec<&'a str>)> = Vec::new();
        if seen.insert(first) {
            open.push((first, required(requires, first)));
        }
        while let Some((name, left)) = open.last_mut() {
            match left.pop() {
                Some(next) if seen.insert(next) => open.push((next, required(requires, next))),
                Some(_) => {}
                None => {
                    order.push(*name);
                    open.pop();
                }
            }
        }
    }
    order.retain(|name| projects.contains(name));
    order
}

fn required<'a>(requires: &'a BTreeMap<String, BTreeSet<String>>, name: &str) -> Vec<&'a str> {
    requires.get(name).into_iter().flatten().rev().map(String::as_str).collect()
}

/// The projects in groups: what a project requires is in an earlier group, unless they require each
/// other.
pub fn levels<'a>(projects: &BTreeSet<&'a str>, requires: &'a BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<&'a str>> {
    // Also those between two of them, which do not change themselves.
    let mut all: BTreeSet<&'a str> = projects.clone();
    all.extend(requires.iter().flat_map(|(name, others)| others.iter().chain([name])).map(String::as_str));
    let mut levels: BTreeMap<usize, Vec<&'a str>> = BTreeMap::new();
    let mut of: BTreeMap<&str, usize> = BTreeMap::new();
    for name in dependencies_first(&all, requires) {
        // A project that is not in `of` comes later: a circle.
        let required = requires.get(name).into_iter().flatten().filter_map(|other| of.get(other.as_str()));
        let level = required.map(|level| level + 1).max().unwrap_or(0);
        of.insert(name, level);
        if projects.contains(name) {
            levels.entry(level).or_default().push(name);
        }
    }
    levels.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_points_are_last() {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let requires = BTreeMap::from([
            ("rocm".to_owned(), of(&["rocm-sdk-core", "rocm-sdk-device-gfx942"])),
            ("torch".to_owned(), of(&["rocm", "amd-torch-device-gfx942", "triton"])),
            ("triton".to_owned(), of(&["torch"])),
            ("amd-torch-device-gfx942".to_owned(), of(&["elsewhere"])),
        ]);
        let all = ["amd-torch-device-gfx942", "rocm", "rocm-sdk-core", "rocm-sdk-device-gfx942", "torch", "triton"];
        let order = dependencies_first(&BTreeSet::from(all), &requires);
        let at = |name: &str| order.iter().position(|one| *one == name).unwrap();
        assert_eq!(order.len(), all.len(), "{order:?}");
        assert!(at("rocm-sdk-core") < at("rocm") && at("rocm") < at("torch"), "{order:?}");
        assert!(at("amd-torch-device-gfx942") < at("torch"), "{order:?}");
        assert_eq!(dependencies_first(&BTreeSet::from(["torch", "rocm"]), &requires), ["rocm", "torch"]);
        let levels = levels(&BTreeSet::from(all), &requires);
        // triton and torch require each other.
        assert_eq!(levels[0], ["rocm-sdk-core", "rocm-sdk-device-gfx942", "triton"]);
        let level = |name: &str| levels.iter().position(|level| level.contains(&name)).unwrap();
        assert!(level("rocm-sdk-core") < level("rocm") && level("rocm") < level("torch"), "{levels:?}");
        assert!(level("amd-torch-device-gfx942") < level("torch"), "{levels:?}");
        assert_eq!(levels.concat().len(), all.len());
        let apart = super::levels(&BTreeSet::from(["rocm-sdk-core", "torch"]), &requires);
        assert_eq!(apart, [["rocm-sdk-core"], ["torch"]], "rocm is between them");
    }
}
