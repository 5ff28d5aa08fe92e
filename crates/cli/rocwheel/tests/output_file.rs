//! An option that names a file to write replaces no file of another kind. Without its value, the
//! next word, often the user's wheel, would become the output.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use rocwheel_fixtures::{Ran, TestContext};

const WHEEL: &str = "demo-1.0-py3-none-any.whl";
/// The beginning of a ZIP file is enough, since nothing reads it.
const BYTES: &[u8] = b"PK\x03\x04 the work of a week";

fn context() -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    context.write(WHEEL, BYTES);
    context.write("other-1.0-py3-none-any.whl", BYTES);
    context.write("notes", "the work of a day");
    context
}

fn refused(context: &TestContext, words: &[&str], option: &str) -> Ran {
    let ran = context.run(words);
    assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
    assert!(ran.stderr.contains(option), "{words:?}: {ran:?}");
    assert_eq!(fs_err::read(context.path(WHEEL)).unwrap(), BYTES, "{words:?}");
    assert_eq!(fs_err::read(context.path("notes")).unwrap(), b"the work of a day", "{words:?}");
    ran
}

#[test]
fn a_sarif_log_replaces_no_wheel() {
    let context = context();
    let ran = refused(&context, &["audit", "--sarif", WHEEL, "other-1.0-py3-none-any.whl"], "--sarif");
    assert_eq!(
        ran.stderr,
        "error: `--sarif` would overwrite `demo-1.0-py3-none-any.whl`, which is a wheel\n\
         hint: write `--sarif audit.sarif demo-1.0-py3-none-any.whl other-1.0-py3-none-any.whl`\n"
    );
    refused(&context, &["audit", "--sarif", "notes", "other-1.0-py3-none-any.whl"], "--sarif")
        .says("would overwrite `notes`, which is not a SARIF log");
}

#[test]
fn a_picture_replaces_no_wheel() {
    let context = context();
    for file in [WHEEL, "notes"] {
        refused(&context, &["kernels", "other-1.0-py3-none-any.whl", "--plot", file], "--plot");
    }
    context.write("bin/tool", "#!/bin/sh\n");
    // Files that the command itself wrote are replaced in every run.
    for _ in 0..2 {
        assert_eq!(context.run(["kernels", "bin", "--plot", "kernels.svg"]).code, Some(0));
    }
}

#[test]
fn a_job_replaces_no_wheel() {
    let context = context();
    for file in [WHEEL, "notes"] {
        refused(&context, &["build", "flash-attn", "--write-job", file], "--write-job");
    }
}

#[test]
fn deviations_replace_nothing() {
    let context = context();
    for file in [WHEEL, "notes"] {
        refused(&context, &["diff", WHEEL, "other-1.0-py3-none-any.whl", "--write-deviations", file], file);
    }
}

#[test]
fn pages_are_written_into_no_wheel() {
    let context = context();
    for option in ["--readme", "--history"] {
        refused(&context, &["release", "pages", "--wheels", ".", "--output", "pages", option, WHEEL], option);
    }
    assert!(!context.path("pages").exists());
}

#[test]
fn a_manifest_replaces_no_wheel() {
    let context = context();
    fs_err::create_dir_all(context.path("pytorch/.git")).unwrap();
    for file in [WHEEL, "notes"] {
        refused(&context, &["source", "manifest", "torch", "--output", file], "--output");
    }
}

fn archive<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    [&["compat", "fileset_tool", "artifact-archive", "in/core-hip_lib_generic"], rest].concat()
}

#[test]
fn archives_and_digests_replace_no_wheel() {
    let context = context();
    context.artifact("in", "core-hip_lib_generic", &[("core/stage/bin/tool", b"#!/bin/sh\n")]);
    refused(&context, &archive(&["-o", WHEEL]), "-o");
    context.write("old.tar.zst", "no archive");
    refused(&context, &archive(&["-o", "old.tar.zst"]), "-o");
    for file in [WHEEL, "notes"] {
        refused(&context, &archive(&["-o", "new.tar.zst", "--hash-file", file]), "--hash-file");
    }
    for _ in 0..2 {
        context.run(archive(&["-o", "new.tar.zst", "--hash-file", "digest"])).exits(0);
    }
}
