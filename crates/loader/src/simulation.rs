//! Input: a [`Site`], its [`SiteFacts`] and files to load. Output: a [`Trace`], what glibc's
//! dynamic loader would load for them, from where, by which rule, and what it would not find.
//!
//! The rules are those of ld.so(8) and of glibc's `elf/dl-load.c` and `elf/dl-deps.c` since 2.33;
//! [`SearchRule`] names them. Left out is what no wheel has been seen to use: DT_AUXILIARY and
//! DT_FILTER, `LD_PRELOAD`, auditing libraries and the subfolders by platform (`tls`, `haswell`)
//! that glibc searched up to 2.36.

mod files;
mod machine;
mod process;
mod search;

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use rocwheel_wheel::manylinux::Release;

use crate::facts::SiteFacts;
use crate::site::Site;
use files::Candidate;
use machine::Machine;
pub use machine::Root;
use process::Process;
use search::{SearchPath, SearchPaths};

/// The machine around the environment.
#[derive(Debug, Clone)]
pub enum HostSystem {
    /// Any machine of a manylinux policy: it has the libraries that the policy promises and those
    /// of drivers and displays, and nothing else. What they need themselves is taken for granted.
    Policy {
        /// The version of glibc, which says the policy; `None` for the newest.
        glibc: Option<Release>,
    },
    /// Any machine of a musllinux policy, with the rules of musl's loader: it has the libraries
    /// that the policy promises and nothing else, search paths of both kinds are inherited, and
    /// what is loaded is known by the name it was found by, not by its SONAME.
    Musl,
    /// A machine whose files can be read.
    Root(Root),
}

/// The circumstances that files are loaded in.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What people call it.
    pub name: String,
    /// The machine.
    pub system: HostSystem,
    /// `LD_LIBRARY_PATH`: absolute directories, or relative to the environment's prefix.
    pub library_path: Vec<String>,
    /// Files of the environment that are loaded first, in this order: preload lists.
    pub preloaded: Vec<String>,
    /// Libraries of the system that the process has before anything is loaded: those of a Python
    /// interpreter.
    pub process: Vec<String>,
    /// What the processor can: 1 for any x86-64, 2 to 4 for x86-64-v2 to v4. It says which
    /// `glibc-hwcaps` folders are used.
    pub processor: u8,
}

impl Scenario {
    /// A Python that imports an extension module on any machine of a policy, with nothing set and
    /// any processor.
    pub fn python(glibc: Option<Release>) -> Scenario {
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

/// What every build of CPython for glibc has loaded when it imports something.
const PYTHON: [&str; 3] = ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"];

/// What would be loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// In the order in which it is loaded, the files that were asked for among it.
    pub loaded: Vec<Loaded>,
    /// What is not found, in the order of asking.
    pub missing: Vec<Missing>,
    /// What could be loaded by name afterwards ([`Loader::load_by_name`]).
    pub by_name: Vec<ByName>,
}

/// A library of the environment that a name in the data of another one leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByName {
    /// Who has the name: a file of the environment.
    pub by: String,
    /// The name.
    pub name: String,
    /// What it leads to.
    pub path: String,
    /// The files of the environment that come with it and were not there before, itself among them.
    pub brings: Vec<String>,
    /// Whether all that it needs is found too.
    pub complete: bool,
}

/// A library in the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The name it was first asked for by, as in DT_NEEDED; the path of files that were asked for.
    pub name: String,
    /// Where it is.
    pub place: Where,
    /// Who needed it first: an index into [`Trace::loaded`]; `None` for files that were asked for.
    pub needed_by: Option<usize>,
    /// Why it was found there.
    pub by: SearchRule,
    /// What it needs, in its order: the index of what was taken and why it was taken, `None` for
    /// what is missing.
    pub needs: Vec<Option<(usize, SearchRule)>>,
}

/// Where a library is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    /// A file of the environment, by its path.
    Site(String),
    /// A library of the machine: its name, or its path where the machine can be read.
    System(String),
}

/// The rule by which a library was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchRule {
    /// It was asked for.
    Asked,
    /// It is in the process already, under this name, as this SONAME or as the same file.
    AlreadyLoaded,
    /// A DT_RPATH.
    Rpath {
        /// Whose: an index into [`Trace::loaded`]. Of the one who needs it, or of one of those that
        /// brought that in.
        owner: usize,
        /// The entry as it is written.
        entry: String,
    },
    /// `LD_LIBRARY_PATH`.
    LibraryPath {
        /// The entry.
        entry: String,
    },
    /// The DT_RUNPATH of the one who needs it.
    RunPath {
        /// The entry as it is written.
        entry: String,
    },
    /// The name has a slash and is a path.
    Path,
    /// The machine has it.
    System,
}

