//! `rocwheel test report`: how the runner of the tests ended, reports that are older than it, and
//! the tests that there should be.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rocwheel_fixtures::{Ran, TestContext};
use serde_json::Value;

const CLEAN: &str = r#"<testsuites><testsuite name="s"><testcase classname="c" name="a"/><testcase classname="c" name="b"/></testsuite></testsuites>"#;
const FAILED: &str = r#"<testsuites><testsuite name="s"><testcase classname="c" name="a"><failure message="no"/></testcase></testsuite></testsuites>"#;

fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_rocwheel"))
}

fn report(context: &TestContext, words: &[&str]) -> Ran {
    context.run([&["test", "report"], words].concat())
}

/// A shell command that writes a report into `r`, and does `then`.
fn writes(xml: &str, then: &str) -> String {
    format!("mkdir -p r; echo '{xml}' > r/a.xml; {then}")
}

fn document(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// The predicate of a verdict.
fn predicate(path: &Path) -> Value {
    let program = "import base64, json, sys\n\
                   print(base64.b64decode(json.load(open(sys.argv[1]))['payload']).decode())";
    let output = Command::new("python3").args(["-c", program]).arg(path).output().unwrap();
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["predicate"].take()
}

#[test]
fn a_runner_that_ends_badly_is_no_pass_whatever_its_reports_say() {
    let lacks = "and no test failed in the reports: they lack what went wrong";
    for (xml, then, code, result, end, words) in [
        (CLEAN, "exit 0", 0, "passed", r#"{"end":"exited","code":0}"#, String::new()),
        (
            CLEAN,
            "exit 7",
            1,
            "failed",
            r#"{"end":"exited","code":7}"#,
            format!("the runner exited with code 7, {lacks}"),
        ),
        (CLEAN, "kill -9 $$", 1, "failed", r#"{"end":"killed","signal":9}"#, "ended by signal 9 (SIGKILL".to_owned()),
        (FAILED, "exit 1", 1, "failed", r#"{"end":"exited","code":1}"#, String::new()),
        (FAILED, "exit 0", 1, "failed", r#"{"end":"exited","code":0}"#, String::new()),
    ] {
        let context = context();
        let ran = report(&context, &["r", "--html", "p.html", "--json", "--", "sh", "-c", &writes(xml, then)]);
        assert_eq!(ran.code, Some(code), "{then}: {ran:?}");
        let found = document(&ran);
        assert_eq!(found["result"], result, "{then}");
        assert_eq!(found["report"]["runner"], serde_json::from_str::<Value>(end).unwrap());
        let gaps = found["gaps"].to_string();
        assert_eq!((gaps.contains(&words), gaps.contains(lacks)), (true, !words.is_empty()), "{gaps}");
        let page = fs_err::read_to_string(context.path("p.html")).unwrap();
        assert!(page.contains("<p>The runner "), "the page says how the runner ended");
    }
    let context = context();
    let ran = report(&context, &["r", "--", "sh", "-c", &writes(CLEAN, "exit 3")]);
    assert!(ran.stdout.ends_with("junit: failed, 2 tests; the runner exited with code 3\n"), "{ran:?}");
    // What is written as junit has it too: it would pass elsewhere.
    report(&context, &["r", "--junit", "out/all.xml", "--runner-exit", "3"]);
    assert_eq!(report(&context, &["out/all.xml"]).code, Some(1));
}

#[test]
fn a_runner_that_cannot_be_started_or_writes_nothing_is_no_pass() {
    let context = context();
    context.write("r/a.xml", CLEAN);
    context.write("x", "no program");
    for program in ["no-such-runner", "./x", "./r"] {
        report(&context, &["r", "--verdict", "v.json", "--", program])
            .ends(1, format!("cannot start `{program}`, which should run the tests"))
            .says("hint: ");
    }
    assert!(!context.path("v.json").exists());
    report(&context, &["new", "--", "true"]).ends(1, "the runner wrote no `new`");
}

#[test]
fn the_output_of_the_runner_is_its_own() {
    let command = writes(CLEAN, "printf 'to \\033[1mstdout'; printf 'to stderr' >&2; cat");
    let context = context();
    let ran = report(&context, &["r", "--", "sh", "-c", &command]);
    assert!(ran.stdout.starts_with("to \u{1b}[1mstdout"), "{ran:?}");
    assert!(ran.stderr.contains("to stderr"), "{ran:?}");
    let ran = report(&context, &["r", "--json", "--", "sh", "-c", &command]);
    assert!(ran.stderr.contains("to \u{1b}[1mstdout") && ran.stdout.starts_with('{'), "{ran:?}");
}

#[test]
fn a_runner_has_a_time_limit_and_hears_ctrl_c() {
    let context = context();
    let begin = Instant::now();
    let command = writes(CLEAN, "sleep 333");
    report(&context, &["r", "--timeout", "1", "--", "sh", "-c", &command])
        .exits(1)
        .prints("junit: failed, 2 tests; the runner ran longer than 1 s and was ended");
    assert!(begin.elapsed() < Duration::from_mins(1));
    // A shell cannot catch a signal that was ignored when it started, as in some job systems.
    let heard = "import pathlib, signal, sys, time\n\
                 signal.signal(signal.SIGINT, lambda *_: sys.exit(pathlib.Path('heard').touch()))\n\
                 pathlib.Path('began').touch()\n\
                 time.sleep(60)\n";
    let mut child = Command::new(env!("CARGO_BIN_EXE_rocwheel"))
        .args(["test", "report", "r", "--verdict", "v.json", "--", "python3", "-c", heard])
        .current_dir(context.directory())
        .spawn()
        .unwrap();
    while !context.path("began").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(context.path("heard").exists() && !context.path("v.json").exists());
}

#[test]
fn the_exit_code_of_a_runner_is_a_number_or_unknown() {
    let context = context();
    context.write("r/a.xml", CLEAN);
    for (text, code) in
        [("0", 0), ("00", 0), ("1", 1), ("137", 1), ("4294967295", 1), ("unknown", 0), ("-1", 2), ("x", 2), ("", 2)]
            .into_iter()
            .chain([("4294967296", 2), ("+1", 2), ("0x0", 2), ("1.0", 2), ("Unknown", 2)])
    {
        let ran = report(&context, &["r", "--runner-exit", text]);
        assert_eq!(ran.code, Some(code), "{text}: {ran:?}");
        assert_eq!(ran.stderr.contains("an exit code from 0 to 4294967295 is expected"), code == 2, "{text}: {ran:?}");
    }
    assert_eq!(report(&context, &["r", "--runner-exit", "0", "--", "true"]).code, Some(2), "the command has its own");
    assert_eq!(report(&context, &["r", "--timeout", "3"]).code, Some(2), "nothing runs");
    context.write("rocwheel.toml", "[test.report]\nrunner-exit = 0\n");
    let ran = report(&context, &["r"]);
    assert_eq!((ran.code, ran.stderr.contains("`runner-exit`")), (Some(2), true), "it is of one run: {ran:?}");
}

#[test]
fn reports_that_are_older_than_the_runner_are_not_read() {
    let old = CLEAN.replace(r#"name="b""#, r#"name="old""#);
    let copy = "touch -d 2020-01-01 r/old.xml";
    for (files, command, code, words) in [
        // The same file is written again.
        (&[("r/a.xml", FAILED)][..], writes(CLEAN, "true"), 0, ""),
        // Another file, whose tests the new one has.
        (
            &[("r/old.xml", CLEAN)],
            writes(CLEAN, "true"),
            0,
            "`r/old.xml` is older than the start of the runner, and is not read; new reports have all of its tests",
        ),
        (&[("r/old.xml", FAILED)], writes(CLEAN, "true"), 0, "new reports have all of its tests"),
        // One of whose tests nothing is known now.
        (
            &[("r/old.xml", &*old)],
            writes(CLEAN, "true"),
            1,
            "and is not read; no new report has 1 test of it: `c::old`",
        ),
        (&[("r/old.xml", CLEAN)], "true".to_owned(), 1, "no new report has 2 tests of it: `c::a`, `c::b`"),
        (&[("r/old.xml", "<testsuites><testsuite><testcase")], writes(CLEAN, "true"), 1, "it is damaged"),
        (&[("r/package.json", "{}")], writes(CLEAN, "true"), 0, ""),
        // A copy from a cache keeps its time.
        (&[("cache/old.xml", CLEAN)], format!("mkdir r; cp cache/old.xml r; {copy}"), 1, "no new report has 2 tests"),
    ] {
        let context = context();
        for (name, text) in files {
            context.write(name, text);
        }
        let ran = report(&context, &["r", "--", "sh", "-c", &command]);
        assert_eq!(ran.code, Some(code), "{files:?} {command}: {ran:?}");
        assert!(ran.stderr.contains(words), "{files:?} {command}: {ran:?}");
    }
}

#[test]
fn tests_that_an_earlier_run_had_are_not_run_if_they_are_absent() {
    let context = context();
    context.write("r/a.xml", CLEAN);
    context.write("torch-2.9-py3-none-any.whl", "bytes");
    let wheel = ["--wheel", "torch-2.9-py3-none-any.whl", "--runner-exit", "0"];
    for (name, more) in [("ids.json", &["--ids"][..]), ("numbers.json", &[])] {
        let words = [&["r", "--verdict", name][..], &wheel, more].concat();
        assert_eq!(report(&context, &words).code, Some(0));
    }
    let census = predicate(&context.path("ids.json"))["census"].take();
    // As `printf 'c::a\nc::b\n' | sha256sum` says.
    let sha256 = context.python("import hashlib; print(hashlib.sha256(b'c::a\\nc::b\\n').hexdigest())", &[]);
    assert_eq!(census["junit"], serde_json::json!({ "tests": 2, "sha256": sha256, "ids": ["c::a", "c::b"] }));
    assert_eq!(predicate(&context.path("numbers.json"))["census"]["junit"]["ids"], Value::Null);
    context.write("report.json", report(&context, &["r", "--json"]).stdout);
    context.write("ids.txt", "c::b\r\n\nc::a\n");
    let files = ["ids.json", "numbers.json", "report.json", "ids.txt"];
    for file in files {
        assert_eq!(report(&context, &["r", "--expect", file]).code, Some(0), "{file}: nothing is absent");
    }
    let (fewer, more) = (CLEAN.replace(r#"<testcase classname="c" name="b"/>"#, ""), CLEAN.replace("\"b\"", "\"z\""));
    for (xml, not_run, words) in [
        (
            fewer,
            1,
            [" of `FILE` is absent: `c::b`", "`FILE` has 2 tests of `junit`, and now there are 1: at least 1 are"],
        ),
        (
            more,
            1,
            [" of `FILE` is absent: `c::b`", "`junit` has other tests than the 2 of `FILE`, which does not name them"],
        ),
        (
            CLEAN.replace("classname=\"c", "classname=\"d"),
            2,
            [" of `FILE` are absent: `c::a`, `c::b`", "`junit` has other tests"],
        ),
    ] {
        context.write("r/a.xml", xml);
        for file in files {
            let has_ids = file != "numbers.json";
            let ran = report(&context, &["r", "--allow-not-run", "--json", "--expect", file]);
            assert_eq!(ran.code, Some(1), "{file}: {ran:?}");
            let found = document(&ran);
            let expected = words[usize::from(!has_ids)].replace("FILE", file);
            assert!(found["gaps"][0].as_str().unwrap().contains(&expected), "{file}: {}", found["gaps"]);
            assert_eq!(found["result"], "incomplete");
            assert_eq!(found["counts"]["not_run"].as_u64(), has_ids.then_some(not_run), "{file}");
        }
    }
}

#[test]
fn a_file_that_names_no_test_is_no_expectation() {
    let context = context();
    context.write("r/a.xml", CLEAN);
    context.write("binary", [0xff, 0xfe, 0]);
    context.write("old.json", r#"{"_type": "x", "subject": [], "predicateType": "y", "predicate": {"suite": "s"}}"#);
    context.write("none.json", r#"{"_type": "x", "subject": [], "predicateType": "y", "predicate": {"census": {}}}"#);
    for (file, text, words) in [
        ("missing.txt", None, "there is no `missing.txt`"),
        ("r", None, "cannot read `r`"),
        ("empty.txt", Some(""), "`empty.txt` does not say which tests are expected: it has no test"),
        ("blank.txt", Some("\n  \n"), "it has no test"),
        ("list.json", Some("[1]"), "it is JSON, but no object"),
        ("cut.json", Some("{\"report\": {"), "`cut.json` does not say which tests are expected: EOF"),
        ("other.json", Some("{\"a\": 1}"), "it is neither a verdict nor the output of `test report --json`"),
        ("binary", None, "it is neither JSON nor text in UTF-8"),
        ("old.json", None, "it is a verdict that does not say which tests there were"),
        ("none.json", None, "it has no test"),
        ("payload.json", Some("{\"payload\": \"!\"}"), "`payload.json` does not say which tests are expected"),
    ] {
        if let Some(text) = text {
            context.write(file, text);
        }
        let ran = report(&context, &["r", "--expect", file, "--", "touch", "ran"]);
        assert_eq!(ran.code, Some(1), "{file}: {ran:?}");
        assert!(ran.stderr.contains(words), "{file}: {ran:?}");
        assert!(!context.path("ran").exists(), "the tests would run for nothing");
    }
}

#[test]
fn a_verdict_says_how_its_runner_ended() {
    let context = context();
    context.write("torch-2.9-py3-none-any.whl", "bytes");
    context.write("r/a.xml", CLEAN);
    let about = ["r", "--wheel", "torch-2.9-py3-none-any.whl", "--verdict", "v.json"];
    let warning = "the verdict says that the exit code of the runner is unknown, and gates refuse that";
    for (more, code, runner, result, warns) in [
        (&[][..], 0, r#"{"end":"unknown"}"#, "passed", true),
        (&["--runner-exit", "unknown"], 0, r#"{"end":"unknown"}"#, "passed", false),
        (&["--runner-exit", "0"], 0, r#"{"end":"exited","code":0}"#, "passed", false),
        (&["--runner-exit", "5"], 1, r#"{"end":"exited","code":5}"#, "failed", false),
        (&["--", "touch", "r/a.xml"], 0, r#"{"end":"exited","code":0}"#, "passed", false),
    ] {
        let ran = report(&context, &[&about[..], more].concat());
        assert_eq!(ran.code, Some(code), "{more:?} {ran:?}");
        assert_eq!(ran.stderr.contains(warning), warns, "{more:?} {ran:?}");
        let found = predicate(&context.path("v.json"));
        assert_eq!(found["runner"], serde_json::from_str::<Value>(runner).unwrap(), "{more:?}");
        assert_eq!(found["result"], result, "{more:?}");
    }
    // A suite that rocwheel runs itself says it in its events.
    context.write("ok.sh", "#!/bin/sh\n");
    rocwheel_fixtures::make_program(&context.path("ok.sh"));
    assert_eq!(context.types("test suite --as script ./ok.sh").code, Some(0));
    let ran = report(&context, &["test-results", "--wheel", "torch-2.9-py3-none-any.whl", "--verdict", "v.json"]);
    assert_eq!((ran.code, ran.stderr.contains(warning)), (Some(0), false), "{ran:?}");
    assert_eq!(predicate(&context.path("v.json"))["runner"]["end"], "supervised");
}
