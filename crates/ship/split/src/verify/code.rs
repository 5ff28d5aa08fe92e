//! Input: the markers that the wrappers of a split binary refer to. Output: code objects that the
//! runtime does not find, or finds changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use rocwheel_content::MemoryBudget;
use rocwheel_kpack::marker::Marker;
use rocwheel_kpack::{BundleEntry, code_object};
use rocwheel_progress::{Failure, Reporter, Unit, with_causes};
use rocwheel_tables::TargetTable;
use rocwheel_tables::target::{Feature, TargetId};

use super::lookup::{Archives, Found};
use super::{Checks, Difference, Pair, Used, VerificationReport};
use crate::code::{self, Code, CodeSource, Piece};
use crate::error::read_error;
use crate::group::TargetSelection;

/// First bytes of a streamed code object, which have its header.
const START: u64 = 4096;

/// Wrappers that refer to the same bundle with the same marker and index.
pub(super) struct Registration {
    pub(super) bundle: usize,
    pub(super) marker: Marker,
    pub(super) index: u32,
    pub(super) wrappers: Vec<usize>,
}

impl Registration {
    /// A difference in the code for one target, at the first of the wrappers.
    fn difference(&self, pair: &Pair<'_>, target: &str, what: impl Into<String>) -> Difference {
        let wrapper = self.wrappers.first().copied().unwrap_or_default();
        Difference::new(pair.path, what).wrapper(wrapper).target(target)
    }
}

/// Parses a target if its name is in canonical form; the runtime compares names, not targets.
fn canonical(name: &str) -> Option<TargetId> {
    name.parse::<TargetId>().ok().filter(|target| target.to_string() == name)
}

fn kept<'a>(pair: &'a Pair<'_>, bundle: usize, selection: &TargetSelection) -> BTreeSet<&'a str> {
    let with_code = pair.before.1.bundles[bundle].entries.iter().filter(|entry| entry.has_code());
    with_code.filter_map(BundleEntry::target).filter(|target| selection.takes(target)).collect()
}

/// Returns every name that a GPU may look up: those of `targets` with each setting of their
/// features, and the processors that fall back to one of them.
fn gpus(targets: &BTreeSet<String>) -> BTreeMap<String, TargetId> {
    let mut found = BTreeMap::new();
    let table = TargetTable::embedded();
    let known: Vec<TargetId> = table.targets().iter().filter_map(|known| known.name.parse().ok()).collect();
    for target in targets.iter().filter_map(|target| canonical(target)) {
        let of_kind =
            known.iter().filter(|known| known.generic().is_some_and(|generic| generic.processor == target.processor));
        for processor in of_kind.chain([&target]).map(|target| &target.processor) {
            for sramecc in settings(target.sramecc) {
                for xnack in settings(target.xnack) {
                    let gpu = TargetId { processor: processor.clone(), xnack, sramecc };
                    found.insert(gpu.to_string(), gpu);
                }
            }
        }
    }
    found
}

/// Returns the settings of GPUs that may run code with this one.
fn settings(feature: Feature) -> Vec<Feature> {
    match feature {
        Feature::Any => vec![Feature::Any, Feature::On, Feature::Off],
        set => vec![set],
    }
}

