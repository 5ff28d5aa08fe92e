//! Input: a plan and the files made of it. Output: nothing, or what is not as it was.
//!
//! The files are read afresh. Every wrapper has to reach a bundle with exactly the code objects that it reached in the
//! builds, byte for byte; the host code has to be the first build's.

use kpack::fatbin::{FatBinary, Format, Magic, Points};
use positioned_io::ReadAt;
use rayon::prelude::*;
use report::{Reporter, Unit};
use wheel::Content;

use super::Plan;
use super::combine::Binary;
use super::gather::Part;
use crate::code::{self, Piece};
use crate::error::Error;
use crate::verify::{View, elf_file, pe_file, with_causes};

/// Checks all binaries of a plan in the fused tree.
///
/// # Errors
/// [`Error::NotFused`] for the first that is not what went in.
pub(crate) fn check(plan: &Plan, view: &View, reporter: &dyn Reporter) -> Result<(), Error> {
    reporter.begin("Checking the fused files", Some(plan.code().1), Unit::Bytes);
    let checked = plan.binaries.par_iter().try_for_each(|binary| check_binary(binary, view, reporter));
    reporter.end();
    checked
}

fn check_binary(binary: &Binary, view: &View, reporter: &dyn Reporter) -> Result<(), Error> {
    let wrong = |why: String| Error::NotFused { path: binary.path.clone(), why };
    let content = view.file(&binary.path).ok_or_else(|| wrong("it is not there".to_owned()))?;
    let read = |source| Error::Read { key: binary.path.clone(), source };
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
    let found = match fat.format {
        Format::Elf => elf_file::compare(content.as_ref(), &fat, part.content.as_ref(), &part.fat),
        Format::Pe => pe_file::compare(content.as_ref(), &fat, part.content.as_ref(), &part.fat),
    };
    let found = found.map_err(&wrong)?;
    // The build that lent its host code may have had GPU code of its own.
    let host = |what: &&String| !what.contains("fat binary section");
    match found.iter().find(host) {
        Some(what) => Err(wrong(what.clone())),
        None => Ok(()),
    }
}

/// Compares a bundle with what the wrappers that reach it reached in each build.
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
    let wanted = |entry: &kpack::Entry| entry.size > 0;
    let sources: Vec<(&Part, usize)> = binary.parts.iter().zip(reached.iter().copied()).collect();
    code::visit(&binary.path, reader, &fat.section, (found, &Piece::Whole), wanted, |entry, bytes| {
        if reporter.interrupted() {
            return Err(Error::Interrupted);
        }
        let mut known = false;
        for ((part, place), missing) in sources.iter().zip(&mut missing) {
            let Some(code) = part.reached[*place].codes.iter().find(|code| code.id == entry.id) else { continue };
            known = true;
            missing.retain(|id| *id != entry.id);
            // Of a compressed bundle every code object would cost reading all of it; those were compared when written.
            if part.compressed(code).is_none() && part.code(code)? != bytes {
                return Err(wrong(format!("its code for `{}` is not that of {}", entry.id, part.build)));
            }
        }
        reporter.advance(entry.size);
        if known { Ok(()) } else { Err(wrong(format!("its code for `{}` is from nowhere", entry.id))) }
    })?;
    match missing.iter().flatten().next() {
        Some(id) => Err(wrong(format!("it has no code for `{id}`"))),
        None => Ok(()),
    }
}
