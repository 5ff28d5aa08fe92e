//! Input: paths of the flattened tree. Output: the files of a runtime distribution, and the kind of
//! each: a copy, an edited library or an exec stub (rocm-python-packages spec 2.7).
//!
//! Wheels hold no links. A library is only packaged under its SONAME; its other names are in the
//! devel tree. A link to a program becomes an exec stub, because a copy would look for its
//! neighbours in the wrong directory (pitfalls 26).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rocwheel_artifact::EntryKind;
use rocwheel_content::archive_path::{file_name, join, parent};
use rocwheel_tables::Pattern;
use rocwheel_wheel::Platform;
use serde::Serialize;

use crate::Logical;
use crate::inspect::Natures;
use crate::rules::Rule;
use crate::tree::{Node, Tree};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSource {
    /// An unchanged file of an artifact.
    File { path: PathBuf },
    /// A file of an artifact with another library search path.
    Edited {
        path: PathBuf,
        /// `DT_RPATH` entries in order.
        search_path: Vec<String>,
    },
    /// An exec stub that starts the program at this path, relative to the stub's own directory.
    Stub {
        /// The text of the link.
        target: String,
    },
    /// A text written by rocwheel.
    Text { text: String },
}

#[derive(Debug, Clone, Serialize)]
pub struct PlannedFile {
    pub source: FileSource,
    /// Size in bytes before any edit; 0 for a stub.
    pub size: u64,
    /// `true` for mode 0755, `false` for mode 0644.
    pub executable: bool,
    /// Indices of the artifacts it comes from.
    #[serde(skip)]
    pub owners: Vec<usize>,
}

impl PlannedFile {
    /// Creates a file with a text that rocwheel writes itself.
    pub fn text(text: impl Into<String>) -> PlannedFile {
        let text = text.into();
        PlannedFile {
            size: text.len() as u64,
            source: FileSource::Text { text },
            executable: false,
            owners: Vec::new(),
        }
    }

    fn of(node: &Node) -> PlannedFile {
        let EntryKind::File { size, executable } = node.kind else {
            return PlannedFile::text("");
        };
        let source = FileSource::File { path: node.source.clone() };
        PlannedFile { source, size, executable, owners: node.owners.clone() }
    }

    pub fn path(&self) -> Option<&PathBuf> {
        match &self.source {
            FileSource::File { path } | FileSource::Edited { path, .. } => Some(path),
            FileSource::Stub { .. } | FileSource::Text { .. } => None,
        }
    }
}

/// A remark about one path, for the report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Note {
    /// Name of the distribution, as in [`Logical::key`].
    pub distribution: String,
    /// Path in the flattened tree.
    pub path: String,
    /// The treatment of the path and its reason.
    pub message: String,
}

/// The files of one distribution, with paths relative to its platform package.
#[derive(Debug)]
pub struct Population {
    pub logical: Logical,
    /// Base target or family, for distributions that have one.
    pub target: Option<String>,
    /// Import package that holds the files.
    pub platform_package: String,
    pub files: BTreeMap<String, PlannedFile>,
    /// Names that are skipped because the same library is packaged under its SONAME: path → SONAME.
    pub aliases: BTreeMap<String, String>,
    pub notes: Vec<Note>,
}

/// Everything that a population is made from.
pub struct Input<'a> {
    /// The flattened tree, in which links are resolved.
    pub world: &'a Tree,
    pub natures: &'a Natures,
    pub system: Platform,
}

