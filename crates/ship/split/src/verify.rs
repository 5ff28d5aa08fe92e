//! Input: an installation before its GPU code was moved to archives, and after. Output: a
//! [`VerificationReport`] of everything that differs.
//!
//! Both sides are read again, by the rules of the runtime and without knowledge of the splitter's
//! plan. For every wrapper and every GPU that may use it, the runtime must find the same code
//! object, byte for byte, as before. No archive that the runtime can reach may lack one (it then
//! gives up on all GPUs). Host code, exports, needed libraries and versions must be unchanged. Host
//! files may hold no leftovers, and archives may hold nothing that did not exist before.

mod code;
mod contradiction;
mod elf_file;
mod lookup;
mod outcome;
mod pe_file;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use positioned_io::ReadAt as _;
use rayon::prelude::*;
use rocwheel_content::{Content, Reader, WINDOW};
use rocwheel_kpack::archive::KpackArchive;
use rocwheel_kpack::bundle::Checksum;
use rocwheel_kpack::fatbin::{FatBinary, Format, Magic, Points};
use rocwheel_progress::{Failure, Reporter, Unit, with_causes};
use rocwheel_tables::Databases;

use crate::error::{gpu_code_error, read_error};
use crate::group::{TargetSelection, is_archive};
use crate::plan;
use code::{Comparison, Registration};

pub use contradiction::contradiction;
pub use lookup::{Archives, OpenArchive};
pub use outcome::{Checked, Difference, VerificationReport};
pub use view::{Item, View};

/// A file with GPU code, on both sides.
struct Pair<'a> {
    path: &'a str,
    before: (Arc<dyn Content>, FatBinary),
    after: Arc<dyn Content>,
}

/// The kind of a file, after reading its headers.
enum Looked {
    Fat(Box<FatBinary>),
    Other,
}

/// The check of a split's result before it replaces the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verification {
    /// It is checked; a result with differences is removed.
    #[default]
    Full,
    Skip,
}

#[derive(Debug, Clone, Copy)]
pub struct Checks<'a> {
    /// The targets that were kept; code for others must be gone.
    pub selection: &'a TargetSelection,
    /// The files whose code the archives may hold.
    pub archives: Holdings,
    /// `Compare` checks compressed bundles of the original against their checksums again.
    pub checksum: Checksum,
    /// As in [`crate::Packing::memory`].
    pub memory: u64,
}

impl Default for Checks<'_> {
    fn default() -> Self {
        Self {
            selection: &TargetSelection::ALL,
            archives: Holdings::Own,
            checksum: Checksum::Compare,
            memory: crate::default_memory(),
        }
    }
}

/// The files whose code archives may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holdings {
    /// Only the files that are checked.
    Own,
    /// Also files that are not checked.
    Shared,
}

