//! Input: a binary. Output: the same binary without symbol table and debug sections, made by
//! `strip` of binutils on a temporary copy. The symbols that the loader needs stay. Binutils moves
//! the segments of some binaries, such as those that BOLT rewrote, without an error, and these then
//! crash. Such a result is discarded.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use rocwheel_content::{Content, Reader, WINDOW};
use rocwheel_elf::Elf;
use rocwheel_progress::{Failure, write_error};
use tempfile::{NamedTempFile, TempPath};

use crate::Error;

/// A stripped copy, which is deleted with its last owner.
pub(crate) struct Stripped {
    path: TempPath,
    size: u64,
}

impl Content for Stripped {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Reader> {
        Ok(Box::new(fs_err::File::open(&*self.path)?.into_parts().0))
    }
}

/// Strips `content` with the program `strip`; `name` is its name in messages. `None` if the result
/// would not be loaded like the original.
pub(crate) fn strip(
    content: &dyn Content,
    name: &str,
    program: &Path,
    scratch: &Path,
) -> Result<Option<Stripped>, Error> {
    let copy = copy_to(scratch, content).map_err(Error::file("write", scratch))?;
    let output = Command::new(program)
        .arg("--strip-all")
        .arg("--preserve-dates")
        .arg(copy.path())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(name, &error.to_string()))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).replace(&*copy.path().to_string_lossy(), name);
        return Err(failed(name, message.trim()));
    }
    let path = copy.into_temp_path();
    let size = fs_err::metadata(&path).map_err(Error::file("write", &path))?.len();
    let stripped = Stripped { path, size };
    let before = loaded(content).map_err(Error::file("write", scratch))?;
    let is_same = before.is_some() && before == loaded(&stripped).map_err(Error::file("write", &stripped.path))?;
    Ok(is_same.then_some(stripped))
}

fn copy_to(scratch: &Path, content: &dyn Content) -> io::Result<NamedTempFile> {
    let named = write_error(scratch);
    let mut copy = NamedTempFile::new_in(scratch).map_err(&named)?;
    let reader = content.open()?;
    let mut window = vec![0; WINDOW.min(content.size() as usize)];
    let mut position = 0;
    while position < content.size() {
        let length = (content.size() - position).min(WINDOW as u64) as usize;
        reader.read_exact_at(position, &mut window[..length])?;
        io::Write::write_all(copy.as_file_mut(), &window[..length]).map_err(&named)?;
        position += length as u64;
    }
    Ok(copy)
}

/// The parts of a binary that the kernel and the loader read: program headers without file offsets,
/// SONAME and NEEDED. `None` if it cannot be parsed.
fn loaded(content: &dyn Content) -> io::Result<Option<Loaded>> {
    let Ok(Some(elf)) = Elf::read(&content.open()?) else { return Ok(None) };
    let segments = elf.segments.iter();
    let segments = segments.map(|part| (part.kind, part.flags, part.address, part.file_size, part.memory_size));
    Ok(Some(Loaded { segments: segments.collect(), needed: elf.needed, soname: elf.soname }))
}

#[derive(PartialEq, Eq)]
struct Loaded {
    /// Kind, flags, address, size in the file and size in memory.
    segments: Vec<(u32, u32, u64, u64, u64)>,
    needed: Vec<String>,
    soname: Option<String>,
}

/// `message` is the output of `strip` for a member.
fn failed(name: &str, message: &str) -> Error {
    let said = if message.is_empty() { String::new() } else { format!(": {message}") };
    Failure::message(format!("`strip` failed for `{name}`{said}"))
        .with_hint("install binutils, or remove `--strip`")
        .into()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn library(folder: &Path, name: &str, source: &str) -> Vec<u8> {
        let (code, path) = (folder.join("source.c"), folder.join(name));
        fs_err::write(&code, source).unwrap();
        let gcc = Command::new("gcc").args(["-shared", "-fPIC", "-g", "-o"]).arg(&path).arg(&code).status();
        assert!(gcc.expect("gcc is installed by `make setup`").success());
        fs_err::read(path).unwrap()
    }

    #[cfg_attr(windows, ignore = "strips with a shell script")]
    #[test]
    fn a_result_whose_segments_moved_is_thrown_away() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = library(folder.path(), "libx.so", "int x(void) { return 1; }");
        let stripped = strip(&bytes, "libx.so", Path::new("strip"), folder.path()).unwrap().unwrap();
        assert!(stripped.size() < bytes.len() as u64);
        // A `strip` that replaces the binary by another one and reports no error.
        library(folder.path(), "other.so", "char more[100000] = {1}; int x(void) { return 1; }");
        let program = folder.path().join("strip");
        let script = format!(
            "#!/bin/sh\nfor last; do :; done\nexec cp '{}' \"$last\"\n",
            folder.path().join("other.so").display()
        );
        fs_err::write(&program, script).unwrap();
        rocwheel_system::set_mode(&program, 0o755).unwrap();
        assert!(strip(&bytes, "libx.so", &program, folder.path()).unwrap().is_none());
    }
}
