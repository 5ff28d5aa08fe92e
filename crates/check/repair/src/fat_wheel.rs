//! Input: a ROCm tree on this machine (an installed prefix, or merged artifacts), and a wheel.
//! Output: the files of the tree that are added to the wheel and their paths, as part of the plan.
//!
//! Wheels contain no links, so every library is added once, under its SONAME, the name by which
//! others need it. Other links to it are skipped. On Linux search paths refer to the libraries; on
//! Windows a module names their folder.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rocwheel_elf::{Elf, ElfKind};
use rocwheel_progress::Failure;
use rocwheel_system::FileMetadata as _;
use rocwheel_tables::Pattern;
use rocwheel_wheel::read::Wheel;
use walkdir::WalkDir;

use crate::directories::MACHINE;
use crate::inventory::Inventory;
use crate::plan::{RocmTree, TreeFile, ValueChange, WrittenText};
use crate::{Error, Request, error, initialize, paths};

const TABLE: &str = include_str!("../../../../data/fat-wheels.toml");
/// The folder of the tree, relative to its package.
const FOLDER: &str = "lib/rocm";

/// Patterns by reason, for one system.
type Exclusions = BTreeMap<String, Vec<String>>;

/// The parts of a plan that only mode fat has.
pub(crate) struct Fat {
    pub(crate) tree: RocmTree,
    pub(crate) texts: Vec<WrittenText>,
    pub(crate) version: Option<ValueChange>,
}

/// A file of the tree that may be added.
struct Candidate {
    /// The path in the tree, with links resolved.
    path: String,
    real: PathBuf,
    size: u64,
    executable: bool,
    elf: Option<Elf>,
    /// The reason why it is skipped unless a library needs it.
    excluded: Option<String>,
    /// Its new file name; `None` if the name stays.
    name: Option<String>,
}

/// Selects the files and adds the libraries among them to the inventory.
pub(crate) fn plan(wheel: &Wheel, request: &Request, inventory: &mut Inventory) -> Result<Fat, Error> {
    let Some(root) = &request.tree else {
        return Err(error::no_tree("--rocm".as_ref(), "no directory was given"));
    };
    let root = &rocwheel_system::canonicalize(root).map_err(Error::file("read", root))?;
    let is_windows = wheel.name.platforms.iter().any(|platform| platform.starts_with("win"));
    let mut left_out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut candidates = list(root, is_windows, &mut left_out)?;
    let version = version(root, request)?;
    if !is_windows {
        let needed: Vec<String> = inventory.binaries.iter().flat_map(|binary| binary.elf.needed.clone()).collect();
        include_needed(&mut candidates, needed);
    }
    let mut included = candidates.iter().filter(|candidate| candidate.excluded.is_none());
    if !included.any(|candidate| candidate.elf.is_some() || candidate.path.to_lowercase().ends_with(".dll")) {
        let what = if is_windows { "DLL" } else { "shared library" };
        return Err(error::no_tree(root, &format!("there is no {what} in it")));
    }
    let package = package(wheel, request, inventory)?;
    let folder = format!("{package}/{FOLDER}");
    let mut files = Vec::new();
    for candidate in candidates {
        if let Some(reason) = candidate.excluded {
            left_out.entry(reason).or_default().push(candidate.path);
            continue;
        }
        let place = match &candidate.name {
            Some(name) => paths::join(paths::folder(&candidate.path), name),
            None => candidate.path.clone(),
        };
        let member = format!("{folder}/{place}");
        rocwheel_archive::check_member_name(&member).map_err(rocwheel_wheel::Error::from)?;
        if wheel.member(&member).is_some() {
            let wheel = wheel.path().display();
            return Err(Failure::message(format!("`{member}` is in `{wheel}` already, with another content"))
                .with_hint("repair the wheel as it was built; an earlier repair left the file there")
                .into());
        }
        if let Some(elf) = candidate.elf {
            inventory.add(&member, &candidate.real, elf)?;
        }
        files.push(TreeFile { member, source: candidate.real, size: candidate.size, executable: candidate.executable });
    }
    files.sort_by(|one, other| one.member.cmp(&other.member));
    files.dedup_by(|later, first| later.member == first.member);
    inventory.sort();
    let mut texts = initialize::silenced(wheel)?;
    if is_windows {
        texts.extend(initialize::Hook::dll_directory(FOLDER).texts(wheel, &package)?);
    }
    let size = files.iter().map(|file| file.size).sum();
    let tree = RocmTree { source: root.clone(), folder, files, size, left_out };
    Ok(Fat { tree, texts, version: local_version(wheel, &version)? })
}

