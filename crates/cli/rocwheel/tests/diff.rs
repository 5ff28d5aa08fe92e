//! `rocwheel diff`: words, JSON, exit codes. The crate `diff` tests the changes that are found.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::os::unix::fs::PermissionsExt as _;

use rocwheel_fixtures::TestContext;

/// Two folders: a changed text, a new file, and a document with the same content in another order.
fn context() -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    context.write("old/lib/text.txt", "one\ntwo\n");
    context.write("new/lib/text.txt", "one\nthree\n");
    context.write("new/lib/added.bin", [0, 1, 2]);
    context.write("old/data.json", "{\"a\": 1, \"b\": 2}");
    context.write("new/data.json", "{\"b\": 2, \"a\": 1}");
    context.write("old/same", "same");
    context.write("new/same", "same");
    context
}

#[test]
fn changes_are_shown_and_are_no_failure_by_themselves() {
    let context = context();
    let ran = context.types("diff old new");
    let expected = "old → new\n  28 B → 33 B (+17.8 %)\n  files: 1 the same, 1 the same in meaning, 1 different, 1 new\n\
        Change    File           What\ncontent   lib/text.txt   +1 −1 lines\nnew-file  lib/added.bin  3 B\n\n2 changes\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), expected), "{ran:?}");
    context
        .types("diff old new --all")
        .prints("(same meaning)  data.json      the same JSON, written in another way\n");
    let same = context.types("diff old old");
    assert!(same.stdout.ends_with("\nthe same bytes\n"), "{same:?}");
}

#[test]
fn the_same_change_of_many_files_is_one_row() {
    let context = context();
    for name in ["a", "b", "c", "d"] {
        context.write(format!("old/many/{name}"), "one\n");
        let program = context.write(format!("new/many/{name}"), "one\n");
        fs_err::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    context.types("diff old new").prints("mode      many/a and 3 more  not executable → executable\n");
    let all = context.types("diff old new --all");
    assert!(all.stdout.contains("many/d") && !all.stdout.contains("more"), "{all:?}");
}

#[test]
fn machines_get_the_same() {
    let context = context();
    let document = context.types("diff old new --json --fail-on new-file").exits(1).json();
    assert_eq!((&document["schema"], &document["failures"]), (&1.into(), &1.into()));
    let files: Vec<(&str, &str)> = document["packages"][0]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["path"].as_str().unwrap(), file["kept"].as_str().unwrap()))
        .collect();
    assert_eq!(files, [("data.json", "meaning"), ("lib/added.bin", "nothing"), ("lib/text.txt", "some")]);
    let kinds = context.types("diff --explain --json").json();
    assert!(kinds["changes"].as_array().unwrap().iter().any(|kind| kind["change"] == "lost-needed"));
}

#[test]
fn accepted_changes_are_no_failures() {
    let context = context();
    context.types("diff old new --fail-on any").ends(1, "2 changes that may not be");
    assert_eq!(context.types("diff old new --fail-on mode,growth=50%").code, Some(0));
    assert_eq!(context.types("diff old new --fail-on growth=5%").code, Some(1));

    context.types("diff old new --write-deviations accept.toml").exits(0);
    context.types("diff old new --accept accept.toml").ends(2, "deviation 1 in `accept.toml` has no reason");
    context.types("diff old new --write-deviations accept.toml").ends(2, "may hold reasons");
    let text = fs_err::read_to_string(context.path("accept.toml")).unwrap();
    context.write("accept.toml", text.replace("reason = \"\"", "reason = \"a newer text\""));
    let accepted = context.types("diff old new --accept accept.toml").exits(0);
    assert!(accepted.stdout.ends_with("2 changes, 2 of them accepted\n"), "{accepted:?}");
    context.write("new/lib/text.txt", "one\ntwo\n");
    context.types("diff old new --accept accept.toml").ends(0, "remove the deviation");
    context.write("new/other", "other");
    assert_eq!(context.types("diff old new --accept accept.toml").code, Some(1));
}

#[test]
fn what_is_wrong_is_said() {
    let context = context();
    let cases: [(&[&str], i32, &str); 6] = [
        (&["diff", "old"], 2, "<NEW>"),
        (&["diff", "old", "gone"], 1, "gone"),
        (&["diff", "old", "new", "--fail-on", "new-neded"], 2, "did you mean `new-needed`?"),
        (&["diff", "old", "new", "--fail-on", "growth=much"], 2, "it looks like `5%`"),
        (&["diff", "old", "new", "--accept", "old/data.json"], 2, "could not understand the deviations"),
        (&["diff", "old", "new", "--accept", "gone.toml"], 1, "gone.toml"),
    ];
    for (arguments, code, text) in cases {
        let ran = context.run(arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(text), "{arguments:?}: {ran:?}");
    }
}
