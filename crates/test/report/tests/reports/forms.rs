//! The dialects of spec 3.4.

use rocwheel_report::outcome::TestOutcome::{
    Crashed, Error, ExpectedFailure, Failed, NotRun, Passed, Skipped, TimedOut, Unknown,
};
use rocwheel_report::{ReportResult, write_junit};

use crate::{Reports, junit, read_paths, result, rows};

/// As pytest 9 writes it with `-o junit_family=xunit2`, shortened.
const PYTEST: &str = r#"<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest"
 errors="1" failures="1" skipped="2" tests="5" time="0.1" timestamp="2026-11-23T12:00:00.1+00:00" hostname="h">
<testcase classname="tests.test_a.TestX" name="test_pass[1-x::y]" time="0.001" />
<testcase classname="tests.test_a" name="test_fail" time="0.002"><failure message="assert 1 == 2">def test_fail():
&gt; assert 1 == 2</failure></testcase>
<testcase classname="tests.test_a" name="test_skip" time="0"><skipped type="pytest.skip" message="no GPU">a.py:3</skipped></testcase>
<testcase classname="tests.test_a" name="test_known" time="0"><skipped type="pytest.xfail" message="bug 1" /></testcase>
<testcase classname="tests.test_a" name="test_clean_up" time="0.003" />
<testcase classname="tests.test_a" name="test_clean_up" time="0.003"><error message="failed on teardown with &quot;E&quot;">t</error></testcase>
</testsuite></testsuites>"#;

#[test]
fn pytest_has_node_ids_and_one_test_for_a_failed_clean_up() {
    let report = junit(PYTEST);
    assert_eq!(
        rows(&report),
        [
            ("tests/test_a.py::TestX::test_pass[1-x::y]", Passed, 1),
            ("tests/test_a.py::test_clean_up", Error, 1),
            ("tests/test_a.py::test_fail", Failed, 1),
            ("tests/test_a.py::test_known", ExpectedFailure, 1),
            ("tests/test_a.py::test_skip", Skipped, 1),
        ]
    );
    let failed = report.tests.iter().find(|test| test.outcome == Failed).unwrap();
    assert_eq!(failed.last_message(), Some("assert 1 == 2"));
    assert!(failed.attempts[0].output.as_deref().unwrap().contains("> assert 1 == 2"));
    assert_eq!(result(&report), ReportResult::Failed);
}

#[test]
fn retries_of_pytorch_surefire_and_nextest_are_tries() {
    let pytorch = r#"<testsuites><testsuite name="pytest" tests="1" timestamp="2026-01-01T00:00:00">
        <testcase classname="TestA" name="test_x" file="test_a.py" time="1"><rerun message="boom">trace</rerun></testcase>
        </testsuite></testsuites>"#;
    let report = junit(pytorch);
    assert_eq!(rows(&report), [("test_a.py::TestA::test_x", Passed, 2)]);
    assert!(report.tests[0].flaky && result(&report) == ReportResult::Passed);
    let surefire = r#"<testsuite name="com.example.A" tests="3"><properties><property name="os" value="x"/></properties>
        <testcase name="flaky" classname="com.example.A" time="1,234.5"><flakyFailure message="m" type="T">
          <stackTrace>s</stackTrace><system-out>o</system-out></flakyFailure></testcase>
        <testcase name="bad" classname="com.example.A"><failure message="1" type="T">s</failure>
          <rerunFailure message="2" type="T"/><rerunError message="3" type="T"/></testcase>
        <testcase name="good" classname="com.example.A" time="NaN"/></testsuite>"#;
    let report = junit(surefire);
    assert_eq!(
        rows(&report),
        [("com.example.A::bad", Failed, 3), ("com.example.A::flaky", Passed, 2), ("com.example.A::good", Passed, 1)]
    );
    assert_eq!(report.tests[1].attempts[1].seconds, Some(1234.5));
    let in_vain = r#"<testsuite name="A" tests="1"><testcase name="bad" classname="A"><rerunFailure message="2" type="T"/>
        </testcase></testsuite>"#;
    assert_eq!(rows(&junit(in_vain)), [("A::bad", Failed, 2)]);
    let nextest = r#"<testsuites name="nextest-run" tests="2" failures="1" uuid="a"><testsuite name="crate::bin" tests="2">
        <testcase name="tests::works" classname="crate::bin" timestamp="2026-01-01T00:00:00Z" time="0.1"/>
        <testcase name="tests::dies" classname="crate::bin"><failure type="test abort" message="aborted with signal 6"/></testcase>
        </testsuite></testsuites>"#;
    assert_eq!(
        rows(&junit(nextest)),
        [("crate::bin::tests::dies", Crashed, 1), ("crate::bin::tests::works", Passed, 1)]
    );
}

