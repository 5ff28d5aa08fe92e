//! Input: the DLLs that the files of wheels for `win_amd64` import. Output: those that Windows does
//! not find, and why (RW029, RW012, RW025).
//!
//! Windows looks up a DLL by its name, without regard to case: among the DLLs that the process has
//! loaded, in the folder of the file that Python loads, in folders that code added
//! (`os.add_dll_directory`), and in its own folders. It does not search `PATH` (Python 3.8). Only
//! running the code would tell which folders it adds. We therefore trust a wheel that calls such a
//! function, itself or through a wheel that it requires. We also trust a wheel that loads libraries
//! itself, for its own libraries and for those that it is linked to. Folders are checked only for
//! files that Python imports and for the files beside those; other files are loaded into a process
//! that has loaded much before. Imports that are delayed until their first use may be missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use regex::bytes::Regex;
use rocwheel_tables::owners::{LibraryOwner, Owners};
use rocwheel_tables::windows::{self, DllProvider};

use super::missing::owned;
use super::requirements::Brought;
use super::verdict::{Groups, Verdict, say};
use super::{Context, file_name, not_given};
use crate::finding::{Code, Finding, Severity};
use crate::fix;
use rocwheel_loader::facts::WindowsObject;

/// Upper limit in bytes of the Python files that are searched for calls; files with such calls are
/// small.
const LARGEST: u64 = 1 << 20;

/// A DLL that a file imports.
pub(crate) struct Imported<'a> {
    pub(crate) path: &'a str,
    /// Number of its wheel.
    pub(crate) wheel: usize,
    /// The name of the DLL, as the import table spells it.
    pub(crate) library: &'a str,
    /// The files of the set with that name.
    pub(crate) files: Arc<Named<'a>>,
}

/// The files with one name. Both the files and the imports of them can be as many as there are
/// folders, so they are shared.
#[derive(Debug, Default)]
pub(crate) struct Named<'a> {
    by_folder: BTreeMap<&'a str, &'a str>,
    /// The first file with the name in each wheel, by the number of the wheel.
    pub(crate) by_wheel: BTreeMap<usize, &'a str>,
}

impl<'a> Imported<'a> {
    /// The file with the name in the folder of the importing file.
    fn beside(&self) -> Option<&'a str> {
        self.files.by_folder.get(folder(self.path)).copied()
    }
}

/// The imports of all files in audited wheels for Windows.
pub(crate) fn imported<'a>(context: &Context<'a>) -> Vec<Imported<'a>> {
    let files = context
        .audited()
        .flat_map(|(wheel, _)| context.windows_files(wheel).map(move |(path, file)| (wheel, path, file)));
    imports_of(context, files)
}

/// The imports of some files, each with the number of its wheel and its path.
fn imports_of<'a>(
    context: &Context<'a>,
    files: impl Iterator<Item = (usize, &'a str, &'a WindowsObject)>,
) -> Vec<Imported<'a>> {
    let mut names: BTreeMap<String, Named<'a>> = BTreeMap::new();
    for (path, _) in context.facts.native_of_windows() {
        let named = names.entry(file_name(path).to_ascii_lowercase()).or_default();
        named.by_folder.insert(folder(path), path);
        if let Some(wheel) = context.owner(path) {
            named.by_wheel.entry(wheel).or_insert(path);
        }
    }
    let names: BTreeMap<String, Arc<Named<'a>>> = names.into_iter().map(|(name, named)| (name, named.into())).collect();
    let nobody = Arc::default();
    let mut imported = Vec::new();
    for (wheel, path, file) in files {
        imported.extend(file.needed().iter().map(|library| Imported {
            path,
            wheel,
            library,
            files: Arc::clone(names.get(&library.to_ascii_lowercase()).unwrap_or(&nobody)),
        }));
    }
    imported
}

/// `true` if a wheel would lack a DLL, as an error, if its tag were that of Windows.
pub(crate) fn would_lack(context: &Context<'_>, wheel: usize) -> bool {
    let files = context.windows_files_of_any(wheel).map(|(path, file)| (wheel, path, file));
    let imported = imports_of(context, files);
    let mut search = Search::new(context, &imported);
    imported.iter().any(|imported| search.judge(imported).is_some_and(|verdict| verdict.is_error()))
}

pub(crate) fn missing(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut search = Search::new(context, &context.imported);
    let mut groups = Groups::new();
    for imported in &context.imported {
        if let Some(verdict) = search.judge(imported) {
            let (names, files) = groups.entry((imported.wheel, verdict)).or_default();
            names.insert(imported.library);
            files.insert(imported.path);
        }
    }
    say(context, groups, findings);
}

