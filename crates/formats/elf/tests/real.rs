//! Edits every library and program of real ROCm packages that loads on this machine.
//!
//! ```text
//! ROCWHEEL_REAL_DEBS=FOLDER cargo test -p rocwheel-elf --features real --test real -- --nocapture
//! ```
//!
//! FOLDER holds .deb files that need nothing outside of it and the system. Debian packages: gcc,
//! binutils, dpkg.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "the counts are the result")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "suite/oracle.rs"]
mod oracle;

use rocwheel_elf::{DynamicSymbols, Edit, EditOutcome, Elf, ElfKind, NeededEdit, SearchPath, edit_file};
use tempfile::TempDir;

const RUNNER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **arguments) {
    if (dlopen(arguments[1], RTLD_NOW)) return 0;
    fprintf(stderr, "%s\n", dlerror());
    return 1;
}
"#;

struct Root {
    folder: TempDir,
    search: OsString,
}

impl Root {
    fn unpack(packages: &Path) -> Self {
        let folder = TempDir::new().unwrap();
        let tree = folder.path().join("tree");
        let mut count = 0;
        for entry in fs_err::read_dir(packages).unwrap() {
            let package = entry.unwrap().path();
            if package.extension().is_some_and(|extension| extension == "deb") {
                succeeds(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&tree));
                count += 1;
            }
        }
        assert!(count > 0, "no .deb file in {}", packages.display());
        fs_err::write(folder.path().join("runner.c"), RUNNER).unwrap();
        let (source, runner) = (folder.path().join("runner.c"), folder.path().join("runner"));
        succeeds(Command::new("gcc").arg("-o").arg(runner).arg(source).arg("-ldl"));
        Self { folder, search: OsString::new() }
    }

    fn loads(&self, file: &Path, kind: ElfKind) -> Result<(), String> {
        let mut command = Command::new(self.folder.path().join("runner"));
        command.arg(file);
        if kind == ElfKind::Executable {
            // The loader does all its work and lists the libraries, but does not start the program.
            rocwheel_fixtures::make_program(file);
            command = Command::new(file);
            command.env("LD_TRACE_LOADED_OBJECTS", "1").env("LD_WARN", "1").env("LD_BIND_NOW", "1");
        }
        let output = command.env("LD_LIBRARY_PATH", &self.search).output().map_err(|error| error.to_string())?;
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() && !said.contains("not found") && !said.contains("undefined symbol") {
            Ok(())
        } else {
            Err(format!("{} {said}", output.status))
        }
    }
}

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} is needed for this test: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

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

