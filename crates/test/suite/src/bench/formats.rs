//! Input: the output of a benchmark. Output: its measurements.
//!
//! Known forms: the list of github-action-benchmark's `customSmallerIsBetter`, its own data file,
//! results of asv, a table of names and numbers, the CSV of PyTorch's operator benchmarks, and any
//! CSV with columns for name and value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::BenchError;

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
    /// Which direction is better.
    #[serde(default)]
    pub better: Better,
    /// One number for each run, in `unit`.
    pub samples: Vec<f64>,
}

/// Reads the measurements of an output, by name. `name` is what errors call the output.
///
/// # Errors
/// [`BenchError::Output`].
pub fn parse_measurements(text: &str, name: &str) -> Result<BTreeMap<String, Measurement>, BenchError> {
    let refuse = |reason: String| BenchError::Output { name: name.to_owned(), reason };
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err(refuse("it is empty".to_owned()));
    }
    let found = match json_of(text) {
        Some(value) => of_json(&value).map_err(refuse)?,
        None => of_csv(text).map_err(refuse)?,
    };
    if found.is_empty() {
        return Err(refuse("it has no benchmark".to_owned()));
    }
    let wrong =
        found.iter().find(|(_, one)| one.samples.is_empty() || one.samples.iter().any(|sample| !sample.is_finite()));
    if let Some((benchmark, _)) = wrong {
        return Err(refuse(format!("`{benchmark}` has a sample that is no number")));
    }
    let no_time = found.iter().filter(|(_, one)| one.is_time());
    let no_time =
        no_time.filter_map(|(name, one)| Some((name, one, one.samples.iter().find(|sample| **sample <= 0.0)?)));
    match no_time.into_iter().next() {
        Some((name, one, sample)) => {
            Err(refuse(format!("`{name}` took {sample} {}, and a time is more than 0", one.unit)))
        }
        None => Ok(found),
    }
}

/// JSON, also behind other lines that the program printed, and in github-action-benchmark's script.
fn json_of(text: &str) -> Option<Value> {
    let text = text.strip_prefix("window.BENCHMARK_DATA").map_or(text, |rest| rest.trim_start_matches([' ', '=']));
    let text = text.trim_end_matches(';');
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
        Value::Array(rows) => rows.iter().try_for_each(|row| custom_row(row, Better::Smaller, &mut found))?,
        Value::Object(table) if table.get("entries").is_some_and(Value::is_object) => {
            github_data(table, &mut found)?;
        }
        Value::Object(table) if table.get("results").is_some_and(Value::is_object) => asv(table, &mut found)?,
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

/// A row of `customSmallerIsBetter`; ours may have `samples` and `better` as well.
fn custom_row(row: &Value, better: Better, found: &mut BTreeMap<String, Measurement>) -> Result<(), String> {
    let name = row.get("name").and_then(Value::as_str).ok_or_else(|| format!("`{row}` has no `name`"))?;
    let samples = row.get("samples").or_else(|| row.get("value")).and_then(numbers);
    let samples = samples.ok_or_else(|| format!("`{name}` has no `value`"))?;
    let better = match row.get("better").and_then(Value::as_str) {
        Some("bigger") => Better::Bigger,
        _ => better,
    };
    let unit = row.get("unit").and_then(Value::as_str).unwrap_or_default();
    add(found, name, measurement(unit, better, samples))
}

/// The file that github-action-benchmark keeps; each point is a sample.
fn github_data(table: &Map<String, Value>, found: &mut BTreeMap<String, Measurement>) -> Result<(), String> {
    for points in table["entries"].as_object().into_iter().flat_map(Map::values).filter_map(Value::as_array) {
        for point in points {
            let tool = point.get("tool").and_then(Value::as_str).unwrap_or_default();
            let better = if tool == "customBiggerIsBetter" { Better::Bigger } else { Better::Smaller };
            let rows = point.get("benches").and_then(Value::as_array).ok_or("a point has no `benches`")?;
            rows.iter().try_for_each(|row| custom_row(row, better, found))?;
        }
    }
    Ok(())
}

/// A result file of asv: `result_columns` names what each list has; older files have tables.
fn asv(table: &Map<String, Value>, found: &mut BTreeMap<String, Measurement>) -> Result<(), String> {
    let columns: Vec<&str> = table
        .get("result_columns")
        .and_then(Value::as_array)
        .map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_str).collect());
    let at = |name: &str| columns.iter().position(|column| *column == name);
    for (name, entry) in table["results"].as_object().into_iter().flatten() {
        let field = |field: &str| match entry {
            Value::Array(list) => list.get(at(field)?),
            Value::Object(table) => table.get(field),
            _ => None,
        };
        // asv keeps a median for each combination of parameters, and the samples of it, if asked.
        let values = match (field("result"), entry) {
            (Some(Value::Array(values)), _) => values.clone(),
            (None, Value::Array(values)) if columns.is_empty() => values.clone(),
            (Some(value), _) | (None, value) => vec![value.clone()],
        };
        let samples = field("samples").and_then(Value::as_array);
        for (number, value) in values.iter().enumerate() {
            // A benchmark that failed has no number.
            let Some(middle) = numbers(value).filter(|_| !value.is_null()) else { continue };
            let list = samples.and_then(|samples| numbers(samples.get(number)?)).filter(|list| !list.is_empty());
            let name = if values.len() == 1 { name.clone() } else { format!("{name}[{number}]") };
            add(found, &name, measurement("seconds", Better::Smaller, list.unwrap_or(middle)))?;
        }
    }
    Ok(())
}

