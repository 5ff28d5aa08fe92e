use rocwheel_stream::SetFile;

use super::*;

fn set() -> ReleaseSet {
    let mut set = ReleaseSet::new("rocm-7.12.0rc1", Timestamp::UNIX_EPOCH);
    for (key, sha256) in [
        ("rocm-sdk-core/core.whl", "c"),
        ("rocm-sdk-device-gfx942/gfx942.whl", "9"),
        ("rocm-sdk-device-gfx1100/gfx1100.whl", "1"),
    ] {
        set.files.insert(key.to_owned(), SetFile { sha256: sha256.to_owned(), ..SetFile::default() });
    }
    set.targets_promised = vec!["gfx1100".to_owned(), "gfx942".to_owned()];
    set
}

fn verdict(name: &str, result: SuiteResult, target: &str, finished: i64, files: &[(&str, &str)]) -> SuiteVerdict {
    SuiteVerdict {
        name: name.to_owned(),
        sha256: name.to_owned(),
        envelope: Vec::new(),
        suite: "smoke".to_owned(),
        result,
        targets: BTreeSet::from([target.to_owned()]),
        counts: BTreeMap::new(),
        selection: Vec::new(),
        runner: RunnerWord::Good,
        census: BTreeMap::new(),
        finished: Timestamp::from_second(finished).unwrap(),
        subjects: files.iter().map(|(name, sha256)| ((*name).to_owned(), (*sha256).to_owned())).collect(),
        signers: vec!["key".to_owned()],
    }
}

fn states(policy: &str, verdicts: Vec<SuiteVerdict>) -> (Vec<GateState>, GateDecision) {
    states_after(None, policy, verdicts)
}

/// As [`states`], in a stream whose last set is `last`.
fn states_after(
    last: Option<&LastRelease>,
    policy: &str,
    verdicts: Vec<SuiteVerdict>,
) -> (Vec<GateState>, GateDecision) {
    let policy: GatePolicy = toml::from_str(policy).unwrap();
    let verdicts = SetVerdicts { verdicts, unreadable: Vec::new() };
    let evidence = GateEvidence { verdicts: &verdicts, last, now: Timestamp::from_second(1000).unwrap() };
    let decision = decide(&policy, &set(), evidence);
    (decision.rows.iter().map(|row| row.state).collect(), decision)
}

const CORE: (&str, &str) = ("core.whl", "c");
const OLD: (&str, &str) = ("gfx1100.whl", "1");
const NEW: (&str, &str) = ("gfx942.whl", "9");

fn on_gfx942(result: SuiteResult) -> SuiteVerdict {
    verdict("a", result, "gfx942", 1, &[CORE, NEW])
}

#[test]
fn every_suite_has_to_pass_on_every_target() {
    use SuiteResult::{Failed, Incomplete, Passed};
    let passed = on_gfx942(Passed);
    let (found, decision) = states("suites = ['smoke']", vec![passed.clone()]);
    assert_eq!(found, [GateState::Missing, GateState::Passed]);
    assert_eq!(decision.objections(), ["suite `smoke` on gfx1100: there is no verdict about these bytes"]);
    let both = vec![passed.clone(), verdict("b", Passed, "gfx1100", 1, &[CORE, OLD])];
    assert!(states("suites = ['smoke']", both).1.is_open());
    let other = vec![verdict("b", Passed, "gfx1100", 1, &[CORE, ("gfx1100.whl", "other")])];
    let (found, decision) = states("suites = ['smoke']", other);
    assert_eq!(found[0], GateState::Missing);
    assert!(decision.ignored[0].reason.contains("other bytes"), "{decision:?}");
    let bare = vec![verdict("b", Passed, "gfx1100", 1, &[CORE])];
    assert_eq!(states("suites = ['smoke']", bare).0[0], GateState::Missing, "the device wheel was not installed");
    let late = vec![verdict("b", Passed, "gfx1100", 2000, &[CORE, OLD])];
    assert_eq!(states("suites = ['smoke']", late).0[0], GateState::Missing, "of the future");
    // A later failure counts, and so does an older one about other files.
    let then = vec![passed.clone(), verdict("b", Failed, "gfx942", 2, &[CORE, NEW])];
    assert_eq!(states("suites = ['smoke']", then).0[1], GateState::Failed);
    let repaired = vec![verdict("b", Failed, "gfx942", 0, &[CORE, NEW]), passed.clone()];
    assert_eq!(states("suites = ['smoke']", repaired).0[1], GateState::Passed);
    let elsewhere = vec![verdict("b", Failed, "gfx942", 0, &[CORE, NEW, OLD]), passed];
    assert_eq!(states("suites = ['smoke']", elsewhere).0[1], GateState::Failed);
    let counts = BTreeMap::from([("passed".to_owned(), 0), ("skipped".to_owned(), 9)]);
    let nothing = SuiteVerdict { counts, ..verdict("b", Passed, "gfx1100", 1, &[CORE, OLD]) };
    assert_eq!(nothing.counted(), "9 skipped, finished 1970-01-01T00:00:01Z");
    let (found, decision) = states("suites = ['smoke']", vec![nothing]);
    assert_eq!((found[0], &*decision.ignored[0].reason), (GateState::Missing, "it says passed, and no test passed"));
    let open = vec![verdict("b", Incomplete, "gfx942", 2, &[CORE, NEW])];
    assert_eq!(states("suites = ['smoke']", open).0[1], GateState::Incomplete);
}

