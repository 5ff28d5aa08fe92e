//! Input: rows. Output: lists in the forms of other projects, and what these forms cannot say.
//!
//! The forms are those that [`read_list`](super::read_list) reads: PyTorch's JSON of disabled
//! tests, and TheRock's folder `skip_tests`. Neither knows owners, expiry or expected failures, and
//! both match more loosely than an id does.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rocwheel_progress::one_line;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use super::{ListKind, ListRow, OF_PYTORCH, OF_THEROCK, PLATFORMS, SYSTEMS, TestPattern, members, parts};

/// How a row differs in another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportLoss {
    /// The same tests are skipped; the file lacks a fact, or has it in a comment.
    Fact,
    /// More tests are skipped than the row says.
    Wider,
    /// The file does not have the row.
    Missing,
}

/// What became of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportRemark {
    pub loss: ExportLoss,
    /// The row, and what its form cannot say.
    pub message: String,
}

/// Lists in another form.
#[derive(Debug, Default)]
pub struct ExportedLists {
    /// File name → text. PyTorch's form has one file, without a name.
    pub files: BTreeMap<String, String>,
    /// In the order of the rows.
    pub remarks: Vec<ExportRemark>,
}

impl ExportedLists {
    fn remark(&mut self, row: &ListRow, loss: ExportLoss, what: &str) {
        let message = format!("{}: {} {what}", row.place, row.pattern.words());
        self.remarks.push(ExportRemark { loss, message });
    }

    /// Notes facts that are lost; `in_comment` if people can still read them.
    fn facts(&mut self, row: &ListRow, names: &[&str], in_comment: bool) {
        if !names.is_empty() {
            let place = if in_comment { "is a comment there" } else { "is lost" };
            self.remark(row, ExportLoss::Fact, &format!("has more than the form: {} {place}", names.join(", ")));
        }
    }
}

/// The names of what a row has beside its tests and conditions.
fn facts_of(row: &ListRow, has_link: bool) -> Vec<&'static str> {
    let is_own = ![OF_PYTORCH, OF_THEROCK].contains(&row.reason.as_str());
    let all = [
        ("reason", is_own),
        ("link", has_link && row.link.is_some()),
        ("owner", row.owner.is_some()),
        ("expires", row.expires.is_some()),
    ];
    all.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
}

/// PyTorch's JSON of disabled tests: `{"test_x (__main__.TestClass)": [link, [platforms]]}`.
pub fn export_disabled(rows: &[ListRow]) -> ExportedLists {
    let mut lists = ExportedLists::default();
    let mut entries: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    for row in rows {
        if row.kind != ListKind::Skip {
            lists.remark(row, ExportLoss::Missing, "is no skip, and the form has nothing else");
            continue;
        }
        let key = match &row.pattern {
            TestPattern::Disabled { class, name } => format!("{name} (__main__.{class})"),
            TestPattern::Id(id) => {
                let (method, class, _) = parts(id);
                let Some(class) = class else {
                    lists.remark(row, ExportLoss::Missing, "has no class, by which the form names a test");
                    continue;
                };
                let more = "is skipped in every file, with any parameters, and in classes whose names begin so";
                lists.remark(row, ExportLoss::Wider, more);
                format!("{method} (__main__.{class})")
            }
            TestPattern::Method { .. } | TestPattern::Glob { .. } | TestPattern::Keyword { .. } => {
                lists.remark(row, ExportLoss::Missing, "names no class, by which the form names a test");
                continue;
            }
        };
        if !row.targets.is_empty() || row.versions.is_some() {
            lists.remark(row, ExportLoss::Wider, "is skipped on every GPU and in every version");
        }
        let (known, unknown): (Vec<String>, Vec<String>) =
            row.platforms.iter().cloned().partition(|name| PLATFORMS.contains(&name.as_str()));
        if known.is_empty() && !unknown.is_empty() {
            let text = format!("is skipped everywhere, since PyTorch does not know {}", unknown.join(", "));
            lists.remark(row, ExportLoss::Wider, &text);
        }
        lists.facts(row, &facts_of(row, false), false);
        let link = row.link.clone().unwrap_or_default();
        match entries.get_mut(&key) {
            None => drop(entries.insert(key, (link, known))),
            // A test with two rows is skipped where one of them says so.
            Some((first, platforms)) => {
                if *first != link {
                    lists.remark(row, ExportLoss::Fact, "has an entry already: its link is lost");
                }
                if known.is_empty() || platforms.is_empty() {
                    platforms.clear();
                } else {
                    platforms.extend(known);
                    platforms.sort();
                    platforms.dedup();
                }
            }
        }
    }
    let object: Map<String, Json> = entries.into_iter().map(|(key, value)| (key, json!(value))).collect();
    lists.files.insert(String::new(), format!("{:#}\n", Json::Object(object)));
    lists
}

