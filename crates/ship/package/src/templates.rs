//! The Python code inside the packages: the embedded files of `python/`, or a folder with TheRock's
//! templates, which is read and never run. A test compares the embedded tables with the folders.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rocwheel_python_literals::{Token, TokenKind, tokens};
use walkdir::WalkDir;

use rocwheel_progress::Failure;

use crate::Logical;
use crate::contents::PackagedTool;
use crate::dist_info::repr;

macro_rules! python {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../python/", $folder, "/", $name)))),+]
    };
}

type Embedded = &'static [(&'static str, &'static str)];

pub type Texts = BTreeMap<String, String>;

/// Path in the selector of the template that [`crate::dist_info::Promise::lines`] are appended to.
pub const DIST_INFO_PATH: &str = "src/rocm_sdk/_dist_info.py";

const README: &str = "README.md";

/// The files of the selector.
const SELECTOR: Embedded = python!("rocm":
    "README.md",
    "pyproject.toml",
    "rocm_build.py",
    "src/rocm_sdk/__init__.py",
    "src/rocm_sdk/__main__.py",
    "src/rocm_sdk/_contents.py",
    "src/rocm_sdk/_devel.py",
    "src/rocm_sdk/_devices.py",
    "src/rocm_sdk/_dist_info.py",
    "src/rocm_sdk/_doctor.py",
    "src/rocm_sdk/_doctor_machine.py",
    "src/rocm_sdk/_doctor_packages.py",
    "src/rocm_sdk/_doctor_rows.py",
    "src/rocm_sdk/_links.py",
    "src/rocm_sdk/_receipt.py",
    "src/rocm_sdk/_record.py",
    "src/rocm_sdk/_tree.py",
    "src/rocm_sdk/_verify.py",
    "src/rocm_sdk/tests/__init__.py",
    "src/rocm_sdk/tests/_dynamic.py",
    "src/rocm_sdk/tests/_load.py",
    "src/rocm_sdk/tests/_policy.py",
    "src/rocm_sdk/tests/_report.py",
    "src/rocm_sdk/tests/devel.py",
    "src/rocm_sdk/tests/devices.py",
    "src/rocm_sdk/tests/installation.py",
    "src/rocm_sdk/tests/libraries.py",
    "src/rocm_sdk/tests/tools.py",
);

const CORE: Embedded = python!("rocm-sdk-core/src/rocm_sdk_core": "__init__.py", "_cli.py");
const LIBRARIES: Embedded = python!("rocm-sdk-libraries/src/rocm_sdk_libraries": "__init__.py", "_cli.py");
const DEVEL: Embedded = python!("rocm-sdk-devel/src/rocm_sdk_devel": "__init__.py", "_cli.py");
const PROFILER: Embedded = python!("rocm-profiler/src/rocm_profiler": "__init__.py", "_cli.py");
const HPC: Embedded = python!("rocm-sdk-hpc/src/rocm_sdk_hpc": "__init__.py");

/// Distributions with Python code of their own.
const PACKAGES: [(Logical, Embedded); 5] = [
    (Logical::Core, CORE),
    (Logical::Libraries, LIBRARIES),
    (Logical::Devel, DEVEL),
    (Logical::Profiler, PROFILER),
    (Logical::Hpc, HPC),
];

/// Names in `_dist_info.py` that the generated lines and the build backend use
/// (rocm-python-packages spec, appendix B.2).
const DIST_INFO_NAMES: [&str; 7] = [
    "ALL_PACKAGES",
    "AVAILABLE_TARGET_FAMILIES",
    "LINUX_TARGET_FAMILIES",
    "WINDOWS_TARGET_FAMILIES",
    "build_install_requires",
    "build_per_target_extras",
    "determine_target_family",
];

/// Largest template that is read, in bytes.
const LARGEST: u64 = 4 << 20;

#[derive(Debug, Clone)]
pub struct Templates {
    /// The files of the selector; `_dist_info.py` is without its generated lines.
    pub selector: Texts,
    packages: BTreeMap<Logical, Texts>,
    /// Names that `_cli.py` of a distribution defines; `None` for our own, which defines every
    /// function.
    functions: Option<BTreeMap<Logical, BTreeSet<String>>>,
}

