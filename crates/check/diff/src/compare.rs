//! Input: one entry of each side. Output: that they are equal, that they mean the same, or their
//! differences.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use positioned_io::ReadAt;
use rocwheel_content::{Content, Spool};
use rocwheel_progress::{Reporter, with_causes};

use crate::change::{Change, ChangeKind};
use crate::entry::{Entry, File};
use crate::pair::is_renamed;
use crate::report::{FileReport, Kept, Sizes};
use crate::side::Named;
use crate::version_change::VersionChanges;
use crate::{Error, Request, dist_info, elf_file, error, gpu, nested, tarball, text};

/// Bytes compared at a time.
const WINDOW: usize = 1 << 18;

/// The settings that all comparisons share.
pub(crate) struct Context<'a> {
    pub(crate) scratch: &'a Path,
    pub(crate) spool: Spool,
    pub(crate) versions: VersionChanges,
    pub(crate) reporter: &'a dyn Reporter,
}

/// The result for two files whose bytes differ.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) changes: Vec<Change>,
    pub(crate) notes: Vec<String>,
    /// Sizes of GPU code by target.
    pub(crate) targets: Vec<(String, Sizes)>,
    /// Reports of the files inside, if the file is an archive.
    pub(crate) inside: Vec<FileReport>,
}

impl Findings {
    pub(crate) fn change(change: Change) -> Findings {
        Findings { changes: vec![change], ..Findings::default() }
    }

    pub(crate) fn note(text: impl Into<String>) -> Findings {
        Findings { notes: vec![text.into()], ..Findings::default() }
    }
}

/// Two files with different bytes, opened.
pub(crate) struct Opened<'a> {
    /// The path without version, which determines how the files are compared.
    pub(crate) key: &'a str,
    pub(crate) old: Box<dyn Content + 'a>,
    pub(crate) new: Box<dyn Content + 'a>,
    pub(crate) versions: &'a VersionChanges,
}

