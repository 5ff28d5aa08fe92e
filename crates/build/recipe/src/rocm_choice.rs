//! The inputs of builds besides sources: ROCm, and existing wheels.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use rocwheel_artifact::manifest::{DIST_INFO_FILE, DistInfo};
use rocwheel_progress::Reporter;
use rocwheel_tables::TargetTable;
use rocwheel_wheel::WheelName;

use crate::cell::{Cell, SdkKind};
use crate::error::Error;
use crate::job::{InputWheel, Rocm, RocmPackages};

/// The location of ROCm, and the wheels to install before a build, as options name them.
#[derive(Clone)]
pub struct RocmChoice {
    /// `KIND[=PLACE]`, such as `prefix=/opt/rocm` or `index=URL`; `None`: the installed ROCm.
    pub place: Option<String>,
    /// Versions of ROCm's packages that may be installed, such as `>1.0` (PEP 440).
    pub specifier: String,
    /// Additional extras of the package `rocm`.
    pub extras: Vec<String>,
    /// `true` if pre-releases of ROCm's packages are not accepted.
    pub no_pre: bool,
    /// Wheels to install first, such as a torch that was built elsewhere.
    pub with: Vec<PathBuf>,
}

/// The address of an index may contain a secret, which is not shown.
impl fmt::Debug for RocmChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RocmChoice { place, specifier, extras, no_pre, with } = self;
        let shown = place.as_deref().map(|text| match text.split_once('=') {
            Some((kind, place)) => format!("{kind}={}", rocwheel_source::without_secret(place)),
            None => text.to_owned(),
        });
        let mut fields = formatter.debug_struct("RocmChoice");
        fields.field("place", &shown).field("specifier", specifier).field("extras", extras);
        fields.field("no_pre", no_pre).field("with", with).finish()
    }
}

impl RocmChoice {
    /// How builds get ROCm: from an installed one, unless packages are named.
    pub fn kind(&self) -> SdkKind {
        let is_prefix = self.place.as_deref().is_none_or(|text| text.split('=').next() == Some("prefix"));
        if is_prefix { SdkKind::Prefix } else { SdkKind::Packages }
    }

    /// The same choice with the versions of a cell inserted.
    pub fn filled(&self, cell: &Cell) -> Result<RocmChoice, Error> {
        let place = self.place.as_deref().map(|place| cell.fill_versions(place)).transpose()?;
        Ok(RocmChoice { place, specifier: cell.fill_versions(&self.specifier)?, ..self.clone() })
    }

    /// The ROCm that recipes are built against.
    pub fn rocm(&self, version: Option<&str>, surroundings: &BTreeMap<String, String>) -> Result<Rocm, Error> {
        let Some(text) = &self.place else {
            let Some(path) = found(surroundings)? else {
                let unused = surroundings.get(PREFIXES).filter(|list| !list.is_empty());
                let unused = unused.map(|list| format!(", and {PREFIXES} (`{list}`) names none"));
                return Err(Error::request_with(
                    format!(
                        "the ROCm to build against is not given, and there is none at /opt/rocm{}",
                        unused.unwrap_or_default()
                    ),
                    "name it: `--rocm-sdk index=URL`, `find-links=…`, `directory=DIR` or `prefix=DIR`",
                ));
            };
            return prefix(&path, version);
        };
        let (kind, place) = text.split_once('=').map_or((text.as_str(), None), |(kind, place)| (kind, Some(place)));
        let packages =
            RocmPackages { specifier: self.specifier.clone(), extras: self.extras.clone(), pre: !self.no_pre };
        match (kind, place.filter(|place| !place.is_empty())) {
            ("index", url) => Ok(Rocm::Index { url: url.map(str::to_owned), packages }),
            ("find-links", Some(links)) => {
                let is_local = Path::new(links).exists();
                let links = if is_local {
                    std::path::absolute(links)?.to_string_lossy().into_owned()
                } else {
                    links.to_owned()
                };
                Ok(Rocm::FindLinks { links, packages })
            }
            ("directory", Some(folder)) => {
                let path = std::path::absolute(folder)?;
                if !path.is_dir() {
                    return Err(Error::request(format!("there is no folder `{folder}` with packages of ROCm")));
                }
                Ok(Rocm::FindLinks { links: path.to_string_lossy().into_owned(), packages })
            }
            ("prefix", Some(path)) => prefix(Path::new(path), version),
            ("find-links" | "directory" | "prefix", None) => Err(Error::request_with(
                format!("`--rocm-sdk {kind}` needs a place"),
                format!("write `--rocm-sdk {kind}=PLACE`"),
            )),
            _ => Err(Error::request_with(
                format!("`--rocm-sdk {text}` is nothing that is known"),
                "it is `index`, `index=URL`, `find-links=PLACE`, `directory=DIR` or `prefix=DIR`",
            )),
        }
    }