/// Looks up the code of a registration as every GPU would.
pub(super) fn lookups(
    pair: &Pair<'_>,
    registration: &Registration,
    archives: &Archives<'_>,
    selection: &TargetSelection,
) -> Vec<Difference> {
    let name = format!("{}#{}", registration.marker.kernel_name, registration.index);
    let kept = kept(pair, registration.bundle, selection);
    let mut targets: BTreeSet<String> = kept.iter().map(|target| (*target).to_owned()).collect();
    let reachable = archives.reachable(pair.path, &registration.marker);
    targets.extend(reachable.iter().flat_map(|archive| archive.archive.targets.clone()));
    let mut differences = Vec::new();
    for gpu in gpus(&targets).values() {
        let order: Vec<String> = gpu.lookup_order().iter().map(ToString::to_string).collect();
        let expected = order.iter().find(|target| kept.contains(target.as_str()));
        let found = archives.find(pair.path, &registration.marker, registration.index, gpu);
        let what = match (expected, &found) {
            (_, Err(error)) => with_causes(error),
            (Some(expected), Ok(Found::Code { target, .. })) if expected == target => continue,
            (None, Ok(Found::NoArchive)) => continue,
            (Some(_), Ok(Found::Code { target, archive })) => {
                format!("the runtime finds the code for {target} in `{}` instead", archive.path)
            }
            (Some(_), Ok(Found::NoArchive)) => {
                let paths = registration.marker.search_paths.join("`, `");
                format!("the runtime finds no archive for it: the marker says `{paths}`")
            }
            (Some(_), Ok(Found::NoKernel { archive, target })) => {
                format!("the archive `{}` lacks `{name}` for {target}", archive.path)
            }
            (None, Ok(Found::Code { archive, .. })) => {
                format!("the runtime finds `{name}` in `{}`, which the wrapper did not have", archive.path)
            }
            (None, Ok(Found::NoKernel { archive, .. })) => {
                format!("`{}` lacks `{name}`: the runtime gives up on all GPUs there", archive.path)
            }
        };
        let target = expected.unwrap_or(match &found {
            Ok(Found::Code { target, .. } | Found::NoKernel { target, .. }) => target,
            _ => &gpu.processor,
        });
        differences.push(registration.difference(pair, target, what));
    }
    differences
}

/// The part of the comparison that one thread does.
struct Work<'a> {
    binary: usize,
    registration: &'a Registration,
    piece: Piece,
}

#[derive(Clone, Copy)]
pub(super) struct Comparison<'a> {
    pub(super) checks: &'a Checks<'a>,
    pub(super) reporter: &'a dyn Reporter,
}

struct Compared {
    binary: usize,
    equal: Vec<(String, u64)>,
    differences: Vec<Difference>,
    notes: Vec<Difference>,
    used: Vec<(String, String, Option<u32>, String)>,
}

