//! Input: a selection of a [`Catalog`]. Output: its artifacts merged into one flattened [`Tree`].
//!
//! One path with two different contents is an error that names both owners; TheRock's current
//! scripts silently keep the first (defect C1).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fs_err as fs;
use rocwheel_artifact::links::Links;
use rocwheel_artifact::{Artifact, Catalog, EntryKind};
use rocwheel_content::archive_path::file_name;
use rocwheel_progress::Failure;
use rocwheel_wheel::Platform;

use crate::error::io_error;

/// A path of the flattened tree.
#[derive(Debug, Clone)]
pub struct Node {
    /// Indices into the catalog's artifacts, sorted; several if they hold the same contents.
    pub owners: Vec<usize>,
    /// Path of the file or link on disk.
    pub source: PathBuf,
    pub kind: EntryKind,
}

/// Relative paths, separated by `/`, with their nodes.
#[derive(Debug, Default)]
pub struct Tree {
    nodes: BTreeMap<String, Node>,
}

/// Number of links that are followed to a file; more are taken for a loop.
const LINK_LIMIT: usize = 40;

impl Tree {
    /// Merges the artifacts that `wanted` accepts. In a tree for Windows the names decide which
    /// files are programs, so packages have the same bytes whichever system makes them.
    pub fn merge(catalog: &Catalog, system: Platform, wanted: impl Fn(&Artifact) -> bool) -> Result<Tree, Failure> {
        let mut tree = Tree::default();
        for (index, artifact) in catalog.artifacts.iter().enumerate().filter(|(_, artifact)| wanted(artifact)) {
            for entry in &artifact.entries {
                let source = artifact.root.join(&artifact.basedirs[entry.basedir]).join(&entry.path);
                let mut kind = entry.kind.clone();
                if let (Platform::Windows, EntryKind::File { executable, .. }) = (system, &mut kind) {
                    *executable = is_windows_program(&entry.path);
                }
                tree.insert(catalog, &entry.path, Node { owners: vec![index], source, kind })?;
            }
        }
        Ok(tree)
    }

    fn insert(&mut self, catalog: &Catalog, path: &str, node: Node) -> Result<(), Failure> {
        let Some(present) = self.nodes.get_mut(path) else {
            self.nodes.insert(path.to_owned(), node);
            return Ok(());
        };
        if !same(present, &node)? {
            let [first, second] = [&*present, &node].map(|node| &catalog.artifacts[node.owners[0]].name);
            let failure =
                Failure::message(format!("`{path}` is in `{first}` and in `{second}`, with different contents"));
            return Err(failure.with_hint("remove one of the two artifacts, or build both from the same sources"));
        }
        present.owners.extend(node.owners);
        Ok(())
    }

    /// Returns every path with its node, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// Returns the node at a path without following links.
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// Returns every link with its text, for [`rocwheel_artifact::links::leaves_tree`].
    pub fn links(&self) -> Links<'_> {
        let links = self.iter().filter_map(|(path, node)| match &node.kind {
            EntryKind::Symlink { target } => Some((path, target.as_str())),
            _ => None,
        });
        links.collect()
    }

    /// Resolves all links in `path`, including links to directories on the way. `None` if it leaves
    /// the tree, is dangling or circular.
    pub fn resolve(&self, path: &str) -> Option<String> {
        let mut pending: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        let mut resolved: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(component) = pending.pop() {
            match component.as_str() {
                "" | "." => continue,
                ".." => {
                    resolved.pop()?;
                    continue;
                }
                _ => resolved.push(component),
            }
            if let Some(Node { kind: EntryKind::Symlink { target }, .. }) = self.nodes.get(&resolved.join("/")) {
                links += 1;
                if links > LINK_LIMIT || target.starts_with('/') {
                    return None;
                }
                resolved.pop();
                pending.extend(target.split('/').rev().map(str::to_owned));
            }
        }
        let resolved = resolved.join("/");
        (self.nodes.contains_key(&resolved) || self.is_directory(&resolved)).then_some(resolved)
    }

    /// `true` for directories, including those that only occur as parts of other paths.
    pub fn is_directory(&self, path: &str) -> bool {
        if matches!(self.nodes.get(path), Some(Node { kind: EntryKind::Directory, .. })) {
            return true;
        }
        let below = format!("{path}/");
        self.nodes.range(below.clone()..).next().is_some_and(|(name, _)| name.starts_with(&below))
    }
}