/// The result of comparing two entries.
pub(crate) struct Compared {
    /// `None` if they are equal.
    pub(crate) file: Option<FileReport>,
    pub(crate) inside: Vec<FileReport>,
    pub(crate) targets: Vec<(String, Sizes)>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(request: &'a Request, versions: VersionChanges, reporter: &'a dyn Reporter) -> Context<'a> {
        let scratch = request.scratch.as_path();
        Context { scratch, spool: Spool::new(scratch), versions, reporter }
    }

    /// Compares two entries that belong together; `key` is their path without version.
    pub(crate) fn entries(&self, key: &str, old: &Named, new: &Named) -> Result<Compared, Error> {
        self.reporter.check()?;
        let mut findings = match (&old.entry, &new.entry) {
            (Entry::File(old), Entry::File(new)) => self.files(key, old, new)?,
            (Entry::Link { target: old }, Entry::Link { target: new }) => {
                let change = (old != new).then(|| Change::new(ChangeKind::Link).values(old, new));
                Findings { changes: change.into_iter().collect(), ..Findings::default() }
            }
            (Entry::File(_), Entry::Link { target }) => {
                Findings::change(Change::new(ChangeKind::FileType).values("a file", format!("a link to {target}")))
            }
            (Entry::Link { target }, Entry::File(_)) => {
                Findings::change(Change::new(ChangeKind::FileType).values(format!("a link to {target}"), "a file"))
            }
        };
        let is_moved = old.path != new.path;
        if is_renamed(&old.path, &new.path) && !key.is_empty() {
            let change = Change::new(ChangeKind::RenamedFile).values(&old.path, &new.path);
            findings.changes.insert(0, change);
        }
        let kept = match (&findings.changes[..], findings.notes.is_empty()) {
            ([], true) => None,
            ([], false) => Some(Kept::Meaning),
            (changes, _) if changes.iter().all(|change| change.kind.is_version()) => Some(Kept::AllButVersion),
            (_, _) => Some(Kept::Some),
        };
        let file = kept.map(|kept| FileReport {
            path: new.path.clone(),
            old_path: is_moved.then(|| old.path.clone()),
            kept,
            sizes: sizes(&old.entry, &new.entry),
            changes: findings.changes,
            notes: findings.notes,
        });
        Ok(Compared { file, inside: findings.inside, targets: findings.targets })
    }

    fn files(&self, key: &str, old: &File, new: &File) -> Result<Findings, Error> {
        let mut findings = if self.is_same(old, new)? { Findings::default() } else { self.meaning(key, old, new)? };
        if old.executable != new.executable {
            let word = |executable| if executable { "executable" } else { "not executable" };
            let change = Change::new(ChangeKind::Mode).values(word(old.executable), word(new.executable));
            findings.changes.push(change);
        }
        Ok(findings)
    }

    /// `true` if two files have the same bytes.
    pub(crate) fn is_same(&self, old: &File, new: &File) -> Result<bool, Error> {
        if old.surely_differs(new) {
            return Ok(false);
        }
        if old.is_packed_copy(new)? {
            return Ok(true);
        }
        let (old, new) = (old.content(&self.spool)?, new.content(&self.spool)?);
        let same = same_bytes(&old.open()?, &new.open()?, old.size(), self.reporter);
        same.map_err(|error| error::read(error, self.reporter))
    }

    /// Compares the meaning of two files with different bytes.
    fn meaning(&self, key: &str, old: &File, new: &File) -> Result<Findings, Error> {
        let starts = (old.start(tarball::START)?, new.start(tarball::START)?);
        let (old, new) = (Box::new(old.content(&self.spool)?), Box::new(new.content(&self.spool)?));
        let opened = Opened { key, old, new, versions: &self.versions };
        let both = |magic: &[u8]| starts.0.starts_with(magic) && starts.1.starts_with(magic);
        if let Some(findings) = dist_info::compare(&opened)? {
            return Ok(findings);
        }
        if both(b"\x7fELF") {
            return or_unreadable(&opened, elf_file::compare(&opened, self));
        }
        if both(b"MZ") {
            return self.windows(&opened);
        }
        if gpu::may_hold(&starts.0) && gpu::may_hold(&starts.1) {
            return or_unreadable(&opened, gpu::compare(&opened, self));
        }
        let is_tarball = |start: &[u8]| tarball::is_tarball(key, start);
        if is_tarball(&starts.0) && is_tarball(&starts.1) {
            return or_unreadable(&opened, nested::compare(&opened, self));
        }
        if both(b"!<arch>\n") {
            return or_unreadable(&opened, nested::compare_static(&opened));
        }
        data(&opened)
    }

    /// Compares programs and libraries for Windows: their imports and their GPU code separately,
    /// everything else only by its bytes.
    fn windows(&self, opened: &Opened<'_>) -> Result<Findings, Error> {
        let mut findings = data(opened)?;
        let told = or_unreadable(opened, gpu::compare(opened, self))?;
        if !told.targets.is_empty() {
            findings.changes.extend(told.changes);
            findings.notes = told.notes;
            findings.targets = told.targets;
        }
        match (imports(&*opened.old), imports(&*opened.new)) {
            (Ok(old), Ok(new)) => {
                let kinds = (ChangeKind::LostNeeded, ChangeKind::NewNeeded);
                findings.changes.extend(Change::of_sets(kinds, &old, &new));
            }
            (Err(error), _) | (_, Err(error)) => {
                findings.changes.push(Change::of(ChangeKind::Unreadable, with_causes(&error)));
            }
        }
        findings.changes.sort();
        Ok(findings)
    }
}

