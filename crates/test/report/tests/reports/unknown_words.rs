//! A word, element, root or number that is not known is no pass, and what a file announces has to
//! be in it.

use rocwheel_report::outcome::TestOutcome::{Passed, Unknown};
use rocwheel_report::{ReportOptions, ReportResult, write_html, write_junit};

use crate::{Reports, gaps, junit, read_paths, result, rows};

fn suite(attributes: &str, inner: &str) -> String {
    format!(
        "<testsuites><testsuite name='s' {attributes}><testcase classname='c' name='ok'/>{inner}</testsuite></testsuites>"
    )
}

#[test]
fn what_is_not_known_of_a_test_is_named_and_no_pass() {
    for (inner, reason) in [
        ("<testcase classname='c' name='x' status='KO'/>", "`KO` is no word for an outcome"),
        ("<testcase classname='c' name='x' result='NOK'/>", "`NOK` is no word"),
        ("<testcase classname='c' name='x' status='KO'><skipped/></testcase>", "`KO` is no word"),
        ("<testcase classname='c' name='x' outcome='odd'/>", "`odd` is no word"),
        ("<testcase classname='c' name='x' success='perhaps'/>", "`perhaps` is no word"),
        ("<testcase classname='c' name='x' success='0'/>", "`0` is no word"),
        // PHPUnit 9.6, with or without `--fail-on-warning`.
        (
            "<testcase classname='c' name='x'><warning>no data</warning></testcase>",
            "`<warning>` is no element that is known",
        ),
        ("<testcase classname='c' name='x'><Failure/></testcase>", "`<Failure>`"),
        ("<testcase classname='c' name='x'><skipped/><broken/></testcase>", "`<broken>`"),
    ] {
        let report = junit(suite("", inner));
        assert_eq!(rows(&report), [("c::ok", Passed, 1), ("c::x", Unknown, 1)], "{inner}");
        assert_eq!(result(&report), ReportResult::Incomplete, "{inner}");
        assert!(gaps(&report).contains("1 test has no outcome that is known, such as `c::x`"), "{}", gaps(&report));
        assert!(gaps(&report).contains(reason), "{}", gaps(&report));
        let allowed = ReportOptions { allow_not_run: true, ..ReportOptions::default() };
        assert_eq!(report.result(&allowed), ReportResult::Incomplete);
    }
    for word in ["outcome='failed'", "state='error'", "success='False'", "passed='false'", "conclusion='failure'"] {
        let report = junit(suite("", &format!("<testcase classname='c' name='x' {word}/>")));
        assert_eq!(result(&report), ReportResult::Failed, "{word}");
    }
    // A failure beside it is one.
    let report = junit(suite("", "<testcase classname='c' name='x'><warning/><failure/></testcase>"));
    assert_eq!(result(&report), ReportResult::Failed);
}

#[test]
fn what_a_suite_announces_is_in_it() {
    let two = "<testcase classname='c' name='two'/>";
    let skip = "<testcase classname='c' name='two'><skipped/></testcase>";
    for (attributes, inner, words) in [
        ("tests='3'", two, "announces 3 tests and has 2"),
        // bats 1.8, of which a test was killed.
        ("tests='1'", two, "announces 1 test and has 2"),
        ("tests='2' failures='1'", two, "announces 1 failure and has 0"),
        ("tests='2' skipped='1'", two, "announces 1 skipped test and has 0"),
        ("tests='2' skips='1'", two, "announces 1 skipped test and has 0"),
        ("tests='2' skipped='0'", skip, "announces 0 skipped tests and has 1"),
        ("tests='2' warnings='1'", two, "announces `warnings` 1, and 0 did not pass"),
        ("tests='2' failed='1'", two, "announces `failed` 1, and 0 did not pass"),
        ("tests='2' status='failed'", two, "says `failed`, and all tests in it passed"),
        ("tests='2' success='false'", two, "says `false`, and all tests in it passed"),
        ("tests='2' result='KO'", skip, "says `KO`, which is not known"),
        ("tests='2' failures='some'", two, "announces `failures` as `some`, which is no number"),
        ("tests='2'", "<testcase classname='c' name='two'/><verdict>bad</verdict>", "has an element `verdict`"),
    ] {
        let report = junit(suite(attributes, inner));
        assert_eq!(result(&report), ReportResult::Incomplete, "{attributes} {inner}");
        assert!(gaps(&report).contains(words), "{attributes}: {}", gaps(&report));
        assert!(!report.runs[0].complete);
    }
    for (attributes, inner) in [
        ("tests='2' skipped='1' failures='0' warnings='0'", skip),
        ("tests='' skipped=''", two),
        ("tests='2' result='completed' success='2' passed='1'", skip),
        ("tests='2' result='skipped'", skip),
        (
            "tests='2'",
            "<properties><property name='a'><b/></property></properties><testcase classname='c' name='two'/><system-out/>",
        ),
    ] {
        assert_eq!(result(&junit(suite(attributes, inner))), ReportResult::Passed, "{attributes} {inner}");
    }
}

