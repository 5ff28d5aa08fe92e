//! RW010: an extension module is for another Python than the tags say, or Python does not find it.
//!
//! The name of the module tells its Python, and on Windows the Python library that it is linked to.

mod stable_abi;
mod suffix;

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_elf::{Lookup, NameHash};
use rocwheel_loader::facts::{Object, WindowsObject};
use rocwheel_loader::site::Distribution;
use rocwheel_tables::windows;
use rocwheel_wheel::{LoaderFeature, PythonVersion};

use crate::Error;
use crate::analysis::traces::has_module_tag;
use crate::analysis::{Context, file_name};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::{AuditScope, ExtraCheck};
use rocwheel_imports::at_import;

pub const CHECK: Check = Check { code: Code::Python, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, installed) in context.audited() {
        modules(context, wheel, findings);
        without_function(context, wheel, findings);
        if context.options.extras.contains(&ExtraCheck::Python) {
            named(context, installed, findings);
        }
    }
    stable_abi::check(context, findings);
    Ok(())
}

/// The Pythons that a module is for (PEP 3149).
#[derive(Debug, Clone, PartialEq, Eq)]
enum Suits {
    /// Any Python (`.so`).
    Any,
    /// Any CPython 3 with its global lock (`.abi3.so`): the others do not look for this suffix.
    Stable,
    /// One Python: `cp312`, `cp313t`, `pypy310`.
    One(String),
    /// No Python, for this reason.
    Nobody(String),
}

impl Suits {
    fn serves(&self, wanted: &str) -> bool {
        match self {
            Suits::Any => true,
            Suits::Stable => !(wanted.starts_with("cp") && wanted.ends_with('t')),
            Suits::One(python) => python == wanted,
            Suits::Nobody(_) => false,
        }
    }

    /// The Pythons that both allow.
    fn and(self, other: Suits) -> Suits {
        match (self, other) {
            (Suits::Any, suits) | (suits, Suits::Any) => suits,
            (Suits::One(one), Suits::One(other)) if one == other => Suits::One(one),
            (Suits::One(one), Suits::One(other)) => {
                Suits::Nobody(format!("{one} by its name and for {other} by what it is linked to"))
            }
            (nobody @ Suits::Nobody(_), _) | (_, nobody @ Suits::Nobody(_)) => nobody,
            (Suits::Stable, suits) | (suits, Suits::Stable) => suits,
        }
    }
}

/// The module's path without the tag and suffix, and the Pythons that these allow. `None` if the
/// file is not a module.
fn module(path: &str) -> Option<(String, Suits)> {
    let name = file_name(path);
    let folder = &path[..path.len() - name.len()];
    if let Some(stem) = name.strip_suffix(".pyd") {
        // Windows file names have no tag for the stable ABI: `_x.pyd` is for any Python.
        let (base, suits) = match stem.split_once('.') {
            None => (stem, Suits::Any),
            Some((base, tag)) => {
                let python = tag.split('-').next()?;
                let is_version =
                    python.strip_prefix("cp").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
                // Python does not import a file such as `cv2.cv2.pyd`.
                if !is_version && !python.starts_with("pypy") {
                    return None;
                }
                (base, Suits::One(python.to_owned()))
            }
        };
        return Some((format!("{folder}{base}"), suits));
    }
    let stem = name.strip_suffix(".so")?;
    let Some((base, tag)) = stem.split_once('.') else {
        return (!stem.starts_with("lib")).then(|| (format!("{folder}{stem}"), Suits::Any));
    };
    let suits = if tag == "abi3" {
        Suits::Stable
    } else if let Some(rest) = tag.strip_prefix("cpython-") {
        let mut parts = rest.split('-');
        let version = parts.next()?;
        // The tags of Linux wheels do not apply to macOS modules.
        if parts.next() == Some("darwin") {
            return None;
        }
        Suits::One(format!("cp{version}"))
    } else if tag.starts_with("pypy") {
        Suits::One(tag.split('-').next()?.to_owned())
    } else {
        return None;
    };
    Some((format!("{folder}{base}"), suits))
}

/// The Pythons that the tags of a wheel promise.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Promise {
    /// Exactly these: `cp312`, `cp313t`.
    Only(Vec<String>),
    /// Every Python 3, or every CPython from some version on.
    Many,
    /// Nothing: the installer left no tags.
    Nothing,
}

