//! Input: the lists of other projects. Output: rows.
//!
//! TheRock's lists are Python with one dictionary, which is read and not run: section (`common`, a
//! target, a system) → label of a module → names of methods. JAX's have words instead. PyTorch's
//! JSON of disabled tests is `{"test_x (__main__.TestClass)": [link, [platforms]]}`, in a newer
//! form with the number of the issue first; that of slow tests is `{name: seconds}`.

use std::path::Path;

use rocwheel_progress::{Context as _, Failure};
use rocwheel_python_literals::{Module, Value};
use serde_json::Value as Json;

use super::{ListFile, ListKind, ListRow, OF_PYTORCH, OF_THEROCK, SYSTEMS, TestPattern, specifiers, wrong_list};

fn row(pattern: TestPattern, reason: String, place: String) -> ListRow {
    ListRow {
        pattern,
        kind: ListKind::Skip,
        reason,
        link: None,
        owner: None,
        expires: None,
        targets: Vec::new(),
        versions: None,
        platforms: Vec::new(),
        place,
    }
}

/// Reads a folder of TheRock's: `generic.py`, and `pytorch_2.12.py` or `jax_0.10.1.py` for the
/// version. `all` takes every version.
pub(super) fn therock_folder(folder: &Path, version: Option<&str>, may_miss: bool) -> Result<ListFile, Failure> {
    let mut list = ListFile::default();
    for name in files(folder, version, may_miss, &mut list)? {
        let path = folder.join(&name);
        let bytes = list.read_file(&path, None)?;
        let text = String::from_utf8_lossy(&bytes);
        let rows = rows_of_python(&text, &name).map_err(|reason| wrong_list(&path, &reason))?;
        list.rows.extend(rows);
    }
    Ok(list)
}

fn files(folder: &Path, version: Option<&str>, may_miss: bool, list: &mut ListFile) -> Result<Vec<String>, Failure> {
    let entries = fs_err::read_dir(folder).with_context(|| format!("cannot read the list `{}`", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_list(name))
        .collect();
    names.sort();
    let Some(version) = version.filter(|version| *version != "all") else {
        if version.is_none() {
            names.retain(|name| name == "generic.py");
        }
        return Ok(names);
    };
    let end = format!("_{version}.py");
    if !names.iter().any(|name| name.ends_with(&end)) {
        let project = names.iter().find_map(|name| name.split_once('_')).map_or("pytorch", |(project, _)| project);
        let file = format!("{project}_{version}.py");
        if !may_miss {
            let folder = folder.display();
            return Err(Failure::message(format!("`{folder}` has no list for version {version}: `{file}` is missing"))
                .with_hint("write the list, or give `--allow-missing-list`, which is recorded in the run"));
        }
        list.digests.insert(file, "missing".to_owned());
    }
    names.retain(|name| name == "generic.py" || name.ends_with(&end));
    Ok(names)
}

/// `generic.py`, `pytorch_2.12.py`; not `create_skip_tests.py`.
fn is_list(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".py") else { return false };
    let version = stem.split_once('_').map(|(_, version)| version);
    stem == "generic" || version.is_some_and(|text| text.split('.').all(|part| part.parse::<u32>().is_ok()))
}

