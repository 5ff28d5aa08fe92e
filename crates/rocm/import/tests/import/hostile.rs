//! Input that is wrong, truncated or tries to write elsewhere, and outputs that are not ours.

use rocwheel_fixtures::{Impatient, names};
use rocwheel_import::ImportSource;
use rocwheel_progress::{Exit, Failure};
use tar::EntryType;

use super::Set;
use super::fixture::{Packing, Tar, deb, import, library, listing, options};

/// Imports one package with these files as the HIP runtime and returns the error, after checking
/// that nothing was written.
fn refused(tar: Tar) -> Failure {
    let directory = tempfile::tempdir().unwrap();
    let path = deb(directory.path(), "libamdhip64-5", "5.2.3-8", tar, Packing::Xz);
    let output = directory.path().join("out");
    let error = import(&ImportSource::Debs(vec![path]), &options(&output)).unwrap_err();
    assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 1, "something was left behind: {error}");
    error
}

#[test]
fn members_that_lead_out_of_the_tree_are_refused() {
    for (tar, member, reason) in [
        (Tar::default().file("./../evil", b"x"), "./../evil", "leads out"),
        (Tar::default().file("usr/lib/../../../evil", b"x"), "usr/lib/../../../evil", "leads out"),
        (Tar::default().file("/etc/evil", b"x"), "/etc/evil", "absolute"),
        (Tar::default().special(EntryType::Char, "./dev/null", ""), "./dev/null", "device"),
        (Tar::default().special(EntryType::Block, "./dev/sda", ""), "./dev/sda", "device"),
        (Tar::default().special(EntryType::Fifo, "./run/x", ""), "./run/x", "named pipe"),
        (Tar::default().special(EntryType::Link, "./usr/x", "../../evil"), "../../evil", "leads out"),
        (Tar::default().file("./usr/a\\b", b"x"), "./usr/a\\b", "character"),
    ] {
        let error = refused(tar);
        let text = error.to_string();
        assert!(text.contains(&format!("`{member}`")) && text.contains(reason), "{text}");
        assert!(text.contains("libamdhip64-5_5.2.3-8.deb"), "{text}");
        assert_eq!(error.hint().unwrap(), "leave its package out, or rename or remove the file");
    }
}

#[test]
fn names_that_no_file_may_have_are_skipped_with_their_files() {
    let set = Set::new(Packing::None);
    let slice = "usr/lib/systemd/system/system-systemd\\x2dcryptsetup.slice";
    let package = |tar: Tar| {
        let mut debs = set.debs.clone();
        debs.push(deb(&set.path("build"), "systemd", "252-1", tar, Packing::None));
        import(&ImportSource::Debs(debs), &options(&set.path("out")))
    };
    let tar = Tar::default().special(EntryType::Directory, "./usr/a\\b/", "");
    let tar = tar.file(&format!("./{slice}"), b"[Slice]").link("./usr/lib/systemd/a\\b", "system");
    let report = package(tar.special(EntryType::Link, "./usr/c", &format!("./{slice}"))).unwrap();
    let skipped: Vec<&str> = report
        .skipped
        .iter()
        .filter(|skipped| skipped.source == "systemd")
        .map(|skipped| skipped.path.as_str())
        .collect();
    assert_eq!(skipped, ["usr/c", "usr/lib/systemd/a\\b", slice]);
    // A path or link that leaves the tree is an error in every package, and so is a bad name of a
    // file that would be imported.
    for tar in [
        Tar::default().file("./../a\\b", b"x"),
        Tar::default().file("/etc/a\\b", b"x"),
        Tar::default().link("./usr/a\\b", "../../b"),
        Tar::default().file("./usr/lib/liba\\b.so.1", b"x"),
    ] {
        let error = package(tar).unwrap_err();
        assert!(error.to_string().starts_with("refused to unpack `"), "{error}");
    }
}

