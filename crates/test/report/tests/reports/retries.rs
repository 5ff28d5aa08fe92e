//! A pass undoes a failure only where somebody says that it is another try.

use rocwheel_report::ReportResult;
use rocwheel_report::outcome::TestOutcome::{Error, Failed, Passed, Skipped};

use crate::{Reports, gaps, junit, result, rows};

const BAD: &str = "<failure message='wrong'/>";

/// A report of pytest of one test, at a minute of an hour.
fn pytest(minute: u32, child: &str) -> String {
    format!(
        "<testsuites><testsuite name='pytest' tests='1' hostname='h' timestamp='2026-11-28T10:{minute:02}:00'>\
         <testcase classname='t' name='k'>{child}</testcase></testsuite></testsuites>"
    )
}

/// A file of another configuration has the name of the file, its folder, a property or the path of
/// its tests for a difference, or none.
#[test]
fn a_pass_in_another_report_undoes_a_failure_only_if_it_is_a_stated_try() {
    use ReportResult::{Failed as Bad, Passed as Good};
    let property = "name='pytest'><properties><property name='gpu' value='gfx942'/></properties>";
    for (first, second, change, unless_stated, stated) in [
        ("m/gfx942.xml", "m/gfx1100.xml", ("", ""), Bad, Bad),
        ("m/junit-py39.xml", "m/junit-py312.xml", ("", ""), Bad, Bad),
        ("m/junit-3.9.xml", "m/junit-3.12.xml", ("", ""), Bad, Bad),
        ("one/r.xml", "two/r.xml", ("", ""), Bad, Bad),
        ("m/r-1.xml", "m/r-2.xml", ("", ""), Bad, Good),
        ("m/r.xml", "m/r-rerun.xml", ("", ""), Bad, Good),
        ("m/r-1.xml", "m/r-2.xml", ("hostname='h'", "hostname='other'"), Bad, Bad),
        ("m/r-1.xml", "m/r-2.xml", ("name='pytest'", "name='pytest' file='b.spec.js'"), Bad, Bad),
        ("m/r-1.xml", "m/r-2.xml", ("timestamp=", "started="), Bad, Bad),
        (
            "m/r-1.xml",
            "m/r-2.xml",
            ("name='pytest' tests='1' hostname='h' timestamp='2026-11-28T10:05:00'>", property),
            Bad,
            Bad,
        ),
        // PyTorch's runner writes a report for each process.
        ("python-pytest/test_t/a-0a.xml", "python-pytest/test_t/a-1b.xml", ("", ""), Good, Good),
        ("python-pytest/test_t/a.xml", "python-pytest/test_u/a.xml", ("", ""), Bad, Bad),
    ] {
        let mut reports = Reports::new();
        reports.write(first, pytest(0, BAD));
        reports.write(second, pytest(5, "").replace(change.0, change.1));
        assert_eq!(reports.result(), unless_stated, "{first} {second} {change:?}");
        let said =
            reports.read().problems.iter().any(|problem| problem.message.contains("failed in one job and passed"));
        assert!(said || first.contains("python-pytest"), "{first}");
        reports.options.retries_in_folder = true;
        assert_eq!(reports.result(), stated, "stated: {first} {second} {change:?}");
        assert_eq!(reports.read().counts().flaky, u64::from(stated == Good));
    }
}

#[test]
fn one_test_is_one_and_not_several() {
    let reports = Reports::new();
    reports.write("a.xml", pytest(0, BAD));
    reports.write("b.xml", pytest(5, ""));
    let report = reports.read();
    let found = report.problems.iter().find(|problem| problem.message.contains("another report")).unwrap();
    assert!(found.message.starts_with("1 test failed in one job"), "{}", found.message);
}

