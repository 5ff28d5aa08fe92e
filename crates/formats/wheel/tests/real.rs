//! ROCm wheels from PyPI that five different tools made. Needs the feature `real`;
//! `ROCWHEEL_REAL_WHEELS` names the folder that scripts/fetch-wheels filled.
#![cfg(feature = "real")]

mod forge;

use std::path::{Path, PathBuf};

use forge::listing;
use rocwheel_archive::MemberKind;
use rocwheel_archive::{FileDigest, WriteOptions};
use rocwheel_edit::{self as edit, EditPlacement, VersionEdit, WheelEdit};
use rocwheel_output::Destination;
use rocwheel_progress::Silent;
use rocwheel_wheel::read::{Wheel, WheelProblem};
use rocwheel_wheel::{Existing, Headers};

fn real_wheels() -> Vec<PathBuf> {
    let folder = std::env::var_os("ROCWHEEL_REAL_WHEELS")
        .expect("ROCWHEEL_REAL_WHEELS names the folder that scripts/fetch-wheels filled");
    let mut paths: Vec<PathBuf> = fs_err::read_dir(PathBuf::from(folder))
        .expect("the folder can be listed")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 8, "scripts/fetch-wheels downloads eight wheels: {paths:?}");
    paths
}

#[test]
fn real_wheels_are_edited_there_and_back() {
    for path in real_wheels() {
        let folders = [(); 3].map(|()| tempfile::tempdir().expect("folder"));
        let before = Wheel::open(&path).expect("open");
        assert!(before.name_agrees(), "{}", path.display());
        // Only the omissions of their makers: hashes, and the row of RECORD itself.
        for problem in before.verify().expect("verify") {
            let known = match &problem {
                WheelProblem::NoHash(_) => true,
                WheelProblem::Unrecorded(name) => name.ends_with(".dist-info/RECORD"),
                _ => false,
            };
            assert!(known, "{}: {problem}", path.display());
        }
        for text in [before.metadata().expect("METADATA"), before.wheel().expect("WHEEL")] {
            assert_eq!(Headers::parse(&text).to_string(), text);
        }
        let old = Headers::parse(&before.metadata().expect("METADATA")).get("Version").expect("version");
        let run = |input: &Path, version: VersionEdit, output: &Path| {
            let edit = WheelEdit { version: Some(version), ..WheelEdit::default() };
            let plans = edit::plan(&[input.to_owned()], &edit, output, &Silent).expect("plan");
            let place = EditPlacement {
                destination: Destination::Folder(output.to_owned()),
                existing: Existing::Refuse,
                scratch: output.to_owned(),
            };
            let options = WriteOptions { digest: FileDigest::Skip, ..WriteOptions::default() };
            edit::execute(&plans[0], &place, &options, &Silent).expect("edit").path
        };
        let local = || VersionEdit::local("edited.1").expect("version");
        let there = run(&path, local(), folders[0].path());
        assert!(there.to_string_lossy().contains(&format!("-{old}+edited.1-")), "{}", there.display());
        let edited = Wheel::open(&there).expect("open");
        assert_eq!(edited.verify().expect("verify"), [], "{}", path.display());
        assert!(listing(&there).contains("/METADATA 8 "));
        let packed = |wheel: &Wheel| wheel.members().iter().map(|member| member.compressed).sum::<u64>();
        assert!(packed(&before).abs_diff(packed(&edited)) < 20_000, "{}", path.display());
        let back = Wheel::open(&run(&there, VersionEdit::NoLocal, folders[1].path())).expect("open");
        assert_eq!(back.metadata().expect("METADATA"), before.metadata().expect("METADATA"));
        assert_eq!(back.wheel().expect("WHEEL"), before.wheel().expect("WHEEL"));
        let own = ["METADATA", "RECORD"].map(|file| format!("{}/{file}", before.info()));
        for member in
            before.members().iter().filter(|member| member.kind == MemberKind::File && !own.contains(&member.name))
        {
            let name = &member.name;
            assert!(before.is_copy(name, &back, name).expect("both can be read"), "{}: {name}", path.display());
        }
        let again = run(back.path(), local(), folders[2].path());
        assert!(fs_err::read(&again).expect("read") == fs_err::read(&there).expect("read"), "{}", path.display());
    }
}

#[test]
fn large_members_are_read_at_random() {
    let name = "jax_plugins/xla_rocm7/xla_rocm_plugin.so";
    let path = real_wheels().into_iter().find(|path| path.to_string_lossy().contains("jax_rocm7_pjrt")).expect("wheel");
    let wheel = Wheel::open(&path).expect("open");
    let scratch = tempfile::tempdir().expect("folder");
    let reader = wheel.reader(name, scratch.path()).expect("reader");
    let mut magic = [0; 4];
    reader.read_exact_at(0, &mut magic).expect("read");
    assert_eq!(&magic, b"\x7fELF");
    let size = wheel.member(name).expect("member").size;
    assert_eq!(size, 459_001_112);
    assert_eq!(reader.read_at(size - 1, &mut magic).expect("read"), 1);
    assert_eq!(fs_err::read_dir(scratch.path()).expect("list").count(), 0);
}
