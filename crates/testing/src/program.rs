//! Input: a file that this process has written. Output: the same file as a program that can be run
//! at once.
//!
//! Linux refuses to run a file that anybody has open for writing ("Text file busy"), and a child
//! that another thread is just starting has a copy of every descriptor of this process until its
//! exec. So another process writes the program: of what `install` has open, no child of ours has a
//! copy.

use std::path::Path;
use std::process::Command;

/// Makes a program of the file.
///
/// # Panics
/// When the file cannot be copied.
pub fn make_program(path: &Path) {
    let mut name = path.file_name().expect("a program has a name").to_owned();
    name.push(".new");
    let copy = path.with_file_name(name);
    let output = Command::new("install").args(["-m", "755", "--"]).args([path, &copy]).output();
    let output = output.expect("`install` is in every Debian");
    assert!(output.status.success(), "{output:?}");
    fs_err::rename(copy, path).expect("the folder was just written");
}