/// Compares `after` with `before`.
///
/// # Errors
/// Files of `before` that cannot be read, and an interruption. Defects of `after` are in the
/// report.
pub fn verify(
    before: &View,
    after: &View,
    checks: &Checks<'_>,
    reporter: &dyn Reporter,
) -> Result<VerificationReport, Failure> {
    let selection = checks.selection;
    let mut report = VerificationReport::default();
    let looked = look(before, reporter)?;
    let mut pairs = Vec::new();
    let mut others = Vec::new();
    for ((path, item), looked) in before.items().zip(looked) {
        let unwanted = unwanted(path, item, selection);
        let same_kind = match (item, after.get(path)) {
            (_, None) => {
                if unwanted.is_none() {
                    report.differences.push(Difference::new(path, "is gone"));
                }
                continue;
            }
            (_, Some(_)) if unwanted.is_some() => {
                let what = format!("is for {}, which is not wanted, and still there", unwanted.unwrap_or_default());
                report.differences.push(Difference::new(path, what));
                continue;
            }
            (Item::Link { target }, Some(Item::Link { target: now })) => {
                report.others += 1;
                if target != now {
                    let what = format!("is a link to `{now}`, it was one to `{target}`");
                    report.differences.push(Difference::new(path, what));
                }
                continue;
            }
            (Item::File { content, executable }, Some(Item::File { content: now, executable: now_executable })) => {
                if executable != now_executable {
                    report.differences.push(Difference::new(path, "can be executed on one side only"));
                }
                Some((content, now))
            }
            _ => None,
        };
        match (same_kind, looked) {
            (None, _) => {
                report.differences.push(Difference::new(path, "is a link on one side and a file on the other"));
            }
            (Some((content, now)), Some(Looked::Fat(fat))) => {
                pairs.push(Pair { path, before: (Arc::clone(content), *fat), after: Arc::clone(now) });
            }
            (Some((content, now)), _) => others.push((path, content, now)),
        }
    }
    let archives = Archives::new(after);
    let mut added = Vec::new();
    for (path, item) in after.items().filter(|(path, _)| before.get(path).is_none()) {
        match item {
            Item::File { .. } if is_archive(path) => added.push(path),
            _ => report.differences.push(Difference::new(path, "was not there before")),
        }
    }

    report.others += others.len() as u64;
    for difference in compare_others(&others, reporter)? {
        report.differences.push(difference);
    }
    let used = check_binaries(&pairs, &archives, Comparison { checks, reporter }, &mut report)?;
    report.archives = added.len() as u64;
    for path in added {
        report.differences.extend(strangers(path, &archives, &used, checks.archives));
    }
    report.finish();
    Ok(report)
}

/// Returns the target of a kernel database's file, or of an archive, that is not selected.
fn unwanted(path: &str, item: &Item, selection: &TargetSelection) -> Option<String> {
    selection.targets()?;
    if let (true, Item::File { content, .. }) = (is_archive(path), item) {
        let archive = KpackArchive::open(&content.open().ok()?, content.size()).ok()?;
        let wanted = archive.targets.iter().any(|target| selection.takes(target));
        return archive.targets.into_iter().next().filter(|_| !wanted);
    }
    Databases::embedded().classify(path)?.target.filter(|target| !selection.takes(target))
}

fn look(view: &View, reporter: &dyn Reporter) -> Result<Vec<Option<Looked>>, Failure> {
    let items: Vec<(&str, &Item)> = view.items().collect();
    let looked = items.par_iter().map(|(path, item)| {
        let Item::File { content, .. } = item else { return Ok(None) };
        reporter.check()?;
        let reader = content.open().map_err(read_error(path))?;
        let fat = FatBinary::read(&reader, content.size());
        match fat.map_err(gpu_code_error(path))? {
            Some(fat) => Ok(Some(Looked::Fat(Box::new(fat)))),
            None => Ok(Some(Looked::Other)),
        }
    });
    looked.collect()
}

type Other<'a> = (&'a str, &'a Arc<dyn Content>, &'a Arc<dyn Content>);

