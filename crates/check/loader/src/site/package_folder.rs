//! Input: a folder into which installers unpacked wheels (`site-packages`). Output: the
//! distributions in it with the files of their RECORDs, and a distribution without a name for all
//! other files.
//!
//! The files that pip and uv write are described in "Recording installed projects" of the packaging
//! specifications: a `.dist-info` folder for each distribution, with METADATA, RECORD and, unless
//! the distribution came from an index, `direct_url.json` (PEP 610). An `.egg-info` folder of older
//! tools has PKG-INFO and no RECORD.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use pep440_rs::Version;
use rayon::prelude::*;
use rocwheel_content::archive_path::normal_inside;
use rocwheel_system::environment_setting;
use rocwheel_wheel::{Headers, PythonVersion};
use serde::Deserialize;
use walkdir::WalkDir;

use super::Role;
use super::distribution::{Distribution, DistributionForm};
use super::installation_path::PythonEnvironment;
use super::installed::{Installed, InstalledFile, InstalledRecord, is_bytecode, read_error};
use super::prefix::prefix_of;
use crate::Error;

/// What a `.dist-info` or `.egg-info` folder holds.
enum InfoFolder {
    /// A distribution.
    Distribution(Box<Distribution>),
    /// Nothing that an installer would take for a distribution; the note says why.
    Skipped(String),
}

/// A folder of installed packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageFolder {
    /// Absolute, with links resolved.
    path: PathBuf,
    /// The environment that contains it, if its path is one of [`prefix_of`] in one.
    environment: Option<(PathBuf, PythonVersion)>,
}

/// The contents of a folder.
pub(super) struct Found {
    pub(super) distributions: Vec<Distribution>,
    /// Sentences about distributions that were skipped.
    pub(super) notes: Vec<String>,
}

/// The part of `direct_url.json` that is used.
#[derive(Deserialize)]
struct DirectUrl {
    url: String,
    #[serde(default)]
    dir_info: DirInfo,
}

#[derive(Default, Deserialize)]
struct DirInfo {
    #[serde(default)]
    editable: bool,
}

/// The version of a Python for Windows, in whose paths it is not: by the settings of a virtual
/// environment, or by the name of its library.
fn version_on_windows(prefix: &Path) -> Option<PythonVersion> {
    let settings = fs_err::read_to_string(prefix.join("pyvenv.cfg")).unwrap_or_default();
    // uv calls it otherwise than Python's own `venv`.
    if let Some(version) = ["version_info", "version"].iter().find_map(|key| environment_setting(&settings, key)) {
        let mut numbers = version.split('.');
        return format!("{}.{}", numbers.next()?, numbers.next()?).parse().ok();
    }
    let libraries = names(prefix).ok()?;
    let mut numbers = libraries.iter().filter_map(|name| name.strip_prefix("python3")?.strip_suffix(".dll"));
    format!("3.{}", numbers.find(|number| !number.is_empty())?).parse().ok()
}

fn is_info(name: &str) -> bool {
    name.ends_with(".dist-info") || name.ends_with(".egg-info")
}

impl PackageFolder {
    /// The folder of packages at a path, which is that folder itself or its virtual environment.
    /// `None` if it is neither.
    ///
    /// # Errors
    /// [`Error::Read`], and [`Error::SeveralFolders`] for an environment with several folders.
    pub fn find(path: &Path) -> Result<Option<PackageFolder>, Error> {
        let given = rocwheel_system::canonicalize(path).map_err(read_error(path))?;
        if given.join("pyvenv.cfg").is_file() {
            let mut folders = BTreeSet::new();
            for library in ["lib", "lib64"] {
                for name in names(&given.join(library)).unwrap_or_default() {
                    let folder = given.join(library).join(&name).join("site-packages");
                    if name.starts_with("python") && folder.is_dir() {
                        folders.insert(rocwheel_system::canonicalize(&folder).map_err(read_error(&folder))?);
                    }
                }
            }
            let on_windows = given.join("Lib").join("site-packages");
            if on_windows.is_dir() {
                folders.insert(on_windows);
            }
            // Some systems have a second folder for compiled packages, which may be empty.
            let filled = folders.iter().filter(|folder| names(folder).is_ok_and(|names| !names.is_empty()));
            let mut filled: Vec<PathBuf> = filled.cloned().collect();
            if filled.len() > 1 {
                return Err(Error::SeveralFolders { environment: path.to_owned(), folders: filled });
            }
            return Ok(filled.pop().or(folders.pop_first()).map(PackageFolder::of));
        }
        if !given.is_dir() {
            return Ok(None);
        }
        let is_packages = given.file_name() == Some(OsStr::new("site-packages"));
        let is_such = is_packages || names(&given).map_err(read_error(path))?.iter().any(|name| is_info(name));
        Ok(is_such.then(|| PackageFolder::of(given)))
    }

