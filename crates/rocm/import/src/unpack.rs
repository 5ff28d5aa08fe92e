//! Input: the files of a source, one by one. Output: each of them in its place in the staging tree,
//! written once, and a record of its contents.
//!
//! Sources call [`Unpacker`] from several threads. The destination of a file is decided from its
//! path and package before the first byte is read. Links are only recorded here: they are created
//! after all files, so that no file can be written through one.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rocwheel_artifact::Component;
use rocwheel_artifact::name::{ArtifactName, GENERIC};
use rocwheel_content::WINDOW;
use rocwheel_content::archive_path::file_name;
use rocwheel_elf::Elf;
use rocwheel_progress::{Failure, Reporter};
use rocwheel_system::FileMetadata as _;

use crate::cmake;
use crate::error::collision;
use crate::inspect::{self, Inspected};
use crate::libraries::SystemLibraries;
use crate::report::Skipped;
use crate::table::{FALLBACK, Place, SYSDEPS, Table};

/// CMake and pkg-config files are rewritten in memory; larger files, in bytes, are copied
/// unchanged.
const MAX_TEXT: u64 = 4 << 20;
/// Directory in the staging tree of files whose path another file already has. No artifact's name
/// contains `.`.
const DUPLICATES: &str = ".duplicates";
/// Directory of the libraries from outside ROCm, in the flattened tree.
pub(crate) const SYSDEPS_DIRECTORY: &str = "lib/rocm_sysdeps/lib";

/// The rule by which the files of a source find their artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Belongs {
    /// All files belong to this artifact.
    To(&'static str),
    /// Each file belongs to the artifact that its path matches, or else to the fallback.
    ByPath,
    /// The source is not ROCm's: its libraries are candidates for the set.
    System,
}

#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) source: usize,
    pub(crate) input: String,
    pub(crate) place: Place,
    pub(crate) size: u64,
    pub(crate) system: bool,
    /// The headers of an ELF file; `None` for other files.
    pub(crate) elf: Option<Box<Elf>>,
    /// The targets and names found in its data.
    pub(crate) inspected: Inspected,
}

impl Placed {
    /// For messages: the path in the input, and the package that holds it.
    pub(crate) fn origin(&self, names: &[String]) -> String {
        owner(&names[self.source], &self.input)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) source: usize,
    pub(crate) input: String,
    pub(crate) target: String,
    /// Its location in the output; `None` in sources from outside ROCm.
    pub(crate) place: Option<Place>,
}

#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    pub(crate) files: Vec<Placed>,
    pub(crate) links: Vec<Link>,
    pub(crate) skipped: Vec<(usize, Skipped)>,
    pub(crate) unknown: Vec<String>,
    pub(crate) rewritten: Vec<String>,
    pub(crate) entries: u64,
    /// Flattened path → index of the source and input path, of files.
    pub(crate) owners: BTreeMap<String, (usize, String)>,
    /// Files whose path another file already had, and where they are until [`Unpacker::settle`].
    duplicates: Vec<(Placed, PathBuf)>,
    /// Files whose path another package's file with other bytes has.
    pub(crate) displaced: Vec<Skipped>,
    /// Number of duplicates that were claimed, which names their files.
    claimed: usize,
    /// The flattened paths of all files.
    paths: rocwheel_system::PathCheck,
}

pub(crate) struct Unpacker<'a> {
    pub(crate) table: &'static Table,
    /// Root of the staging tree, which holds the artifact directories.
    pub(crate) root: &'a Path,
    pub(crate) names: &'a [String],
    pub(crate) reporter: &'a dyn Reporter,
    state: Mutex<Unpacked>,
}

/// A file before it is written.
pub(crate) struct Incoming<'a> {
    pub(crate) source: usize,
    pub(crate) belongs: Belongs,
    /// Path in the source, relative.
    pub(crate) path: &'a str,
    pub(crate) size: u64,
    pub(crate) executable: bool,
}

enum Decision {
    Place { place: Place, system: bool, unknown: bool },
    Skip(String),
}

impl<'a> Unpacker<'a> {
    pub(crate) fn new(root: &'a Path, names: &'a [String], reporter: &'a dyn Reporter) -> Self {
        Self { table: Table::embedded(), root, names, reporter, state: Mutex::default() }
    }

