//! Input: artifact directories and archives. Output: one installable tree, the union of all their
//! basedirs.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_output::{Mode, StagingFolder};
use rocwheel_progress::{Failure, Reporter, Unit};
use rocwheel_system::FileMetadata as _;
use serde::Serialize;

use crate::archive::Scratch;
use crate::catalog::{self, Artifact, Catalog};
use crate::contents;
use crate::entry::{ArtifactEntry, EntryKind};
use crate::error::{Error, output_not_ours};
use crate::input::separate;
use crate::links::{self, Links};
use crate::location::{ArtifactForm, ArtifactLocation, locate};
use crate::name::ArtifactName;
use crate::scan::link_leaves_tree;

/// The file in the root of a flattened tree that lists its artifacts. Only a directory with this
/// file is replaced without being asked to.
pub const MARKER: &str = ".rocwheel-tree";

/// Bytes copied between two checks for an interruption.
const PIECE: u64 = 64 << 20;

/// Existing outputs that may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaceable {
    /// An empty directory, or a tree this program made.
    OnlyOurs,
    /// Any file or directory.
    Anything,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flattened {
    pub path: PathBuf,
    /// Names of the artifacts in it, sorted.
    pub artifacts: Vec<ArtifactName>,
    /// Number of regular files; every name of a hard link counts.
    pub files: u64,
    pub directories: u64,
    pub links: u64,
    /// Total size of all files in bytes.
    pub bytes: u64,
    /// Number of paths that several artifacts provide with the same contents.
    pub identical: u64,
    /// Pairs of paths that differ only by case, which some file systems cannot distinguish.
    pub same_but_for_case: Vec<(String, String)>,
}

/// Merges artifact directories and archives into one tree. Permission bits, symbolic links and hard
/// links are kept. The tree is written beside `output` and moved there once it is complete; an
/// existing tree stays unchanged until then.
pub fn flatten(
    inputs: &[PathBuf],
    output: &Path,
    existing: Replaceable,
    run: Mode,
    reporter: &dyn Reporter,
) -> Result<Flattened, Error> {
    let places = locate(inputs)?;
    let output = check_output(output, existing, inputs)?;
    make(&places, &output, run, reporter).map_err(|error| error.or_full_disk(&output))
}

fn make(
    places: &[(ArtifactName, ArtifactLocation)],
    output: &Path,
    run: Mode,
    reporter: &dyn Reporter,
) -> Result<Flattened, Error> {
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs_err::create_dir_all(parent)?;
    let work = StagingFolder::new_in(parent, ".rocwheel-flatten-")?;
    let unpacked = Scratch::new(work.path().join("unpacked"));
    let artifacts = catalog::read_places(places, &unpacked, reporter).into_iter().collect::<Result<_, _>>()?;
    let catalog = Catalog { artifacts, ignored: Vec::new() };
    let (mut different, equal) = contents::conflicts(&catalog, reporter)?;
    if !different.is_empty() {
        let conflict = different.swap_remove(0);
        let [first, second, ..] = conflict.owners.as_slice() else { unreachable!("a collision has two owners") };
        let text = format!("`{}` is provided twice, by {first} and by {second}", conflict.path);
        let hint = "omit one of the two artifacts, or remove the file from one of them";
        return Err(Failure::message(text).with_hint(hint).into());
    }
    let tree = Tree::merge(&catalog);
    tree.check_links(output)?;
    let flattened = tree.describe(output, &catalog, equal.len() as u64);
    let mut paths = rocwheel_system::PathCheck::default();
    tree.places.keys().try_for_each(|path| paths.check(path))?;
    for (first, second) in &flattened.same_but_for_case {
        reporter.warn(&format!("`{first}` and `{second}` differ only by case: not every file system can hold both"));
    }
    if run == Mode::Execute {
        let made = work.path().join("tree");
        tree.write(&made, &flattened, reporter)?;
        reporter.check()?;
        replace(&made, output, work.path())?;
    }
    if let Err(error) = work.close() {
        reporter.warn(&format!("could not remove a temporary directory: {error}"));
    }
    Ok(flattened)
}

/// Returns the output with its links resolved, if it may be written.
fn check_output(output: &Path, existing: Replaceable, inputs: &[PathBuf]) -> Result<PathBuf, Error> {
    let real = separate(output, inputs)?;
    if existing == Replaceable::Anything || !real.exists() {
        return Ok(real);
    }
    let ours = real.is_dir() && (real.join(MARKER).is_file() || fs_err::read_dir(&real)?.next().is_none());
    if ours { Ok(real) } else { Err(output_not_ours(output).into()) }
}

/// Moves the new tree to the output. An existing tree is exchanged with it in one step, so that one
/// of the two is always in place.
pub(crate) fn replace(made: &Path, output: &Path, work: &Path) -> Result<(), Error> {
    if fs_err::symlink_metadata(output).is_err() {
        return Ok(rocwheel_system::rename(made, output)?);
    }
    if rocwheel_system::exchange(made, output).is_ok() {
        return Ok(());
    }
    // Not every file system can exchange two names.
    let old = work.join("old");
    rocwheel_system::rename(output, &old)?;
    if let Err(error) = rocwheel_system::rename(made, output) {
        rocwheel_system::rename(&old, output)?;
        return Err(error.into());
    }
    Ok(())
}

/// The union of all basedirs: each path once, with the artifact that provides it first.
struct Tree<'a> {
    places: BTreeMap<&'a str, (&'a Artifact, &'a ArtifactEntry)>,
}

