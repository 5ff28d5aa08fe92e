//! Compares the simulation with glibc's loader for every program and library of real wheels at
//! their installed paths.

use std::path::{Path, PathBuf};
use std::process::Command;

use rocwheel_fixtures::succeeds;
use rocwheel_loader::facts::SiteFacts;
use rocwheel_loader::simulation::{Loader, Where};
use rocwheel_loader::site::{PythonEnvironment, Role, Site};
use rocwheel_progress::Silent;

use crate::fixture::{Environment, Listing, PACKAGES, listed};

/// Unpacks wheels to the paths that pip uses, and compares every file. Returns the number of files.
fn compare(wheels: &[PathBuf]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let prefix = fs_err::canonicalize(folder.path()).unwrap();
    let script = "
import sys, zipfile
from pathlib import Path, PurePosixPath
packages = Path(sys.argv[1])
for path in sys.argv[2:]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            parts = PurePosixPath(member.filename).parts
            if not member.is_dir() and not (parts[0].endswith('.data') and parts[1] not in ('purelib', 'platlib')):
                parts = parts[2:] if parts[0].endswith('.data') else parts
                target = packages.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, open(target, 'wb') as file:
                    while block := source.read(1 << 22):
                        file.write(block)
";
    succeeds(Command::new("python3").args(["-c", script]).arg(prefix.join(PACKAGES)).args(wheels));
    let place = PythonEnvironment::new("3.11".parse().unwrap(), prefix.to_str().unwrap());
    let wheels: Vec<_> = wheels.iter().map(|path| (path.clone(), Role::Audited)).collect();
    let site = Site::open(&wheels, &place, folder.path(), &Silent).unwrap();
    let facts = SiteFacts::read(&site, &Silent).unwrap();
    assert!(facts.unreadable.is_empty(), "{:?}", facts.unreadable);
    let scenario = Environment::scenario();
    let loader = Loader::new(&site, &facts, &scenario);
    let mut count = 0;
    for (path, object) in facts.native().filter(|(path, _)| path.starts_with(PACKAGES)) {
        assert!(object.symbols.is_ok(), "{path}: {:?}", object.symbols.as_ref().err());
        let trace = loader.load(&[path]);
        let ours = shown(&prefix, &trace);
        let theirs = listed(&prefix.join(path), "").unwrap_or_else(|said| panic!("{path}: {said}"));
        assert_eq!(ours, theirs, "{path}: {trace:#?}");
        count += 1;
    }
    count
}

fn shown(prefix: &Path, trace: &rocwheel_loader::simulation::Trace) -> Listing {
    let real = |place: &Where| match place {
        Where::Site(path) => prefix.join(path),
        Where::System(path) => fs_err::canonicalize(path).unwrap(),
    };
    let loaded = trace.loaded.iter().skip(1).map(|loaded| (loaded.name.clone(), real(&loaded.place)));
    Listing {
        loaded: loaded.filter(|(name, _)| !name.ends_with("ld-linux-x86-64.so.2")).collect(),
        missing: trace.missing.iter().map(|missing| missing.name.clone()).collect(),
    }
}

fn wheels(variable: &str) -> Vec<PathBuf> {
    let folder = std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} names a folder of wheels"));
    let entries = fs_err::read_dir(PathBuf::from(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut wheels: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|name| name == "whl")).collect();
    wheels.sort();
    assert!(!wheels.is_empty(), "{variable} has no wheels");
    wheels
}

/// ROCWHEEL_REAL_WHEELS: wheels from PyPI, each in its own environment.
#[test]
fn wheels_of_others_are_resolved_as_by_glibc() {
    let mut count = 0;
    for wheel in wheels("ROCWHEEL_REAL_WHEELS") {
        let compared = compare(std::slice::from_ref(&wheel));
        count += compared;
    }
    assert!(count > 20, "{count}");
}

/// ROCWHEEL_REAL_SET: the packages of one ROCm, in one environment.
#[test]
fn our_packages_are_resolved_as_by_glibc() {
    let count = compare(&wheels("ROCWHEEL_REAL_SET"));
    assert!(count > 20, "{count}");
}