impl Templates {
    pub fn embedded() -> Self {
        let mut selector = texts(SELECTOR);
        if let Some(text) = selector.get_mut(DIST_INFO_PATH) {
            *text = rocwheel_tables::with_libraries(text, rocwheel_tables::RocmTables::in_use());
        }
        Self {
            selector,
            packages: PACKAGES.into_iter().map(|(logical, files)| (logical, texts(files))).collect(),
            functions: None,
        }
    }

    /// Reads a folder with TheRock's layout: `rocm/src/rocm_sdk`, `rocm-sdk-core/src/rocm_sdk_core`
    /// and so on. The build backend of the selector stays ours, so that an installation needs no
    /// other packages.
    ///
    /// # Errors
    /// A missing file, or a file that lacks a required function.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        Self::read_or_reason(folder).map_err(|reason| unusable(folder, &reason))
    }

    fn read_or_reason(folder: &Path) -> Result<Self, String> {
        let own = Self::embedded();
        let mut selector: Texts = own.selector.into_iter().filter(|(name, _)| !name.starts_with("src/")).collect();
        let theirs = read_texts(folder, "rocm/src/rocm_sdk")?;
        selector.extend(theirs.into_iter().map(|(name, text)| (format!("src/rocm_sdk/{name}"), text)));
        if let Some(text) = read_text(&folder.join("rocm").join(README))? {
            selector.insert(README.to_owned(), text);
        }
        needs(&selector, DIST_INFO_PATH, &DIST_INFO_NAMES)?;
        needs(&selector, "src/rocm_sdk/__main__.py", &["main"])?;
        needs(&selector, "src/rocm_sdk/__init__.py", &[])?;

        let (mut packages, mut functions) = (BTreeMap::new(), BTreeMap::new());
        for (logical, _) in PACKAGES {
            let distribution = logical.distribution();
            let place = format!("{distribution}/src/{}", logical.import_package());
            // A set without these packages needs no templates for them.
            if matches!(logical, Logical::Profiler | Logical::Hpc) && !folder.join(&place).is_dir() {
                continue;
            }
            let mut texts = read_texts(folder, &place)?;
            // This file is generated from the selector's.
            texts.remove("_dist_info.py");
            needs(&texts, "__init__.py", &[]).map_err(|reason| format!("{distribution}: {reason}"))?;
            functions.insert(logical, texts.get("_cli.py").map(|text| defined(text)).unwrap_or_default());
            packages.insert(logical, texts);
        }
        Ok(Self { selector, packages, functions: Some(functions) })
    }

    /// Returns the template that [`crate::dist_info::Promise::lines`] are appended to.
    pub fn dist_info(&self) -> &str {
        &self.selector[DIST_INFO_PATH]
    }

    pub fn readme(&self) -> &str {
        &self.selector[README]
    }

    /// Returns the files of a distribution's import package, without `_dist_info.py`.
    pub fn package_files(&self, logical: Logical) -> impl Iterator<Item = (&String, &String)> {
        self.packages.get(&logical).into_iter().flatten()
    }

    /// Returns the tools whose functions `_cli.py` of the distribution defines, with the names that
    /// the functions have there: a script whose function is missing could only fail.
    pub fn with_functions(&self, logical: Logical, tools: Vec<PackagedTool>) -> Vec<PackagedTool> {
        let Some(functions) = &self.functions else { return tools };
        let none = BTreeSet::new();
        let functions = functions.get(&logical).unwrap_or(&none);
        tools
            .into_iter()
            .filter_map(|mut tool| {
                let names = std::iter::once(&tool.function).chain(&tool.also_called);
                let function = names.into_iter().find(|name| functions.contains(*name))?.clone();
                tool.function = function;
                Some(tool)
            })
            .collect()
    }

    /// `true` if the expanded development tree must be a package that Python can import: TheRock's
    /// code takes that as the sign that it is complete, ours has a receipt.
    pub fn import_the_devel_tree(&self) -> bool {
        self.functions.is_some()
    }

    /// `true` if the templates have Python code for a distribution.
    pub fn has(&self, logical: Logical) -> bool {
        matches!(logical, Logical::Device | Logical::Meta) || self.packages.contains_key(&logical)
    }
}