/// The extension modules, and the files beside them that they import.
fn by_python<'a>(imported: &[Imported<'a>]) -> BTreeSet<&'a str> {
    let mut beside: BTreeMap<&str, Vec<&'a str>> = BTreeMap::new();
    for import in imported {
        beside.entry(import.path).or_default().extend(import.beside());
    }
    let mut open: Vec<&'a str> =
        imported.iter().map(|import| import.path).filter(|path| path.ends_with(".pyd")).collect();
    let mut found: BTreeSet<&'a str> = BTreeSet::new();
    while let Some(path) = open.pop() {
        if found.insert(path) {
            open.extend(beside.get(path).into_iter().flatten());
        }
    }
    found
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

struct Search<'c, 'a> {
    context: &'c Context<'a>,
    /// The wheels of the set that each wheel requires, by the number of the wheel.
    closures: BTreeMap<usize, BTreeSet<usize>>,
    /// `true` if the code of a wheel does this, by the number of the wheel.
    does: BTreeMap<(usize, Doing), bool>,
    /// Paths of the files that Python loads.
    by_python: BTreeSet<&'a str>,
}

/// How code makes Windows find a DLL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    /// It adds folders, in which Windows then finds every DLL.
    NamesFolders,
    /// It loads each library by its path.
    Loads,
}

