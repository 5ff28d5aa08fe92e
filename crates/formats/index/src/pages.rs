//! Input: the projects of an index and their files. Output: the pages that pip, uv and browsers
//! read, as text.
//!
//! This module reads and writes no files, so the same input gives the same bytes. The HTML form is
//! that of PEP 503 with the attributes of PEPs 592, 629, 658, 714 and 792, and with two that uv
//! reads (`data-size`, `data-upload-time`). The JSON form is that of PEPs 691, 700, 740 and 792.
//! Both declare version 1.4 of the interface.

mod html;
mod json;

use jiff::Timestamp;
use pep440_rs::Version;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

pub use html::{find_links_html, page_generation, project_html, root_html};
pub use json::{project_json, root_json, root_json_of};

/// The version of the interface (PEP 629, PEP 792).
pub const API_VERSION: &str = "1.4";
/// The media type of a page in HTML; servers may also use `text/html`.
pub const HTML_TYPE: &str = "application/vnd.pypi.simple.v1+html";
/// The media type of a page in JSON. Installers accept no other, such as `application/json`.
pub const JSON_TYPE: &str = "application/vnd.pypi.simple.v1+json";

/// The program that HTML pages name as their author in `<meta name="generator">`.
pub const GENERATOR: &str = "rocwheel index build";

/// The characters that stay unescaped are those that RFC 3986 calls unreserved, without `~`.
/// Storage and proxies read `+` in a path as a blank, and do not agree on `~` and `!`.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// About how many bytes a page has for each file.
const LINK: usize = 640;

/// A wheel or source distribution on the page of its project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedFile {
    pub name: String,
    /// The address: relative to the page, or absolute. Percent-encoded, without a fragment.
    pub url: String,
    pub version: Version,
    /// Size in bytes.
    pub size: u64,
    /// Lower-case hexadecimal SHA-256.
    pub sha256: String,
    /// The value of Requires-Python in METADATA.
    pub requires_python: Option<String>,
    /// Lower-case hexadecimal SHA-256 of METADATA, which is at the file's address plus `.metadata`
    /// (PEP 658).
    pub metadata_sha256: Option<String>,
    /// Time of publication.
    pub uploaded: Option<Timestamp>,
    /// The reason for withdrawing the file (PEP 592), as written by a person; empty if none was
    /// given. `None` for a file that is not withdrawn.
    pub yanked: Option<String>,
    /// The absolute address of its attestations (PEP 740).
    pub provenance: Option<String>,
}

/// The status of a project, which tells installers how to treat it (PEP 792).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProjectStatus {
    /// It is maintained.
    #[default]
    Active,
    /// It gets no more files.
    Archived,
    /// It may be dangerous: its page lists no files.
    Quarantined,
    /// Another project replaced it.
    Deprecated,
}

impl ProjectStatus {
    /// The status as spelled on pages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Archived => "archived",
            Self::Quarantined => "quarantined",
            Self::Deprecated => "deprecated",
        }
    }
}

/// A project with all its files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexedProject {
    /// The name in its canonical form (PEP 503).
    pub name: String,
    /// Files in any order; pages list the oldest version first.
    pub files: Vec<IndexedFile>,
    pub status: ProjectStatus,
    /// The reason for the status, as written by a person.
    pub status_reason: Option<String>,
    /// The number of the publication that wrote the page; `None` where publications are not
    /// counted.
    pub generation: Option<u64>,
}

impl IndexedProject {
    /// The files that its page lists: the oldest version first, then by name.
    fn listed(&self) -> Vec<&IndexedFile> {
        if self.status == ProjectStatus::Quarantined {
            return Vec::new();
        }
        let mut files: Vec<&IndexedFile> = self.files.iter().collect();
        files.sort_by(|one, other| one.version.cmp(&other.version).then_with(|| one.name.cmp(&other.name)));
        files
    }
}

/// The page of a project in HTML and in JSON. A page may have thousands of files, whose versions
/// are put in order once for both.
pub fn project_texts(project: &IndexedProject) -> (String, String) {
    let files = project.listed();
    (html::listed_html(project, &files), json::listed_json(project, &files))
}

/// A name as a part of an address. `+` becomes `%2B`.
pub fn encoded_segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

/// A text with escaped markup, for use between tags and between quotes.
pub fn escaped_html(text: &str) -> String {
    html::Escaped(text).to_string()
}

