//! Input: a question to the operating system that the standard library has no word for, or another
//! word on each system. Output: the answer, under one name.
//!
//! Links, modes, locks, files without names, replacing a file, groups of processes and their end,
//! limits. No other crate uses `std::os::unix` or `rustix`: clippy.toml and a test see to that.
//! What is different on each system is in a module named after it.

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
    current_user, ending_signal, exchange, free_space, kill_process, link_nameless, nameless_file, permissions,
    set_mode, set_owner, special_kind, start_in_group, symlink,
};
#[cfg(target_os = "linux")]
pub use unix::{raise_stack_limit, stack_limit};
