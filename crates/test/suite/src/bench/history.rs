//! Input: measurements with what they were made on. Output: a history in JSON lines, one file for
//! each kind of hardware, which is only appended to.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rocwheel_content::{hexadecimal, sha256};
use rocwheel_doctor::{Diagnosis, MachineTree};
use rocwheel_progress::Failure;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::formats::{Better, Measurement};
use super::statistics::Summary;
use super::{BenchConditions, file_error};

/// What has to be equal for measurements to be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchKey(BTreeMap<String, String>);

impl BenchKey {
    /// A key of these facts; empty ones do not count.
    pub fn new(facts: BTreeMap<String, String>) -> BenchKey {
        BenchKey(facts.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }

    /// The processor of a machine, for benchmarks that use no GPU.
    pub fn of_processor(tree: &MachineTree) -> BenchKey {
        BenchKey::new(BTreeMap::from([("processor".to_owned(), rocwheel_doctor::processor(tree))]))
    }

    /// The GPU with this number for HIP; `None` if there is none.
    pub fn of_gpu(tree: &MachineTree, diagnosis: &Diagnosis, number: usize) -> Option<BenchKey> {
        let gpu = diagnosis.gpus.iter().find(|gpu| gpu.hip_index == Some(number))?;
        let driver = diagnosis.system.driver.clone().or_else(|| diagnosis.system.kernel.clone());
        let mut facts = gpu.benchmark_facts(tree);
        facts.insert("driver".to_owned(), driver.unwrap_or_default());
        facts.insert("processor".to_owned(), rocwheel_doctor::processor(tree));
        Some(BenchKey::new(facts))
    }

    pub fn is_of_processor(&self) -> bool {
        self.0.keys().all(|name| name == "processor")
    }

    pub fn facts(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// What differs, as `power limit was 300 and is 200`.
    pub fn differences(&self, before: &BenchKey) -> Vec<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(before.0.keys()).collect();
        let mut differences = Vec::new();
        for name in names {
            let [was, is] = [before, self].map(|key| key.0.get(name).map_or("unknown", String::as_str));
            if was != is {
                differences.push(format!("{name} was {was} and is {is}"));
            }
        }
        differences
    }

    fn file_name(&self) -> String {
        let text: String = self.0.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        let digest = hexadecimal(&sha256(text.as_bytes()));
        let word = self.0.get("target").map_or("processor", String::as_str);
        let plain: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
        format!("{plain}-{}.jsonl", &digest[..12])
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchRecord {
    /// Version of the form: 1.
    pub schema: u32,
    pub key: BenchKey,
    /// End in RFC 3339.
    pub time: String,
    /// Name of the measured state: a commit, a version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Facts that hardware does not fix: the governor, the load.
    #[serde(default)]
    pub conditions: BenchConditions,
    /// Benchmarks by name.
    pub benchmarks: BTreeMap<String, Measurement>,
    /// Benchmarks that were slower than their baseline, which later runs are still compared with.
    #[serde(default)]
    pub slower: Vec<String>,
}

/// What a benchmark is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Baseline<'a> {
    /// Nothing was measured before.
    None,
    /// Everything that was measured before was so in units that cannot be compared; the newest one.
    OtherUnit(String),
    /// Everything that was measured before was so under other conditions. The differences from the
    /// newest one.
    OtherConditions(Vec<String>),
    Found(Cow<'a, Measurement>),
}

/// A folder with a file for each key.
#[derive(Debug, Clone)]
pub struct History {
    path: PathBuf,
    records: Vec<BenchRecord>,
    others: usize,
}

impl History {
    /// A folder that does not exist is an empty history.
    pub fn open(folder: &Path, key: &BenchKey) -> Result<History, Failure> {
        let path = folder.join(key.file_name());
        let text = match fs_err::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(file_error(&path)(error)),
        };
        let files = fs_err::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let others = files.filter(|found| found.extension() == Some("jsonl".as_ref()) && *found != path).count();
        let mut records = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let record: BenchRecord = serde_json::from_str(line).map_err(|error| {
                Failure::message(format!("line {} of `{}` is no record: {error}", number + 1, path.display()))
                    .with_hint("remove the line, or restore the file from a copy")
            })?;
            if record.key == *key {
                records.push(record);
            }
        }
        Ok(History { path, records, others })
    }

    /// The newest measurement of a benchmark under the same conditions, in a unit that can be
    /// converted to that of the new one, that was not slower than its own baseline; with a label,
    /// the newest one with that label.
    pub fn baseline(
        &self,
        benchmark: &str,
        new: &Measurement,
        conditions: &BenchConditions,
        label: Option<&str>,
    ) -> Baseline<'_> {
        let records = self.records.iter().rev().filter(|record| match label {
            Some(label) => record.label.as_deref() == Some(label),
            None => !record.slower.iter().any(|name| name == benchmark),
        });
        let (mut differences, mut other_unit) = (None, None);
        for record in records {
            let Some(one) = record.benchmarks.get(benchmark) else { continue };
            let Some(converted) = one.in_unit_of(new) else {
                other_unit.get_or_insert(&one.unit);
                continue;
            };
            let found = conditions.differences(&record.conditions);
            if found.is_empty() {
                return Baseline::Found(converted);
            }
            differences.get_or_insert(found);
        }
        match (differences, other_unit) {
            (Some(differences), _) => Baseline::OtherConditions(differences),
            (None, Some(unit)) => Baseline::OtherUnit(unit.clone()),
            (None, None) => Baseline::None,
        }
    }

