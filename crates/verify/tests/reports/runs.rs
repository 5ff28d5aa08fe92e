//! Runs of ours: events, shards and verdicts.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_attest::{SignedEnvelope, SigningKey};
use rocwheel_verify::outcome::TestOutcome::{self, Crashed, Failed, NotRun, Passed};
use rocwheel_verify::outcome::{TestAttempt, TestEvent, TestRunFacts};
use rocwheel_verify::report::ReportResult;
use rocwheel_verify::verdict::{VERDICT_TYPE, VerdictRequest, test_result, verdict};

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
            shard,
            shards,
            wheels: BTreeMap::from([("torch-2.9-cp312.whl".to_owned(), "00".repeat(32))]),
            lists: BTreeMap::from([("disabled.json".to_owned(), "11".repeat(32))]),
            gpus: BTreeMap::from([("0".to_owned(), gpu)]),
            machine: "box".to_owned(),
            started: format!("2026-11-23T12:0{shard}:00Z"),
            rocwheel: "0.1.0".to_owned(),
        };
        Run { facts, events: Vec::new() }
    }

    fn collected(mut self, ids: &[&str]) -> Run {
        self.events.push(TestEvent::Collected { ids: ids.iter().map(|id| (*id).to_owned()).collect() });
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
    for key in [
        "suite",
        "source",
        "result",
        "targets",
        "gpus",
        "lists",
        "counts",
        "failed",
        "known_failures",
        "shards",
        "started",
        "finished",
        "reports",
        "rocwheel",
    ] {
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
