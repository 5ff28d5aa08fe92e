//! Input: wheels, and the Python they are for. Output: a [`Site`], the files of a virtual environment that has them all,
//! placed as pip places them. Nothing is written: a file is a member of a wheel that can be read.
//!
//! The places are those of the wheel specification (`.data` folders, entry points) and of pip's scheme for a virtual
//! environment on Linux, where `purelib` and `platlib` are one folder.

mod place;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use report::Reporter;
use wheel::Headers;
use wheel::read::{Kind, Wheel};

use crate::Error;
use place::{Destination, entry_points};
pub use place::{Place, PythonVersion};

/// The files of an environment. Paths are relative to its prefix, with `/`: `lib/python3.12/site-packages/torch/lib/libtorch.so`,
/// `bin/hipcc`.
pub struct Site {
    /// The wheels: first those that stand beside, then those that are audited, each group in the order given. A later one
    /// overwrites what an earlier one has placed, as when it is installed later.
    pub wheels: Vec<InstalledWheel>,
    /// What lies where.
    pub files: BTreeMap<String, Placed>,
    /// Programs that the installer writes for entry points, by path: `bin/rocm-sdk`.
    pub scripts: BTreeMap<String, Script>,
    /// Paths that several wheels place a file at.
    pub clashes: Vec<Clash>,
    /// The Python and the prefix.
    pub place: Place,
    /// Folders that hold files, with all folders above them; the prefix itself is the empty path.
    folders: std::collections::BTreeSet<String>,
    scratch: PathBuf,
}

/// A wheel of the environment.
pub struct InstalledWheel {
    /// The file, as it is called in findings: where it is, or where it will be.
    pub path: PathBuf,
    /// Its members.
    pub wheel: Arc<Wheel>,
    /// Canonical name of the distribution (PEP 503), from the file name.
    pub name: String,
    /// METADATA.
    pub metadata: Headers,
    /// The file WHEEL.
    pub wheel_file: Headers,
    /// Why it is here.
    pub role: Role,
}

/// Why a wheel is in the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It is there for the others to find things in; nobody asks what is wrong with it.
    Beside,
    /// It is to be looked at.
    Audited,
}

/// A file of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Index into [`Site::wheels`].
    pub wheel: usize,
    /// Its name in the wheel.
    pub member: String,
    /// Bytes unpacked.
    pub size: u64,
    /// Whether it can be run: by its mode in the archive, or because it is a script.
    pub executable: bool,
}

/// A program that starts a function of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Index into [`Site::wheels`].
    pub wheel: usize,
    /// What it calls: `rocm_sdk.__main__:main`.
    pub target: String,
}

/// A path that several wheels place a file at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    /// The path.
    pub path: String,
    /// Indices into [`Site::wheels`]; the last one has overwritten the others.
    pub wheels: Vec<usize>,
    /// Whether all have the same bytes there, by size and CRC-32, so that it does not matter who comes last.
    pub same: bool,
}

impl Site {
    /// Opens the wheels and places their members. `scratch` is a folder for temporary files of members that are too large
    /// for memory.
    ///
    /// A wheel that stands beside is left out when one of the same distribution is audited.
    ///
    /// # Errors
    /// [`Error::Wheel`] when one cannot be opened, [`Error::Unplaceable`] for what makes pip refuse one,
    /// [`Error::SameDistribution`] when two of one role are of one distribution, [`Error::NoWheels`] when none is audited.
    pub fn open(
        wheels: &[(PathBuf, Role)],
        place: &Place,
        scratch: &Path,
        reporter: &dyn Reporter,
    ) -> Result<Site, Error> {
        if !wheels.iter().any(|(_, role)| *role == Role::Audited) {
            return Err(Error::NoWheels);
        }
        let opened: Vec<Result<InstalledWheel, Error>> = wheels
            .par_iter()
            .map(
                |(path, role)| {
                    if reporter.interrupted() { Err(Error::Interrupted) } else { InstalledWheel::open(path, *role) }
                },
            )
            .collect();
        let mut installed = opened.into_iter().collect::<Result<Vec<_>, _>>()?;
        installed.sort_by_key(|wheel| wheel.role);
        check_names(&installed)?;
        let audited: Vec<String> =
            installed.iter().filter(|wheel| wheel.role == Role::Audited).map(|wheel| wheel.name.clone()).collect();
        installed.retain(|wheel| wheel.role == Role::Audited || !audited.contains(&wheel.name));
        let mut site = Site {
            wheels: installed,
            files: BTreeMap::new(),
            scripts: BTreeMap::new(),
            clashes: Vec::new(),
            place: place.clone(),
            folders: std::collections::BTreeSet::new(),
            scratch: scratch.to_owned(),
        };
        site.place_all()?;
        Ok(site)
    }