/// The rows of one of TheRock's files. The version in its name is that of its rows.
pub(super) fn rows_of_python(text: &str, name: &str) -> Result<Vec<ListRow>, String> {
    let version = name.strip_suffix(".py").and_then(|stem| stem.split_once('_')).map(|(_, version)| version);
    let versions = version.map(specifiers).transpose()?;
    let mut rows = Vec::new();
    for (section, labels) in sections(text)? {
        for (label, values) in pairs(&labels)? {
            for value in values.sequence().ok_or_else(|| format!("`{label}` of `{section}` is no list"))? {
                let place = format!("{name}, {section}, {label}");
                let mut row = row(pattern(&label, value)?, OF_THEROCK.to_owned(), place);
                row.versions.clone_from(&versions);
                if SYSTEMS.contains(&section.as_str()) {
                    row.platforms.push(section.clone());
                } else if section != "common" {
                    row.targets.push(section.clone());
                }
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

fn pattern(label: &str, value: &Value) -> Result<TestPattern, String> {
    if let Some(name) = value.text() {
        return Ok(TestPattern::Method { label: label.to_owned(), name: name.to_owned() });
    }
    let fields = pairs(value)?;
    let [deny, unless] =
        ["deny", "unless"].map(|name| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value));
    let deny = deny.and_then(Value::text).ok_or("an entry is neither a name nor has it `deny`")?;
    let unless = unless.and_then(Value::sequence).unwrap_or_default();
    let unless = unless.iter().filter_map(Value::text).map(str::to_lowercase).collect();
    Ok(TestPattern::Keyword { deny: deny.to_lowercase(), unless })
}

fn sections(text: &str) -> Result<Vec<(String, Value)>, String> {
    let module = Module::read(text).map_err(|error| format!("line {}: {}", error.line, error.message))?;
    pairs(module.scope.get("skip_tests").ok_or("it does not define `skip_tests`")?)
}

/// The entries of a dictionary whose keys are texts.
fn pairs(value: &Value) -> Result<Vec<(String, Value)>, String> {
    let pairs = value.sequence().ok_or("not a dictionary")?.iter().map(|pair| match pair.sequence() {
        Some([key, value]) => Some((key.text()?.to_owned(), value.clone())),
        _ => None,
    });
    pairs.collect::<Option<_>>().ok_or_else(|| "not a dictionary with texts as keys".to_owned())
}

/// The expression that TheRock's `create_skip_tests.py` prints, with its rule: a section counts if
/// its name is part of a filter. Names are sorted, which the script leaves to chance. `None` if
/// there are none; the script prints an expression then that pytest refuses.
pub fn therock_expression(
    folder: &Path,
    filters: &[String],
    version: Option<&str>,
    includes: bool,
) -> Result<Option<String>, Failure> {
    let mut list = ListFile::default();
    let mut names = std::collections::BTreeSet::new();
    for file in files(folder, version, true, &mut list)? {
        let path = folder.join(&file);
        let bytes = list.read_file(&path, None)?;
        for (section, labels) in
            sections(&String::from_utf8_lossy(&bytes)).map_err(|reason| wrong_list(&path, &reason))?
        {
            if !filters.iter().any(|filter| filter.contains(&section)) {
                continue;
            }
            for (_, values) in pairs(&labels).map_err(|reason| wrong_list(&path, &reason))? {
                names.extend(values.sequence().unwrap_or_default().iter().filter_map(Value::text).map(str::to_owned));
            }
        }
    }
    let names: Vec<String> = names.into_iter().collect();
    Ok(match (names.is_empty(), includes) {
        (true, _) => None,
        (false, true) => Some(names.join(" or ")),
        (false, false) => Some(format!("not {}", names.join(" and not "))),
    })
}

/// The rows of PyTorch's JSON.
pub(super) fn rows_of_json(text: &str, name: &str) -> Result<Vec<ListRow>, String> {
    let Json::Object(entries) = serde_json::from_str(text).map_err(|error| error.to_string())? else {
        return Err("it is no object of tests".to_owned());
    };
    let mut rows = Vec::new();
    for (test, value) in entries {
        let (method, class) = test
            .trim()
            .strip_suffix(')')
            .and_then(|text| text.split_once(" ("))
            .ok_or_else(|| format!("`{test}` is not `test_x (__main__.TestClass)`"))?;
        let class = class.rsplit('.').next().unwrap_or(class).to_owned();
        let pattern = TestPattern::Disabled { class, name: method.trim().to_owned() };
        let place = format!("{name}, `{test}`");
        rows.push(match value {
            Json::Number(seconds) => row(pattern, format!("slow: takes {seconds} s in PyTorch's CI"), place),
            Json::Array(fields) => disabled(row(pattern, OF_PYTORCH.to_owned(), place), &fields)?,
            _ => return Err(format!("`{test}` has neither a list nor a number")),
        });
    }
    Ok(rows)
}

/// `[link, [platforms]]`, or `[number, link, [platforms]]`.
fn disabled(mut row: ListRow, fields: &[Json]) -> Result<ListRow, String> {
    let ([Json::String(link), Json::Array(platforms)] | [_, Json::String(link), Json::Array(platforms)]) = fields
    else {
        return Err(format!("{}: not `[link, [platforms]]`", row.place));
    };
    row.link = Some(link.clone()).filter(|link| !link.is_empty());
    row.platforms = platforms.iter().filter_map(Json::as_str).map(str::to_owned).collect();
    Ok(row)
}