fn of_csv(text: &str) -> Result<BTreeMap<String, Measurement>, String> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| error.to_string())?.clone();
    let column = |names: &[&str]| {
        names.iter().find_map(|name| headers.iter().position(|header| header.to_ascii_lowercase() == *name))
    };
    let name = column(&["case name", "name", "benchmark", "function"]);
    let value = column(&["execution time", "value", "median", "mean", "time", "us", "time(us)"]);
    let (Some(name), Some(value)) = (name, value) else {
        let known: Vec<&str> = headers.iter().take(8).collect();
        return Err(format!(
            "it is no JSON, and its first line has no columns for name and value: {}",
            known.join(", ")
        ));
    };
    // PyTorch's operator benchmarks print microseconds, and one row for each direction.
    let is_operator = headers.iter().any(|header| header == "Case Name");
    let (unit, backward) = (column(&["unit"]), column(&["run_backward"]));
    let mut found = BTreeMap::new();
    for row in reader.records() {
        let row = row.map_err(|error| error.to_string())?;
        let (Some(label), Some(text)) = (row.get(name).filter(|label| !label.is_empty()), row.get(value)) else {
            continue;
        };
        let number: f64 = text.parse().map_err(|_| format!("`{label}` has the value `{text}`"))?;
        let is_backward =
            backward.and_then(|column| row.get(column)).is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let label = if is_backward && !label.contains("_bwd") { format!("{label}_backward") } else { label.to_owned() };
        let unit = if is_operator { "us" } else { unit.and_then(|column| row.get(column)).unwrap_or_default() };
        add(&mut found, &label, measurement(unit, Better::Smaller, vec![number]))?;
    }
    Ok(found)
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
    fn outputs_of_known_tools_are_read() {
        let custom = r#"[{"name": "add", "unit": "us", "value": 1.5, "range": "3"}, {"name": "add", "unit": "us", "value": "2"}]"#;
        assert_eq!(read(custom)["add"], one("us", Better::Smaller, &[1.5, 2.0]));
        assert_eq!(read(&format!("warming up\n{}", custom.replace('\n', "")))["add"].samples, [1.5, 2.0]);
        let github = r#"window.BENCHMARK_DATA = {"lastUpdate": 1, "entries": {"s": [{"tool": "customBiggerIsBetter",
            "benches": [{"name": "rate", "value": 9, "unit": "GB/s"}]}]}};"#;
        assert_eq!(read(github)["rate"], one("GB/s", Better::Bigger, &[9.0]));
        let asv = r#"{"commit_hash": "a", "result_columns": ["result", "params", "samples"], "results": {
            "time_a": [[0.5], [], [[0.4, 0.5, 0.6]]], "time_b": [[1.0, null, 3.0], [["x", "y", "z"]]]}, "version": 2}"#;
        let asv = read(asv);
        assert_eq!(asv["time_a"].samples, [0.4, 0.5, 0.6]);
        assert_eq!((asv["time_b[0]"].samples[0], asv["time_b[2]"].samples[0], asv.len()), (1.0, 3.0, 3));
        let torch = "Benchmarking Framework,Benchmarking Module Name,Case Name,tag,run_backward,Execution Time,Peak Memory (KB)\n\
            PyTorch,add,add_M1_N1_K1_cpu,short,False,1.977,0\nPyTorch,add,add_M1_N1_K1_cpu,short,True,5.5,0\n";
        assert_eq!(read(torch)["add_M1_N1_K1_cpu"], one("us", Better::Smaller, &[1.977]));
        assert_eq!(read(torch)["add_M1_N1_K1_cpu_backward"].samples, [5.5]);
        assert_eq!(read("name,value,unit\na,1,ms\na,2,ms\n")["a"], one("ms", Better::Smaller, &[1.0, 2.0]));
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
            "name,value\n",
            "name,value\na,x\n",
            "name,value,unit\na,1,ms\na,1000,us\n",
            "{\"a\": []}",
            "name,value,unit\na,0,us\n",
            "name,value,unit\na,3,ns/iter\na,-1,ns/iter\n",
        ] {
            assert!(parse_measurements(wrong, "x").is_err(), "{wrong}");
        }
    }
}
