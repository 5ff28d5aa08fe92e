//! A run that is stopped anywhere, and the one after it.

use source::{Error, UPSTREAM};

use crate::world::{Stop, World, git, write};

#[test]
fn a_run_that_was_stopped_anywhere_is_completed_by_the_next() {
    let world = World::new();
    let request = world.at("torch", "release/2.9");
    let count = Stop::new(u64::MAX);
    let whole = world.run_with(&request, &count).unwrap().remove(0);
    let tree = world.path("pytorch");
    fs_err::remove_dir_all(&tree).unwrap();
    // Commands ask once each and then every 50 ms, so some places are hit more often than others.
    let places = count.asked();
    assert!(places > 30, "{places}");
    for at in (0..places).step_by((places / 6) as usize) {
        match world.run_with(&request, &Stop::new(at)) {
            Err(Error::Interrupted) | Ok(_) => {}
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
    // A run was killed in the middle: its journal says so, and half of a checkout is there, with a lock file of git.
    let state = tree.join(".git/rocwheel/state.json");
    let text = fs_err::read_to_string(&state).unwrap();
    fs_err::write(&state, text.replace("\"phase\": \"done\"", "\"phase\": \"moving\"")).unwrap();
    write(&tree.join("torch/csrc/m.cpp"), "half");
    write(&tree.join("precious.txt"), "somebody's");
    let outcome = world.run(&request).unwrap().remove(0);
    let [(repository, name)] = &outcome.kept[..] else { panic!("{:?}", outcome.kept) };
    assert_eq!(repository, "");
    assert_eq!(git(&tree, &["show", &format!("{name}:precious.txt")]), "somebody's");
    assert_eq!(git(&tree, &["show", &format!("{name}:torch/csrc/m.cpp")]), "half");
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    assert!(!tree.join("precious.txt").exists());
}
