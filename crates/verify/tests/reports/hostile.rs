//! Files that are damaged, or made to do harm: none of them passes.

use std::fmt::Write as _;

use rocwheel_verify::outcome::TestOutcome::{Failed, Passed};
use rocwheel_verify::report::{ReportOptions, ReportResult, TestReport, write_html};

use crate::{Reports, junit, read_paths, result, rows};

fn cases(inner: &str) -> String {
    format!("<testsuites><testsuite name=\"s\" tests=\"1\">{inner}</testsuite></testsuites>")
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
    let missing = rocwheel_verify::report::read_reports(
        &["/nowhere/at/all".into()],
        &ReportOptions::default(),
        &rocwheel_report::Silent,
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