#[test]
fn a_failure_counts_whatever_the_clock_of_its_machine_says() {
    use SuiteResult::{Failed, Incomplete, Passed};
    for (result, state) in [(Failed, GateState::Failed), (Incomplete, GateState::Incomplete)] {
        let files = [CORE, NEW];
        let both = vec![verdict("a", Passed, "gfx942", 1, &files), verdict("b", result, "gfx942", 2000, &files)];
        let (found, decision) = states("suites = ['smoke']", both.clone());
        assert_eq!(found[1], state);
        assert!(decision.ignored.is_empty(), "{decision:?}");
        assert_eq!(both.iter().map(|one| decision.is_made_of(one)).collect::<Vec<_>>(), [false, true]);
    }
}

#[test]
fn a_pass_that_counts_failures_is_a_failure() {
    let counts = [("passed", 12), ("failed", 9), ("crashed", 2)].map(|(name, count)| (name.to_owned(), count));
    let counts = BTreeMap::from(counts);
    let files = [CORE, NEW];
    let contradiction = SuiteVerdict { counts, ..verdict("b.json", SuiteResult::Passed, "gfx942", 2, &files) };
    let older = verdict("a.json", SuiteResult::Passed, "gfx942", 1, &files);
    let (found, decision) = states("suites = ['smoke']", vec![older, contradiction]);
    assert_eq!(found[1], GateState::Failed);
    let reason = &decision.rows[1].reason;
    let expected = "`b.json` says passed, but counts failures (2 crashed, 9 failed, 12 passed, ";
    assert!(reason.starts_with(expected), "{reason}");
}

#[test]
fn a_selection_of_a_suite_is_no_pass_of_it() {
    let passed = SuiteVerdict { selection: vec!["-k nn".to_owned()], ..on_gfx942(SuiteResult::Passed) };
    let failed = SuiteVerdict { result: SuiteResult::Failed, ..passed.clone() };
    let (found, decision) = states("suites = ['smoke']", vec![passed.clone()]);
    assert_eq!(found[1], GateState::Missing);
    let reason = &decision.ignored[0].reason;
    assert!(reason.starts_with("it is not about the whole suite: selected by `-k nn`"), "{reason}");
    assert_eq!(states("suites = ['smoke']", vec![failed]).0[1], GateState::Failed);
    let recorded = "suites = ['smoke']\nselections = 'recorded'\n";
    let (found, decision) = states(recorded, vec![passed]);
    assert_eq!(found[1], GateState::Passed);
    assert!(decision.rows[1].reason.contains("selected by `-k nn`"), "{decision:?}");
}

