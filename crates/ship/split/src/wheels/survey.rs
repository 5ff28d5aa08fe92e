//! Input: an open wheel. Output: its files with GPU code, and its files of kernel databases that
//! are for some targets only. Of the programs only those with GPU code stay unpacked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use rocwheel_archive::{Listed, MemberKind};
use rocwheel_content::{Content, Spool};
use rocwheel_kpack::fatbin::FatBinary;
use rocwheel_progress::{Failure, Interrupted, Reporter, Unit as Counted};
use rocwheel_tables::Databases;
use rocwheel_wheel::read::MemberContent;
use rocwheel_wheel::read::Wheel;

use super::install_paths::{Folders, Place, Scheme};
use crate::error::{gpu_code_error, read_error};

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

pub(super) struct DatabaseFile {
    pub(super) member: String,
    pub(super) database: String,
    /// Name of the target in the database, with features.
    pub(super) target: String,
    pub(super) size: u64,
}

/// The parts of a wheel that a split treats specially.
pub(super) struct Survey {
    pub(super) binaries: Vec<Binary>,
    pub(super) databases: Vec<DatabaseFile>,
    /// Names of programs without GPU code.
    pub(super) plain: BTreeSet<String>,
}

#[derive(Default)]
pub(super) struct Programs {
    /// Unpacked programs with GPU code, by member name.
    pub(super) fat: BTreeMap<String, Arc<dyn Content>>,
    /// Names of programs without GPU code.
    pub(super) plain: BTreeSet<String>,
}

impl Programs {
    pub(super) fn new(survey: &Survey) -> Programs {
        let fat = survey.binaries.iter().map(|binary| (binary.member.clone(), Arc::clone(&binary.content)));
        Programs { fat: fat.collect(), plain: survey.plain.clone() }
    }

    /// `true` if the member was unpacked, and its CRC-32 compared, when programs were searched for.
    pub(super) fn is_known(&self, member: &str) -> bool {
        self.fat.contains_key(member) || self.plain.contains(member)
    }
}

/// Examines every member. `databases` is `true` for the names of databases that are to be split.
pub(super) fn survey(
    wheel: &Arc<Wheel>,
    folders: &Folders,
    databases: &dyn Fn(&str) -> bool,
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Result<Survey, Failure> {
    let mut found = Survey { binaries: Vec::new(), databases: Vec::new(), plain: BTreeSet::new() };
    let mut candidates: Vec<(&Listed, Place)> = Vec::new();
    for member in
        wheel.members().iter().filter(|member| member.kind == MemberKind::File && !folders.is_info(&member.name))
    {
        let place = folders.place(&member.name);
        let listed = Databases::embedded().classify(&place.path).filter(|found| databases(found.database));
        match listed {
            Some(listed) if place.scheme != Scheme::Elsewhere => {
                // A file of a database is never treated as a library; existing tools do the same
                // (kpack specification 5).
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
        .collect::<Result<_, Failure>>()?;
    let mut programs: Vec<(&Listed, Place)> = programs.into_iter().flatten().collect();
    // The longest program comes first, or at the end one thread would work on it alone.
    programs.sort_by_key(|(member, _)| std::cmp::Reverse(member.size));
    let bytes = programs.iter().map(|(member, _)| member.size).sum();
    let stage = reporter.stage("Looking for GPU code", Some(bytes), Counted::Bytes);
    rocwheel_pipeline::ordered(
        programs.into_iter(),
        |(member, place)| -> Result<Result<Binary, String>, Failure> {
            if reporter.interrupted() {
                return Err(code_error(wheel)(Interrupted));
            }
            let binary = binary(wheel, member, place, &spool)?;
            reporter.advance(member.size);
            Ok(binary.ok_or_else(|| member.name.clone()))
        },
        |looked| {
            match looked {
                Ok(binary) => found.binaries.push(binary),
                Err(plain) => drop(found.plain.insert(plain)),
            }
            Ok(())
        },
    )?;
    drop(stage);
    found.binaries.sort_by(|left, right| left.member.cmp(&right.member));
    Ok(found)
}

/// `true` if a member begins like ELF and PE files.
pub(super) fn is_program(wheel: &Wheel, member: &Listed) -> Result<bool, Failure> {
    if member.kind != MemberKind::File || member.size < 64 {
        return Ok(false);
    }
    let start = wheel.start(&member.name, 4)?;
    Ok(start == *b"\x7fELF" || start.starts_with(b"MZ"))
}

fn binary(wheel: &Arc<Wheel>, member: &Listed, place: Place, spool: &Spool) -> Result<Option<Binary>, Failure> {
    let content = Arc::new(MemberContent::spooled(wheel, &member.name, spool)?);
    let looked = content.look(|reader| FatBinary::read(reader, content.size()).transpose());
    let fat = looked.map_err(read_error(&member.name)).map_err(code_error(wheel))?.transpose();
    let fat = fat.map_err(gpu_code_error(&member.name)).map_err(code_error(wheel))?;
    Ok(fat.map(|fat| {
        let entries = fat.bundles.iter().flat_map(|bundle| &bundle.entries).filter(|entry| entry.has_code());
        let targets = entries.filter_map(rocwheel_kpack::BundleEntry::target).map(str::to_owned).collect();
        let section = fat.section.end - fat.section.start;
        Binary { member: member.name.clone(), place, content: content.clone(), targets, section }
    }))
}

/// Adds the path of the wheel to an error of the engine.
pub(super) fn code_error<E: Into<Failure>>(wheel: &Wheel) -> impl Fn(E) -> Failure {
    move |error| Failure::attempt(format!("could not split `{}`", wheel.path().display()))(error)
}
