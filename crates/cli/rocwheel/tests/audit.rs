//! `rocwheel audit` as people and programs use it. The crate `audit` tests the findings.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use insta::assert_snapshot;
use rocwheel_fixtures::{TestContext, TestWheel, library};
use serde_json::Value;

const WHEEL: &str = "demo-1.0-cp312-cp312-manylinux_2_34_x86_64.whl";

/// A wheel with stray tests, whose module needs a missing library and has a search path of the
/// machine that built it.
fn context() -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    let compile = |name: &str, arguments: &[&str]| {
        let source = "int f(void) { return 1; }\nvoid *PyInit__m(void) { return 0; }";
        library(&context.path("made"), name, source, arguments)
    };
    compile("libgone.so.1", &["-Wl,-soname,libgone.so.1"]);
    compile("libtorch.so", &["-Wl,-soname,libtorch.so"]);
    let own = compile("libown.so.1", &["-Wl,-soname,libown.so.1"]);
    let module =
        compile("_m.so", &["-l:libgone.so.1", "-l:libown.so.1", "-l:libtorch.so", "-Wl,-rpath,/home/me/lib:$ORIGIN"]);
    TestWheel::new(WHEEL)
        .file("demo/__init__.py", "from . import _m\n")
        .file("demo/_m.cpython-312-x86_64-linux-gnu.so", module)
        .file("demo/libown.so.1", own)
        .file("tests/__init__.py", "")
        .write(context.directory());
    fs_err::remove_dir_all(context.path("made")).unwrap();
    context
}

