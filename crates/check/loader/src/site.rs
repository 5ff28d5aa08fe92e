//! Input: wheels and folders of installed packages, and a version of Python. Output: a [`Site`],
//! the files of a virtual environment that contains them all, with the members of wheels at the
//! paths where pip installs them. Nothing is written: a file is a member of a wheel or a file of
//! this machine.
//!
//! The paths are those of the wheel specification (`.data` folders, entry points) and of pip's
//! scheme for a virtual environment on Linux, where `purelib` and `platlib` are one folder.

mod distribution;
mod installation_path;
mod installed;
mod package_folder;
mod prefix;
mod refused_wheel;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_archive::MemberKind;
use rocwheel_progress::Reporter;
use rocwheel_system::FileIdentity;

use crate::Error;
pub use distribution::{Distribution, DistributionForm};
pub use installation_path::PythonEnvironment;
use installation_path::{Destination, entry_points};
pub use installed::Installed;
use package_folder::Found;
pub use package_folder::PackageFolder;
pub use prefix::prefix_of;
pub use refused_wheel::RefusedWheel;

/// The files of an environment. Paths are relative to its prefix, with `/`:
/// `lib/python3.12/site-packages/torch/lib/libtorch.so`, `bin/hipcc`.
pub struct Site {
    /// First those with [`Role::Beside`], then those with [`Role::Audited`], each group in the
    /// given order. A later one overwrites files of an earlier one, as if it were installed later.
    /// Those of a search path are in the order opposite to it.
    pub distributions: Vec<Distribution>,
    /// The files, by path.
    pub files: BTreeMap<String, Placed>,
    /// Programs that the installer writes for entry points, by path: `bin/rocm-sdk`.
    pub scripts: BTreeMap<String, Script>,
    /// Paths at which several distributions have a file.
    pub clashes: Vec<Clash>,
    /// The Python and the prefix.
    pub place: PythonEnvironment,
    /// Folders that contain files, with all their parent folders; the prefix itself is the empty
    /// path.
    folders: std::collections::BTreeSet<String>,
    /// Sentences about folders that were skipped during reading.
    pub notes: Vec<String>,
    /// Wheels to audit that installers refuse. They are not distributions of the environment.
    /// [`Site::open`] fails for such a wheel, so the caller puts them here.
    pub refused: Vec<RefusedWheel>,
    scratch: PathBuf,
}

/// The reason why a distribution is in the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Others may need its files; its own problems are not reported.
    Beside,
    /// It is to be audited.
    Audited,
}

/// A file of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Index into [`Site::distributions`].
    pub wheel: usize,
    /// Its name in the wheel, or in RECORD for an installed one.
    pub member: String,
    /// Unpacked size in bytes.
    pub size: u64,
    /// `true` if it can be executed: because of its mode, or because it is a script.
    pub executable: bool,
    /// Device and inode of a file of this machine, which may have several names.
    pub identity: Option<FileIdentity>,
}

/// A program that starts a function of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Index into [`Site::distributions`].
    pub wheel: usize,
    /// The function that it calls: `rocm_sdk.__main__:main`.
    pub target: String,
}

/// A path at which several distributions have a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    /// The path, relative to the prefix.
    pub path: String,
    /// Indices into [`Site::distributions`]; the last one has overwritten the others.
    pub wheels: Vec<usize>,
    /// `true` if all of them have the same bytes there, by size and CRC-32, so the order does not
    /// matter.
    pub same: bool,
}

