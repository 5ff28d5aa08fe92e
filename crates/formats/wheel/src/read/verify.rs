//! Input: an open wheel. Output: the contradictions between its RECORD, its members and its names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rayon::prelude::*;
use rocwheel_archive::{Listed, MemberKind};
use rocwheel_content::{HashAlgorithm, Reader};
use serde::{Deserialize, Serialize};

use super::Wheel;
use crate::Error;
use crate::names::canonical_name;
use crate::record::{Hash, RecordRow};

/// A contradiction in a wheel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WheelProblem {
    /// The file name and the `.dist-info` folder, which is given, name different distributions or
    /// versions.
    FileName(String),
    /// RECORD names a file that does not exist.
    Missing(String),
    /// A file that RECORD does not name.
    Unrecorded(String),
    /// RECORD names a file twice.
    Repeated(String),
    /// RECORD has no hash, or one of a kind that installers refuse.
    NoHash(String),
    /// The bytes do not have the recorded hash.
    Hash(String),
    /// The size is not the recorded one.
    Size(String),
    /// The bytes cannot be unpacked, or their CRC is wrong.
    Unreadable(String),
}

impl fmt::Display for WheelProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WheelProblem::FileName(info) => write!(formatter, "`{info}` does not belong to the name of the file"),
            WheelProblem::Missing(name) => write!(formatter, "`{name}` is in RECORD but not in the wheel"),
            WheelProblem::Unrecorded(name) => write!(formatter, "`{name}` is in the wheel but not in RECORD"),
            WheelProblem::Repeated(name) => write!(formatter, "`{name}` is in RECORD more than once"),
            WheelProblem::NoHash(name) => write!(formatter, "`{name}` has no SHA-256 in RECORD"),
            WheelProblem::Hash(name) => write!(formatter, "`{name}` does not have the hash that RECORD says"),
            WheelProblem::Size(name) => write!(formatter, "`{name}` does not have the size that RECORD says"),
            WheelProblem::Unreadable(name) => write!(formatter, "`{name}` cannot be unpacked"),
        }
    }
}

/// Names of RECORD and its signatures, which RECORD lists without a hash.
pub(crate) fn unhashed(info: &str) -> BTreeSet<String> {
    ["", ".jws", ".p7s"].iter().map(|suffix| format!("{info}/RECORD{suffix}")).collect()
}

/// The caller's knowledge about a member before it is compared with its row of RECORD.
pub enum Known {
    /// No knowledge; the member is unpacked.
    Nothing,
    /// The bytes of the member. Their CRC was compared when they were unpacked.
    Bytes(Reader),
    /// The member is a copy of one whose hash is correct. Only the size is compared.
    Copy,
}

/// The method of hashing a member.
enum Work<'a> {
    Known(Known),
    /// On all threads; the chunks of its stream begin at these positions.
    Chunks(&'a [u64]),
}

/// Smaller members are hashed by one thread each; the size is in bytes.
const LARGE: u64 = 64 << 20;

impl Wheel {
    /// Unpacks every member in windows and compares it with its row of RECORD. The problems are
    /// sorted; the list is empty if there are none.
    pub fn verify(&self) -> Result<Vec<WheelProblem>, Error> {
        self.verify_with(&|_, _| Known::Nothing)
    }

    /// Like [`Wheel::verify`] without unpacking: missing hashes are found, wrong ones are not.
    pub fn verify_rows(&self) -> Result<Vec<WheelProblem>, Error> {
        self.verify_with(&|_, _| Known::Copy)
    }

