//! Input: an open wheel. Output: its files with GPU code, and its files of kernel databases that are for some targets
//! only.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use kpack::Databases;
use kpack::fatbin::FatBinary;
use rayon::prelude::*;
use report::{Reporter, Unit as Counted};
use wheel::Content;
use wheel::read::{Kind, Listed, Wheel};

use super::Error;
use super::place::{Folders, Place, Scheme};
use wheel::read::Spool;

/// Programs of this size and more are looked at one after the other: unpacking them takes memory.
const LARGE: u64 = 8 << 20;

/// A file with GPU code.
pub(super) struct Binary {
    pub(super) member: String,
    pub(super) place: Place,
    pub(super) content: Arc<dyn Content>,
    /// The targets it has code for, with features.
    pub(super) targets: BTreeSet<String>,
    /// Bytes of its fat binary section.
    pub(super) section: u64,
}

/// A file of a kernel database.
pub(super) struct DatabaseFile {
    pub(super) member: String,
    pub(super) database: String,
    /// As the database calls it, with features.
    pub(super) target: String,
    pub(super) size: u64,
}

/// What a wheel holds.
pub(super) struct Survey {
    pub(super) binaries: Vec<Binary>,
    pub(super) databases: Vec<DatabaseFile>,
}

/// Looks at every member. `databases` are the names of those that are to be taken apart.
pub(super) fn survey(
    wheel: &Arc<Wheel>,
    folders: &Folders,
    databases: &dyn Fn(&str) -> bool,
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Result<Survey, Error> {
    let mut found = Survey { binaries: Vec::new(), databases: Vec::new() };
    let mut candidates: Vec<(&Listed, Place)> = Vec::new();
    for member in wheel.members().iter().filter(|member| member.kind == Kind::File && !folders.is_info(&member.name)) {
        let place = folders.place(&member.name);
        let listed = Databases::embedded().classify(&place.path).filter(|found| databases(found.database));
        match listed {
            Some(listed) if place.scheme != Scheme::Elsewhere => {
                // A file of a database is never taken for a library, as today's tools have it (kpack specification 5).
                if let Some(target) = listed.target {
                    let (database, size) = (listed.database.to_owned(), member.size);
                    found.databases.push(DatabaseFile { member: member.name.clone(), database, target, size });
                }
            }
            _ => candidates.push((member, place)),
        }
    }
    let spool = Spool::new(scratch);
    let programs: Vec<Option<(&Listed, Place)>> = candidates
        .into_par_iter()
        .map(|(member, place)| Ok(is_program(wheel, member)?.then_some((member, place))))
        .collect::<Result<_, Error>>()?;
    let (large, small): (Vec<_>, Vec<_>) = programs.into_iter().flatten().partition(|(member, _)| member.size >= LARGE);
    let bytes = large.iter().chain(&small).map(|(member, _)| member.size).sum();
    reporter.begin("Looking for GPU code", Some(bytes), Counted::Bytes);
    let look = |(member, place): (&Listed, Place)| {
        if reporter.interrupted() {
            return Err(code_error(wheel, crate::Error::Interrupted));
        }
        let binary = binary(wheel, member, place, &spool)?;
        reporter.advance(member.size);
        Ok(binary)
    };
    let looked = small.into_par_iter().map(look).collect::<Result<Vec<_>, Error>>().and_then(|mut binaries| {
        for candidate in large {
            binaries.push(look(candidate)?);
        }
        Ok(binaries)
    });
    reporter.end();
    found.binaries = looked?.into_iter().flatten().collect();
    found.binaries.sort_by(|left, right| left.member.cmp(&right.member));
    Ok(found)
}

/// Whether a member begins as ELF and PE files do.
pub(super) fn is_program(wheel: &Wheel, member: &Listed) -> Result<bool, Error> {
    if member.kind != Kind::File || member.size < 64 {
        return Ok(false);
    }
    let start = wheel.start(&member.name, 4)?;
    Ok(start == *b"\x7fELF" || start.starts_with(b"MZ"))
}

fn binary(wheel: &Arc<Wheel>, member: &Listed, place: Place, spool: &Spool) -> Result<Option<Binary>, Error> {
    let content = Arc::new(spool.member(wheel, &member.name)?);
    let key = || member.name.clone();
    let reader = content.open().map_err(|source| code_error(wheel, crate::Error::Read { key: key(), source }))?;
    let fat = FatBinary::read(&reader, content.size());
    let fat = fat.map_err(|source| code_error(wheel, crate::Error::GpuCode { key: key(), source }))?;
    Ok(fat.map(|fat| {
        let entries = fat.bundles.iter().flat_map(|bundle| &bundle.entries).filter(|entry| entry.size > 0);
        let targets = entries.filter_map(kpack::Entry::target).map(str::to_owned).collect();
        let section = fat.section.end - fat.section.start;
        Binary { member: member.name.clone(), place, content: content.clone(), targets, section }
    }))
}

/// An error of the engine, with the wheel it is about.
pub(super) fn code_error(wheel: &Wheel, source: crate::Error) -> Error {
    Error::Code { path: wheel.path().to_owned(), source: Box::new(source) }
}
