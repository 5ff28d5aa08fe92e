//! The wheels that are tested: those that an option names, or that are in a folder that it names.
//!
//! A verdict is about bytes. A wheel counts if the environment has what it would install: wheels
//! for several Pythons, or for several sets of GPU targets, have the same name and version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocwheel_console::failure::{Result, Usage};
use rocwheel_content::{hexadecimal, open_regular, sha256_of};
use rocwheel_progress::Context as _;
use rocwheel_suite::PythonFacts;
use rocwheel_wheel::WheelName;
use rocwheel_wheel::read::Wheel;
use walkdir::WalkDir;

/// Depth of the wheels below a named folder; artifacts of jobs are downloaded into a folder each.
const DEEPEST: usize = 5;

/// File names and SHA-256 of the tested wheels: those that installers wrote down, and the named
/// ones.
pub(crate) fn wheels(installed: Option<&PythonFacts>, named: &[PathBuf]) -> Result<BTreeMap<String, String>> {
    let mut tested = Vec::new();
    for path in named {
        let mut files = wheel_files(std::slice::from_ref(path))?;
        if let Some(installed) = installed {
            let mut why = None;
            let is_named = !path.is_dir();
            let mut kept = Vec::new();
            for file in files {
                match objection(&file, installed)? {
                    Some(objection) if is_named => return Err(Usage::new(objection).into()),
                    Some(objection) => drop(why.get_or_insert(objection)),
                    None => kept.push(file),
                }
            }
            if let Some(why) = why.filter(|_| kept.is_empty()) {
                let text = format!("none of the wheels in `{}` is installed: {why}", path.display());
                return Err(Usage::new(text).into());
            }
            files = kept;
        }
        tested.extend(files);
    }
    let mut wheels = installed.map(|installed| installed.wheels.clone()).unwrap_or_default();
    wheels.extend(digests_of(&tested)?);
    Ok(wheels)
}

/// File names and SHA-256 of wheels, of which no two may have one name and different bytes.
pub(crate) fn digests_of(files: &[PathBuf]) -> Result<BTreeMap<String, String>> {
    let mut wheels = BTreeMap::new();
    for path in files {
        let (name, digest) = (name_of(path), digest_of(path)?);
        if wheels.insert(name.clone(), digest.clone()).is_some_and(|other| other != digest) {
            let text = format!("`--wheel` names different files of the name `{name}`");
            return Err(Usage::new(text).hint("name only the one that was tested").into());
        }
    }
    Ok(wheels)
}

/// SHA-256 of a wheel.
fn digest_of(path: &Path) -> Result<String> {
    let digest = open_regular(path).and_then(sha256_of).context("cannot read a wheel")?;
    Ok(hexadecimal(&digest))
}

/// The name of a file without its folder.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The named wheels, and those in named folders.
pub(crate) fn wheel_files(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            if !WheelName::is_wheel(path) {
                return Err(Usage::new(format!("`{}` is neither a wheel nor a folder", path.display())).into());
            }
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        for entry in WalkDir::new(path).max_depth(DEEPEST).sort_by_file_name() {
            let entry = entry.map_err(std::io::Error::from).context("cannot list a folder of wheels")?;
            if !entry.file_type().is_dir() && WheelName::is_wheel(entry.path()) {
                files.push(entry.into_path());
            }
        }
        if files.len() == before {
            return Err(Usage::new(format!("`{}` has no wheels", path.display())).into());
        }
    }
    Ok(files)
}

/// Why a wheel is not the one that is installed.
fn objection(path: &Path, installed: &PythonFacts) -> Result<Option<String>> {
    let shown = path.display();
    let name = name_of(path);
    let mut parts = name.split('-');
    let (Some(distribution), Some(version)) = (parts.next(), parts.next()) else {
        return Ok(Some(format!("`{shown}` is no wheel")));
    };
    let distribution = rocwheel_wheel::canonical_name(distribution);
    let Some(found) = installed.distributions.get(&distribution) else {
        return Ok(Some(format!("`{shown}` is not installed")));
    };
    if found.replace(['+', '-', '_'], ".") != version.replace(['+', '-', '_'], ".") {
        return Ok(Some(format!("`{shown}` is not installed: {distribution} has version {found}")));
    }
    let Some(folder) = installed.folders.get(&distribution) else { return Ok(None) };
    Ok(difference(path, folder)?.map(|file| format!("`{shown}` is not what is installed: `{file}` differs")))
}

/// A file that the wheel has with other bytes than were installed, by the hashes of both RECORDs.
/// Files of `.data` are installed under other paths, and are not compared.
fn difference(wheel: &Path, folder: &Path) -> Result<Option<String>> {
    let Ok(text) = fs_err::read_to_string(folder.join("RECORD")) else { return Ok(Some("RECORD".to_owned())) };
    let Ok(rows) = rocwheel_wheel::parse_rows(&text) else { return Ok(Some("RECORD".to_owned())) };
    let installed: BTreeMap<&str, &str> = rows.iter().map(|row| (row.path.as_str(), row.hash.as_str())).collect();
    let own = Wheel::open(wheel)?.record()?;
    let mut compared = own.iter().filter(|row| {
        let top = row.path.split('/').next().unwrap_or_default();
        !row.hash.is_empty() && Path::new(top).extension().is_none_or(|kind| kind != "data")
    });
    let different = compared.find(|row| installed.get(row.path.as_str()).is_none_or(|found| *found != row.hash));
    Ok(different.map(|row| row.path.clone()))
}
