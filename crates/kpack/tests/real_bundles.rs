//! Code objects in real ROCm wheels.
//!
//! `ROCWHEEL_REAL_WHEELS=FOLDER cargo test -p kpack --features real --test real_bundles -- --nocapture`, where FOLDER holds
//! .whl files. Needs python3.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test file; --nocapture shows what was seen")]

use std::path::{Path, PathBuf};
use std::process::Command;

use kpack::bundle::{self, Form, Part};
use kpack::{CodeObject, Error, FatBinary};
use positioned_io::ReadAt;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

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
        files(&to, &mut all);
    }
    all.sort();
    (folder, all)
}

fn read(path: &Path) -> Option<FatBinary> {
    let file = fs_err::File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    FatBinary::read(file.file(), size).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every code object comes out of its bundle, compressed ones fit their checksum, what the id says is what the code
/// object's own flags say, and a plain bundle written again is the same bytes.
#[test]
fn every_code_object_of_a_real_library_is_what_its_bundle_says() {
    let (_folder, all) = unpacked();
    let (mut objects, mut bytes, mut plain) = (0_u64, 0, 0_u64);
    for path in &all {
        let Some(fat) = read(path) else { continue };
        let name = path.file_name().unwrap().display();
        let file = fs_err::File::open(path).unwrap();
        for bundle in &fat.bundles {
            let mut codes = Vec::new();
            let visited = bundle.visit(file.file(), fat.section.clone(), |entry, code| {
                objects += 1;
                bytes += entry.size;
                let target = entry.target_id()?.unwrap();
                let object = CodeObject::read(&code)?.unwrap();
                assert_eq!(object.target, target, "{name}: {}", entry.id);
                if bundle.compression.is_none() {
                    codes.push((entry.id.clone(), code.to_vec()));
                }
                Ok::<(), Error>(())
            });
            visited.unwrap_or_else(|error| panic!("{name}: {error}"));
            if bundle.compression.is_none() {
                let content =
                    |id: &String| codes.iter().find(|(other, _)| other == id).map(|(_, code)| code.as_slice());
                let contents: Vec<&[u8]> =
                    bundle.entries.iter().map(|entry| content(&entry.id).unwrap_or_default()).collect();
                let parts: Vec<_> = bundle
                    .entries
                    .iter()
                    .zip(&contents)
                    .map(|(entry, content)| Part { id: &entry.id, size: entry.size, content })
                    .collect();
                let mut written = Vec::new();
                bundle::write(&parts, Form::Plain, &mut written).unwrap();
                let mut original = vec![0; bundle.length as usize];
                file.file().read_exact_at(fat.section.start + bundle.offset, &mut original).unwrap();
                assert!(written == original, "{name}: bundle at {:#x}", bundle.offset);
                plain += 1;
            }
        }
    }
    eprintln!("{objects} code objects, {bytes} bytes; {plain} plain bundles written again");
    assert!(objects > 0 && plain > 0);
}