#[test]
fn the_policy_says_what_may_be_untested() {
    let passed = vec![on_gfx942(SuiteResult::Passed)];
    let runners = "suites = ['smoke']\nrunners = ['gfx942']\n";
    let (found, decision) = states(runners, passed.clone());
    assert!(found[0] == GateState::NoRunner && !decision.is_open());
    let recorded = format!("{runners}no-runner = 'recorded'\n");
    assert!(states(&recorded, passed.clone()).1.is_open());
    assert!(!states(&recorded, Vec::new()).1.is_open(), "gfx942 has a runner");
    let strict = format!("{recorded}untested = 'blocked'\n");
    let (_, decision) = states(&strict, passed.clone());
    assert_eq!(decision.objections(), ["`gfx1100.whl`: no passed suite installed it"]);
    let fewer = "suites = ['smoke']\nsuites-for = { gfx1100 = [] }\n";
    assert_eq!(states(fewer, passed.clone()).0, [GateState::Passed]);
    let row = "suites = ['smoke']\n[[bypass_tests_for_releases]]\nname = 'x'\nreason = 'y'\ntargets = ['gfx1100']\n";
    let bypass = format!("{row}expires = '1970-01-02'\n");
    let (found, decision) = states(&bypass, passed.clone());
    assert!(found[0] == GateState::Missing && decision.is_open() && decision.bypasses.len() == 1);
    assert!(states(&format!("{row}expires = 1970-01-02\n"), passed.clone()).1.is_open(), "a date of TOML");
    let (_, decision) = states(&format!("{row}expires = '1969-12-31'\n"), passed);
    assert!(decision.objections()[0].ends_with("; the bypass `x` expired after 1969-12-31"), "{decision:?}");
    let policy: GatePolicy = toml::from_str(&format!("runners = ['gfx94l']\n{bypass}")).unwrap();
    assert_eq!(policy.targets().collect::<Vec<_>>(), ["gfx94l", "gfx1100"]);
    let failed = vec![on_gfx942(SuiteResult::Failed)];
    assert!(!states(&bypass, failed).1.is_open(), "it is for another target");
}

/// A policy with a bypass for all targets.
fn bypassed(more: &str) -> String {
    let row = "[[bypass_tests_for_releases]]\nname = 'x'\nreason = 'y'\nexpires = 1970-01-02\n";
    format!("suites = ['smoke']\nsuites-for = {{ gfx1100 = [] }}\n{row}targets = ['gfx942']\n{more}")
}

#[test]
fn a_bypass_is_for_what_is_missing_and_says_it_if_it_is_for_a_failure() {
    let failed = vec![on_gfx942(SuiteResult::Failed)];
    for (verdicts, more, is_open, is_over_failure) in [
        (Vec::new(), "", true, false),
        (vec![on_gfx942(SuiteResult::Incomplete)], "", true, false),
        (failed.clone(), "", false, false),
        (failed.clone(), "over-failure = false\n", false, false),
        (failed.clone(), "over-failure = true\n", true, true),
        (Vec::new(), "over-failure = true\n", true, false),
    ] {
        let (_, decision) = states(&bypassed(more), verdicts);
        assert_eq!((decision.is_open(), decision.is_over_failure()), (is_open, is_over_failure), "{more} {decision:?}");
    }
    let (_, decision) = states(&bypassed(""), failed.clone());
    let reason = &decision.rows[0].reason;
    assert!(reason.ends_with("`x` is for missing verdicts, and not for a failure (`over-failure = true`)"), "{reason}");
    // The word is in the row that is for failures, wherever it stands.
    let second = "[[bypass_tests_for_releases]]\nname = 'z'\nreason = 'y'\nexpires = 1970-01-02\n";
    let (_, decision) = states(&bypassed(&format!("{second}targets = ['gfx942']\nover-failure = true\n")), failed);
    assert_eq!(decision.rows[0].bypass.as_deref(), Some("z"));
}

#[test]
fn the_result_of_a_set_that_a_bypass_let_out_is_no_plain_pass() {
    let set = set();
    let (pass, failure) = (on_gfx942(SuiteResult::Passed), on_gfx942(SuiteResult::Failed));
    for (more, verdicts, result, level, may) in [
        ("", vec![pass], "PASSED", "ROCWHEEL_GATE", true),
        ("", Vec::new(), "PASSED", "ROCWHEEL_GATE_BYPASSED", true),
        ("over-failure = true\n", vec![failure.clone()], "FAILED", "FAILED", true),
        ("", vec![failure], "FAILED", "FAILED", false),
    ] {
        let text = bypassed(more);
        let (_, decision) = states(&text, verdicts.clone());
        let verdicts = SetVerdicts { verdicts, unreadable: Vec::new() };
        let statement = decision_statement(&decision, &toml::from_str(&text).unwrap(), &set, &verdicts, "release");
        let statement: serde_json::Value = serde_json::from_str(&statement).unwrap();
        let predicate = &statement["predicate"];
        assert_eq!(
            (&predicate["verificationResult"], &predicate["verifiedLevels"][0], &predicate["rocwheel_may_go_out"]),
            (&result.into(), &level.into(), &may.into())
        );
    }
}

