//! Input: a file that this process has written. Output: the same file as a program that can be run
//! immediately.
//!
//! Linux refuses to run a file that a process has open for writing ("Text file busy"). A child that
//! another thread is starting has a copy of every descriptor of this process until its exec.
//! Therefore a separate process, `install`, writes the program: no child of ours has copies of its
//! descriptors.

use std::path::Path;
use std::process::Command;

/// Makes a program from the file.
///
/// # Panics
/// If the file cannot be copied.
pub fn make_program(path: &Path) {
    let mut name = path.file_name().expect("a program has a name").to_owned();
    name.push(".new");
    let copy = path.with_file_name(name);
    let output = Command::new("install").args(["-m", "755", "--"]).args([path, &copy]).output();
    let output = output.expect("`install` is in every Debian");
    assert!(output.status.success(), "{output:?}");
    fs_err::rename(copy, path).expect("the folder was just written");
}