#[test]
fn other_formats_of_packages_are_refused() {
    let set = Set::new(Packing::None);
    let good = fs_err::read(&set.debs[0]).unwrap();
    let attempt = |version: &[u8; 4]| {
        let mut bytes = good.clone();
        bytes[68..72].copy_from_slice(version);
        let mut debs = set.debs.clone();
        debs[0] = set.path("changed.deb");
        fs_err::write(&debs[0], bytes).unwrap();
        import(&ImportSource::Debs(debs), &options(&set.path("out")))
    };
    attempt(b"2.1\n").unwrap();
    let error = attempt(b"3.0\n").unwrap_err();
    assert!(error.to_string().ends_with("changed.deb` has the format 3.0; only 2.x is supported"), "{error}");
    assert!(error.hint().unwrap().contains("dpkg-deb"));
    let error = attempt(b"\xff\0x\n").unwrap_err();
    assert!(error.to_string().ends_with("its `debian-binary` names no version"), "{error}");
}

#[test]
fn sparse_files_in_the_pax_format_are_refused() {
    let records = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n27 GNU.sparse.name=./usr/x\n";
    let error = refused(Tar::default().records(records).file("./usr/GNUSparseFile.0/x", b"1\n0\n4\n"));
    assert!(error.to_string().starts_with("`./usr/x` of `"), "{error}");
    assert_eq!(error.hint().unwrap(), "pack it without `--sparse` (bsdtar: `--no-read-sparse`)");
}

#[test]
fn nothing_is_written_through_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let outside = directory.path().join("outside");
    fs_err::create_dir(&outside).unwrap();
    let target = outside.to_string_lossy().into_owned();
    let tar = Tar::default().link("./usr/lib/hole", &target).file("./usr/lib/hole/evil", b"x");
    let path = deb(directory.path(), "libamdhip64-5", "5.2.3-8", tar, Packing::Gz);
    let mut options = options(&directory.path().join("out"));
    options.allow_unresolved = vec!["*".into()];
    let result = import(&ImportSource::Debs(vec![path]), &options);
    assert_eq!(fs_err::read_dir(&outside).unwrap().count(), 0);
    // The link leads nowhere in the input, so it is skipped and the file is written into the tree.
    let report = result.unwrap();
    let lost = report.skipped.iter().find(|skipped| skipped.path == "usr/lib/hole").unwrap();
    assert_eq!(lost.target.as_ref(), Some(&target));
    let inside = Tar::default().link("./usr/lib/a", "b").file("./usr/lib/b/x", b"x").file("./usr/lib/a/y", b"y");
    assert!(refused(inside).to_string().contains(" is provided twice, by "));
}

#[test]
fn damaged_packages_are_named() {
    let set = Set::new(Packing::Xz);
    let good = fs_err::read(&set.debs[0]).unwrap();
    let attempt = |bytes: &[u8]| {
        let path = set.path("libbroken_1.deb");
        fs_err::write(&path, bytes).unwrap();
        import(&ImportSource::Debs(vec![path]), &options(&set.path("out"))).unwrap_err()
    };
    for length in [0, 4, 8, 40, 70, 100, 200, good.len() / 2, good.len() - 300, good.len() - 2] {
        let error = attempt(&good[..length]);
        assert!(error.hint().unwrap().starts_with("download the file again"), "{length}: {error:?}");
        assert!(error.to_string().contains("libbroken_1.deb"), "{length}: {error}");
        assert_eq!(error.exit(), Exit::Failed);
    }
    let mut flipped = good.clone();
    let middle = good.len() - 400;
    flipped[middle] ^= 0xff;
    let error = attempt(&flipped);
    assert!(error.to_string().starts_with("could not read `"), "{error:?}");
    assert!(attempt(b"!<arch>\nno package at all").to_string().contains("libbroken_1.deb"));
    assert!(!set.path("out").exists());
}

#[test]
fn a_library_cut_anywhere_is_an_error_and_no_panic() {
    let directory = tempfile::tempdir().unwrap();
    let whole = fs_err::read(library(directory.path(), "libamdhip64.so.5", "int x;", &[])).unwrap();
    for length in (0..whole.len()).step_by(211) {
        let tar = Tar::default().file("./usr/lib/libamdhip64.so.5", &whole[..length]);
        let path = deb(directory.path(), "libamdhip64-5", "5.2.3-8", tar, Packing::None);
        let mut options = options(&directory.path().join("out"));
        options.allow_unresolved = vec!["*".into()];
        if let Err(error) = import(&ImportSource::Debs(vec![path]), &options) {
            assert!(error.to_string().contains("lib/libamdhip64.so.5"), "{length}: {error}");
        }
    }
}

