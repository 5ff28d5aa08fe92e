//! Input: projects. Output: their pages in JSON (PEP 691), one line each.

use jiff::Timestamp;
use pep440_rs::Version;
use serde::Serialize;

use super::{API_VERSION, IndexedFile, IndexedProject, LINK, ProjectStatus, sorted_names};

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Meta {
    api_version: &'static str,
    /// A key of the server, which begins with `_` (PEP 691).
    #[serde(rename = "_generation", skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
}

impl Meta {
    fn of(generation: Option<u64>) -> Meta {
        Meta { api_version: API_VERSION, generation }
    }
}

#[derive(Serialize)]
struct RootPage<'a> {
    meta: Meta,
    projects: Vec<ProjectName<'a>>,
}

#[derive(Serialize)]
struct ProjectName<'a> {
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ProjectPage<'a> {
    meta: Meta,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_status: Option<Status<'a>>,
    versions: Vec<&'a Version>,
    files: Vec<File<'a>>,
}

#[derive(Serialize)]
struct Status<'a> {
    status: ProjectStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct File<'a> {
    filename: &'a str,
    url: &'a str,
    hashes: Hashes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requires_python: Option<&'a str>,
    core_metadata: CoreMetadata<'a>,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    upload_time: Option<Timestamp>,
    yanked: Yanked<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provenance: Option<&'a str>,
}

#[derive(Serialize)]
struct Hashes<'a> {
    sha256: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CoreMetadata<'a> {
    Hashes(Hashes<'a>),
    None(bool),
}

/// `true`, `false`, or a reason, which must not be empty (PEP 691).
#[derive(Serialize)]
#[serde(untagged)]
enum Yanked<'a> {
    Reason(&'a str),
    Is(bool),
}

impl<'a> From<&'a IndexedFile> for File<'a> {
    fn from(file: &'a IndexedFile) -> Self {
        let metadata = file.metadata_sha256.as_deref();
        Self {
            filename: &file.name,
            url: &file.url,
            hashes: Hashes { sha256: &file.sha256 },
            requires_python: file.requires_python.as_deref(),
            core_metadata: metadata.map_or(CoreMetadata::None(false), |sha256| CoreMetadata::Hashes(Hashes { sha256 })),
            size: file.size,
            upload_time: file.uploaded,
            yanked: match file.yanked.as_deref() {
                None => Yanked::Is(false),
                Some("") => Yanked::Is(true),
                Some(reason) => Yanked::Reason(reason),
            },
            provenance: file.provenance.as_deref(),
        }
    }
}

/// The page of a project (PEP 691).
pub fn project_json(project: &IndexedProject) -> String {
    listed_json(project, &project.listed())
}

/// The page of a project whose files are in order already.
pub(super) fn listed_json(project: &IndexedProject, files: &[&IndexedFile]) -> String {
    let mut versions: Vec<&Version> = files.iter().map(|file| &file.version).collect();
    versions.dedup();
    let status = match project.status {
        ProjectStatus::Active => None,
        status => Some(Status { status, reason: project.status_reason.as_deref() }),
    };
    let page = ProjectPage {
        meta: Meta::of(project.generation),
        name: &project.name,
        project_status: status,
        versions,
        files: files.iter().copied().map(File::from).collect(),
    };
    line(&page, files.len() * LINK)
}

/// The first page of an index: the names of its projects, given in any order.
pub fn root_json<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    root_json_of(names, None)
}

/// The same, with the number of the publication that writes it.
pub fn root_json_of<'a>(names: impl IntoIterator<Item = &'a str>, generation: Option<u64>) -> String {
    let projects = sorted_names(names).into_iter().map(|name| ProjectName { name }).collect();
    line(&RootPage { meta: Meta::of(generation), projects }, 0)
}

/// `size` is the expected number of bytes.
fn line(page: &impl Serialize, size: usize) -> String {
    let mut text = Vec::with_capacity(size);
    serde_json::to_writer(&mut text, page).expect("all keys are text");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON is UTF-8")
}
