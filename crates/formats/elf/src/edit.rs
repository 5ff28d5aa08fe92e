//! The changes to an executable or shared library that a user can ask for.

/// Changes to an executable or shared library, which are made in one pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// The search path for needed libraries; `None` leaves both tags unchanged.
    pub search_path: Option<SearchPath>,
    /// The tag for the search path; the other tag is removed.
    pub search_path_tag: SearchPathTag,
    /// The new DT_SONAME. The name inside the base version definition stays, because nothing reads
    /// it.
    pub soname: Option<String>,
    /// Changes to DT_NEEDED, applied one after the other.
    pub needed: Vec<NeededEdit>,
    /// The executable-stack flag of PT_GNU_STACK.
    pub stack: StackFlag,
}

/// Treatment of the flag that requests an executable stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StackFlag {
    /// The flag stays unchanged.
    #[default]
    Keep,
    /// The flag is cleared in libraries without code that needs it ([`Elf::runs_code_on_stack`]).
    /// Libraries without a PT_GNU_STACK, which old linkers make and which means the same, stay
    /// unchanged.
    Clear,
}

/// A change of the search path. Entries may hold several paths joined with `:`; repeated and empty
/// ones are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchPath {
    /// Exactly these entries; an empty list removes the search path.
    Set(Vec<String>),
    /// The entries that the loader uses now, then these. Without entries it only converts between
    /// the two tags.
    Add(Vec<String>),
}

/// The tag that holds the search path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SearchPathTag {
    /// DT_RPATH: searched before `LD_LIBRARY_PATH`, also for the libraries that the needed ones
    /// need.
    #[default]
    Rpath,
    /// DT_RUNPATH: searched after `LD_LIBRARY_PATH`, for this file's needs only.
    Runpath,
}

/// A change of DT_NEEDED.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeededEdit {
    /// Adds a library behind the others; no effect if it is needed already.
    Add(String),
    /// Removes a library with the versions needed from it: its symbols are then taken from any
    /// library, in any version. No effect if the library is not needed.
    Remove(String),
    /// Renames a library in its place, and in the table of needed versions (`.gnu.version_r`), for
    /// which glibc requires it.
    Replace {
        /// The current name; no effect if no library has it.
        from: String,
        /// The new name. If a library with this name is needed already, the two become one.
        to: String,
    },
}
