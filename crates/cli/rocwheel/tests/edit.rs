//! `rocwheel edit`: words, JSON, exit codes. The crate `wheel` tests the edited files.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use rocwheel_fixtures::{TestContext, TestWheel, library};
use serde_json::{Value, json};

const NAME: &str = "pkg-1.0-py3-none-any.whl";

/// A wheel with this name, whose version is in a module as well.
fn wheel(name: &str) -> TestWheel {
    TestWheel::new(name).file("pkg/__init__.py", "").file("pkg/version.py", "version = \"1.0\"\n")
}

fn context() -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    wheel(NAME).write(context.directory());
    context
}

#[test]
fn changes_are_said_and_made() {
    let context = context();
    let words = ["edit", NAME, "--version", "2.0", "--requires", "rocm>=7"];
    let dry = context.run(words.iter().chain(&["--dry-run"]));
    let expected = "pkg-1.0-py3-none-any.whl -> pkg-2.0-py3-none-any.whl (not written)\n  \
        file name: pkg-1.0-py3-none-any.whl -> pkg-2.0-py3-none-any.whl\n  \
        folder: pkg-1.0.dist-info -> pkg-2.0.dist-info\n  METADATA Version: 1.0 -> 2.0\n  \
        METADATA Requires-Dist: rocm>=7\n";
    assert_eq!((dry.code, dry.stdout.as_str()), (Some(0), expected), "{dry:?}");
    assert!(dry.stderr.contains("1 line still with `1.0`; `--also-in GLOB`"), "{dry:?}");
    assert!(
        dry.stderr.contains("  pkg/version.py:1: version = \"1.0\"\n") && dry.stderr.contains("would write 1 file")
    );
    assert!(!context.path("out").exists());
    let ran = context.run(words.iter().chain(&["--output", "out"])).exits(0);
    assert!(ran.stdout.starts_with("pkg-1.0-py3-none-any.whl -> out/pkg-2.0-py3-none-any.whl, "), "{ran:?}");
    assert!(context.path("out/pkg-2.0-py3-none-any.whl").is_file() && context.path(NAME).is_file());
    context
        .run(words.iter().chain(&["--output", "out"]))
        .exits(0)
        .prints("out/pkg-2.0-py3-none-any.whl: unchanged, it exists already\n");
    let other = context.run(words.iter().chain(&["--requires", "numpy", "--output", "out"])).exits(1);
    let refused = "error: the output `out/pkg-2.0-py3-none-any.whl` exists\nhint: replace it with `--force`";
    assert!(other.stderr.contains(refused), "{other:?}");
    context.run(words.iter().chain(&["--output", "out", "--force"])).exits(0);
    let same = context.types("edit out/pkg-2.0-py3-none-any.whl --version 2.0 --in-place");
    assert_eq!((same.code, same.stdout.as_str()), (Some(0), "out/pkg-2.0-py3-none-any.whl: nothing to change\n"));
}

#[test]
fn machines_get_the_same() {
    let context = context();
    let document = context.run(["edit", NAME, "--local-version", "rocm7", "--in-place", "--json"]).exits(0).json();
    let file = &document["files"][0];
    assert_eq!(file["output"], "pkg-1.0+rocm7-py3-none-any.whl");
    assert_eq!(file["form"], "wheel");
    assert_eq!(file["leftovers"][0]["member"], "pkg/version.py");
    assert_eq!(file["changes"][0]["subject"], "file name");
    let size = fs_err::metadata(context.path("pkg-1.0+rocm7-py3-none-any.whl")).unwrap().len();
    assert_eq!(file["written_size"], size);
    assert!(!context.path(NAME).exists(), "the new one took its place");
    let document = context.types("edit nothing-1.0-py3-none-any.whl --no-local --dry-run --json").exits(1).json();
    assert_eq!(document["error"]["message"], "there is no `nothing-1.0-py3-none-any.whl`");
}

#[test]
fn an_edit_that_breaks_a_wheel_is_refused() {
    let context = context();
    let linux = "pkg-1.0-py3-none-linux_x86_64.whl";
    wheel(linux).program("pkg/program", fs_err::read("/bin/true").unwrap()).write(context.directory());
    let lie = ["edit", linux, "--platform-tag", "any", "--output", "out"];
    let ran = context.run(lie).exits(1);
    assert!(ran.stdout.starts_with("error RW009 tags: pkg/program\n"), "{ran:?}");
    assert!(ran.stderr.contains("error: nothing was written: the audit finds 1 error in `pkg-1.0-py3-none-any.whl`"));
    assert!(!context.path("out").exists(), "nothing is left");
    context.run(lie.iter().chain(&["--no-audit"])).exits(0);

    // Existing errors are no reason to refuse another change.
    let wrong = "out/pkg-1.0-py3-none-any.whl";
    let ran = context.run(["edit", wrong, "--requires", "rocm", "--in-place", "--json"]);
    let document = ran.json();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(document["files"][0]["audit"]["old_errors"][0]["code"], "RW009", "{ran:?}");
    context
        .run(["edit", wrong, "--requires", "numpy", "--in-place"])
        .says("warning: audited: 1 error that was there before (RW009)")
        .says("/out/pkg-1.0-py3-none-any.whl` shows ");
}

