//! Input: a machine, its variables and a folder of packages. Output: the [`Diagnosis`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rocwheel_audit::finding::{Code, Severity};
use rocwheel_audit::{Options, SetLibraryPath};
use rocwheel_loader::simulation::Root;
use rocwheel_loader::site::{PackageFolder, prefix_of};
use rocwheel_progress::{Reporter, shell_path};
use serde::Serialize;

use crate::access::{self, Session};
use crate::builds::{Builds, PackageFacts};
use crate::container::ContainerKind;
use crate::coverage::Unexamined;
use crate::finding::{Evidence, Gravity, Symptom};
use crate::gpus::{self, GpuFacts};
use crate::import_path::ImportPath;
use crate::installed::{self, Installed};
use crate::kfd::Topology;
use crate::pins::{self, RocmSource};
use crate::pip_command::Installer;
use crate::settle::{ChosenLine, Reader};
use crate::system::SystemFacts;
use crate::target_names::is_covered;
use crate::tree::{MachineTree, ReadFault};
use crate::user::SessionUser;
use crate::variables::SessionVariables;
use crate::{
    Error, builds, compiler, driver, installer, limits, masks, overrides, own_python, packages, pci, rocm_libraries,
    shared_files, torch, wsl,
};

/// The machine and the packages that are examined.
#[derive(Debug)]
pub struct Patient {
    pub tree: MachineTree,
    pub variables: SessionVariables,
    /// The user; `None` for that of `/proc/self/status`.
    pub user: Option<SessionUser>,
    pub packages: PackageChoice,
    /// The address of a package index, which commands name.
    pub index: Option<String>,
    /// The working directory, whose project may have settings of uv.
    pub directory: Option<PathBuf>,
    /// `true` if a machine without a usable GPU has an error.
    pub needs_gpu: bool,
    /// Folder for temporary files, which nothing is written to unless a file has to be unpacked.
    pub scratch: PathBuf,
}

/// The packages that are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageChoice {
    /// Those of a Python.
    Of(ImportPath),
    /// None was found; where it was looked for.
    NotFound(Vec<Evidence>),
    /// Packages are not examined.
    NotAsked,
}

#[derive(Debug, Serialize)]
pub struct Diagnosis {
    /// The folder of a copy of a machine; `None` for this machine.
    pub root: Option<PathBuf>,
    /// Kernel, driver, container.
    pub system: SystemFacts,
    /// The GPUs that the driver offers, in its order.
    pub gpus: Vec<GpuFacts>,
    /// The examined packages; `None` if there was no environment.
    pub python: Option<PythonFolder>,
    /// The findings, the heaviest first.
    pub findings: Vec<Symptom>,
    /// One line: whether GPU and packages work.
    pub verdict: String,
    /// What was not looked at here, although it would be elsewhere.
    pub not_looked_at: Vec<Unexamined>,
    /// What each installed ROCm was built from.
    pub rocm: Vec<RocmSource>,
    /// What the named index has for this machine; `None` if nothing has to be installed.
    pub install: Option<ChosenLine>,
    /// GPU targets that packages need kernels for.
    #[serde(skip)]
    pub targets: Vec<String>,
    /// `None` for a copy of a machine.
    #[serde(skip)]
    pub(crate) installer: Option<Installer>,
}

/// A folder of packages.
#[derive(Debug, Serialize)]
pub struct PythonFolder {
    pub path: PathBuf,
    /// Further folders with packages for GPUs, from which the same Python imports: those of the
    /// user, and those of the system that a virtual environment shares.
    pub beside: Vec<PathBuf>,
    /// The manager of versions that chose its Python, and what told it to; `None` without one.
    pub chosen_by: Option<String>,
    /// The version of its Python; `None` if neither the path nor a package tells.
    pub version: Option<String>,
    pub packages: Vec<PackageFacts>,
    /// Number of all packages.
    pub count: usize,
}

impl Diagnosis {
    pub fn count(&self, gravity: Gravity) -> usize {
        self.findings.iter().filter(|symptom| symptom.severity == gravity).count()
    }

