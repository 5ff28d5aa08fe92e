//! `rocwheel doctor`: says which GPUs this machine has, whether the installed packages can use
//! them, and which command fixes what is wrong.

mod line;
mod text;

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_doctor::{
    Diagnosis, Error, Evidence, Gravity, ImportPath, MachineTree, PackageChoice, Patient, SessionUser,
    SessionVariables, diagnose,
};
use rocwheel_progress::{Context, Exit};
use serde::Serialize;

/// Find out why a GPU or an installed ROCm does not work, and which command fixes it
///
/// Reads the driver's files, the device files, the environment variables and the installed Python
/// packages. It starts no program, imports no package, changes nothing and uses no network, except
/// for what `--index` asks. Each finding has a code, what was seen, what it means, and one command.
///
/// The packages are those of `--venv` or `--python`, else of the active environment (VIRTUAL_ENV,
/// CONDA_PREFIX), else of `.venv` in the working directory, else of the `python3` on PATH. pyenv,
/// asdf and mise are looked through by their files.
///
/// The exit code is 1 if there is an error, or if a check could not be made. What was not looked at
/// at all is listed at the end, and does not change the exit code.
#[derive(Debug, Args)]
pub struct Arguments {
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
    /// Package index with wheels of ROCm: an address or a folder. Where something has to be
    /// installed, it is asked what it has for this GPU, and commands are those that install it
    #[arg(long, value_name = "URL")]
    index: Option<String>,
}

#[derive(Debug)]
pub struct Settings {
    patient: Patient,
    /// The index as the user wrote it.
    index: Option<String>,
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
        let packages = match (arguments.venv, arguments.python) {
            (Some(venv), _) if venv.is_dir() => PackageChoice::Of(ImportPath::of_folder(&venv, &tree, &variables)),
            (Some(path), _) => return Err(Usage::new(format!("`{}` is not a folder", path.display())).into()),
            (None, Some(program)) => PackageChoice::Of(ImportPath::of_program(&program, &tree, &variables)?),
            (None, None) if arguments.root.is_some() => PackageChoice::NotFound(vec![Evidence {
                path: "--venv".to_owned(),
                value: "not given, and the environment of a copy is not searched for".to_owned(),
            }]),
            (None, None) => match ImportPath::active(&environment::directory()?, &tree, &variables) {
                Ok(path) => PackageChoice::Of(path),
                Err(seen) => PackageChoice::NotFound(seen),
            },
        };
        // A copy of a machine has no working directory.
        let directory = if arguments.root.is_some() { None } else { Some(environment::directory()?) };
        let (user, needs_gpu) = (arguments.user, arguments.need_gpu);
        let index = arguments.index.as_deref().map(index_address).transpose()?;
        let scratch = environment::scratch();
        Ok(Self {
            index: arguments.index,
            patient: Patient { tree, variables, user, packages, index, directory, needs_gpu, scratch },
        })
    }
}

/// A package index as pip and uv take it. Of a folder that `index build` wrote, it is `simple`.
fn index_address(text: &str) -> Result<String> {
    if text.contains("://") {
        return Ok(text.to_owned());
    }
    let folder = Path::new(text);
    let places = [folder.join("simple"), folder.to_owned()];
    let place =
        places.iter().filter(|place| place.is_dir()).find_map(|place| rocwheel_system::canonicalize(place).ok());
    let place = place.ok_or_else(|| {
        let hint = rocwheel_index::address_hint(folder).unwrap_or_else(|| "name the folder of the index".to_owned());
        Usage::new(format!("`{text}` is neither the address of an index nor a folder")).hint(hint)
    })?;
    Ok(place.to_string_lossy().into_owned())
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

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
    counts: SymptomCounts,
}

#[derive(Serialize)]
struct SymptomCounts {
    errors: usize,
    unknown: usize,
    warnings: usize,
    notes: usize,
}

/// Prints what is wrong.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let mut diagnosis = diagnose(&settings.patient, printer.reporter())?;
    if let Some(index) = &settings.index {
        line::choose(&mut diagnosis, index, printer)?;
    }
    match printer.format() {
        ResultFormat::Json => {
            let counts = SymptomCounts {
                errors: diagnosis.count(Gravity::Error),
                unknown: diagnosis.count(Gravity::Unknown),
                warnings: diagnosis.count(Gravity::Warning),
                notes: diagnosis.count(Gravity::Note),
            };
            printer.json(&Document { diagnosis: &diagnosis, counts })?;
        }
        ResultFormat::Text => text::print(&diagnosis, printer)?,
    }
    Ok(if diagnosis.is_well() { Exit::Done } else { Exit::Failed })
}