fn read(file: &Path) -> Option<Elf> {
    Elf::read(fs_err::File::open(file).unwrap().file()).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn readelf(file: &Path) -> (String, String) {
    let output =
        Command::new("readelf").args(["-l", "-S", "-d", "-V", "-W"]).arg(file).env("LC_ALL", "C").output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn check(file: &Path, before: &Elf, rpath: &str, complaints: &str) {
    let after = read(file).unwrap();
    let name = file.display();
    assert_eq!((after.rpath.as_deref(), after.runpath.as_deref()), (Some(rpath), None), "{name}");
    assert_eq!(after.version_needs, before.version_needs, "{name}");
    assert_eq!(after.version_definitions, before.version_definitions, "{name}");
    assert_eq!(after.needed.last().map(String::as_str), Some("libm.so.6"), "{name}");
    let (said, complained) = readelf(file);
    assert_eq!(complained, complaints, "{name}");
    assert!(said.contains(&format!("Library rpath: [{rpath}]")), "{name}");
}

#[test]
fn every_real_file_survives_edits_and_strip() {
    let packages = std::env::var_os("ROCWHEEL_REAL_DEBS").expect("set ROCWHEEL_REAL_DEBS to a folder of .deb files");
    let mut root = Root::unpack(Path::new(&packages));
    let mut all = Vec::new();
    files(&root.folder.path().join("tree"), &mut all);
    all.sort();
    let elves: Vec<_> = all.into_iter().filter_map(|file| read(&file).map(|elf| (file, elf))).collect();
    let folders: BTreeSet<_> = elves
        .iter()
        .filter(|(_, elf)| elf.kind == ElfKind::SharedLibrary)
        .filter_map(|(file, _)| file.parent())
        .collect();
    root.search = std::env::join_paths(folders).unwrap();

    let edit = Edit {
        search_path: Some(SearchPath::Set(vec!["$ORIGIN".to_owned(), "$ORIGIN/../../_somewhere/lib".to_owned()])),
        needed: vec![NeededEdit::Remove("libm.so.6".to_owned()), NeededEdit::Add("libm.so.6".to_owned())],
        ..Edit::default()
    };
    let again = Edit { search_path: Some(SearchPath::Add(vec!["/and/another/one".to_owned()])), ..Edit::default() };
    let first = "$ORIGIN:$ORIGIN/../../_somewhere/lib";
    let second = format!("{first}:/and/another/one");
    let (mut libraries, mut programs, mut others, mut unloadable) = (0, 0, 0, Vec::new());
    for (file, before) in &elves {
        if !matches!(before.kind, ElfKind::SharedLibrary | ElfKind::Executable) || before.machine != 62 {
            others += 1;
            continue;
        }
        if let Err(error) = root.loads(file, before.kind) {
            unloadable.push(format!("{}: {error}", file.display()));
            continue;
        }
        let kind = before.kind;
        let copy = root.folder.path().join("copy");
        fs_err::copy(file, &copy).unwrap();
        let complaints = readelf(&copy).1;
        let loads =
            |when: &str| root.loads(&copy, kind).unwrap_or_else(|error| panic!("{} {when}: {error}", file.display()));
        let size = || fs_err::metadata(&copy).unwrap().len();
        let original = size();
        assert_eq!(edit_file(&copy, &edit).unwrap(), EditOutcome::Changed);
        check(&copy, before, first, &complaints);
        loads("after the edit");
        assert_eq!(edit_file(&copy, &edit).unwrap(), EditOutcome::Unchanged, "{}", file.display());
        let edited = size();
        edit_file(&copy, &again).unwrap();
        check(&copy, before, &second, &complaints);
        loads("after the second edit");
        let strings = before
            .sections
            .iter()
            .filter(|section| [".dynstr", ".dynsym", ".gnu.hash"].contains(&section.name.as_str()));
        let moved: u64 = strings.map(|section| section.size).sum();
        assert!(
            edited - original < moved + 8192 && size() - edited < 256,
            "{}: {original} {edited} {}",
            file.display(),
            size()
        );
        for arguments in [&["-g"][..], &[]] {
            succeeds(Command::new("strip").args(arguments).arg(&copy));
            check(&copy, before, &second, &complaints);
            loads("after strip");
        }
        edit_file(&copy, &edit).unwrap();
        check(&copy, before, first, &complaints);
        loads("after strip and a third edit");
        if kind == ElfKind::SharedLibrary { libraries += 1 } else { programs += 1 }
    }
    eprintln!(
        "{libraries} libraries and {programs} programs edited, loaded, stripped and loaded; {others} other ELF files"
    );
    eprintln!("{} do not load unedited:\n{}", unloadable.len(), unloadable.join(""));
    assert!(libraries >= 20, "only {libraries} libraries load here");
}

/// Compares every ELF file of the packages of `ROCWHEEL_REAL_DEBS`, and of a folder in
/// `ROCWHEEL_REAL_LIBRARIES` if that is set.
#[test]
fn every_dynamic_symbol_is_what_readelf_says() {
    let packages = std::env::var_os("ROCWHEEL_REAL_DEBS").expect("set ROCWHEEL_REAL_DEBS to a folder of .deb files");
    let root = Root::unpack(Path::new(&packages));
    let mut all = Vec::new();
    files(&root.folder.path().join("tree"), &mut all);
    if let Some(folder) = std::env::var_os("ROCWHEEL_REAL_LIBRARIES") {
        files(Path::new(&folder), &mut all);
    }
    all.sort();
    let (mut compared, mut symbols, mut largest) = (0, 0, (0, PathBuf::new()));
    for file in all.into_iter().filter(|file| read(file).is_some_and(|elf| elf.kind != ElfKind::DebugOnly)) {
        let expected = oracle::readelf_symbols(&file);
        let ours = oracle::our_symbols(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        // Object files have a different symbol table and no dynamic symbols.
        assert!(ours == expected, "{}:\n{}", file.display(), difference(&ours, &expected));
        let compact = DynamicSymbols::read(fs_err::File::open(&file).unwrap().file()).unwrap();
        assert!(compact.defined() + compact.undefined().count() <= ours.len(), "{}", file.display());
        compared += 1;
        symbols += ours.len();
        largest = largest.max((ours.len(), file));
    }
    eprintln!("{symbols} symbols of {compared} files compared; the most are {} in {}", largest.0, largest.1.display());
    // The packages of Debian 12 have 33 such files, and 46,324 of the symbols are in its LLVM.
    assert!(compared >= 30 && symbols > 50_000, "only {symbols} symbols of {compared} files");
}

fn difference(ours: &[String], expected: &[String]) -> String {
    let differs = ours.iter().zip(expected).find(|(ours, expected)| ours != expected);
    format!("{} and {} symbols, first difference {differs:?}", ours.len(), expected.len())
}