    /// Everything that was unpacked, sorted. Empties the unpacker.
    pub(crate) fn take(&self) -> Unpacked {
        let mut unpacked = std::mem::take(&mut *self.state());
        unpacked.files.sort_by(|left, right| left.place.path.cmp(&right.place.path));
        unpacked.links.sort_by(|left, right| (&left.input, left.source).cmp(&(&right.input, right.source)));
        unpacked.skipped.sort();
        unpacked.unknown.sort();
        unpacked.rewritten.sort();
        unpacked
    }

    /// `true` if a file with this path would be imported, not skipped.
    pub(crate) fn takes(&self, belongs: Belongs, path: &str) -> bool {
        matches!(self.decide(belongs, path), Decision::Place { .. })
    }

    /// Writes or skips one regular file.
    pub(crate) fn file(&self, incoming: &Incoming<'_>, content: &mut dyn Read) -> Result<(), Failure> {
        self.count();
        let (place, system) = match self.decide(incoming.belongs, incoming.path) {
            Decision::Skip(reason) => {
                self.skip(incoming.source, incoming.path, reason);
                return Ok(());
            }
            Decision::Place { place, system, unknown } => {
                if unknown {
                    self.state().unknown.push(place.path.clone());
                }
                (place, system)
            }
        };
        self.state().paths.check(&place.path)?;
        let duplicate = self.claim(&place.path, incoming.source, incoming.path);
        let path = duplicate.clone().unwrap_or_else(|| self.path(&place));
        let text = self.rewritten(incoming, &place, content)?;
        let size = match text {
            Some(text) => write(&path, incoming.executable, &mut text.as_bytes(), self.reporter)?,
            None => write(&path, incoming.executable, content, self.reporter)?,
        };
        let inspected = inspect::inspect(&path, &place.path)?;
        let (elf, inspected) =
            inspected.map_or((None, Inspected::default()), |(elf, data)| (Some(Box::new(elf)), data));
        let (source, input) = (incoming.source, incoming.path.to_owned());
        let placed = Placed { source, input, place, size, system, elf, inspected };
        let mut state = self.state();
        match duplicate {
            Some(path) => state.duplicates.push((placed, path)),
            None => state.files.push(placed),
        }
        Ok(())
    }

    /// Removes files whose path another file has. Of several sources with the same bytes the first
    /// keeps the file, whichever thread was faster; of different files the table's owner does, and
    /// without one they are an error.
    pub(crate) fn settle(&self, unpacked: &mut Unpacked) -> Result<(), Failure> {
        let mut duplicates = std::mem::take(&mut unpacked.duplicates);
        if duplicates.is_empty() {
            return Ok(());
        }
        duplicates.sort_by(|(left, _), (right, _)| (left.source, &left.input).cmp(&(right.source, &right.input)));
        for (duplicate, path) in duplicates {
            let found = unpacked.files.binary_search_by(|file| file.place.path.cmp(&duplicate.place.path));
            let Ok(index) = found else { continue };
            let kept = &mut unpacked.files[index];
            let present = self.path(&kept.place);
            let (mut first, mut second) = (kept.clone(), duplicate);
            let mut is_replaced = (second.source, &second.input) < (first.source, &first.input);
            if is_replaced {
                std::mem::swap(&mut first, &mut second);
            }
            let is_same = first.size == second.size && same_bytes(&present, &path, self.reporter)?;
            if !is_same {
                let packages = [&first, &second].map(|file| self.names[file.source].as_str());
                let path = first.place.path.clone();
                match self.table.owner_of(&path, packages) {
                    Some(0) => {}
                    Some(_) => {
                        std::mem::swap(&mut first, &mut second);
                        is_replaced = !is_replaced;
                    }
                    None => {
                        let (first, second) = (first.origin(self.names), second.origin(self.names));
                        return Err(collision(&path, &first, &second));
                    }
                }
            }
            if is_replaced {
                fs_err::remove_file(&present)?;
                let place = self.path(&first.place);
                fs_err::create_dir_all(place.parent().unwrap_or(self.root))?;
                rocwheel_system::rename(&path, place)?;
                unpacked.owners.insert(first.place.path.clone(), (first.source, first.input.clone()));
            } else {
                fs_err::remove_file(&path)?;
            }
            let origin = first.origin(self.names);
            let reason = if is_same { same_as(&origin) } else { format!("different from {origin}, which is taken") };
            let name = self.names[second.source].clone();
            let skipped = Skipped { source: name, path: second.input, target: None, reason };
            if !is_same {
                unpacked.displaced.push(skipped.clone());
            }
            unpacked.skipped.push((second.source, skipped));
            *kept = first;
        }
        unpacked.skipped.sort();
        Ok(fs_err::remove_dir(self.root.join(DUPLICATES))?)
    }

