//! Input: the installed packages with compiled code. Output: what each is built for, and those that
//! are for other GPUs or for another torch than the installed one. Rows of `data/doctor.toml` say
//! which packages are asked, and by which marks; the libraries that their files need tell the rest.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;
use rocwheel_elf::Elf;
use rocwheel_loader::site::Distribution;
use rocwheel_progress::shell_word;
use serde::Serialize;
use serde_json::Value;

use crate::finding::{GpuPackage, Gravity, Symptom, gpu_package, needed_libraries};
use crate::gpus::GpuFacts;
use crate::installed::{Installed, assigned_value, pinned};

/// What compiled code is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Rocm,
    Cuda,
    Processor,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Rocm => "ROCm",
            Kind::Cuda => "CUDA",
            Kind::Processor => "the processor only",
        }
    }
}

/// What a package is built for, and where that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Build {
    pub(crate) kind: Kind,
    /// The file or the version that tells.
    pub(crate) seen: String,
}

impl Build {
    fn new(kind: Kind, seen: impl Into<String>) -> Build {
        Build { kind, seen: seen.into() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PackageFacts {
    /// Canonical name.
    pub name: String,
    pub version: String,
    /// What its compiled code is for: `ROCm`, `CUDA`, `the processor only`; `None` if nothing tells
    /// it, and for a package without any.
    pub built_for: Option<&'static str>,
}

/// What is known about the compiled packages.
#[derive(Debug, Default)]
pub(crate) struct Builds {
    /// By name of the package.
    pub(crate) known: BTreeMap<String, Build>,
    /// Packages with libraries that nothing tells about.
    pub(crate) unknown: BTreeSet<String>,
}

impl Builds {
    /// Asks every package of a row that has compiled code; torch itself is asked elsewhere.
    pub(crate) fn read(installed: &Installed) -> Builds {
        let mut builds = Builds::default();
        for package in installed.of_gpus() {
            let Some(row) = gpu_package(&package.name).filter(|row| row.compiled) else { continue };
            match of_package(installed, package, row) {
                Some(build) => {
                    builds.known.insert(package.name.clone(), build);
                }
                None if libraries(installed, package).next().is_some() => {
                    builds.unknown.insert(package.name.clone());
                }
                None => {}
            }
        }
        builds
    }

    /// The packages that have to do with GPUs. `torch` is what torch is built for.
    pub(crate) fn facts(&self, installed: &Installed, torch: Option<Kind>) -> Vec<PackageFacts> {
        let mut facts = Vec::new();
        for one in installed.of_gpus() {
            let known = self.known.get(&one.name).map(|build| build.kind);
            let kind = if one.name == "torch" { torch } else { known };
            facts.push(PackageFacts {
                name: one.name.clone(),
                version: one.version(),
                built_for: kind.map(Kind::name),
            });
        }
        facts.sort_by(|one, other| one.name.cmp(&other.name));
        facts
    }
}

/// The libraries and extension modules of a package.
fn libraries<'a>(installed: &'a Installed, package: &'a Distribution) -> impl Iterator<Item = &'a str> {
    let paths = installed.site.files.iter();
    let own = paths.filter(|(_, placed)| installed.site.distributions[placed.wheel].name == package.name);
    own.map(|(path, _)| path.as_str()).filter(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.split('.').skip(1).any(|part| part == "so")
    })
}

/// A file of a package whose path has one of these marks.
fn marked<'a>(installed: &'a Installed, package: &'a Distribution, marks: &[String]) -> Option<&'a str> {
    let mut own = installed.files(|one| one.name == package.name).map(|(_, path)| path);
    own.find(|path| marks.iter().any(|mark| path.contains(mark.as_str())))
}

fn of_package(installed: &Installed, package: &Distribution, row: &GpuPackage) -> Option<Build> {
    let version = package.version();
    let local = version.split_once('+').map_or("", |(_, local)| local);
    if local.contains("rocm") {
        return Some(Build::new(Kind::Rocm, version.clone()));
    }
    if let Some(path) = marked(installed, package, &row.rocm) {
        return Some(Build::new(Kind::Rocm, path));
    }
    let facts = row.facts.as_deref().and_then(|path| Facts::read(installed, path));
    if let Some(facts) = &facts
        && facts.hip.is_some()
    {
        return Some(Build::new(Kind::Rocm, format!("{}: hip", facts.path)));
    }
    let mut cuda = marked(installed, package, &row.cuda).map(str::to_owned);
    if let Some(Facts { path, cuda: Some(version), .. }) = &facts {
        cuda = cuda.or_else(|| Some(format!("{path}: cuda {version}")));
    }
    for path in libraries(installed, package) {
        let (rocm, nvidia) = needed(installed, path);
        if let Some(library) = rocm {
            return Some(Build::new(Kind::Rocm, format!("{} needs {library}", installed.site.shown(path))));
        }
        cuda = cuda.or_else(|| Some(format!("{} needs {}", installed.site.shown(path), nvidia?)));
    }
    match cuda {
        Some(seen) => Some(Build::new(Kind::Cuda, seen)),
        None if local.starts_with("cu") => Some(Build::new(Kind::Cuda, version.clone())),
        None if local.starts_with("cpu") => Some(Build::new(Kind::Processor, version.clone())),
        None => None,
    }
}

/// A library of ROCm and one of CUDA that a file needs.
fn needed(installed: &Installed, path: &str) -> (Option<String>, Option<String>) {
    let elf = installed.site.reader(path).ok().and_then(|reader| Elf::read(&reader).ok().flatten());
    let names = elf.map(|elf| elf.needed).unwrap_or_default();
    let table = needed_libraries();
    (first_of(&names, &table.rocm), first_of(&names, &table.cuda))
}

/// The first name that begins with one of these texts.
fn first_of(names: &[String], starts: &[String]) -> Option<String> {
    names.iter().find(|name| starts.iter().any(|start| name.starts_with(start.as_str()))).cloned()
}

/// What a package's own file says about its build.
struct Facts {
    path: String,
    hip: Option<String>,
    cuda: Option<String>,
    torch: Option<String>,
}

impl Facts {
    /// Reads lines such as `cuda = '12.8'`, or the same as JSON below `version`.
    fn read(installed: &Installed, path: &str) -> Option<Facts> {
        let bytes = installed.site.bytes(&format!("{}/{path}", installed.site.packages())).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let path = path.to_owned();
        if path.rsplit('.').next() == Some("json") {
            let document: Value = serde_json::from_str(&text).ok()?;
            let table = document.get("version").unwrap_or(&document).clone();
            let [hip, cuda] =
                ["hip", "cuda"].map(|name| json_text(&table, name).filter(|text| !text.is_empty() && text != "0"));
            return Some(Facts { path, hip, cuda, torch: json_text(&table, "torch") });
        }
        Some(Facts { path, hip: python_text(&text, "hip"), cuda: python_text(&text, "cuda"), torch: None })
    }
}

fn json_text(table: &Value, name: &str) -> Option<String> {
    match table.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A text that a module assigns. Only a text is a version; others are code that asks when it is
/// imported.
fn python_text(module: &str, name: &str) -> Option<String> {
    let text = assigned_value(module, name)?.strip_prefix(['\'', '"'])?.trim_end_matches(['\'', '"']);
    (!text.is_empty()).then(|| text.to_owned())
}

/// The packages beside torch that have to be replaced with it: those for CUDA.
pub(crate) fn of_cuda(builds: &Builds) -> Vec<String> {
    let known = builds.known.iter().filter(|(_, build)| build.kind == Kind::Cuda).map(|(name, _)| name);
    known.filter(|name| gpu_package(name).is_some_and(|row| row.torch)).cloned().collect()
}

/// Packages that are for other GPUs than torch, or than those of the machine if there is no torch.
/// `torch` is what torch is built for. Returns their names: their libraries cannot load here
/// either.
pub(crate) fn check(
    installed: &Installed,
    builds: &Builds,
    (torch, gpus): (Option<Kind>, &[(&GpuFacts, String)]),
    symptoms: &mut Vec<Symptom>,
) -> BTreeSet<String> {
    let mut told = BTreeSet::new();
    let beside = match (torch, installed.get("torch")) {
        (Some(Kind::Rocm), Some(torch)) => Some(torch),
        // What is wrong with torch is told there, and the others go with it.
        (Some(_), Some(_)) => return told,
        _ if gpus.is_empty() => return told,
        _ => None,
    };
    for (name, build) in &builds.known {
        let (Some(package), Some(row)) = (installed.get(name), gpu_package(name)) else { continue };
        // On the processor it works, but for what has to fit torch.
        if build.kind == Kind::Rocm || (build.kind == Kind::Processor && !(row.torch && beside.is_some())) {
            continue;
        }
        let (other, reason) = match (beside, row.torch) {
            (Some(torch), true) => (
                format!("torch {} is for ROCm", torch.version()),
                "Its compiled code does not load with this torch, or it lacks the operators for the GPU.",
            ),
            (Some(torch), false) => {
                (format!("torch {} is for ROCm", torch.version()), "It cannot compute on an AMD GPU.")
            }
            (None, _) => {
                let target = gpus.first().map_or("of AMD", |(_, target)| target);
                (format!("the GPU is {target}"), "It cannot compute on an AMD GPU.")
            }
        };
        let instead = row.instead.clone().unwrap_or_else(|| name.clone());
        let mut wanted = vec![instead];
        wanted.extend(beside.filter(|_| row.torch).map(pinned));
        let symptom = Symptom::new("other-build")
            .fill("package", name)
            .fill("version", &package.version())
            .fill("kind", build.kind.name())
            .fill("other", &other)
            .fill("reason", reason)
            .fill("requirements", &wanted.join(" "))
            .seen(package.file_name(), &build.seen);
        symptoms.push(if build.kind == Kind::Processor { symptom.weighing(Gravity::Warning) } else { symptom });
        told.insert(name.clone());
    }
    told
}

/// Packages that are built for another version of torch: they require exactly one, or say it.
pub(crate) fn check_torch(installed: &Installed, symptoms: &mut Vec<Symptom>) {
    let Some(torch) = installed.get("torch") else { return };
    let found = torch.version();
    for package in installed.of_gpus().filter(|one| one.name != "torch") {
        let Some(row) = gpu_package(&package.name).filter(|row| row.torch) else { continue };
        let required = package.metadata.all("Requires-Dist").into_iter().find_map(|text| exact_torch(&text));
        let written = row.facts.as_deref().and_then(|path| Facts::read(installed, path)?.torch);
        let Some(needed) = [required, written].into_iter().flatten().find(|needed| !is_same(needed, &found)) else {
            continue;
        };
        symptoms.push(
            Symptom::new("needs-other-torch")
                .fill("package", &package.name)
                .fill("version", &package.version())
                .fill("needed", &needed)
                .fill("installed", &found)
                .fill("requirements", &format!("{} {}", package.name, shell_word(&format!("torch=={found}"))))
                .seen(package.file_name(), format!("torch=={needed}"))
                .seen(torch.file_name(), &found),
        );
    }
}

/// The version of torch in `torch==2.9.1`; `None` for other requirements and those of an extra.
fn exact_torch(requirement: &str) -> Option<String> {
    let (text, marker) = requirement.split_once(';').unwrap_or((requirement, ""));
    let (name, version) = text.split_once("==")?;
    let version = version.trim_matches(|letter: char| letter == '=' || letter == ')' || letter.is_whitespace());
    let is_torch = name.trim_matches(|letter: char| letter == '(' || letter.is_whitespace()) == "torch";
    (is_torch && !marker.contains("extra") && !version.contains(['*', ','])).then(|| version.to_owned())
}

/// `true` if a version is the installed one. Local versions tell what a build is for, which is
/// asked elsewhere.
fn is_same(needed: &str, found: &str) -> bool {
    match (needed.parse::<Version>(), found.parse::<Version>()) {
        (Ok(needed), Ok(found)) => needed.without_local() == found.without_local(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_requirements_on_torch_are_found() {
        for (text, version) in [
            ("torch==2.9.1", Some("2.9.1")),
            ("torch (==2.9.1+rocm6.4)", Some("2.9.1+rocm6.4")),
            ("torch==2.9.0 ; platform_system == \"Linux\"", Some("2.9.0")),
            ("torch==2.9.0; extra == 'dev'", None),
            ("torch>=2.8", None),
            ("torch==2.*", None),
            ("torchaudio==2.9.1", None),
        ] {
            assert_eq!(exact_torch(text).as_deref(), version, "{text}");
        }
        assert!(is_same("2.9.1", "2.9.1+rocm7.1") && is_same("2.9.1+cu128", "2.9.1+rocm7.1"));
        assert!(!is_same("2.9.0", "2.9.1+rocm7.1"));
    }
}