fn compare_others(others: &[Other<'_>], reporter: &dyn Reporter) -> Result<Vec<Difference>, Failure> {
    let bytes = others.iter().map(|(_, content, _)| content.size()).sum();
    let _stage = reporter.stage("Comparing the other files", Some(bytes), Unit::Bytes);
    let compared = others.par_iter().map(|(path, before, after)| {
        reporter.check()?;
        let differs = first_difference(path, before.as_ref(), after.as_ref())?;
        reporter.advance(before.size());
        Ok(differs.map(|at| {
            let what = match (before.size(), after.size()) {
                (was, is) if was != is => format!("has {is} bytes, it had {was}"),
                _ => format!("differs at byte {at}"),
            };
            Difference::new(*path, what)
        }))
    });
    let found: Result<Vec<Option<Difference>>, Failure> = compared.collect();
    Ok(found?.into_iter().flatten().collect())
}

/// Returns the position of the first difference of two files; `None` if they are equal.
pub fn first_difference(path: &str, before: &dyn Content, after: &dyn Content) -> Result<Option<u64>, Failure> {
    let (left, right) = (before.open().map_err(read_error(path))?, after.open().map_err(read_error(path))?);
    let size = before.size().min(after.size());
    let found = differs(&left, &right, [0, 0], size).map_err(read_error(path))?;
    Ok(found.or((before.size() != after.size()).then_some(size)))
}

/// Returns the first difference between `size` bytes of two files at the two `offsets`, as distance
/// from the offsets.
fn differs(left: &Reader, right: &Reader, offsets: [u64; 2], size: u64) -> std::io::Result<Option<u64>> {
    let mut buffers = [vec![0; WINDOW.min(size as usize)], vec![0; WINDOW.min(size as usize)]];
    let mut done = 0;
    while done < size {
        let length = (size - done).min(WINDOW as u64) as usize;
        let [first, second] = &mut buffers;
        left.read_exact_at(offsets[0] + done, &mut first[..length])?;
        right.read_exact_at(offsets[1] + done, &mut second[..length])?;
        if first[..length] != second[..length] {
            let at = first.iter().zip(second.iter()).position(|(left, right)| left != right).unwrap_or(0);
            return Ok(Some(done + at as u64));
        }
        done += length as u64;
    }
    Ok(None)
}

/// The code objects in archives that the runtime uses: path of the archive, name, index, target.
type Used = BTreeSet<(String, String, Option<u32>, String)>;

/// Checks host code, wrappers and lookups of all binaries, then the bytes of all code objects.
fn check_binaries(
    pairs: &[Pair<'_>],
    archives: &Archives<'_>,
    comparison: Comparison<'_>,
    report: &mut VerificationReport,
) -> Result<Used, Failure> {
    let Comparison { checks, reporter } = comparison;
    let checked = pairs.par_iter().map(|pair| {
        reporter.check()?;
        check_host(pair)
    });
    let checked: Vec<(Checked, Vec<Registration>, Vec<Difference>)> = checked.collect::<Result<_, _>>()?;
    let mut registrations = Vec::new();
    for (index, (checked, registered, differences)) in checked.into_iter().enumerate() {
        report.binaries.push(checked);
        report.differences.extend(differences);
        registrations.extend(registered.into_iter().map(|registration| (index, registration)));
    }
    let lookups = registrations
        .par_iter()
        .map(|(index, registration)| code::lookups(&pairs[*index], registration, archives, checks.selection))
        .collect::<Vec<_>>();
    report.differences.extend(lookups.into_iter().flatten());
    code::compare(pairs, &registrations, archives, comparison, report)
}

/// Checks everything about a host file except its code objects.
fn check_host(pair: &Pair<'_>) -> Result<(Checked, Vec<Registration>, Vec<Difference>), Failure> {
    let (content, before) = &pair.before;
    let mut checked = Checked {
        path: pair.path.to_owned(),
        wrappers: before.wrappers.len() as u64,
        bundles: before.bundles.len() as u64,
        ..Checked::default()
    };
    let bundles = match plan::wrappers(before) {
        Ok(bundles) => bundles,
        Err(reason) => {
            checked.left_alone = Some(reason);
            let at = first_difference(pair.path, content.as_ref(), pair.after.as_ref())?;
            let difference = at.map(|at| Difference::new(pair.path, format!("differs at byte {at}, but {reason}")));
            return Ok((checked, Vec::new(), difference.into_iter().collect()));
        }
    };
    let after = match read_after(pair) {
        Ok(after) => after,
        Err(what) => return Ok((checked, Vec::new(), vec![Difference::new(pair.path, what)])),
    };
    let mut differences = Vec::new();
    if after.wrappers.len() != before.wrappers.len() {
        let what = format!("has {} wrappers, it had {}", after.wrappers.len(), before.wrappers.len());
        differences.push(Difference::new(pair.path, what));
    }
    for (number, bundle) in after.bundles.iter().enumerate() {
        let targets: Vec<&str> = bundle.entries.iter().filter_map(rocwheel_kpack::BundleEntry::target).collect();
        let what = format!("bundle {number} is still in the file, with code for {}", targets.join(", "));
        differences.push(Difference::new(pair.path, what));
    }
    let mut registrations: BTreeMap<(usize, usize, u64), Vec<usize>> = BTreeMap::new();
    for (number, (wrapper, bundle)) in after.wrappers.iter().zip(&bundles).enumerate() {
        let what = match (wrapper.magic, wrapper.points) {
            (Magic::Fat, _) => "still says that its code is in the file (HIPF)",
            (Magic::Kpacked, Points::Marker(marker)) => {
                registrations.entry((*bundle, marker, wrapper.index)).or_default().push(number);
                continue;
            }
            (Magic::Kpacked, _) => "points to no marker",
        };
        differences.push(Difference::new(pair.path, what).wrapper(number));
    }
    let registrations = registrations.into_iter().map(|((bundle, marker, index), wrappers)| Registration {
        bundle,
        marker: after.markers[marker].0.clone(),
        // The runtime cuts the index to 32 bits.
        index: index as u32,
        wrappers,
    });
    let registrations = registrations.collect();
    let compared = host_differences(content.as_ref(), before, pair.after.as_ref(), &after).and_then(|mut found| {
        let reader = pair.after.open().map_err(|error| format!("could not be read: {error}"))?;
        found.extend(leftovers(&reader, &after)?);
        Ok(found)
    });
    match compared {
        Ok(found) => differences.extend(found.into_iter().map(|what| Difference::new(pair.path, what))),
        Err(what) => differences.push(Difference::new(pair.path, what)),
    }
    Ok((checked, registrations, differences))
}

/// Returns the differences outside of the GPU code, its wrappers, their relocations and the headers
/// with positions of sections.
///
/// # Errors
/// A sentence about the part that cannot be read.
pub fn host_differences(
    before: &dyn Content,
    before_fat: &FatBinary,
    after: &dyn Content,
    after_fat: &FatBinary,
) -> Result<Vec<String>, String> {
    match before_fat.format {
        Format::Elf => elf_file::compare(before, before_fat, after, after_fat),
        Format::Pe => pe_file::compare(before, before_fat, after),
    }
}

fn read_after(pair: &Pair<'_>) -> Result<FatBinary, String> {
    let reader = pair.after.open().map_err(|error| format!("could not be read: {error}"))?;
    let read = FatBinary::read(&reader, pair.after.size());
    let fat = read.map_err(|error| format!("its GPU code could not be read: {}", with_causes(&error)))?;
    fat.ok_or_else(|| "has no fat binary section any more".to_owned())
}

/// Checks that the fat binary section holds only markers and zeros.
fn leftovers(reader: &Reader, after: &FatBinary) -> Result<Vec<String>, String> {
    let section = &after.section;
    let mut bytes = vec![0; (section.end - section.start).min(WINDOW as u64) as usize];
    let mut position = section.start;
    while position < section.end {
        let length = (section.end - position).min(WINDOW as u64) as usize;
        let read = reader.read_exact_at(position, &mut bytes[..length]);
        read.map_err(|error| format!("its fat binary section could not be read: {error}"))?;
        for (marker, offset) in &after.markers {
            let end = offset + marker.encode().map_or(0, |bytes| bytes.len() as u64);
            let [start, end] = [*offset, end].map(|at| at.clamp(position, position + length as u64) - position);
            bytes[start as usize..end as usize].fill(0);
        }
        if let Some(at) = bytes[..length].iter().position(|byte| *byte != 0) {
            let at = position + at as u64 - section.start;
            return Ok(vec![format!("something other than a marker is left at byte {at} of its fat binary section")]);
        }
        position += length as u64;
    }
    Ok(Vec::new())
}

/// Finds code objects of an archive that no wrapper of the original refers to.
fn strangers(path: &str, archives: &Archives<'_>, used: &Used, holdings: Holdings) -> Vec<Difference> {
    let archive = match archives.get(path) {
        Ok(Some(archive)) => archive,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![Difference::new(path, with_causes(&error))],
    };
    let mut found = Vec::new();
    for entry in archive.archive.entries() {
        let place = (path.to_owned(), entry.name.to_owned(), entry.index, entry.target.to_owned());
        if !used.contains(&place) && (holdings == Holdings::Own || used.iter().any(|(_, name, ..)| name == entry.name))
        {
            let what = format!("holds `{}`, which no wrapper of the original asks for", entry.key());
            found.push(Difference::new(path, what).target(entry.target));
        }
    }
    found
}
