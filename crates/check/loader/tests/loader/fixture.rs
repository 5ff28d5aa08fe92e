//! Libraries and programs that gcc makes, in wheels and as installed files, and the output of
//! glibc's own loader for them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocwheel_fixtures::{TestWheel, succeeds};
use rocwheel_loader::facts::SiteFacts;
use rocwheel_loader::simulation::{HostSystem, Loader, Root, Scenario, Trace, Where};
use rocwheel_loader::site::{PythonEnvironment, Role, Site};
use rocwheel_progress::Silent;
use tempfile::TempDir;

pub(crate) const PACKAGES: &str = "lib/python3.11/site-packages";
pub(crate) const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// A library or program that will be made.
#[derive(Clone, Copy, Default)]
pub(crate) struct Object<'a> {
    /// Path relative to the folder of the packages.
    pub(crate) path: &'a str,
    /// DT_SONAME; empty for none.
    pub(crate) soname: &'a str,
    pub(crate) needed: &'a [&'a str],
    pub(crate) rpath: Option<&'a str>,
    pub(crate) runpath: Option<&'a str>,
    /// Additional linker flags.
    pub(crate) flags: &'a [&'a str],
    pub(crate) is_program: bool,
}

/// A library whose SONAME is its file name.
pub(crate) fn library<'a>(path: &'a str, needed: &'a [&'a str]) -> Object<'a> {
    let soname = path.rsplit('/').next().unwrap_or(path);
    Object { path, soname, needed, ..Object::default() }
}

impl<'a> Object<'a> {
    pub(crate) fn rpath(self, text: &'a str) -> Self {
        Object { rpath: Some(text), ..self }
    }

    pub(crate) fn runpath(self, text: &'a str) -> Self {
        Object { runpath: Some(text), ..self }
    }

    pub(crate) fn soname(self, soname: &'a str) -> Self {
        Object { soname, ..self }
    }
}

/// An environment in two forms: a set of wheels, and installed.
pub(crate) struct Environment {
    folder: TempDir,
    wheels: Vec<PathBuf>,
    stubs: BTreeSet<String>,
}

