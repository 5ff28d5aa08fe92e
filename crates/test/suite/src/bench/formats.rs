//! Input: the output of a benchmark. Output: its measurements.
//!
//! Known forms: JSON (a list of rows with `name`, `value` or `samples`, `unit` and `better`, or a
//! table of names and numbers) and the CSV of PyTorch's operator benchmarks.

use std::collections::BTreeMap;

use rocwheel_progress::Failure;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which direction is an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Times.
    #[default]
    Smaller,
    /// Rates.
    Bigger,
}

/// The samples of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The unit of the samples, such as `us`; empty if the output says none.
    #[serde(default)]
    pub unit: String,
    #[serde(default)]
    pub better: Better,
    /// One number for each run, in `unit`.
    pub samples: Vec<f64>,
}

/// The output has no measurements; `reason` has the benchmark or field that is wrong.
pub(super) fn no_measurements(name: &str, reason: &str) -> Failure {
    Failure::message(format!("`{name}` has no measurements: {reason}")).with_hint(
        "print JSON such as `[{\"name\": \"add\", \"unit\": \"us\", \"value\": 1.5}]`, or CSV with the columns \
         `name` and `value` (docs/testing.md)",
    )
}

/// Reads the measurements of an output, by name. `name` is what errors call the output.
pub fn parse_measurements(text: &str, name: &str) -> Result<BTreeMap<String, Measurement>, Failure> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err(no_measurements(name, "it is empty"));
    }
    let found = match json_of(text) {
        Some(value) => of_json(&value),
        None => of_operators(text),
    }
    .map_err(|reason| no_measurements(name, &reason))?;
    if found.is_empty() {
        return Err(no_measurements(name, "it has no benchmark"));
    }
    let wrong =
        found.iter().find(|(_, one)| one.samples.is_empty() || one.samples.iter().any(|sample| !sample.is_finite()));
    if let Some((benchmark, _)) = wrong {
        return Err(no_measurements(name, &format!("`{benchmark}` has a sample that is no number")));
    }
    let no_time = found.iter().filter(|(_, one)| one.is_time());
    let no_time =
        no_time.filter_map(|(name, one)| Some((name, one, one.samples.iter().find(|sample| **sample <= 0.0)?)));
    match no_time.into_iter().next() {
        Some((benchmark, one, sample)) => {
            let reason = format!("`{benchmark}` took {sample} {}, and a time is more than 0", one.unit);
            Err(no_measurements(name, &reason))
        }
        None => Ok(found),
    }
}

/// JSON, also behind other lines that the program printed.
fn json_of(text: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?.trim();
    let value: Value = serde_json::from_str(last).ok()?;
    (value.is_object() || value.is_array()).then_some(value)
}

fn of_json(value: &Value) -> Result<BTreeMap<String, Measurement>, String> {
    let mut found = BTreeMap::new();
    match value {
        Value::Array(rows) => rows.iter().try_for_each(|row| add_row(row, &mut found))?,
        Value::Object(table) => {
            for (name, value) in table {
                let samples =
                    numbers(value).ok_or_else(|| format!("`{name}` is neither a number nor a list of numbers"))?;
                add(&mut found, name, measurement("", Better::Smaller, samples))?;
            }
        }
        _ => return Err("it is neither a list nor a table".to_owned()),
    }
    Ok(found)
}

/// Adds the samples of a benchmark. Those of one name are of one unit.
fn add(found: &mut BTreeMap<String, Measurement>, name: &str, one: Measurement) -> Result<(), String> {
    match found.get_mut(name) {
        None => drop(found.insert(name.to_owned(), one)),
        Some(known) if known.unit == one.unit && known.better == one.better => known.samples.extend(one.samples),
        Some(known) => return Err(format!("`{name}` has two units: `{}` and `{}`", known.unit, one.unit)),
    }
    Ok(())
}

fn measurement(unit: &str, better: Better, samples: Vec<f64>) -> Measurement {
    Measurement { unit: unit.to_owned(), better, samples }
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    match value {
        Value::Number(number) => Some(vec![number.as_f64()?]),
        Value::String(text) => Some(vec![text.trim().parse().ok()?]),
        Value::Array(list) => list.iter().map(Value::as_f64).collect(),
        _ => None,
    }
}

