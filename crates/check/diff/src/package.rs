//! Input: a package of both sides, or of one. Output: its report.

use std::collections::BTreeMap;
use std::mem;

use rayon::prelude::*;
use rocwheel_elf::Elf;
use rocwheel_progress::{Failure, Unit};
use rocwheel_wheel::manylinux::{self, FileNeeds};
use rocwheel_wheel::read::{Wheel, WheelProblem};

use crate::change::{Change, ChangeKind};
use crate::compare::Compared;
use crate::entry::{Entry, File, Source};
use crate::findings::Context;
use crate::pair::{self, EntryPair, PackagePair};
use crate::report::{Described, FileReport, Kept, PackageReport, Sizes};
use crate::side::{Form, Named, Package};

/// `e_machine` of x86-64.
const X86_64: u16 = 62;

pub(crate) fn compare(pair: &PackagePair, context: &Context<'_>) -> Result<PackageReport, Failure> {
    let mut report = PackageReport {
        name: pair.name.clone(),
        old: pair.old.as_ref().map(|package| describe(package, context)).transpose()?,
        new: pair.new.as_ref().map(|package| describe(package, context)).transpose()?,
        same: 0,
        changes: Vec::new(),
        files: Vec::new(),
        targets: BTreeMap::new(),
    };
    match (&pair.old, &pair.new) {
        (Some(old), Some(new)) => {
            report.changes = whole(old, new, &report);
            files(old, new, &mut report, context)?;
        }
        (Some(_), None) => report.changes.push(Change::new(ChangeKind::LostPackage)),
        (None, _) => report.changes.push(Change::new(ChangeKind::NewPackage)),
    }
    Ok(report)
}

fn describe(package: &Package, context: &Context<'_>) -> Result<Described, Failure> {
    let unpacked = package.entries.values().filter_map(|named| named.entry.size()).sum();
    Ok(Described {
        path: package.path.clone(),
        version: package.version().map(str::to_owned),
        size: package.packed.unwrap_or(unpacked),
        unpacked,
        files: package.entries.len() as u64,
        floor: floor(package, context)?,
    })
}

/// Returns the lowest platform tag that the files of a wheel allow.
fn floor(package: &Package, context: &Context<'_>) -> Result<Option<String>, Failure> {
    if !matches!(package.form, Form::Wheel(_)) {
        return Ok(None);
    }
    let needs: Result<Vec<Option<FileNeeds>>, Failure> = package
        .entries
        .par_iter()
        .map(|(_, named)| {
            context.reporter.check()?;
            let Entry::File(file) = &named.entry else { return Ok(None) };
            Ok(headers(file, context)?
                .filter(|elf| elf.machine == X86_64 && elf.is_64)
                .map(|elf| FileNeeds::of(named.path.as_str(), &elf)))
        })
        .collect();
    let needs: Vec<FileNeeds> = needs?.into_iter().flatten().collect();
    let is_musl = needs.iter().flat_map(|file| &file.libraries).any(|need| need.library.starts_with("libc.musl-"));
    Ok((!needs.is_empty() && !is_musl).then(|| manylinux::floor(&needs).tag))
}

/// Reads the headers of an ELF file; `None` for all others, and for those that cannot be read,
/// which the comparison reports.
fn headers(file: &File, context: &Context<'_>) -> Result<Option<Elf>, Failure> {
    if file.start(4)? != b"\x7fELF" {
        return Ok(None);
    }
    if let Source::Member { wheel, name } = &file.source {
        let reader = wheel.sparse(name, context.scratch)?;
        reader.want(&rocwheel_elf::header_places(&reader, file.size).unwrap_or_default());
        reader.want(&rocwheel_elf::dynamic_places(&reader).unwrap_or_default());
        return Ok(Elf::read(&reader).ok().flatten());
    }
    Ok(Elf::read(&file.content(&context.spool)?.open()?).ok().flatten())
}

/// Compares the file names, the floor and the correctness of RECORD.
fn whole(old: &Package, new: &Package, report: &PackageReport) -> Vec<Change> {
    let mut changes = Vec::new();
    if !old.name().is_empty() && !new.name().is_empty() {
        changes.extend(Change::of_value(ChangeKind::Name, Some(&old.name()), Some(&new.name())));
    }
    if old.version().is_some() && new.version().is_some() {
        changes.extend(Change::of_value(ChangeKind::Version, old.version(), new.version()));
    }
    changes.extend(Change::of_sets((ChangeKind::LostTag, ChangeKind::NewTag), &old.tags(), &new.tags()));
    let [old_floor, new_floor] = [&report.old, &report.new].map(|side| side.as_ref()?.floor.as_deref());
    changes.extend(Change::of_value(ChangeKind::GlibcFloor, old_floor, new_floor));
    if let (Form::Wheel(old), Form::Wheel(new)) = (&old.form, &new.form) {
        changes.extend(Change::of_value(ChangeKind::Build, old.name.build.as_deref(), new.name.build.as_deref()));
        changes.extend(record(old, new));
    }
    changes
}

