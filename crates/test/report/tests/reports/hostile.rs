//! Files that are damaged, or made to do harm: none of them passes.

use std::fmt::Write as _;

use rocwheel_report::outcome::TestOutcome::{Error, Failed, Passed};
use rocwheel_report::{ReportOptions, ReportResult, TestReport, write_html};

use crate::{Reports, junit, read_paths, result, rows};

fn cases(inner: &str) -> String {
    format!("<testsuites><testsuite name=\"s\">{inner}</testsuite></testsuites>")
}

/// The gaps of a report that is incomplete.
fn gaps(report: &TestReport) -> String {
    assert_eq!(result(report), ReportResult::Incomplete, "{:?}", rows(report));
    crate::gaps(report)
}

fn is_incomplete(report: &TestReport, words: &str) {
    let found = report.problems.iter().find(|problem| problem.message.contains(words));
    assert!(found.is_some_and(|problem| problem.loses_results), "{words}: {:?}", report.problems);
    assert_ne!(result(report), ReportResult::Passed);
}

#[test]
fn a_doctype_is_refused() {
    let bomb = "<?xml version=\"1.0\"?><!DOCTYPE t [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]>\
                <testsuite><testcase name=\"&b;\"/></testsuite>";
    is_incomplete(&junit(bomb), "DOCTYPE");
    let outside = "<!DOCTYPE t SYSTEM \"file:///etc/passwd\"><testsuite><testcase name=\"a\"/></testsuite>";
    is_incomplete(&junit(outside), "DOCTYPE");
}

#[test]
fn a_file_that_ends_in_the_middle_keeps_its_complete_cases() {
    let whole = cases(
        "<testcase name=\"a\"/><testcase name=\"b\"><failure message=\"m\">text</failure></testcase><testcase name=\"c\"/>",
    );
    for end in [whole.find("text").unwrap(), whole.find("</testsuite>").unwrap(), whole.len() - 3] {
        let report = junit(&whole[..end]);
        assert!(rows(&report).contains(&("a", Passed, 1)), "{end}");
        assert!(!report.runs[0].complete);
        assert_ne!(result(&report), ReportResult::Passed, "{end}");
    }
    is_incomplete(&junit(&whole[..whole.find("<testcase name=\"c").unwrap()]), "ends in the middle");
}

#[test]
fn a_huge_output_is_bounded() {
    let reports = Reports::new();
    let long = "x".repeat(100 << 20);
    reports.write("r.xml", cases(&format!("<testcase name=\"a\"><system-out>{long}</system-out></testcase>")));
    let report = reports.read();
    assert_eq!(rows(&report), [("a", Passed, 1)]);
    assert!(report.tests[0].attempts[0].output.as_deref().unwrap().len() <= 70_000);
    assert!(report.runs[0].cut >= 99 << 20);
    assert_eq!(result(&report), ReportResult::Passed);
}

#[test]
fn depth_has_a_limit() {
    let report = junit(format!("<testsuites>{}", "<testsuite>".repeat(10_000)));
    is_incomplete(&report, "nested");
    let deep =
        format!("<testcase name=\"a\"><failure>{}{}</failure></testcase>", "<b>".repeat(500), "</b>".repeat(500));
    assert_eq!(rows(&junit(cases(&deep))), [("a", Failed, 1)]);
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let mut bytes = cases("<testcase name=\"a@\"><failure message=\"@\">@&#27;[31m</failure></testcase>").into_bytes();
    bytes.iter_mut().filter(|byte| **byte == b'@').for_each(|byte| *byte = 0xff);
    let report = junit(&bytes);
    assert_eq!(rows(&report), [("a\u{fffd}", Failed, 1)]);
    let control = junit(cases("<testcase name=\"a\u{1}b\"><failure message=\"\u{7}\"/></testcase>"));
    assert_eq!(rows(&control), [("a\u{1}b", Failed, 1)]);
    let wide: Vec<u8> = cases("<testcase name=\"é\"/>").encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(rows(&junit([&[0xff, 0xfe], &wide[..]].concat())), [("é", Passed, 1)]);
}

