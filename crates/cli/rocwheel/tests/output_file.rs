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

/// With the artifact and the checkout that some of the commands want.
fn filled() -> TestContext {
    let context = context();
    fs_err::create_dir_all(context.path("pytorch/.git")).unwrap();
    context.artifact("in", "core-hip_lib_generic", &[("core/stage/bin/tool", b"#!/bin/sh\n")]);
    context
}

const ARCHIVE: &str = "compat fileset_tool artifact-archive in/core-hip_lib_generic";

#[test]
fn no_option_replaces_a_wheel_or_a_file_of_another_kind() {
    let context = filled();
    let digest = format!("{ARCHIVE} -o new.tar.zst --hash-file FILE");
    for (line, option) in [
        ("audit --sarif FILE other-1.0-py3-none-any.whl", "--sarif"),
        ("kernels other-1.0-py3-none-any.whl --plot FILE", "--plot"),
        ("build flash-attn --write-job FILE", "--write-job"),
        ("diff demo-1.0-py3-none-any.whl other-1.0-py3-none-any.whl --write-deviations FILE", "FILE"),
        ("source manifest torch --output FILE", "--output"),
        (&digest, "--hash-file"),
    ] {
        for file in [WHEEL, "notes"] {
            let line = line.replace("FILE", file);
            refused(&context, &line.split(' ').collect::<Vec<_>>(), &option.replace("FILE", file));
        }
    }
    for option in ["--readme", "--history"] {
        refused(&context, &["release", "pages", "--wheels", ".", "--output", "pages", option, WHEEL], option);
    }
    assert!(!context.path("pages").exists());
    context.write("old.tar.zst", "no archive");
    for file in [WHEEL, "old.tar.zst"] {
        refused(&context, &format!("{ARCHIVE} -o {file}").split(' ').collect::<Vec<_>>(), "-o");
    }
}

#[test]
fn the_message_names_the_file_and_what_was_meant() {
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

/// Files that the command itself wrote are replaced in every run.
#[test]
fn a_second_run_replaces_the_files_of_the_first() {
    let context = filled();
    context.write("bin/tool", "#!/bin/sh\n");
    for _ in 0..2 {
        context.types("kernels bin --plot kernels.svg").exits(0);
        context.types(&format!("{ARCHIVE} -o new.tar.zst --hash-file digest")).exits(0);
    }
}