impl Site {
    /// Opens wheels and folders of installed packages, and assigns paths to their files. `scratch`
    /// is a folder for temporary files of members that are too large for memory.
    ///
    /// A distribution with [`Role::Beside`] is skipped if one with the same name is audited.
    ///
    /// # Errors
    /// [`Error::Wheel`] for a wheel that cannot be opened, [`Error::NotPackages`] for a folder
    /// without packages, [`Error::Read`] for one that cannot be read, [`Error::Unplaceable`] for a
    /// member because of which pip refuses the wheel, [`Error::SameDistribution`] for two
    /// distributions with the same name and role, [`Error::NoWheels`] if none is audited.
    pub fn open(
        paths: &[(PathBuf, Role)],
        place: &PythonEnvironment,
        scratch: &Path,
        reporter: &dyn Reporter,
    ) -> Result<Site, Error> {
        // All are opened before the first error counts, so it is the same in each run.
        let opened: Vec<Result<Found, Error>> = paths
            .par_iter()
            .map(|(path, role)| {
                reporter.check()?;
                if path.is_dir() {
                    let folder = PackageFolder::find(path)?.ok_or_else(|| Error::NotPackages { path: path.clone() })?;
                    return folder.read(place, *role);
                }
                Ok(Found { distributions: vec![Distribution::open(path, *role)?], notes: Vec::new() })
            })
            .collect();
        let (mut distributions, mut notes) = (Vec::new(), Vec::new());
        for found in opened {
            let found = found?;
            distributions.extend(found.distributions);
            notes.extend(found.notes);
        }
        distributions.sort_by_key(|distribution| distribution.role);
        Site::assemble(distributions, notes, place, scratch)
    }

    /// Opens the folders from which one Python imports packages, in the order in which it searches
    /// them: a virtual environment and the Python that it was made from. A distribution of an
    /// earlier folder hides that of the same name in a later one. All files have paths in the
    /// environment of the first folder, and all distributions are audited.
    ///
    /// # Errors
    /// Those of [`Site::open`].
    pub fn of_search_path(
        folders: &[PackageFolder],
        place: &PythonEnvironment,
        scratch: &Path,
        reporter: &dyn Reporter,
    ) -> Result<Site, Error> {
        let (mut kept, mut notes) = (Vec::<Distribution>::new(), Vec::new());
        let mut names = std::collections::BTreeSet::new();
        for folder in folders {
            reporter.check()?;
            let found = folder.read(place, Role::Audited)?;
            let seen = found.distributions.into_iter().filter(|one| one.is_rest() || !names.contains(&one.name));
            let seen: Vec<Distribution> = seen.collect();
            names.extend(seen.iter().map(|one| one.name.clone()));
            kept.extend(seen);
            notes.extend(found.notes);
        }
        // The later one of two overwrites, so those that Python finds first come last.
        kept.reverse();
        Site::assemble(kept, notes, place, scratch)
    }

    /// The site of opened distributions, the last of which overwrites the others.
    fn assemble(
        mut distributions: Vec<Distribution>,
        notes: Vec<String>,
        place: &PythonEnvironment,
        scratch: &Path,
    ) -> Result<Site, Error> {
        if !distributions.iter().any(|distribution| distribution.role == Role::Audited) {
            return Err(Error::NoWheels);
        }
        check_names(&distributions)?;
        let audited: Vec<String> = distributions
            .iter()
            .filter(|distribution| distribution.role == Role::Audited)
            .map(|distribution| distribution.name.clone())
            .collect();
        distributions
            .retain(|distribution| distribution.role == Role::Audited || !audited.contains(&distribution.name));
        let mut site = Site {
            distributions,
            files: BTreeMap::new(),
            scripts: BTreeMap::new(),
            clashes: Vec::new(),
            place: place.clone(),
            folders: std::collections::BTreeSet::new(),
            notes,
            refused: Vec::new(),
            scratch: scratch.to_owned(),
        };
        site.place_all()?;
        Ok(site)
    }

    /// An environment of which only the paths and sizes of files are known, for simulations with
    /// files that are not in a wheel yet. The files belong to no distribution and cannot be read.
    pub fn of_files(files: impl IntoIterator<Item = (String, u64)>, place: &PythonEnvironment) -> Site {
        let files = files.into_iter().map(|(path, size)| {
            (path, Placed { wheel: 0, member: String::new(), size, executable: false, identity: None })
        });
        let mut site = Site {
            distributions: Vec::new(),
            files: files.collect(),
            scripts: BTreeMap::new(),
            clashes: Vec::new(),
            place: place.clone(),
            folders: std::collections::BTreeSet::new(),
            notes: Vec::new(),
            refused: Vec::new(),
            scratch: PathBuf::new(),
        };
        site.find_folders();
        site
    }