/// A report of mocha, gotestsum or JSON of GoogleTest in each file: what differs is not said.
#[test]
fn reports_of_other_tools_do_not_undo_each_other() {
    let mocha = |file: &str, child: &str| {
        format!(
            "<testsuites name='Mocha Tests' tests='1'><testsuite name='page' timestamp='2026-11-28T10:0{}:00' tests='1' \
             file='{file}'><testcase name='page loads' classname='loads'>{child}</testcase></testsuite></testsuites>",
            u8::from(child.is_empty())
        )
    };
    let gtest = |result: &str, minute: u32| {
        format!(
            r#"{{"tests": 1, "timestamp": "2026-11-28T10:0{minute}:00Z", "testsuites": [{{"name": "A", "testsuite": [
            {{"name": "x", "status": "RUN", "result": "COMPLETED", "classname": "A"{result}}}]}}]}}"#
        )
    };
    for (first, second, extension) in [
        (mocha("a.spec.js", BAD), mocha("b.spec.js", ""), "xml"),
        (gtest(r#", "failures": [{"failure": "f"}]"#, 0), gtest("", 5), "json"),
    ] {
        for is_stated in [false, true] {
            let mut reports = Reports::new();
            reports.options.suite = Some("one".to_owned());
            reports.options.retries_in_folder = is_stated;
            reports.write(&format!("results-a.{extension}"), &first);
            reports.write(&format!("results-b.{extension}"), &second);
            assert_eq!(reports.result(), ReportResult::Failed);
        }
    }
}

/// As pytest 9.2 with pytest-rerunfailures 16.7 writes it (`--reruns 1`), shortened: it announces
/// subtests and clean-ups, and so more tests than it has cases.
const RERUNS: &str = r#"<testsuites name="pytest tests"><testsuite name="pytest" errors="2" failures="2" skipped="1" tests="25">
<testcase classname="test_f" name="test_ok" />
<testcase classname="test_f" name="test_skip_2nd" />
<testcase classname="test_f" name="test_skip_2nd"><skipped type="pytest.skip" message="gpu gone" /></testcase>
<testcase classname="test_f" name="test_flaky" />
<testcase classname="test_f" name="test_flaky" />
<testcase classname="test_f" name="test_td_flaky" />
<testcase classname="test_f" name="test_td_always" />
<testcase classname="test_f" name="test_td_flaky" />
<testcase classname="test_f" name="test_td_always"><error message="failed on teardown with &quot;OSError&quot;" /></testcase>
<testcase classname="test_f" name="test_td_both" />
<testcase classname="test_f" name="test_td_both"><failure message="assert 0" /></testcase>
<testcase classname="test_f" name="test_td_both"><error message="failed on teardown with &quot;OSError&quot;" /></testcase>
<testcase classname="test_f" name="test_sub"><failure message="assert 1 != 1" /></testcase>
<testcase classname="test_f" name="test_sub" />
</testsuite></testsuites>"#;

#[test]
fn reruns_of_pytest_are_tries_whatever_it_announces() {
    // xunit1 has the files, and a plug-in may announce each try or fewer.
    let xunit1 = RERUNS.replace("classname=\"test_f\"", "classname=\"test_f\" file=\"test_f.py\" line=\"4\"");
    for text in [RERUNS.to_owned(), xunit1, RERUNS.replace("tests=\"25\"", "tests=\"9\"")] {
        let report = junit(text);
        assert_eq!(
            rows(&report),
            [
                ("test_f.py::test_flaky", Passed, 2),
                ("test_f.py::test_ok", Passed, 1),
                ("test_f.py::test_skip_2nd", Failed, 2),
                // A subtest that failed counts, although a try behind it passed.
                ("test_f.py::test_sub", Failed, 1),
                ("test_f.py::test_sub#2", Passed, 1),
                ("test_f.py::test_td_always", Error, 2),
                ("test_f.py::test_td_both", Error, 2),
                ("test_f.py::test_td_flaky", Passed, 2),
            ]
        );
        assert_eq!((report.counts().flaky, result(&report)), (2, ReportResult::Failed));
        let numbers: Vec<u32> = report.tests[0].attempts.iter().map(|attempt| attempt.attempt).collect();
        assert_eq!(numbers, [1, 2]);
        assert_eq!(gaps(&report), "");
    }
    let fewer = junit(RERUNS.replace("tests=\"25\"", "tests=\"7\""));
    assert!(gaps(&fewer).contains("announces 7 tests and has 8"), "{}", gaps(&fewer));
}

/// As gotestsum 1.8.2 writes it.
#[test]
fn tests_that_gotestsum_ran_again_are_tries_and_counted_ones_are_not() {
    let file = |cases: &[(&str, &str)]| {
        let cases: Vec<String> = cases
            .iter()
            .map(|(name, child)| format!("<testcase classname='x' name='{name}' time='0.0'>{child}</testcase>"))
            .collect();
        format!(
            "<testsuites tests='{0}' failures='1' errors='0'><testsuite tests='{0}' failures='1' name='x'><properties>\
             <property name='go.version' value='go1.19.8 linux/amd64'></property></properties>{1}</testsuite></testsuites>",
            cases.len(),
            cases.concat()
        )
    };
    let rerun = junit(file(&[("TestFlaky", BAD), ("TestOk", ""), ("TestFlaky", "")]));
    assert_eq!(rows(&rerun), [("x::TestFlaky", Passed, 2), ("x::TestOk", Passed, 1)]);
    assert_eq!((rerun.counts().flaky, result(&rerun)), (1, ReportResult::Passed));
    // The test skipped itself the second time: no evidence.
    let skipped = junit(file(&[("TestFlaky", BAD), ("TestOk", ""), ("TestFlaky", "<skipped/>")]));
    assert_eq!(result(&skipped), ReportResult::Failed);
    // With `-count=2`, every test is there twice.
    let counted = junit(file(&[("TestFlaky", BAD), ("TestOk", ""), ("TestOk", ""), ("TestFlaky", "")]));
    assert_eq!(result(&counted), ReportResult::Failed);
    // Two tests of one name of another tool stay two.
    let other = junit(file(&[("A", BAD), ("B", ""), ("A", "")]).replace("go.version", "version"));
    assert_eq!(rows(&other), [("x::A", Failed, 1), ("x::A#2", Passed, 1), ("x::B", Passed, 1)]);
}

#[test]
fn a_skip_or_an_unknown_end_after_a_failure_undoes_nothing() {
    for child in ["<skipped/>", "<warning/>"] {
        let reports = Reports::new();
        reports.write("python-pytest/test_t/a.xml", pytest(0, BAD));
        reports.write("python-pytest/test_t/b.xml", pytest(5, child));
        assert_eq!(rows(&reports.read())[0].1, Failed, "{child}");
    }
    let reports = Reports::new();
    reports.write("a.xml", pytest(0, "<skipped/>"));
    reports.write("b.xml", pytest(5, ""));
    assert_eq!(rows(&reports.read()), [("t.py::k", Passed, 2)]);
    assert_ne!(rows(&reports.read())[0].1, Skipped);
}