/// A library that is needed and not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// As in DT_NEEDED.
    pub name: String,
    /// Who needs it: an index into [`Trace::loaded`].
    pub needed_by: usize,
    /// Where the loader looked: entries of search paths as they are written, at most 64 of them.
    pub searched: Vec<String>,
    /// A file of that name on the way that ends the search, since the loader gives up on it, and
    /// why.
    pub refused: Option<(String, String)>,
    /// Files of that name that the loader passes over: they are for another machine.
    pub skipped: Vec<String>,
}

impl Trace {
    /// The index of a file of the environment in [`Trace::loaded`].
    pub fn position(&self, path: &str) -> Option<usize> {
        self.loaded.iter().position(|loaded| matches!(&loaded.place, Where::Site(place) if place == path))
    }

    /// Who brought a library in, from the file that was asked for down to the library itself:
    /// indices.
    pub fn chain(&self, index: usize) -> Vec<usize> {
        let mut chain = vec![index];
        while let Some(above) = self.loaded[chain[chain.len() - 1]].needed_by {
            chain.push(above);
        }
        chain.reverse();
        chain
    }
}

/// Loads files in one scenario. What is the same for all of them is worked out once; many threads
/// may ask at once.
pub struct Loader<'a> {
    site: &'a Site,
    facts: &'a SiteFacts,
    scenario: &'a Scenario,
    machine: Machine<'a>,
    /// Components of the environment's absolute path.
    prefix: Vec<&'a str>,
    /// File name → the files that have it.
    names: HashMap<&'a str, Vec<Candidate<'a>>>,
    /// Search paths of the files that have one, worked out when they are first needed.
    paths: HashMap<&'a str, OnceLock<SearchPaths>>,
    library_path: SearchPath,
    /// Whether only such search paths count as lead to the same place on every system.
    only_everywhere: bool,
}

impl<'a> Loader<'a> {
    /// Prepares the scenario.
    pub fn new(site: &'a Site, facts: &'a SiteFacts, scenario: &'a Scenario) -> Loader<'a> {
        let mut names: HashMap<&str, Vec<Candidate>> = HashMap::new();
        for path in site.files.keys() {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            names.entry(name).or_default().push(Candidate { folder, path });
        }
        let paths = facts.native().map(|(path, _)| (path.as_str(), OnceLock::new())).collect();
        let mut loader = Loader {
            site,
            facts,
            scenario,
            machine: Machine::new(&scenario.system, scenario.processor),
            prefix: site.place.prefix.split('/').filter(|part| !part.is_empty() && *part != ".").collect(),
            names,
            paths,
            library_path: SearchPath::default(),
            only_everywhere: false,
        };
        loader.library_path = loader.library_path();
        loader
    }

    /// Loads files one after another into one process, the scenario's preloaded ones first. A
    /// program is a process of its own: ask for nothing else with it.
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
    /// As [`Loader::load`], and then what the files have the names of in their data
    /// ([`crate::facts::Object::loads`]), as if each were opened once. A name that leads nowhere is
    /// no fault: most are tried, and done without.
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

/// What a file of the environment needs, and where search paths lead for it.
pub struct Led<'a> {
    /// Who needs it.
    pub path: &'a str,
    /// The name, without folders.
    pub name: &'a str,
    /// The file of the environment.
    pub to: Option<&'a str>,
}

impl<'a> Loader<'a> {
    /// The same without entries of search paths that lead to the packages on some systems only:
    /// those with `$LIB` or `$PLATFORM`, and those that leave the folder of the packages and come
    /// back by its name.
    #[must_use]
    pub fn only_everywhere(self) -> Loader<'a> {
        Loader { only_everywhere: true, ..self }
    }

    /// Where search paths lead in a process that loads `root`, for all that it and what it loads
    /// need, whatever the process has under that name already.
    pub fn lead(&self, root: &str) -> Vec<Led<'a>> {
        let mut process = Process::new(self);
        process.open(root);
        process.led()
    }
}

/// Whether any machine of a policy, or one with drivers and a display, has a library.
pub fn is_of_system(library: &str) -> bool {
    static MACHINE: LazyLock<Machine<'static>> = LazyLock::new(|| Machine::new(&HostSystem::Policy { glibc: None }, 1));
    MACHINE.promises(library)
}

/// [`Loader::load`] for those who ask once.
pub fn load(site: &Site, facts: &SiteFacts, roots: &[String], scenario: &Scenario) -> Trace {
    Loader::new(site, facts, scenario).load(roots)
}
