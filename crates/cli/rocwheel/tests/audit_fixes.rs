//! The commands that `rocwheel audit` prints are run unchanged, in the printed order, and fix every
//! finding that they promise to fix.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rocwheel_fixtures::{TestContext, TestWheel, library};
use serde_json::Value;

const MODULE: &str = "demo/_m.cpython-312-x86_64-linux-gnu.so";

struct Fixture(TestContext);

impl Fixture {
    fn new() -> Self {
        Self(TestContext::new(env!("CARGO_BIN_EXE_rocwheel")))
    }

    /// Compiles a library that is linked to those of `needed`, which are empty.
    fn library(&self, needed: &[&str], options: &[&str]) -> Vec<u8> {
        let (folder, source) = (self.0.path("made"), "int f(void) { return 1; }");
        let compile = |name: &str, arguments: &[&str]| {
            library(&folder, name, source, &[&["-Wl,--disable-new-dtags"], arguments].concat())
        };
        for name in needed {
            compile(name, &[&format!("-Wl,-soname,{name}")]);
        }
        let linked: Vec<String> = needed.iter().map(|name| format!("-l:{name}")).collect();
        compile("made.so", &linked.iter().map(String::as_str).chain(options.iter().copied()).collect::<Vec<_>>())
    }

    /// Writes a wheel of the distribution demo and returns its file name.
    fn wheel(&self, tag: &str, members: Vec<(&str, Vec<u8>)>) -> String {
        let _ = fs_err::remove_dir_all(self.0.path("made"));
        let name = format!("demo-1.0-{tag}.whl");
        let wheel = TestWheel::new(&name).file("demo/__init__.py", "from . import _m\n");
        wheel.files(members).write(self.0.directory());
        name
    }

    fn report(&self, wheel: &str) -> Value {
        serde_json::from_str(&self.0.run(["audit", wheel, "--json"]).stdout).unwrap()
    }

    /// Runs lines of text in a shell.
    fn typed(&self, lines: &[&str]) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_rocwheel")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-ec", &lines.join("\n")]).current_dir(self.0.directory()).env("PATH", path);
        command.output().unwrap()
    }

    /// The only wheel in a folder.
    fn only(&self, folder: &str) -> String {
        let entries = fs_err::read_dir(self.0.path(folder)).unwrap().map(|entry| entry.unwrap().path());
        let wheels: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "whl")).collect();
        let [wheel] = &wheels[..] else { panic!("{wheels:?}") };
        wheel.strip_prefix(self.0.directory()).unwrap().to_str().unwrap().to_owned()
    }
}

/// The commands of a report, and the number of findings that they claim to fix.
fn block(text: &str) -> (Vec<&str>, usize) {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("To fix "));
    let Some(first) = lines.next() else { return (Vec::new(), 0) };
    let fixed = first.split(' ').nth(2).unwrap().parse().unwrap();
    (lines.take_while(|line| line.starts_with("  ")).map(str::trim).collect(), fixed)
}

/// Codes and subjects of the findings, with their fixes.
fn findings(report: &Value) -> Vec<(String, Option<String>)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = report["findings"].as_array().unwrap().iter();
    all.map(|finding| {
        (
            format!("{} {}", text(&finding["code"]), text(&finding["subject"])),
            // A command that looks for requirements fixes nothing.
            finding["fix"].as_str().filter(|fix| !fix.starts_with("rocwheel audit ")).map(str::to_owned),
        )
    })
    .collect()
}

