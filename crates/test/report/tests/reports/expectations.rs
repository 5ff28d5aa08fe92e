//! A failure that its framework expects is none, and an expectation that is not kept is one. Each
//! framework says it in its own place.

use rocwheel_report::ReportResult;
use rocwheel_report::outcome::TestOutcome::{
    Crashed, Error, ExpectedFailure, Failed, NotRun, Passed, Skipped, TimedOut, Unknown,
};

use crate::{Reports, gaps, junit, read_paths, result, rows};

/// As Catch2 2.13.10 writes it.
#[test]
fn catch2_says_that_a_test_may_fail_beside_its_failure() {
    let text = r#"<testsuites><testsuite name="a" errors="0" failures="0" tests="8" hostname="tbd" time="0.000">
        <testcase classname="a.global" name="ok" time="0.000" status="run"/>
        <testcase classname="a.global" name="may" time="0.000" status="run">
        <skipped message="TEST_CASE tagged with !mayfail"/><failure message="1 == 2" type="CHECK">x</failure></testcase>
        <system-out/><system-err/></testsuite></testsuites>"#;
    let report = junit(text);
    assert_eq!(rows(&report), [("a.global::may", ExpectedFailure, 1), ("a.global::ok", Passed, 1)]);
    assert_eq!(result(&report), ReportResult::Passed);
    let other = junit(text.replace("TEST_CASE tagged with !mayfail", "no GPU"));
    assert_eq!(result(&other), ReportResult::Failed);
}

/// As doctest 2.4.9 writes it. Its junit XML does not say which tests may fail; its own XML does.
#[test]
fn doctest_warns_without_a_failure() {
    let text = r#"<testsuites><testsuite name="./a" errors="0" failures="1" tests="5" time="0.1" doctest_version="2.4.9">
        <testcase classname="a.cpp" name="warn" time="0.1" status="run"><failure message="1 == 2" type="WARN">w</failure>
        </testcase></testsuite></testsuites>"#;
    assert_eq!((rows(&junit(text)), result(&junit(text))), (vec![("a.cpp::warn", Passed, 1)], ReportResult::Passed));
    assert_eq!(result(&junit(text.replace("\"WARN\"", "\"CHECK\""))), ReportResult::Failed);
    let own = r#"<doctest binary="./a" version="2.4.9"><Options/><TestSuite>
        <TestCase name="may" filename="a.cpp" line="5" may_fail="true"><Expression success="false" type="CHECK"/>
        <OverallResultsAsserts successes="0" failures="1" test_case_success="true"/></TestCase>
        <TestCase name="should" filename="a.cpp" line="6" should_fail="true">
        <OverallResultsAsserts successes="1" failures="0" test_case_success="false"/></TestCase>
        <TestCase name="skipped" filename="a.cpp" line="8" skipped="true"/></TestSuite>
        <OverallResultsTestCases successes="1" failures="1" skipped="1"/></doctest>"#;
    assert_eq!(rows(&junit(own)), [("may", ExpectedFailure, 1), ("should", Failed, 1), ("skipped", Skipped, 1)]);
}

/// As Boost 1.74 writes it: `tests` and `failures` count what was not expected.
#[test]
fn boost_counts_expected_failures_as_passes() {
    let file = |failures: u32, skip: &str| {
        format!(
            "<testsuite tests=\"2\" skipped=\"1\" errors=\"0\" failures=\"{failures}\" id=\"0\" name=\"demo\" time=\"0.1\">\
             <testcase assertions=\"1\" name=\"ok\" time=\"0.1\"/>\
             <testcase assertions=\"1\" name=\"expd\" time=\"0.1\"><failure message=\"failure\" type=\"assertion error\">\
             <![CDATA[ASSERTION FAILURE]]></failure></testcase>\
             <testcase assertions=\"0\" name=\"skip\" time=\"0\"><skipped/><system-out><![CDATA[Test case disabled because \
             of the following chain of decision:\n- disabled test unit: 'skip'\n- reason: '{skip}']]></system-out>\
             </testcase></testsuite>"
        )
    };
    let report = junit(file(0, "disabled"));
    assert_eq!(rows(&report), [("expd", ExpectedFailure, 1), ("ok", Passed, 1), ("skip", Skipped, 1)]);
    assert_eq!(result(&report), ReportResult::Passed, "{}", gaps(&report));
    assert_eq!(result(&junit(file(1, "disabled"))), ReportResult::Failed);
    // What is behind a crash has no reason.
    assert_eq!(rows(&junit(file(1, "")))[2], ("skip", NotRun, 1));
}

