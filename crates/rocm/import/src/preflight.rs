//! Input: the control archives of Debian packages, and the dynamic sections of the files of those
//! whose dependencies are not given. Output: the collisions and missing libraries of the set,
//! before anything is unpacked.
//!
//! Control archives are read in seconds, and have what is needed: digests of all files, the SONAMEs
//! of libraries, and the exact names of the packages with the libraries that others need. A
//! dependency may be anything, so a library counts as missing only if a file of the package needs
//! it. Packages are asked from the smallest on and only until every missing dependency is
//! explained: of ROCm 7.2.4 without its system libraries those are 30 MB of 2.2 GB.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read};

use positioned_io::ReadAt;
use rocwheel_content::archive_path::file_name;
use rocwheel_elf::Elf;
use rocwheel_progress::{Failure, Reporter, Unit, in_backticks};
use rocwheel_tables::DlopenTable;

use crate::closure::{is_loadable, other_version};
use crate::deb::{self, ControlArchive, upstream};
use crate::error::collision;
use crate::libraries::SystemLibraries;
use crate::members::Visitor;
use crate::options::ImportOptions;
use crate::plan::PlannedSource;
use crate::report::{Missing, Wanted};
use crate::table::{Table, without_release};
use crate::unpack::{is_candidate, owner};

/// Bytes at the beginning of a file that are kept until its dynamic section is found: the string
/// table of libLLVM ends at 9 MB, that of librocsparse at 2 MB.
const BEGINNING: u64 = 32 << 20;
/// Largest dynamic section that is read, in bytes.
const MAX_DYNAMIC: u64 = 1 << 20;

/// Checks what can be known without unpacking.
pub(crate) fn check(
    sources: &[PlannedSource],
    archives: &[ControlArchive],
    options: &ImportOptions,
    reporter: &dyn Reporter,
) -> Result<(), Failure> {
    two_runtimes(sources, archives)?;
    collisions(sources, archives)?;
    let set = Set::new(sources, archives);
    let missing = set.missing(reporter)?;
    let names: Vec<String> = sources.iter().map(|planned| planned.source.name.clone()).collect();
    options.judge(missing, &names).map(drop)
}

/// Refuses a set with two versions of the HIP runtime.
fn two_runtimes(sources: &[PlannedSource], archives: &[ControlArchive]) -> Result<(), Failure> {
    let runtimes = archives.iter().filter(|archive| {
        let version = archive.control.package.strip_prefix("libamdhip64-");
        version.is_some_and(|version| version.chars().all(|letter| letter.is_ascii_digit()))
            || without_release(&archive.control.package) == "hip-runtime-amd"
    });
    let mut runtimes: Vec<&ControlArchive> = runtimes.collect();
    runtimes.sort_by_key(|archive| -> Vec<u32> {
        upstream(&archive.control.version).split('.').map(|number| number.parse().unwrap_or(0)).collect()
    });
    let [older, .., newer] = runtimes[..] else { return Ok(()) };
    let older = older.control.package.clone();
    let of_rocm = sources.iter().filter(|planned| planned.source.artifact.is_some());
    let of_rocm: BTreeSet<&String> = of_rocm.map(|planned| &planned.source.name).collect();
    let users = archives.iter().filter(|archive| archive.control.depends.iter().any(|group| group.contains(&older)));
    let users = users.map(|archive| archive.control.package.clone()).filter(|name| of_rocm.contains(name));
    let users: Vec<String> = users.collect();
    let needed = match users.as_slice() {
        [] => String::new(),
        [user] => format!("; `{user}` needs the older one"),
        users => format!("; {} need the older one", in_backticks(users)),
    };
    let newer = &newer.control.package;
    let text = format!("the set has two HIP runtimes, `{older}` and `{newer}`, and a process can use only one{needed}");
    let names = in_backticks([vec![older], users].concat());
    Err(Failure::message(text).with_hint(format!("leave out {names}, or give packages of one release of ROCm")))
}

/// Refuses packages that have different files for one place, unless the table names the owner.
fn collisions(sources: &[PlannedSource], archives: &[ControlArchive]) -> Result<(), Failure> {
    let table = Table::embedded();
    let mut places: BTreeMap<String, (usize, &str, &str)> = BTreeMap::new();
    for (index, archive) in archives.iter().enumerate().filter(|(index, _)| sources[*index].source.artifact.is_some()) {
        for (path, digest) in &archive.digests {
            let place = table.flatten(path);
            if place.is_empty() || table.skip(&place).is_some() {
                continue;
            }
            let (other, input, known) = *places.entry(place.clone()).or_insert((index, path, digest));
            let packages = [other, index].map(|index| sources[index].source.name.as_str());
            if known != digest && table.owner_of(&place, packages).is_none() {
                let [first, second] =
                    [(other, input), (index, path)].map(|(index, path)| owner(&sources[index].source.name, path));
                return Err(collision(&place, &first, &second));
            }
        }
    }
    Ok(())
}

