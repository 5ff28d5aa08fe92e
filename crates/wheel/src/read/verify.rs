//! Input: an open wheel. Output: what its RECORD, its members and its names say that is not so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;

use positioned_io::ReadAt as _;
use rayon::prelude::*;

use super::{Kind, Listed, Wheel};
use crate::Error;
use crate::names::canonical_name;
use crate::record::{Algorithm, Hash, Row};
use rocwheel_content::Reader;

/// A way in which a wheel contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// The file name and the `.dist-info` folder, which is given, are of different distributions or
    /// versions.
    FileName(String),
    /// RECORD names a file that is not there.
    Missing(String),
    /// A file that RECORD does not name.
    Unrecorded(String),
    /// RECORD names a file twice.
    Repeated(String),
    /// RECORD gives no hash, or one of a kind that installers refuse.
    NoHash(String),
    /// The bytes are not those that were recorded.
    Hash(String),
    /// The size is not the one that was recorded.
    Size(String),
    /// The bytes cannot be unpacked, or their CRC is wrong.
    Unreadable(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::FileName(info) => write!(formatter, "`{info}` does not belong to the name of the file"),
            Problem::Missing(name) => write!(formatter, "`{name}` is in RECORD but not in the wheel"),
            Problem::Unrecorded(name) => write!(formatter, "`{name}` is in the wheel but not in RECORD"),
            Problem::Repeated(name) => write!(formatter, "`{name}` is in RECORD more than once"),
            Problem::NoHash(name) => write!(formatter, "`{name}` has no SHA-256 in RECORD"),
            Problem::Hash(name) => write!(formatter, "`{name}` does not have the hash that RECORD says"),
            Problem::Size(name) => write!(formatter, "`{name}` does not have the size that RECORD says"),
            Problem::Unreadable(name) => write!(formatter, "`{name}` cannot be unpacked"),
        }
    }
}

/// Names of RECORD and its signatures, which have no hash in it.
pub(crate) fn unhashed(info: &str) -> BTreeSet<String> {
    ["", ".jws", ".p7s"].iter().map(|suffix| format!("{info}/RECORD{suffix}")).collect()
}

/// What a caller knows about a member before it is compared with its row of RECORD.
pub enum Known {
    /// Nothing: it is unpacked.
    Nothing,
    /// These are its bytes; the CRC of the archive was compared when they were unpacked.
    Bytes(Reader),
    /// That the hash is as right as that of the member it is a copy of. The size is compared.
    Copy,
}

/// How the hash of a member is found.
enum Work<'a> {
    Known(Known),
    /// With all threads: the chunks of its stream begin at these places.
    Chunks(&'a [u64]),
}

/// Smaller members have one thread each.
const LARGE: u64 = 64 << 20;
/// Bytes that are hashed at a time.
const WINDOW: usize = 1 << 18;

impl Wheel {
    /// Unpacks every member, in windows, and compares it with its row of RECORD. Sorted; empty when
    /// all is well.
    pub fn verify(&self) -> Result<Vec<Problem>, Error> {
        self.verify_with(&|_, _| Known::Nothing)
    }

    /// As [`Wheel::verify`], but nothing is unpacked: a wrong hash is not noticed, one that is
    /// missing is.
    pub fn verify_rows(&self) -> Result<Vec<Problem>, Error> {
        self.verify_with(&|_, _| Known::Copy)
    }

    /// As [`Wheel::verify`], without unpacking what `known` answers for.
    pub fn verify_with(&self, known: &(dyn Fn(&Listed, &Row) -> Known + Sync)) -> Result<Vec<Problem>, Error> {
        let mut problems = Vec::new();
        if !self.name_agrees() {
            problems.push(Problem::FileName(self.info().to_owned()));
        }
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        for row in self.record()? {
            if let Some(earlier) = rows.insert(row.path.clone(), row) {
                problems.push(Problem::Repeated(earlier.path));
            }
        }
        let unhashed = unhashed(self.info());
        let mut pairs = Vec::new();
        for member in self.members().iter().filter(|member| member.kind != Kind::Directory) {
            match rows.remove(&member.name) {
                Some(_) if unhashed.contains(&member.name) => {}
                Some(row) => pairs.push((member, row)),
                // Signatures of RECORD are not in it.
                None if member.name == self.record_name() || !unhashed.contains(&member.name) => {
                    problems.push(Problem::Unrecorded(member.name.clone()));
                }
                None => {}
            }
        }
        // The largest ones first, so that none of them is left alone at the end.
        pairs.sort_by_key(|(member, _)| std::cmp::Reverse(member.size));
        let mut rest = Vec::new();
        for (member, row) in pairs {
            let starts = if member.size < LARGE { None } else { self.packed(member).chunks().unwrap_or_default() };
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
        problems.extend(rows.into_keys().map(Problem::Missing));
        problems.sort();
        Ok(problems)
    }

    fn compare(&self, member: &Listed, row: &Row, work: Work<'_>) -> Vec<Problem> {
        let mut problems = Vec::new();
        let name = || member.name.clone();
        let recorded = Hash::parse(&row.hash);
        if recorded.is_none() {
            problems.push(Problem::NoHash(name()));
        }
        if row.size.is_some_and(|size| size != member.size) {
            problems.push(Problem::Size(name()));
        }
        let algorithm = recorded.as_ref().map_or(Hash::SHA256, Hash::algorithm);
        let whole = || self.hash(member, algorithm, || Ok(())).map_err(drop);
        let actual = match work {
            Work::Known(Known::Copy) => return problems,
            Work::Known(Known::Bytes(reader)) => hash(&reader, member.size, algorithm).map_err(drop),
            Work::Known(Known::Nothing) => whole(),
            Work::Chunks(starts) => match self.packed(member).hash_of_chunks(starts, algorithm) {
                Ok(Some(hash)) => Ok(hash),
                Ok(None) | Err(_) => whole(),
            },
        };
        match actual {
            Ok(actual) if recorded.is_some_and(|recorded| recorded != actual) => problems.push(Problem::Hash(name())),
            Ok(_) => {}
            Err(()) => problems.push(Problem::Unreadable(name())),
        }
        problems
    }

    /// Whether the `.dist-info` folder belongs to the distribution and version that the file name
    /// says, whatever way they are written.
    pub fn name_agrees(&self) -> bool {
        let stem = self.info().strip_suffix(".dist-info").unwrap_or_default();
        stem.rsplit_once('-').is_some_and(|(distribution, version)| {
            canonical_name(distribution) == canonical_name(&self.name.distribution)
                && same_version(version, &self.name.version)
        })
    }
}

fn hash(reader: &Reader, size: u64, algorithm: Algorithm) -> io::Result<Hash> {
    let mut context = ring::digest::Context::new(algorithm);
    let mut window = vec![0; WINDOW.min(size as usize)];
    let mut position = 0;
    while position < size {
        let length = (size - position).min(WINDOW as u64) as usize;
        reader.read_exact_at(position, &mut window[..length])?;
        context.update(&window[..length]);
        position += length as u64;
    }
    Ok(Hash::new(context.finish()))
}

/// Whether two versions are one, however they are written in file names.
pub fn same_version(one: &str, other: &str) -> bool {
    let parse = |text: &str| text.replace('_', "-").parse::<pep440_rs::Version>();
    match (parse(one), parse(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}