    pub(crate) fn symlink(&self, source: usize, belongs: Belongs, path: &str, target: &str) {
        self.count();
        let place = match self.decide(belongs, path) {
            Decision::Skip(reason) if belongs != Belongs::System => return self.skip(source, path, reason),
            Decision::Skip(_) | Decision::Place { system: true, .. } => None,
            Decision::Place { place, .. } => Some(place),
        };
        let link = Link { source, input: path.to_owned(), target: target.to_owned(), place };
        self.state().links.push(link);
    }

    /// Copies an earlier file under another name; the two may go to different artifacts, so it is
    /// not a hard link.
    pub(crate) fn hard_link(&self, incoming: &Incoming<'_>, target: &str) -> Result<(), Failure> {
        let found = {
            let state = self.state();
            let placed = state.files.iter().map(|file| (file, None));
            let mut files = placed.chain(state.duplicates.iter().map(|(file, path)| (file, Some(path))));
            let found = files.find(|(file, _)| file.source == incoming.source && file.input == target);
            found.map(|(file, path)| (path.cloned().unwrap_or_else(|| self.path(&file.place)), file.size))
        };
        let Some((original, size)) = found else {
            let reason = format!("another name of `{target}`, which is not imported");
            self.count();
            self.skip(incoming.source, incoming.path, reason);
            return Ok(());
        };
        let executable = fs_err::metadata(&original)?.is_executable(&original);
        let mut content = fs_err::File::open(original)?;
        self.file(&Incoming { size, executable, ..*incoming }, &mut content)
    }

    /// Records a file that should be in the source but is missing.
    pub(crate) fn absent(&self, source: usize, path: &str, reason: &str) {
        self.count();
        self.skip(source, path, reason.to_owned());
    }

