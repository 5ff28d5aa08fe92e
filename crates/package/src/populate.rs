//! Which paths of the flattened tree become files of a runtime distribution, and as what
//! (rocm-python-packages spec 2.7).
//!
//! Wheels hold no links. A library stays under its SONAME only; its other names come back in the
//! devel tree. A link to a program becomes an exec stub, because a copy would look for its

//! neighbours in the wrong place (pitfalls 26).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rocwheel_artifact::EntryKind;
use rocwheel_content::archive_path::{file_name, join, parent};
use rocwheel_rocm::Pattern;
use rocwheel_wheel::Platform;
use serde::Serialize;

use crate::Logical;
use crate::inspect::Natures;
use crate::rules::Rule;
use crate::tree::{Node, Tree};

/// Where the bytes of a planned file come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A file of an artifact as it is.
    File {
        /// Where it lies.
        path: PathBuf,
    },
    /// A file of an artifact with another library search path.
    Edited {
        /// Where it lies.
        path: PathBuf,
        /// `DT_RPATH` entries in order.
        search_path: Vec<String>,
    },
    /// An exec stub that starts the program at this path, relative to the stub's own directory.
    Stub {
        /// The link's text.
        target: String,
    },
    /// Text written by rocwheel.
    Text {
        /// All of it.
        text: String,
    },
}

/// One file of a distribution.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedFile {
    /// Where the bytes come from.
    pub source: Source,
    /// Bytes before any edit.
    pub size: u64,
    /// Whether the mode is 0755 rather than 0644.
    pub executable: bool,
    /// Indexes of the artifacts it comes from.
    #[serde(skip)]
    pub owners: Vec<usize>,
}

impl PlannedFile {
    /// A file that rocwheel writes itself.
    pub fn text(text: impl Into<String>) -> PlannedFile {
        let text = text.into();
        PlannedFile { size: text.len() as u64, source: Source::Text { text }, executable: false, owners: Vec::new() }
    }

    fn of(node: &Node) -> PlannedFile {
        let EntryKind::File { size, executable } = node.kind else {
            return PlannedFile::text("");
        };
        let source = Source::File { path: node.source.clone() };
        PlannedFile { source, size, executable, owners: node.owners.clone() }
    }

    /// The artifact's file behind it, if any.
    pub fn path(&self) -> Option<&PathBuf> {
        match &self.source {
            Source::File { path } | Source::Edited { path, .. } => Some(path),
            Source::Stub { .. } | Source::Text { .. } => None,
        }
    }
}

/// Something worth telling about one path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Note {
    /// The distribution, as in [`Logical::key`].
    pub distribution: String,
    /// Path in the flattened tree.
    pub path: String,
    /// What was done and why.
    pub message: String,
}

/// The files of one distribution, paths relative to its platform package.
#[derive(Debug)]
pub struct Population {
    /// Which distribution.
    pub logical: Logical,
    /// Base target or family for those that have one.
    pub target: Option<String>,
    /// Import package that holds the files.
    pub platform_package: String,
    /// Files that are there.
    pub files: BTreeMap<String, PlannedFile>,
    /// Names left out because the same library is there under its SONAME: path → SONAME.
    pub aliases: BTreeMap<String, String>,
    /// What was done differently from a plain copy.
    pub notes: Vec<Note>,
}

/// What a population is made from.
pub struct Input<'a> {
    /// The flattened tree that links are followed in.
    pub world: &'a Tree,
    /// What each file is.
    pub natures: &'a Natures,
    /// The system that it is for.
    pub system: Platform,
}

impl Population {
    /// An empty one.
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

    /// Takes the paths in `selected` by the rules for runtime distributions.
    pub fn fill(&mut self, input: &Input<'_>, selected: &BTreeSet<&str>) {
        for &path in selected {
            match input.world.get(path) {
                Some(node) if matches!(node.kind, EntryKind::File { .. }) => self.file(input, selected, path, node),
                Some(Node { kind: EntryKind::Symlink { target }, .. }) => self.link(input, selected, path, target),
                _ => {}
            }
        }
    }

    /// Adds what the rule wants under a second name (spec 2.10).
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
            let source = Source::Stub { target: stub.target.clone() };
            let planned = PlannedFile { source, size: 0, executable: true, owners: program.owners.clone() };
            self.files.insert(stub.path.clone(), planned);
        }
    }

    /// Takes the paths in `selected` as they are, links replaced by what they lead to (device
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
                // C3: today's tool drops such a library. The loader asks for the SONAME, so that is
                // the name it gets.
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
            if soname == file_name(path) {
                self.files.insert(path.to_owned(), PlannedFile::of(node));
            } else {
                self.aliases.insert(path.to_owned(), soname.to_owned());
            }
            return;
        }
        if nature.runs() {
            if !selected.contains(resolved.as_str()) {
                self.note(path, &format!("skipped: `{resolved}` behind the link is in another distribution"));
                return;
            }
            let source = Source::Stub { target: target.to_owned() };
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

    /// Shared libraries and dynamically linked programs in it, with their headers.
    pub fn elves<'a>(&'a self, natures: &'a Natures) -> impl Iterator<Item = (&'a str, &'a rocwheel_elf::Elf)> {
        self.files.iter().filter_map(|(path, file)| Some((path.as_str(), natures.of(file.path()?).elf()?)))
    }

    /// Paths of the shared libraries.
    pub fn libraries<'a>(&'a self, natures: &'a Natures) -> impl Iterator<Item = &'a str> {
        self.files.iter().filter_map(|(path, file)| natures.of(file.path()?).is_library().then_some(path.as_str()))
    }
}

/// The path that `target` means in `directory`, `..` taken away.
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
