//! Input: a [`Site`], its [`SiteFacts`] and files to load. Output: a [`Trace`]: the files that
//! glibc's dynamic loader would load for them, with paths and rules, and those it would not find.
//!
//! The rules are those of ld.so(8) and of glibc's `elf/dl-load.c` and `elf/dl-deps.c` since 2.33;
//! [`SearchRule`] names them. Features that no known wheel uses are not simulated: DT_AUXILIARY and
//! DT_FILTER, `LD_PRELOAD`, auditing libraries, and the platform subfolders (`tls`, `haswell`) that
//! glibc searched up to 2.36.

mod files;
mod machine;
mod process;
mod search;
mod verdict;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use rocwheel_wheel::manylinux::DottedVersion;

use crate::facts::SiteFacts;
use crate::site::Site;
use files::Candidate;
use machine::Machine;
pub use machine::Root;
use process::Process;
use search::{SearchPath, SearchPaths};

/// The machine that the environment runs on.
#[derive(Debug, Clone)]
pub enum HostSystem {
    /// Any machine of a manylinux policy. It has exactly the libraries that the policy guarantees
    /// and those of drivers and displays. The needs of these libraries are assumed to be met.
    Policy {
        /// The version of glibc, which selects the policy; `None` for the newest.
        glibc: Option<DottedVersion>,
    },
    /// Any machine of a musllinux policy, with the rules of musl's loader. It has exactly the
    /// libraries that the policy guarantees. Search paths of both kinds are inherited, and a loaded
    /// library is known by the name it was found by, not by its SONAME.
    Musl,
    /// A machine whose files can be read.
    Root(Root),
}

/// The circumstances in which files are loaded.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The name for reports.
    pub name: String,
    /// The machine.
    pub system: HostSystem,
    /// The entries of `LD_LIBRARY_PATH`: absolute directories, or relative to the environment's
    /// prefix.
    pub library_path: Vec<String>,
    /// Files of the environment that are loaded first, in this order, such as preload lists.
    pub preloaded: Vec<String>,
    /// Libraries of the system that the process already has at the start: those of a Python
    /// interpreter.
    pub process: Vec<String>,
    /// Level of the processor: 1 for any x86-64, 2 to 4 for x86-64-v2 to v4. It selects the
    /// `glibc-hwcaps` folders.
    pub processor: u8,
}

impl Scenario {
    /// A Python that imports an extension module on any machine of a policy, with any processor and
    /// no variables set.
    pub fn python(glibc: Option<DottedVersion>) -> Scenario {
        Scenario {
            name: "python".to_owned(),
            system: HostSystem::Policy { glibc },
            library_path: Vec::new(),
            preloaded: Vec::new(),
            process: PYTHON.iter().map(|name| (*name).to_owned()).collect(),
            processor: 1,
        }
    }
}

/// The libraries that every build of CPython for glibc has loaded before an import.
const PYTHON: [&str; 3] = ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"];

/// The result of loading files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// The loaded files in load order, including the requested ones.
    pub loaded: Vec<Loaded>,
    /// Libraries that are not found, in the order in which they are needed.
    pub missing: Vec<FailedLookup>,
    /// Libraries that could be loaded by name afterwards ([`Loader::load_by_name`]).
    pub by_name: Vec<ByName>,
}

/// A library of the environment that is found by a name in the data of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByName {
    /// The file of the environment that contains the name.
    pub by: String,
    /// The name in the data.
    pub name: String,
    /// The file of the environment with that name.
    pub path: String,
    /// The files of the environment that are loaded for it and were not loaded before, including
    /// itself.
    pub brings: Vec<String>,
    /// `true` if everything that it needs is found too.
    pub complete: bool,
}

/// A library in the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The name by which it was first needed, as in DT_NEEDED; for requested files their path.
    pub name: String,
    /// Its path.
    pub place: Where,
    /// The file that needed it first, as an index into [`Trace::loaded`]; `None` for requested
    /// files.
    pub needed_by: Option<usize>,
    /// The rule by which it was found.
    pub by: SearchRule,
    /// For each library that it needs, in order: the index of the library that is used, and the
    /// rule; `None` if it is missing.
    pub needs: Vec<Option<(usize, SearchRule)>>,
}

/// The position of a library.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    /// A file of the environment, as its path.
    Site(String),
    /// A library of the machine: its name, or its path if the machine can be read.
    System(String),
}

impl Where {
    /// The path of a file of the environment.
    pub fn site(&self) -> Option<&str> {
        match self {
            Where::Site(path) => Some(path),
            Where::System(_) => None,
        }
    }
}

/// The rule by which a library was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchRule {
    /// The file was requested.
    Asked,
    /// It is already in the process: under this name, with this SONAME, or as the same file.
    AlreadyLoaded,
    /// A DT_RPATH.
    Rpath {
        /// The file that has it, as an index into [`Trace::loaded`]: the one that needs the
        /// library, or one that caused that file to be loaded.
        owner: usize,
        /// The entry as written.
        entry: String,
    },
    /// `LD_LIBRARY_PATH`.
    LibraryPath {
        /// The entry as written.
        entry: String,
    },
    /// The DT_RUNPATH of the file that needs it.
    RunPath {
        /// The entry as written.
        entry: String,
    },
    /// The name contains a slash, so it is a path.
    Path,
    /// The machine provides it.
    System,
}

/// A library that is needed but not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedLookup {
    /// The name in DT_NEEDED.
    pub name: String,
    /// The file that needs it, as an index into [`Trace::loaded`].
    pub needed_by: usize,
    /// The entries of search paths that were searched, as written; at most 64 of them.
    pub searched: Vec<String>,
    /// A file with that name that makes the loader stop searching, and the reason why it cannot be
    /// loaded.
    pub refused: Option<(String, String)>,
    /// Files with that name that the loader skips because they are for another machine.
    pub skipped: Vec<String>,
}

