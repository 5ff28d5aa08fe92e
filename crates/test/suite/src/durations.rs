//! Input: files that say how long each test of a suite took. Output: seconds by identity.

use std::collections::BTreeMap;
use std::path::Path;

use rocwheel_progress::{Context as _, Failure};
use rocwheel_report::outcome::TestEvent;
use serde_json::Value;

use crate::median::median;

/// Durations of tests in seconds, by identity.
pub type TestDurations = BTreeMap<String, f64>;

/// Reads durations from a run folder or its events, from pytest-split's `.test_durations`, or from
/// PyTorch's `test-times.json`. `job` and `configuration` choose in the last of them; `default` is
/// what PyTorch takes for others.
pub fn read_durations(path: &Path, job: &str, configuration: &str) -> Result<TestDurations, Failure> {
    let file = if path.is_dir() { path.join("events.jsonl") } else { path.to_owned() };
    let bytes = fs_err::read(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let is_lines = file.extension().is_some_and(|extension| extension == "jsonl");
    let durations = if is_lines {
        of_events(&bytes)
    } else {
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| no_durations(&file, &error.to_string()))?;
        of_json(&value, job, configuration).map_err(|reason| no_durations(&file, &reason))?
    };
    if durations.is_empty() {
        return Err(no_durations(&file, "it has no test with a duration"));
    }
    Ok(durations)
}

fn no_durations(file: &Path, reason: &str) -> Failure {
    Failure::message(format!("`{}` has no durations of tests: {reason}", file.display()))
        .with_hint("give a run folder, pytest-split's `.test_durations` or PyTorch's `test-times.json`")
}

/// The longest try of each test: a try that crashed early says nothing.
fn of_events(bytes: &[u8]) -> TestDurations {
    let mut durations = TestDurations::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(TestEvent::Attempt(attempt)) = serde_json::from_slice(line) else { continue };
        let Some(seconds) = attempt.seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0) else { continue };
        let known = durations.entry(attempt.id).or_insert(seconds);
        *known = known.max(seconds);
    }
    durations
}

fn of_json(value: &Value, job: &str, configuration: &str) -> Result<TestDurations, String> {
    match value {
        Value::Object(tests) if tests.values().all(Value::is_number) => {
            tests.iter().map(|(id, seconds)| number(id, seconds)).collect()
        }
        Value::Object(jobs) => {
            let chosen = [(job, configuration), ("default", configuration), ("default", "default")];
            let table = chosen.iter().find_map(|(job, configuration)| jobs.get(*job)?.get(*configuration));
            let Some(Value::Object(files)) = table else {
                let names: Vec<&str> = jobs.keys().take(8).map(String::as_str).collect();
                return Err(format!(
                    "it has no job `{job}` with `{configuration}`, and no default; it has {}",
                    names.join(", ")
                ));
            };
            files.iter().map(|(id, seconds)| number(id, seconds)).collect()
        }
        _ => Err("it is no table".to_owned()),
    }
}

fn number(id: &str, seconds: &Value) -> Result<(String, f64), String> {
    let valid = seconds.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    valid.map(|seconds| (id.to_owned(), seconds)).ok_or_else(|| format!("`{id}` takes `{seconds}`"))
}

/// Puts the durations of several runs and shards together: the median of each test.
pub fn merge_durations(all: &[TestDurations]) -> TestDurations {
    let mut lists: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for (id, seconds) in all.iter().flatten() {
        lists.entry(id).or_default().push(*seconds);
    }
    lists.into_iter().filter_map(|(id, values)| Some((id.clone(), median(values)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_several_forms() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let read = |text: &str| {
            fs_err::write(&path, text).unwrap();
            read_durations(&path, "linux", "default")
        };
        let wanted = TestDurations::from([("t.py::a".into(), 1.5)]);
        assert_eq!(read(r#"{"t.py::a": 1.5}"#).unwrap(), wanted);
        assert_eq!(read(r#"{"linux": {"default": {"t.py::a": 1.5}}, "default": {}}"#).unwrap(), wanted);
        assert_eq!(read(r#"{"other": {}, "default": {"default": {"t.py::a": 1.5}}}"#).unwrap(), wanted);
        for wrong in [
            "",
            "{}",
            "[]",
            "3",
            r#"{"a": "x"}"#,
            r#"{"other": {"default": {"a": 1}}}"#,
            r#"[["t.py::a", 1.5]]"#,
            r#"{"a": -1}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let merged = merge_durations(&[
            TestDurations::from([("a".into(), 1.0), ("b".into(), 7.0)]),
            TestDurations::from([("a".into(), 2.0)]),
            TestDurations::from([("a".into(), 30.0)]),
        ]);
        assert_eq!(merged, TestDurations::from([("a".into(), 2.0), ("b".into(), 7.0)]));
    }
}