fn exclusions(is_windows: bool) -> Vec<(String, Vec<Pattern>)> {
    static TABLES: LazyLock<BTreeMap<String, Exclusions>> =
        LazyLock::new(|| toml::from_str(TABLE).expect("a test parses the embedded table"));
    let system = if is_windows { "windows" } else { "linux" };
    let table = TABLES.get(system).into_iter().flatten();
    table.map(|(reason, globs)| (reason.clone(), globs.iter().map(|glob| Pattern::new(glob)).collect())).collect()
}

/// Every file of the tree once. Links to libraries are skipped; links to other files become copies.
fn list(root: &Path, is_windows: bool, left_out: &mut BTreeMap<String, Vec<String>>) -> Result<Vec<Candidate>, Error> {
    let exclusions = exclusions(is_windows);
    let mut candidates = Vec::new();
    let mut links: Vec<(String, PathBuf)> = Vec::new();
    for entry in WalkDir::new(root).sort_by_file_name() {
        let entry = entry.map_err(|error| {
            let path = error.path().unwrap_or(root).to_owned();
            let source = error.into_io_error().unwrap_or_else(|| std::io::Error::other("the directory has a loop"));
            Error::File { action: "read", path, source }
        })?;
        let relative = entry.path().strip_prefix(root).unwrap_or(entry.path()).to_string_lossy().replace('\\', "/");
        if entry.path_is_symlink() {
            links.push((relative, entry.path().to_owned()));
        } else if entry.file_type().is_file() {
            candidates.push(candidate(entry.path(), relative, &exclusions, is_windows)?);
        }
    }
    let libraries: BTreeMap<PathBuf, usize> =
        candidates.iter().enumerate().map(|(index, candidate)| (candidate.real.clone(), index)).collect();
    for (path, link) in links {
        let reason = match rocwheel_system::canonicalize(&link) {
            Err(_) => "links to nothing",
            Ok(real) if !real.starts_with(root) => "links that leave the tree",
            Ok(real) => match libraries.get(&real).map(|index| &candidates[*index]) {
                None => "links to folders",
                Some(target) if target.elf.is_some() => "links to libraries",
                Some(target) if target.executable => "links to programs",
                Some(_) => {
                    let copy = candidate(&real, path, &exclusions, is_windows)?;
                    candidates.push(Candidate { name: None, ..copy });
                    continue;
                }
            },
        };
        left_out.entry(reason.to_owned()).or_default().push(path);
    }
    Ok(candidates)
}

fn candidate(
    file: &Path,
    path: String,
    exclusions: &[(String, Vec<Pattern>)],
    is_windows: bool,
) -> Result<Candidate, Error> {
    let opened = fs_err::File::open(file).map_err(Error::file("read", file))?;
    let metadata = opened.metadata().map_err(Error::file("read", file))?;
    let elf = if is_windows || metadata.len() < 64 { None } else { Elf::read(opened.file()).ok().flatten() };
    let elf = elf.filter(|elf| elf.kind == ElfKind::SharedLibrary && elf.machine == MACHINE && elf.is_64);
    let excluded = exclusions.iter().find(|(_, patterns)| patterns.iter().any(|pattern| pattern.matches(&path)));
    let excluded = excluded.map(|(reason, _)| reason.clone());
    let soname = elf.as_ref().and_then(|elf| elf.soname.clone());
    let name = soname.filter(|soname| soname != paths::name(&path) && !soname.contains('/'));
    Ok(Candidate {
        real: rocwheel_system::canonicalize(file).map_err(Error::file("read", file))?,
        path,
        size: metadata.len(),
        executable: metadata.is_executable(file),
        elf,
        excluded,
        name,
    })
}