    pub(crate) fn path(&self, place: &Place) -> PathBuf {
        staged(self.root, self.table, place)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Unpacked> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn count(&self) {
        self.state().entries += 1;
    }

    fn skip(&self, source: usize, path: &str, reason: String) {
        let skipped = Skipped { source: self.names[source].clone(), path: path.to_owned(), target: None, reason };
        self.state().skipped.push((source, skipped));
    }

    /// Claims the path of a file. Returns another path to write it to if the path is taken.
    fn claim(&self, path: &str, source: usize, input: &str) -> Option<PathBuf> {
        let mut state = self.state();
        if state.owners.contains_key(path) {
            state.claimed += 1;
            return Some(self.root.join(DUPLICATES).join(state.claimed.to_string()));
        }
        state.owners.insert(path.to_owned(), (source, input.to_owned()));
        None
    }

    fn decide(&self, belongs: Belongs, input: &str) -> Decision {
        let path = self.table.flatten(input);
        if path.is_empty() {
            return Decision::Skip("it is the root itself".into());
        }
        if let Some(reason) = self.table.skip(&path) {
            return Decision::Skip(reason.to_owned());
        }
        if belongs == Belongs::ByPath
            && let Some(artifact) = kernel_archive(&path)
        {
            return Decision::Place { place: Place { artifact, path }, system: false, unknown: false };
        }
        let rule = match belongs {
            Belongs::System => return decide_system(path),
            Belongs::To(artifact) => self.table.artifact(artifact),
            Belongs::ByPath => self.table.of_file(&path),
        };
        let unknown = rule.is_none();
        match rule.or_else(|| self.table.artifact(FALLBACK)) {
            Some(rule) => Decision::Place { place: self.table.place(rule, path), system: false, unknown },
            None => Decision::Skip("no artifact takes it".into()),
        }
    }

    /// The new text of a CMake or pkg-config file; `None` for other files, whose content is not
    /// read.
    fn rewritten(
        &self,
        incoming: &Incoming<'_>,
        place: &Place,
        content: &mut dyn Read,
    ) -> Result<Option<String>, Failure> {
        if !cmake::is_candidate(&place.path) || incoming.size > MAX_TEXT {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let new = cmake::rewrite(self.table, incoming.path, &place.path, &text);
        if new != text {
            self.state().rewritten.push(place.path.clone());
        }
        Ok(Some(new))
    }
}

pub(crate) fn staged(root: &Path, table: &Table, place: &Place) -> PathBuf {
    root.join(place.artifact.to_string()).join(table.basedir(&place.artifact.name)).join(&place.path)
}

/// Formats the owner of a file for messages.
pub(crate) fn owner(source: &str, input: &str) -> String {
    format!("`{input}` of `{source}`")
}

/// Words for a file or link that another package has too.
pub(crate) fn same_as(owner: &str) -> String {
    format!("the same as {owner}")
}

/// `true` if two files of one size have the same bytes.
pub(crate) fn same_bytes(left: &Path, right: &Path, reporter: &dyn Reporter) -> Result<bool, Failure> {
    let mut files = [fs_err::File::open(left)?, fs_err::File::open(right)?];
    let mut buffers = [vec![0; WINDOW], vec![0; WINDOW]];
    loop {
        reporter.check()?;
        let read = files[0].read(&mut buffers[0])?;
        if read == 0 {
            return Ok(true);
        }
        files[1].read_exact(&mut buffers[1][..read])?;
        if buffers[0][..read] != buffers[1][..read] {
            return Ok(false);
        }
    }
}

/// The artifact in the name of a kernel archive: `.kpack/blas_lib_gfx1100.kpack` or
/// `.kpack/blas_lib.kpm`.
fn kernel_archive(path: &str) -> Option<ArtifactName> {
    let name = path.strip_prefix(".kpack/")?;
    match name.strip_suffix(".kpack") {
        Some(stem) => ArtifactName::parse(stem),
        None => ArtifactName::parse(&format!("{}_{GENERIC}", name.strip_suffix(".kpm")?)),
    }
}

/// Decides about a file of a package from outside ROCm: only libraries and the licence are
/// imported.
fn decide_system(path: String) -> Decision {
    let library = path.strip_prefix("lib/").filter(|_| is_candidate(&path) || is_alternative(&path));
    let (component, path) = if let Some(name) = library {
        if SystemLibraries::embedded().is_policy(file_name(name)) {
            return Decision::Skip("part of the manylinux policy: every system has it".into());
        }
        (Component::Lib, format!("{SYSDEPS_DIRECTORY}/{name}"))
    } else if path.strip_prefix("share/doc/").is_some_and(|rest| rest.ends_with("/copyright")) {
        (Component::Doc, path)
    } else {
        return Decision::Skip("not a library or licence of a package that is not ROCm's".into());
    };
    let artifact =
        ArtifactName { name: SYSDEPS.into(), component: component.to_string(), target_family: GENERIC.into() };
    Decision::Place { place: Place { artifact, path }, system: true, unknown: false }
}

/// `true` for the path (flattened) of a library that is imported from a package outside ROCm if
/// something of ROCm needs it.
pub(crate) fn is_candidate(path: &str) -> bool {
    path.strip_prefix("lib/").is_some_and(|name| !name.contains('/') && is_library_name(name))
}

/// `true` for the path (flattened) of a library one folder down, such as `lib/blas/libblas.so.3`:
/// Debian keeps libraries there that `update-alternatives` chooses from. It is imported if
/// something of ROCm needs its SONAME and no library in `lib` has it.
pub(crate) fn is_alternative(path: &str) -> bool {
    let below = path.strip_prefix("lib/").and_then(|rest| rest.split_once('/'));
    below.is_some_and(|(_, name)| !name.contains('/') && name.starts_with("lib") && is_library_name(name))
}

/// `true` for `libfoo.so`, `libfoo.so.1` or `libfoo-1.2.so`.
fn is_library_name(name: &str) -> bool {
    name.rsplit('.').next() == Some("so") || name.contains(".so.")
}

fn write(path: &Path, executable: bool, content: &mut dyn Read, reporter: &dyn Reporter) -> Result<u64, Failure> {
    if let Some(parent) = path.parent() {
        fs_err::create_dir_all(parent)?;
    }
    let mode = if executable { 0o755 } else { 0o644 };
    let mut options = fs_err::OpenOptions::new();
    let mut file = rocwheel_system::create_mode(options.write(true).create_new(true), mode).open(path)?;
    let mut buffer = vec![0; WINDOW];
    let mut size = 0;
    loop {
        reporter.check()?;
        let read = match content.read(&mut buffer) {
            Ok(0) => return Ok(size),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        file.write_all(&buffer[..read])?;
        size += read as u64;
        reporter.advance(read as u64);
    }
}