#[test]
fn a_file_of_a_form_that_is_not_known_is_no_reason_to_look_away() {
    let good = suite("tests='1'", "");
    for (name, text, words) in [
        ("r.xml", "<testExecutions version='1'/>", "is a report of SonarQube's generic form, which is not read"),
        ("r.xml", "<outcome failed='3'/>", "has the root `outcome`, which is not known"),
        ("r.xml", "<results><test result='failed'/></results>", "has the root `results`, which is not known"),
        ("r.json", r#"{"stats": {"tests": 2}, "tests": [], "passes": [], "failures": []}"#, "is a report of mocha"),
        ("r.json", r#"{"examples": [], "summary": {}, "summary_line": "1 failure"}"#, "is a report of rspec"),
        ("r.json", r#"{"exitcode": 1, "tests": [{"outcome": "failed"}]}"#, "is a report of pytest-json-report"),
        ("r.json", r#"{"suites": [{"status": "ko"}]}"#, "is a report of a framework"),
        (
            "r.json",
            r#"{"result": "failed", "report": {"runs": [], "tests": []}}"#,
            "give the reports that it was made of",
        ),
        (
            "r.jsonl",
            "{\"type\": \"suite\", \"event\": \"started\"}\n{\"type\": \"test\", \"event\": \"failed\"}\n",
            "libtest",
        ),
    ] {
        let reports = Reports::new();
        reports.write("good.xml", &good);
        reports.write(name, text);
        let report = reports.read();
        assert_eq!(result(&report), ReportResult::Incomplete, "{text}");
        assert!(gaps(&report).contains(words), "{text}: {}", gaps(&report));
    }
    let reports = Reports::new();
    reports.write("good.xml", &good);
    reports.write("coverage.xml", "<!DOCTYPE coverage SYSTEM 'http://example.org/c.dtd'><coverage line-rate='1'/>");
    reports.write("cppcheck.xml", "<results version='2'><cppcheck version='2.9'/><errors/></results>");
    reports.write("package.json", r#"{"name": "x", "scripts": {"test": "jest"}}"#);
    reports.write("trace.jsonl", "{\"time\": 1}\n{\"time\": 2}\n");
    reports.write("Build.xml", "<Site Name='x'><Build><Error/></Build></Site>");
    let report = reports.read();
    assert_eq!((result(&report), report.problems.len()), (ReportResult::Passed, 5), "{:?}", report.problems);
    let named = read_paths(&[&reports.path("good.xml"), &reports.path("package.json")]);
    assert!(gaps(&named).contains("package.json` is no report of tests"));
}

#[test]
fn an_unknown_end_is_in_every_form_of_the_report() {
    let report = junit(suite("", "<testcase classname='c' name='x' status='KO'/>"));
    let mut page = Vec::new();
    write_html(&report, &ReportOptions::default(), "t", &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("<p class=\"verdict incomplete\">incomplete: 2 tests</p>"));
    assert!(page.contains("<td>unknown</td><td>c::x</td>") && page.contains("\"unknown\":1"), "{page}");
    let reports = Reports::new();
    let written = reports.path("merged.xml");
    write_junit(&report, fs_err::File::create(&written).unwrap()).unwrap();
    let text = fs_err::read_to_string(&written).unwrap();
    assert!(text.contains("<error type=\"unknown\"") && text.contains("errors=\"1\""), "{text}");
    let again = read_paths(&[&written]);
    assert_eq!((rows(&again), result(&again)), (rows(&report), ReportResult::Incomplete));
}
