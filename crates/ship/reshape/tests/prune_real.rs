//! Prunes the ROCm wheels of PyPI to two targets. Only with the feature `real`;
//! `ROCWHEEL_REAL_WHEELS` names the folder that scripts/fetch-wheels filled.
#![cfg(feature = "real")]

use std::path::PathBuf;

use rocwheel_archive::WriteOptions;
use rocwheel_output::{Destination, Mode};
use rocwheel_progress::Silent;
use rocwheel_reshape::prune::{Empty, Keep, Options, prune};
use rocwheel_tables::TargetTable;
use rocwheel_wheel::read::Wheel;

/// Debian's librocsparse has 111 translation units for 7 targets each, 1.3 GB.
#[test]
fn librocsparse_is_pruned_to_one_target() {
    let debs = std::env::var_os("ROCWHEEL_REAL_DEBS").expect("ROCWHEEL_REAL_DEBS names a folder of Debian's packages");
    let package = fs_err::read_dir(PathBuf::from(debs))
        .expect("the folder can be listed")
        .map(|entry| entry.expect("entry").path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("librocsparse0_")))
        .expect("librocsparse0 is among the packages");
    let (unpacked, output, scratch) = (folder(), folder(), folder());
    let done = std::process::Command::new("dpkg-deb").arg("--extract").arg(package).arg(unpacked.path()).status();
    assert!(done.expect("dpkg-deb runs").success());
    let library = walk(unpacked.path()).into_iter().find(|path| path.to_string_lossy().contains("librocsparse.so"));
    let library = library.expect("the library is in the package");
    let read = |path: &std::path::Path| {
        let file = fs_err::File::open(path).expect("open");
        let size = file.metadata().expect("size").len();
        rocwheel_kpack::FatBinary::read(file.file(), size).expect("readable").expect("GPU code")
    };
    let before = read(&library);
    let options = |mode| Options {
        keep: Keep::parse("gfx90a", &TargetTable::embedded()).expect("keep"),
        compress: None,
        level: rocwheel_reshape::prune::LEVEL,
        empty: Empty::Refuse,
        destination: Destination::Folder(output.path().to_owned()),
        mode,
        scratch: scratch.path(),
        write: WriteOptions::default(),
    };
    let paths = [library.clone()];
    let dry = prune(&paths, &options(Mode::DryRun), &Silent).expect("dry run");
    let outcome = prune(&paths, &options(Mode::Execute), &Silent).expect("prune");
    let result = output.path().join(library.file_name().expect("name"));
    let after = read(&result);
    let size = fs_err::metadata(&result).expect("result").len();
    assert_eq!((dry.after, dry.estimated, outcome.after), (size, false, size));
    assert!(size * 3 < outcome.before, "{size} of {}", outcome.before);
    assert_eq!((after.bundles.len(), after.wrappers.len()), (before.bundles.len(), before.wrappers.len()));
    assert!(before.bundles.len() > 100);
    // Compares the variants of the target, bundle by bundle.
    let count = |fat: &rocwheel_kpack::FatBinary, all: bool| -> Vec<Vec<(String, u64)>> {
        let wanted = |entry: &&rocwheel_kpack::BundleEntry| {
            entry.target().is_some_and(|target| all || target.starts_with("gfx90a"))
        };
        let entries = |bundle: &rocwheel_kpack::Bundle| {
            bundle.entries.iter().filter(wanted).map(|entry| (entry.id.clone(), entry.size)).collect()
        };
        fat.bundles.iter().map(entries).collect()
    };
    assert_eq!(count(&after, true), count(&before, false));
    assert_eq!(outcome.inputs[0].verified, count(&after, true).iter().map(Vec::len).sum::<usize>() as u64);
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("folder")
}

fn walk(folder: &std::path::Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(folder).into_iter().map(|entry| entry.expect("entry"));
    entries.filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path).collect()
}

#[test]
fn real_wheels_are_pruned_to_two_targets() {
    let folder = std::env::var_os("ROCWHEEL_REAL_WHEELS")
        .expect("ROCWHEEL_REAL_WHEELS names the folder that scripts/fetch-wheels filled");
    let mut wheels: Vec<PathBuf> = fs_err::read_dir(PathBuf::from(folder))
        .expect("the folder can be listed")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .collect();
    wheels.sort();
    assert!(wheels.len() >= 8, "scripts/fetch-wheels downloads eight wheels: {wheels:?}");
    let (output, scratch) = (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder"));
    let options = Options {
        keep: Keep::parse("gfx942,gfx90a", &TargetTable::embedded()).expect("keep"),
        compress: None,
        level: rocwheel_reshape::prune::LEVEL,
        empty: Empty::Refuse,
        destination: Destination::Folder(output.path().to_owned()),
        mode: Mode::Execute,
        scratch: scratch.path(),
        write: WriteOptions::default(),
    };
    let outcome = prune(&wheels, &options, &Silent).expect("prune");
    assert!(outcome.missing.is_empty());
    for (input, path) in outcome.inputs.iter().zip(&wheels) {
        assert!(input.verified > 0 && input.after < input.before, "{}", path.display());
        for file in &input.files {
            assert!(file.after <= file.before && file.note.is_none(), "{}: {file:?}", path.display());
        }
        let result = Wheel::open(&output.path().join(path.file_name().expect("name"))).expect("open");
        assert_eq!(result.verify().expect("verify"), []);
    }
}