    /// `true` if nothing is wrong that keeps the GPU or a package from working, and every check
    /// could be made.
    pub fn is_well(&self) -> bool {
        self.findings.iter().all(|symptom| symptom.severity < Gravity::Unknown)
    }
}

pub fn diagnose(patient: &Patient, reporter: &dyn Reporter) -> Result<Diagnosis, Error> {
    let Patient { tree, variables, .. } = patient;
    let container = ContainerKind::find(tree, variables);
    let system = SystemFacts::read(tree, variables, container);
    let (mut symptoms, mut unexamined) = (Vec::new(), Vec::new());
    let installed = open_packages(patient, reporter, (&mut symptoms, &mut unexamined))?;
    let kernels = installed.as_ref().map(|installed| installed.kernels(&["rocm-sdk", "torch", "amd-torch"]));
    let kernels = kernels.unwrap_or_default();
    let mut gpus = Vec::new();
    let without_files = match (system.wsl, tree.is_windows()) {
        (true, _) => Some(("WSL has none", "in WSL no file shows them", "`rocminfo` in WSL")),
        (_, true) => Some(("Windows has none", "on Windows no file shows them", "`hipInfo` of rocm-sdk-core")),
        _ => None,
    };
    if system.wsl {
        let own = installed.as_ref().map(|installed| runtime_folders(tree, installed)).unwrap_or_default();
        wsl::check(tree, variables, (&own, container), &mut symptoms);
    }
    if let Some((seen, why, decides)) = without_files {
        if patient.needs_gpu {
            let symptom = Symptom::new("not-read").fill("question", "Whether a GPU can be used");
            symptoms.push(symptom.seen("/sys/class/kfd/kfd/topology/nodes", seen));
        }
        unexamined.push(Unexamined::new("the GPUs", why, decides));
    } else {
        gpus = examine_gpus(patient, (container, &kernels), (&mut symptoms, &mut unexamined));
    }
    reporter.check()?;
    let (mut python, mut has_index, mut wanted) = (None, false, Vec::new());
    if let Some(installed) = &installed {
        let mut targets = targets_of_interest(&gpus, variables, &kernels);
        // The mask is what is wrong, and not the packages.
        if symptoms.iter().any(|symptom| symptom.name == "mask-leaves-integrated") {
            targets.retain(|(gpu, target)| !gpu.integrated || is_covered(target, &kernels));
        }
        let builds = Builds::read(installed);
        examine_packages(patient, installed, (&targets, &builds), reporter, (&mut symptoms, &mut unexamined))?;
        wanted = targets.into_iter().map(|(_, target)| target).collect();
        has_index = examine_installer(patient, installed, &wanted, &mut symptoms);
        python = Some(python_folder(patient, installed, &builds));
    }
    overrides::check(&gpus, variables, &kernels, &mut symptoms);
    examine_variables(patient, installed.as_ref(), &mut symptoms);
    let own = installed.as_ref().filter(|_| tree.root().is_none());
    if let Some(installed) = own {
        own_python::check(installed, &mut symptoms);
    }
    let installer = own.map(|installed| Installer::of(installed, variables));
    let reader = Reader { container, index: patient.index.as_deref(), has_index, installer: installer.clone() };
    for symptom in &mut symptoms {
        reader.settle(symptom);
    }
    symptoms.sort_by(|one, other| (other.severity, one.code).cmp(&(one.severity, other.code)));
    symptoms.dedup();
    let mut diagnosis = Diagnosis {
        root: tree.root().map(Path::to_owned),
        system,
        gpus,
        python,
        findings: symptoms,
        verdict: String::new(),
        rocm: pins::read(installed.as_ref(), (tree, variables), &mut unexamined),
        not_looked_at: unexamined,
        install: None,
        targets: wanted,
        installer,
    };
    diagnosis.verdict = verdict(&diagnosis);
    Ok(diagnosis)
}

