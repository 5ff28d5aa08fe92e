//! Input: the projects of an index, and what else its page tells. Output: the page on which a
//! person chooses a GPU, a Python and a package, and copies the lines that install it.
//! The page is one file without links to others: it works from `file:` and from every server. Only
//! hashes are read from the index's pages on the same server. Its script may run because its hash
//! is in the page's policy, so no text in a package can become a script. This crate knows no GPUs:
//! the names of products come from the caller.

mod encode;
mod needs;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pep440_rs::Version;
use rocwheel_content::sha256;
use rocwheel_index::pages::{GENERATOR, ProjectStatus, escaped_html};
use serde::{Deserialize, Serialize};

use crate::seal::{sealed, unsealed};
use encode::{PageTables, RowTexts};
pub(crate) use needs::needs_of;
pub use needs::needs_of_lists;

pub const FILE: &str = "chooser.html";

/// The columns of the table of a page without scripts.
const TITLES: [&str; 3] = ["Package", "Newest version", "Versions"];

const PAGE: &str = include_str!("chooser/page.html");
const STYLE: &str = include_str!("chooser/style.css");
const SCRIPTS: [&str; 7] = [
    include_str!("chooser/model.js"),
    include_str!("chooser/requirements.js"),
    include_str!("chooser/closure.js"),
    include_str!("chooser/lines.js"),
    include_str!("chooser/hashes.js"),
    include_str!("chooser/tables.js"),
    include_str!("chooser/view.js"),
];

/// Facts that the page shows and the index does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChooserOptions {
    /// GPUs by the names that people know, in the order in which they are offered.
    pub gpus: Vec<GpuChoice>,
    /// What changed since the last snapshot of the index; `None` where there is none.
    pub changes: Option<IndexChanges>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuChoice {
    /// Its target, such as `gfx942`.
    pub target: String,
    /// The product that people know it by.
    pub product: String,
    /// Further products with it.
    pub cards: Vec<String>,
    /// The names of device packages that serve it, the narrowest first: its target, the generic
    /// target whose code it runs, families.
    pub served_by: Vec<String>,
}

/// The differences between two states of an index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexChanges {
    /// What people call the earlier state: a date, or the number of a snapshot.
    pub since: String,
    /// Versions that are new or have new files.
    pub added: Vec<ChangedVersion>,
    /// Versions that lost files.
    pub removed: Vec<ChangedVersion>,
    /// Versions whose files were withdrawn (PEP 592).
    pub withdrawn: Vec<ChangedVersion>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedVersion {
    /// The canonical name of the project.
    pub project: String,
    pub version: String,
    pub files: usize,
}

/// A project as the page offers it.
#[derive(Debug, Clone)]
pub struct OfferedProject {
    pub name: String,
    /// Its status (PEP 792).
    pub status: ProjectStatus,
    pub status_reason: Option<String>,
    /// In any order.
    pub files: Vec<OfferedFile>,
}

/// A file of a project, as far as a choice depends on it.
#[derive(Debug, Clone)]
pub struct OfferedFile {
    pub version: Version,
    /// `cp312-cp312-linux_x86_64` of a wheel, with all its compressed tags; empty for a source
    /// distribution.
    pub tags: String,
    /// The value of Requires-Python.
    pub requires_python: Option<Arc<str>>,
    /// What METADATA requires, by [`needs_of_lists`].
    pub needs: Arc<str>,
    /// The version of ROCm that METADATA pins.
    pub rocm: Option<Arc<str>>,
    pub uploaded: Timestamp,
    /// Why it is withdrawn (PEP 592); `None` if it is not.
    pub yanked: Option<String>,
}

/// What the page has of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChooserEntry {
    /// A digest of what the entry was made of; empty where it is not known.
    pub seen: String,
    /// The number of its list of rows.
    rows: u32,
    /// The word for a status that is not `active`.
    status: String,
    reason: String,
    newest: String,
    versions: usize,
}

/// A project in the form of the page, whose rows have no numbers yet.
pub struct ChooserProject {
    rows: Vec<RowTexts>,
    entry: ChooserEntry,
}

impl ChooserProject {
    /// `seen` is a digest of what the project was made of.
    pub fn new(project: &OfferedProject, seen: &str) -> ChooserProject {
        let mut versions: Vec<&Version> = project.files.iter().map(|file| &file.version).collect();
        versions.sort_unstable();
        versions.dedup();
        let (status, reason) = match project.status {
            ProjectStatus::Active => ("", ""),
            status => (status.word(), project.status_reason.as_deref().unwrap_or_default()),
        };
        let entry = ChooserEntry {
            seen: seen.to_owned(),
            rows: 0,
            status: status.to_owned(),
            reason: reason.to_owned(),
            newest: versions.last().map(ToString::to_string).unwrap_or_default(),
            versions: versions.len(),
        };
        ChooserProject { rows: encode::rows_of(project), entry }
    }
}

/// All projects of a page in its own form, which is small. A run that changes one project takes the
/// others from what the last run kept.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct ChooserData {
    tables: PageTables,
    /// By canonical name.
    pub projects: BTreeMap<String, ChooserEntry>,
}

