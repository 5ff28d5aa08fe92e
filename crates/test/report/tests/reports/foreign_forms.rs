//! Reports that are no junit XML, as their frameworks write them, shortened.

use rocwheel_report::ReportResult;
use rocwheel_report::outcome::TestOutcome::{
    self, Crashed, Error, ExpectedFailure, Failed, NotRun, Passed, Skipped, TimedOut, Unknown,
};

use crate::{Reports, gaps, result, rows};

/// The tests of a file beside a good one.
fn read(name: &str, text: &str) -> (Vec<(String, TestOutcome)>, ReportResult, String) {
    let reports = Reports::new();
    reports.write("good.xml", "<testsuite name='z'><testcase classname='good' name='test'/></testsuite>");
    reports.write(name, text);
    let report = reports.read();
    let found = rows(&report).into_iter().map(|(id, outcome, _)| (id.to_owned(), outcome));
    (found.filter(|(id, _)| id != "good::test").collect(), result(&report), gaps(&report))
}

const CTEST: &str = r#"<Site Name="vm" Generator="ctest-3.25.1"><Testing><StartTestTime>1795873164</StartTestTime>
<TestList><Test>./good</Test><Test>./slow</Test><Test>./skips</Test><Test>./absent</Test></TestList>
<Test Status="passed"><Name>good</Name><Path>.</Path><Results><NamedMeasurement type="text/string" name="Completion Status"><Value>Completed</Value></NamedMeasurement></Results></Test>
<Test Status="failed"><Name>slow</Name><Results><NamedMeasurement type="text/string" name="Exit Code"><Value>Timeout</Value></NamedMeasurement></Results></Test>
<Test Status="notrun"><Name>skips</Name><Results><NamedMeasurement type="text/string" name="Completion Status"><Value>SKIP_RETURN_CODE=77</Value></NamedMeasurement></Results></Test>
<Test Status="notrun"><Name>absent</Name><Results><NamedMeasurement type="text/string" name="Completion Status"><Value>Unable to find executable</Value></NamedMeasurement></Results></Test>
</Testing></Site>"#;

const BOOST: &str = r#"<TestResult><TestSuite name="demo" result="failed" test_cases_failed="1"><TestCase name="expd" result="passed" assertions_passed="0" assertions_failed="1" warnings_failed="0" expected_failures="1"></TestCase><TestCase name="dies" result="aborted"></TestCase><TestSuite name="s" result="passed"><TestCase name="fixt" result="skipped"></TestCase><TestCase name="late" result="passed" assertions_passed="0" assertions_failed="0" warnings_failed="0" expected_failures="0"></TestCase></TestSuite></TestSuite></TestResult>"#;

const ROBOT: &str = r#"<robot generator="Robot 7.5" schemaversion="5"><suite id="s1" name="T"><test id="s1-t1" name="Good"><kw name="Log"><status status="PASS"/></kw><status status="PASS" elapsed="0.005"/></test>
<test id="s1-t2" name="Bad"><kw name="Fail"><status status="FAIL">no</status></kw><status status="FAIL">no</status></test><test id="s1-t3" name="Skipped"><status status="SKIP">gone</status></test>
<status status="FAIL"/></suite><statistics><suite><stat name="T" pass="1">T</stat></suite></statistics></robot>"#;

const TRX: &str = r#"<TestRun xmlns="http://microsoft.com/schemas/VisualStudio/TeamTest/2010"><Results>
<UnitTestResult testName="N.C.Good" outcome="Passed" duration="00:00:00.1"/>
<UnitTestResult testName="N.C.Bad" outcome="Failed"><Output><ErrorInfo><Message>Assert</Message></ErrorInfo></Output></UnitTestResult>
<UnitTestResult testName="N.C.Odd" outcome="Inconclusive"/><UnitTestResult testName="N.C.Skip" outcome="NotExecuted"/></Results>
<ResultSummary outcome="Failed"><Counters total="4" passed="1" failed="1"/></ResultSummary></TestRun>"#;