    pub fn labels(&self) -> BTreeSet<&str> {
        self.records.iter().filter_map(|record| record.label.as_deref()).collect()
    }

    /// The benchmarks that were measured with a label.
    pub fn labelled(&self, label: &str) -> BTreeSet<&str> {
        let records = self.records.iter().filter(|record| record.label.as_deref() == Some(label));
        records.flat_map(|record| record.benchmarks.keys().map(String::as_str)).collect()
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Histories of other hardware beside this one.
    pub fn others(&self) -> usize {
        self.others
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record as one line, in one write.
    pub fn append(&self, record: &BenchRecord) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(record).map_err(|error| file_error(&self.path)(error.into()))?;
        line.push(b'\n');
        if let Some(folder) = self.path.parent() {
            fs_err::create_dir_all(folder).map_err(file_error(&self.path))?;
        }
        // A killed writer leaves a line without an end, which must not swallow this one.
        let has_end = fs_err::read(&self.path).map_or(true, |bytes| bytes.is_empty() || bytes.ends_with(b"\n"));
        if !has_end {
            line.insert(0, b'\n');
        }
        let file = fs_err::OpenOptions::new().create(true).append(true).open(&self.path);
        file.and_then(|mut file| file.write_all(&line)).map_err(file_error(&self.path))
    }
}

/// The medians as rows of JSON, which say no direction: only those of one fit into one file.
pub fn median_rows(benchmarks: &BTreeMap<String, Measurement>, better: Better) -> Value {
    let rows = benchmarks.iter().filter(|(_, one)| one.better == better).filter_map(|(name, one)| {
        let summary = Summary::of(&one.samples)?;
        Some(json!({
            "name": name,
            "unit": if one.unit.is_empty() { "value" } else { &one.unit },
            "value": summary.median,
            "range": format!("± {:.4}", summary.deviation),
            "extra": format!("{} samples, smallest {}", summary.samples, summary.smallest),
        }))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(target: &str) -> BenchKey {
        BenchKey::new(BTreeMap::from([("target".to_owned(), target.to_owned()), ("empty".to_owned(), String::new())]))
    }

    fn record(target: &str, label: &str, sample: f64, slower: &[&str]) -> BenchRecord {
        let measurement = Measurement { unit: "us".into(), better: Better::Smaller, samples: vec![sample] };
        BenchRecord {
            schema: 1,
            key: key(target),
            time: "2026-11-23T12:00:00Z".into(),
            label: Some(label.into()),
            conditions: BenchConditions::default(),
            benchmarks: BTreeMap::from([("add".to_owned(), measurement)]),
            slower: slower.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn another_gpu_has_no_baseline_and_a_slower_record_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path(), &key("gfx942")).unwrap();
        assert!(history.is_empty());
        history.append(&record("gfx942", "one", 1.0, &[])).unwrap();
        history.append(&record("gfx942", "two", 2.0, &["add"])).unwrap();
        let history = History::open(folder.path(), &key("gfx942")).unwrap();
        let new = record("gfx942", "three", 1.0, &[]).benchmarks.remove("add").unwrap();
        let conditions = BenchConditions::default();
        let samples = |label| match history.baseline("add", &new, &conditions, label) {
            Baseline::Found(one) => one.samples.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!((samples(None), samples(Some("two"))), (vec![1.0], vec![2.0]));
        assert_eq!(history.baseline("mul", &new, &conditions, None), Baseline::None);
        let with = |unit: &str| Measurement { unit: unit.to_owned(), ..new.clone() };
        let Baseline::Found(converted) = history.baseline("add", &with("ms"), &conditions, None) else { panic!() };
        assert_eq!((&*converted.unit, converted.samples[0]), ("ms", 0.001));
        let other = Baseline::OtherUnit("us".to_owned());
        assert_eq!(history.baseline("add", &with("GB/s"), &conditions, None), other);
        fs_err::write(folder.path().join("README.md"), "ours").unwrap();
        let other = History::open(folder.path(), &key("gfx1100")).unwrap();
        assert_eq!((other.is_empty(), other.others()), (true, 1));
        assert!(!key("gfx942").facts().contains_key("empty"));
        assert_eq!(key("gfx942").differences(&key("gfx90a")), ["target was gfx90a and is gfx942"]);
    }

    #[test]
    fn a_cut_line_is_named_and_swallows_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path(), &key("gfx942")).unwrap();
        history.append(&record("gfx942", "one", 1.0, &[])).unwrap();
        let mut text = fs_err::read_to_string(history.path()).unwrap();
        text.push_str("{\"schema\":");
        fs_err::write(history.path(), text).unwrap();
        history.append(&record("gfx942", "two", 2.0, &[])).unwrap();
        let error = History::open(folder.path(), &key("gfx942")).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
        assert_eq!(fs_err::read_to_string(history.path()).unwrap().lines().count(), 3);
    }
}