/// The names of projects for the first page of an index: sorted, each once.
fn sorted_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use rocwheel_content::HashAlgorithm;
    use url::Url;

    use super::*;
    use crate::page::{self, FileHash, MetadataBeside};

    fn file(name: &str, version: &str) -> IndexedFile {
        IndexedFile {
            name: name.to_owned(),
            url: encoded_segment(name),
            version: version.parse().unwrap(),
            size: 7,
            sha256: "0123456789abcdef".repeat(4),
            requires_python: Some(">=3.9,<4".to_owned()),
            metadata_sha256: Some("fedcba9876543210".repeat(4)),
            uploaded: Some("2026-11-20T01:02:03Z".parse().unwrap()),
            yanked: None,
            provenance: None,
        }
    }

    fn torch() -> IndexedProject {
        let mut files = vec![
            file("torch-2.10.0+rocm7.2-cp312-cp312-linux_x86_64.whl", "2.10.0+rocm7.2"),
            file("torch-2.9.1+rocm7.2-cp312-cp312-linux_x86_64.whl", "2.9.1+rocm7.2"),
        ];
        files[1].yanked = Some("</a><script>alert(1)</script> \"quoted\" & 'so'".to_owned());
        files[0].provenance = Some("https://example.invalid/torch.provenance?a=1&b=2".to_owned());
        IndexedProject { name: "torch".to_owned(), files, ..IndexedProject::default() }
    }

    /// Our own reader, which was written for other indexes, reads the same from both forms.
    #[test]
    fn both_forms_say_the_same_and_versions_are_in_order() {
        let base = Url::parse("http://example.invalid/simple/torch/").unwrap();
        let html = page::parse("text/html", project_html(&torch()).as_bytes(), &base).unwrap();
        let json = page::parse(JSON_TYPE, project_json(&torch()).as_bytes(), &base).unwrap();
        assert_eq!(html, json);
        let names: Vec<&str> = html.iter().map(|link| link.file_name.as_str()).collect();
        assert_eq!(
            names,
            ["torch-2.9.1+rocm7.2-cp312-cp312-linux_x86_64.whl", "torch-2.10.0+rocm7.2-cp312-cp312-linux_x86_64.whl"]
        );
        assert_eq!((html[0].yanked.is_some(), html[1].yanked.is_some()), (true, false));
        assert_eq!(html[0].python.as_deref(), Some(">=3.9,<4"));
        let hash =
            |hexadecimal: &str| FileHash { algorithm: HashAlgorithm::Sha256, hexadecimal: hexadecimal.repeat(4) };
        assert_eq!(html[0].hash, Some(hash("0123456789abcdef")));
        assert_eq!(html[0].metadata, MetadataBeside::Yes(Some(hash("fedcba9876543210"))));
        assert!(html[0].address.as_str().contains("2.9.1%2Brocm7.2"));
    }

    /// A text that a person writes cannot add markup to the page.
    #[test]
    fn reasons_are_text() {
        let mut project = torch();
        project.status = ProjectStatus::Deprecated;
        project.status_reason = Some("use \"x\"><script>alert(2)</script>".to_owned());
        let html = project_html(&project);
        assert!(!html.contains("<script>"), "{html}");
        assert!(html.contains("&lt;/a&gt;&lt;script&gt;alert(1)&lt;/script&gt; &quot;quoted&quot; &amp; &#39;so&#39;"));
        assert!(html.contains(r#"<meta name="pypi:project-status" content="deprecated">"#));
        let json: serde_json::Value = serde_json::from_str(&project_json(&project)).unwrap();
        assert_eq!(json["project-status"]["status"], "deprecated");
        assert_eq!(json["project-status"]["reason"], "use \"x\"><script>alert(2)</script>");
    }

    #[test]
    fn json_has_what_the_interface_demands() {
        let json: serde_json::Value = serde_json::from_str(&project_json(&torch())).unwrap();
        assert_eq!(json["meta"]["api-version"], "1.4");
        assert_eq!(json["versions"], serde_json::json!(["2.9.1+rocm7.2", "2.10.0+rocm7.2"]));
        assert!(json.get("project-status").is_none(), "an active project needs no status");
        let newest = &json["files"][1];
        assert_eq!(newest["upload-time"], "2026-11-20T01:02:03Z");
        assert_eq!((&newest["size"], &newest["yanked"]), (&7.into(), &false.into()));
        assert_eq!(newest["provenance"], "https://example.invalid/torch.provenance?a=1&b=2");
        let mut bare = torch();
        bare.files.truncate(1);
        let IndexedFile { requires_python, metadata_sha256, uploaded, yanked, provenance, .. } = &mut bare.files[0];
        (*requires_python, *metadata_sha256, *uploaded, *provenance) = (None, None, None, None);
        *yanked = Some(String::new());
        let json: serde_json::Value = serde_json::from_str(&project_json(&bare)).unwrap();
        let file = json["files"][0].as_object().unwrap();
        assert_eq!(file.keys().collect::<Vec<_>>(), ["filename", "url", "hashes", "core-metadata", "size", "yanked"]);
        assert_eq!((&file["yanked"], &file["core-metadata"]), (&true.into(), &false.into()));
    }

    #[test]
    fn a_quarantined_project_lists_nothing() {
        let project = IndexedProject { status: ProjectStatus::Quarantined, ..torch() };
        assert!(!project_html(&project).contains("<a "));
        let json: serde_json::Value = serde_json::from_str(&project_json(&project)).unwrap();
        assert_eq!((&json["files"], &json["versions"]), (&serde_json::json!([]), &serde_json::json!([])));
    }

    #[test]
    fn pages_name_the_publication_that_wrote_them() {
        let project = IndexedProject { generation: Some(12), ..torch() };
        let html = project_html(&project);
        assert_eq!((page_generation(html.as_bytes()), page_generation(project_html(&torch()).as_bytes())), (12, 0));
        assert_eq!(page_generation(root_html(["a"], None, Some(3)).as_bytes()), 3);
        for text in [project_json(&project), root_json_of(["a"], Some(12))] {
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(json["meta"]["_generation"], 12, "keys that begin with `_` are the server's (PEP 691)");
        }
    }

    #[test]
    fn the_first_page_names_each_project_once_in_order() {
        let html = root_html(["torch", "rocm-sdk-core", "torch"], Some("../chooser.html"), None);
        let links: Vec<&str> = html.lines().filter(|line| line.starts_with("<a ")).collect();
        assert_eq!(links, [r#"<a href="rocm-sdk-core/">rocm-sdk-core</a><br>"#, r#"<a href="torch/">torch</a><br>"#]);
        assert_eq!(
            root_json(["torch", "rocm"]),
            "{\"meta\":{\"api-version\":\"1.4\"},\"projects\":[{\"name\":\"rocm\"},{\"name\":\"torch\"}]}\n"
        );
    }
}
