//! The development tree: all files of the artifacts, with links to those that the runtime
//! distributions already contain (rocm-python-packages spec 2.12). It is shipped as a tar inside
//! the wheel, because wheels cannot hold links.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_artifact::EntryKind;
use rocwheel_artifact::links::leaves_tree;
use rocwheel_content::archive_path::{join, parent};
use serde::Serialize;

use crate::Logical;
use crate::populate::{FileSource, Input, Note, PlannedFile, Population};

/// A member of the development tree.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DevelEntry {
    Directory,
    /// A link, possibly to a file of another installed distribution.
    Symlink {
        /// The text of the link.
        target: String,
    },
    /// A file that no runtime distribution holds.
    File(PlannedFile),
}

/// The members of the tree, with paths relative to `_rocm_sdk_devel`.
#[derive(Debug, Default)]
pub struct DevelTree {
    /// Path → member.
    pub entries: BTreeMap<String, DevelEntry>,
    /// Paths that were skipped or changed, with the reason.
    pub notes: Vec<Note>,
}

impl DevelTree {
    /// Builds the tree from the selected paths and the runtime populations, in their order of
    /// precedence. Device populations are not in `runtime`: `rocm-sdk init` links their files
    /// according to `.devel_links`.
    pub fn build(input: &Input<'_>, selected: &BTreeSet<&str>, runtime: &[&Population]) -> DevelTree {
        let mut tree = DevelTree::default();
        let links = input.world.links();
        for &path in selected {
            let Some(node) = input.world.get(path) else { continue };
            let entry = match (&node.kind, provided(path, runtime)) {
                (EntryKind::Directory, _) => DevelEntry::Directory,
                (EntryKind::Symlink { target }, Some(_)) if is_driver(path) && is_in_tree(input, selected, path) => {
                    DevelEntry::Symlink { target: target.clone() }
                }
                (_, Some(target)) => DevelEntry::Symlink { target },
                (EntryKind::Symlink { target }, None) => {
                    if leaves_tree(path, target, &links) {
                        tree.note(path, &format!("skipped: the link to `{target}` leaves the tree"));
                        continue;
                    }
                    if input.world.resolve(path).is_none() {
                        tree.note(path, &format!("the link to `{target}` leads nowhere in these artifacts"));
                    }
                    DevelEntry::Symlink { target: target.clone() }
                }
                (EntryKind::File { size, executable }, None) => DevelEntry::File(PlannedFile {
                    source: FileSource::File { path: node.source.clone() },
                    size: *size,
                    executable: *executable,
                    owners: node.owners.clone(),
                }),
            };
            tree.entries.insert(path.to_owned(), entry);
        }
        // A library that was packaged under its SONAME alone needs that name here too, or its alias
        // would dangle.
        for population in runtime {
            for (path, soname) in &population.aliases {
                let canonical = join(parent(path), soname);
                if tree.entries.contains_key(path)
                    && !tree.entries.contains_key(&canonical)
                    && let Some(target) = provided(&canonical, runtime)
                {
                    tree.entries.insert(canonical, DevelEntry::Symlink { target });
                }
            }
        }
        tree.complete_directories();
        tree
    }

    /// Returns the paths in the order of the tar: a directory before its contents, its files before
    /// its subdirectories. (TheRock's current expander deletes a directory when it first reads a
    /// member below it, defect C8.)
    pub fn tar_order(&self) -> Vec<&str> {
        let mut order = Vec::with_capacity(self.entries.len());
        self.visit("", &mut order);
        order
    }

