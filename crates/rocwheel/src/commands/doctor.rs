//! `rocwheel doctor`: says which GPUs this machine has, whether the installed packages can use
//! them, and which command fixes what is wrong.

mod text;

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use rocwheel_report::{Context, Exit};
use rocwheel_verify::doctor::{self, Error, Gravity, MachineTree, Patient, SessionUser, SessionVariables};

use crate::environment;
use crate::failure::{Failure, Result, Usage};
use crate::printer::{Format, Printer};

/// Find out why a GPU or an installed ROCm does not work, and which command fixes it
///
/// Reads the driver's files, the device files, the environment variables and the installed Python
/// packages. It starts no program, imports no package, changes nothing and uses no network. Each
/// finding has a code, what was seen, what it means, and one command.
///
/// The packages are those of `--venv` or `--python`, else of the active environment (VIRTUAL_ENV,
/// CONDA_PREFIX), else of `.venv` in the working directory, else of the `python3` on PATH.
///
/// The exit code is 1 if there is an error, or if a check could not be made.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Virtual environment, or its site-packages folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "python")]
    venv: Option<PathBuf>,
    /// Python whose packages are looked at; it is not started
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    python: Option<PathBuf>,
    /// Look at a copy of another machine: a folder with its sys, dev, proc and etc
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    root: Option<PathBuf>,
    /// Variables of that machine, as `env` prints them [default: proc/self/environ of the copy]
    #[arg(long, value_name = "FILE", requires = "root")]
    environment: Option<PathBuf>,
    /// User and groups of that machine, as numbers: 1000:1000,44 [default: proc/self/status of the
    /// copy]
    #[arg(long, value_name = "UID:GID,…", requires = "root")]
    user: Option<SessionUser>,
    /// A machine without an AMD GPU is an error
    #[arg(long)]
    need_gpu: bool,
}

#[derive(Debug)]
pub(crate) struct Settings {
    patient: Patient,
}

/// The copy of a machine in a folder. In any other folder nothing would be found, which looks as if
/// nothing were wrong.
fn machine_in(root: &Path) -> Result<MachineTree> {
    let tree = MachineTree::of_folder(root)?;
    if !["sys", "proc", "dev", "etc"].iter().any(|name| root.join(name).exists()) {
        return Err(Error::NoMachine { path: root.to_owned() }.into());
    }
    Ok(tree)
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let (tree, variables) = match &arguments.root {
            None => (MachineTree::live(), SessionVariables::of(environment::text_variables())),
            Some(root) => (machine_in(root)?, variables(root, arguments.environment.as_deref())?),
        };
        let python = match (arguments.venv, arguments.python) {
            (Some(venv), _) if venv.is_dir() => Some(site_packages(&venv).unwrap_or(venv)),
            (Some(path), _) => return Err(Usage::new(format!("`{}` is not a folder", path.display())).into()),
            (None, Some(program)) => Some(folder_of_python(&program)?),
            (None, None) if arguments.root.is_some() => None,
            (None, None) => active(&variables)?,
        };
        let (user, needs_gpu) = (arguments.user, arguments.need_gpu);
        Ok(Self { patient: Patient { tree, variables, user, python, needs_gpu, scratch: environment::scratch() } })
    }
}

/// The variables of a copy. A copy without any has none set.
fn variables(root: &Path, file: Option<&Path>) -> Result<SessionVariables> {
    let (path, is_named) = match file {
        Some(path) => (path.to_owned(), true),
        None => (root.join("proc/self/environ"), false),
    };
    match fs_err::read(&path) {
        Ok(bytes) => Ok(SessionVariables::parse(&String::from_utf8_lossy(&bytes))),
        Err(_) if !is_named => Ok(SessionVariables::default()),
        Err(error) => Err(error).context("cannot read the variables"),
    }
}

/// The environment that a shell has activated, or the one in the working directory, or that of the
/// first Python on PATH, as in images of containers. A script that chooses a Python when it is
/// started, such as pyenv's, says nothing.
fn active(variables: &SessionVariables) -> Result<Option<PathBuf>> {
    let named = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().find_map(|name| variables.filled(name)).map(PathBuf::from);
    if let Some(folder) = named {
        return Ok(Some(site_packages(&folder).unwrap_or(folder)).filter(|folder| folder.is_dir()));
    }
    let near = environment::directory()?.join(".venv");
    if near.join("pyvenv.cfg").is_file() {
        return Ok(Some(near));
    }
    let program = variables.filled("PATH").and_then(|path| rocwheel_system::find_program("python3", path));
    Ok(program.and_then(|program| folder_of_python(&program).ok()))
}

/// The folder of packages of a prefix that is no virtual environment, such as that of conda.
fn site_packages(prefix: &Path) -> Option<PathBuf> {
    if prefix.join("pyvenv.cfg").is_file() {
        return Some(prefix.to_owned());
    }
    let entries =
        ["lib", "lib64"].iter().filter_map(|name| fs_err::read_dir(prefix.join(name)).ok()).flatten().flatten();
    let is_python = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(is_python)
        .flat_map(|path| ["site-packages", "dist-packages"].map(|name| path.join(name)))
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders.pop()
}

/// The environment of a Python program. The program of a virtual environment is a link, so the
/// path that was given comes first.
fn folder_of_python(program: &Path) -> Result<PathBuf> {
    let given = std::path::absolute(program)?;
    if !given.is_file() {
        return Err(Usage::new(format!("`{}` is not a program", program.display()))
            .hint("name a file such as `.venv/bin/python`")
            .into());
    }
    let real = rocwheel_system::canonicalize(&given)?;
    let mut prefixes = [given.as_path(), real.as_path()].into_iter().filter_map(|path| path.parent()?.parent());
    let found = prefixes.find_map(site_packages);
    // A virtual environment has its own packages only; other Pythons also see those of the user.
    let prefix = given.parent().and_then(Path::parent);
    let others = if prefix.is_some_and(|prefix| prefix.join("pyvenv.cfg").is_file()) {
        Vec::new()
    } else {
        folders_of_a_system(&real)
    };
    let other = others.into_iter().find(|folder| doctor::has_gpu_packages(folder));
    other.or(found).ok_or_else(|| Error::NoPackages { path: program.to_owned() }.into())
}

/// The folders that a Python outside of an environment looks into before that of its system: the
/// user's, and Debian's for pip.
fn folders_of_a_system(program: &Path) -> Vec<PathBuf> {
    let Some(name) = program.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let home = environment::text_variables().find(|(variable, _)| variable == "HOME");
    let user = home.map(|(_, home)| Path::new(&home).join(".local/lib").join(name).join("site-packages"));
    let debian = Path::new("/usr/local/lib").join(name).join("dist-packages");
    let is_debian = program.starts_with("/usr/bin");
    user.into_iter().chain(is_debian.then_some(debian)).filter(|folder| folder.is_dir()).collect()
}

/// Prints what is wrong.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let diagnosis = doctor::diagnose(&settings.patient, printer.reporter())?;
    match printer.format() {
        Format::Json => {
            let count = |gravity: Gravity| diagnosis.count(gravity);
            let counts = serde_json::json!({
                "errors": count(Gravity::Error), "unknown": count(Gravity::Unknown),
                "warnings": count(Gravity::Warning), "notes": count(Gravity::Note),
            });
            let mut document = serde_json::to_value(&diagnosis).map_err(Failure::other)?;
            document["counts"] = counts;
            printer.json(&document)?;
        }
        Format::Text => text::print(&diagnosis, printer)?,
    }
    Ok(if diagnosis.is_well() { Exit::Done } else { Exit::Failed })
}
