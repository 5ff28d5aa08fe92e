//! Input: the environment that the user named, or the variables of the session. Output: the folders
//! from which its Python imports packages, as far as they have packages for GPUs ([`ImportPath`]).
//!
//! The order is that of Python's module `site`. A virtual environment has its own packages and,
//! with `include-system-site-packages`, those of the user and of the Python that it was made from.
//! Any other Python sees those of the user first (PEP 370), and Debian's also those in
//! `/usr/local`.

use std::path::{Path, PathBuf};

use rocwheel_loader::site::{PackageFolder, prefix_of};
use rocwheel_system::{PYTHON, environment_setting};

use crate::Error;
use crate::finding::Evidence;
use crate::installed::has_gpu_packages;
use crate::tree::MachineTree;
use crate::variables::SessionVariables;
use crate::version_managers::{Behind, Session};

const SETTINGS: &str = "pyvenv.cfg";

/// Variables that name the active environment, the first of which comes first.
pub(crate) const ACTIVE: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];

/// The folders of packages of a Python, the first of which is that of the environment itself unless
/// another one comes first and has packages for GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportPath {
    /// A folder of packages, or a virtual environment.
    pub main: PathBuf,
    /// Further folders with packages for GPUs, in the order in which Python searches them.
    pub beside: Vec<PathBuf>,
    /// The manager of versions that chose the Python, and what told it to; `None` without one.
    pub chosen_by: Option<String>,
}

impl ImportPath {
    /// That of an environment or a folder of packages. Of a folder in an environment, the others
    /// belong to it as well.
    pub fn of_folder(folder: &Path, tree: &MachineTree, variables: &SessionVariables) -> ImportPath {
        let inside = prefix_of(folder).filter(|_| folder.ends_with("site-packages"));
        let environment = [Some(folder), inside].into_iter().flatten().find(|prefix| prefix.join(SETTINGS).is_file());
        if let Some(prefix) = environment {
            let beside = folders_of_base(prefix, tree, variables);
            return ImportPath { main: folder.to_owned(), beside, chosen_by: None };
        }
        let Some(own) = site_packages(folder) else {
            return ImportPath { main: folder.to_owned(), beside: Vec::new(), chosen_by: None };
        };
        let version = version_of(&own).unwrap_or_default();
        of_candidates(users(&version, tree, variables).into_iter().collect(), own)
    }

    /// That of a Python program, which is not started. Fails if the place of the program does not
    /// tell where its packages are.
    pub fn of_program(program: &Path, tree: &MachineTree, variables: &SessionVariables) -> Result<ImportPath, Error> {
        let path = program.to_owned();
        let Ok(given) = std::path::absolute(program) else { return Err(Error::NoProgram { path, link: None }) };
        // The program of a virtual environment is a link, so the path that was given comes first.
        let prefix = given.parent().and_then(Path::parent);
        if let Some(prefix) = prefix.filter(|prefix| prefix.join(SETTINGS).is_file())
            && fs_err::symlink_metadata(&given).is_ok()
        {
            return Ok(ImportPath::of_folder(prefix, tree, variables));
        }
        if !given.is_file() {
            return Err(Error::NoProgram { path, link: fs_err::read_link(&given).ok() });
        }
        let Ok(real) = rocwheel_system::canonicalize(&given) else { return Err(Error::NoProgram { path, link: None }) };
        let mut version = real.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if !version.starts_with("python") {
            return Err(Error::NoPackages { path: program.to_owned() });
        }
        // On Windows the program is not in a folder of programs.
        let above = if cfg!(windows) { 1 } else { 2 };
        let prefixes = [given.as_path(), real.as_path()].into_iter().filter_map(|path| path.ancestors().nth(above));
        let prefixes: Vec<&Path> = prefixes.collect();
        let named = prefixes.iter().map(|prefix| prefix.join("lib").join(&version).join("site-packages"));
        let found = named.into_iter().find(|folder| folder.is_dir());
        let found = found.or_else(|| prefixes.iter().find_map(|prefix| site_packages(prefix)));
        // Nor does its name tell the version.
        if let Some(own) = found.as_deref().filter(|_| cfg!(windows)).and_then(version_of) {
            version = own;
        }
        let mut before: Vec<PathBuf> = users(&version, tree, variables).into_iter().collect();
        if real.starts_with("/usr/bin") {
            before.extend(existing(tree, &format!("/usr/local/lib/{version}/dist-packages")));
        }
        let own = found.or_else(|| before.pop());
        own.map(|own| of_candidates(before, own)).ok_or_else(|| Error::NoPackages { path: program.to_owned() })
    }