impl Population {
    pub fn new(logical: Logical, target: Option<String>, platform_package: String) -> Population {
        Population {
            logical,
            target,
            platform_package,
            files: BTreeMap::new(),
            aliases: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// Adds the paths in `selected` by the rules for runtime distributions.
    pub fn fill(&mut self, input: &Input<'_>, selected: &BTreeSet<&str>) {
        for &path in selected {
            match input.world.get(path) {
                Some(node) if matches!(node.kind, EntryKind::File { .. }) => self.file(input, selected, path, node),
                Some(Node { kind: EntryKind::Symlink { target }, .. }) => self.link(input, selected, path, target),
                _ => {}
            }
        }
    }

    /// Adds the second names and the stubs of the rule (spec 2.10).
    pub fn add_second_names(&mut self, rule: &Rule) {
        let patterns: Vec<Pattern> = rule.unversioned.iter().map(|glob| Pattern::new(glob)).collect();
        let mut copies = Vec::new();
        for (path, file) in self.files.iter().filter(|(path, _)| patterns.iter().any(|pattern| pattern.matches(path))) {
            if let Some((unversioned, _)) = path.rsplit_once('.')
                && !self.files.contains_key(unversioned)
            {
                copies.push((unversioned.to_owned(), file.clone()));
            }
        }
        for (path, file) in copies {
            self.aliases.remove(&path);
            self.note(&path, "a copy: its tools load it by this name");
            self.files.insert(path, file);
        }
        for stub in &rule.stubs {
            let program = resolved(parent(&stub.path), &stub.target);
            let Some(program) = self.files.get(&program).filter(|_| !self.files.contains_key(&stub.path)) else {
                continue;
            };
            let source = FileSource::Stub { target: stub.target.clone() };
            let planned = PlannedFile { source, size: 0, executable: true, owners: program.owners.clone() };
            self.files.insert(stub.path.clone(), planned);
        }
    }

    /// Adds the paths in `selected` unchanged, with links replaced by their targets (for device
    /// distributions).
    pub fn fill_verbatim(&mut self, input: &Input<'_>, selected: &BTreeSet<&str>) {
        for &path in selected {
            let Some(resolved) = input.world.resolve(path) else {
                self.note(path, "skipped: a link that leads nowhere in these artifacts");
                continue;
            };
            if let Some(node) = input.world.get(&resolved)
                && matches!(node.kind, EntryKind::File { .. })
            {
                self.files.insert(path.to_owned(), PlannedFile::of(node));
            }
        }
    }

    fn file(&mut self, input: &Input<'_>, selected: &BTreeSet<&str>, path: &str, node: &Node) {
        let Some(soname) = input.natures.of(&node.source).soname() else {
            self.files.insert(path.to_owned(), PlannedFile::of(node));
            return;
        };
        if soname == file_name(path) || soname.contains('/') {
            self.files.insert(path.to_owned(), PlannedFile::of(node));
            return;
        }
        let canonical = join(parent(path), soname);
        self.aliases.insert(path.to_owned(), soname.to_owned());
        let provider = Some(&canonical)
            .filter(|canonical| selected.contains(canonical.as_str()))
            .and_then(|canonical| input.world.get(&input.world.resolve(canonical)?))
            .map(|provider| provider.source.clone())
            .or_else(|| self.files.get(&canonical)?.path().cloned());
        match provider {
            Some(provider) if provider == node.source => {}
            Some(_) => self.note(path, &format!("skipped: another file has its SONAME `{soname}`")),
            None => {
                // Defect C3: TheRock's current tool drops such a library. The loader looks for the
                // SONAME, so the file gets that name.
                self.note(path, &format!("no file is named like its SONAME: packaged as `{soname}`"));
                self.files.insert(canonical, PlannedFile::of(node));
            }
        }
    }

    fn link(&mut self, input: &Input<'_>, selected: &BTreeSet<&str>, path: &str, target: &str) {
        let Some(resolved) = input.world.resolve(path) else {
            self.note(path, &format!("skipped: the link to `{target}` leads nowhere in these artifacts"));
            return;
        };
        let Some(node) = input.world.get(&resolved).filter(|node| matches!(node.kind, EntryKind::File { .. })) else {
            return; // A link to a directory: wheels cannot hold it; the devel tree does.
        };
        let nature = input.natures.of(&node.source);
        if input.system == Platform::Windows {
            if nature.runs() {
                self.note(
                    path,
                    &format!("a copy of `{resolved}`: there are no links in packages, and no exec stubs for Windows"),
                );
            }
            self.files.insert(path.to_owned(), PlannedFile::of(node));
            return;
        }
        if let Some(soname) = nature.soname() {
            let packaged_as = join(parent(&resolved), soname);
            let is_here = parent(path) == parent(&resolved) || input.world.get(&join(parent(path), soname)).is_some();
            let is_there = selected.contains(resolved.as_str()) || input.world.get(&packaged_as).is_some();
            if soname == file_name(path) {
                self.files.insert(path.to_owned(), PlannedFile::of(node));
            } else if is_here || !is_there {
                self.aliases.insert(path.to_owned(), soname.to_owned());
            }
            return;
        }
        if nature.runs() {
            if !selected.contains(resolved.as_str()) {
                self.note(path, &format!("skipped: `{resolved}` behind the link is in another distribution"));
                return;
            }
            let source = FileSource::Stub { target: target.to_owned() };
            self.files.insert(
                path.to_owned(),
                PlannedFile { source, size: 0, executable: true, owners: node.owners.clone() },
            );
            return;
        }
        self.files.insert(path.to_owned(), PlannedFile::of(node));
    }

    fn note(&mut self, path: &str, message: &str) {
        self.notes.push(Note {
            distribution: self.logical.key().to_owned(),
            path: path.to_owned(),
            message: message.to_owned(),
        });
    }

    /// Returns the shared libraries and dynamically linked programs with their headers.
    pub fn elves<'a>(&'a self, natures: &'a Natures) -> impl Iterator<Item = (&'a str, &'a rocwheel_elf::Elf)> {
        self.files.iter().filter_map(|(path, file)| Some((path.as_str(), natures.of(file.path()?).elf()?)))
    }

    pub fn libraries<'a>(&'a self, natures: &'a Natures) -> impl Iterator<Item = &'a str> {
        self.files.iter().filter_map(|(path, file)| natures.of(file.path()?).is_library().then_some(path.as_str()))
    }
}

/// Resolves `target` relative to `directory`, including `..`.
fn resolved(directory: &str, target: &str) -> String {
    let mut parts: Vec<&str> = directory.split('/').collect();
    for part in target.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}
