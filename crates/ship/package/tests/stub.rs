//! The exec stub as a process: built from its source, through links, in chains, with arguments, and
//! in cases where it must fail.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocwheel_package::stub::stub;
use rocwheel_system::symlink;

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/stub");

fn install(path: &Path, target: &str) -> PathBuf {
    write_program(path, &stub(target).unwrap())
}

fn write_program(path: &Path, bytes: &[u8]) -> PathBuf {
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, bytes).unwrap();
    rocwheel_fixtures::make_program(path);
    path.to_owned()
}

/// Copies the real file behind /bin/sh, independent of the system's layout, as the target of the
/// chains.
fn install_shell(path: &Path) {
    write_program(path, &fs_err::read(fs_err::canonicalize("/bin/sh").unwrap()).unwrap());
}

fn say(program: &Path, first: &str) -> String {
    let output = Command::new(program)
        .arg0(first)
        .args([
            "-c",
            "printf '%s,' \"$0\" \"$@\" \"$COLOUR\"; ps=$(tr '\\0' ',' </proc/$$/cmdline); printf '%s' \"${ps%%,*}\"",
        ])
        .args(["zero", "one two", ""])
        .env("COLOUR", "green")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn it_runs_its_target_with_arguments_and_environment_as_they_were() {
    let temporary = tempfile::tempdir().unwrap();
    install_shell(&temporary.path().join("lib/llvm/bin/clang-20"));
    let direct = install(&temporary.path().join("bin/clang"), "../lib/llvm/bin/clang-20");
    assert_eq!(say(&direct, "any name"), "zero,one two,,green,any name");
}

#[test]
fn chains_of_stubs_keep_the_first_argument() {
    let temporary = tempfile::tempdir().unwrap();
    install_shell(&temporary.path().join("clang-20"));
    install(&temporary.path().join("clang"), "clang-20");
    let last = install(&temporary.path().join("clang++"), "clang");
    assert_eq!(say(&last, "/opt/clang++"), "zero,one two,,green,/opt/clang++");
}

#[test]
fn links_to_a_stub_work_from_anywhere() {
    let temporary = tempfile::tempdir().unwrap();
    install_shell(&temporary.path().join("package/bin/clang-20"));
    let program = install(&temporary.path().join("package/bin/clang"), "clang-20");
    let link = temporary.path().join("shortcut");
    symlink(&program, &link).unwrap();
    let second = temporary.path().join("elsewhere");
    symlink("shortcut", &second).unwrap();
    assert_eq!(say(&second, "elsewhere"), "zero,one two,,green,elsewhere");

    // For a program found through PATH, the kernel knows the path although the first argument does
    // not contain it.
    let output = Command::new("clang").args(["-c", "echo $0"]).env("PATH", program.parent().unwrap()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "clang\n");
}

#[test]
fn the_exit_status_and_signals_are_those_of_the_target() {
    let temporary = tempfile::tempdir().unwrap();
    install_shell(&temporary.path().join("shell"));
    let program = install(&temporary.path().join("link"), "shell");
    assert_eq!(Command::new(&program).args(["-c", "exit 7"]).output().unwrap().status.code(), Some(7));
    let killed = Command::new(&program).args(["-c", "kill -TERM $$"]).output().unwrap().status;
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed), Some(15));
}

#[test]
fn a_missing_target_is_named() {
    let temporary = tempfile::tempdir().unwrap();
    let program = install(&temporary.path().join("bin/hipcc"), "../missing/hipcc");
    let output = Command::new(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let directory = fs_err::canonicalize(temporary.path()).unwrap();
    let expected = format!("could not exec {}/bin/../missing/hipcc: errno 2\n", directory.display());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);

    fs_err::create_dir(temporary.path().join("missing")).unwrap();
    fs_err::write(temporary.path().join("missing/hipcc"), "not executable").unwrap();
    let output = Command::new(&program).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().ends_with("/missing/hipcc: errno 13\n"));
}

#[test]
fn a_path_that_is_too_long_together_is_an_error_and_not_a_crash() {
    let temporary = tempfile::tempdir().unwrap();
    let mut directory = temporary.path().to_owned();
    while directory.as_os_str().len() < 3700 {
        directory.push("d".repeat(200));
    }
    let program = install(&directory.join("program"), &"t/".repeat(247));
    let output = Command::new(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.starts_with("could not exec /"), "{message}");
    assert!(message.ends_with(": errno 36\n"), "{message}");
}

#[test]
fn stub_is_what_its_source_makes() {
    let temporary = tempfile::tempdir().unwrap();
    let built = temporary.path().join("stub.elf");
    let output = Command::new("sh").arg(format!("{DIRECTORY}/build.sh")).arg(&built).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let built = fs_err::read(&built).unwrap();
    let committed = fs_err::read(format!("{DIRECTORY}/stub.elf")).unwrap();

    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| OsStr::new("rustc").to_owned());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    if version == fs_err::read(format!("{DIRECTORY}/rustc-version")).unwrap() {
        assert!(built == committed, "run crates/ship/package/stub/build.sh and commit what it makes");
    }

    // Another release of rustc may produce other bytes, but they do the same.
    install_shell(&temporary.path().join("shell"));
    let mut program = built;
    let mark = b"\x7frocwheel-target";
    let start = program.windows(mark.len()).position(|window| window == mark).unwrap() + mark.len();
    program[start..start + 5].copy_from_slice(b"shell");
    let program = write_program(&temporary.path().join("program"), &program);
    assert_eq!(say(&program, "rebuilt"), "zero,one two,,green,rebuilt");
}

#[test]
fn the_committed_blob_is_static_and_has_no_executable_stack() {
    let temporary = tempfile::tempdir().unwrap();
    let program = install(&temporary.path().join("program"), "x");
    let output = Command::new("readelf").args(["-lW"]).arg(&program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("EXEC (Executable file)"), "{text}");
    assert!(!text.contains("INTERP") && !text.contains("DYNAMIC"), "{text}");
    let stack = text.lines().find(|line| line.contains("GNU_STACK")).unwrap();
    assert!(stack.contains(" RW ") && !stack.contains("RWE"), "{stack}");
}