    fn place_all(&mut self) -> Result<(), Error> {
        let mut owners: BTreeMap<String, Vec<(usize, Option<String>)>> = BTreeMap::new();
        for index in 0..self.distributions.len() {
            let distribution = &self.distributions[index];
            let wheel = match &distribution.form {
                DistributionForm::Wheel(wheel) => wheel,
                DistributionForm::Installed(installed) => {
                    for (member, file) in &installed.files {
                        let placed = Placed {
                            wheel: index,
                            member: member.clone(),
                            size: file.size,
                            executable: file.executable,
                            identity: Some(file.identity),
                        };
                        owners.entry(file.place.clone()).or_default().push((index, Some(member.clone())));
                        self.files.insert(file.place.clone(), placed);
                    }
                    continue;
                }
            };
            let points = entry_points(wheel)?;
            let destination = Destination { place: &self.place, path: &distribution.path, wheel, points: &points };
            for member in wheel.members().iter().filter(|member| member.kind != MemberKind::Directory) {
                let Some((path, is_script)) = destination.of(&member.name)? else { continue };
                let placed = Placed {
                    wheel: index,
                    member: member.name.clone(),
                    size: member.size,
                    executable: member.executable || is_script,
                    identity: None,
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
        self.find_folders();
        Ok(())
    }

    fn find_folders(&mut self) {
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
    }

    /// `true` if files with the same path have the same bytes, judged by archives or RECORD. If
    /// both are installed, one has overwritten the other, so the file itself would prove nothing.
    fn are_same(&self, owners: &[(usize, Option<String>)]) -> bool {
        let all = owners.iter().map(|(index, member)| Some((&self.distributions[*index], member.as_deref()?)));
        let recorded: Option<Vec<&str>> =
            all.clone().map(|owner| owner.and_then(|(owner, member)| owner.installed()?.recorded(member))).collect();
        if let Some(hashes) = recorded {
            return hashes.windows(2).all(|pair| pair[0] == pair[1]);
        }
        let checksums: Option<Vec<(u64, u32)>> =
            all.map(|owner| owner.and_then(|(owner, member)| owner.checksum(member))).collect();
        checksums.is_some_and(|checksums| checksums.windows(2).all(|pair| pair[0] == pair[1]))
    }

    /// The distribution that a file comes from.
    pub fn wheel_of(&self, path: &str) -> Option<&Distribution> {
        self.distributions.get(self.files.get(path)?.wheel)
    }

    /// `true` if a folder exists at this path.
    pub fn has_folder(&self, path: &str) -> bool {
        self.folders.contains(path)
    }

    /// The folder from which packages are imported: `lib/python3.12/site-packages`.
    pub fn packages(&self) -> String {
        self.place.packages()
    }

    /// A path for display: relative to the folder of the packages if it is in that folder,
    /// otherwise relative to the prefix.
    pub fn shown<'a>(&self, path: &'a str) -> &'a str {
        let packages = self.packages();
        path.strip_prefix(packages.as_str()).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path)
    }

    /// Random access to a file, like [`rocwheel_wheel::read::Wheel::reader`].
    ///
    /// # Errors
    /// [`Error::NoSuchFile`], [`Error::Wheel`] for a member that cannot be unpacked, and
    /// [`Error::Read`] for a file that cannot be opened.
    pub fn reader(&self, path: &str) -> Result<rocwheel_content::Reader, Error> {
        let placed = self.placed(path)?;
        self.distributions[placed.wheel].reader(&placed.member, &self.scratch)
    }

    /// All bytes of a file of at most 64 MiB.
    ///
    /// # Errors
    /// The errors of [`Site::reader`].
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>, Error> {
        let placed = self.placed(path)?;
        self.distributions[placed.wheel].bytes(&placed.member)
    }

    /// The folder for temporary files that was passed to [`Site::open`].
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// The file at a path.
    ///
    /// # Errors
    /// [`Error::NoSuchFile`].
    pub fn placed(&self, path: &str) -> Result<&Placed, Error> {
        self.files.get(path).ok_or_else(|| Error::NoSuchFile { path: path.to_owned() })
    }
}

fn check_names(distributions: &[Distribution]) -> Result<(), Error> {
    let mut seen: BTreeMap<(Role, &str), &Path> = BTreeMap::new();
    for wheel in distributions.iter().filter(|distribution| !distribution.is_rest()) {
        if let Some(first) = seen.insert((wheel.role, &wheel.name), &wheel.path) {
            let (name, first, second) = (wheel.name.clone(), first.to_owned(), wheel.path.clone());
            return Err(Error::SameDistribution { name, first, second });
        }
    }
    Ok(())
}
