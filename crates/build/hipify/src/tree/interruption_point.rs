//! The points at which tests kill this process: before every change of the file system.

#[cfg(not(test))]
pub(super) fn step() {}

#[cfg(test)]
pub(super) use counted::{LEFT, step};

#[cfg(test)]
mod counted {
    use std::sync::atomic::{AtomicI64, Ordering};

    /// Number of changes until this process is killed; zero at the start means never.
    pub(in super::super) static LEFT: AtomicI64 = AtomicI64::new(0);

    pub(in super::super) fn step() {
        if LEFT.fetch_sub(1, Ordering::SeqCst) == 1 {
            rocwheel_system::kill_process(std::process::id().cast_signed());
            // The signal ends all threads; this one must not continue until it arrives.
            loop {
                std::thread::park();
            }
        }
    }
}
