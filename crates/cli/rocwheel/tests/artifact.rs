//! `rocwheel artifact …` on small artifacts: results, JSON, exit codes, and Ctrl-C.

use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rocwheel_fixtures::TestContext;

fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_rocwheel"))
}

fn filled() -> TestContext {
    let context = context();
    context.artifact("in", "core-hip_lib_generic", &[("core/stage/lib/libamdhip64.so.7", b"library")]);
    context.artifact("in", "core-hip_dev_generic", &[("core/stage/include/hip/hip.h", b"#pragma once\n")]);
    context.artifact("in", "blas_lib_gfx942", &[("blas/stage/lib/rocblas/library/k_gfx942.co", &[7; 4000])]);
    context.artifact("in", "blas_lib_gfx1100", &[("blas/stage/lib/rocblas/library/k_gfx1100.co", &[8; 5000])]);
    context.write("in/notes.txt", "no artifact");
    context
}

#[test]
fn list() {
    let context = filled();
    assert_snapshot!("list", context.types("artifact list in").snapshot());
    assert_snapshot!("list_json", context.types("artifact list in --json").snapshot());
    assert_eq!(context.types("artifact list in -q").stderr, "");
    context.write("empty/x", "");
    assert_snapshot!("list_empty", context.types("artifact list empty").snapshot());
    // A defect is printed, the other artifacts are listed, and the exit code is 1.
    context.write("in/broken_lib_generic.tar.zst", "no archive");
    context.types("artifact list in").exits(1).prints("core-hip_lib_generic").says("warning: ");
}

#[test]
fn archive_and_back() {
    let context = filled();
    let archive = ["artifact", "archive", "in", "--output", "archives"];
    let dry = context.run(archive.iter().chain(&["--dry-run"]));
    assert_snapshot!("archive_dry_run", dry.snapshot());
    assert!(!context.path("archives").exists());
    let ran = context.run(archive).exits(0);
    assert_eq!(ran.stdout.lines().count(), 5, "{ran:?}");
    let check = std::process::Command::new("sh")
        .args(["-c", "sha256sum -c *.sha256sum"])
        .current_dir(context.path("archives"))
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");

    assert_eq!(context.types("artifact verify archives").code, Some(0));
    let flatten = ["artifact", "flatten", "archives", "--output", "tree", "--targets", "gfx942", "--components", "lib"];
    assert_snapshot!("flatten_dry_run", context.run(flatten.iter().chain(&["--dry-run"])).snapshot());
    assert!(!context.path("tree").exists());
    assert_snapshot!("flatten", context.run(flatten).snapshot());
    assert_eq!(fs_err::read(context.path("tree/lib/rocblas/library/k_gfx942.co")).unwrap(), [7; 4000]);
    assert!(!context.path("tree/include").exists());
    assert!(!context.path("tree/lib/rocblas/library/k_gfx1100.co").exists());

    // Threads and time do not change the bytes; SOURCE_DATE_EPOCH is part of them.
    let once_more = ["--jobs", "1", "artifact", "archive", "in", "--output", "again"];
    assert_eq!(context.run(once_more).code, Some(0));
    let name = "blas_lib_gfx942.tar.zst";
    let bytes = |folder: &str| fs_err::read(context.path(folder).join(name)).unwrap();
    assert!(bytes("archives") == bytes("again"));
    let context = context.with_variable("SOURCE_DATE_EPOCH", "1755820800");
    assert_eq!(context.types("artifact archive in --output later").code, Some(0));
    assert!(
        fs_err::read(context.path("later").join(name)).unwrap()
            != fs_err::read(context.path("again").join(name)).unwrap()
    );
}

#[test]
fn flatten_refuses_what_is_not_its_own() {
    let context = filled();
    context.write("tree/precious", "x");
    assert_snapshot!("flatten_foreign", context.types("artifact flatten in --output tree").snapshot());
    assert!(context.path("tree/precious").exists());
    context.types("artifact flatten in --output tree --force").exits(0);
    assert!(!context.path("tree/precious").exists());
    context.types("artifact flatten in --output tree --components test").exits(2);
}

#[test]
fn one_path_in_two_places_is_an_error_with_both_owners() {
    let context = filled();
    context.artifact("in", "other_lib_generic", &[("other/stage/lib/libamdhip64.so.7", b"another")]);
    assert_snapshot!("flatten_conflict", context.types("artifact flatten in --output tree").snapshot());
    assert!(!context.path("tree").exists());
    assert_snapshot!("verify_conflict", context.types("artifact verify in").snapshot());
    let json = context.types("artifact verify in --json").exits(1);
    assert!(json.stdout.starts_with("{\n  \"schema\": 1,\n  \"artifacts\": 5,"), "{}", json.stdout);
}

#[test]
fn ctrl_c_leaves_nothing_half_written() {
    let context = context();
    let root = context.artifact("in", "blas_lib_generic", &[("blas/stage/lib/small", b"x")]);
    // A sparse file takes no space on disk but many seconds of work.
    let large = fs_err::File::create(root.join("blas/stage/lib/large")).unwrap();
    large.set_len(40_000_000_000).unwrap();
    let child = context
        .command()
        .args(["artifact", "archive", "in", "--output", "out"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while fs_err::read_dir(context.path("out")).map_or(0, Iterator::count) == 0 {
        assert!(begin.elapsed() < Duration::from_mins(1), "no archive was begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    let kill = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    assert!(kill.success());
    let ran = context.ran(&child.wait_with_output().unwrap()).exits(130);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.ends_with("interrupted\n"), "{ran:?}");
    assert_eq!(fs_err::read_dir(context.path("out")).unwrap().count(), 0, "a temporary file is left");
}

#[test]
fn a_narrow_terminal_shows_less_but_never_wraps() {
    const COLUMNS: usize = 31;
    let context = context();
    let root = context.artifact("in", "blas_lib_generic", &[("blas/stage/lib/small", b"x")]);
    let large = fs_err::File::create(root.join("blas/stage/lib/large")).unwrap();
    large.set_len(400_000_000_000).unwrap();
    let program = env!("CARGO_BIN_EXE_rocwheel");
    let inner =
        format!("stty rows 24 cols {COLUMNS}; exec timeout -s INT 3 '{program}' artifact archive in --output out");
    // `script` gives the program a terminal.
    let output = std::process::Command::new("script")
        .args(["--quiet", "--return", "--command", &inner, "/dev/null"])
        .current_dir(context.directory())
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let drawn: Vec<&str> = text.split(['\r', '\n']).map(|line| line.trim_start_matches("\x1b[2K")).collect();
    let bars: Vec<&&str> = drawn.iter().filter(|line| line.contains(" % Writing archives")).collect();
    assert!(!bars.is_empty(), "no bar was drawn: {text:?}");
    assert!(bars.iter().all(|line| line.chars().count() <= COLUMNS), "{bars:?}");
    // The bar is removed before the last message.
    assert!(text.trim_end().ends_with("interrupted\u{1b}[0m"), "{text:?}");
    assert!(!text.contains("\n\n"), "{text:?}");
}
