//! Compares the libraries that a Python process loads with ctypes with the simulated ones.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use rocwheel_fixtures::succeeds;
use rocwheel_loader::facts::SiteFacts;
use rocwheel_loader::simulation::{Loader, Scenario, Trace, Where};

use crate::fixture::{Environment, PACKAGES, library};

const LOAD: &str = "
import ctypes, sys

def mapped():
    with open('/proc/self/maps') as maps:
        return {line.split(maxsplit=5)[5].strip() for line in maps if len(line.split(maxsplit=5)) == 6 and '.so' in line}

before = mapped()
for path in sys.argv[1:]:
    try:
        ctypes.CDLL(path)
    except OSError as error:
        print('error', error)
for path in sorted(mapped() - before):
    print('loaded', path)
for path in sorted(before):
    print('before', path)
";

/// The output of a Python: files that it loaded, names that it had before, and errors.
struct Said {
    loaded: BTreeSet<PathBuf>,
    before: Vec<String>,
    errors: Vec<String>,
}

fn load(environment: &Environment, paths: &[&str], library_path: &str) -> Said {
    let packages = environment.prefix().join(PACKAGES);
    let mut command = Command::new("python3");
    command.args(["-I", "-c", LOAD]).args(paths.iter().map(|path| packages.join(path)));
    let text = succeeds(command.env("LD_LIBRARY_PATH", library_path));
    let lines = |kind: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' ').map(str::to_owned)).collect()
    };
    Said {
        loaded: lines("loaded").into_iter().map(PathBuf::from).collect(),
        before: lines("before"),
        errors: lines("error"),
    }
}

/// The SONAMEs of the process's libraries, whose files have longer names.
fn sonames(before: &[String]) -> Vec<String> {
    let read = |path: &String| {
        let file = fs_err::File::open(path).ok()?;
        rocwheel_elf::Elf::read(file.file()).ok()??.soname
    };
    before.iter().filter_map(read).collect()
}

fn files(environment: &Environment, trace: &Trace) -> BTreeSet<PathBuf> {
    let loaded = trace.loaded.iter().filter_map(|loaded| match &loaded.place {
        Where::Site(path) => Some(environment.prefix().join(path)),
        Where::System(path) if path.starts_with('/') => Some(fs_err::canonicalize(path).unwrap()),
        Where::System(_) => None,
    });
    loaded.collect()
}

#[test]
fn extension_modules_and_preload_lists_come_out_as_in_python() {
    let mut environment = Environment::new();
    environment.wheel(
        "frame",
        &[
            // Like torch: the needed libraries are in other packages, and are available because
            // they were loaded before.
            library("frame/_C.so", &["libcore.so", "libblas.so.1", "libc.so.6"]).rpath("$ORIGIN/lib"),
            library("frame/lib/libcore.so", &["libblas.so.1", "libm.so.6"]),
        ],
        &[],
    );
    environment.wheel(
        "sdk",
        &[
            library("sdk/lib/libblas.so.1", &["libruntime.so.7"]).rpath("$ORIGIN/inner"),
            library("sdk/lib/inner/libruntime.so.7", &["libstdc++.so.6"]),
        ],
        &[],
    );
    let site = environment.site();
    let facts = SiteFacts::read(&site, &rocwheel_progress::Silent).unwrap();
    let blas = "sdk/lib/libblas.so.1";
    for (preloaded, library_path, is_complete) in [
        (vec![], "", false),
        (vec![blas], "", true),
        (vec![], "sdk/lib", true),
        (vec!["sdk/lib/inner/libruntime.so.7"], "", false),
    ] {
        let variable = if library_path.is_empty() {
            String::new()
        } else {
            environment.prefix().join(PACKAGES).join(library_path).to_str().unwrap().to_owned()
        };
        let asked: Vec<&str> = preloaded.iter().copied().chain(["frame/_C.so"]).collect();
        let said = load(&environment, &asked, &variable);
        let scenario = Scenario {
            library_path: if variable.is_empty() { Vec::new() } else { vec![variable] },
            preloaded: preloaded.iter().map(|path| format!("{PACKAGES}/{path}")).collect(),
            process: sonames(&said.before),
            ..Environment::scenario()
        };
        let trace = Loader::new(&site, &facts, &scenario).load(&[format!("{PACKAGES}/frame/_C.so")]);
        assert_eq!(trace.missing.is_empty(), is_complete, "{trace:#?}");
        if is_complete {
            let before: BTreeSet<PathBuf> = said.before.iter().map(PathBuf::from).collect();
            let ours: BTreeSet<PathBuf> = files(&environment, &trace).difference(&before).cloned().collect();
            assert_eq!(ours, said.loaded);
            assert!(said.errors.is_empty(), "{:?}", said.errors);
        } else {
            let expected = format!("{}: cannot open shared object file", trace.missing[0].name);
            assert!(said.errors[0].starts_with(&expected), "{:?}", said.errors);
        }
    }
}