#[test]
fn gtest_ctest_and_absl_are_read() {
    let reports = Reports::new();
    reports.write(
        "rocblas-test.xml",
        r#"<testsuites tests="4" failures="1" disabled="1" name="AllTests"><testsuite name="A/0" tests="4">
        <testcase name="one" value_param="3" status="run" result="completed" time="0.1" classname="A/0"/>
        <testcase name="two" status="run" result="completed" time="0.1" classname="A/0"><failure message="x" type=""/></testcase>
        <testcase name="off" status="notrun" result="suppressed" time="0" classname="A/0"/>
        <testcase name="skip" status="run" result="skipped" time="0" classname="A/0"><skipped message="s"/></testcase>
        </testsuite></testsuites>"#,
    );
    reports.write(
        "ctest.xml",
        r#"<testsuite name="Linux-c++" tests="4" failures="2" disabled="1" skipped="0" hostname="" time="0" timestamp="2026-01-01T00:00:00">
        <testcase name="a" classname="a" time="0.01" status="run"><system-out>hi</system-out></testcase>
        <testcase name="b" classname="b" time="0.01" status="fail"><failure message="SEGFAULT"/><system-out/></testcase>
        <testcase name="c" classname="c" time="0.01" status="fail"><failure message="Timeout"/></testcase>
        <testcase name="d" classname="d" time="0" status="notrun"><skipped message="Unable to find executable"/></testcase>
        </testsuite>"#,
    );
    reports.write(
        "hipblaslt.json",
        r#"{"tests": 2, "failures": 1, "disabled": 0, "errors": 0, "timestamp": "2026-01-01T00:00:00Z", "time": "1s",
        "name": "AllTests", "testsuites": [{"name": "B", "tests": 2, "testsuite": [
        {"name": "x", "status": "RUN", "result": "COMPLETED", "time": "0.5s", "classname": "B"},
        {"name": "y", "status": "RUN", "result": "COMPLETED", "time": "0.5s", "classname": "B",
         "failures": [{"failure": "f.cpp:3\nExpected 1", "type": ""}]}]}]}"#,
    );
    reports.write(
        "absl.xml",
        r#"<testsuites><testsuite name="outer"><testsuite name="T"><testcase name="p" classname="T"/>
        <testcase name="p" classname="T"><failure message="second parameter"/></testcase></testsuite></testsuite></testsuites>"#,
    );
    let report = reports.read();
    let rows: Vec<_> = report.tests.iter().map(|test| (test.suite.as_ref(), test.id.as_str(), test.outcome)).collect();
    assert_eq!(
        rows,
        [
            ("ctest", "a", Passed),
            ("ctest", "b", Crashed),
            ("ctest", "c", TimedOut),
            ("ctest", "d", NotRun),
            ("hipblaslt", "B.x", Passed),
            ("hipblaslt", "B.y", Failed),
            ("junit", "T::p", Passed),
            ("junit", "T::p#2", Failed),
            ("rocblas-test", "A/0.off", Skipped),
            ("rocblas-test", "A/0.one", Passed),
            ("rocblas-test", "A/0.skip", Skipped),
            ("rocblas-test", "A/0.two", Failed),
        ]
    );
}

