//! Input: the wheels that will be installed beside the one that is repaired (`--with`). Output:
//! which of them has which library, and where, which goes before the table of known families.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_elf::{Elf, Kind};
use rocwheel_wheel::read::{Kind as MemberKind, Spool, Wheel};

use crate::directories::MACHINE;
use crate::inventory::Place;
use crate::{Error, paths};

/// A library of a wheel beside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// The canonical name of the distribution.
    pub(crate) distribution: String,
    /// Its version.
    pub(crate) version: String,
    /// The folder, relative to site-packages.
    pub(crate) directory: String,
}

/// Libraries by the name they are needed by.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    libraries: BTreeMap<String, Held>,
}

impl Beside {
    /// Reads wheels, and those in folders. The first wheel that has a library counts.
    pub(crate) fn read(given: &[PathBuf], scratch: &Path) -> Result<Beside, Error> {
        let mut beside = Beside::default();
        for wheel in wheels(given)? {
            let wheel = std::sync::Arc::new(Wheel::open(&wheel)?);
            let spool = Spool::new(scratch);
            let files: Vec<&str> = wheel
                .members()
                .iter()
                .filter(|listed| listed.kind == MemberKind::File && paths::name(&listed.name).contains(".so"))
                .map(|listed| listed.name.as_str())
                .collect();
            let found: Vec<(String, String)> = files
                .par_iter()
                .filter_map(|member| {
                    let Place::Site(site) = Place::of(member, wheel.info()) else { return None };
                    let content = spool.member(&wheel, member).ok()?;
                    let reader = rocwheel_content::Content::open(&content).ok()?;
                    let elf = Elf::read(&reader).ok().flatten()?;
                    let is_library = elf.kind == Kind::SharedLibrary && elf.machine == MACHINE && elf.is_64;
                    // Only a file of the needed name is found by a search path.
                    is_library.then(|| (paths::name(&site).to_owned(), paths::folder(&site).to_owned()))
                })
                .collect();
            for (name, directory) in found {
                let held = Held {
                    distribution: rocwheel_wheel::canonical_name(&wheel.name.distribution),
                    version: wheel.name.version.clone(),
                    directory,
                };
                beside.libraries.entry(name).or_insert(held);
            }
        }
        Ok(beside)
    }

    /// Who has the library of this name.
    pub(crate) fn of(&self, library: &str) -> Option<&Held> {
        self.libraries.get(library)
    }

    /// The version of ROCm's packages, when one of them is there.
    pub(crate) fn rocm_version(&self) -> Option<&str> {
        let is_rocm = |held: &&Held| held.distribution.starts_with("rocm-sdk-");
        self.libraries.values().find(is_rocm).map(|held| held.version.as_str())
    }
}

fn wheels(given: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut wheels = Vec::new();
    for path in given {
        if path.is_dir() {
            let entries = fs_err::read_dir(path).map_err(Error::file("read", path))?;
            let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            inside.retain(|path| path.extension().is_some_and(|extension| extension == "whl"));
            inside.sort();
            wheels.extend(inside);
        } else {
            wheels.push(path.clone());
        }
    }
    Ok(wheels)
}