fn promise(installed: &Distribution) -> Promise {
    let (pythons, abis) = (installed.pythons(), installed.abis());
    if pythons.is_empty() {
        return Promise::Nothing;
    }
    let is_stable = abis.iter().any(|abi| abi == "abi3" || abi == "abi3t");
    let is_generic = pythons.iter().any(|python| python.starts_with("py") && !python.starts_with("pypy"));
    if is_stable || is_generic {
        return Promise::Many;
    }
    Promise::Only(pythons.iter().map(|python| with_abi(python, &abis)).collect())
}

/// The name of a Python in the file names of its modules.
fn with_abi(python: &str, abis: &[String]) -> String {
    if let Some(rest) = python.strip_prefix("pp") {
        return format!("pypy{rest}");
    }
    // `cp313-cp313t` is the build without the global lock, `cp37-cp37m` the usual old one.
    let longer = abis.iter().find(|abi| ["t", "m"].contains(&abi.strip_prefix(python).unwrap_or("")));
    longer.map_or(python, String::as_str).to_owned()
}

/// The Python that a Windows file is for, by the CPython library that it is linked to. A Python
/// library in the wheel itself belongs to an embedded interpreter and does not count.
fn linked(own: &BTreeSet<String>, file: &WindowsObject) -> Suits {
    let foreign = file.needed().iter().filter(|library| !own.contains(&library.to_ascii_lowercase()));
    let python = foreign.into_iter().find_map(|library| {
        let python = windows::interpreter(library)?;
        let threads = if python.free_threaded { "t" } else { "" };
        match python.minor {
            Some(minor) if python.debug => Some(Suits::Nobody(format!("a debug build of Python 3.{minor}{threads}"))),
            None if python.debug => Some(Suits::Nobody("a debug build of Python".to_owned())),
            Some(minor) => Some(Suits::One(format!("cp3{minor}{threads}"))),
            None => None,
        }
    });
    python.unwrap_or(Suits::Any)
}

/// `true` if a file has `PyInit_NAME`, which Python calls to import it; `None` if the symbols do
/// not tell. A file without it is a library with a module's name, for `torch.ops.load_library`.
fn has_function(object: &Object, module: &str) -> Option<bool> {
    let symbols = object.symbols.as_ref().ok().filter(|_| object.is_native())?;
    // The symbols of a file that cannot be mapped are not where its headers say (RW033).
    if LoaderFeature::of(&object.elf).contains(&LoaderFeature::PageAlignment) {
        return None;
    }
    let name = file_name(module);
    // A package that is one compiled file has the function of the package, and names that are not
    // ASCII are encoded (PEP 489).
    if name == "__init__" || !name.is_ascii() {
        return None;
    }
    Some(symbols.find(NameHash::of(&format!("PyInit_{name}")), None) != Lookup::Missing)
}

/// The files of each module, with the Pythons that these are for.
type Modules<'a> = BTreeMap<String, Vec<(&'a str, Suits)>>;

/// The modules of a wheel; `windows` are its files for Windows.
fn modules_of<'a>(context: &Context<'a>, wheel: usize, windows: &[(&'a str, &WindowsObject)]) -> Modules<'a> {
    let mut modules = Modules::new();
    for (path, object) in context.objects(wheel) {
        if let Some((name, suits)) = module(path).filter(|(name, _)| has_function(object, name) != Some(false)) {
            modules.entry(name).or_default().push((path, suits));
        }
    }
    let own: BTreeSet<String> = windows.iter().map(|(path, _)| file_name(path).to_ascii_lowercase()).collect();
    for (path, file) in windows.iter().filter(|(path, _)| path.ends_with(".pyd")) {
        if let Some((name, suits)) = module(path) {
            modules.entry(name).or_default().push((path, suits.and(linked(&own, file))));
        }
    }
    modules
}

/// The modules that do not keep a promise, by the Python that they are for.
fn wrong_modules<'a>(modules: &Modules<'a>, promise: &Promise) -> BTreeMap<String, Vec<&'a str>> {
    let mut wrong: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for files in modules.values() {
        let is_wrong = match promise {
            Promise::Only(pythons) => !pythons.iter().any(|python| {
                // CPython 3.7 and older have a letter in the ABI but not in file names on Windows.
                let on_windows = python.strip_suffix('m').unwrap_or(python);
                files
                    .iter()
                    .any(|(path, suits)| suits.serves(python) || path.ends_with(".pyd") && suits.serves(on_windows))
            }),
            Promise::Nothing => false,
            // Code chooses between modules for several Pythons at run time.
            Promise::Many => matches!(&files[..], [(_, Suits::One(_) | Suits::Nobody(_))]),
        };
        if let ([(path, suits), ..], true) = (&files[..], is_wrong) {
            let python = match suits {
                Suits::One(python) | Suits::Nobody(python) => python.clone(),
                Suits::Stable => "Pythons with the global lock (`.abi3.so`)".to_owned(),
                Suits::Any => continue,
            };
            wrong.entry(python).or_default().push(path);
        }
    }
    wrong
}

