//! Input: the projects of an index, and what else its page tells. Output: the page on which a
//! person chooses a GPU, a Python and a package, and copies the lines that install it.
//!
//! The page is one file without links to others: it works from `file:` and from every server. Its
//! script may run because its hash is in the page's policy, so no name or reason that somebody
//! wrote into a package can become a script. This crate knows no GPUs: the names of products come
//! from the caller.

mod encode;
mod needs;

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pep440_rs::Version;
use rocwheel_content::sha256;
use rocwheel_index::pages::{GENERATOR, ProjectStatus, escaped_html};

use encode::PageData;
pub(crate) use needs::needs_of;

/// The name of the page.
pub(crate) const FILE: &str = "chooser.html";

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPTS: [&str; 4] =
    [include_str!("model.js"), include_str!("lines.js"), include_str!("tables.js"), include_str!("view.js")];

/// What the page tells beside the index itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChooserOptions {
    /// GPUs by the names that people know, in the order in which they are offered.
    pub gpus: Vec<GpuChoice>,
    /// What changed since the last snapshot of the index; `None` where there is none.
    pub changes: Option<IndexChanges>,
}

/// A GPU that a person can choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuChoice {
    /// Its target, such as `gfx942`.
    pub target: String,
    /// The product that people know it by.
    pub product: String,
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

/// A version of a project with changed files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedVersion {
    /// The canonical name of the project.
    pub project: String,
    /// The version.
    pub version: String,
    /// The number of changed files.
    pub files: usize,
}

/// A project as the page offers it.
#[derive(Debug, Clone)]
pub(crate) struct OfferedProject {
    /// The canonical name.
    pub(crate) name: String,
    pub(crate) status: ProjectStatus,
    pub(crate) status_reason: Option<String>,
    /// In any order.
    pub(crate) files: Vec<OfferedFile>,
}

/// A file of a project, as far as a choice depends on it.
#[derive(Debug, Clone)]
pub(crate) struct OfferedFile {
    pub(crate) version: Version,
    /// `cp312-cp312-linux_x86_64` of a wheel, with all its compressed tags; empty for a source
    /// distribution.
    pub(crate) tags: String,
    pub(crate) requires_python: Option<String>,
    /// What METADATA requires, by [`needs_of`].
    pub(crate) needs: Arc<str>,
    /// The version of ROCm that METADATA pins.
    pub(crate) rocm: Option<String>,
    pub(crate) uploaded: Timestamp,
    pub(crate) yanked: Option<String>,
}

/// The page of an index, to which projects are added in the order of their names. Only what the
/// page has of them stays in memory.
#[derive(Default)]
pub(crate) struct ChooserPage {
    data: PageData,
    /// The projects for readers without scripts.
    rows: String,
}

impl ChooserPage {
    pub(crate) fn add(&mut self, project: &OfferedProject) {
        let mut versions: Vec<&Version> = project.files.iter().map(|file| &file.version).collect();
        versions.sort_unstable();
        versions.dedup();
        let newest = versions.last().map(ToString::to_string).unwrap_or_default();
        let (name, newest) = (escaped_html(&project.name), escaped_html(&newest));
        let _ = writeln!(self.rows, "<tr><td>{name}</td><td>{newest}</td><td>{}</td></tr>", versions.len());
        self.data.add(project);
    }

    /// The page. `index` is the folder of the index's first page, relative to the chooser's and
    /// ending in `/` (empty for the same folder); `find_links` the page for `--find-links`.
    pub(crate) fn finish(self, index: &str, find_links: Option<&str>, options: &ChooserOptions) -> String {
        let rows = self.rows;
        let table =
            format!("<table>\n<tr><th>Package</th><th>Newest version</th><th>Versions</th></tr>\n{rows}</table>");
        let data = self.data.text(index, find_links, options);
        let script = format!("\n(() => {{\n\"use strict\";\n{}}})();\n", SCRIPTS.concat());
        let source = |text: &str| format!("'sha256-{}'", STANDARD.encode(sha256(text.as_bytes())));
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
            source(&script),
            source(STYLE)
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

/// A template with its parts, which are in the order of the template. What is filled in is not
/// searched again.
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
        let headers = rocwheel_wheel::Headers::parse(&format!("Metadata-Version: 2.1\n{lines}\n"));
        let (needs, rocm) = needs_of(&headers);
        OfferedFile {
            version: version.parse().unwrap(),
            tags: tags.to_owned(),
            requires_python: Some(">=3.10".to_owned()),
            needs: needs.into(),
            rocm,
            uploaded: "2026-11-20T01:02:03Z".parse().unwrap(),
            yanked: None,
        }
    }

    fn project(name: &str, files: Vec<OfferedFile>) -> OfferedProject {
        OfferedProject { name: name.to_owned(), status: ProjectStatus::Active, status_reason: None, files }
    }

    fn page(index: &str, find_links: Option<&str>, projects: &[OfferedProject], options: &ChooserOptions) -> String {
        let mut page = ChooserPage::default();
        for project in projects {
            page.add(project);
        }
        page.finish(index, find_links, options)
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

    /// Four months of nightly builds: four branches for five Pythons and two systems, and the
    /// packages of 31 GPUs.
    #[test]
    fn thousands_of_files_are_a_small_page() {
        let mut torch = Vec::new();
        let mut device = Vec::new();
        let extras: Vec<String> = (0..31).map(|gpu| format!("Provides-Extra: device-gfx{gpu}")).collect();
        let needs: Vec<&str> = extras.iter().map(String::as_str).collect();
        for day in 0..120 {
            for branch in 10..14 {
                let version = format!("2.{branch}.0+rocm10.1.0a{}", 20_260_101 + day);
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