#[test]
fn one_place_is_claimed_once() {
    let set = Set::new(Packing::None);
    let tar = || Tar::default().file("./usr/include/hip/hip_runtime.h", b"other");
    let other = deb(&set.path("build"), "hip-dev", "5.2.3-1", tar(), Packing::None);
    let mut debs = set.debs.clone();
    debs.push(other);
    let error = import(&ImportSource::Debs(debs), &options(&set.path("out"))).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("`include/hip/hip_runtime.h` is provided twice"), "{text}");
    assert!(text.contains("of `hip-dev`") && text.contains("of `libamdhip64-dev`"), "{text}");
    let again = deb(&set.path("build"), "libamdhip64-dev", "5.2.4-1", tar(), Packing::None);
    let mut debs = set.debs.clone();
    debs.push(again);
    let error = import(&ImportSource::Debs(debs), &options(&set.path("out"))).unwrap_err();
    assert_eq!(error.hint().unwrap(), "give one version of each package", "{error}");
}

#[test]
fn one_path_twice_in_a_package_is_the_fault_of_that_package() {
    let file = "./usr/include/hip/x.h";
    let error = refused(Tar::default().file(file, b"one").file(file, b"another"));
    assert!(error.to_string().starts_with("`include/hip/x.h` is provided twice"), "{error}");
    assert_eq!(error.hint().unwrap(), "leave `libamdhip64-5` out, or remove one of the two files from it");
}

#[test]
fn two_versions_of_one_soname_are_refused() {
    let set = Set::new(Packing::None);
    let other = library(&set.path("build"), "libnuma.so.1", "int other;", &[]);
    let tar = Tar::default().file("./usr/lib/x86_64-linux-gnu/libnuma.so.1.9", &fs_err::read(other).unwrap());
    let mut debs = set.debs.clone();
    debs.push(deb(&set.path("build"), "libnuma1-other", "9-1", tar, Packing::None));
    let error = import(&ImportSource::Debs(debs), &options(&set.path("out"))).unwrap_err();
    assert!(error.to_string().starts_with("two libraries are called `libnuma.so.1`"), "{error}");
}

#[test]
fn outputs_of_others_are_left_alone() {
    let set = Set::new(Packing::None);
    let output = set.path("out");
    fs_err::create_dir(&output).unwrap();
    fs_err::write(output.join("mine"), "precious").unwrap();
    let error = import(&set.source(), &options(&output)).unwrap_err();
    let cause = error.find::<rocwheel_output::Error>();
    assert!(matches!(cause, Some(rocwheel_output::Error::NotOurs { .. })), "{error}");
    assert_eq!(listing(&output).len(), 1);
}

#[test]
fn a_failed_run_leaves_the_last_good_output() {
    let set = Set::new(Packing::None);
    let output = set.path("out");
    import(&set.source(), &options(&output)).unwrap();
    let before = listing(&output);
    import(&set.without("libbase1"), &options(&output)).unwrap_err();
    assert_eq!(listing(&output), before);
    import(&set.source(), &options(&output)).unwrap();
    assert_eq!(listing(&output), before);
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let set = Set::new(Packing::Xz);
    let output = set.path("out");
    let plan = rocwheel_import::plan(&set.source(), &options(&output), &rocwheel_progress::Silent).unwrap();
    let before = names(set.directory.path());
    let error = rocwheel_import::execute(&plan, &Impatient::after(20_001)).unwrap_err();
    assert_eq!((error.to_string().as_str(), error.exit()), ("interrupted", Exit::Interrupted));
    assert_eq!(names(set.directory.path()), before);
}

#[test]
fn an_input_without_rocm_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let tar = Tar::default().file("./usr/share/x", b"x");
    let path = deb(directory.path(), "cowsay", "1-1", tar, Packing::Xz);
    let error = import(&ImportSource::Debs(vec![path]), &options(&directory.path().join("out"))).unwrap_err();
    assert!(error.to_string().starts_with("there is nothing to import in `"), "{error}");
}
