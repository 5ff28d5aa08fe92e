//! Input: the tests of a suite, and how long each took before. Output: parts that take about the
//! same time, each test in one of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

use serde_json::Value;

use crate::outcome::TestEvent;
use crate::report::ReportError;

/// Durations of tests in seconds, by identity.
pub type TestDurations = BTreeMap<String, f64>;

/// Divides tests into `shards` parts: the longest first, each to the part with the least to do. A
/// test of unknown duration counts as one of the median duration. The result depends on the
/// identities and durations alone, and a part keeps the order of `ids`. Every index of `ids` is in
/// one part, so a repeated identity is so as well.
///
/// # Panics
/// Never: there is at least one part.
pub fn assign(ids: &[String], durations: &BTreeMap<String, f64>, shards: u32) -> Vec<Vec<String>> {
    let count = shards.max(1) as usize;
    let known = |id: &String| durations.get(id).copied().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    let unknown = median(ids.iter().filter_map(known).collect()).unwrap_or(1.0);
    // Nanoseconds are whole numbers, so that sums do not depend on their order.
    let nanoseconds = |id: &String| (known(id).unwrap_or(unknown) * 1e9) as u64;
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_key(|index| (Reverse(nanoseconds(&ids[*index])), &ids[*index], *index));
    let mut loads: BinaryHeap<Reverse<(u64, usize, usize)>> = (0..count).map(|part| Reverse((0, 0, part))).collect();
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); count];
    for index in order {
        let Reverse((load, tests, part)) = loads.pop().expect("there is at least one part");
        parts[part].push(index);
        // Tests of no duration are divided by their number.
        loads.push(Reverse((load + nanoseconds(&ids[index]), tests + 1, part)));
    }
    let words = |mut part: Vec<usize>| {
        part.sort_unstable();
        part.into_iter().map(|index| ids[index].clone()).collect()
    };
    parts.into_iter().map(words).collect()
}

/// Proves that parts have the collected tests, each as often as it was collected.
///
/// # Errors
/// [`ReportError::Shards`].
pub fn check_union(ids: &[String], parts: &[Vec<String>]) -> Result<(), ReportError> {
    let mut wanted: Vec<&String> = ids.iter().collect();
    let mut found: Vec<&String> = parts.iter().flatten().collect();
    wanted.sort_unstable();
    found.sort_unstable();
    if wanted == found {
        return Ok(());
    }
    Err(ReportError::Shards { found: found.len(), wanted: wanted.len() })
}

/// The middle of some numbers.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// Reads durations from a run folder or its events, from pytest-split's `.test_durations`, or from
/// PyTorch's `test-times.json`. `job` and `configuration` choose in the last of them; `default` is
/// what PyTorch takes for others.
///
/// # Errors
/// [`ReportError::Read`] and [`ReportError::Durations`].
pub fn read_durations(path: &Path, job: &str, configuration: &str) -> Result<TestDurations, ReportError> {
    let file = if path.is_dir() { path.join("events.jsonl") } else { path.to_owned() };
    let bytes = fs_err::read(&file).map_err(|source| ReportError::Read { path: file.clone(), source })?;
    let wrong = |reason: String| ReportError::Durations { path: file.clone(), reason };
    let is_lines = file.extension().is_some_and(|extension| extension == "jsonl");
    let durations = if is_lines {
        of_events(&bytes)
    } else {
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        of_json(&value, job, configuration).map_err(wrong)?
    };
    if durations.is_empty() {
        return Err(wrong("it has no test with a duration".to_owned()));
    }
    Ok(durations)
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
        // pytest-split's older form.
        Value::Array(pairs) => pairs
            .iter()
            .map(|pair| match pair.as_array().map(Vec::as_slice) {
                Some([Value::String(id), seconds]) => number(id, seconds),
                _ => Err(format!("`{pair}` is no test with its duration")),
            })
            .collect(),
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
        _ => Err("it is neither a table nor a list".to_owned()),
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

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("test_{number:04}.py")).collect()
    }

    /// As many files and hours as PyTorch's job linux-noble-rocm-py3.12-mi300 had on 22 August 2026
    /// (811 files, 29.7 hours), log-normal as measured durations are. The numbers come from a
    /// generator, so that they are the same every time.
    #[allow(clippy::cast_precision_loss, reason = "53 bits are left")]
    fn measured() -> (Vec<String>, TestDurations) {
        let ids = names(811);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 1.0) / 9_007_199_254_740_993.0
        };
        let mut normal = || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let raw: Vec<f64> = (0..ids.len()).map(|_| (1.6 * normal()).exp()).collect();
        let scale = 29.7 * 3600.0 / raw.iter().sum::<f64>();
        let durations = ids.iter().cloned().zip(raw.iter().map(|seconds| seconds * scale)).collect();
        (ids, durations)
    }

    #[test]
    #[allow(clippy::cast_precision_loss, reason = "there are few shards")]
    fn the_longest_shard_is_near_the_mean() {
        let (ids, durations) = measured();
        for shards in 1..=12 {
            let parts = assign(&ids, &durations, shards);
            check_union(&ids, &parts).unwrap();
            let loads: Vec<f64> = parts.iter().map(|part| part.iter().map(|id| durations[id]).sum()).collect();
            let mean = loads.iter().sum::<f64>() / loads.len() as f64;
            let longest = loads.iter().copied().fold(0.0, f64::max);
            assert!(longest / mean <= 1.1, "{shards} shards: {}", longest / mean);
        }
    }

    #[test]
    fn shards_depend_on_tests_and_durations_alone() {
        let ids = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let durations = TestDurations::from([("a".into(), 5.0), ("b".into(), 4.0), ("c".into(), 3.0)]);
        // The others count as 4 seconds, the median.
        assert_eq!(assign(&ids, &durations, 2), [vec!["a", "e"], vec!["b", "c", "d"]]);
        let mut other: Vec<String> = ids.clone();
        other.reverse();
        let sorted = |parts: Vec<Vec<String>>| {
            parts
                .into_iter()
                .map(|mut part| {
                    part.sort();
                    part
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(sorted(assign(&other, &durations, 2)), sorted(assign(&ids, &durations, 2)));
    }

    #[test]
    fn nothing_is_lost_whatever_the_numbers_are() {
        let ids = ["a", "a", "b"].map(str::to_owned).to_vec();
        for shards in [0, 1, 2, 3, 7] {
            let parts = assign(&ids, &TestDurations::new(), shards);
            assert_eq!(parts.len(), shards.max(1) as usize);
            check_union(&ids, &parts).unwrap();
        }
        let odd = TestDurations::from([("a".into(), f64::NAN), ("b".into(), -1.0)]);
        check_union(&ids, &assign(&ids, &odd, 2)).unwrap();
        assert!(check_union(&ids, &[vec!["a".into(), "b".into()]]).is_err());
        assert!(check_union(&ids, &[vec!["a".into(), "b".into(), "b".into()]]).is_err());
    }

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
        assert_eq!(read(r#"[["t.py::a", 1.5]]"#).unwrap(), wanted);
        assert_eq!(read(r#"{"linux": {"default": {"t.py::a": 1.5}}, "default": {}}"#).unwrap(), wanted);
        assert_eq!(read(r#"{"other": {}, "default": {"default": {"t.py::a": 1.5}}}"#).unwrap(), wanted);
        for wrong in ["", "{}", "[]", "3", r#"{"a": "x"}"#, r#"{"other": {"default": {"a": 1}}}"#, r#"[["a", -1]]"#] {
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