#[test]
fn odd_markup_is_read_or_reported() {
    let twice = junit(cases("<testcase name=\"a\" name=\"b\"/>"));
    assert_eq!(rows(&twice), [("a", Passed, 1)]);
    assert!(twice.problems.iter().any(|problem| problem.message.contains("twice")));
    let data = junit(cases("<testcase name=\"a\"><failure><![CDATA[one ]]]]><![CDATA[> two]]></failure></testcase>"));
    assert_eq!(data.tests[0].attempts[0].output.as_deref(), Some("one ]]> two"));
    let lines = junit(cases("<testcase name=\"a&#10;b\" classname=\"c\"/>"));
    assert_eq!(rows(&lines), [("c::a\nb", Passed, 1)]);
    let unknown = junit(cases("<testcase name=\"&nbsp;a&amp;\"/>"));
    assert_eq!(rows(&unknown), [("&nbsp;a&", Passed, 1)]);
    let nameless = junit(cases("<testcase/>"));
    assert!(nameless.problems.iter().any(|problem| problem.message.contains("no name")));
    let crossed = junit("<testsuites><testsuite><testcase name=\"a\"/></testcase></testsuites>");
    is_incomplete(&crossed, "damaged");
}

#[test]
fn counts_that_disagree_are_reported_and_children_are_trusted() {
    let report = junit(
        "<testsuite name=\"s\" tests=\"7\" failures=\"0\"><testcase name=\"a\"><failure/></testcase></testsuite>",
    );
    assert_eq!((rows(&report), result(&report)), (vec![("a", Failed, 1)], ReportResult::Failed));
    assert!(report.problems[0].message.contains("announces 7 tests and has 1"));
}

#[test]
fn nothing_is_never_a_pass() {
    // T1: nothing was collected. T2: there are no reports. T3: a report cannot be read.
    let empty = junit("<testsuites><testsuite name=\"pytest\" tests=\"0\"/></testsuites>");
    assert_eq!(result(&empty), ReportResult::Incomplete);
    let reports = Reports::new();
    assert_eq!(reports.result(), ReportResult::Incomplete);
    is_incomplete(&reports.read(), "has no reports");
    for broken in ["", "hello", "<testsuites><a </testsuites>", "\0\0\0"] {
        let reports = Reports::new();
        reports.write("good.xml", cases("<testcase name=\"a\"/>"));
        reports.write("broken.xml", broken);
        assert_eq!(reports.result(), ReportResult::Incomplete, "{broken:?}");
    }
    let skipped = junit(cases("<testcase name=\"a\"><skipped/></testcase>"));
    assert_eq!(result(&skipped), ReportResult::Incomplete);
    let missing = rocwheel_report::read_reports(
        &["/nowhere/at/all".into()],
        &ReportOptions::default(),
        &rocwheel_progress::Silent,
    );
    assert!(missing.is_err());
}

#[test]
fn other_files_in_a_folder_are_skipped_and_named_ones_are_not() {
    let reports = Reports::new();
    reports.write("r.xml", cases("<testcase name=\"a\"/>"));
    let other = reports.write("coverage.xml", "<coverage/>");
    reports.write("settings.json", "{\"a\": 1}");
    assert_eq!(reports.result(), ReportResult::Passed);
    let named = read_paths(&[&reports.path("r.xml"), &other]);
    assert_eq!(result(&named), ReportResult::Incomplete);
    let cut = Reports::new();
    cut.write("r.xml", cases("<testcase name=\"a\"/>"));
    cut.write("gtest.json", "{\"tests\": 3, \"testsuites\": [{\"name\"");
    assert_eq!(cut.result(), ReportResult::Incomplete);
}

#[test]
fn a_link_in_a_circle_ends() {
    let reports = Reports::new();
    reports.write("a/r.xml", cases("<testcase name=\"a\"/>"));
    rocwheel_system::symlink(reports.path("a"), reports.path("a/again")).unwrap();
    assert_eq!(reports.result(), ReportResult::Passed);
}

#[test]
fn many_cases_of_one_name_are_quick_and_each_counts() {
    let mut inner = String::new();
    for _ in 0..50_000 {
        inner.push_str("<testcase name=\"same\" classname=\"C\"/>");
    }
    let report = junit(cases(&inner));
    assert_eq!(report.tests.len(), 50_000);
}

