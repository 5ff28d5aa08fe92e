//! Tests that kill a conversion (SIGKILL) before every change of the file system, one after the
//! other. The test program starts itself as the process that is killed.
#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use rocwheel_fixtures::Impatient;
use rocwheel_progress::{Exit, Failure, Silent};
use rocwheel_system::FileMetadata as _;

use rocwheel_output::Destination;

use super::interruption_point::LEFT;
use super::{Recovered, Request, plan, recover};
use crate::{Setting, Tables};

/// Here a key is part of its own value, so converting twice differs from converting once.
const TABLES: &str = "M = collections.OrderedDict([('driver.h', ('hip/driver.h', CONV_INCLUDE, API_RUNTIME)), \
                      ('cudaX', ('hipX', CONV_TYPE, API_RUNTIME))])\nCUDA_TO_HIP_MAPPINGS = [M]\n";

fn tables() -> Tables {
    Tables::parse(TABLES, Some("1.0.0".to_owned()), "t").unwrap()
}

fn request(tree: &Path) -> Request {
    Request { setting: Setting::Pytorch, ..Request::extension(tree) }
}

/// Creates files that are converted in place, some with special modes, files with results in new
/// folders, and an outdated result.
fn make(tree: &Path) {
    for (path, text, mode) in [
        ("torch/csrc/a.h", " cudaX driver.h \r\n", 0o750),
        ("torch/csrc/b.cpp", " cudaX ", 0o444),
        ("torch/csrc/untouched.cpp", "int x;", 0o644),
        ("aten/src/ATen/native/cuda/k.cu", " cudaX\n k<<<1, 2>>>(x);", 0o644),
        ("aten/src/ATen/native/cuda/l.cuh", " driver.h ", 0o644),
        ("c10/cuda/deep/c.h", " cudaX ", 0o644),
        ("c10/hip/deep/c.h", "out of date", 0o600),
        ("README", "read me", 0o644),
    ] {
        let path = tree.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs_err::remove_file(&path);
        fs_err::write(&path, text).unwrap();
        rocwheel_system::set_mode(path, mode).unwrap();
    }
}

/// Mode and bytes of every file and folder.
fn contents(tree: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in walkdir::WalkDir::new(tree) {
        let entry = entry.unwrap();
        let bytes = if entry.file_type().is_dir() { Vec::new() } else { fs_err::read(entry.path()).unwrap() };
        let path = entry.path().strip_prefix(tree).unwrap().display().to_string();
        found.insert(path, (entry.metadata().unwrap().mode(entry.path()), bytes));
    }
    found
}

fn convert(tree: &Path) -> Result<(), Failure> {
    plan(&request(tree), &tables(), &Silent)?.execute(&Destination::InPlace, &Silent).map(drop)
}

/// Starts this test program as a process that converts or recovers a tree and is killed before the
/// given change. `false` if it ended by itself.
fn killed(what: &str, tree: &Path, at: u32) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--include-ignored",
        "--exact",
        "tree::killed_runs::after_every_kill_the_next_run_gives_what_an_undisturbed_one_does",
    ]);
    command.env("HIPIFY_TEST_TREE", tree).env("HIPIFY_TEST_DO", what).env("HIPIFY_TEST_KILL", at.to_string());
    let output = command.output().unwrap();
    let status = output.status;
    // Windows knows no signals; a process that is ended has the code 1, and a test that fails 101.
    let is_killed = rocwheel_system::ending_signal(status) == Some(9) || cfg!(windows) && status.code() == Some(1);
    assert!(status.success() || is_killed, "{output:?}");
    !output.status.success()
}

/// Runs in the process that is killed.
fn be_killed() -> bool {
    let Ok(tree) = std::env::var("HIPIFY_TEST_TREE") else { return false };
    let [what, at] = ["HIPIFY_TEST_DO", "HIPIFY_TEST_KILL"].map(|name| std::env::var(name).unwrap());
    LEFT.store(at.parse().unwrap(), Ordering::SeqCst);
    match what.as_str() {
        "convert" => convert(Path::new(&tree)).unwrap(),
        _ => drop(recover(Path::new(&tree)).unwrap()),
    }
    true
}

#[cfg_attr(windows, ignore = "what is taken back is no longer read-only there: docs/windows.md")]
#[test]
fn after_every_kill_the_next_run_gives_what_an_undisturbed_one_does() {
    if be_killed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let fresh = folder.path().join("fresh");
    make(&fresh);
    let before = contents(&fresh);
    convert(&fresh).unwrap();
    let after = contents(&fresh);
    assert_eq!(after.len(), before.len() + 3, "a new folder with two files: {after:?}");
    let (mut taken_back, mut completed, mut at) = (0, 0, 1);
    loop {
        let tree = folder.path().join(format!("{at}"));
        make(&tree);
        if !killed("convert", &tree, at) {
            break;
        }
        // Files that a killed run has left must not be treated as sources. A run that undoes them
        // may be killed as well.
        let is_left = tree.join(".rocwheel-hipify").exists();
        assert!(
            !is_left || convert(&tree).unwrap_err().to_string().contains("was killed before"),
            "killed before change {at}"
        );
        let mut again = 1;
        while at % 4 == 0 && killed("recover", &tree, again) {
            again += 1;
        }
        match recover(&tree).unwrap() {
            Recovered::Completed => completed += 1,
            Recovered::Nothing if at % 4 == 0 && contents(&tree) == after => completed += 1,
            recovered => {
                assert!(recovered == Recovered::TakenBack || at % 4 == 0 || !is_left, "killed before change {at}");
                assert_eq!(contents(&tree), before, "killed before change {at}");
                taken_back += 1;
                convert(&tree).unwrap();
            }
        }
        assert_eq!(contents(&tree), after, "killed before change {at}");
        assert_eq!(recover(&tree).unwrap(), Recovered::Nothing);
        at += 1;
    }
    assert!(taken_back > 15 && completed >= 4, "{taken_back} were taken back, {completed} had written everything");
}