/// The packages of a set, and what they bring.
struct Set<'a> {
    sources: &'a [PlannedSource],
    archives: &'a [ControlArchive],
    /// Names of all packages, also those that they provide.
    packages: BTreeSet<&'a str>,
    /// SONAMEs and names of files of libraries.
    libraries: BTreeSet<String>,
}

impl<'a> Set<'a> {
    fn new(sources: &'a [PlannedSource], archives: &'a [ControlArchive]) -> Self {
        let controls = archives.iter().map(|archive| &archive.control);
        let packages = controls.flat_map(|control| control.provides.iter().chain([&control.package]));
        let files = archives.iter().flat_map(|archive| archive.digests.keys()).map(|path| file_name(path).to_owned());
        let sonames = archives.iter().flat_map(|archive| archive.sonames.iter().cloned());
        let libraries = files.filter(|name| name.contains(".so")).chain(sonames).collect();
        Self { sources, archives, packages: packages.map(String::as_str).collect(), libraries }
    }

    /// `true` if a package has the library. Its SONAME may be a link, which no list of files has,
    /// to a file with more numbers.
    fn has(&self, soname: &str) -> bool {
        let longer = format!("{soname}.");
        self.libraries.contains(soname)
            || self.libraries.range(longer.clone()..).next().is_some_and(|name| name.starts_with(&longer))
    }

    /// Finds missing libraries, sorted by SONAME.
    fn missing(&self, reporter: &dyn Reporter) -> Result<Vec<Missing>, Failure> {
        let mut suspects: Vec<(usize, Vec<&Vec<String>>)> = self.suspects();
        suspects.sort_by_key(|(index, _)| self.sources[*index].source.size);
        let mut missing: BTreeMap<String, Missing> = BTreeMap::new();
        let mut explained: BTreeSet<&Vec<String>> = BTreeSet::new();
        let _stage = (!suspects.is_empty()).then(|| reporter.stage("Reading dynamic sections", None, Unit::Items));
        for (index, groups) in suspects {
            let groups: Vec<&Vec<String>> = groups.into_iter().filter(|group| !explained.contains(group)).collect();
            if groups.is_empty() {
                continue;
            }
            reporter.check()?;
            for (library, wanted, path) in self.wants(index)? {
                let provided = groups.iter().find_map(|group| {
                    let mut packages = group.iter();
                    let package = packages.find(|name| SystemLibraries::embedded().is_package_of(&library, name))?;
                    Some((group, package))
                });
                let Some((group, package)) = provided.filter(|_| !self.has(&library)) else { continue };
                explained.insert(group);
                let one = Missing {
                    library: library.clone(),
                    wanted,
                    chain: vec![Table::embedded().flatten(&path)],
                    source: self.sources[index].source.name.clone(),
                    package: Some(package.clone()),
                    certain: true,
                    other_version: other_version(&library, self.libraries.iter().map(String::as_str)),
                };
                missing.entry(library).or_insert(one);
            }
        }
        Ok(missing.into_values().collect())
    }

    /// The packages that ROCm's packages need, directly or indirectly, each with those of its
    /// dependencies that are not given and may be libraries.
    fn suspects(&self) -> Vec<(usize, Vec<&'a Vec<String>>)> {
        let by_name: BTreeMap<&str, usize> = self
            .archives
            .iter()
            .enumerate()
            .map(|(index, archive)| (archive.control.package.as_str(), index))
            .collect();
        let mut queue: VecDeque<usize> =
            (0..self.sources.len()).filter(|index| self.sources[*index].source.artifact.is_some()).collect();
        let mut seen: BTreeSet<usize> = queue.iter().copied().collect();
        let mut suspects = Vec::new();
        while let Some(index) = queue.pop_front() {
            let mut absent = Vec::new();
            for group in &self.archives[index].control.depends {
                let given = group.iter().filter_map(|name| by_name.get(name.as_str()));
                queue.extend(given.filter(|given| seen.insert(**given)));
                let is_given = group.iter().any(|name| self.packages.contains(name.as_str()));
                let is_library = group.iter().any(|name| SystemLibraries::embedded().may_hold_library(name));
                if !is_given && is_library {
                    absent.push(group);
                }
            }
            if !absent.is_empty() {
                suspects.push((index, absent));
            }
        }
        suspects
    }

