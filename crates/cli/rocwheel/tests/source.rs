//! `rocwheel source`: output, exit codes, and the end of git when the program is stopped.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rocwheel_fixtures::{Ran, TestContext, git};
use serde_json::Value;

/// A context with the origins `vision` and `audio`, which have branches `nightly` and
/// `release/0.24`.
fn context() -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    for name in ["vision", "audio"] {
        context.write(format!("{name}/version.txt"), "0.24.0a0\n");
        let origin = context.path(name);
        git(&origin, &["init", "--quiet", "--initial-branch=main"]);
        git(&origin, &["add", "--all"]);
        git(&origin, &["commit", "--quiet", "--message", "first"]);
        git(&origin, &["branch", "nightly"]);
        git(&origin, &["branch", "release/0.24"]);
    }
    context
}

fn checkout(context: &TestContext, more: &[&str]) -> Ran {
    context.run(["source", "checkout", "torchvision", "--origin", "vision", "--root", "trees"].iter().chain(more))
}

#[test]
fn help_and_steps_are_as_documented() {
    let context = context();
    assert_snapshot!("source_checkout_help", context.types("source checkout -h").snapshot());
    assert_snapshot!("source_patches_save_help", context.types("source patches save -h").snapshot());
    assert_snapshot!("source_manifest_help", context.types("source manifest -h").snapshot());
    let arguments = ["torch", "torchvision", "triton", "--line", "2.9", "--depth", "1", "--root", "trees", "--dry-run"];
    let ran = context.run(["source", "checkout"].iter().chain(&arguments));
    assert_snapshot!("source_checkout_steps", ran.snapshot());
    assert!(!context.path("trees").exists());
}

#[test]
fn a_checkout_a_manifest_and_a_checkout_of_it() {
    let context = context();
    let ran = checkout(&context, &[]);
    assert_snapshot!("source_checkout", ran.snapshot());
    let commit = git(&context.path("vision"), &["rev-parse", "nightly"]);
    let ran = context.types("source manifest --root trees --rocm-version 7.14.0 --output m.json");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    let manifest: Value = serde_json::from_slice(&fs_err::read(context.path("m.json")).unwrap()).unwrap();
    let entry = &manifest["pytorch_vision"];
    assert_eq!((&entry["commit"], &entry["version"]), (&commit.clone().into(), &"0.24.0a0+rocm7.14.0".into()));
    let ran = context.types("source checkout --manifest m.json --root again --locked --json").exits(0);
    let document = ran.json();
    let outcome = &document["checkouts"][0];
    assert_eq!((&outcome["commit"], &outcome["status"]), (&commit.into(), &"new".into()));
    // The branch gets a new commit, the manifest does not change.
    git(&context.path("vision"), &["switch", "--quiet", "nightly"]);
    git(&context.path("vision"), &["commit", "--quiet", "--allow-empty", "--message", "more"]);
    let moved = git(&context.path("vision"), &["rev-parse", "nightly"]);
    let arguments =
        ["source", "checkout", "torchvision", "--origin", "vision", "--root", "again", "--locked", "--ref", &moved];
    context.run(arguments).ends(1, "hint: remove `--locked` to move it");
    let ran = context.types("source checkout --manifest m.json --root again --expected-ref nightly");
    assert!(ran.stderr.contains("names no branch for torch, not `nightly`"), "{ran:?}");
}