/// The interpreters for which a wheel would work that gets a platform tag for Windows.
pub(crate) enum WindowsPython {
    /// Those of its tags.
    Tagged,
    /// This one only: `cp313`, `cp313t`.
    Only(String),
    /// No tag is right for all its modules.
    Mixed,
}

/// The interpreters for which the modules of a wheel are on Windows.
pub(crate) fn on_windows(context: &Context<'_>, wheel: usize) -> WindowsPython {
    let windows: Vec<_> = context.windows_files_of_any(wheel).collect();
    let modules = modules_of(context, wheel, &windows);
    let wrong = wrong_modules(&modules, &promise(&context.site.distributions[wheel]));
    let Some(python) = wrong.keys().next().cloned() else { return WindowsPython::Tagged };
    let is_cpython = python.strip_prefix("cp3").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let promise = Promise::Only(vec![python.clone()]);
    if is_cpython && wrong_modules(&modules, &promise).is_empty() {
        WindowsPython::Only(python)
    } else {
        WindowsPython::Mixed
    }
}

fn modules(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let windows: Vec<_> = context.windows_files(wheel).collect();
    let mut modules = modules_of(context, wheel, &windows);
    suffix::of_other_systems(context, wheel, &mut modules, findings);
    let promise = promise(&context.site.distributions[wheel]);
    findings.extend(could_serve_more(context, wheel, &modules, &promise));
    for (python, paths) in wrong_modules(&modules, &promise) {
        let tags = context.site.distributions[wheel].tags();
        let tag = tags.first().map(|tag| format!("{}-{}", tag.python, tag.abi)).unwrap_or_default();
        let message = format!("is for {python} only, and the tag of the wheel is `{tag}`");
        findings.push(context.finding((Code::Python, wheel), python, message, paths));
    }
}

/// Suggests the tag of the stable ABI for a wheel whose modules are all for it.
fn could_serve_more(context: &Context<'_>, wheel: usize, modules: &Modules<'_>, promise: &Promise) -> Option<Finding> {
    let Promise::Only(pythons) = promise else { return None };
    let [python] = &pythons[..] else { return None };
    let is_stable = modules.values().flatten().all(|(_, suits)| *suits == Suits::Stable);
    let is_cpython = python.starts_with("cp3") && !python.ends_with('t');
    if modules.is_empty() || !is_stable || !is_cpython {
        return None;
    }
    let message =
        format!("all its modules are of the stable ABI: with the tag `{python}-abi3` newer Pythons install it, too");
    let paths = modules.values().flatten().map(|(path, _)| *path);
    Some(context.finding((Code::Python, wheel), "abi3", message, paths).weighing(Severity::Note))
}

/// Reports files that Python code imports as modules although they lack the function of a module.
fn without_function(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    for (path, object) in context.native(wheel).filter(|(path, _)| has_module_tag(file_name(path))) {
        let Some((name, _)) = module(path).filter(|(name, _)| has_function(object, name) == Some(false)) else {
            continue;
        };
        let Some(importer) = at_import::importer_of(context.site, wheel, &name) else { continue };
        let function = format!("PyInit_{}", file_name(&name));
        let message = format!(
            "has no function `{function}`, and `{}` imports it as a module: Python refuses it",
            context.site.shown(&importer)
        );
        findings.push(context.finding((Code::Python, wheel), function, message, [path]));
    }
}

fn named(context: &Context<'_>, installed: &Distribution, findings: &mut Vec<Finding>) {
    let python = context.site.place.python;
    let tags = installed.tags();
    if !tags.is_empty() && !tags.iter().any(|tag| fits(&tag.python, &tag.abi, python)) {
        let message = format!("the tags are for other interpreters than Python {python}");
        let subject = format!("Python {python}");
        findings.push(Finding::new(Code::Python, subject, message).of(installed.file_name()));
    }
    if let Some(wanted) = installed.metadata.get("Requires-Python")
        && let Ok(specifiers) = wanted.parse::<pep440_rs::VersionSpecifiers>()
        && ![0, 99].into_iter().any(|patch| {
            let [major, minor] = [python.major, python.minor].map(u64::from);
            rocwheel_wheel::accepts(&specifiers, &pep440_rs::Version::new([major, minor, patch]))
        })
    {
        let message = format!("Requires-Python is `{wanted}`, which excludes Python {python}");
        findings.push(Finding::new(Code::Python, "Requires-Python", message).of(installed.file_name()));
    }
}