    fn of(path: PathBuf) -> PackageFolder {
        let environment = (|| {
            let (prefix, library) = (prefix_of(&path)?, path.parent()?);
            let version = match library.file_name()?.to_str()?.strip_prefix("python") {
                Some(version) => version.parse().ok()?,
                None => version_on_windows(prefix)?,
            };
            let inside = path.strip_prefix(prefix).ok()?.to_str()?;
            let is_layout = path.ends_with("site-packages") && inside.to_ascii_lowercase().starts_with("lib");
            is_layout.then(|| (prefix.to_owned(), version))
        })();
        PackageFolder { path, environment }
    }

    /// The Python that it belongs to, judged by its path or else by the tags of the installed
    /// packages; `None` if neither tells.
    pub fn python(&self) -> Option<PythonVersion> {
        if let Some((_, version)) = &self.environment {
            return Some(*version);
        }
        let mut counts: BTreeMap<PythonVersion, usize> = BTreeMap::new();
        for info in names(&self.path).unwrap_or_default().iter().filter(|name| is_info(name)) {
            let Ok(Some(text)) = text(&self.path.join(info).join("WHEEL")) else { continue };
            for tag in Headers::parse(&text).all("Tag") {
                let mut parts = tag.split('-');
                if let (Some(python), Some(abi)) = (parts.next(), parts.next())
                    && let Some(minor) = python.strip_prefix("cp3").and_then(|minor| minor.parse().ok())
                    && abi.trim_end_matches('t') == python
                {
                    let version = PythonVersion { major: 3, minor, free_threaded: abi != python };
                    *counts.entry(version).or_default() += 1;
                }
            }
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(version, _)| version)
    }

