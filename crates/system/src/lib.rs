//! Input: a question to the operating system that the standard library does not answer, or answers
//! with a different function on each system. Output: the answer, from one function for all systems.
//!
//! Links, modes, locks, unnamed files, replacing a file, process groups and how to end them,
//! limits. No other crate uses `std::os::unix` or `rustix`; clippy.toml and a test enforce that.
//! Code that differs between systems is in a module named after the system.

mod lock;
mod program;
mod replace;
#[cfg(unix)]
mod unix;

pub use lock::Lock;
pub use program::{RunningGroup, find_program};
pub use replace::{is_same_file, replace};
#[cfg(unix)]
pub use unix::{
    FileIdentity, FileMetadata, FileOwner, PositionedWriter, Timestamp, copy_content, copy_range, create_mode,
    current_user, ending_signal, exchange, folder_entries, free_space, kill_process, link_nameless, nameless_file,
    open_numbered, permissions, set_mode, set_owner, special_kind, start_in_group, symlink, try_device,
};
#[cfg(target_os = "linux")]
pub use unix::{raise_stack_limit, stack_limit};
