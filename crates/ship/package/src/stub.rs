//! Input: the text of a relative symbolic link to a program. Output: a program of 2.5 KB that runs
//! the link's target.
//!
//! A wheel cannot hold symbolic links, so `bin/clang++ -> clang` becomes such a program. It finds
//! its own directory through `/proc/self/exe`, so it also works when called through a link. It runs
//! the text of the link, relative to that directory, with its own arguments and environment; the
//! target receives the first argument unchanged. Stubs may point to stubs. They are static and need
//! no libc: the same bytes run on every x86-64 Linux. Source, build script and the committed blob
//! are in `crates/ship/package/stub/`.

use rocwheel_progress::Failure;

/// The output of `stub/build.sh` for `stub/stub.rs`, without a target.
static PROGRAM: &[u8] = include_bytes!("../stub/stub.elf");

/// The mark before the path; its first byte cannot occur in a text.
const MARK: &[u8] = b"\x7frocwheel-target";

/// Bytes for the path and the zero byte that ends it.
const CAPACITY: usize = 496;

/// Returns a program that runs `target`, a path relative to the program's directory. The caller
/// must set the mode to 755.
///
/// # Errors
/// The path is empty, absolute, longer than 495 bytes, or holds a zero byte.
pub fn stub(target: &str) -> Result<Vec<u8>, Failure> {
    let cannot = "cannot make a program that runs";
    if target.is_empty() {
        return Err(Failure::message(format!("{cannot} a link without text")));
    }
    if target.starts_with('/') {
        let failure = Failure::message(format!("{cannot} `{target}`: the path is absolute"));
        return Err(failure.with_hint("make the link relative"));
    }
    if target.contains('\0') {
        let target = target.escape_default();
        return Err(Failure::message(format!("{cannot} `{target}`: the path holds a zero byte")));
    }
    if target.len() >= CAPACITY {
        let (size, limit) = (target.len(), CAPACITY - 1);
        let failure = Failure::message(format!("{cannot} `{target}`: the path has {size} bytes, of {limit} at most"));
        return Err(failure.with_hint("make the link's text shorter"));
    }
    let mut program = PROGRAM.to_vec();
    let start = path_offset(&program).expect("the committed blob has a place for the path, see the tests");
    program[start..start + target.len()].copy_from_slice(target.as_bytes());
    Ok(program)
}

/// Returns the path that a stub runs; `None` for every other file.
pub fn target_of(program: &[u8]) -> Option<&str> {
    if program.len() != PROGRAM.len() {
        return None;
    }
    let path = program.get(path_offset(program)?..)?.get(..CAPACITY)?;
    let end = path.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&path[..end]).ok()
}

fn path_offset(program: &[u8]) -> Option<usize> {
    program.windows(MARK.len()).position(|window| window == MARK).map(|mark| mark + MARK.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blob_has_exactly_one_empty_place_for_the_path() {
        let marks = PROGRAM.windows(MARK.len()).filter(|window| *window == MARK).count();
        assert_eq!(marks, 1);
        let start = path_offset(PROGRAM).unwrap();
        assert_eq!(PROGRAM[start..start + CAPACITY], [0; CAPACITY]);
    }

    #[test]
    fn a_stub_differs_from_the_blob_in_the_path_only_and_tells_it() {
        let program = stub("../lib/llvm/bin/clang-20").unwrap();
        let start = path_offset(PROGRAM).unwrap();
        assert_eq!(program[..start], PROGRAM[..start]);
        assert_eq!(program[start + CAPACITY..], PROGRAM[start + CAPACITY..]);
        assert_eq!(target_of(&program), Some("../lib/llvm/bin/clang-20"));
        assert_eq!(target_of(b"#!/bin/sh\n"), None);
        assert_eq!(target_of(&vec![0; PROGRAM.len()]), None);
    }

    #[test]
    fn paths_that_cannot_work_are_refused() {
        assert_eq!(stub("").unwrap_err().to_string(), "cannot make a program that runs a link without text");
        let error = stub("/usr/bin/true").unwrap_err();
        assert_eq!(error.to_string(), "cannot make a program that runs `/usr/bin/true`: the path is absolute");
        let error = stub("a\0b").unwrap_err();
        assert_eq!(error.to_string(), "cannot make a program that runs `a\\u{0}b`: the path holds a zero byte");
        let longest = "x".repeat(CAPACITY - 1);
        assert_eq!(target_of(&stub(&longest).unwrap()), Some(longest.as_str()));
        let error = stub(&"x".repeat(CAPACITY)).unwrap_err();
        assert!(error.to_string().ends_with("the path has 496 bytes, of 495 at most"), "{error}");
    }
}