    /// That of the environment that a shell has activated, or of the one in the working directory,
    /// or of the first Python on PATH, as in images of containers. pyenv, asdf and mise are looked
    /// through by their files.
    ///
    /// The error is what was looked for. If variables name only folders that do not exist, nothing
    /// else was.
    pub fn active(
        directory: &Path,
        tree: &MachineTree,
        variables: &SessionVariables,
    ) -> Result<ImportPath, Vec<Evidence>> {
        let named: Vec<(&str, &str)> =
            ACTIVE.iter().filter_map(|name| Some((*name, variables.filled(name)?))).collect();
        if let Some((_, folder)) = named.iter().find(|(_, folder)| Path::new(folder).is_dir()) {
            return Ok(ImportPath::of_folder(Path::new(folder), tree, variables));
        }
        if !named.is_empty() {
            let gone = named.into_iter();
            let gone = gone.map(|(name, folder)| Evidence::new(name, format!("{folder}, which is not a folder")));
            return Err(gone.collect());
        }
        let near = directory.join(".venv");
        if near.join(SETTINGS).is_file() {
            return Ok(ImportPath::of_folder(&near, tree, variables));
        }
        let mut seen: Vec<Evidence> = ACTIVE.iter().map(|name| Evidence::new(*name, "not set")).collect();
        let path = variables.filled("PATH").unwrap_or_default();
        let Some(shim) = rocwheel_system::find_program(PYTHON, path) else {
            seen.push(Evidence::new("PATH", format!("no `{PYTHON}`")));
            return Err(seen);
        };
        let (program, chosen_by) = match (Session { directory, variables }).look_through(&shim) {
            Behind::Itself => (shim, None),
            Behind::Chosen { program, by } => (program, Some(by)),
            Behind::Unknown(words) => {
                seen.push(Evidence::new(shim.to_string_lossy(), words));
                return Err(seen);
            }
        };
        match ImportPath::of_program(&program, tree, variables) {
            Ok(found) => Ok(ImportPath { chosen_by, ..found }),
            Err(error) => {
                seen.push(Evidence::new(program.to_string_lossy(), rocwheel_progress::with_causes(&error)));
                Err(seen)
            }
        }
    }
}

/// The first one with packages for GPUs, and those after it that have some. Without any, that of
/// the Python itself.
fn of_candidates(before: Vec<PathBuf>, own: PathBuf) -> ImportPath {
    let mut folders: Vec<PathBuf> = before.into_iter().filter(|folder| *folder != own).collect();
    folders.push(own.clone());
    folders.retain(|folder| has_gpu_packages(folder));
    let mut folders = folders.into_iter();
    let main = folders.next().unwrap_or(own);
    ImportPath { main, beside: folders.collect(), chosen_by: None }
}

/// The folders that a virtual environment sees besides its own one, because it was made with
/// `--system-site-packages`.
fn folders_of_base(prefix: &Path, tree: &MachineTree, variables: &SessionVariables) -> Vec<PathBuf> {
    let text = fs_err::read_to_string(prefix.join(SETTINGS)).unwrap_or_default();
    let is_on = environment_setting(&text, "include-system-site-packages")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let home = environment_setting(&text, "home");
    let base = if cfg!(windows) { home } else { home.and_then(|home| home.rsplit_once('/')).map(|(base, _)| base) };
    let (Some(base), Some(own), true) = (base, site_packages(prefix), is_on) else { return Vec::new() };
    let Some(version) = version_of(&own) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = users(&version, tree, variables).into_iter().collect();
    let system: &[String] = &[
        format!("/usr/local/lib/{version}/dist-packages"),
        "/usr/lib/python3/dist-packages".to_owned(),
        format!("{base}/lib/{version}/site-packages"),
        format!("{base}/lib64/{version}/site-packages"),
        format!("{base}/Lib/site-packages"),
    ];
    for path in system.iter().filter(|path| base == "/usr" || !path.ends_with("/dist-packages")) {
        folders.extend(existing(tree, path).filter(|folder| !folders.contains(folder)));
    }
    folders.retain(|folder| has_gpu_packages(folder));
    folders
}

/// A folder of the machine, with links resolved; `None` if it does not exist.
fn existing(tree: &MachineTree, path: &str) -> Option<PathBuf> {
    let folder = tree.locate(path).ok().filter(|folder| folder.is_dir())?;
    rocwheel_system::canonicalize(folder).ok()
}

/// The folder for the user's packages of a Python: `python3.12` is its name.
fn users(version: &str, tree: &MachineTree, variables: &SessionVariables) -> Option<PathBuf> {
    if variables.filled("PYTHONNOUSERSITE").is_some() {
        return None;
    }
    let base = match variables.filled("PYTHONUSERBASE") {
        Some(base) => base.to_owned(),
        None if tree.is_windows() => format!("{}/Python", variables.filled("APPDATA")?),
        None => format!("{}/.local", variables.filled("HOME")?),
    };
    let library = if tree.is_windows() { version.replace("python3.", "Python3") } else { format!("lib/{version}") };
    existing(tree, &format!("{base}/{library}/site-packages"))
}

/// The name of the Python of a folder of packages: `python3.12`.
fn version_of(folder: &Path) -> Option<String> {
    let name = folder.parent()?.file_name()?.to_str()?;
    if name.eq_ignore_ascii_case("lib") {
        return Some(format!("python{}", PackageFolder::find(folder).ok()??.python()?));
    }
    name.starts_with("python").then(|| name.to_owned())
}

/// The folder of packages of a prefix, such as that of conda.
fn site_packages(prefix: &Path) -> Option<PathBuf> {
    let entries =
        ["lib", "lib64"].iter().filter_map(|name| fs_err::read_dir(prefix.join(name)).ok()).flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("python"))
        .flat_map(|entry| ["site-packages", "dist-packages"].map(|name| entry.path().join(name)))
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    let on_windows = prefix.join("Lib").join("site-packages");
    folders.pop().or_else(|| on_windows.is_dir().then_some(on_windows))
}
