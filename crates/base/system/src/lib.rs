//! Input: a question to the operating system that the standard library does not answer, or answers
//! with a different function on each system. Output: the answer, from one function for all systems.
//!
//! Links, modes, locks, unnamed files, replacing a file, process groups and how to end them,
//! limits, what the allocator keeps, a clock. No other crate uses `std::os::unix`, `rustix` or
//! `libc`; clippy.toml and a test enforce that. Code that differs between systems is in `unix.rs`
//! and in the folder `windows`; both offer the same names. On Windows, an operation that does not
//! exist there returns an error.

mod links;
mod lock;
mod metadata;
mod names;
mod program;
mod replace;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;
mod writer;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use links::make_links;
pub use lock::Lock;
pub use metadata::{FileIdentity, FileMetadata, FileOwner, Timestamp};
pub use names::{PathCheck, refused_by_windows, same_but_for_case, slashed, variable_name};
pub use program::{PYTHON, RunningGroup, environment_setting, find_program, program_of};
pub use replace::{is_same_file, replace};
pub use system::{
    OpenFile, REMOVES_OPEN_FILES, argument_limit, canonicalize, compiler_variables, copy_content, copy_range,
    create_mode, current_user, ending_signal, exchange, folder_entries, free_space, is_own, kill_process,
    link_nameless, nameless_file, open_identity, open_numbered, persist, persist_new, raise_argument_limit,
    remove_contents, remove_folder, rename, return_large_blocks, set_mode, set_open_mode, set_owner, special_kind,
    steady_time, symlink, temporary_mode, try_device,
};
pub use writer::PositionedWriter;