/// TheRock's folder: `generic.py` and a file for each version, such as `pytorch_2.12.py`. `project`
/// begins the names of these files.
pub fn export_therock(rows: &[ListRow], project: &str) -> ExportedLists {
    let mut lists = ExportedLists::default();
    let mut files: BTreeMap<String, PythonList> = BTreeMap::from([("generic.py".to_owned(), PythonList::default())]);
    for row in rows {
        if row.kind != ListKind::Skip {
            lists.remark(row, ExportLoss::Missing, "is no skip, and the form has nothing else");
            continue;
        }
        let Some(file) = file_of(row, project) else {
            lists.remark(row, ExportLoss::Missing, "is for several versions, and the form has a file for each");
            continue;
        };
        let (label, entry) = match &row.pattern {
            TestPattern::Method { label, name } => (label.clone(), text(name)),
            TestPattern::Keyword { deny, unless } => {
                let unless: Vec<String> = unless.iter().map(|word| text(word)).collect();
                let entry = format!("{{\"deny\": {}, \"unless\": [{}]}}", text(deny), unless.join(", "));
                ("keywords".to_owned(), if unless.is_empty() { format!("{{\"deny\": {}}}", text(deny)) } else { entry })
            }
            TestPattern::Id(id) => {
                let (method, _, path) = parts(id);
                let stem = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".py");
                let more = "is skipped in every class and with any parameters; TheRock's script skips every test \
                            whose name contains it";
                lists.remark(row, ExportLoss::Wider, more);
                (stem.strip_prefix("test_").unwrap_or(stem).to_owned(), text(method))
            }
            TestPattern::Glob { .. } | TestPattern::Disabled { .. } => {
                lists.remark(row, ExportLoss::Missing, "names no file and method, by which the form names a test");
                continue;
            }
        };
        if !row.targets.is_empty() && !row.platforms.is_empty() {
            lists.remark(row, ExportLoss::Wider, "is skipped on every platform of its GPUs");
        } else if row.platforms.iter().any(|platform| !SYSTEMS.contains(&platform.as_str())) {
            lists.remark(row, ExportLoss::Wider, "is skipped on every platform");
        }
        lists.facts(row, &facts_of(row, true), true);
        let list = files.entry(file).or_default();
        for section in sections_of(row) {
            list.add(&section, &label, entry.clone(), comment(row));
        }
    }
    lists.files = files.into_iter().map(|(name, list)| (name, list.text())).collect();
    lists
}

/// `None` for versions that are not exactly those of a file.
fn file_of(row: &ListRow, project: &str) -> Option<String> {
    let Some(versions) = &row.versions else { return Some("generic.py".to_owned()) };
    let text = versions.to_string();
    let plain = text.strip_prefix("==")?.strip_suffix(".*")?;
    Some(format!("{project}_{plain}.py"))
}

/// Targets, the members of families, systems, or `common`.
fn sections_of(row: &ListRow) -> Vec<String> {
    let systems = row.platforms.iter().all(|platform| SYSTEMS.contains(&platform.as_str()));
    if !row.targets.is_empty() {
        row.targets.iter().flat_map(|name| sections_of_target(name)).collect()
    } else if systems && !row.platforms.is_empty() {
        row.platforms.clone()
    } else {
        vec!["common".to_owned()]
    }
}

/// Sections are compared with targets, so a family has one for each. A short form of JAX is one as
/// it is.
fn sections_of_target(name: &str) -> Vec<String> {
    let members = members(name);
    if members.len() > 1 && !is_short(name) {
        members.into_iter().filter(|one| one != name).collect()
    } else {
        vec![name.to_owned()]
    }
}

/// `gfx94`: the beginning of names of targets.
fn is_short(name: &str) -> bool {
    name.strip_prefix("gfx").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A text of JSON is one of Python.
fn text(plain: &str) -> String {
    Json::from(plain).to_string()
}

/// The facts of a row, for people.
fn comment(row: &ListRow) -> Option<String> {
    let names = facts_of(row, true);
    let words = names.iter().filter_map(|name| match *name {
        "link" => row.link.clone(),
        "owner" => row.owner.as_ref().map(|owner| format!("owner: {owner}")),
        "expires" => row.expires.map(|day| format!("expires: {day}")),
        _ => Some(row.reason.clone()),
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| one_line(&words.join("; ")).into_owned())
}

/// An entry of a list, and the comment in front of it.
type Entry = (String, Option<String>);

/// Label → entries, in the order in which they come.
type Labels = Vec<(String, Vec<Entry>)>;

/// Section → labels, in the order in which they come.
#[derive(Debug, Default)]
struct PythonList(Vec<(String, Labels)>);

impl PythonList {
    fn add(&mut self, section: &str, label: &str, entry: String, comment: Option<String>) {
        let labels = slot(&mut self.0, section);
        let entries = slot(labels, label);
        if !entries.iter().any(|(known, _)| *known == entry) {
            entries.push((entry, comment));
        }
    }

    fn text(&self) -> String {
        let mut lines = String::from("# Written by `rocwheel test lists`.\n\nskip_tests = {\n");
        for (section, labels) in &self.0 {
            let _ = writeln!(lines, "    {}: {{", text(section));
            for (label, entries) in labels {
                let _ = writeln!(lines, "        {}: [", text(label));
                for (entry, comment) in entries {
                    if let Some(comment) = comment {
                        let _ = writeln!(lines, "            # {comment}");
                    }
                    let _ = writeln!(lines, "            {entry},");
                }
                lines.push_str("        ],\n");
            }
            lines.push_str("    },\n");
        }
        lines.push_str("}\n");
        lines
    }
}

/// The value of a key, which is added at the end if it is new.
fn slot<'a, T: Default>(pairs: &'a mut Vec<(String, T)>, key: &str) -> &'a mut T {
    let index = pairs.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
        pairs.push((key.to_owned(), T::default()));
        pairs.len() - 1
    });
    &mut pairs[index].1
}