    /// The GPU targets of the ROCm, as far as its location names them: the family in the address of
    /// an index, the names of packages in a folder, or `share/therock/dist_info.json` of an
    /// installed ROCm. `is_here` is `false` if an installed ROCm is in an image and cannot be read.
    pub fn targets(&self, surroundings: &BTreeMap<String, String>, is_here: bool) -> Result<Vec<String>, Error> {
        let (kind, place) = match self.place.as_deref() {
            None => ("prefix", found(surroundings)?.map(|path| path.to_string_lossy().into_owned())),
            Some(text) => {
                let (kind, place) = text.split_once('=').unwrap_or((text, ""));
                (kind, Some(place.to_owned()))
            }
        };
        let Some(place) = place.filter(|place| !place.is_empty()) else { return Ok(Vec::new()) };
        let names = match kind {
            "prefix" if is_here => {
                let file = Path::new(&place).join("share/therock").join(DIST_INFO_FILE);
                let info = if file.is_file() { DistInfo::read(&file)? } else { DistInfo::default() };
                info.targets().into_iter().map(str::to_owned).collect()
            }
            "directory" | "find-links" if Path::new(&place).is_dir() => families_of_packages(Path::new(&place))?,
            "index" | "find-links" => place.split('/').map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let table = TargetTable::embedded();
        let known = table.family_names();
        let families = names.iter().filter_map(|name| known.iter().find(|known| known.eq_ignore_ascii_case(name)));
        let mut targets: Vec<String> = families.flat_map(|family| table.members(family)).map(str::to_owned).collect();
        rocwheel_tables::target::sort(&mut targets);
        targets.dedup();
        Ok(targets)
    }

    /// Path of an installed ROCm in a container; `None`: it comes as packages. Variables of this
    /// machine do not count.
    pub fn prefix_inside(&self) -> Option<PathBuf> {
        match self.place.as_deref() {
            None => Some(PathBuf::from("/opt/rocm")),
            Some(text) => text.strip_prefix("prefix=").filter(|path| !path.is_empty()).map(PathBuf::from),
        }
    }

    pub fn given(&self) -> BTreeSet<String> {
        let names = self.with.iter().filter_map(|path| path.file_name()?.to_str()?.parse::<WheelName>().ok());
        names.map(|name| name.distribution).collect()
    }

    pub fn inputs(&self, reporter: &dyn Reporter) -> Result<Vec<InputWheel>, Error> {
        let inputs = self.with.iter().map(|path| {
            if path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name.parse::<WheelName>().is_err()) {
                return Err(Error::request(format!("`{}` is not the name of a wheel", path.display())));
            }
            InputWheel::at(path, reporter)
        });
        inputs.collect()
    }
}

/// The header of every HIP, also where a distribution has spread ROCm over /usr.
const HIP_VERSION: &str = "include/hip/hip_version.h";

/// CMake's variable, with folders for anything; documents name the ROCm with it.
const PREFIXES: &str = "CMAKE_PREFIX_PATH";

/// The installed ROCm that variables name, otherwise that of `/opt`.
///
/// # Errors
/// Two variables name two of them.
fn found(surroundings: &BTreeMap<String, String>) -> Result<Option<PathBuf>, Error> {
    let named =
        ["ROCM_PATH", "ROCM_HOME"].iter().find_map(|name| Some((*name, PathBuf::from(surroundings.get(*name)?))));
    let of_cmake = surroundings.get(PREFIXES).and_then(|list| rocm_of_prefixes(list));
    match (named, of_cmake) {
        (Some((name, path)), Some(other)) if path.is_dir() && !is_same_folder(&path, &other) => {
            Err(Error::request_with(
                format!("{name} names the ROCm `{}`, and {PREFIXES} `{}`", path.display(), other.display()),
                format!("unset one of them, or say which: `--rocm-sdk prefix={}`", other.display()),
            ))
        }
        (Some((_, path)), other) => Ok(Some(path).filter(|path| path.is_dir()).or(other)),
        (None, Some(path)) => Ok(Some(path)),
        (None, None) => Ok(installed_in(Path::new("/opt"))),
    }
}

