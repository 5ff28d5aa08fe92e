//! Input: a folder of Debian packages. Output: rows that the tables lack for ROCm's packages.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rocwheel_report::{Reporter, Unit};
use rocwheel_rocm::gaps::Gap;
use rocwheel_rocm::providers::family;
use rocwheel_rocm::{Owners, Providers, RocmTables, TargetId};

use super::deb::{self, Control};
use super::error::Error;
use super::members::Visitor;
use super::table::Table;

/// Words in the maintainer or homepage of ROCm's packages.
const MARKS: [&str; 2] = ["rocm", "radeonopencompute"];
/// The directory that AMD's own packages install into.
const PREFIX: &str = "opt/rocm";

/// Finds artifacts, libraries and GPU targets (of kernel databases) of the ROCm packages in a
/// folder that `tables` lack. Sorted.
///
/// # Errors
/// [`Error::NoPackages`] for a folder without packages; a package that cannot be read.
pub fn gaps(folder: &Path, tables: &RocmTables, reporter: &dyn Reporter) -> Result<Vec<Gap>, Error> {
    let mut packages: Vec<PathBuf> = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "deb") {
            packages.push(path);
        }
    }
    packages.sort();
    if packages.is_empty() {
        return Err(Error::NoPackages { folder: folder.to_owned() });
    }
    let rules = Table::of(tables)?;
    let mut known = Known {
        tables,
        libraries: Providers::of_tables(tables),
        owners: Owners::of_tables(tables),
        gaps: BTreeSet::new(),
    };
    let _stage = reporter.stage("Reading packages", Some(packages.len() as u64), Unit::Items);
    for path in packages {
        reporter.check()?;
        let control = deb::control(&path)?.control;
        let mut listed = Listed { rules: &rules, paths: BTreeSet::new(), is_amds: false };
        deb::data(&path, 1, &mut listed)?;
        if listed.is_amds || is_of_rocm(&control) {
            known.compare(&control, &listed, &rules);
        }
        reporter.advance(1);
    }
    Ok(known.gaps.into_iter().collect())
}

fn is_of_rocm(control: &Control) -> bool {
    let origin = control.origin.to_lowercase();
    MARKS.iter().any(|mark| origin.contains(mark))
}

/// Collects the paths of a package in the flattened tree.
struct Listed<'a> {
    rules: &'a Table,
    paths: BTreeSet<String>,
    is_amds: bool,
}

impl Visitor for Listed<'_> {
    fn file(&mut self, path: &str, _: u64, _: bool, content: &mut dyn Read) -> Result<(), Error> {
        self.is_amds |= path.trim_start_matches(['.', '/']).starts_with(PREFIX);
        self.paths.insert(self.rules.flatten(path));
        io::copy(content, &mut io::sink())?;
        Ok(())
    }
}

struct Known<'a> {
    tables: &'a RocmTables,
    libraries: Providers,
    owners: Owners,
    gaps: BTreeSet<Gap>,
}

impl Known<'_> {
    fn compare(&mut self, control: &Control, listed: &Listed<'_>, rules: &Table) {
        let name = &control.package;
        let holds_files = listed.paths.iter().any(|path| rules.skip(path).is_none());
        if holds_files && rules.of_package(name).is_none() {
            let packages = format!("[{}]", rocwheel_rocm::gaps::text(name));
            self.gaps.insert(Gap::row("artifact", &control.source, name, &[("packages", packages)]));
        }
        for path in &listed.paths {
            if let Some(soname) = library(path)
                && self.libraries.of(soname).is_none()
                && !self.owners.of(soname).is_some_and(rocwheel_rocm::Owner::is_rocm)
            {
                self.gaps.insert(Gap::row("library", family(soname), name, &[]));
            }
            let target = self.tables.databases().classify(path).and_then(|member| member.target);
            let processor = target.and_then(|target| Some(target.parse::<TargetId>().ok()?.processor));
            if let Some(processor) = processor.filter(|processor| !self.tables.has_target(processor)) {
                self.gaps.insert(Gap::row("target", &processor, name, &[]));
            }
        }
    }
}

/// Returns the name of a library directly in `lib` that others can need, such as `librocrand.so.1`.
fn library(path: &str) -> Option<&str> {
    let name = path.strip_prefix("lib/").filter(|name| !name.contains('/'))?;
    (name.starts_with("lib") && name.contains(".so.")).then_some(name)
}