#[test]
fn xml_of_other_frameworks_is_read() {
    for (name, text, expected) in [
        ("Test.xml", CTEST, vec![("absent", NotRun), ("good", Passed), ("skips", Skipped), ("slow", TimedOut)]),
        (
            "report.xml",
            BOOST,
            vec![
                ("demo.s::fixt", Skipped),
                // What is behind a crash is written as a pass.
                ("demo.s::late", NotRun),
                ("demo::dies", Crashed),
                ("demo::expd", ExpectedFailure),
            ],
        ),
        ("output.xml", ROBOT, vec![("T::Bad", Failed), ("T::Good", Passed), ("T::Skipped", Skipped)]),
        ("r.trx", TRX, vec![("N.C.Bad", Failed), ("N.C.Good", Passed), ("N.C.Odd", Unknown), ("N.C.Skip", Skipped)]),
        (
            "nunit.xml",
            r#"<test-run testcasecount="2" result="Failed"><test-suite name="S" result="Failed"><test-case fullname="N.A" result="Passed"/>
            <test-case fullname="N.B" result="Failed" label="Error"><failure><message>m</message></failure></test-case></test-suite></test-run>"#,
            vec![("S::N.A", Passed), ("S::N.B", Error)],
        ),
        (
            "xunit.xml",
            r#"<assemblies><assembly name="a.dll" total="2" errors="0"><collection><test name="N.A" result="Pass"/><test name="N.B" result="Fail"/></collection></assembly></assemblies>"#,
            vec![("N.A", Passed), ("N.B", Failed)],
        ),
        (
            "testng-results.xml",
            r#"<testng-results failed="1" passed="1"><suite name="s"><test name="t"><class name="A"><test-method name="up" status="PASS" is-config="true"/>
            <test-method name="x" status="PASS"/><test-method name="y" status="FAIL"/></class></test></suite></testng-results>"#,
            vec![("A::x", Passed), ("A::y", Failed)],
        ),
        (
            "catch.xml",
            r#"<Catch name="a"><Group name="a"><TestCase name="may" tags="[!mayfail]"><OverallResult success="true"/></TestCase>
            <TestCase name="bad"><OverallResult success="false"/></TestCase><TestCase name="died"></TestCase></Group></Catch>"#,
            vec![("bad", Failed), ("died", Unknown), ("may", Passed)],
        ),
    ] {
        let (found, result, gaps) = read(name, text);
        let expected: Vec<_> = expected.into_iter().map(|(id, outcome)| (id.to_owned(), outcome)).collect();
        assert_eq!(found, expected, "{name}: {gaps}");
        assert_ne!(result, ReportResult::Passed, "{name}");
    }
    let good = TRX.replace("Inconclusive", "Passed").replace("Failed\"><Output", "Passed\"><Output");
    let good = good.replace("Summary outcome=\"Failed\"", "Summary outcome=\"Completed\"").replace("failed=\"1\"", "");
    assert_eq!(read("r.trx", &good).1, ReportResult::Passed);
}