/// The first folder of the list that is an installed ROCm, or is inside of one
/// (`/opt/rocm/lib/cmake`).
fn rocm_of_prefixes(list: &str) -> Option<PathBuf> {
    let separators: &[char] = if cfg!(windows) { &[';'] } else { &[';', ':'] };
    let folders = list.split(separators).filter(|folder| !folder.is_empty());
    folders
        .flat_map(|folder| Path::new(folder).ancestors().take(3))
        .find(|path| is_installed_rocm(path))
        .map(Path::to_owned)
}

fn is_installed_rocm(path: &Path) -> bool {
    path.join("bin").is_dir() && rocwheel_tables::installed_version(path).is_some()
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    one == other || matches!([one, other].map(fs_err::canonicalize), [Ok(one), Ok(other)] if one == other)
}

/// The ROCm in a folder such as `/opt`: `rocm`, otherwise the newest `rocm-7.2.1`.
fn installed_in(folder: &Path) -> Option<PathBuf> {
    let usual = folder.join("rocm");
    if usual.is_dir() {
        return Some(usual);
    }
    let entries = fs_err::read_dir(folder).ok()?.filter_map(Result::ok);
    let versions = entries.filter_map(|entry| {
        let version: pep440_rs::Version = entry.file_name().to_str()?.strip_prefix("rocm-")?.parse().ok()?;
        Some((version, entry.path())).filter(|(_, path)| path.is_dir())
    });
    versions.max().map(|(_, path)| path)
}

/// The families and targets in the names of ROCm's packages: `rocm_sdk_libraries_gfx110x_all-…`,
/// `rocm_sdk_device_gfx942-…`.
fn families_of_packages(folder: &Path) -> Result<Vec<String>, Error> {
    let mut families = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Ok(wheel) = name.parse::<WheelName>() else { continue };
        let distribution = rocwheel_wheel::canonical_name(&wheel.distribution);
        let libraries = distribution.strip_prefix("rocm-sdk-libraries-");
        families.extend(libraries.or(distribution.strip_prefix("rocm-sdk-device-")).map(str::to_owned));
    }
    Ok(families)
}

