//! Input: paths of files, or artifacts. Output: their [`Build`]s.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_artifact::{Catalog, EntryKind};
use rocwheel_content::archive_path::link_target;
use rocwheel_content::{Content, FileContent};
use rocwheel_kpack::fatbin::FatBinary;
use rocwheel_progress::{Failure, Reporter};

use super::fuse_error;
use super::{Build, FusedOutput, write_directory};
use rocwheel_split::error::gpu_code_error;
use rocwheel_split::group::is_archive;
use rocwheel_split::tree;
use rocwheel_split::verify::{Item, View};

/// The file that lists the basedirs of an artifact (TheRock's `fileset_tool.py`).
const MANIFEST: &str = "artifact_manifest.txt";

/// Builds of one file. `archives` are the `.kpack` files to take its code from; if empty, its
/// markers lead to them from its own folder. Returns the builds, and the path of the file in them.
pub fn of_files(hosts: &[PathBuf], archives: &[PathBuf]) -> Result<(Vec<Build>, String), Failure> {
    for (number, archive) in archives.iter().enumerate() {
        // The two would have the same path.
        if let Some(other) = archives[..number].iter().find(|other| other.file_name() == archive.file_name()) {
            let why = format!("`{}` has the same name", other.display());
            return Err(fuse_error(&archive.display().to_string(), &why));
        }
    }
    let mut searches: Vec<Vec<String>> = Vec::new();
    for host in hosts {
        let content = FileContent::new(host)?;
        let reader = content.open()?;
        let fat = FatBinary::read(&reader, content.size()).map_err(gpu_code_error(&host.display().to_string()))?;
        let markers = fat.iter().flat_map(|fat| &fat.markers);
        searches.push(markers.flat_map(|(marker, _)| marker.search_paths.clone()).collect());
    }
    // Enough folders are put above the file that every search path stays in the tree.
    let depth = searches.iter().flatten().map(|search| search.matches("..").count()).max().unwrap_or(0);
    let name = hosts.first().and_then(|host| host.file_name()).unwrap_or_default().to_string_lossy();
    let path = format!("{}{name}", "_/".repeat(depth));
    let mut builds = Vec::new();
    for (host, searches) in hosts.iter().zip(&searches) {
        let mut view = View::default();
        view.insert(&path, file(host)?);
        for search in searches {
            let Some(placed) = link_target(&path, search) else { continue };
            let folder = placed.rsplit_once('/').map_or("", |(folder, _)| folder);
            let beside = search.rsplit_once('/').map_or("", |(folder, _)| folder);
            let found = if archives.is_empty() {
                archives_in(&host.parent().unwrap_or(Path::new(".")).join(beside))
            } else {
                archives.to_vec()
            };
            for archive in found {
                let name = archive.file_name().unwrap_or_default().to_string_lossy();
                let item = file(&archive)?;
                view.insert(if folder.is_empty() { name.into_owned() } else { format!("{folder}/{name}") }, item);
            }
        }
        builds.push(Build { name: format!("`{}`", host.display()), view });
    }
    Ok((builds, path))
}

/// The archives directly in a folder, sorted; empty if the folder does not exist.
pub fn archives_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(found) = fs_err::read_dir(folder) else { return Vec::new() };
    let paths = found.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.is_file() && path.to_str().is_some_and(is_archive)).collect();
    paths.sort();
    paths
}

/// The build in a folder of installed files.
pub fn of_directory(path: &Path) -> Result<Build, Failure> {
    Ok(Build { name: format!("`{}`", path.display()), view: tree::view_of_directory(path)? })
}

fn file(path: &Path) -> Result<Item, Failure> {
    use rocwheel_system::FileMetadata as _;
    let executable = fs_err::metadata(path)?.is_executable(path);
    Ok(Item::File { content: Arc::new(FileContent::new(path)?), executable })
}

/// The builds of all artifacts with one name and component.
pub struct Artifacts {
    /// Name and component, as `{name}_{component}`.
    pub group: String,
    /// The builds, in the order of the artifacts.
    pub builds: Vec<Build>,
    /// For each path of the builds, the basedir and the path in it.
    pub places: BTreeMap<String, (String, String)>,
}

/// Fused artifacts in TheRock's layout: `{name}_{component}_{family}/{basedir}/…`, with the
/// basedirs in `artifact_manifest.txt`.
#[derive(Default)]
pub struct ArtifactTree {
    view: View,
    manifests: Vec<(String, Vec<u8>)>,
}

impl ArtifactTree {
    /// Adds a fused artifact under the name of `group`. `family` is its GPU target family.
    pub fn add(&mut self, group: &Artifacts, family: &str, fused: &View) {
        let name = format!("{}_{family}", group.group);
        for (path, item) in fused.items() {
            let Some((basedir, inside)) = group.places.get(path) else { continue };
            self.view.insert(format!("{name}/{basedir}/{inside}"), item.clone());
        }
        let basedirs: BTreeSet<&str> = group.places.values().map(|(basedir, _)| basedir.as_str()).collect();
        let manifest: String = basedirs.iter().map(|basedir| format!("{basedir}\n")).collect();
        self.manifests.push((format!("{name}/{MANIFEST}"), manifest.into_bytes()));
    }

    /// Writes the artifacts to the directory `output`. `inputs` are the fused artifacts.
    pub fn write(self, output: &Path, inputs: &[PathBuf], reporter: &dyn Reporter) -> Result<FusedOutput, Failure> {
        write_directory(&self.view, &self.manifests, (output, inputs), reporter)
    }
}

/// The builds in catalogs, by name and component. Artifacts share one build as long as no two have
/// the same file; the first artifact with an existing file begins the next build.
pub fn of_catalogs(catalogs: &[Catalog]) -> Result<Vec<Artifacts>, Failure> {
    let mut groups: BTreeMap<String, Artifacts> = BTreeMap::new();
    for artifact in catalogs.iter().flat_map(|catalog| &catalog.artifacts) {
        let name = format!("{}_{}", artifact.name.name, artifact.name.component);
        let empty = Artifacts { group: name.clone(), builds: Vec::new(), places: BTreeMap::new() };
        let group = groups.entry(name).or_insert(empty);
        let mut items: Vec<(String, Item)> = Vec::new();
        for entry in &artifact.entries {
            let basedir = artifact.basedirs[entry.basedir].clone();
            // Two basedirs may have the same path; the second is then named by its full path.
            let known = group.places.get(&entry.path).is_some_and(|(other, _)| *other != basedir);
            let path = if known { format!("{basedir}/{}", entry.path) } else { entry.path.clone() };
            let from = artifact.path(entry);
            let item = match &entry.kind {
                EntryKind::Directory => continue,
                EntryKind::Symlink { target } => Item::Link { target: target.clone() },
                EntryKind::File { executable, .. } => {
                    let content: Arc<dyn Content> = if tree::is_manifest(artifact, entry) {
                        Arc::new(tree::without_flag(&from)?)
                    } else {
                        Arc::new(FileContent::new(&from)?)
                    };
                    Item::File { content, executable: *executable }
                }
            };
            group.places.insert(path.clone(), (basedir, entry.path.clone()));
            items.push((path, item));
        }
        let name = format!("`{}`", artifact.root.display());
        let free = group.builds.iter().rposition(|build| items.iter().all(|(path, _)| build.view.get(path).is_none()));
        let place = free.unwrap_or_else(|| {
            group.builds.push(Build { name, view: View::default() });
            group.builds.len() - 1
        });
        for (path, item) in items {
            group.builds[place].view.insert(path, item);
        }
    }
    Ok(groups.into_values().collect())
}