/// A report of GoogleTest 1.12.1 in which the set-up of the suite `S` failed, and the same as JSON.
#[test]
fn tests_of_gtest_that_never_began_are_no_skips() {
    let xml = |time: &str| {
        format!(
            r#"<testsuites tests="2" failures="0" disabled="0" errors="0" timestamp="2026-11-28T13:39:31.282" name="AllTests">
            <testsuite name="S" tests="2" failures="0" disabled="0" skipped="1" errors="0">
            <testcase name="ok" status="run" result="completed" time="0" timestamp="2026-11-28T13:39:31.282" classname="S"/>
            <testcase name="x" status="run" result="skipped" time="0" timestamp="{time}" classname="S">
            <skipped message="g.cpp:3&#x0A;"/></testcase></testsuite></testsuites>"#
        )
    };
    let json = |time: &str| {
        format!(
            r#"{{"tests": 2, "failures": 0, "testsuites": [{{"name": "S", "testsuite": [
            {{"name": "ok", "status": "RUN", "result": "COMPLETED", "timestamp": "2026-11-28T13:39:31Z", "classname": "S"}},
            {{"name": "x", "status": "RUN", "result": "SKIPPED", "timestamp": "{time}", "classname": "S"}}]}}]}}"#
        )
    };
    for (time, expected) in [
        ("1970-01-01T00:00:00.000", Unknown),
        // The time is that of the machine's zone.
        ("1969-12-31T19:00:00.000", Unknown),
        ("1970-01-01T09:30:00Z", Unknown),
        ("2026-11-28T13:39:31", Skipped),
    ] {
        for (name, text) in [("g.xml", xml(time)), ("g.json", json(time))] {
            let reports = Reports::new();
            reports.write(name, text);
            let report = reports.read();
            assert_eq!(rows(&report), [("S.ok", Passed, 1), ("S.x", expected, 1)], "{name} {time}");
            let is_good = expected == Skipped;
            assert_eq!(result(&report) == ReportResult::Passed, is_good, "{}", gaps(&report));
            assert_eq!(gaps(&report).contains("the set-up of its suite failed"), !is_good);
        }
    }
}

/// As Meson 1.0.1 writes both files.
const MESON_XML: &str = r#"<?xml version='1.0' encoding='utf-8'?><testsuites tests="5" errors="0" failures="0">
<testsuite name="demo" tests="4" errors="0" failures="0" skipped="0" time="0.1"><testcase name="demo:fast / ok" classname="demo" time="0.1" />
<testcase name="demo / sf" classname="demo" time="0.1" /><testcase name="demo / xpass" classname="demo" time="0.1" />
<testcase name="demo / slow" classname="demo" time="1.1" /></testsuite>
<testsuite name="demo.demo / tapplan" tests="1" errors="0" failures="0" skipped="0" time="0.1"><testcase name="1 - a" classname="demo.demo / tapplan" />
<system-out>1..1
ok 1 - a</system-out></testsuite></testsuites>"#;
const MESON_LOG: &str = r#"{"name": "demo:fast / ok", "stdout": "", "result": "OK", "duration": 0.1, "returncode": 0, "env": {}, "command": ["true"]}
{"name": "demo / sf", "stdout": "", "result": "EXPECTEDFAIL", "duration": 0.1, "returncode": 1, "env": {}, "command": ["false"]}
{"name": "demo / xpass", "stdout": "", "result": "UNEXPECTEDPASS", "duration": 0.1, "returncode": 0, "env": {}, "command": ["true"]}
{"name": "demo / slow", "stdout": "", "result": "TIMEOUT", "duration": 1.1, "returncode": -15, "env": {}, "command": ["sleep", "30"]}
{"name": "demo / killed", "stdout": "", "result": "FAIL", "duration": 0.1, "returncode": -9, "env": {}, "command": ["sh"]}
"#;

#[test]
fn the_log_of_meson_says_what_its_xml_does_not() {
    let reports = Reports::new();
    let xml = reports.write("testlog.junit.xml", MESON_XML);
    assert!(gaps(&reports.read()).contains("does not say which tests ran too long"));
    reports.write("testlog.json", MESON_LOG);
    // The log is read as well if the XML alone is named.
    for report in [reports.read(), read_paths(&[&xml])] {
        let found: Vec<_> = report.tests.iter().map(|test| (test.id.as_str(), test.outcome)).collect();
        assert_eq!(
            found,
            [
                ("demo / killed", Crashed),
                ("demo / sf", ExpectedFailure),
                ("demo / slow", TimedOut),
                ("demo / xpass", Failed),
                ("demo.demo / tapplan::1 - a", Passed),
                ("demo:fast / ok", Passed),
            ]
        );
        assert_eq!(gaps(&report), "");
    }
    // All is well; Meson needs no plan.
    let good = Reports::new();
    good.write("testlog.junit.xml", MESON_XML.replace("1..1\n", ""));
    let lines: Vec<&str> = MESON_LOG.lines().take(2).collect();
    good.write("testlog.json", lines.join("\n"));
    assert_eq!(good.result(), ReportResult::Passed, "{}", gaps(&good.read()));
}

