//! Runs of ours: events, shards and verdicts.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_attest::{SignedEnvelope, SigningKey};
use rocwheel_report::ReportResult;
use rocwheel_report::outcome::TestOutcome::{self, Crashed, ExpectedFailure, Failed, NotRun, Passed};
use rocwheel_report::outcome::{TestAttempt, TestEvent, TestRunFacts, WholeCollection};
use rocwheel_report::verdict::{VERDICT_TYPE, VerdictRequest, test_result, verdict};

use crate::{Reports, result, rows};

/// The events of a run.
pub(crate) struct Run {
    facts: TestRunFacts,
    events: Vec<TestEvent>,
}

impl Run {
    pub(crate) fn new(name: &str, shard: u32, shards: u32) -> Run {
        let gpu = BTreeMap::from([("target".to_owned(), "gfx942:sramecc+:xnack-".to_owned())]);
        let facts = TestRunFacts {
            run: name.to_owned(),
            suite: "pytorch".to_owned(),
            source: Some("0123abc".to_owned()),
            directory: Some("/ci/project".to_owned()),
            shard,
            shards,
            wheels: BTreeMap::from([("torch-2.9-cp312.whl".to_owned(), "00".repeat(32))]),
            lists: BTreeMap::from([("disabled.json".to_owned(), "11".repeat(32))]),
            gpus: BTreeMap::from([("0".to_owned(), gpu)]),
            machine: "box".to_owned(),
            started: format!("2026-11-23T12:0{shard}:00Z"),
            selection: Vec::new(),
            rocwheel: "0.1.0".to_owned(),
        };
        Run { facts, events: Vec::new() }
    }

    fn collected(self, ids: &[&str]) -> Run {
        self.part_of(ids, None)
    }

    /// Collects a part of `whole`: the number of tests, and a word in place of their digest.
    fn part_of(mut self, ids: &[&str], whole: Option<(u64, &str)>) -> Run {
        let whole = whole.map(|(tests, digest)| WholeCollection { tests, sha256: digest.to_owned(), folder: None });
        self.events.push(TestEvent::Collected { ids: ids.iter().map(|id| (*id).to_owned()).collect(), whole });
        self
    }

    /// The same on another machine with another GPU, an hour later.
    fn elsewhere(mut self, machine: &str, target: &str) -> Run {
        machine.clone_into(&mut self.facts.machine);
        self.facts.gpus =
            BTreeMap::from([("0".to_owned(), BTreeMap::from([("target".to_owned(), target.to_owned())]))]);
        "2026-11-23T13:30:00Z".clone_into(&mut self.facts.started);
        self
    }

    fn attempt(mut self, id: &str, attempt: u32, outcome: TestOutcome) -> Run {
        self.events.push(TestEvent::Started { id: id.to_owned(), attempt });
        self.events.push(TestEvent::Attempt(TestAttempt {
            id: id.to_owned(),
            attempt,
            outcome,
            seconds: Some(0.5),
            message: outcome.is_bad().then(|| format!("{} went wrong", outcome.word())),
            output: None,
            gpu: Some("0".to_owned()),
            cause: None,
            quarantined: false,
        }));
        self
    }

    fn end(mut self) -> Run {
        self.events.push(TestEvent::End { finished: "2026-11-23T13:00:00Z".to_owned(), complete: true });
        self
    }

    fn text(&self) -> String {
        let first = serde_json::to_string(&TestEvent::Run(self.facts.clone())).unwrap();
        let events = self.events.iter().map(|event| serde_json::to_string(event).unwrap());
        std::iter::once(first).chain(events).map(|line| line + "\n").collect()
    }
}

fn write(reports: &Reports, run: &Run) {
    reports.write(&format!("{}/events.jsonl", run.facts.run), run.text());
}

#[test]
fn shards_are_one_suite_and_tries_are_kept() {
    let reports = Reports::new();
    write(
        &reports,
        &Run::new("a", 1, 2)
            .collected(&["t::1", "t::2"])
            .attempt("t::1", 1, Passed)
            .attempt("t::2", 1, Failed)
            .attempt("t::2", 2, Passed)
            .end(),
    );
    write(&reports, &Run::new("b", 2, 2).collected(&["t::3"]).attempt("t::3", 1, Passed).end());
    let report = reports.read();
    assert_eq!(rows(&report), [("t::1", Passed, 1), ("t::2", Passed, 2), ("t::3", Passed, 1)]);
    assert_eq!((report.counts().flaky, result(&report)), (1, ReportResult::Passed));
    let mut strict = Reports::new();
    strict.options.fail_on_flaky = true;
    assert_eq!(report.result(&strict.options), ReportResult::Failed);
}

