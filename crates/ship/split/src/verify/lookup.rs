//! Input: the installed files, a binary's marker and an index. Output: the code object that the
//! runtime finds for a GPU (kpack specification 4.1 and 4.2), or the reason why it finds none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use rocwheel_content::Content;
use rocwheel_content::archive_path::link_target;
use rocwheel_kpack::archive::KpackArchive;
use rocwheel_kpack::marker::Marker;
use rocwheel_tables::target::TargetId;

use rocwheel_progress::Failure;

use super::View;
use crate::error::{gpu_code_error, read_error};
use crate::group::TARGET_PLACEHOLDER;

/// An archive whose table of contents has been read.
pub struct OpenArchive {
    pub path: String,
    pub content: Arc<dyn Content>,
    pub archive: KpackArchive,
}

pub(crate) enum Found {
    /// A code object, stored under this target.
    Code { archive: Arc<OpenArchive>, target: String },
    /// No archive for this GPU: the runtime continues with the next GPU (its errors 13 and 14).
    NoArchive,
    /// An archive for this GPU that lacks the kernel: the runtime gives up on all GPUs (its error
    /// 5).
    NoKernel { archive: Arc<OpenArchive>, target: String },
}

/// All archives of a tree, opened when they are first needed.
pub struct Archives<'a> {
    view: &'a View,
    open: Mutex<BTreeMap<String, Arc<OpenArchive>>>,
}

impl<'a> Archives<'a> {
    pub fn new(view: &'a View) -> Self {
        Self { view, open: Mutex::default() }
    }

    /// Returns the archive at `path`; `None` if the file does not exist.
    pub fn get(&self, path: &str) -> Result<Option<Arc<OpenArchive>>, Failure> {
        let Some(content) = self.view.file(path) else { return Ok(None) };
        let mut open = self.open.lock().expect("nothing panics while it holds the lock");
        if let Some(archive) = open.get(path) {
            return Ok(Some(Arc::clone(archive)));
        }
        let reader = content.open().map_err(read_error(path))?;
        let archive = KpackArchive::open(&reader, content.size()).map_err(gpu_code_error(path))?;
        let archive = Arc::new(OpenArchive { path: path.to_owned(), content: Arc::clone(content), archive });
        open.insert(path.to_owned(), Arc::clone(&archive));
        Ok(Some(archive))
    }

    /// Looks up the code object `index` of the binary at `binary` for a GPU with the name `gpu`, as
    /// the runtime does.
    ///
    /// Of the two existing loaders this is the stricter one: after it has found an archive without
    /// the kernel, it does not look further.
    pub(crate) fn find(&self, binary: &str, marker: &Marker, index: u32, gpu: &TargetId) -> Result<Found, Failure> {
        let names: Vec<String> = gpu.lookup_order().iter().map(ToString::to_string).collect();
        let mut paths: Vec<String> = Vec::new();
        for search in &marker.search_paths {
            let Some(path) = link_target(binary, search) else { continue };
            if path.contains(TARGET_PLACEHOLDER) {
                paths.extend(names.iter().map(|name| path.replacen(TARGET_PLACEHOLDER, name, 1)));
            } else {
                paths.push(path);
            }
        }
        let mut seen = BTreeSet::new();
        let mut archives = Vec::new();
        for path in paths.into_iter().filter(|path| seen.insert(path.clone())) {
            archives.extend(self.get(&path)?);
        }
        for name in &names {
            if let Some(archive) = archives.iter().find(|archive| archive.archive.targets.contains(name)) {
                let (archive, target) = (Arc::clone(archive), name.clone());
                return Ok(match archive.archive.find(&marker.kernel_name, index, name) {
                    Some(_) => Found::Code { archive, target },
                    None => Found::NoKernel { archive, target },
                });
            }
        }
        Ok(Found::NoArchive)
    }

    /// Returns the archive that holds code under a name that no GPU looks up.
    pub(crate) fn stored(&self, binary: &str, marker: &Marker, index: u32, name: &str) -> Option<Arc<OpenArchive>> {
        let mut archives = self.reachable(binary, marker).into_iter();
        archives.find(|archive| archive.archive.find(&marker.kernel_name, index, name).is_some())
    }

    /// Returns the archives that a search path of the binary may lead to on any GPU, without those
    /// that cannot be read.
    pub fn reachable(&self, binary: &str, marker: &Marker) -> Vec<Arc<OpenArchive>> {
        let mut reachable = Vec::new();
        for path in marker.search_paths.iter().filter_map(|search| link_target(binary, search)) {
            let Some((start, end)) = path.split_once(TARGET_PLACEHOLDER) else {
                reachable.extend(self.get(&path).ok().flatten());
                continue;
            };
            for found in self.view.paths_from(start).filter(|found| found.len() >= start.len() + end.len()) {
                let Some(target) = found[start.len()..].strip_suffix(end) else { continue };
                let Ok(Some(archive)) = self.get(found) else { continue };
                // `x_@GFXARCH@` also matches `x_set2_gfx942`, but no GPU has that name.
                let is_of_target = archive.archive.targets.iter().any(|held| {
                    held == target
                        || rocwheel_tables::target::base_target(held) == target
                        || held
                            .parse::<TargetId>()
                            .is_ok_and(|held| held.compatible().iter().any(|name| name.to_string() == target))
                });
                if is_of_target {
                    reachable.push(archive);
                }
            }
        }
        reachable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_paths_begin_at_the_binary() {
        assert_eq!(link_target("lib/x.so", "../.kpack/a").as_deref(), Some(".kpack/a"));
        assert_eq!(link_target("x.so", ".kpack/a").as_deref(), Some(".kpack/a"));
        assert_eq!(link_target("a/b/x.so", "./../../c//d").as_deref(), Some("c/d"));
        assert_eq!(link_target("lib/x.so", "../../a"), None);
        assert_eq!(link_target("lib/x.so", "/a"), None);
    }
}