impl ChooserData {
    pub fn add(&mut self, name: &str, project: ChooserProject) {
        let rows = self.tables.number(&project.rows);
        self.projects.insert(name.to_owned(), ChooserEntry { rows, ..project.entry });
    }

    /// Adds a project of another page as it is there. Without such a project nothing is added.
    pub fn add_from(&mut self, other: &ChooserData, name: &str) {
        let Some(entry) = other.projects.get(name) else { return };
        if let Some(rows) = self.tables.number_of(&other.tables, entry.rows) {
            self.projects.insert(name.to_owned(), ChooserEntry { rows, ..entry.clone() });
        }
    }

    /// The data as a record, which [`ChooserData::parse`] reads.
    pub fn record(&self) -> Vec<u8> {
        let mut text = serde_json::to_string(self).expect("all keys are text");
        text.push('\n');
        sealed(text)
    }

    /// `None` for a record that is damaged or of another form.
    pub fn parse(bytes: &[u8]) -> Option<ChooserData> {
        serde_json::from_str(unsealed(bytes)?).ok()
    }

    /// The same with numbers in the order of the projects, and without rows that no project has:
    /// the page does not depend on the order in which projects were added.
    #[must_use]
    pub fn ordered(&self) -> ChooserData {
        let mut ordered = ChooserData::default();
        let mut numbers: HashMap<u32, Option<u32>> = HashMap::new();
        for (name, entry) in &self.projects {
            let number =
                numbers.entry(entry.rows).or_insert_with(|| ordered.tables.number_of(&self.tables, entry.rows));
            if let Some(rows) = *number {
                ordered.projects.insert(name.clone(), ChooserEntry { rows, ..entry.clone() });
            }
        }
        ordered
    }

    /// The page. `index` is the folder of the index's first page, relative to the chooser's and
    /// ending in `/` (empty for the same folder); `find_links` the page for `--find-links`.
    pub fn page(&self, index: &str, find_links: Option<&str>, options: &ChooserOptions) -> String {
        let mut rows = String::new();
        for (name, entry) in &self.projects {
            let (name, newest) = (escaped_html(name), escaped_html(&entry.newest));
            let _ = writeln!(rows, "<tr><td>{name}</td><td>{newest}</td><td>{}</td></tr>", entry.versions);
        }
        let table = format!(
            "<table>\n<tr>{}</tr>\n{rows}</table>",
            TITLES.map(|title| format!("<th scope=\"col\">{title}</th>")).concat()
        );
        let data = self.tables.text(&self.projects, index, find_links, options);
        let script = format!("\n(() => {{\n\"use strict\";\n{}}})();\n", SCRIPTS.concat());
        let [script_hash, style_hash] = [script.as_str(), STYLE].map(|text| STANDARD.encode(sha256(text.as_bytes())));
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{script_hash}'; style-src 'sha256-{style_hash}'; \
             connect-src 'self'; base-uri 'none'; form-action 'none'"
        );
        let parts = [
            ("{generator}", GENERATOR),
            ("{policy}", policy.as_str()),
            ("{style}", STYLE),
            ("{table}", table.as_str()),
            ("{data}", data.as_str()),
            ("{script}", script.as_str()),
        ];
        fill(PAGE, &parts)
    }
}