/// Lists that are shortened for people are complete for programs.
#[test]
fn machines_get_whole_lists() {
    let context = context();
    let functions = (0..5).map(|n| format!("int pool_{n}(void); int use_{n}(void) {{ return pool_{n}(); }}\n"));
    let source = functions.collect::<String>() + "int PyInit__m(void) { return 0; }\n";
    let module = library(context.directory(), "module.so", &source, &[]);
    let many = "pkg-1.0-cp312-cp312-linux_x86_64.whl";
    TestWheel::new(many)
        .file("pkg/version.py", format!("# 1.0 {}\n", "x".repeat(300)).repeat(40))
        .file("pkg/_m.cpython-312-x86_64-linux-gnu.so", module)
        .write(context.directory());
    let ran = context.run(["edit", many, "--version", "2.0", "--requires", "numpy", "--output", "out", "--json"]);
    let file = &serde_json::from_str::<Value>(&ran.stdout).unwrap()["files"][0];
    let leftovers = file["leftovers"].as_array().unwrap();
    assert_eq!(leftovers.len(), 40);
    assert!(leftovers.iter().all(|left| left["text"].as_str().unwrap().len() == 306), "{leftovers:?}");
    let undefined = &file["audit"]["old_errors"][0];
    assert!(undefined["message"].as_str().unwrap().contains("`pool_0`, `pool_1`, `pool_2` and 2 more"), "{undefined}");
    assert_eq!(undefined["names"], json!(["pool_0", "pool_1", "pool_2", "pool_3", "pool_4"]));
}

#[test]
fn absolute_entries_of_search_paths_go() {
    let context = context();
    let search_path = "-Wl,-rpath,/opt/rocm/lib:$ORIGIN/lib:/x";
    let library = library(context.directory(), "lib.so", "int f(void) { return 1; }", &[search_path]);
    wheel(NAME).file("pkg/lib.so", library).write(context.directory());
    let words = ["edit", NAME, "--drop-absolute-rpath", "--in-place", "--no-audit"];
    context.run(words).exits(0).prints("search path of `pkg/lib.so`: /opt/rocm/lib:$ORIGIN/lib:/x -> $ORIGIN/lib\n");
    assert!(context.run(words).stdout.ends_with("nothing to change\n"));
}

#[test]
fn wrong_usage_is_named() {
    let context = context();
    context.write("pkg-1.0.zip", b"");
    context.write("copy/pkg-1.0-py3-none-any.whl", fs_err::read(context.path(NAME)).unwrap());
    for (words, code, says) in [
        (&[NAME][..], 2, "hint: add `--output DIR` for edited copies, or `--in-place`"),
        (&[NAME, "-o", "o", "--in-place"], 2, "cannot be used with"),
        (&["pkg-1.0.zip", "-o", "o"], 2, "is neither a wheel nor a source distribution"),
        (&[NAME, "-o", "o", "--version", "1.0-1"], 2, "hint: write it as `1.0.post1`"),
        (&[NAME, "-o", "o", "--version", "2", "--no-local"], 2, "cannot be used with"),
        (&[NAME, "-o", "o", "--local-version", "a b"], 2, "`a b` is not a valid local version"),
        (&[NAME, "-o", "o", "--requires", "a >"], 2, "`a >` is not a valid requirement"),
        (&[NAME, "-o", "o", "--remove-requires", "a>1"], 2, "is not a valid distribution name"),
        (&[NAME, "-o", "o", "--metadata", "Version=2"], 2, "`--version` changes the version"),
        (&[NAME, "-o", "o", "--python-tag", "a-b"], 2, "is not a valid set of tags"),
        (&[NAME, "-o", "o", "--python-tag", "-py3"], 1, "no tag would be left"),
        (&[NAME, "-o", "o", "--platform-tag", "manylinux_2_28"], 2, "did you mean `manylinux_2_28_x86_64`?"),
        (&[NAME, "-o", "o", "--platform-tag", "+linux"], 2, "no installer knows the platform `linux`"),
        (&[NAME, "-o", "o", "--python-tag", "3.12"], 2, "did you mean `cp312`?"),
        (&[NAME, "-o", "o", "--abi-tag", "foo", "--dry-run"], 2, "no installer knows the ABI `foo`"),
        (&[NAME, "-o", "o", "--rpath", "*.so"], 2, "GLOB=PATHS is expected"),
        (&[NAME, "-o", "o", "--drop", "a["], 2, "is not a valid pattern"),
        (&[NAME, "-o", "o", "--also-in", "*.py"], 2, "does nothing without another version"),
        (&[NAME, "-o", ".", "--build", "1x"], 0, ""),
        (&[NAME, "-o", ".", "--requires", "a"], 1, "hint: choose another output folder"),
        (&[NAME, "copy/pkg-1.0-py3-none-any.whl", "-o", "o", "--build", "2"], 2, "would both become"),
    ] {
        let ran = context.run(["edit"].iter().chain(words));
        assert_eq!(ran.code, Some(code), "{words:?}: {ran:?}");
        assert!(ran.stderr.contains(says), "{says}: {}", ran.stderr);
        assert!(!context.path("o").exists(), "{words:?}");
    }
}

#[test]
fn a_record_without_hashes_gets_them() {
    let context = context();
    let whole = context.run(["edit", NAME, "--record", "--in-place"]);
    assert_eq!((whole.code, whole.stdout.as_str()), (Some(0), "pkg-1.0-py3-none-any.whl: nothing to change\n"));
    wheel(NAME).without_hashes().write(context.directory());
    context
        .run(["audit", NAME])
        .prints("RW017")
        .prints("\nTo fix 1 of 1:\n  rocwheel edit ")
        .prints(" --in-place --record\n");
    let ran = context.run(["edit", NAME, "--record", "--in-place"]);
    let change = "  RECORD: no usable hash for 4 of its files -> a row with a hash for each file\n";
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains(change), "{ran:?}");
    let cured = context.run(["audit", NAME]);
    assert!(cured.code == Some(0) && !cured.stdout.contains("RW017"), "{cured:?}");
}