#[test]
fn a_missing_shard_is_incomplete() {
    let reports = Reports::new();
    write(&reports, &Run::new("a", 1, 3).collected(&["t::1"]).attempt("t::1", 1, Passed).end());
    let report = reports.read();
    assert_eq!((result(&report), report.shards[0].missing()), (ReportResult::Incomplete, vec![2, 3]));
    let gaps = report.gaps(&reports.options).join("\n");
    assert!(gaps.contains("shard 2 of 3") && gaps.contains("shard 3 of 3"), "{gaps}");
}

#[test]
fn a_killed_run_names_the_test_that_was_running_and_those_that_never_ran() {
    let reports = Reports::new();
    let mut run = Run::new("a", 1, 1).collected(&["t::1", "t::2", "t::3"]).attempt("t::1", 1, Passed);
    run.events.push(TestEvent::Started { id: "t::2".to_owned(), attempt: 1 });
    let text = run.text() + "{\"event\":\"attempt\",\"id\":\"t::3\",\"outco";
    reports.write("a/events.jsonl", text);
    let report = reports.read();
    assert_eq!(rows(&report), [("t::1", Passed, 1), ("t::2", Crashed, 1), ("t::3", NotRun, 1)]);
    assert_eq!(result(&report), ReportResult::Failed);
    // A second run of the same shard covers what the first one did not.
    write(
        &reports,
        &Run {
            facts: TestRunFacts { started: "2026-11-23T12:30:00Z".into(), ..Run::new("b", 1, 1).facts },
            events: Vec::new(),
        }
        .collected(&["t::1", "t::2", "t::3"])
        .attempt("t::1", 1, Passed)
        .attempt("t::2", 1, Passed)
        .attempt("t::3", 1, Passed)
        .end(),
    );
    let report = reports.read();
    assert_eq!(rows(&report), [("t::1", Passed, 2), ("t::2", Passed, 2), ("t::3", Passed, 1)]);
    assert_eq!((report.tests[1].flaky, result(&report)), (true, ReportResult::Passed));
}

#[test]
fn what_was_not_run_is_no_pass_unless_that_was_allowed() {
    let mut reports = Reports::new();
    write(
        &reports,
        &Run::new("a", 1, 1).collected(&["t::1", "t::2"]).attempt("t::1", 1, Passed).attempt("t::2", 1, NotRun).end(),
    );
    assert_eq!(reports.result(), ReportResult::Incomplete);
    reports.options.allow_not_run = true;
    assert_eq!(reports.result(), ReportResult::Passed);
    let nothing = Reports::new();
    write(&nothing, &Run::new("a", 1, 1).collected(&[]).end());
    assert_eq!(nothing.result(), ReportResult::Incomplete);
}

#[test]
fn a_try_counts_once_and_its_worse_outcome_is_kept() {
    let reports = Reports::new();
    let run = Run::new("a", 1, 1).collected(&["t::1"]).attempt("t::1", 1, Passed).end();
    write(&reports, &run);
    // The same run, uploaded again with a line more.
    let again = run.text() + "{\"event\":\"attempt\",\"id\":\"t::1\",\"attempt\":1,\"outcome\":\"failed\"}\n";
    reports.write("again/events.jsonl", again);
    let report = reports.read();
    assert_eq!(rows(&report), [("t::1", Failed, 1)]);
}

#[test]
fn damaged_lines_lose_results() {
    let reports = Reports::new();
    let run = Run::new("a", 1, 1).collected(&["t::1"]).attempt("t::1", 1, Passed).end();
    reports.write("a/events.jsonl", run.text().replace("{\"event\":\"end\"", "garbage\n{\"event\":\"end\""));
    assert_eq!(reports.result(), ReportResult::Incomplete);
    let reports = Reports::new();
    let text = run.text();
    reports.write("a/events.jsonl", text.split_once('\n').unwrap().1);
    assert_eq!(reports.result(), ReportResult::Incomplete);
}

fn request() -> VerdictRequest {
    VerdictRequest { now: "2026-11-23T14:00:00Z".into(), rocwheel: "0.1.0".into(), ..VerdictRequest::default() }
}