fn python_folder(patient: &Patient, installed: &Installed, builds: &Builds) -> PythonFolder {
    let chosen_by = match &patient.packages {
        PackageChoice::Of(path) => path.chosen_by.clone(),
        PackageChoice::NotFound(_) | PackageChoice::NotAsked => None,
    };
    PythonFolder {
        path: installed.folder.path().to_owned(),
        beside: installed.beside.iter().map(|folder| folder.path().to_owned()).collect(),
        chosen_by,
        version: installed.python.map(|python| python.to_string()),
        packages: builds.facts(installed, torch::kind(installed).map(|(kind, _)| kind)),
        count: installed.site.distributions.iter().filter(|one| !one.is_rest()).count(),
    }
}

/// One line for the end of the report.
pub(crate) fn verdict(diagnosis: &Diagnosis) -> String {
    let mut parts = Vec::new();
    for (gravity, one, many) in [
        (Gravity::Error, "error", "errors"),
        (Gravity::Unknown, "check that could not be made", "checks that could not be made"),
        (Gravity::Warning, "warning", "warnings"),
    ] {
        match diagnosis.count(gravity) {
            0 => {}
            1 => parts.push(format!("1 {one}")),
            number => parts.push(format!("{number} {many}")),
        }
    }
    let usable = diagnosis.gpus.iter().filter(|gpu| gpu.hip_index.is_some()).count();
    let gpus = match (usable, diagnosis.system.wsl) {
        (_, true) => "in WSL, files do not show the GPUs".to_owned(),
        (0, _) if diagnosis.system.driver_loaded.is_none() => "it is not known whether a GPU can be used".to_owned(),
        (0, _) => "no AMD GPU can be used here".to_owned(),
        (1, _) => "1 GPU can be used".to_owned(),
        (number, _) => format!("{number} GPUs can be used"),
    };
    let is_whole = diagnosis.not_looked_at.is_empty();
    match (diagnosis.is_well(), parts.is_empty(), is_whole) {
        (false, ..) => format!("not well: {}; {gpus}", parts.join(", ")),
        (true, true, true) => format!("nothing wrong was found; {gpus}"),
        (true, true, false) => format!("nothing wrong in what was looked at; {gpus}"),
        (true, false, true) => format!("no errors, {}; {gpus}", parts.join(", ")),
        (true, false, false) => format!("no errors in what was looked at, {}; {gpus}", parts.join(", ")),
    }
}

fn examine_gpus(
    patient: &Patient,
    (container, kernels): (Option<ContainerKind>, &BTreeSet<String>),
    (symptoms, unexamined): (&mut Vec<Symptom>, &mut Vec<Unexamined>),
) -> Vec<GpuFacts> {
    let Patient { tree, variables, .. } = patient;
    let mut topology = Topology::read(tree);
    symptoms.append(&mut topology.faults);
    let mut gpus = gpus::join(tree, &topology, symptoms);
    let (bus, faults) = pci::read(tree);
    symptoms.extend(faults);
    gpus::check_hidden(&topology, symptoms);
    // A container sees the bus of the host, and nodes that it may not read are on it too.
    if topology.hidden.is_empty() {
        gpus::check_offer(tree, &gpus, &bus, symptoms);
    }
    let status = tree.text_if_any("/proc/self/status");
    let user = patient.user.clone().or_else(|| SessionUser::of_status(&status?));
    if !gpus.is_empty() {
        let session = Session { tree, user: user.as_ref(), container };
        let usable = access::check(&session, &gpus, symptoms);
        masks::apply(&mut gpus, &usable, variables, symptoms);
        masks::check_order(&gpus, &usable, variables, symptoms);
        masks::check_integrated(&gpus, &usable, (variables, kernels), symptoms);
        if !limits::check(tree, symptoms) {
            let decides = "`ulimit -l` in the session";
            unexamined.push(Unexamined::new("the limit of locked memory", not_there(limits::LIMITS), decides));
        }
    }
    if !tree.exists(pci::DEVICES) {
        let decides = "`lspci -nn -d 1002:` on the machine";
        unexamined.push(Unexamined::new("the PCI bus", not_there(pci::DEVICES), decides));
    }
    driver::check_firmware(tree, &gpus, symptoms);
    driver::check_iommu(tree, &gpus, symptoms);
    let has_doubt = symptoms.iter().any(|symptom| symptom.severity >= Gravity::Unknown);
    if container == Some(ContainerKind::DockerDesktop) && gpus.is_empty() {
        symptoms.push(Symptom::new("docker-desktop").seen("/proc/version", "linuxkit"));
        let why = "the container runs in a virtual machine";
        unexamined.push(Unexamined::new("the GPUs of the host", why, "`rocwheel doctor` on the host"));
    }
    if gpus.is_empty() && bus.is_empty() && topology.hidden.is_empty() && !has_doubt {
        let of_driver = if topology.exists { "no node of a GPU" } else { "does not exist" };
        let of_bus = if tree.exists(pci::DEVICES) {
            "no GPU of the vendor 0x1002"
        } else {
            "does not exist, so the bus could not be searched for a GPU"
        };
        let is_known = topology.exists || ["/sys/module", pci::DEVICES].iter().any(|path| tree.exists(path));
        let symptom = if is_known {
            Symptom::new("no-gpu")
        } else {
            Symptom::new("not-read").fill("question", "Which GPUs the machine has")
        };
        let symptom = symptom.seen("/sys/class/kfd/kfd/topology/nodes", of_driver).seen(pci::DEVICES, of_bus);
        symptoms.push(if patient.needs_gpu { symptom.weighing(Gravity::Error) } else { symptom });
    }
    if patient.needs_gpu && gpus.iter().all(|gpu| gpu.hip_index.is_none()) {
        for symptom in symptoms.iter_mut().filter(|symptom| UNUSABLE.contains(&symptom.name)) {
            symptom.severity = Gravity::Error;
        }
    }
    gpus
}