#[test]
fn a_run_that_is_stopped_or_fails_leaves_the_tree_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    let before = contents(folder.path());
    let plan = plan(&request(folder.path()), &tables(), &Silent).unwrap();
    for asked in 0..8 {
        match plan.execute(&Destination::InPlace, &Impatient::asked(asked)) {
            Err(error) if error.exit() == Exit::Interrupted => assert_eq!(contents(folder.path()), before, "{asked}"),
            result => assert!(result.is_ok() && asked > 5, "{result:?}"),
        }
        if asked > 5 {
            break;
        }
    }
    // A folder exists at the path of a result, so the renames before it are undone.
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    let plan = super::plan(&request(folder.path()), &tables(), &Silent).unwrap();
    fs_err::remove_file(folder.path().join("torch/csrc/b.cpp")).unwrap();
    fs_err::create_dir(folder.path().join("torch/csrc/b.cpp")).unwrap();
    let before = contents(folder.path());
    assert!(plan.execute(&Destination::InPlace, &Silent).unwrap_err().find::<io::Error>().is_some());
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn what_somebody_changed_since_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    let before = contents(folder.path());
    // The third line of the journal says that everything is done. Without it the run was killed
    // after its last rename.
    let mut at = 1;
    loop {
        make(folder.path());
        assert!(killed("convert", folder.path(), at));
        let journal = fs_err::read_to_string(folder.path().join(".rocwheel-hipify")).unwrap_or_default();
        if journal.lines().count() == 2 && folder.path().join("c10/hip/deep/c.h").metadata().unwrap().len() != 11 {
            break;
        }
        recover(folder.path()).unwrap();
        at += 1;
    }
    let mine = folder.path().join("c10/hip/deep/c.h");
    fs_err::write(&mine, "mine").unwrap();
    let half = contents(folder.path());
    let error = recover(folder.path()).unwrap_err().to_string().replace('\\', "/");
    assert!(error.contains("`c10/hip/deep/c.h` changed since"), "{error}");
    assert_eq!(contents(folder.path()), half);
    // Do what the hint recommends.
    fs_err::remove_file(mine).unwrap();
    assert_eq!(recover(folder.path()).unwrap(), Recovered::TakenBack);
    assert_eq!(contents(folder.path()), before);
    for journal in [
        "nonsense\n",
        "{\"begun\":{\"schema\":9,\"folders\":[],\"entries\":[]}}\n",
        "{\"begun\":{\"schema\":1,\"folders\":[],\"entries\":[{\"path\":\"../x\",\"replaced\":false}]}}\n",
    ] {
        fs_err::write(folder.path().join(".rocwheel-hipify"), journal).unwrap();
        let error = recover(folder.path()).unwrap_err().to_string();
        assert!(error.contains("which a conversion that was killed left: "), "{journal}: {error}");
    }
    // Nothing was done before the first line was written.
    fs_err::write(folder.path().join(".rocwheel-hipify"), "{\"begun\":").unwrap();
    assert_eq!(recover(folder.path()).unwrap(), Recovered::TakenBack);
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn two_runs_do_not_write_into_one_tree() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    let plan = plan(&request(folder.path()), &tables(), &Silent).unwrap();
    let other = fs_err::File::create(folder.path().join(".rocwheel-hipify")).unwrap();
    other.file().lock().unwrap();
    assert_eq!(plan.execute(&Destination::InPlace, &Silent).unwrap_err().exit(), Exit::TryAgain);
    assert_eq!(convert(folder.path()).unwrap_err().exit(), Exit::TryAgain);
    assert_eq!(recover(folder.path()).unwrap_err().exit(), Exit::TryAgain);
}

#[test]
fn what_a_killed_copy_left_goes_with_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, output) = (folder.path().join("tree"), folder.path().join("out"));
    make(&tree);
    let plan = plan(&request(&tree), &tables(), &Silent).unwrap();
    let left = folder.path().join(".out.rocwheel-hipify/tree");
    fs_err::create_dir_all(&left).unwrap();
    fs_err::write(left.join("half"), "").unwrap();
    let lock = fs_err::File::create(folder.path().join(".out.rocwheel-hipify/lock")).unwrap();
    lock.file().lock().unwrap();
    let error = plan.execute(&Destination::Folder(output.clone()), &Silent).unwrap_err();
    assert_eq!(error.exit(), Exit::TryAgain);
    drop(lock);
    plan.execute(&Destination::Folder(output.clone()), &Silent).unwrap();
    let names: Vec<String> = fs_err::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    convert(&tree).unwrap();
    assert_eq!(contents(&output), contents(&tree));
}
