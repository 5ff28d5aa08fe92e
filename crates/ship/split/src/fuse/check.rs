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
use rocwheel_kpack::bundle::Checksum;
use rocwheel_kpack::fatbin::{FatBinary, Magic, Points};
use rocwheel_progress::{Reporter, Unit, with_causes};

use super::Error;
use super::Plan;
use super::combine::Binary;
use super::gather::{BuildPart, shown};
use crate::code::{self, Piece, Source};
use crate::verify::{View, contradiction, host_differences};

/// Checks all binaries of a plan in the fused tree.
///
/// # Errors
/// [`Error::NotFused`] for the first binary that differs from its builds.
pub(crate) fn check(plan: &Plan, view: &View, reporter: &dyn Reporter) -> Result<(), Error> {
    let _stage = reporter.stage("Checking the fused files", Some(plan.code().1), Unit::Bytes);
    plan.binaries.par_iter().try_for_each(|binary| {
        check_binary(binary, view, reporter).map_err(|error| match contradiction(&*binary.parts[0].content) {
            Some(why) if matches!(error, Error::NotFused { .. }) => {
                crate::Error::Contradiction { key: shown(&binary.path).to_owned(), why }.into()
            }
            _ => error,
        })
    })
}

fn check_binary(binary: &Binary, view: &View, reporter: &dyn Reporter) -> Result<(), Error> {
    let wrong = |why: String| Error::NotFused { path: binary.path.clone(), why };
    let content = view.file(&binary.path).ok_or_else(|| wrong("it does not exist".to_owned()))?;
    let read = |source| crate::Error::Read { key: binary.path.clone(), source };
    let reader = content.open().map_err(read)?;
    let fat = FatBinary::read(&reader, content.size()).map_err(|error| wrong(with_causes(&error)))?;
    let fat = fat.ok_or_else(|| wrong("it has no GPU code".to_owned()))?;
    let part = &binary.parts[0];
    if fat.wrappers.len() != part.fat.wrappers.len() {
        return Err(wrong(format!("it has {} wrappers, it had {}", fat.wrappers.len(), part.fat.wrappers.len())));
    }
    let mut seen = vec![None; fat.bundles.len()];
    for (number, wrapper) in fat.wrappers.iter().enumerate() {
        let (Magic::Fat, Points::Bundle(bundle)) = (wrapper.magic, wrapper.points) else {
            return Err(wrong(format!("wrapper {number} reaches no bundle")));
        };
        let reached: Vec<usize> = binary.parts.iter().map(|part| part.wrappers[number]).collect();
        match &seen[bundle] {
            None => {
                same_code(binary, (&reader, &fat), bundle, &reached, reporter)?;
                seen[bundle] = Some(reached);
            }
            Some(known) if *known == reached => {}
            Some(_) => return Err(wrong(format!("wrapper {number} shares a bundle that it did not share"))),
        }
    }
    let found = host_differences(part.content.as_ref(), &part.fat, content.as_ref(), &fat);
    found.map_err(&wrong)?.into_iter().next().map_or(Ok(()), |what| Err(wrong(what)))
}

fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn differs(binary: &Binary, id: &str, part: &BuildPart) -> Error {
    Error::NotFused { path: binary.path.clone(), why: format!("its code for `{id}` is not that of {}", part.build) }
}

/// Compares a bundle with the code that its wrappers reached in each build.
fn same_code(
    binary: &Binary,
    (reader, fat): (&dyn ReadAt, &FatBinary),
    bundle: usize,
    reached: &[usize],
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let wrong = |why: String| Error::NotFused { path: binary.path.clone(), why };
    let mut missing: Vec<Vec<&str>> = Vec::new();
    for (part, place) in binary.parts.iter().zip(reached) {
        missing.push(part.reached[*place].codes.iter().map(|code| code.id.as_str()).collect());
    }
    let found = &fat.bundles[bundle];
    let wanted = |entry: &rocwheel_kpack::BundleEntry| entry.size > 0;
    let sources: Vec<(&BuildPart, usize)> = binary.parts.iter().zip(reached.iter().copied()).collect();
    let mut sums: HashMap<String, u64> = HashMap::new();
    let fused = Source { key: &binary.path, reader, section: &fat.section, checksum: Checksum::Compare };
    code::visit_whole::<Error>(&fused, (found, &Piece::Whole), wanted, |entry, bytes| {
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
        if known { Ok(()) } else { Err(wrong(format!("its code for `{}` is from nowhere", entry.id))) }
    })?;
    for (part, place) in sources {
        let Some(bundle) = part.reached[place].codes.iter().find_map(|code| part.compressed(code)) else { continue };
        let reader = part.content.open().map_err(|source| crate::Error::Read { key: part.path.clone(), source })?;
        let found = &part.fat.bundles[bundle];
        let source =
            Source { key: &part.path, reader: &reader, section: &part.fat.section, checksum: Checksum::Compare };
        code::visit_whole::<Error>(&source, (found, &Piece::Whole), wanted, |entry, bytes| {
            if sums.get(&entry.id) == Some(&sum(bytes)) { Ok(()) } else { Err(differs(binary, &entry.id, part)) }
        })?;
    }
    match missing.iter().flatten().next() {
        Some(id) => Err(wrong(format!("it has no code for `{id}`"))),
        None => Ok(()),
    }
}