#[test]
fn a_failure_that_was_run_again_until_it_passed_is_named() {
    use SuiteResult::{Failed, Passed};
    let files = [CORE, NEW];
    let both = vec![verdict("old", Failed, "gfx942", 1, &files), verdict("new", Passed, "gfx942", 2, &files)];
    let (found, decision) = states("suites = ['smoke']", both.clone());
    assert_eq!(found[1], GateState::Passed);
    let words = decision.replaced_failures();
    let begin = "suite `smoke` on gfx942: a newer verdict about the same files replaces a failure, `old` (";
    assert!(words.len() == 1 && words[0].starts_with(begin), "{words:?}");
    assert_eq!(serde_json::to_value(&decision).unwrap()["rows"][1]["replaced"][0]["verdict"], "old");
    // A pass that does not count replaces nothing.
    let unsigned = SuiteVerdict { signers: vec![], ..both[1].clone() };
    assert_eq!(states("suites = ['smoke']", vec![unsigned, both[0].clone()]).0[1], GateState::Failed);
}

#[test]
fn a_pass_grows_old_and_a_failure_does_not() {
    use SuiteResult::{Failed, Passed};
    const DAY: i64 = 24 * 3600;
    let files = [CORE, NEW];
    let limited = "suites = ['smoke']\nmax-age-days = 2\n";
    for (finished, rule, state) in [
        (1000 - 2 * DAY, limited, GateState::Passed),
        (999 - 2 * DAY, limited, GateState::Missing),
        (999 - 2 * DAY, "suites = ['smoke']", GateState::Passed),
    ] {
        let (found, decision) = states(rule, vec![verdict("a", Passed, "gfx942", finished, &files)]);
        assert_eq!(found[1], state, "{decision:?}");
    }
    let (_, decision) = states(limited, vec![verdict("a", Passed, "gfx942", -3 * DAY, &files)]);
    assert!(decision.ignored[0].reason.ends_with("more than 2 days ago (`max-age-days`)"), "{decision:?}");
    assert_eq!(states(limited, vec![verdict("a", Failed, "gfx942", -9 * DAY, &files)]).0[1], GateState::Failed);
    for wrong in ["max-age-days = 0", "max-age-days = -1", "max-age-days = 'x'", "max-age = 3"] {
        assert!(toml::from_str::<GatePolicy>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_verdict_says_how_its_runner_ended() {
    let recorded = "suites = ['smoke']\nunknown-runner-exit = 'recorded'\n";
    for (runner, result, policy, state) in [
        (RunnerWord::Unknown, SuiteResult::Passed, "suites = ['smoke']", GateState::Missing),
        (RunnerWord::Unknown, SuiteResult::Passed, recorded, GateState::Passed),
        (RunnerWord::Unknown, SuiteResult::Failed, "suites = ['smoke']", GateState::Failed),
        (RunnerWord::Bad, SuiteResult::Passed, recorded, GateState::Failed),
        (RunnerWord::Good, SuiteResult::Passed, "suites = ['smoke']", GateState::Passed),
    ] {
        let (found, decision) = states(policy, vec![SuiteVerdict { runner, ..on_gfx942(result) }]);
        assert_eq!(found[1], state, "{runner:?} {decision:?}");
    }
    let unknown = SuiteVerdict { runner: RunnerWord::Unknown, ..on_gfx942(SuiteResult::Passed) };
    let (_, decision) = states("suites = ['smoke']", vec![unknown]);
    let reason = &decision.ignored[0].reason;
    assert!(reason.starts_with("it does not say how the runner of the tests ended"), "{reason}");
    assert!(toml::from_str::<GatePolicy>("unknown-runner-exits = 'recorded'").is_err());
}

#[test]
fn the_runner_of_a_verdict_is_known_by_known_words_only() {
    for (runner, word) in [
        (r#""runner": {"end": "exited", "code": 0},"#, RunnerWord::Good),
        (r#""runner": {"end": "supervised"},"#, RunnerWord::Good),
        (r#""runner": {"end": "exited", "code": 3},"#, RunnerWord::Bad),
        (r#""runner": {"end": "killed", "signal": 9},"#, RunnerWord::Bad),
        (r#""runner": {"end": "timed_out", "seconds": 60},"#, RunnerWord::Bad),
        (r#""runner": {"end": "exited"},"#, RunnerWord::Unknown),
        (r#""runner": {"end": "unknown"},"#, RunnerWord::Unknown),
        (r#""runner": {"end": "fine"},"#, RunnerWord::Unknown),
        (r#""runner": {"end": "exited", "code": "0"},"#, RunnerWord::Unknown),
        (r#""runner": "good","#, RunnerWord::Unknown),
        (r#""runner": null,"#, RunnerWord::Unknown),
        ("", RunnerWord::Unknown),
    ] {
        let predicate = format!(
            r#"{{{runner} "suite": "s", "result": "passed", "targets": [], "finished": "2026-11-20T00:00:00Z"}}"#
        );
        let subject = rocwheel_attest::StatementSubject::new("a.whl", "00");
        let predicate = serde_json::from_str(&predicate).unwrap();
        let statement = rocwheel_attest::InTotoStatement::new(vec![subject], VERDICT_TYPE, predicate);
        let parsed = SuiteVerdict::parse(statement.seal(&[]).bytes(), "x", &[]).unwrap().unwrap();
        assert_eq!((parsed.runner, parsed.census.len()), (word, 0), "{runner}");
    }
}

/// A verdict with the census of a suite: its ids are known if they are few.
fn passed(ids: &[&str], has_ids: bool) -> SuiteVerdict {
    let all: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let (tests, sha256) = (all.len() as u64, ids.concat());
    let census = VerdictCensus { tests, sha256, ids: has_ids.then_some(all) };
    SuiteVerdict { census: BTreeMap::from([("pytest".to_owned(), census)]), ..on_gfx942(SuiteResult::Passed) }
}

fn last_release(verdict: SuiteVerdict) -> LastRelease {
    LastRelease { set: "rocm-7.11.0".to_owned(), verdicts: vec![verdict] }
}

#[test]
fn tests_of_the_last_set_that_are_absent_are_named_or_counted() {
    for (old, old_ids, new, new_ids, words) in [
        (&["a", "b"][..], true, &["a", "b", "c"][..], true, None),
        (&["a", "b"], false, &["a", "b"], false, None),
        (&["a", "b"], true, &["a", "b"], false, None),
        (&["a", "b"], true, &["a", "c"], true, Some("1 test of `rocm-7.11.0` is absent, such as `b`")),
        (&["a", "b", "c"], true, &["c"], true, Some("2 tests of `rocm-7.11.0` are absent, such as `a`, `b`")),
        (&["a", "b", "c"], false, &["c"], true, Some("at least 2 tests of `rocm-7.11.0` are absent")),
        (&["a", "b"], false, &["a", "c"], true, Some("its tests are others than those of `rocm-7.11.0`; whether")),
    ] {
        let last = last_release(passed(old, old_ids));
        let (found, decision) = states_after(Some(&last), "suites = ['smoke']", vec![passed(new, new_ids)]);
        let row = &decision.rows[1];
        assert_eq!((found[1], row.absent.is_some(), row.blocks), (GateState::Passed, words.is_some(), false));
        assert!(words.is_none_or(|words| row.reason.starts_with(words)), "{}", row.reason);
        let blocked = "suites = ['smoke']\nsuites-for = { gfx1100 = [] }\nabsent-tests = 'blocked'\n";
        let (_, decision) = states_after(Some(&last), blocked, vec![passed(new, new_ids)]);
        assert_eq!(decision.is_open(), words.is_none(), "{decision:?}");
    }
    // Without a pass with a census, nothing is known of the last set.
    let failed = SuiteVerdict { result: SuiteResult::Failed, ..passed(&["a", "b"], true) };
    for old in [on_gfx942(SuiteResult::Passed), failed] {
        let last = last_release(old);
        let (_, decision) = states_after(Some(&last), "suites = ['smoke']", vec![passed(&["c"], true)]);
        assert_eq!(decision.rows[1].absent, None);
    }
}

#[test]
fn a_suite_that_is_written_wrongly_is_named() {
    let (_, decision) = states("suites = ['smoek']", vec![on_gfx942(SuiteResult::Passed)]);
    assert!(decision.objections()[1].ends_with("; there is one of `smoke`"), "{decision:?}");
    for (more, unknown) in [("suites = ['smoke']\n", None), ("suites = ['smoek']\n", Some("smoek"))] {
        let policy: GatePolicy = toml::from_str(&bypassed(more)).unwrap();
        assert_eq!(policy.unknown_suite(), unknown);
    }
}