#[test]
fn the_page_shows_markup_as_text() {
    let mut inner = String::new();
    for evil in ["</script><script>alert(1)</script>", "<!--", "<img src=x onerror=alert(1)>", "::error::x", "=1+1"] {
        let text = evil.replace('&', "&amp;").replace('<', "&lt;");
        let _ = write!(inner, "<testcase name=\"{text}\"><failure message=\"{text}\">{text}</failure></testcase>");
    }
    let report = junit(cases(&inner));
    let mut page = Vec::new();
    write_html(&report, &ReportOptions::default(), "</title><script>", &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert_eq!(page.matches("<script").count(), 2, "the data and the script");
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains("<img") && !page.contains("<!--"));
    assert!(page.contains("\\u003c/script>"));
}

#[test]
fn announced_failures_and_tests_have_to_be_there() {
    let good = "<testcase classname='b' name='x'/>";
    for (text, words) in [
        (format!("<testsuite name='b' tests='1' failures='3' errors='1'>{good}</testsuite>"), "announces 4 failures"),
        (format!("<testsuite name='b' tests='10'>{good}</testsuite>"), "announces 10 tests and has 1"),
        (
            format!("<testsuites errors='1'><testsuite name='b' tests='1'>{good}</testsuite></testsuites>"),
            "the file announces 1 failure and has 0",
        ),
        // As jest writes a file that cannot be loaded.
        (
            format!(
                "<testsuites><testsuite name='b'>{good}</testsuite><testsuite name='undefined' errors='1' tests='0'/></testsuites>"
            ),
            "the suite `undefined` announces 1 failure",
        ),
        // As Node writes a group whose set-up failed.
        (
            format!(
                "<testsuites><testsuite name='b'>{good}</testsuite><!-- tests 2 --><!-- fail 1 --><!-- cancelled 0 --></testsuites>"
            ),
            "announces 1 failure",
        ),
    ] {
        let report = junit(&text);
        assert!(gaps(&report).contains(words), "{text}: {}", gaps(&report));
        assert!(!report.runs[0].complete, "{text}");
    }
}

#[test]
fn tools_that_count_parts_of_tests_are_believed() {
    // pytest counts subtests, and Catch2 assertions.
    let pytest = "<testsuites name='pytest tests'><testsuite name='pytest' tests='17' failures='0'>\
                  <testcase classname='test_a' name='test_b'/></testsuite></testsuites>";
    assert_eq!(result(&junit(pytest)), ReportResult::Passed);
    let catch = "<testsuites><testsuite name='prog' errors='0' failures='0' tests='57' hostname='tbd'>\
                 <testcase classname='prog.global' name='adds' status='run'/></testsuite></testsuites>";
    assert_eq!(result(&junit(catch)), ReportResult::Passed);
    // A group that failed counts as a failure beside the test in it.
    let node = "<testsuites><testsuite name='outer' tests='1' failures='1'><testsuite name='inner' tests='1' failures='1'>\
                <testcase name='x' classname='test'><failure/></testcase></testsuite></testsuite><!-- fail 2 --></testsuites>";
    assert!(junit(node).problems.is_empty(), "{:?}", junit(node).problems);
}

#[test]
fn a_failure_of_a_suite_itself_is_a_failure() {
    let text = "<testsuite name='b' tests='1' errors='1'><error message='set-up failed'/>\
                <testcase classname='b' name='ok'/></testsuite>";
    let report = junit(text);
    assert_eq!(rows(&report), [("b", Error, 1), ("b::ok", Passed, 1)]);
    assert_eq!((result(&report), report.problems.len()), (ReportResult::Failed, 0));
}

#[test]
fn a_case_in_a_case_does_not_end_the_outer_one() {
    let text = "<testsuite name='b'><testcase classname='b' name='outer'><testcase classname='b' name='inner'/>\
                <failure message='bad'/></testcase></testsuite>";
    assert_eq!(rows(&junit(text)), [("b::inner", Passed, 1), ("b::outer", Failed, 1)]);
    // Markup in a failure is a text.
    let text = cases("<testcase name='a'><failure><testsuite><testcase name='x'/></testsuite></failure></testcase>");
    assert_eq!(rows(&junit(text)), [("a", Failed, 1)]);
}