#[test]
fn wrong_usage_and_wrong_input_are_told_apart() {
    let context = context();
    context.write("m.json", r#"{"schema_version": 2}"#);
    context.write("text.tar.gz", "no archive");
    context.write("trees/pytorch_vision/mine.txt", "mine");
    for (arguments, code, words) in [
        (&["checkout"][..], 2, "<PROJECT>"),
        (&["checkout", "tensorflow"], 2, "hint: the projects are torch, torchaudio"),
        (&["checkout", "torch", "--line", "3.x"], 2, "hint: the lines are nightly, 2.15"),
        (&["checkout", "torch", "torchaudio", "--ref", "main"], 2, "write `--ref PROJECT=main`"),
        (&["checkout", "torch", "--ref", "torchaudio=main"], 2, "torchaudio is not checked out"),
        (&["checkout", "torch", "--ref=--upload-pack=x"], 2, "cannot be the ref of torch"),
        (&["checkout", "torch", "--locked"], 2, "`nightly` of torch may move"),
        (&["checkout", "torch", "--no-hipify", "--no-commit-hipify"], 2, "--no-commit-hipify"),
        (&["checkout", "torch", "--archive", "https://host/x.tar.gz"], 2, "its SHA-256 is not given"),
        (&["checkout", "torch", "--archive", "text.tar.gz", "--sha256", "12"], 2, "`12` is not a SHA-256"),
        (&["checkout", "torch", "--archive", "missing.tar.gz"], 2, "there is no archive `missing.tar.gz`"),
        (&["checkout", "flash-attention", "--archive", "1.0"], 2, "these releases are known: 2.6.3, "),
        (&["checkout", "torch", "--archive", "text.tar.gz"], 1, "could not take the source archive"),
        (&["checkout", "--manifest", "m.json"], 1, "its schema_version is 2, and this program knows 1"),
        (&["checkout", "--manifest", "gone.json"], 1, "gone.json"),
        (
            &["checkout", "torchvision", "--root", "trees", "--origin", "vision"],
            1,
            "exists and is not a git repository",
        ),
        (
            &["checkout", "torchaudio", "--root", "x", "--origin", "audio", "--ref", "nigthly"],
            1,
            "did you mean `nightly`?",
        ),
        (&["checkout", "torchaudio", "--root", "x", "--origin", "nowhere"], 1, "hint: the origin is gone"),
        (&["checkout", "triton", "--root", "x"], 1, "hint: check torch out first"),
        (&["checkout", "torch", "--table", "m.json"], 1, "could not understand the table of sources"),
        (&["checkout", "torch", "--patches", "none"], 2, "there is no folder `none` with patches"),
        (&["manifest", "--root", "x"], 2, "nothing is checked out"),
        (&["patches", "save", "vision"], 2, "does not say which patch set is its"),
        (&["patches", "save", "vision", "--set", "x"], 1, "has no tag `THEROCK_UPSTREAM_DIFFBASE`"),
        (&["patches", "apply", "trees", "--set", "x"], 1, "is not a git repository"),
        (&["patches", "list"], 1, "patches"),
    ] {
        let ran = context.run(["source"].iter().chain(arguments));
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
    }
    assert!(fs_err::read_dir(context.path("x")).unwrap().next().is_none(), "nothing is left behind");
    assert!(!context.path("pytorch").exists(), "nothing is left behind");
}

#[test]
fn work_is_listed_with_the_way_out_and_goes_into_patches() {
    let context = context();
    assert_eq!(checkout(&context, &["--ref", "main"]).code, Some(0));
    context.write("trees/pytorch_vision/mine.txt", "mine");
    let ran = checkout(&context, &["--ref", "nightly"]);
    assert_snapshot!("source_checkout_dirty", ran.snapshot());
    let tree = context.path("trees/pytorch_vision");
    git(&tree, &["add", "--all"]);
    git(&tree, &["commit", "--quiet", "--message", "Mine"]);
    let ran = context.types("source patches save trees/pytorch_vision");
    assert_snapshot!("source_patches_save", ran.snapshot());
    context.types("source patches list").prints("pytorch_vision  main  .           base/0001-Mine.patch");
    assert_eq!(checkout(&context, &["--ref", "main"]).code, Some(0));
    assert!(!tree.join("mine.txt").exists());
    let document = context.types("source patches apply trees/pytorch_vision --json").json();
    assert_eq!(document["groups"][0]["patches"], serde_json::json!(["0001-Mine.patch"]));
    assert_eq!(fs_err::read_to_string(tree.join("mine.txt")).unwrap(), "mine");
}

#[test]
fn a_signal_ends_git_too_and_the_next_run_goes_on() {
    let context = context();
    let real = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' fetch '*) echo $$ > '{0}/fetching.part'; mv '{0}/fetching.part' '{0}/fetching'; sleep 300 ;; esac\nexec {1} \"$@\"\n",
        context.directory().display(),
        real.trim()
    );
    let slow = context.write("slow/git", script);
    rocwheel_fixtures::make_program(&slow);
    let path = format!("{}:{}", slow.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = context.command();
    command.env("PATH", path).args(["source", "checkout", "torchvision", "--origin", "vision", "--root", "trees"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (begun, marker) = (Instant::now(), context.path("fetching"));
    while !marker.exists() {
        assert!(begun.elapsed() < Duration::from_mins(1), "git was never started");
        std::thread::sleep(Duration::from_millis(20));
    }
    let fetching = fs_err::read_to_string(&marker).unwrap().trim().to_owned();
    // Another run is refused and reports the reason.
    let second = checkout(&context, &[]);
    assert_eq!(second.code, Some(4), "{second:?}");
    assert!(second.stderr.contains("another run works in `[TEMP]/trees/pytorch_vision`"), "{second:?}");
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    context.ran(&child.wait_with_output().unwrap()).exits(130);
    assert!(!Path::new("/proc").join(fetching).exists(), "git was left running");
    assert!(!context.path("trees/pytorch_vision").exists(), "an empty repository is of no use");
    assert_eq!(checkout(&context, &[]).code, Some(0));
}