fn texts(files: Embedded) -> Texts {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// Returns all files of a folder, by path relative to it, without caches and build leftovers.
fn read_texts(folder: &Path, place: &str) -> Result<Texts, String> {
    let root = folder.join(place);
    if !root.is_dir() {
        return Err(format!("there is no folder `{place}`"));
    }
    let mut texts = Texts::new();
    for entry in WalkDir::new(&root).follow_links(false).sort_by_file_name().into_iter().filter_entry(is_source) {
        let entry = entry.map_err(|error| error.to_string())?;
        if entry.file_type().is_dir() {
            continue;
        }
        let relative = rocwheel_system::slashed(entry.path().strip_prefix(&root).unwrap_or(entry.path()));
        let relative = relative.to_string_lossy().into_owned();
        let text = read_text(entry.path())?.ok_or_else(|| format!("`{place}/{relative}` does not exist"))?;
        texts.insert(relative, text);
    }
    Ok(texts)
}

pub(crate) fn unusable(folder: &Path, reason: &str) -> Failure {
    Failure::message(format!("the templates in `{}` cannot be used: {reason}", folder.display())).with_hint(
        "give the folder `build_tools/packaging/python/templates` of a TheRock checkout of this ROCm's time, or leave \
         --python-templates out",
    )
}

/// Reads a text and converts its line ends to `\n`. `None` if the file does not exist.
fn read_text(path: &Path) -> Result<Option<String>, String> {
    let shown = path.display();
    let metadata = match fs_err::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if !metadata.is_file() {
        return Err(format!("`{shown}` is no regular file"));
    }
    if metadata.len() > LARGEST {
        return Err(format!("`{shown}` has more than 4 MiB"));
    }
    let bytes = fs_err::read(path).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| format!("`{shown}` is not UTF-8"))?;
    Ok(Some(text.replace("\r\n", "\n")))
}

fn needs(texts: &Texts, path: &str, names: &[&str]) -> Result<(), String> {
    let text = texts.get(path).ok_or_else(|| format!("there is no `{path}`"))?;
    let defined = defined(text);
    let missing: Vec<&&str> = names.iter().filter(|name| !defined.contains(**name)).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("`{path}` does not define {}", rocwheel_progress::in_backticks(missing)))
    }
}

/// Returns the names that a module defines at its top level: functions, classes and assignments.
fn defined(text: &str) -> BTreeSet<String> {
    let tokens = tokens(text);
    let lines = tokens.split(|token| token.kind == TokenKind::LineEnd);
    lines
        .filter(|line| line.first().is_some_and(|token| token.column == 0))
        .filter_map(definition)
        .map(str::to_owned)
        .collect()
}

fn is_source(entry: &walkdir::DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    entry.depth() == 0 || !(name == "__pycache__" || name.starts_with('.') || name.ends_with(".egg-info"))
}

/// The name that a line defines.
fn definition<'a>(line: &[Token<'a>]) -> Option<&'a str> {
    use TokenKind::{Name, Operator};
    let kinds: Vec<&TokenKind<'a>> = line.iter().map(|token| &token.kind).collect();
    match kinds[..] {
        [Name("def" | "class"), Name(name), ..] | [Name("async"), _, Name(name), ..] => Some(*name),
        [Name("def" | "class" | "async"), ..] | [_, Operator('='), Operator('='), ..] => None,
        [Name(first), Operator('='), ..] => Some(*first),
        [Name(first), Operator(':'), ref rest @ ..] => rest.contains(&&Operator('=')).then_some(*first),
        _ => None,
    }
}

/// Returns the only module of a device wheel, named after its target so that no two wheels own the
/// same file (pitfalls 18).
pub fn device_module(target: &str, version: &str) -> String {
    include_str!("../../../../python/rocm-sdk-device/_device.py")
        .replace("@TARGET@", &repr(target))
        .replace("@VERSION@", &repr(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_where_python_makes_them() {
        let text = "\"\"\"Doc.\ndef not_this(): pass\n\"\"\"\nimport os\nX: list[str] = []\nY=1\nZ == 2\nclass C:\n    def method(self): ...\n\
                    def amdclang():\n    '''one line'''\n    return 1\nasync  def two(): ...\nasync def yes(): ...\n# \"\"\" only a comment\n\
                    ALL[\"x\"] = 1\nD: int\ndef last (): ...\n";
        let names: Vec<String> = defined(text).into_iter().collect();
        assert_eq!(names, ["C", "X", "Y", "amdclang", "last", "two", "yes"]);
    }

    #[test]
    fn our_own_templates_have_what_is_asked_of_others() {
        let own = Templates::embedded();
        needs(&own.selector, DIST_INFO_PATH, &DIST_INFO_NAMES).unwrap();
        needs(&own.selector, "src/rocm_sdk/__main__.py", &["main"]).unwrap();
    }
}