fn not_there(path: &str) -> String {
    format!("`{path}` does not exist, or does not tell it")
}

/// Findings that are errors if a GPU is needed and no other one can be used.
const UNUSABLE: [&str; 4] = ["gpu-reserved", "display-driver", "no-compute-node", "docker-desktop"];

/// Folders of packages with the runtime.
fn runtime_folders(tree: &MachineTree, installed: &Installed) -> Vec<String> {
    let files = installed.files(|_| true).filter(|(_, path)| path.contains("/libhsa-runtime64.so"));
    let folders: BTreeSet<String> = files
        .filter_map(|(owner, path)| {
            let base = tree.path_inside(installed.folder_of(owner));
            Some(format!("{base}/{}", path.rsplit_once('/')?.0))
        })
        .collect();
    folders.into_iter().collect()
}

fn open_folders(
    main: &Path,
    beside: &[PathBuf],
    scratch: (&Path, &dyn Reporter),
) -> Result<Option<Installed>, rocwheel_loader::Error> {
    let Some(folder) = PackageFolder::find(main)? else { return Ok(None) };
    let beside: Vec<Option<PackageFolder>> =
        beside.iter().map(|folder| PackageFolder::find(folder)).collect::<Result<_, _>>()?;
    let beside = beside.into_iter().flatten().filter(|other| *other != folder).collect();
    Ok(Some(Installed::open(folder, beside, scratch)?))
}

fn open_packages(
    patient: &Patient,
    reporter: &dyn Reporter,
    (symptoms, unexamined): (&mut Vec<Symptom>, &mut Vec<Unexamined>),
) -> Result<Option<Installed>, Error> {
    let (path, beside) = match &patient.packages {
        PackageChoice::Of(ImportPath { main, beside, .. }) => (main, beside),
        PackageChoice::NotFound(seen) => {
            unexamined.push(Unexamined::packages(seen));
            symptoms.push(Symptom { evidence: seen.clone(), ..Symptom::new("no-python") });
            return Ok(None);
        }
        PackageChoice::NotAsked => return Ok(None),
    };
    match open_folders(path, beside, (&patient.scratch, reporter)) {
        Ok(Some(installed)) => Ok(Some(installed)),
        Ok(None) => Err(Error::NoPackages { path: path.clone() }),
        Err(rocwheel_loader::Error::Interrupted(interrupted)) => Err(interrupted.into()),
        Err(error) => {
            let symptom = unreadable("Whether the installed packages fit together", path, &error);
            unexamined.push(Unexamined::packages(&symptom.evidence));
            symptoms.push(symptom);
            Ok(None)
        }
    }
}