/// Compares the errors in RECORD about its own files, counted by kind.
fn record(old: &Wheel, new: &Wheel) -> Vec<Change> {
    let (old, new) = (count_problems(old), count_problems(new));
    let counts = new.into_iter().map(|(what, count)| (what, old.get(what).copied().unwrap_or(0), count));
    counts
        .filter(|(_, old, new)| new > old)
        .map(|(what, old, new)| Change::of(ChangeKind::Record, what).values(old.to_string(), new.to_string()))
        .collect()
}

fn count_problems(wheel: &Wheel) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    // A RECORD that cannot be parsed has no rows to check.
    for problem in wheel.verify_rows().unwrap_or_default() {
        let what = match problem {
            WheelProblem::FileName(_) => "it belongs to another name",
            WheelProblem::Missing(_) => "rows without a file",
            WheelProblem::Unrecorded(_) => "files without a row",
            WheelProblem::Repeated(_) => "rows that come twice",
            WheelProblem::NoHash(_) => "rows without SHA-256",
            WheelProblem::Hash(_) | WheelProblem::Size(_) | WheelProblem::Unreadable(_) => "rows that are wrong",
        };
        *counts.entry(what).or_default() += 1;
    }
    counts
}

fn files(old: &Package, new: &Package, report: &mut PackageReport, context: &Context<'_>) -> Result<(), Failure> {
    let pairs = pair::entries(&old.entries, &new.entries);
    let stage = context.reporter.stage("comparing", Some(pairs.len() as u64), Unit::Items);
    let compared: Result<Vec<Option<Compared>>, Failure> = pairs
        .par_iter()
        .map(|pair| {
            let (Some(old), Some(new)) = (pair.old, pair.new) else { return Ok(None) };
            let compared = context.entries(pair.key, old, new);
            context.reporter.advance(1);
            compared.map(Some)
        })
        .collect();
    for Compared { file, inside, targets } in compared?.into_iter().flatten() {
        match file {
            Some(file) => report.files.push(file),
            None => report.same += 1,
        }
        report.files.extend(inside);
        for (target, sizes) in targets {
            report.targets.entry(target).or_default().add(sizes);
        }
    }
    report.files.extend(single(&pairs, context)?);
    drop(stage);
    drop_repeated(report);
    report.files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(())
}

/// Returns reports of files that only one side has. A file with the same bytes at another path on
/// the other side was moved.
fn single(pairs: &[EntryPair<'_>], context: &Context<'_>) -> Result<Vec<FileReport>, Failure> {
    let lost = pairs.iter().filter(|pair| pair.new.is_none()).filter_map(|pair| pair.old);
    let mut by_size: BTreeMap<u64, Vec<&Named>> = BTreeMap::new();
    let mut reports = Vec::new();
    for named in lost {
        match &named.entry {
            // All empty files are equal, but one is not a moved copy of another.
            Entry::File(file) if file.size > 0 => by_size.entry(file.size).or_default().push(named),
            _ => reports.push(named.alone(ChangeKind::LostFile)),
        }
    }
    for new in pairs.iter().filter(|pair| pair.old.is_none()).filter_map(|pair| pair.new) {
        let candidates = new.entry.size().and_then(|size| by_size.get_mut(&size));
        match candidates.map(|candidates| take_same(candidates, new, context)).transpose()?.flatten() {
            Some(old) => reports.push(moved(old, new)),
            None => reports.push(new.alone(ChangeKind::NewFile)),
        }
    }
    reports.extend(by_size.into_values().flatten().map(|named| named.alone(ChangeKind::LostFile)));
    Ok(reports)
}

/// Removes the file with the same bytes from `candidates` and returns it; one with the same name is
/// preferred.
fn take_same<'a>(
    candidates: &mut Vec<&'a Named>,
    new: &Named,
    context: &Context<'_>,
) -> Result<Option<&'a Named>, Failure> {
    let Entry::File(file) = &new.entry else { return Ok(None) };
    candidates.sort_by_key(|old| (pair::is_renamed(&old.path, &new.path), old.path.clone()));
    for (index, old) in candidates.iter().enumerate() {
        if let Entry::File(old) = &old.entry
            && context.is_same(old, file)?
        {
            return Ok(Some(candidates.remove(index)));
        }
    }
    Ok(None)
}

fn moved(old: &Named, new: &Named) -> FileReport {
    let change = Change::new(ChangeKind::MovedFile).values(&old.path, &new.path);
    FileReport {
        path: new.path.clone(),
        old_path: Some(old.path.clone()),
        kept: Kept::Moved,
        sizes: Sizes { old: old.entry.size(), new: new.entry.size() },
        changes: vec![change],
        notes: Vec::new(),
    }
}

/// Removes changes in METADATA and WHEEL that the file name shows too: they count once.
fn drop_repeated(report: &mut PackageReport) {
    for file in &mut report.files {
        let all = mem::take(&mut file.changes);
        let count = all.len();
        file.changes = all.into_iter().filter(|change| !report.changes.contains(change)).collect();
        if file.changes.len() < count {
            file.notes.push("what the file name says".to_owned());
            if file.changes.is_empty() {
                file.kept = Kept::Meaning;
            }
        }
    }
}