#[test]
fn the_same_report_counts_once() {
    let reports = Reports::new();
    reports.write("one/r.xml", PYTEST);
    reports.write("two/r.xml", PYTEST);
    let report = reports.read();
    assert_eq!((report.tests.len(), report.runs.len()), (5, 1));
    assert!(report.problems.iter().any(|problem| problem.message.contains("counts once")));
    assert!(report.tests.iter().all(|test| test.attempts.len() == 1));
}

#[test]
fn folders_named_after_shards_have_to_be_all_there() {
    let reports = Reports::new();
    let case =
        |name: &str| format!("<testsuite name=\"pytest\"><testcase classname=\"test_a\" name=\"{name}\"/></testsuite>");
    reports.write("test-reports-my-config-1-2/python-pytest/test_a/r.xml", case("test_x"));
    assert_eq!(reports.result(), ReportResult::Incomplete);
    assert!(reports.read().gaps(&reports.options)[0].contains("shard 2 of 2 of `my-config`"));
    reports.write("test-reports-my-config-2-2/python-pytest/test_a/r.xml", case("test_y"));
    let report = reports.read();
    assert_eq!(result(&report), ReportResult::Passed);
    assert_eq!((report.tests[0].suite.as_ref(), report.tests[0].id.as_str()), ("my-config", "test_a.py::test_x"));
}

#[test]
fn our_junit_is_read_back_as_it_was() {
    let reports = Reports::new();
    reports.write("r.xml", PYTEST);
    reports.write(
        "s.xml",
        r#"<testsuite name="s"><testcase name="a" classname="c"><flakyFailure message="&#27;[31m ]]&gt; &lt;b&gt;"/></testcase></testsuite>"#,
    );
    let first = reports.read();
    let mut bytes = Vec::new();
    write_junit(&first, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("<flakyFailure") && !text.contains('\u{1b}'), "{text}");
    let second = junit(&text);
    let count = |report: &rocwheel_report::TestReport| {
        let counts = report.counts();
        (counts.total, counts.of(Passed), counts.of(Failed), counts.of(Error), counts.flaky)
    };
    assert_eq!(count(&first), count(&second));
    assert_eq!(count(&second), (6, 2, 1, 1, 1));
}

#[test]
fn two_programs_of_gtest_that_write_files_of_one_name_are_two_suites() {
    let file = |child: &str, second: u32| {
        format!(
            r#"<testsuites tests="1" timestamp="2026-11-26T06:42:5{second}" name="AllTests"><testsuite name="Sanity" tests="1">
            <testcase name="Basic" status="run" result="completed" classname="Sanity">{child}</testcase></testsuite></testsuites>"#
        )
    };
    let mut reports = Reports::new();
    reports.write("one/results.xml", file("<failure message='x'/>", 1));
    reports.write("two/results.xml", file("", 2));
    let report = reports.read();
    let found: Vec<_> = report.tests.iter().map(|test| (test.suite.as_ref(), test.outcome)).collect();
    assert_eq!(found, [("one/results", Failed), ("two/results", Passed)]);
    // Under one name they are still two programs.
    reports.options.suite = Some("all".to_owned());
    assert_eq!(reports.result(), ReportResult::Failed);
    let mut reports = Reports::new();
    reports.write("one.xml", file("<failure message='x'/>", 1));
    reports.write("two.xml", file("", 2));
    reports.options.suite = Some("all".to_owned());
    assert_eq!(reports.result(), ReportResult::Failed);
}