/// Returns the DLLs that a file imports, in lower case, because Windows ignores case. A text that
/// only begins like a program imports nothing.
fn imports(content: &dyn Content) -> Result<BTreeSet<String>, Error> {
    let reader = content.open()?;
    if !rocwheel_elf::is_pe(&reader)? {
        return Ok(BTreeSet::new());
    }
    let Some(pe) = rocwheel_elf::Pe::read(&reader)? else { return Ok(BTreeSet::new()) };
    let imports = pe.imports(&reader)?;
    let delayed = imports.delayed.iter().map(|name| format!("{} (delayed)", name.to_lowercase()));
    Ok(imports.needed.iter().map(|name| name.to_lowercase()).chain(delayed).collect())
}

/// Falls back to comparing bytes if a file cannot be parsed, and reports that.
fn or_unreadable(opened: &Opened<'_>, findings: Result<Findings, Error>) -> Result<Findings, Error> {
    match findings {
        Err(error @ Error::Interrupted(_)) => Err(error),
        Err(error) => {
            let mut findings = data(opened)?;
            let reason = with_causes(&error);
            findings.changes.push(Change::of(ChangeKind::Unreadable, reason));
            Ok(findings)
        }
        findings => findings,
    }
}

/// Compares text, JSON, TOML and all other files.
fn data(opened: &Opened<'_>) -> Result<Findings, Error> {
    let change = Change::new(ChangeKind::Content);
    let sizes = (opened.old.size(), opened.new.size());
    let by_size = || change.clone().values(bytes(sizes.0), bytes(sizes.1));
    if sizes.0.max(sizes.1) > text::LARGEST {
        return Ok(Findings::change(by_size()));
    }
    let (old, new) = (whole(&*opened.old)?, whole(&*opened.new)?);
    if has_ending(opened.key, "pyc") && dist_info::same_bytecode(&old, &new) {
        return Ok(Findings::note("the same bytecode of another time or size of its source"));
    }
    if let Some(note) = dist_info::same_document(opened.key, &old, &new) {
        return Ok(Findings::note(note));
    }
    if opened.versions.explain_text(&old, &new) {
        return Ok(Findings::change(Change::new(ChangeKind::VersionText)));
    }
    Ok(match text::compare(&old, &new) {
        Some(text::Texts::Alike(how)) => Findings::note(how),
        Some(text::Texts::Lines { new, lost }) => {
            Findings::change(Change::of(ChangeKind::Content, format!("+{new} −{lost} lines")))
        }
        None => Findings::change(by_size()),
    })
}

/// Reads all bytes of a small file.
pub(crate) fn whole(content: &dyn Content) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; usize::try_from(content.size()).unwrap_or(usize::MAX)];
    content.open()?.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// `true` if the first `size` bytes of two files are the same.
pub(crate) fn same_bytes(old: &dyn ReadAt, new: &dyn ReadAt, size: u64, reporter: &dyn Reporter) -> io::Result<bool> {
    let length = WINDOW.min(usize::try_from(size).unwrap_or(WINDOW));
    let (mut one, mut other) = (vec![0; length], vec![0; length]);
    let mut position = 0;
    while position < size {
        if reporter.interrupted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = (size - position).min(WINDOW as u64) as usize;
        old.read_exact_at(position, &mut one[..length])?;
        new.read_exact_at(position, &mut other[..length])?;
        if one[..length] != other[..length] {
            return Ok(false);
        }
        position += length as u64;
    }
    Ok(true)
}

pub(crate) fn sizes(old: &Entry, new: &Entry) -> Sizes {
    Sizes { old: size(old), new: size(new) }
}

pub(crate) fn size(entry: &Entry) -> Option<u64> {
    match entry {
        Entry::File(file) => Some(file.size),
        Entry::Link { .. } => None,
    }
}

/// Formats a size for a change: exact, because a change of one byte matters too.
pub(crate) fn bytes(amount: u64) -> String {
    format!("{amount} bytes")
}

/// `true` if the name ends in `.ending`.
pub(crate) fn has_ending(name: &str, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == ending)
}
