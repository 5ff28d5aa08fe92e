//! Input: a [`Site`], its [`Facts`] and files to load. Output: a [`Trace`], what glibc's dynamic loader would load for them,
//! from where, by which rule, and what it would not find.
//!
//! The rules are those of ld.so(8) and of glibc 2.33 and later; [`Rule`] names them.

use wheel::manylinux::Release;

/// The machine around the environment.
#[derive(Debug, Clone)]
pub enum System {
    /// Any machine of a manylinux policy: it has the libraries that the policy promises and those of drivers and displays, and
    /// nothing else. What they need themselves is taken for granted.
    Policy {
        /// The version of glibc, which says the policy; `None` for the newest.
        glibc: Option<Release>,
    },
    /// A machine whose files can be read.
    Root(crate::loader::Root),
}

/// A machine whose files can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Its root directory: `/`.
    pub directory: std::path::PathBuf,
    /// Where its loader looks at last, in order: the directories of ld.so.conf, then the built-in ones.
    pub directories: Vec<String>,
    /// What `$LIB` stands for: `lib64`, or `lib/x86_64-linux-gnu` on Debian.
    pub library_folder: String,
}

/// The circumstances that files are loaded in.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What people call it.
    pub name: String,
    /// The machine.
    pub system: System,
    /// `LD_LIBRARY_PATH`: absolute directories, or relative to the environment's prefix.
    pub library_path: Vec<String>,
    /// Files of the environment that are loaded first, in this order: preload lists.
    pub preloaded: Vec<String>,
    /// Libraries of the system that the process has before anything is loaded: those of a Python interpreter.
    pub process: Vec<String>,
    /// What the processor can: 1 for any x86-64, 2 to 4 for x86-64-v2 to v4. It says which `glibc-hwcaps` folders are used.
    pub processor: u8,
}

/// What would be loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// In the order in which it is loaded, the files that were asked for among it.
    pub loaded: Vec<Loaded>,
    /// What is not found, in the order of asking.
    pub missing: Vec<Missing>,
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
    pub by: Rule,
    /// What it needs, in its order: the index of what was taken and why it was taken, `None` for what is missing.
    pub needs: Vec<Option<(usize, Rule)>>,
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
pub enum Rule {
    /// It was asked for.
    Asked,
    /// It is in the process already, under this name, as this SONAME or as the same file.
    AlreadyLoaded,
    /// A DT_RPATH.
    Rpath {
        /// Whose: an index into [`Trace::loaded`]. Of the one who needs it, or of one of those that brought that in.
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
    /// A file of that name on the way that ends the search, since the loader gives up on it, and why.
    pub refused: Option<(String, String)>,
    /// Files of that name that the loader passes over: they are for another machine.
    pub skipped: Vec<String>,
}
