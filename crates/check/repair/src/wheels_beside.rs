//! Input: the wheels that will be installed beside the repaired one (`--with`). Output: the
//! libraries in them with their folders, which take precedence over the table of known families.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_archive::MemberKind;
use rocwheel_content::Spool;
use rocwheel_elf::{Elf, ElfKind};
use rocwheel_wheel::WheelName;
use rocwheel_wheel::read::{MemberContent, Wheel};

use crate::directories::MACHINE;
use crate::inventory::Place;
use crate::{Error, paths};

/// A library in one of these wheels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// The canonical name of the distribution.
    pub(crate) distribution: String,
    pub(crate) version: String,
    /// The folder, relative to site-packages.
    pub(crate) directory: String,
}

/// Libraries by the names in NEEDED.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    libraries: BTreeMap<String, Held>,
}

impl Beside {
    /// Reads wheels, and those in folders. If several contain a library, the first one counts.
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
                    let content = MemberContent::spooled(&wheel, member, &spool).ok()?;
                    let reader = rocwheel_content::Content::open(&content).ok()?;
                    let elf = Elf::read(&reader).ok().flatten()?;
                    let is_library = elf.kind == ElfKind::SharedLibrary && elf.machine == MACHINE && elf.is_64;
                    // A search path finds a file only by the needed name.
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

    /// The library with this name; `None` if no wheel contains it.
    pub(crate) fn of(&self, library: &str) -> Option<&Held> {
        self.libraries.get(library)
    }

    /// The version of ROCm's packages, if one of them is among the wheels.
    pub(crate) fn rocm_version(&self) -> Option<&str> {
        let mut held = self.libraries.values();
        held.find(|held| held.distribution.starts_with("rocm-sdk-")).map(|held| held.version.as_str())
    }
}

fn wheels(given: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut wheels = Vec::new();
    for path in given {
        if path.is_dir() {
            let entries = fs_err::read_dir(path).map_err(Error::file("read", path))?;
            let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            inside.retain(|path| WheelName::is_wheel(path));
            inside.sort();
            wheels.extend(inside);
        } else {
            wheels.push(path.clone());
        }
    }
    Ok(wheels)
}
