//! Compares the paths of members of wheels with those of pip in a new environment.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocwheel_fixtures::{TestWheel, succeeds};
use rocwheel_loader::Error;
use rocwheel_loader::site::{PythonEnvironment, Role, Site};
use rocwheel_progress::{Hint, Silent};

fn make(folder: &Path, name: &str, scripts: &[&str], files: &[(&str, &str)]) -> PathBuf {
    let scripts: String = scripts.iter().map(|script| format!("{script} = main:main\n")).collect();
    let stem = name.to_ascii_lowercase().replace('.', "_");
    TestWheel::new(format!("{stem}-1.0-py3-none-any.whl"))
        .files(files.iter().copied())
        .file("INFO/METADATA", format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"))
        .file("INFO/entry_points.txt", format!("[console_scripts]\n{scripts}"))
        .write(folder)
}

fn place(python: &str) -> PythonEnvironment {
    PythonEnvironment::new(python.parse().unwrap(), "/p")
}

fn open(wheels: &[(PathBuf, Role)], folder: &Path) -> Result<Site, Error> {
    Site::open(wheels, &place("3.12"), folder, &Silent)
}

#[test]
fn members_go_where_pip_puts_them() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("main.py", "def main(): pass\n"),
        ("Example_Name-1.0.data/purelib/pure/a.py", "a = 1\n"),
        ("Example_Name-1.0.data/platlib/plat/b.so", "b"),
        ("Example_Name-1.0.data/scripts/run.sh", "#!/bin/sh\n"),
        ("Example_Name-1.0.data/scripts/tool-script.py", "made for Windows\n"),
        ("Example_Name-1.0.data/data/share/doc/x.txt", "x"),
        ("Example_Name-1.0.data/data/etc/y.conf", "y"),
        ("Example_Name-1.0.data/headers/deep/z.h", "z"),
    ];
    let wheel = make(folder.path(), "Example.Name", &["tool", "other"], &files);
    let environment = folder.path().join("environment");
    succeeds(Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&environment));
    let listing = || -> BTreeSet<String> {
        let script = "import os, sys\nfor f, _, n in os.walk(sys.argv[1]):\n  for x in n: print(os.path.relpath(os.path.join(f, x), sys.argv[1]))";
        succeeds(Command::new("python3").args(["-c", script]).arg(&environment)).lines().map(str::to_owned).collect()
    };
    let before = listing();
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--disable-pip-version-check", "--python"]).arg(environment.join("bin/python"));
    pip.args(["install", "--no-index", "--no-deps", "--no-compile", "--quiet"]).arg(&wheel);
    succeeds(&mut pip);
    // pip's own files are not in any wheel.
    let is_note =
        |path: &&String| ["INSTALLER", "REQUESTED", "direct_url.json"].iter().any(|name| path.ends_with(name));
    let installed: BTreeSet<String> = listing().difference(&before).filter(|path| !is_note(path)).cloned().collect();
    let version = "import sys; print('%d.%d' % sys.version_info[:2])";
    let python = succeeds(Command::new("python3").args(["-c", version]));
    let site = Site::open(&[(wheel, Role::Audited)], &place(python.trim()), folder.path(), &Silent).unwrap();
    let placed: BTreeSet<String> = site.files.keys().chain(site.scripts.keys()).cloned().collect();
    assert_eq!(placed, installed);
    assert!(site.files["bin/run.sh"].executable && !site.files["share/doc/x.txt"].executable);
    assert_eq!(site.scripts["bin/tool"].target, "main:main");
    assert!(
        site.has_folder("share/doc") && site.has_folder("share") && site.has_folder("") && !site.has_folder("shar")
    );
    assert_eq!(site.bytes("etc/y.conf").unwrap(), b"y");
    assert_eq!(site.shown(&format!("{}/main.py", site.packages())), "main.py");
    let error = site.bytes("etc/absent").unwrap_err();
    assert_eq!(error.to_string(), "the environment has no file `etc/absent`");
}

#[test]
fn files_of_two_wheels_clash() {
    let folder = tempfile::tempdir().unwrap();
    let shared = [("ns/__init__.py", ""), ("ns/same.py", "same"), ("ns/differs.py", "one")];
    let one = make(folder.path(), "one", &["tool"], &shared);
    let other = make(
        folder.path(),
        "other",
        &[],
        &[
            ("ns/__init__.py", ""),
            ("ns/same.py", "same"),
            ("ns/differs.py", "two"),
            ("other-1.0.data/scripts/tool", "#!/bin/sh\n"),
        ],
    );
    // The one with `Role::Beside` is installed first, whatever the given order.
    let site = open(&[(one.clone(), Role::Audited), (other.clone(), Role::Beside)], folder.path()).unwrap();
    assert_eq!(site.distributions[0].name, "other");
    let clashes: Vec<(&str, bool)> = site.clashes.iter().map(|clash| (site.shown(&clash.path), clash.same)).collect();
    assert_eq!(
        clashes,
        [("bin/tool", false), ("ns/__init__.py", true), ("ns/differs.py", false), ("ns/same.py", true)]
    );
    assert!(site.clashes.iter().all(|clash| clash.wheels == [0, 1]));
    assert_eq!(site.bytes("lib/python3.12/site-packages/ns/differs.py").unwrap(), b"one");
    assert!(site.scripts.contains_key("bin/tool") && !site.files.contains_key("bin/tool"));
    let turned = open(&[(one, Role::Beside), (other, Role::Audited)], folder.path()).unwrap();
    assert_eq!(turned.bytes("lib/python3.12/site-packages/ns/differs.py").unwrap(), b"two");
    assert!(!turned.scripts.contains_key("bin/tool") && turned.files["bin/tool"].executable);
}

#[test]
fn what_pip_refuses_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = |wheels: &[(PathBuf, Role)]| open(wheels, folder.path()).err().unwrap();
    assert_eq!(error(&[]).to_string(), "there is no wheel to audit");
    for (name, file, why) in [
        ("lost", "lost-1.0.data/file", "it is in the `.data` folder itself, and has to be in a folder of it"),
        (
            "odd",
            "odd-1.0.data/share/x",
            "installers know the folders purelib, platlib, headers, scripts and data of a `.data` folder",
        ),
    ] {
        let wheel = make(folder.path(), name, &[], &[(file, "")]);
        let expected = format!("member `{file}` of `{}` cannot be installed: {why}", wheel.display());
        assert_eq!(error(&[(wheel, Role::Audited)]).to_string(), expected);
    }
    let first = make(folder.path(), "twice", &[], &[]);
    let again = folder.path().join("twice-1.0-1-py3-none-any.whl");
    fs_err::copy(&first, &again).unwrap();
    let both = error(&[(first.clone(), Role::Audited), (again.clone(), Role::Audited)]);
    assert!(both.to_string().ends_with("are both twice, and an environment has one"), "{both}");
    assert!(both.hint().is_some());
    // One with `Role::Beside` is skipped if the same distribution is audited.
    assert_eq!(open(&[(first, Role::Audited), (again, Role::Beside)], folder.path()).unwrap().distributions.len(), 1);
    let none = error(&[(folder.path().join("absent-1-py3-none-any.whl"), Role::Audited)]);
    assert!(matches!(none, Error::Wheel(_)), "{none:?}");
}