#[test]
fn a_suite_that_failed_without_a_test_is_not_passed() {
    for (name, text, words) in [
        ("r.xml", BOOST.replace("aborted", "passed"), "says `failed` of `demo`, and no test in it failed"),
        ("output.xml", ROBOT.replace("<status status=\"FAIL\">no", "<status status=\"PASS\">"), "of `T`"),
        ("r.trx", TRX.replace("outcome=\"Failed\"><Output", "outcome=\"Passed\"><Output"), "of `the run`"),
        ("r.trx", TRX.replace("total=\"4\"", "total=\"5\""), "announces 5 tests and has 4"),
        ("r.trx", TRX.replace("failed=\"1\"", "failed=\"1\" aborted=\"1\""), "announces 2 failures and has 1"),
        (
            "r.trx",
            TRX.replace("y outcome=\"Failed\"", "y outcome=\"Odd\""),
            "says `Odd` of `the run`, which is not known",
        ),
        ("output.xml", ROBOT.replace("<status status=\"FAIL\"/>", "<status status=\"ODD\"/>"), "says `ODD` of `T`"),
        (
            "nunit.xml",
            r#"<test-run result="Passed" failed="1"><test-case fullname="N.A" result="Passed"/></test-run>"#.to_owned(),
            "announces 1 failure and has 0",
        ),
        (
            "xunit.xml",
            r#"<assemblies><assembly errors="1"><test name="N.A" result="Pass"/></assembly></assemblies>"#.to_owned(),
            "announces 1 failure and has 0",
        ),
        (
            "gtest.json",
            r#"{"tests": 1, "testsuites": [{"name": "A", "failures": 1, "testsuite": [{"name": "x", "status": "RUN",
            "result": "COMPLETED"}]}]}"#
                .to_owned(),
            "announces 1 failure and has 0",
        ),
        ("testlog.json", r#"{"name": "m", "result": "OK", "command": ["m"], "returncode": 3}"#.to_owned(), ""),
        (
            "Test.xml",
            CTEST.replace("<Test>./good</Test>", "<Test>./good</Test><Test>./more</Test>"),
            "announces 5 tests",
        ),
        ("Test.xml", CTEST[..CTEST.len() - 20].to_owned(), "Test.xml"),
        ("output.xml", ROBOT[..ROBOT.len() - 20].to_owned(), "output.xml"),
    ] {
        let (_, result, gaps) = read(name, &text);
        assert_ne!(result, ReportResult::Passed, "{name}");
        assert!(gaps.contains(words), "{name} {words}: {gaps}");
    }
}

const GO: &str = r#"{"Time":"2026-11-28T13:37:43Z","Action":"run","Package":"x","Test":"TestOk"}
{"Action":"output","Package":"x","Test":"TestOk","Output":"--- PASS: TestOk (0.00s)\n"}
{"Action":"pass","Package":"x","Test":"TestOk","Elapsed":0}
{"Action":"run","Package":"x","Test":"TestFlaky"}
{"Action":"fail","Package":"x","Test":"TestFlaky","Elapsed":0}
{"Action":"output","Package":"x","Output":"FAIL\n"}
{"Action":"fail","Package":"x","Elapsed":0.004}
"#;
const GO_AGAIN: &str = r#"{"Action":"run","Package":"x","Test":"TestFlaky"}
{"Action":"pass","Package":"x","Test":"TestFlaky","Elapsed":0}
{"Action":"pass","Package":"x","Elapsed":0.005}
"#;

#[test]
fn lines_of_go_are_read() {
    use ReportResult::{Failed as Bad, Incomplete, Passed as Good};
    for (text, expected, outcome) in [
        (GO.to_owned(), Bad, vec![Failed, Passed]),
        // gotestsum `--rerun-fails`.
        (format!("{GO}{GO_AGAIN}"), Good, vec![Passed, Passed]),
        // The process died in a test, and the file ends there or says so.
        (GO.lines().take(4).collect::<Vec<_>>().join("\n"), Incomplete, vec![Passed]),
        (
            GO.replace("{\"Action\":\"fail\",\"Package\":\"x\",\"Test\":\"TestFlaky\",\"Elapsed\":0}\n", ""),
            Bad,
            vec![Crashed, Passed],
        ),
        (
            GO.replace("\"fail\",\"Package\":\"x\",\"Test\"", "\"pass\",\"Package\":\"x\",\"Test\""),
            Bad,
            vec![Error, Passed, Passed],
        ),
        (GO.replace("\"Action\":\"run\"", "\"Action\":\"explode\""), Bad, vec![Failed, Passed]),
        (GO[..GO.len() - 9].to_owned(), Bad, vec![Failed, Passed]),
    ] {
        let (found, result, gaps) = read("go.jsonl", &text);
        assert_eq!(result, expected, "{text}: {gaps}");
        assert_eq!(found.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>(), outcome, "{text}");
    }
    assert_eq!(read("go.json", GO).1, Bad);
}