    /// Like [`Wheel::verify`], but does not unpack members that `known` has an answer for.
    pub fn verify_with(
        &self,
        known: &(dyn Fn(&Listed, &RecordRow) -> Known + Sync),
    ) -> Result<Vec<WheelProblem>, Error> {
        let mut problems = Vec::new();
        if !self.name_agrees() {
            problems.push(WheelProblem::FileName(self.info().to_owned()));
        }
        let mut rows: BTreeMap<String, RecordRow> = BTreeMap::new();
        for row in self.record()? {
            if let Some(earlier) = rows.insert(row.path.clone(), row) {
                problems.push(WheelProblem::Repeated(earlier.path));
            }
        }
        let unhashed = unhashed(self.info());
        let mut pairs = Vec::new();
        for member in self.members().iter().filter(|member| member.kind != MemberKind::Directory) {
            match rows.remove(&member.name) {
                Some(_) if unhashed.contains(&member.name) => {}
                Some(row) => pairs.push((member, row)),
                // RECORD does not list its signatures.
                None if member.name == self.record_name() || !unhashed.contains(&member.name) => {
                    problems.push(WheelProblem::Unrecorded(member.name.clone()));
                }
                None => {}
            }
        }
        // Starts with the largest members, so that none of them runs alone at the end.
        pairs.sort_by_key(|(member, _)| std::cmp::Reverse(member.size));
        let mut rest = Vec::new();
        for (member, row) in pairs {
            let starts = if member.size < LARGE { None } else { self.zip().chunks(member) };
            let Some(starts) = starts else {
                rest.push((member, row, None));
                continue;
            };
            match known(member, &row) {
                Known::Nothing => problems.extend(self.compare(member, &row, Work::Chunks(&starts))),
                other => rest.push((member, row, Some(other))),
            }
        }
        problems.par_extend(rest.into_iter().par_bridge().flat_map_iter(|(member, row, answer)| {
            self.compare(member, &row, Work::Known(answer.unwrap_or_else(|| known(member, &row))))
        }));
        problems.extend(rows.into_keys().map(WheelProblem::Missing));
        problems.sort();
        Ok(problems)
    }

    fn compare(&self, member: &Listed, row: &RecordRow, work: Work<'_>) -> Vec<WheelProblem> {
        let mut problems = Vec::new();
        let recorded = Hash::parse(&row.hash);
        if recorded.is_none() {
            problems.push(WheelProblem::NoHash(member.name.clone()));
        }
        if row.size.is_some_and(|size| size != member.size) {
            problems.push(WheelProblem::Size(member.name.clone()));
        }
        let algorithm = recorded.as_ref().map_or(HashAlgorithm::Sha256, Hash::algorithm);
        let known = match work {
            Work::Known(Known::Copy) => return problems,
            Work::Known(Known::Bytes(reader)) => {
                Some(Hash::of(algorithm, |hasher| hasher.read_at(&reader, member.size)).map_err(drop))
            }
            Work::Known(Known::Nothing) => None,
            Work::Chunks(starts) => self.hash_of_chunks(member, starts, algorithm).map(Ok),
        };
        match known.unwrap_or_else(|| self.hash(member, algorithm, || Ok(())).map_err(drop)) {
            Ok(actual) if recorded.is_some_and(|recorded| recorded != actual) => {
                problems.push(WheelProblem::Hash(member.name.clone()));
            }
            Ok(_) => {}
            Err(()) => problems.push(WheelProblem::Unreadable(member.name.clone())),
        }
        problems
    }

    /// The hash of a member whose chunks all threads unpack; `None` if it does not consist of them.
    fn hash_of_chunks(&self, member: &Listed, starts: &[u64], algorithm: HashAlgorithm) -> Option<Hash> {
        let mut is_whole = false;
        let hash = Hash::of(algorithm, |hasher| {
            is_whole = self.zip().each_chunk(member, starts, |bytes| hasher.update(bytes))?;
            Ok::<_, rocwheel_archive::Error>(())
        });
        hash.ok().filter(|_| is_whole)
    }

    /// `true` if the `.dist-info` folder has the distribution and version of the file name,
    /// possibly spelled differently.
    pub fn name_agrees(&self) -> bool {
        let stem = self.info().strip_suffix(".dist-info").unwrap_or_default();
        stem.rsplit_once('-').is_some_and(|(distribution, version)| {
            canonical_name(distribution) == canonical_name(&self.name.distribution)
                && same_version(version, &self.name.version)
        })
    }
}

/// `true` if two versions are equal, in any spelling that file names use.
pub fn same_version(one: &str, other: &str) -> bool {
    match [one, other].map(|text| text.replace('_', "-").parse::<pep440_rs::Version>()) {
        [Ok(one), Ok(other)] => one == other,
        _ => one == other,
    }
}
