//! Real reports of other programs, in `written_by/`.

use rocwheel_report::ReportResult;
use rocwheel_report::outcome::TestOutcome::{
    Crashed, Error, ExpectedFailure, Failed, NotRun, Passed, Skipped, TimedOut,
};

use crate::{Reports, result, rows};

fn reports(files: &[(&str, &str)]) -> Reports {
    let reports = Reports::new();
    for (name, text) in files {
        reports.write(name, text);
    }
    reports
}

#[test]
fn nextest_writes_every_try() {
    let report = reports(&[("a.xml", include_str!("written_by/nextest.xml"))]).read();
    assert_eq!(
        rows(&report),
        [
            ("sample::tests::bad", Failed, 2),
            ("sample::tests::dies", Crashed, 2),
            ("sample::tests::flaky", Passed, 2),
            ("sample::tests::good", Passed, 1),
            ("sample::tests::hangs", TimedOut, 2),
            ("sample::tests::prints_bytes", Failed, 2),
            ("sample::tests::should_panic", Failed, 2),
        ]
    );
    assert!(report.tests[2].flaky && report.problems.is_empty());
    let dead = &report.tests[1].attempts;
    assert!(dead.iter().all(|attempt| attempt.outcome == Crashed), "{dead:?}");
    let late = &report.tests[4].attempts;
    assert!(late.iter().all(|attempt| attempt.outcome == TimedOut), "{late:?}");
}

#[test]
fn surefire_announces_every_try_as_a_test() {
    let files = [
        ("TEST-a.xml", include_str!("written_by/surefire-SampleTest.xml")),
        ("TEST-b.xml", include_str!("written_by/surefire-SetUpTest.xml")),
    ];
    let report = reports(&files).read();
    assert_eq!(
        rows(&report),
        [
            ("com.example.SampleTest::bad", Failed, 3),
            ("com.example.SampleTest::error", Error, 3),
            ("com.example.SampleTest::flaky", Passed, 2),
            ("com.example.SampleTest::good", Passed, 1),
            ("com.example.SampleTest::skipped", Skipped, 1),
            ("com.example.SetUpTest", Error, 1),
        ]
    );
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let flaky = &report.tests[2];
    assert!(flaky.flaky);
    assert_eq!(flaky.attempts[0].message.as_deref(), Some("only at first"));
    assert!(flaky.attempts[0].output.as_deref().unwrap().contains("SampleTest.java"));
    // A number that fits neither the tests nor their tries is still reported.
    let lying = include_str!("written_by/surefire-SampleTest.xml").replace("tests=\"10\"", "tests=\"11\"");
    let report = reports(&[("TEST-a.xml", &lying)]).read();
    assert!(report.problems[0].message.contains("announces 11 tests and has 5"), "{:?}", report.problems);
}

#[test]
fn node_names_a_test_by_its_groups() {
    let report = reports(&[("a.xml", include_str!("written_by/node.xml"))]).read();
    assert_eq!(
        rows(&report),
        [
            ("/home/user/node/dies.test.mjs", Failed, 1),
            ("arithmetic > adds", Passed, 1),
            ("arithmetic > deeper > throws \"quotes\" & <tags> ]]>", Failed, 1),
            ("arithmetic > is known to fail", ExpectedFailure, 1),
            ("arithmetic > is wrong", Failed, 1),
            ("arithmetic > skips", Skipped, 1),
            ("set-up > never runs", Failed, 1),
            ("times out", TimedOut, 1),
            ("top level", Passed, 1),
        ]
    );
    assert_eq!(result(&report), ReportResult::Failed);
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    // A group announces its groups and not what is in them.
    let more = "<testcase name=\"more\" time=\"0\" classname=\"test\"/>";
    let deeper = include_str!("written_by/node.xml").replacen(
        "<testcase name=\"throws",
        &format!("{more}<testcase name=\"throws"),
        1,
    );
    let report =
        reports(&[("a.xml", &deeper.replace("tests=\"1\" failures=\"1\"", "tests=\"2\" failures=\"1\""))]).read();
    assert!(report.tests.iter().any(|test| test.id == "arithmetic > deeper > more"));
    assert!(!report.problems.iter().any(|problem| problem.message.contains("arithmetic")), "{:?}", report.problems);
}