impl Trace {
    /// The index of a file of the environment in [`Trace::loaded`].
    pub fn position(&self, path: &str) -> Option<usize> {
        self.loaded.iter().position(|loaded| matches!(&loaded.place, Where::Site(place) if place == path))
    }

    /// The chain of files that caused a library to be loaded, from the requested file to the
    /// library itself, as indices.
    pub fn chain(&self, index: usize) -> Vec<usize> {
        let mut chain = vec![index];
        while let Some(above) = self.loaded[chain[chain.len() - 1]].needed_by {
            chain.push(above);
        }
        chain.reverse();
        chain
    }
}

/// The files of an environment by name. Clones share it.
#[derive(Clone)]
pub struct FileNames<'a>(Arc<HashMap<&'a str, Vec<Candidate<'a>>>>);

impl<'a> FileNames<'a> {
    /// The names of all files.
    pub fn of(site: &'a Site) -> FileNames<'a> {
        let mut names: HashMap<&str, Vec<Candidate>> = HashMap::new();
        for path in site.files.keys() {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            names.entry(name).or_default().push(Candidate { folder, path });
        }
        FileNames(Arc::new(names))
    }

    fn named(&self, name: &str) -> &[Candidate<'a>] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

/// Loads files in one scenario. Data that is the same for all of them is computed once; many
/// threads can use it at once.
pub struct Loader<'a> {
    site: &'a Site,
    facts: &'a SiteFacts,
    scenario: &'a Scenario,
    machine: Machine<'a>,
    /// Components of the environment's absolute path.
    prefix: Vec<&'a str>,
    names: FileNames<'a>,
    /// Search paths of the files that have some. They are parsed when they are first needed.
    paths: HashMap<&'a str, OnceLock<SearchPaths>>,
    library_path: SearchPath,
    /// `true` if only search paths count that lead to the same folder on every system.
    only_everywhere: bool,
}

impl<'a> Loader<'a> {
    /// Prepares a scenario.
    pub fn new(site: &'a Site, facts: &'a SiteFacts, scenario: &'a Scenario) -> Loader<'a> {
        Loader::with_names((site, &FileNames::of(site)), facts, scenario)
    }

    /// Like [`Loader::new`], with the names of the site's files, which many scenarios share.
    pub fn with_names(
        (site, names): (&'a Site, &FileNames<'a>),
        facts: &'a SiteFacts,
        scenario: &'a Scenario,
    ) -> Loader<'a> {
        let paths = facts.native().map(|(path, _)| (path.as_str(), OnceLock::new())).collect();
        let mut loader = Loader {
            site,
            facts,
            scenario,
            machine: Machine::new(&scenario.system, scenario.processor),
            prefix: site.place.prefix.split('/').filter(|part| !part.is_empty() && *part != ".").collect(),
            names: names.clone(),
            paths,
            library_path: SearchPath::default(),
            only_everywhere: false,
        };
        loader.library_path = loader.library_path();
        loader
    }

    /// Loads files one after the other into one process, the scenario's preloaded ones first. A
    /// program is a separate process, so request nothing else with it.
    pub fn load<S: AsRef<str>>(&self, roots: &[S]) -> Trace {
        let mut process = Process::new(self);
        let preloaded = self.scenario.preloaded.iter().map(String::as_str);
        for path in preloaded.chain(roots.iter().map(AsRef::as_ref)) {
            process.open(path);
        }
        process.trace
    }
}

impl Loader<'_> {
    /// Like [`Loader::load`]; then opens each library that the files name in their data
    /// ([`crate::facts::Object::loads`]) once. A name without a file is not an error: most of them
    /// are tried and then done without.
    pub fn load_by_name<S: AsRef<str>>(&self, roots: &[S]) -> Trace {
        let mut process = Process::new(self);
        let preloaded = self.scenario.preloaded.iter().map(String::as_str);
        for path in preloaded.chain(roots.iter().map(AsRef::as_ref)) {
            process.open(path);
        }
        let mut trace = process.trace.clone();
        trace.by_name = process.open_by_name();
        trace
    }
}

/// A library that a file of the environment needs, and the result of its search paths.
pub struct Led<'a> {
    /// The file that needs it.
    pub path: &'a str,
    /// The file name of the needed library.
    pub name: &'a str,
    /// The file of the environment that is found; `None` if none is.
    pub to: Option<&'a str>,
}

impl<'a> Loader<'a> {
    /// The same loader without those entries of search paths that lead to the packages on some
    /// systems only: entries with `$LIB` or `$PLATFORM`, and entries that leave the folder of the
    /// packages and return to it by its name.
    #[must_use]
    pub fn only_everywhere(self) -> Loader<'a> {
        Loader { only_everywhere: true, ..self }
    }

    /// The results of search paths in a process that loads `root`, for all needs of `root` and of
    /// the files that are loaded for it. Libraries that the process already has under the same name
    /// do not count.
    pub fn lead(&self, root: &str) -> Vec<Led<'a>> {
        let mut process = Process::new(self);
        process.open(root);
        process.led()
    }
}

/// `true` if every machine of a policy, or one with drivers and a display, has a library.
pub fn is_of_system(library: &str) -> bool {
    static MACHINE: LazyLock<Machine<'static>> = LazyLock::new(|| Machine::new(&HostSystem::Policy { glibc: None }, 1));
    MACHINE.promises(library)
}

/// [`Loader::load`] for a single request.
pub fn load(site: &Site, facts: &SiteFacts, roots: &[String], scenario: &Scenario) -> Trace {
    Loader::new(site, facts, scenario).load(roots)
}