#[test]
fn a_verdict_is_about_the_wheels_and_counts_everything() {
    let reports = Reports::new();
    write(
        &reports,
        &Run::new("a", 1, 2).collected(&["t::1", "t::2"]).attempt("t::1", 1, Passed).attempt("t::2", 1, NotRun).end(),
    );
    let report = reports.read();
    let statement = verdict(&report, &reports.options, &request()).unwrap();
    assert_eq!(statement.predicate_type, VERDICT_TYPE);
    assert_eq!(statement.subject[0].digest["sha256"], "00".repeat(32));
    let predicate = &statement.predicate;
    assert_eq!(predicate["result"], "incomplete");
    assert_eq!(predicate["targets"], serde_json::json!(["gfx942"]));
    assert_eq!((&predicate["counts"]["not_run"], &predicate["counts"]["total"]), (&1.into(), &2.into()));
    assert_eq!(predicate["shards"][0]["expected"], 2);
    assert_eq!((predicate["suite"].as_str(), predicate["source"].as_str()), (Some("pytorch"), Some("0123abc")));
    assert_eq!(predicate["finished"], "2026-11-23T13:00:00Z");
    let keys: BTreeSet<&str> = predicate.as_object().unwrap().keys().map(String::as_str).collect();
    for key in "suite source result targets gpus lists counts failed known_failures shards started finished \
        reports rocwheel"
        .split(' ')
    {
        assert!(keys.contains(key), "{key}");
    }
    let other = test_result(&report, &reports.options, &request()).unwrap();
    assert_eq!((&other.predicate["result"], &other.predicate["passedTests"][0]), (&"FAILED".into(), &"t::1".into()));
    let (key, _) = SigningKey::generate().unwrap();
    let envelope = statement.seal(&[key]);
    assert_eq!(SignedEnvelope::parse(&envelope.bytes(), "v", "application/vnd.in-toto+json").unwrap().0, envelope);
}

#[test]
fn a_verdict_about_nothing_or_about_two_things_is_refused() {
    let reports = Reports::new();
    let mut run = Run::new("a", 1, 2).collected(&["t::1"]).attempt("t::1", 1, Passed).end();
    write(&reports, &run);
    run.facts.run = "b".to_owned();
    run.facts.wheels.insert("torch-2.9-cp312.whl".to_owned(), "22".repeat(32));
    write(&reports, &run);
    let error = verdict(&reports.read(), &reports.options, &request()).unwrap_err();
    assert!(error.to_string().contains("different files of the name `torch-2.9-cp312.whl`"), "{error}");
    let nothing = Reports::new();
    nothing.write("r.xml", "<testsuite><testcase name=\"a\"/></testsuite>");
    let error = verdict(&nothing.read(), &nothing.options, &request()).unwrap_err();
    assert!(error.to_string().contains("no wheel is named"), "{error}");
}

/// A run of one test.
fn one(name: &str, outcome: TestOutcome) -> Run {
    Run::new(name, 1, 1).collected(&["t::1"]).attempt("t::1", 1, outcome).end()
}

#[test]
fn a_pass_on_another_target_or_machine_does_not_undo_a_failure() {
    for (machine, target, expected) in [
        ("other", "gfx1100", ReportResult::Failed),
        ("box", "gfx1100", ReportResult::Failed),
        ("other", "gfx942", ReportResult::Failed),
        // A second try: the same job.
        ("box", "gfx942", ReportResult::Passed),
    ] {
        let reports = Reports::new();
        write(&reports, &one("a", Failed));
        write(&reports, &one("b", Passed).elsewhere(machine, target));
        let report = reports.read();
        assert_eq!(result(&report), expected, "{machine} {target}");
        assert_eq!(report.counts().flaky, u64::from(expected == ReportResult::Passed));
        let statement = verdict(&report, &reports.options, &request()).unwrap();
        assert_eq!(statement.predicate["result"], expected.word());
        let is_explained = report.problems.iter().any(|problem| problem.message.contains("passed in another"));
        assert_eq!(is_explained, expected == ReportResult::Failed);
    }
}

#[test]
fn other_wheels_and_other_sources_are_another_job() {
    let reports = Reports::new();
    write(&reports, &one("a", Failed));
    let mut other = one("b", Passed).elsewhere("box", "gfx942");
    other.facts.source = Some("another commit".to_owned());
    write(&reports, &other);
    assert_eq!(reports.result(), ReportResult::Failed);
}