/// Includes the libraries in excluded folders that others need.
fn include_needed(candidates: &mut [Candidate], needed: Vec<String>) {
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for (index, candidate) in candidates.iter().enumerate() {
        if let Some(elf) = &candidate.elf {
            let own = paths::name(&candidate.path).to_owned();
            for name in elf.soname.iter().cloned().chain([own]) {
                // A file that is included anyway is preferred to an excluded one.
                let better = names
                    .get(&name)
                    .is_none_or(|other| candidates[*other].excluded.is_some() && candidate.excluded.is_none());
                if better {
                    names.insert(name, index);
                }
            }
        }
    }
    let kept = candidates.iter().filter(|candidate| candidate.excluded.is_none());
    let mut work: VecDeque<String> =
        kept.filter_map(|candidate| candidate.elf.as_ref()).flat_map(|elf| elf.needed.clone()).chain(needed).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = work.pop_front() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some(index) = names.get(&name) else { continue };
        let candidate = &mut candidates[*index];
        if candidate.excluded.take().is_some() {
            work.extend(candidate.elf.iter().flat_map(|elf| elf.needed.clone()));
        }
    }
}

/// The package that gets the tree: the one in the request, or else the one whose binaries have the
/// most bytes.
fn package(wheel: &Wheel, request: &Request, inventory: &Inventory) -> Result<String, Error> {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    let windows = inventory.windows.iter().map(String::as_str);
    for member in inventory.binaries.iter().filter_map(|binary| binary.site()).chain(windows) {
        if let Some((package, _)) = member.split_once('/').filter(|(package, _)| !package.contains('.')) {
            *sizes.entry(package).or_default() += wheel.member(member).map_or(0, |listed| listed.size);
        }
    }
    // Of packages of equal size, the first one by name.
    let largest = sizes.iter().rev().max_by_key(|(_, size)| **size).map(|(package, _)| (*package).to_owned());
    let (package, reason) = match (&request.package, largest) {
        (Some(package), _) if wheel.member(&format!("{package}/__init__.py")).is_none() => {
            (package.as_str(), "the wheel has no such package")
        }
        (Some(package), _) => return Ok(package.clone()),
        (None, Some(package)) => return Ok(package),
        (None, None) => ("it", "it has no package with binaries"),
    };
    Err(error::package(wheel.path(), package, reason, "name a package of the wheel with `--package`"))
}

/// The version of ROCm: the one in the request, or else the one in the tree.
fn version(root: &Path, request: &Request) -> Result<String, Error> {
    if let Some(version) = &request.rocm_version {
        rocwheel_wheel::check_version(version)?;
        return Ok(version.clone());
    }
    let version = rocwheel_tables::installed_version(root);
    version.filter(|version| rocwheel_wheel::check_version(version).is_ok()).ok_or_else(|| {
        let reason = "neither `.info/version` nor `share/therock/therock_manifest.json` says its version; give it with \
                      `--rocm-version`";
        error::no_tree(root, reason)
    })
}

/// The wheel's version with ROCm's version as local version, or appended to an existing local
/// version.
fn local_version(wheel: &Wheel, rocm: &str) -> Result<Option<ValueChange>, Error> {
    let before = wheel.name.version.clone();
    let rocm: String = rocm.chars().map(|next| if next.is_ascii_alphanumeric() { next } else { '.' }).collect();
    let label = format!("rocm{rocm}");
    let after = match before.split_once('+') {
        Some((_, local)) if local.split('.').any(|part| part.starts_with("rocm")) => return Ok(None),
        Some(_) => format!("{before}.{label}"),
        None => format!("{before}+{label}"),
    };
    rocwheel_wheel::check_version(&after)?;
    Ok(Some(ValueChange { before, after }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_for_two_systems() {
        for is_windows in [false, true] {
            let exclusions = exclusions(is_windows);
            assert!(exclusions.len() >= 5);
            let excluded = |path: &str| exclusions.iter().any(|(_, globs)| globs.iter().any(|glob| glob.matches(path)));
            assert!(excluded("include/hip/hip_runtime.h") && excluded("share/doc/x/copyright"));
            assert!(!excluded("lib/rocblas/library/TensileLibrary.dat"));
            assert_eq!(excluded("bin/amdhip64_7.dll"), !is_windows);
            assert!(excluded("bin/hipcc.exe"));
        }
    }
}