#[test]
fn people_get_a_table_and_findings() {
    let context = context();
    insta::with_settings!({ filters => [(r"\d+\.\d kB", "[SIZE]")] }, {
        assert_snapshot!("table", context.run(["audit", WHEEL]).snapshot());
        assert_snapshot!("why", context.run(["audit", WHEEL, "--why", "libown.so"]).snapshot());
    });
    let ran = context.run(["audit", WHEEL]);
    let lines = ran.stdout.lines().filter(|line| !line.trim_start().starts_with("rocwheel "));
    assert!(lines.clone().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
}

#[test]
fn machines_get_json_and_sarif() {
    let context = context();
    let ran =
        context.run(["audit", WHEEL, "--json", "--sarif", "log.sarif", "--ignore", "stray-package,RW003"]).exits(1);
    let report = ran.json();
    assert_eq!((&report["schema"], &report["environment"]["python"]), (&1.into(), &"3.12".into()));
    assert_eq!(report["ignored"], serde_json::json!({ "RW003": 1, "RW014": 1 }));
    let wheel = &report["wheels"][0];
    assert_eq!((&wheel["name"], &wheel["role"], &wheel["objects"]), (&"demo".into(), &"audited".into(), &2.into()));
    let codes: Vec<&str> =
        report["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["RW002", "RW012"]);
    assert_eq!(report["counts"], serde_json::json!({ "errors": 2, "warnings": 0, "notes": 0 }));
    let log: Value = serde_json::from_slice(&fs_err::read(context.path("log.sarif")).unwrap()).unwrap();
    assert_eq!((&log["version"], log["runs"][0]["results"].as_array().unwrap().len()), (&"2.1.0".into(), 2));
    let printed = context.run(["audit", WHEEL, "--sarif", "-"]);
    assert!(printed.stdout.starts_with("{\n  \"$schema\": "), "{printed:?}");
}

#[test]
fn exit_codes_follow_what_is_found() {
    let context = context();
    let code = |arguments: &[&str]| context.run(["audit", WHEEL].iter().chain(arguments)).code;
    assert_eq!(code(&[]), Some(1));
    assert_eq!(code(&["--ignore", "RW002,RW012"]), Some(0));
    assert_eq!(code(&["--ignore", "RW002,RW012", "--fail-on", "warning"]), Some(1));
    assert_eq!(code(&["--ignore", "RW002,RW012,RW003,RW014", "--fail-on", "warning"]), Some(0));
    assert_eq!(code(&["--ignore", "RW002:_m.*.so,RW012:demo/*.so"]), Some(0));
    assert_eq!(code(&["--ignore", "RW002:lib*.so,RW012"]), Some(1));
    assert_eq!(code(&["--ignore", "RW999"]), Some(2));
    for python in ["3.12", "312", "cp312"] {
        assert_eq!(code(&["--ignore", "RW002,RW012", "--python", python]), Some(0), "{python}");
    }
    for glibc in ["2.34", "manylinux_2_34", "manylinux_2_34_x86_64", "manylinux2014"] {
        assert_eq!(code(&["--ignore", "RW002,RW012,RW007", "--glibc", glibc]), Some(0), "{glibc}");
    }
    assert_eq!(code(&["--python", "3"]), Some(2));
    assert_eq!(code(&["--glibc", "new"]), Some(2));
    assert_eq!(code(&["--why", "libnothing.so"]), Some(2));
    assert_eq!(context.types("audit").code, Some(2));
    context.write("broken-1.0-py3-none-any.whl", "no archive");
    context
        .types("audit broken-1.0-py3-none-any.whl")
        .exits(1)
        .prints("error RW032 refused\n  it is not a ZIP archive");
    // A file that is not there says nothing about a wheel.
    let ran = context.types("audit gone-1.0-py3-none-any.whl");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("gone-1.0-py3-none-any.whl"), "{ran:?}");
}

/// Nightly wheels, one of which no installer takes.
#[test]
fn one_bad_wheel_hides_no_other() {
    let context = context();
    context.write("dist/bad-1.0-py3-none-any.whl", "no archive");
    context.write("dist/old.whl", "");
    fs_err::copy(context.path(WHEEL), context.path("dist").join(WHEEL)).unwrap();
    let report = context.types("audit dist --json --sarif log.sarif").exits(1).json();
    assert_eq!(report["verdict"]["sentence"], "3 of 3 wheels have errors: demo, bad, old.whl");
    let codes = |wheel: &str| -> Vec<&str> {
        let findings = report["findings"].as_array().unwrap().iter();
        findings.filter(|finding| finding["wheel"] == wheel).map(|finding| finding["code"].as_str().unwrap()).collect()
    };
    assert_eq!((codes("bad-1.0-py3-none-any.whl"), codes("old.whl")), (vec!["RW032"], vec!["RW032"]));
    assert_eq!(codes(WHEEL), ["RW002", "RW012", "RW003", "RW014"]);
    let log = fs_err::read_to_string(context.path("log.sarif")).unwrap();
    assert!(log.contains("dist/old.whl") && log.contains("Needs a decision: download or build the wheel again."));
    // Alone, it has a verdict, too.
    let ran = context.types("audit dist/bad-1.0-py3-none-any.whl --json");
    let report = ran.json();
    assert_eq!((ran.code, &report["verdict"]["answer"]), (Some(1), &"fails".into()));
}

#[test]
fn a_verdict_that_cannot_tell_fails_on_request() {
    let context = context();
    let repaired = "fixed/demo-1.0-cp312-cp312-manylinux_2_34_x86_64.whl";
    let ran = context.run(["edit", WHEEL, "--requires", "torch", "--drop-absolute-rpath", "-o", "fixed"]).exits(0);
    // The last look says what it depends on, and is no failure.
    assert!(ran.stderr.contains("whether it loads depends on `torch`, which was not looked at"), "{ran:?}");
    assert!(ran.stderr.contains(&format!("`rocwheel audit {repaired} --with index` shows")), "{ran:?}");
    let ran = context.run(["audit", repaired, "--ignore", "RW001,RW002,RW014"]);
    let first = "cannot tell whether demo 1.0 loads: it depends on `torch`, which was not looked at\n";
    assert!(ran.stdout.starts_with(first), "{ran:?}");
    assert!(
        ran.stdout.contains(&format!("\nTo decide 1 of 1:\n  rocwheel audit {repaired} --with index\n")),
        "{ran:?}"
    );
    let code = |arguments: &[&str]| {
        context.run(["audit", repaired, "--ignore", "RW001,RW002,RW014"].iter().chain(arguments)).code
    };
    for (fail_on, expected) in [("error", 0), ("warning", 0), ("unknown", 1), ("warning,unknown", 1)] {
        assert_eq!(code(&["--fail-on", fail_on]), Some(expected), "{fail_on}");
    }
    assert_eq!(code(&["--ignore", "RW025", "--fail-on", "unknown"]), Some(0), "a bypass that the user states");
}

#[test]
fn folders_are_no_wheels_and_no_library_path_is_made_up() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    context.write("dist/x.txt", "x");
    context.types("audit dist").ends(2, "error: `dist` has neither wheels nor installed packages, which would have `.dist-info` folders\nhint: name an environment");
    context
        .types("audit x-1-py3-none-any.whl --library-path gone")
        .ends(2, "error: there is no `gone`\nhint: `--library-path` names a folder with");
    let ran = context.types("audit x-1-py3-none-any.whl --library-path /gone/rocm/lib");
    assert!(!ran.stderr.split_once("hint: ").unwrap().1.contains("rocm/lib"), "{ran:?}");
    context
        .types("audit x-1-py3-none-any.whl --library-path dist/x.txt")
        .says("error: `dist/x.txt` is not a directory\n");
}