/// A regular file that goes into the tree.
struct Transfer<'a> {
    path: &'a str,
    source: PathBuf,
    mode: u32,
    size: u64,
    /// `true` if the source was unpacked by this run and can be moved.
    temporary: bool,
}

impl<'a> Tree<'a> {
    fn merge(catalog: &'a Catalog) -> Self {
        let mut places = BTreeMap::new();
        for artifact in &catalog.artifacts {
            for entry in &artifact.entries {
                places.entry(entry.path.as_str()).or_insert((artifact, entry));
            }
        }
        Self { places }
    }

    /// Checks the links of the merged tree. Each was checked within its artifact, but a link of one
    /// artifact may lead through a link of another.
    fn check_links(&self, output: &Path) -> Result<(), Error> {
        let links: Links = self
            .places
            .iter()
            .filter_map(|(path, (_, entry))| match &entry.kind {
                EntryKind::Symlink { target } => Some((*path, target.as_str())),
                _ => None,
            })
            .collect();
        match links.iter().find(|(path, target)| links::leaves_tree(path, target, &links)) {
            None => Ok(()),
            Some((path, target)) => Err(link_leaves_tree(output, (*path).to_owned(), target)),
        }
    }

    fn describe(&self, output: &Path, catalog: &Catalog, identical: u64) -> Flattened {
        let mut flattened = Flattened {
            path: output.to_owned(),
            artifacts: catalog.artifacts.iter().map(|artifact| artifact.name.clone()).collect(),
            files: 0,
            directories: 0,
            links: 0,
            bytes: 0,
            identical,
            same_but_for_case: Vec::new(),
        };
        for (_, entry) in self.places.values() {
            match entry.kind {
                EntryKind::File { size, .. } => {
                    flattened.files += 1;
                    flattened.bytes += size;
                }
                EntryKind::Directory => flattened.directories += 1,
                EntryKind::Symlink { .. } => flattened.links += 1,
            }
        }
        flattened.same_but_for_case = rocwheel_system::same_but_for_case(self.places.keys().copied());
        flattened
    }

    fn write(&self, tree: &Path, flattened: &Flattened, reporter: &dyn Reporter) -> Result<(), Error> {
        fs_err::create_dir(tree)?;
        rocwheel_system::set_mode(tree, 0o755)?;
        let mut files: Vec<Transfer> = Vec::new();
        let mut hard_links: Vec<(&str, &str)> = Vec::new();
        let mut first_names: HashMap<_, &str> = HashMap::new();
        // Paths sort after their prefixes, so a directory is created before its contents.
        for (path, (artifact, entry)) in &self.places {
            let source = artifact.path(entry);
            match &entry.kind {
                EntryKind::Directory => {
                    let mode = fs_err::symlink_metadata(&source)?.mode(&source);
                    fs_err::create_dir(tree.join(path))?;
                    rocwheel_system::set_mode(tree.join(path), mode & 0o777 | 0o700)?;
                }
                EntryKind::Symlink { target } => rocwheel_system::symlink(target, tree.join(path))?,
                EntryKind::File { size, .. } => {
                    let metadata = fs_err::symlink_metadata(&source)?;
                    let temporary = matches!(artifact.form, ArtifactForm::Archive { .. });
                    if metadata.link_count(&source)? > 1 {
                        let inode = metadata.identity(&source)?;
                        if let Some(first) = first_names.get(&inode) {
                            hard_links.push((first, path));
                            continue;
                        }
                        first_names.insert(inode, path);
                    }
                    let mode = metadata.mode(&source) & 0o777 | 0o600;
                    files.push(Transfer { path, source, mode, size: *size, temporary });
                }
            }
        }
        let stage = reporter.stage("Flattening", Some(flattened.bytes), Unit::Bytes);
        files.par_iter().try_for_each(|file| file.transfer(tree, reporter))?;
        drop(stage);
        for (first, path) in hard_links {
            fs_err::hard_link(tree.join(first), tree.join(path))?;
        }
        let names: Vec<String> = flattened.artifacts.iter().map(ToString::to_string).collect();
        let marker = tree.join(MARKER);
        fs_err::write(&marker, format!("Made by rocwheel artifact flatten from:\n{}\n", names.join("\n")))?;
        rocwheel_system::set_mode(&marker, 0o644)?;
        Ok(())
    }
}

impl Transfer<'_> {
    fn transfer(&self, tree: &Path, reporter: &dyn Reporter) -> Result<(), Error> {
        reporter.check()?;
        let destination = tree.join(self.path);
        if self.temporary {
            rocwheel_system::rename(&self.source, &destination)?;
            reporter.advance(self.size);
        } else {
            self.copy(&destination, reporter)?;
        }
        Ok(rocwheel_system::set_mode(&destination, self.mode)?)
    }

    /// Copies in pieces, so that Ctrl-C does not wait for a library of gigabytes; the kernel copies
    /// them where it can.
    fn copy(&self, destination: &Path, reporter: &dyn Reporter) -> Result<(), Error> {
        let mut source = fs_err::File::open(&self.source)?.into_file();
        let mut copy = fs_err::File::create_new(destination)?.into_file();
        loop {
            reporter.check()?;
            let copied = io::copy(&mut (&mut source).take(PIECE), &mut copy).map_err(|error| self.failed(&error))?;
            reporter.advance(copied);
            if copied < PIECE {
                return Ok(());
            }
        }
    }

    fn failed(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("could not copy `{}`: {error}", self.source.display()))
    }
}