/// Wheels with something to fix, each with the number of commands that this takes.
fn wheels() -> Vec<(&'static str, Fixture, String, usize)> {
    const TAG: &str = "cp312-cp312-manylinux_2_17_x86_64";
    let mut all = Vec::new();
    let mut add = |what, commands, make: &dyn Fn(&Fixture) -> String| {
        let fixture = Fixture::new();
        let wheel = make(&fixture);
        all.push((what, fixture, wheel, commands));
    };
    let plain = |fixture: &Fixture| (MODULE, fixture.library(&[], &[]));
    add("stray packages, in folders too", 1, &|fixture| {
        let files = ["tests/a.py", "tests/deep/er/b.py", "benchmarks/c.py"].map(|name| (name, b"x = 1\n".to_vec()));
        fixture.wheel(TAG, [plain(fixture)].into_iter().chain(files).collect())
    });
    add("compiled files for any platform", 1, &|fixture| fixture.wheel("py3-none-any", vec![plain(fixture)]));
    add("a plain linux", 1, &|fixture| fixture.wheel("cp312-cp312-linux_x86_64", vec![plain(fixture)]));
    add("a file that was renamed, with a stray package", 1, &|fixture| {
        let members = vec![plain(fixture), ("tests/a.py", b"x = 1\n".to_vec())];
        let (old, new) = (fixture.wheel(TAG, members), "demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl");
        fs_err::rename(fixture.0.path(old), fixture.0.path(new)).unwrap();
        new.to_owned()
    });
    add("absolute search paths", 1, &|fixture| {
        let one = fixture.library(&[], &["-Wl,-rpath,/home/me/lib:$ORIGIN/lib:/opt/x"]);
        let other = fixture.library(&[], &["-Wl,-rpath,/build/lib"]);
        fixture.wheel(TAG, vec![(MODULE, one), ("demo/lib/libother.so", other)])
    });
    add("search paths that climb", 1, &|fixture| {
        let module = fixture.library(&[], &["-Wl,-rpath,$ORIGIN:$ORIGIN/../../../../../usr/lib"]);
        fixture.wheel(TAG, vec![(MODULE, module)])
    });
    add("PyTorch twice", 1, &|fixture| {
        let (one, other) = (fixture.library(&["libtorch.so"], &[]), fixture.library(&["libc10.so"], &[]));
        fixture.wheel(TAG, vec![(MODULE, one), ("demo/libother.so", other)])
    });
    add("an executable stack", 1, &|fixture| {
        fixture.wheel(TAG, vec![(MODULE, fixture.library(&[], &["-Wl,-z,execstack"]))])
    });
    add("a library of this machine", 1, &|fixture| {
        fixture.wheel(TAG, vec![(MODULE, fixture.library(&[], &["-lgomp"]))])
    });
    add("ROCm, by an absolute search path, with a stray package", 2, &|fixture| {
        let module = fixture.library(&["libamdhip64.so.7", "librocblas.so.5"], &["-Wl,-rpath,/opt/rocm-7.2.4/lib"]);
        fixture.wheel(TAG, vec![(MODULE, module), ("tests/a.py", b"x = 1\n".to_vec())])
    });
    all
}

#[test]
fn the_block_fixes_what_it_says() {
    for (what, fixture, wheel, commands) in wheels() {
        let (text, before) = (fixture.0.run(["audit", &wheel]), fixture.report(&wheel));
        let (lines, fixed) = block(&text.stdout);
        assert_eq!(lines.len(), commands, "{what}: {text:?}");
        let fixable: Vec<String> =
            findings(&before).into_iter().filter(|(_, fix)| fix.is_some()).map(|(finding, _)| finding).collect();
        assert!(fixed == fixable.len() && fixed > 0, "{what}: {text:?}");
        let output = fixture.typed(&lines);
        assert!(output.status.success(), "{what}: {lines:?}: {output:?}");
        let is_repaired = fixture.0.path("wheelhouse").is_dir();
        let after = fixture.report(&fixture.only(if is_repaired { "wheelhouse" } else { "." }));
        for (finding, fix) in findings(&after) {
            assert!(fix.is_none() && !fixable.contains(&finding), "{what}: {finding} is left: {after}");
        }
    }
}

#[test]
fn audit_applies_the_block_itself() {
    for (what, fixture, wheel, _) in wheels() {
        let bytes = fs_err::read(fixture.0.path(&wheel)).unwrap();
        let ran = fixture.0.run(["audit", &wheel, "--fix", "--output", "fixed/here", "--json"]);
        let after = ran.json();
        assert!(findings(&after).iter().all(|(_, fix)| fix.is_none()), "{what}: {after}");
        assert_eq!(ran.code, Some(i32::from(after["counts"]["errors"] != 0)), "{what}: {ran:?}");
        assert_eq!(fs_err::read(fixture.0.path(&wheel)).unwrap(), bytes, "{what}: the input was changed");
        assert_eq!(fixture.report(&fixture.only("fixed/here"))["findings"], after["findings"], "{what}");
        assert_eq!(fs_err::read_dir(fixture.0.path("fixed/here")).unwrap().count(), 1, "{what}");
        // Existing files are not replaced, and the failed attempt leaves nothing behind.
        let again = fixture.0.run(["audit", &wheel, "--fix", "--output", "fixed/here"]);
        assert!(again.code == Some(2) && again.stderr.contains("exists"), "{what}: {again:?}");
        assert_eq!(fs_err::read_dir(fixture.0.path("fixed/here")).unwrap().count(), 1, "{what}");
    }
}