/// A file of the packages that cannot be read. That the user may not read it has a usual cause: an
/// installation by root with a umask of 077.
fn unreadable(question: &str, folder: &Path, error: &rocwheel_loader::Error) -> Symptom {
    let rocwheel_loader::Error::Read { path, source } = error else {
        let fault = ReadFault::Other(rocwheel_progress::with_causes(error));
        return Symptom::not_read(question, &folder.to_string_lossy(), &fault);
    };
    if source.kind() == std::io::ErrorKind::PermissionDenied {
        let folder = shell_path(folder);
        let words = ReadFault::Denied.words();
        return Symptom::new("packages-denied").fill("folder", &folder).seen(path.to_string_lossy(), words);
    }
    // The text of the error names the path again.
    let text = source.to_string();
    let words = text.rsplit_once("`: ").map_or(text.as_str(), |(_, words)| words).to_owned();
    Symptom::not_read(question, &path.to_string_lossy(), &ReadFault::Other(words))
}

fn examine_packages(
    patient: &Patient,
    installed: &Installed,
    (targets, builds): (&[(&GpuFacts, String)], &Builds),
    reporter: &dyn Reporter,
    (symptoms, unexamined): (&mut Vec<Symptom>, &mut Vec<Unexamined>),
) -> Result<(), Error> {
    packages::check_metadata(installed, symptoms);
    if installed.of_gpus().next().is_none() {
        return Ok(());
    }
    packages::check_versions(installed, symptoms);
    packages::check_kernels(installed, targets, symptoms, unexamined);
    packages::check_devel(installed, symptoms);
    packages::check_unknown_files(installed, symptoms);
    packages::check_twice(installed, symptoms);
    packages::check_copies(installed, symptoms);
    torch::check(installed, (targets, builds), symptoms, unexamined);
    torch::check_pins(installed, symptoms);
    let torch = torch::kind(installed).map(|(kind, _)| kind);
    let foreign = builds::check(installed, builds, (torch, targets), symptoms);
    builds::check_torch(installed, symptoms);
    if !builds.unknown.is_empty() {
        let names: Vec<&str> = builds.unknown.iter().map(String::as_str).collect();
        let what = format!("what {} is built for", names.join(" and "));
        let why = "neither its version nor its files name ROCm or CUDA";
        unexamined.push(Unexamined::new(what, why, "`rocwheel test smoke`, which imports it"));
    }
    audit(patient, (installed, &foreign), reporter, symptoms)?;
    shared_files::check(installed, &foreign, symptoms);
    Ok(())
}

/// The GPUs that packages need kernels for, one for each target: those that no mask hides. The GPU
/// of a processor beside a discrete one needs none. With an override, the runtime asks for the
/// other target's kernels; if these are not among the installed `kernels`, the override is what is
/// wrong.
fn targets_of_interest<'a>(
    gpus: &'a [GpuFacts],
    variables: &SessionVariables,
    kernels: &BTreeSet<String>,
) -> Vec<(&'a GpuFacts, String)> {
    let visible = gpus::visible(gpus);
    let has_discrete = visible.iter().any(|gpu| !gpu.integrated);
    let mut seen = BTreeSet::new();
    let wanted = visible.into_iter().filter(|gpu| !gpu.integrated || !has_discrete);
    let targets = wanted.filter_map(|gpu| {
        let other = overrides::effective(gpu, variables).filter(|other| is_covered(other, kernels));
        Some((gpu, other.or_else(|| gpu.target.clone())?))
    });
    targets.filter(|(_, target)| seen.insert(target.clone())).collect()
}