impl<'c, 'a> Search<'c, 'a> {
    fn new(context: &'c Context<'a>, imported: &[Imported<'a>]) -> Search<'c, 'a> {
        let by_python = by_python(imported);
        Search { context, closures: BTreeMap::new(), does: BTreeMap::new(), by_python }
    }

    /// Returns why an import fails; `None` if Windows finds the DLL.
    fn judge(&mut self, imported: &Imported<'_>) -> Option<Verdict> {
        let Imported { path, wheel, library, files } = imported;
        let provider = windows::provider(library);
        if imported.beside().is_some()
            || matches!(provider, Some(DllProvider::System | DllProvider::Python | DllProvider::Driver))
        {
            return None;
        }
        let closure = self.closure(*wheel);
        if let Some(file) = [wheel].into_iter().chain(&closure).find_map(|wheel| files.by_wheel.get(wheel)) {
            let verdict = self.elsewhere(imported, file, &closure)?;
            // It may be installed on the machine for all programs.
            return Some(if provider == Some(DllProvider::Runtime) {
                verdict.weighing(Severity::Note)
            } else {
                verdict
            });
        }
        Some(match provider {
            Some(DllProvider::Runtime) => Verdict::new(
                Code::DllNotFound,
                " of Visual Studio's redistributable package, which neither Windows nor Python brings",
            )
            .weighing(Severity::Note),
            Some(DllProvider::Debug) => Verdict::new(
                Code::DllNotFound,
                ", which is for debugging: it comes with Visual Studio and may not be distributed",
            ),
            _ => match (Owners::embedded().of(library), files.by_wheel.keys().next()) {
                // A wheel of the product itself lacks a part that no other distribution is known to
                // have.
                (Some(owner), _) if !self.is_of(*wheel, owner) => owned(self.context, *wheel, (owner, library)),
                (None, Some(other)) => self.of_other(*wheel, *other),
                // A plug-in or program is made for machines that have its libraries, and a driver
                // brings more libraries than a table can list.
                (None, None) if !self.by_python.contains(path) => self.unknown(*wheel).weighing(Severity::Warning),
                _ => self.unknown(*wheel),
            },
        })
    }

    fn closure(&mut self, wheel: usize) -> BTreeSet<usize> {
        let context = self.context;
        let closure = self.closures.entry(wheel);
        closure.or_insert_with(|| context.requirements[wheel].closure(context, wheel)).clone()
    }

    /// Judges a DLL that another folder of the wheel, or of a wheel that it requires, contains.
    fn elsewhere(&mut self, imported: &Imported<'_>, file: &str, closure: &BTreeSet<usize>) -> Option<Verdict> {
        if !self.by_python.contains(imported.path) {
            return None;
        }
        let context = self.context;
        let wheel = imported.wheel;
        let installed = &context.site.distributions[wheel];
        // The packages of ROCm find each other through the code of `rocm_sdk`, which a source
        // distribution contains.
        let is_rocms = Owners::embedded()
            .of(imported.library)
            .is_some_and(|owner: &LibraryOwner| owner.is_rocm() && owner.is_brought_by(&installed.name));
        let owner = context.owner(file);
        // Libraries that an unrelated package loads by path do not help this file.
        if is_rocms
            || [Some(wheel), owner].into_iter().flatten().any(|wheel| self.does(wheel, Doing::Loads))
            || closure.iter().chain([&wheel]).any(|wheel| self.does(*wheel, Doing::NamesFolders))
        {
            return None;
        }
        let shown = context.site.shown(file);
        let message = format!(", which exists as `{shown}`, and no code registers that folder with Windows");
        Some(Verdict::new(Code::DllNotFound, message).weighing(Severity::Warning))
    }

    /// Judges a DLL that only a wheel outside of the requirements contains.
    fn of_other(&self, wheel: usize, other: usize) -> Verdict {
        let context = self.context;
        let installed = &context.site.distributions[wheel];
        let distribution = &context.site.distributions[other].name;
        let message = format!(" of `{distribution}`, which METADATA does not require");
        let verdict = Verdict::new(Code::MissingRequirement, message).fixed_by(fix::require(installed, distribution));
        let is_sure = context.requirements[wheel].unknown(context).is_empty();
        if is_sure { verdict } else { verdict.weighing(Severity::Warning) }
    }

    /// `true` if a wheel is one of the distributions of an owner and requires none of the others.
    fn is_of(&self, wheel: usize, owner: &LibraryOwner) -> bool {
        let context = self.context;
        owner.is_brought_by(&context.site.distributions[wheel].name)
            && matches!(context.requirements[wheel].brings(context, owner), Brought::No(_))
    }

    fn unknown(&self, wheel: usize) -> Verdict {
        let message = ", which neither Windows nor a wheel of the set brings";
        let unknown = self.context.requirements[wheel].unknown(self.context);
        if unknown.is_empty() {
            return Verdict::new(Code::DllNotFound, message);
        }
        let message = format!("{message}; {}", not_given(&unknown));
        Verdict::new(Code::DllNotFound, message).weighing(Severity::Warning).open(self.context, wheel, unknown)
    }

    /// `true` if the Python code of a wheel does this. The result is kept.
    fn does(&mut self, wheel: usize, doing: Doing) -> bool {
        let context = self.context;
        let wanted = match doing {
            Doing::NamesFolders => &NAMES_FOLDERS,
            Doing::Loads => &LOADS,
        };
        *self.does.entry((wheel, doing)).or_insert_with(|| {
            let mut files = context.paths(wheel).iter().filter(|path| {
                [".py", ".pth"].iter().any(|ending| path.ends_with(ending))
                    && context.site.files.get(**path).is_some_and(|placed| placed.size <= LARGEST)
            });
            files.any(|path| context.site.bytes(path).is_ok_and(|bytes| wanted.is_match(&bytes)))
        })
    }
}

/// `os.add_dll_directory`, the Windows functions that it calls, and the call of `rocm_sdk`.
static NAMES_FOLDERS: LazyLock<Regex> = LazyLock::new(|| {
    let calls = r"(?-u)\b(?:add_dll_directory|AddDllDirectory|SetDllDirectoryW?|initialize_process)\b";
    Regex::new(calls).expect("the expression is constant: a test uses it")
});

/// The calls that delvewheel and others use to load libraries.
static LOADS: LazyLock<Regex> = LazyLock::new(|| {
    let calls = r"(?-u)\b(?:LoadLibrary\w*|WinDLL|CDLL|PyDLL|windll|cdll)\b";
    Regex::new(calls).expect("the expression is constant: a test uses it")
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_names_folders_is_known() {
        for code in
            ["    os.add_dll_directory(libs_dir)", "rocm_sdk.initialize_process(preload_shortnames=['amdhip64'])"]
        {
            assert!(NAMES_FOLDERS.is_match(code.as_bytes()) && !LOADS.is_match(code.as_bytes()), "{code}");
        }
        for code in
            ["kernel32.LoadLibraryExW(path, None, 0x00000008)", "ctypes.WinDLL(path)", "from ctypes import cdll"]
        {
            assert!(LOADS.is_match(code.as_bytes()) && !NAMES_FOLDERS.is_match(code.as_bytes()), "{code}");
        }
        for code in ["import os", "my_add_dll_directory_x = 1", "# a cdlls"] {
            assert!(!NAMES_FOLDERS.is_match(code.as_bytes()) && !LOADS.is_match(code.as_bytes()), "{code}");
        }
    }
}