#[test]
fn json_of_jest_vitest_and_playwright_is_read() {
    let jest = r#"{"numTotalTests": 3, "numRuntimeErrorTestSuites": 0, "success": true, "testResults": [{"name": "/a.test.js",
        "status": "passed", "message": "", "assertionResults": [{"fullName": "a ok", "status": "passed", "duration": 2},
        {"fullName": "a later", "status": "todo"}, {"fullName": "a off", "status": "pending"}]}]}"#;
    let names = |found: Vec<(String, TestOutcome)>| found.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>();
    let (found, result, gaps) = read("jest.json", jest);
    assert_eq!((names(found), result), (vec![Skipped, Skipped, Passed], ReportResult::Passed), "{gaps}");
    let unloaded = jest.replace("\"status\": \"passed\", \"message\"", "\"status\": \"failed\", \"message\"");
    let (found, ..) = read("jest.json", &unloaded);
    assert!(found.contains(&("/a.test.js".to_owned(), Error)));
    assert_eq!(read("jest.json", &jest.replace("true", "false")).1, ReportResult::Incomplete);
    assert_eq!(read("jest.json", &jest.replace("\"todo\"", "\"odd\"")).1, ReportResult::Incomplete);
    assert_eq!(read("jest.json", &jest.replace(": 3", ": 4")).1, ReportResult::Incomplete);
    for (said, words) in [
        ("\"status\": \"odd\", \"message\"", "says `odd` of `/a.test.js`"),
        ("\"status\": \"passed\", \"message\"", "announces 1 failure and has 0"),
    ] {
        let text = jest.replace("\"status\": \"passed\", \"message\"", said);
        let text = text.replace("3,", "3, \"numFailedTests\": 1, \"wasInterrupted\": true,");
        let (_, result, gaps) = read("jest.json", &text);
        assert_eq!(result, ReportResult::Incomplete);
        assert!(gaps.contains(words) && gaps.contains("was interrupted"), "{gaps}");
    }
    let playwright = r#"{"config": {}, "errors": [], "stats": {}, "suites": [{"title": "a.spec.ts", "specs": [
        {"title": "one", "tests": [{"projectName": "chromium", "expectedStatus": "passed", "status": "expected", "results": []}]},
        {"title": "two", "tests": [{"expectedStatus": "failed", "status": "expected", "results": []}]}],
        "suites": [{"title": "deep", "specs": [{"title": "three", "tests": [{"status": "flaky", "results": []}]}]}]}]}"#;
    let (found, result, gaps) = read("p.json", playwright);
    let expected = [
        ("a.spec.ts > deep > three", Passed),
        ("a.spec.ts > one [chromium]", Passed),
        ("a.spec.ts > two", ExpectedFailure),
    ];
    assert_eq!(found, expected.map(|(id, outcome)| (id.to_owned(), outcome)), "{gaps}");
    assert_eq!(result, ReportResult::Passed);
    assert_eq!(read("p.json", &playwright.replace("flaky", "unexpected")).1, ReportResult::Failed);
    for (said, words) in [
        (playwright.replace("\"stats\": {}", "\"stats\": {\"unexpected\": 1}"), "announces 1 failure and has 0"),
        (playwright.replace("\"two\",", "\"two\", \"ok\": false,"), "says that `two` is not good"),
    ] {
        let (_, result, gaps) = read("p.json", &said);
        assert!(result == ReportResult::Incomplete && gaps.contains(words), "{gaps}");
    }
    let error = playwright.replace("\"errors\": []", "\"errors\": [{\"message\": \"no server\"}]");
    assert!(read("p.json", &error).2.contains("no server"));
}

#[test]
fn files_of_tap_are_read() {
    let (found, result, gaps) = read("math.tap", "TAP version 14\n1..2\nok 1 - a\nok 2 - b # SKIP no GPU\n");
    assert_eq!(found, [("a".to_owned(), Passed), ("b".to_owned(), Skipped)]);
    assert_eq!(result, ReportResult::Passed, "{gaps}");
    assert_eq!(read("math.tap", "1..2\nok 1 - a\nnot ok 2 - b\n").1, ReportResult::Failed);
    for text in ["1..3\nok 1 - a\n", "1..1\nok 1 - a\nBail out! gone\n", "", "ok 1\n"] {
        assert_eq!(read("math.tap", text).1, ReportResult::Incomplete, "{text}");
    }
}