/// A page without scripts in the style of the chooser, for a place beside it. `body` is HTML.
pub fn plain_page(title: &str, body: &str) -> String {
    let style = STANDARD.encode(sha256(STYLE.as_bytes()));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"generator\" content=\"{GENERATOR}\">\n<meta \
         http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'sha256-{style}'\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header><h1>{title}\
         </h1></header>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Fills a template. The parts are in its order, and their texts are not searched for marks.
fn fill(template: &str, parts: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len() + parts.iter().map(|(_, part)| part.len()).sum::<usize>());
    let mut rest = template;
    for (mark, part) in parts {
        if let Some((before, after)) = rest.split_once(mark) {
            text.push_str(before);
            text.push_str(part);
            rest = after;
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: &str, tags: &str, needs: &[&str]) -> OfferedFile {
        let lines: String = needs.iter().map(|line| format!("{line}\n")).collect();
        let headers = rocwheel_wheel::Headers::parse(&format!("Metadata-Version: 2.1\nVersion: {version}\n{lines}\n"));
        let (needs, rocm) = needs_of(&headers);
        OfferedFile {
            version: version.parse().unwrap(),
            tags: tags.to_owned(),
            requires_python: Some(">=3.10".into()),
            needs: needs.into(),
            rocm: rocm.map(Into::into),
            uploaded: "2026-11-20T01:02:03Z".parse().unwrap(),
            yanked: None,
        }
    }

    fn project(name: &str, files: Vec<OfferedFile>) -> OfferedProject {
        OfferedProject { name: name.to_owned(), status: ProjectStatus::Active, status_reason: None, files }
    }

    fn page(index: &str, find_links: Option<&str>, projects: &[OfferedProject], options: &ChooserOptions) -> String {
        let mut data = ChooserData::default();
        for project in projects {
            data.add(&project.name, ChooserProject::new(project, ""));
        }
        data.ordered().page(index, find_links, options)
    }

    fn data_of(page: &str) -> serde_json::Value {
        let (_, rest) = page.split_once("<script id=\"data\" type=\"application/json\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn texts_of_strangers_stay_texts() {
        let evil = "</script><script>alert(1)</script><!-- {script} \" ' &";
        let mut torch = project("torch", vec![file("2.9.1+rocm7.2", "cp312-cp312-linux_x86_64", &[])]);
        torch.files[0].yanked = Some(evil.to_owned());
        torch.status = ProjectStatus::Deprecated;
        torch.status_reason = Some(evil.to_owned());
        let changes = IndexChanges { since: evil.to_owned(), ..IndexChanges::default() };
        let options = ChooserOptions { gpus: Vec::new(), changes: Some(changes) };
        let page = page("simple/", Some("index.html"), &[torch], &options);
        assert_eq!(page.matches("<script").count(), 2, "{page}");
        assert!(!page.contains("alert(1)</script>") && !page.contains("<!--"));
        let data = data_of(&page);
        assert_eq!((&data["reasons"][0], &data["changes"]["since"]), (&evil.into(), &evil.into()));
        assert_eq!(data["projects"][0][3], evil);
    }

    #[test]
    fn the_order_of_files_does_not_matter() {
        let mut projects = vec![
            project("rocm", vec![file("7.2.0", "", &["Provides-Extra: libraries"])]),
            project("torch", vec![file("2.9.1+rocm7.2", "cp312-cp312-linux_x86_64", &[]), file("2.10.0", "", &[])]),
        ];
        let first = page("", None, &projects, &ChooserOptions::default());
        projects[1].files.reverse();
        assert_eq!(page("", None, &projects, &ChooserOptions::default()), first);
        let data = data_of(&first);
        let newest = data["rows"][usize::try_from(data["projects"][1][1].as_u64().unwrap()).unwrap()][0][0].as_u64();
        assert_eq!(data["versions"][usize::try_from(newest.unwrap()).unwrap()], "2.10.0");
    }

    /// One project changes, and the others come from what was kept.
    #[test]
    fn kept_data_gives_the_same_page() {
        let torch = |versions: &[&str]| {
            let files = versions.iter().map(|version| file(version, "cp312-cp312-linux_x86_64", &["Requires-Dist: a"]));
            project("torch", files.collect())
        };
        let add = |data: &mut ChooserData, project: &OfferedProject| {
            data.add(&project.name, ChooserProject::new(project, "seen"));
        };
        let others =
            ["a", "rocm", "zlib"].map(|name| project(name, vec![file("7.2.0", "", &["Provides-Extra: libraries"])]));
        let mut data = ChooserData::default();
        others.iter().rev().for_each(|one| add(&mut data, one));
        add(&mut data, &torch(&["2.9.0+rocm7.1", "2.8.0"]));
        let mut kept: ChooserData = serde_json::from_str(&serde_json::to_string(&data.ordered()).unwrap()).unwrap();
        add(&mut kept, &torch(&["2.10.0+rocm7.2", "2.9.0+rocm7.1"]));
        let mut all = others.to_vec();
        all.push(torch(&["2.10.0+rocm7.2", "2.9.0+rocm7.1"]));
        let options = ChooserOptions::default();
        let html = kept.ordered().page("", None, &options);
        assert!(!html.contains("2.8.0"));
        assert_eq!(html, page("", None, &all, &options));
    }

    /// Four months of nightly builds: four branches for five Pythons and two systems, and the
    /// packages of 31 GPUs.
    #[test]
    fn thousands_of_files_are_a_small_page() {
        let mut torch = Vec::new();
        let mut device = Vec::new();
        for day in 0..120 {
            for branch in 10..14 {
                let version = format!("2.{branch}.0+rocm10.1.0a{}", 20_260_101 + day);
                let mut lines = vec![format!("Requires-Dist: rocm[libraries]==10.1.0a{}", 20_260_101 + day)];
                for gpu in 0..31 {
                    lines.push(format!("Provides-Extra: device-gfx{gpu}"));
                    let part = format!("amd-torch-device-gfx{gpu}=={version}");
                    lines.push(format!("Requires-Dist: {part}; extra == \"device-gfx{gpu}\""));
                }
                let needs: Vec<&str> = lines.iter().map(String::as_str).collect();
                for python in 310..315 {
                    for system in ["linux_x86_64", "win_amd64"] {
                        torch.push(file(&version, &format!("cp{python}-cp{python}-{system}"), &needs));
                    }
                }
                device.push(file(&version, "py3-none-linux_x86_64", &[]));
            }
        }
        assert_eq!(torch.len(), 4800);
        let mut projects = vec![project("torch", torch)];
        projects.extend((0..31).map(|gpu| project(&format!("amd-torch-device-gfx{gpu}"), device.clone())));
        let page = page("", None, &projects, &ChooserOptions::default());
        assert!(page.len() < 200_000, "{} bytes", page.len());
    }
}