fn add_row(row: &Value, found: &mut BTreeMap<String, Measurement>) -> Result<(), String> {
    let name = row.get("name").and_then(Value::as_str).ok_or_else(|| format!("`{row}` has no `name`"))?;
    let samples = row.get("samples").or_else(|| row.get("value")).and_then(numbers);
    let samples = samples.ok_or_else(|| format!("`{name}` has no `value`"))?;
    let better = match row.get("better").and_then(Value::as_str) {
        Some("bigger") => Better::Bigger,
        _ => Better::Smaller,
    };
    let unit = row.get("unit").and_then(Value::as_str).unwrap_or_default();
    add(found, name, measurement(unit, better, samples))
}

/// PyTorch's operator benchmarks print microseconds, and one row for each direction.
fn of_operators(text: &str) -> Result<BTreeMap<String, Measurement>, String> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| error.to_string())?.clone();
    let (Some(name), Some(time)) = (column(&headers, "Case Name"), column(&headers, "Execution Time")) else {
        let known: Vec<&str> = headers.iter().take(8).collect();
        return Err(format!(
            "it is no JSON, and its first line is not that of PyTorch's operator benchmarks: {}",
            known.join(", ")
        ));
    };
    let backward = column(&headers, "run_backward");
    let mut found = BTreeMap::new();
    for row in reader.records() {
        let row = row.map_err(|error| error.to_string())?;
        let (Some(label), Some(text)) = (row.get(name).filter(|label| !label.is_empty()), row.get(time)) else {
            continue;
        };
        let number: f64 = text.parse().map_err(|_| format!("`{label}` has the value `{text}`"))?;
        let is_backward =
            backward.and_then(|column| row.get(column)).is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let label = if is_backward && !label.contains("_bwd") { format!("{label}_backward") } else { label.to_owned() };
        add(&mut found, &label, measurement("us", Better::Smaller, vec![number]))?;
    }
    Ok(found)
}

fn column(headers: &csv::StringRecord, name: &str) -> Option<usize> {
    headers.iter().position(|header| header.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> BTreeMap<String, Measurement> {
        parse_measurements(text, "x").unwrap()
    }

    fn one(unit: &str, better: Better, samples: &[f64]) -> Measurement {
        Measurement { unit: unit.to_owned(), better, samples: samples.to_vec() }
    }

    #[test]
    fn json_and_the_csv_of_pytorch_are_read() {
        let list = r#"[{"name": "add", "unit": "us", "value": 1.5, "range": "3"}, {"name": "add", "unit": "us", "value": "2"}]"#;
        assert_eq!(read(list)["add"], one("us", Better::Smaller, &[1.5, 2.0]));
        assert_eq!(read(&format!("warming up\n{}", list.replace('\n', "")))["add"].samples, [1.5, 2.0]);
        let torch = "Benchmarking Framework,Benchmarking Module Name,Case Name,tag,run_backward,Execution Time,Peak Memory (KB)\n\
            PyTorch,add,add_M1_N1_K1_cpu,short,False,1.977,0\nPyTorch,add,add_M1_N1_K1_cpu,short,True,5.5,0\n";
        assert_eq!(read(torch)["add_M1_N1_K1_cpu"], one("us", Better::Smaller, &[1.977]));
        assert_eq!(read(torch)["add_M1_N1_K1_cpu_backward"].samples, [5.5]);
        let rate = r#"[{"name": "a", "samples": [1, 2], "unit": "GB/s", "better": "bigger"}]"#;
        assert_eq!(read(rate)["a"], one("GB/s", Better::Bigger, &[1.0, 2.0]));
        assert_eq!(read(r#"{"a": [1, 2], "b": 3}"#)["a"].samples, [1.0, 2.0]);
    }

    #[test]
    fn what_has_no_measurements_is_refused() {
        for wrong in [
            "",
            "hello",
            "[]",
            "{}",
            "3",
            "[1]",
            r#"[{"name": "a"}]"#,
            "name,value\na,1\n",
            "Case Name,Execution Time\n",
            "Case Name,Execution Time\na,x\n",
            "Case Name,Execution Time\na,0\n",
            r#"{"a": []}"#,
            r#"[{"name": "a", "value": 1, "unit": "ms"}, {"name": "a", "value": 1000, "unit": "us"}]"#,
            r#"[{"name": "a", "value": 3, "unit": "ns/iter"}, {"name": "a", "value": -1, "unit": "ns/iter"}]"#,
        ] {
            assert!(parse_measurements(wrong, "x").is_err(), "{wrong}");
        }
    }
}