impl Environment {
    pub(crate) fn new() -> Environment {
        let folder = tempfile::tempdir().unwrap();
        for name in ["made", "stubs", "wheels", "scratch", "prefix"] {
            fs_err::create_dir(folder.path().join(name)).unwrap();
        }
        Environment { folder, wheels: Vec::new(), stubs: BTreeSet::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        // The loader prints paths as they were requested, /proc prints canonical ones.
        fs_err::canonicalize(self.folder.path()).unwrap().join(name)
    }

    pub(crate) fn prefix(&self) -> PathBuf {
        self.path("prefix")
    }

    /// An empty library for linking, so that a library can be needed that does not exist yet, or
    /// never will.
    fn stub(&mut self, soname: &str) -> PathBuf {
        let path = self.path("stubs").join(format!("{}.so", soname.replace('/', "!")));
        if self.stubs.insert(soname.to_owned()) {
            let soname = format!("-Wl,-soname,{soname}");
            succeeds(
                Command::new("gcc").args(["-shared", "-nostdlib", "-x", "c", "/dev/null", &soname, "-o"]).arg(&path),
            );
        }
        path
    }

    /// Makes a wheel from these objects and other files, and installs it.
    pub(crate) fn wheel(&mut self, name: &str, objects: &[Object<'_>], others: &[(&str, &[u8])]) {
        let made = self.path("made").join(name);
        let mut wheel = TestWheel::new(format!("{name}-1.0-py3-none-linux_x86_64.whl"));
        for object in objects {
            let path = made.join(object.path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            self.compile(object, &path);
            wheel = wheel.program(object.path, fs_err::read(path).unwrap());
        }
        let written = wheel.files(others.iter().copied()).write(&self.path("wheels"));
        let script = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])";
        let target = self.prefix().join(PACKAGES);
        succeeds(Command::new("python3").args(["-c", script]).arg(&written).arg(target));
        self.wheels.push(written);
    }

    fn compile(&mut self, object: &Object<'_>, path: &Path) {
        let mut command = Command::new("gcc");
        if object.is_program {
            command.args(["-nostartfiles", "-Wl,-e,start", "-x", "c"]);
            let source = self.path("stubs").join("start.c");
            fs_err::write(&source, "void start(void) { for (;;) {} }\n").unwrap();
            command.arg(source);
        } else {
            command.args(["-shared", "-nostdlib", "-x", "c", "/dev/null"]);
        }
        command.args(["-x", "none", "-Wl,--no-as-needed"]);
        if !object.soname.is_empty() {
            command.arg(format!("-Wl,-soname,{}", object.soname));
        }
        match (object.rpath, object.runpath) {
            (Some(text), None) => drop(command.args(["-Wl,--disable-new-dtags", &format!("-Wl,-rpath,{text}")])),
            (None, Some(text)) => drop(command.args(["-Wl,--enable-new-dtags", &format!("-Wl,-rpath,{text}")])),
            (None, None) => {}
            (Some(_), Some(_)) => panic!("linkers write one of them"),
        }
        command.args(object.flags);
        for name in object.needed {
            let real = Path::new("/usr/lib/x86_64-linux-gnu").join(name);
            let is_system = ["libc.so.6", "libm.so.6"].contains(name);
            command.arg(if is_system { real } else { self.stub(name) });
        }
        succeeds(command.arg("-o").arg(path));
    }

    pub(crate) fn site(&self) -> Site {
        let wheels: Vec<_> = self.wheels.iter().map(|path| (path.clone(), Role::Audited)).collect();
        let prefix = self.prefix().to_str().unwrap().to_owned();
        let place = PythonEnvironment::new("3.11".parse().unwrap(), prefix);
        Site::open(&wheels, &place, &self.path("scratch"), &Silent).unwrap()
    }

    /// This machine, as a new process sees it.
    pub(crate) fn scenario() -> Scenario {
        Scenario {
            system: HostSystem::Root(Root::read(Path::new("/")).unwrap()),
            process: Vec::new(),
            processor: processor(),
            ..Scenario::python(None)
        }
    }

    /// The simulated trace of a file.
    pub(crate) fn trace(&self, path: &str, scenario: &Scenario) -> Trace {
        let site = self.site();
        let facts = SiteFacts::read(&site, &Silent).unwrap();
        Loader::new(&site, &facts, scenario).load(&[format!("{PACKAGES}/{path}")])
    }

    /// Compares the simulated trace of a file with the output of `ld.so`: names, paths, order and
    /// missing libraries.
    pub(crate) fn assert_as_listed(&self, path: &str, scenario: &Scenario) -> Trace {
        let trace = self.trace(path, scenario);
        let ours = self.shown(&trace);
        let theirs = listed(&self.prefix().join(PACKAGES).join(path), &self.library_path(scenario)).unwrap();
        assert_eq!(ours, theirs, "{path}: {trace:#?}");
        trace
    }

    fn library_path(&self, scenario: &Scenario) -> String {
        let entries: Vec<String> = scenario
            .library_path
            .iter()
            .map(|entry| {
                if entry.starts_with('/') {
                    entry.clone()
                } else {
                    self.path("prefix").join(entry).to_str().unwrap().to_owned()
                }
            })
            .collect();
        entries.join(":")
    }

    /// Name and file of everything that a trace loaded after the first file, and the names of the
    /// missing libraries.
    pub(crate) fn shown(&self, trace: &Trace) -> Listing {
        let real = |place: &Where| match place {
            Where::Site(path) => self.prefix().join(path),
            Where::System(path) => fs_err::canonicalize(path).unwrap(),
        };
        let loaded = trace.loaded.iter().skip(1).map(|loaded| (loaded.name.clone(), real(&loaded.place)));
        let missing = trace.missing.iter().map(|missing| missing.name.clone()).collect();
        Listing { loaded: loaded.filter(|(name, _)| !is_loader(name)).collect(), missing }
    }
}

/// The loaded libraries by name and file, and the missing ones.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) loaded: Vec<(String, PathBuf)>,
    pub(crate) missing: Vec<String>,
}

fn is_loader(name: &str) -> bool {
    name.ends_with("ld-linux-x86-64.so.2")
}

/// The output of `ld.so` for a file in the mode that `ldd` uses: unlike with `--list`, it continues
/// if a library is not found. The error is the message with which it gives up.
pub(crate) fn listed(file: &Path, library_path: &str) -> Result<Listing, String> {
    let mut command = Command::new(LOADER);
    command.arg(file).env("LD_TRACE_LOADED_OBJECTS", "1").env("LD_LIBRARY_PATH", library_path).current_dir("/");
    let output = command.output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let mut listing = Listing { loaded: Vec::new(), missing: Vec::new() };
    for line in String::from_utf8(output.stdout).unwrap().lines().map(str::trim) {
        let line = line.split(" (0x").next().unwrap();
        match line.split_once(" => ") {
            Some((name, "not found")) => listing.missing.push(name.to_owned()),
            Some((name, _)) if is_loader(name) => {}
            Some((name, path)) => listing.loaded.push((name.to_owned(), fs_err::canonicalize(path).unwrap())),
            // The library of the kernel, and the file that was requested by path.
            None if line.starts_with('/') && !is_loader(line) => {
                listing.loaded.push((line.to_owned(), fs_err::canonicalize(line).unwrap()));
            }
            None => {}
        }
    }
    Ok(listing)
}

/// The x86-64 level of this machine, according to its loader.
pub(crate) fn processor() -> u8 {
    let help = succeeds(Command::new(LOADER).arg("--help"));
    let has = |level: &u8| help.lines().any(|line| line.contains(&format!("x86-64-v{level} (supported, searched)")));
    [4, 3, 2].into_iter().find(has).unwrap_or(1)
}