/// Asks the audit whether every file will load. Those of `foreign` packages are known not to.
fn audit(
    patient: &Patient,
    (installed, foreign): (&Installed, &BTreeSet<String>),
    reporter: &dyn Reporter,
    symptoms: &mut Vec<Symptom>,
) -> Result<(), Error> {
    let Patient { tree, variables, .. } = patient;
    let machine = tree.root().unwrap_or(Path::new("/"));
    let directories = variables.folders("LD_LIBRARY_PATH");
    let root = if directories.is_empty() { None } else { Root::read(machine).ok() };
    let library_path = root.map(|machine| SetLibraryPath { machine, directories: directories.clone() });
    let options = Options { library_path, ..Options::default() };
    let report = match rocwheel_audit::audit(&installed.site, &options, reporter) {
        Ok(report) => report,
        Err(rocwheel_audit::Error::Interrupted(interrupted)) => return Err(interrupted.into()),
        Err(error) => {
            let (question, folder) = ("Whether the installed libraries load", installed.folder.path());
            symptoms.push(if let rocwheel_audit::Error::Loader(error) = &error {
                unreadable(question, folder, error)
            } else {
                let fault = ReadFault::Other(rocwheel_progress::with_causes(&error));
                Symptom::not_read(question, &folder.to_string_lossy(), &fault)
            });
            return Ok(());
        }
    };
    for finding in &report.findings {
        let wheel = finding.wheel.clone().unwrap_or_default();
        let owner = installed.site.distributions.iter().find(|one| one.file_name() == wheel);
        let file = finding.file.clone().unwrap_or_else(|| wheel.clone());
        let requirement = owner.map_or_else(|| wheel.clone(), installed::pinned);
        let package = owner.map_or(wheel.as_str(), |owner| owner.name.as_str());
        let is_of_loading = is_about_loading(finding.code) || is_about_requirements(finding.code);
        if is_of_loading && foreign.contains(package) {
            continue;
        }
        let symptom = match (finding.code, finding.subject.as_str()) {
            (Code::Record, "missing") => Symptom::new("files-missing"),
            (Code::Record, "size") => Symptom::new("files-changed"),
            (Code::Record, "RECORD") => Symptom::new("record-damaged"),
            (Code::LibraryPath, _) if finding.severity == Severity::Warning => {
                Symptom::new("library-path").fill("folder", &directories.join(":")).weighing(Gravity::Error)
            }
            _ if finding.severity == Severity::Error && is_about_loading(finding.code) => {
                let folder = shell_path(installed.folder.path());
                let symptom = Symptom::new("library-not-found").fill("folder", &folder);
                match finding.fix.as_ref() {
                    Some(fix) => symptom.fill("command", fix.command()),
                    None => symptom.without_command(),
                }
            }
            _ if is_about_requirements(finding.code) => {
                let Some(owner) = owner else { continue };
                let names = rocm_libraries::libraries_in(&finding.message);
                let found = rocm_libraries::check(installed, (tree, variables), owner, &file, &names);
                symptoms.extend(found);
                continue;
            }
            _ => continue,
        };
        let more = finding.related.len();
        let is_of_index = package.starts_with("amd-") || package.contains("rocm") || requirement.contains('+');
        // PyPI has the packages that are not for one ROCm.
        let symptom = if is_of_index { symptom } else { symptom.fill("from-index", "") };
        let symptom = symptom.fill("package", package).fill("requirement", &requirement).seen(file, &finding.message);
        let symptom = if more > 0 { symptom.seen(format!("and {more} more"), "") } else { symptom };
        symptoms.push(symptom);
    }
    Ok(())
}

fn is_about_loading(code: Code) -> bool {
    use Code::{DlopenMissing, LibraryNotFound, LibraryOutside, SymbolVersion, UndefinedSymbol};
    [LibraryNotFound, LibraryOutside, UndefinedSymbol, SymbolVersion, DlopenMissing].contains(&code)
}

fn is_about_requirements(code: Code) -> bool {
    [Code::MissingRequirement, Code::NotGiven, Code::WrongRequirement].contains(&code)
}