    /// The libraries that the files of a package need or load, with the path of the file.
    fn wants(&self, index: usize) -> Result<Vec<(String, Wanted, String)>, Failure> {
        let is_of_rocm = self.sources[index].source.artifact.is_some();
        let mut needs = Needs { is_of_rocm, wants: Vec::new() };
        deb::data(&self.sources[index].path, rayon::current_num_threads() as u32, &mut needs)?;
        let mut wants = needs.wants;
        wants.retain(|(library, ..)| !SystemLibraries::embedded().is_outside(library));
        wants.sort_by(|left, right| (&left.0, &left.2).cmp(&(&right.0, &right.2)));
        wants.dedup_by(|later, first| later.0 == first.0);
        Ok(wants)
    }
}

struct Needs {
    /// Of other packages only libraries are imported: what binutils' programs need does not count.
    is_of_rocm: bool,
    /// Library, kind of need, path.
    wants: Vec<(String, Wanted, String)>,
}

impl Visitor for Needs {
    fn file(&mut self, path: &str, size: u64, _: bool, content: &mut dyn Read) -> Result<(), Failure> {
        if !self.is_of_rocm && !is_candidate(&Table::embedded().flatten(path)) {
            return Ok(());
        }
        let name = file_name(path);
        let elf = Headers::read(content, size)?.and_then(|headers| Elf::read(&headers).ok().flatten());
        let elf = elf.filter(is_loadable);
        let loader = elf.as_ref().and_then(|elf| elf.soname.clone()).unwrap_or_else(|| name.to_owned());
        let loads = DlopenTable::embedded().of(&loader).iter().filter(|load| load.required);
        self.wants.extend(loads.map(|load| (load.pattern.clone(), Wanted::Loaded, path.to_owned())));
        let needed = elf.into_iter().flat_map(|elf| elf.needed);
        self.wants.extend(needed.map(|library| (library, Wanted::Needed, path.to_owned())));
        Ok(())
    }
}

/// The beginning of an ELF file and its dynamic section, from a stream. Everything else reads as
/// zeros.
struct Headers {
    beginning: Vec<u8>,
    dynamic: Vec<u8>,
    /// Offset of `dynamic` in the file, in bytes.
    at: u64,
    size: u64,
}

impl Headers {
    /// Reads a stream of `size` bytes as far as needed; `None` if it is not a 64-bit ELF file.
    fn read(content: &mut dyn Read, size: u64) -> io::Result<Option<Self>> {
        let mut beginning = Vec::new();
        Read::take(&mut *content, 4).read_to_end(&mut beginning)?;
        if beginning != b"\x7fELF" {
            return Ok(None);
        }
        Read::take(&mut *content, BEGINNING.min(size) - 4).read_to_end(&mut beginning)?;
        let mut headers = Self { beginning, dynamic: Vec::new(), at: size, size };
        let Some((offset, length)) = headers.dynamic_section() else { return Ok(Some(headers)) };
        let read = headers.beginning.len() as u64;
        if let Some(distance) = offset.checked_sub(read).filter(|_| length <= MAX_DYNAMIC) {
            io::copy(&mut Read::take(&mut *content, distance), &mut io::sink())?;
            Read::take(&mut *content, length).read_to_end(&mut headers.dynamic)?;
            headers.at = offset;
        }
        // The section headers are at the end, and nothing here needs them.
        if read < size
            && let Some(fields) = headers.beginning.get_mut(0x28..0x30)
        {
            fields.fill(0);
            headers.beginning[0x3c..0x40].fill(0);
        }
        Ok(Some(headers))
    }

    /// Offset and size of the segment `PT_DYNAMIC`, in bytes.
    fn dynamic_section(&self) -> Option<(u64, u64)> {
        const PT_DYNAMIC: u64 = 2;
        if self.number(4, 2)? != 0x0102 {
            return None;
        }
        let table = usize::try_from(self.number(0x20, 8)?).ok()?;
        let (entry, count) = (self.number(0x36, 2)? as usize, self.number(0x38, 2)?);
        let mut entries = (0..count as usize).map(|index| table.saturating_add(index * entry));
        let at = entries.find(|at| self.number(*at, 4) == Some(PT_DYNAMIC))?;
        Some((self.number(at.checked_add(8)?, 8)?, self.number(at.checked_add(0x20)?, 8)?))
    }

    fn number(&self, offset: usize, length: usize) -> Option<u64> {
        let bytes = self.beginning.get(offset..offset.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

impl ReadAt for Headers {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = buffer.len().min(left);
        let buffer = &mut buffer[..length];
        buffer.fill(0);
        for (at, bytes) in [(0, self.beginning.as_slice()), (self.at, self.dynamic.as_slice())] {
            let from = offset.max(at);
            let to = (offset + length as u64).min(at + bytes.len() as u64);
            if from < to {
                let (from_here, to_here) = ((from - offset) as usize, (to - offset) as usize);
                buffer[from_here..to_here].copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
            }
        }
        Ok(length)
    }
}