/// `true` if CPython of this version installs a wheel with these parts of a tag (PEP 425, as
/// packaging implements it).
fn fits(tag: &str, abi: &str, python: PythonVersion) -> bool {
    if let Some((major, minor)) = tag.strip_prefix("cp").and_then(tag_version) {
        let exact = major == python.major && minor == Some(python.minor);
        let own = format!("cp{major}{}{}", python.minor, if python.free_threaded { "t" } else { "" });
        let stable = (abi == "abi3" && !python.free_threaded || abi == "abi3t" && python.free_threaded)
            && major == python.major
            && minor.is_some_and(|minor| minor <= python.minor);
        return exact && (abi == own || abi == "none") || stable;
    }
    let Some((major, minor)) = tag.strip_prefix("py").and_then(tag_version) else { return false };
    major == python.major && minor.is_none_or(|minor| minor <= python.minor)
}

/// `312` as 3 and 12; `3` as 3 alone.
fn tag_version(text: &str) -> Option<(u16, Option<u16>)> {
    let (major, minor) = text.split_at_checked(1)?;
    Some((major.parse().ok()?, if minor.is_empty() { None } else { Some(minor.parse().ok()?) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_say_for_which_python_they_are() {
        let one = |text: &str| Suits::One(text.to_owned());
        for (path, name, suits) in [
            ("a/_x.cpython-312-x86_64-linux-gnu.so", "a/_x", one("cp312")),
            ("_x.cpython-313t-x86_64-linux-gnu.so", "_x", one("cp313t")),
            ("a/_x.abi3.so", "a/_x", Suits::Stable),
            ("a/_x.so", "a/_x", Suits::Any),
            ("_x.pypy310-pp73-x86_64-linux-gnu.so", "_x", one("pypy310")),
            ("a/_x.cp312-win_amd64.pyd", "a/_x", one("cp312")),
            ("a/_x.cp313t-win_amd64.pyd", "a/_x", one("cp313t")),
            ("_x.pypy310-pp73-win_amd64.pyd", "_x", one("pypy310")),
            ("a/_x.pyd", "a/_x", Suits::Any),
        ] {
            assert_eq!(module(path), Some((name.to_owned(), suits)), "{path}");
        }
        for path in "a/libx.so libx.so.1 a/_x.cpython-312-darwin.so a/x.y.so x.py cv2.cv2.pyd _x.cpu.pyd \
            _x.plugin-1.pyd"
            .split(' ')
        {
            assert_eq!(module(path), None, "{path}");
        }
    }

    #[test]
    fn a_name_and_what_is_linked_have_to_agree() {
        let one = |text: &str| Suits::One(text.to_owned());
        assert_eq!(one("cp312").and(Suits::Any), one("cp312"));
        assert_eq!(Suits::Any.and(one("cp312")), one("cp312"));
        assert_eq!(one("cp312").and(one("cp312")), one("cp312"));
        let neither = one("cp311").and(one("cp312"));
        assert!(!neither.serves("cp311") && !neither.serves("cp312"), "{neither:?}");
        let debug = Suits::Nobody("a debug build".to_owned());
        assert_eq!(one("cp312").and(debug.clone()), debug);
        assert!(Suits::Stable.serves("cp314") && !Suits::Stable.serves("cp314t") && Suits::Any.serves("cp314t"));
    }

    #[test]
    fn tags_fit_as_installers_have_it() {
        let python = |text: &str| text.parse::<PythonVersion>().unwrap();
        for (tag, abi, version, answer) in [
            ("cp312", "cp312", "3.12", true),
            ("cp312", "cp312", "3.13", false),
            ("cp39", "abi3", "3.12", true),
            ("cp313", "abi3", "3.12", false),
            ("cp39", "abi3", "3.13t", false),
            ("cp313", "cp313t", "3.13t", true),
            ("cp313", "cp313", "3.13t", false),
            ("py3", "none", "3.12", true),
            ("py2", "none", "3.12", false),
            ("py310", "none", "3.12", true),
            ("pp310", "pypy310_pp73", "3.10", false),
        ] {
            assert_eq!(fits(tag, abi, python(version)), answer, "{tag}-{abi} on {version}");
        }
    }
}