/// `true` for a name that Windows starts as a program. These are the names to which Python's
/// `os.stat` gives the executable bit on Windows, so wheels that are built there have it too.
fn is_windows_program(path: &str) -> bool {
    let ending = file_name(path).rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| matches!(ending.as_str(), "bat" | "cmd" | "com" | "exe"))
}

fn same(left: &Node, right: &Node) -> Result<bool, Failure> {
    match (&left.kind, &right.kind) {
        (EntryKind::Directory, EntryKind::Directory) => Ok(true),
        (EntryKind::Symlink { target: one }, EntryKind::Symlink { target: other }) => Ok(one == other),
        (EntryKind::File { size: one, .. }, EntryKind::File { size: other, .. }) if one == other => {
            same_bytes(&left.source, &right.source)
        }
        _ => Ok(false),
    }
}

fn same_bytes(left: &Path, right: &Path) -> Result<bool, Failure> {
    let digests = digest(left).and_then(|left| Ok((left, digest(right)?)));
    let (left, right) = digests.map_err(io_error("compare two owners of one path"))?;
    Ok(left == right)
}

fn digest(path: &Path) -> std::io::Result<blake3::Hash> {
    Ok(blake3::Hasher::new().update_reader(fs::File::open(path)?)?.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[(&str, Option<&str>)]) -> Tree {
        let node = |target: Option<&str>| Node {
            owners: vec![0],
            source: PathBuf::new(),
            kind: target.map_or(EntryKind::File { size: 0, executable: false }, |target| EntryKind::Symlink {
                target: target.into(),
            }),
        };
        Tree { nodes: paths.iter().map(|(path, target)| ((*path).to_owned(), node(*target))).collect() }
    }

    #[test]
    fn links_are_followed_through_directories_and_across_artifacts() {
        let tree = tree(&[
            ("bin/amdclang", Some("../lib/llvm/bin/clang")),
            ("llvm", Some("lib/llvm")),
            ("lib/llvm/bin/clang", Some("clang-20")),
            ("lib/llvm/bin/clang-20", None),
        ]);
        assert_eq!(tree.resolve("bin/amdclang").as_deref(), Some("lib/llvm/bin/clang-20"));
        assert_eq!(tree.resolve("llvm/bin/clang").as_deref(), Some("lib/llvm/bin/clang-20"));
        assert_eq!(tree.resolve("llvm").as_deref(), Some("lib/llvm"));
    }

    #[test]
    fn names_decide_what_is_a_program_on_windows() {
        for (path, is_program) in [
            ("bin/hipcc.exe", true),
            ("bin/HIPCC.EXE", true),
            ("bin/hipcc.bat", true),
            ("bin/amdhip64_7.dll", false),
            ("bin/hipcc", false),
            ("bin.exe/hipcc", false),
            ("exe", false),
        ] {
            assert_eq!(is_windows_program(path), is_program, "{path}");
        }
    }

    #[test]
    fn links_that_leave_dangle_or_loop_lead_nowhere() {
        let tree = tree(&[
            ("a", Some("../a")),
            ("b", Some("/usr/lib/b")),
            ("c", Some("d")),
            ("d", Some("c")),
            ("e", Some("f")),
        ]);
        for path in ["a", "b", "c", "d", "e", "missing"] {
            assert_eq!(tree.resolve(path), None, "{path}");
        }
    }
}
