//! Input: a plan and the files made from it. Output: an error for the first difference to the
//! builds.
//!
//! The files are read again. Every wrapper must reach a bundle with exactly the code objects that
//! it reached in the builds, byte for byte, and the host code must be that of the first build.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

use positioned_io::ReadAt;
use rayon::prelude::*;
use rocwheel_content::Content;
use rocwheel_kpack::BundleEntry;
use rocwheel_kpack::bundle::Checksum;
use rocwheel_kpack::fatbin::{FatBinary, Magic, Points};
use rocwheel_progress::{Exit, Failure, Reporter, Unit, with_causes};

use super::Plan;
use super::combine::Binary;
use super::gather::{BuildPart, shown};
use rocwheel_split::code::{self, CodeSource, Piece};
use rocwheel_split::error::{contradiction_error, read_error};
use rocwheel_split::verify::{View, contradiction, host_differences};

/// Checks all binaries of a plan in the fused tree.
///
/// # Errors
/// The first binary that differs from its builds. That is a fault of its file if its own headers
/// contradict each other.
pub(crate) fn check(plan: &Plan, view: &View, reporter: &dyn Reporter) -> Result<(), Failure> {
    let _stage = reporter.stage("Checking the fused files", Some(plan.code().1), Unit::Bytes);
    plan.binaries.par_iter().try_for_each(|binary| {
        check_binary(binary, view, reporter).map_err(|error| match contradiction(&*binary.parts[0].content) {
            Some(why) if error.exit() == Exit::Bug => contradiction_error(shown(&binary.path), &why),
            _ => error,
        })
    })
}

fn check_binary(binary: &Binary, view: &View, reporter: &dyn Reporter) -> Result<(), Failure> {
    let content = view.file(&binary.path).ok_or_else(|| not_fused(binary, "it does not exist"))?;
    let reader = content.open().map_err(read_error(&binary.path))?;
    let fat = FatBinary::read(&reader, content.size()).map_err(|error| not_fused(binary, &with_causes(&error)))?;
    let fat = fat.ok_or_else(|| not_fused(binary, "it has no GPU code"))?;
    let part = &binary.parts[0];
    if fat.wrappers.len() != part.fat.wrappers.len() {
        return Err(not_fused(
            binary,
            &format!("it has {} wrappers, it had {}", fat.wrappers.len(), part.fat.wrappers.len()),
        ));
    }
    let mut seen = vec![None; fat.bundles.len()];
    for (number, wrapper) in fat.wrappers.iter().enumerate() {
        let (Magic::Fat, Points::Bundle(bundle)) = (wrapper.magic, wrapper.points) else {
            return Err(not_fused(binary, &format!("wrapper {number} reaches no bundle")));
        };
        let reached: Vec<usize> = binary.parts.iter().map(|part| part.wrappers[number]).collect();
        match &seen[bundle] {
            None => {
                same_code(binary, (&reader, &fat), bundle, &reached, reporter)?;
                seen[bundle] = Some(reached);
            }
            Some(known) if *known == reached => {}
            Some(_) => {
                return Err(not_fused(binary, &format!("wrapper {number} shares a bundle that it did not share")));
            }
        }
    }
    let found = host_differences(part.content.as_ref(), &part.fat, content.as_ref(), &fat);
    match found.map_err(|why| not_fused(binary, &why))?.first() {
        Some(what) => Err(not_fused(binary, what)),
        None => Ok(()),
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The result does not hold the same code as the input: nothing is written. The writer contradicts
/// itself, which is not the user's fault.
fn not_fused(binary: &Binary, why: &str) -> Failure {
    Failure::message(format!("the fused `{}` is not what went in: {why}", binary.path)).with_exit(Exit::Bug)
}

fn differs(binary: &Binary, id: &str, part: &BuildPart) -> Failure {
    not_fused(binary, &format!("its code for `{id}` is not that of {}", part.build))
}

/// Compares a bundle with the code that its wrappers reached in each build.
fn same_code(
    binary: &Binary,
    (reader, fat): (&dyn ReadAt, &FatBinary),
    bundle: usize,
    reached: &[usize],
    reporter: &dyn Reporter,
) -> Result<(), Failure> {
    let mut missing: Vec<Vec<&str>> = Vec::new();
    for (part, place) in binary.parts.iter().zip(reached) {
        missing.push(part.reached[*place].codes.iter().map(|code| code.id.as_str()).collect());
    }
    let found = &fat.bundles[bundle];
    let sources: Vec<(&BuildPart, usize)> = binary.parts.iter().zip(reached.iter().copied()).collect();
    let mut sums: HashMap<String, u64> = HashMap::new();
    let fused = CodeSource { key: &binary.path, reader, section: &fat.section, checksum: Checksum::Compare };
    code::visit_whole(&fused, (found, &Piece::Whole), BundleEntry::has_code, |entry, bytes| {
        reporter.check()?;
        let mut known = false;
        for ((part, place), missing) in sources.iter().zip(&mut missing) {
            let Some(code) = part.reached[*place].codes.iter().find(|code| code.id == entry.id) else { continue };
            known = true;
            missing.retain(|id| *id != entry.id);
            match part.compressed(code) {
                // These are read in one pass below, because reading a single code object costs
                // decompressing everything before it.
                Some(_) => drop(sums.insert(entry.id.clone(), sum(bytes))),
                None if part.code(code)? != bytes => return Err(differs(binary, &entry.id, part)),
                None => {}
            }
        }
        reporter.advance(entry.size);
        if known { Ok(()) } else { Err(not_fused(binary, &format!("its code for `{}` is from nowhere", entry.id))) }
    })?;
    for (part, place) in sources {
        let Some(bundle) = part.reached[place].codes.iter().find_map(|code| part.compressed(code)) else { continue };
        let reader = part.content.open().map_err(read_error(&part.path))?;
        let found = &part.fat.bundles[bundle];
        let source =
            CodeSource { key: &part.path, reader: &reader, section: &part.fat.section, checksum: Checksum::Compare };
        code::visit_whole(&source, (found, &Piece::Whole), BundleEntry::has_code, |entry, bytes| {
            if sums.get(&entry.id) == Some(&sum(bytes)) { Ok(()) } else { Err(differs(binary, &entry.id, part)) }
        })?;
    }
    match missing.iter().flatten().next() {
        Some(id) => Err(not_fused(binary, &format!("it has no code for `{id}`"))),
        None => Ok(()),
    }
}