#[test]
fn commands_name_folders_of_any_name() {
    for folder in ["-dash", "n\nl", "it's\u{1b}[1m"] {
        let fixture = Fixture::new();
        let wheel = fixture.wheel("cp312-cp312-linux_x86_64", vec![(MODULE, fixture.library(&[], &[]))]);
        fs_err::create_dir(fixture.0.path(folder)).unwrap();
        fs_err::rename(fixture.0.path(&wheel), fixture.0.path(folder).join(&wheel)).unwrap();
        let ran = fixture.0.run(["audit", "--", &format!("{folder}/{wheel}")]);
        let (lines, _) = block(&ran.stdout);
        assert_eq!(lines.len(), 1, "{ran:?}");
        // `sh` need not know `$'…'`, which POSIX has since 2024.
        let output = fixture.typed(&[&format!("exec bash -ec {}", rocwheel_progress::shell_word(lines[0]))]);
        assert!(output.status.success(), "{lines:?}: {output:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_no_text_are_fixed_too() {
    use std::os::unix::ffi::OsStrExt as _;

    let fixture = Fixture::new();
    let wheel = fixture.wheel("cp312-cp312-linux_x86_64", vec![(MODULE, fixture.library(&[], &[]))]);
    let folder = fixture.0.path(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    fs_err::create_dir(&folder).unwrap();
    fs_err::rename(fixture.0.path(&wheel), folder.join(&wheel)).unwrap();
    // As CI systems set it; what fixes a finding is read as a command line, too.
    let fixture = Fixture(fixture.0.with_variable("ROCWHEEL_JOBS", ""));
    let output = fixture.0.command().args(["audit", "--json", "--fix", "-o", "fixed"]).arg(&folder).output().unwrap();
    let after: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(fixture.report(&fixture.only("fixed"))["findings"], after["findings"], "{output:?}");
}

#[test]
fn the_version_of_rocm_is_read_from_the_wheel() {
    let fixture = Fixture::new();
    let module = fixture.library(&["libamdhip64.so.7"], &["-Wl,-rpath,/opt/rocm-7.2.4/lib"]);
    let wheel = fixture.wheel("cp312-cp312-manylinux_2_17_x86_64", vec![(MODULE, module)]);
    let ran = fixture.0.run(["audit", &wheel]);
    let (lines, _) = block(&ran.stdout);
    assert_eq!(lines, [format!("rocwheel repair {wheel} --mode rocm --rocm-version 7.2.4")], "{ran:?}");
    let fixture = Fixture::new();
    let module = fixture.library(&["libamdhip64.so.7"], &[]);
    let wheel = fixture.wheel("cp312-cp312-manylinux_2_17_x86_64", vec![(MODULE, module)]);
    let ran = fixture.0.run(["audit", &wheel]);
    assert_eq!(block(&ran.stdout).0, [format!("rocwheel repair {wheel} --mode rocm --rocm-version '7.*'")], "{ran:?}");
    // A library that no package has is not promised; the others are.
    let fixture = Fixture::new();
    let module = fixture.library(&["libamdhip64.so.7", "libmigraphx_c.so.3"], &[]);
    let wheel = fixture.wheel("cp312-cp312-manylinux_2_17_x86_64", vec![(MODULE, module)]);
    let ran = fixture.0.run(["audit", &wheel]);
    let expected = format!("rocwheel repair {wheel} --mode rocm --rocm-version '7.*' --exclude libmigraphx_c.so.3");
    assert_eq!(block(&ran.stdout), (vec![expected.as_str()], 1), "{ran:?}");
}

#[test]
fn nothing_is_advised_that_cannot_be_done_here() {
    let fixture = Fixture::new();
    let wheel =
        fixture.wheel("cp312-cp312-manylinux_2_17_x86_64", vec![(MODULE, fixture.library(&["libgone.so.1"], &[]))]);
    let ran = fixture.0.run(["audit", &wheel]);
    assert!(!ran.stdout.contains("To fix"), "{ran:?}");
    assert!(ran.stderr.contains("needs `libgone.so.1`, which is not on this machine"), "{ran:?}");
    assert_eq!(fixture.report(&wheel)["findings"][0]["fix"], Value::Null);
    // Without its search path, the wheel would not even load where it was built.
    let built = Fixture::new();
    let module = built.library(&["libgone.so.1"], &["-Wl,-rpath,/opt/gone/lib"]);
    let wheel = built.wheel("cp312-cp312-manylinux_2_17_x86_64", vec![(MODULE, module)]);
    let found: Vec<_> = findings(&built.report(&wheel));
    let expected = ["RW002 libgone.so.1", "RW010 PyInit__m", "RW003 /opt/gone/lib"];
    let expected = expected.map(|finding| (finding.to_owned(), None));
    assert_eq!(found, expected);
    // All missing libraries are named, for people and for programs: the user has to install each.
    let gone = ["liba.so.1", "libb.so.1", "libc_.so.1", "libd.so.1", "libe.so.1"];
    let other = Fixture::new();
    let many = other.wheel("cp312-cp312-manylinux_2_17_x86_64", vec![(MODULE, other.library(&gone, &[]))]);
    let note = other.report(&many)["notes"][0].as_str().unwrap().to_owned();
    assert!(note.contains(&format!("needs `{}`, which are not on this machine", gone.join("`, `"))), "{note}");
    fixture.0.run(["audit", &wheel, "--fix", "-o", "fixed"]).exits(1);
    assert!(!fixture.0.path("fixed").exists(), "nothing was fixed");
    fixture.0.run(["repair", &wheel]).exits(1);
    assert!(!fixture.0.path("wheelhouse").exists(), "a failed repair left a folder");
}