    fn place_all(&mut self) -> Result<(), Error> {
        let mut owners: BTreeMap<String, Vec<(usize, Option<String>)>> = BTreeMap::new();
        for index in 0..self.wheels.len() {
            let installed = &self.wheels[index];
            let points = entry_points(installed)?;
            let destination = Destination { place: &self.place, wheel: installed, points: &points };
            for member in installed.wheel.members().iter().filter(|member| member.kind != Kind::Directory) {
                let Some((path, is_script)) = destination.of(&member.name)? else { continue };
                let placed = Placed {
                    wheel: index,
                    member: member.name.clone(),
                    size: member.size,
                    executable: member.executable || is_script,
                };
                owners.entry(path.clone()).or_default().push((index, Some(member.name.clone())));
                self.files.insert(path, placed);
            }
            for (name, target) in points {
                let path = format!("bin/{name}");
                owners.entry(path.clone()).or_default().push((index, None));
                self.scripts.insert(path, Script { wheel: index, target });
            }
        }
        let scripts = &self.scripts;
        self.files.retain(|path, placed| scripts.get(path).is_none_or(|script| script.wheel < placed.wheel));
        let files = &self.files;
        self.scripts.retain(|path, _| !files.contains_key(path));
        self.clashes = owners
            .into_iter()
            .filter(|(_, owners)| owners.len() > 1)
            .map(|(path, owners)| Clash {
                path,
                same: self.are_same(&owners),
                wheels: owners.into_iter().map(|(index, _)| index).collect(),
            })
            .collect();
        for path in self.files.keys().chain(self.scripts.keys()) {
            let mut folder = path.as_str();
            while let Some((above, _)) = folder.rsplit_once('/') {
                if !self.folders.insert(above.to_owned()) {
                    break;
                }
                folder = above;
            }
        }
        self.folders.insert(String::new());
        Ok(())
    }

    /// Whether members are the same bytes, as the directories of their archives have it.
    fn are_same(&self, owners: &[(usize, Option<String>)]) -> bool {
        let marks: Option<Vec<(u64, u32)>> = owners
            .iter()
            .map(|(index, member)| self.wheels[*index].wheel.member(member.as_deref()?))
            .map(|member| member.map(|member| (member.size, member.crc32())))
            .collect();
        marks.is_some_and(|marks| marks.windows(2).all(|pair| pair[0] == pair[1]))
    }

    /// The wheel that a file comes from.
    pub fn wheel_of(&self, path: &str) -> Option<&InstalledWheel> {
        self.files.get(path).map(|placed| &self.wheels[placed.wheel])
    }

    /// Whether there is a folder at a path.
    pub fn has_folder(&self, path: &str) -> bool {
        self.folders.contains(path)
    }

    /// The folder that packages are imported from: `lib/python3.12/site-packages`.
    pub fn packages(&self) -> String {
        self.place.packages()
    }

    /// A path as Python and people see it: relative to the folder of the packages where it lies in it, otherwise to the
    /// prefix.
    pub fn shown<'a>(&self, path: &'a str) -> &'a str {
        let packages = self.packages();
        path.strip_prefix(packages.as_str()).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path)
    }

    /// Random access to a file, as [`Wheel::reader`] gives it.
    ///
    /// # Errors
    /// [`Error::NoSuchFile`], and [`Error::Wheel`] when it cannot be unpacked.
    pub fn reader(&self, path: &str) -> Result<wheel::Reader, Error> {
        let placed = self.placed(path)?;
        Ok(self.wheels[placed.wheel].wheel.reader(&placed.member, &self.scratch)?)
    }

    /// All bytes of a file of at most 64 MiB.
    ///
    /// # Errors
    /// As [`Site::reader`].
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>, Error> {
        let placed = self.placed(path)?;
        Ok(self.wheels[placed.wheel].wheel.bytes(&placed.member)?)
    }

    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    pub(crate) fn placed(&self, path: &str) -> Result<&Placed, Error> {
        self.files.get(path).ok_or_else(|| Error::NoSuchFile { path: path.to_owned() })
    }
}

impl InstalledWheel {
    fn open(path: &Path, role: Role) -> Result<InstalledWheel, Error> {
        let wheel = Wheel::open(path)?;
        // Old wheels have METADATA in other encodings; a character that is shown wrongly is no reason not to look at them.
        let text = |file: &str| -> Result<Headers, Error> {
            let bytes = wheel.bytes(&format!("{}/{file}", wheel.info()))?;
            Ok(Headers::parse(&String::from_utf8_lossy(&bytes)))
        };
        Ok(InstalledWheel {
            path: path.to_owned(),
            name: wheel::canonical_name(&wheel.name.distribution),
            metadata: text("METADATA")?,
            wheel_file: text("WHEEL")?,
            role,
            wheel: Arc::new(wheel),
        })
    }

    /// What people call it: the name of the file.
    pub fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

fn check_names(wheels: &[InstalledWheel]) -> Result<(), Error> {
    let mut seen: BTreeMap<(Role, &str), &Path> = BTreeMap::new();
    for wheel in wheels {
        if let Some(first) = seen.insert((wheel.role, &wheel.name), &wheel.path) {
            let (name, first, second) = (wheel.name.clone(), first.to_owned(), wheel.path.clone());
            return Err(Error::SameDistribution { name, first, second });
        }
    }
    Ok(())
}
