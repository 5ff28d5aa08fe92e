//! Input: projects. Output: their pages in HTML, one link per line.

use std::fmt::{self, Write as _};
use std::iter;

use super::{API_VERSION, GENERATOR, IndexedFile, IndexedProject, LINK, ProjectStatus, sorted_names};

/// How a page ends.
const END: &str = "</body>\n</html>\n";

/// The page of a project (PEP 503).
pub fn project_html(project: &IndexedProject) -> String {
    listed_html(project, &project.listed())
}

/// The page of a project whose files are in order already.
pub(super) fn listed_html(project: &IndexedProject, files: &[&IndexedFile]) -> String {
    let mut status = String::new();
    if project.status != ProjectStatus::Active {
        write_meta(&mut status, "pypi:project-status", project.status.word());
        if let Some(reason) = &project.status_reason {
            write_meta(&mut status, "pypi:project-status-reason", reason);
        }
    }
    write_generation(&mut status, project.generation);
    page(&format!("Links for {}", project.name), &status, files)
}

/// The parts of a page with the files of many projects, for `--find-links`: all of it may be more
/// than memory should have. `chooser` is the address of the page for people.
pub fn find_links_html<E>(
    title: &str,
    projects: impl IntoIterator<Item = Result<IndexedProject, E>>,
    chooser: Option<&str>,
) -> impl Iterator<Item = Result<String, E>> {
    let mut first = head(title, "");
    write_chooser(&mut first, chooser);
    let links = projects.into_iter().map(|project| {
        let project = project?;
        let mut text = String::with_capacity(project.files.len() * LINK);
        project.listed().into_iter().for_each(|file| write_link(&mut text, file));
        Ok(text)
    });
    iter::once(Ok(first)).chain(links).chain(iter::once(Ok(END.to_owned())))
}

/// The first page of an index: the names of its projects, given in any order. `chooser` is the
/// address of the page for people, `generation` the number of the publication that writes it.
pub fn root_html<'a>(
    names: impl IntoIterator<Item = &'a str>,
    chooser: Option<&str>,
    generation: Option<u64>,
) -> String {
    let mut meta = String::new();
    write_generation(&mut meta, generation);
    let mut text = head("Simple index", &meta);
    write_chooser(&mut text, chooser);
    for name in sorted_names(names) {
        // A canonical name contains only letters, digits and `-`.
        let _ = writeln!(text, "<a href=\"{name}/\">{name}</a><br>");
    }
    text.push_str(END);
    text
}

fn page(title: &str, meta: &str, files: &[&IndexedFile]) -> String {
    let mut text = head(title, meta);
    text.reserve(files.len() * LINK);
    for file in files {
        write_link(&mut text, file);
    }
    text.push_str(END);
    text
}

fn head(title: &str, meta: &str) -> String {
    let title = Escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"generator\" content=\"{GENERATOR}\">\n\
         <meta name=\"pypi:repository-version\" content=\"{API_VERSION}\">\n{meta}<title>{title}</title>\n</head>\n\
         <body>\n<h1>{title}</h1>\n"
    )
}

/// Leads a person to the chooser. It is not a link: programs take every link of these pages for a
/// project or a file.
fn write_chooser(text: &mut String, address: Option<&str>) {
    if let Some(address) = address {
        let _ = writeln!(text, "<form action=\"{}\"><button>Choose packages</button></form>", Escaped(address));
    }
}

/// The beginning of the comment with the number of a publication.
const GENERATION: &str = "<!-- generation ";

fn write_generation(text: &mut String, generation: Option<u64>) {
    if let Some(generation) = generation {
        let _ = writeln!(text, "{GENERATION}{generation} -->");
    }
}

/// The number of the publication that wrote a page in HTML; 0 where it has none.
pub fn page_generation(page: &[u8]) -> u64 {
    // Before the links, so that a page of megabytes is not searched.
    let head = String::from_utf8_lossy(&page[..page.len().min(8192)]);
    let number = head.split_once(GENERATION).and_then(|(_, rest)| rest.split_once(' ')?.0.parse().ok());
    number.unwrap_or_default()
}

fn write_meta(text: &mut String, name: &str, content: &str) {
    let _ = writeln!(text, "<meta name=\"{name}\" content=\"{}\">", Escaped(content));
}

fn write_link(text: &mut String, file: &IndexedFile) {
    let _ = write!(text, "<a href=\"{}#sha256={}\"", Escaped(&file.url), file.sha256);
    if let Some(python) = &file.requires_python {
        write_attribute(text, "requires-python", python);
    }
    if let Some(hash) = &file.metadata_sha256 {
        // Without the first name of it (PEP 714): pip 22.3 to 23.1 know that one only, and refuse a
        // METADATA whose Name is not spelled as the user spells it.
        write_attribute(text, "core-metadata", &format!("sha256={hash}"));
    }
    write_attribute(text, "size", &file.size.to_string());
    if let Some(time) = &file.uploaded {
        write_attribute(text, "upload-time", &time.to_string());
    }
    if let Some(reason) = &file.yanked {
        write_attribute(text, "yanked", reason);
    }
    if let Some(address) = &file.provenance {
        write_attribute(text, "provenance", address);
    }
    let _ = writeln!(text, ">{}</a><br>", Escaped(&file.name));
}

fn write_attribute(text: &mut String, name: &str, value: &str) {
    let _ = write!(text, " data-{name}=\"{}\"", Escaped(value));
}

/// Text with escaped markup, for use between tags and between quotes.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'')) {
            formatter.write_str(&rest[..at])?;
            formatter.write_str(match rest.as_bytes()[at] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'"' => "&quot;",
                _ => "&#39;",
            })?;
            rest = &rest[at + 1..];
        }
        formatter.write_str(rest)
    }
}