#[test]
fn codes_are_explained() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    assert_snapshot!("explain", context.types("audit --explain RW012").snapshot());
    assert_eq!(
        context.types("audit --explain missing-requirement").stdout,
        context.types("audit --explain RW012").stdout
    );
    let all = context.types("audit --explain all");
    assert!(all.stdout.lines().all(|line| line.chars().count() <= 80), "{}", all.stdout);
    let listed = context.types("audit --explain all --json").json();
    let listed = listed["findings"].as_array().unwrap();
    assert_eq!(all.stdout.matches("What to do: ").count(), listed.len());
    assert_eq!(all.stdout.matches("it needs a decision: ").count(), listed.len());
    let json = context.types("audit --explain RW001 --json").json();
    assert_eq!(json["findings"][0]["code"], "RW001");
    let ran = context.types("audit --explain RW999").exits(2);
    let last = listed.last().unwrap()["code"].as_str().unwrap();
    assert!(ran.stderr.contains(&format!("hint: the codes are RW001 to {last}")), "{ran:?}");
}

#[test]
fn a_folder_of_wheels_is_taken_and_its_source_distributions_are_not() {
    let context = context();
    context.write("dist/demo-1.0.tar.gz", "x");
    fs_err::copy(context.path(WHEEL), context.path("dist").join(WHEEL)).unwrap();
    for words in [&["dist"][..], &["dist/demo-1.0.tar.gz", &format!("dist/{WHEEL}")]] {
        context
            .run(["audit"].iter().chain(words))
            .exits(1)
            .prints("RW012")
            .says("`demo-1.0.tar.gz` is a source distribution");
    }
    context.types("audit dist/demo-1.0.tar.gz").exits(2);
    context.run(["audit", WHEEL, "--why", "libown"]).exits(0).prints("libown.so.1");
    context.run(["audit", WHEEL, "--why", "libgo"]).ends(2, "did you mean `libgone.so.1`?");
    context.run(["audit", WHEEL, "--jobs", "abc"]).ends(2, "a number of threads from 1 to 1024 is expected");
    context.run(["audit", WHEEL, "--why", "libgonne.so.1"]).ends(2, "did you mean `libgone.so.1`?");
}

#[test]
fn damaged_files_are_told_from_others() {
    let context = context();
    let whole = fs_err::read(context.path(WHEEL)).unwrap();
    let name = "cut-1.0-py3-none-any.whl";
    for (bytes, says) in
        [(&[][..], "the file is empty"), (&whole[..whole.len() / 2], "it is cut off"), (b"text", "is not a ZIP")]
    {
        fs_err::write(context.path(name), bytes).unwrap();
        context.run(["audit", name]).exits(1).prints(says);
    }
}