#[test]
fn two_projects_whose_tests_have_the_same_names_are_two_jobs() {
    for (source, directory, expected) in [
        (None, "/ci/other", ReportResult::Failed),
        (Some("0123abc:other/"), "/ci/project", ReportResult::Failed),
        (None, "/ci/project", ReportResult::Passed),
    ] {
        let reports = Reports::new();
        let mut first = one("a", Failed);
        first.facts.source = source.map(|_| "0123abc:project/".to_owned());
        write(&reports, &first);
        let mut second = one("b", Passed).elsewhere("box", "gfx942");
        second.facts.source = source.map(str::to_owned);
        second.facts.directory = Some(directory.to_owned());
        write(&reports, &second);
        assert_eq!(reports.result(), expected, "{source:?} {directory}");
    }
}

#[test]
fn two_projects_below_one_folder_are_two_jobs() {
    let of_project = |name: &str, folder: &str, outcome| {
        let mut run = Run::new(name, 1, 1).part_of(&["tests/test_a.py::test"], Some((1, "digest")));
        let Some(TestEvent::Collected { whole: Some(whole), .. }) = run.events.last_mut() else { unreachable!() };
        whole.folder = Some(folder.to_owned());
        run.attempt("tests/test_a.py::test", 1, outcome).end()
    };
    for (folder, expected) in [("b", ReportResult::Failed), ("a", ReportResult::Passed)] {
        let reports = Reports::new();
        write(&reports, &of_project("first", "a", Failed));
        write(&reports, &of_project("second", folder, Passed).elsewhere("box", "gfx942"));
        assert_eq!(reports.result(), expected, "{folder}");
    }
}

#[test]
fn runs_of_one_name_on_two_machines_are_two_runs() {
    let reports = Reports::new();
    reports.write("one/events.jsonl", one("a", NotRun).text());
    reports.write("two/events.jsonl", one("a", Passed).elsewhere("other", "gfx1100").text());
    assert_eq!((rows(&reports.read()), reports.result()), (vec![("t::1", NotRun, 2)], ReportResult::Incomplete));
}

#[test]
fn every_target_has_to_have_run() {
    // The run on gfx942 was cut off, and that on gfx1100 is complete.
    let reports = Reports::new();
    write(&reports, &Run::new("a", 1, 1).collected(&["t::1", "t::2"]).attempt("t::1", 1, Passed));
    let complete = || Run::new("b", 1, 1).collected(&["t::1", "t::2"]).attempt("t::1", 1, Passed);
    write(&reports, &complete().attempt("t::2", 1, Passed).end().elsewhere("other", "gfx1100"));
    let gaps = reports.read().gaps(&reports.options).join("\n");
    assert!(gaps.contains("1 test was not run") && gaps.contains("`pytorch` on gfx942"), "{gaps}");
    // Another machine of the same target runs what never began.
    let reports = Reports::new();
    write(&reports, &Run::new("a", 1, 1).collected(&["t::1", "t::2"]).attempt("t::1", 1, Passed));
    write(&reports, &complete().attempt("t::2", 1, Passed).end().elsewhere("third", "gfx942"));
    assert_eq!(reports.result(), ReportResult::Passed);
    // One half here and the other one there is no suite.
    let reports = Reports::new();
    let half =
        |name: &str, shard: u32, id: &str| Run::new(name, shard, 2).collected(&[id]).attempt(id, 1, Passed).end();
    write(&reports, &half("a", 1, "t::1"));
    write(&reports, &half("b", 2, "t::2").elsewhere("other", "gfx1100"));
    let gaps = reports.read().gaps(&reports.options).join("\n");
    assert!(gaps.contains("shard 2 of 2 of `pytorch` on gfx942"), "{gaps}");
    // On gfx942 everything skipped itself.
    let reports = Reports::new();
    write(&reports, &one("a", TestOutcome::Skipped));
    write(&reports, &one("b", Passed).elsewhere("other", "gfx1100"));
    assert_eq!(reports.read().gaps(&reports.options), ["no test passed on gfx942"]);
}

#[test]
fn a_retry_on_the_other_gpu_of_one_machine_is_no_retry() {
    let reports = Reports::new();
    let mut run = Run::new("a", 1, 1).collected(&["t::1", "t::2"]).attempt("t::1", 1, Failed);
    run.facts.gpus.insert("1".to_owned(), BTreeMap::from([("target".to_owned(), "gfx1100".to_owned())]));
    let mut run = run.attempt("t::1", 2, Passed).attempt("t::2", 1, Failed).attempt("t::2", 2, Passed).end();
    if let Some(TestEvent::Attempt(attempt)) = run.events.get_mut(4) {
        attempt.gpu = Some("1".to_owned());
    }
    write(&reports, &run);
    assert_eq!(rows(&reports.read()), [("t::1", Failed, 2), ("t::2", Passed, 2)]);
}