/// Compares every code object that the runtime finds with the original's.
pub(super) fn compare(
    pairs: &[Pair<'_>],
    registrations: &[(usize, Registration)],
    archives: &Archives<'_>,
    comparison: Comparison<'_>,
    report: &mut VerificationReport,
) -> Result<Used, Failure> {
    let Comparison { checks, reporter } = comparison;
    let wanted =
        |entry: &BundleEntry| entry.has_code() && entry.target().is_some_and(|target| checks.selection.takes(target));
    let sizes = registrations.iter().map(|(binary, registration)| {
        let bundle = &pairs[*binary].before.1.bundles[registration.bundle];
        bundle.entries.iter().filter(|entry| wanted(entry)).map(|entry| entry.size).sum::<u64>()
    });
    let bytes = sizes.sum();
    let stage = reporter.stage("Comparing GPU code", Some(bytes), Unit::Bytes);
    let work = registrations.iter().flat_map(|(binary, registration)| {
        let bundle = &pairs[*binary].before.1.bundles[registration.bundle];
        let pieces = code::pieces(bundle, wanted);
        pieces.into_iter().map(|piece| Work { binary: *binary, registration, piece })
    });
    let mut used = Used::new();
    let mut targets: Vec<BTreeSet<String>> = vec![BTreeSet::new(); pairs.len()];
    let memory = MemoryBudget::new(checks.memory);
    let done = rocwheel_pipeline::ordered(
        work,
        |work| {
            reporter.check()?;
            let bundle = &pairs[work.binary].before.1.bundles[work.registration.bundle];
            let _share = memory.take(code::memory(bundle, &work.piece, wanted));
            compare_piece(&pairs[work.binary], &work, archives, wanted, comparison)
        },
        |compared: Compared| {
            let binary = &mut report.binaries[compared.binary];
            for (target, bytes) in compared.equal {
                binary.code_objects += 1;
                binary.bytes += bytes;
                targets[compared.binary].insert(target);
            }
            report.differences.extend(compared.differences);
            report.notes.extend(compared.notes);
            used.extend(compared.used);
            Ok(())
        },
    );
    drop(stage);
    done?;
    for (binary, targets) in report.binaries.iter_mut().zip(targets) {
        binary.targets = targets.into_iter().collect();
        rocwheel_tables::target::sort(&mut binary.targets);
    }
    Ok(used)
}

fn compare_piece(
    pair: &Pair<'_>,
    work: &Work<'_>,
    archives: &Archives<'_>,
    wanted: impl Fn(&BundleEntry) -> bool,
    comparison: Comparison<'_>,
) -> Result<Compared, Failure> {
    let Registration { bundle, marker, index, .. } = work.registration;
    let (content, fat) = &pair.before;
    let reader = content.open().map_err(read_error(pair.path))?;
    let mut compared =
        Compared { binary: work.binary, equal: vec![], differences: vec![], notes: vec![], used: vec![] };
    let source =
        CodeSource { key: pair.path, reader: &reader, section: &fat.section, checksum: comparison.checks.checksum };
    code::visit(&source, (&fat.bundles[*bundle], &work.piece), wanted, |entry, code| {
        comparison.reporter.advance(entry.size);
        let Some(name) = entry.target() else { return Ok(()) };
        let (mut start, mut nothing) = (Vec::new(), io::empty());
        let (start, rest): (&[u8], &mut dyn Read) = match code {
            Code::Whole(code) => (code, &mut nothing),
            Code::Stream(stream) => {
                Read::take(&mut *stream, START).read_to_end(&mut start)?;
                (&start, stream)
            }
        };
        compared.notes.extend(lie(name, start).map(|what| work.registration.difference(pair, name, what)));
        let (archive, stored) = if let Some(target) = canonical(name) {
            match archives.find(pair.path, marker, *index, &target) {
                Ok(Found::Code { archive, target }) => (archive, target),
                // The lookups have reported it already.
                _ => return Ok(()),
            }
        } else {
            let what = "no GPU asks for code under this name";
            compared.notes.push(work.registration.difference(pair, name, what));
            let Some(archive) = archives.stored(pair.path, marker, *index, name) else {
                let what = "it is in no archive that the marker leads to";
                compared.differences.push(work.registration.difference(pair, name, what));
                return Ok(());
            };
            (archive, name.to_owned())
        };
        compared.used.push((archive.path.clone(), marker.kernel_name.clone(), Some(*index), stored.clone()));
        let Some(located) = archive.archive.find(&marker.kernel_name, *index, &stored) else { return Ok(()) };
        let opened = archive.content.open().map_err(|error| error.to_string());
        let difference = opened.and_then(|reader| {
            let found = archive.archive.first_difference(&reader, &located, &mut start.chain(rest));
            found.map_err(|error| with_causes(&error))
        });
        let what = match difference {
            Ok(None) => {
                compared.equal.push((stored, entry.size));
                return Ok(());
            }
            Ok(Some(_)) if located.original_size != entry.size => {
                let (found, had) = (located.original_size, entry.size);
                format!("the code object in `{}` has {found} bytes, it had {had}", archive.path)
            }
            Ok(Some(at)) => format!("the code object in `{}` differs at byte {at}", archive.path),
            Err(error) => format!("`{}`: {error}", archive.path),
        };
        compared.differences.push(work.registration.difference(pair, name, what));
        Ok(())
    })?;
    Ok(compared)
}

/// Describes a contradiction between a code object's own headers and the name it is stored under.
fn lie(name: &str, code: &[u8]) -> Option<String> {
    let named: TargetId = name.parse().ok()?;
    let (own, is_known) = code_object::target(&code).ok()??;
    (is_known && own.processor != named.processor)
        .then(|| format!("the code object says of itself that it is for {own}"))
}