fn prefix(path: &Path, version: Option<&str>) -> Result<Rocm, Error> {
    let path = std::path::absolute(path)?;
    if !path.join("bin").is_dir() {
        return Err(Error::request_with(
            format!("`{}` is not an installed ROCm: it has no folder `bin`", path.display()),
            "`--rocm-sdk prefix=DIR` names one",
        ));
    }
    let said = rocwheel_tables::installed_version(&path);
    // Distributions have HIP in /usr, and no file with the version of ROCm.
    if said.is_none() && !path.join(HIP_VERSION).is_file() {
        return Err(Error::request_with(
            format!("`{}` is not an installed ROCm: it has neither .info/version nor {HIP_VERSION}", path.display()),
            "`--rocm-sdk prefix=DIR` names one; for a distribution's in /usr, install its package with HIP's headers \
             (Debian: libamdhip64-dev)",
        ));
    }
    match said.or_else(|| version.map(str::to_owned)) {
        Some(version) => Ok(Rocm::Prefix { path, version }),
        None => Err(Error::request_with(
            format!("`{}` does not say its version in .info/version", path.display()),
            "give it with `--rocm`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sdk(text: Option<&str>) -> RocmChoice {
        RocmChoice {
            place: text.map(str::to_owned),
            specifier: ">1.0".into(),
            extras: Vec::new(),
            no_pre: false,
            with: Vec::new(),
        }
    }

    #[test]
    fn the_place_of_a_rocm_says_its_targets() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("rocm");
        fs_err::create_dir_all(prefix.join("share/therock")).unwrap();
        let targets = |text: Option<String>, is_here| {
            let surroundings = BTreeMap::from([("ROCM_PATH".to_owned(), prefix.to_string_lossy().into_owned())]);
            sdk(text.as_deref()).targets(&surroundings, is_here).unwrap()
        };
        let none: Vec<String> = Vec::new();
        assert_eq!(targets(None, true), none, "an installed ROCm that says nothing");
        let file = prefix.join("share/therock/dist_info.json");
        fs_err::write(&file, r#"{"dist_amdgpu_targets": "gfx1100;gfx942"}"#).unwrap();
        assert_eq!(targets(None, true), ["gfx942", "gfx1100"]);
        assert_eq!(targets(None, false), none, "it is in an image");
        assert_eq!(targets(Some(format!("prefix={}", prefix.display())), true), ["gfx942", "gfx1100"]);
        // The address in the documentation; its last folder is a family.
        let url = "index=https://rocm.example/v2/gfx110X-all/";
        assert_eq!(targets(Some(url.into()), true), ["gfx1100", "gfx1101", "gfx1102", "gfx1103"]);
        assert_eq!(targets(Some("index=https://rocm.example/v2".into()), true), none);
        let dist = folder.path().join("dist");
        fs_err::create_dir(&dist).unwrap();
        for name in "rocm_sdk_core-7.10.0-py3-none-manylinux_2_28_x86_64.whl \
            rocm_sdk_device_gfx942-7.10.0-py3-none-manylinux_2_28_x86_64.whl \
            rocm_sdk_libraries_gfx103x_dgpu-7.10.0-py3-none-manylinux_2_28_x86_64.whl"
            .split(' ')
        {
            fs_err::write(dist.join(name), "").unwrap();
        }
        let found = targets(Some(format!("directory={}", dist.display())), true);
        assert!(found.contains(&"gfx942".to_owned()) && found.contains(&"gfx1030".to_owned()), "{found:?}");
        fs_err::write(&file, "{").unwrap();
        let surroundings = BTreeMap::from([("ROCM_PATH".to_owned(), prefix.to_string_lossy().into_owned())]);
        assert!(sdk(None).targets(&surroundings, true).unwrap_err().to_string().contains("dist_info.json"));
    }

    #[test]
    fn the_variable_of_cmake_names_a_rocm_or_contradicts_aloud() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other, empty] = ["one", "other", "empty"].map(|name| folder.path().join(name));
        for (prefix, version) in [(&one, "7.10.0"), (&other, "7.2.4")] {
            fs_err::create_dir_all(prefix.join("bin")).unwrap();
            fs_err::create_dir_all(prefix.join(".info")).unwrap();
            fs_err::write(prefix.join(".info/version"), version).unwrap();
        }
        fs_err::create_dir(&empty).unwrap();
        let ask = |named: Option<&Path>, cmake: &str| {
            let mut variables = BTreeMap::from([("CMAKE_PREFIX_PATH".to_owned(), cmake.to_owned())]);
            variables.extend(named.map(|path| ("ROCM_PATH".to_owned(), path.display().to_string())));
            sdk(None).rocm(None, &variables).map_err(|error| error.to_string())
        };
        let cmake = format!("{}:{}/lib/cmake", empty.display(), one.display());
        for named in [None, Some(one.as_path()), Some(Path::new("/nowhere"))] {
            let found = ask(named, &cmake).unwrap();
            assert_eq!(found, Rocm::Prefix { path: one.clone(), version: "7.10.0".into() }, "{named:?}");
        }
        let said = ask(Some(&other), &cmake).unwrap_err();
        assert!(said.contains("other`, and CMAKE_PREFIX_PATH `") && said.contains("one`"), "{said}");
        assert!(ask(Some(&other), &empty.display().to_string()).is_ok(), "it names no ROCm");
    }

    #[test]
    fn the_newest_installed_rocm_is_found() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(installed_in(folder.path()), None);
        for name in ["rocm-6.4.3", "rocm-7.10.0", "rocm-7.9.0", "rocm-extras"] {
            fs_err::create_dir(folder.path().join(name)).unwrap();
        }
        assert_eq!(installed_in(folder.path()), Some(folder.path().join("rocm-7.10.0")));
        fs_err::create_dir(folder.path().join("rocm")).unwrap();
        assert_eq!(installed_in(folder.path()), Some(folder.path().join("rocm")));
    }
}
