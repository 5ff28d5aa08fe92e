//! Requirements between wheels, and those that nothing needs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rocwheel_audit::declared::{Declared, Extras, UnneededSearch};
use rocwheel_index::requirement::InstallTarget;
use rocwheel_loader::site::{PythonEnvironment, Role, Site};
use rocwheel_progress::Silent;
use rocwheel_wheel::Platform;
use tempfile::TempDir;

#[path = "../../../formats/index/tests/gather/fixtures.rs"]
#[allow(dead_code, reason = "the index's tests need more of it")]
mod fixtures;

use fixtures::{pure, tagged};

fn target() -> InstallTarget {
    InstallTarget { python: "3.12".parse().unwrap(), platform: Platform::Linux, glibc: Some((2, 28)) }
}

fn site(wheels: &[PathBuf], scratch: &Path) -> Site {
    let wheels: Vec<_> = wheels.iter().map(|path| (path.clone(), Role::Audited)).collect();
    let place = PythonEnvironment::new(target().python, "/env");
    Site::open(&wheels, &place, scratch, &Silent).unwrap()
}

fn number(site: &Site, name: &str) -> usize {
    site.distributions.iter().position(|wheel| wheel.name == name).unwrap()
}

fn index(site: &Site, names: &[&str]) -> BTreeSet<usize> {
    names.iter().map(|name| number(site, name)).collect()
}

#[test]
fn requirements_reach_through_others_and_their_extras() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let wheels = [
        pure(at, "top-1.0", &["Middle[gpu]>=2", "away; sys_platform == 'win32'", "extra-only; extra == 'all'"], &[]),
        pure(at, "middle-2.0", &["base", "device; extra == 'gpu'", "never; extra == 'test'"], &[]),
        pure(at, "base-1.0", &["top"], &[]),
        pure(at, "device-1.0", &["base==2.*", "gone"], &[]),
        pure(at, "never-1.0", &[], &[]),
        pure(at, "extra-only-1.0", &[], &[]),
    ];
    let site = site(&wheels, at);
    let declared = Declared::read(&site, &target());
    let top = number(&site, "top");
    assert_eq!(declared.reaches(top, Extras::Asked), index(&site, &["top", "middle", "base", "device"]));
    assert_eq!(declared.reaches(top, Extras::Every).len(), 6);
    let unmet: Vec<_> = declared
        .unmet()
        .iter()
        .map(|unmet| (site.distributions[unmet.wheel].name.clone(), unmet.requirement.text.clone(), unmet.other))
        .collect();
    let base = Some(number(&site, "base"));
    let device = "device".to_owned();
    assert_eq!(unmet, [(device.clone(), "base==2.*".to_owned(), base), (device, "gone".to_owned(), None)]);
}

#[test]
fn what_is_for_another_system_is_not_there() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let wheel = |stem: &str, requires: &[&str], tag: &str| tagged(at, stem, requires, &[], &format!("py3-none-{tag}"));
    let (linux, windows) = ("manylinux_2_28_x86_64", "win_amd64");
    let wheels = [
        wheel("top-1.0", &["core", "shared"], linux),
        wheel("window-1.0", &["core", "shared"], windows),
        wheel("core-1.0", &["base"], linux),
        wheel("base-1.0", &[], linux),
        wheel("shared-1.0", &[], "any"),
    ];
    let site = site(&wheels, at);
    let declared = Declared::read(&site, &target());
    let reached = |name: &str| declared.reaches(number(&site, name), Extras::Asked);
    assert_eq!(reached("top"), index(&site, &["top", "core", "base", "shared"]));
    assert_eq!(reached("window"), index(&site, &["window", "shared"]));
    let unmet: Vec<_> = declared.unmet().iter().map(|unmet| (unmet.wheel, unmet.requirement.text.clone())).collect();
    assert_eq!(unmet, [(number(&site, "window"), "core".to_owned())]);
}

#[test]
fn what_no_file_mentions_is_not_needed() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let imports = [
        ("top/__init__.py", "import os, imported.deep as x\n"),
        ("top/a.py", "def late():\n    from spaced import part\n    return importlib.import_module('quoted')\n"),
        ("top/_fast.cpython-312-x86_64-linux-gnu.so", "not ELF\0compiled\0"),
        ("top/data.txt", "silent\n"),
    ];
    let requires = [
        "imported",
        "spaced-part",
        "quoted",
        "compiled",
        "silent",
        "named-by-distribution",
        "run-it",
        "loaded",
        "meta",
        "empty",
        "unknown",
        "optional; extra == 'x'",
    ];
    let more = [("top/b.py", "subprocess.run(['run-it'])  # needs named-by-distribution\n")];
    let wheels = [
        pure(at, "top-1.0", &requires, &[&imports[..], &more].concat()),
        pure(at, "imported-1.0", &[], &[("imported/__init__.py", "")]),
        pure(at, "spaced-part-1.0", &[], &[("spaced/part/__init__.py", "")]),
        pure(at, "spaced-other-1.0", &[], &[("spaced/other/__init__.py", "")]),
        pure(at, "quoted-1.0", &[], &[("quoted.py", "")]),
        pure(at, "compiled-1.0", &[], &[("compiled.cpython-312-x86_64-linux-gnu.so", "")]),
        pure(at, "silent-1.0", &[], &[("silent/__init__.py", ""), ("silent/top.py", "silent")]),
        pure(at, "named-by-distribution-1.0", &[], &[("other_name/__init__.py", "")]),
        pure(at, "run-it-1.0", &[], &[("run_it-1.0.data/scripts/run-it", "#!python\n"), ("run_it_module.py", "")]),
        pure(at, "loaded-1.0", &[], &[("loaded_module/lib/libloaded.so.1", "")]),
        pure(at, "meta-1.0", &["brought"], &[("meta_module.py", "")]),
        pure(at, "brought-1.0", &[], &[("os/__init__.py", "")]),
        pure(at, "empty-1.0", &[], &[]),
        pure(at, "optional-1.0", &[], &[("optional.py", "")]),
    ];
    let site = site(&wheels, at);
    let declared = Declared::read(&site, &target());
    let search = UnneededSearch::new(&site, &declared);
    let top = number(&site, "top");
    let files = site.files.iter().filter(|(_, placed)| placed.wheel == top);
    let paths: Vec<&str> = files.map(|(path, _)| path.as_str()).collect();
    let found = |loads: &[&str]| -> Vec<String> {
        let found = search.of((top, &paths), &index(&site, loads)).unwrap();
        found.into_iter().map(|requirement| requirement.text.clone()).collect()
    };
    assert_eq!(found(&["loaded"]), ["silent"]);
    assert_eq!(found(&[]), ["silent", "loaded"]);
}
