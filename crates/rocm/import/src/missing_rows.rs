//! Input: a folder of Debian packages. Output: rows that the tables lack for ROCm's packages.
//!
//! Every library is unpacked into a temporary file without a name, one for each thread, because its
//! SONAME and the targets of its GPU code are anywhere in it.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rayon::prelude::*;
use regex::Regex;
use rocwheel_progress::{Failure, Reporter, Unit};
use rocwheel_tables::missing_rows::Gap;
use rocwheel_tables::providers::family;
use rocwheel_tables::{LibraryOwner, Owners, Providers, RocmTables, TargetId};

use crate::closure::is_loadable;
use crate::deb::{self, Control};
use crate::error::with_storage_advice;
use crate::inspect::inspect_file;
use crate::libraries::license;
use crate::members::Visitor;
use crate::table::Table;

/// Words in the maintainer or homepage of ROCm's packages.
const MARKS: [&str; 2] = ["rocm", "radeonopencompute"];
/// The directory that AMD's own packages install into.
const PREFIX: &str = "opt/rocm";

/// Finds artifacts, libraries, kernel databases and GPU targets of the ROCm packages in a folder
/// that `tables` lack. Sorted.
pub fn missing_rows(folder: &Path, tables: &RocmTables, reporter: &dyn Reporter) -> Result<Vec<Gap>, Failure> {
    let mut packages: Vec<PathBuf> = Vec::new();
    for entry in fs_err::read_dir(folder).map_err(|error| with_storage_advice(error.into(), folder))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "deb") {
            packages.push(path);
        }
    }
    packages.sort();
    if packages.is_empty() {
        return Err(Failure::message(format!("`{}` has no .deb files", folder.display())));
    }
    let rules = Table::of(tables)?;
    let mut known = Known {
        tables,
        libraries: Providers::of_tables(tables),
        owners: Owners::of_tables(tables),
        gaps: BTreeSet::new(),
    };
    let _stage = reporter.stage("Reading packages", Some(packages.len() as u64), Unit::Items);
    let read = packages.into_par_iter().map(|path| -> Result<Option<(Control, Listed<'_>)>, Failure> {
        reporter.check()?;
        let control = deb::control(&path)?.control;
        let mut listed = Listed { rules: &rules, is_amds: false, holds: Holds::default() };
        let is_ours = is_of_rocm(&control);
        // Packages of others are read no further than for files below /opt/rocm.
        if is_ours || !is_system(&control) {
            deb::data(&path, 1, &mut listed)?;
        }
        reporter.advance(1);
        Ok((listed.is_amds || is_ours).then_some((control, listed)))
    });
    let read = read.collect::<Result<_, Failure>>().map_err(|failure| with_storage_advice(failure, folder));
    let read: Vec<Option<(Control, Listed<'_>)>> = read?;
    for (control, listed) in read.iter().flatten() {
        known.compare(control, &listed.holds, &rules);
    }
    Ok(known.gaps.into_iter().collect())
}

fn is_of_rocm(control: &Control) -> bool {
    let origin = control.origin.to_lowercase();
    MARKS.iter().any(|mark| origin.contains(mark)) && !is_system(control)
}

/// `true` for a package of a library that is taken in with ROCm's, such as Debian's e_smi, whose
/// maintainers are those of ROCm.
fn is_system(control: &Control) -> bool {
    license(&control.source, &deb::upstream(&control.source_version)).is_some()
        && Table::embedded().of_package(&control.package).is_none()
}

#[derive(Default)]
struct Holds {
    /// Paths in the flattened tree.
    paths: BTreeSet<String>,
    /// SONAMEs of libraries directly in `lib`.
    sonames: BTreeSet<String>,
    /// GPU targets of the code in libraries and programs.
    targets: BTreeSet<String>,
}

struct Listed<'a> {
    rules: &'a Table,
    is_amds: bool,
    holds: Holds,
}

impl Visitor for Listed<'_> {
    fn file(&mut self, path: &str, size: u64, executable: bool, content: &mut dyn Read) -> Result<(), Failure> {
        self.is_amds |= path.trim_start_matches(['.', '/']).starts_with(PREFIX);
        let flat = self.rules.flatten(path);
        if size > 0 && (executable || flat.contains(".so")) {
            let mut file = tempfile::tempfile()?;
            io::copy(content, &mut file)?;
            let (elf, inspected) = inspect_file(&file, size, &flat)?.unzip();
            let name = library(&flat).filter(|_| elf.as_ref().is_none_or(is_loadable));
            let soname = elf.and_then(|elf| elf.soname);
            self.holds.sonames.extend(name.map(|name| soname.unwrap_or_else(|| name.to_owned())));
            self.holds.targets.extend(inspected.into_iter().flat_map(|inspected| inspected.targets));
        }
        self.holds.paths.insert(flat);
        Ok(())
    }
}

/// The directory of a file for one GPU target, if it looks like one of a kernel database.
fn database(path: &str) -> Option<&str> {
    static TARGET: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"gfx[0-9]{1,4}[0-9a-f]").expect("a constant expression"));
    const KERNELS: [&str; 7] = ["co", "hsaco", "dat", "kdb", "txt", "model", "kpack"];
    let (directory, name) = path.rsplit_once('/')?;
    let is_kernel = name.rsplit_once('.').is_some_and(|(_, ending)| KERNELS.contains(&ending));
    let of_library = ["lib/", "share/"].iter().any(|root| directory.starts_with(root));
    let ignored = ["lib/llvm", "share/doc", "lib/cmake"].iter().any(|root| directory.starts_with(root));
    (is_kernel && of_library && !ignored && TARGET.is_match(path)).then_some(directory)
}

struct Known<'a> {
    tables: &'a RocmTables,
    libraries: Providers,
    owners: Owners,
    gaps: BTreeSet<Gap>,
}

impl Known<'_> {
    fn compare(&mut self, control: &Control, holds: &Holds, rules: &Table) {
        let name = &control.package;
        let holds_files = holds.paths.iter().any(|path| rules.skip(path).is_none());
        if holds_files && rules.of_package(name).is_none() {
            let packages = format!("[{}]", rocwheel_tables::missing_rows::text(name));
            self.gaps.insert(Gap::row("artifact", &control.source, name, &[("packages", packages)]));
        }
        for soname in &holds.sonames {
            if self.libraries.of(soname).is_none() && !self.owners.of(soname).is_some_and(LibraryOwner::is_rocm) {
                self.gaps.insert(Gap::row("library", family(soname), name, &[]));
            }
        }
        for target in &holds.targets {
            self.target(target, name);
        }
        for path in &holds.paths {
            if let Some(member) = self.tables.databases().classify(path) {
                member.target.iter().for_each(|target| self.target(target, name));
            } else if let Some(directory) = database(path) {
                let key = directory.split('/').nth(1).unwrap_or(directory);
                self.gaps.insert(Gap::row("database", key, name, &[]));
            }
        }
    }

    fn target(&mut self, target: &str, package: &str) {
        let Ok(target) = target.parse::<TargetId>() else { return };
        if !self.tables.has_target(&target.processor) {
            self.gaps.insert(Gap::row("target", &target.processor, package, &[]));
        }
    }
}

/// The name of a library directly in `lib` that others can need, such as `librocrand.so.1`.
fn library(path: &str) -> Option<&str> {
    let name = path.strip_prefix("lib/").filter(|name| !name.contains('/'))?;
    (name.starts_with("lib") && name.contains(".so.")).then_some(name)
}
