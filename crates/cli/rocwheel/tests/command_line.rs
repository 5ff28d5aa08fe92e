//! The command line: help, wrong usage, verbs in the wrong place, pipes, colour, completions and
//! manual pages.

use std::process::Stdio;

use insta::assert_snapshot;
use rocwheel_fixtures::TestContext;

fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_rocwheel"))
}

#[test]
fn help() {
    let context = context();
    assert_snapshot!("help", context.types("--help").snapshot());
    assert_snapshot!("help_short", context.types("-h").snapshot());
    assert_snapshot!("help_artifact", context.types("artifact -h").snapshot());
    for command in ["import", "list", "archive", "flatten", "verify"] {
        assert_snapshot!(format!("help_artifact_{command}"), context.run(["artifact", command, "--help"]).snapshot());
    }
    assert_snapshot!("help_source_hipify", context.types("source hipify --help").snapshot());
    for command in
        ["package", "kernels", "split", "prune", "repair", "edit", "compat", "rocm-version", "completions", "man"]
    {
        assert_snapshot!(format!("help_{command}"), context.run([command, "--help"]).snapshot());
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let context = context();
    assert_snapshot!("wrong_flag", context.types("package --artefacts x").snapshot());
    assert_snapshot!("missing_arguments", context.types("package").snapshot());
    assert_snapshot!("no_source", context.types("artifact import --output x").snapshot());
    assert_snapshot!("no_such_command", context.types("artifct").snapshot());
    for arguments in [
        &["artifact", "import", "--output", "x", "--prefix", "a", "--tarball", "b"][..],
        &["--jobs", "0", "artifact", "list", "."],
        &["--jobs", "100000", "artifact", "list", "."],
        &["-q", "-v", "artifact", "list", "."],
        &["--color", "purple", "man", "."],
        &["package", "--artifacts", "a", "--output", "b", "--compression", "11"],
        &["package", "--artifacts", "a", "--output", "b", "--targets", "x", "--linux-amdgpu-families", "y"],
        &["package", "--artifacts", "a", "--output", "b", "--scratch", "c"],
        &["package", "--artifacts", "a", "--output", "b", "--only", "everything"],
        &["artifact", "archive", ".", "--output", "x", "--level", "x"],
        &["artifact", "flatten", ".", "--output", "x", "--components", "lib,nonsense"],
        &["completions", "dos"],
        &["--json", "completions", "bash"],
        &["--json", "matrix", "--print-table"],
        &["--json", "matrix", "--format", "slurm"],
        &["--json", "matrix", "--format", "workflow"],
        &["--json", "matrix", "flash-attn", "--format", "release-workflow"],
    ] {
        let ran = context.run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        let document = arguments.contains(&"--json");
        assert_eq!(ran.stdout.starts_with("{\n  \"schema\": 1,\n  \"error\": {"), document, "{arguments:?}: {ran:?}");
        assert!(document || ran.stdout.is_empty(), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: "), "{arguments:?}: {ran:?}");
        assert_eq!(fs_err::read_dir(context.directory()).unwrap().count(), 0, "{arguments:?} left something behind");
    }
}

#[test]
fn verbs_in_the_wrong_place_get_a_hint() {
    let context = context();
    assert_snapshot!("misplaced_build", context.types("build --artifacts x").snapshot());
    assert_snapshot!("misplaced_import", context.types("import --deb x.deb").snapshot());
    assert_snapshot!("misplaced_package", context.types("artifact package").snapshot());
    assert_snapshot!("misplaced_version", context.types("version").snapshot());
}

#[test]
fn missing_input_is_named() {
    let context = context();
    assert_snapshot!("missing_directory", context.types("artifact list nowhere").snapshot());
    let arguments = ["artifact", "import", "--deb", "nowhere.deb", "--output", "out"];
    assert_snapshot!("missing_package", context.run(arguments).snapshot());
    assert!(!context.path("out").exists());
}

#[test]
fn an_error_is_a_document_too_for_those_who_asked_for_json() {
    let context = context();
    context.artifact("in", "blas_lib_generic", &[("blas/stage/lib/x", b"x")]);
    assert_snapshot!("error_json", context.types("artifact list in/blas_lib_generic --json").snapshot());
    for arguments in [
        &["--json", "package", "-a", "nowhere", "-o", "out"][..],
        &["--json", "artifact", "import", "--deb", "nowhere.deb", "-o", "out"],
        &["--json", "artifact", "import", "--prefix", "nowhere", "-o", "out"],
        &["--json", "artifact", "archive", "nowhere", "-o", "out"],
        &["--json", "artifact", "flatten", "nowhere", "-o", "out"],
        &["--json", "artifact", "verify", "nowhere"],
        &["--json", "rocm-version", "--release-type", "release"],
    ] {
        let ran = context.run(arguments);
        let document = ran.json();
        assert_eq!(document["error"]["exit_code"].as_i64(), ran.code.map(i64::from), "{ran:?}");
        let message = document["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty() && ran.stderr.starts_with(&format!("error: {message}\n")), "{ran:?}");
    }
    // A command line that cannot be parsed does not request JSON.
    assert_eq!(context.types("--json nonsense").stdout, "");
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let context = context();
    for arguments in [&["--help"][..], &["completions", "bash"], &["rocm-version", "--compare", "1", "2"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = context.command().args(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("error"), "{arguments:?}: {output:?}");
    }
    // The exit code remains that of the work: a failed check does not become a success because the
    // reader closed the pipe.
    context.artifact("artifacts", "blas_lib_generic", &[("outside", b"x")]);
    context.write("artifacts/blas_lib_generic/artifact_manifest.txt", "../..\n");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = context.command().args(["artifact", "verify", "artifacts"]).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let context = context();
    for arguments in
        [&["completions", "bash"][..], &["--help"], &["-h"], &["audit", "--help"], &["help", "audit"], &["--version"]]
    {
        let full = fs_err::OpenOptions::new().write(true).open("/dev/full").unwrap().into_parts().0;
        let output = context.command().args(arguments).stdout(Stdio::from(full)).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with("error: cannot write to stdout\n  cause: "), "{arguments:?}: {stderr}");
    }
}

#[test]
fn nobody_listening_on_stderr_changes_nothing() {
    let context = context();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = context.command().args(["artifact", "list", "nowhere"]).stderr(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn colour_is_for_terminals_and_for_those_who_insist() {
    let context = context();
    let stderr = |arguments: &[&str]| context.run(arguments).stderr;
    assert!(!stderr(&["build"]).contains('\x1b'));
    assert!(stderr(&["--color", "always", "build"]).contains("\x1b["));
    assert!(stderr(&["--color=always", "nonsense"]).contains("\x1b["));
    assert!(stderr(&["artifact", "list", "nowhere", "--color=always"]).contains("\x1b["));
    assert!(!stderr(&["--color", "never", "nonsense"]).contains('\x1b'));
}

/// tests/acceptance/test_completions.py completes in real shells.
#[test]
fn completions_know_every_command() {
    let context = context();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = context.run(["completions", shell]);
        assert_eq!(ran.code, Some(0), "{shell}");
        for word in ["rocm-version", "linux-amdgpu-families", "allow-unresolved", "flatten"] {
            assert!(ran.stdout.contains(word), "{shell} does not complete {word}");
        }
    }
}

#[test]
fn manual_pages_are_the_same_every_time() {
    let context = context();
    let first = context.types("man one").exits(0);
    for page in ["rocwheel", "rocwheel-artifact", "rocwheel-artifact-import", "rocwheel-package", "rocwheel-man"] {
        assert!(first.stdout.lines().any(|path| path == format!("one/{page}.1")), "{page}: {}", first.stdout);
    }
    assert_eq!(context.types("man two").stdout, first.stdout.replace("one/", "two/"));
    for path in first.stdout.lines() {
        let page = fs_err::read(context.path(path)).unwrap();
        assert_eq!(page, fs_err::read(context.path(path.replace("one/", "two/"))).unwrap(), "{path}");
        assert!(page.starts_with(b".ie") || page.starts_with(b".TH"), "{path}");
    }
    let page = fs_err::read_to_string(context.path("one/rocwheel-artifact-import.1")).unwrap();
    assert!(page.contains("allow\\-unresolved"), "{page}");
    assert!(page.contains(".SH SYNOPSIS\nrocwheel artifact import [OPTIONS] "), "{page}");
    // The third word is the date, the fourth the program that the page is of.
    let title = concat!(".TH rocwheel-artifact-import 1 \"\" \"rocwheel ", env!("CARGO_PKG_VERSION"), "\" rocwheel\n");
    assert!(page.contains(title), "{page}");
}

#[test]
fn a_wrong_time_stamp_is_wrong_usage() {
    let context = context().with_variable("SOURCE_DATE_EPOCH", "yesterday");
    let ran = context.types("package --artifacts a --output b");
    assert_snapshot!("wrong_epoch", ran.snapshot());
}