/// green and subunit write no message, nose2 and behave one that says nothing.
#[test]
fn the_exception_is_the_reason_where_the_message_says_nothing() {
    let trace = "Traceback (most recent call last):\n  File \"a.py\", line 1, in b\n    assert 1 == 2\nValueError: first\n\n\
                 During handling of the above exception, another exception occurred:\n\n\
                 Traceback (most recent call last):\n  File \"a.py\", line 3, in c\n    d()\n\
                 AssertionError: 1 != 2\nmore of it\n";
    for message in ["", " message=\"\"", " message=\"None\"", " message=\"test failure\""] {
        let text = format!(
            "<testsuite name='s'><testcase classname='a' name='b'><failure{message}>{trace}</failure></testcase>\
             <testcase classname='a' name='c'><failure message='own'>{trace}</failure></testcase></testsuite>"
        );
        let report = reports(&[("a.xml", &text)]).read();
        let said: Vec<&str> = report.tests.iter().filter_map(|test| test.attempts[0].message.as_deref()).collect();
        assert_eq!(said, ["AssertionError: 1 != 2", "own"], "{message}");
    }
}

#[test]
fn scenarios_that_behave_did_not_reach_are_not_run() {
    let text = r#"<testsuite name="f.F" tests="3" errors="0" failures="0" skipped="1" time="0.1">
        <testcase classname="f.F" name="s1" status="passed" time="0.1"/>
        <testcase classname="f.F" name="s2" status="skipped" time="0"><skipped/></testcase>
        <testcase classname="f.F" name="s3" status="untested" time="0"><skipped/></testcase></testsuite>"#;
    let report = reports(&[("TESTS-f.xml", text)]).read();
    assert_eq!(rows(&report), [("f.F::s1", Passed, 1), ("f.F::s2", Skipped, 1), ("f.F::s3", NotRun, 1)]);
    assert_eq!(result(&report), ReportResult::Incomplete);
}

/// `--gtest_list_tests --gtest_output=xml:`.
#[test]
fn a_list_of_tests_of_gtest_is_no_run() {
    let list = r#"<testsuites tests="3" name="AllTests"><testsuite name="A" tests="2">
        <testcase name="ok" file="g.cpp" line="2"/><testcase name="DISABLED_d" file="g.cpp" line="3"/></testsuite>
        <testsuite name="B" tests="1"><testcase name="ok" value_param="1" file="g.cpp" line="4"/></testsuite></testsuites>"#;
    let report = reports(&[("prog.xml", list)]).read();
    assert_eq!(rows(&report), [("A.DISABLED_d", Skipped, 1), ("A.ok", NotRun, 1), ("B.ok", NotRun, 1)]);
    assert_eq!((report.tests[0].suite.as_ref(), result(&report)), ("prog", ReportResult::Incomplete));
    // A file with a time is the report of a run.
    let ran = list.replace("name=\"AllTests\"", "name=\"AllTests\" time=\"1\"");
    assert_eq!(result(&reports(&[("prog.xml", &ran)]).read()), ReportResult::Passed);
}

#[test]
fn what_lit_did_not_reach_was_not_run() {
    let text = r#"<testsuites time="4.36"><testsuite name="gpu" tests="3" failures="0" skipped="2" time="1.44">
        <testcase classname="gpu.gpu" name="t1.t" time="0.71"/>
        <testcase classname="gpu.gpu" name="t2.t" time="0.00"><skipped message="User interrupt"/></testcase>
        <testcase classname="gpu.gpu" name="t3.t" time="0.00"><skipped message="Missing required feature(s): x"/></testcase>
        </testsuite></testsuites>"#;
    let report = reports(&[("a.xml", text)]).read();
    assert_eq!(
        rows(&report),
        [("gpu.gpu::t1.t", Passed, 1), ("gpu.gpu::t2.t", NotRun, 1), ("gpu.gpu::t3.t", Skipped, 1)]
    );
    assert_eq!(result(&report), ReportResult::Incomplete);
}