    /// `true` if its path tells which Python it belongs to.
    pub fn is_of_environment(&self) -> bool {
        self.environment.is_some()
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The `.dist-info` folders that have METADATA.
    pub fn infos(&self) -> Vec<PathBuf> {
        let names = names(&self.path).unwrap_or_default().into_iter().filter(|name| name.ends_with(".dist-info"));
        names.map(|name| self.path.join(name)).filter(|info| info.join("METADATA").is_file()).collect()
    }

    /// The environment that it is in; an imaginary one if it is in none.
    pub fn place(&self, python: PythonVersion) -> PythonEnvironment {
        match &self.environment {
            Some((prefix, _)) => {
                let packages = rocwheel_system::slashed(self.path.strip_prefix(prefix).unwrap_or(&self.path));
                let packages = packages.to_string_lossy().into_owned();
                PythonEnvironment::new(python, prefix.to_string_lossy().trim_end_matches('/')).with_packages(packages)
            }
            None => PythonEnvironment::new(python, "/environment"),
        }
    }

    /// Reads the installed distributions.
    pub(super) fn read(&self, place: &PythonEnvironment, role: Role) -> Result<Found, Error> {
        let names = names(&self.path).map_err(read_error(&self.path))?;
        let infos: Vec<&String> = names.iter().filter(|name| is_info(name)).collect();
        let opened: Vec<Result<InfoFolder, Error>> =
            infos.par_iter().map(|info| self.distribution(info, place, role)).collect();
        let mut notes = Vec::new();
        let mut distributions: BTreeMap<String, Distribution> = BTreeMap::new();
        for opened in opened {
            match opened? {
                InfoFolder::Skipped(note) => notes.push(note),
                InfoFolder::Distribution(distribution) => {
                    let distribution = *distribution;
                    let name = distribution.name.clone();
                    let Some(other) = distributions.remove(&name) else {
                        distributions.insert(name, distribution);
                        continue;
                    };
                    let (first, second) = (other.file_name(), distribution.file_name());
                    notes.push(format!(
                        "`{name}` is installed twice, as `{first}` and `{second}`: the newer one was used"
                    ));
                    let version = distribution.version().parse::<Version>().ok();
                    let is_other_newer = other.version().parse::<Version>().ok() > version;
                    distributions.insert(name, if is_other_newer { other } else { distribution });
                }
            }
        }
        let mut distributions: Vec<Distribution> = distributions.into_values().collect();
        let rest = self.rest(&mut distributions, place)?;
        distributions.extend(rest);
        Ok(Found { distributions, notes })
    }

    /// Reads one distribution. The inner error is a note on why it is not one.
    fn distribution(&self, info: &str, place: &PythonEnvironment, role: Role) -> Result<InfoFolder, Error> {
        let path = self.path.join(info);
        let (metadata, wheel_file) = if info.ends_with(".dist-info") {
            (path.join("METADATA"), path.join("WHEEL"))
        } else {
            (if path.is_dir() { path.join("PKG-INFO") } else { path.clone() }, PathBuf::new())
        };
        let Some(metadata) = text(&metadata)? else {
            return Ok(InfoFolder::Skipped(format!("`{info}` has no METADATA and was passed over, as installers do")));
        };
        let metadata = Headers::parse(&metadata);
        // pip renames a folder to `~name` before it removes it.
        let Some(name) = metadata.get("Name").filter(|_| !info.starts_with('~')) else {
            return Ok(InfoFolder::Skipped(format!(
                "`{info}` is of no distribution and was passed over, as installers do"
            )));
        };
        let direct =
            text(&path.join("direct_url.json"))?.and_then(|text| serde_json::from_str::<DirectUrl>(&text).ok());
        let record = match text(&path.join("RECORD"))? {
            None => InstalledRecord::Absent,
            Some(text) => {
                rocwheel_wheel::parse_rows(&text).map_or_else(InstalledRecord::Damaged, InstalledRecord::Rows)
            }
        };
        let mut installed = Installed {
            folder: self.path.clone(),
            info: info.to_owned(),
            files: BTreeMap::new(),
            record,
            editable: direct.filter(|direct| direct.dir_info.editable).map(|direct| direct.url),
        };
        let mut files = BTreeMap::new();
        for row in installed.rows().iter().filter(|row| !is_bytecode(&row.path)) {
            files.extend(self.file(&row.path, place).map(|file| (row.path.clone(), file)));
        }
        installed.files = files;
        Ok(InfoFolder::Distribution(Box::new(Distribution {
            name: rocwheel_wheel::canonical_name(&name),
            wheel_file: Headers::parse(&text(&wheel_file)?.unwrap_or_default()),
            metadata,
            role,
            form: DistributionForm::Installed(installed),
            path,
        })))
    }

    /// The file of a row of RECORD; `None` if it does not exist.
    fn file(&self, row: &str, place: &PythonEnvironment) -> Option<InstalledFile> {
        let path = match self.path.join(row) {
            path if path.is_file() => path,
            // `pip install --target` moves programs into the folder of the packages and does not
            // update RECORD.
            _ => self.path.join(row.strip_prefix("../../")?),
        };
        let inside = match row.strip_prefix('/') {
            None => normal_inside(&format!("{}/{row}", place.packages()))?,
            Some(_) => row.strip_prefix(&place.prefix)?.strip_prefix('/')?.to_owned(),
        };
        InstalledFile::new(path, inside)
    }

    /// Finds files that no RECORD lists. Those whose names match a distribution without RECORD are
    /// added to it; the others become a distribution without a name.
    fn rest(
        &self,
        distributions: &mut [Distribution],
        place: &PythonEnvironment,
    ) -> Result<Option<Distribution>, Error> {
        let mut tops: BTreeMap<String, usize> = BTreeMap::new();
        let mut known: BTreeSet<String> = BTreeSet::new();
        for (index, distribution) in distributions.iter().enumerate() {
            let DistributionForm::Installed(installed) = &distribution.form else { continue };
            known.extend(installed.files.values().map(|file| file.place.clone()));
            if installed.record_is_missing() && installed.editable.is_none() {
                let listed = text(&self.path.join(&installed.info).join("top_level.txt"))?.unwrap_or_default();
                let mut names: Vec<String> = listed.lines().map(|line| line.trim().to_owned()).collect();
                names.push(distribution.name.replace('-', "_"));
                tops.extend(names.into_iter().filter(|name| !name.is_empty()).map(|name| (name, index)));
            }
        }
        let mut rest = Installed { folder: self.path.clone(), ..Installed::default() };
        for (member, path) in self.unrecorded()? {
            let inside = match member.strip_prefix("../../") {
                Some(_) => normal_inside(&format!("{}/{member}", place.packages())),
                None => Some(format!("{}/{member}", place.packages())),
            };
            let Some(inside) = inside.filter(|inside| !known.contains(inside)) else { continue };
            let Some(file) = InstalledFile::new(path, inside) else { continue };
            let top = member.split(['/', '.']).next().unwrap_or_default();
            let owner = tops.get(top).and_then(|index| match &mut distributions[*index].form {
                DistributionForm::Installed(installed) => Some(installed),
                DistributionForm::Wheel(_) => None,
            });
            owner.unwrap_or(&mut rest).files.insert(member, file);
        }
        Ok((!rest.files.is_empty()).then(|| Distribution {
            path: self.path.clone(),
            name: String::new(),
            metadata: Headers::parse(""),
            wheel_file: Headers::parse(""),
            role: Role::Beside,
            form: DistributionForm::Installed(rest),
        }))
    }

    /// Files of the folder, and libraries beside it in the environment. Some of them are in a
    /// RECORD.
    fn unrecorded(&self) -> Result<Vec<(String, PathBuf)>, Error> {
        let mut found = Vec::new();
        // A link to a folder may lead anywhere, even to the root of the machine.
        let walk = WalkDir::new(&self.path).min_depth(1).sort_by_file_name().into_iter().filter_entry(|entry| {
            let name = entry.file_name().to_string_lossy();
            name != "__pycache__" && !(entry.depth() == 1 && is_info(&name))
        });
        for entry in walk {
            let entry = entry.map_err(|error| Error::Read {
                path: error.path().unwrap_or(&self.path).to_owned(),
                source: error.into(),
            })?;
            let Ok(inside) = entry.path().strip_prefix(&self.path) else { continue };
            let member = rocwheel_system::slashed(inside).to_string_lossy().into_owned();
            if entry.path().is_file() && !is_bytecode(&member) {
                found.push((member, entry.into_path()));
            }
        }
        // Conda keeps libraries there, and search paths of packages refer to them.
        if let Some((prefix, _)) = &self.environment
            && let Some(library) = self.path.ancestors().nth(2).filter(|library| library.starts_with(prefix))
        {
            let libraries = names(library).unwrap_or_default();
            let libraries = libraries.iter().filter(|name| name.contains(".so") && library.join(name).is_file());
            found.extend(libraries.map(|name| (format!("../../{name}"), library.join(name))));
        }
        Ok(found)
    }
}

/// The names in a folder, sorted.
pub(super) fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = fs_err::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// The text of a file; `None` if it does not exist. Opening a named pipe would wait for ever.
fn text(path: &Path) -> Result<Option<String>, Error> {
    let is_special = fs_err::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    if is_special {
        return Err(read_error(path)(io::Error::other("it is not a regular file")));
    }
    match fs_err::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(read_error(path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_record_lead_into_the_environment_or_nowhere() {
        let place = |row: &str| normal_inside(&format!("lib/python3.12/site-packages/{row}"));
        assert_eq!(place("a/b.so").as_deref(), Some("lib/python3.12/site-packages/a/b.so"));
        assert_eq!(place("../../../bin/tool").as_deref(), Some("bin/tool"));
        assert_eq!(place("../../../../etc/x"), None);
    }

    #[test]
    fn folders_say_which_python_they_are_of() {
        let of = |path: &str| PackageFolder::of(PathBuf::from(path));
        let folder = of("/home/me/.venv/lib/python3.13t/site-packages");
        let place = folder.place(folder.python().unwrap());
        assert_eq!(
            (place.prefix.as_str(), place.packages().as_str()),
            ("/home/me/.venv", "lib/python3.13t/site-packages")
        );
        assert_eq!(of("/usr/lib64/python3.12/site-packages").environment.unwrap().0, Path::new("/usr"));
        assert_eq!(of("/usr/lib/python3/dist-packages").environment, None);
        assert_eq!(of("/srv/packages").environment, None);
    }

    #[test]
    fn packages_of_windows_are_in_one_folder() {
        for (file, text) in [
            ("pyvenv.cfg", "home = C:\\Python313\nversion_info = 3.13.1\n"),
            ("pyvenv.cfg", "home = C:\\Python313\nversion = 3.13.1\n"),
            ("python313.dll", ""),
        ] {
            let prefix = tempfile::tempdir().unwrap();
            let prefix = rocwheel_system::canonicalize(prefix.path()).unwrap();
            let packages = prefix.join("Lib").join("site-packages");
            fs_err::create_dir_all(&packages).unwrap();
            fs_err::write(prefix.join("python3.dll"), "").unwrap();
            fs_err::write(prefix.join(file), text).unwrap();
            let given = if file == "pyvenv.cfg" { &prefix } else { &packages };
            let folder = PackageFolder::find(given).unwrap().unwrap();
            assert_eq!(folder, PackageFolder::of(packages));
            let python = folder.python().unwrap();
            assert_eq!((python.to_string().as_str(), folder.is_of_environment()), ("3.13", true));
            assert_eq!(folder.place(python).packages(), "Lib/site-packages");
        }
    }
}
