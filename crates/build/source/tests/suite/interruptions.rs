//! A run that is stopped at any point, and the run after it.

use std::process::Command;

use rocwheel_fixtures::{Impatient, Warnings};
use rocwheel_progress::Exit;
use rocwheel_source::{Request, UPSTREAM};

use crate::world::{World, commit, git, write};

#[test]
fn a_run_that_was_stopped_anywhere_is_completed_by_the_next() {
    let world = World::new();
    let request = world.at("torch", "release/2.9");
    let count = Impatient::asked(u64::MAX);
    let whole = world.run_with(&request, &count).unwrap().remove(0);
    let tree = world.path("pytorch");
    fs_err::remove_dir_all(&tree).unwrap();
    // Commands ask once each and then every 50 ms, so some points are hit more often than others.
    let places = count.questions();
    assert!(places > 30, "{places}");
    for at in (0..places).step_by((places / 6) as usize) {
        match world.run_with(&request, &Impatient::asked(at)) {
            Ok(_) => {}
            Err(error) if error.exit() == Exit::Interrupted => {}
            Err(error) => panic!("stopped at {at}: {error}"),
        }
        let outcome = world.run(&request).unwrap_or_else(|error| panic!("after a stop at {at}: {error:?}")).remove(0);
        assert_eq!((&outcome.head, outcome.submodules), (&whole.head, whole.submodules), "after a stop at {at}");
        assert_eq!(git(&tree, &["status", "--porcelain"]), "", "after a stop at {at}");
        assert_eq!(git(&tree, &["rev-parse", UPSTREAM]), whole.commit);
        fs_err::remove_dir_all(&tree).unwrap();
    }
}

#[test]
fn what_a_killed_run_left_is_kept_before_it_is_taken_back() {
    let world = World::new();
    let request = world.at("torch", "nightly");
    world.run(&request).unwrap();
    let tree = world.path("pytorch");
    // A run was killed in the middle: the state records it, and the checkout is incomplete and has
    // a lock file of git.
    let state = tree.join(".git/rocwheel/state.json");
    let text = fs_err::read_to_string(&state).unwrap();
    fs_err::write(&state, text.replace("\"phase\": \"done\"", "\"phase\": \"moving\"")).unwrap();
    write(&tree.join("torch/csrc/m.cpp"), "half");
    write(&tree.join("precious.txt"), "somebody's");
    let warnings = Warnings::default();
    let outcome = world.run_with(&request, &warnings).unwrap().remove(0);
    let [(repository, name)] = &outcome.kept[..] else { panic!("{:?}", outcome.kept) };
    assert_eq!(repository, "");
    assert_eq!(git(&tree, &["show", &format!("{name}:precious.txt")]), "somebody's");
    assert_eq!(git(&tree, &["show", &format!("{name}:torch/csrc/m.cpp")]), "half");
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    assert!(!tree.join("precious.txt").exists());
    // The warning names a command, which is run exactly as printed.
    let said = warnings.all().join("\n");
    let command = said.split('`').rev().nth(1).unwrap();
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    assert_eq!(git(&tree, &["status", "--porcelain"]), "A  precious.txt\nM  torch/csrc/m.cpp");
    assert_eq!(fs_err::read_to_string(tree.join("precious.txt")).unwrap(), "somebody's");
}

/// The commands are those of docs/source.md.
#[test]
fn work_after_a_killed_run_and_one_that_failed_early_is_kept_too() {
    let world = World::new();
    let mut request = world.at("torch", "nightly");
    world.run(&request).unwrap();
    let tree = world.path("pytorch");
    let state = tree.join(".git/rocwheel/state.json");
    let text = fs_err::read_to_string(&state).unwrap();
    fs_err::write(&state, text.replace("\"phase\": \"done\"", "\"phase\": \"moving\"")).unwrap();
    request.projects[0].reference = Some("release/2.90".into());
    let error = world.run(&request).unwrap_err();
    assert!(error.to_string().contains("has no branch, tag or commit"), "{error}");
    write(&tree.join("later.txt"), "mine");
    request.projects[0].reference = Some("nightly".into());
    world.run(&request).unwrap();
    assert!(!tree.join("later.txt").exists());
    let kept = git(&tree, &["for-each-ref", "--format=%(refname)", "refs/rocwheel/interrupted"]);
    git(&tree, &["checkout", &kept, "--", "later.txt"]);
    assert_eq!(fs_err::read_to_string(tree.join("later.txt")).unwrap(), "mine");
}

#[test]
fn commits_after_a_killed_run_come_back_with_the_files() {
    let world = World::new();
    let mut request = world.at("torch", "nightly");
    world.run(&request).unwrap();
    let tree = world.path("pytorch");
    let state = tree.join(".git/rocwheel/state.json");
    let text = fs_err::read_to_string(&state).unwrap();
    fs_err::write(&state, text.replace("\"phase\": \"done\"", "\"phase\": \"moving\"")).unwrap();
    write(&tree.join("first.txt"), "mine");
    commit(&tree, "mine");
    write(&tree.join("second.txt"), "mine");
    request.projects[0].reference = Some("release/2.9".into());
    let warnings = Warnings::default();
    world.run_with(&request, &warnings).unwrap();
    assert!(!tree.join("first.txt").exists());
    let said = warnings.all().join("\n");
    let command = said.split('`').rev().nth(1).unwrap();
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    assert!(tree.join("first.txt").exists() && tree.join("second.txt").exists());
}

/// A submodule that cannot be fetched makes the checkout fail after the project itself has arrived.
fn failed() -> (World, Request) {
    let world = World::own();
    fs_err::rename(world.origin("nested"), world.origin("gone")).unwrap();
    let request = world.at("torch", "nightly");
    let error = world.run(&request).unwrap_err();
    assert!(error.to_string().contains("could not check out the submodules"), "{error}");
    (world, request)
}

#[test]
fn work_after_a_run_that_failed_is_the_users_and_stays() {
    let (world, mut request) = failed();
    let tree = world.path("pytorch");
    write(&tree.join("torch/csrc/m.cpp"), "mine\n");
    write(&tree.join("notes.txt"), "mine\n");
    for reference in ["nightly", "release/2.9"] {
        request.projects[0].reference = Some(reference.into());
        let error = world.run(&request).unwrap_err();
        assert_eq!(error.rows(), [" M torch/csrc/m.cpp", "?? notes.txt"], "{reference}: {error}");
    }
    assert_eq!(fs_err::read_to_string(tree.join("notes.txt")).unwrap(), "mine\n");
    assert_eq!(git(&tree, &["for-each-ref", "refs/rocwheel"]), "");
}

#[test]
fn a_run_that_failed_is_completed_by_the_next() {
    let (world, request) = failed();
    // It fails again, which does not change what it has left.
    assert!(world.run(&request).is_err());
    fs_err::rename(world.origin("gone"), world.origin("nested")).unwrap();
    let outcome = world.run(&request).unwrap().remove(0);
    assert_eq!((outcome.submodules, outcome.kept.len()), (2, 0));
    assert_eq!(git(&world.path("pytorch"), &["status", "--porcelain"]), "");
}