    fn visit<'a>(&'a self, directory: &str, order: &mut Vec<&'a str>) {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let mut subdirectories = Vec::new();
        for (path, entry) in self.entries.range(prefix.clone()..) {
            let Some(name) = path.strip_prefix(&prefix) else { break };
            if name.contains('/') {
                continue;
            }
            match entry {
                DevelEntry::Directory => subdirectories.push(path),
                _ => order.push(path),
            }
        }
        for path in subdirectories {
            order.push(path);
            self.visit(path, order);
        }
    }

    fn complete_directories(&mut self) {
        let mut missing = BTreeSet::new();
        for path in self.entries.keys() {
            let mut directory = parent(path);
            while !directory.is_empty() && !self.entries.contains_key(directory) {
                missing.insert(directory.to_owned());
                directory = parent(directory);
            }
        }
        self.entries.extend(missing.into_iter().map(|path| (path, DevelEntry::Directory)));
    }

    fn note(&mut self, path: &str, message: &str) {
        self.notes.push(Note {
            distribution: Logical::Devel.key().to_owned(),
            path: path.to_owned(),
            message: message.to_owned(),
        });
    }
}

/// The compiler drivers, which look at the name that they are called by. Every expander keeps these
/// links of the tree symbolic, so a link to core's program would start core's compiler, which has
/// no headers beside it.
const DRIVERS: [&str; 7] = ["amdclang", "amdclang++", "amdclang-cl", "amdclang-cpp", "amdflang", "amdlld", "amdllvm"];

fn is_driver(path: &str) -> bool {
    path.strip_prefix("bin/").is_some_and(|name| DRIVERS.contains(&name))
}

/// `true` if a link leads to a file that is in the tree as well.
fn is_in_tree(input: &Input<'_>, selected: &BTreeSet<&str>, path: &str) -> bool {
    input.world.resolve(path).is_some_and(|end| selected.contains(end.as_str()))
}

/// Returns the link text for a path that a runtime distribution provides, by this name or as an
/// alias of a SONAME.
fn provided(path: &str, runtime: &[&Population]) -> Option<String> {
    for population in runtime {
        if population.files.contains_key(path) {
            let up = "../".repeat(path.split('/').count());
            return Some(format!("{up}{}/{path}", population.platform_package));
        }
        if let Some(soname) = population.aliases.get(path) {
            return Some(soname.clone());
        }
    }
    None
}

/// Returns the text of `.devel_links/<target>.json`: the links from the development tree to files
/// of a device distribution, which `rocm-sdk init` creates (spec 2.11, appendix A.5).
pub fn device_links(version: &str, libraries_package: &str, paths: impl Iterator<Item = String>) -> String {
    #[derive(Serialize)]
    struct Link {
        relpath: String,
        target: String,
    }
    #[derive(Serialize)]
    struct Links<'a> {
        version: &'a str,
        links: Vec<Link>,
    }
    let links = paths
        .map(|relpath| Link {
            target: format!("{}{libraries_package}/{relpath}", "../".repeat(relpath.split('/').count())),
            relpath,
        })
        .collect();
    crate::contents::pretty(&Links { version, links })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_before_their_files_and_files_before_subdirectories() {
        let mut tree = DevelTree::default();
        for path in ["lib/x/y.h", "lib/a.so", "lib.txt", "lib/x-1.h", "include/z/z.h"] {
            tree.entries.insert(path.into(), DevelEntry::Symlink { target: "t".into() });
        }
        tree.complete_directories();
        assert_eq!(
            tree.tar_order(),
            ["lib.txt", "include", "include/z", "include/z/z.h", "lib", "lib/a.so", "lib/x-1.h", "lib/x", "lib/x/y.h"]
        );
    }

    #[test]
    fn device_links_are_written_as_in_the_spec() {
        let text =
            device_links("10.1.0", "_rocm_sdk_libraries", ["lib/rocblas/library/K_gfx942.co".to_owned()].into_iter());
        assert_eq!(
            text,
            "{\n  \"version\": \"10.1.0\",\n  \"links\": [\n    {\n      \"relpath\": \"lib/rocblas/library/K_gfx942.co\",\n      \
             \"target\": \"../../../../_rocm_sdk_libraries/lib/rocblas/library/K_gfx942.co\"\n    }\n  ]\n}"
        );
    }
}