#[test]
fn a_damaged_json_report_is_not_looked_away_from() {
    let report = r#"{"tests": 1, "testsuites": [{"name": "B", "testsuite": [{"name": "x", "status": "RUN", "result": "COMPLETED"}]}]}"#;
    let read = |bytes: &[u8]| {
        let reports = Reports::new();
        reports.write("r.xml", cases("<testcase name=\"a\"/>"));
        reports.write("g.json", bytes);
        reports.read()
    };
    assert_eq!(result(&read(report.as_bytes())), ReportResult::Passed);
    assert_eq!(result(&read(&[b"\xef\xbb\xbf", report.as_bytes()].concat())), ReportResult::Passed);
    for damaged in [
        report.replace("\"x\"", "\"\0\"").into_bytes(),
        format!("{report} more").into_bytes(),
        [report.as_bytes(), b"\xff"].concat(),
        report.replace("\"B\"", "7").into_bytes(),
        b"\0\0".to_vec(),
    ] {
        assert!(gaps(&read(&damaged)).contains("g.json"), "{}", String::from_utf8_lossy(&damaged));
    }
    let announced = report.replace("\"tests\": 1", "\"tests\": 1, \"failures\": 1");
    assert!(gaps(&read(announced.as_bytes())).contains("announces 1 failure and has 0"));
}

#[test]
fn linked_folders_are_searched() {
    let reports = Reports::new();
    reports.write("given/r.xml", cases("<testcase name=\"a\"/>"));
    reports.write("real/r.xml", cases("<testcase name=\"b\"><failure/></testcase>"));
    rocwheel_system::symlink(reports.path("real"), reports.path("given/shard2")).unwrap();
    rocwheel_system::symlink(reports.path("given"), reports.path("given/again")).unwrap();
    let report = read_paths(&[&reports.path("given")]);
    assert_eq!(rows(&report), [("a", Passed, 1), ("b", Failed, 1)]);
    rocwheel_system::symlink(reports.path("nowhere"), reports.path("given/gone")).unwrap();
    let report = read_paths(&[&reports.path("given")]);
    assert!(report.problems.iter().any(|problem| problem.loses_results && problem.message.contains("gone")));
}

#[test]
fn a_report_without_a_test_covers_nothing() {
    let empty = "<testsuites><testsuite name='pytest' tests='0'/></testsuites>";
    let good = "<testsuite name='pytest'><testcase classname='test_a' name='x'/></testsuite>";
    let reports = Reports::new();
    let named = reports.write("e.xml", empty);
    let other = reports.write("g.xml", good);
    assert!(gaps(&read_paths(&[&named, &other])).contains("e.xml` has no test"));
    assert!(gaps(&reports.read()).contains("e.xml` has no test"));
    let shards = Reports::new();
    shards.write("test-reports-c-1-2/r.xml", good);
    shards.write("test-reports-c-2-2/r.xml", empty);
    assert!(gaps(&shards.read()).contains("shard 2 of 2 of `c`"));
    let json = Reports::new();
    json.write("g.xml", good);
    json.write("e.json", "{\"tests\": 0, \"testsuites\": []}");
    assert!(gaps(&json.read()).contains("e.json` has no test"));
    // PyTorch's runner continues behind the last test of a file in a process without any.
    let pytorch = Reports::new();
    pytorch.write("python-pytest/test_a/one.xml", good);
    pytorch.write("python-pytest/test_a/two.xml", empty);
    assert_eq!(pytorch.result(), ReportResult::Passed);
    pytorch.write("python-pytest/test_b/one.xml", format!("{empty} "));
    assert!(gaps(&pytorch.read()).contains("test_b/one.xml` has no test"));
}

/// As pytest writes it after `pytest.exit` and Ctrl-C.
#[test]
fn a_test_without_a_name_was_interrupted() {
    for path in ["r.xml", "python-pytest/test_s/r.xml"] {
        let reports = Reports::new();
        reports.write(
            path,
            "<testsuites name='pytest tests'><testsuite name='pytest' errors='0' failures='0' skipped='0' tests='1'>\
             <testcase classname='test_s' name='test_a' time='0.009' /><testcase time='0.000' /></testsuite></testsuites>",
        );
        let report = reports.read();
        assert!(gaps(&report).contains("a test case has no name"), "{path}");
        assert_eq!((report.tests.len(), report.runs[0].complete), (1, false), "{path}");
    }
    // GoogleTest writes the failure of an environment so.
    let failed = junit(cases("<testcase name='' classname='' status='run' result='completed'><failure/></testcase>"));
    assert_eq!(rows(&failed), [("", Failed, 1)]);
}