#[test]
fn what_a_program_in_meson_printed_is_compared_with_its_tests() {
    let after = |end: &str| format!("ok 1 - a</system-out>{end}");
    for (text, reason) in [
        (MESON_XML.replace("1..1", "1..3"), "plans 3 tests and has 1"),
        (MESON_XML.replace("ok 1 - a</system-out>", "ok 1 - a\nBail out! gone</system-out>"), "bails out: gone"),
        (
            MESON_XML.replace(
                "ok 1 - a</system-out>",
                &after("<system-err>\n(test program exited with status code -9)</system-err>"),
            ),
            "exited with code -9",
        ),
    ] {
        let reports = Reports::new();
        reports.write("testlog.junit.xml", text);
        reports.write("testlog.json", MESON_LOG.lines().next().unwrap());
        let report = reports.read();
        let wrong = report.tests.iter().find(|test| test.outcome == Error).unwrap();
        assert_eq!(wrong.id, "demo.demo / tapplan");
        assert!(wrong.last_message().unwrap().contains(reason), "{:?}", wrong.last_message());
    }
}

/// mocha-junit-reporter writes no test cases of pending tests, and pytest marks what it expects.
#[test]
fn pending_and_expected_tests_are_no_passes() {
    let mocha = |tests: u32| {
        junit(format!(
            "<testsuites name='Mocha Tests' time='0.1' tests='{tests}' failures='0' skipped='2'><testsuite name='a' \
             tests='{tests}' file='a.js' failures='0'><testcase name='x' classname='x'/></testsuite></testsuites>"
        ))
    };
    assert_eq!((mocha(3).counts().of(Skipped), mocha(3).counts().of(Passed)), (2, 1));
    assert_eq!(result(&mocha(3)), ReportResult::Passed, "{}", gaps(&mocha(3)));
    assert!(gaps(&mocha(4)).contains("the file announces 4 tests"), "{}", gaps(&mocha(4)));
    let pytest = |child: &str| {
        junit(format!(
            "<testsuites name='pytest tests'><testsuite name='pytest' tests='2'><testcase classname='t' name='a'/>\
             <testcase classname='t' name='x'>{child}</testcase></testsuite></testsuites>"
        ))
    };
    assert_eq!(rows(&pytest("<skipped type='pytest.xfail' message='bug'/>"))[1].1, ExpectedFailure);
    assert_eq!(rows(&pytest("<failure message='[XPASS(strict)] bug'/>"))[1].1, Failed);
    // jest-junit writes a `todo` like a pass, and does not announce it.
    let jest = |times: [&str; 3]| {
        let cases = times.map(|time| format!("<testcase classname='a' name='at {time}' time='{time}'/>")).concat();
        junit(format!(
            "<testsuites name='jest tests' tests='2' failures='0' errors='0'><testsuite name='a' errors='0' failures='0' \
             skipped='0' tests='2'>{cases}</testsuite></testsuites>"
        ))
    };
    assert_eq!(rows(&jest(["0.001", "0", "0.2"]))[0], ("a::at 0", Skipped, 1));
    assert_eq!(result(&jest(["0.001", "0", "0.2"])), ReportResult::Passed);
    // Nobody knows which of two it is.
    assert_eq!(result(&jest(["0", "0", "0.2"])), ReportResult::Incomplete);
}

/// As TAP::Formatter::JUnit of prove writes it: a skipped test has no element.
#[test]
fn the_directives_of_tap_are_in_the_output_of_the_suite() {
    let file = |printed: &str| {
        junit(format!(
            "<testsuites><testsuite failures='0' tests='2' errors='0' name='a_t'><testcase name='1 - one'></testcase>\
             <testcase name='2 - two'></testcase><system-out><![CDATA[{printed}]]></system-out><system-err></system-err>\
             </testsuite></testsuites>"
        ))
    };
    for (printed, expected) in [
        ("1..2\nok 1 - one\nok 2 - two\n", Passed),
        ("1..2\nok 1 - one\nok 2 - two # SKIP no GPU\n", Skipped),
        ("1..2\nok 1 - one\nnot ok 2 - two # TODO later\n", ExpectedFailure),
    ] {
        let report = file(printed);
        assert_eq!(rows(&report), [("1 - one", Passed, 1), ("2 - two", expected, 1)], "{printed}");
        assert_eq!(result(&report), ReportResult::Passed, "{}", gaps(&report));
    }
    let all = file("1..2\nok 1 - one # SKIP no GPU\nok 2 - two # SKIP no GPU\n");
    assert_eq!(gaps(&all), "no test passed");
    assert_eq!(result(&file("1..3\nok 1 - one\nok 2 - two\n")), ReportResult::Failed);
    let succeeded = "<testsuite errors='1' tests='1' name='a'><testcase name='1 - a'><error type='TodoTestSucceeded'/></testcase></testsuite>";
    assert_eq!(result(&junit(succeeded)), ReportResult::Passed);
}