#[test]
fn a_status_alone_is_an_outcome() {
    let case = |attributes: &str| {
        let text = format!(
            "<testsuite name='b' tests='2'><testcase classname='b' name='good'/>\
             <testcase classname='c' name='x' {attributes}><system-out>o</system-out></testcase></testsuite>"
        );
        junit(text).tests.into_iter().find(|test| test.id != "b::good" && test.id != "good").unwrap().outcome
    };
    for (attributes, expected) in [
        ("status='failed'", Failed),
        ("status='fail'", Failed),
        ("result='Failure'", Failed),
        ("status='error'", Error),
        ("status='timeout'", TimedOut),
        ("status='skipped'", Skipped),
        ("status='disabled'", Skipped),
        ("status='notrun'", NotRun),
        ("status='run' result='completed'", Passed),
        ("status='notrun' result='suppressed'", Skipped),
        ("status='passed'", Passed),
        ("status='KO'", Unknown),
        ("status='run' result='NOK'", Unknown),
        ("status='0'", Unknown),
        ("status='killed'", Crashed),
        ("status='completed' result='failed'", Failed),
    ] {
        assert_eq!(case(attributes), expected, "{attributes}");
    }
}

/// As GoogleTest 1.8 writes it.
#[test]
fn gtest_without_results_is_read() {
    let reports = Reports::new();
    let text = r#"<testsuites tests="3" failures="0" disabled="1" errors="0" name="AllTests"><testsuite name="Math" tests="3">
        <testcase name="Adds" status="run" time="0" classname="Math" />
        <testcase name="DISABLED_Divides" status="notrun" time="0" classname="Math" />
        <testcase name="Never" status="notrun" time="0" classname="Math" /></testsuite></testsuites>"#;
    reports.write("prog.xml", text);
    let report = reports.read();
    assert_eq!(report.tests[0].suite.as_ref(), "prog");
    assert_eq!(
        rows(&report),
        [("Math.Adds", Passed, 1), ("Math.DISABLED_Divides", Skipped, 1), ("Math.Never", NotRun, 1)]
    );
}

#[test]
fn our_junit_keeps_identities_and_outcomes() {
    let reports = Reports::new();
    reports.write("r.xml", PYTEST);
    reports.write("g.xml", r#"<testsuites name="own"><testsuite name="s"><testcase name="x" classname="own"/>
        <testcase name="late" classname="c"><failure type="timeout"/><rerunFailure type="test abort"/></testcase>
        <testcase name="never" classname="c" status="notrun"/><testcase name="wonder" classname="c" status="unexpected_pass"/>
        </testsuite></testsuites>"#);
    let kept = |report: &rocwheel_report::TestReport| -> Vec<(String, String, String)> {
        let words = |test: &rocwheel_report::ReportedTest| {
            let tries: Vec<&str> = test.attempts.iter().map(|attempt| attempt.outcome.word()).collect();
            (test.suite.to_string(), test.id.clone(), tries.join(" "))
        };
        report.tests.iter().map(words).collect()
    };
    let first = reports.read();
    let merged = reports.path("merged.xml");
    write_junit(&first, fs_err::File::create(&merged).unwrap()).unwrap();
    assert_eq!(kept(&first), kept(&read_paths(&[&merged])));
    let own = |id: &str, tries: &str| ("own".to_owned(), id.to_owned(), tries.to_owned());
    for expected in [own("own::x", "passed"), own("c::late", "crashed timed_out"), own("c::never", "not_run")] {
        assert!(kept(&first).contains(&expected), "{expected:?} {:?}", kept(&first));
    }
}

#[test]
fn our_junit_of_an_incomplete_report_is_no_pass() {
    let reports = Reports::new();
    let interrupted = r#"<testcase name="a" classname="t"/><testcase time="0.000" />"#;
    reports.write("r.xml", format!(r#"<testsuite name="pytest" tests="2">{interrupted}</testsuite>"#));
    let first = reports.read();
    assert_eq!(result(&first), ReportResult::Incomplete);
    let merged = reports.path("merged.xml");
    write_junit(&first, fs_err::File::create(&merged).unwrap()).unwrap();
    let again = read_paths(&[&merged]);
    assert_eq!(result(&again), ReportResult::Incomplete, "{:?}", rows(&again));
    let text = fs_err::read_to_string(&merged).unwrap();
    assert!(text.contains(r#"tests="2" failures="0" errors="1""#), "{text}");
}