/// The settings that the next installation follows, and the room for it. `true` if the settings
/// name an index that is not for another GPU.
fn examine_installer(
    patient: &Patient,
    installed: &Installed,
    targets: &[String],
    symptoms: &mut Vec<Symptom>,
) -> bool {
    let Patient { tree, variables, .. } = patient;
    let prefix = environment_of(tree, installed);
    let has_index =
        installer::check_indexes(tree, variables, (&prefix, patient.directory.as_deref()), targets, symptoms);
    installer::check_conda(tree, &prefix, symptoms);
    installer::check_space(tree, installed, symptoms);
    has_index
}

/// The environment around a folder of packages, as a path of the machine.
fn environment_of(tree: &MachineTree, installed: &Installed) -> String {
    tree.path_inside(prefix_of(installed.folder.path()).unwrap_or(Path::new("/")))
}

/// `true` for a folder in one of these; `/venv-old` is not in `/venv`.
fn is_in_any(folder: &str, folders: &[String]) -> bool {
    folders.iter().any(|own| own.len() > 1 && Path::new(folder).starts_with(own))
}

/// Variables and files that bring another ROCm or another Python package in.
fn examine_variables(patient: &Patient, installed: Option<&Installed>, symptoms: &mut Vec<Symptom>) {
    const RUNTIME: [&str; 3] = ["libamdhip64.so", "libhsa-runtime64.so", "librocblas.so"];
    let Patient { tree, variables, .. } = patient;
    let Some(installed) =
        installed.filter(|installed| installed.of_rocm().next().is_some() || installed.get("torch").is_some())
    else {
        return;
    };
    let prefix = environment_of(tree, installed);
    let mut own: Vec<String> = installed.beside.iter().map(|folder| tree.path_inside(folder.path())).collect();
    own.push(prefix.clone());
    let is_said = symptoms.iter().any(|symptom| symptom.name == "library-path");
    for folder in variables.folders("LD_LIBRARY_PATH").iter().filter(|folder| !is_said && !is_in_any(folder, &own)) {
        let names = tree.names(folder).unwrap_or_default();
        if let Some(library) = names.iter().find(|name| RUNTIME.iter().any(|start| name.starts_with(start))) {
            let symptom = Symptom::new("library-path").fill("folder", folder);
            symptoms.push(symptom.seen("LD_LIBRARY_PATH", folder).seen(format!("{folder}/{library}"), "exists"));
        }
    }
    let preload = variables.filled("LD_PRELOAD").unwrap_or_default();
    if RUNTIME.iter().chain(&["rocm"]).any(|start| preload.contains(start)) {
        symptoms.push(Symptom::new("preloaded").seen("LD_PRELOAD", preload));
    }
    for variable in ["ROCM_PATH", "ROCM_HOME", "HIP_PATH"] {
        if let Some(folder) = variables.filled(variable).filter(|folder| !is_in_any(folder, &own))
            && installed.of_rocm().next().is_some()
        {
            let symptom = Symptom::new("rocm-path").fill("variable", variable).fill("folder", folder);
            symptoms.push(symptom.seen(variable, folder));
        }
    }
    compiler::check(tree, variables, (installed, &prefix), symptoms);
    for folder in variables.folders("PYTHONPATH") {
        let shadowing = ["torch", "rocm_sdk", "triton"]
            .into_iter()
            .find(|name| tree.exists(&format!("{folder}/{name}/__init__.py")));
        if let Some(package) = shadowing.filter(|_| !is_in_any(&folder, &own)) {
            let symptom = Symptom::new("shadowed").fill("folder", &folder).fill("package", package);
            symptoms.push(symptom.seen("PYTHONPATH", &folder));
        }
    }
    for name in tree.names("/etc/ld.so.conf.d").unwrap_or_default() {
        let path = format!("/etc/ld.so.conf.d/{name}");
        let text = tree.text_if_any(&path).unwrap_or_default();
        if let Some(folder) = text.lines().map(str::trim).find(|line| line.starts_with('/') && line.contains("rocm")) {
            let symptom = Symptom::new("linker-configuration").fill("file", &path).fill("folder", folder);
            symptoms.push(symptom.seen(path, folder));
        }
    }
}
