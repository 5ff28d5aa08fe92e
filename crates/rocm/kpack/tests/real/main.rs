//! GPU code in real ROCm wheels, and archives larger than any of them.
//!
//! ```text
//! ROCWHEEL_REAL_WHEELS=FOLDER cargo test -p rocwheel-kpack --features real --test real -- --nocapture
//! ```
//!
//! FOLDER holds .whl files. Needs python3, gcc and binutils.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test file; --nocapture shows what was seen")]

mod archives;
mod fat_binaries;

use std::path::{Path, PathBuf};
use std::process::Command;

use rocwheel_fixtures::files_below;
use rocwheel_kpack::FatBinary;

/// Unpacks all wheels and returns the folder and the files in it.
fn unpacked() -> (tempfile::TempDir, Vec<PathBuf>) {
    let wheels = std::env::var_os("ROCWHEEL_REAL_WHEELS").expect("set ROCWHEEL_REAL_WHEELS to a folder of .whl files");
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for (number, wheel) in fs_err::read_dir(wheels).unwrap().map(|entry| entry.unwrap().path()).enumerate() {
        if wheel.extension().is_none_or(|extension| extension != "whl") {
            continue;
        }
        let to = folder.path().join(number.to_string());
        let done = Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&to).status().unwrap();
        assert!(done.success(), "{}", wheel.display());
        all.extend(files_below(&to).into_iter().map(|path| to.join(path)).filter(|path| !path.is_symlink()));
    }
    all.sort();
    (folder, all)
}

/// Returns the GPU part of a file; `None` if it has none.
fn read(path: &Path) -> Option<FatBinary> {
    let file = fs_err::File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    FatBinary::read(file.file(), size).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
