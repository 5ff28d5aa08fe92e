//! A lock excludes other holders until it is dropped and no longer, regardless of copies of its
//! descriptor.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use rocwheel_system::Lock;

#[test]
fn one_holder_at_a_time() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let open = || fs_err::File::open(file.path()).unwrap();
    let held = Lock::try_exclusive(open()).unwrap();
    assert!(held.is_some());
    assert!(Lock::try_exclusive(open()).unwrap().is_none());
    assert!(Lock::try_shared(open()).unwrap().is_none());
    drop(held);
    let first = Lock::try_shared(open()).unwrap();
    let second = Lock::try_shared(open()).unwrap();
    assert!(first.is_some() && second.is_some());
    assert!(Lock::try_exclusive(open()).unwrap().is_none());
}

/// The holder's name is in it, for others to read.
#[test]
fn a_locked_file_can_be_read_and_written() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let held = Lock::try_exclusive(fs_err::File::open(file.path()).unwrap()).unwrap();
    assert!(held.is_some());
    fs_err::write(file.path(), "held").unwrap();
    assert_eq!(fs_err::read_to_string(file.path()).unwrap(), "held");
}

/// A child holds such a copy between its fork and its exec.
#[test]
fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let open = || fs_err::File::open(file.path()).unwrap();
    let held = Lock::try_exclusive(open()).unwrap().unwrap();
    let copy = held.file().try_clone().unwrap();
    drop(held);
    assert!(Lock::try_exclusive(open()).unwrap().is_some());
    drop(copy);
}
