//! Input: requirements, Pythons and systems. Output: the files that uv chooses for each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use rocwheel_choose::{Outcome, Query, Uv};
use rocwheel_pages::StatusTable;
use rocwheel_progress::{Exit, Reporter, Unit};
use rocwheel_store::Error as StoreError;
use rocwheel_wheel::WheelName;
use serde::Deserialize;
use url::Url;

use crate::cannot;
use crate::lock::{self, LockedFile};
use crate::manifest::{MirrorPlan, ResolvedSet};
use crate::request::MirrorRequest;
use crate::{status, transfer};
use rocwheel_progress::Failure;

/// What setuptools' default is when a source distribution does not name its build system (PEP 517).
const DEFAULT_BUILD: &str = "setuptools >= 40.8.0";
/// Bytes of the largest pyproject.toml that is read.
const LARGEST: u64 = 4 << 20;

/// Which files a resolution may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kinds {
    All,
    WheelsOnly,
}

/// Resolves the requirements, and those of building the source distributions among the files.
/// Source distributions are fetched into `folder` for that, also if the mirror has them.
pub fn plan_mirror(request: &MirrorRequest, folder: &Path, reporter: &dyn Reporter) -> Result<MirrorPlan, Failure> {
    for address in request.indexes.iter().filter_map(|index| Url::parse(index).ok()) {
        request.http.remember(&address);
    }
    let mut plan = MirrorPlan { sets: Vec::new(), files: BTreeMap::new(), status: StatusTable::default() };
    let cells: Vec<(&str, &str)> = request
        .pythons
        .iter()
        .flat_map(|python| request.platforms.iter().map(move |platform| (python.as_str(), platform.as_str())))
        .collect();
    reporter.begin("Resolving", Some(cells.len() as u64), Unit::Items);
    for &(python, platform) in &cells {
        let files = resolve(request, (python, platform), &request.requirements, Kinds::All, reporter)?;
        let packages = files.iter().map(|(_, file)| format!("{}=={}", file.project, file.version)).collect();
        let (python, platform) = (python.to_owned(), platform.to_owned());
        plan.sets.push(ResolvedSet { python, platform, packages });
        add(&mut plan.files, files)?;
        reporter.advance(1);
    }
    reporter.end();
    let sources: BTreeMap<String, LockedFile> = plan
        .files
        .iter()
        .filter(|(name, _)| !WheelName::is_wheel(name))
        .map(|(name, file)| (name.clone(), file.clone()))
        .collect();
    if !sources.is_empty() {
        fs_err::create_dir_all(folder).map_err(|source| StoreError::Write { path: folder.to_owned(), source })?;
        transfer::fetch_all(&sources, folder, &request.http, reporter)?;
        let mut needed = BTreeSet::new();
        for name in sources.keys() {
            needed.extend(build_requirements(&folder.join(name))?);
        }
        let needed: Vec<String> = needed.into_iter().collect();
        reporter.begin("Resolving build requirements", Some(cells.len() as u64), Unit::Items);
        for cell in cells {
            add(&mut plan.files, resolve(request, cell, &needed, Kinds::WheelsOnly, reporter)?)?;
            reporter.advance(1);
        }
        reporter.end();
    }
    plan.status = status::read(request, &mut plan.files, reporter)?;
    Ok(plan)
}

/// Two indexes may not have different files of one name.
fn add(all: &mut BTreeMap<String, LockedFile>, files: Vec<(String, LockedFile)>) -> Result<(), Failure> {
    for (name, file) in files {
        match all.get(&name) {
            Some(other) if other.sha256 != file.sha256 || (file.sha256.is_none() && other.address != file.address) => {
                return Err(cannot(
                    &format!("mirror `{name}`"),
                    &format!("`{}` and `{}` have different files of this name", other.address, file.address),
                    "leave one of the indexes out",
                ));
            }
            Some(_) => {}
            None => drop(all.insert(name, file)),
        }
    }
    Ok(())
}

fn resolve(
    request: &MirrorRequest,
    (python, platform): (&str, &str),
    requirements: &[String],
    kinds: Kinds,
    reporter: &dyn Reporter,
) -> Result<Vec<(String, LockedFile)>, Failure> {
    let query = Query {
        requirements,
        constraints: &[],
        indexes: &request.indexes,
        python,
        interpreter: None,
        platform,
        pre_releases: request.pre_releases,
        wheels_only: kinds == Kinds::WheelsOnly,
    };
    let outcome = Uv(request.uv.clone()).lock(&query);
    reporter.check()?;
    let files = match outcome? {
        Outcome::Found(text) => lock::files(&text),
        Outcome::Refused(reason) => Err(reason),
    };
    let mut files = files.map_err(|reason| {
        cannot(
            &format!("resolve the packages for Python {python} on {platform}"),
            &reason,
            "name what is missing differently, or add an index that has it",
        )
        .with_exit(Exit::Failed)
    })?;
    for (_, file) in &mut files {
        if let Ok(address) = Url::parse(&file.address) {
            file.address = request.http.remember(&address).to_string();
        }
    }
    Ok(files)
}

/// The build requirements of a source distribution: `build-system.requires` of its pyproject.toml
/// (PEP 518).
fn build_requirements(path: &Path) -> Result<Vec<String>, Failure> {
    #[derive(Deserialize, Default)]
    struct Project {
        #[serde(rename = "build-system")]
        build: Option<BuildSystem>,
    }
    #[derive(Deserialize)]
    struct BuildSystem {
        #[serde(default)]
        requires: Vec<String>,
    }
    let standard = vec![DEFAULT_BUILD.to_owned()];
    if !path.to_string_lossy().ends_with(".tar.gz") {
        return Ok(standard);
    }
    let file = fs_err::File::open(path).map_err(StoreError::read(path))?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    for entry in archive.entries().map_err(StoreError::read(path))? {
        let entry = entry.map_err(StoreError::read(path))?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if name.split_once('/').is_none_or(|(_, rest)| rest != "pyproject.toml") {
            continue;
        }
        let mut text = String::new();
        entry.take(LARGEST).read_to_string(&mut text).map_err(StoreError::read(path))?;
        let project = toml::from_str(&text).map_err(|error| std::io::Error::other(error.message().to_owned()));
        let project: Project = project.map_err(StoreError::read(path))?;
        return Ok(project.build.map_or(standard, |build| build.requires));
    }
    Ok(standard)
}
