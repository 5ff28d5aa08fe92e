//! Input: one entry of each side. Output: that they are equal, that they mean the same, or their
//! differences.

mod nested;

use std::collections::BTreeSet;

use rocwheel_content::Content;
use rocwheel_progress::{Exit, Failure, with_causes};

use crate::change::{Change, ChangeKind};
use crate::entry::{Entry, File};
use crate::findings::{Context, Findings, Opened, bytes, has_ending, same_bytes, whole};
use crate::pair::is_renamed;
use crate::report::{FileReport, Kept, Sizes};
use crate::side::Named;
use crate::{dist_info, elf_file, error, gpu, tarball, text};

pub(crate) struct Compared {
    /// `None` if they are equal.
    pub(crate) file: Option<FileReport>,
    pub(crate) inside: Vec<FileReport>,
    pub(crate) targets: Vec<(String, Sizes)>,
}

impl Context<'_> {
    /// Compares two entries that belong together; `key` is their path without version.
    pub(crate) fn entries(&self, key: &str, old: &Named, new: &Named) -> Result<Compared, Failure> {
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
            sizes: Sizes { old: old.entry.size(), new: new.entry.size() },
            changes: findings.changes,
            notes: findings.notes,
        });
        Ok(Compared { file, inside: findings.inside, targets: findings.targets })
    }

    fn files(&self, key: &str, old: &File, new: &File) -> Result<Findings, Failure> {
        let mut findings = if self.is_same(old, new)? { Findings::default() } else { self.meaning(key, old, new)? };
        if old.executable != new.executable {
            let [old, new] = [old, new].map(|file| if file.executable { "executable" } else { "not executable" });
            findings.changes.push(Change::new(ChangeKind::Mode).values(old, new));
        }
        Ok(findings)
    }

    /// `true` if two files have the same bytes.
    pub(crate) fn is_same(&self, old: &File, new: &File) -> Result<bool, Failure> {
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
    fn meaning(&self, key: &str, old: &File, new: &File) -> Result<Findings, Failure> {
        let starts = [old.start(tarball::START)?, new.start(tarball::START)?];
        let (old, new) = (Box::new(old.content(&self.spool)?), Box::new(new.content(&self.spool)?));
        let opened = Opened { key, old, new, versions: &self.versions };
        if let Some(findings) = dist_info::compare(&opened)? {
            return Ok(findings);
        }
        if starts.iter().all(|start| start.starts_with(b"\x7fELF")) {
            return or_unreadable(&opened, elf_file::compare(&opened, self));
        }
        if starts.iter().all(|start| start.starts_with(b"MZ")) {
            return self.windows(&opened);
        }
        if starts.iter().all(|start| gpu::may_hold(start)) {
            return or_unreadable(&opened, gpu::compare(&opened, self));
        }
        if starts.iter().all(|start| tarball::is_tarball(key, start)) {
            return or_unreadable(&opened, nested::compare(&opened, self));
        }
        if starts.iter().all(|start| start.starts_with(b"!<arch>\n")) {
            return or_unreadable(&opened, nested::compare_static(&opened));
        }
        data(&opened)
    }

    /// Compares programs and libraries for Windows: their imports and their GPU code separately,
    /// everything else only by its bytes.
    fn windows(&self, opened: &Opened<'_>) -> Result<Findings, Failure> {
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
fn imports(content: &dyn Content) -> Result<BTreeSet<String>, Failure> {
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
fn or_unreadable(opened: &Opened<'_>, findings: Result<Findings, Failure>) -> Result<Findings, Failure> {
    match findings {
        Err(error) if error.exit() == Exit::Interrupted => Err(error),
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
fn data(opened: &Opened<'_>) -> Result<Findings, Failure> {
    let (old_size, new_size) = (opened.old.size(), opened.new.size());
    let by_size = Change::new(ChangeKind::Content).values(bytes(old_size), bytes(new_size));
    if old_size.max(new_size) > text::LARGEST {
        return Ok(Findings::change(by_size));
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
        None => Findings::change(by_size),
    })
}