#[test]
fn shards_have_to_be_parts_of_one_whole() {
    let reports = |first: Option<(u64, &str)>, second: Option<(u64, &str)>, ids: &[&str]| {
        let reports = Reports::new();
        let part = |name: &str, shard: u32, whole: Option<(u64, &str)>, ids: &[&str]| {
            ids.iter().fold(Run::new(name, shard, 2).part_of(ids, whole), |run, id| run.attempt(id, 1, Passed)).end()
        };
        write(&reports, &part("a", 1, first, &["t::1"]));
        write(&reports, &part("b", 2, second, ids));
        reports.read().gaps(&reports.options)
    };
    assert_eq!(reports(Some((2, "x")), Some((2, "x")), &["t::2"]), [""; 0]);
    assert_eq!(reports(None, Some((9, "x")), &["t::2"]), [""; 0], "old runs do not say it");
    let lost = reports(Some((3, "x")), Some((3, "x")), &["t::1", "t::2"]);
    assert!(lost[0].contains("have 2 of the 3 tests") && lost[0].contains("--durations"), "{lost:?}");
    let other = reports(Some((2, "x")), Some((2, "y")), &["t::2"]);
    assert!(other[0].contains("collected different tests"), "{other:?}");
}

#[test]
fn known_failures_and_passes_in_quarantine_alone_are_incomplete() {
    let reports = Reports::new();
    let mut run = Run::new("a", 1, 1).collected(&["t::1", "t::2"]).attempt("t::1", 1, ExpectedFailure);
    run = run.attempt("t::2", 1, Passed).end();
    write(&reports, &run);
    assert_eq!(reports.result(), ReportResult::Passed);
    for event in &mut run.events {
        if let TestEvent::Attempt(attempt) = event {
            attempt.quarantined = true;
        }
    }
    write(&reports, &run);
    assert_eq!(reports.read().gaps(&reports.options), ["no test passed"]);
}

#[test]
fn a_selection_is_in_the_verdict_unless_the_whole_suite_ran_too() {
    let reports = Reports::new();
    let mut selected = one("a", Passed);
    selected.facts.selection = vec!["-k".to_owned(), "nn".to_owned()];
    write(&reports, &selected);
    let predicate = verdict(&reports.read(), &reports.options, &request()).unwrap().predicate;
    assert_eq!(predicate["selection"], serde_json::json!(["-k nn"]));
    assert!(reports.read().selection_note().unwrap().ends_with("ran: -k nn"));
    write(&reports, &one("b", Passed));
    let predicate = verdict(&reports.read(), &reports.options, &request()).unwrap().predicate;
    assert_eq!(predicate["selection"], serde_json::json!([]));
}

#[test]
fn a_verdict_has_the_times_of_the_reports() {
    let period = |times: &str, json: &str| {
        let reports = Reports::new();
        let case = "<testcase classname='a' name='b'/>";
        reports.write("a.xml", format!("<testsuite name='s' tests='1' {times}>{case}</testsuite>"));
        if !json.is_empty() {
            let tests = r#""testsuites": [{"name": "B", "testsuite": [{"name": "x", "status": "RUN", "result": "COMPLETED"}]}]"#;
            reports.write("g.json", format!(r#"{{"tests": 1, {json} {tests}}}"#));
        }
        let wheels = BTreeMap::from([("a.whl".to_owned(), "00".repeat(32))]);
        let request = VerdictRequest { suite: Some("s".to_owned()), wheels, ..request() };
        let predicate = verdict(&reports.read(), &reports.options, &request).unwrap().predicate;
        ["started", "finished"].map(|key| predicate[key].as_str().unwrap().to_owned())
    };
    let old = "timestamp='2026-11-20T10:00:00+02:00' time='90.5'";
    assert_eq!(period(old, ""), ["2026-11-20T08:00:00Z", "2026-11-20T08:01:30.5Z"]);
    let json = r#""timestamp": "2026-11-20T09:00:00Z", "time": "2s","#;
    assert_eq!(period(old, json), ["2026-11-20T08:00:00Z", "2026-11-20T09:00:02Z"]);
    let now = "2026-11-23T14:00:00Z";
    assert_eq!(period("time='90'", ""), [now, now]);
    assert_eq!(period("timestamp='2027-01-01T00:00:00' time='1'", ""), [now, now]);
    assert_eq!(period("timestamp='0001-01-01T00:00:00' time='1'", ""), [now, now]);
}
